//! Where opening reads: samples show about where the newest record is, and the records around it
//! show whether that is certain. If not, all records are read.

use super::super::Geometry;
use super::super::geometry::ROUND_MAX;

/// Samples that are read at a time on each drive.
const SAMPLES: u64 = 64;
/// The distance of samples that is close enough, in records.
const CLOSE: u64 = 128;
/// The number of records that are read before the newest sample, on every drive. Each drive should
/// have some of them that the newest opening wrote or rewrote.
const BEHIND: u64 = 2048;

/// Samples of the ring, from a sequence number on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Samples {
    from: u64,
    count: u64,
    pub(super) distance: u64,
}

impl Samples {
    /// Returns samples of the whole ring.
    pub(super) fn first(geometry: &Geometry) -> Samples {
        let distance = geometry.ring.div_ceil(SAMPLES).max(1);
        Samples { from: 0, count: geometry.ring.div_ceil(distance), distance }
    }

    /// Returns closer samples, after the newest record that was found.
    pub(super) fn closer(self, newest: u64) -> Option<Samples> {
        let distance = self.distance.div_ceil(SAMPLES);
        let from = newest + distance;
        let count = self.distance.div_ceil(distance);
        (self.distance > CLOSE).then_some(Samples { from, count, distance })
    }

    /// Returns the positions in the ring.
    pub(super) fn places(self, geometry: &Geometry) -> impl Iterator<Item = u64> + use<> {
        let ring = geometry.ring.max(1);
        (0..self.count).map(move |nth| (self.from + nth * self.distance) % ring)
    }
}

/// Records with these sequence numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) from: u64,
    /// The number behind the last one.
    pub(super) to: u64,
    /// How many of them are older than the newest sample at most.
    pub(super) behind: u64,
}

impl Region {
    /// Returns what is read around the newest sample, if it is less than the whole ring.
    pub(super) fn around(newest: u64, distance: u64, geometry: &Geometry) -> Option<Region> {
        let behind = BEHIND.min(geometry.ring / 8);
        let (from, to) = (newest.saturating_sub(behind), newest + distance + ROUND_MAX + 1);
        (to - from < geometry.ring).then_some(Region { from, to, behind })
    }

    /// Returns the positions in the ring, as one or two ranges.
    pub(super) fn ranges(self, geometry: &Geometry) -> Vec<(u64, u64)> {
        let (ring, from) = (geometry.ring.max(1), self.from % geometry.ring.max(1));
        let end = from + (self.to - self.from);
        match end > ring {
            true => vec![(from, ring), (0, end - ring)],
            false => vec![(from, end)],
        }
    }
}
