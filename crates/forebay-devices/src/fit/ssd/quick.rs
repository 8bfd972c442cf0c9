//! Simulates the reads or the writes of a fitted drive, without the translation layer, the buffer
//! and the state of each page that [`Ssd`](forebay_core::device::ssd::Ssd) has: a search needs
//! thousands of runs. A test compares both.

use std::collections::VecDeque;

use forebay_core::Op;

use super::side::{CHANNEL_MB_PER_S, Side};
use crate::random::Random;

/// The drive's properties that are known during a fit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub(super) op: Op,
    /// The number of commands that the drive accepts.
    pub(super) queue_depth: u16,
    pub(super) link_bytes_per_s: u64,
    /// The size of each I/O.
    pub(super) block_bytes: u32,
}

/// The result of a run, with times in us.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Simulated {
    pub(super) iops: f64,
    pub(super) mean_us: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
}

/// The data that a die reads or programs at once.
const ROW_BYTES: u32 = 32 << 10;

/// Events as pairs of a time and a second number, the earliest first. New events are later than
/// most, so moving them up from the end is faster than a heap.
struct Agenda(VecDeque<(u64, u64)>);

impl Agenda {
    fn add(&mut self, at: u64, with: u64) {
        let mut place = self.0.len();
        while place > 0 && self.0[place - 1].0 > at {
            place -= 1;
        }
        self.0.insert(place, (at, with));
    }
}

/// The state of a run. Times are in ns.
struct Run<'a> {
    side: &'a Side,
    known: Known,
    /// The times before and while an I/O occupies a die, of both modes.
    times: [(u64, u64); 2],
    interval: u64,
    transfer: u64,
    on_link: u64,
    controller_free: u64,
    link_free: u64,
    dies_free: Vec<u64>,
    random: Random,
    /// When the host issues the next I/Os.
    issues: Agenda,
    /// I/Os that still have to pass the controller: when they are ready, and when they were issued.
    leaving: Agenda,
    /// When the last I/O passed the controller after the flash.
    left: u64,
    /// The host's time between a completion and the next I/O, and before it notices a completion.
    gap: u64,
    wake: u64,
}

/// Runs I/Os at `depth` in a closed loop, and measures `ios` of them.
pub(super) fn simulate(side: &Side, known: Known, depth: u32, ios: usize) -> Simulated {
    let depth = depth.min(known.queue_depth.into());
    let mut run = Run::new(side, known, depth);
    let warm = ios / 6 + 2 * depth as usize;
    let mut latencies = Vec::with_capacity(ios);
    let (mut begun, mut last) = (0, 0);
    for number in 0..warm + ios {
        let Some((issued, seen)) = run.complete() else { break };
        if number < warm {
            begun = seen;
        } else {
            last = last.max(seen);
            latencies.push(seen - issued);
        }
    }
    summary(latencies, last.saturating_sub(begun))
}

impl Run<'_> {
    fn new(side: &Side, known: Known, depth: u32) -> Run<'_> {
        let time = |us: f64| {
            let whole = us * 1e3;
            let busy = whole * side.busy_share;
            ((whole - busy).round() as u64, busy.round() as u64)
        };
        let channel = |bytes: u32| u64::from(bytes) * 1_000 / CHANNEL_MB_PER_S;
        let transfer =
            if known.op == Op::Read { channel(known.block_bytes.min(ROW_BYTES)) } else { 0 };
        let on_link = u64::from(known.block_bytes) * 1_000_000_000 / known.link_bytes_per_s;
        Run {
            side,
            known,
            times: side.modes_us.map(time),
            interval: (side.interval_us * 1e3).round() as u64,
            transfer,
            on_link,
            controller_free: 0,
            link_free: 0,
            dies_free: vec![0; side.lanes as usize],
            random: Random(7),
            issues: Agenda((0..u64::from(depth)).map(|at| (500 * at, 0)).collect()),
            leaving: Agenda(VecDeque::new()),
            left: 0,
            gap: side.host.gap.0,
            wake: if depth == 1 { side.host.wake.0 } else { 0 },
        }
    }

    /// Advances to the next completion. Returns when the I/O was issued and when the host noticed
    /// its completion.
    fn complete(&mut self) -> Option<(u64, u64)> {
        let (issued, done) = loop {
            let issue = self.issues.0.front();
            if let Some((ready, issued)) = self.leaving.0.front().copied() {
                let leaves = self.left.max(ready) + self.interval;
                if issue.is_none_or(|(at, _)| leaves <= *at) {
                    self.leaving.0.pop_front();
                    self.left = leaves;
                    break (issued, leaves);
                }
            }
            let (at, _) = self.issues.0.pop_front()?;
            let ready = self.serve(at);
            if !self.side.behind {
                break (at, ready);
            }
            self.leaving.add(ready, at);
        };
        let seen = done + self.wake;
        self.issues.add(seen + self.gap, 0);
        Some((issued, seen))
    }

    /// Returns when an I/O that is issued at `now` is ready, apart from passing the controller
    /// after the flash.
    fn serve(&mut self, now: u64) -> u64 {
        let begun = now.max(self.controller_free);
        if !self.side.behind {
            self.controller_free = begun + self.interval;
        }
        if self.known.op == Op::Write {
            let passed = self.pass(begun);
            let lane = self.random.draw();
            return self.occupy(passed, lane);
        }
        let first = self.random.draw();
        let rows = u64::from(self.known.block_bytes.div_ceil(ROW_BYTES));
        let dies = (0..rows).map(|row| first.wrapping_add(row));
        let read = dies.fold(begun, |done, die| done.max(self.occupy(begun, die)));
        (read + self.transfer).max(self.pass(begun))
    }

    /// Returns when the die has completed an I/O of a random mode.
    fn occupy(&mut self, ready: u64, die: u64) -> u64 {
        let share = self.random.share();
        let (before, busy) = self.times[usize::from(share >= self.side.first_share)];
        let dies = self.dies_free.len() as u64;
        let free = &mut self.dies_free[(die % dies) as usize];
        *free = (*free).max(ready + before) + busy;
        *free
    }

    fn pass(&mut self, ready: u64) -> u64 {
        self.link_free = self.link_free.max(ready) + self.on_link;
        self.link_free
    }
}

fn summary(mut latencies: Vec<u64>, elapsed: u64) -> Simulated {
    let count = latencies.len().max(1) as f64;
    let mean_us = latencies.iter().sum::<u64>() as f64 / count / 1e3;
    let mut percentile = |share: f64| {
        let rank = (latencies.len() as f64 * share) as usize;
        latencies.get(rank)?;
        Some(*latencies.select_nth_unstable(rank).1 as f64 / 1e3)
    };
    let [p50_us, p99_us] = [0.5, 0.99].map(|share| percentile(share).unwrap_or(0.0));
    Simulated { iops: count * 1e9 / elapsed.max(1) as f64, mean_us, p50_us, p99_us }
}
