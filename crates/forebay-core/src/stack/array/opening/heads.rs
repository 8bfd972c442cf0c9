//! What opening keeps of the records that it reads, and which of them it believes.

use std::collections::BTreeMap;

use super::super::Geometry;
use super::super::geometry::ROUND_MAX;
use super::super::record::Record;
use super::regions::Region;

/// A record without its contents.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) epoch: u64,
    pub(super) sequence: u64,
    pub(super) sum: u64,
    before: u64,
    pub(super) base: u64,
    pub(super) round: u64,
    count: u64,
    pub(super) volume_units: u64,
    /// The lanes that have it, one bit each.
    lanes: u32,
}

impl Head {
    /// Returns the first record of the chain that ends with this one: the chain has a record for
    /// each page of the table.
    pub(super) fn first(&self, geometry: &Geometry) -> Option<u64> {
        let pages = geometry.grown(self.volume_units)?.pages();
        Some((self.sequence + 1).saturating_sub(pages).min(self.round).max(self.base))
    }

    /// Returns the record's place in the order of what counts.
    fn rank(&self) -> (u64, u64) {
        (self.epoch, self.sequence)
    }
}

/// The records that were read, by sequence number and sum.
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

    /// Returns the bytes of memory that they take.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.all.len() * size_of::<((u64, u64), Head)>()
    }

    pub(super) fn clear(&mut self) {
        self.all.clear();
    }

    /// Returns the newest record by epoch and sequence number.
    pub(super) fn newest(&self) -> Option<&Head> {
        self.all.values().max_by_key(|head| head.rank())
    }

    /// Returns the last records of rounds, the newest first.
    fn ends(&self) -> Vec<&Head> {
        let is_end = |head: &&Head| head.sequence + 1 == head.round + head.count;
        let mut ends: Vec<&Head> = self.all.values().filter(is_end).collect();
        ends.sort_unstable_by_key(|head| std::cmp::Reverse((head.rank(), head.sum)));
        ends
    }

    /// Returns the chain that ends with a record, the newest record first, as far as it is known,
    /// but no further back than `first`.
    fn chain(&self, last: &Head, first: u64) -> Vec<&Head> {
        let mut chain: Vec<&Head> = self.all.get(&(last.sequence, last.sum)).into_iter().collect();
        while let Some(head) = chain.last().filter(|head| head.sequence > first)
            && let Some(before) = self.all.get(&(head.sequence - 1, head.before))
        {
            chain.push(before);
        }
        chain
    }

    /// Returns the last record of the newest chain, if that chain goes back to `least` or to its
    /// first record: an incomplete last round is ignored, but not a chain that breaks before.
    fn last(&self, geometry: &Geometry, least: u64) -> Option<(Head, Vec<&Head>)> {
        for last in self.ends() {
            let first = last.first(geometry)?;
            let chain = self.chain(last, first);
            let reached = chain.last()?.sequence;
            if reached <= first.max(least) {
                return Some((*last, chain));
            }
            if reached <= last.round {
                return None;
            }
        }
        None
    }

    /// Returns the last record of the newest chain, if these are all records that there are.
    pub(super) fn last_of_all(&self, geometry: &Geometry) -> Option<Head> {
        Some(self.last(geometry, 0)?.0)
    }

    /// Returns the last record of the newest chain if the records of a region, and some others, show
    /// for certain that there is no newer one elsewhere.
    ///
    /// A newer chain elsewhere would have been written by another opening of the volume, with other
    /// drives, and would branch off this chain. Each of those drives has no record of this chain
    /// that is newer than the branch, and the branch begins with a record of its own. So if each
    /// drive has a record of this chain in the region, the branch would begin there too, and be seen.
    pub(super) fn last_in(
        &self,
        region: Region,
        lanes: &[usize],
        geometry: &Geometry,
    ) -> Option<Head> {
        let (last, chain) = self.last(geometry, region.from)?;
        // A round that is incomplete on some drives may begin before the record that they have.
        let slack = if region.from <= last.base { 0 } else { ROUND_MAX.min(region.behind / 2) };
        let counting = chain.iter().take_while(|head| head.sequence >= region.from + slack);
        let known = counting.fold(0, |known, head| known | head.lanes);
        let is_after = |head: &Head| {
            let after = head.sequence.checked_sub(last.sequence + 1);
            after.is_some_and(|after| after < ROUND_MAX)
        };
        let is_clear = last.sequence + ROUND_MAX < region.to
            && lanes.iter().all(|lane| known >> lane & 1 == 1)
            && self.all.values().all(|head| head.rank() <= last.rank() || is_after(head));
        is_clear.then_some(last)
    }
}
