//! `plan capacity --device`: how many real devices keep a promise, by simulation.
//!
//! The trace's volumes are laid one after another over all devices, in stripes: stripe `s` lies on
//! device `s mod n`. A request goes whole to the device of its first byte. ArrivalTimes are as recorded,
//! each device has the policy to itself, and a response time runs from arrival to completion.
//!
//! More devices need not always be better: every number of them places the data anew. The answer is
//! the least found by doubling and halving; it keeps the promise, and one device less was simulated
//! and does not.

use std::collections::BTreeMap;

use forebay_core::catalog::{PolicyVisitor, build, with_policy};
use forebay_core::replay::{Intensity, Open};
use forebay_core::{Device, Done, Nanos, Observer, Policy, Request, simulate};
use serde::Serialize;

use super::arrival_times::{self, timed};
use super::capacity::{Promises, on_all_cores};
use crate::devices::OpenDevice;
use crate::error::Error;
use crate::input::{Input, Records};
use crate::layout::{Map, VolumeLayout};

/// Bytes of a stripe.
pub const STRIPE_BYTES: u64 = 1 << 20;

/// The price of a promise in devices.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The bound.
    pub within_ms: f64,
    /// The promised share of requests.
    pub fraction: f64,
    /// The least number of devices; none if as many as were allowed do not keep it.
    pub devices: Option<usize>,
    /// The share that so many, or as many as were allowed, answer within the bound.
    pub achieved_fraction: f64,
}

/// The least number of `device`s, up to `devices_max`, that keeps each of `promises` to `input`
/// under `policy`.
///
/// # Errors
/// A wrong policy, or a trace that has no times or cannot be read again.
pub fn table(
    input: &Input,
    device: &OpenDevice,
    policy: &str,
    promises: &Promises,
    devices_max: usize,
) -> Result<Vec<Row>, Error> {
    timed(&input.path, &input.notes)?;
    let len_max = device.model.len_max();
    if !build(policy, len_max)?.servers().is_empty() {
        return Err(Error::Unfit(format!(
            "'{policy}': got a policy with several servers of its own, expected one for each \
             device; use sfq, wf2q or miser"
        )));
    }
    let mut trial =
        Trial { input, device, policy, within: &promises.within, known: BTreeMap::new() };
    let mut rows = Vec::new();
    for (index, within) in promises.within.iter().enumerate() {
        for fraction in &promises.fractions {
            let least = trial.least(index, *fraction, devices_max)?;
            let counted = trial.count(least.unwrap_or(devices_max))?;
            rows.push(Row {
                within_ms: within.as_millis_f64(),
                fraction: fraction.as_f64(),
                devices: least,
                achieved_fraction: counted.in_time[index] as f64 / counted.requests.max(1) as f64,
            });
        }
    }
    Ok(rows)
}

/// What to keep in mind of `input` where it has little to tell; one sentence each.
pub fn cautions(input: &Input) -> Vec<String> {
    let described = &input.description;
    arrival_times::cautions(described.records, Nanos((described.duration_s * 1e9) as u64))
}

/// Requests of a run, and those within each bound.
#[derive(Clone, Debug, Default)]
struct Count {
    requests: u64,
    in_time: Vec<u64>,
}

struct Trial<'a> {
    input: &'a Input,
    device: &'a OpenDevice,
    policy: &'a str,
    within: &'a [Nanos],
    known: BTreeMap<usize, Count>,
}

impl Trial<'_> {
    fn least(
        &mut self,
        index: usize,
        fraction: super::amount::Fraction,
        devices_max: usize,
    ) -> Result<Option<usize>, Error> {
        let mut enough = |devices: usize| -> Result<bool, Error> {
            let count = self.count(devices)?;
            Ok(count.in_time[index] >= fraction.of(count.requests))
        };
        let (mut few, mut many) = (0, 1);
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

    fn count(&mut self, devices: usize) -> Result<Count, Error> {
        if let Some(known) = self.known.get(&devices) {
            return Ok(known.clone());
        }
        let lanes: Vec<usize> = (0..devices).collect();
        let mut sum = Count { requests: 0, in_time: vec![0; self.within.len()] };
        for lane in on_all_cores(&lanes, |lane| self.run(devices, *lane)) {
            let lane = lane?;
            sum.requests += lane.requests;
            sum.in_time.iter_mut().zip(lane.in_time).for_each(|(sum, count)| *sum += count);
        }
        self.known.insert(devices, sum.clone());
        Ok(sum)
    }

    /// What `lane` of `devices` does.
    fn run(&self, devices: usize, lane: usize) -> Result<Count, Error> {
        let records = self.input.records()?;
        let failed = records.failed();
        let usable = self.device.model.capacity() / STRIPE_BYTES * STRIPE_BYTES;
        let usable = if usable == 0 { self.device.model.capacity() } else { usable };
        let capacity = usable.saturating_mul(devices as u64);
        let layout = VolumeLayout::new(&self.input.extents, capacity, Map::Scale);
        let striped = Striped { records, layout, devices, lane, usable, next: 0 };
        let visit = Visit { striped, device: self.device, within: self.within };
        let count = with_policy(self.policy, self.device.model.len_max(), visit)?;
        match failed.take() {
            Some(error) => Err(error.into()),
            None => Ok(count),
        }
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
            self.next += 1;
            return Some(request);
        }
    }
}

struct Visit<'a> {
    striped: Striped<'a>,
    device: &'a OpenDevice,
    within: &'a [Nanos],
}

impl PolicyVisitor for Visit<'_> {
    type Out = Count;

    fn visit<P: Policy + Send + 'static>(self, mut policy: P) -> Count {
        let in_time = vec![0; self.within.len()];
        let mut watch = Watch { within: self.within, count: Count { requests: 0, in_time } };
        let mut workload = Open::new(self.striped, Intensity::RECORDED);
        let mut devices = [self.device.model.clone()];
        simulate::run(&mut policy, &mut devices, &mut workload, &mut watch);
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
        table(&input(at_ms), &device, "noop:merge=no", &promises, 8).unwrap()[0].devices
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
