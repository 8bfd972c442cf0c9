//! `plan capacity --device`: how many real devices keep a promise, by simulation.
//!
//! The trace's volumes are laid one after another over all devices, in stripes: stripe `s` lies on
//! device `s mod n`. A request goes whole to the device of its first byte. ArrivalTimes are as recorded,
//! each device has the policy to itself, and a response time runs from arrival to completion.
//!
//! More devices need not always be better: every number of them places the data anew. The answer is
//! the least found by doubling and halving; it keeps the promise, and one device less was simulated
//! and does not.
//!
//! Two things take devices. The data have to lie somewhere: as many as hold what the volumes reach. And
//! the promise has to be kept: for that alone, data that do not fit are pressed onto the devices there
//! are. The answer is at least the larger, and keeps the promise with the data as they are.
//!
//! Where none of the allowed numbers keeps a promise, requests are simulated once more, far apart, each
//! on an idle device. What is too slow then is so on any number of them.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use forebay_core::catalog::{PolicyVisitor, build, with_policy};
use forebay_core::replay::{Intensity, Open};
use forebay_core::rtt::Gaps;
use forebay_core::{Device, Done, Nanos, Observer, Policy, Request, simulate};
use serde::Serialize;

use super::amount::Fraction;
use super::arrival_times::{self, timed, told_apart};
use super::capacity::Promises;
use super::search::least_capacities;
use crate::clock::Times;
use crate::devices::OpenDevice;
use crate::error::Error;
use crate::input::{Input, Records};
use crate::jobs::on_all_cores;
use crate::layout::{Map, VolumeLayout};

/// Bytes of a stripe.
pub const STRIPE_BYTES: u64 = 1 << 20;

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The scheduler of each device.
    pub policy: &'a str,
    /// The promises.
    pub promises: &'a Promises,
    /// The most devices that are tried.
    pub devices_max: usize,
    /// What one costs, in whatever money.
    pub price_each: Option<f64>,
}

/// What decides how many devices it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Binds {
    /// The data need more devices than the promise.
    Bytes,
    /// The promise needs more devices than the data.
    Time,
    /// Both need as many.
    Both,
}

/// The price of a promise in devices that keep no write where a power cut loses it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WithoutCache {
    /// The least number; none if as many as were allowed do not keep the promise.
    pub devices: Option<usize>,
    /// The share that so many, or as many as were allowed, answer within the bound.
    pub achieved_fraction: f64,
}

/// The price of a promise in devices.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The bound.
    pub within_ms: f64,
    /// The promised share of requests.
    pub fraction: f64,
    /// What a server of constant rate needs that puts aside the rest; none above all rates.
    pub capacity_iops: Option<u64>,
    /// The least number that holds the data; none where the device has no size.
    pub devices_for_bytes: Option<u64>,
    /// The least number that keeps the promise, wherever the data lie; none if as many as were allowed
    /// do not keep it.
    pub devices_for_time: Option<usize>,
    /// The least number that does both; none if as many as were allowed do not.
    pub devices: Option<usize>,
    /// Which of the two decides.
    pub binds: Option<Binds>,
    /// The share that so many, or as many as were allowed, answer within the bound.
    pub achieved_fraction: f64,
    /// The share that one device less answers, where the promise decides.
    pub one_less_fraction: Option<f64>,
    /// The share that is answered within the bound by idle devices, a request at a time; told where no
    /// allowed number keeps the promise. Below the fraction, no number of devices does.
    pub alone_fraction: Option<f64>,
    /// The price of so many.
    pub price: Option<f64>,
    /// What it takes with the devices' write cache off; none of devices without one, and where no number is given.
    pub without_write_cache: Option<WithoutCache>,
    /// What they draw on average, busy or idle; none for a device without figures of power.
    pub mean_power_w: Option<f64>,
}

/// What `question` costs in `device`s that serve `input`.
///
/// # Errors
/// A wrong policy, or a trace that has no times or cannot be read again.
pub fn table(
    input: &Input,
    device: &OpenDevice,
    question: &Question<'_>,
) -> Result<Vec<Row>, Error> {
    timed(&input.path, &input.notes)?;
    told_apart(&input.path, Times::of(input)?)?;
    let len_max = device.model.len_max();
    if !build(question.policy, len_max)?.servers().is_empty() {
        return Err(Error::Unfit(format!(
            "'{}': got a policy with several servers of its own, expected one for each device; use \
             sfq, wf2q or miser",
            question.policy
        )));
    }
    let within = &question.promises.within;
    let of = |device| Trial {
        input,
        device,
        policy: question.policy,
        within,
        known: BTreeMap::new(),
        alone: None,
    };
    let mut trial = of(device);
    let write_through = device.without_write_cache().filter(|_| input.description.writes > 0);
    let mut without = write_through.as_ref().map(of);
    let mut rows = Vec::new();
    for (index, bound) in within.iter().enumerate() {
        let capacities = capacities(input, *bound, &question.promises.fractions)?;
        for (fraction, capacity) in question.promises.fractions.iter().zip(capacities) {
            let row = trial.row(index, *fraction, question)?;
            let uncached = without.as_mut().filter(|_| row.devices.is_some());
            let uncached = uncached.map(|it| it.without_cache(index, *fraction, question));
            let without_write_cache = uncached.transpose()?;
            rows.push(Row { capacity_iops: capacity, without_write_cache, ..row });
        }
    }
    Ok(rows)
}

/// The rates that keep each of `fractions` within `within`.
fn capacities(
    input: &Input,
    within: Nanos,
    fractions: &[Fraction],
) -> Result<Vec<Option<u64>>, Error> {
    let records = input.records()?;
    let failed = records.failed();
    let gaps: Gaps = records.map(|record| record.at).collect();
    if let Some(error) = failed.take() {
        return Err(error.into());
    }
    let needs: Vec<u64> = fractions.iter().map(|f| f.of(gaps.len() as u64)).collect();
    Ok(least_capacities(&gaps, within, &needs))
}

/// What to keep in mind of `input` where it has little to tell; one sentence each.
///
/// # Errors
/// A trace that cannot be read again.
pub fn cautions(input: &Input) -> Result<Vec<String>, Error> {
    let described = &input.description;
    let duration = Nanos((described.duration_s * 1e9) as u64);
    Ok(arrival_times::cautions(described.records, duration, Times::of(input)?))
}

/// Requests of a run, those within each bound, and the energy it took.
#[derive(Clone, Debug, Default)]
struct Count {
    requests: u64,
    in_time: Vec<u64>,
    joules: f64,
}

impl Count {
    fn share(&self, index: usize) -> f64 {
        self.in_time[index] as f64 / self.requests.max(1) as f64
    }
}

struct Trial<'a> {
    input: &'a Input,
    device: &'a OpenDevice,
    policy: &'a str,
    within: &'a [Nanos],
    known: BTreeMap<usize, Count>,
    /// Requests one at a time.
    alone: Option<Count>,
}

/// Arrivals that are to be alone come so far apart.
const ALONE_APART: Nanos = Nanos::from_secs(10);

impl Trial<'_> {
    /// A row, but for its rate.
    fn row(
        &mut self,
        index: usize,
        fraction: Fraction,
        question: &Question<'_>,
    ) -> Result<Row, Error> {
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
        let seconds = self.input.description.duration_s;
        let is_powered = counted.joules > 0.0 && seconds > 0.0 && devices.is_some();
        Ok(Row {
            within_ms: self.within[index].as_millis_f64(),
            fraction: fraction.as_f64(),
            capacity_iops: None,
            devices_for_bytes: for_bytes,
            devices_for_time: for_time,
            devices,
            binds: devices.map(|devices| binds(least_bytes, for_time.unwrap_or(1), devices)),
            achieved_fraction: counted.share(index),
            one_less_fraction: one_less,
            alone_fraction: alone,
            price: question.price_each.zip(devices).map(|(each, devices)| each * devices as f64),
            without_write_cache: None,
            mean_power_w: is_powered.then(|| counted.joules / seconds),
        })
    }

    fn without_cache(
        &mut self,
        index: usize,
        fraction: Fraction,
        question: &Question<'_>,
    ) -> Result<WithoutCache, Error> {
        let max = question.devices_max;
        let least = self.for_bytes().and_then(|devices| usize::try_from(devices).ok()).unwrap_or(1);
        let devices = self.least(index, fraction, least.min(max), max)?;
        let achieved_fraction = self.count(devices.unwrap_or(max))?.share(index);
        Ok(WithoutCache { devices, achieved_fraction })
    }

    /// The devices that hold what the volumes reach, whole stripes of it.
    fn for_bytes(&self) -> Option<u64> {
        let capacity = self.device.model.capacity();
        if capacity == u64::MAX {
            return None;
        }
        let reached =
            self.input.extents.iter().map(|bytes| u128::from(bytes.div_ceil(STRIPE_BYTES)));
        let stripes = u128::from((capacity / STRIPE_BYTES).max(1));
        u64::try_from(reached.sum::<u128>().div_ceil(stripes).max(1)).ok()
    }

    /// The least number from `first` on; `first` itself, or one less is not enough.
    fn least(
        &mut self,
        index: usize,
        fraction: Fraction,
        first: usize,
        devices_max: usize,
    ) -> Result<Option<usize>, Error> {
        let mut enough = |devices: usize| -> Result<bool, Error> {
            let count = self.count(devices)?;
            Ok(count.in_time[index] >= fraction.of(count.requests))
        };
        let (mut few, mut many) = (first - 1, first);
        while !enough(many)? {
            if many >= devices_max {
                return Ok(None);
            }
            (few, many) = (many, (2 * many).min(devices_max));
        }
        while many - few > 1 {
            let middle = few + (many - few) / 2;
            if enough(middle)? { many = middle } else { few = middle }
        }
        Ok(Some(many))
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

    /// What so many devices do, with requests as they came or each so far `apart`.
    fn over(&self, devices: usize, apart: Option<Nanos>) -> Result<Count, Error> {
        let lanes: Vec<usize> = (0..devices).collect();
        let mut sum = Count { in_time: vec![0; self.within.len()], ..Count::default() };
        for lane in on_all_cores(&lanes, |lane| self.run(devices, *lane, apart))? {
            sum.requests += lane.requests;
            sum.joules += lane.joules;
            sum.in_time.iter_mut().zip(lane.in_time).for_each(|(sum, count)| *sum += count);
        }
        Ok(sum)
    }

    /// What `lane` of `devices` does.
    fn run(&self, devices: usize, lane: usize, apart: Option<Nanos>) -> Result<Count, Error> {
        let records = self.input.records()?;
        let failed = records.failed();
        let usable = self.device.model.capacity() / STRIPE_BYTES * STRIPE_BYTES;
        let usable = if usable == 0 { self.device.model.capacity() } else { usable };
        let capacity = usable.saturating_mul(devices as u64);
        let layout = VolumeLayout::new(&self.input.extents, capacity, Map::Scale);
        let striped = Striped { records, layout, devices, lane, usable, apart, next: 0 };
        let lasts = Nanos((self.input.description.duration_s * 1e9) as u64);
        let visit = Visit { striped, device: self.device, within: self.within, lasts };
        let count = with_policy(self.policy, self.device.model.len_max(), visit)?;
        match failed.take() {
            Some(error) => Err(error.into()),
            None => Ok(count),
        }
    }
}

fn binds(for_bytes: usize, for_time: usize, devices: usize) -> Binds {
    match for_bytes.cmp(&for_time) {
        Ordering::Greater if for_bytes == devices => Binds::Bytes,
        Ordering::Equal if for_bytes == devices => Binds::Both,
        _ => Binds::Time,
    }
}

/// The requests of one device.
struct Striped<'a> {
    records: Records<'a>,
    layout: VolumeLayout,
    devices: usize,
    lane: usize,
    /// Bytes used of a device.
    usable: u64,
    /// Between arrivals, where not as recorded.
    apart: Option<Nanos>,
    next: u64,
}

impl Iterator for Striped<'_> {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        loop {
            let record = self.records.next()?;
            let Some(mut request) = self.layout.place(&record, self.next) else { continue };
            let (stripe, within) = (request.offset / STRIPE_BYTES, request.offset % STRIPE_BYTES);
            let devices = self.devices as u64;
            if stripe % devices != self.lane as u64 {
                continue;
            }
            let end = self.usable.saturating_sub(u64::from(request.len));
            request.offset = (stripe / devices * STRIPE_BYTES + within).min(end);
            if let Some(apart) = self.apart {
                request.at = Nanos(apart.0.saturating_mul(self.next));
            }
            self.next += 1;
            return Some(request);
        }
    }
}

struct Visit<'a> {
    striped: Striped<'a>,
    device: &'a OpenDevice,
    within: &'a [Nanos],
    /// The trace's duration: a device draws power to its end.
    lasts: Nanos,
}

impl PolicyVisitor for Visit<'_> {
    type Out = Count;

    fn visit<P: Policy + Send + 'static>(self, mut policy: P) -> Count {
        let in_time = vec![0; self.within.len()];
        let mut watch = Watch { within: self.within, count: Count { in_time, ..Count::default() } };
        let mut workload = Open::new(self.striped, Intensity::RECORDED);
        let mut devices = [self.device.model.clone()];
        let end = simulate::run(&mut policy, &mut devices, &mut workload, &mut watch);
        watch.count.joules = devices[0].joules(end.max(self.lasts));
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
        let took = now - done.request.at;
        for (within, count) in self.within.iter().zip(&mut self.count.in_time) {
            *count += u64::from(took <= *within);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_core::{Flags, Op};
    use forebay_trace::Record;

    /// `at` milliseconds, a megabyte apart.
    fn input(at_ms: &[u64]) -> Input {
        let record = |(index, at): (usize, &u64)| Record {
            at: Nanos(at * 1_000_000),
            offset: index as u64 * STRIPE_BYTES,
            latency: None,
            len: 4096,
            stream: 0,
            volume: 0,
            op: Op::Read,
            flags: Flags::NONE,
        };
        Input::from_records(at_ms.iter().enumerate().map(record).collect(), vec!["a".into()])
    }

    fn devices(at_ms: &[u64], device: &str, within_ms: u64, fraction: &str) -> Option<usize> {
        let device = crate::devices::open(device).unwrap();
        let promises = Promises {
            within: vec![Nanos(within_ms * 1_000_000)],
            fractions: vec![fraction.parse().unwrap()],
        };
        let found = table(&input(at_ms), &device, &asked(&promises)).unwrap();
        found[0].devices
    }

    fn asked(promises: &Promises) -> Question<'_> {
        let policy = "noop:merge=no";
        Question { policy, promises, devices_max: 8, price_each: Some(50.0) }
    }

    /// Requests at these milliseconds, `apart` bytes from one another, on drives of 250 GB.
    fn on_drives(at_ms: &[u64], apart: u64, within_ms: u64) -> Row {
        let mut input = input(at_ms);
        input.extents = vec![apart * at_ms.len() as u64];
        let promises = Promises {
            within: vec![Nanos(within_ms * 1_000_000)],
            fractions: vec!["1".parse().unwrap()],
        };
        let device = crate::devices::open("sata250:plain").unwrap();
        table(&input, &device, &asked(&promises)).unwrap().remove(0)
    }

    #[test]
    fn data_take_devices_too() {
        let held = on_drives(&[0, 1000], 500 << 30, 100);
        assert_eq!((held.devices_for_bytes, held.devices_for_time), (Some(5), Some(1)));
        assert_eq!((held.devices, held.binds), (Some(5), Some(Binds::Bytes)));
        assert_eq!((held.price, held.one_less_fraction), (Some(250.0), None));
        // Five drives of several watts each, idle for most of the second.
        assert!(held.mean_power_w.is_some_and(|watts| (10.0..100.0).contains(&watts)), "{held:?}");
        let small = on_drives(&[0, 1000], 1 << 20, 100);
        assert_eq!((small.devices, small.binds), (Some(1), Some(Binds::Both)));
        let busy = on_drives(&[0; 8], 1 << 20, 40);
        assert_eq!((busy.devices_for_bytes, busy.binds), (Some(1), Some(Binds::Time)), "{busy:?}");
        assert!(busy.one_less_fraction.unwrap() < 1.0);
        // More than are allowed: none is claimed to do.
        let vast = on_drives(&[0, 1000], 2 << 40, 100);
        assert_eq!((vast.devices_for_bytes, vast.devices), (Some(18), None));
    }

    #[test]
    fn what_an_idle_device_is_too_slow_for_no_number_of_them_keeps() {
        let slow = |within_us: u64| {
            let promises = Promises {
                within: vec![Nanos(within_us * 1000)],
                fractions: vec!["1".parse().unwrap()],
            };
            let device = crate::devices::open("fixed:100").unwrap();
            table(&input(&[0; 20]), &device, &asked(&promises)).unwrap().remove(0)
        };
        assert_eq!((slow(9_999).devices, slow(9_999).alone_fraction), (None, Some(0.0)));
        // Twenty at once on eight: one alone is in time, so more of them would do.
        assert_eq!((slow(10_000).devices, slow(10_000).alone_fraction), (None, Some(1.0)));
        assert_eq!((slow(30_000).devices_for_bytes, slow(30_000).mean_power_w), (None, None));
        assert_eq!((slow(30_000).capacity_iops, slow(30_000).alone_fraction), (Some(667), None));
    }

    #[test]
    fn a_burst_takes_as_many_servers_as_finish_it_in_time() {
        // Eight at once at 100 a second each: 80 ms on one server, 20 ms on four.
        let burst = [0; 8];
        assert_eq!(devices(&burst, "fixed:100", 80, "1"), Some(1));
        assert_eq!(devices(&burst, "fixed:100", 79, "1"), Some(2));
        assert_eq!(devices(&burst, "fixed:100", 20, "1"), Some(4));
        // Three servers have three, three and two of them.
        assert_eq!(devices(&burst, "fixed:100", 30, "1"), Some(3));
        assert_eq!(devices(&burst, "fixed:100", 20, "0.75"), Some(3));
        assert_eq!(devices(&burst, "fixed:100", 9, "1"), None);
    }

    #[test]
    fn one_server_keeps_all_in_time_exactly_at_the_capacity_of_rtt() {
        let at_ms = [0, 0, 0, 7, 8, 30, 31, 31, 31, 31, 60];
        let gaps = at_ms.iter().map(|at| Nanos(at * 1_000_000)).collect();
        let least = forebay_core::rtt::least_rate_for_all(&gaps, Nanos(20_000_000)).unwrap();
        assert_eq!(devices(&at_ms, &format!("fixed:{least}"), 20, "1"), Some(1));
        assert_ne!(devices(&at_ms, &format!("fixed:{}", least - 1), 20, "1"), Some(1));
    }
}
