//! A reference implementation of BID-HDD: Algorithms 1 and 2 as the **bid** paper states them. It
//! keeps no derived state and searches all queues for every decision.

use forebay_core::contract::Bare;
use forebay_core::elevator::{Bid, BidConfig, BlockLayer, Limits};
use forebay_core::{Nanos, Op, Policy, Request};
use proptest::prelude::*;

use super::{complete, request};

/// The staging queue of a process.
struct StagingQueue {
    process: u32,
    serial: u64,
    /// The arrival times of sets of requests; requests that arrive at the same time form a set.
    sets: Vec<Nanos>,
    deadline: Nanos,
    marked: bool,
}

impl StagingQueue {
    /// Returns the weighted mean of the last k gaps between sets. The newest gap has weight k, the
    /// oldest 1.
    fn wait(&self, config: &BidConfig) -> Nanos {
        let gaps: Vec<u64> = self.sets.windows(2).map(|pair| (pair[1] - pair[0]).0).collect();
        let k = config.history as usize;
        if gaps.len() < k {
            return config.wait_default;
        }
        let weighted = gaps[gaps.len() - k..].iter().zip(1..);
        let sum: u64 = weighted.map(|(gap, weight)| gap * weight).sum();
        Nanos(sum / (1..=k as u64).sum::<u64>())
    }

    fn expiry(&self, config: &BidConfig) -> Nanos {
        let newest = *self.sets.last().expect("a request made the queue");
        (newest + self.wait(config)).min(self.deadline)
    }

    fn enqueue(&mut self, now: Nanos, op: Op, config: &BidConfig) {
        if self.sets.last() != Some(&now) {
            self.sets.push(now);
        }
        if op == Op::Read {
            self.deadline = self.deadline.min(now + config.read_deadline);
        }
    }
}

/// A request, merged from one or more bios: its bytes from `start` to `end`, and its staging queue
/// (None once it is to be dispatched).
#[derive(Clone, Copy, Debug)]
struct Waiting {
    start: u64,
    end: u64,
    op: Op,
    staged_in: Option<u64>,
}

struct PlainBid {
    config: BidConfig,
    merging: bool,
    staging: Vec<StagingQueue>,
    /// The serial numbers of the marked queues, in the order in which they were marked.
    marked: Vec<u64>,
    staged: Vec<Waiting>,
    dispatch: Vec<Waiting>,
    serial: u64,
}

impl PlainBid {
    fn new(config: BidConfig, merging: bool) -> PlainBid {
        let (staging, marked, staged, dispatch) = Default::default();
        PlainBid { config, merging, staging, marked, staged, dispatch, serial: 0 }
    }

    /// Returns the position of a request for which `is` holds: whether it is staged, and its index.
    fn find(&self, is: impl Fn(&Waiting) -> bool) -> Option<(bool, usize)> {
        let staged = self.staged.iter().position(&is).map(|at| (true, at));
        staged.or_else(|| self.dispatch.iter().position(&is).map(|at| (false, at)))
    }

    fn at(&mut self, (staged, at): (bool, usize)) -> &mut Waiting {
        if staged { &mut self.staged[at] } else { &mut self.dispatch[at] }
    }

    fn take_out(&mut self, (staged, at): (bool, usize)) -> Waiting {
        if staged { self.staged.remove(at) } else { self.dispatch.remove(at) }
    }

    /// Returns the earliest expiry of a queue that is not marked, with the queue's serial number.
    fn next_expiry(&self) -> Option<(Nanos, u64)> {
        let unmarked = self.staging.iter().filter(|queue| !queue.marked);
        unmarked.map(|queue| (queue.expiry(&self.config), queue.serial)).min()
    }

    /// Algorithm 1's timers: marks each queue when the first of its timers expires, in order of
    /// expiry.
    fn mark(&mut self, now: Nanos) {
        while let Some((_, serial)) = self.next_expiry().filter(|&(at, _)| at <= now) {
            let place = self.staging.iter().position(|queue| queue.serial == serial).unwrap();
            self.staging[place].marked = true;
            self.marked.push(serial);
            // All requests of the queue were merged into others, so there is nothing to flush.
            if !self.staged.iter().any(|it| it.staged_in == Some(serial)) {
                self.forget(serial);
            }
        }
    }

    fn forget(&mut self, serial: u64) {
        self.staging.retain(|queue| queue.serial != serial);
        self.marked.retain(|&other| other != serial);
    }

    fn submit(&mut self, now: Nanos, bio: Request) {
        self.mark(now);
        if self.merging && self.merge(now, &bio) {
            return;
        }
        let (process, config) = (bio.stream, self.config);
        if !self.staging.iter().any(|queue| queue.process == process) {
            self.serial += 1;
            self.staging.push(StagingQueue {
                process,
                serial: self.serial,
                sets: Vec::new(),
                deadline: now + config.write_deadline,
                marked: false,
            });
        }
        let queue = self.staging.iter_mut().find(|queue| queue.process == process).unwrap();
        queue.enqueue(now, bio.op, &config);
        let staged_in = Some(queue.serial);
        self.staged.push(Waiting { start: bio.offset, end: bio.end(), op: bio.op, staged_in });
    }

    /// "If it can be merged with any existing requests, it is merged", regardless of the process.
    fn merge(&mut self, now: Nanos, bio: &Request) -> bool {
        let (op, start, end) = (bio.op, bio.offset, bio.end());
        let before = self.find(|it| it.op == op && it.end == start);
        let Some(grown) = before.or_else(|| self.find(|it| it.op == op && it.start == end)) else {
            return false;
        };
        self.at(grown).start = self.at(grown).start.min(start);
        self.at(grown).end = self.at(grown).end.max(end);
        let (whole, config) = (*self.at(grown), self.config);
        if let Some(serial) = whole.staged_in {
            let queue = self.staging.iter_mut().find(|queue| queue.serial == serial).unwrap();
            queue.enqueue(now, op, &config);
        }
        let below = self.find(|it| it.op == op && it.end == whole.start);
        let above = self.find(|it| it.op == op && it.start == whole.end);
        // If the grown request now touches another, the two are joined into the lower one.
        match (before.is_some(), below, above) {
            (true, _, Some(above)) => self.join(grown, above),
            (false, Some(below), _) => self.join(below, grown),
            _ => {}
        }
        true
    }

    /// Joins two adjacent requests. If either is to be dispatched, the result takes its place in
    /// the dispatch list; otherwise that of the lower one.
    fn join(&mut self, lower: (bool, usize), upper: (bool, usize)) {
        let (low, up) = (*self.at(lower), *self.at(upper));
        let staged_in = if up.staged_in.is_none() { None } else { low.staged_in };
        let whole = Waiting { end: up.end, staged_in, ..low };
        let (stays, goes) = if lower.0 && !upper.0 { (upper, lower) } else { (lower, upper) };
        *self.at(stays) = whole;
        self.take_out(goes);
    }

    /// Algorithm 2: flushes the queue that was marked first, ordered by address and complete,
    /// before the next queue.
    fn take(&mut self, now: Nanos) -> Option<Waiting> {
        self.mark(now);
        while self.dispatch.is_empty() && !self.marked.is_empty() {
            let serial = self.marked[0];
            let of_it = |it: &Waiting| it.staged_in == Some(serial);
            self.dispatch = self.staged.iter().copied().filter(of_it).collect();
            self.staged.retain(|it| !of_it(it));
            self.dispatch.sort_by_key(|it| it.start);
            self.dispatch.iter_mut().for_each(|it| it.staged_in = None);
            self.forget(serial);
        }
        (!self.dispatch.is_empty()).then(|| self.dispatch.remove(0))
    }
}

fn config() -> impl Strategy<Value = BidConfig> {
    let history = prop_oneof![4 => 1u32..6, 1 => Just(31), 1 => Just(32)];
    let wait = prop_oneof![3 => 0u64..40, 1 => 200u64..2_000];
    let deadline = prop_oneof![3 => 1u64..300, 1 => Just(100_000)];
    (history, wait, deadline, 0u64..500).prop_map(|(history, wait, read, longer)| BidConfig {
        history,
        wait_default: Nanos(wait),
        read_deadline: Nanos(read),
        write_deadline: Nanos(read + longer),
    })
}

/// A request and what follows: the pause before it, its offset, whether it writes, its process, and
/// the number of dispatches after it.
type Step = (u64, u64, bool, u32, u32);

/// Runs the steps on both implementations and compares their dispatches.
fn compare(steps: Vec<Step>, config: BidConfig, merging: bool) -> Result<(), TestCaseError> {
    let limits = Limits { merging, reads_max: 1000, writes_max: 1000, ..Limits::default() };
    let mut layer = BlockLayer::new(Bid::new(config), limits);
    let mut plain = PlainBid::new(config, merging);
    let mut now = Nanos::ZERO;
    for (id, (gap, place, write, stream, takes)) in steps.into_iter().enumerate() {
        now += Nanos(gap);
        let op = if write { Op::Write } else { Op::Read };
        // If merging is on, requests are adjacent; otherwise there are gaps between them.
        // Outstanding requests never overlap.
        let offset = place * if merging { 10 } else { 20 };
        let bio = Request { stream, ..request(id as u64, now, offset, 10, op) };
        if plain.find(|it| it.start < bio.end() && bio.offset < it.end).is_none() {
            layer.submit_bare(now, bio);
            plain.submit(now, bio);
        }
        for _ in 0..takes {
            let given = layer.dispatch(now, 0);
            let expected = plain.take(now);
            let told = expected.map(|it| (it.op, it.start, it.end));
            prop_assert_eq!(given.map(|io| (io.op, io.offset, io.end())), told, "at {}", now);
            match (given, plain.next_expiry()) {
                (Some(io), _) => complete(&mut layer, now, io),
                (None, Some((at, _))) => {
                    let wakes = layer.wakeup().expect("a timer runs");
                    prop_assert!(now < wakes && wakes <= at, "{wakes} for {at}");
                }
                (None, None) => {}
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn bid_does_what_the_algorithms_say(
        mut steps in prop::collection::vec(
            (prop_oneof![0u64..2, 0u64..15, 0u64..80], 0u64..60, any::<bool>(), 0u32..4, 0u32..3),
            1..300,
        ),
        config in config(),
        streams in 1u32..5,
        merging: bool,
    ) {
        steps.iter_mut().for_each(|step| step.3 %= streams);
        compare(steps, config, merging)?;
    }

    /// With shrinking gaps, none reaches the wait, so the queue is never flushed and its history
    /// grows.
    #[test]
    fn bid_forgets_the_oldest_of_many_gaps(
        falls in prop::collection::vec(1u64..9, 1..150),
        history in 1u32..33,
    ) {
        let mut gap = 2_000;
        let steps = falls.into_iter().zip(0..).map(|(fall, place)| {
            gap -= fall;
            (gap, place, true, 0, 1)
        });
        let longer = Nanos(10_000);
        let config = BidConfig { history, wait_default: longer, ..BidConfig::default() };
        let mut steps: Vec<Step> = steps.collect();
        // Then time passes without requests until the wait has expired.
        steps.extend((0..2_000).map(|_| (1, 0, true, 1, 1)));
        compare(steps, config, false)?;
    }
}
