//! Describes a trace: its volume, sizes, times, locations, order, submitters and latencies.
//!
//! The trace is processed in one pass, in batches of records and with bounded memory: memory grows
//! with the number of streams, volumes and outstanding requests, and up to a limit with the touched
//! area, but not with the length of the trace. Each part of the description iterates over a batch
//! by itself, in a loop that is short enough to overlap its cache misses. The figures and their
//! definitions are in [`description`].

mod by_stream;
pub mod by_thread;
mod by_volume;
pub mod description;
mod distribution;
mod footprint;
mod inter_arrival;
mod latency;
mod outstanding;
mod sequences;
mod sequential;
mod sizes;

use forebay_core::Op;

use crate::gaps::Gaps;
use crate::streams::StreamBy;
use crate::{Dictionary, Notes, Record};

pub use by_thread::ThreadOptions;
pub use description::Description;
use description::{
    Arrivals, ByStream, Concurrency, InterArrival, Latency, Runs, SeekBucket, Seeks, Sizes,
    StreamRow, VolumeRow,
};
use distribution::{ByDirection, Distribution};
use outstanding::Outstanding;
use sequences::{Sequences, at};
use sequential::{Breaks, Distances, Run, RunLengths};

/// The number of records that each part of the description processes at a time: 25 KB.
const PIECE: usize = 512;

/// The options of a description.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// The definition of a stream.
    pub stream_by: StreamBy,
    /// How to describe each stream and the types of streams. If None, this is omitted.
    pub threads: Option<ThreadOptions>,
}

/// Computes a description.
#[derive(Clone, Debug)]
pub struct Describer {
    options: Options,
    totals: sizes::Totals,
    times: inter_arrival::Times,
    volumes: by_volume::Volumes,
    streams: by_stream::Streams,
    threads: Option<by_thread::Threads>,
    latencies: latency::Latencies,
    footprint: footprint::Footprint,
    gaps: Gaps,
    /// A buffer for the data requests among the current records.
    picked: Vec<Record>,
}

impl Describer {
    /// Creates a describer without records.
    pub fn new(options: Options) -> Describer {
        Describer {
            options,
            totals: sizes::Totals::default(),
            times: inter_arrival::Times::default(),
            volumes: by_volume::Volumes::default(),
            streams: by_stream::Streams::new(options.stream_by),
            threads: options.threads.map(by_thread::Threads::new),
            latencies: latency::Latencies::default(),
            footprint: footprint::Footprint::new(footprint::REGIONS_MAX),
            gaps: Gaps::default(),
            picked: Vec::new(),
        }
    }

    /// Adds the next records of the trace, in order of time, and the dictionary as known so far.
    pub fn add(&mut self, batch: &[Record], dictionary: &Dictionary) {
        // Divide the batch into pieces that stay in the processor's cache from one part to the
        // next.
        for piece in batch.chunks(PIECE) {
            let data = pick_data(piece, &mut self.picked);
            self.totals.add(piece, data);
            self.times.add(piece, data);
            self.gaps.add(piece);
            self.volumes.add(data, dictionary);
            self.streams.add(data, dictionary);
            if let Some(threads) = &mut self.threads {
                threads.add(piece, data, dictionary, self.streams.grouping());
            }
            self.latencies.add(data);
            self.footprint.add(data);
        }
    }

    /// Returns the description of all records that were added.
    pub fn finish(mut self, dictionary: &Dictionary, notes: &Notes) -> Description {
        let by_thread = self.threads.take().map(|threads| {
            threads.finish(dictionary, self.streams.grouping(), self.times.duration_ns())
        });
        let (touched, footprints) = self.footprint.touched(dictionary.volumes.len());
        let Describer { options, totals, times, volumes, streams, latencies, .. } = &self;
        let (thread_count, process_count) = streams.threads_and_processes(dictionary);
        let duration_s = times.duration_ns() as f64 / 1e9;
        let without_gaps_s = self.gaps.without_s();
        let counted_s = without_gaps_s.unwrap_or(duration_s);
        let per_s = |count: u64| (counted_s > 0.0).then(|| count as f64 / counted_s);
        let mut warnings = notes.warnings.clone();
        if volumes.nameless > 0 {
            warnings.push(format!(
                "{} requests are on volumes that the trace does not name; they are not counted in \
                 any volume",
                volumes.nameless
            ));
        }
        Description {
            format: notes.format.to_owned(),
            records: totals.records,
            requests: totals.requests(),
            reads: totals.reads(),
            writes: totals.writes(),
            flushes: totals.flushes,
            trims: totals.trims,
            read_bytes: totals.read_bytes(),
            write_bytes: totals.write_bytes(),
            trim_bytes: totals.trim_bytes,
            duration_s,
            without_gaps_s,
            mean_iops: per_s(totals.requests()),
            mean_bytes_per_s: per_s(totals.bytes()),
            stream_by: options.stream_by,
            streams: streams.count(),
            threads: thread_count,
            processes: process_count,
            volumes: volumes.count(),
            footprint_bytes: touched.bytes,
            footprint_exact: touched.exact,
            footprint_error_share: touched.error_share,
            sequential_share: volumes.sequential_share(),
            sequential_share_by_stream: streams.sequential_share(),
            sequential_share_by_thread: streams.sequential_share_by_thread(),
            write_back_share: streams.write_back_share(),
            small_request_share: totals.small_request_share(),
            large_request_byte_share: totals.large_request_byte_share(),
            rows_skipped: notes.rows_skipped,
            rows_late: notes.rows_late,
            run_starts: notes.run_starts.clone(),
            warnings,
            read_size: totals.read_size(),
            write_size: totals.write_size(),
            inter_arrival: times.inter_arrival(),
            arrivals: times.clone().arrivals(),
            runs: volumes.runs(),
            stream_runs: streams.runs(),
            seeks: volumes.seeks(),
            read_latency: latencies.read(totals.reads()),
            write_latency: latencies.write(totals.writes()),
            concurrency: latencies.concurrency(),
            by_stream: streams.rows(dictionary),
            by_volume: volumes.rows(dictionary, &footprints),
            by_thread,
        }
    }
}

/// Returns whether a record moves data. Other records are counted, but not included in the figures.
#[inline]
fn is_data(r: &Record) -> bool {
    r.op.moves_data() && r.len > 0
}

/// Returns the data requests among the records of `piece`, which are nearly always all records.
#[inline]
fn pick_data<'a>(piece: &'a [Record], picked: &'a mut Vec<Record>) -> &'a [Record] {
    if piece.iter().all(is_data) {
        return piece;
    }
    picked.clear();
    picked.extend(piece.iter().filter(|r| is_data(r)));
    picked
}

/// Returns 0 for reads and 1 for writes, as an index. The direction is hard to predict, so a branch
/// would be slower.
#[inline]
fn direction(r: &Record) -> usize {
    usize::from(r.op == Op::Write)
}

/// Truncates a name from a trace to 32 characters, and removes characters that could control a
/// terminal, reverse the order of its characters or break a table.
pub fn printable(name: &str) -> String {
    let turns = |c| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    name.chars().take(32).map(|c| if c.is_control() || turns(c) { '?' } else { c }).collect()
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn mean_kib(bytes: u64, requests: u64) -> Option<f64> {
    share(bytes, requests).map(|bytes| bytes / 1024.0)
}

fn kib(bytes: u64) -> f64 {
    bytes as f64 / 1024.0
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stream;
    use forebay_core::{Flags, Nanos};

    pub(super) fn read(at_ns: u64, offset: u64, len: u32) -> Record {
        Record {
            at: Nanos(at_ns),
            offset,
            latency: None,
            len,
            stream: 0,
            volume: 0,
            op: Op::Read,
            flags: Flags::NONE,
        }
    }

    pub(super) fn write(at_ns: u64, offset: u64, len: u32) -> Record {
        Record { op: Op::Write, ..read(at_ns, offset, len) }
    }

    fn dictionary() -> Dictionary {
        let stream = Stream { thread: Some(1), process: None, name: "cp".to_owned() };
        Dictionary { streams: vec![stream], volumes: vec!["sda".to_owned()] }
    }

    fn describe(batch: &[Record]) -> Description {
        let mut describer = Describer::new(Options::default());
        describer.add(batch, &dictionary());
        let notes = Notes { format: "test", rows_skipped: 3, rows_late: 2, ..Notes::default() };
        describer.finish(&dictionary(), &notes)
    }

    #[test]
    fn an_empty_trace_has_counts_and_no_means() {
        let d = Describer::new(Options::default())
            .finish(&Dictionary::default(), &Notes { format: "none", ..Notes::default() });
        assert_eq!((d.records, d.requests, d.duration_s, d.footprint_bytes), (0, 0, 0.0, 0));
        assert_eq!((d.mean_iops, d.sequential_share, d.write_back_share), (None, None, None));
        assert!(d.by_stream.rows.is_empty() && d.by_volume.is_empty() && d.footprint_exact);
        assert_eq!(d.format, "none");
    }

    #[test]
    fn names_cannot_command_the_terminal() {
        assert_eq!(printable("a\u{1b}[2Jb\n"), "a?[2Jb?");
    }

    #[test]
    fn one_record() {
        let d = describe(&[read(77, 4096, 512)]);
        assert_eq!((d.requests, d.streams, d.threads, d.processes, d.volumes), (1, 1, 1, 0, 1));
        assert_eq!((d.duration_s, d.mean_iops, d.sequential_share), (0.0, None, None));
        assert_eq!((d.sequential_share_by_stream, d.runs.count), (Some(0.0), 1));
        assert_eq!((d.inter_arrival.mean_ms, d.by_volume[0].extent_bytes), (None, 4608));
        assert_eq!((d.rows_skipped, d.rows_late, d.format.as_str()), (3, 2, "test"));
    }

    #[test]
    fn rates_are_per_second_of_the_whole_duration() {
        let flush = Record { op: Op::Flush, ..read(4_000_000_000, 0, 0) };
        let d = describe(&[read(0, 0, 1024), write(1_000_000_000, 0, 1024), flush]);
        assert_eq!((d.duration_s, d.mean_iops, d.mean_bytes_per_s), (4.0, Some(0.5), Some(512.0)));
    }

    #[test]
    fn rates_leave_out_a_gap_that_is_nearly_the_whole_trace() {
        let year_ns = 365 * 86_400 * 1_000_000_000;
        let at = |n: u64| n * 500_000_000 + if n < 10 { 0 } else { year_ns };
        let records: Vec<Record> = (0..20).map(|n| read(at(n), n * 4096, 4096)).collect();
        let d = describe(&records);
        // The gap is a year and the half second that would have been between the requests.
        assert_eq!(d.without_gaps_s, Some(9.0));
        assert_eq!(d.mean_iops, Some(20.0 / 9.0));
    }

    #[test]
    fn huge_offsets_and_gaps_of_years() {
        let far = (1u64 << 63) - 512;
        let d = describe(&[read(0, far, 512), read(1, far + 512, 512), read(u64::MAX, 0, 512)]);
        assert_eq!((d.sequential_share, d.footprint_bytes), (Some(0.5), 1536));
        assert_eq!((d.by_volume[0].extent_bytes, d.seeks.count), ((1 << 63) + 512, 1));
        assert_eq!(d.arrivals.len(), 6);
    }

    #[test]
    fn records_beyond_the_dictionary_are_reported() {
        let d = describe(&[Record { volume: 5, stream: 9, ..read(0, 0, 512) }]);
        assert_eq!((d.requests, d.volumes, d.warnings.len()), (1, 0, 1));
        assert_eq!(d.by_stream.rows[0].label, "unknown");
    }

    #[test]
    fn keys_end_in_their_unit() {
        let json = serde_json::to_value(describe(&[read(0, 0, 512)])).unwrap();
        for key in ["requests", "read_bytes", "duration_s", "sequential_share", "rows_skipped"] {
            assert!(!json[key].is_null() || key == "sequential_share", "{key}");
        }
        assert_eq!(json["stream_by"], "thread");
        assert_eq!(json["read_size"]["mean_kib"], 0.5);
        assert!(json["write_size"]["mean_kib"].is_null());
    }
}
