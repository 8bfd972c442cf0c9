//! Lanes that omit one kind of sync, so that a store wrongly takes data for durable. The kind of an
//! I/O is determined from its offset and its bytes.

use std::collections::BTreeMap;

use forebay_core::{Flags, Op, Piece, Request};
use forebay_live::Lanes;
use forebay_rig::Crash;
use forebay_store::Layout;

use crate::crash::meddled::{Meddle, Meddled};

/// The kind of sync to omit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    /// The write of a batch to its slot.
    Batch,
    /// The write of a batch that is too long for any slot.
    Stretch,
    /// The write of the block in the slot that refers to such a batch.
    StretchBlock,
    /// The write of another disk's root that records the beginning of a log.
    StartedLog,
    /// The flush of a segment before a root lists it.
    Segment,
    /// The write of a segment to the root of its own disk.
    OwnRoot,
    /// The write of the copy of a segment's filter.
    Copy,
    /// The write of a segment to the root of the disk with the copy.
    OtherRoot,
    /// The removal of a segment from the root of the disk with the copy.
    OtherForgets,
    /// The removal of a segment from the root of its own disk.
    OwnForgets,
    /// The write of the first frame of a chain, which contains the complete list.
    Chain,
    /// The flush of each disk before anything is read.
    TargetOptions,
    /// The flush before duty passes on if puts are not durable.
    Duty,
}

impl Lie {
    pub(crate) const ALL: [Lie; 13] = [
        Lie::Batch,
        Lie::Stretch,
        Lie::StretchBlock,
        Lie::StartedLog,
        Lie::Segment,
        Lie::OwnRoot,
        Lie::Copy,
        Lie::OtherRoot,
        Lie::OtherForgets,
        Lie::OwnForgets,
        Lie::Chain,
        Lie::TargetOptions,
        Lie::Duty,
    ];
}

/// The lanes of a store with all its disks, one kind of whose syncs is omitted.
pub(crate) struct Lying {
    lie: Option<Lie>,
    layout: Layout,
    /// For each lane: whether it was flushed, and whether its slots and segments have been written
    /// since.
    flushed: Vec<bool>,
    slot_writes: Vec<bool>,
    segment_writes: Vec<bool>,
    /// The disk of each segment that a root listed.
    disks: BTreeMap<u64, u32>,
}

impl Lying {
    pub(crate) fn over(lanes: Crash, lie: Option<Lie>, layout: Layout) -> Meddled<Lying> {
        let none = vec![false; lanes.count()];
        let (flushed, slot_writes, segment_writes) = (none.clone(), none.clone(), none);
        let disks = BTreeMap::new();
        let by = Lying { lie, layout, flushed, slot_writes, segment_writes, disks };
        Meddled { lanes, by }
    }

    /// Returns the kind of sync that an I/O is, if it is one.
    fn kind(&mut self, lanes: &Crash, io: &Request, pieces: &[Piece]) -> Option<Lie> {
        let lane = usize::from(io.lane);
        let is_slot = (self.layout.slot_at(0)..self.layout.segments_at()).contains(&io.offset);
        match io.op {
            Op::Flush => {
                let is_first = !std::mem::replace(&mut self.flushed[lane], true);
                let slot = std::mem::take(&mut self.slot_writes[lane]);
                let segment = std::mem::take(&mut self.segment_writes[lane]);
                return match (is_first, slot, segment) {
                    (true, ..) => Some(Lie::TargetOptions),
                    (_, true, false) => Some(Lie::Duty),
                    _ => Some(Lie::Segment),
                };
            }
            Op::Write if !io.flags.has(Flags::FUA) => {
                let writes = if is_slot { &mut self.slot_writes } else { &mut self.segment_writes };
                writes[lane] = true;
                return None;
            }
            Op::Write => {}
            _ => return None,
        }
        let bytes = lanes.pool().view(*pieces.first()?);
        let (word, long) = (|at| word(bytes, at), |at| long(bytes, at));
        if &bytes[8..12] != b"ROOT" {
            return Some(match (is_slot, &bytes[8..12]) {
                (true, b"STR5") => Lie::StretchBlock,
                (true, _) => Lie::Batch,
                (false, b"FILT") => Lie::Copy,
                // This includes the later parts of a batch.
                (false, _) => Lie::Stretch,
            });
        }
        // The frame's index in its chain, and the kind of its first entry.
        match (long(32), word(48)) {
            (0, _) => Some(Lie::Chain),
            (_, 1) => {
                let disk = word(52);
                self.disks.insert(long(72), disk);
                Some(if disk == lane as u32 { Lie::OwnRoot } else { Lie::OtherRoot })
            }
            (_, 2) => {
                let is_own = *self.disks.get(&long(52))? == lane as u32;
                Some(if is_own { Lie::OwnForgets } else { Lie::OtherForgets })
            }
            _ => Some(Lie::StartedLog),
        }
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

impl Meddle for Lying {
    fn start(&mut self, lanes: &Crash, io: &mut Request, pieces: &[Piece]) {
        if self.lie.is_some() && self.kind(lanes, io, pieces) == self.lie {
            match io.op {
                // Replaces the flush with an operation that takes as long but makes nothing
                // durable.
                Op::Flush => io.op = Op::Park,
                _ => io.flags = Flags::NONE,
            }
        }
    }
}
