//! Orders to a policy that manages a volume while the volume is in use, its state, and the events
//! that it reports.

use super::request::Lane;

/// An order to the policy of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeOrder {
    /// Reads everything once and repairs damage, at most `bytes_per_s` of data per second; 0 means
    /// no limit. A check in progress starts over.
    Check {
        /// The maximum rate.
        bytes_per_s: u64,
    },
    /// Ends a check early.
    EndCheck,
    /// Limits rebuilding and moving to `bytes_per_s` of data per second; 0 means no limit.
    Limit {
        /// The maximum rate.
        bytes_per_s: u64,
    },
    /// Puts a new drive in the place of a member. If the member works, its data are moved away
    /// before it leaves the volume; otherwise its data are reconstructed.
    Replace {
        /// The new drive's lane, which has no drive yet.
        lane: Lane,
        /// The number of the new drive, higher than any number before.
        number: u8,
        /// The number of cells of the new drive.
        cells: u32,
        /// The number of the drive to be replaced.
        member: u8,
    },
    /// Moves the data of a working drive to the others, after which the drive leaves the volume.
    Retire {
        /// The number of the drive.
        member: u8,
    },
}

/// The background work of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeWork {
    /// Restores chunks that no drive has.
    Rebuild,
    /// Reads everything and repairs damage.
    Check,
    /// Moves chunks: off a drive that is being replaced, or to a new one.
    Move,
}

impl VolumeWork {
    /// Returns its name in results: `rebuild`, `check`, `move`.
    pub fn name(self) -> &'static str {
        match self {
            VolumeWork::Rebuild => "rebuild",
            VolumeWork::Check => "check",
            VolumeWork::Move => "move",
        }
    }
}

/// An event on a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeEvent {
    /// Damaged or unreadable blocks of a unit were restored and rewritten.
    Mended {
        /// The unit.
        unit: u64,
        /// The drive that had them.
        drive: u8,
    },
    /// Bytes of a unit can no longer be read.
    Lost {
        /// The unit.
        unit: u64,
    },
    /// All bytes of a unit can be read again.
    Recovered {
        /// The unit.
        unit: u64,
    },
    /// More units were mended, lost or recovered than are reported one by one.
    Omitted {
        /// The number of these events.
        count: u64,
    },
    /// Background work has begun.
    Began(VolumeWork),
    /// Background work has completed another tenth.
    Progress(VolumeWork, u8),
    /// Background work has ended.
    Ended {
        /// The work.
        work: VolumeWork,
        /// The number of chunks that were rewritten, restored or moved.
        chunks: u64,
        /// The number of chunks that no drive has, because no present drive has room for them.
        lacking: u64,
    },
    /// A check was ended early.
    Cancelled,
    /// A drive joined the volume; a durable record names it.
    Joined {
        /// Its number.
        drive: u8,
    },
    /// A drive holds no data any more and has left the volume; a durable record says so.
    Left {
        /// Its number.
        drive: u8,
    },
}

/// A drive of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeDrive {
    /// Its number.
    pub number: u8,
    /// Its lane.
    pub lane: Lane,
    /// Whether it is present and in use.
    pub is_present: bool,
    /// Whether its data are being moved away because it is replaced.
    pub is_leaving: bool,
    /// Whether a durable record names it as a drive of the volume.
    pub is_member: bool,
    /// Bytes that hold nothing.
    pub free_bytes: u64,
    /// I/Os that failed since the volume was opened.
    pub faults: u64,
}

/// The progress of background work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeProgress {
    /// The work.
    pub work: VolumeWork,
    /// Units that were processed in this pass.
    pub done_units: u64,
    /// Units of the volume.
    pub all_units: u64,
}

impl VolumeProgress {
    /// Returns the part that is done.
    pub fn percent(&self) -> f64 {
        self.done_units as f64 * 100.0 / self.all_units.max(1) as f64
    }
}

/// The state of a volume in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeState {
    /// The numbers of its drives, present or not.
    pub members: Vec<u8>,
    /// The drives on lanes.
    pub drives: Vec<VolumeDrive>,
    /// The number of drives that may fail without loss if everything is whole.
    pub tolerates: u8,
    /// Chunks, copies and parities that no drive has.
    pub lacking_chunks: u64,
    /// Units with bytes that can no longer be read.
    pub lost_units: u64,
    /// Drives that failed since the volume was opened.
    pub drives_failed: u64,
    /// Blocks that were found damaged since the volume was opened.
    pub rotten_blocks: u64,
    /// Chunks that were restored since the volume was opened.
    pub repaired_chunks: u64,
    /// Chunks that were moved since the volume was opened.
    pub moved_chunks: u64,
    /// Checks that were completed since the volume was opened.
    pub checks: u64,
    /// Whether a check is in progress, or waits for a rebuild.
    pub is_checking: bool,
    /// The background work in progress.
    pub work: Option<VolumeProgress>,
    /// Records that have yet to be rewritten until all drives have their share of them.
    pub records_left: u64,
}
