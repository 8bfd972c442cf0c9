//! Lost bytes of a unit: no copy remains although the drives are present, because of bit rot or
//! read errors.
//!
//! They are recorded in two places. The trailer of a cell contains [`LOST_SUM`] for a block that
//! could not be restored when the cell was written, so that no reader mistakes its bytes for data.
//! The table contains a summary for the whole unit ([`Lost`]), so that a volume knows its losses
//! without reading its cells.

use super::{BLOCK, Geometry, Level, Roles, all, each};

/// Replaces the checksum of a lost block in a trailer. (Another block has this checksum with a
/// probability of 2^-64.)
pub(super) const LOST_SUM: u64 = u64::MAX;
/// Maximum number of blocks in a chunk.
const BLOCKS_MAX: usize = 256;
/// The number of bits in the table that tell which blocks of chunks are lost.
const STRETCHES: usize = 32;

/// A set of blocks of a chunk, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Blocks([u64; BLOCKS_MAX / 64]);

impl Blocks {
    /// Returns the first `count` blocks.
    pub(super) fn first(count: usize) -> Blocks {
        (0..count).fold(Blocks::default(), |mut blocks, block| {
            blocks.set(block);
            blocks
        })
    }

    pub(super) fn has(self, block: usize) -> bool {
        self.0[block / 64] >> (block % 64) & 1 == 1
    }

    pub(super) fn set(&mut self, block: usize) {
        self.0[block / 64] |= 1 << (block % 64);
    }

    pub(super) fn clear(&mut self, block: usize) {
        self.0[block / 64] &= !(1 << (block % 64));
    }

    pub(super) fn is_empty(self) -> bool {
        self == Blocks::default()
    }

    pub(super) fn or(self, other: Blocks) -> Blocks {
        Blocks(std::array::from_fn(|at| self.0[at] | other.0[at]))
    }

    pub(super) fn and(self, other: Blocks) -> Blocks {
        Blocks(std::array::from_fn(|at| self.0[at] & other.0[at]))
    }

    pub(super) fn without(self, other: Blocks) -> Blocks {
        Blocks(std::array::from_fn(|at| self.0[at] & !other.0[at]))
    }

    pub(super) fn each(self) -> impl Iterator<Item = usize> {
        (0..BLOCKS_MAX).filter(move |block| self.has(*block))
    }
}

/// The losses of a unit, as recorded in its first word in the table.
///
/// A chunk is divided into at most 32 stretches of blocks (of one block each in chunks of up to 128
/// KiB). In these roles, the blocks in these stretches are lost. If different roles have lost
/// different stretches, the summary includes more than is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lost {
    /// Roles with blocks that cannot be read or reconstructed.
    pub(super) roles: Roles,
    stretches: u32,
}

impl Lost {
    pub(super) const NONE: Lost = Lost { roles: 0, stretches: 0 };

    /// Returns the losses of these blocks in these roles.
    pub(super) fn of(roles: Roles, blocks: Blocks, geometry: &Geometry) -> Lost {
        let stretch = stretch_blocks(geometry);
        let stretches = blocks.each().fold(0, |bits, block| bits | 1 << (block / stretch));
        if stretches == 0 || roles == 0 { Lost::NONE } else { Lost { roles, stretches } }
    }

    /// Returns the losses as the highest 48 bits of a word.
    pub(super) fn word(self) -> u64 {
        u64::from(self.roles) << 16 | u64::from(self.stretches) << 32
    }

    pub(super) fn of_word(word: u64) -> Lost {
        Lost { roles: (word >> 16) as Roles, stretches: (word >> 32) as u32 }
    }

    /// Returns these losses without the given roles.
    pub(super) fn without(self, roles: Roles) -> Lost {
        match self.roles & !roles {
            0 => Lost::NONE,
            roles => Lost { roles, ..self },
        }
    }

    /// Returns the blocks in the lost stretches.
    fn blocks(self, geometry: &Geometry) -> Blocks {
        let (count, stretch) = (blocks_of(geometry), stretch_blocks(geometry));
        let is_lost = |block: &usize| self.stretches >> (block / stretch) & 1 == 1;
        (0..count).filter(is_lost).fold(Blocks::default(), |mut blocks, block| {
            blocks.set(block);
            blocks
        })
    }

    /// Returns which blocks of a data chunk are lost in a unit of this level.
    pub(super) fn of_chunk(self, level: Level, chunk: usize, geometry: &Geometry) -> Blocks {
        let mut holders = level.holders(chunk, geometry.chunks.into());
        match holders.all(|role| self.roles >> role & 1 == 1) {
            true => self.blocks(geometry),
            false => Blocks::default(),
        }
    }

    /// Returns whether data chunks are lost, rather than only redundant copies or parities.
    pub(super) fn has_data(self, level: Level, chunks: usize) -> bool {
        let is_lost = |chunk| level.holders(chunk, chunks).all(|role| self.roles >> role & 1 == 1);
        self.stretches != 0 && each(all(chunks)).any(is_lost)
    }
}

/// Returns the number of blocks of a chunk.
pub(super) fn blocks_of(geometry: &Geometry) -> usize {
    (geometry.chunk_bytes / BLOCK) as usize
}

fn stretch_blocks(geometry: &Geometry) -> usize {
    blocks_of(geometry).div_ceil(STRETCHES).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(list: &[usize]) -> Blocks {
        list.iter().fold(Blocks::default(), |mut blocks, block| {
            blocks.set(*block);
            blocks
        })
    }

    #[test]
    fn blocks_are_a_set() {
        let (some, others) = (blocks(&[0, 63, 64, 255]), blocks(&[63, 7]));
        assert_eq!(some.each().collect::<Vec<_>>(), [0, 63, 64, 255]);
        assert_eq!(some.or(others), blocks(&[0, 7, 63, 64, 255]));
        assert_eq!(
            (some.and(others), some.without(others)),
            (blocks(&[63]), blocks(&[0, 64, 255]))
        );
        assert_eq!(Blocks::first(65).each().count(), 65);
        let mut cleared = some;
        some.each().for_each(|block| cleared.clear(block));
        assert!(cleared.is_empty() && !some.is_empty());
    }

    #[test]
    fn the_table_tells_which_blocks_are_lost() {
        for (chunk_bytes, lost, known) in [
            (4096, vec![0], vec![0]),
            (65_536, vec![3, 15], vec![3, 15]),
            (131_072, vec![0, 31], vec![0, 31]),
            // Four blocks per stretch, and a shorter last stretch.
            (512 << 10, vec![5], (4..8).collect()),
            (132 << 10, vec![32], vec![32]),
        ] {
            let geometry = Geometry { chunk_bytes, ..Geometry::sample(6) };
            let lost = Lost::of(0b11_0001, blocks(&lost), &geometry);
            assert_eq!(lost, Lost::of_word(lost.word() | 0x1ff));
            assert_eq!(lost.of_chunk(Level::RAID6, 0, &geometry), blocks(&known));
            assert!(lost.of_chunk(Level::RAID6, 1, &geometry).is_empty());
            assert!(lost.has_data(Level::RAID6, 4) && !lost.without(1).has_data(Level::RAID6, 4));
            assert_eq!(lost.without(0b11_0001), Lost::NONE);
        }
    }

    #[test]
    fn a_mirrored_chunk_is_lost_if_all_copies_are() {
        let geometry = Geometry::sample(6);
        let lost = Lost::of(0b0010_0010_0011, blocks(&[0]), &geometry);
        assert!(lost.of_chunk(Level::TRIPLE, 0, &geometry).is_empty());
        assert_eq!(lost.of_chunk(Level::TRIPLE, 1, &geometry), blocks(&[0]));
    }
}
