//! Converts I/Os to extents of a target, and generates the data that a workload's writes may carry.
//!
//! Direct I/O transfers whole blocks: an I/O that begins or ends within a block is refused, and a
//! trim is narrowed to whole blocks. (`forebay_core::stack::Blocks` converts partial blocks to
//! whole ones.)
//!
//! The writes of a workload without data ([`crate::Patterned`]) carry incompressible pseudo-random
//! bytes. The byte at an address is always the same ([`payload`]), so the result of a run can be
//! verified and does not depend on the order of writes. The bytes repeat every [`PERIOD_BYTES`], a
//! prime number of 4 KiB blocks.

use forebay_core::{Op, Request};

use crate::{Failure, Memory};
use forebay_core::random;

/// The maximum length of an I/O in bytes.
pub const LEN_MAX: u32 = 1 << 20;
/// The data of writes repeats after this many bytes.
const PERIOD_BYTES: u64 = 1021 * 4096;

/// Returns the byte that writes leave at `address`.
pub fn payload(address: u64) -> u8 {
    let at = address % PERIOD_BYTES;
    word(at / 8).to_le_bytes()[(at % 8) as usize]
}

/// Returns word number `index` of the data of writes.
fn word(index: u64) -> u64 {
    random::mix(index.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// Returns the data of writes: one period, plus the length of the longest I/O.
pub(crate) fn source() -> Memory {
    let mut memory = Memory::zeroed(PERIOD_BYTES as usize + LEN_MAX as usize);
    for (index, bytes) in memory.bytes_mut().chunks_exact_mut(8).enumerate() {
        let index = index as u64 % (PERIOD_BYTES / 8);
        bytes.copy_from_slice(&word(index).to_le_bytes());
    }
    memory
}

/// Returns the position in [`source`] of the data for a write at `address`.
#[inline]
pub(crate) fn source_at(address: u64) -> usize {
    (address % PERIOD_BYTES) as usize
}

/// The range of a target's bytes that an I/O covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) offset: u64,
    pub(crate) len: u32,
}

/// The properties of a target that a driver needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// The capacity in bytes, a multiple of the block size.
    pub(crate) capacity: u64,
    /// The block size for direct I/O, or 1 without direct I/O.
    pub(crate) block: u32,
}

impl Shape {
    /// Returns the extent of `io`, which must consist of whole blocks. A trim is narrowed to the
    /// blocks that it covers.
    #[inline]
    pub(crate) fn extent(&self, io: &Request) -> Result<Extent, Failure> {
        if io.end() > self.capacity || (io.op.moves_data() && io.len > LEN_MAX) {
            return Err(Failure::Beyond);
        }
        let block = u64::from(self.block);
        if io.op == Op::Trim {
            // Rounds inward, because otherwise the data of a neighbor would be trimmed too.
            let begin = io.offset.next_multiple_of(block);
            let len = (io.end() / block * block).saturating_sub(begin);
            return Ok(Extent { offset: begin, len: len as u32 });
        }
        let whole = io.offset.is_multiple_of(block) && u64::from(io.len).is_multiple_of(block);
        match whole || !io.op.moves_data() || io.len == 0 {
            true => Ok(Extent { offset: io.offset, len: io.len }),
            false => Err(Failure::Partial),
        }
    }
}

/// Returns the failure, if any, of an I/O on `extent` that transferred `moved` bytes.
#[inline]
pub(crate) fn outcome(op: Op, extent: Extent, moved: u64) -> Option<Failure> {
    (op.moves_data() && moved != u64::from(extent.len)).then_some(Failure::Short)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_core::{Flags, Nanos};

    #[test]
    fn the_source_holds_the_payload_of_every_address() {
        let source = source();
        for address in [0, 4096, PERIOD_BYTES - 512, 7 * PERIOD_BYTES + 1536] {
            let at = source_at(address);
            let data = &source.bytes()[at..at + LEN_MAX as usize];
            for step in [0, 1, 511, 4096, LEN_MAX as usize - 1] {
                assert_eq!(data[step], payload(address + step as u64), "{address} + {step}");
            }
        }
    }

    #[test]
    fn extents_are_whole_blocks_within_the_target() {
        let io = |op, offset, len| Request {
            at: Nanos::ZERO,
            offset,
            id: 0,
            len,
            stream: 0,
            lane: 0,
            op,
            flags: Flags::NONE,
        };
        let direct = Shape { capacity: 1 << 20, block: 4096 };
        let extent = |offset, len| direct.extent(&io(Op::Read, offset, len));
        assert_eq!(extent(4096, 4096), Ok(Extent { offset: 4096, len: 4096 }));
        assert_eq!(extent(4608, 4096), Err(Failure::Partial));
        assert_eq!(extent(4096, 512), Err(Failure::Partial));
        assert_eq!(extent((1 << 20) - 512, 513), Err(Failure::Beyond));
        assert_eq!(extent(512, 0), Ok(Extent { offset: 512, len: 0 }));
        let large = Shape { capacity: 1 << 40, block: 1 };
        assert_eq!(large.extent(&io(Op::Write, 0, LEN_MAX + 1)), Err(Failure::Beyond));
        let trim = |offset, len| direct.extent(&io(Op::Trim, offset, len));
        assert_eq!(trim(512, 12_288), Ok(Extent { offset: 4096, len: 8192 }));
        assert_eq!(trim(512, 4096), Ok(Extent { offset: 4096, len: 0 }));
        // Trims transfer no data and may have any length, but must not extend beyond the end.
        assert!(large.extent(&io(Op::Trim, 0, u32::MAX)).is_ok());
        assert_eq!(direct.extent(&io(Op::Trim, 0, u32::MAX)), Err(Failure::Beyond));
        let buffered = Shape { capacity: 1 << 20, block: 1 };
        assert_eq!(buffered.extent(&io(Op::Read, 5, 7)), Ok(Extent { offset: 5, len: 7 }));
    }
}
