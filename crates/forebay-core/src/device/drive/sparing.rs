//! Spare sectors and defects, which determine the physical position of each sector in a zone.
//!
//! A zone is divided into ranges (tracks, cylinders, groups of cylinders, or the whole zone), each
//! with spares at its end. A *slipped* defect is skipped, and all later sectors move by one, up to
//! the end of the range or the zone. A *remapped* defect has its sector elsewhere. If whole tracks
//! are the unit, defects and spares count tracks. Except for remapped sectors, the mapping is
//! strictly increasing.

use crate::contract::SpecError;

use super::search::search;

/// The range over which spares are distributed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpareRange {
    /// Each track has its own spares.
    Track,
    /// The number of cylinders in a group; each group has its own spares.
    Cylinders(u32),
    /// All spares are at the end of the zone.
    #[default]
    Zone,
}

/// How a disk handles defects, the same in all zones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sparing {
    /// The range over which spares are distributed.
    pub range: SpareRange,
    /// Whether spares and defects are whole tracks instead of sectors.
    pub whole_tracks: bool,
    /// Whether spares are at the beginning of their range instead of the end.
    pub at_front: bool,
    /// Whether a slip moves all sectors up to the end of the zone instead of the range.
    pub to_zone_end: bool,
    /// Whether each slip shifts the tracks after its range by one sector.
    pub turns: bool,
}

/// The spares and defects of one zone, in sectors or tracks of the zone, counted from 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Defects {
    /// The number of spares in each range.
    pub spares: u64,
    /// The positions that are skipped, in ascending order.
    pub slips: Vec<u64>,
    /// Bad positions and the positions used instead.
    pub remaps: Vec<(u64, u64)>,
}

/// The sizes of a zone, in sectors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) track: u64,
    pub(super) cylinder: u64,
    pub(super) zone: u64,
}

/// The mapping of one zone. Its units are sectors or tracks.
#[derive(Clone, Debug)]
pub(super) struct Spared {
    unit: u64,
    /// The number of units in a range, and how many of them hold data.
    range: u64,
    data: u64,
    front: u64,
    to_zone_end: bool,
    slips: Vec<u64>,
    /// For each slipped defect, the first position after it in the order of data.
    passed: Vec<u64>,
    remaps: Vec<(u64, u64)>,
    turns: bool,
}

impl Spared {
    /// Returns the mapping, and the number of data sectors in the zone.
    pub(super) fn new(
        sparing: Sparing,
        defects: &Defects,
        extent: Extent,
    ) -> Result<(Spared, u64), SpecError> {
        let unit = if sparing.whole_tracks { extent.track } else { 1 };
        let range = match sparing.range {
            SpareRange::Track => extent.track,
            SpareRange::Cylinders(count) => extent.cylinder * u64::from(count.max(1)),
            SpareRange::Zone => extent.zone,
        } / unit;
        let (range, places) = (range.max(1), extent.zone / unit);
        if defects.spares >= range {
            let got = defects.spares;
            return Err(SpecError(format!(
                "spares: got {got}, expected fewer than the {range} sectors of a range"
            )));
        }
        if !defects.slips.is_sorted_by(|a, b| a < b) {
            return Err(SpecError(
                "slipped: got an unsorted list, expected ascending order".into(),
            ));
        }
        let listed = defects.slips.iter().chain(defects.remaps.iter().flat_map(|(a, b)| [a, b]));
        if let Some(&place) = listed.max().filter(|&&place| place >= places) {
            return Err(SpecError(format!(
                "defects of a zone: got {place}, expected less than the number of places, {places}"
            )));
        }
        let data = range - defects.spares;
        let mut mapping = Spared {
            unit,
            range,
            data,
            front: if sparing.at_front { defects.spares } else { 0 },
            to_zone_end: sparing.to_zone_end,
            slips: defects.slips.clone(),
            passed: Vec::new(),
            remaps: defects.remaps.clone(),
            turns: sparing.turns,
        };
        mapping.passed = mapping.passed_over();
        // An incomplete last range has no spares, as in DiskSim.
        let whole = places / range * data + (places % range).min(data);
        let lost = if sparing.to_zone_end { defects.slips.len() as u64 } else { 0 };
        let held = whole.saturating_sub(lost) * unit;
        // If there are more slips than spares, sectors at the end are lost.
        let held = search(0, held, |index| mapping.physical(index) < places * unit);
        if held == 0 {
            return Err(SpecError("spares: got as many as the zone has sectors".to_string()));
        }
        Ok((mapping, held))
    }

    fn passed_over(&self) -> Vec<u64> {
        let (mut passed, mut range, mut before) = (Vec::new(), u64::MAX, 0);
        for (rank, &slip) in self.slips.iter().enumerate() {
            let (at, within) = (slip / self.range, slip % self.range);
            if at != range {
                (range, before) = (at, rank as u64);
            }
            let within = within.saturating_sub(self.front);
            passed.push(if self.to_zone_end {
                (at * self.data + within.min(self.data)).saturating_sub(rank as u64)
            } else {
                at * self.data + within.saturating_sub(rank as u64 - before).min(self.data)
            });
        }
        passed
    }

    /// Returns the physical position of sector `index` in the zone's order.
    #[inline]
    pub(super) fn physical(&self, index: u64) -> u64 {
        let (place, rest) = (index / self.unit, index % self.unit);
        let mut slipped = self.passed.partition_point(|&data| data <= place) as u64;
        let found = if self.to_zone_end {
            let data = place + slipped;
            data / self.data * self.range + self.front + data % self.data
        } else {
            let range = place / self.data;
            slipped -= self.slips.partition_point(|&slip| slip < range * self.range) as u64;
            range * self.range + self.front + place % self.data + slipped
        };
        found * self.unit + rest
    }

    /// Returns the physical position after remapping.
    #[inline]
    pub(super) fn remapped(&self, physical: u64) -> u64 {
        let (place, rest) = (physical / self.unit, physical % self.unit);
        let remap = self.remaps.iter().find(|(bad, _)| *bad == place);
        remap.map_or(physical, |(_, good)| good * self.unit + rest)
    }

    /// Returns the number of whole tracks without data before sector `index` of the zone's order,
    /// which is at `physical`. A track has `track` sectors. The head need not pass over these
    /// tracks.
    #[inline]
    pub(super) fn empty_tracks(&self, index: u64, physical: u64, track: u64) -> u64 {
        if self.unit > 1 {
            return (physical - index) / self.unit;
        }
        let each = (self.range - self.data) / track;
        if each == 0 { 0 } else { (physical / self.range + u64::from(self.front > 0)) * each }
    }

    /// Returns the number of sectors by which slips rotate the track of physical sector `physical`.
    #[inline]
    pub(super) fn turned(&self, physical: u64) -> u64 {
        if !self.turns {
            return 0;
        }
        let start = physical / self.unit / self.range * self.range;
        self.slips.partition_point(|&slip| slip < start) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXTENT: Extent = Extent { track: 10, cylinder: 20, zone: 60 };

    fn mapped(sparing: Sparing, spares: u64, slips: &[u64], remaps: &[(u64, u64)]) -> Vec<u64> {
        let defects = Defects { spares, slips: slips.to_vec(), remaps: remaps.to_vec() };
        let (spared, held) = Spared::new(sparing, &defects, EXTENT).unwrap();
        (0..held).map(|index| spared.remapped(spared.physical(index))).collect()
    }

    /// Computes the mapping slowly: goes through the positions of each range and leaves out spares
    /// and slips.
    fn walked(range: u64, spares: u64, slips: &[u64]) -> Vec<u64> {
        let mut out = Vec::new();
        for start in (0..60).step_by(range as usize) {
            let good = (start..start + range).filter(|place| !slips.contains(place));
            out.extend(good.take((range - spares) as usize));
        }
        out
    }

    #[test]
    fn slips_shift_sectors_within_their_range() {
        for slips in [&[][..], &[0], &[4, 5, 6], &[19, 20, 41, 59]] {
            for (range, size) in
                [(SpareRange::Track, 10), (SpareRange::Cylinders(1), 20), (SpareRange::Zone, 60)]
            {
                let sparing = Sparing { range, ..Sparing::default() };
                assert_eq!(mapped(sparing, 4, slips, &[]), walked(size, 4, slips), "{range:?}");
            }
        }
    }

    #[test]
    fn slips_shift_to_the_end_of_the_zone_if_specified() {
        let range = SpareRange::Cylinders(1);
        let sparing = Sparing { range, to_zone_end: true, ..Sparing::default() };
        let mut expected: Vec<u64> = walked(20, 4, &[]);
        expected.retain(|place| ![3, 25].contains(place));
        assert_eq!(mapped(sparing, 4, &[3, 25], &[]), expected);
    }

    #[test]
    fn whole_tracks_are_slipped_and_remapped() {
        let sparing = Sparing { whole_tracks: true, ..Sparing::default() };
        let places = mapped(sparing, 2, &[1], &[(3, 5)]);
        assert_eq!((places.len(), places[9], places[10], places[25]), (40, 9, 20, 55));
    }

    #[test]
    fn tracks_without_data_are_counted() {
        let empty = |sparing, spares, slips: &[u64], index| {
            let defects = Defects { spares, slips: slips.to_vec(), remaps: Vec::new() };
            let (spared, _) = Spared::new(sparing, &defects, EXTENT).unwrap();
            spared.empty_tracks(index, spared.physical(index), EXTENT.track)
        };
        let tracks = Sparing { whole_tracks: true, ..Sparing::default() };
        assert_eq!([9, 10, 19, 20].map(|index| empty(tracks, 2, &[1, 3], index)), [0, 1, 1, 2]);
        // Of the 20 sectors of a cylinder, 12 are spares: the second track and part of the first.
        let cylinders = Sparing { range: SpareRange::Cylinders(1), ..Sparing::default() };
        assert_eq!([7, 8, 23].map(|index| empty(cylinders, 12, &[], index)), [0, 1, 2]);
        let front = Sparing { at_front: true, ..cylinders };
        assert_eq!([7, 8].map(|index| empty(front, 12, &[], index)), [1, 2]);
        assert_eq!(empty(cylinders, 9, &[3], 23), 0);
    }

    #[test]
    fn spares_may_come_first() {
        let range = SpareRange::Track;
        let sparing = Sparing { range, at_front: true, ..Sparing::default() };
        let places = mapped(sparing, 2, &[], &[]);
        assert_eq!((places[0], places[7], places[8]), (2, 9, 12));
    }

    #[test]
    fn what_cannot_be_is_named() {
        let said = |spares, slips: &[u64]| {
            let defects = Defects { spares, slips: slips.to_vec(), remaps: Vec::new() };
            Spared::new(Sparing::default(), &defects, EXTENT).unwrap_err().0
        };
        assert!(said(60, &[]).contains("fewer than the 60"));
        assert!(said(1, &[60]).contains("less than the number of places, 60"));
        assert!(said(1, &[5, 5]).contains("an unsorted list"));
    }
}
