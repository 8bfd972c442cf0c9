//! The lengths of the requests of a class: the most common ones, and their alignment to blocks.

use rustc_hash::FxHashMap;

use crate::bytes::{ByteError, Bytes, Writer};
use crate::counts::{Bag, Counts};
use crate::dice::RandomSource;
use crate::ground::BLOCK_BYTES;

/// The maximum number of different lengths of a class.
pub(crate) const LENGTHS: usize = 24;
/// The maximum number of lengths counted exactly while fitting. Further ones are rounded.
const COUNTED_MAX: usize = 4096;
const SECTOR: u64 = 512;
const SECTORS: u32 = (BLOCK_BYTES / SECTOR) as u32;

/// The lengths of the requests of one class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) lengths: Counts,
    /// The sector within a block at which requests start, counted separately for each remainder of
    /// the length modulo the block size (in sectors).
    sectors: Counts,
}

/// Collects lengths.
#[derive(Clone)]
pub(crate) struct SizesFit {
    lengths: FxHashMap<u32, u32>,
    sectors: [u32; (SECTORS * SECTORS) as usize],
}

impl Default for SizesFit {
    fn default() -> SizesFit {
        let sectors = [0; (SECTORS * SECTORS) as usize];
        SizesFit { lengths: FxHashMap::default(), sectors }
    }
}

/// Returns the key in `sectors` of a request of this length that starts at the first sector of a
/// block.
#[inline]
fn odd(len: u32) -> u64 {
    u64::from(len) % BLOCK_BYTES / SECTOR * u64::from(SECTORS)
}

impl SizesFit {
    #[inline]
    pub(crate) fn add(&mut self, len: u32) {
        match self.lengths.get_mut(&len) {
            Some(count) => *count += 1,
            None => {
                let fine = len.max(1).ilog2().saturating_sub(4);
                let is_full = self.lengths.len() >= COUNTED_MAX;
                let len = if is_full { (len >> fine << fine).max(512) } else { len };
                *self.lengths.entry(len).or_default() += 1;
            }
        }
    }

    #[inline]
    pub(crate) fn add_place(&mut self, address: u64, len: u32) {
        self.sectors[(odd(len) + address % BLOCK_BYTES / SECTOR) as usize] += 1;
    }

    pub(crate) fn finish(self) -> Sizes {
        let mut lengths: Vec<(u32, u32)> = self.lengths.into_iter().collect();
        lengths.sort_unstable();
        let lengths = Counts(lengths).commonest(LENGTHS);
        Sizes { lengths, sectors: Counts::of(&self.sectors) }
    }
}

impl Sizes {
    pub(crate) fn put(&self, writer: &mut Writer) {
        self.lengths.put(writer);
        self.sectors.put(writer);
    }

    pub(crate) fn get(bytes: &mut Bytes) -> Result<Sizes, ByteError> {
        let lengths = Counts::get(bytes, u32::MAX - 1, "length of a request")?;
        if lengths.0.is_empty() {
            return bytes.bad("a class without lengths", "one at least");
        }
        let sectors = Counts::get(bytes, SECTORS * SECTORS - 1, "sector of a block")?;
        Ok(Sizes { lengths, sectors })
    }
}

/// Draws lengths and alignments.
pub(crate) struct Lengths {
    lengths: Bag,
    sectors: Bag,
}

impl Lengths {
    pub(crate) fn new(sizes: &Sizes) -> Lengths {
        Lengths { lengths: Bag::new(&sizes.lengths), sectors: Bag::new(&sizes.sectors) }
    }

    #[inline]
    pub(crate) fn draw(&mut self, dice: &mut RandomSource) -> u32 {
        self.lengths.draw(dice).unwrap_or(0)
    }

    /// Draws the offset in bytes within a block at which a request of this length starts.
    #[inline]
    pub(crate) fn sector(&mut self, len: u32, dice: &mut RandomSource) -> u64 {
        let first = odd(len) as u32;
        let found = self.sectors.draw_between(first, first + SECTORS - 1, dice);
        let found = found.or_else(|| self.sectors.draw(dice));
        found.map_or(0, |sector| u64::from(sector % SECTORS) * SECTOR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_lie_on_blocks_as_those_of_their_length_did() {
        let mut fit = SizesFit::default();
        for _ in 0..20 {
            fit.add(512);
            fit.add_place(3 * 512, 512);
            fit.add(4096);
            fit.add_place(10 * 4096, 4096);
        }
        let (mut lengths, mut dice) = (Lengths::new(&fit.finish()), RandomSource::new(1));
        for _ in 0..20 {
            assert_eq!(
                (lengths.sector(512, &mut dice), lengths.sector(8192, &mut dice)),
                (1536, 0)
            );
        }
    }
}
