//! The parts of records that opening an array keeps, and how it chooses the chain that is valid.

use std::collections::{BTreeMap, BTreeSet};

use super::super::Geometry;
use super::super::record::Record;

/// The head of a record, which does not include its page of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    epoch: u64,
    pub(super) sequence: u64,
    pub(super) sum: u64,
    before: u64,
    pub(super) base: u64,
    pub(super) round: u64,
    count: u64,
    pub(super) volume_units: u64,
    /// The lanes that have the record, one bit each.
    lanes: u64,
}

impl Head {
    /// Returns the first record of the chain that ends with this record. A chain has one record for
    /// each page of the table.
    pub(super) fn first(&self, geometry: &Geometry) -> Option<u64> {
        let pages = geometry.grown(self.volume_units)?.pages();
        Some((self.sequence + 1).saturating_sub(pages).min(self.round).max(self.base))
    }
}

/// Heads of the records that were read, by sequence number and checksum.
#[derive(Default)]
pub(super) struct Heads {
    all: BTreeMap<(u64, u64), Head>,
}

impl Heads {
    pub(super) fn add(&mut self, record: &Record, sum: u64, lane: usize) {
        let Record { epoch, sequence, before, base, round, count, volume_units, .. } = *record;
        let lanes = 0;
        let new = Head { epoch, sequence, sum, before, base, round, count, volume_units, lanes };
        self.all.entry((sequence, sum)).or_insert(new).lanes |= 1 << lane;
    }

    pub(super) fn clear(&mut self) {
        self.all.clear();
    }

    /// Returns the last records of rounds, the newest first.
    fn ends(&self) -> Vec<&Head> {
        let is_end = |head: &&Head| head.sequence + 1 == head.round + head.count;
        let mut ends: Vec<&Head> = self.all.values().filter(is_end).collect();
        ends.sort_unstable_by_key(|head| std::cmp::Reverse((head.epoch, head.sequence, head.sum)));
        ends
    }

    /// Returns the number of the oldest record of the chain that ends with `last`, as far as the
    /// chain is on the drives in `present`, but not further back than `first`.
    fn reached(&self, last: &Head, first: u64, present: u64) -> u64 {
        let mut head = last;
        while head.sequence > first
            && let Some(before) = self.all.get(&(head.sequence - 1, head.before))
            && before.lanes & present != 0
        {
            head = before;
        }
        head.sequence
    }

    /// Returns the sets of lanes, one bit each, that have records of the chain from `first` to
    /// `last`, without the last round.
    pub(super) fn spread(&self, last: &Head, first: u64) -> BTreeSet<u64> {
        let (mut spread, mut head) = (BTreeSet::new(), last);
        while head.sequence > first
            && let Some(before) = self.all.get(&(head.sequence - 1, head.before))
        {
            head = before;
            spread.extend((head.sequence < last.round).then_some(head.lanes));
        }
        spread
    }

    /// Returns the last record of the newest chain, if that chain goes back to its first record. An
    /// incomplete last round is ignored; a chain that breaks before its last round is an error.
    /// Only records on the drives in `present` count, one bit each.
    pub(super) fn last(&self, geometry: &Geometry, present: u64) -> Option<Head> {
        for last in self.ends().into_iter().filter(|last| last.lanes & present != 0) {
            let first = last.first(geometry)?;
            let reached = self.reached(last, first, present);
            if reached == first {
                return Some(*last);
            }
            if reached <= last.round {
                return None;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::level::Level;
    use super::*;

    fn geometry() -> Geometry {
        Geometry::new(Geometry::sample(6), Level::RAID6, 200).unwrap()
    }

    /// Heads of rounds of two records, from record 1 on, each with its epoch and lanes. The
    /// checksum of a record consists of its branch and its number.
    struct Written(Heads);

    impl Written {
        fn add(&mut self, sequence: u64, branch: u64, before: u64, epoch: u64, lanes: u64) {
            let sum = 1000 * branch + sequence;
            let round = (sequence - 1) / 2 * 2 + 1;
            let (base, count, volume_units) = (1, 2, geometry().units);
            let before = 1000 * before + sequence - 1;
            let head =
                Head { epoch, sequence, sum, before, base, round, count, volume_units, lanes };
            self.0.all.insert((sequence, sum), head);
        }

        fn last(&self, present: u64) -> Option<(u64, u64)> {
            let last = self.0.last(&geometry(), present)?;
            Some((last.epoch, last.sequence))
        }
    }

    #[test]
    fn the_newest_complete_round_of_an_unbroken_chain_is_used() {
        let mut all = Written(Heads::default());
        (1..=7).for_each(|sequence| all.add(sequence, 0, 0, 1, 0b11));
        // Records 7 and 8 belong to an incomplete round.
        assert_eq!(all.last(0b11), Some((1, 6)));
        // Records of a later epoch count even if their numbers are lower.
        all.add(5, 1, 0, 2, 0b01);
        all.add(6, 1, 1, 2, 0b01);
        all.add(8, 0, 0, 1, 0b11);
        assert_eq!(all.last(0b11), Some((2, 6)));
        // A drive that has failed in the meantime does not count.
        assert_eq!(all.last(0b10), Some((1, 8)));
        assert_eq!(all.last(0), None);
    }

    #[test]
    fn an_older_chain_does_not_replace_a_broken_one() {
        let mut all = Written(Heads::default());
        (1..=4).for_each(|sequence| all.add(sequence, 0, 0, 1, 1));
        // The records between are on absent drives, so the older state must not be served.
        all.add(9, 0, 0, 2, 1);
        all.add(10, 0, 0, 2, 1);
        assert_eq!(all.last(1), None);
        // An incomplete round was never acknowledged.
        all.0.all.remove(&(9, 9));
        assert_eq!(all.last(1), Some((1, 4)));
    }

    #[test]
    fn lanes_with_records_are_known_except_for_the_last_round() {
        let mut all = Written(Heads::default());
        (1..=4).for_each(|sequence| all.add(sequence, 0, 0, 1, 0b11));
        (5..=8).for_each(|sequence| all.add(sequence, 0, 0, 2, 0b01));
        let last = all.0.last(&geometry(), 0b11).unwrap();
        let spread = |first| all.0.spread(&last, first).into_iter().collect::<Vec<_>>();
        assert_eq!((last.sequence, spread(1), spread(5)), (8, vec![0b01, 0b11], vec![0b01]));
        assert_eq!(spread(7), []);
    }
}
