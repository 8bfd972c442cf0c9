//! Figures of each stream, and the order of requests as the streams meant it.
//!
//! A stream's reads and writes on each volume are sequences of their own: a program that reads one
//! file and writes another is sequential in both.

use std::collections::BTreeSet;

use forebay_core::Op;
use rustc_hash::FxHashMap;

use super::description::{ByStream, Runs, StreamRow};
use super::sequential::{Run, RunLengths, Step};
use super::{is_data, mean_kib, share};
use crate::streams::{Grouping, StreamBy};
use crate::trace::{Dictionary, Record};

/// Streams that have a row of their own.
const ROWS: usize = 20;
/// Volumes whose sequences are found without hashing.
const NEAR_VOLUMES: u32 = 64;

/// Totals of each stream.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    grouping: Grouping,
    totals: Vec<Total>,
    sequences: Sequences,
    runs: RunLengths,
}

#[derive(Clone, Copy, Debug, Default)]
struct Total {
    reads: u64,
    writes: u64,
    read_bytes: u64,
    write_bytes: u64,
    sequential: u64,
}

impl Streams {
    pub(super) fn new(by: StreamBy) -> Streams {
        Streams {
            grouping: Grouping::new(by),
            totals: Vec::new(),
            sequences: Sequences::default(),
            runs: RunLengths::default(),
        }
    }

    pub(super) fn add(&mut self, batch: &[Record], dictionary: &Dictionary) {
        for r in batch.iter().filter(|r| is_data(r)) {
            let group = self.grouping.group(dictionary, r.stream);
            let step = self.sequences.run(group, r).step(r);
            if let Step::Breaks { ended, .. } = step {
                self.runs.add(&ended);
            }
            let total = at(&mut self.totals, group);
            total.sequential += u64::from(matches!(step, Step::Continues));
            if r.op == Op::Read {
                total.reads += 1;
                total.read_bytes += u64::from(r.len);
            } else {
                total.writes += 1;
                total.write_bytes += u64::from(r.len);
            }
        }
    }

    /// Streams with data requests.
    pub(super) fn count(&self) -> u64 {
        self.totals.iter().filter(|t| t.requests() > 0).count() as u64
    }

    pub(super) fn sequential_share(&self) -> Option<f64> {
        let sum = self.sum();
        share(sum.sequential, sum.requests())
    }

    pub(super) fn write_back_share(&self) -> Option<f64> {
        let group = self.grouping.write_back();
        let written = group.and_then(|g| self.totals.get(g as usize)).map_or(0, |t| t.write_bytes);
        share(written, self.sum().write_bytes)
    }

    pub(super) fn runs(&self) -> Runs {
        let mut runs = self.runs.clone();
        self.sequences.runs.iter().flatten().for_each(|run| runs.add(run));
        runs.figures()
    }

    /// The streams with most bytes, and what is left.
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
        self.reads + self.writes
    }

    fn bytes(&self) -> u64 {
        self.read_bytes + self.write_bytes
    }

    fn merge(&mut self, other: &Total) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.read_bytes += other.read_bytes;
        self.write_bytes += other.write_bytes;
        self.sequential += other.sequential;
    }

    fn row(&self, label: String, all: &Total) -> StreamRow {
        StreamRow {
            label,
            requests: self.requests(),
            reads: self.reads,
            writes: self.writes,
            read_bytes: self.read_bytes,
            write_bytes: self.write_bytes,
            sequential_share: share(self.sequential, self.requests()),
            mean_kib: mean_kib(self.bytes(), self.requests()),
            request_share: share(self.requests(), all.requests()),
            byte_share: share(self.bytes(), all.bytes()),
        }
    }
}

/// The threads of the trace as the kernel tells them apart.
#[derive(Clone, Debug)]
pub(super) struct Threads {
    grouping: Grouping,
    sequences: Sequences,
    requests: u64,
    sequential: u64,
    /// Which streams of the dictionary submitted data requests.
    seen: Vec<bool>,
}

impl Threads {
    pub(super) fn new() -> Threads {
        Threads {
            grouping: Grouping::with_write_back_apart(StreamBy::Thread),
            sequences: Sequences::default(),
            requests: 0,
            sequential: 0,
            seen: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, batch: &[Record], dictionary: &Dictionary) {
        if self.seen.len() < dictionary.streams.len() {
            self.seen.resize(dictionary.streams.len(), false);
        }
        for r in batch.iter().filter(|r| is_data(r)) {
            let group = self.grouping.group(dictionary, r.stream);
            let step = self.sequences.run(group, r).step(r);
            self.requests += 1;
            self.sequential += u64::from(matches!(step, Step::Continues));
            if let Some(seen) = self.seen.get_mut(r.stream as usize) {
                *seen = true;
            }
        }
    }

    pub(super) fn sequential_share(&self) -> Option<f64> {
        share(self.sequential, self.requests)
    }

    /// Threads and processes with data requests.
    pub(super) fn counts(&self, dictionary: &Dictionary) -> (u64, u64) {
        let active = dictionary.streams.iter().zip(&self.seen).filter(|(_, seen)| **seen);
        let (mut threads, mut processes) = (BTreeSet::new(), BTreeSet::new());
        for (stream, _) in active {
            threads.extend(stream.thread);
            processes.extend(stream.process);
        }
        (threads.len() as u64, processes.len() as u64)
    }
}

/// The current run of each stream, volume and direction.
#[derive(Clone, Debug, Default)]
struct Sequences {
    /// Runs of reads and of writes.
    runs: Vec<[Run; 2]>,
    /// Index into `runs`, plus one, by group and volume.
    near: Vec<Vec<u32>>,
    /// The same for volumes with great numbers.
    far: FxHashMap<(u32, u32), u32>,
}

impl Sequences {
    #[inline]
    fn run(&mut self, group: u32, r: &Record) -> &mut Run {
        let slot = if r.volume < NEAR_VOLUMES {
            at(at(&mut self.near, group), r.volume)
        } else {
            self.far.entry((group, r.volume)).or_default()
        };
        if *slot == 0 {
            self.runs.push([Run::default(); 2]);
            *slot = self.runs.len() as u32;
        }
        &mut self.runs[*slot as usize - 1][usize::from(r.op == Op::Write)]
    }
}

/// The element at an index, which is made to exist. Only for dense indices.
#[inline]
fn at<T: Default + Clone>(vector: &mut Vec<T>, index: u32) -> &mut T {
    let index = index as usize;
    if vector.len() <= index {
        vector.resize(index + 1, T::default());
    }
    &mut vector[index]
}

#[cfg(test)]
mod tests {
    use super::super::tests::{read, write};
    use super::*;
    use crate::trace::Stream;

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
        let (mut s, mut t) = (Streams::new(StreamBy::Thread), Threads::new());
        s.add(&batch, &d);
        t.add(&batch, &d);
        assert_eq!((s.count(), s.write_back_share()), (2, Some(0.5)));
        assert_eq!(s.sequential_share(), Some(1.0 / 3.0));
        assert_eq!((t.counts(&d), t.sequential_share()), ((3, 2), Some(0.0)));
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
