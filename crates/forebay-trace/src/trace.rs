//! What a trace is: records in time order, who submitted them, and how reading went.

use forebay_core::{Flags, Nanos, Op};

use crate::error::TraceError;
use forebay_show::plural::{counted, verb};

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Arrival, from the first request of the trace.
    pub at: Nanos,
    /// First byte on its volume.
    pub offset: u64,
    /// From arrival to completion, where the source measured it.
    pub latency: Option<Nanos>,
    /// Bytes; 0 only for flushes.
    pub len: u32,
    /// Who submitted it: an index into [`Dictionary::streams`].
    pub stream: u32,
    /// Where: an index into [`Dictionary::volumes`].
    pub volume: u32,
    /// What it does.
    pub op: Op,
    /// Its properties.
    pub flags: Flags,
}

/// Who submitted requests: one thread under one name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stream {
    /// Thread id; `None` where the source has none.
    pub thread: Option<u32>,
    /// Process (thread group) id; `None` where the source has none.
    pub process: Option<u32>,
    /// Name of the thread, application or tenant; empty where unknown.
    pub name: String,
}

/// What the numbers in records stand for. Grows while a trace is read; whole at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dictionary {
    /// Submitters. At least one as soon as there is a record.
    pub streams: Vec<Stream>,
    /// Volumes (disks, LUNs, ASUs) by name. At least one as soon as there is a record.
    pub volumes: Vec<String>,
}

/// How reading went: nothing is lost silently.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// Name of the format that was read.
    pub format: &'static str,
    /// Rows that held a request but could not be kept honestly (zero length, unknown operation).
    pub rows_skipped: u64,
    /// Rows whose time lay so far back that sorting could not mend it; their time was raised.
    pub rows_late: u64,
    /// The source has no times: those of its requests are zero or made up.
    pub is_timeless: bool,
    /// When the first request came by the source's own clock, from which all times are counted; none
    /// where that is not told.
    pub began: Option<Nanos>,
    /// Bytes taken for a block, of a source that counts in blocks and does not say how large they are.
    pub own_block_bytes: Option<u32>,
    /// One sentence for each thing a user should know, in the order it was found.
    pub warnings: Vec<String>,
}

impl Notes {
    /// What a user is told once a trace was read: rows skipped, and every warning.
    pub fn sentences(&self) -> Vec<String> {
        let skipped = (self.rows_skipped > 0).then(|| {
            let which = verb(self.rows_skipped, "which is no request", "which are no requests");
            format!("{} skipped, {which} for data", counted(self.rows_skipped, "row"))
        });
        skipped.into_iter().chain(self.warnings.iter().cloned()).collect()
    }
}

/// Reads a trace in batches.
pub trait Reader: Send {
    /// Replaces the content of `batch` by the next records, in time order across calls; leaves it
    /// empty at the end of the trace.
    fn read(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError>;

    /// Who and where, as far as read.
    fn dictionary(&self) -> &Dictionary;

    /// How reading went, as far as read.
    fn notes(&self) -> &Notes;
}

/// Records a reader gives at a time.
pub const BATCH: usize = 8192;
