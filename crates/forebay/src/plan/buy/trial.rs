//! A kind of drive in a layout, in one number after another: how many keep each client's promise.
//!
//! Numbers are tried from the least on, so the one found is the least of all: every smaller one was simulated and
//! breaks a promise. A run that has broken one ends there.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

use forebay_core::catalog::{PolicyVisitor, with_placed};
use forebay_core::device::list::DeviceModel;
use forebay_core::replay::{Intensity, Open};
use forebay_core::{
    Device, Done, Lane, Nanos, Observer, Policy, Request, Slots, Workload, simulate,
};

use super::clients::{Clients, Merged};
use super::layout::{Kind, Set};
use crate::devices::OpenDevice;
use crate::error::Error;
use crate::jobs::Tell;
use crate::layout::{Map, VolumeLayout};
use crate::plan::devices::STRIPE_BYTES;
use crate::plan::devices::striped::Striped;

/// What a run came to.
#[derive(Clone, Debug, Default)]
pub(super) struct Count {
    /// Of each client of the group: requests, and those answered in time.
    pub(super) of: Vec<(u64, u64)>,
    /// What all drives drew, each on average.
    pub(super) watts: f64,
    /// What flash beside them drew.
    pub(super) flash_watts: f64,
    /// The share of the time that drives were busy: the mean of all, and the most of any.
    pub(super) busy: (f64, f64),
    /// From the first request until the last was answered.
    pub(super) makespan: Nanos,
}

/// Whose requests are tried on what.
#[derive(Clone, Copy)]
pub(super) struct Case<'a> {
    pub(super) clients: &'a Clients<'a>,
    /// Which of them.
    pub(super) group: &'a [usize],
    pub(super) kind: Kind<'a>,
    /// How much faster than recorded requests come.
    pub(super) intensity: Intensity,
    /// How much more room data need than they reach.
    pub(super) growth: f64,
    /// Bytes that all traces use.
    pub(super) used: u64,
    pub(super) drives_max: usize,
}

/// How requests come.
#[derive(Clone, Copy, PartialEq)]
enum Come {
    AsRecorded,
    /// So far apart that none meets another.
    Apart,
    /// All at once: how fast the devices are.
    AtOnce,
}

/// Numbers that are tried before it is asked whether any can do.
const TRIED_FIRST: usize = 4;

/// Requests that come alone come so far apart.
const ALONE_APART: Nanos = Nanos::from_secs(10);

/// Requests that come at once: more would tell no more.
const AT_ONCE: u64 = 100_000;

/// Arrivals between one look at whether to stop and the next.
const EVERY: u64 = 4096;

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

/// One set's run.
struct Run<'a> {
    case: Case<'a>,
    set: &'a Set,
    sets: usize,
    lane: usize,
    come: Come,
    still: Option<&'a OpenDevice>,
}

impl Run<'_> {
    /// None once more are late than `allowed`.
    fn count(
        &self,
        allowed: Option<Vec<u64>>,
        tell: &mut Tell<'_>,
        requests: &mut u64,
    ) -> Result<Option<Count>, Error> {
        let case = &self.case;
        let extents = case.clients.extents(case.group);
        let capacity = self.set.usable.saturating_mul(self.sets as u64);
        let records = case.clients.merged(case.group)?;
        let failed = records.failed();
        let layout = VolumeLayout::new(&extents, capacity, Map::Scale);
        let apart = match self.come {
            Come::AsRecorded => None,
            Come::Apart => Some(ALONE_APART),
            Come::AtOnce => Some(Nanos::ZERO),
        };
        let (devices, lane, usable) = (self.sets, self.lane, self.set.usable);
        let striped = Striped { records, layout, devices, lane, usable, apart, next: 0 };
        let dealt = match case.kind.layout.is_array() {
            true => 1,
            false => u64::from(self.set.lanes.disks),
        };
        let most = if self.come == Come::AtOnce { AT_ONCE } else { u64::MAX };
        let requests_of_set = Dealt { striped, lanes: dealt, left: most };
        let over = Cell::new(None);
        let drive = self.still.unwrap_or(case.kind.drive);
        let mut models = vec![drive.model.clone(); self.set.lanes.disks.into()];
        if case.kind.caches(self.set.lanes.disks.into()) > 0 {
            models.extend(case.kind.flash.map(|flash| flash.model.clone()));
        }
        let intensity = match self.come {
            Come::AsRecorded => case.intensity,
            _ => Intensity::RECORDED,
        };
        let visit = Visit {
            workload: Until { open: Open::new(requests_of_set, intensity), over: &over },
            watch: Watch {
                place: places(case.group),
                within: case
                    .group
                    .iter()
                    .map(|c| case.clients.clients[*c].promise.within)
                    .collect(),
                of: vec![(0, 0); case.group.len()],
                allowed,
                over: &over,
                requests,
                tell,
            },
            drives: self.set.lanes.disks.into(),
            models,
            lasts: Nanos((case.clients.lasts.0 as f64 / case.intensity.times()) as u64),
        };
        let count = with_placed(&self.set.spec, &self.set.lanes, visit)?;
        if let Some(error) = failed.iter().find_map(|failed| failed.take()) {
            return Err(error.into());
        }
        match over.get() {
            None => Ok(Some(count)),
            Some(Over::Late) => Ok(None),
            Some(Over::Stopped) => Err(Error::Stopped),
        }
    }
}

/// Where each client is in a group.
fn places(group: &[usize]) -> Vec<usize> {
    let mut places = vec![0; group.iter().max().map_or(0, |most| most + 1)];
    group.iter().enumerate().for_each(|(place, client)| places[*client] = place);
    places
}

/// Why a run ended early.
#[derive(Clone, Copy)]
enum Over {
    Late,
    Stopped,
}

/// A set's requests, dealt in stripes over its lanes; an array has one.
struct Dealt<'a> {
    striped: Striped<Merged<'a>>,
    lanes: u64,
    left: u64,
}

impl Iterator for Dealt<'_> {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        self.left = self.left.checked_sub(1)?;
        let mut request = self.striped.next()?;
        let (stripe, within) = (request.offset / STRIPE_BYTES, request.offset % STRIPE_BYTES);
        request.lane = (stripe % self.lanes) as Lane;
        request.offset = stripe / self.lanes * STRIPE_BYTES + within;
        Some(request)
    }
}

/// A workload that ends once it is over.
struct Until<'o, W> {
    open: W,
    over: &'o Cell<Option<Over>>,
}

impl<W: Workload> Workload for Until<'_, W> {
    fn peek(&self) -> Option<Nanos> {
        self.open.peek()
    }

    fn take(&mut self) -> Request {
        self.open.take()
    }

    fn finished(&mut self, now: Nanos, done: &Done, slots: &mut dyn Slots) {
        self.open.finished(now, done, slots);
    }

    fn is_stopped(&self) -> bool {
        self.over.get().is_some()
    }
}

struct Watch<'o, 't, 'm> {
    /// Of each client, where it is below.
    place: Vec<usize>,
    within: Vec<Nanos>,
    of: Vec<(u64, u64)>,
    allowed: Option<Vec<u64>>,
    over: &'o Cell<Option<Over>>,
    requests: &'m mut u64,
    tell: &'m mut Tell<'t>,
}

impl Observer for Watch<'_, '_, '_> {
    fn arrived(&mut self, _request: &Request) {
        *self.requests += 1;
        if self.requests.is_multiple_of(EVERY)
            && (self.tell)(*self.requests) == ControlFlow::Break(())
        {
            self.over.set(Some(Over::Stopped));
        }
    }

    fn finished(&mut self, now: Nanos, done: &Done) {
        let place = self.place[done.request.stream as usize];
        let (all, in_time) = &mut self.of[place];
        *all += 1;
        *in_time += u64::from(now - done.request.at <= self.within[place]);
        if self.allowed.as_ref().is_some_and(|allowed| *all - *in_time > allowed[place]) {
            self.over.set(Some(Over::Late));
        }
    }
}

struct Visit<'a, 'o, 't, 'm> {
    workload: Until<'o, Open<Dealt<'a>>>,
    watch: Watch<'o, 't, 'm>,
    drives: usize,
    models: Vec<DeviceModel>,
    /// A device draws power to the trace's end.
    lasts: Nanos,
}

impl PolicyVisitor for Visit<'_, '_, '_, '_> {
    type Out = Count;

    fn visit<P: Policy + Send + 'static>(mut self, policy: P) -> Count {
        // Boxed, so that the loop is not compiled once more for each policy.
        let mut policy: Box<dyn Policy + Send> = Box::new(policy);
        let policy = &mut *policy;
        let end = simulate::run(policy, &mut self.models, &mut self.workload, &mut self.watch);
        let until = end.max(self.lasts);
        let seconds = until.as_secs_f64().max(1e-9);
        let busy = |model: &DeviceModel| model.busy(until).as_secs_f64() / seconds;
        let watts = |model: &DeviceModel| model.joules(until) / seconds;
        let drives = || self.models.iter().take(self.drives);
        Count {
            watts: drives().map(watts).sum(),
            flash_watts: self.models.iter().skip(self.drives).map(watts).sum(),
            busy: (
                drives().map(busy).sum::<f64>() / self.drives.max(1) as f64,
                drives().map(busy).fold(0.0, f64::max),
            ),
            makespan: end,
            of: self.watch.of,
        }
    }
}
