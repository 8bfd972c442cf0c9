//! Hints from an application on how to store the units of a range of the volume.

use std::ops::Range;

use super::{Array, DriveKind, Geometry, Level, Task};

/// A hint for a range of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The range of bytes on the volume. The first hint that touches a unit applies.
    pub bytes: Range<u64>,
    /// The level of the units in the range, which no rule changes then.
    pub level: Option<Level>,
    /// The kind of drives for these units, while such drives have space.
    pub kind: Option<DriveKind>,
}

/// The hinted placement of a unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct UnitHint {
    pub(super) level: Option<Level>,
    pub(super) kind: Option<DriveKind>,
}

/// All hints, as ranges of units.
#[derive(Clone, Debug, Default)]
pub(super) struct Hints {
    all: Vec<(Range<u64>, UnitHint)>,
}

impl Hints {
    fn new(hints: &[Hint], geometry: &Geometry) -> Hints {
        let unit_bytes = geometry.unit_bytes();
        let of = |hint: &Hint| {
            let units = hint.bytes.start / unit_bytes..hint.bytes.end.div_ceil(unit_bytes);
            let level = hint.level.filter(|level| geometry.takes(*level));
            (units, UnitHint { level, kind: hint.kind })
        };
        Hints { all: hints.iter().map(of).collect() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn of(&self, unit: u64) -> UnitHint {
        let hint = self.all.iter().find(|(units, _)| units.contains(&unit));
        hint.map_or(UnitHint::default(), |(_, asked)| *asked)
    }
}

impl Array {
    /// Adds hints for some units. Once the array is open, units that do not match are moved in the
    /// background, as far as there is spare space. Hints for unsupported levels
    /// ([`Geometry::takes`]) are ignored.
    pub fn hinted(self, hints: &[Hint]) -> Array {
        let hints = Hints::new(hints, &self.geometry);
        Array { hints, ..self }
    }

    /// Returns the kind of drives on which a unit should be.
    pub(super) fn hinted_kind(&self, number: u64) -> DriveKind {
        self.hints.of(number).kind.unwrap_or_default()
    }

    /// Returns the task that makes a unit follow its hint, unless the unit follows the hint already
    /// or there is no spare space.
    pub(super) fn heed(&self, number: u64) -> Option<Task> {
        if self.hints.is_empty() {
            return None;
        }
        let unit = self.unit(number);
        let (UnitHint { level, kind }, now) = (self.hints.of(number), unit.level?);
        let (to, on) = (level.unwrap_or(now), kind.unwrap_or(unit.kind));
        let is_kept = (to, on) == (now, unit.kind);
        (!is_kept && self.is_roomy(to, on)).then_some(Task::Switch(to, on))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_hint_that_touches_a_unit_counts() {
        let hint = |bytes, level, kind| Hint { bytes, level, kind };
        let sizes = Geometry { chunk_bytes: 4096, units: 100, ..Geometry::sample(6) };
        let unit = sizes.unit_bytes();
        let hints = Hints::new(
            &[
                hint(0..1, Some(Level::TRIPLE), None),
                hint(0..2 * unit + 1, None, Some(DriveKind::Ssd)),
                hint(7 * unit..7 * unit, Some(Level::RAID6), None),
                hint(8 * unit..9 * unit, Some(Level::Mirrored { copies: 4 }), None),
            ],
            &sizes,
        );
        let asked = |unit| (hints.of(unit).level, hints.of(unit).kind);
        assert_eq!(asked(0), (Some(Level::TRIPLE), None));
        assert_eq!([1, 2].map(asked), [(None, Some(DriveKind::Ssd)); 2]);
        assert_eq!([3, 7, 8, u64::MAX].map(asked), [(None, None); 4]);
    }
}
