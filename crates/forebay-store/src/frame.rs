//! Frames: the container of all data that a store writes to its disks.
//!
//! A frame begins with 48 little-endian bytes: a checksum (64-bit XXH3) of everything after it; the
//! kind (4 bytes); a count (4); the store's id; two numbers whose meaning depends on the kind; and
//! the length of the payload. Because the frame contains the store's id, neither another store's
//! data nor a value that looks like a frame is mistaken for one.

use forebay_live::checksum;

/// The block size of disks: offsets and lengths of I/Os are multiples of this.
pub(crate) const BLOCK: usize = 4096;

/// The length of the header in bytes.
pub(crate) const HEAD: usize = 48;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum FrameKind {
    Label = 0x4C42_4C46,
    Batch = 0x3542_4246,
    Stretch = 0x3552_5453,
    /// The kind of a batch in the store's formats up to 4.
    BatchOf4 = 0x4341_4246,
    /// The kind of a stretch in the store's formats up to 4.
    StretchOf4 = 0x4552_5453,
    Leaf = 0x4641_454C,
    Node = 0x4544_4F4E,
    Filter = 0x544C_4946,
    Root = 0x544F_4F52,
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: FrameKind,
    pub(crate) store: u64,
    pub(crate) count: u32,
    pub(crate) a: u64,
    pub(crate) b: u64,
}

impl Frame {
    /// Reserves space for a header and returns its position; everything appended after it is the
    /// payload.
    pub(crate) fn begin(out: &mut Vec<u8>) -> usize {
        out.resize(out.len() + HEAD, 0);
        out.len() - HEAD
    }

    /// Writes the header of the frame that began at `from` and ends at the end of `out`.
    pub(crate) fn end(self, out: &mut [u8], from: usize) {
        let len = (out.len() - from - HEAD) as u64;
        let head = &mut out[from..from + HEAD];
        head[8..12].copy_from_slice(&(self.kind as u32).to_le_bytes());
        head[12..16].copy_from_slice(&self.count.to_le_bytes());
        for (word, at) in [self.store, self.a, self.b, len].into_iter().zip((16..).step_by(8)) {
            head[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        let sum = checksum(&out[from + 8..]);
        out[from..from + 8].copy_from_slice(&sum.to_le_bytes());
    }

    /// Returns the length, including the header, of a frame of this kind and store that appears to
    /// begin here. The checksum is not verified.
    pub(crate) fn len(bytes: &[u8], kind: FrameKind, store: u64) -> Option<u64> {
        let mut fields = Fields(bytes.get(8..HEAD)?);
        let fits = fields.u32()? == kind as u32;
        fields.u32()?;
        let fits = fits && fields.u64()? == store;
        fields.take(16)?;
        let len = fields.u64()?.checked_add(HEAD as u64)?;
        fits.then_some(len)
    }

    /// Parses a frame of this kind and store that begins here. Returns it with its payload if it is
    /// intact.
    pub(crate) fn parse(bytes: &[u8], kind: FrameKind, store: u64) -> Option<(Frame, &[u8])> {
        let len = usize::try_from(Frame::len(bytes, kind, store)?).ok()?;
        let whole = bytes.get(..len)?;
        let mut fields = Fields(whole);
        if fields.u64()? != checksum(&whole[8..]) {
            return None;
        }
        fields.u32()?;
        let count = fields.u32()?;
        fields.u64()?;
        let (a, b) = (fields.u64()?, fields.u64()?);
        Some((Frame { kind, store, count, a, b }, &whole[HEAD..]))
    }
}

/// Pads with zeros to a whole number of blocks.
pub(crate) fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(BLOCK), 0);
}

/// Parses fields in order; returns `None` at the end of the bytes.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (field, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(field)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.take(4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.take(8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes)
    }

    /// Reads bytes preceded by their length.
    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.u32()?;
        self.take(len as usize)
    }
}

/// Appends bytes preceded by their length.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(payload: &[u8]) -> (Frame, Vec<u8>) {
        let mut out = vec![7; 5];
        let from = Frame::begin(&mut out);
        out.extend_from_slice(payload);
        let frame = Frame { kind: FrameKind::Leaf, store: 99, count: 3, a: 1 << 40, b: 2 };
        frame.end(&mut out, from);
        (frame, out.split_off(5))
    }

    proptest! {
        #[test]
        fn only_framed_data_are_found(
            payload in proptest::collection::vec(0..=255_u8, 0..200),
            at in 0..1000_usize,
            by in 1..=255_u8,
            more in 0..9_usize,
        ) {
            let (head, mut bytes) = frame(&payload);
            bytes.resize(bytes.len() + more, 0);
            let found = Frame::parse(&bytes, FrameKind::Leaf, 99);
            prop_assert_eq!(found, Some((head, &payload[..])));
            prop_assert_eq!(Frame::parse(&bytes, FrameKind::Node, 99), None);
            prop_assert_eq!(Frame::parse(&bytes, FrameKind::Leaf, 98), None);
            prop_assert_eq!(Frame::parse(&bytes[..HEAD + payload.len() - 1], FrameKind::Leaf, 99), None);
            let at = at % (HEAD + payload.len());
            bytes[at] ^= by;
            prop_assert_eq!(Frame::parse(&bytes, FrameKind::Leaf, 99), None, "byte {} is wrong", at);
        }
    }

    #[test]
    fn a_length_beyond_everything_is_no_frame() {
        let (_, mut bytes) = frame(b"payload");
        bytes[40..48].fill(0xFF);
        assert_eq!(Frame::parse(&bytes, FrameKind::Leaf, 99), None);
        assert_eq!(Frame::len(&bytes, FrameKind::Leaf, 99), None);
    }
}
