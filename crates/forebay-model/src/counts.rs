//! How often each number occurred. Counts are sorted, stored as differences, and drawn without
//! replacement, so that a complete cycle of draws reproduces them exactly.

use crate::bytes::{ByteError, Bytes, Writer};
use crate::dice::RandomSource;

/// The count of each number, in ascending order and without zeros.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts(pub(crate) Vec<(u32, u32)>);

/// The maximum number of requests in a model, and thus the maximum of any count.
pub(crate) const COUNT_MAX: u64 = 1 << 40;

impl Counts {
    /// Creates counts from a list that holds the count of each number at its index.
    pub(crate) fn of(dense: &[u32]) -> Counts {
        Counts((0..).zip(dense.iter().copied()).filter(|entry| entry.1 > 0).collect())
    }

    /// Adds to the count of a number.
    pub(crate) fn add(&mut self, number: u32, count: u32) {
        match self.0.binary_search_by_key(&number, |entry| entry.0) {
            Ok(at) => self.0[at].1 = self.0[at].1.saturating_add(count),
            Err(at) => self.0.insert(at, (number, count)),
        }
    }

    /// Returns the sum of all counts.
    pub(crate) fn sum(&self) -> u64 {
        self.0.iter().map(|entry| u64::from(entry.1)).sum()
    }

    /// Replaces each number by `name(number)`, and adds up the counts of numbers that become equal.
    pub(crate) fn renamed(&self, name: impl Fn(u32) -> u32) -> Counts {
        let mut list: Vec<(u32, u32)> =
            self.0.iter().map(|&(number, count)| (name(number), count)).collect();
        list.sort_unstable();
        list.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 = kept.1.saturating_add(next.1);
            }
            same
        });
        Counts(list)
    }

    /// Returns the sum of these counts and others.
    pub(crate) fn with(&self, other: &Counts) -> Counts {
        Counts(self.0.iter().chain(&other.0).copied().collect()).renamed(|number| number)
    }

    /// Keeps only the `kept` most common numbers. The counts of all others are added to the nearest
    /// of these.
    pub(crate) fn commonest(&self, kept: usize) -> Counts {
        if self.0.len() <= kept {
            return self.clone();
        }
        let mut order = self.0.clone();
        order.sort_unstable_by_key(|&(number, count)| (std::cmp::Reverse(count), number));
        let mut stay: Vec<u32> = order[..kept].iter().map(|entry| entry.0).collect();
        stay.sort_unstable();
        self.renamed(|number| {
            let above = stay.partition_point(|&other| other < number);
            let near = [above.checked_sub(1), Some(above)].into_iter().flatten();
            let near = near.filter_map(|at| stay.get(at).copied());
            near.min_by_key(|other| other.abs_diff(number)).unwrap_or(number)
        })
    }

    pub(crate) fn put(&self, writer: &mut Writer) {
        writer.number(self.0.len() as u64);
        // Numbers and counts are stored separately, because each list compresses better.
        let mut last = 0;
        for &(number, _) in &self.0 {
            writer.number(u64::from(number - last));
            last = number;
        }
        writer.numbers(self.0.iter().map(|entry| u64::from(entry.1) - 1));
    }

    /// Reads the counts of numbers, which are at most `max`.
    pub(crate) fn get(bytes: &mut Bytes, max: u32, what: &str) -> Result<Counts, ByteError> {
        let length = bytes.length(max as usize + 1, what)?;
        let mut last = None;
        let numbers = bytes.list(length, |bytes| {
            let step = bytes.number(u64::from(max - last.unwrap_or(0)), what)? as u32;
            if step == 0 && last.is_some() {
                return bytes.bad(format!("{what} twice"), "ascending numbers");
            }
            last = Some(last.unwrap_or(0) + step);
            Ok(last.unwrap_or(0))
        })?;
        let counts = bytes
            .list(length, |bytes| Ok(bytes.number(u64::from(u32::MAX) - 1, what)? as u32 + 1))?;
        Ok(Counts(numbers.into_iter().zip(counts).collect()))
    }
}

/// Draws numbers by their counts without replacement, starting again when all have been drawn.
/// Stored as a binary tree: each node holds the sum of the counts left in its left subtree, so that
/// finding and removing a number is a single descent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bag {
    full: Vec<(u32, u32)>,
    /// The sum of each node's left subtree; the root is at index 1. Leaves are not stored; they
    /// correspond to the entries of `full` in order.
    left_of: Vec<u64>,
    sum: u64,
}

impl Bag {
    pub(crate) fn new(counts: &Counts) -> Bag {
        let full = counts.0.clone();
        let mut bag = Bag { left_of: vec![0; full.len().next_power_of_two()], full, sum: 0 };
        bag.refill();
        bag
    }

    fn refill(&mut self) {
        self.left_of.fill(0);
        self.sum = 0;
        for (at, &(_, count)) in self.full.iter().enumerate() {
            self.sum += u64::from(count);
            let mut node = at + self.left_of.len();
            while node > 1 {
                if node.is_multiple_of(2) {
                    self.left_of[node / 2] += u64::from(count);
                }
                node /= 2;
            }
        }
    }

    /// Removes one draw at position `before` of the cumulative counts, and returns the index of its
    /// entry.
    #[inline]
    fn take_one(&mut self, mut before: u64) -> usize {
        let leaves = self.left_of.len();
        self.sum -= 1;
        let mut node = 1;
        while node < leaves {
            let left = self.left_of[node];
            let is_right = before >= left;
            self.left_of[node] = left - u64::from(!is_right);
            before -= if is_right { left } else { 0 };
            node = 2 * node + usize::from(is_right);
        }
        node - leaves
    }

    /// Removes one draw of `number`, and returns whether any was left.
    #[inline]
    pub(crate) fn take(&mut self, number: u32) -> bool {
        let Ok(at) = self.full.binary_search_by_key(&number, |entry| entry.0) else { return false };
        let before = self.sum_before(at);
        let is_left = self.sum_before(at + 1) > before;
        if is_left {
            self.take_one(before);
        }
        is_left
    }

    /// Draws a number, or returns None if the bag never held any.
    #[inline]
    pub(crate) fn draw(&mut self, dice: &mut RandomSource) -> Option<u32> {
        if self.sum == 0 {
            if self.full.is_empty() {
                return None;
            }
            self.refill();
        }
        let at = self.take_one(dice.below(self.sum));
        Some(self.full[at].0)
    }

    /// Draws a number in `low..=high`, or returns None if none is left.
    pub(crate) fn draw_between(
        &mut self,
        low: u32,
        high: u32,
        dice: &mut RandomSource,
    ) -> Option<u32> {
        let first = self.sum_before(self.full.partition_point(|entry| entry.0 < low));
        let end = self.sum_before(self.full.partition_point(|entry| entry.0 <= high));
        if end <= first {
            return None;
        }
        let at = self.take_one(first + dice.below(end - first));
        Some(self.full[at].0)
    }

    /// Returns the sum of the counts left in the entries before `at`.
    #[inline]
    fn sum_before(&self, at: usize) -> u64 {
        let leaves = self.left_of.len();
        if at >= leaves {
            return self.sum;
        }
        let (mut node, mut sum) = (at + leaves, 0);
        while node > 1 {
            if !node.is_multiple_of(2) {
                sum += self.left_of[node / 2];
            }
            node /= 2;
        }
        sum
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn counts() -> impl Strategy<Value = Counts> {
        proptest::collection::btree_map(0u32..50, 1u32..9, 1..20)
            .prop_map(|map| Counts(map.into_iter().collect()))
    }

    proptest! {
        #[test]
        fn written_data_are_read_back(counts in counts()) {
            let mut writer = Writer::default();
            counts.put(&mut writer);
            let mut bytes = Bytes::new(&writer.0);
            prop_assert_eq!(Counts::get(&mut bytes, 50, "counts").unwrap(), counts);
            prop_assert!(bytes.end().is_ok());
        }

        #[test]
        fn a_cycle_of_draws_has_exactly_the_counts(counts in counts(), seed: u64, cycles in 1..3usize) {
            let (mut bag, mut dice) = (Bag::new(&counts), RandomSource::new(seed));
            let mut drawn = BTreeMap::new();
            for _ in 0..counts.sum() * cycles as u64 {
                *drawn.entry(bag.draw(&mut dice).unwrap()).or_insert(0) += 1;
            }
            let expected: BTreeMap<u32, u32> =
                counts.0.iter().map(|entry| (entry.0, entry.1 * cycles as u32)).collect();
            prop_assert_eq!(drawn, expected);
        }

        #[test]
        fn a_draw_keeps_to_its_bounds(counts in counts(), low in 0u32..50, more in 0u32..20) {
            let (mut bag, mut dice) = (Bag::new(&counts), RandomSource::new(1));
            let inside = |n: u32| (low..=low + more).contains(&n);
            let within: u32 = counts.0.iter().filter(|e| inside(e.0)).map(|e| e.1).sum();
            for _ in 0..within {
                prop_assert!(inside(bag.draw_between(low, low + more, &mut dice).unwrap()));
            }
            prop_assert_eq!(bag.draw_between(low, low + more, &mut dice), None);
        }

        #[test]
        fn the_commonest_keep_the_sum(counts in counts(), kept in 1..9usize) {
            let fewer = counts.commonest(kept);
            prop_assert_eq!(fewer.sum(), counts.sum());
            prop_assert_eq!(fewer.0.len(), kept.min(counts.0.len()));
        }
    }

    #[test]
    fn removed_numbers_are_not_drawn() {
        let (mut bag, mut dice) = (Bag::new(&Counts(vec![(3, 1), (7, 2)])), RandomSource::new(1));
        assert!(bag.take(3) && !bag.take(3) && !bag.take(4));
        assert_eq!((bag.draw(&mut dice), bag.draw(&mut dice)), (Some(7), Some(7)));
        assert!(Bag::default().draw(&mut dice).is_none());
    }
}
