//! A reference implementation of C-LOOK, which sorts a list for every decision.

use forebay_core::contract::Bare;
use forebay_core::elevator::{BlockLayer, CLook, Limits};
use forebay_core::{Nanos, Op, Policy, Request};
use proptest::prelude::*;

use super::{complete, request};

/// A straightforward C-LOOK that sorts the waiting requests for every decision.
struct PlainCLook {
    bound: Nanos,
    /// The waiting requests, oldest first. A merged request has the position of its older part.
    waiting: Vec<Request>,
    position: u64,
}

impl PlainCLook {
    fn touching(&self, op: Op, place: impl Fn(&Request) -> bool) -> Option<usize> {
        self.waiting.iter().position(|r| r.op == op && place(r))
    }

    /// Adds a bio that overlaps no request of its direction. It is merged with the requests before
    /// and after it, if there are any.
    fn submit(&mut self, bio: Request) {
        let before = self.touching(bio.op, |r| r.end() == bio.offset);
        let after = self.touching(bio.op, |r| r.offset == bio.end());
        let (Some(place), other) = (before.or(after), before.and(after)) else {
            return self.waiting.push(bio);
        };
        let old = self.waiting[place];
        let mut whole =
            Request { offset: old.offset.min(bio.offset), len: old.len + bio.len, ..old };
        let Some(other) = other else {
            self.waiting[place] = whole;
            return;
        };
        whole.len += self.waiting[other].len;
        whole.at = whole.at.min(self.waiting[other].at);
        self.waiting[place.min(other)] = whole;
        self.waiting.remove(place.max(other));
    }

    fn take(&mut self, now: Nanos) -> Option<Request> {
        let oldest = *self.waiting.first()?;
        let mut sorted = self.waiting.clone();
        sorted.sort_by_key(|r| (r.offset < self.position, r.offset));
        let chosen = if oldest.at + self.bound <= now { oldest } else { sorted[0] };
        self.waiting.retain(|r| r.id != chosen.id);
        self.position = chosen.offset;
        Some(chosen)
    }
}

proptest! {
    #[test]
    fn clook_agrees_with_sorting_a_list(
        steps in prop::collection::vec((1u64..40, 0u64..60, any::<bool>(), 0u32..3), 1..300),
        bound in 0u64..1500,
        merging in any::<bool>(),
    ) {
        let limits = Limits { merging, reads_max: 1000, writes_max: 1000, ..Limits::default() };
        let mut layer = BlockLayer::new(CLook::new(Nanos(bound)), limits);
        let mut plain = PlainCLook { bound: Nanos(bound), waiting: Vec::new(), position: 0 };
        let mut now = Nanos::ZERO;
        for (id, (gap, place, write, takes)) in steps.into_iter().enumerate() {
            now += Nanos(gap);
            let op = if write { Op::Write } else { Op::Read };
            // If merging is on, requests are adjacent, with reads and writes in separate areas so
            // that no two start at the same byte. Otherwise there are gaps between requests.
            let offset = place * if merging { 10 } else { 20 } + if write { 10_000 } else { 0 };
            let new = request(id as u64, now, offset, 10, op);
            if plain.touching(op, |r| r.offset < new.end() && new.offset < r.end()).is_none() {
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

/// Returns the order in which reads of ten bytes are dispatched, if all are submitted at time 0 and
/// dispatched at the times `taken_at` in ns.
fn given(spec: &str, offsets: &[u64], taken_at: &[u64]) -> Vec<u64> {
    let mut layer = forebay_core::catalog::build(spec, u32::MAX).unwrap();
    for (id, &offset) in offsets.iter().enumerate() {
        layer.submit_bare(Nanos::ZERO, request(id as u64, Nanos::ZERO, offset, 10, Op::Read));
    }
    let ios = taken_at.iter().map(|&at| layer.dispatch(Nanos(at), 0).unwrap());
    ios.map(|io| io.offset).collect()
}

#[test]
fn a_sweep_turns_at_the_last_request_and_the_bound_breaks_it() {
    let offsets = [500, 100, 900, 300];
    assert_eq!(given("clook", &offsets, &[0; 4]), [100, 300, 500, 900]);
    // From 5 us on, the oldest request is served first, and the sweep continues upwards from there.
    let bounded = "clook:bound-ms=0.005";
    assert_eq!(given(bounded, &offsets, &[0, 4_999, 4_999, 4_999]), [100, 300, 500, 900]);
    assert_eq!(given(bounded, &offsets, &[0, 5_000, 4_999, 4_999]), [100, 500, 900, 300]);
}
