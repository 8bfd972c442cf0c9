//! Finds the zone of a sector: a table of equal parts of the disk tells where to start the search.

/// The number of equal parts of the disk.
const PARTS: u64 = 256;

/// For each part of the disk, the zone in which it begins.
#[derive(Clone, Debug, Default)]
pub(in crate::device) struct Parts {
    zones: Vec<u16>,
    shift: u32,
}

impl Parts {
    /// Creates a table for at least one and fewer than 2^16 zones, which end before the sectors
    /// `ends`, in ascending order.
    pub(in crate::device) fn new(ends: &[u64]) -> Parts {
        let (last, sectors) = (ends.len() - 1, ends[ends.len() - 1]);
        let shift = (u64::BITS - (sectors / PARTS).leading_zeros()).min(63);
        let first = |part: u64| ends.partition_point(|end| *end <= part << shift).min(last);
        let zones = (0..=(sectors >> shift)).map(|part| first(part) as u16).collect();
        Parts { zones, shift }
    }

    /// Returns the zone that contains `sector`, where zone `index` ends before `end(index)`.
    /// Returns the last zone for a sector beyond the end of the disk.
    #[inline]
    pub(in crate::device) fn zone(
        &self,
        sector: u64,
        zones: usize,
        end: impl Fn(usize) -> u64,
    ) -> usize {
        let part = (sector >> self.shift) as usize;
        let mut index = usize::from(self.zones[part.min(self.zones.len() - 1)]);
        while index + 1 < zones && end(index) <= sector {
            index += 1;
        }
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sector_is_in_its_zone() {
        for ends in [&[1][..], &[5, 6, 7, 1_000], &[700, 701, 90_000], &[u64::MAX / 2, u64::MAX]] {
            let parts = Parts::new(ends);
            let sectors = ends.iter().flat_map(|end| [end - 1, *end, end.saturating_add(300)]);
            for sector in sectors.chain(0..2_000) {
                let found = parts.zone(sector, ends.len(), |index| ends[index]);
                let sought = ends.partition_point(|end| *end <= sector).min(ends.len() - 1);
                assert_eq!(found, sought, "{sector} of {ends:?}");
            }
        }
    }
}
