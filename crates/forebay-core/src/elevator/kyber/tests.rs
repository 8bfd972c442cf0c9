use super::latency::Latencies;
use super::*;
use crate::contract::{Bare, Completion, Finished, Policy};
use crate::elevator::BlockLayer;
use crate::elevator::trial::{MIB, ms, read, write};

fn kyber() -> BlockLayer<Kyber> {
    let limits = Limits { reads_max: 1000, writes_max: 1000, ..Limits::default() };
    BlockLayer::new(Kyber::new([ms(2.0), ms(10.0)]), limits)
}

fn all(layer: &mut BlockLayer<Kyber>) -> Vec<Request> {
    std::iter::from_fn(|| layer.dispatch(Nanos::ZERO, 0)).collect()
}

/// Serves an I/O from its submission until `end`.
fn done(layer: &mut BlockLayer<Kyber>, request: Request, end: Nanos) {
    layer.submit_bare(request.at, request);
    let io = layer.dispatch(request.at, 0).expect("a token is free");
    let (started, mechanics) = (request.at, Default::default());
    let done = Completion { io, started, at: end, mechanics, outcome: Ok(()) };
    layer.complete_bare(end, &done, &mut Finished::new());
}

#[test]
fn domains_take_turns_of_sixteen_reads_and_eight_writes() {
    let mut layer = kyber();
    for i in 0..20 {
        layer.submit_bare(Nanos::ZERO, read(0.0, 0, i * MIB));
        layer.submit_bare(Nanos::ZERO, write(0.0, 0, (100 + i) * MIB));
    }
    let given = all(&mut layer);
    let turns: Vec<_> =
        given.chunk_by(|a, b| a.op == b.op).map(|turn| (turn[0].op, turn.len())).collect();
    let expected = [(Op::Read, 16), (Op::Write, 8), (Op::Read, 4), (Op::Write, 12)];
    assert_eq!(turns, expected);
}

#[test]
fn new_arrivals_are_accepted_at_once() {
    let mut layer = kyber();
    for (stream, place) in [(1, 5), (1, 3), (0, 9)] {
        layer.submit_bare(Nanos::ZERO, read(0.0, stream, place * MIB));
    }
    let first = layer.dispatch(Nanos::ZERO, 0).map(|io| io.offset);
    // This request arrives late and is adjacent to one that can no longer be merged.
    layer.submit_bare(Nanos::ZERO, Request { len: 4096, ..read(0.0, 1, 3 * MIB - 4096) });
    let rest: Vec<_> = all(&mut layer).iter().map(|io| io.offset).collect();
    assert_eq!(first, Some(5 * MIB));
    assert_eq!(rest, [3 * MIB, 9 * MIB, 3 * MIB - 4096]);
}

#[test]
fn only_the_newest_of_the_same_stream_merge() {
    let given = |bios: &[(u32, u64)]| {
        let mut layer = kyber();
        for &(stream, offset) in bios {
            layer.submit_bare(Nanos::ZERO, Request { len: 10, ..read(0.0, stream, offset) });
        }
        all(&mut layer).len()
    };
    assert_eq!((given(&[(0, 0), (0, 10)]), given(&[(0, 0), (1, 10)])), (1, 2));
    let far = |count: u64| (1..=count).map(|i| (0, i * 1000));
    let bios = |count| std::iter::once((0, 0)).chain(far(count)).chain([(0, 10)]);
    assert_eq!(given(&bios(7).collect::<Vec<_>>()), 8, "the eighth newest");
    assert_eq!(given(&bios(8).collect::<Vec<_>>()), 10, "the ninth newest");
}

#[test]
fn writes_give_way_to_reads_that_miss_their_target() {
    let mut layer = kyber();
    let mut at = 0.0;
    for i in 0..1200 {
        done(&mut layer, write(at, 0, i * MIB), ms(at + 1.0));
        done(&mut layer, read(at + 1.0, 0, i * MIB), ms(at + 11.0));
        at += 11.0;
    }
    let tokens = layer.elevator().domains.each_ref().map(|domain| domain.tokens);
    assert_eq!(tokens, [256, 8], "a quarter twice, for each 500 of 1,200");
    for i in 0..12 {
        layer.submit_bare(ms(at), write(at, 0, i * MIB));
    }
    let given = std::iter::from_fn(|| layer.dispatch(ms(at), 0)).count();
    assert_eq!(given, 8);
}

fn seen(target_ms: f64, times: &[(u32, f64)]) -> Latencies {
    let mut latencies = Latencies::new(ms(target_ms));
    for &(count, took_ms) in times {
        (0..count).for_each(|_| latencies.add(ms(took_ms), ms(took_ms)));
    }
    latencies
}

#[test]
fn a_tenth_beyond_the_target_is_congestion() {
    let congested = |times: &[(u32, f64)]| seen(2.0, times).is_congested(Nanos::ZERO);
    assert!(!congested(&[(450, 2.0), (50, 2.1)]), "exactly nine tenths within it");
    assert!(congested(&[(449, 2.0), (51, 2.1)]));
}

#[test]
fn too_few_latencies_are_ignored_for_a_second() {
    let mut few = seen(2.0, &[(499, 9.0)]);
    assert!(!few.is_congested(ms(100.0)));
    assert!(!few.is_congested(ms(1_099.9)));
    assert!(few.is_congested(ms(1_100.0)));
    assert!(!few.is_congested(ms(9_000.0)), "none since");
}

#[test]
fn tokens_follow_the_99th_percentile_where_it_counts() {
    let scale = |took_ms: f64, congested: bool| {
        seen(2.0, &[(495, took_ms), (5, 99.0)]).scale(Nanos::ZERO, congested)
    };
    assert_eq!((scale(0.4, false), scale(0.4, true)), (None, Some((1, 4))));
    assert_eq!((scale(1.9, false), scale(1.9, true)), (None, Some((4, 4))));
    assert_eq!((scale(2.1, false), scale(99.0, true)), (Some((5, 4)), Some((8, 4))));
    let mut kept = seen(2.0, &[(500, 0.4)]);
    assert_eq!(kept.scale(ms(100.0), false), None);
    assert_eq!(kept.scale(ms(200.0), true), Some((1, 4)), "what was seen before");
    assert_eq!(kept.scale(ms(300.0), true), None, "but once");
}
