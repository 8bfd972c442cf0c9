//! Random choice.

use super::super::file::Bins;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A source of random numbers; the same seed gives the same on every machine.
#[derive(Clone, Debug)]
pub(super) struct Dice(Xoshiro256PlusPlus);

impl Dice {
    pub(super) fn new(seed: u64) -> Dice {
        Dice(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// For distributions that draw for themselves.
    #[inline]
    pub(super) fn source(&mut self) -> &mut Xoshiro256PlusPlus {
        &mut self.0
    }

    /// In `0.0..1.0`.
    #[inline]
    pub(super) fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// In `0..count`.
    #[inline]
    pub(super) fn below(&mut self, count: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(count)) >> 64) as u64
    }
}

/// Draws among numbers by their counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    first: usize,
    sums: Vec<u64>,
}

impl Table {
    /// Of counts, the first of which is for number `first`.
    pub(super) fn new(first: usize, counts: impl IntoIterator<Item = u32>) -> Table {
        let sums = counts.into_iter().scan(0u64, |sum, count| {
            *sum += u64::from(count);
            Some(*sum)
        });
        Table { first, sums: sums.collect() }
    }

    /// A number, or the first if there are no counts.
    #[inline]
    pub(super) fn draw(&self, dice: &mut Dice) -> usize {
        let Some(&sum) = self.sums.last() else { return self.first };
        let drawn = dice.below(sum);
        let at = if self.sums.len() <= 16 {
            self.sums.iter().take_while(|&&below| below <= drawn).count()
        } else {
            self.sums.partition_point(|&below| below <= drawn)
        };
        self.first + at
    }
}

/// Draws bins, each of which may be drawn again at once.
#[derive(Clone, Debug, Default)]
pub(super) struct Repeating {
    fresh: Table,
    /// How likely each bin is followed by itself.
    repeats: Vec<f64>,
    last: usize,
}

impl Repeating {
    /// Of counts of bins unlike the one before, and of those like it.
    pub(super) fn new(fresh: &Bins, repeats: &Bins) -> Repeating {
        let of = |bins: &Bins, bin: usize| {
            let at = bin.checked_sub(bins.0 as usize);
            at.and_then(|at| bins.1.get(at)).copied().map_or(0.0, f64::from)
        };
        let end = repeats.0 as usize + repeats.1.len();
        let share = |bin| of(repeats, bin) / (of(repeats, bin) + of(fresh, bin)).max(1.0);
        Repeating {
            fresh: Table::new(fresh.0 as usize, fresh.1.iter().copied()),
            repeats: (0..end).map(share).collect(),
            last: usize::MAX,
        }
    }

    /// The next bin.
    #[inline]
    pub(super) fn draw(&mut self, dice: &mut Dice) -> usize {
        let repeats = self.repeats.get(self.last).is_some_and(|share| dice.unit() < *share);
        if !repeats {
            self.last = self.fresh.draw(dice);
        }
        self.last
    }
}

/// Draws without putting back: a Fenwick tree over what is left of each.
#[derive(Clone, Debug, Default)]
pub(super) struct Bag {
    tree: Vec<u64>,
    counts: Vec<u64>,
    left: Vec<u64>,
    sum: u64,
}

impl Bag {
    pub(super) fn new(counts: Vec<u64>) -> Bag {
        let mut bag =
            Bag { tree: vec![0; counts.len() + 1], left: vec![0; counts.len()], sum: 0, counts };
        bag.refill();
        bag
    }

    fn refill(&mut self) {
        for number in 0..self.counts.len() {
            let count = self.counts[number];
            self.left[number] += count;
            self.sum += count;
            self.add(number, count);
        }
    }

    fn add(&mut self, number: usize, count: u64) {
        let mut node = number + 1;
        while let Some(sum) = self.tree.get_mut(node) {
            *sum = sum.wrapping_add(count);
            node += node & node.wrapping_neg();
        }
    }

    /// Takes one of this number, if any is left.
    #[inline]
    pub(super) fn take(&mut self, number: usize) -> bool {
        if self.left.get(number).is_none_or(|&left| left == 0) {
            return false;
        }
        self.left[number] -= 1;
        self.sum -= 1;
        self.add(number, u64::MAX);
        true
    }

    /// Puts one back.
    pub(super) fn put(&mut self, number: usize) {
        self.left[number] += 1;
        self.sum += 1;
        self.add(number, 1);
    }

    /// Whether it never holds anything.
    pub(super) fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Takes one of any; the bag is filled again when it is empty.
    #[inline]
    pub(super) fn draw(&mut self, dice: &mut Dice) -> usize {
        if self.sum == 0 {
            self.refill();
        }
        if self.counts.len() < 2 {
            self.take(0);
            return 0;
        }
        if self.sum == 0 {
            return self.counts.len() - 1;
        }
        let mut drawn = dice.below(self.sum);
        let mut node = 0;
        let mut step = self.counts.len().next_power_of_two();
        while step > 0 {
            if let Some(sum) = self.tree.get_mut(node + step) {
                if *sum <= drawn {
                    drawn -= *sum;
                    node += step;
                } else {
                    // It holds what is taken.
                    *sum -= 1;
                }
            }
            step /= 2;
        }
        self.left[node] -= 1;
        self.sum -= 1;
        node
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bag_gives_what_it_holds() {
        let mut dice = Dice::new(1);
        let mut bag = Bag::new(vec![3, 0, 5, 1]);
        let mut given = [0; 4];
        assert!(bag.take(2) && !bag.take(1));
        (0..8).for_each(|_| given[bag.draw(&mut dice)] += 1);
        assert_eq!(given, [3, 0, 4, 1]);
        assert!(!bag.take(0));
        bag.draw(&mut dice);
        assert_eq!(bag.sum, 8);
    }

    #[test]
    fn tables_draw_by_count() {
        let (mut dice, table) = (Dice::new(7), Table::new(5, [1, 0, 3]));
        let mut drawn = [0; 3];
        (0..40_000).for_each(|_| drawn[table.draw(&mut dice) - 5] += 1);
        assert!(drawn[1] == 0 && (9_600..10_400).contains(&drawn[0]), "{drawn:?}");
    }
}
