//! Input: a trace read once, described, grouped into streams, and kept as far as memory allows.
//!
//! Up to [`KEPT_RECORDS_MAX`] records are kept; a longer trace is read again for every run, so
//! memory stays bounded whatever its length.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use forebay_trace::describe::{Describer, Description, Options};
use forebay_trace::streams::{Grouping, StreamBy};
use forebay_trace::{Notes, Reader, Record, TraceError, open};

use crate::error::Error;

/// Records kept in memory: 192 MiB, so that describing and simulating fit 512 MiB in all.
pub const KEPT_RECORDS_MAX: usize = 4 << 20;

/// A trace that was read through.
pub struct Input {
    /// Where it was read from.
    pub path: PathBuf,
    /// What it is like.
    pub description: Description,
    /// How reading went.
    pub notes: Notes,
    /// Name of each stream.
    pub labels: Vec<String>,
    /// Highest byte reached on each volume.
    pub extents: Vec<u64>,
    from: Option<String>,
    stream_by: StreamBy,
    kept: Option<Vec<Record>>,
}

impl Input {
    /// Reads the trace at `path` (format `from`, or found by looking) and tells `progress` now and
    /// then how many records have been read.
    pub fn read(
        path: &Path,
        from: Option<&str>,
        stream_by: StreamBy,
        mut progress: impl FnMut(u64),
    ) -> Result<Input, Error> {
        let mut reader = open::open(path, from)?;
        let mut describer = Describer::new(Options { stream_by });
        let mut grouping = Grouping::new(stream_by);
        let mut kept = Some(Vec::new());
        let mut extents = Vec::new();
        let (mut batch, mut meter) = (Vec::new(), Meter::default());
        loop {
            reader.read(&mut batch)?;
            if batch.is_empty() {
                break;
            }
            meter.count(batch.len(), &mut progress);
            describer.add(&batch, reader.dictionary());
            for record in &mut batch {
                record.stream = grouping.group(reader.dictionary(), record.stream);
                reach(&mut extents, record);
            }
            if let Some(records) = &mut kept {
                if records.len() + batch.len() > KEPT_RECORDS_MAX {
                    kept = None;
                } else {
                    records.extend_from_slice(&batch);
                }
            }
        }
        refuse_empty(path, meter.records, reader.notes())?;
        let dictionary = reader.dictionary();
        let labels =
            (0..grouping.len() as u32).map(|group| grouping.label(dictionary, group)).collect();
        Ok(Input {
            path: path.to_path_buf(),
            description: describer.finish(dictionary, reader.notes()),
            notes: reader.notes().clone(),
            labels,
            extents,
            from: from.map(str::to_string),
            stream_by,
            kept,
        })
    }

    /// A trace that is in memory already, one volume, streams named by `labels`.
    pub fn from_records(records: Vec<Record>, labels: Vec<String>) -> Input {
        let dictionary = forebay_trace::Dictionary {
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
        let mut extents = Vec::new();
        records.iter().for_each(|record| reach(&mut extents, record));
        let notes = Notes::default();
        Input {
            path: PathBuf::from("(memory)"),
            description: describer.finish(&dictionary, &notes),
            notes,
            labels,
            extents,
            from: None,
            stream_by: StreamBy::Thread,
            kept: Some(records),
        }
    }

    /// The records in time order, streams grouped. After the last one, ask `failed`.
    pub(crate) fn records(&self) -> Result<Records<'_>, Error> {
        let failed = Rc::new(RefCell::new(None));
        let source = match &self.kept {
            Some(records) => Source::Kept(records.iter()),
            None => Source::Read {
                reader: open::open(&self.path, self.from.as_deref())?,
                grouping: Grouping::new(self.stream_by),
                batch: Vec::new(),
                next: 0,
                failed: Rc::clone(&failed),
            },
        };
        Ok(Records { source, failed })
    }
}

/// Describes the trace at `path` in one pass, keeping nothing, and tells `progress` now and then how
/// many records have been read.
pub fn describe(
    path: &Path,
    from: Option<&str>,
    stream_by: StreamBy,
    mut progress: impl FnMut(u64),
) -> Result<(Description, Notes), Error> {
    let mut reader = open::open(path, from)?;
    let mut describer = Describer::new(Options { stream_by });
    let (mut batch, mut meter) = (Vec::new(), Meter::default());
    loop {
        reader.read(&mut batch)?;
        if batch.is_empty() {
            break;
        }
        meter.count(batch.len(), &mut progress);
        describer.add(&batch, reader.dictionary());
    }
    let notes = reader.notes().clone();
    refuse_empty(path, meter.records, &notes)?;
    Ok((describer.finish(reader.dictionary(), &notes), notes))
}

/// Fails unless there were `records`: a trace without a single request is a mistake somewhere.
pub fn refuse_empty(path: &Path, records: u64, notes: &Notes) -> Result<(), Error> {
    if records > 0 {
        return Ok(());
    }
    let said: String = notes.warnings.iter().map(|warning| format!("; {warning}")).collect();
    Err(Error::Unfit(format!(
        "{}: got no requests ({} rows skipped), expected at least one{said}",
        path.display(),
        notes.rows_skipped
    )))
}

/// Tells progress once in about a million records.
#[derive(Default)]
struct Meter {
    records: u64,
    told: u64,
}

impl Meter {
    fn count(&mut self, records: usize, progress: &mut impl FnMut(u64)) {
        self.records += records as u64;
        if self.records - self.told >= 1 << 20 {
            self.told = self.records;
            progress(self.records);
        }
    }
}

fn reach(extents: &mut Vec<u64>, record: &Record) {
    let volume = record.volume as usize;
    if volume >= extents.len() {
        extents.resize(volume + 1, 0);
    }
    let end = record.offset.saturating_add(u64::from(record.len));
    extents[volume] = extents[volume].max(end);
}

/// Records from memory or, again, from the file.
pub(crate) struct Records<'a> {
    source: Source<'a>,
    failed: Failed,
}

/// Why reading stopped before the end.
pub(crate) type Failed = Rc<RefCell<Option<TraceError>>>;

enum Source<'a> {
    Kept(std::slice::Iter<'a, Record>),
    Read {
        reader: Box<dyn Reader>,
        grouping: Grouping,
        batch: Vec<Record>,
        next: usize,
        failed: Failed,
    },
}

impl Records<'_> {
    /// Holds the error once the iterator has ended because of one.
    pub(crate) fn failed(&self) -> Failed {
        Rc::clone(&self.failed)
    }
}

impl Iterator for Records<'_> {
    type Item = Record;

    #[inline]
    fn next(&mut self) -> Option<Record> {
        match &mut self.source {
            Source::Kept(records) => records.next().copied(),
            Source::Read { reader, grouping, batch, next, failed } => {
                if *next == batch.len() {
                    *next = 0;
                    if let Err(error) = reader.read(batch) {
                        *failed.borrow_mut() = Some(error);
                        batch.clear();
                    }
                }
                let mut record = *batch.get(*next)?;
                *next += 1;
                record.stream = grouping.group(reader.dictionary(), record.stream);
                Some(record)
            }
        }
    }
}
