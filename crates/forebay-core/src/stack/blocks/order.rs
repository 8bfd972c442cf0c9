//! The order of changes: if two changes touch a block that either of them covers only partly, the
//! later one waits for the earlier.
//!
//! A block that an unfinished change covers partly is a *join*. A join stores the last of these
//! changes (its tail) and the changes after it that touch the block. A new change waits for the
//! tails of all joins that it touches. If it covers the block only partly itself, it also waits for
//! the changes after the tail, and becomes the new tail. A change thus waits only for the last
//! ones, and these wait for those before them. The cost of a request depends on how many changes it
//! must wait for, not on how many are waiting.

use std::collections::{BTreeMap, BTreeSet};

use crate::contract::Lane;

/// The blocks of a change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) lane: Lane,
    pub(super) first: u64,
    /// The first block after the change.
    pub(super) end: u64,
    /// Whether the change covers the first block only partly, and whether it covers the last block
    /// only partly.
    pub(super) begins_within: bool,
    pub(super) ends_within: bool,
}

impl Span {
    /// Returns the blocks that the change covers only partly.
    fn joins(&self) -> impl Iterator<Item = u64> + use<> {
        let last = self.end.saturating_sub(1);
        let one = last == self.first;
        let begin = (self.begins_within || one && self.ends_within).then_some(self.first);
        begin.into_iter().chain((self.ends_within && !one).then_some(last))
    }
}

/// A block that unfinished changes cover only partly.
#[derive(Clone, Debug, Default)]
struct Join {
    tail: u32,
    after: Vec<u32>,
}

/// An unfinished change, which may be waiting.
#[derive(Clone, Debug, Default)]
struct Link {
    /// The number of changes that must complete first.
    before: u32,
    followers: Vec<u32>,
}

/// All unfinished changes.
#[derive(Clone, Debug, Default)]
pub(super) struct Order {
    links: BTreeMap<u32, Link>,
    joins: BTreeMap<(Lane, u64), Join>,
    /// All changes, sorted by length class, lane and first block, with the first block after each
    /// and its key.
    spans: BTreeSet<(u32, Lane, u64, u64, u32)>,
    /// The number of changes per class. Thanks to this number, searches for short changes need not
    /// look far back because of a long one.
    counts: BTreeMap<u32, u32>,
}

/// Returns the class of a length: its number of bits.
fn class(blocks: u64) -> u32 {
    u64::BITS - blocks.leading_zeros()
}

/// Returns the maximum number of blocks of a change of `class`.
fn blocks_max(class: u32) -> u64 {
    u64::MAX.checked_shr(u64::BITS - class).unwrap_or(0)
}

impl Order {
    /// Adds a change under a key that must be unique until it ends. Returns whether the change may
    /// begin.
    pub(super) fn begin(&mut self, key: u32, span: &Span) -> bool {
        let Span { lane, first, end, .. } = *span;
        let mut before = Vec::new();
        for block in span.joins().filter(|block| !self.joins.contains_key(&(lane, *block))) {
            before.extend(self.touching(lane, block));
        }
        for (_, join) in self.joins.range_mut((lane, first)..(lane, end)) {
            before.push(join.tail);
            join.after.push(key);
        }
        for block in span.joins() {
            let join = self.joins.entry((lane, block)).or_default();
            before.extend(std::mem::take(&mut join.after).into_iter().filter(|&it| it != key));
            join.tail = key;
        }
        before.sort_unstable();
        before.dedup();
        let mut link = Link::default();
        for other in before {
            if let Some(other) = self.links.get_mut(&other) {
                other.followers.push(key);
                link.before += 1;
            }
        }
        let begins = link.before == 0;
        self.links.insert(key, link);
        let class = class(end - first);
        self.spans.insert((class, lane, first, end, key));
        *self.counts.entry(class).or_default() += 1;
        begins
    }

    /// Returns the changes that touch a block.
    fn touching(&self, lane: Lane, block: u64) -> impl Iterator<Item = u32> + '_ {
        let near = self.counts.keys().flat_map(move |&class| {
            let from = (block + 1).saturating_sub(blocks_max(class));
            self.spans.range((class, lane, from, 0, 0)..(class, lane, block + 1, 0, 0))
        });
        near.filter(move |(.., end, _)| *end > block).map(|&(.., key)| key)
    }

    /// Removes a change that has completed. Returns the changes that may begin now.
    pub(super) fn end(&mut self, key: u32, span: &Span) -> Vec<u32> {
        let Span { lane, first, end, .. } = *span;
        let class = class(end - first);
        self.spans.remove(&(class, lane, first, end, key));
        if let Some(count) = self.counts.get_mut(&class) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&class);
            }
        }
        // All changes after the tail have waited for it; the next change will find them in `spans`.
        for block in span.joins() {
            if self.joins.get(&(lane, block)).is_some_and(|join| join.tail == key) {
                self.joins.remove(&(lane, block));
            }
        }
        let followers = self.links.remove(&key).map_or_else(Vec::new, |link| link.followers);
        followers.into_iter().filter(|next| self.is_last_before(*next)).collect()
    }

    fn is_last_before(&mut self, key: u32) -> bool {
        self.links.get_mut(&key).is_some_and(|link| {
            link.before -= 1;
            link.before == 0
        })
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.links.is_empty()
            && self.joins.is_empty()
            && self.spans.is_empty()
            && self.counts.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BLOCK: u64 = 8;

    /// Returns the blocks of a change on one lane, given in bytes.
    fn span((from, len): (u64, u64)) -> Span {
        Span {
            lane: 0,
            first: from / BLOCK,
            end: (from + len).div_ceil(BLOCK),
            begins_within: from % BLOCK != 0,
            ends_within: (from + len) % BLOCK != 0,
        }
    }

    /// Returns whether two changes touch a block that either of them covers only partly.
    fn conflict(a: &Span, b: &Span) -> bool {
        let touches = |span: &Span, block| (span.first..span.end).contains(&block);
        a.joins().any(|block| touches(b, block)) || b.joins().any(|block| touches(a, block))
    }

    /// Returns whether `later` must wait for `earlier`, directly or through changes between them.
    fn follows(spans: &[Span], alive: &[bool], earlier: usize, later: usize) -> bool {
        conflict(&spans[earlier], &spans[later])
            || (earlier + 1..later).any(|middle| {
                alive[middle]
                    && conflict(&spans[middle], &spans[later])
                    && follows(spans, alive, earlier, middle)
            })
    }

    proptest! {
        /// Changes arrive and end in any permitted order. A change may begin exactly when no change
        /// that it must wait for is left.
        #[test]
        fn a_change_begins_when_no_earlier_conflicting_change_is_left(
            changes in proptest::collection::vec((0_u64..48, 1_u64..40), 1..24),
            ends in proptest::collection::vec((any::<bool>(), 0_usize..24), 0..200),
        ) {
            let spans: Vec<Span> = changes.into_iter().map(span).collect();
            let mut order = Order::default();
            let mut alive = vec![false; spans.len()];
            let mut begun = vec![false; spans.len()];
            let mut next = 0;
            let tail = (0..2 * spans.len()).map(|at| (at < spans.len(), 0));
            for (comes, which) in ends.into_iter().chain(tail) {
                if comes && next < spans.len() {
                    begun[next] = order.begin(next as u32, &spans[next]);
                    alive[next] = true;
                    next += 1;
                } else {
                    let running: Vec<usize> = (0..next).filter(|at| alive[*at] && begun[*at]).collect();
                    let Some(&ended) = running.get(which % running.len().max(1)) else { continue };
                    alive[ended] = false;
                    for key in order.end(ended as u32, &spans[ended]) {
                        prop_assert!(!std::mem::replace(&mut begun[key as usize], true));
                    }
                }
                for later in (0..next).filter(|later| alive[*later]) {
                    let waits = (0..later)
                        .any(|earlier| alive[earlier] && follows(&spans, &alive, earlier, later));
                    prop_assert_eq!(begun[later], !waits, "{} of {:?}", later, &spans[..next]);
                }
            }
            prop_assert!(order.is_empty());
        }
    }

    /// The test would take minutes if each change examined all blocks that a long change could
    /// reach.
    #[test]
    fn a_long_change_does_not_slow_down_short_ones() {
        let mut order = Order::default();
        let long = span((4 * BLOCK, 1_000_000 * BLOCK));
        assert!(order.begin(0, &long));
        for key in 1..100_000 {
            let begins = order.begin(key, &span((u64::from(key) * BLOCK, 2)));
            assert_eq!(begins, key < 4, "{key}");
        }
        assert_eq!(order.end(0, &long).len(), 99_996);
        for key in 1..100_000 {
            assert!(order.end(key, &span((u64::from(key) * BLOCK, 2))).is_empty());
        }
        assert!(order.is_empty());
    }

    #[test]
    fn changes_that_share_a_block_each_follow_one_other() {
        let mut order = Order::default();
        for key in 0..100_000 {
            assert_eq!(order.begin(key, &span((3, 2))), key == 0);
        }
        for key in 0..100_000 {
            assert_eq!(order.end(key, &span((3, 2))).len(), usize::from(key < 99_999));
        }
        assert!(order.is_empty());
    }
}
