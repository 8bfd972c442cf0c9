//! Reads ahead: a reader runs in its own thread while its batches are processed.
//!
//! A few batches may be queued at a time. Their memory is returned to the reader when they have
//! been processed. Changes to the dictionary and the notes travel with the batches, because the
//! name of a thread may become known long after its first request. Batches, errors and panics
//! arrive in the same order as without the thread.

use std::panic;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::{self, JoinHandle};

use crate::{Dictionary, Notes, Reader, Record, TraceError};

/// The maximum number of queued batches.
const WAITING_MAX: usize = 4;

/// A [`Reader`] that runs another reader in its own thread.
pub struct Ahead {
    /// The running reader; `None` once it has ended.
    running: Option<Running>,
    dictionary: Dictionary,
    notes: Notes,
}

struct Running {
    parcels: Receiver<Parcel>,
    used: SyncSender<Vec<Record>>,
    thread: JoinHandle<()>,
}

/// The result of one call to the reader.
struct Parcel {
    batch: Result<Vec<Record>, TraceError>,
    dictionary: Option<Dictionary>,
    notes: Option<Notes>,
}

impl Ahead {
    /// Starts reading.
    pub fn new(mut reader: Box<dyn Reader>) -> Ahead {
        let (dictionary, notes) = (reader.dictionary().clone(), reader.notes().clone());
        let (full, parcels) = sync_channel(WAITING_MAX);
        let (used, empty) = sync_channel(WAITING_MAX + 1);
        let said = (dictionary.clone(), notes.clone());
        let work = move || read_on(reader.as_mut(), said, &full, &empty);
        let running = Running { parcels, used, thread: thread::spawn(work) };
        Ahead { running: Some(running), dictionary, notes }
    }

    /// Waits until the thread ends, and propagates its panic, if any.
    fn ended(&mut self) {
        let Some(Running { parcels, used, thread }) = self.running.take() else { return };
        drop((parcels, used));
        if let Err(cause) = thread.join() {
            panic::resume_unwind(cause);
        }
    }
}

impl Reader for Ahead {
    fn read(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        let Some(running) = &self.running else {
            batch.clear();
            return Ok(());
        };
        // The last batch is empty or was processed. If it cannot be returned, the thread has ended.
        let _ = running.used.try_send(std::mem::take(batch));
        let Ok(parcel) = running.parcels.recv() else {
            self.ended();
            return Ok(());
        };
        if let Some(dictionary) = parcel.dictionary {
            self.dictionary = dictionary;
        }
        if let Some(notes) = parcel.notes {
            self.notes = notes;
        }
        match parcel.batch {
            Ok(read) => *batch = read,
            Err(error) => {
                self.ended();
                return Err(error);
            }
        }
        if batch.is_empty() {
            self.ended();
        }
        Ok(())
    }

    fn found(&self) -> (&Dictionary, &Notes) {
        (&self.dictionary, &self.notes)
    }
}

/// Reads until the end, the first error, or the loss of the receiver.
fn read_on(
    reader: &mut dyn Reader,
    (mut dictionary, mut notes): (Dictionary, Notes),
    full: &SyncSender<Parcel>,
    empty: &Receiver<Vec<Record>>,
) {
    loop {
        let mut batch = match empty.try_recv() {
            Ok(batch) => batch,
            Err(TryRecvError::Empty) => Vec::new(),
            Err(TryRecvError::Disconnected) => return,
        };
        let outcome = reader.read(&mut batch);
        let last = outcome.is_err() || batch.is_empty();
        let parcel = Parcel {
            batch: outcome.map(|()| batch),
            dictionary: if_changed(&mut dictionary, reader.dictionary()),
            notes: if_changed(&mut notes, reader.notes()),
        };
        if full.send(parcel).is_err() || last {
            return;
        }
    }
}

/// Returns a copy of `new` if it differs from `old`, and stores it in `old`.
fn if_changed<T: Clone + PartialEq>(old: &mut T, new: &T) -> Option<T> {
    (old != new).then(|| {
        old.clone_from(new);
        new.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Place, Stream};
    use forebay_core::{Flags, Nanos, Op};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A reader whose batches contain one record. It renames its only stream in every batch, and
    /// ends as configured.
    struct Fake {
        left: u64,
        end: fn() -> Result<(), TraceError>,
        dictionary: Dictionary,
        notes: Notes,
        reads: Arc<AtomicUsize>,
    }

    impl Reader for Fake {
        fn read(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
            self.reads.fetch_add(1, Ordering::SeqCst);
            batch.clear();
            if self.left == 0 {
                return (self.end)();
            }
            self.left -= 1;
            self.dictionary.streams[0].name = self.left.to_string();
            self.notes.rows_skipped = self.left;
            batch.push(Record {
                at: Nanos(self.left),
                offset: 0,
                latency: None,
                len: 512,
                stream: 0,
                volume: 0,
                op: Op::Read,
                flags: Flags::NONE,
            });
            Ok(())
        }
        fn found(&self) -> (&Dictionary, &Notes) {
            (&self.dictionary, &self.notes)
        }
    }

    fn fake(left: u64, end: fn() -> Result<(), TraceError>) -> (Ahead, Arc<AtomicUsize>) {
        let dictionary = Dictionary { streams: vec![Stream::default()], volumes: Vec::new() };
        let reads = Arc::new(AtomicUsize::new(0));
        let notes = Notes::default();
        let reader = Fake { left, end, dictionary, notes, reads: Arc::clone(&reads) };
        (Ahead::new(Box::new(reader)), reads)
    }

    #[test]
    fn each_batch_comes_with_its_own_dictionary_and_notes() {
        let (mut ahead, _) = fake(100, || Ok(()));
        let mut batch = Vec::new();
        for left in (0..100).rev() {
            ahead.read(&mut batch).unwrap();
            assert_eq!(batch[0].at, Nanos(left));
            assert_eq!(ahead.dictionary().streams[0].name, left.to_string());
            assert_eq!(ahead.notes().rows_skipped, left);
        }
        for _ in 0..2 {
            ahead.read(&mut batch).unwrap();
            assert!(batch.is_empty());
        }
        assert_eq!(ahead.dictionary().streams[0].name, "0");
    }

    #[test]
    fn errors_come_after_what_was_read_before_them() {
        let (mut ahead, _) = fake(3, || {
            let (got, expected, hint) = ("noise".into(), "a row".into(), String::new());
            Err(TraceError::Malformed {
                path: "t".into(),
                place: Place::Row(4),
                got,
                expected,
                hint,
            })
        });
        let mut batch = Vec::new();
        for _ in 0..3 {
            ahead.read(&mut batch).unwrap();
        }
        assert!(ahead.read(&mut batch).unwrap_err().to_string().contains("row 4"));
    }

    #[test]
    #[should_panic(expected = "a fault of the reader")]
    fn panics_are_passed_on() {
        let (mut ahead, _) = fake(3, || panic!("a fault of the reader"));
        let mut batch = vec![];
        for _ in 0..4 {
            ahead.read(&mut batch).unwrap();
        }
    }

    #[test]
    fn stopping_early_stops_the_thread_which_reads_a_bounded_distance_ahead() {
        let (mut ahead, reads) = fake(u64::MAX, || Ok(()));
        ahead.read(&mut Vec::new()).unwrap();
        let thread = ahead.running.take().map(|Running { parcels, used, thread }| {
            drop((parcels, used));
            thread
        });
        thread.unwrap().join().unwrap();
        assert!(reads.load(Ordering::SeqCst) <= WAITING_MAX + 3);
    }
}
