//! The volumes and workloads to test.

use std::collections::BTreeSet;
use std::ops::Range;

use super::super::super::drives::Drives;
use super::super::super::geometry::Geometry;
use super::super::super::kind::DriveKind;
use super::super::super::level::{LEVELS, Level};
use super::super::super::{Array, Hint, Update};
use crate::adapt::{Best, BonusMalus, Costs, Factor, First, Objective, Tuning, WorkFunction};
use crate::contract::{Flags, Lane, Nanos, Op};

const CHUNK: u32 = 8192;
const CHUNKS: u8 = 4;
const UNIT: u64 = CHUNK as u64 * CHUNKS as u64;

/// An operation, its flags, its first byte, and its length in bytes.
pub(super) type Ask = (Op, Flags, u64, u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Not,
    /// Switches a unit at every other write.
    Often,
    BonusMalus,
    WorkFunction,
    Best,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hinted {
    Not,
    /// Copies for the first half of the volume.
    Half,
    /// Copies for the whole volume.
    All,
    /// Copies on solid-state drives for the first half of the volume.
    OnSsds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grow {
    Not,
    Drives,
    Larger,
}

/// The order in which a volume is overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    InOrder,
    AnyOrder,
    /// In parts of chunks.
    Small,
    /// Mostly the same 30 % of the units.
    Hot,
}

const RULES: [Rule; 5] = [Rule::Not, Rule::Often, Rule::BonusMalus, Rule::WorkFunction, Rule::Best];
const HINTS: [Hinted; 4] = [Hinted::Not, Hinted::Half, Hinted::All, Hinted::OnSsds];
const GROWS: [Grow; 3] = [Grow::Not, Grow::Drives, Grow::Larger];
const PATTERNS: [Pattern; 4] = [Pattern::InOrder, Pattern::AnyOrder, Pattern::Small, Pattern::Hot];

/// A volume and its workload.
#[derive(Clone, Copy, Debug)]
pub(super) struct Config {
    pub(super) level: Level,
    pub(super) rule: Rule,
    pub(super) first_by_write: bool,
    pub(super) has_rent: bool,
    pub(super) hinted: Hinted,
    pub(super) lanes: u16,
    /// The number of solid-state drives, in addition to `lanes`.
    pub(super) ssds: u16,
    pub(super) cells: u32,
    /// Whether drives have different sizes.
    pub(super) is_uneven: bool,
    pub(super) grow: Grow,
    pub(super) flush_every: Option<u64>,
    pub(super) has_fua: bool,
    pub(super) pattern: Pattern,
    pub(super) fills_by_chunk: bool,
    pub(super) loses_one: bool,
    pub(super) update: Update,
    pub(super) seed: u64,
}

/// The number of choices for each parameter, in the order of [`Config::chosen`].
const CHOICES: [usize; 13] = [6, 5, 2, 2, 4, 4, 2, 3, 4, 4, 2, 2, 2];
/// The parameters all of whose combinations are tested in long runs.
const MAIN: [usize; 7] = [0, 1, 2, 4, 5, 7, 8];

impl Config {
    /// Returns a configuration without rules, hints, growth or failures, on small drives.
    pub(super) fn plain(level: Level, lanes: u16) -> Config {
        let at = LEVELS.iter().position(|known| *known == level).unwrap_or(0);
        Config { lanes, ..Config::chosen(&[at, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 1) }
    }

    /// Returns the configuration with these choices.
    fn chosen(at: &[usize; CHOICES.len()], seed: u64) -> Config {
        let level = LEVELS[at[0]];
        let adapts = [Level::RAID6, Level::TRIPLE].contains(&level);
        let sets = [(6, 0, false), (8, 0, false), (8, 0, true), (6, 6, false)];
        let (lanes, ssds, is_uneven) = sets[at[5]];
        Config {
            level,
            rule: if adapts { RULES[at[1]] } else { Rule::Not },
            first_by_write: at[2] == 1,
            has_rent: at[3] == 1,
            hinted: HINTS[at[4]],
            lanes,
            ssds,
            cells: [160, 320][at[6]],
            is_uneven,
            // An array without records cannot grow, because the records store its size.
            grow: if at[12] == 0 { GROWS[at[7]] } else { Grow::Not },
            flush_every: [None, Some(1), Some(16), None][at[8]],
            has_fua: at[8] == 3,
            pattern: PATTERNS[at[9]],
            fills_by_chunk: at[10] == 1,
            // Data that an array in place loses with a drive are not restored on the others.
            loses_one: at[11] == 1 && at[12] == 0 && level.tolerates() > 0,
            update: [Update::Fresh, Update::InPlace][at[12]],
            seed,
        }
    }

    /// Returns the number of cells of each drive, including growth if `is_grown`.
    fn all_cells(&self, is_grown: bool) -> Vec<u32> {
        let more = |lane: u16| if self.is_uneven && lane % 3 == 2 { self.cells / 2 } else { 0 };
        let larger = if is_grown && self.grow == Grow::Larger { self.cells / 2 } else { 0 };
        let new = if is_grown && self.grow == Grow::Drives { 2 } else { 0 };
        let old = (0..self.lanes + self.ssds).map(|lane| self.cells + more(lane) + larger);
        old.chain((0..new).map(|_| self.cells)).collect()
    }

    pub(super) fn geometry(&self) -> Geometry {
        let both = self.level.tolerates() == 2;
        let copies = match self.level {
            Level::Mirrored { copies } => copies,
            Level::Striped { .. } => 1,
        };
        let sizes = Geometry {
            volume: 77,
            lanes: self.lanes + self.ssds,
            chunk_bytes: CHUNK,
            chunks: CHUNKS,
            copies_max: if both { 3 } else { copies },
            units: 0,
            cells: 0,
            ring: 0,
            update: self.update,
        };
        // The records of such a small volume take less than the first 5 MiB.
        let (first, trailer) = match self.update {
            Update::Fresh => (5 << 20, 4096),
            Update::InPlace => (1 << 20, 0),
        };
        let bytes = |cells| first + u64::from(cells) * u64::from(CHUNK + trailer);
        let bytes: Vec<u64> = self.all_cells(false).into_iter().map(bytes).collect();
        let (hdds, ssds) = bytes.split_at(self.lanes.into());
        let sets: [&[u64]; 2] = [hdds, ssds];
        let sets = if self.ssds > 0 { &sets[..] } else { &sets[..1] };
        let leanest = if both { Level::RAID6 } else { self.level };
        Geometry::fitting(sizes, leanest, sets).expect("it fits")
    }

    /// Returns a new array.
    pub(super) fn created(&self) -> Array {
        let kind = |lane| if lane < self.lanes { DriveKind::Hdd } else { DriveKind::Ssd };
        let kinds: Vec<DriveKind> = (0..self.lanes + self.ssds).map(kind).collect();
        let array = Array::new(self.geometry(), self.level).with_kinds(&kinds);
        self.ruled(array.with_cells(&self.all_cells(false)))
    }

    /// Returns the array as it is found on its drives after growth, but without its table.
    pub(super) fn found(&self, gone: &[Lane]) -> Array {
        let cells = self.all_cells(true);
        let members: Vec<u8> = (1..=cells.len() as u8).collect();
        let number = |it: &u8| if gone.contains(&Lane::from(it - 1)) { 0 } else { *it };
        let numbers: Vec<u8> = members.iter().map(number).collect();
        let mut array = Array::found(self.geometry(), self.level, &numbers);
        let ssds = (self.lanes..self.lanes + self.ssds).fold(0, |ssds, lane| ssds | 1 << lane);
        array.drives.have(Drives::new(&members, 0).members(), ssds);
        let array = self.ruled(array.with_cells(&cells));
        if self.grow == Grow::Not { array } else { array.growing(DriveKind::Hdd) }
    }

    fn hints(&self, bytes: u64) -> Vec<Hint> {
        let level = Some(Level::TRIPLE);
        let kind = Some(DriveKind::Ssd).filter(|_| self.ssds > 0);
        match self.hinted {
            Hinted::Not => Vec::new(),
            Hinted::Half => vec![Hint { bytes: 0..bytes / 2, level, kind: None }],
            Hinted::All => vec![Hint { bytes: 0..u64::MAX, level, kind: None }],
            Hinted::OnSsds => vec![Hint { bytes: 0..bytes / 2, level, kind }],
        }
    }

    fn ruled(&self, array: Array) -> Array {
        let hints = self.hints(array.geometry().capacity_bytes());
        let array = array.hinted(&hints);
        let levels = vec![Level::RAID6, Level::TRIPLE];
        let rents = if self.has_rent { vec![6_000, 12_000] } else { vec![0, 0] };
        let objective = Objective { capacity: 1, rents, ..Objective::default() };
        let costs = [(); 2].map(|()| objective.weigh(Costs::paper_hdd()));
        let first = match self.first_by_write {
            true => First::ByFirstWrite,
            false => First::Fixed(u8::from(self.level == Level::TRIPLE)),
        };
        let times = |times, over| BonusMalus::new(Factor { times, over });
        let array = match self.rule {
            Rule::Not => return array,
            Rule::Often => array.adapting(times(1, 4), costs, first, levels),
            Rule::BonusMalus => array.adapting(times(1, 1), costs, first, levels),
            Rule::WorkFunction => array.adapting(WorkFunction, costs, first, levels),
            Rule::Best => {
                let best = Best::new(&costs[0], Tuning::default());
                array.adapting(best, costs, first, levels)
            }
        };
        if self.has_rent { array.charging_every(Nanos(5_000_000)) } else { array }
    }

    fn flags(&self, number: u64) -> Flags {
        if self.has_fua && number.is_multiple_of(8) { Flags::FUA } else { Flags::NONE }
    }

    /// Returns writes that fill these units.
    pub(super) fn fill(&self, units: Range<u64>) -> Vec<Ask> {
        let len = if self.fills_by_chunk { u64::from(CHUNK) } else { UNIT };
        let all = units.start * UNIT / len..units.end * UNIT / len;
        all.map(|at| (Op::Write, self.flags(at), at * len, len as u32)).collect()
    }

    /// Returns writes that overwrite units. Each pass uses the next pattern.
    pub(super) fn overwrites(&self, pass: usize, units: u64) -> Vec<Ask> {
        let mut state = self.seed;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below.max(1)
        };
        let mut order: Vec<u64> = (0..units).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, random(at as u64 + 1) as usize);
        }
        let own = PATTERNS.iter().position(|it| *it == self.pattern).unwrap_or(0);
        let pattern = PATTERNS[(own + pass) % PATTERNS.len()];
        let ask = |at: u64| {
            let any = order[at as usize] * UNIT;
            let (offset, len) = match pattern {
                Pattern::InOrder => (at * UNIT, UNIT),
                Pattern::AnyOrder => (any, UNIT),
                Pattern::Small => (any + 4096 * random(UNIT / 4096), 4096),
                Pattern::Hot => {
                    let unit = if random(10) < 9 { random(units * 3 / 10) } else { random(units) };
                    (unit * UNIT + u64::from(CHUNK) * random(CHUNKS.into()), CHUNK.into())
                }
            };
            (Op::Write, self.flags(at), offset, len as u32)
        };
        (0..units).map(ask).collect()
    }
}

/// Returns all pairs of choices for two different parameters.
fn pairs(at: &[usize]) -> impl Iterator<Item = (usize, usize, usize, usize)> + '_ {
    (0..at.len()).flat_map(move |one| (0..one).map(move |two| (one, at[one], two, at[two])))
}

/// Returns `count` configurations that contain nearly all pairs of choices.
pub(super) fn drawn(count: u64) -> Vec<Config> {
    let mut state = 7u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % below
    };
    let mut met = BTreeSet::new();
    let mut configs = Vec::new();
    for seed in 0..count {
        let any: Vec<_> = (0..60).map(|_| CHOICES.map(&mut random)).collect();
        let new = |at: &&[usize; CHOICES.len()]| {
            pairs(&at[..]).filter(|pair| !met.contains(pair)).count()
        };
        let at = any.iter().max_by_key(new).expect("there are some");
        met.extend(pairs(at));
        configs.push(Config::chosen(at, seed));
    }
    let all: usize = pairs(&CHOICES).map(|(_, one, _, two)| one * two).sum();
    assert!(met.len() * 100 > all * 99, "{} of {all} pairs meet", met.len());
    configs
}

/// Returns all combinations of the main parameters, each with random choices for the others.
pub(super) fn every() -> Vec<Config> {
    let count: usize = MAIN.iter().map(|at| CHOICES[*at]).product();
    let mut state = 3u64;
    let config = |number: usize| {
        let mut at = CHOICES.map(|choices| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % choices
        });
        let mut left = number;
        for choice in MAIN {
            at[choice] = left % CHOICES[choice];
            left /= CHOICES[choice];
        }
        Config::chosen(&at, number as u64)
    };
    (0..count).map(config).collect()
}
