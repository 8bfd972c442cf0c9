//! Splitting, merging and admission, around noop.

use super::*;
use crate::contract::Bare;
use crate::contract::policy::{Done, Finished};
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
fn a_gap_that_is_filled_joins_its_neighbours() {
    let requests = [write(0, 0, 10), write(1, 20, 10), write(2, 10, 10)];
    assert_eq!(lens(Limits::default(), &requests), vec![(0, 30)]);
    let limits = Limits { request_len_max: 20, ..Limits::default() };
    assert_eq!(lens(limits, &requests), vec![(0, 20), (20, 10)]);
}

#[test]
fn what_waits_whole_is_nobodys_until_it_is_admitted() {
    let limits = Limits { writes_max: 1, merging: false, bio_len_max: 50, ..Limits::default() };
    let mut layer = BlockLayer::new(Noop::default(), limits);
    let preflush = Request { flags: Flags::PREFLUSH, ..write(3, 300, 10) };
    // In bios of their own: one admitted, one that waits; and a flush, after which a write comes.
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
        vec![Done { request: write(0, 0, 10), wait: Nanos(5), outcome: Ok(()), class: 0 }]
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
    // Nor are they joined when one beside them grows.
    let requests = [write(0, 0, 10), Request { offset: 20, ..fua }, write(2, 10, 10)];
    assert_eq!(lens(Limits::default(), &requests), [(0, 20), (20, 10)]);
}

#[test]
fn parts_of_what_failed_are_tried_alone_unless_the_device_is_gone() {
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
