//! Tests splitting, merging and admission with the elevator noop.

use super::*;
use crate::contract::{Bare, Done, Finished};
use crate::elevator::limits::Waiting;
use crate::elevator::noop::Noop;

fn write(id: u64, offset: u64, len: u32) -> Request {
    Request {
        at: Nanos::ZERO,
        offset,
        id,
        len,
        stream: 0,
        lane: 0,
        op: Op::Write,
        flags: Flags::NONE,
    }
}

fn lens(limits: Limits, requests: &[Request]) -> Vec<(u64, u32)> {
    let mut layer = BlockLayer::new(Noop::default(), limits);
    for request in requests {
        layer.submit_bare(Nanos::ZERO, *request);
    }
    std::iter::from_fn(|| layer.dispatch(Nanos::ZERO, 0)).map(|io| (io.offset, io.len)).collect()
}

#[test]
fn a_long_request_is_split_at_bios_and_requests() {
    let limits =
        Limits { bio_len_max: 1000, request_len_max: 600, merging: false, ..Limits::default() };
    let expected = vec![(0, 600), (600, 400), (1000, 600), (1600, 400), (2000, 100)];
    assert_eq!(lens(limits, &[write(0, 0, 2100)]), expected);
}

#[test]
fn a_gap_that_is_filled_joins_its_neighbors() {
    let requests = [write(0, 0, 10), write(1, 20, 10), write(2, 10, 10)];
    assert_eq!(lens(Limits::default(), &requests), vec![(0, 30)]);
    let limits = Limits { request_len_max: 20, ..Limits::default() };
    assert_eq!(lens(limits, &requests), vec![(0, 20), (20, 10)]);
}

#[test]
fn an_unsplit_waiting_request_is_not_counted_until_admitted() {
    let limits = Limits { writes_max: 1, merging: false, bio_len_max: 50, ..Limits::default() };
    let limits = Limits { waiting: Waiting::Line, ..limits };
    let mut layer = BlockLayer::new(Noop::default(), limits);
    let preflush = Request { flags: Flags::PREFLUSH, ..write(3, 300, 10) };
    // Two bios that do not merge: one is admitted and one waits. Then a flush followed by a write.
    for request in [write(0, 0, 100), write(1, 100, 10), write(2, 200, 10), preflush] {
        layer.submit_bare(Nanos::ZERO, request);
    }
    assert_eq!((layer.waiting[1].len(), layer.clients.count()), (3, 2));
    let mut finished = Finished::new();
    let mut ids = Vec::new();
    for ms in 1..=6 {
        let io = layer.dispatch(Nanos::ZERO, 0).unwrap();
        let at = Nanos::from_millis(ms);
        let started = Nanos::ZERO;
        let done = Completion { io, started, at, mechanics: Default::default(), outcome: Ok(()) };
        layer.complete_bare(at, &done, &mut finished);
        ids.extend(finished.drain(..).map(|done| done.request.id));
    }
    assert_eq!(ids, [0, 1, 2, 3]);
    assert!(layer.clients.is_empty() && layer.waiting[1].is_empty());
}

#[test]
fn the_limit_holds_until_completion_and_the_first_to_wait_enters_first() {
    let limits = Limits { writes_max: 1, merging: false, ..Limits::default() };
    let mut layer = BlockLayer::new(Noop::default(), limits);
    for id in 0..3 {
        layer.submit_bare(Nanos::ZERO, write(id, id * 100, 10));
    }
    let io = layer.dispatch(Nanos::ZERO, 0).unwrap();
    assert_eq!(layer.dispatch(Nanos::ZERO, 0), None, "two wait for admission");
    let mut finished = Finished::new();
    let at = Nanos(5);
    let done =
        Completion { io, started: Nanos::ZERO, at, mechanics: Default::default(), outcome: Ok(()) };
    layer.complete_bare(at, &done, &mut finished);
    assert_eq!(
        finished,
        vec![Done {
            request: write(0, 0, 10),
            wait: Nanos(5),
            held: Nanos::ZERO,
            outcome: Ok(()),
            class: 0
        }]
    );
    assert_eq!(layer.dispatch(at, 0).map(|io| io.offset), Some(100));
}

#[test]
fn one_pool_of_tags_admits_in_order_of_arrival() {
    let limits = Limits { requests_max: 1, writes_max: 1, merging: false, ..Limits::default() };
    let mut layer = BlockLayer::new(Noop::default(), limits);
    let read = |id, offset| Request { op: Op::Read, ..write(id, offset, 10) };
    for request in [write(0, 0, 10), write(1, 100, 10), read(2, 200), write(3, 300, 10)] {
        layer.submit_bare(Nanos::ZERO, request);
    }
    let mut order = Vec::new();
    while let Some(io) = layer.dispatch(Nanos::ZERO, 0) {
        assert_eq!(layer.dispatch(Nanos::ZERO, 0), None, "there is one tag");
        order.push(io.offset);
        let (started, at) = (Nanos::ZERO, Nanos::ZERO);
        let done = Completion { io, started, at, mechanics: Default::default(), outcome: Ok(()) };
        layer.complete_bare(at, &done, &mut Finished::new());
    }
    assert_eq!(order, [0, 100, 200, 300]);
}

#[test]
fn barriers_do_not_merge() {
    let fua = Request { flags: Flags::FUA, ..write(1, 10, 10) };
    let requests = [write(0, 0, 10), fua, write(2, 20, 10)];
    assert_eq!(lens(Limits::default(), &requests).len(), 3);
    // Writes with FUA are not merged when an adjacent request grows either.
    let requests = [write(0, 0, 10), Request { offset: 20, ..fua }, write(2, 10, 10)];
    assert_eq!(lens(Limits::default(), &requests), [(0, 20), (20, 10)]);
}

#[test]
fn parts_of_a_failed_request_are_retried_separately_unless_the_device_is_lost() {
    let end = |layer: &mut BlockLayer<Noop>, outcome| {
        let io = layer.dispatch(Nanos::ZERO, 0).unwrap();
        let (started, at) = (Nanos::ZERO, Nanos(7));
        let done = Completion { io, started, at, mechanics: Default::default(), outcome };
        let mut finished = Finished::new();
        layer.complete_bare(at, &done, &mut finished);
        let told = finished.iter().map(|done| (done.request.id, done.outcome, done.wait));
        ((io.offset, io.len), told.collect::<Vec<_>>())
    };
    let three = || {
        let mut layer = BlockLayer::new(Noop::default(), Limits::default());
        for id in 0..3 {
            layer.submit_bare(Nanos::ZERO, write(id, id * 10, 10));
        }
        layer
    };
    let (media, gone) = (Err(Fault::Media), Err(Fault::Gone));
    let mut layer = three();
    assert_eq!(end(&mut layer, media), ((0, 30), vec![]));
    assert_eq!(end(&mut layer, Ok(())), ((0, 10), vec![(0, Ok(()), Nanos(7))]));
    assert_eq!(end(&mut layer, media), ((10, 10), vec![(1, media, Nanos(7))]));
    assert_eq!(end(&mut layer, Ok(())), ((20, 10), vec![(2, Ok(()), Nanos(7))]));
    assert_eq!(layer.dispatch(Nanos::ZERO, 0), None);
    let all = (0..3).map(|id| (id, gone, Nanos(7))).collect();
    assert_eq!(end(&mut three(), gone), ((0, 30), all));
}

/// Runs a layer with these limits on a device that completes one I/O per millisecond, until all
/// requests are answered. Returns the order of answers, each with the time and how long the request
/// was held, in milliseconds.
fn served(limits: Limits, requests: &[Request]) -> Vec<(u64, u64, u64)> {
    let mut layer = BlockLayer::new(Noop::default(), limits);
    let (mut now, mut served, mut left) = (Nanos::ZERO, Vec::new(), requests.iter().peekable());
    loop {
        while let Some(request) = left.next_if(|request| request.at <= now) {
            layer.submit_bare(request.at, *request);
        }
        let Some(io) = layer.dispatch(now, 0) else {
            assert!(left.peek().is_none() && layer.clients.is_empty(), "nobody is forgotten");
            return served;
        };
        let (started, mechanics, outcome) = (now, Default::default(), Ok(()));
        now += Nanos::from_millis(1);
        let mut finished = Finished::new();
        layer.complete_bare(
            now,
            &Completion { io, started, at: now, mechanics, outcome },
            &mut finished,
        );
        let told = |done: Done| (done.request.id, now.0 / 1_000_000, done.held.0 / 1_000_000);
        served.extend(finished.into_iter().map(told));
    }
}

fn tags(requests_max: u32, wake_batch: u32) -> Limits {
    let waiting = Waiting::Tags { wake_batch };
    Limits { requests_max, waiting, merging: false, ..Limits::default() }
}

fn of(stream: u32, request: Request) -> Request {
    Request { stream, ..request }
}

#[test]
fn a_burst_of_one_stream_takes_its_turns_with_others() {
    let mut requests: Vec<_> = (0..100).map(|id| write(id, id * 100, 10)).collect();
    requests.push(of(1, Request { op: Op::Read, ..write(100, 50_000, 10) }));
    let served = served(tags(8, 1), &requests);
    let of_reader = served.iter().find(|(id, ..)| *id == 100).unwrap();
    // Eight requests have tags and one sleeps, so the reader gets the tenth turn.
    assert_eq!(*of_reader, (100, 10, 0));
    // While a task sleeps, its next request is held. The latency of that request starts when the
    // previous one gets its tag.
    let last = served.last().unwrap();
    assert_eq!(*last, (99, 101, 92));
}

#[test]
fn one_task_is_woken_per_completion_and_free_tags_are_shared() {
    let all: Vec<_> = (0..4)
        .flat_map(|n| {
            [of(0, write(2 * n, n * 100, 10)), of(1, write(2 * n + 1, 5000 + n * 100, 10))]
        })
        .collect();
    let order = |wake_batch| {
        served(tags(2, wake_batch), &all).iter().map(|told| told.0).collect::<Vec<_>>()
    };
    assert_eq!(order(1), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(order(2), [0, 1, 2, 3, 4, 5, 6, 7], "woken together, each takes one");
}

#[test]
fn requests_of_a_woken_task_merge_before_they_need_a_tag() {
    let limits = Limits { merging: true, ..tags(2, 1) };
    let apart = |id: u64| of(1, write(100 + id, 100_000 + 1000 * id, 10));
    let requests: Vec<_> =
        (0..3).map(apart).chain((0..50).map(|id| write(id, id * 10, 10))).collect();
    let mut layer = BlockLayer::new(Noop::default(), limits);
    requests.iter().for_each(|request| layer.submit_bare(Nanos::ZERO, *request));
    let mut lens = Vec::new();
    while let Some(io) = layer.dispatch(Nanos::ZERO, 0) {
        lens.push(io.len);
        let (started, at, mechanics, outcome) = (io.at, io.at, Default::default(), Ok(()));
        layer.complete_bare(
            at,
            &Completion { io, started, at, mechanics, outcome },
            &mut Finished::new(),
        );
    }
    assert_eq!(lens, [10, 10, 10, 500], "the fifty are one");
}

#[test]
fn a_flush_waits_behind_what_its_stream_holds_and_long_requests_go_on_where_they_were() {
    let flush = Request { op: Op::Flush, len: 0, ..write(2, 0, 0) };
    let synced = Request { flags: Flags::PREFLUSH, ..write(3, 500, 10) };
    let limits = Limits { bio_len_max: 50, request_len_max: 30, ..tags(1, 1) };
    let requests = [write(0, 0, 10), write(1, 100, 130), flush, synced, write(4, 600, 10)];
    let ids: Vec<_> = served(limits, &requests).iter().map(|told| told.0).collect();
    assert_eq!(ids, [0, 2, 1, 4, 3]);
    assert_eq!(served(limits, &requests).len(), 5);
}

#[test]
fn reads_keep_a_reserve_and_kinds_are_counted_apart() {
    let sync = |id| of(2, Request { flags: Flags::SYNC, ..write(id, id * 100, 10) });
    let limits = Limits { writes_max: 2, sync_writes_max: Some(3), ..tags(4, 1) };
    let mut layer = BlockLayer::new(Noop::default(), limits);
    let read = |id| of(3, Request { op: Op::Read, ..write(id, id * 100, 10) });
    let all = [
        write(0, 0, 10),
        write(1, 100, 10),
        of(1, write(2, 200, 10)),
        sync(3),
        read(4),
        read(5),
        sync(6),
    ];
    all.iter().for_each(|request| layer.submit_bare(Nanos::ZERO, *request));
    let mut ids = Vec::new();
    while let Some(io) = layer.dispatch(Nanos::ZERO, 0) {
        ids.push(io.offset / 100);
    }
    assert_eq!(
        ids,
        [0, 1, 3, 4],
        "the third asynchronous write sleeps, then there is no tag for anybody"
    );
}

#[test]
fn the_legacy_queue_grants_a_batch_to_the_filling_and_the_woken_task() {
    let limits = Limits {
        waiting: Waiting::Batches,
        reads_max: 64,
        writes_max: 64,
        merging: false,
        ..Limits::default()
    };
    let mut layer = BlockLayer::new(Noop::default(), limits);
    for id in 0..200 {
        layer.submit_bare(Nanos::ZERO, write(id, id * 100, 10));
    }
    for id in 200..300 {
        layer.submit_bare(Nanos::ZERO, of(1, write(id, id * 100, 10)));
    }
    let mut given: VecDeque<_> = std::iter::from_fn(|| layer.dispatch(Nanos::ZERO, 0)).collect();
    // The task that fills the queue may continue for a batch, and the other task sleeps.
    assert!(given.len() == 95 && given.iter().all(|io| io.stream == 0));
    let mut streams = Vec::new();
    while let Some(io) = given.pop_front() {
        let (started, at, mechanics, outcome) = (io.at, io.at, Default::default(), Ok(()));
        let done = Completion { io, started, at, mechanics, outcome };
        layer.complete_bare(at, &done, &mut Finished::new());
        while let Some(io) = layer.dispatch(Nanos::ZERO, 0) {
            streams.push(io.stream);
            given.push_back(io);
        }
    }
    assert_eq!(streams.len(), 205, "nobody is forgotten");
    // Each woken task takes a batch of the slots that become free in the meantime.
    assert!(streams[..32].iter().all(|stream| *stream == 0), "{streams:?}");
    let runs = streams.chunk_by(|a, b| a == b).map(<[u32]>::len).collect::<Vec<_>>();
    assert!(runs.len() < 12, "{runs:?}");
}

#[test]
fn requests_without_a_task_share_one_queue() {
    let anonymous =
        |request: Request| Request { flags: request.flags.with(Flags::ANONYMOUS), ..request };
    let mut requests: Vec<_> = (0..10).map(|id| anonymous(write(id, id * 100, 10))).collect();
    requests.push(anonymous(of(1, write(10, 5000, 10))));
    let last = *served(tags(2, 1), &requests).last().unwrap();
    assert_eq!(last, (10, 11, 0));
}
