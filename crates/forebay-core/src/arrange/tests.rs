use super::*;
use crate::contract::{Flags, Nanos};
use proptest::prelude::*;

const KIB: u64 = 1024;
const MIB: u64 = 1 << 20;
const PRICES: Prices = Prices { jump_s: 0.01, bytes_per_s: 100e6 };

fn request(op: Op, stream: u32, offset: u64, len: u64) -> Request {
    Request {
        at: Nanos::ZERO,
        offset,
        id: 0,
        len: len as u32,
        stream,
        lane: 0,
        op,
        flags: Flags::NONE,
    }
}

fn learnt(requests: impl IntoIterator<Item = Request>) -> Arrangement {
    let mut arranger = Arranger::default();
    requests.into_iter().for_each(|request| arranger.see(&request));
    arranger.finish(1 << 40, PRICES)
}

/// Returns reads of a file in three fragments, from end to end, `times` times, each time by another
/// stream.
fn scans(times: u32) -> Vec<Request> {
    let fragments = [50 * MIB, 10 * MIB, 90 * MIB];
    let scan = |stream: u32| {
        let parts = fragments.into_iter().flat_map(|at| (0..4).map(move |n| at + n * 64 * KIB));
        parts.map(move |at| request(Op::Read, stream, at, 64 * KIB))
    };
    (0..times).flat_map(scan).collect()
}

#[test]
fn repeatedly_read_fragments_are_moved_together() {
    let learnt = learnt(scans(10));
    let map = learnt.rearrangement.unwrap();
    assert_eq!((learnt.jumps, learnt.repeated_jumps, learnt.rows), (20, 20, 1));
    let froms: Vec<_> = map.moves().iter().map(|m| (m.from, m.len)).collect();
    assert_eq!(froms, [(50 * MIB, 256 * KIB), (10 * MIB, 256 * KIB), (90 * MIB, 256 * KIB)]);
    assert!(map.moves().windows(2).all(|pair| pair[0].to + pair[0].len == pair[1].to));
    let to = map.moves()[0].to;
    assert!((10 * MIB..90 * MIB).contains(&to), "near where they were: {to}");
}

#[test]
fn fragments_read_once_or_without_gain_are_not_moved() {
    assert!(learnt(scans(1)).rearrangement.is_none());
    let twice = learnt(scans(2));
    assert!(twice.rearrangement.is_none() && twice.repeated_jumps == 4, "costs more than it saves");
    let scattered = (0..500u64).map(|n| request(Op::Read, 0, n * n * 7919 % 4096 * 10 * MIB, 4096));
    assert!(learnt(scattered).rearrangement.is_none());
}

/// Two threads that alternate in reading one file skip each other's parts, which does not count as
/// a jump.
#[test]
fn a_file_read_by_two_threads_is_in_order() {
    let half = |n: u64| request(Op::Read, (n % 2) as u32, n * 128 * KIB, 128 * KIB);
    let scans = (0..10).flat_map(|_| (0..100).map(half));
    let learnt = learnt(scans);
    assert!(learnt.rearrangement.is_none(), "{:?}", learnt.rearrangement);
}

/// A fragment stays attached to its neighbor if more streams read on than jump elsewhere.
#[test]
fn the_link_used_most_is_kept() {
    let jump =
        |n: u32| [request(Op::Read, n, 0, 64 * KIB), request(Op::Read, n, 500 * MIB, 64 * KIB)];
    let on = |n: u32| request(Op::Read, 100 + n, 0, 128 * KIB);
    let few = (0..5).flat_map(jump).chain((0..50).map(on));
    assert!(learnt(few).rearrangement.is_none());
    let many = (0..50).flat_map(jump).chain((0..5).map(on));
    let learnt = learnt(many);
    assert_eq!(learnt.joined_jumps, 50);
}

/// A chain worth moving is not spoiled by a long extent that few streams jump to.
#[test]
fn a_long_extent_that_few_jump_to_is_left_where_it_is() {
    let scan = |n: u32| {
        let short = [request(Op::Read, n, 0, 64 * KIB), request(Op::Read, n, 500 * MIB, 64 * KIB)];
        let long = (n < 5).then(|| request(Op::Read, n, 900 * MIB, 60 * MIB));
        short.into_iter().chain(long)
    };
    let learnt = learnt((0..50).flat_map(scan));
    assert_eq!((learnt.repeated_jumps, learnt.joined_jumps), (55, 50));
    assert_eq!(learnt.rearrangement.unwrap().moved_bytes(), 128 * KIB);
}

#[test]
fn a_full_disk_leaves_no_space_for_moves() {
    let mut arranger = Arranger::default();
    scans(10).iter().for_each(|request| arranger.see(request));
    for n in 0..100 {
        arranger.see(&request(Op::Write, 0, n * MIB, MIB));
    }
    let learnt = arranger.finish(100 * MIB, PRICES);
    assert!(learnt.lacks_room && learnt.rearrangement.is_none());
}

proptest! {
    /// Whatever was read, blocks are moved to an area of the disk that was not used before.
    #[test]
    fn moves_go_to_unused_space(
        reads in prop::collection::vec((0u32..3, 0u64..30, 1u64..5, any::<bool>()), 1..200),
        times in 1u32..30,
    ) {
        let mut arranger = Arranger::default();
        let mut touched = Vec::new();
        for time in 0..times {
            for &(stream, at, len, writes) in &reads {
                let op = if writes { Op::Write } else { Op::Read };
                let request = request(op, stream + 3 * time, at * 2 * MIB, len * 4096);
                touched.push((request.offset, request.end()));
                arranger.see(&request);
            }
        }
        let capacity = 100 * MIB;
        let learnt = arranger.finish(capacity, PRICES);
        prop_assert!(learnt.joined_jumps <= learnt.repeated_jumps);
        prop_assert!(learnt.repeated_jumps <= learnt.jumps);
        for m in learnt.rearrangement.iter().flat_map(|map| map.moves()) {
            prop_assert!(m.to + m.len <= capacity);
            prop_assert!(touched.iter().all(|&(start, end)| m.to >= end || m.to + m.len <= start));
        }
    }
}
