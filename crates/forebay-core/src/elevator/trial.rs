//! A driver for tests of an elevator behind the block layer, in front of a device of constant
//! service time.

use super::block::{BlockLayer, Elevator};
use super::limits::Limits;
use crate::contract::{Bare, Completion, Finished, Flags, Nanos, Op, Policy, Request};

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const LEN: u32 = 64 << 10;

pub(crate) fn ms(ms: f64) -> Nanos {
    Nanos::from_millis_f64(ms)
}

pub(crate) fn read(at_ms: f64, stream: u32, offset: u64) -> Request {
    Request {
        at: ms(at_ms),
        offset,
        id: 0,
        len: LEN,
        stream,
        lane: 0,
        op: Op::Read,
        flags: Flags::NONE,
    }
}

pub(crate) fn write(at_ms: f64, stream: u32, offset: u64) -> Request {
    Request { op: Op::Write, ..read(at_ms, stream, offset) }
}

/// A test run of an elevator.
pub(crate) struct Run<E> {
    layer: BlockLayer<E>,
    pub(crate) depth: usize,
    pub(crate) service: Nanos,
    pub(crate) until: Nanos,
    /// The I/Os in order of dispatch.
    pub(crate) given: Vec<Request>,
    /// The client requests in the order in which they finished.
    pub(crate) finished: Vec<Request>,
}

impl<E: Elevator> Run<E> {
    pub(crate) fn new(elevator: E, merging: bool) -> Self {
        let limits = Limits { reads_max: 1000, writes_max: 1000, merging, ..Limits::default() };
        Run {
            layer: BlockLayer::new(elevator, limits),
            depth: 1,
            service: ms(1.0),
            until: Nanos::MAX,
            given: Vec::new(),
            finished: Vec::new(),
        }
    }

    /// Submits `arrivals` and the requests that `react` returns for each finished request, until
    /// nothing is left to do.
    pub(crate) fn run(
        &mut self,
        mut arrivals: Vec<Request>,
        mut react: impl FnMut(Nanos, &Request) -> Option<Request>,
    ) {
        let mut at_device: Vec<(Nanos, Request)> = Vec::new();
        let mut free_at = Nanos::ZERO;
        let mut now = Nanos::ZERO;
        loop {
            let arrival = arrivals.iter().map(|request| request.at).min();
            let completion = at_device.first().map(|&(at, _)| at);
            let wakeup = self.layer.wakeup().filter(|&at| at > now);
            let Some(next) = [arrival, completion, wakeup].into_iter().flatten().min() else {
                break;
            };
            if next > self.until {
                break;
            }
            now = next;
            while at_device.first().is_some_and(|&(at, _)| at == now) {
                let (at, io) = at_device.remove(0);
                let done = Completion {
                    io,
                    started: io.at,
                    at,
                    mechanics: Default::default(),
                    outcome: Ok(()),
                };
                let mut finished = Finished::new();
                self.layer.complete_bare(now, &done, &mut finished);
                for done in finished {
                    self.finished.push(done.request);
                    arrivals.extend(react(now, &done.request));
                }
            }
            while let Some(index) = arrivals.iter().position(|request| request.at <= now) {
                self.layer.submit_bare(now, arrivals.remove(index));
            }
            while at_device.len() < self.depth {
                let Some(io) = self.layer.dispatch(now, 0) else {
                    assert!(self.layer.wakeup().is_none_or(|at| at > now), "wakes in the past");
                    break;
                };
                free_at = free_at.max(now) + self.service;
                at_device.push((free_at, io));
                self.given.push(io);
            }
        }
    }

    /// Returns the elevator in its current state.
    pub(crate) fn elevator(&self) -> &E {
        self.layer.elevator()
    }

    /// Returns the lengths of uninterrupted sequences of I/Os of one stream.
    pub(crate) fn turns(&self) -> Vec<usize> {
        self.given.chunk_by(|a, b| a.stream == b.stream).map(<[Request]>::len).collect()
    }
}

/// Returns a request that follows `done` after `think_ms`, `step` bytes further on.
pub(crate) fn on(now: Nanos, done: &Request, think_ms: f64, step: u64) -> Option<Request> {
    Some(Request { at: now + ms(think_ms), offset: done.offset + step, ..*done })
}
