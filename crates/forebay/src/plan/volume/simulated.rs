//! Simulates a trace on a throttled device: computes the costs of its requests, and replays them.

use forebay_core::device::throttled::{Meter, Releases, Throttle, Throttled, to_nanos};
use forebay_core::replay::Intensity;
use forebay_core::{Device, Done, Nanos, Null, Workload};

use super::drain::Costed;
use crate::layout::{Map, VolumeLayout};
use crate::progress::{self, Meter as Progress};
use crate::replayed::{Replay, Replayed, Setup};
use crate::{Error, Input};

/// Replays `input` in the mode `replay`, `growth` times as fast as recorded. Volumes are laid out
/// one after another and addresses are not scaled, because a throttle depends on addresses only to
/// detect sequential requests.
fn replayed(input: &Input, replay: Replay, growth: Intensity) -> Result<Replayed<'_>, Error> {
    let layout = VolumeLayout::new(&input.extents, u64::MAX, Map::Scale);
    let setup = Setup { replay, intensity: growth, ..Setup::default() };
    let mut unheard = progress::untold;
    let (replayed, _) =
        Replayed::new(input, layout, setup, 0..u64::MAX, &mut Progress::new(&mut unheard))?;
    Ok(replayed)
}

/// Returns the requests of `input` with their costs, as `throttle` counts them.
///
/// # Errors
/// Fails if the trace cannot be read again.
pub(super) fn costed(
    input: &Input,
    throttle: &Throttle,
    growth: Intensity,
) -> Result<Costed, Error> {
    let mut meter = Meter::new(throttle);
    let mut requests = Costed::default();
    let mut open = replayed(input, Replay::Open, growth)?;
    while open.peek().is_some() {
        let request = open.take();
        requests.push(request.at, request.op, meter.cost(&request));
    }
    match open.failed() {
        Some(error) => Err(error.into()),
        None => Ok(requests),
    }
}

/// The number of requests in a run, and how many of them were answered in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct InTime {
    pub requests: u64,
    pub in_time: u64,
}

impl InTime {
    pub(super) fn late(self) -> u64 {
        self.requests - self.in_time
    }

    pub(super) fn share(self) -> f64 {
        self.in_time as f64 / self.requests.max(1) as f64
    }
}

/// Passes `requests` through the buckets of a device with this `throttle` at their recorded times.
/// This is equivalent to simulating such a device in open replay.
pub(super) fn open(requests: &Costed, throttle: &Throttle, within: Nanos) -> InTime {
    let mut releases = Releases::new(throttle);
    let latency = [throttle.read_latency, throttle.write_latency];
    let mut count = InTime { requests: requests.len() as u64, in_time: 0 };
    requests.for_each(|at_ns, side, cost| {
        let done = to_nanos(releases.pass(side, at_ns, cost)) + latency[side];
        count.in_time += u64::from(done - Nanos(at_ns as u64) <= within);
    });
    count
}

/// Replays `input` on a device with this `throttle`. There is no scheduler, because the device
/// accepts any number of requests and so leaves a scheduler nothing to choose from.
///
/// # Errors
/// Fails if the trace cannot be read again, or if the throttle is invalid.
pub(super) fn run(
    input: &Input,
    throttle: &Throttle,
    within: Nanos,
    (replay, growth): (Replay, Intensity),
) -> Result<InTime, Error> {
    let mut device = Throttled::new(throttle.clone())?;
    let mut workload = replayed(input, replay, growth)?;
    let mut count = InTime::default();
    loop {
        let (done, arrival) = (device.next(), workload.peek());
        let Some(now) = done.into_iter().chain(arrival).min() else { break };
        if done == Some(now) {
            let completion = device.finish(now);
            count.requests += 1;
            count.in_time += u64::from(now - completion.io.at <= within);
            workload.finished(now, &Done::at_once(completion.io, completion.outcome), &mut Null);
        } else {
            let request = workload.take();
            device.start(now, request);
        }
    }
    match workload.failed() {
        Some(error) => Err(error.into()),
        None => Ok(count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_core::device::throttled::{Bucket, Count, Direction, Measure};
    use forebay_core::{Flags, Op};
    use forebay_trace::Record;

    /// Returns bursts of reads and writes, some of which are longer than one unit.
    fn bursts() -> Input {
        let record = |nth: u64| Record {
            at: Nanos::from_millis(nth / 30 * 100 + nth % 7),
            offset: nth % 11 * 65_536,
            latency: Some(Nanos::from_micros(300)),
            len: if nth.is_multiple_of(5) { 1 << 20 } else { 4096 },
            stream: 0,
            volume: 0,
            op: if nth.is_multiple_of(3) { Op::Write } else { Op::Read },
            flags: Flags::NONE,
        };
        let mut records: Vec<Record> = (0..3000).map(record).collect();
        records.sort_by_key(|record| record.at);
        Input::from_records(records, vec!["a".into()])
    }

    #[test]
    fn open_replay_on_the_device_is_what_its_buckets_say() {
        let input = bursts();
        let bucket = |measure, rate_per_s, depth| Bucket {
            measure,
            direction: Direction::Both,
            rate_per_s,
            depth,
            start_share: 1.0,
        };
        let throttle = Throttle {
            count: Count::Units { unit_bytes: 1 << 18 },
            read_latency: Nanos::from_micros(700),
            write_latency: Nanos::from_micros(900),
            ..Throttle::of(vec![
                bucket(Measure::Ops, 2000.0, 3.0),
                bucket(Measure::Bytes, 3e8, 1e5),
            ])
        };
        let requests = costed(&input, &throttle, Intensity::RECORDED).unwrap();
        let within = Nanos::from_millis(20);
        let run = |replay| run(&input, &throttle, within, (replay, Intensity::RECORDED)).unwrap();
        let found = run(Replay::Open);
        assert_eq!(found, open(&requests, &throttle, within));
        assert!(found.in_time > 300 && found.in_time < found.requests, "{found:?}");
        // The only task waits for responses, so its bursts are less dense than in open replay.
        let dependent = run(Replay::Dependent);
        assert!(dependent.in_time > found.in_time, "{dependent:?} {found:?}");
    }
}
