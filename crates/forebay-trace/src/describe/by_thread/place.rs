//! Tracks where a thread's requests on a volume begin, and whether they continue the previous one.

use crate::Record;
use crate::begins::BeginCounts;
use crate::describe::direction;
use crate::describe::sequential::Run;
use crate::touched::Touched;

/// The number of stretches per volume. The longest is about 1/64 of the thread's addresses (without
/// long gaps), which determines the precision of the quarters.
const STRETCHES: usize = 128;

/// The length that is assumed for shorter requests.
const SECTOR_BYTES: u64 = 512;

/// The requests of a thread on a volume.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// The current runs of reads and of writes.
    runs: [Run; 2],
    begins: BeginCounts,
}

impl Default for Place {
    fn default() -> Place {
        Place { runs: Default::default(), begins: BeginCounts::new(STRETCHES) }
    }
}

impl Place {
    /// Adds a request. Returns whether it continues the previous one in the same direction.
    #[inline]
    pub(super) fn step(&mut self, r: &Record) -> bool {
        self.begins.add(r.offset);
        self.runs[direction(r)].step(r)
    }
}

/// Divides the used addresses of all volumes into quarters.
pub(super) struct Quarters {
    /// The used parts in order: the volume, the first byte, the end, and the number of used bytes
    /// before.
    parts: Vec<(u32, u64, u64, u64)>,
    bytes: u64,
}

impl Quarters {
    /// Divides the used addresses into equal shares.
    pub(super) fn of(used: &Touched) -> Quarters {
        let mut bytes = 0u64;
        let parts = used.parts().map(|(volume, from, to)| {
            let before = bytes;
            bytes = bytes.saturating_add(to - from);
            (volume, from, to, before)
        });
        let parts = parts.collect();
        Quarters { parts, bytes }
    }

    /// Returns the number of used bytes before `offset`.
    fn rank(&self, volume: u32, offset: u64) -> f64 {
        let after = self.parts.partition_point(|part| (part.0, part.1) <= (volume, offset));
        match after.checked_sub(1).and_then(|number| self.parts.get(number)) {
            Some(&(of, from, to, before)) => {
                let end = if of == volume { offset.min(to) } else { to };
                (before + (end - from)) as f64
            }
            None => 0.0,
        }
    }

    /// Counts requests by quarter. A stretch that extends across the end of a quarter is divided
    /// proportionally.
    pub(super) fn counts(&self, volume: u32, place: &Place) -> [f64; 4] {
        let quarter = (self.bytes as f64 / 4.0).max(1.0);
        let mut quarters = [0.0; 4];
        for stretch in place.begins.stretches() {
            let end = stretch.last.saturating_add(SECTOR_BYTES);
            let [from, to] = [stretch.first, end].map(|at| self.rank(volume, at) / quarter);
            let requests = stretch.requests as f64;
            if to <= from {
                quarters[(from as usize).min(3)] += requests;
                continue;
            }
            for (number, sum) in quarters.iter_mut().enumerate() {
                let (low, high) = (number as f64, number as f64 + 1.0);
                *sum += requests * (to.min(high) - from.max(low)).max(0.0) / (to - from);
            }
        }
        quarters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::describe::tests::{read, write};

    const MIB: u64 = 1 << 20;

    fn place(offsets: &[u64]) -> Place {
        let mut place = Place::default();
        for offset in offsets {
            place.step(&read(0, *offset, 512));
        }
        place
    }

    /// Returns requests for `mib` MiB of a volume, starting at MiB `from`.
    fn used(volume: u32, from: u64, mib: u64) -> Vec<Record> {
        (from..from + mib).map(|n| Record { volume, ..read(0, n * MIB, 512) }).collect()
    }

    fn quarters(records: &[Record]) -> Quarters {
        let mut touched = Touched::default();
        records.iter().for_each(|record| touched.add(record));
        Quarters::of(&touched)
    }

    #[test]
    fn quarters_are_of_what_is_used_of_all_volumes() {
        let both = quarters(&[used(0, 7, 1), used(1, 0, 3)].concat());
        assert_eq!(both.counts(0, &place(&[7 * MIB, 8 * MIB - 512])), [2.0, 0.0, 0.0, 0.0]);
        let on_second = place(&[0, MIB, 2 * MIB, 3 * MIB - 512]);
        assert_eq!(both.counts(1, &on_second), [0.0, 1.0, 1.0, 2.0]);
        assert_eq!(both.counts(2, &on_second), [0.0, 0.0, 0.0, 4.0]);
    }

    #[test]
    fn a_stretch_across_an_end_counts_in_parts() {
        let mut place = Place { begins: BeginCounts::new(1), ..Place::default() };
        [0, 4 * MIB - 512].iter().for_each(|&offset| place.begins.add(offset));
        let counts = quarters(&used(0, 0, 4)).counts(0, &place);
        assert_eq!(counts, [0.5; 4]);
        let all = quarters(&used(0, 0, 8)).counts(0, &place);
        assert_eq!(all, [1.0, 1.0, 0.0, 0.0]);
    }

    /// A distant request does not change the quarters of other requests, wherever it is.
    #[test]
    fn distant_requests_leave_the_quarters_of_all_others_as_they_were() {
        let near: Vec<u64> = (0..4096u64).map(|n| n * 2617 % 4096 * MIB).collect();
        let records = used(0, 0, 4096);
        let before = quarters(&records).counts(0, &place(&near));
        for far in [1u64 << 33, 1 << 40, 1 << 50, 1 << 63, u64::MAX - 511] {
            let distant = [records.clone(), vec![read(0, far, 512)]].concat();
            let with = [far].into_iter().chain(near.iter().copied()).collect::<Vec<_>>();
            let after = quarters(&distant).counts(0, &place(&with));
            for (before, after) in before.iter().zip(after) {
                assert!((before - after).abs() < 20.0, "{far}: {before}, {after}");
            }
        }
    }

    #[test]
    fn directions_are_runs_of_their_own() {
        let mut place = Place::default();
        let steps = [read(0, 0, 512), write(0, 4096, 512), read(0, 512, 512), write(0, 4608, 512)];
        assert_eq!(steps.map(|r| place.step(&r)), [false, false, true, true]);
    }
}
