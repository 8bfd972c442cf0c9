//! A trace that was read once, described and divided into streams. Short traces are kept in memory.
//!
//! Up to [`KEPT_RECORDS_MAX`] records are kept. A longer trace is read again for every run, so that
//! memory stays bounded for traces of any length. The records may also be generated from a model;
//! the caller supplies the function that opens it ([`Opening`]).

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use forebay_core::{Flags, Nanos, Op};
use forebay_trace::ahead::Ahead;
use forebay_trace::describe::{Describer, Description, Options};
use forebay_trace::error::Place;
use forebay_trace::streams::{self, Grouping, StreamBy};
use forebay_trace::touched::{Folded, Stretch, Touched};
use forebay_trace::write::ProtectedFiles;
use forebay_trace::{Dictionary, Notes, Reader, Record, Stream, TraceError, open};
use forebay_words::plural::counted;
use forebay_words::quantities::bytes;

use crate::Error;
use crate::progress::{Meter, Progress};

/// The maximum number of records kept in memory. They take 96 MiB, so that a run with the largest
/// footprint stays within 512 MiB in total.
pub const KEPT_RECORDS_MAX: usize = 2 << 20;

/// A function that opens a trace at its beginning. It may be called repeatedly.
pub type Opening = Box<dyn Fn() -> Result<Box<dyn Reader>, TraceError> + Send + Sync>;

/// A trace that has been read completely.
pub struct Input {
    /// The file or stream from which the trace was read.
    pub path: PathBuf,
    /// The trace's statistics, as `describe` reports them.
    pub description: Description,
    /// What was skipped, changed or assumed while the trace was read.
    pub notes: Notes,
    /// The name of each stream, by its number.
    pub labels: Vec<String>,
    /// Whether the trace records who submitted each request: a thread, a process or a name. If it
    /// does not, but has several volumes, each volume is a stream.
    pub names_submitters: bool,
    /// The number of records with a recorded latency.
    latencies: u64,
    /// How to recognize writes from the page cache.
    write_back: WriteBack,
    /// The extent of each volume: the highest address used, in bytes.
    pub extents: Vec<u64>,
    /// The areas of each volume that are read or written, without long gaps.
    pub stretches: Vec<Vec<Stretch>>,
    /// The name of each volume.
    pub volumes: Vec<String>,
    /// Opens the trace again; set only if the trace is too long to keep in memory.
    opening: Option<Opening>,
    stream_by: StreamBy,
    kept: Option<Vec<Record>>,
}

impl Input {
    /// Reads the trace at `path` in the format `from`, which is detected if `None`. Reports the
    /// number of records read to `progress` from time to time. Does not accept models; callers that
    /// do open them for [`Input::read_from`].
    pub fn read(
        path: &Path,
        from: Option<&str>,
        stream_by: StreamBy,
        progress: Progress<'_>,
    ) -> Result<Input, Error> {
        let (file, from) = (path.to_path_buf(), from.map(str::to_string));
        let opening = move || ahead(&file, from.as_deref());
        Input::read_from(path, Box::new(opening), stream_by, progress)
    }

    /// Reads the trace that `opening` opens, as [`Input::read`] does. Error messages call the trace
    /// `name`.
    pub fn read_from(
        name: &Path,
        opening: Opening,
        stream_by: StreamBy,
        progress: Progress<'_>,
    ) -> Result<Input, Error> {
        let mut reader = opening()?;
        let mut describer = Describer::new(Options { stream_by, ..Options::default() });
        let mut grouping = Grouping::new(stream_by);
        let mut kept = Some(Vec::new());
        let mut reach = Reach::default();
        read_through(name, &mut *reader, progress, |batch, dictionary| {
            describer.add(batch, dictionary);
            for record in batch.iter_mut() {
                record.stream = grouping.group(dictionary, record.stream);
                reach.add(record);
            }
            if let Some(records) = &mut kept {
                if records.len() + batch.len() > KEPT_RECORDS_MAX {
                    kept = None;
                } else {
                    records.extend_from_slice(batch);
                }
            }
        })?;
        if kept.is_none() {
            open::expect_file(name)?;
        }
        let dictionary = reader.dictionary();
        let names_submitters = dictionary.streams.iter().any(is_named);
        let labels = match !names_submitters && dictionary.volumes.len() > 1 {
            true => volume_names(&dictionary.volumes),
            false => (0..grouping.len() as u32).map(|of| grouping.label(dictionary, of)).collect(),
        };
        let notes = notes_on(reader.notes(), stream_by, dictionary);
        Ok(Input {
            path: name.to_path_buf(),
            description: describer.finish(dictionary, &notes),
            notes,
            latencies: reach.known_latencies(),
            write_back: WriteBack { by_flag: reach.sync_writes, workers: workers(&labels) },
            labels,
            names_submitters,
            stretches: reach.touched.stretches(),
            extents: reach.extents,
            volumes: dictionary.volumes.clone(),
            opening: Some(opening),
            stream_by,
            kept,
        })
    }

    /// Creates an input from records in memory, all on one volume. `labels` are the names of their
    /// streams.
    pub fn from_records(records: Vec<Record>, labels: Vec<String>) -> Input {
        let dictionary = Dictionary {
            streams: labels
                .iter()
                .enumerate()
                .map(|(thread, name)| forebay_trace::Stream {
                    thread: Some(thread as u32),
                    process: None,
                    name: name.clone(),
                })
                .collect(),
            volumes: vec![String::new()],
        };
        let mut describer = Describer::new(Options::default());
        describer.add(&records, &dictionary);
        let mut reach = Reach::default();
        records.iter().for_each(|record| reach.add(record));
        let notes = Notes::default();
        Input {
            path: PathBuf::from("(memory)"),
            description: describer.finish(&dictionary, &notes),
            notes,
            latencies: reach.known_latencies(),
            write_back: WriteBack { by_flag: reach.sync_writes, workers: workers(&labels) },
            labels,
            names_submitters: true,
            stretches: reach.touched.stretches(),
            extents: reach.extents,
            volumes: dictionary.volumes,
            opening: None,
            stream_by: StreamBy::Thread,
            kept: Some(records),
        }
    }

    /// Returns whether each volume is a stream, because nothing else tells requests apart.
    pub(crate) fn has_streams_of_volumes(&self) -> bool {
        !self.names_submitters && self.volumes.len() > 1
    }

    /// Returns the share of records with a recorded latency.
    pub fn known_latency_share(&self) -> f64 {
        self.latencies as f64 / self.description.records.max(1) as f64
    }

    /// Returns the files from which the trace was read; they must not be overwritten.
    pub fn kept(&self) -> ProtectedFiles {
        ProtectedFiles::trace(&self.path)
    }

    /// Returns the total size of all volumes in bytes, without long gaps.
    pub(crate) fn used_bytes(&self) -> u64 {
        let used = self.stretches.iter().map(|of| Folded::new(of).bytes());
        used.fold(0, u64::saturating_add)
    }

    /// Returns a note if more than half of the volumes' extents are long gaps. It is for answers in
    /// which the number of drives covers the whole extent.
    pub(crate) fn told_of_gaps(&self) -> Option<String> {
        let reached = self.extents.iter().fold(0, |sum: u64, one| sum.saturating_add(*one));
        let used = self.used_bytes();
        let touched = self.description.footprint_bytes;
        let [reached_said, used_said, touched_said] =
            [reached, used, touched].map(|size| bytes(size as f64));
        (used < reached / 2).then(|| {
            format!(
                "Drives are counted for all {reached_said} up to the highest address of each \
                 volume. Without long unused gaps it is {used_said}, of which requests touch \
                 {touched_said}. If a few outliers are errors, remove them from the trace."
            )
        })
    }

    /// Returns whether the trace is kept in memory.
    pub fn is_in_memory(&self) -> bool {
        self.kept.is_some()
    }

    /// Returns arrivals over time as (seconds, requests per second), in at most 600 steps. Arrivals
    /// are `times` as fast as recorded.
    ///
    /// # Errors
    /// Fails if the trace cannot be read again.
    pub fn arrival_rates(&self, times: f64) -> Result<Vec<(f64, f64)>, Error> {
        const STEPS: usize = 600;
        let step_s = (self.description.duration_s / STEPS as f64).max(1e-6);
        let mut counts = vec![0u64; STEPS];
        let mut records = self.records()?;
        for record in records.by_ref() {
            let step = (record.at.as_secs_f64() / step_s) as usize;
            counts[step.min(STEPS - 1)] += 1;
        }
        if let Some(error) = records.failed().take() {
            return Err(error.into());
        }
        let step_s = step_s / times;
        let rate = |(step, count): (usize, &u64)| (step as f64 * step_s, *count as f64 / step_s);
        Ok(counts.iter().enumerate().map(rate).collect())
    }

    /// Returns the records in order of time, each with its stream. Check `failed` after the last
    /// record.
    pub(crate) fn records(&self) -> Result<Records<'_>, Error> {
        let failed = Rc::new(RefCell::new(None));
        let source = match (&self.kept, &self.opening) {
            (Some(records), _) => Source::Kept(records.iter()),
            (None, None) => Source::Kept([].iter()),
            (None, Some(opening)) => Source::Read {
                reader: opening()?,
                grouping: Grouping::new(self.stream_by),
                batch: Vec::new(),
                next: 0,
                left: self.description.records,
                failed: Rc::clone(&failed),
            },
        };
        let marks = if self.names_submitters { Flags::NONE } else { Flags::ANONYMOUS };
        let by_volume = self.has_streams_of_volumes();
        let (path, write_back) = (&self.path, &self.write_back);
        Ok(Records { source, path, marks, by_volume, write_back, failed })
    }
}

/// Opens a trace with a reader that runs on a separate thread.
fn ahead(path: &Path, from: Option<&str>) -> Result<Box<dyn Reader>, TraceError> {
    Ok(Box::new(Ahead::new(open::open(path, from)?)))
}

/// Describes the trace in `reader` in one pass, as `options` specify, without keeping its records.
/// Reports the number of records read to `progress` from time to time. Error messages call the
/// trace `name`.
pub fn describe(
    name: &Path,
    reader: &mut dyn Reader,
    options: Options,
    progress: Progress<'_>,
) -> Result<(Description, Notes), Error> {
    let mut describer = Describer::new(options);
    read_through(name, reader, progress, |batch, dictionary| describer.add(batch, dictionary))?;
    let notes = notes_on(reader.notes(), options.stream_by, reader.dictionary());
    Ok((describer.finish(reader.dictionary(), &notes), notes))
}

/// Passes all records from `reader` to `each`, in batches, and reports their number to `progress`
/// from time to time. Fails if there are none. Error messages call the trace `name`.
pub(crate) fn read_through(
    name: &Path,
    reader: &mut dyn Reader,
    progress: Progress<'_>,
    mut each: impl FnMut(&mut [Record], &Dictionary),
) -> Result<(), Error> {
    let (mut batch, mut meter) = (Vec::new(), Meter::new(progress));
    loop {
        reader.read(&mut batch)?;
        if batch.is_empty() {
            return refuse_empty(name, meter.count(), reader.notes());
        }
        if meter.stops_after(batch.len()) {
            return Err(Error::Stopped);
        }
        each(&mut batch, reader.dictionary());
    }
}

/// Returns the reader's notes, and those on how `stream_by` divided the records into streams.
fn notes_on(notes: &Notes, stream_by: StreamBy, dictionary: &Dictionary) -> Notes {
    let mut notes = notes.clone();
    notes.warnings.extend(streams::warning(stream_by, dictionary));
    notes
}

/// Fails if there are no `records`, because a trace without records is probably a mistake.
pub fn refuse_empty(path: &Path, records: u64, notes: &Notes) -> Result<(), Error> {
    if records > 0 {
        return Ok(());
    }
    let said: String = notes.warnings.iter().map(|warning| format!("; {warning}")).collect();
    let skipped = match notes.rows_skipped {
        0 => String::new(),
        rows => format!(" in {} without data", counted(rows, "row")),
    };
    Err(Error::Unfit(format!(
        "{}: got no requests{skipped}, expected at least one{said}",
        path.display()
    )))
}

/// Returns the error for a trace that has fewer records when read again, because it changed or can
/// be read only once.
fn shorter(path: &Path, left: u64) -> TraceError {
    TraceError::Malformed {
        path: path.to_path_buf(),
        place: Place::File,
        got: format!("{} fewer when it was read again", counted(left, "record")),
        expected: "the same trace each time, because it is too long to keep in memory".into(),
        hint: "give a file, or a table that can be read more than once".into(),
    }
}

/// Returns the names of volumes as streams. A bare number is no name of a stream.
fn volume_names(volumes: &[String]) -> Vec<String> {
    let name = |(number, name): (usize, &String)| match name.chars().any(char::is_alphabetic) {
        true => name.clone(),
        false if name.is_empty() => format!("volume {number}"),
        false => format!("volume {name}"),
    };
    volumes.iter().enumerate().map(name).collect()
}

pub(crate) fn is_named(stream: &Stream) -> bool {
    stream.thread.is_some() || stream.process.is_some() || !stream.name.is_empty()
}

/// Measures the extents of the volumes and the areas used in them.
#[derive(Default)]
struct Reach {
    extents: Vec<u64>,
    touched: Touched,
    latencies: u64,
    /// Whether any recorded latency is above zero.
    measured: bool,
    /// Whether any write is marked as synchronous.
    sync_writes: bool,
}

/// Recognizes write-back: writes that come from the page cache, which no process waits for.
struct WriteBack {
    /// Whether the trace marks synchronous writes. If so, all other writes are write-back.
    by_flag: bool,
    /// For each stream, whether it is one of the kernel's write-back workers.
    workers: Vec<bool>,
}

impl WriteBack {
    fn has(&self, write: &Record) -> bool {
        self.workers.get(write.stream as usize).is_some_and(|is| *is)
            || self.by_flag && !write.flags.has(Flags::SYNC)
    }
}

/// Returns, for each stream name, whether it belongs to a write-back worker.
fn workers(labels: &[String]) -> Vec<bool> {
    labels.iter().map(|name| streams::is_write_back(name)).collect()
}

impl Reach {
    /// Returns the number of requests with a recorded latency; 0 if all latencies are 0, because
    /// they are then a placeholder.
    fn known_latencies(&self) -> u64 {
        if self.measured { self.latencies } else { 0 }
    }

    /// Adds a request. A request without a length, such as a flush, does not extend its volume,
    /// whatever its offset.
    fn add(&mut self, record: &Record) {
        self.latencies += u64::from(record.latency.is_some());
        self.measured |= record.latency.is_some_and(|latency| latency > Nanos::ZERO);
        self.sync_writes |= record.op == Op::Write && record.flags.has(Flags::SYNC);
        let volume = record.volume as usize;
        if volume >= self.extents.len() {
            self.extents.resize(volume + 1, 0);
        }
        if record.len == 0 {
            return;
        }
        let end = record.offset.saturating_add(u64::from(record.len));
        self.extents[volume] = self.extents[volume].max(end);
        if record.op.moves_data() {
            self.touched.add(record);
        }
    }
}

/// An iterator over the trace's records, from memory or by reading the trace again.
pub(crate) struct Records<'a> {
    source: Source<'a>,
    path: &'a Path,
    /// Flags to set on each record.
    marks: Flags,
    /// Whether each volume is a stream.
    by_volume: bool,
    write_back: &'a WriteBack,
    failed: Failed,
}

/// The error that ended an iteration early, if any.
pub(crate) type Failed = Rc<RefCell<Option<TraceError>>>;

enum Source<'a> {
    Kept(std::slice::Iter<'a, Record>),
    Read {
        reader: Box<dyn Reader>,
        grouping: Grouping,
        batch: Vec<Record>,
        next: usize,
        /// How many records are still expected, given the number found in the first reading.
        left: u64,
        failed: Failed,
    },
}

impl Records<'_> {
    /// Returns a shared slot that contains the error if one ended the iteration.
    pub(crate) fn failed(&self) -> Failed {
        Rc::clone(&self.failed)
    }
}

impl Iterator for Records<'_> {
    type Item = Record;

    #[inline]
    fn next(&mut self) -> Option<Record> {
        let mut record = self.next_plain()?;
        record.flags = record.flags.with(self.marks);
        if self.by_volume {
            record.stream = record.volume;
        }
        if record.op == Op::Write && self.write_back.has(&record) {
            record.flags = record.flags.with(Flags::WRITE_BACK);
        }
        Some(record)
    }
}

impl Records<'_> {
    #[inline]
    fn next_plain(&mut self) -> Option<Record> {
        match &mut self.source {
            Source::Kept(records) => records.next().copied(),
            Source::Read { reader, grouping, batch, next, left, failed } => {
                if *next == batch.len() {
                    *next = 0;
                    if let Err(error) = reader.read(batch) {
                        *failed.borrow_mut() = Some(error);
                        batch.clear();
                    }
                }
                let Some(record) = batch.get(*next) else {
                    if *left > 0 && failed.borrow().is_none() {
                        *failed.borrow_mut() = Some(shorter(self.path, *left));
                    }
                    return None;
                };
                let mut record = *record;
                *next += 1;
                *left = left.saturating_sub(1);
                record.stream = grouping.group(reader.dictionary(), record.stream);
                Some(record)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_that_is_shorter_when_read_again_is_refused() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/terasort.parquet");
        let mut input =
            Input::read(&path, None, StreamBy::Thread, &mut crate::progress::untold).unwrap();
        input.kept = None;
        let read = |input: &Input| {
            let mut records = input.records().unwrap();
            let count = records.by_ref().count() as u64;
            let failed = records.failed().take().map(|error| error.to_string());
            (count, failed)
        };
        assert_eq!(read(&input), (input.description.records, None));
        input.description.records += 1;
        let (_, failed) = read(&input);
        assert!(failed.is_some_and(|text| text.contains("1 record fewer when it was read again")));
    }

    /// In blkparse's and MSR's traces alike, a volume is a stream only if no submitter has a name.
    #[test]
    fn volumes_are_streams_if_nothing_else_tells_requests_apart() {
        let folder = tempfile::tempdir().unwrap();
        let read = |columns: &str, row: fn(u64) -> String| {
            let path = folder.path().join("t.csv");
            let rows: String = (0..6).map(row).collect();
            std::fs::write(&path, format!("time_ms,op,offset,len,{columns}\n{rows}")).unwrap();
            let input =
                Input::read(&path, None, StreamBy::Thread, &mut crate::progress::untold).unwrap();
            let streams: Vec<u32> = input.records().unwrap().map(|record| record.stream).collect();
            (input.labels.clone(), streams, input.has_streams_of_volumes())
        };
        let (labels, streams, by_volume) =
            read("volume", |n| format!("{n},R,{},4096,disk{}\n", n << 20, n % 2));
        assert_eq!(
            (&labels[..], by_volume),
            (&["disk0".to_string(), "disk1".to_string()][..], true)
        );
        assert_eq!(streams, [0, 1, 0, 1, 0, 1]);
        let (labels, streams, by_volume) =
            read("volume,name", |n| format!("{n},R,{},4096,disk{},job{}\n", n << 20, n % 2, n / 3));
        assert_eq!(
            (&labels[..], by_volume),
            (&["job0".to_string(), "job1".to_string()][..], false)
        );
        assert_eq!(streams, [0, 0, 0, 1, 1, 1]);
        let (labels, _, by_volume) = read("volume", |n| format!("{n},R,{},4096,one\n", n << 20));
        assert_eq!((&labels[..], by_volume), (&["unknown".to_string()][..], false));
    }

    #[test]
    fn whoever_is_told_of_progress_can_stop() {
        use std::ops::ControlFlow::Break;
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/terasort.parquet");
        let read = Input::read(&path, None, StreamBy::Thread, &mut |_| Break(()));
        assert!(matches!(read, Err(Error::Stopped)));
        let mut reader = ahead(&path, None).unwrap();
        let described = describe(&path, &mut *reader, Options::default(), &mut |_| Break(()));
        assert!(matches!(described, Err(Error::Stopped)));
    }
}
