//! How the places of a class are described, depending on its kind: by which recent end the request
//! continues, by the age of its blocks, by its distance from a recent end, or by its cell of the
//! address space. No offset is stored.

use crate::address::Space;
use crate::bins::{self, BIN_MAX};
use crate::bytes::{ByteError, Bytes, Writer};
use crate::class::{NEAR_BYTES, PlaceKind};
use crate::counts::Counts;
use crate::ends::ENDS_MAX;
use crate::trail::{ModelRequest, Relation, Trail};

/// The number of cells into which the address space is divided to count places of kind
/// [`PlaceKind::Far`].
pub(crate) const CELLS: u64 = 1024;
/// The minimum size of a cell in bytes.
const CELL_BYTES_MIN: u64 = 64 << 10;
/// The number of parts of the trace whose cells are counted separately.
pub(crate) const FAR_EPOCHS: usize = 8;
const CELLS_READ_MAX: u64 = 2048;
const CELL_UNITS_MAX: u64 = (1 << 52) / CELL_BYTES_MIN;

/// How a request continues a recent request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// The rank of the recent end.
    pub(crate) rank: usize,
    /// Whether this end is the latest end of the request's stream.
    pub(crate) is_own: bool,
    /// The octave of the age of the blocks ahead (see [`age_octave`]), or 0 if they are new.
    pub(crate) age: u32,
}

const AGES: u32 = 34;

impl Run {
    fn key(self) -> u32 {
        self.rank as u32 + ENDS_MAX as u32 * (u32::from(self.is_own) + 2 * self.age.min(AGES))
    }

    #[inline]
    pub(crate) fn of(key: u32) -> Run {
        let ends = ENDS_MAX as u32;
        Run { rank: (key % ends) as usize, is_own: key / ends % 2 == 1, age: key / ends / 2 }
    }
}

/// Returns 0 for no age, or else 1 plus the logarithm of (age + 1) to base 2, rounded down.
#[inline]
pub(crate) fn age_octave(age: Option<u64>) -> u32 {
    age.map_or(0, |age| 1 + (age + 1).ilog2())
}

/// Returns the minimum and the maximum age of an octave above 0.
pub(crate) fn octave_ages(octave: u32) -> (u64, u64) {
    let least = 1u64 << octave.saturating_sub(1);
    (least - 1, 2 * least - 2)
}

/// How blocks are reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reuse {
    /// The bin of the number of requests since the last use.
    pub(crate) age: u32,
    pub(crate) start: ReuseStart,
}

/// Where a request starts relative to the earlier one whose blocks it reuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReuseStart {
    /// Within the earlier request.
    Within,
    /// At the start of the earlier request.
    Whole,
    /// At the start of the earlier request, which itself continued another one.
    Continuation,
}

impl Reuse {
    fn key(self) -> u32 {
        self.age * 3 + self.start as u32
    }

    #[inline]
    pub(crate) fn of(key: u32) -> Reuse {
        let start =
            [ReuseStart::Within, ReuseStart::Whole, ReuseStart::Continuation][(key % 3) as usize];
        Reuse { age: key / 3, start }
    }
}

/// A place on new blocks near a recent end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nearby {
    pub(crate) rank: usize,
    /// Whether the distance is a multiple of the request's length.
    pub(crate) is_multiple: bool,
    pub(crate) is_behind: bool,
    /// The bin of the distance in sectors.
    pub(crate) distance: u32,
}

impl Nearby {
    fn key(self) -> u32 {
        let signs = u32::from(self.is_behind) + 2 * u32::from(self.is_multiple);
        (self.rank as u32 * 4 + signs) * DISTANCES + self.distance
    }

    #[inline]
    pub(crate) fn of(key: u32) -> Nearby {
        let signs = key / DISTANCES % 4;
        Nearby {
            rank: (key / DISTANCES / 4) as usize,
            is_multiple: signs & 2 != 0,
            is_behind: signs & 1 != 0,
            distance: key % DISTANCES,
        }
    }
}

/// The number of bins of distances up to [`NEAR_BYTES`].
const DISTANCES: u32 = 64;

/// The model of places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    /// For each class, the keys of its places. Their meaning depends on the kind of the class.
    pub(crate) of_class: Vec<Counts>,
    pub(crate) cells: u32,
    pub(crate) cell_bytes: u64,
    /// For each part of the trace, the cells of places of kind [`PlaceKind::Far`].
    pub(crate) far: Vec<Counts>,
}

/// Returns the maximum key of classes of this kind.
fn key_max(kind: PlaceKind) -> u32 {
    match kind {
        kind if kind.goes_on() => Run { rank: ENDS_MAX - 1, is_own: true, age: AGES }.key(),
        PlaceKind::Again | PlaceKind::Over => {
            Reuse { age: BIN_MAX, start: ReuseStart::Continuation }.key()
        }
        PlaceKind::Near => (ENDS_MAX as u32) * 4 * DISTANCES - 1,
        _ => 0,
    }
}

/// Collects places.
pub(crate) struct PlacesFit {
    of_class: Vec<Vec<u32>>,
    far: Vec<Vec<u32>>,
    cell_bytes: u64,
}

impl PlacesFit {
    pub(crate) fn new(codes: usize, space: &Space) -> PlacesFit {
        let cell_bytes = space.end().div_ceil(CELLS).next_multiple_of(CELL_BYTES_MIN);
        let cells = space.end().div_ceil(cell_bytes).max(1) as usize;
        PlacesFit {
            of_class: vec![Vec::new(); codes],
            far: vec![vec![0; cells]; FAR_EPOCHS],
            cell_bytes,
        }
    }

    /// Adds a request in part `part` (of [`FAR_EPOCHS`]) of the trace.
    #[inline]
    pub(crate) fn add(
        &mut self,
        code: usize,
        asked: &ModelRequest,
        seen: &Relation,
        trail: &Trail,
        part: usize,
    ) {
        let key = match seen.kind {
            PlaceKind::Nowhere => return,
            PlaceKind::Far => {
                let (cells, cell) = (&mut self.far[part], asked.address / self.cell_bytes);
                let last = cells.len() - 1;
                cells[last.min(cell as usize)] += 1;
                return;
            }
            PlaceKind::Near => {
                let distance = seen.ahead.unsigned_abs().min(NEAR_BYTES);
                let is_multiple = distance.is_multiple_of(asked.len.into());
                let is_behind = seen.ahead < 0;
                let distance = bins::bin(distance / 512).min(DISTANCES - 1);
                Nearby { rank: seen.rank, is_multiple, is_behind, distance }.key()
            }
            PlaceKind::Again | PlaceKind::Over => {
                let was = seen.was.unwrap_or(0);
                let age = bins::bin(u64::from(trail.past.latest() - was));
                let start = match trail.past.get(was) {
                    Some(was) if was.address == asked.address && was.goes_on => {
                        ReuseStart::Continuation
                    }
                    Some(was) if was.address == asked.address => ReuseStart::Whole,
                    _ => ReuseStart::Within,
                };
                Reuse { age, start }.key()
            }
            _ => {
                let is_own = trail.is_stream_s(asked.address, asked.stream);
                let is_used = matches!(seen.kind, PlaceKind::ContinueUsed | PlaceKind::ResumeUsed);
                let age = age_octave(trail.age(asked.address).filter(|_| is_used));
                Run { rank: seen.rank, is_own, age }.key()
            }
        };
        let counts = &mut self.of_class[code];
        if counts.len() <= key as usize {
            counts.resize(key as usize + 1, 0);
        }
        counts[key as usize] += 1;
    }

    /// Returns the places of the classes with these codes.
    pub(crate) fn finish(self, codes: &[usize]) -> Places {
        Places {
            of_class: codes.iter().map(|&code| Counts::of(&self.of_class[code])).collect(),
            cells: self.far[0].len() as u32,
            cell_bytes: self.cell_bytes,
            far: self.far.iter().map(|cells| Counts::of(cells)).collect(),
        }
    }
}

impl Places {
    /// Merges the parts of the trace in pairs or, if there is only one part, the cells.
    pub(crate) fn coarser(&self) -> Places {
        if self.far.len() > 1 {
            let far =
                self.far.chunks(2).map(|two| two.iter().fold(Counts::default(), |a, b| a.with(b)));
            return Places { far: far.collect(), ..self.clone() };
        }
        let far = self.far.iter().map(|cells| cells.renamed(|cell| cell / 2)).collect();
        let (cells, cell_bytes) = (self.cells.div_ceil(2), self.cell_bytes * 2);
        Places { far, cells, cell_bytes, ..self.clone() }
    }

    /// Rounds distances from recent ends, and ages of reused blocks, down to powers of two.
    pub(crate) fn rounder(&self, kinds: &[PlaceKind]) -> Places {
        let octave = |bin: u32| if bin < 8 { bin } else { bin / 4 * 4 };
        let round = |(counts, kind): (&Counts, &PlaceKind)| match kind {
            PlaceKind::Near => counts.renamed(|key| {
                let near = Nearby::of(key);
                Nearby { distance: octave(near.distance), ..near }.key()
            }),
            PlaceKind::Again | PlaceKind::Over => counts.renamed(|key| {
                let reuse = Reuse::of(key);
                Reuse { age: octave(reuse.age), ..reuse }.key()
            }),
            _ => counts.clone(),
        };
        Places { of_class: self.of_class.iter().zip(kinds).map(round).collect(), ..self.clone() }
    }

    /// Keeps only the `kept` most common keys of each class.
    pub(crate) fn fewer(&self, kept: usize) -> Places {
        let of_class = self.of_class.iter().map(|counts| counts.commonest(kept)).collect();
        Places { of_class, ..self.clone() }
    }

    pub(crate) fn put(&self, writer: &mut Writer) {
        self.of_class.iter().for_each(|counts| counts.put(writer));
        writer.number(self.cells.into());
        writer.number(self.cell_bytes / CELL_BYTES_MIN);
        writer.number(self.far.len() as u64);
        self.far.iter().for_each(|cells| cells.put(writer));
    }

    pub(crate) fn get(bytes: &mut Bytes, kinds: &[PlaceKind]) -> Result<Places, ByteError> {
        let mut of_class = Vec::new();
        for &kind in kinds {
            let counts = Counts::get(bytes, key_max(kind), "how a place comes about")?;
            if counts.0.is_empty() && key_max(kind) > 0 {
                return bytes.bad("a class without places", "one at least");
            }
            of_class.push(counts);
        }
        let cells = bytes.number(CELLS_READ_MAX, "cells")?.max(1) as u32;
        let cell_bytes = bytes.number(CELL_UNITS_MAX, "size of a cell")?.max(1) * CELL_BYTES_MIN;
        let parts = bytes.length(FAR_EPOCHS, "parts of the trace")?;
        if parts == 0 {
            return bytes.bad("no part of the trace", "one at least");
        }
        let far = bytes.list(parts, |bytes| Counts::get(bytes, cells - 1, "cell"))?;
        Ok(Places { of_class, cells, cell_bytes, far })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back() {
        for rank in [0, 5, 31] {
            for (is_own, age) in [(false, 0), (true, 33)] {
                let run = Run { rank, is_own, age };
                assert_eq!(Run::of(run.key()), run);
            }
            for (is_multiple, is_behind) in [(false, true), (true, false)] {
                let near = Nearby { rank, is_multiple, is_behind, distance: 44 };
                assert_eq!(Nearby::of(near.key()), near);
            }
        }
        for start in [ReuseStart::Within, ReuseStart::Whole, ReuseStart::Continuation] {
            let reuse = Reuse { age: BIN_MAX, start };
            assert_eq!(Reuse::of(reuse.key()), reuse);
        }
    }

    #[test]
    fn distances_near_an_end_have_bins() {
        assert!(bins::bin(NEAR_BYTES / 512) < DISTANCES);
    }

    #[test]
    fn joined_cells_cover_both_ranges() {
        let far = vec![Counts(vec![(0, 4), (1, 2), (8, 1)]); 8];
        let mut places = Places { of_class: Vec::new(), cells: 9, cell_bytes: 65_536, far };
        let all = |places: &Places| places.far.iter().map(Counts::sum).sum::<u64>();
        for parts in [4, 2, 1] {
            places = places.coarser();
            assert_eq!((places.far.len(), all(&places), places.cells), (parts, 56, 9));
        }
        places = places.coarser();
        assert_eq!((places.cells, places.cell_bytes), (5, 131_072));
        assert_eq!(places.far, [Counts(vec![(0, 48), (4, 8)])]);
    }
}
