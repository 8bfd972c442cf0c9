//! Tests the laws of contents on write-back caches that are drained while in use: after that, the
//! disk alone has all data, and whenever the power is cut, nothing durable is lost.

use forebay_core::cache::{Cache, Lru, S3Fifo};
use forebay_core::catalog::build;
use forebay_core::contract::policy::{AnyPolicy, Cx};
use forebay_core::contract::volume::VolumeOrder;
use forebay_core::stack::Pairing;
use forebay_core::stack::cached::{Bound, Cached, Writing};
use forebay_core::stack::placed::Placed;
use forebay_core::{Bytes, Completion, Flags, Lane, Nanos, Op, Piece, Policy, Request};
use forebay_live::run;
use forebay_rig::{Crash, Medium, Tear, Troubles};

use crate::laws::oracle::{Mix, Oracle};

/// The number of sectors of the disk.
pub(crate) const SECTORS: u64 = 256;

/// A cache of a few blocks of 2048 bytes that is drained from its `after`-th request on.
struct Drained<C> {
    cache: Placed<Cached<C>, AnyPolicy>,
    after: u64,
    asked: u64,
}

impl<C: Cache> Drained<C> {
    fn new(cache: C, after: u64) -> Drained<C> {
        let pairing = Pairing { pair: 9 << 64, newest: 0, is_forced: false };
        let bound = Bound { id: 5, pairing, disk_bytes: SECTORS * 512, formats: true };
        let cached = Cached::new(cache, 2048, Writing::Back, 1).surviving(bound);
        let lanes = ["noop", "none"].map(|spec| build(spec, 1 << 20).unwrap());
        Drained { cache: Placed::over(cached, lanes.into()), after, asked: 0 }
    }

    /// Returns how many blocks only the flash has, according to its log.
    fn named(&self) -> f64 {
        self.cache.gauges().iter().find(|gauge| gauge.name == "log_named").unwrap().value
    }
}

pub(crate) fn lru(after: u64) -> Box<dyn Policy> {
    Box::new(Drained::new(Lru::new(6), after))
}

pub(crate) fn s3fifo(after: u64) -> Box<dyn Policy> {
    Box::new(Drained::new(S3Fifo::new(40), after))
}

impl<C: Cache> Policy for Drained<C> {
    fn submit(&mut self, cx: &mut Cx<'_>, request: Request, bytes: Bytes) {
        self.asked += 1;
        if self.asked == self.after {
            assert_eq!(self.cache.order(cx.now, &VolumeOrder::Drain), Ok(()));
        }
        self.cache.submit(cx, request, bytes);
    }
    fn dispatch(&mut self, now: Nanos, lane: Lane) -> Option<Request> {
        self.cache.dispatch(now, lane)
    }
    fn complete(&mut self, cx: &mut Cx<'_>, done: &Completion) {
        self.cache.complete(cx, done);
    }
    fn wakeup(&self) -> Option<Nanos> {
        self.cache.wakeup()
    }
    fn wake(&mut self, cx: &mut Cx<'_>) {
        self.cache.wake(cx);
    }
    fn pieces(&self, io: &Request, each: &mut dyn FnMut(Piece)) {
        self.cache.pieces(io, each);
    }
}

/// Runs random requests on a cache that is drained in the middle, until its log is empty; then
/// reads everything from the disk alone.
fn is_on_the_disk<C: Cache>(cache: C, seed: u64, troubles: Troubles) {
    let mix = Mix { disks: 1, sectors: SECTORS, unit: 8, trims: true, anything_from: SECTORS };
    let mut oracle = Oracle::new(mix, 0, seed);
    let mut policy = Drained::new(cache, 200 + seed * 7);
    let media = vec![Medium::new(seed), Medium::new(!seed)];
    let mut lanes = Crash::new(media, 512, 4, seed, troubles);
    oracle.more(600);
    run(&mut policy, &mut lanes, &mut oracle, &mut ()).unwrap();
    lanes.soothe();
    for round in 0.. {
        assert!(round < 200, "seed {seed}: {} blocks are left", policy.named());
        // Requests give the cache time, and tell it that the disk works again.
        oracle.ask(&[(Op::Read, Flags::NONE, 100, 1), (Op::Flush, Flags::NONE, 0, 0)]);
        run(&mut policy, &mut lanes, &mut oracle, &mut ()).unwrap();
        if policy.named() == 0.0 {
            break;
        }
    }
    let disk = lanes.cut(Tear::Page).swap_remove(0);
    oracle.cut();
    let mut lanes = Crash::new(vec![disk], 512, 4, seed, Troubles::default());
    let failed = oracle.failed;
    oracle.settle();
    run(&mut *build("noop", 1 << 20).unwrap(), &mut lanes, &mut oracle, &mut ()).unwrap();
    assert_eq!((oracle.failed, oracle.outstanding()), (failed, 0), "seed {seed}");
}

#[test]
fn after_draining_the_disk_alone_has_all_data() {
    for seed in 0..40 {
        is_on_the_disk(Lru::new(6), seed, Troubles::default());
        is_on_the_disk(S3Fifo::new(40), seed, Troubles::default());
        // Some writes to the disk fail.
        let failing = Troubles { lane: Some(0), writes_one_in: 10, ..Troubles::default() };
        is_on_the_disk(Lru::new(40), seed, failing);
    }
}
