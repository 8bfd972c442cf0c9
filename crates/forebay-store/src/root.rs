//! A disk's root: a list of the segments on the disk, and of what was on other disks when the root
//! was written.
//!
//! Each segment is listed in two roots: that of its own disk and, with a copy of its filter, that
//! of another disk. It is in effect if either root lists it. A log is listed in the root of another
//! disk before its first put is acknowledged. If a disk is lost, it is therefore known which keys
//! the disk might affect.
//!
//! A root is a chain of frames in one of two areas. The first frame contains the complete list;
//! each further frame contains additions and removals. When the next frame does not fit, a new
//! chain begins in the other area. Each frame contains the number of its chain and its index in the
//! chain. The chain with the greater number is valid, up to its first damaged frame.

use crate::frame::{BLOCK, Fields, Frame, FrameKind, pad};
use crate::segment::Described;
use crate::summary::BatchSummary;

const ADDED: u32 = 1;
const REMOVED: u32 = 2;
const BEGUN: u32 = 3;
const ENDED: u32 = 4;
const BEGUN_AT: u32 = 5;
const LOST: u32 = 6;

/// A segment as listed in a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) described: Described,
    /// The disk that contains the segment.
    pub(crate) disk: u16,
    /// The location and length of the copy of the segment's filter on the root's disk; the length
    /// is 0 in the root of the segment's own disk.
    pub(crate) copy: (u64, u64),
}

impl Entry {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend(u32::from(self.disk).to_le_bytes());
        out.extend(self.copy.0.to_le_bytes());
        out.extend(self.copy.1.to_le_bytes());
        self.described.put(out);
    }

    fn get(fields: &mut Fields<'_>) -> Option<Entry> {
        let disk = u16::try_from(fields.u32()?).ok()?;
        let copy = (fields.u64()?, fields.u64()?);
        Some(Entry { described: Described::get(fields)?, disk, copy })
    }
}

/// A log that has begun, as listed in the root of another disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StartedLog {
    pub(crate) log: u64,
    /// The disk that contains the log.
    pub(crate) disk: u16,
    /// When the log began, in nanoseconds since the Unix epoch; 0 if unknown. Formats up to 4 do
    /// not record this.
    pub(crate) at: u64,
}

/// A change of a root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    /// Segments to add to the list.
    pub(crate) added: Vec<Entry>,
    /// The ids of segments to remove because they no longer affect any read.
    pub(crate) removed: Vec<u64>,
    /// Logs that have begun on other disks.
    pub(crate) begun: Vec<StartedLog>,
    /// The ids of logs that have become segments.
    pub(crate) ended: Vec<u64>,
    /// Summaries of lost batches to store.
    pub(crate) lost: Vec<BatchSummary>,
}

impl Change {
    /// Encodes the change as frame `index` of chain `chain`, in whole blocks.
    pub(crate) fn frame(&self, store: u64, chain: u64, index: u64) -> Vec<u8> {
        let mut out = Vec::new();
        let from = Frame::begin(&mut out);
        for entry in &self.added {
            out.extend(ADDED.to_le_bytes());
            entry.put(&mut out);
        }
        for (tag, ids) in [(REMOVED, &self.removed), (ENDED, &self.ended)] {
            for id in ids {
                out.extend(tag.to_le_bytes());
                out.extend(id.to_le_bytes());
            }
        }
        for StartedLog { log, disk, at } in &self.begun {
            out.extend(BEGUN_AT.to_le_bytes());
            out.extend(log.to_le_bytes());
            out.extend(u32::from(*disk).to_le_bytes());
            out.extend(at.to_le_bytes());
        }
        for summary in &self.lost {
            out.extend(LOST.to_le_bytes());
            summary.put(&mut out);
        }
        let logs = self.begun.len() + self.ended.len() + self.lost.len();
        let count = (self.added.len() + self.removed.len() + logs) as u32;
        Frame { kind: FrameKind::Root, store, count, a: chain, b: index }.end(&mut out, from);
        pad(&mut out);
        out
    }

    fn parse(payload: &[u8], count: u32) -> Option<Change> {
        let (mut change, mut fields) = (Change::default(), Fields(payload));
        for _ in 0..count {
            match fields.u32()? {
                ADDED => change.added.push(Entry::get(&mut fields)?),
                REMOVED => change.removed.push(fields.u64()?),
                tag @ (BEGUN | BEGUN_AT) => {
                    let (log, disk) = (fields.u64()?, u16::try_from(fields.u32()?).ok()?);
                    let at = if tag == BEGUN { 0 } else { fields.u64()? };
                    change.begun.push(StartedLog { log, disk, at });
                }
                LOST => change.lost.push(BatchSummary::get(&mut fields)?),
                ENDED => change.ended.push(fields.u64()?),
                _ => return None,
            }
        }
        fields.0.is_empty().then_some(change)
    }
}

/// A disk's root: its content, and the chain that stores it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Root {
    /// The number of the chain; 0 before the first chain.
    pub(crate) chain: u64,
    /// The number of frames.
    pub(crate) frames: u64,
    /// The total length of the frames.
    pub(crate) len: u64,
    pub(crate) segments: Vec<Entry>,
    /// Logs on other disks that may not be in a segment yet.
    pub(crate) logs: Vec<StartedLog>,
    /// Summaries of lost batches.
    pub(crate) lost: Vec<BatchSummary>,
}

impl Root {
    /// Returns the area that contains the chain.
    pub(crate) fn area(&self) -> u64 {
        self.chain % 2
    }

    /// Makes the next change begin a new chain in the other area. The new chain's number is greater
    /// than `chain`, the greatest number that the area may already contain.
    pub(crate) fn end_behind(&mut self, chain: u64, root_bytes: u64) {
        self.chain = chain + (chain - self.chain) % 2;
        self.len = root_bytes;
    }

    /// Applies a change.
    pub(crate) fn apply(&mut self, change: Change) {
        self.segments.retain(|entry| !change.removed.contains(&entry.described.id));
        self.segments.extend(change.added);
        self.logs.retain(|begun| !change.ended.contains(&begun.log));
        self.logs.extend(change.begun);
        self.lost.retain(|summary| !change.ended.contains(&summary.log));
        self.lost.extend(change.lost);
    }

    /// Returns the chain and index of the last frame written in an area, including intact frames
    /// after damaged ones.
    pub(crate) fn last(area: &[u8], store: u64) -> Option<(u64, u64)> {
        let frames = area.chunks(BLOCK).enumerate().filter_map(|(block, _)| {
            let (frame, _) = Frame::parse(&area[block * BLOCK..], FrameKind::Root, store)?;
            Some((frame.a, frame.b))
        });
        frames.max()
    }

    /// Parses the chain at the start of an area; returns None if its first frame is damaged.
    pub(crate) fn parse(area: &[u8], store: u64) -> Option<Root> {
        let mut root: Option<Root> = None;
        let mut at = 0;
        while let Some(bytes) = area.get(at..)
            && let Some((frame, payload)) = Frame::parse(bytes, FrameKind::Root, store)
        {
            let next = root.as_ref().map_or((frame.a, 0), |root| (root.chain, root.frames));
            if (frame.a, frame.b) != next {
                break;
            }
            let Some(change) = Change::parse(payload, frame.count) else { break };
            let root = root.get_or_insert_with(|| Root { chain: frame.a, ..Root::default() });
            root.apply(change);
            at += (crate::frame::HEAD + payload.len()).next_multiple_of(BLOCK);
            (root.frames, root.len) = (root.frames + 1, at as u64);
        }
        root
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;
    use crate::segment::{Keys, Shape};

    fn entry(id: u64) -> Entry {
        let (keys, shape) = (Keys::default(), Shape::default());
        let (ages, before, offset) = ((id, id), (id - 1, 2), 4096 * id);
        let described = Described { id, ages, before, keys, offset, len: 4096, shape };
        Entry { described, disk: id as u16, copy: (8192 * id, 4096 * (id % 2)) }
    }

    fn lost(log: u64) -> BatchSummary {
        let record = Record { key: vec![3].into(), sequence: 5, value: None };
        BatchSummary::of((log, 2), 9, &[record]).unwrap()
    }

    fn begun(log: u64, disk: u16) -> StartedLog {
        StartedLog { log, disk, at: log * 1000 }
    }

    fn ids(root: &Root) -> Vec<u64> {
        root.segments.iter().map(|entry| entry.described.id).collect()
    }

    /// Encodes a chain of three frames.
    fn chain(chain: u64) -> Vec<u8> {
        let changes = [
            Change {
                added: vec![entry(1), entry(2)],
                begun: vec![begun(7, 2)],
                ..Change::default()
            },
            Change {
                added: vec![entry(3)],
                removed: vec![1],
                begun: vec![begun(8, 3), begun(9, 0)],
                ended: vec![],
                lost: vec![lost(7), lost(8)],
            },
            Change { removed: vec![2], ended: vec![7, 9], ..Change::default() },
        ];
        let frames = (0..).zip(changes).map(|(index, change)| change.frame(9, chain, index));
        frames.flatten().collect()
    }

    #[test]
    fn a_chain_ends_at_the_first_incomplete_frame() {
        let mut area = chain(4);
        area.resize(5 * 4096, 0);
        let root = Root::parse(&area, 9).unwrap();
        assert_eq!((ids(&root), root.chain, root.frames, root.len), (vec![3], 4, 3, 3 * 4096));
        assert_eq!((&root.segments[..], &root.logs[..]), (&[entry(3)][..], &[begun(8, 3)][..]));
        assert_eq!(root.lost, [lost(8)]);
        assert_eq!(Root::parse(&area, 8), None);
        assert_eq!(Root::last(&area, 9), Some((4, 2)));
        area[2 * 4096 + 50] ^= 1;
        assert_eq!(ids(&Root::parse(&area, 9).unwrap()), [2, 3]);
        assert_eq!(Root::last(&area, 9), Some((4, 1)));
        area[50] ^= 1;
        assert_eq!((Root::parse(&area, 9), Root::last(&area, 9)), (None, Some((4, 1))));
        area[50] ^= 1;
        area[4096 + 50] ^= 1;
        assert_eq!(ids(&Root::parse(&area, 9).unwrap()), [1, 2]);
        area[50] ^= 1;
        assert_eq!(Root::parse(&area, 9), None);
    }

    #[test]
    fn frames_of_an_older_chain_do_not_follow() {
        let mut area = chain(6)[..4096].to_vec();
        area.extend(&chain(4)[4096..]);
        let root = Root::parse(&area, 9).unwrap();
        assert_eq!((ids(&root), root.frames), (vec![1, 2], 1));
    }
}
