//! A disk's layout, and the label that says it.
//!
//! | what | where |
//! |---|---|
//! | label, twice | 0 and 4096 |
//! | two areas for roots | from 8192, each as long as the label says |
//! | slots for logs | behind them, each as long as the label says |
//! | segments | the rest |

use crate::config::Config;
use crate::frame::{BLOCK, Fields, Frame, Kind, pad};
use crate::root::Change;

/// What a disk's label says: the same on all disks of a store but for the disk's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The store, a number drawn when it was made.
    pub store: u64,
    /// This disk, from 0.
    pub disk: u16,
    /// Disks of the store.
    pub disks: u16,
    /// Bytes of an area for roots.
    pub root_bytes: u64,
    /// Slots for logs.
    pub log_slots: u64,
    /// Bytes of each.
    pub slot_bytes: u64,
    /// Bytes of the disk that the store may use.
    pub capacity_bytes: u64,
}

/// Bytes of an area for roots, unless the disk is small or large.
const ROOT_BYTES: u64 = 8 << 20;
/// Bytes of a root for each segment that the disk has room for: its own and as many of others.
const ROOT_BYTES_A_SEGMENT: u64 = 768;
const ROOT_BYTES_MAX: u64 = 256 << 20;
/// Slots for logs on a disk, unless somebody wants others: one on duty, one being transformed, one to spare.
const LOG_SLOTS: u64 = 3;

/// A slot takes no more than this part of a disk, unless a log has to be longer.
const LOGS_SHARE: u64 = 64;

/// A segment that a merge writes takes no more than this part of a disk.
const SEGMENTS_SHARE: u64 = 64;

fn segment_bytes(capacity_bytes: u64, config: &Config) -> u64 {
    config.segment_bytes.min(capacity_bytes / SEGMENTS_SHARE)
}

impl Layout {
    /// The format that this code writes.
    pub const FORMAT: u64 = 4;

    /// Of the disks of a new store, each of so many bytes.
    pub fn all(store: u64, disks: u16, capacity_bytes: u64, config: &Config) -> Vec<Layout> {
        let block = BLOCK as u64;
        let log_bytes = match config.tunes {
            true => config.log_bytes_max.min(capacity_bytes / LOGS_SHARE).max(config.log_bytes),
            false => config.log_bytes,
        };
        let slot_bytes = log_bytes + config.group_bytes + config.gap_bytes + 2 * block;
        // One disk does what several do in turn.
        let log_slots = if disks == 1 { 4 * LOG_SLOTS } else { LOG_SLOTS };
        let segments = capacity_bytes / segment_bytes(capacity_bytes, config).max(1);
        let for_all = (segments * ROOT_BYTES_A_SEGMENT).min(ROOT_BYTES_MAX);
        let root_bytes = for_all.max(ROOT_BYTES).min(capacity_bytes / 64);
        let root_bytes = (root_bytes / block * block).max(4 * block);
        let slot_bytes = slot_bytes.next_multiple_of(block);
        let capacity_bytes = capacity_bytes / block * block;
        let layout =
            |disk| Layout { store, disk, disks, root_bytes, log_slots, slot_bytes, capacity_bytes };
        (0..disks).map(layout).collect()
    }

    /// Bytes of a segment that a merge writes there, about: what is asked for, less on a small disk.
    pub(crate) fn segment_bytes(&self, config: &Config) -> u64 {
        segment_bytes(self.capacity_bytes, config)
    }

    /// Where one of the two areas for roots begins.
    pub fn root_at(&self, area: u64) -> u64 {
        2 * BLOCK as u64 + area % 2 * self.root_bytes
    }

    /// Where a slot for a log begins.
    pub fn slot_at(&self, slot: u64) -> u64 {
        self.root_at(0) + 2 * self.root_bytes + slot * self.slot_bytes
    }

    /// Where segments begin.
    pub fn segments_at(&self) -> u64 {
        self.slot_at(self.log_slots)
    }

    /// Whether its parts fit into it, each of them whole blocks.
    pub fn is_sound(&self) -> bool {
        let whole = |bytes: u64| bytes > 0 && bytes.is_multiple_of(BLOCK as u64);
        let end = self
            .log_slots
            .checked_mul(self.slot_bytes)
            .and_then(|logs| logs.checked_add(self.root_bytes.checked_mul(2)?))
            .and_then(|parts| parts.checked_add(2 * BLOCK as u64));
        self.disk < self.disks
            && self.log_slots >= 2
            && whole(self.root_bytes)
            && whole(self.slot_bytes)
            && whole(self.capacity_bytes)
            && end.is_some_and(|end| end < self.capacity_bytes)
    }

    /// The label: a block, which belongs at 0 and at 4096.
    pub fn label(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let from = Frame::begin(&mut out);
        for word in [Layout::FORMAT, self.root_bytes, self.log_slots, self.slot_bytes, self.capacity_bytes]
        {
            out.extend(word.to_le_bytes());
        }
        let (a, b) = (self.disk.into(), self.disks.into());
        Frame { kind: Kind::Label, store: self.store, count: 0, a, b }.end(&mut out, from);
        pad(&mut out);
        out
    }

    /// What a new disk has, each with its place: the label twice, and a root that says that there is nothing.
    pub fn blank(&self) -> [(u64, Vec<u8>); 3] {
        let chain = 1;
        let root = Change::default().frame(self.store, chain, 0);
        [(0, self.label()), (BLOCK as u64, self.label()), (self.root_at(chain), root)]
    }

    /// Reads a label.
    ///
    /// # Errors
    /// The version of one of another format.
    pub fn parse(bytes: &[u8]) -> Option<Result<Layout, u64>> {
        // A label says itself which store it is of.
        let store = u64::from_le_bytes(bytes.get(16..24)?.try_into().ok()?);
        let (frame, payload) = Frame::parse(bytes, Kind::Label, store)?;
        let mut fields = Fields(payload);
        let version = fields.u64()?;
        if version != Layout::FORMAT {
            return Some(Err(version));
        }
        let (disk, disks) = (u16::try_from(frame.a).ok()?, u16::try_from(frame.b).ok()?);
        let (root_bytes, log_slots) = (fields.u64()?, fields.u64()?);
        let (slot_bytes, capacity_bytes) = (fields.u64()?, fields.u64()?);
        let layout =
            Layout { store, disk, disks, root_bytes, log_slots, slot_bytes, capacity_bytes };
        layout.is_sound().then_some(Ok(layout))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) const LAYOUT: Layout = Layout {
        store: 77,
        disk: 2,
        disks: 4,
        root_bytes: 8192,
        log_slots: 3,
        slot_bytes: 16384,
        capacity_bytes: 1 << 20,
    };

    #[test]
    fn a_label_says_the_layout() {
        let label = LAYOUT.label();
        assert_eq!(label.len(), BLOCK);
        assert_eq!(Layout::parse(&label), Some(Ok(LAYOUT)));
        assert_eq!(Layout::parse(&label[..47]), None);
        assert_eq!(Layout::parse(&[0; BLOCK]), None);
        assert_eq!((LAYOUT.root_at(1), LAYOUT.slot_at(0)), (16384, 24576));
        assert_eq!(LAYOUT.segments_at(), 24576 + 3 * 16384);
    }

    #[test]
    fn layouts_whose_parts_do_not_fit_are_none() {
        let unsound = [
            Layout { disk: 4, ..LAYOUT },
            Layout { log_slots: 1, ..LAYOUT },
            Layout { root_bytes: 0, ..LAYOUT },
            Layout { slot_bytes: 5000, ..LAYOUT },
            Layout { slot_bytes: u64::MAX - 4095, ..LAYOUT },
            Layout { capacity_bytes: 65536, ..LAYOUT },
        ];
        for layout in unsound {
            assert_eq!(Layout::parse(&layout.label()), None, "{layout:?}");
        }
    }
}
