//! Snapshots of a store, and iterating over them.

use std::sync::mpsc::{Receiver, sync_channel};

use super::{AnswerCallback, OperationResult, Store};
use crate::{Answer, Key, Operation, OperationError, Value};

/// A snapshot of a store.
pub struct Snapshot {
    pub(super) store: Store,
    pub(super) id: u64,
}

impl Snapshot {
    fn at(&self, read: Operation) -> Operation {
        Operation::At { snapshot: self.id, read: Box::new(read) }
    }

    /// Begins a [`Get`](Operation::Get) or a [`Scan`](Operation::Scan) on the snapshot.
    pub fn begin(&self, read: Operation, then: AnswerCallback) {
        self.store.begin(self.at(read), then);
    }

    /// Returns the value of a key in the snapshot.
    ///
    /// # Errors
    /// Returns [`OperationError`] if the operation failed.
    pub fn get(&self, key: impl Into<Key>) -> Result<Option<Value>, OperationError> {
        self.store.value(self.at(Operation::Get(key.into())))
    }

    /// Returns the first keys at or after `from` in the snapshot, with their values.
    ///
    /// # Errors
    /// Returns [`OperationError`] if the operation failed.
    pub fn scan(
        &self,
        from: impl Into<Key>,
        count: usize,
    ) -> Result<Vec<(Key, Value)>, OperationError> {
        let scan = Operation::Scan { from: from.into(), count, bytes: u64::MAX };
        self.store.records(self.at(scan))
    }

    /// Iterates over all keys at or after `from` in the snapshot, with their values. The next page
    /// is read while one is consumed.
    pub fn records(&self, from: impl Into<Key>) -> Records<'_> {
        let mut records = Records { snapshot: self, asked: None, ready: Vec::new().into_iter() };
        records.ask(from.into());
        records
    }
}

/// The size of a page of [`Records`].
const PAGE_BYTES: u64 = 4 << 20;

/// An iterator over the keys and values of a snapshot, in order. It ends after the first error.
pub struct Records<'a> {
    snapshot: &'a Snapshot,
    /// Receives the next page; None after the last page.
    asked: Option<Receiver<OperationResult>>,
    ready: std::vec::IntoIter<(Key, Value)>,
}

impl Records<'_> {
    fn ask(&mut self, from: Key) {
        let (said, answer) = sync_channel(1);
        let scan = Operation::Scan { from, count: usize::MAX, bytes: PAGE_BYTES };
        self.snapshot.begin(
            scan,
            Box::new(move |answer| {
                // The iterator may have been dropped.
                let _ = said.send(answer);
            }),
        );
        self.asked = Some(answer);
    }
}

impl Iterator for Records<'_> {
    type Item = Result<(Key, Value), OperationError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.ready.as_slice().is_empty() {
            let asked = self.asked.take()?;
            match asked.recv().unwrap_or(Err(OperationError::Closed)) {
                Ok(Answer::Page(page)) => {
                    if let Some(next) = page.next {
                        self.ask(next);
                    }
                    self.ready = page.records.into_iter();
                }
                Ok(_) => {}
                Err(failure) => return Some(Err(failure)),
            }
        }
        self.ready.next().map(Ok)
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.store.begin(Operation::Release(self.id), Box::new(|_| ()));
    }
}
