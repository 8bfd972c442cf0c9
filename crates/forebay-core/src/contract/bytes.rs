//! Named bytes: policies specify which bytes an I/O transfers, and a driver stores them.
//!
//! A *buffer* is memory of the driver; a request names a buffer and a position in it ([`Bytes`]).
//! Clients' buffers and the scratch *slots* of placements share one namespace, and a name is passed
//! down a stack unchanged.
//!
//! Buffers are reference-counted: a buffer lives as long as it is held, and whoever plans an I/O
//! holds its buffer until the I/O has ended. A cache may therefore fill its flash from a client's
//! buffer after the client was answered, without a copy. A client consequently writes to a buffer
//! only before it submits it, and must use another one afterwards.
//!
//! If content is irrelevant, [`Null`] replaces the driver: it returns nothing, so nothing can
//! depend on it, and has no cost.

/// A buffer of the driver's; 0 has no content.
pub type Buf = u32;

/// The position of the bytes of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    /// The buffer.
    pub buf: Buf,
    /// The offset of the first byte in the buffer.
    pub at: u32,
}

impl Bytes {
    /// No content.
    pub const NONE: Bytes = Bytes { buf: 0, at: 0 };

    /// Returns a position at the start of a buffer.
    #[inline]
    pub fn of(buf: Buf) -> Bytes {
        Bytes { buf, at: 0 }
    }

    /// `count` bytes further on.
    #[inline]
    pub fn on(self, count: u32) -> Bytes {
        Bytes { buf: self.buf, at: self.at.wrapping_add(count) }
    }

    /// Returns the `len` bytes from here.
    #[inline]
    pub fn len(self, len: u32) -> Piece {
        Piece { buf: self.buf, at: self.at, len }
    }
}

/// Contiguous bytes of one buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// The buffer.
    pub buf: Buf,
    /// The offset of the first byte in the buffer.
    pub at: u32,
    /// How many.
    pub len: u32,
}

impl Piece {
    /// Returns the start of the range.
    #[inline]
    pub fn bytes(self) -> Bytes {
        Bytes { buf: self.buf, at: self.at }
    }
}

/// Operations on bytes without an I/O, implemented by a driver.
///
/// Ranges must lie within their buffers, and no I/O that reads into them may be outstanding.
/// Otherwise the driver panics, because the policy is wrong.
pub trait Slots {
    /// Allocates a buffer of `len` bytes with one hold. Its contents are undefined.
    fn take(&mut self, len: u32) -> Buf;

    /// Holds a buffer once more.
    fn keep(&mut self, buf: Buf);

    /// Releases one hold of a buffer; releasing the last one frees it.
    fn free(&mut self, buf: Buf);

    /// Fills with zeros.
    fn zero(&mut self, to: Piece);

    /// Copies; the ranges do not overlap.
    fn copy(&mut self, from: Piece, to: Bytes);

    /// `to += factor * from`, byte by byte in GF(2^8) with the polynomial 0x11d. The ranges do not
    /// overlap.
    fn add(&mut self, from: Piece, to: Bytes, factor: u8);

    /// Writes the parities of `data`, blocks of `len` bytes: one of them P, the sum of all blocks,
    /// two of them P and Q, the sum of `2^i` times block `i`, in one pass.
    fn parity(&mut self, data: &[Bytes], len: u32, parities: &[Bytes]);

    /// Reconstructs the `lost` blocks of a stripe in place: data blocks by number, then parities.
    /// There must be no more of them than parities.
    fn recover(&mut self, data: &[Bytes], len: u32, parities: &[Bytes], lost: &[usize]);

    /// Returns a checksum of 64 bits, the same on every machine; `None` without content.
    fn checksum(&self, of: Piece) -> Option<u64>;

    /// Stores a record.
    fn put(&mut self, to: Piece, record: &[u8]);

    /// Reads a record; answers whether there is content.
    fn get(&self, from: Piece, record: &mut [u8]) -> bool;
}

/// No content: nothing is moved, nothing is answered.
#[derive(Clone, Copy, Debug, Default)]
pub struct Null;

impl Slots for Null {
    #[inline]
    fn take(&mut self, _len: u32) -> Buf {
        0
    }
    #[inline]
    fn keep(&mut self, _buf: Buf) {}
    #[inline]
    fn free(&mut self, _buf: Buf) {}
    fn zero(&mut self, _to: Piece) {}
    fn copy(&mut self, _from: Piece, _to: Bytes) {}
    fn add(&mut self, _from: Piece, _to: Bytes, _factor: u8) {}
    fn parity(&mut self, _data: &[Bytes], _len: u32, _parities: &[Bytes]) {}
    fn recover(&mut self, _data: &[Bytes], _len: u32, _parities: &[Bytes], _lost: &[usize]) {}
    fn checksum(&self, _of: Piece) -> Option<u64> {
        None
    }
    fn put(&mut self, _to: Piece, _record: &[u8]) {}
    fn get(&self, _from: Piece, _record: &mut [u8]) -> bool {
        false
    }
}
