//! Reads a trace on a thread of its own, a few batches ahead of whoever works on them.
//!
//! Invariants: batches, errors and the end come in the order of the reader beneath; with a batch
//! come the dictionary and the notes as they were when it was read; at most [`DEPTH`] batches and
//! the two at work are in memory. A panic of the reader goes on in the caller, so that it never
//! looks like the end of the trace.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

use crate::error::TraceError;
use crate::trace::{BATCH, Dictionary, Notes, Reader, Record, Stream};

/// Batches read ahead.
pub const DEPTH: usize = 4;

/// What one call of the reader gave. An empty batch is the end.
struct Batch {
    records: Vec<Record>,
    new_streams: Vec<Stream>,
    new_volumes: Vec<String>,
    notes: Notes,
}

/// A [`Reader`] over one that works on another thread.
pub struct Ahead {
    batches: Receiver<Result<Batch, TraceError>>,
    emptied: Sender<Vec<Record>>,
    thread: Option<JoinHandle<()>>,
    dictionary: Dictionary,
    notes: Notes,
}

impl Ahead {
    /// Starts to read `inner`. The thread ends with the trace, at an error, or when this is gone.
    pub fn new(inner: Box<dyn Reader>) -> Ahead {
        let (filled, batches) = sync_channel(DEPTH);
        let (emptied, empties) = channel();
        let (dictionary, notes) = (inner.dictionary().clone(), inner.notes().clone());
        let (streams, volumes) = (dictionary.streams.len(), dictionary.volumes.len());
        let thread = thread::spawn(move || produce(inner, streams, volumes, &filled, &empties));
        Ahead { batches, emptied, thread: Some(thread), dictionary, notes }
    }

    /// The thread is done: its panic, if that is why, becomes ours.
    fn ended(&mut self) {
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join) {
            std::panic::resume_unwind(panic);
        }
    }
}

fn produce(
    mut inner: Box<dyn Reader>,
    mut streams: usize,
    mut volumes: usize,
    filled: &SyncSender<Result<Batch, TraceError>>,
    empties: &Receiver<Vec<Record>>,
) {
    loop {
        let mut records = empties.try_recv().unwrap_or_else(|_| Vec::with_capacity(BATCH));
        if let Err(error) = inner.read(&mut records) {
            // Nobody listens any more: nothing is left to do.
            let _ = filled.send(Err(error));
            return;
        }
        let dictionary = inner.dictionary();
        let new_streams = dictionary.streams.get(streams..).unwrap_or_default().to_vec();
        let new_volumes = dictionary.volumes.get(volumes..).unwrap_or_default().to_vec();
        (streams, volumes) = (dictionary.streams.len(), dictionary.volumes.len());
        let notes = inner.notes().clone();
        let last = records.is_empty();
        let sent = filled.send(Ok(Batch { records, new_streams, new_volumes, notes }));
        if last || sent.is_err() {
            return;
        }
    }
}

impl Reader for Ahead {
    fn read(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        batch.clear();
        let Ok(next) = self.batches.recv() else {
            self.ended();
            return Ok(());
        };
        let Batch { records, new_streams, new_volumes, notes } = next?;
        let emptied = std::mem::replace(batch, records);
        // The reader may have ended and need no more.
        let _ = self.emptied.send(emptied);
        self.dictionary.streams.extend(new_streams);
        self.dictionary.volumes.extend(new_volumes);
        self.notes = notes;
        Ok(())
    }

    fn dictionary(&self) -> &Dictionary {
        &self.dictionary
    }

    fn notes(&self) -> &Notes {
        &self.notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Place;
    use forebay_core::{Flags, Nanos, Op};

    /// Gives 20 batches of growing time, each with a volume of its own; then ends as told.
    struct Script {
        calls: u64,
        end: fn() -> Result<(), TraceError>,
        dictionary: Dictionary,
        notes: Notes,
    }

    impl Reader for Script {
        fn read(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
            batch.clear();
            self.calls += 1;
            if self.calls > 20 {
                return (self.end)();
            }
            self.dictionary.volumes.push(self.calls.to_string());
            self.notes.rows_skipped = self.calls;
            batch.push(Record {
                at: Nanos(self.calls),
                offset: 0,
                latency: None,
                len: 1,
                stream: 0,
                volume: self.calls as u32 - 1,
                op: Op::Read,
                flags: Flags::NONE,
            });
            Ok(())
        }
        fn dictionary(&self) -> &Dictionary {
            &self.dictionary
        }
        fn notes(&self) -> &Notes {
            &self.notes
        }
    }

    fn read(end: fn() -> Result<(), TraceError>) -> (u64, Result<(), TraceError>) {
        let dictionary = Dictionary { streams: vec![Stream::default()], volumes: Vec::new() };
        let script = Script { calls: 0, end, dictionary, notes: Notes::default() };
        let mut reader = Ahead::new(Box::new(script));
        let (mut batch, mut count) = (Vec::new(), 0);
        loop {
            if let Err(error) = reader.read(&mut batch) {
                return (count, Err(error));
            }
            let Some(record) = batch.first() else { return (count, Ok(())) };
            count += 1;
            assert_eq!((batch.len(), record.at), (1, Nanos(count)));
            assert_eq!(reader.dictionary().volumes.len() as u64, count);
            assert_eq!(
                (reader.dictionary().streams.len(), reader.notes().rows_skipped),
                (1, count)
            );
        }
    }

    #[test]
    fn all_batches_come_with_what_was_known_then() {
        let (count, end) = read(|| Ok(()));
        assert!(count == 20 && end.is_ok());
    }

    #[test]
    fn errors_come_after_the_batches_before_them() {
        let (count, end) = read(|| {
            Err(TraceError::Malformed {
                path: "t".into(),
                place: Place::File,
                got: "a".into(),
                expected: "b".into(),
                hint: String::new(),
            })
        });
        assert!(count == 20 && end.is_err());
    }

    #[test]
    #[should_panic(expected = "a fault")]
    fn a_panic_is_not_the_end_of_a_trace() {
        read(|| panic!("a fault"));
    }
}
