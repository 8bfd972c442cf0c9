//! The parts of a trace: records in order of time, a dictionary of submitters and volumes, and
//! notes about reading it.

use forebay_core::{Flags, Nanos, Op};
use serde::Serialize;

use crate::TraceError;
use forebay_words::plural::{counted, verb};

/// A request in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When the request arrived, relative to the first request of the trace.
    pub at: Nanos,
    /// The offset of the first byte on the volume.
    pub offset: u64,
    /// The time from arrival to completion, if the source recorded it.
    pub latency: Option<Nanos>,
    /// The length in bytes, which is 0 only for flushes.
    pub len: u32,
    /// The submitter, as an index into [`Dictionary::streams`].
    pub stream: u32,
    /// The volume, as an index into [`Dictionary::volumes`].
    pub volume: u32,
    /// The operation.
    pub op: Op,
    /// The flags.
    pub flags: Flags,
}

/// A submitter of requests: a thread under one of its names.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stream {
    /// The thread id, or `None` if the source does not contain it.
    pub thread: Option<u32>,
    /// The process (thread group) id, or `None` if the source does not contain it.
    pub process: Option<u32>,
    /// The name of the thread, application or tenant. Empty if unknown.
    pub name: String,
}

/// The meaning of the numbers in records. It grows while a trace is read, and is complete at the
/// end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dictionary {
    /// The submitters. There is at least one as soon as there is a record.
    pub streams: Vec<Stream>,
    /// The names of the volumes (disks, LUNs, ASUs). There is at least one as soon as there is a
    /// record.
    pub volumes: Vec<String>,
}

/// How a column of a text was interpreted, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnMeaning {
    /// The name of the column, or its role if it has none.
    pub column: String,
    /// The role and unit of the column as written in a declaration, such as `at:ms`, or `_` if it
    /// was ignored.
    pub read_as: String,
    /// The reason for this interpretation.
    pub because: String,
}

/// The evidence that another recording begins in a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunEvidence {
    /// Only the clock, which goes back.
    Clock,
    /// The clock goes back after a comment.
    Comment,
    /// The clock goes back after another header.
    Header,
}

/// A place in a source where the clock goes back, as if another recording began there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RunStart {
    /// The number of the first request after the step, in the order of the source, counted from 1.
    pub request: u64,
    /// How far the clock goes back, in nanoseconds.
    pub back_ns: u64,
    /// The evidence that another recording begins.
    pub evidence: RunEvidence,
    /// Whether the requests from here on were placed after the earlier ones. Otherwise they are
    /// sorted among the earlier ones.
    pub is_appended: bool,
}

/// Notes about reading a trace, so that nothing is lost silently.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// The name of the format that was read.
    pub format: &'static str,
    /// The number of rows whose request could not be represented correctly (zero length, unknown
    /// operation).
    pub rows_skipped: u64,
    /// The number of rows that could not be read and were skipped.
    pub rows_bad: u64,
    /// The number of requests beyond one per row, into which long requests were split.
    pub rows_added: u64,
    /// The number of rows that arrived too late to be sorted, so that their times were raised to
    /// keep the order.
    pub rows_late: u64,
    /// Whether the source has no times, so that those of its requests are zero or invented.
    pub is_timeless: bool,
    /// When the first request arrived on the source's own clock, or `None` if unknown. All times
    /// count from this moment.
    pub began: Option<Nanos>,
    /// The assumed block size, if the source counts in blocks without recording their size.
    pub own_block_bytes: Option<u32>,
    /// How the columns of a text, or the fields of another format, were interpreted.
    pub columns: Vec<ColumnMeaning>,
    /// The first places where another recording seems to begin.
    pub run_starts: Vec<RunStart>,
    /// One sentence for each thing that users should know, in the order in which they were noticed.
    pub warnings: Vec<String>,
}

impl Notes {
    /// Returns notes for the user: about skipped rows, and all warnings.
    pub fn sentences(&self) -> Vec<String> {
        let skipped = (self.rows_skipped > 0).then(|| {
            let rows = counted(self.rows_skipped, "row");
            format!("{rows} without data {} skipped", verb(self.rows_skipped, "was", "were"))
        });
        skipped.into_iter().chain(self.warnings.iter().cloned()).collect()
    }
}

/// A header line or a comment in the middle of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderAgain {
    /// The number of records before this place.
    pub records: u64,
    /// The number of volumes before this place. It is 0 for a comment, which does not show that
    /// another recording begins.
    pub volumes: u32,
}

/// Facts that are known to the reader of a source and needed by the readers above it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceFacts {
    /// The repeated headers and the comments, after each of which a new run may begin.
    pub headers_again: Vec<HeaderAgain>,
    /// For each volume that is a layer above others, the names of the volumes below it.
    pub legs: Vec<Vec<String>>,
    /// The largest error of timestamps that look wrong; they are reported, not changed.
    pub wild_ns: u64,
}

/// Reads a trace in batches.
pub trait Reader: Send {
    /// Replaces the content of `batch` with the next records, which are in order of time across
    /// calls. At the end of the trace, `batch` is empty.
    fn read(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError>;

    /// Returns the submitters and volumes found so far, and notes about what was read.
    fn found(&self) -> (&Dictionary, &Notes);

    /// Returns the submitters and volumes found so far.
    fn dictionary(&self) -> &Dictionary {
        self.found().0
    }

    /// Returns notes about what was read so far.
    fn notes(&self) -> &Notes {
        self.found().1
    }

    /// Returns the facts about the source that are known so far.
    fn facts(&self) -> SourceFacts {
        SourceFacts::default()
    }
}

/// The number of records that a reader returns at a time.
pub const BATCH: usize = 8192;
