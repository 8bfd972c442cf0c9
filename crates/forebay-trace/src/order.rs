//! Sorts slightly unordered records by time, in bounded memory.
//!
//! A record that is late by up to [`WINDOW`] records is moved to its right place. A record that is
//! later gets the time of the last record that was returned, and is counted. Records with equal
//! times keep the order of the file. Times are converted to be relative to the earliest request.
//! The notes contain the time of that request on the source's clock, and how the clock behaved
//! ([`clock`]). Impossible latencies count as unknown.

pub(crate) mod clock;

use std::collections::VecDeque;

use forebay_core::Nanos;

use crate::TraceError;
use crate::rows::{LATENCY_NS_MAX, wrapped_sentence};
use crate::trace::{BATCH, Dictionary, Notes, Reader, Record, SourceFacts};
use clock::{Clock, LOOK_AHEAD};
use forebay_words::plural::{counted, verb};

/// The number of records that are buffered for sorting.
pub const WINDOW: usize = 65_536;

/// A [`Reader`] that returns the records of another reader in order of time.
pub struct Ordered<R> {
    inner: R,
    /// The time on the source's clock from which the inner times count, or `None` if unknown.
    zero: Option<Nanos>,
    /// The buffered records. Their times are relative to `first` once that is known.
    held: Held,
    ended: bool,
    /// The times of the first and the last record that was returned, as in the source.
    first: Option<Nanos>,
    last: Nanos,
    notes: Notes,
    late: u64,
    clock: Clock,
    /// The last rows that were read. They must wait until the rows after them are known.
    tail: Vec<Record>,
    /// The number of latencies that count as unknown.
    wrapped: u64,
    /// If all of the first latencies are 0, their number. Latencies of 0 then count as unknown.
    zeros: u64,
}

/// The minimum number of latencies that are all 0 for them to count as unknown.
const ZEROS_LEAST: u64 = 10;

impl<R: Reader> Ordered<R> {
    /// Creates a reader over `inner`, whose records may be out of order and begin at any time on
    /// the source's clock.
    pub fn new(inner: R) -> Ordered<R> {
        Ordered::by_clock(inner, Some(Nanos::ZERO))
    }

    /// Creates a reader over `inner`, whose times count from `zero` on the source's clock.
    pub fn by_clock(inner: R, zero: Option<Nanos>) -> Ordered<R> {
        let notes = inner.notes().clone();
        Ordered {
            inner,
            zero,
            held: Held::default(),
            ended: false,
            first: None,
            last: Nanos::ZERO,
            notes,
            late: 0,
            clock: Clock::default(),
            tail: Vec::new(),
            wrapped: 0,
            zeros: 0,
        }
    }

    /// Sets whether records after a step back of the clock form a new run, which is placed after
    /// the previous one.
    pub fn splitting_runs(mut self, is_wanted: bool) -> Ordered<R> {
        if is_wanted {
            self.clock.split();
        }
        self
    }

    /// Reads the next batch and buffers it.
    fn take_in(&mut self) -> Result<(), TraceError> {
        let mut batch = self.held.spare.pop().unwrap_or_default();
        self.inner.read(&mut batch)?;
        let facts = self.inner.facts();
        if !facts.headers_again.is_empty() {
            self.clock.repeat_headers(facts.headers_again);
        }
        self.ended = batch.is_empty();
        let start = self.first.unwrap_or(Nanos::ZERO);
        let mut newest = self.held.newest().unwrap_or(Nanos::ZERO);
        let mut sorted = true;
        if !self.tail.is_empty() {
            self.tail.append(&mut batch);
            std::mem::swap(&mut self.tail, &mut batch);
        }
        if !self.clock.pass(&batch) {
            self.follow(&mut batch);
        }
        for record in &mut batch {
            if record.latency.is_some_and(|latency| latency.0 > LATENCY_NS_MAX) {
                record.latency = None;
                self.wrapped += 1;
            }
            if self.zeros > 0 && record.latency == Some(Nanos::ZERO) {
                record.latency = None;
            }
            self.late += u64::from(record.at < self.last);
            record.at = record.at.max(self.last) - start;
            sorted &= record.at >= newest;
            newest = record.at;
        }
        if sorted {
            self.held.push(batch)
        } else {
            self.held.merge(batch)
        }
        Ok(())
    }

    /// Passes the times of a batch to the clock. The last rows wait until the rows after them are
    /// known, unless there are no further rows.
    fn follow(&mut self, batch: &mut Vec<Record>) {
        let known = if self.ended { batch.len() } else { batch.len().saturating_sub(LOOK_AHEAD) };
        self.tail.extend(batch[known..].iter());
        for at in 0..known {
            let (row, ahead) = (batch[at], &batch[at + 1..]);
            let ahead = &ahead[..ahead.len().min(LOOK_AHEAD)];
            batch[at].at = Nanos(self.clock.time(&row, ahead));
        }
        batch.truncate(known);
    }

    /// Returns up to `count` records in `batch`.
    fn hand_out(&mut self, count: usize, batch: &mut Vec<Record>) {
        let start = match self.first {
            Some(start) => start,
            None => {
                let start = self.held.oldest().unwrap_or(Nanos::ZERO);
                self.held.records().for_each(|r| r.at = r.at - start);
                self.drop_zeros();
                start
            }
        };
        self.held.hand_out(count, batch);
        if let Some(last) = batch.last() {
            self.first = Some(start);
            self.last = start + last.at;
        }
    }

    /// Marks latencies as unknown if all latencies read so far are 0, because some tools write 0
    /// for an unknown latency.
    fn drop_zeros(&mut self) {
        let latencies = || self.held.batches.iter().flatten().filter_map(|record| record.latency);
        if latencies().any(|latency| latency > Nanos::ZERO) {
            return;
        }
        let zeros = latencies().count() as u64;
        if zeros >= ZEROS_LEAST {
            self.zeros = zeros;
            self.held.records().for_each(|record| record.latency = None);
        }
    }

    fn zeros_sentence(&self) -> Option<String> {
        (self.zeros > 0).then(|| {
            let zeros = self.zeros;
            format!("the first {zeros} latencies are all 0: latencies of 0 are treated as unknown")
        })
    }

    fn note(&mut self) {
        self.notes.clone_from(self.inner.notes());
        self.notes.rows_late += self.late;
        self.notes.began = self.zero.zip(self.first).map(|(zero, first)| zero + first);
        if self.ended {
            self.notes.warnings.extend(self.clock.sentences(self.late));
            self.notes.run_starts = self.clock.run_starts();
            self.notes.warnings.extend(wrapped_sentence(self.wrapped));
            self.notes.warnings.extend(self.zeros_sentence());
        }
        if self.late > 0 {
            self.notes.warnings.push(format!(
                "{} {} more than {WINDOW} rows too late to be sorted, and {} the time of the row before",
                counted(self.late, "row"),
                verb(self.late, "comes", "come"),
                verb(self.late, "was given", "were given")
            ));
        }
    }
}

impl<R: Reader> Reader for Ordered<R> {
    fn read(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        while !self.ended && self.held.len <= WINDOW {
            self.take_in()?;
        }
        let spare = if self.ended { self.held.len } else { self.held.len - WINDOW };
        self.hand_out(spare.min(BATCH), batch);
        self.note();
        Ok(())
    }

    fn found(&self) -> (&Dictionary, &Notes) {
        (self.inner.dictionary(), &self.notes)
    }

    fn facts(&self) -> SourceFacts {
        SourceFacts { wild_ns: self.clock.wild_ns(), ..self.inner.facts() }
    }
}

/// Buffered records in order of time. As far as they already are in order, they stay in their
/// original batches, so records are seldom copied.
#[derive(Default)]
struct Held {
    /// The batches, none of which is empty.
    batches: VecDeque<Vec<Record>>,
    /// The total number of records.
    len: usize,
    /// Memory of consumed batches, for reuse.
    spare: Vec<Vec<Record>>,
}

impl Held {
    fn oldest(&self) -> Option<Nanos> {
        self.batches.front().and_then(|batch| batch.first()).map(|r| r.at)
    }

    fn newest(&self) -> Option<Nanos> {
        self.batches.back().and_then(|batch| batch.last()).map(|r| r.at)
    }

    fn records(&mut self) -> impl Iterator<Item = &mut Record> {
        self.batches.iter_mut().flatten()
    }

    /// Adds a sorted batch that begins no earlier than the newest record.
    fn push(&mut self, batch: Vec<Record>) {
        if batch.is_empty() {
            self.spare.push(batch);
        } else {
            self.len += batch.len();
            self.batches.push_back(batch);
        }
    }

    /// Adds a batch in any order. Only records that are later than the earliest new one can move.
    /// The sort is stable, and fast for sequences that are already in order.
    fn merge(&mut self, batch: Vec<Record>) {
        let earliest = batch.iter().map(|r| r.at).min();
        let mut first = self.batches.len();
        while first > 0 && self.batches[first - 1].last().map(|r| r.at) > earliest {
            first -= 1;
        }
        let mut unsettled: Vec<Record> = Vec::new();
        for settled in self.batches.drain(first..).chain([batch]) {
            unsettled.extend_from_slice(&settled);
            self.spare.push(settled);
        }
        unsettled.sort_by_key(|r| r.at);
        self.len = self.batches.iter().map(Vec::len).sum();
        for piece in unsettled.chunks(BATCH) {
            let mut batch = self.spare.pop().unwrap_or_default();
            batch.clear();
            batch.extend_from_slice(piece);
            self.push(batch);
        }
    }

    /// Replaces the content of `batch` with the first `count` records.
    fn hand_out(&mut self, count: usize, batch: &mut Vec<Record>) {
        batch.clear();
        while let Some(first) = self.batches.front_mut() {
            let wanted = count - batch.len();
            if first.len() > wanted {
                batch.extend(first.drain(..wanted));
                break;
            }
            if batch.is_empty() {
                std::mem::swap(batch, first);
            } else {
                batch.append(first);
            }
            self.spare.extend(self.batches.pop_front());
        }
        self.len -= batch.len();
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
        fn found(&self) -> (&Dictionary, &Notes) {
            (&self.dictionary, &self.notes)
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
    fn batches_in_order_are_handed_on_whole_and_parts_of_others_in_order() {
        let mut held = Held::default();
        let times = |range: std::ops::Range<u64>| -> Vec<Record> {
            let reader = &mut Times {
                times: range.collect(),
                dictionary: Dictionary::default(),
                notes: Notes::default(),
            };
            let mut batch = Vec::new();
            reader.read(&mut batch).unwrap();
            batch
        };
        let (first, at) =
            (times(0..10), |batch: &[Record]| batch[0].at.0..=batch[batch.len() - 1].at.0);
        let address = first.as_ptr();
        held.push(first);
        held.push(times(10..20));
        held.push(times(20..30));
        let mut batch = Vec::new();
        held.hand_out(10, &mut batch);
        assert_eq!((at(&batch), batch.as_ptr()), (0..=9, address));
        held.hand_out(15, &mut batch);
        assert_eq!((at(&batch), batch.len(), held.len), (10..=24, 15, 5));
        held.merge(times(5..27));
        held.hand_out(27, &mut batch);
        assert_eq!((at(&batch), batch.len(), held.len), (5..=29, 27, 0));
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
