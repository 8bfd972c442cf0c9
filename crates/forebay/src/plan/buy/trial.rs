//! A kind of drive in a layout, in one number after another: how many keep each client's promise.
//!
//! Numbers are tried from the least on, so the one found is the least of all: every smaller one was simulated and
//! breaks a promise. A run that has broken one ends there.

use std::collections::BTreeMap;

use forebay_core::Device;

use super::run::{Case, Come, Count, Run};
use crate::devices::OpenDevice;
use crate::error::Error;
use crate::jobs::Tell;
use crate::plan::devices::STRIPE_BYTES;

/// Numbers that are tried before it is asked whether any can do.
const TRIED_FIRST: usize = 4;

/// A case's trials, each made once.
pub(super) struct Trial<'a, 't> {
    pub(super) case: Case<'a>,
    /// Requests that arrived in all trials so far.
    counted: &'t mut u64,
    tell: Tell<'t>,
    known: BTreeMap<usize, Option<Count>>,
}

/// What a case comes to.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub(super) for_bytes: Option<u64>,
    pub(super) for_redundancy: Option<usize>,
    pub(super) for_time: Option<usize>,
    pub(super) drives: Option<usize>,
    /// What they do; without them, what as many as were allowed do.
    pub(super) count: Option<Count>,
    /// What the next smaller number does, where the promise decides.
    pub(super) one_less: Option<(usize, Count)>,
    pub(super) never: Option<Never>,
}

/// Why no number does.
#[derive(Clone, Debug)]
pub(super) enum Never {
    /// Requests one at a time are too slow, even if arms were always where they have to be.
    AnyNumber(Count),
    /// Requests one at a time are too slow on as many as are allowed.
    UpTo(Count),
}

impl<'a, 't> Trial<'a, 't> {
    pub(super) fn new(case: Case<'a>, counted: &'t mut u64, tell: Tell<'t>) -> Trial<'a, 't> {
        Trial { case, counted, tell, known: BTreeMap::new() }
    }

    /// The least number, and what decides it.
    pub(super) fn find(&mut self) -> Result<Found, Error> {
        let bytes = self.bytes();
        let needed = (bytes as f64 * self.case.growth).ceil() as u64;
        let mut found = Found { for_bytes: self.for_bytes(needed), ..Found::default() };
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
            found.drives = self.least(time.max(least), usize::MAX)?;
            found.one_less = match found.drives {
                Some(drives) if drives > least => self.before(drives)?,
                _ => None,
            };
        }
        let shown = found.drives.or_else(|| self.numbers().last());
        found.count = match shown {
            Some(drives) => Some(self.whole(drives)?),
            None => None,
        };
        Ok(found)
    }

    /// Requests a second that so many drives do when all that can be is under way.
    pub(super) fn rate_iops(&mut self, drives: usize) -> Result<f64, Error> {
        let count = self.over(drives, Come::AtOnce, None, None)?.unwrap_or_default();
        let requests: u64 = count.of.iter().map(|of| of.0).sum();
        Ok(requests as f64 / count.makespan.as_secs_f64().max(1e-9))
    }

    /// Numbers of drives that may be tried.
    fn numbers(&self) -> impl DoubleEndedIterator<Item = usize> + use<> {
        let (layout, max) = (self.case.kind.layout, self.case.drives_max);
        (layout.width()..=max).filter(move |drives| layout.sets(*drives).is_some())
    }

    /// Bytes that the group's data reach, whole stripes of each volume.
    fn bytes(&self) -> u64 {
        let extents = self.case.clients.extents(self.case.group);
        let stripes = extents.iter().map(|bytes| bytes.div_ceil(STRIPE_BYTES));
        stripes.fold(0, u64::saturating_add).saturating_mul(STRIPE_BYTES)
    }

    /// Drives that hold so many bytes once; none where a drive has no size.
    fn for_bytes(&self, needed: u64) -> Option<u64> {
        let capacity = self.case.kind.drive.model.capacity();
        let whole = (capacity / STRIPE_BYTES * STRIPE_BYTES).max(STRIPE_BYTES);
        (capacity < u64::MAX).then(|| needed.div_ceil(whole).max(1))
    }

    /// The least number that holds so many bytes with their redundancy.
    fn for_redundancy(&self, needed: u64) -> Result<Option<usize>, Error> {
        for drives in self.numbers() {
            if self.case.kind.holds(drives)?.is_some_and(|bytes| bytes >= needed) {
                return Ok(Some(drives));
            }
        }
        Ok(None)
    }

    /// Whether requests that come one at a time are too slow, even if no arm ever had to move.
    fn slow_anywhere(&mut self) -> Result<Option<Never>, Error> {
        let still = self.case.kind.drive.without_seeks();
        let Some(least) = self.numbers().next() else { return Ok(None) };
        let alone = self.alone(least, still.as_ref())?;
        Ok(alone.map(Never::AnyNumber))
    }

    /// Whether they are on as many drives as are allowed; of drives without an arm that is known.
    fn slow_up_to_most(&mut self) -> Result<Option<Never>, Error> {
        let Some(most) = self.numbers().last() else { return Ok(None) };
        if self.case.kind.drive.model.cylinders() == 0 {
            return Ok(None);
        }
        let alone = self.alone(most, None)?;
        Ok(alone.map(Never::UpTo))
    }

    /// What so many do of requests that come one at a time, if that breaks a promise.
    fn alone(&mut self, drives: usize, still: Option<&OpenDevice>) -> Result<Option<Count>, Error> {
        let allowed = self.allowed();
        if self.over(drives, Come::Apart, Some(&allowed), still)?.is_some() {
            return Ok(None);
        }
        self.over(drives, Come::Apart, None, still)
    }

    /// How many requests of each client may be late.
    fn allowed(&self) -> Vec<u64> {
        let late = |client: &usize| {
            let client = &self.case.clients.clients[*client];
            let requests = client.gaps.len() as u64;
            requests - client.promise.fraction.of(requests)
        };
        self.case.group.iter().map(late).collect()
    }

    /// The least number from `first` on, of as many numbers as are to be tried.
    fn least(&mut self, first: usize, numbers: usize) -> Result<Option<usize>, Error> {
        for drives in self.numbers().filter(|drives| *drives >= first).take(numbers) {
            if self.keeps(drives)? {
                return Ok(Some(drives));
            }
        }
        Ok(None)
    }

    /// Whether so many keep every promise.
    fn keeps(&mut self, drives: usize) -> Result<bool, Error> {
        if !self.known.contains_key(&drives) {
            let allowed = self.allowed();
            let count = self.over(drives, Come::AsRecorded, Some(&allowed), None)?;
            self.known.insert(drives, count);
        }
        Ok(self.known[&drives].is_some())
    }

    /// The next smaller number, and what it does.
    fn before(&mut self, drives: usize) -> Result<Option<(usize, Count)>, Error> {
        let before = self.numbers().rev().find(|fewer| *fewer < drives);
        before.map(|fewer| Ok((fewer, self.whole(fewer)?))).transpose()
    }

    /// What so many do, to the end.
    fn whole(&mut self, drives: usize) -> Result<Count, Error> {
        if let Some(Some(count)) = self.known.get(&drives) {
            return Ok(count.clone());
        }
        Ok(self.over(drives, Come::AsRecorded, None, None)?.unwrap_or_default())
    }

    /// What so many do; none once more requests of a client are late than are `allowed`. With `still` that stands in
    /// for each drive.
    fn over(
        &mut self,
        drives: usize,
        come: Come,
        allowed: Option<&[u64]>,
        still: Option<&OpenDevice>,
    ) -> Result<Option<Count>, Error> {
        let sets = self.case.kind.layout.sets(drives).unwrap_or(1);
        let set = self.case.kind.set(drives, self.bytes(), self.case.used)?;
        let mut sum = Count { of: vec![(0, 0); self.case.group.len()], ..Count::default() };
        for lane in 0..sets {
            let left = |(allowed, of): (&u64, &(u64, u64))| allowed.saturating_sub(of.0 - of.1);
            let left = allowed.map(|all| all.iter().zip(&sum.of).map(left).collect::<Vec<_>>());
            let run = Run { case: self.case, set: &set, sets, lane, come, still };
            let Some(count) = run.count(left, &mut self.tell, self.counted)? else {
                return Ok(None);
            };
            sum.of.iter_mut().zip(&count.of).for_each(|(sum, of)| {
                *sum = (sum.0 + of.0, sum.1 + of.1);
            });
            sum.watts += count.watts;
            sum.flash_watts += count.flash_watts;
            sum.busy.0 += count.busy.0 / sets as f64;
            sum.busy.1 = sum.busy.1.max(count.busy.1);
            sum.makespan = sum.makespan.max(count.makespan);
        }
        Ok(Some(sum))
    }
}
