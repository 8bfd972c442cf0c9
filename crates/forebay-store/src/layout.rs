//! The layout of a disk, and the label that describes it.
//!
//! | content | position |
//! |---|---|
//! | label | 0, 4096 and the last block |
//! | two areas for roots | from 8192, with the length in the label |
//! | slots for logs | after the roots, with the length in the label |
//! | segments | the rest |

use crate::Config;
use crate::frame::{BLOCK, Fields, Frame, FrameKind, pad};
use crate::root::Change;

/// The content of a disk's label. It is the same on all disks of a store except for the disk's
/// number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The id of the store, a number chosen when the store was created.
    pub store: u64,
    /// The number of this disk, from 0.
    pub disk: u16,
    /// The number of disks.
    pub disks: u16,
    /// The length in bytes of an area for roots.
    pub root_bytes: u64,
    /// The number of slots for logs.
    pub log_slots: u64,
    /// The length in bytes of each slot.
    pub slot_bytes: u64,
    /// The number of bytes of the disk that the store may use.
    pub capacity_bytes: u64,
    /// Whether the last block also contains the label. Older versions put no label there; if the
    /// block is in use on one of their disks, it never gets a label.
    pub is_labelled_at_end: bool,
}

/// The default length of an area for roots in bytes. It is less on small disks, and more on large
/// ones.
const ROOT_BYTES: u64 = 8 << 20;
/// The bytes reserved in a root for each segment that fits on the disk. A root lists the disk's own
/// segments and about as many of other disks.
const ROOT_BYTES_A_SEGMENT: u64 = 768;
const ROOT_BYTES_MAX: u64 = 256 << 20;
/// The default number of slots per disk: one for the log on duty, one being transformed, and a
/// spare.
const LOG_SLOTS: u64 = 3;

/// A slot occupies at most one part in this many of a disk, unless logs must be longer.
const LOGS_SHARE: u64 = 64;

/// A segment written by a merge occupies at most one part in this many of a disk.
const SEGMENTS_SHARE: u64 = 64;

fn segment_bytes(capacity_bytes: u64, config: &Config) -> u64 {
    config.segment_bytes.min(capacity_bytes / SEGMENTS_SHARE)
}

impl Layout {
    /// The format that this version writes.
    pub const FORMAT: u64 = 5;
    /// The oldest format that this version reads. A store in an older format is upgraded the first
    /// time it is opened for writing.
    pub const FORMAT_MIN: u64 = 4;

    /// Returns the layouts for the disks of a new store, each with `capacity_bytes`.
    pub fn all(store: u64, disks: u16, capacity_bytes: u64, config: &Config) -> Vec<Layout> {
        let block = BLOCK as u64;
        let log_bytes = match config.tunes {
            true => config.log_bytes_max.min(capacity_bytes / LOGS_SHARE).max(config.log_bytes),
            false => config.log_bytes,
        };
        let slot_bytes = log_bytes + config.group_bytes + config.gap_bytes + 2 * block;
        // A single disk needs the slots of several disks.
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

    /// Returns the approximate size of segments written by merges: the configured size, or less on
    /// a small disk.
    pub(crate) fn segment_bytes(&self, config: &Config) -> u64 {
        segment_bytes(self.capacity_bytes, config)
    }

    /// Returns the position of one of the two areas for roots.
    pub fn root_at(&self, area: u64) -> u64 {
        2 * BLOCK as u64 + area % 2 * self.root_bytes
    }

    /// Returns the position of a slot.
    pub fn slot_at(&self, slot: u64) -> u64 {
        self.root_at(0) + 2 * self.root_bytes + slot * self.slot_bytes
    }

    /// Returns the position of the segments.
    pub fn segments_at(&self) -> u64 {
        self.slot_at(self.log_slots)
    }

    /// Returns the end of the segments.
    pub fn segments_end(&self) -> u64 {
        match self.is_labelled_at_end {
            true => self.last_block_at(),
            false => self.capacity_bytes,
        }
    }

    /// Returns the position of the last block.
    pub(crate) fn last_block_at(&self) -> u64 {
        self.capacity_bytes - BLOCK as u64
    }

    /// Returns the positions of the label.
    pub(crate) fn labels_at(&self) -> impl Iterator<Item = u64> + use<> {
        let last = self.is_labelled_at_end.then(|| self.last_block_at());
        [0, BLOCK as u64].into_iter().chain(last)
    }

    /// Returns whether two layouts belong to the same store and differ at most in the disk's
    /// number.
    pub(crate) fn is_like(&self, other: &Layout) -> bool {
        let Layout { disk, is_labelled_at_end, .. } = *self;
        Layout { disk, is_labelled_at_end, ..*other } == *self
    }

    /// Returns whether all parts fit on the disk and consist of whole blocks.
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

    /// Encodes the label as a block.
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

    /// Returns the initial content of a new disk with its positions: the labels and an empty root.
    pub fn blank(&self) -> Vec<(u64, Vec<u8>)> {
        let chain = 1;
        let root = Change::default().frame(self.store, chain, 0);
        let labels = self.labels_at().map(|at| (at, self.label()));
        labels.chain([(self.root_at(chain), root)]).collect()
    }

    /// Parses a label.
    ///
    /// # Errors
    /// Returns the label's format if this version does not support it.
    pub fn parse(bytes: &[u8]) -> Option<Result<Layout, u64>> {
        // The label itself states the store's id.
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

    /// Creates a label in a given format.
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
    fn other_formats_are_read_or_rejected_by_number() {
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
    fn layouts_whose_parts_do_not_fit_are_rejected() {
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
