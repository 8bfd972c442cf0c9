//! Where on a volume a thread's requests begin, and whether they go on where the last one ended.

use super::folding::Folding;
use crate::describe::direction;
use crate::describe::sequential::Run;
use crate::trace::Record;

/// Stretches of a volume told apart: from the one half to all of these reach from its first byte to
/// the thread's last, so a quarter is known to within a 64th of that.
const STRETCHES: usize = 128;

/// Bits of the shortest stretch, a sector.
const SECTOR_BITS: u32 = 9;

/// A thread on a volume.
#[derive(Clone, Debug, Default)]
pub(super) struct Place {
    /// Of reads and of writes.
    runs: [Run; 2],
    stretches: Folding<STRETCHES>,
}

impl Place {
    /// Takes a request; whether it continues the last one of its direction.
    #[inline]
    pub(super) fn step(&mut self, r: &Record) -> bool {
        self.stretches.add(r.offset >> SECTOR_BITS);
        self.runs[direction(r)].step(r)
    }
}

/// All volumes end to end.
pub(super) struct Storage {
    /// Where each begins, and how long it is.
    volumes: Vec<(u128, u64)>,
    bytes: u128,
}

impl Storage {
    pub(super) fn new(extents_bytes: &[u64]) -> Storage {
        let mut bytes = 0;
        let volumes = extents_bytes.iter().map(|&extent| {
            let begins = bytes;
            bytes += u128::from(extent);
            (begins, extent)
        });
        Storage { volumes: volumes.collect(), bytes }
    }

    /// Requests by quarter of the storage. A stretch that a quarter's end cuts counts in parts.
    pub(super) fn quarters(&self, volume: u32, place: &Place) -> Option<[f64; 4]> {
        let &(begins, extent) =
            self.volumes.get(volume as usize).filter(|(_, extent)| *extent > 0)?;
        let quarter = self.bytes as f64 / 4.0;
        let bits = place.stretches.level() + SECTOR_BITS;
        let mut quarters = [0.0; 4];
        for (stretch, &count) in (0u128..).zip(place.stretches.counts()) {
            let from = begins + (stretch << bits).min(u128::from(extent));
            let to = begins + ((stretch + 1) << bits).min(u128::from(extent));
            let (from, to) = (from as f64, to as f64);
            for (index, sum) in quarters.iter_mut().enumerate() {
                let (low, high) = (index as f64 * quarter, (index + 1) as f64 * quarter);
                let within = (to.min(high) - from.max(low)).max(0.0);
                *sum += count as f64 * within / (to - from).max(1.0);
            }
        }
        Some(quarters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::describe::tests::{read, write};

    fn place(offsets: &[u64]) -> Place {
        let mut place = Place::default();
        for offset in offsets {
            place.step(&read(0, *offset, 512));
        }
        place
    }

    #[test]
    fn quarters_are_of_all_volumes_end_to_end() {
        let storage = Storage::new(&[1 << 20, 3 << 20]);
        let on_first = place(&[0, 512, (1 << 20) - 512]);
        assert_eq!(storage.quarters(0, &on_first), Some([3.0, 0.0, 0.0, 0.0]));
        let on_second = place(&[0, 1 << 20, 2 << 20, (3 << 20) - 512]);
        assert_eq!(storage.quarters(1, &on_second), Some([0.0, 1.0, 1.0, 2.0]));
        assert_eq!(storage.quarters(2, &on_second), None);
        assert_eq!(Storage::new(&[0]).quarters(0, &on_first), None);
    }

    #[test]
    fn a_stretch_across_an_end_counts_in_parts() {
        // Stretches of two sectors; the first quarter of 250 ends within one.
        let place = place(&[0, 62 * 512, 249 * 512]);
        let quarters = Storage::new(&[250 * 512]).quarters(0, &place).unwrap();
        assert_eq!(quarters, [1.25, 0.75, 0.0, 1.0]);
    }

    #[test]
    fn a_volume_as_long_as_addresses_go() {
        let far = place(&[0, u64::MAX - 600, u64::MAX - 512]);
        let quarters = Storage::new(&[u64::MAX]).quarters(0, &far).unwrap();
        assert_eq!(quarters.map(|count| count.round()), [1.0, 0.0, 0.0, 2.0]);
    }

    #[test]
    fn directions_are_runs_of_their_own() {
        let mut place = Place::default();
        let steps = [read(0, 0, 512), write(0, 4096, 512), read(0, 512, 512), write(0, 4608, 512)];
        assert_eq!(steps.map(|r| place.step(&r)), [false, false, true, true]);
    }
}
