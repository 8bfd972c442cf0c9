//! Lanes that leave out one kind of sync: what a store takes for durable and is not. Which kind an I/O is of its place
//! and its bytes say.

use std::collections::BTreeMap;

use forebay_core::{Flags, Op, Piece, Request};
use forebay_live::Lanes;
use forebay_rig::Crash;
use forebay_store::Layout;

use crate::crash::meddled::{Meddle, Meddled};

/// What is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    /// A batch in its slot.
    Batch,
    /// A batch that no slot has room for.
    Stretch,
    /// The block in the slot that says where that is.
    StretchBlock,
    /// Another disk's root that says that a log was begun.
    Begun,
    /// The flush of a segment before a root names it.
    Segment,
    /// Its own disk's root.
    OwnRoot,
    /// The copy of its filter.
    Copy,
    /// The root of the disk with that copy.
    OtherRoot,
    /// The root of the disk with the copy that forgets a segment.
    OtherForgets,
    /// The root of its own disk that does.
    OwnForgets,
    /// The first frame of a chain, which says everything.
    Chain,
    /// The flush of each disk before anything is read.
    Opening,
    /// The flush before duty passes on, where puts are not durable.
    Duty,
}

impl Lie {
    pub(crate) const ALL: [Lie; 13] = [
        Lie::Batch,
        Lie::Stretch,
        Lie::StretchBlock,
        Lie::Begun,
        Lie::Segment,
        Lie::OwnRoot,
        Lie::Copy,
        Lie::OtherRoot,
        Lie::OtherForgets,
        Lie::OwnForgets,
        Lie::Chain,
        Lie::Opening,
        Lie::Duty,
    ];
}

/// Lanes of a store with all of its disks.
pub(crate) struct Lying {
    lie: Option<Lie>,
    layout: Layout,
    /// By lane: it was flushed; what its slots, its segments got since.
    flushed: Vec<bool>,
    slot_writes: Vec<bool>,
    segment_writes: Vec<bool>,
    /// Disks of segments that roots said.
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

    /// What kind of sync an I/O is, if it is one.
    fn kind(&mut self, lanes: &Crash, io: &Request, pieces: &[Piece]) -> Option<Lie> {
        let lane = usize::from(io.lane);
        let is_slot = (self.layout.slot_at(0)..self.layout.segments_at()).contains(&io.offset);
        match io.op {
            Op::Flush => {
                let is_first = !std::mem::replace(&mut self.flushed[lane], true);
                let slot = std::mem::take(&mut self.slot_writes[lane]);
                let segment = std::mem::take(&mut self.segment_writes[lane]);
                return match (is_first, slot, segment) {
                    (true, ..) => Some(Lie::Opening),
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
                // Or a later part of one.
                (false, _) => Lie::Stretch,
            });
        }
        // The number of a frame in its chain, and what its first entry is.
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
            _ => Some(Lie::Begun),
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
                // Something that takes as long and keeps nothing.
                Op::Flush => io.op = Op::Park,
                _ => io.flags = Flags::NONE,
            }
        }
    }
}
