//! A reference implementation of merging, which compares every pair of requests.

use forebay_core::catalog::build;
use forebay_core::contract::Bare;
use forebay_core::elevator::{BlockLayer, Limits, Noop};
use forebay_core::{Nanos, Op, Policy, Request};
use proptest::prelude::*;

use super::request;

/// Merges by comparing every pair: a bio extends the request it is adjacent to, and if the result
/// is adjacent to another request, the two are joined, as far as the maximum length permits.
fn merged_by_hand(bios: &[(u64, u64, Op)], len_max: u64) -> Vec<(u64, u64, Op)> {
    let mut requests: Vec<(u64, u64, Op)> = Vec::new();
    for &(start, end, op) in bios {
        let fits = |a: &(u64, u64, Op), len: u64| a.2 == op && a.1 - a.0 + len <= len_max;
        let back = requests.iter().position(|r| r.1 == start && fits(r, end - start));
        let front = requests.iter().position(|r| r.0 == end && fits(r, end - start));
        if let Some(at) = back {
            requests[at].1 = end;
            let len = requests[at].1 - requests[at].0;
            if let Some(next) = requests.iter().position(|r| r.0 == end && fits(r, len)) {
                requests[at].1 = requests[next].1;
                requests.remove(next);
            }
        } else if let Some(at) = front {
            requests[at].0 = start;
            let len = requests[at].1 - requests[at].0;
            if let Some(before) = requests.iter().position(|r| r.1 == start && fits(r, len)) {
                requests[before].1 = requests[at].1;
                requests.remove(at);
            }
        } else {
            requests.push((start, end, op));
        }
    }
    requests
}

proptest! {
    /// The bios are the pieces of one range, each submitted once and in any order, so that
    /// adjacency is unambiguous.
    #[test]
    fn merging_agrees_with_comparing_every_pair(
        cuts in prop::collection::btree_set(1u64..200, 1..60),
        shuffle in prop::collection::vec(any::<u32>(), 60),
        writes in prop::collection::vec(any::<bool>(), 60),
        len_max in 1u64..120,
    ) {
        let cuts: Vec<u64> = std::iter::once(0).chain(cuts).collect();
        let mut bios: Vec<(u64, u64, Op)> = cuts
            .windows(2)
            .zip(&writes)
            .filter(|(cut, _)| cut[1] - cut[0] <= len_max)
            .map(|(cut, &write)| (cut[0] * 512, cut[1] * 512, if write { Op::Write } else { Op::Read }))
            .collect();
        let mut keys = shuffle.into_iter().cycle();
        bios.sort_by_cached_key(|_| keys.next());
        let limits = Limits {
            request_len_max: len_max as u32 * 512,
            reads_max: 1000,
            writes_max: 1000,
            ..Limits::default()
        };
        let mut layer = BlockLayer::new(Noop::default(), limits);
        for (id, &(start, end, op)) in bios.iter().enumerate() {
            layer.submit_bare(Nanos::ZERO, request(id as u64, Nanos::ZERO, start, (end - start) as u32, op));
        }
        let mut given: Vec<(u64, u64, Op)> =
            std::iter::from_fn(|| layer.dispatch(Nanos::ZERO, 0))
                .map(|io| (io.offset, io.end(), io.op))
                .collect();
        given.sort();
        let mut expected = merged_by_hand(&bios, len_max * 512);
        expected.sort();
        prop_assert_eq!(given, expected);
    }
}

#[test]
fn requests_of_two_processes_are_not_joined_by_cfq() {
    let count = |spec: &str, stream: u32| {
        let mut layer = build(spec, u32::MAX).expect("it is listed");
        for (id, offset, stream) in [(0, 20, stream), (1, 0, 0), (2, 10, 0)] {
            let bio = request(id, Nanos::ZERO, offset, 10, Op::Read);
            layer.submit_bare(Nanos::ZERO, Request { stream, ..bio });
        }
        std::iter::from_fn(|| layer.dispatch(Nanos::ZERO, 0)).count()
    };
    let cfq = "cfq:slice-idle-ms=0";
    assert_eq!((count(cfq, 0), count(cfq, 1), count("noop", 1)), (1, 2, 1));
}

#[test]
fn front_merges_can_be_turned_off() {
    let count = |spec: &str| {
        let mut layer = build(spec, u32::MAX).expect("it is listed");
        for (id, offset) in [(0, 10), (1, 0), (2, 20)] {
            layer.submit_bare(Nanos::ZERO, request(id, Nanos::ZERO, offset, 10, Op::Read));
        }
        std::iter::from_fn(|| layer.dispatch(Nanos::ZERO, 0)).count()
    };
    assert_eq!((count("mq-deadline"), count("mq-deadline:front-merges=no")), (1, 2));
}
