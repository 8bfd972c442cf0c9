//! The requests that were, by their numbers, and in each range.
//!
//! The last million stay; what was used longer ago is known to be used, but not by which request.

use std::collections::VecDeque;

/// Requests that are remembered.
const KEPT: u32 = 1 << 20;

/// A request that was.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Was {
    pub(crate) address: u64,
    pub(crate) len: u32,
    /// Blocks that nothing used since.
    pub(crate) blocks: u32,
    pub(crate) range: u16,
    /// Whether it went on where another had ended.
    pub(crate) goes_on: bool,
}

/// Requests by their numbers, from 1.
pub(crate) struct Past {
    ring: Vec<Was>,
    latest: u32,
    by_range: Vec<VecDeque<u32>>,
}

impl Past {
    pub(crate) fn new(ranges: usize) -> Past {
        Past { ring: Vec::new(), latest: 0, by_range: vec![VecDeque::new(); ranges] }
    }

    /// The number of the latest.
    #[inline]
    pub(crate) fn latest(&self) -> u32 {
        self.latest
    }

    /// The request of a number, if it is remembered.
    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&Was> {
        let is_kept = number > 0 && self.latest.wrapping_sub(number) < KEPT.min(self.latest);
        is_kept.then(|| &self.ring[((number - 1) % KEPT) as usize])
    }

    /// A request lost blocks to a later one.
    #[inline]
    pub(crate) fn lose(&mut self, number: u32, blocks: u32) {
        if self.latest.wrapping_sub(number) < KEPT
            && let Some(was) = self.ring.get_mut((number.wrapping_sub(1) % KEPT) as usize)
        {
            was.blocks = was.blocks.saturating_sub(blocks);
        }
    }

    /// Adds the next.
    #[inline]
    pub(crate) fn push(&mut self, was: Was) {
        let at = (self.latest % KEPT) as usize;
        self.latest += 1;
        if at == self.ring.len() {
            self.ring.push(was);
        } else {
            self.ring[at] = was;
        }
        let list = &mut self.by_range[was.range as usize];
        list.push_back(self.latest);
        while list.front().is_some_and(|&first| self.latest - first >= KEPT) {
            list.pop_front();
        }
    }

    /// Up to `count` requests of a range that still hold blocks, half of them at or after `number` and half
    /// before it, the nearest first.
    #[inline]
    pub(crate) fn near_in(
        &self,
        range: usize,
        number: u32,
        count: usize,
        mut each: impl FnMut(u32, &Was),
    ) {
        let list = &self.by_range[range];
        let at = list.partition_point(|&other| other < number);
        let mut found = |numbers: &mut dyn Iterator<Item = u32>| {
            let held =
                numbers.take(LOOKED_AT).filter_map(|number| Some((number, self.get(number)?)));
            for (number, was) in held.filter(|found| found.1.blocks > 0).take(count / 2) {
                each(number, was);
            }
        };
        found(&mut list.range(at..).copied());
        found(&mut list.range(..at).rev().copied());
    }

    /// The same over all ranges.
    #[inline]
    pub(crate) fn near(&self, number: u32, count: usize, mut each: impl FnMut(u32, &Was)) {
        let mut found = |numbers: &mut dyn Iterator<Item = u32>| {
            let held =
                numbers.take(LOOKED_AT).filter_map(|number| Some((number, self.get(number)?)));
            for (number, was) in held.filter(|found| found.1.blocks > 0).take(count / 2) {
                each(number, was);
            }
        };
        found(&mut (number..=self.latest));
        found(&mut (1..number).rev());
    }
}

/// Requests looked at for some that hold blocks.
const LOOKED_AT: usize = 100;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_found_by_number_and_range() {
        let mut past = Past::new(2);
        for number in 0..10u16 {
            past.push(Was { range: number % 2, blocks: 1, len: number.into(), ..Was::default() });
        }
        past.lose(5, 1);
        let mut seen = Vec::new();
        past.near_in(0, 5, 4, |number, _| seen.push(number));
        assert_eq!(seen, [7, 9, 3, 1]);
        seen.clear();
        past.near(5, 4, |number, _| seen.push(number));
        assert_eq!(seen, [6, 7, 4, 3]);
        assert_eq!(past.get(10).unwrap().len, 9);
        assert!(past.get(0).is_none() && past.get(11).is_none());
    }

    #[test]
    fn what_is_too_old_is_forgotten() {
        let mut past = Past::new(1);
        (0..KEPT + 5).for_each(|len| past.push(Was { len, blocks: 1, ..Was::default() }));
        assert!(past.get(5).is_none());
        assert_eq!(past.get(6).unwrap().len, 5);
        assert_eq!(past.by_range[0].len(), KEPT as usize);
        past.lose(3, 1);
        assert_eq!(past.get(KEPT + 3).unwrap().blocks, 1);
    }
}
