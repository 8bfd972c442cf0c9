//! Finds the best possible order of small windows of I/Os by search, and compares it with the
//! schedulers' results for the same requests.
//!
//! A window is a number of consecutive requests of the trace, all queued from the start, on a disk
//! that begins at rest. Adjacent requests are merged as a block layer would merge them, so that no
//! scheduler has fewer I/Os. The search is dynamic programming over (set of completed I/Os, last
//! completed I/O), after Held and Karp (1962). It is exact if an I/O that starts earlier never ends
//! later, which is true of a disk with arm and platters and of a constant-rate server. A drive with
//! its own queue serves several I/Os at once, so no order of single I/Os bounds its time.
//!
//! The result shows what ordering alone could gain; it ignores arrivals, fairness and deadlines.

use forebay_core::{Device, DeviceModel, Flags, Nanos, Op, Request};
use forebay_trace::Record;
use serde::Serialize;

use crate::layout::{Map, VolumeLayout};
use crate::simulate::{Setup, run};
use crate::{Error, Input, OpenDevice, ProgressReport, Telling};

mod page;
mod verb;

pub use verb::OfflineAsk;

/// The maximum number of requests in a window, however well they merge.
const REQUESTS_MAX: usize = 4096;

/// The maximum size of an I/O that a block layer issues; longer requests are split.
const PIECE_BYTES: u32 = 512 << 10;

/// The results for one window.
#[derive(Clone, Debug, Serialize)]
pub struct Window {
    /// The index of the window's first request, counting only requests that move data.
    pub first_request: u64,
    /// The number of requests in the window.
    pub requests: u64,
    /// The number of I/Os in the window after merging.
    pub ios: u64,
    /// The shortest time in which the window's bytes can be transferred, in seconds.
    pub transfer_bound_s: f64,
    /// The time to serve the window in the best order, in seconds.
    pub best_s: f64,
    /// The time that each scheduler takes for the window, in the order given. Time in which a
    /// scheduler deliberately idles counts, because otherwise idling would be free.
    pub makespan_s: Vec<f64>,
}

/// The answer of `offline`: the results for all windows, and totals.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct OfflineAnswer {
    /// The name of the trace.
    pub(crate) trace: String,
    /// The name of the device.
    pub(crate) device: String,
    /// The number of I/Os in all windows.
    pub(crate) ios: u64,
    /// The shortest time in which the bytes of all windows can be transferred, in seconds.
    pub(crate) transfer_bound_s: f64,
    /// The time to serve all windows, each in its best order, in seconds.
    pub(crate) best_s: f64,
    /// The total time of each scheduler, in the order given.
    pub(crate) policies: Vec<PolicyTotal>,
    /// The results for each window.
    pub(crate) rows: Vec<Window>,
}

/// The total time of a scheduler over all windows.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PolicyTotal {
    /// The scheduler's name.
    pub(crate) policy: String,
    /// The scheduler's total time in seconds.
    pub(crate) makespan_s: f64,
    /// The scheduler's total time divided by the total time of the best orders.
    pub(crate) over_best_ratio: f64,
}

impl OfflineAnswer {
    fn of(trace: String, device: String, policies: &[String], rows: Vec<Window>) -> OfflineAnswer {
        let sum = |of: &dyn Fn(&Window) -> f64| rows.iter().map(of).sum::<f64>();
        let best_s = sum(&|row| row.best_s);
        let total = |(nth, policy): (usize, &String)| {
            let makespan_s = sum(&|row| row.makespan_s[nth]);
            let over_best_ratio = makespan_s / best_s.max(1e-9);
            PolicyTotal { policy: policy.clone(), makespan_s, over_best_ratio }
        };
        OfflineAnswer {
            trace,
            device,
            ios: rows.iter().map(|row| row.ios).sum(),
            transfer_bound_s: sum(&|row| row.transfer_bound_s),
            best_s,
            policies: policies.iter().enumerate().map(total).collect(),
            rows,
        }
    }
}

/// Adjacent requests merged into one I/O.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Joined {
    op: Op,
    offset: u64,
    end: u64,
}

/// Merges `requests`, which are in order of arrival, into at most `ios_max` I/Os. Returns these and
/// the number of requests that they include.
fn joined(requests: &[Request], ios_max: usize) -> (Vec<Joined>, usize) {
    let mut runs: Vec<Joined> = Vec::new();
    for (taken, request) in requests.iter().enumerate() {
        let new = Joined { op: request.op, offset: request.offset, end: request.end() };
        let before = runs.iter().position(|run| run.op == new.op && run.end == new.offset);
        let after = runs.iter().position(|run| run.op == new.op && run.offset == new.end);
        match (before, after) {
            (Some(before), Some(after)) => {
                runs[before].end = runs[after].end;
                runs.remove(after);
            }
            (Some(before), None) => runs[before].end = new.end,
            (None, Some(after)) => runs[after].offset = new.offset,
            (None, None) if runs.len() == ios_max => return (runs, taken),
            (None, None) => runs.push(new),
        }
    }
    (runs, requests.len())
}

/// Returns when `device` completes `run`, if it is idle at `now`.
fn serve(device: &mut DeviceModel, mut now: Nanos, run: Joined) -> Nanos {
    let mut offset = run.offset;
    while offset < run.end {
        let len = u64::from(PIECE_BYTES.min(device.len_max())).min(run.end - offset) as u32;
        let (op, flags) = (run.op, Flags::NONE);
        device.start(now, Request { at: now, offset, id: 0, len, stream: 0, lane: 0, op, flags });
        now = device.next().unwrap_or(now);
        device.finish(now);
        offset += u64::from(len);
    }
    now
}

/// Returns the shortest time in which `device` can serve all of `runs`, one after the other.
fn best(device: &DeviceModel, runs: &[Joined]) -> Nanos {
    let all = (1usize << runs.len()) - 1;
    let mut states: Vec<Vec<Option<(Nanos, DeviceModel)>>> = vec![Vec::new(); all + 1];
    for set in 0..all {
        let from = std::mem::take(&mut states[set]);
        let start = (set == 0).then(|| (Nanos::ZERO, device.clone()));
        for (now, device) in from.iter().flatten().chain(&start) {
            for (next, run) in runs.iter().enumerate().filter(|(next, _)| set >> next & 1 == 0) {
                let mut device = device.clone();
                let done = serve(&mut device, *now, *run);
                let to = &mut states[set | 1 << next];
                to.resize(runs.len(), None);
                if to[next].as_ref().is_none_or(|(known, _)| done < *known) {
                    to[next] = Some((done, device));
                }
            }
        }
    }
    let ends = states[all].iter().flatten().map(|(done, _)| *done);
    ends.min().unwrap_or(Nanos::ZERO)
}

/// Returns the requests that move data, placed on the device, with all arrivals at time 0.
fn requests(input: &Input, capacity: u64) -> Result<Vec<Request>, Error> {
    let mut layout =
        VolumeLayout::new(&input.extents, capacity, Map::Scale).without_gaps(&input.stretches);
    let moves = |request: &Request| request.op.moves_data() && request.len > 0;
    let mut id = 0;
    let placed = input.records()?.filter_map(|record| {
        let request = layout.place(&record, id).filter(moves)?;
        id += 1;
        Some(Request { at: Nanos::ZERO, ..request })
    });
    Ok(placed.collect())
}

/// Converts `requests` to a trace in memory.
fn as_input(requests: &[Request]) -> Input {
    let record = |request: &Request| Record {
        at: Nanos::ZERO,
        offset: request.offset,
        latency: None,
        len: request.len,
        stream: request.stream,
        volume: 0,
        op: request.op,
        flags: request.flags,
    };
    let streams = requests.iter().map(|request| request.stream + 1).max().unwrap_or(0);
    let labels = (0..streams).map(|stream| stream.to_string()).collect();
    Input::from_records(requests.iter().map(record).collect(), labels)
}

/// Fails if the device serves several I/Os at once.
fn check(device: &OpenDevice) -> Result<(), Error> {
    if matches!(device.model, DeviceModel::Hdd(_) | DeviceModel::Fixed(_)) {
        return Ok(());
    }
    Err(Error::Unfit(format!(
        "{}: got a device {}, expected a disk of arm and platters (NAME:plain) or fixed:RATE",
        device.name,
        device.model.commands()
    )))
}

/// Computes the best order and runs each of `policies`, for `windows` windows of `ios_max` I/Os
/// that are spread evenly over `input`. Each additional I/O per window doubles time and memory,
/// because the search visits all subsets.
fn windows(
    input: &Input,
    device: &OpenDevice,
    policies: &[String],
    (windows, ios_max): (usize, usize),
    tell: Telling<'_>,
) -> Result<Vec<Window>, Error> {
    let requests = requests(input, device.model.capacity())?;
    let step = (requests.len() / windows.max(1)).max(1);
    let mut found = Vec::new();
    for first in (0..requests.len()).step_by(step).take(windows) {
        let done_share = found.len() as f64 / windows as f64;
        let told =
            ProgressReport { doing: "searching for the best orders".to_string(), done_share };
        if tell(&told).is_break() {
            return Err(Error::Stopped);
        }
        let rest = &requests[first..requests.len().min(first + REQUESTS_MAX)];
        let (runs, taken) = joined(rest, ios_max);
        let window = as_input(&rest[..taken]);
        let (mut makespan_s, mut transfer_bound_s) = (Vec::new(), 0.0);
        for policy in policies {
            let figures = run(&window, device, policy, Setup::default())?.result.figures;
            makespan_s.push(figures.makespan_s);
            transfer_bound_s = figures.transfer_bound_s;
        }
        found.push(Window {
            first_request: first as u64,
            requests: taken as u64,
            ios: runs.len() as u64,
            transfer_bound_s,
            best_s: best(&device.model, &runs).as_secs_f64(),
            makespan_s,
        });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;
    use crate::devices;
    use crate::progress::unheard;

    fn request(op: Op, offset: u64, len: u32) -> Request {
        let (at, flags) = (Nanos::ZERO, Flags::NONE);
        Request { at, offset, id: 0, len, stream: 0, lane: 0, op, flags }
    }

    /// Returns requests scattered all over a disk of 250 GB, by a multiplicative sequence.
    fn scattered(count: u64) -> Vec<Request> {
        let offset =
            |index: u64| (index + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) % 48_000_000 * 4096;
        let op = |index: u64| if index.is_multiple_of(3) { Op::Write } else { Op::Read };
        (0..count).map(|index| request(op(index), offset(index), 65536)).collect()
    }

    /// Finds the time of the best order by trying every order.
    fn brute(device: &DeviceModel, now: Nanos, runs: &[Joined]) -> Nanos {
        let after = |at: usize| {
            let (mut device, mut rest) = (device.clone(), runs.to_vec());
            let done = serve(&mut device, now, rest.remove(at));
            brute(&device, done, &rest)
        };
        (0..runs.len()).map(after).min().unwrap_or(now)
    }

    #[test]
    fn neighbors_are_joined_on_both_sides() {
        let reads = [(0, 10), (20, 10), (10, 10), (40, 5)];
        let requests = reads.map(|(offset, len)| request(Op::Read, offset, len));
        let whole = Joined { op: Op::Read, offset: 0, end: 30 };
        assert_eq!(joined(&requests, 2), (vec![whole, Joined { offset: 40, end: 45, ..whole }], 4));
        assert_eq!(joined(&requests, 1), (vec![Joined { end: 10, ..whole }], 1));
        let mixed = [request(Op::Read, 0, 10), request(Op::Write, 10, 10)];
        assert_eq!(joined(&mixed, 9).0.len(), 2);
    }

    #[test]
    fn the_search_finds_what_trying_every_order_finds() {
        let device = devices::open("sata250:plain").unwrap().model;
        for count in 1..=6 {
            let (runs, _) = joined(&scattered(count), 12);
            assert_eq!(best(&device, &runs), brute(&device, Nanos::ZERO, &runs), "{count} I/Os");
        }
    }

    #[test]
    fn no_scheduler_beats_the_best_order() {
        let input = as_input(&scattered(40));
        let device = devices::open("sata250:plain").unwrap();
        let policies = ["noop", "deadline", "cfq", "bid", "forebay"].map(str::to_string);
        let found = windows(&input, &device, &policies, (5, 7), &mut unheard).unwrap();
        assert_eq!(found.len(), 5);
        for window in found {
            assert!(window.transfer_bound_s < window.best_s && window.ios == 7);
            for (policy, took_s) in policies.iter().zip(&window.makespan_s) {
                assert!(window.best_s <= took_s + 1e-9, "{policy}: {took_s} < {}", window.best_s);
            }
        }
        let stop = &mut |_: &ProgressReport| ControlFlow::Break(());
        let stopped = windows(&input, &device, &policies, (5, 7), stop);
        assert!(matches!(stopped, Err(Error::Stopped)));
    }

    #[test]
    fn a_drive_with_a_queue_is_refused() {
        let said = check(&devices::open("sata250").unwrap()).unwrap_err().to_string();
        assert!(said.contains("sata250: got a device") && said.contains("NAME:plain"), "{said}");
    }
}
