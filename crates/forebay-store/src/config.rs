//! The configuration of a store: the parameters that the paper varies, and those that it leaves
//! open.

use forebay_core::Nanos;

/// Where a finished log is converted to a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transformation {
    /// The target of a transformation is another, idle disk, so that no disk is read and written in
    /// the same stage (the paper's enhanced model, section III.B).
    Enhanced,
    /// On its own disk (the paper's basic model, section III.A), for comparison.
    Basic,
    /// Not at all: a slot's content is lost when the slot is reused. For measurements only.
    None,
}

/// The structure that logs become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tree {
    /// Sorted runs, each written in one pass and merged later.
    Runs,
    /// One B+tree per disk, updated in place, as in the paper. For measurements in virtual time
    /// only: the tree does not survive a restart.
    InPlace(InPlace),
}

/// The parameters of a tree in place, which the paper leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InPlace {
    /// The page size in bytes, a multiple of 4096. Values longer than a quarter of a page are
    /// stored separately.
    pub page_bytes: usize,
    /// The memory for leaves of all trees together, in bytes (the paper: 2 GB of memory).
    pub cache_bytes: u64,
    /// When modified pages are written.
    pub sync: TreeSync,
    /// The number of concurrent writes; 1 for a thread that waits for each write.
    pub depth: usize,
}

impl Default for InPlace {
    fn default() -> InPlace {
        InPlace { page_bytes: 8192, cache_bytes: 2 << 30, sync: TreeSync::Log, depth: 1 }
    }
}

/// When the modified pages of a tree are written. If memory is short, they are written earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeSync {
    /// After each record.
    Record,
    /// When all records of a log have been inserted.
    Log,
    /// When the store closes.
    Close,
}

/// The configuration of a store.
#[derive(Clone, Debug)]
pub struct Config {
    /// The length in bytes at which a log is finished and duty passes to the next disk (the paper:
    /// 5 MB).
    pub log_bytes: u64,
    /// Whether the store tunes itself: it then chooses the gap and the length of logs, which is at
    /// least `log_bytes`.
    pub tunes: bool,
    /// The maximum length of logs chosen by self-tuning.
    pub log_bytes_max: u64,
    /// Where a finished log is converted.
    pub transformation: Transformation,
    /// The structure that a log becomes.
    pub tree: Tree,
    /// Whether a finished log is read back from disk, as in the paper, rather than taken from
    /// memory.
    pub read_log: bool,
    /// The maximum number of bytes of waiting puts that are written together.
    pub group_bytes: u64,
    /// The gap in bytes before the next batch, so that the disk's head has not passed its position
    /// when it arrives. A self-tuning store determines it by measurement.
    pub gap_bytes: u64,
    /// Whether runs are merged. Without merging, reads must search more and more runs.
    pub merges: bool,
    /// The number of neighboring runs of similar size that are merged into one.
    pub fan_in: usize,
    /// The maximum number of runs. At this number, puts wait for merges; from half of it on, they
    /// are slowed down.
    pub runs_max: usize,
    /// All runs are merged into one when more than this share of the data has been replaced.
    pub dead_share: f64,
    /// The approximate size of segments written by merges.
    pub segment_bytes: u64,
    /// The number of bytes that a merge reads ahead.
    pub merge_bytes: u64,
    /// The number of bytes that scans may buffer between pages. Scans in progress read ahead by
    /// half as much, but each by at least 128 KiB per run.
    pub scan_bytes: u64,
    /// The maximum length of a scan's read and of a background read or write.
    pub step_bytes: usize,
    /// The number of bytes processed in the background before a task yields.
    pub work_bytes: usize,
    /// The memory for inner nodes of segments, in bytes.
    pub node_bytes: u64,
    /// Whether a put is acknowledged only once it is durable. Otherwise it is acknowledged when the
    /// system has accepted its batch: a power cut then loses the latest puts and may damage logs
    /// that have not become segments yet, but a process crash loses nothing.
    pub durable: bool,
    /// Whether a sync reaches the medium. Otherwise, writes count once the disk has accepted them,
    /// as on disks whose caches acknowledge syncs; a power cut then loses acknowledged data. For
    /// measurements only.
    pub to_media: bool,
    /// Whether the store is opened read-only.
    pub read_only: bool,
    /// Whether a put is written and then flushed, as by fsync, instead of written through; on RAID
    /// 0, every disk is flushed.
    pub flushes_puts: bool,
    /// Whether changes of stages are recorded, for charts.
    pub notes_stages: bool,
    /// How long a failed disk is left alone before it is retried.
    pub retry: Nanos,
    /// The start of the driver's time in nanoseconds since the Unix epoch, used to record when
    /// batches were put; 0 if unknown.
    pub epoch_ns: u64,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            log_bytes: 5_000_000,
            tunes: true,
            log_bytes_max: 50_000_000,
            transformation: Transformation::Enhanced,
            tree: Tree::Runs,
            read_log: false,
            group_bytes: 1 << 20,
            gap_bytes: 0,
            merges: true,
            fan_in: 8,
            runs_max: 256,
            dead_share: 0.45,
            segment_bytes: 32 << 20,
            merge_bytes: 192 << 20,
            scan_bytes: 64 << 20,
            step_bytes: 1 << 20,
            work_bytes: 256 << 10,
            node_bytes: 64 << 20,
            durable: true,
            to_media: true,
            read_only: false,
            flushes_puts: false,
            notes_stages: false,
            retry: Nanos::from_secs(10),
            epoch_ns: 0,
        }
    }
}
