//! Determines which segment *owns* which key, that is, which segment of a run is used by reads of
//! the key. A version of all segments is immutable, and is replaced when a segment is added.
//!
//! A *run* is the result of a contiguous range of logs: segments with disjoint keys, on any disks.
//! A merge of neighboring runs writes its output in key order, segment by segment; each published
//! segment takes its keys from the input runs. While a merge is in progress, or after it was
//! interrupted, the age range of an input run is therefore nested in that of the output, and its
//! remaining keys begin after the output's last key. This holds regardless of the order in which
//! segments are found: a disk that was missing may bring back a merge that began before others
//! merged some of its inputs. A segment that was not removed in time owns only keys that no
//! replacement owns.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use crate::filter::Filter;
use crate::root::Entry;
use crate::segment::{Described, Keys, Node, Origin};
use crate::space::Space;
use crate::{Key, OperationError};

use super::hole::Hole;

/// A copy of a segment's filter on another disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Copy {
    pub(crate) disk: usize,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// A segment. Its space is freed when its last holder drops it.
pub(crate) struct Segment {
    pub(crate) described: Described,
    pub(crate) disk: usize,
    pub(crate) filter: Filter,
    /// The root of the segment's tree.
    pub(crate) top: Option<Rc<Node>>,
    /// The copy of the filter, and the space that it occupies.
    copy: OnceCell<(Copy, Rc<RefCell<Space>>)>,
    /// Why the segment is unreadable; None if it is readable.
    pub(crate) lost: Option<OperationError>,
    /// The holes of the log that the segment represents, if the log lacks batches.
    pub(crate) holes: Vec<Hole>,
    /// The error of a merge that could not read a part of the segment.
    pub(crate) damaged: OnceCell<OperationError>,
    /// The approximate number of bytes of records replaced by newer ones.
    pub(crate) dead: Cell<u64>,
    space: Rc<RefCell<Space>>,
    is_kept: Cell<bool>,
}

impl Segment {
    pub(crate) fn new(
        described: Described,
        disk: usize,
        (filter, top): (Filter, Option<Node>),
        space: &Rc<RefCell<Space>>,
    ) -> Segment {
        Segment {
            described,
            disk,
            filter,
            top: top.map(Rc::new),
            copy: OnceCell::new(),
            lost: None,
            holes: Vec::new(),
            damaged: OnceCell::new(),
            dead: Cell::new(0),
            space: Rc::clone(space),
            is_kept: Cell::new(false),
        }
    }

    /// Sets the copy of the segment's filter. Its space has already been reserved.
    pub(crate) fn has_copy(&self, copy: Copy, space: &Rc<RefCell<Space>>) {
        assert!(self.copy.set((copy, Rc::clone(space))).is_ok(), "one copy is enough");
    }

    /// Returns the copy of the segment's filter.
    pub(crate) fn copy(&self) -> Option<Copy> {
        self.copy.get().map(|(copy, _)| *copy)
    }

    /// Marks the segment as unreadable. Its space is never reused.
    pub(crate) fn lost(mut self, failure: OperationError) -> Segment {
        self.keep();
        self.lost = Some(failure);
        self
    }

    /// Makes this entry represent a log with missing batches instead of a segment. The log's
    /// remaining records are in memory.
    pub(crate) fn with_holes(mut self, failure: OperationError, holes: Vec<Hole>) -> Segment {
        self.holes = holes;
        self.lost(failure)
    }

    /// Keeps the segment's space allocated forever, because a root may refer to it.
    pub(crate) fn keep(&self) {
        self.is_kept.set(true);
    }

    /// Returns the segment's entry in the root of its own disk.
    pub(crate) fn entry(&self) -> Entry {
        Entry { described: self.described.clone(), disk: self.disk as u16, copy: (0, 0) }
    }

    /// Returns the segment's entry in the root of the disk with the copy.
    pub(crate) fn copied_entry(&self, copy: &Copy) -> Entry {
        Entry { copy: (copy.offset, copy.len), ..self.entry() }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        if self.is_kept.get() {
            return;
        }
        self.space.borrow_mut().give(self.described.offset, self.described.len);
        if let Some((copy, space)) = self.copy.get() {
            space.borrow_mut().give(copy.offset, copy.len);
        }
    }
}

/// The keys that a segment still owns.
#[derive(Clone)]
pub(crate) struct Part {
    pub(crate) segment: Rc<Segment>,
    pub(crate) keys: Keys,
}

/// A run: segments of the same age range, in key order.
#[derive(Clone)]
pub(crate) struct Run {
    pub(crate) ages: (u64, u64),
    pub(crate) parts: Vec<Part>,
}

impl Run {
    /// Returns the part of the run that owns a key.
    pub(crate) fn part(&self, key: &[u8]) -> Option<&Part> {
        let at = self
            .parts
            .partition_point(|part| part.keys.upto.as_deref().is_some_and(|upto| upto < key));
        self.parts.get(at).filter(|part| part.keys.hold(key))
    }

    /// Returns the range of logs in the run.
    pub(crate) fn origin(&self) -> Origin {
        let before = self.parts.first().map_or((0, 0), |part| part.segment.described.before);
        Origin { ages: self.ages, before }
    }

    /// Returns the total bytes of the run's records.
    pub(crate) fn record_bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.segment.described.shape.record_bytes).sum()
    }

    pub(crate) fn is_within(&self, ages: (u64, u64)) -> bool {
        ages.0 <= self.ages.0 && self.ages.1 <= ages.1
    }

    /// Returns the run without the keys in `keys`.
    fn without(&self, keys: &Keys, gone: &mut Vec<Rc<Segment>>) -> Run {
        let mut parts = Vec::with_capacity(self.parts.len() + 1);
        for part in &self.parts {
            for keys in part.keys.without(keys) {
                parts.push(Part { segment: Rc::clone(&part.segment), keys });
            }
        }
        let is_left = |id: u64| parts.iter().any(|part: &Part| part.segment.described.id == id);
        for part in self.parts.iter().filter(|part| !is_left(part.segment.described.id)) {
            gone.push(Rc::clone(&part.segment));
        }
        // A segment in two parts is returned only once.
        gone.dedup_by_key(|segment| segment.described.id);
        Run { ages: self.ages, parts }
    }
}

/// All runs, newest first.
#[derive(Clone, Default)]
pub(crate) struct Version {
    pub(crate) runs: Vec<Rc<Run>>,
}

impl Version {
    /// Adds a segment. It takes its keys from all segments within its age range, except those owned
    /// by segments with wider age ranges. Also returns the segments that no longer affect any read.
    pub(crate) fn with(&self, segment: Rc<Segment>) -> (Version, Vec<Rc<Segment>>) {
        let (ages, keys) = (segment.described.ages, segment.described.keys.clone());
        let mut gone = Vec::new();
        let left = self.left_by_wider(ages, &keys);
        if left.is_empty() {
            gone.push(Rc::clone(&segment));
        }
        let mut runs: Vec<Rc<Run>> = Vec::with_capacity(self.runs.len() + 1);
        let mut same = None;
        for run in &self.runs {
            let is_touched = run.is_within(ages);
            let left =
                if is_touched { Rc::new(run.without(&keys, &mut gone)) } else { Rc::clone(run) };
            if run.ages == ages {
                same = Some(left);
            } else if !left.parts.is_empty() {
                runs.push(left);
            }
        }
        let mut parts = same.map_or_else(Vec::new, |run| run.parts.clone());
        parts.extend(left.into_iter().map(|keys| Part { segment: Rc::clone(&segment), keys }));
        parts.sort_by(|a, b| a.keys.after.cmp(&b.keys.after));
        if !parts.is_empty() {
            let at = runs.partition_point(|run| {
                run.ages.1 > ages.1 || run.ages.1 == ages.1 && run.ages.0 > ages.0
            });
            runs.insert(at, Rc::new(Run { ages, parts }));
        }
        (Version { runs }, gone)
    }

    /// Returns the keys that no segment with a wider age range owns.
    fn left_by_wider(&self, ages: (u64, u64), keys: &Keys) -> Vec<Keys> {
        let is_wider =
            |run: &&Rc<Run>| run.ages != ages && run.ages.0 <= ages.0 && ages.1 <= run.ages.1;
        let mut left = vec![keys.clone()];
        for part in self.runs.iter().filter(is_wider).flat_map(|run| &run.parts) {
            left = left.iter().flat_map(|keys| keys.without(&part.keys)).collect();
        }
        left
    }

    /// Returns whether the records of a log are in segments.
    pub(crate) fn covers(&self, log: u64) -> bool {
        self.runs.iter().any(|run| run.ages.0 <= log && log <= run.ages.1)
    }

    /// Returns all segments that own some key.
    pub(crate) fn segments(&self) -> impl Iterator<Item = &Rc<Segment>> {
        self.runs.iter().flat_map(|run| &run.parts).map(|part| &part.segment)
    }

    /// Registers that a merge could not read a segment, which excludes the segment from merges.
    pub(crate) fn damage(&self, failure: &OperationError) {
        let &OperationError::Damaged { disk, offset } = failure else { return };
        let is_there = |segment: &&Rc<Segment>| {
            let Described { offset: begin, len, .. } = segment.described;
            segment.disk == disk && (begin..begin + len).contains(&offset)
        };
        self.segments().filter(is_there).for_each(|segment| {
            segment.damaged.get_or_init(|| failure.clone());
        });
    }

    /// Returns the merges that have begun, newest first: their age ranges, and the key up to which
    /// they are done.
    pub(crate) fn begun(&self) -> impl Iterator<Item = ((u64, u64), Key)> {
        let is_begun = move |outer: &&Rc<Run>| {
            self.runs.iter().any(|run| run.ages != outer.ages && run.is_within(outer.ages))
        };
        let upto = |outer: &Run| Some((outer.ages, outer.parts.last()?.keys.upto.clone()?));
        // A merge is complete once it has reached the last key.
        self.runs.iter().filter(is_begun).filter_map(move |outer| upto(outer))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::segment::Shape;

    fn space() -> Rc<RefCell<Space>> {
        let mut space = Space::new(0, 100);
        space.take(100).unwrap();
        Rc::new(RefCell::new(space))
    }

    fn key(byte: u8) -> Option<Key> {
        (byte > 0).then(|| Key::from([byte]))
    }

    /// Creates a segment with the keys after the first bound up to the second; 0 means unbounded.
    fn segment(
        space: &Rc<RefCell<Space>>,
        id: u64,
        ages: (u64, u64),
        keys: (u8, u8),
    ) -> Rc<Segment> {
        let keys = Keys { after: key(keys.0), upto: key(keys.1) };
        let (before, shape) = ((0, 0), Shape::default());
        let described = Described { id, ages, before, keys, offset: id, len: 1, shape };
        Rc::new(Segment::new(described, 0, (Filter::default(), None), space))
    }

    /// Returns the segments that own a key, newest first.
    fn deciding(version: &Version, byte: u8) -> Vec<u64> {
        let parts = version.runs.iter().filter_map(|run| run.part(&[byte]));
        parts.map(|part| part.segment.described.id).collect()
    }

    /// Computes the segments that own a key without using runs. If the age range of one contains
    /// that of another, the wider one owns the key; of two with equal ranges, the later one.
    fn reference(segments: &[Rc<Segment>], byte: u8) -> Vec<u64> {
        let holding: Vec<_> = segments
            .iter()
            .map(|segment| &segment.described)
            .filter(|d| d.keys.hold(&[byte]))
            .collect();
        let replaces = |at: usize, of: usize| {
            let (a, b) = (holding[at].ages, holding[of].ages);
            a.0 <= b.0 && b.1 <= a.1 && (a != b || at > of)
        };
        let is_left = |of: &usize| !(0..holding.len()).any(|at| replaces(at, *of));
        let mut left: Vec<_> = (0..holding.len()).filter(is_left).map(|at| holding[at]).collect();
        left.sort_by_key(|described| std::cmp::Reverse((described.ages.1, described.ages.0)));
        left.iter().map(|described| described.id).collect()
    }

    proptest! {
        #[test]
        fn the_wider_segment_wins_in_any_order(
            drawn in proptest::collection::vec((1..6_u64, 0..5_u64, 0..6_u8, 0..6_u8), 1..12),
        ) {
            let space = space();
            let (mut version, mut all, mut gone) = (Version::default(), Vec::new(), Vec::new());
            for (id, (age, more, after, len)) in (1..).zip(drawn) {
                let upto = if after + len > 8 { 0 } else { after + len };
                if upto == after && upto > 0 {
                    continue;
                }
                let segment = segment(&space, id, (age, age + more), (after, upto));
                segment.keep();
                all.push(Rc::clone(&segment));
                let (next, without) = version.with(segment);
                version = next;
                gone.extend(without.iter().map(|segment| segment.described.id));
            }
            for byte in 1..10 {
                prop_assert_eq!(deciding(&version, byte), reference(&all, byte), "key {}", byte);
            }
            let decides = |id: &u64| version.segments().any(|segment| segment.described.id == *id);
            let of_none: Vec<u64> =
                all.iter().map(|segment| segment.described.id).filter(|id| !decides(id)).collect();
            gone.sort_unstable();
            prop_assert_eq!(gone, of_none, "each is gone once");
        }
    }

    #[test]
    fn a_merge_takes_keys_from_the_front_of_what_it_merges() {
        let space = space();
        let mut version = Version::default();
        let mut gone = Vec::new();
        let mut add = |id, ages, keys| {
            let (next, without) = version.with(segment(&space, id, ages, keys));
            version = next;
            gone.extend(without.iter().map(|segment| segment.described.id));
            let deciding = [1, 4, 5, 9].map(|byte| deciding(&version, byte));
            (deciding, version.begun().next().map(|(ages, key)| (ages, key[0])), gone.clone())
        };
        add(1, (1, 1), (0, 0));
        add(2, (2, 2), (0, 4));
        add(3, (2, 2), (4, 0));
        let (ids, begun, gone) = add(4, (3, 3), (0, 0));
        assert_eq!(ids, [vec![4, 2, 1], vec![4, 2, 1], vec![4, 3, 1], vec![4, 3, 1]]);
        assert_eq!((begun, gone.len()), (None, 0));
        // A merge of the first two logs, in three steps.
        let (ids, begun, gone) = add(5, (1, 2), (0, 3));
        assert_eq!(ids, [vec![4, 5], vec![4, 2, 1], vec![4, 3, 1], vec![4, 3, 1]]);
        assert_eq!((begun, gone.len()), (Some(((1, 2), 3)), 0));
        let (ids, begun, gone) = add(6, (1, 2), (3, 5));
        assert_eq!(ids, [vec![4, 5], vec![4, 6], vec![4, 6], vec![4, 3, 1]]);
        assert_eq!((begun, gone), (Some(((1, 2), 5)), vec![2]));
        let (ids, begun, gone) = add(7, (1, 2), (5, 0));
        assert_eq!(ids, [vec![4, 5], vec![4, 6], vec![4, 6], vec![4, 7]]);
        assert_eq!((begun, gone), (None, vec![2, 3, 1]));
        // The segment is written twice, as after a root write that took effect although it failed.
        let (ids, _, gone) = add(8, (3, 3), (0, 0));
        assert_eq!((&ids[0], gone), (&vec![8, 5], vec![2, 3, 1, 4]));
        assert!(version.covers(1) && version.covers(3) && !version.covers(4));
        assert_eq!(version.segments().count(), 4);
        assert_eq!(space.borrow().free_bytes(), 4, "of those that decide nothing");
        version.segments().for_each(|segment| segment.keep());
        drop(version);
        assert_eq!(space.borrow().free_bytes(), 4);
    }
}
