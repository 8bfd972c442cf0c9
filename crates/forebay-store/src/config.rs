//! How a store works: what the paper varies, and what it leaves open.

use forebay_core::Nanos;

/// Where a finished log goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transformation {
    /// To another disk, which is idle: no disk reads and writes in one stage (the paper's enhanced
    /// model, section III.B).
    Enhanced,
    /// To its own disk (the paper's basic model, section III.A), to compare.
    Basic,
    /// Nowhere: a slot that is used again forgets what was in it. For measurements only.
    None,
}

/// What a log becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tree {
    /// A sorted run, written in one pass; runs are merged later.
    Runs,
    /// Part of one B+tree a disk that is updated in place, as in the paper. For measurements in virtual time
    /// only: nothing finds it again after a restart.
    InPlace(InPlace),
}

/// A tree that is updated in place: what the paper leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InPlace {
    /// Bytes of a page, a multiple of 4096. Values of more than a quarter of it lie apart.
    pub page_bytes: usize,
    /// Leaves that stay in memory, in bytes, of all trees together (the paper: 2 GB of memory).
    pub cache_bytes: u64,
    /// When pages that changed are written.
    pub sync: TreeSync,
    /// Writes under way at a time; one for a thread that waits for each.
    pub depth: usize,
}

impl Default for InPlace {
    fn default() -> InPlace {
        InPlace { page_bytes: 8192, cache_bytes: 2 << 30, sync: TreeSync::Log, depth: 1 }
    }
}

/// When the pages of a tree that changed are written to their places; without room in memory, earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeSync {
    /// After each record.
    Record,
    /// When all of a log's records are in the tree.
    Log,
    /// When the store closes.
    Close,
}

/// How a store works.
#[derive(Clone, Debug)]
pub struct Config {
    /// Duty passes on when a log is that long (the paper: 5 MB).
    pub log_bytes: u64,
    /// From what it measures the store chooses how long logs are, from `log_bytes` on, and the gap.
    pub tunes: bool,
    /// Then they are no longer than this.
    pub log_bytes_max: u64,
    /// Where a finished log goes.
    pub transformation: Transformation,
    /// What it becomes.
    pub tree: Tree,
    /// A finished log is read back, as the paper does; else it is taken from memory.
    pub read_log: bool,
    /// Puts that wait are written together up to so many bytes.
    pub group_bytes: u64,
    /// Bytes left out before the next batch: by the time it comes their end is under the head, and not
    /// just beyond it. Where the store tunes itself it finds out how many.
    pub gap_bytes: u64,
    /// Runs are merged at all; else reads look into more and more of them.
    pub merges: bool,
    /// So many neighbouring runs of one size become one.
    pub fan_in: usize,
    /// Puts wait for merges while there are so many runs, and are slowed from half of that on.
    pub runs_max: usize,
    /// Everything becomes one run when more than this share of it has been replaced.
    pub dead_share: f64,
    /// A merge writes segments of about so many bytes.
    pub segment_bytes: u64,
    /// Bytes that a merge reads ahead.
    pub merge_bytes: u64,
    /// Bytes that scans hold between their pages; those under way read ahead half as many, and each of them at
    /// least 128 KiB a run.
    pub scan_bytes: u64,
    /// The most that a scan's read, or one or a write in the background, moves at once.
    pub step_bytes: usize,
    /// After so many bytes of work in the background a task lets in what came meanwhile.
    pub work_bytes: usize,
    /// Inner nodes of segments that stay in memory, in bytes.
    pub node_bytes: u64,
    /// A put is answered once it is durable; else once the system has taken its batch. A power cut then loses
    /// what was answered last, and may damage logs that are not segments yet; the end of the process loses nothing.
    pub durable: bool,
    /// What is synced reaches the media; else it counts once the disk has taken it, as on disks whose caches
    /// answer for them. For measurements only: a power cut then loses what was acknowledged.
    pub to_media: bool,
    /// Nothing is written: the store is there to be read.
    pub read_only: bool,
    /// A put is written and then flushed, as by fsync, and not written through; on RAID 0 every disk is
    /// flushed.
    pub flushes_puts: bool,
    /// Stages are noted as they change, to be drawn.
    pub notes_stages: bool,
    /// How long a disk that failed is left alone before it is tried again.
    pub retry: Nanos,
    /// When the driver's time began, in nanoseconds since the Unix epoch: batches say when they were put. 0 where
    /// nobody knows.
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
