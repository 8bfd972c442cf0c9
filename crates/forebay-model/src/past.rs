//! Earlier requests, by number and by range.
//!
//! A bit marks each request that still holds blocks (was the last to use them), so that a search
//! skips all others without reading them. The last million requests are remembered. Blocks last
//! used before that are known to be used, but not by which request.

use std::collections::VecDeque;

/// The number of requests remembered.
const KEPT: u32 = 1 << 20;

/// A past request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PastRequest {
    pub(crate) address: u64,
    pub(crate) len: u32,
    /// The number of the request's blocks that no later request has used.
    pub(crate) blocks: u32,
    pub(crate) range: u16,
    /// Whether the request continued where another one had ended.
    pub(crate) goes_on: bool,
}

/// Requests by their numbers, which start at 1.
pub(crate) struct Past {
    ring: Vec<PastRequest>,
    /// A bit for each entry of `ring`, set if the request still holds blocks.
    held: Vec<u64>,
    latest: u32,
    /// For each range, the numbers of its remembered requests, in order.
    by_range: Vec<VecDeque<u32>>,
    /// The maximum number of requests remembered, a power of two.
    kept: u32,
}

impl Past {
    pub(crate) fn new(ranges: usize) -> Past {
        Past::of(ranges, KEPT)
    }

    fn of(ranges: usize, kept: u32) -> Past {
        let by_range = vec![VecDeque::new(); ranges];
        Past { ring: Vec::new(), held: Vec::new(), latest: 0, by_range, kept }
    }

    /// Returns the index of a request in `ring`.
    #[inline]
    fn place(&self, number: u32) -> usize {
        (number.wrapping_sub(1) & (self.kept - 1)) as usize
    }

    /// Returns the number of the oldest request remembered.
    #[inline]
    pub(crate) fn oldest(&self) -> u32 {
        self.latest.saturating_sub(self.kept) + 1
    }

    /// Returns the number of the latest request.
    #[inline]
    pub(crate) fn latest(&self) -> u32 {
        self.latest
    }

    /// Returns the request with a number, if it is remembered.
    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&PastRequest> {
        self.is_kept(number).then(|| &self.ring[self.place(number)])
    }

    #[inline]
    fn is_kept(&self, number: u32) -> bool {
        (self.oldest()..=self.latest).contains(&number)
    }

    /// Returns whether a remembered request still holds blocks.
    #[inline]
    fn holds(&self, number: u32) -> bool {
        let at = self.place(number);
        self.held[at / 64] >> (at % 64) & 1 == 1
    }

    /// Records that a later request has used some blocks of a request.
    #[inline]
    pub(crate) fn lose(&mut self, number: u32, blocks: u32) {
        if !self.is_kept(number) {
            return;
        }
        let at = self.place(number);
        let was = &mut self.ring[at];
        was.blocks = was.blocks.saturating_sub(blocks);
        if was.blocks == 0 {
            self.held[at / 64] &= !(1 << (at % 64));
        }
    }

    /// Adds the next request.
    #[inline]
    pub(crate) fn push(&mut self, was: PastRequest) {
        self.latest += 1;
        let at = self.place(self.latest);
        if at == self.ring.len() {
            self.ring.push(was);
            self.held.resize(at / 64 + 1, 0);
        } else {
            let gone = std::mem::replace(&mut self.ring[at], was);
            self.by_range[usize::from(gone.range)].pop_front();
        }
        self.held[at / 64] |= 1 << (at % 64);
        self.by_range[usize::from(was.range)].push_back(self.latest);
    }

    /// Calls `each` with up to `count` requests of a range that still hold blocks, the nearest to
    /// `number` first: up to half of them at or after `number`, and then up to half before it.
    #[inline]
    pub(crate) fn near_in(
        &self,
        range: usize,
        number: u32,
        count: usize,
        mut each: impl FnMut(u32, &PastRequest),
    ) {
        let (one, two) = self.by_range[range].as_slices();
        let at = one.partition_point(|&other| other < number);
        let in_two = if at < one.len() { 0 } else { two.partition_point(|&other| other < number) };
        let held = |number: &&u32| self.holds(**number);
        let after = one[at..].iter().chain(&two[in_two..]).take(LOOKED_AT);
        for &number in after.filter(held).take(count / 2) {
            each(number, &self.ring[self.place(number)]);
        }
        let before = two[..in_two].iter().rev().chain(one[..at].iter().rev()).take(LOOKED_AT);
        for &number in before.filter(held).take(count / 2) {
            each(number, &self.ring[self.place(number)]);
        }
    }

    /// Like [`Past::near_in`], but for requests of all ranges.
    #[inline]
    pub(crate) fn near(&self, number: u32, count: usize, mut each: impl FnMut(u32, &PastRequest)) {
        let last = self.latest.min(number + (LOOKED_AT_OF_ALL - 1));
        let (mut next, mut left) = (number.max(self.oldest()), count / 2);
        while next <= last && left > 0 {
            let (at, bit) = (self.place(next) / 64, self.place(next) % 64);
            let held = self.held[at] >> bit;
            let step = held.trailing_zeros().min(64 - bit as u32);
            next += step;
            if held != 0 && next <= last {
                each(next, &self.ring[self.place(next)]);
                (next, left) = (next + 1, left - 1);
            }
        }
        let first = self.oldest().max(number.saturating_sub(LOOKED_AT_OF_ALL));
        let (mut end, mut left) = (number, count / 2);
        while end > first && left > 0 {
            let (at, bit) = (self.place(end - 1) / 64, self.place(end - 1) % 64);
            let held = self.held[at] << (63 - bit);
            let step = held.leading_zeros().min(bit as u32 + 1);
            end -= step;
            if held != 0 && end > first {
                each(end - 1, &self.ring[self.place(end - 1)]);
                (end, left) = (end - 1, left - 1);
            }
        }
    }
}

/// The maximum number of requests examined in each direction: in one range, and in all ranges,
/// where 64 are examined at once.
const LOOKED_AT: usize = 100;
const LOOKED_AT_OF_ALL: u32 = 4096;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    #[test]
    fn old_entries_are_forgotten() {
        let mut past = Past::of(2, 64);
        (0..69).for_each(|len| past.push(PastRequest { len, blocks: 1, ..PastRequest::default() }));
        assert!(past.get(5).is_none() && past.get(70).is_none());
        assert_eq!((past.get(6).unwrap().len, past.oldest()), (5, 6));
        assert_eq!(past.by_range[0].len(), 64);
        past.lose(3, 1);
        assert_eq!(past.get(67).unwrap().blocks, 1);
    }

    proptest! {
        /// Compares with a plain list of all requests.
        #[test]
        fn owners_of_blocks_are_found(
            steps in proptest::collection::vec((0u16..3, 0u32..3, 0u32..400), 1..400),
            asked in proptest::collection::vec((0usize..3, 0u32..401, 1usize..16), 1..20),
        ) {
            let (mut past, mut plain) = (Past::of(3, 128), Vec::new());
            for (range, blocks, loses) in steps {
                past.push(PastRequest { range, blocks: blocks + 1, ..PastRequest::default() });
                plain.push((range, blocks + 1));
                // Every third request takes a block from an earlier one, which may already be
                // forgotten.
                if blocks == 0 {
                    past.lose(loses, 1);
                    let lost = (loses as usize).checked_sub(1).and_then(|at| plain.get_mut(at));
                    lost.into_iter().for_each(|was: &mut (u16, u32)| was.1 = was.1.saturating_sub(1));
                }
            }
            let latest = plain.len() as u32;
            let oldest = latest.saturating_sub(128) + 1;
            let is_there = |number: &u32| {
                *number >= oldest && plain[*number as usize - 1].1 > 0
            };
            for (range, number, count) in asked {
                let number = 1 + number % latest;
                let in_range = |number: &u32| usize::from(plain[*number as usize - 1].0) == range;
                let mut found = Vec::new();
                past.near(number, count, |number, _| found.push(number));
                let after = (number..=latest).filter(is_there).take(count / 2);
                let before = (1..number).rev().filter(is_there).take(count / 2);
                prop_assert_eq!(&found, &after.chain(before).collect::<Vec<u32>>());
                found.clear();
                past.near_in(range, number, count, |number, _| found.push(number));
                let after = (number.max(oldest)..=latest).filter(in_range).take(LOOKED_AT);
                let before = (oldest..number).rev().filter(in_range).take(LOOKED_AT);
                let after = after.filter(is_there).take(count / 2);
                let before = before.filter(is_there).take(count / 2);
                prop_assert_eq!(&found, &after.chain(before).collect::<Vec<u32>>());
            }
        }
    }
}
