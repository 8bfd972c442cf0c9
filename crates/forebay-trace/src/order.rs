//! Puts slightly unordered records in order of time, in bounded memory.
//!
//! A record may come [`WINDOW`] records late and still find its place. One that comes later is
//! given the time of the last record handed out, and counted. Records of equal time keep the order
//! of the file. Times are made relative to the earliest request.

use std::collections::VecDeque;

use forebay_core::Nanos;

use crate::error::TraceError;
use crate::trace::{BATCH, Dictionary, Notes, Reader, Record};

/// Records held back to be sorted.
pub const WINDOW: usize = 65_536;

/// A [`Reader`] in order of time over one that is not.
pub struct Ordered<R> {
    inner: R,
    /// In order of time, all of them at or after `last`.
    held: VecDeque<Record>,
    incoming: Vec<Record>,
    ended: bool,
    /// Source times of the first and the last record handed out.
    first: Option<Nanos>,
    last: Nanos,
    notes: Notes,
    late: u64,
}

impl<R: Reader> Ordered<R> {
    /// Over `inner`, whose records may be out of order and begin at any time.
    pub fn new(inner: R) -> Ordered<R> {
        let notes = inner.notes().clone();
        Ordered {
            inner,
            held: VecDeque::with_capacity(WINDOW + BATCH),
            incoming: Vec::new(),
            ended: false,
            first: None,
            last: Nanos::ZERO,
            notes,
            late: 0,
        }
    }

    /// Takes the incoming records in.
    fn take_in(&mut self) {
        let mut newest = self.held.back().map_or(self.last, |r| r.at);
        let mut sorted = true;
        for record in &mut self.incoming {
            if record.at < self.last {
                record.at = self.last;
                self.late += 1;
            }
            sorted &= record.at >= newest;
            newest = record.at;
        }
        if sorted {
            self.held.extend(self.incoming.iter());
            return;
        }
        // Only what is later than the earliest newcomer can change places. The sort is stable and
        // quick on runs that are in order already.
        let earliest = self.incoming.iter().map(|r| r.at).min().unwrap_or(newest);
        let from = self.held.partition_point(|r| r.at <= earliest);
        self.held.extend(self.incoming.iter());
        if let Some(unsettled) = self.held.make_contiguous().get_mut(from..) {
            unsettled.sort_by_key(|r| r.at);
        }
    }

    fn note(&mut self) {
        self.notes.clone_from(self.inner.notes());
        self.notes.rows_late += self.late;
        if self.late > 0 {
            self.notes.warnings.push(format!(
                "{} rows come more than {WINDOW} rows after their time; their time was raised to \
                 that of the row before",
                self.late
            ));
        }
    }
}

impl<R: Reader> Reader for Ordered<R> {
    fn read(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        batch.clear();
        while !self.ended && self.held.len() <= WINDOW {
            self.inner.read(&mut self.incoming)?;
            self.ended = self.incoming.is_empty();
            self.take_in();
        }
        let spare = if self.ended { self.held.len() } else { self.held.len() - WINDOW };
        batch.extend(self.held.drain(..spare.min(BATCH)));
        if let (Some(first), Some(last)) = (batch.first(), batch.last()) {
            let start = *self.first.get_or_insert(first.at);
            self.last = last.at;
            for record in batch.iter_mut() {
                record.at = record.at - start;
            }
        }
        self.note();
        Ok(())
    }

    fn dictionary(&self) -> &Dictionary {
        self.inner.dictionary()
    }

    fn notes(&self) -> &Notes {
        &self.notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_core::{Flags, Op};

    struct Times {
        times: VecDeque<u64>,
        dictionary: Dictionary,
        notes: Notes,
    }

    impl Reader for Times {
        fn read(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
            batch.clear();
            for _ in 0..100.min(self.times.len()) {
                let at = self.times.pop_front().unwrap();
                batch.push(Record {
                    at: Nanos(at),
                    offset: self.times.len() as u64,
                    latency: None,
                    len: 1,
                    stream: 0,
                    volume: 0,
                    op: Op::Read,
                    flags: Flags::NONE,
                });
            }
            Ok(())
        }
        fn dictionary(&self) -> &Dictionary {
            &self.dictionary
        }
        fn notes(&self) -> &Notes {
            &self.notes
        }
    }

    fn ordered(times: impl IntoIterator<Item = u64>) -> (Vec<Record>, Notes) {
        let times = times.into_iter().collect();
        let (dictionary, notes) = Default::default();
        let mut reader = Ordered::new(Times { times, dictionary, notes });
        let (mut all, mut batch) = (Vec::new(), Vec::new());
        loop {
            reader.read(&mut batch).unwrap();
            if batch.is_empty() {
                return (all, reader.notes().clone());
            }
            assert!(batch.len() <= BATCH);
            all.extend_from_slice(&batch);
        }
    }

    fn times(records: &[Record]) -> Vec<u64> {
        records.iter().map(|r| r.at.0).collect()
    }

    #[test]
    fn sorts_and_starts_at_zero() {
        let (records, notes) = ordered([50, 40, 70, 45]);
        assert_eq!(times(&records), [0, 5, 10, 30]);
        assert_eq!(notes.rows_late, 0);
    }

    #[test]
    fn equal_times_keep_the_order_of_the_file() {
        let (records, _) = ordered([9, 7, 9, 7, 9]);
        let order: Vec<u64> = records.iter().map(|r| 4 - r.offset).collect();
        assert_eq!(order, [1, 3, 0, 2, 4]);
    }

    #[test]
    fn agrees_with_a_full_sort_within_the_window() {
        let shaken = |n: u64| 1_000_000 + n * 10 + n.wrapping_mul(7919) % 300_000;
        let (records, notes) = ordered((0..200_000).map(shaken));
        let mut expected: Vec<u64> = (0..200_000).map(shaken).collect();
        expected.sort();
        let start = expected[0];
        expected.iter_mut().for_each(|t| *t -= start);
        assert!(times(&records) == expected);
        assert_eq!(notes.rows_late, 0);
    }

    #[test]
    fn too_late_is_raised_and_counted_with_one_warning() {
        let count = WINDOW as u64 + 30_000;
        let (records, notes) = ordered((1..count).chain([1, 2]).chain(count..count + 10));
        assert_eq!(records.len() as u64, count + 11);
        assert!(records.is_sorted_by_key(|r| r.at));
        assert_eq!((notes.rows_late, notes.warnings.len()), (2, 1));
    }
}
