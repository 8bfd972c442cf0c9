//! A disk's layout, and the label that says it.
//!
//! | what | where |
//! |---|---|
//! | label | 0, 4096 and the last block |
//! | two areas for roots | from 8192, each as long as the label says |
//! | slots for logs | behind them, each as long as the label says |
//! | segments | the rest |

use crate::config::Config;
use crate::frame::{BLOCK, Fields, Frame, FrameKind, pad};
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
    /// The last block of these has the label too: not on a disk made by an older Forebay whose last block is used.
    pub is_labelled_at_end: bool,
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
    pub const FORMAT: u64 = 5;
    /// The oldest format that it reads. The first opening that may write makes the present one of it.
    pub const FORMAT_MIN: u64 = 4;

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
        let layout = |disk| Layout {
            store,
            disk,
            disks,
            root_bytes,
            log_slots,
            slot_bytes,
            capacity_bytes,
            is_labelled_at_end: true,
        };
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

    /// Where segments end.
    pub fn segments_end(&self) -> u64 {
        match self.is_labelled_at_end {
            true => self.last_block_at(),
            false => self.capacity_bytes,
        }
    }

    /// The last block.
    pub(crate) fn last_block_at(&self) -> u64 {
        self.capacity_bytes - BLOCK as u64
    }

    /// Where the label is.
    pub(crate) fn labels_at(&self) -> impl Iterator<Item = u64> + use<> {
        let last = self.is_labelled_at_end.then(|| self.last_block_at());
        [0, BLOCK as u64].into_iter().chain(last)
    }

    /// Whether another disk's layout is of the same store, and otherwise the same.
    pub(crate) fn is_like(&self, other: &Layout) -> bool {
        let Layout { disk, is_labelled_at_end, .. } = *self;
        Layout { disk, is_labelled_at_end, ..*other } == *self
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
            && end.is_some_and(|end| end < self.segments_end())
    }

    /// The label: a block.
    pub fn label(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let from = Frame::begin(&mut out);
        let Layout { root_bytes, log_slots, slot_bytes, capacity_bytes, .. } = *self;
        let at_end = self.is_labelled_at_end.into();
        for word in [Self::FORMAT, root_bytes, log_slots, slot_bytes, capacity_bytes, at_end] {
            out.extend(word.to_le_bytes());
        }
        let (a, b) = (self.disk.into(), self.disks.into());
        Frame { kind: FrameKind::Label, store: self.store, count: 0, a, b }.end(&mut out, from);
        pad(&mut out);
        out
    }

    /// What a new disk has, each with its place: its labels, and a root that says that there is nothing.
    pub fn blank(&self) -> Vec<(u64, Vec<u8>)> {
        let chain = 1;
        let root = Change::default().frame(self.store, chain, 0);
        let labels = self.labels_at().map(|at| (at, self.label()));
        labels.chain([(self.root_at(chain), root)]).collect()
    }

    /// Reads a label.
    ///
    /// # Errors
    /// The format of one that this code does not read.
    pub fn parse(bytes: &[u8]) -> Option<Result<Layout, u64>> {
        // A label says itself which store it is of.
        let store = u64::from_le_bytes(bytes.get(16..24)?.try_into().ok()?);
        let (frame, payload) = Frame::parse(bytes, FrameKind::Label, store)?;
        let mut fields = Fields(payload);
        let format = fields.u64()?;
        if !(Self::FORMAT_MIN..=Self::FORMAT).contains(&format) {
            return Some(Err(format));
        }
        let (disk, disks) = (u16::try_from(frame.a).ok()?, u16::try_from(frame.b).ok()?);
        let (root_bytes, log_slots) = (fields.u64()?, fields.u64()?);
        let (slot_bytes, capacity_bytes) = (fields.u64()?, fields.u64()?);
        let is_labelled_at_end = format > 4 && fields.u64()? != 0;
        let layout = Layout {
            store,
            disk,
            disks,
            root_bytes,
            log_slots,
            slot_bytes,
            capacity_bytes,
            is_labelled_at_end,
        };
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
        is_labelled_at_end: true,
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

    /// A label of another format.
    fn label_of(format: u64) -> Vec<u8> {
        let mut label = Vec::new();
        let from = Frame::begin(&mut label);
        for word in [format, LAYOUT.root_bytes, LAYOUT.log_slots, LAYOUT.slot_bytes, 1 << 20] {
            label.extend(word.to_le_bytes());
        }
        let (store, a, b) = (LAYOUT.store, LAYOUT.disk.into(), LAYOUT.disks.into());
        Frame { kind: FrameKind::Label, store, count: 0, a, b }.end(&mut label, from);
        label
    }

    #[test]
    fn other_formats_are_read_or_told_by_their_number() {
        for format in [0, 1, 2, 3, 6, 1 << 40] {
            assert_eq!(Layout::parse(&label_of(format)), Some(Err(format)));
        }
        let old = Layout { is_labelled_at_end: false, ..LAYOUT };
        assert_eq!(Layout::parse(&label_of(4)), Some(Ok(old)));
        assert!(old.is_like(&Layout { disk: 1, ..LAYOUT }));
        assert!(!old.is_like(&Layout { disk: 1, store: 5, ..LAYOUT }));
        assert_eq!((old.segments_end(), LAYOUT.segments_end()), (1 << 20, (1 << 20) - 4096));
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
        assert!(LAYOUT.is_sound());
        for layout in unsound {
            assert_eq!(Layout::parse(&layout.label()), None, "{layout:?}");
        }
    }
}
