//! The offline limit on small windows: the best order of the I/Os of a window, found by search,
//! beside what schedulers make of the same requests.
//!
//! A window is some consecutive requests of the trace, all of them there from the start, on a disk
//! that begins at rest. Neighbours are joined as a block layer would join them, so no scheduler has
//! fewer I/Os. The search is dynamic programming over (what is done, what was done last), after Held
//! and Karp (1962). It is exact where an I/O that starts earlier never ends later: on a disk of arm and
//! platters or a server of constant rate. A drive with a queue of its own serves several at once, which
//! no order of single ones bounds.
//!
//! It says what ordering alone could gain: arrivals, fairness and deadlines have no part in it.

use forebay_core::device::list::DeviceModel;
use forebay_core::{Device, Flags, Nanos, Op, Request};
use forebay_trace::Record;
use serde::Serialize;

use crate::devices::OpenDevice;
use crate::error::Error;
use crate::input::Input;
use crate::layout::{Map, VolumeLayout};
use crate::progress::{Telling, Told};
use crate::simulate::{Setup, run};

mod page;
mod verb;

pub use verb::OfflineAsk;

/// Requests of a window at most, however well they join.
const REQUESTS_MAX: usize = 4096;

/// What a block layer sends at once.
const PIECE_BYTES: u32 = 512 << 10;

/// One window.
#[derive(Clone, Debug, Serialize)]
pub struct Window {
    /// Its first request, counted from 0 over those that move data.
    pub first_request: u64,
    /// Requests in it.
    pub requests: u64,
    /// I/Os once neighbours are joined.
    pub ios: u64,
    /// Least time to move the bytes.
    pub transfer_bound_s: f64,
    /// Time in the best order.
    pub best_s: f64,
    /// Time each scheduler takes for the same requests, in the order that was asked for, until the last is done: its
    /// waiting counts, or the turns it lets pass while idle would be free.
    pub makespan_s: Vec<f64>,
}

/// All windows, and what they add up to.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct OfflineAnswer {
    /// The trace.
    pub(crate) trace: String,
    /// The device.
    pub(crate) device: String,
    /// I/Os of all windows.
    pub(crate) ios: u64,
    /// Least time to move the bytes of all windows.
    pub(crate) transfer_bound_s: f64,
    /// Time of all windows in the best order.
    pub(crate) best_s: f64,
    /// Each scheduler, in the order that was asked for.
    pub(crate) policies: Vec<PolicyTotal>,
    /// Each window.
    pub(crate) rows: Vec<Window>,
}

/// How long a scheduler takes for all windows.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PolicyTotal {
    /// The scheduler.
    pub(crate) policy: String,
    /// Its time.
    pub(crate) makespan_s: f64,
    /// That time over the time in the best order.
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

/// Neighbours joined.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Joined {
    op: Op,
    offset: u64,
    end: u64,
}

/// Runs of `requests` in order of arrival, until there would be more than `ios_max`; and how many
/// requests they hold.
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

/// When `device`, free at `now`, is done with `run`.
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

/// The least time in which `device` serves all of `runs`, one after the other.
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

/// The placed requests that move data, all at the start of time.
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

/// `requests` as a trace.
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

/// Refuses a device that serves several I/Os at once.
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

/// The best order and each of `policies` on `windows` windows of `ios_max` I/Os, evenly over `input`. Time and memory
/// double with each I/O of a window, because the search visits all sets of them.
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
        let told = Told { doing: "searching for the best orders".to_string(), done_share };
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

    /// Offsets all over a disk of 250 GB, by a multiplicative sequence.
    fn scattered(count: u64) -> Vec<Request> {
        let offset =
            |index: u64| (index + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) % 48_000_000 * 4096;
        let op = |index: u64| if index.is_multiple_of(3) { Op::Write } else { Op::Read };
        (0..count).map(|index| request(op(index), offset(index), 65536)).collect()
    }

    /// Every order, tried.
    fn brute(device: &DeviceModel, now: Nanos, runs: &[Joined]) -> Nanos {
        let after = |at: usize| {
            let (mut device, mut rest) = (device.clone(), runs.to_vec());
            let done = serve(&mut device, now, rest.remove(at));
            brute(&device, done, &rest)
        };
        (0..runs.len()).map(after).min().unwrap_or(now)
    }

    #[test]
    fn neighbours_are_joined_on_both_sides() {
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
        let stop = &mut |_: &Told| ControlFlow::Break(());
        let stopped = windows(&input, &device, &policies, (5, 7), stop);
        assert!(matches!(stopped, Err(Error::Stopped)));
    }

    #[test]
    fn a_drive_with_a_queue_is_refused() {
        let said = check(&devices::open("sata250").unwrap()).unwrap_err().to_string();
        assert!(said.contains("sata250: got a device") && said.contains("NAME:plain"), "{said}");
    }
}
