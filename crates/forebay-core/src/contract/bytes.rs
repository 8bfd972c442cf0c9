//! Names for data: a policy specifies which bytes an I/O transfers, and the driver stores them.
//!
//! A *buffer* is memory of the driver; a request names a buffer and a position in it ([`Bytes`]).
//! Clients' buffers and the scratch *slots* of placements share one namespace, and a name is passed
//! down a stack unchanged.
//!
//! Buffers are reference-counted. A policy that plans an I/O holds its buffer until the I/O has
//! ended. A cache can therefore fill its flash from a client's buffer after the client was
//! answered, without a copy. Consequently a client may write to a buffer only before submitting it,
//! and must use a different buffer afterwards.
//!
//! If the data is irrelevant, [`Null`] replaces the driver's memory. It returns no data, so nothing
//! can depend on it, and it costs nothing.

/// The number of a buffer of the driver; 0 means no data.
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
    /// No data.
    pub const NONE: Bytes = Bytes { buf: 0, at: 0 };

    /// Returns a position at the start of a buffer.
    #[inline]
    pub fn of(buf: Buf) -> Bytes {
        Bytes { buf, at: 0 }
    }

    /// Returns the position `count` bytes further on.
    #[inline]
    pub fn on(self, count: u32) -> Bytes {
        Bytes { buf: self.buf, at: self.at.wrapping_add(count) }
    }

    /// Returns the range of `len` bytes that starts at this position.
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
    /// The length in bytes.
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
/// Ranges must lie within their buffers, and no outstanding I/O may be reading into them. The
/// driver panics if a policy violates this.
pub trait Slots {
    /// Allocates a buffer of `len` bytes with a reference count of 1. Its contents are undefined.
    fn take(&mut self, len: u32) -> Buf;

    /// Increments the reference count of a buffer.
    fn keep(&mut self, buf: Buf);

    /// Decrements the reference count of a buffer, and frees the buffer if the count reaches 0.
    fn free(&mut self, buf: Buf);

    /// Fills a range with zeros.
    fn zero(&mut self, to: Piece);

    /// Copies bytes. The ranges must not overlap.
    fn copy(&mut self, from: Piece, to: Bytes);

    /// Computes `to += factor * from`, byte by byte in GF(2^8) with the polynomial 0x11d. The
    /// ranges must not overlap.
    fn add(&mut self, from: Piece, to: Bytes, factor: u8);

    /// Computes one or two parities of `data`, blocks of `len` bytes, in one pass. The first parity
    /// is P, the sum of all blocks; the second is Q, the sum of `2^i` times block `i`.
    fn parity(&mut self, data: &[Bytes], len: u32, parities: &[Bytes]);

    /// Reconstructs the `lost` blocks of a stripe in place. `lost` numbers the data blocks first,
    /// then the parities, and must not have more entries than there are parities.
    fn recover(&mut self, data: &[Bytes], len: u32, parities: &[Bytes], lost: &[usize]);

    /// Returns a 64-bit checksum, the same on every machine; `None` without data.
    fn checksum(&self, of: Piece) -> Option<u64>;

    /// Writes a record into a range.
    fn put(&mut self, to: Piece, record: &[u8]);

    /// Reads a record from a range. Returns whether there is data.
    fn get(&self, from: Piece, record: &mut [u8]) -> bool;
}

/// A driver's memory without data: its operations do nothing and return nothing.
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
