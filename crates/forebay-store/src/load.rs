//! A load for measuring a store: several writers, each of which puts again some time after its last
//! put was answered.

use std::collections::BTreeMap;

use forebay_core::random::{self, mix};
use forebay_core::{Done, Flags, Nanos, Op, Request, RequestId, Slots, Workload};

use crate::{Desk, Key, Operation, OperationError, Value};

/// The order of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// Each key is greater than the previous one.
    Sequential,
    /// Random keys without repetition.
    Random,
    /// Random keys from a set of this size, so that values are replaced.
    Among(u64),
}

/// A load of puts.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// The length of a value.
    pub value_bytes: u32,
    /// The total length of all values.
    pub total_bytes: u64,
    /// The number of writers, each with one put at a time.
    pub writers: u32,
    /// The mean time between an answer and the writer's next put; actual times are half to one and
    /// a half times as long.
    pub host: Nanos,
    /// The order of keys.
    pub keys: Keys,
    /// The seed for keys and times.
    pub seed: u64,
}

impl Load {
    /// Returns the number of puts.
    pub fn puts(&self) -> u64 {
        (self.total_bytes / u64::from(self.value_bytes.max(1))).max(1)
    }
}

/// A load as a workload: opens the store, puts values, and closes the store.
pub(crate) struct Writers {
    load: Load,
    desk: Desk,
    value: Value,
    state: u64,
    /// When each writer starts its next put.
    due: BTreeMap<(Nanos, u32), ()>,
    left: u64,
    under_way: u64,
    next: RequestId,
    phase: Phase,
    /// The latency of each put.
    pub(crate) latencies: Vec<Nanos>,
    /// The time at which the store was open.
    pub(crate) opened: Nanos,
    /// The time at which the last put was answered.
    pub(crate) answered: Nanos,
    pub(crate) failure: Option<OperationError>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    TargetOptions,
    Putting,
    Closing,
    Closed,
}

impl Writers {
    pub(crate) fn new(load: Load, desk: &Desk) -> Writers {
        Writers {
            load,
            desk: desk.clone(),
            value: vec![7; load.value_bytes as usize].into(),
            state: load.seed,
            due: BTreeMap::from([((Nanos::ZERO, 0), ())]),
            left: load.puts(),
            under_way: 0,
            next: 0,
            phase: Phase::TargetOptions,
            latencies: Vec::with_capacity(load.puts() as usize),
            opened: Nanos::ZERO,
            answered: Nanos::ZERO,
            failure: None,
        }
    }

    fn key(&mut self) -> Key {
        let number = match self.load.keys {
            Keys::Sequential => self.next,
            // `mix` is a bijection, so no key occurs twice.
            Keys::Random => mix(self.next.wrapping_add(self.load.seed << 32)),
            Keys::Among(count) => mix(random::next(&mut self.state) % count.max(1)),
        };
        format!("{number:016x}").into_bytes().into()
    }

    /// Returns when a writer starts its next put if its last put was answered now.
    fn again(&mut self, now: Nanos) -> Nanos {
        let host = self.load.host.0;
        now + Nanos(host / 2 + random::next(&mut self.state) % (host + 1))
    }
}

impl Workload for Writers {
    fn peek(&self) -> Option<Nanos> {
        self.due.keys().next().map(|(at, _)| *at)
    }

    fn take(&mut self) -> Request {
        let ((at, writer), ()) = self.due.pop_first().expect("one is due");
        let (op, operation) = match self.phase {
            Phase::TargetOptions => (Op::Open, Operation::Open),
            Phase::Putting => {
                self.left -= 1;
                (Op::Write, Operation::Write(vec![(self.key(), Some(self.value.clone()))]))
            }
            Phase::Closing | Phase::Closed => (Op::Flush, Operation::Close),
        };
        let id = self.next;
        self.next += 1;
        self.under_way += 1;
        self.desk.submit(id, operation);
        let len = if op == Op::Write { self.load.value_bytes } else { 0 };
        Request { at, offset: 0, id, len, stream: writer, lane: 0, op, flags: Flags::SYNC }
    }

    fn finished(&mut self, now: Nanos, done: &Done, _slots: &mut dyn Slots) {
        self.under_way -= 1;
        if let Some(Err(failure)) = self.desk.take(done.request.id) {
            self.failure.get_or_insert(failure);
            (self.left, self.phase) = (0, Phase::Closed);
            return self.due.clear();
        }
        match self.phase {
            Phase::TargetOptions => {
                self.phase = Phase::Putting;
                self.opened = now;
                self.due.extend((0..self.load.writers.max(1)).map(|writer| ((now, writer), ())));
            }
            Phase::Putting => {
                self.latencies.push(now - done.request.at);
                self.answered = now;
                let is_more = self.left > self.due.len() as u64;
                if is_more {
                    let at = self.again(now);
                    self.due.insert((at, done.request.stream), ());
                } else if self.left == 0 && self.under_way == 0 {
                    self.phase = Phase::Closing;
                    self.due.insert((now, 0), ());
                }
            }
            Phase::Closing | Phase::Closed => self.phase = Phase::Closed,
        }
    }

    fn is_over(&self) -> bool {
        self.phase == Phase::Closed && self.under_way == 0
    }
}
