//! A workload that issues given operations, several at a time, and records their answers.

use std::collections::{BTreeMap, VecDeque};

use forebay_core::{Done, Flags, Nanos, Op, Request, Slots, Workload};
use forebay_store::{Answer, Desk, Operation, OperationError};

pub(crate) struct Asking {
    desk: Desk,
    left: VecDeque<Operation>,
    /// The answers, by the index of the operation.
    pub(crate) answers: BTreeMap<u64, Result<Answer, OperationError>>,
    next: u64,
    now: Nanos,
    under_way: usize,
    depth: usize,
}

impl Asking {
    /// Creates a workload that issues the first operation by itself, and then `depth` operations at
    /// a time.
    pub(crate) fn new(
        desk: &Desk,
        operations: impl IntoIterator<Item = Operation>,
        depth: usize,
    ) -> Asking {
        let left = operations.into_iter().collect();
        let (desk, answers) = (desk.clone(), BTreeMap::new());
        Asking { desk, left, answers, next: 0, now: Nanos::ZERO, under_way: 0, depth }
    }
}

impl Workload for Asking {
    fn peek(&self) -> Option<Nanos> {
        let depth = if self.answers.is_empty() { 1 } else { self.depth };
        (self.under_way < depth && !self.left.is_empty()).then_some(self.now)
    }

    fn take(&mut self) -> Request {
        let (id, operation) = (self.next, self.left.pop_front().expect("peek said so"));
        let op = if operation == Operation::Open { Op::Open } else { Op::Read };
        self.desk.submit(id, operation);
        (self.next, self.under_way) = (id + 1, self.under_way + 1);
        Request { at: self.now, offset: 0, id, len: 0, stream: 0, lane: 0, op, flags: Flags::NONE }
    }

    fn finished(&mut self, now: Nanos, done: &Done, _slots: &mut dyn Slots) {
        (self.under_way, self.now) = (self.under_way - 1, now);
        self.answers.insert(done.request.id, self.desk.take(done.request.id).unwrap());
    }

    fn is_over(&self) -> bool {
        self.left.is_empty() && self.under_way == 0
    }

    /// The run ends with the last answer, without waiting for the store's background work.
    fn is_stopped(&self) -> bool {
        self.is_over()
    }
}
