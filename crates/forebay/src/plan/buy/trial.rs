//! Finds how many drives of one kind, in one layout, keep each client's promise.
//!
//! Numbers are tried in ascending order, so the result is the least: every smaller number was
//! simulated and breaks a promise. A run ends as soon as a promise is broken.

use std::collections::BTreeMap;

use forebay_core::Device;
use forebay_core::replay::Intensity;

use super::{Case, Come, Count, Data, Health, Run};
use crate::jobs::Tell;
use crate::plan::confidence::{BLOCKS, share_interval};
use crate::plan::devices::STRIPE_BYTES;
use crate::{Error, OpenDevice};

/// How many numbers are tried before checking whether any number can succeed.
const TRIED_FIRST: usize = 4;

/// The trials for one combination of drive, layout and clients. Each number of drives is simulated
/// only once.
pub(super) struct Trial<'a, 't> {
    pub(super) case: Case<'a>,
    /// The number of requests that have arrived in all trials so far, for reporting progress.
    counted: &'t mut u64,
    tell: Tell<'t>,
    known: BTreeMap<usize, Option<Count>>,
}

/// The number of drives found for one combination, and how it was found.
#[derive(Clone, Debug, Default)]
pub(super) struct TrialResult {
    pub(super) for_bytes: Option<u64>,
    pub(super) for_redundancy: Option<usize>,
    pub(super) for_time: Option<usize>,
    /// The smallest number of drives that keeps the promises with the data at their locations,
    /// regardless of the drives' utilization.
    pub(super) without_headroom: Option<usize>,
    /// The smallest number of drives that keeps the promises and has enough headroom. If no number
    /// does, equals `without_headroom`.
    pub(super) drives: Option<usize>,
    pub(super) has_headroom: bool,
    /// The interval of the number of drives that other periods of the same load would need; the
    /// upper end is `None` if it exceeds the maximum.
    pub(super) range: Option<(usize, Option<usize>)>,
    /// The size of the data in bytes, including growth.
    pub(super) bytes: u64,
    /// The outcome with the number of drives found, or else with the maximum number.
    pub(super) count: Option<Count>,
    /// The outcome with the number of drives found while one of them is missing, if the layout has
    /// redundancy.
    pub(super) degraded: Option<Count>,
    /// The outcome with the number of drives found while one of them is being rebuilt, if the
    /// layout has redundancy.
    pub(super) rebuilding: Option<Count>,
    /// The next smaller number of drives and its outcome, if the promise determines the number.
    pub(super) one_less: Option<(usize, Count)>,
    pub(super) never: Option<Never>,
}

/// Why no number of drives can keep the promises.
#[derive(Clone, Debug)]
pub(super) enum Never {
    /// Single requests are too slow even on drives whose arms never have to move.
    AnyNumber(Count),
    /// Single requests are too slow on the maximum number of drives.
    UpTo(Count),
}

impl<'a, 't> Trial<'a, 't> {
    pub(super) fn new(case: Case<'a>, counted: &'t mut u64, tell: Tell<'t>) -> Trial<'a, 't> {
        Trial { case, counted, tell, known: BTreeMap::new() }
    }

    /// Finds the smallest number of drives, and the requirement that determines it.
    pub(super) fn find(&mut self) -> Result<TrialResult, Error> {
        let bytes = self.bytes();
        let needed = (bytes as f64 * self.case.clients.scale * self.case.growth).ceil() as u64;
        let for_bytes = self.for_bytes(needed);
        let mut found = TrialResult { for_bytes, bytes: needed, ..TrialResult::default() };
        found.for_redundancy = self.for_redundancy(needed)?;
        found.never = self.slow_anywhere()?;
        if found.never.is_none() {
            found.for_time = self.least(self.case.kind.layout.width(), TRIED_FIRST)?;
        }
        if found.never.is_none() && found.for_time.is_none() {
            found.never = self.slow_up_to_most()?;
        }
        if found.never.is_some() {
            return Ok(found);
        }
        if found.for_time.is_none() {
            found.for_time = self.least(self.case.kind.layout.width(), usize::MAX)?;
        }
        if let (Some(time), Some(least)) = (found.for_time, found.for_redundancy) {
            found.without_headroom = self.least(time.max(least), usize::MAX)?;
            if let Some(first) = found.without_headroom {
                let roomy = self.with_headroom(first)?;
                (found.drives, found.has_headroom) = (roomy.or(Some(first)), roomy.is_some());
            }
            found.one_less = match (found.drives, found.without_headroom) {
                (Some(drives), Some(first)) if drives == first && drives > least => {
                    self.before(drives)?
                }
                _ => None,
            };
        }
        if let Some(drives) = found.drives {
            found.range = self.range(drives)?;
            if self.case.kind.layout.is_array() {
                found.degraded = Some(self.with_one_failed(drives, Health::Degraded)?);
                let rebuilding = Health::Rebuilding(self.case.rebuild_bytes_per_s);
                found.rebuilding = Some(self.with_one_failed(drives, rebuilding)?);
            }
        }
        let shown = found.drives.or_else(|| self.numbers().last());
        found.count = match shown {
            Some(drives) => Some(self.whole(drives)?),
            None => None,
        };
        Ok(found)
    }

    /// Returns the numbers of drives that may be tried, in ascending order.
    fn numbers(&self) -> impl DoubleEndedIterator<Item = usize> + use<> {
        let (layout, max) = (self.case.kind.layout, self.case.drives_max);
        (layout.width()..=max).filter(move |drives| layout.sets(*drives).is_some())
    }

    /// Returns the extent of the group's data in bytes, with each volume rounded up to whole
    /// stripes.
    fn bytes(&self) -> u64 {
        let extents = self.case.clients.extents(self.case.group);
        let stripes = extents.iter().map(|bytes| bytes.div_ceil(STRIPE_BYTES));
        stripes.fold(0, u64::saturating_add).saturating_mul(STRIPE_BYTES)
    }

    /// Returns how many drives hold `needed` bytes without redundancy; `None` if the drive's
    /// capacity is unknown.
    fn for_bytes(&self, needed: u64) -> Option<u64> {
        let capacity = self.case.kind.drive.model.capacity();
        let whole = (capacity / STRIPE_BYTES * STRIPE_BYTES).max(STRIPE_BYTES);
        (capacity < u64::MAX).then(|| needed.div_ceil(whole).max(1))
    }

    /// Returns the smallest number of drives that hold `needed` bytes with redundancy; `None` if it
    /// exceeds the maximum.
    fn for_redundancy(&self, needed: u64) -> Result<Option<usize>, Error> {
        for drives in self.numbers() {
            if self.case.kind.holds(drives)?.is_some_and(|bytes| bytes >= needed) {
                return Ok(Some(drives));
            }
        }
        Ok(None)
    }

    /// Tests whether single requests are too slow even on drives whose arms never have to move.
    fn slow_anywhere(&mut self) -> Result<Option<Never>, Error> {
        let still = self.case.kind.drive.without_seeks();
        let Some(least) = self.numbers().next() else { return Ok(None) };
        let alone = self.alone(least, still.as_ref())?;
        Ok(alone.map(Never::AnyNumber))
    }

    /// Tests whether single requests are too slow on the maximum number of drives. For drives
    /// without an arm, [`slow_anywhere`](Self::slow_anywhere) has already tested this.
    fn slow_up_to_most(&mut self) -> Result<Option<Never>, Error> {
        let Some(most) = self.numbers().last() else { return Ok(None) };
        if self.case.kind.drive.model.cylinders() == 0 {
            return Ok(None);
        }
        let alone = self.alone(most, None)?;
        Ok(alone.map(Never::UpTo))
    }

    /// Sends the requests one at a time. Returns the outcome if this breaks a promise.
    fn alone(&mut self, drives: usize, still: Option<&OpenDevice>) -> Result<Option<Count>, Error> {
        let allowed = self.allowed();
        if self.over(drives, Come::Apart, Some(&allowed), still)?.is_some() {
            return Ok(None);
        }
        self.over(drives, Come::Apart, None, still)
    }

    /// Returns how many requests of each client may be late without breaking its promise.
    fn allowed(&self) -> Vec<u64> {
        let late = |client: &usize| {
            let client = &self.case.clients.clients[*client];
            let requests = client.gaps.len() as u64;
            requests - client.promise.fraction.of(requests)
        };
        self.case.group.iter().map(late).collect()
    }

    /// Finds the smallest number of drives, but at least `first`, that keeps every promise, trying
    /// at most `numbers` numbers.
    fn least(&mut self, first: usize, numbers: usize) -> Result<Option<usize>, Error> {
        for drives in self.numbers().filter(|drives| *drives >= first).take(numbers) {
            if self.keeps(drives)? {
                return Ok(Some(drives));
            }
        }
        Ok(None)
    }

    /// Returns whether this number of drives keeps every promise.
    fn keeps(&mut self, drives: usize) -> Result<bool, Error> {
        if !self.known.contains_key(&drives) {
            let allowed = self.allowed();
            let count = self.over(drives, Come::AsRecorded, Some(&allowed), None)?;
            self.known.insert(drives, count);
        }
        Ok(self.known[&drives].is_some())
    }

    /// Finds the smallest number of drives, but at least `first`, that keeps every promise and has
    /// enough headroom. The search is limited, because more drives do not help if one of them
    /// receives all of the load.
    fn with_headroom(&mut self, first: usize) -> Result<Option<usize>, Error> {
        let share = 1.0 - self.case.headroom;
        let last = 2 * (first as f64 / share).ceil() as usize + self.case.kind.layout.width();
        for drives in self.numbers().filter(|drives| (first..=last).contains(drives)) {
            if self.keeps(drives)? && self.has_headroom(drives)? {
                return Ok(Some(drives));
            }
        }
        Ok(None)
    }

    /// Returns whether a number of drives that keeps every promise has enough headroom. Disks have
    /// it if they are idle for that share of the time. For flash, which serves many requests at a
    /// time, utilization is not meaningful. Instead, flash must keep the promises when requests
    /// arrive faster by a corresponding factor.
    fn has_headroom(&mut self, drives: usize) -> Result<bool, Error> {
        let share = 1.0 - self.case.headroom;
        if self.case.kind.drive.model.wear().is_none() {
            return Ok(self.whole(drives)?.busy.1 <= share);
        }
        let recorded = self.case.intensity;
        self.case.intensity = Intensity::new(recorded.times() / share).unwrap_or(recorded);
        let allowed = self.allowed();
        let count = self.over(drives, Come::AsRecorded, Some(&allowed), None);
        self.case.intensity = recorded;
        Ok(count?.is_some())
    }

    /// Returns the interval around `drives` of the numbers that other periods of the same load
    /// might need: the smallest number that may keep every promise, and the least that keeps them
    /// at the requested confidence.
    fn range(&mut self, drives: usize) -> Result<Option<(usize, Option<usize>)>, Error> {
        let Some(bootstrap) = self.case.bootstrap else { return Ok(None) };
        let mut low = drives;
        for fewer in self.numbers().filter(|fewer| *fewer < drives).rev() {
            let count = self.whole(fewer)?;
            if !self.all_in_time(&count, |blocks| share_interval(blocks, bootstrap).1) {
                break;
            }
            low = fewer;
        }
        for more in self.numbers().filter(|more| *more >= drives) {
            let count = self.whole(more)?;
            if self.all_in_time(&count, |blocks| share_interval(blocks, bootstrap).0) {
                return Ok(Some((low, Some(more))));
            }
        }
        Ok(Some((low, None)))
    }

    /// Returns whether `share`, computed from the blocks of each client, reaches what the client
    /// was promised.
    fn all_in_time(&self, count: &Count, share: impl Fn(&[(u64, u64)]) -> f64) -> bool {
        let promised = |client: &usize| self.case.clients.clients[*client].promise.fraction;
        let mut each = self.case.group.iter().map(promised).zip(&count.blocks);
        each.all(|(promised, blocks)| share(blocks) >= promised.as_f64())
    }

    /// Simulates `drives` with one of them missing or being rebuilt, to the end of the trace.
    fn with_one_failed(&mut self, drives: usize, health: Health) -> Result<Count, Error> {
        let count = self.over_with(drives, (Come::AsRecorded, health), None, None)?;
        Ok(count.unwrap_or_default())
    }

    /// Returns the next smaller number of drives and its outcome.
    fn before(&mut self, drives: usize) -> Result<Option<(usize, Count)>, Error> {
        let before = self.numbers().rev().find(|fewer| *fewer < drives);
        before.map(|fewer| Ok((fewer, self.whole(fewer)?))).transpose()
    }

    /// Simulates `drives` to the end of the trace.
    fn whole(&mut self, drives: usize) -> Result<Count, Error> {
        if let Some(Some(count)) = self.known.get(&drives) {
            return Ok(count.clone());
        }
        Ok(self.over(drives, Come::AsRecorded, None, None)?.unwrap_or_default())
    }

    /// Simulates `drives`. Returns `None` as soon as more requests of a client are late than
    /// `allowed`. If `still` is given, it replaces each drive.
    fn over(
        &mut self,
        drives: usize,
        come: Come,
        allowed: Option<&[u64]>,
        still: Option<&OpenDevice>,
    ) -> Result<Option<Count>, Error> {
        self.over_with(drives, (come, Health::Whole), allowed, still)
    }

    /// Simulates `drives` like [`over`](Self::over), with the first set in this state of health.
    fn over_with(
        &mut self,
        drives: usize,
        (come, health): (Come, Health),
        allowed: Option<&[u64]>,
        still: Option<&OpenDevice>,
    ) -> Result<Option<Count>, Error> {
        let sets = self.case.kind.layout.sets(drives).unwrap_or(1);
        let touched = self.case.clients.touched(self.case.group);
        let data = Data { bytes: self.bytes(), used: self.case.used, touched };
        let set = self.case.kind.set(drives, data)?;
        let clients = self.case.group.len();
        let blocks = vec![vec![(0, 0); BLOCKS as usize]; clients];
        let mut sum = Count { of: vec![(0, 0); clients], blocks, ..Count::default() };
        for lane in 0..sets {
            let left = |(allowed, of): (&u64, &(u64, u64))| allowed.saturating_sub(of.0 - of.1);
            let left = allowed.map(|all| all.iter().zip(&sum.of).map(left).collect::<Vec<_>>());
            let health = if lane == 0 { health } else { Health::Whole };
            let run = Run { case: self.case, set: &set, sets, lane, come, still, health };
            let Some(count) = run.count(left, &mut self.tell, self.counted)? else {
                return Ok(None);
            };
            let add = |(sum, of): (&mut (u64, u64), &(u64, u64))| {
                *sum = (sum.0 + of.0, sum.1 + of.1);
            };
            sum.of.iter_mut().zip(&count.of).for_each(add);
            for (sum, of) in sum.blocks.iter_mut().zip(&count.blocks) {
                sum.iter_mut().zip(of).for_each(add);
            }
            let (most, written) = (sum.written_per_s, count.written_per_s);
            sum.written_per_s = (most.0.max(written.0), most.1.max(written.1));
            sum.watts += count.watts;
            sum.flash_watts += count.flash_watts;
            sum.busy.0 += count.busy.0 / sets as f64;
            sum.busy.1 = sum.busy.1.max(count.busy.1);
        }
        Ok(Some(sum))
    }
}
