//! What a request is to the model: its direction, how its place came about, and its class of size.

use forebay_core::Op;
use serde::{Deserialize, Serialize};

use super::space::LEVEL_MAX;

/// How the place of a request came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u8)]
pub enum Kind {
    /// Begins where the request before it ended, on new ground.
    NextNew,
    /// The same on ground used before.
    NextOld,
    /// Begins where another recent request of its range ended, on new ground.
    ResumeNew,
    /// The same on ground used before.
    ResumeOld,
    /// Begins where a request soon after the one referenced last began: the past in its own order.
    Follow,
    /// Begins where an earlier request began, or within it: ahead of the last end, within
    /// [`NEAR_BYTES`].
    AgainAhead,
    /// The same behind the last end.
    AgainBehind,
    /// The same farther away.
    Again,
    /// On new ground within [`NEAR_BYTES`] of where a recent request ended.
    Near,
    /// On new ground anywhere in its range.
    Far,
}

impl Kind {
    /// Whether it goes on where a recent request ended.
    pub fn is_sequential(self) -> bool {
        (self as u8) < 4
    }

    /// Whether it begins where an earlier request did, or within it.
    pub fn is_again(self) -> bool {
        matches!(self, Kind::Follow | Kind::AgainAhead | Kind::AgainBehind | Kind::Again)
    }

    /// Whether it begins where an earlier request did, or within it, within [`NEAR_BYTES`].
    pub fn is_near(self) -> bool {
        matches!(self, Kind::AgainAhead | Kind::AgainBehind)
    }

    /// Whether it goes on where the request before it ended.
    pub fn is_next(self) -> bool {
        matches!(self, Kind::NextNew | Kind::NextOld)
    }

    /// Whether it is on ground not used before.
    pub fn is_new(self) -> bool {
        matches!(self, Kind::NextNew | Kind::ResumeNew | Kind::Near | Kind::Far)
    }
}

/// How many requests on [`Kind::Follow`] goes, at most.
pub const FOLLOWS_MAX: u64 = 4;
/// How far [`Kind::Near`] reaches.
pub const NEAR_BYTES: u64 = 2 << 20;

/// Kinds in the order of their numbers.
pub const KINDS: [Kind; 10] = [
    Kind::NextNew,
    Kind::NextOld,
    Kind::ResumeNew,
    Kind::ResumeOld,
    Kind::Follow,
    Kind::AgainAhead,
    Kind::AgainBehind,
    Kind::Again,
    Kind::Near,
    Kind::Far,
];
/// Operations in the order of their numbers.
pub const OPS: [Op; 4] = [Op::Read, Op::Write, Op::Flush, Op::Trim];
/// Size classes, at most.
pub const CLASSES_MAX: usize = 8;
/// Categories: operation, kind and size class in one number.
pub const CATEGORIES: usize = OPS.len() * KINDS.len() * CLASSES_MAX;

/// Classes of sizes, by their largest sizes but the last's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SizeClasses(pub Vec<u32>);

impl SizeClasses {
    /// The class of a size.
    #[inline]
    pub fn of(&self, len: u32) -> usize {
        self.0.iter().filter(|&&bound| len > bound).count()
    }
}

/// Operation, kind and size class, packed: `op + 4 * (size class + 8 * kind)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Category(pub u16);

impl Category {
    /// Packs.
    #[inline]
    pub fn new(op: Op, kind: Kind, class: usize) -> Category {
        let op = match op {
            Op::Read => 0,
            Op::Write => 1,
            Op::Flush | Op::Park | Op::Open => 2,
            Op::Trim => 3,
        };
        Category(op | ((class % CLASSES_MAX) as u16) << 2 | (kind as u16) << 5)
    }

    /// The operation.
    #[inline]
    pub fn op(self) -> Op {
        OPS[usize::from(self.0 & 3)]
    }

    /// The kind; the last one of numbers that are none.
    #[inline]
    pub fn kind(self) -> Kind {
        KINDS[usize::from(self.0 >> 5).min(KINDS.len() - 1)]
    }

    /// The size class.
    #[inline]
    pub fn class(self) -> usize {
        usize::from(self.0 >> 2 & 7)
    }
}

/// Classes of inter-arrival times, by powers of ten from 1 microsecond to 1 second.
pub const GAP_CLASSES: usize = 8;

/// The class of an inter-arrival time.
#[inline]
pub fn gap_class(gap_ns: u64) -> usize {
    const BOUNDS: [u64; GAP_CLASSES - 1] =
        [1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000];
    BOUNDS.iter().filter(|&&bound| gap_ns >= bound).count()
}

/// A range at one level, packed: level above, index below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Range(pub u32);

impl Range {
    /// State `index` of `level`.
    #[inline]
    pub fn new(level: u8, index: u32) -> Range {
        Range(u32::from(level) << 24 | index)
    }

    /// Its level.
    #[inline]
    pub fn level(self) -> u8 {
        (self.0 >> 24) as u8
    }

    /// Its number among those of its level.
    #[inline]
    pub fn index(self) -> u32 {
        self.0 & 0xff_ffff
    }

    /// The range of `level` around it.
    #[inline]
    pub fn ancestor(self, level: u8) -> Range {
        Range::new(level, self.index() >> (2 * (self.level() - level)))
    }

    /// Its first cell of the space.
    #[inline]
    pub fn first_cell(self) -> u32 {
        self.index() << (2 * (LEVEL_MAX - self.level()))
    }

    /// The four ranges it splits in.
    pub fn children(self) -> [Range; 4] {
        [0, 1, 2, 3].map(|child| Range::new(self.level() + 1, self.index() << 2 | child))
    }

    /// The path from the top: one digit 0 to 3 a level.
    pub fn path(self) -> String {
        let level = self.level();
        (1..=level).map(|l| char::from(b'0' + (self.ancestor(l).index() & 3) as u8)).collect()
    }

    /// From a path.
    pub fn parse(path: &str) -> Option<Range> {
        let fits = (1..=usize::from(LEVEL_MAX)).contains(&path.len());
        let index = path.bytes().try_fold(0, |index, digit| {
            (b'0'..=b'3').contains(&digit).then(|| index << 2 | u32::from(digit - b'0'))
        })?;
        fits.then(|| Range::new(path.len() as u8, index))
    }

    /// The hierarchical transition that going from one leaf to another is: both within the same parent,
    /// at the coarsest level at which they differ, or a leaf to itself.
    #[inline]
    pub fn transition(from: Range, to: Range, is_flat: bool) -> (Range, Range) {
        if is_flat || from == to {
            return (from, to);
        }
        let common = from.level().min(to.level());
        let differs = |&l: &u8| from.ancestor(l) != to.ancestor(l);
        let at = (1..=common).find(differs).unwrap_or(common);
        (from.ancestor(at), to.ancestor(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn categories_come_back() {
        for op in OPS {
            for kind in KINDS {
                for class in 0..CLASSES_MAX {
                    let category = Category::new(op, kind, class);
                    let parts = (category.op(), category.kind(), category.class());
                    assert_eq!(parts, (op, kind, class));
                }
            }
        }
        let classes = SizeClasses(vec![4096, 65_536]);
        assert_eq!([0, 4096, 4097, 65_537].map(|len| classes.of(len)), [0, 0, 1, 2]);
    }

    #[test]
    fn distinct_transitions_are_as_many_as_the_paper_counts() {
        for level in 1..=4u8 {
            let leaves = || (0..1u32 << (2 * level)).map(|index| Range::new(level, index));
            let all: HashSet<_> = leaves()
                .flat_map(|from| leaves().map(move |to| Range::transition(from, to, false)))
                .collect();
            let counted = super::super::space::hierarchical_transitions(u32::from(level));
            assert_eq!(all.len() as u64, counted);
        }
    }

    #[test]
    fn paths_come_back() {
        let range = Range::new(3, 0b10_01_11);
        assert_eq!((range.path().as_str(), Range::parse("213")), ("213", Some(range)));
        for bad in ["", "4", "012345678", "0 "] {
            assert_eq!(Range::parse(bad), None);
        }
    }
}
