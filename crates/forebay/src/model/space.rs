//! States of the model: ranges of the disk, each split in four, to any level.
//!
//! Volumes lie one after another in one linear space, on bounds of 1 MiB as [`crate::layout`] lays them
//! on a device. The space is cut in [`CELLS`] cells of equal size; a state of level `l` is
//! `CELLS / 4^l` of them.

use forebay_trace::Record;

/// Cells of the space: states of the finest level there is.
pub const CELLS: u64 = 1 << (2 * LEVEL_MAX);
/// The finest level.
pub const LEVEL_MAX: u8 = 8;
/// Volumes begin on multiples of this.
pub const GRAIN: u64 = 1 << 20;
/// Offsets are multiples of this.
pub const SECTOR: u64 = 512;
/// Bytes that a model may span: 1 EiB.
pub const SPAN_MAX: u64 = 1 << 60;

/// Transitions of the hierarchical model of `level` levels (the paper's equation 1).
pub fn hierarchical_transitions(level: u32) -> u64 {
    if level == 0 {
        return 0;
    }
    4u64.pow(level - 1) * 16 + (1..level).map(|i| 4u64.pow(i - 1) * 12).sum::<u64>()
}

/// Transitions of the flat model: from every state to every state.
pub fn flat_transitions(level: u32) -> u64 {
    16u64.saturating_pow(level)
}

/// Volumes laid one after another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    /// First byte of each volume, then the end of the last.
    bases: Vec<u64>,
    cell_bytes: u64,
}

impl Space {
    /// For volumes that reach as far as `extents` say, in bytes.
    pub fn new(extents: &[u64]) -> Space {
        let mut bases = vec![0];
        let mut end = 0u64;
        for extent in extents {
            end = end.saturating_add(extent.max(&1).div_ceil(GRAIN).saturating_mul(GRAIN));
            bases.push(end);
        }
        let cell_bytes = end.max(GRAIN).div_ceil(CELLS).next_multiple_of(SECTOR);
        Space { bases, cell_bytes }
    }

    /// Bytes from the first volume's beginning to the last one's end.
    pub fn span(&self) -> u64 {
        self.bases[self.bases.len() - 1]
    }

    /// Bytes of a cell.
    pub fn cell_bytes(&self) -> u64 {
        self.cell_bytes
    }

    /// Where a record begins.
    #[inline]
    pub fn linear(&self, record: &Record) -> u64 {
        self.address(record.volume, record.offset)
    }

    /// Where a byte of a volume lies.
    #[inline]
    pub fn address(&self, volume: u32, offset: u64) -> u64 {
        self.bases[(volume as usize).min(self.bases.len() - 2)].saturating_add(offset)
    }

    /// The cell of an address.
    #[inline]
    pub fn cell(&self, address: u64) -> u32 {
        (address / self.cell_bytes).min(CELLS - 1) as u32
    }

    /// The volume of an address.
    #[inline]
    pub fn volume(&self, address: u64) -> usize {
        match self.bases.len() {
            2 => 0,
            volumes => {
                self.bases.partition_point(|&base| base <= address).clamp(1, volumes - 1) - 1
            }
        }
    }

    /// Volume and offset of `len` bytes at an address, moved back if they would cross the volume's
    /// end; the length is cut if the volume is shorter.
    #[inline]
    pub fn place(&self, address: u64, len: u32) -> (u32, u64, u32) {
        let volume = self.volume(address);
        let (base, end) = (self.bases[volume], self.bases[volume + 1]);
        let len = u64::from(len).min(end - base);
        let address = address.clamp(base, end - len);
        (volume as u32, address - base, len as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_one_of_the_paper() {
        let ours: Vec<u64> = (1..=10).map(hierarchical_transitions).collect();
        let theirs = [16, 76, 316, 1276, 5116, 20_476, 81_916, 327_676, 1_310_716, 5_242_876];
        assert_eq!(ours, theirs);
        assert_eq!([1, 2, 3].map(flat_transitions), [16, 256, 4096]);
        assert_eq!(flat_transitions(10), 1 << 40);
    }

    #[test]
    fn requests_stay_on_their_volume() {
        let space = Space::new(&[1, 5 * GRAIN]);
        assert_eq!(space.span(), 6 * GRAIN);
        assert_eq!(space.place(GRAIN - 512, 4096), (0, GRAIN - 4096, 4096));
        assert_eq!(space.place(GRAIN, 4096), (1, 0, 4096));
        assert_eq!(space.place(u64::MAX, 4096), (1, 5 * GRAIN - 4096, 4096));
        assert_eq!(space.place(0, u32::MAX).2, GRAIN as u32);
    }
}
