//! Finds how many devices of one model keep a promise.

use std::cell::{Cell, RefCell};
use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

use forebay_core::catalog::build;
use forebay_core::contract::AnyPolicy;
use forebay_core::replay::{Intensity, Open};
use forebay_core::{Device, Done, Nanos, Observer, Request, simulate};

use super::striped::Striped;
use super::{Binds, DevicesRow, Question, STRIPE_BYTES, WithoutCache};
use crate::input::{Input, Records};
use crate::jobs::on_all_cores;
use crate::layout::{Map, VolumeLayout};
use crate::plan::search::try_least;
use crate::plan::spread::Spread;
use crate::{Error, OpenDevice, ProgressReport, Telling};
use forebay_ask::Share;

/// The outcome of a run: the number of requests, how many were answered within each time bound, and
/// the devices' power.
#[derive(Clone, Debug, Default)]
struct Count {
    requests: u64,
    in_time: Vec<u64>,
    watts: f64,
}

impl Count {
    fn share(&self, index: usize) -> f64 {
        self.in_time[index] as f64 / self.requests.max(1) as f64
    }
}

/// Reports the progress of a table, before each of its runs.
pub(super) struct Teller<'a> {
    progress: RefCell<Telling<'a>>,
    done_share: Cell<f64>,
}

impl<'a> Teller<'a> {
    pub(super) fn new(progress: Telling<'a>) -> Teller<'a> {
        Teller { progress: RefCell::new(progress), done_share: Cell::new(0.0) }
    }

    /// Reports which share of the work is done.
    pub(super) fn at(&self, done_share: f64) {
        self.done_share.set(done_share);
    }

    /// Reports that the step `doing` begins. Fails if a stop was requested.
    pub(super) fn before(&self, doing: String) -> Result<(), Error> {
        let told = ProgressReport { doing, done_share: self.done_share.get() };
        let stops = (self.progress.borrow_mut())(&told).is_break();
        if stops { Err(Error::Stopped) } else { Ok(()) }
    }
}

/// The trials of a device with a scheduler, by number of devices.
pub(super) struct Trial<'a> {
    of: Tried<'a>,
    tell: &'a dyn Fn(String) -> Result<(), Error>,
    known: BTreeMap<usize, Count>,
    /// The outcome for requests that never overlap, once simulated.
    alone: Option<Count>,
}

/// The time between requests that must not overlap.
const ALONE_APART: Nanos = Nanos::from_secs(10);

/// What is simulated in every trial: the trace, the device, the scheduler and the time bounds.
#[derive(Clone, Copy)]
struct Tried<'a> {
    input: &'a Input,
    device: &'a OpenDevice,
    policy: &'a str,
    within: &'a [Nanos],
}

impl<'a> Trial<'a> {
    /// Creates the trials. `tell` is called before each run and may stop it.
    pub(super) fn new(
        input: &'a Input,
        device: &'a OpenDevice,
        (policy, within): (&'a str, &'a [Nanos]),
        tell: &'a dyn Fn(String) -> Result<(), Error>,
    ) -> Trial<'a> {
        Trial {
            of: Tried { input, device, policy, within },
            tell,
            known: BTreeMap::new(),
            alone: None,
        }
    }

    /// Builds the row for one promise, but leaves out its constant-rate capacity.
    pub(super) fn row(
        &mut self,
        index: usize,
        fraction: Share,
        question: &Question<'_>,
    ) -> Result<DevicesRow, Error> {
        let max = question.devices_max;
        let for_bytes = self.for_bytes();
        let for_time = self.least(index, fraction, 1, max)?;
        let least_bytes = for_bytes.and_then(|devices| usize::try_from(devices).ok()).unwrap_or(1);
        let devices = match for_time {
            Some(for_time) if least_bytes <= max => {
                self.least(index, fraction, for_time.max(least_bytes), max)?
            }
            _ => None,
        };
        let counted = self.count(devices.unwrap_or(max))?;
        let one_less = match devices {
            Some(devices) if devices > least_bytes => Some(self.count(devices - 1)?.share(index)),
            _ => None,
        };
        let alone = match for_time {
            Some(_) => None,
            None => Some(self.alone(max)?.share(index)),
        };
        let apart = match alone {
            Some(alone) if alone >= fraction.as_f64() => Some(self.of.apart(index)?),
            _ => None,
        };
        let is_powered = counted.watts > 0.0 && devices.is_some();
        Ok(DevicesRow {
            within_ms: self.of.within[index].as_millis_f64(),
            fraction: fraction.as_f64(),
            capacity_iops: None,
            devices_for_bytes: for_bytes,
            devices_for_time: for_time,
            devices,
            binds: devices.map(|devices| binds(least_bytes, for_time.unwrap_or(1), devices)),
            achieved_fraction: counted.share(index),
            one_less_fraction: one_less,
            alone_fraction: alone,
            apart_fraction: apart,
            has_arm: self.of.device.model.cylinders() > 0,
            price: question.price_each.zip(devices).map(|(each, devices)| each * devices as f64),
            without_write_cache: None,
            mean_power_w: is_powered.then_some(counted.watts),
        })
    }

    pub(super) fn without_cache(
        &mut self,
        index: usize,
        fraction: Share,
        question: &Question<'_>,
    ) -> Result<WithoutCache, Error> {
        let max = question.devices_max;
        let least = self.for_bytes().and_then(|devices| usize::try_from(devices).ok()).unwrap_or(1);
        let devices = self.least(index, fraction, least.min(max), max)?;
        let achieved_fraction = self.count(devices.unwrap_or(max))?.share(index);
        Ok(WithoutCache { devices, achieved_fraction })
    }

    /// Returns how many devices hold the volumes' extents, rounded up to whole stripes; `None` if
    /// the device has no capacity limit.
    fn for_bytes(&self) -> Option<u64> {
        let capacity = self.of.device.model.capacity();
        if capacity == u64::MAX {
            return None;
        }
        let reached =
            self.of.input.extents.iter().map(|bytes| u128::from(bytes.div_ceil(STRIPE_BYTES)));
        let stripes = u128::from((capacity / STRIPE_BYTES).max(1));
        u64::try_from(reached.sum::<u128>().div_ceil(stripes).max(1)).ok()
    }

    /// Finds the smallest number of devices, but at least `first`, that keeps the promise. Unless
    /// the result is `first`, one device fewer does not keep it.
    fn least(
        &mut self,
        index: usize,
        fraction: Share,
        first: usize,
        devices_max: usize,
    ) -> Result<Option<usize>, Error> {
        let first = first as u64;
        let found = try_least(first, devices_max as u64, first, |devices| {
            let count = self.count(devices as usize)?;
            Ok::<bool, Error>(count.in_time[index] >= fraction.of(count.requests))
        })?;
        Ok(found.map(|devices| devices as usize))
    }

    fn alone(&mut self, devices: usize) -> Result<Count, Error> {
        if self.alone.is_none() {
            self.alone = Some(self.over(devices, Some(ALONE_APART))?);
        }
        Ok(self.alone.clone().unwrap_or_default())
    }

    fn count(&mut self, devices: usize) -> Result<Count, Error> {
        if let Some(known) = self.known.get(&devices) {
            return Ok(known.clone());
        }
        let sum = self.over(devices, None)?;
        self.known.insert(devices, sum.clone());
        Ok(sum)
    }

    /// Simulates `devices` devices, with arrivals as recorded or, if `apart` is given, at that
    /// distance.
    fn over(&self, devices: usize, apart: Option<Nanos>) -> Result<Count, Error> {
        (self.tell)(format!("simulating {devices} {}", self.of.device.name))?;
        let of = self.of;
        let lanes: Vec<usize> = (0..devices).collect();
        let mut sum = Count { in_time: vec![0; self.of.within.len()], ..Count::default() };
        for lane in on_all_cores(&lanes, |lane| of.run(devices, *lane, apart))? {
            sum.requests += lane.requests;
            sum.watts += lane.watts;
            sum.in_time.iter_mut().zip(lane.in_time).for_each(|(sum, count)| *sum += count);
        }
        Ok(sum)
    }
}

/// How many of the busiest stripes are simulated alone.
const BUSIEST_STRIPES: usize = 8;

impl Tried<'_> {
    /// Returns the share of requests in time if each of the busiest stripes had a device to itself,
    /// and all other requests were in time.
    fn apart(&self, index: usize) -> Result<f64, Error> {
        let (stripes, requests) = self.stripes()?;
        let devices = stripes.keys().next_back().map_or(1, |last| *last as usize + 1);
        let mut busiest: Vec<(u64, u64)> = stripes.into_iter().collect();
        busiest.sort_by_key(|(stripe, count)| (Reverse(*count), *stripe));
        let lanes: Vec<usize> =
            busiest.iter().take(BUSIEST_STRIPES).map(|(stripe, _)| *stripe as usize).collect();
        let counts = on_all_cores(&lanes, |lane| self.run(devices, *lane, None))?;
        let late: u64 = counts.iter().map(|count| count.requests - count.in_time[index]).sum();
        Ok(1.0 - late as f64 / requests.max(1) as f64)
    }

    /// Counts the requests of each stripe, and all requests.
    fn stripes(&self) -> Result<(BTreeMap<u64, u64>, u64), Error> {
        let records = self.input.records()?;
        let failed = records.failed();
        let mut layout = VolumeLayout::new(&self.input.extents, u64::MAX, Map::Scale)
            .without_gaps(&self.input.stretches);
        let (mut stripes, mut requests) = (BTreeMap::new(), 0);
        for record in records {
            let Some(request) = layout.place(&record, requests) else { continue };
            *stripes.entry(request.offset / STRIPE_BYTES).or_default() += 1;
            requests += 1;
        }
        match failed.take() {
            Some(error) => Err(error.into()),
            None => Ok((stripes, requests)),
        }
    }

    /// Simulates number `lane` of `devices` devices.
    fn run(&self, devices: usize, lane: usize, apart: Option<Nanos>) -> Result<Count, Error> {
        let records = self.input.records()?;
        let failed = records.failed();
        let usable = self.device.model.capacity() / STRIPE_BYTES * STRIPE_BYTES;
        let usable = if usable == 0 { self.device.model.capacity() } else { usable };
        let capacity = usable.saturating_mul(devices as u64);
        let layout = VolumeLayout::new(&self.input.extents, capacity, Map::Scale)
            .without_gaps(&self.input.stretches);
        let data_bytes = layout.span().div_ceil(devices as u64).saturating_add(STRIPE_BYTES);
        let drive = Spread::new(self.device.model.clone(), data_bytes.min(usable));
        let striped = Striped { records, layout, devices, lane, usable, apart, next: 0 };
        let lasts = Nanos((self.input.description.duration_s * 1e9) as u64);
        let visit = Visit { striped, drive, within: self.within, lasts };
        let count = visit.run(build(self.policy, self.device.model.len_max())?);
        match failed.take() {
            Some(error) => Err(error.into()),
            None => Ok(count),
        }
    }
}

/// Returns the requirement that determines the number of devices.
pub(super) fn binds(for_bytes: usize, for_time: usize, devices: usize) -> Binds {
    match for_bytes.cmp(&for_time) {
        Ordering::Greater if for_bytes == devices => Binds::Bytes,
        Ordering::Equal if for_bytes == devices => Binds::Both,
        _ => Binds::Time,
    }
}

struct Visit<'a> {
    striped: Striped<Records<'a>>,
    drive: Spread,
    within: &'a [Nanos],
    /// The duration of the trace; devices draw power until it ends.
    lasts: Nanos,
}

impl Visit<'_> {
    fn run(self, mut policy: AnyPolicy) -> Count {
        let in_time = vec![0; self.within.len()];
        let mut watch = Watch { within: self.within, count: Count { in_time, ..Count::default() } };
        let mut workload = Open::new(self.striped, Intensity::RECORDED);
        let mut devices = [self.drive];
        let end = simulate::run(&mut policy, &mut devices, &mut workload, &mut watch);
        // Devices draw power until the trace has ended and all requests are done.
        let until = end.max(self.lasts);
        watch.count.watts = devices[0].joules(until) / until.as_secs_f64().max(1e-9);
        watch.count
    }
}

struct Watch<'a> {
    within: &'a [Nanos],
    count: Count,
}

impl Observer for Watch<'_> {
    fn arrived(&mut self, _request: &Request) {
        self.count.requests += 1;
    }

    fn finished(&mut self, now: Nanos, done: &Done) {
        let took = done.latency(now);
        for (within, count) in self.within.iter().zip(&mut self.count.in_time) {
            *count += u64::from(took <= *within);
        }
    }
}
