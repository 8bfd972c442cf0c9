//! Tests CFQ behind the block layer, in front of a device of constant service time.

use proptest::prelude::*;

use super::*;
use crate::contract::{Bytes, Flags, Op};
use crate::elevator::queue::Owner;
use crate::elevator::trial::{LEN, MIB, Run, ms, on, read, write};

#[test]
fn sequential_streams_alternate_by_slices() {
    let mut run = Run::new(Cfq::new(CfqConfig::default()), true);
    run.until = ms(2000.0);
    let arrivals = vec![read(0.0, 0, 0), read(0.0, 1, 5000 * MIB)];
    run.run(arrivals, |now, done| on(now, done, 0.1, LEN.into()));
    let turns = run.turns();
    assert!(turns[..turns.len() - 1].iter().all(|turn| (85..=100).contains(turn)), "{turns:?}");
    let slices_off = CfqConfig { slice_idle: Nanos::ZERO, ..CfqConfig::default() };
    let mut run = Run::new(Cfq::new(slices_off), true);
    run.until = ms(200.0);
    let arrivals = vec![read(0.0, 0, 0), read(0.0, 1, 5000 * MIB)];
    run.run(arrivals, |now, done| on(now, done, 0.1, LEN.into()));
    assert!(run.turns().iter().all(|&turn| turn == 1), "without idling they alternate");
}

#[test]
fn slices_shrink_when_many_streams_share_the_target_latency() {
    let longest = |low_latency| {
        let mut run = Run::new(Cfq::new(CfqConfig { low_latency, ..CfqConfig::default() }), true);
        run.until = ms(3000.0);
        let arrivals = (0..10).map(|stream| read(0.0, stream, u64::from(stream) * 5000 * MIB));
        run.run(arrivals.collect(), |now, done| on(now, done, 0.1, LEN.into()));
        run.turns().into_iter().max()
    };
    assert!(longest(true) < Some(60), "{:?}", longest(true));
    assert!(longest(false) > Some(80), "{:?}", longest(false));
}

#[test]
fn idling_waits_for_the_stream_and_gives_up_after_slice_idle() {
    let mut run = Run::new(Cfq::new(CfqConfig::default()), true);
    let mut left = 5;
    let arrivals = vec![read(0.0, 0, 0), read(0.5, 1, 5000 * MIB)];
    run.run(arrivals, |now, done| {
        left -= u32::from(done.stream == 0);
        on(now, done, 3.0, LEN.into()).filter(|_| done.stream == 0 && left > 0)
    });
    let at: Vec<_> = run.given.iter().map(|io| (io.at, io.stream)).collect();
    let expected = [(0.0, 0), (4.0, 0), (8.0, 0), (12.0, 0), (16.0, 0), (25.0, 1)];
    assert_eq!(at, expected.map(|(at, stream)| (ms(at), stream)));
}

#[test]
fn streams_that_think_too_long_or_seek_are_not_waited_for() {
    for (think_ms, step) in [(1.0, 100 * MIB), (12.0, u64::from(LEN))] {
        let mut run = Run::new(Cfq::new(CfqConfig::default()), true);
        run.until = ms(2000.0);
        let busy_sequential = (0..2).map(|stream| read(0.0, stream, 1 << (40 + stream)));
        run.run(busy_sequential.collect(), |now, done| on(now, done, think_ms, step));
        let possible = 2.0 * 2000.0 / (think_ms + 1.0);
        assert!(run.given.len() as f64 > 0.9 * possible, "{} of {possible}", run.given.len());
    }
}

#[test]
fn async_writes_go_on_beside_a_busy_reader() {
    let mut run = Run::new(Cfq::new(CfqConfig::default()), false);
    run.until = ms(6000.0);
    let mut arrivals: Vec<_> = (0..300).map(|i| write(0.0, 9, 5000 * MIB + i * MIB)).collect();
    arrivals.push(read(0.0, 0, 0));
    run.run(arrivals, |now, done| on(now, done, 0.1, LEN.into()).filter(|_| done.op == Op::Read));
    // Each read interrupts the writes, so only one or two of them are served per slice of the
    // reader.
    let writes = || run.given.iter().filter(|io| io.op == Op::Write).map(|io| io.at);
    let longest_gap = writes().zip(writes().skip(1)).map(|(a, b)| b - a).max();
    assert!(longest_gap < Some(ms(250.0)), "{longest_gap:?}");
    let (count, all) = (writes().count(), run.given.len());
    assert!((60..all / 10).contains(&count), "{count} of {all}");
}

#[test]
fn a_read_interrupts_asynchronous_writes() {
    let mut run = Run::new(Cfq::new(CfqConfig::default()), false);
    let mut arrivals: Vec<_> = (0..100).map(|i| write(0.0, 9, i * MIB)).collect();
    arrivals.push(read(5.5, 0, 5000 * MIB));
    run.run(arrivals, |_, _| None);
    let place = run.given.iter().position(|io| io.op == Op::Read);
    assert_eq!(place, Some(6), "next, after the one at the device");
}

#[test]
fn an_expired_request_goes_first_in_the_next_slice() {
    let mut run = Run::new(Cfq::new(CfqConfig::default()), false);
    let mut arrivals = vec![read(0.0, 0, 1000 * MIB), read(0.5, 0, 0)];
    arrivals.extend((1..500).map(|i| read(0.5, 0, 1000 * MIB + i * u64::from(LEN) * 2)));
    run.run(arrivals, |_, _| None);
    let far = run.given.iter().position(|io| io.offset == 0).unwrap_or_default();
    assert!((125..260).contains(&far), "given as number {far}");
}

#[test]
fn a_short_backward_seek_beats_a_long_forward_seek() {
    let order = |config| {
        let mut run = Run::new(Cfq::new(config), true);
        let offsets = [1000, 1030, 990, 970];
        let arrivals = offsets
            .into_iter()
            .zip(0..)
            .map(|(mib, index): (u64, u32)| read(f64::from(index.min(1)) * 0.5, 0, mib * MIB));
        run.run(arrivals.collect(), |_, _| None);
        run.given.iter().map(|io| io.offset / MIB).collect::<Vec<_>>()
    };
    assert_eq!(order(CfqConfig::default()), [1000, 990, 1030, 970]);
    let no_way_back = CfqConfig { back_seek_max: 0, ..CfqConfig::default() };
    assert_eq!(order(no_way_back), [1000, 1030, 970, 990]);
}

#[test]
fn only_requests_of_one_queue_merge() {
    let sync = |request: Request| Request { flags: Flags::SYNC, ..request };
    let len = u64::from(LEN);
    let pairs = [
        (read(0.5, 0, 0), read(0.5, 0, len), 1),
        (read(0.5, 0, 0), read(0.5, 1, len), 2),
        (write(0.5, 0, 0), write(0.5, 1, len), 1),
        (write(0.5, 0, 0), sync(write(0.5, 0, len)), 2),
        (sync(write(0.5, 0, 0)), sync(write(0.5, 0, len)), 1),
    ];
    for (first, second, expected) in pairs {
        let mut run = Run::new(Cfq::new(CfqConfig::default()), true);
        run.run(vec![first, second], |_, _| None);
        assert_eq!(run.given.len(), expected, "{first:?} {second:?}");
    }
}

#[test]
fn asynchronous_writes_wait_while_a_read_is_at_the_device() {
    let mut run = Run::new(Cfq::new(CfqConfig::default()), false);
    run.depth = 32;
    let mut arrivals: Vec<_> = (0..20).map(|i| read(0.0, 0, i * 10 * MIB)).collect();
    arrivals.extend((0..20).map(|i| write(0.0, 9, 5000 * MIB + i * MIB)));
    run.run(arrivals, |_, _| None);
    let first = run.given.iter().find(|io| io.op == Op::Write).map(|io| io.at);
    assert!(first >= Some(ms(20.0)), "{first:?}");
    assert_eq!(run.given.len(), 40);
}

#[test]
fn one_queue_has_half_the_quantum_at_the_device_until_its_slice_runs() {
    let mut run = Run::new(Cfq::new(CfqConfig::default()), false);
    run.depth = 32;
    let of = |stream: u32| {
        (0..40).map(move |i| read(0.0, stream, (i * 10 + 5000 * u64::from(stream)) * MIB))
    };
    run.run(of(0).chain(of(1)).collect(), |_, _| None);
    let at_start = run.given.iter().filter(|io| io.at == Nanos::ZERO).count();
    assert_eq!(at_start, 4);
    let later = run.given.iter().filter(|io| io.at == ms(1.0)).count();
    assert_eq!(later, 5, "then eight are there");
}

/// Serves one request by calling the elevator directly.
fn serve(cfq: &mut Cfq, queue: &mut Queue, now: Nanos, request: Request) {
    let scope = cfq.scope(&request);
    let id = queue.insert(now, &request, Owner { client: 0, bytes: Bytes::NONE }, scope);
    cfq.add(now, id, queue);
    let taken = cfq.take(now, queue);
    assert_eq!(taken, Some(id));
    queue.started(id);
    cfq.completed(now + ms(1.0), id, queue);
    queue.finish(id);
}

#[test]
fn streams_that_merge_share_a_queue_until_it_seeks() {
    let (mut cfq, mut queue) = (Cfq::new(CfqConfig::default()), Queue::new(true));
    cfq.attach(Nanos::ZERO, 0, cfq.queue_of(0));
    cfq.attach(Nanos::ZERO, 1, cfq.queue_of(1));
    assert_eq!((cfq.queue_of(0), cfq.queue_of(1)), (1, 2));
    cfq.plan_merge(1, 2);
    cfq.plan_merge(2, 1);
    let mut now = Nanos::ZERO;
    for chunk in 0..6 {
        serve(&mut cfq, &mut queue, now, read(0.0, chunk % 2, u64::from(chunk * LEN)));
        now += ms(2.0);
    }
    assert_eq!((cfq.queue_of(0), cfq.queue_of(1)), (2, 2));
    for chunk in 0..12 {
        let apart = u64::from(chunk % 2) * 5000 * MIB + u64::from(chunk) * 100 * MIB;
        serve(&mut cfq, &mut queue, now, read(0.0, chunk % 2, apart));
        now += ms(2.0);
        cfq.expire(now, false);
    }
    assert_ne!(cfq.queue_of(0), cfq.queue_of(1));
}

#[test]
fn a_close_queue_goes_on_where_the_active_one_ends() {
    let mut run = Run::new(Cfq::new(CfqConfig::default()), true);
    run.until = ms(1000.0);
    let arrivals = vec![read(0.0, 0, MIB), read(0.0, 1, MIB + u64::from(LEN))];
    run.run(arrivals, |now, done| on(now, done, 0.9, 2 * u64::from(LEN)));
    let pairs = run.given.windows(2);
    let in_order = pairs.filter(|pair| pair[1].offset == pair[0].end()).count();
    assert!(in_order > 900, "{in_order} of {}", run.given.len());
}

prop_compose! {
    fn arrivals()(
        requests in prop::collection::vec(
            (0u64..20_000_000, 0u32..6, 0u64..3, 0u64..40, 1u32..20, 0u8..6), 1..150)
    ) -> Vec<Request> {
        let mut at = Nanos::ZERO;
        requests.into_iter().zip(0..).map(|((gap, stream, far, near, pages, kind), id)| {
            // Simultaneous arrivals are as frequent as gaps.
            at += if gap % 3 == 0 { Nanos(gap) } else { Nanos::ZERO };
            let op = if kind < 3 { Op::Read } else { Op::Write };
            let flags = if kind == 4 { Flags::SYNC } else { Flags::NONE };
            let offset = far * 3000 * MIB + near * 4096;
            Request { at, offset, id, len: pages * 4096, stream, lane: 0, op, flags }
        }).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_request_finishes_exactly_once(
        arrivals in arrivals(),
        depth in prop::sample::select(vec![1usize, 2, 5, 32]),
        service_us in 10u64..20_000,
        slice_idle_ms in prop::sample::select(vec![0u64, 1, 8, 100]),
        low_latency: bool,
        merging: bool,
        quantum in 1u32..9,
    ) {
        let slice_idle = Nanos::from_millis(slice_idle_ms);
        let config = CfqConfig { slice_idle, low_latency, quantum, ..CfqConfig::default() };
        let mut run = Run::new(Cfq::new(config), merging);
        (run.depth, run.service) = (depth, Nanos::from_micros(service_us));
        let count = arrivals.len() as u64;
        run.run(arrivals, |_, _| None);
        let mut ids: Vec<u64> = run.finished.iter().map(|request| request.id).collect();
        ids.sort_unstable();
        prop_assert_eq!(ids, (0..count).collect::<Vec<_>>());
    }
}
