//! Orders to the policy of a volume or cache in use, the state of the volume, and the events that
//! it reports.

use super::request::Lane;

/// An order to the policy of a volume or cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeOrder {
    /// Reads everything once and repairs damage, at no more than `bytes_per_s` of data per second;
    /// 0 means no limit. Restarts a check that is in progress.
    Check {
        /// The maximum rate in bytes per second.
        bytes_per_s: u64,
    },
    /// Ends a check early.
    EndCheck,
    /// Limits rebuilding and moving to `bytes_per_s` of data per second; 0 means no limit.
    Limit {
        /// The maximum rate in bytes per second.
        bytes_per_s: u64,
    },
    /// Replaces a member with a new drive. If the member works, its data is moved away before it
    /// leaves the volume; otherwise its data is reconstructed.
    Replace {
        /// The new drive's lane, which must not have a drive yet.
        lane: Lane,
        /// The number of the new drive, which must be higher than any number used before.
        number: u8,
        /// The number of cells of the new drive.
        cells: u32,
        /// The number of the drive to be replaced.
        member: u8,
    },
    /// Adds a new drive. Data is then moved until all drives are about equally full, and only then
    /// does the volume provide more space.
    Add {
        /// The new drive's lane, which must not have a drive yet.
        lane: Lane,
        /// The number of the new drive, which must be higher than any number used before.
        number: u8,
        /// The number of cells of the new drive.
        cells: u32,
        /// Whether the new drive is a solid-state drive.
        is_ssd: bool,
    },
    /// Continues to grow after an interruption: moves data until all drives are about equally full,
    /// then provides as much space as fits on them.
    Grow,
    /// Moves the data of a working drive to the others, after which the drive leaves the volume. A
    /// missing drive leaves at once if all of its data has been restored on the others.
    Retire {
        /// The number of the drive.
        member: u8,
    },
    /// Writes all dirty blocks of a write-back cache to the disk, and caches none from then on. No
    /// volume carries this out.
    Drain,
}

impl VolumeOrder {
    /// Returns why a policy that is neither a volume nor a cache cannot carry out the order.
    pub(crate) fn unfit(&self) -> &'static str {
        match self {
            VolumeOrder::Drain => "it has no cache that could be drained",
            _ => "it is not a volume",
        }
    }
}

/// The background work of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeWork {
    /// Reconstructs chunks that are not on any drive.
    Rebuild,
    /// Reads everything and repairs damage.
    Check,
    /// Moves chunks away from a drive that is being replaced or removed, or to a new drive.
    Move,
}

impl VolumeWork {
    /// Returns the name in results: `rebuild`, `check` or `move`.
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
        /// The drive with the damaged blocks.
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
    /// More units were mended, lost or recovered than are reported individually.
    Omitted {
        /// The number of omitted events.
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
        /// The number of chunks that are not on any drive, because no present drive has space for
        /// them.
        lacking: u64,
    },
    /// A check was ended early.
    Cancelled,
    /// A drive joined the volume, as stated by a durable record.
    Joined {
        /// The number of the drive.
        drive: u8,
    },
    /// The volume provides more space, as stated by a durable record.
    Grown {
        /// The space in bytes.
        bytes: u64,
    },
    /// A drive no longer holds data and has left the volume, as stated by a durable record.
    Left {
        /// The number of the drive.
        drive: u8,
    },
}

/// A drive of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeDrive {
    /// The number of the drive.
    pub number: u8,
    /// The lane of the drive.
    pub lane: Lane,
    /// Whether the drive is present and in use.
    pub is_present: bool,
    /// Whether the drive's data is being moved away because the drive is being replaced or removed.
    pub is_leaving: bool,
    /// Whether a durable record lists it as a member of the volume.
    pub is_member: bool,
    /// The free space in bytes.
    pub free_bytes: u64,
    /// I/Os that failed since the volume was opened.
    pub faults: u64,
}

/// The progress of background work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeProgress {
    /// The kind of work.
    pub work: VolumeWork,
    /// The number of units processed in this pass.
    pub done_units: u64,
    /// The number of units in the volume.
    pub all_units: u64,
}

impl VolumeProgress {
    /// Returns the progress in percent.
    pub fn percent(&self) -> f64 {
        self.done_units as f64 * 100.0 / self.all_units.max(1) as f64
    }
}

/// The state of a volume in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeState {
    /// The numbers of the member drives, present or not.
    pub members: Vec<u8>,
    /// The drives that have a lane.
    pub drives: Vec<VolumeDrive>,
    /// The space that the volume provides, in bytes.
    pub capacity_bytes: u64,
    /// Whether data is being moved so that the volume can provide more space.
    pub is_growing: bool,
    /// The number of drives that may fail without data loss, provided that nothing is damaged or
    /// missing.
    pub tolerates: u8,
    /// The number of chunks, including copies and parities, that are not on any drive.
    pub lacking_chunks: u64,
    /// The number of units with bytes that can no longer be read.
    pub lost_units: u64,
    /// The number of drives that failed since the volume was opened.
    pub drives_failed: u64,
    /// The number of blocks found damaged since the volume was opened.
    pub rotten_blocks: u64,
    /// The number of chunks restored since the volume was opened.
    pub repaired_chunks: u64,
    /// The number of chunks moved since the volume was opened.
    pub moved_chunks: u64,
    /// The number of checks completed since the volume was opened.
    pub checks: u64,
    /// Whether a check is in progress, or waiting for a rebuild.
    pub is_checking: bool,
    /// The limit of rebuilding and moving in bytes of data per second; 0 means no limit.
    pub limit_bytes_per_s: u64,
    /// The background work in progress.
    pub work: Option<VolumeProgress>,
    /// The number of records that must be rewritten before every drive has its share of them.
    pub records_left: u64,
    /// Whether records are on fewer drives than they should be, so that fewer drives may be missing
    /// when the volume is opened.
    pub lacks_records: bool,
    /// Whether writes fail or wait because the drives refused them for lack of space.
    pub lacks_room: bool,
}
