//! Tests the lower bound on the time of any order of service: it enumerates all orders of a few
//! pieces, with adjacent pieces joined or not, and with pauses.

use forebay_core::device::hdd::{Hdd, OrderBound, Pieces};
use forebay_core::{Device, Nanos, Op, Request};
use proptest::prelude::*;

use super::hdd::spec;
use super::request;

fn bound(disk: &Hdd, pieces: &[Request]) -> OrderBound {
    let mut all = Pieces::new(disk);
    pieces.iter().for_each(|piece| all.add(piece));
    all.bound().unwrap()
}

/// Enumerates all orders of `left`, in which each piece is a separate I/O, follows a pause, or
/// extends `open`, and keeps the least makespan and busy time.
struct Orders<'a> {
    pauses: &'a [Nanos],
    least: OrderBound,
}

impl Orders<'_> {
    fn serve(&mut self, disk: &Hdd, now: Nanos, busy: Nanos, open: Request, left: &[Request]) {
        for &pause in self.pauses {
            let (mut disk, start) = (disk.clone(), now + pause);
            disk.start(start, open);
            let done = disk.next().unwrap();
            disk.finish(done);
            self.go_on(&disk, done, busy + (done - start), left);
        }
        for at in 0..left.len() {
            let next = left[at];
            if next.op == open.op && next.offset == open.end() {
                let joined = Request { len: open.len + next.len, ..open };
                self.serve(disk, now, busy, joined, &without(left, at));
            }
        }
    }

    fn go_on(&mut self, disk: &Hdd, now: Nanos, busy: Nanos, left: &[Request]) {
        if left.is_empty() {
            self.least.makespan = self.least.makespan.min(now);
            self.least.busy = self.least.busy.min(busy);
        }
        for at in 0..left.len() {
            self.serve(disk, now, busy, left[at], &without(left, at));
        }
    }
}

fn without(all: &[Request], at: usize) -> Vec<Request> {
    let mut left = all.to_vec();
    left.remove(at);
    left
}

fn least(disk: &Hdd, pieces: &[Request], pauses: &[Nanos]) -> OrderBound {
    let least = OrderBound { makespan: Nanos::MAX, busy: Nanos::MAX };
    let mut orders = Orders { pauses, least };
    orders.go_on(disk, Nanos::ZERO, Nanos::ZERO, pieces);
    orders.least
}

/// Generates pieces of a few sectors on a disk of some hundred sectors, so that many are adjacent
/// and some share sectors.
fn pieces() -> impl Strategy<Value = Vec<Request>> {
    let one = (0u64..90, 1u32..7, any::<bool>(), prop::bool::weighted(0.1));
    prop::collection::vec(one, 1..5).prop_map(|rows| {
        let piece = |(id, (place, sectors, write, odd)): (usize, (u64, u32, bool, bool))| {
            let op = if write { Op::Write } else { Op::Read };
            let (offset, len) = (place * 512 + u64::from(odd) * 100, sectors * 512);
            request(id as u64, Nanos::ZERO, offset, len, op)
        };
        rows.into_iter().enumerate().map(piece).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn no_order_is_below_the_bound(spec in spec(), pieces in pieces(), pause_us in 1u64..1_500) {
        let disk = Hdd::new(spec).unwrap();
        prop_assume!(pieces.iter().all(|piece| piece.end() <= disk.capacity()));
        let bound = bound(&disk, &pieces);
        let least = least(&disk, &pieces, &[Nanos::ZERO, Nanos::from_micros(pause_us)]);
        prop_assert!(bound.makespan <= least.makespan, "{bound:?}, {least:?}");
        prop_assert!(bound.busy <= least.busy, "{bound:?}, {least:?}");
        prop_assert!(bound.busy <= bound.makespan);
    }
}

#[test]
fn the_bound_is_tight_if_each_request_follows_its_best_predecessor() {
    let disk = Hdd::new(super::sptf::any_spec()).unwrap();
    let read = |id, sector: u64| request(id, Nanos::ZERO, sector * 512, 512, Op::Read);
    let takes = |pieces: &[Request]| bound(&disk, pieces).makespan;
    let floor = |pieces: &[Request]| pieces.iter().map(|io| disk.floor(io).0).sum::<u64>();
    let one = [read(0, 3)];
    assert_eq!(takes(&one).0, floor(&one), "nothing is known of what comes before the first");
    let run = [read(0, 3), read(1, 5), read(2, 4)];
    assert_eq!(takes(&run).0, floor(&run), "those that touch cost their transfer");
    // With two pieces, the bound is that of the cheaper order, not the sum over both.
    let two = [read(0, 0), read(1, 7)];
    let from_the_first = least(&disk, &two, &[Nanos::ZERO]).makespan;
    assert!(takes(&two).0 > floor(&two) && takes(&two) <= from_the_first);
    let mut beyond = Pieces::new(&disk);
    beyond.add(&read(0, disk.capacity() / 512));
    assert!(beyond.len() == 1 && !beyond.is_empty() && beyond.bound().is_none());
}
