//! Tests that idling pays off on a disk: a sequential reader with short think times keeps its
//! throughput while other streams read at random.

use std::collections::BinaryHeap;

use forebay_core::catalog::build;
use forebay_core::{Done, Flags, Nanos, Observer, Op, Request, Slots, Workload, simulate};

use crate::load;

const LEN: u32 = 64 << 10;
const THINK: Nanos = Nanos::from_micros(500);
const END: Nanos = Nanos::from_secs(20);

/// Stream 0 reads sequentially and pauses after each completion. Streams 1 to 4 read at random
/// without a pause, each with one request outstanding.
struct Readers {
    due: BinaryHeap<std::cmp::Reverse<(Nanos, u32, u64)>>,
    asked: u64,
    state: u64,
}

impl Readers {
    fn new() -> Readers {
        let first =
            (0..5).map(|stream| std::cmp::Reverse((Nanos::ZERO, stream, u64::from(stream) << 36)));
        Readers { due: first.collect(), asked: 0, state: 1 }
    }
}

impl Workload for Readers {
    fn peek(&self) -> Option<Nanos> {
        self.due.peek().map(|due| due.0.0)
    }
    fn take(&mut self) -> Request {
        let (at, stream, offset) = self.due.pop().expect("peeked").0;
        self.asked += 1;
        let (op, flags) = (Op::Read, Flags::NONE);
        Request { at, offset, id: self.asked, len: LEN, stream, lane: 0, op, flags }
    }
    fn finished(&mut self, now: Nanos, done: &Done, _slots: &mut dyn Slots) {
        if now >= END {
            return;
        }
        let anywhere =
            load::random(&mut self.state) % (900 << 30) / u64::from(LEN) * u64::from(LEN);
        let next = match done.request.stream {
            0 => (now + THINK, 0, done.request.end()),
            stream => (now, stream, anywhere),
        };
        self.due.push(std::cmp::Reverse(next));
    }
}

/// The bytes read by the sequential reader and by all others.
#[derive(Default)]
struct Bytes([u64; 2]);

impl Observer for Bytes {
    fn finished(&mut self, _now: Nanos, done: &Done) {
        self.0[usize::from(done.request.stream > 0)] += u64::from(done.request.len);
    }
}

/// Returns the throughput in MiB/s of the sequential reader and of all others.
fn rates(spec: &str) -> [f64; 2] {
    let mut policy = build(spec, u32::MAX).unwrap();
    let mut bytes = Bytes::default();
    simulate::run(&mut policy, &mut [load::disk()], &mut Readers::new(), &mut bytes);
    bytes.0.map(|bytes| bytes as f64 / f64::from(1 << 20) / END.as_secs_f64())
}

#[test]
fn waiting_keeps_a_sequential_readers_throughput() {
    let waiting = ["anticipatory", "cfq:low-latency=no", "bfq:low-latency=no", "forebay"];
    let not = [
        "anticipatory:antic-expire-ms=0",
        "cfq:slice-idle-ms=0:low-latency=no",
        "bfq:slice-idle-ms=0:low-latency=no",
        "forebay:wait-ms=0",
    ];
    for (spec, hasty) in waiting.iter().zip(not) {
        let ([with, others], [without, _]) = (rates(spec), rates(hasty));
        assert!(with > 5.0 * without, "{spec}: {with:.1} MiB/s, and {without:.1} without waiting");
        assert!(others > 0.1, "{spec}: the others get {others:.2} MiB/s");
    }
}
