//! Reads the records of a run ahead, in a separate task, while the run's disks are idle.
//!
//! A merge reads runs from all disks, one of which is always on duty. Data needed next from that
//! disk must already be in memory, or the merge would wait until the disk's duty ends.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use crate::OperationError;
use crate::executor::{Signal, Work};
use crate::record::{Key, Record};

use super::Engine;
use super::stream::{Pace, Records, Stream};
use super::version::Run;

/// Records that have been read but not consumed.
struct Shared {
    records: RefCell<VecDeque<Record>>,
    bytes: Cell<u64>,
    end: RefCell<Option<Result<(), OperationError>>>,
    is_let_go: Cell<bool>,
    changed: Signal,
}

/// The records of a run from a given key on.
pub(super) struct Ahead {
    shared: Rc<Shared>,
    ready: VecDeque<Record>,
}

impl Ahead {
    /// Starts reading at the first key that is at least `from`, and reads ahead while fewer than
    /// `bytes_max` bytes are buffered.
    pub(super) fn new(engine: &Rc<Engine>, run: &Run, from: &Key, bytes_max: u64) -> Ahead {
        let shared = Rc::new(Shared {
            records: RefCell::default(),
            bytes: Cell::new(0),
            end: RefCell::new(None),
            is_let_go: Cell::new(false),
            changed: Signal::new(&engine.executor),
        });
        let pace = Pace::idly(bytes_max.max(engine.config.step_bytes as u64));
        let (theirs, mut stream) = (Rc::clone(&shared), Stream::new(engine, run, from, pace));
        let work = engine.work();
        engine.executor.spawn(async move {
            let end = theirs.read(work, &mut stream, bytes_max).await;
            *theirs.end.borrow_mut() = Some(end);
            theirs.changed.notify();
        });
        Ahead { shared, ready: VecDeque::new() }
    }
}

impl Shared {
    /// Reads until the end of the run, or until the consumer is dropped.
    async fn read(
        &self,
        mut work: Work,
        stream: &mut Stream,
        bytes_max: u64,
    ) -> Result<(), OperationError> {
        loop {
            let next = || {
                let has_room = self.bytes.get() < bytes_max;
                (has_room || self.is_let_go.get()).then_some(self.is_let_go.get())
            };
            if self.changed.until(next).await {
                return Ok(());
            }
            stream.fill().await?;
            let Some(first) = stream.pop() else { return Ok(()) };
            let rest = std::iter::from_fn(|| stream.pop());
            for record in std::iter::once(first).chain(rest) {
                self.bytes.set(self.bytes.get() + record.size() as u64);
                self.records.borrow_mut().push_back(record);
                work.did(0, 1).await;
            }
            self.changed.notify();
        }
    }
}

impl Records for Ahead {
    async fn fill(&mut self) -> Result<(), OperationError> {
        if !self.ready.is_empty() {
            return Ok(());
        }
        let shared = &self.shared;
        let taken = || {
            let has_some = !shared.records.borrow().is_empty();
            let end = shared.end.borrow().clone();
            if has_some { Some(Ok(())) } else { end }
        };
        shared.changed.until(taken).await?;
        std::mem::swap(&mut self.ready, &mut shared.records.borrow_mut());
        shared.bytes.set(0);
        shared.changed.notify();
        Ok(())
    }

    fn peek(&self) -> Option<&Record> {
        self.ready.front()
    }

    fn pop(&mut self) -> Option<Record> {
        self.ready.pop_front()
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.shared.is_let_go.set(true);
        self.shared.changed.notify();
    }
}
