//! Tests of deadline and mq-deadline: a reference implementation that searches plain lists for
//! every decision, and cases for Linux's rules.

use forebay_core::catalog::build;
use forebay_core::contract::Bare;
use forebay_core::elevator::{BlockLayer, Deadline, DeadlineConfig, Limits};
use forebay_core::{Nanos, Op, Policy, Request};
use proptest::prelude::*;

use super::{complete, request};

/// A straightforward deadline and mq-deadline, which search plain lists for every decision.
struct PlainDeadline {
    config: DeadlineConfig,
    /// The waiting requests in FIFO order.
    waiting: Vec<Request>,
    given: Vec<Request>,
    /// For deadline, the id of the request that continues the batch, determined at each dispatch.
    next: Option<u64>,
    batched: u32,
    starved: u32,
}

impl PlainDeadline {
    fn new(config: DeadlineConfig) -> PlainDeadline {
        let (waiting, given) = (Vec::new(), Vec::new());
        PlainDeadline { config, waiting, given, next: None, batched: 0, starved: 0 }
    }

    fn touches(&self, op: Op, place: impl Fn(&Request) -> bool) -> Option<usize> {
        self.waiting.iter().position(|r| r.op == op && place(r))
    }

    /// Adds a bio that overlaps no request of its direction, merging it if possible.
    fn submit(&mut self, bio: Request) {
        let Request { op, offset, .. } = bio;
        let before = self.touches(op, |r| r.end() == offset);
        let after = self.touches(op, |r| r.offset == bio.end());
        match (before, after) {
            (Some(kept), gone) => {
                self.waiting[kept].len += bio.len;
                gone.into_iter().for_each(|gone| self.join(kept, gone));
            }
            (None, Some(after)) => {
                self.waiting[after].offset = offset;
                self.waiting[after].len += bio.len;
            }
            (None, None) => self.waiting.push(bio),
        }
    }

    /// Joins two adjacent requests. The result has the position of the older one in the FIFO. If
    /// the removed request was the next of the batch, the request above it becomes the next.
    fn join(&mut self, kept: usize, gone: usize) {
        let (mut one, other) = (self.waiting[kept], self.waiting[gone]);
        if self.next == Some(other.id) {
            self.next = self.above(other.op, other.end()).map(|r| r.id);
        }
        one.len += other.len;
        one.at = one.at.min(other.at);
        let older = other.at < self.waiting[kept].at;
        let (place, leaves) = if older { (gone, kept) } else { (kept, gone) };
        self.waiting[place] = one;
        self.waiting.remove(leaves);
    }

    fn above(&self, op: Op, offset: u64) -> Option<Request> {
        let same = self.waiting.iter().filter(|r| r.op == op);
        same.filter(|r| r.offset >= offset).min_by_key(|r| r.offset).copied()
    }

    /// Returns the request that continues a batch of direction `op`.
    fn next(&self, op: Op) -> Option<Request> {
        if self.config.resumes {
            return self.above(op, self.given.iter().rfind(|r| r.op == op)?.offset);
        }
        self.waiting.iter().find(|r| r.op == op && Some(r.id) == self.next).copied()
    }

    fn oldest(&self, op: Op) -> Option<Request> {
        self.waiting.iter().find(|r| r.op == op).copied()
    }

    fn choose(&mut self, now: Nanos) -> Option<Request> {
        if self.batched < self.config.fifo_batch
            && let Some(last) = self.given.last()
            && let Some(next) = self.next(last.op)
        {
            return Some(next);
        }
        let (reads, writes) = (self.oldest(Op::Read), self.oldest(Op::Write));
        let oldest = match (reads, writes) {
            (Some(read), Some(write)) => {
                if self.starved >= self.config.writes_starved {
                    self.starved = 0;
                    write
                } else {
                    self.starved += 1;
                    read
                }
            }
            (Some(read), None) => read,
            (None, write) => {
                self.starved = 0;
                write?
            }
        };
        let expire = match oldest.op {
            Op::Read => self.config.read_expire,
            _ => self.config.write_expire,
        };
        self.batched = 0;
        match self.next(oldest.op) {
            Some(next) if oldest.at + expire > now => Some(next),
            _ => Some(oldest),
        }
    }

    fn take(&mut self, now: Nanos) -> Option<Request> {
        let chosen = self.choose(now)?;
        self.waiting.retain(|r| r.id != chosen.id);
        self.next = self.above(chosen.op, chosen.offset).map(|r| r.id);
        self.given.push(chosen);
        self.batched += 1;
        Some(chosen)
    }
}

/// Returns the offset and length of each dispatched read. In `steps`, `Some` submits a read of ten
/// bytes and `None` dispatches one.
fn order(spec: &str, steps: &[Option<u64>]) -> Vec<(u64, u32)> {
    let mut layer = build(spec, u32::MAX).expect("it is listed");
    let mut given = Vec::new();
    for (id, step) in steps.iter().enumerate() {
        let now = Nanos(id as u64);
        match *step {
            Some(offset) => {
                layer.submit_bare(now, request(id as u64, now, offset, 10, Op::Read));
            }
            None => given.extend(layer.dispatch(now, 0).map(|io| (io.offset, io.len))),
        }
    }
    given
}

#[test]
fn deadline_chooses_the_next_request_at_each_dispatch() {
    // A request that arrives below the next one waits for the next sweep.
    let late = [Some(0), Some(30), None, Some(15), None, None];
    assert_eq!(order("deadline", &late), [(0, 10), (30, 10), (15, 10)]);
    assert_eq!(order("mq-deadline", &late), [(0, 10), (15, 10), (30, 10)]);
    // The next request grows downwards and remains the next.
    let grows = [Some(0), Some(50), None, Some(20), Some(40), None, None];
    assert_eq!(order("deadline", &grows), [(0, 10), (40, 20), (20, 10)]);
    // The next request is merged into the one below it. The one above it is dispatched next, and
    // then the oldest.
    let joined =
        [Some(0), Some(40), Some(80), None, Some(20), Some(30), None, Some(95), None, None];
    assert_eq!(order("deadline", &joined), [(0, 10), (80, 10), (20, 30), (95, 10)]);
    // No request is above the merged one, so the next sweep starts at the oldest.
    let last = [Some(0), Some(40), None, Some(20), Some(30), Some(90), None, None];
    assert_eq!(order("deadline", &last), [(0, 10), (20, 30), (90, 10)]);
}

#[test]
fn above_is_by_first_byte() {
    let overlap = [Some(0), None, Some(30), Some(5), None, None];
    assert_eq!(order("mq-deadline", &overlap), [(0, 10), (5, 10), (30, 10)]);
    // No request was above the first one when it was dispatched, so deadline starts a new batch
    // with the oldest.
    assert_eq!(order("deadline", &overlap), [(0, 10), (30, 10), (5, 10)]);
}

#[test]
fn a_batch_starts_at_the_oldest_from_the_moment_it_expires() {
    // Each step takes 1 ns. The read at 50 arrives at 2 ns and expires at 6 ns.
    let spec = "mq-deadline:fifo-batch=1:read-expire-ms=0.000004";
    let at_5 = [Some(100), None, Some(50), Some(200), Some(300), None];
    assert_eq!(order(spec, &at_5), [(100, 10), (200, 10)]);
    let at_6 = [Some(100), None, Some(50), Some(200), Some(300), Some(400), None];
    assert_eq!(order(spec, &at_6), [(100, 10), (50, 10)]);
    // Expiry is not checked within a batch.
    let batch = "mq-deadline:fifo-batch=2:read-expire-ms=0.000004";
    assert_eq!(order(batch, &at_6), [(100, 10), (200, 10)]);
}

#[test]
fn mq_deadline_resumes_its_reads_after_writes_and_deadline_does_not() {
    let order = |spec: &str| {
        let mut layer = build(&format!("{spec}:fifo-batch=2:writes-starved=1:merge=no"), u32::MAX)
            .expect("it is listed");
        let reads = [(0, 5000), (1, 1000), (2, 6000), (3, 7000), (4, 8000), (5, 9000)];
        for (id, offset) in reads {
            layer.submit_bare(Nanos::ZERO, request(id, Nanos::ZERO, offset, 1, Op::Read));
        }
        layer.submit_bare(Nanos::ZERO, request(6, Nanos::ZERO, 0, 1, Op::Write));
        std::iter::from_fn(|| layer.dispatch(Nanos::ZERO, 0)).map(|io| io.offset).collect()
    };
    let (deadline, mq_deadline): (Vec<u64>, Vec<u64>) = (order("deadline"), order("mq-deadline"));
    assert_eq!(deadline, [5000, 6000, 0, 1000, 7000, 8000, 9000]);
    assert_eq!(mq_deadline, [5000, 6000, 0, 7000, 8000, 9000, 1000]);
}

proptest! {
    #[test]
    fn deadline_agrees_with_scanning_lists(
        steps in prop::collection::vec((0u64..40, 0u64..60, any::<bool>(), 0u32..3), 1..300),
        fifo_batch in 1u32..6,
        writes_starved in 0u32..4,
        read_expire in 0u64..400,
        write_expire in 0u64..800,
        resumes in any::<bool>(),
        merging in any::<bool>(),
    ) {
        let config = DeadlineConfig {
            read_expire: Nanos(read_expire),
            write_expire: Nanos(write_expire),
            writes_starved,
            fifo_batch,
            resumes,
            ..DeadlineConfig::default()
        };
        let limits = Limits { merging, reads_max: 1000, writes_max: 1000, ..Limits::default() };
        let mut layer = BlockLayer::new(Deadline::new(config), limits);
        let mut plain = PlainDeadline::new(config);
        let mut now = Nanos::ZERO;
        for (id, (gap, place, write, takes)) in steps.into_iter().enumerate() {
            now += Nanos(gap);
            let op = if write { Op::Write } else { Op::Read };
            // If merging is on, requests are adjacent; otherwise there are gaps between them.
            // Waiting requests never overlap.
            let offset = place * if merging { 10 } else { 20 };
            let new = request(id as u64, now, offset, 10, op);
            if plain.touches(op, |r| r.offset < new.end() && new.offset < r.end()).is_none() {
                layer.submit_bare(now, new);
                plain.submit(new);
            }
            for _ in 0..takes {
                let given = layer.dispatch(now, 0);
                let expected = plain.take(now);
                let told = |io: Request| (io.op, io.offset, io.len);
                prop_assert_eq!(given.map(told), expected.map(told));
                if let Some(io) = given {
                    complete(&mut layer, now, io);
                }
            }
        }
    }
}
