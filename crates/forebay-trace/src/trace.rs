//! The parts of a trace: records in order of time, a dictionary of submitters and volumes, and
//! notes from reading.

use forebay_core::{Flags, Nanos, Op};

use crate::error::TraceError;
use forebay_show::plural::{counted, verb};

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The arrival, relative to the first request of the trace.
    pub at: Nanos,
    /// The first byte on its volume.
    pub offset: u64,
    /// The time from arrival to completion, if the source recorded it.
    pub latency: Option<Nanos>,
    /// The length in bytes; 0 only for flushes.
    pub len: u32,
    /// The submitter: an index into [`Dictionary::streams`].
    pub stream: u32,
    /// The volume: an index into [`Dictionary::volumes`].
    pub volume: u32,
    /// The operation.
    pub op: Op,
    /// The flags.
    pub flags: Flags,
}

/// A submitter of requests: one thread under one name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stream {
    /// The thread id; `None` if the source has none.
    pub thread: Option<u32>,
    /// The process (thread group) id; `None` if the source has none.
    pub process: Option<u32>,
    /// The name of the thread, application or tenant; empty if unknown.
    pub name: String,
}

/// The meaning of the numbers in records. Grows while a trace is read, and is complete at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dictionary {
    /// The submitters. At least one as soon as there is a record.
    pub streams: Vec<Stream>,
    /// The names of the volumes (disks, LUNs, ASUs). At least one as soon as there is a record.
    pub volumes: Vec<String>,
}

/// How a column of a text was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnMeaning {
    /// The name of the column, or its role if it has none.
    pub column: String,
    /// Its role and unit as in a declaration, such as `at:ms`; `_` if it was ignored.
    pub read_as: String,
    /// The reason.
    pub because: String,
}

/// Notes from reading a trace, so that nothing is lost silently.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// The name of the format that was read.
    pub format: &'static str,
    /// The number of rows whose request could not be represented correctly (zero length, unknown
    /// operation).
    pub rows_skipped: u64,
    /// The number of rows that could not be read and were left out.
    pub rows_bad: u64,
    /// The number of requests beyond one per row, into which long trims were split.
    pub rows_added: u64,
    /// The number of rows that were too late to be sorted; their times were raised.
    pub rows_late: u64,
    /// Whether the source has no times: those of its requests are zero or invented.
    pub is_timeless: bool,
    /// When the first request arrived by the source's own clock, from which all times are counted;
    /// `None` if unknown.
    pub began: Option<Nanos>,
    /// The assumed block size, for a source that counts in blocks without recording their size.
    pub own_block_bytes: Option<u32>,
    /// How the columns of a text were read.
    pub columns: Vec<ColumnMeaning>,
    /// A sentence for each thing that a user should know, in the order in which it was noticed.
    pub warnings: Vec<String>,
}

impl Notes {
    /// Returns the notes for the user: rows skipped, and every warning.
    pub fn sentences(&self) -> Vec<String> {
        let skipped = (self.rows_skipped > 0).then(|| {
            let which = verb(self.rows_skipped, "which is no request", "which are no requests");
            format!("{} skipped, {which} for data", counted(self.rows_skipped, "row"))
        });
        skipped.into_iter().chain(self.warnings.iter().cloned()).collect()
    }
}

/// What a reader of a source knows that the readers above it use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceFacts {
    /// The number of records before each repeated header, behind which another run may begin.
    pub headers_again: Vec<u64>,
    /// The volumes below each volume that is a layer above others, by their names.
    pub legs: Vec<Vec<String>>,
}

/// Reads a trace in batches.
pub trait Reader: Send {
    /// Replaces the content of `batch` with the next records, in order of time across calls; leaves
    /// it empty at the end of the trace.
    fn read(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError>;

    /// Returns the submitters and volumes read so far.
    fn dictionary(&self) -> &Dictionary;

    /// Returns the notes on what was read so far.
    fn notes(&self) -> &Notes;

    /// Returns what is known of the source so far.
    fn facts(&self) -> SourceFacts {
        SourceFacts::default()
    }
}

/// The number of records that a reader returns at a time.
pub const BATCH: usize = 8192;
