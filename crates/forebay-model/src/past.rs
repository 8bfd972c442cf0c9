//! The requests that were, by their numbers, and in each range.
//!
//! Those that still hold blocks have a bit, so that looking for some passes over all others without a look at
//! them. The last million stay; what was used longer ago is known to be used, but not by which request.

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
    /// A bit for each of the ring: whether it still holds blocks.
    held: Vec<u64>,
    latest: u32,
    by_range: Vec<InRange>,
}

/// The requests of a range, with some that hold nothing any more.
#[derive(Default)]
struct InRange {
    numbers: VecDeque<u32>,
    lost: usize,
}

/// Requests that hold nothing are taken off a range's list where there are more than this and than others.
const LOST_MAX: usize = 64;

/// The place of a number in the ring.
#[inline]
fn place(number: u32) -> usize {
    (number.wrapping_sub(1) % KEPT) as usize
}

impl Past {
    pub(crate) fn new(ranges: usize) -> Past {
        let by_range = (0..ranges).map(|_| InRange::default()).collect();
        Past { ring: Vec::new(), held: Vec::new(), latest: 0, by_range }
    }

    /// The number of the latest.
    #[inline]
    pub(crate) fn latest(&self) -> u32 {
        self.latest
    }

    /// The request of a number, if it is remembered.
    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&Was> {
        self.is_kept(number).then(|| &self.ring[place(number)])
    }

    #[inline]
    fn is_kept(&self, number: u32) -> bool {
        number > 0 && self.latest.wrapping_sub(number) < KEPT.min(self.latest)
    }

    /// Whether a request that is remembered holds blocks.
    #[inline]
    fn holds(&self, number: u32) -> bool {
        let at = place(number);
        self.held[at / 64] >> (at % 64) & 1 == 1
    }

    /// A request lost blocks to a later one.
    #[inline]
    pub(crate) fn lose(&mut self, number: u32, blocks: u32) {
        let at = place(number);
        if self.latest.wrapping_sub(number) >= KEPT {
            return;
        }
        let Some(was) = self.ring.get_mut(at) else { return };
        let held = was.blocks;
        was.blocks = held.saturating_sub(blocks);
        if held > 0 && was.blocks == 0 {
            self.held[at / 64] &= !(1 << (at % 64));
            self.by_range[usize::from(was.range)].lost += 1;
        }
    }

    /// Adds the next.
    #[inline]
    pub(crate) fn push(&mut self, was: Was) {
        let at = place(self.latest + 1);
        self.latest += 1;
        if at == self.ring.len() {
            self.ring.push(was);
            self.held.resize(at / 64 + 1, 0);
        } else {
            self.ring[at] = was;
        }
        self.held[at / 64] |= 1 << (at % 64);
        let latest = self.latest;
        let range = usize::from(was.range);
        let numbers = &mut self.by_range[range].numbers;
        numbers.push_back(latest);
        while numbers.front().is_some_and(|&first| latest - first >= KEPT) {
            numbers.pop_front();
        }
        if self.by_range[range].lost > LOST_MAX.max(self.by_range[range].numbers.len() / 2) {
            self.take_off(range);
        }
    }

    /// Takes what holds nothing off a range's list.
    fn take_off(&mut self, range: usize) {
        let mut list = std::mem::take(&mut self.by_range[range]);
        list.numbers.retain(|&number| self.holds(number));
        self.by_range[range] = InRange { lost: 0, ..list };
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
        let (one, two) = self.by_range[range].numbers.as_slices();
        let at = one.partition_point(|&other| other < number);
        let in_two = if at < one.len() { 0 } else { two.partition_point(|&other| other < number) };
        let held = |number: &&u32| self.is_kept(**number) && self.holds(**number);
        let after = one[at..].iter().chain(&two[in_two..]).take(LOOKED_AT);
        for &number in after.filter(held).take(count / 2) {
            each(number, &self.ring[place(number)]);
        }
        let before = two[..in_two].iter().rev().chain(one[..at].iter().rev()).take(LOOKED_AT);
        for &number in before.filter(held).take(count / 2) {
            each(number, &self.ring[place(number)]);
        }
    }

    /// The same over all ranges.
    #[inline]
    pub(crate) fn near(&self, number: u32, count: usize, mut each: impl FnMut(u32, &Was)) {
        let last = self.latest.min(number + (LOOKED_AT as u32 - 1));
        let (mut next, mut left) = (number, count / 2);
        while next <= last && left > 0 {
            let (at, bit) = (place(next) / 64, place(next) % 64);
            let held = self.held[at] >> bit;
            let step = held.trailing_zeros().min(64 - bit as u32);
            next += step;
            if held != 0 && next <= last {
                each(next, &self.ring[place(next)]);
                (next, left) = (next + 1, left - 1);
            }
        }
        let kept = self.latest.saturating_sub(KEPT) + 1;
        let first = kept.max(number.saturating_sub(LOOKED_AT as u32));
        let (mut end, mut left) = (number, count / 2);
        while end > first && left > 0 {
            let (at, bit) = (place(end - 1) / 64, place(end - 1) % 64);
            let held = self.held[at] << (63 - bit);
            let step = held.leading_zeros().min(bit as u32 + 1);
            end -= step;
            if held != 0 && end > first {
                each(end - 1, &self.ring[place(end - 1)]);
                (end, left) = (end - 1, left - 1);
            }
        }
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
        assert_eq!(past.by_range[0].numbers.len(), KEPT as usize);
        past.lose(3, 1);
        assert_eq!(past.get(KEPT + 3).unwrap().blocks, 1);
    }
}
