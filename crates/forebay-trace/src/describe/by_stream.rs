//! Computes the figures of each stream, and the sequential runs within streams.
//!
//! The reads and the writes of a stream on each volume are separate sequences, so a program that
//! reads one file and writes another is sequential in both.

use std::collections::BTreeSet;

use super::{
    Breaks, ByStream, RunLengths, Runs, Sequences, StreamRow, at, direction, mean_kib, share,
};
use crate::streams::{Grouping, StreamBy, is_write_back};
use crate::{Dictionary, Record};

/// The maximum number of streams that get their own row.
const ROWS: usize = 20;

/// The totals of each stream.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    grouping: Grouping,
    totals: Vec<Total>,
    sequences: Sequences,
    breaks: Breaks,
    runs: RunLengths,
    /// The totals per thread; None as long as threads and streams are identical.
    threads: Option<Threads>,
    /// Whether each stream of the dictionary submitted data requests.
    seen: Vec<bool>,
}

/// The sequences of threads as the kernel distinguishes them: each write-back worker is separate.
#[derive(Clone, Debug)]
struct Threads {
    grouping: Grouping,
    sequences: Sequences,
    sequential: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Total {
    /// The number of reads and of writes.
    requests: [u64; 2],
    bytes: [u64; 2],
    sequential: u64,
}

impl Streams {
    pub(super) fn new(by: StreamBy) -> Streams {
        let mut streams = Streams {
            grouping: Grouping::new(by),
            totals: Vec::new(),
            sequences: Sequences::default(),
            breaks: Breaks::default(),
            runs: RunLengths::default(),
            threads: None,
            seen: Vec::new(),
        };
        if by != StreamBy::Thread {
            streams.part(Grouping::separating_write_back(StreamBy::Thread));
        }
        streams
    }

    /// Adds data requests.
    pub(super) fn add(&mut self, data: &[Record], dictionary: &Dictionary) {
        if self.seen.len() < dictionary.streams.len() {
            self.seen.resize(dictionary.streams.len(), false);
        }
        self.breaks.clear(data.len());
        for r in data {
            let group = match self.grouping.known_group(r.stream) {
                Some(group) => group,
                None => self.meet(dictionary, r.stream),
            };
            let continues = self.breaks.step(self.sequences.run(group, r), r);
            let total = at(&mut self.totals, group);
            total.sequential += u64::from(continues);
            total.requests[direction(r)] += 1;
            total.bytes[direction(r)] += u64::from(r.len);
            if let Some(threads) = &mut self.threads {
                threads.add(r, dictionary);
            }
            if let Some(seen) = self.seen.get_mut(r.stream as usize) {
                *seen = true;
            }
        }
        self.runs.add(&self.breaks);
    }

    /// Returns the grouping of streams.
    pub(super) fn grouping(&mut self) -> &mut Grouping {
        &mut self.grouping
    }

    /// Returns the group of a new stream.
    #[cold]
    fn meet(&mut self, dictionary: &Dictionary, stream: u32) -> u32 {
        let mut new = self.grouping.ungrouped(dictionary).iter();
        if self.threads.is_none() && new.any(|stream| is_write_back(&stream.name)) {
            self.part(self.grouping.clone().with_separate_write_back());
        }
        self.grouping.group(dictionary, stream)
    }

    /// Starts to track threads separately from streams.
    fn part(&mut self, grouping: Grouping) {
        let sequential = self.sum().sequential;
        self.threads = Some(Threads { grouping, sequences: self.sequences.clone(), sequential });
    }

    /// Returns the number of streams with data requests.
    pub(super) fn count(&self) -> u64 {
        self.totals.iter().filter(|t| t.requests() > 0).count() as u64
    }

    pub(super) fn sequential_share(&self) -> Option<f64> {
        let sum = self.sum();
        share(sum.sequential, sum.requests())
    }

    pub(super) fn sequential_share_by_thread(&self) -> Option<f64> {
        let sum = self.sum();
        share(self.threads.as_ref().map_or(sum.sequential, |t| t.sequential), sum.requests())
    }

    /// Returns the number of threads and processes with data requests.
    pub(super) fn threads_and_processes(&self, dictionary: &Dictionary) -> (u64, u64) {
        let active = dictionary.streams.iter().zip(&self.seen).filter(|(_, seen)| **seen);
        let (mut threads, mut processes) = (BTreeSet::new(), BTreeSet::new());
        for (stream, _) in active {
            threads.extend(stream.thread);
            processes.extend(stream.process);
        }
        (threads.len() as u64, processes.len() as u64)
    }

    pub(super) fn write_back_share(&self) -> Option<f64> {
        let group = self.grouping.write_back();
        let written = group.and_then(|g| self.totals.get(g as usize)).map_or(0, |t| t.bytes[1]);
        share(written, self.sum().bytes[1])
    }

    pub(super) fn runs(&self) -> Runs {
        let mut runs = self.runs.clone();
        runs.add_runs(self.sequences.runs());
        runs.figures()
    }

    /// Returns the streams with the most bytes, and the sum of all others.
    pub(super) fn rows(&self, dictionary: &Dictionary) -> ByStream {
        let all = self.sum();
        let mut order: Vec<(u32, &Total)> =
            (0..).zip(&self.totals).filter(|(_, t)| t.requests() > 0).collect();
        order.sort_by_key(|(group, t)| (std::cmp::Reverse(t.bytes()), *group));
        let (shown, hidden) = order.split_at(order.len().min(ROWS));
        let mut other = Total::default();
        hidden.iter().for_each(|(_, t)| other.merge(t));
        ByStream {
            total: order.len() as u64,
            rows: shown
                .iter()
                .map(|(group, t)| t.row(self.grouping.label(dictionary, *group), &all))
                .collect(),
            other: (!hidden.is_empty()).then(|| other.row("other".to_owned(), &all)),
        }
    }

    fn sum(&self) -> Total {
        let mut sum = Total::default();
        self.totals.iter().for_each(|t| sum.merge(t));
        sum
    }
}

impl Total {
    fn requests(&self) -> u64 {
        self.requests.iter().sum()
    }

    fn bytes(&self) -> u64 {
        self.bytes.iter().sum()
    }

    fn merge(&mut self, other: &Total) {
        for direction in 0..2 {
            self.requests[direction] += other.requests[direction];
            self.bytes[direction] += other.bytes[direction];
        }
        self.sequential += other.sequential;
    }

    fn row(&self, label: String, all: &Total) -> StreamRow {
        StreamRow {
            label,
            requests: self.requests(),
            reads: self.requests[0],
            writes: self.requests[1],
            read_bytes: self.bytes[0],
            write_bytes: self.bytes[1],
            sequential_share: share(self.sequential, self.requests()),
            mean_kib: mean_kib(self.bytes(), self.requests()),
            request_share: share(self.requests(), all.requests()),
            byte_share: share(self.bytes(), all.bytes()),
        }
    }
}

impl Threads {
    #[inline]
    fn add(&mut self, r: &Record, dictionary: &Dictionary) {
        let group = self.grouping.group(dictionary, r.stream);
        self.sequential += u64::from(self.sequences.run(group, r).step(r));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{read, write};
    use super::*;
    use crate::Stream;

    fn dictionary(names: &[&str]) -> Dictionary {
        let stream = |(id, name): (u32, &&str)| Stream {
            thread: Some(id),
            process: Some(id / 2),
            name: (*name).to_owned(),
        };
        Dictionary { streams: (0..).zip(names).map(stream).collect(), volumes: vec!["v".into()] }
    }

    fn by(stream: u32, r: Record) -> Record {
        Record { stream, ..r }
    }

    #[test]
    fn interleaved_streams_are_sequential_each() {
        let d = dictionary(&["a", "b"]);
        let mut s = Streams::new(StreamBy::Thread);
        s.add(
            &[
                by(0, read(0, 0, 512)),
                by(1, read(0, 9216, 512)),
                by(0, read(0, 512, 512)),
                by(0, write(0, 1024, 512)),
                by(1, read(0, 9728, 1024)),
                Record { volume: 99, ..by(1, read(0, 10_752, 512)) },
            ],
            &d,
        );
        assert_eq!((s.count(), s.sequential_share()), (2, Some(2.0 / 6.0)));
        assert_eq!((s.runs().count, s.runs().max_kib), (4, Some(1.5)));
        let table = s.rows(&d);
        assert_eq!((table.total, table.other.is_none()), (2, true));
        assert_eq!((table.rows[0].label.as_str(), table.rows[1].label.as_str()), ("b/1", "a/0"));
        assert_eq!((table.rows[1].reads, table.rows[1].writes), (2, 1));
        assert_eq!(table.rows[1].sequential_share, Some(1.0 / 3.0));
        assert_eq!(table.rows[0].byte_share, Some(2048.0 / 3584.0));
        assert_eq!((table.rows[1].mean_kib, table.rows[1].request_share), (Some(0.5), Some(0.5)));
    }

    #[test]
    fn write_back_is_one_stream_of_many_threads() {
        let d = dictionary(&["kworker/0:1", "kworker/1:1", "cp", "idle"]);
        let batch =
            [by(0, write(0, 0, 512)), by(1, write(0, 512, 512)), by(2, write(0, 4096, 1024))];
        let mut s = Streams::new(StreamBy::Thread);
        s.add(&batch, &d);
        assert_eq!((s.count(), s.write_back_share()), (2, Some(0.5)));
        assert_eq!(s.sequential_share(), Some(1.0 / 3.0));
        assert_eq!(
            (s.threads_and_processes(&d), s.sequential_share_by_thread()),
            ((3, 2), Some(0.0))
        );
    }

    #[test]
    fn threads_part_from_the_streams_at_the_first_write_back_worker() {
        let mut d = dictionary(&["cp"]);
        let mut s = Streams::new(StreamBy::Thread);
        s.add(&[by(0, write(0, 0, 512)), by(0, write(0, 512, 512))], &d);
        assert_eq!(s.sequential_share_by_thread(), Some(0.5));
        d.streams.extend(dictionary(&["cp", "kworker/0:1", "kworker/1:1"]).streams.split_off(1));
        let batch = [
            by(1, write(0, 8192, 512)),
            by(0, write(0, 1024, 512)),
            by(2, write(0, 8704, 512)),
            by(1, write(0, 8704, 512)),
        ];
        s.add(&batch, &d);
        assert_eq!(s.sequential_share(), Some(3.0 / 6.0));
        assert_eq!(s.sequential_share_by_thread(), Some(3.0 / 6.0));
        s.add(&[by(2, write(0, 9216, 512))], &d);
        assert_eq!(
            (s.sequential_share(), s.sequential_share_by_thread()),
            (Some(4.0 / 7.0), Some(4.0 / 7.0))
        );
    }

    #[test]
    fn streams_beyond_twenty_are_added_up() {
        let names = vec!["x"; 25];
        let d = dictionary(&names);
        let batch: Vec<Record> = (0..25).map(|k| by(k, read(0, 0, 512 * (k + 1)))).collect();
        let mut s = Streams::new(StreamBy::Thread);
        s.add(&batch, &d);
        let table = s.rows(&d);
        assert_eq!((table.total, table.rows.len()), (25, 20));
        assert_eq!(table.rows[0].read_bytes, 25 * 512);
        let other = table.other.expect("five more");
        assert_eq!((other.requests, other.read_bytes), (5, 15 * 512));
    }
}
