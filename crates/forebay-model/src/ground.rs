//! Records which request was the last to use each block.
//!
//! A block is 4 KiB, a page is 64 blocks, and a group is 8 pages; groups are found by their number
//! in a hash table. Memory is bounded: only the half million most recently used pages are kept, and
//! blocks on other pages count as new.

use std::cell::Cell;

use rustc_hash::FxHashMap;

/// The size of a block in bytes.
pub(crate) const BLOCK_BYTES: u64 = 4096;
/// The number of blocks in a page.
const PAGE: u64 = 64;
/// The maximum number of pages. They take 145 MB, plus 42 MB if each is in a separate group, and
/// cover 128 GiB of address space.
const PAGES_MAX: usize = 1 << 19;

struct Page {
    /// The group that the page belongs to, and its index in it.
    group: u32,
    bit: u8,
    /// A bit for each block, set if the block has been used.
    used: u64,
    /// Whether the page was used since the clock hand last passed it.
    is_recent: bool,
    last: [u32; PAGE as usize],
}

impl Page {
    fn place(&self) -> (usize, u8) {
        (self.group as usize, self.bit)
    }
}

/// Returns the first block of a request and the end of its blocks. At most 64 MiB are included,
/// because trimming a whole volume must not touch each of its blocks.
#[inline]
pub(crate) fn blocks(address: u64, len: u32) -> (u64, u64) {
    let first = address / BLOCK_BYTES;
    let end = (address + u64::from(len)).div_ceil(BLOCK_BYTES).max(first + 1);
    (first, end.min(first + (64 << 20) / BLOCK_BYTES))
}

/// Returns a mask of the bits of a page's blocks from `first` to `end`.
#[inline]
fn mask(first: u64, end: u64) -> u64 {
    u64::MAX >> (PAGE - (end - first)) << first
}

/// Returns the length of the longest prefix whose elements all equal `number`. Eight elements are
/// compared at a time, so that it can be vectorized.
#[inline]
fn alike(list: &[u32], number: u32) -> usize {
    let all = |part: &&[u32]| part.iter().fold(true, |all, &other| all & (other == number));
    let whole = list.chunks_exact(8).take_while(all).count() * 8;
    whole + list[whole..].iter().take_while(|&&other| other == number).count()
}

/// Eight consecutive pages, which are 2 MiB. Groups are small, because scattered use takes a whole
/// group for each page.
struct Group {
    number: u64,
    /// The position of each page that is set in `any`.
    pages: [u32; GROUP as usize],
    /// A bit for each page: in `any` if some of its blocks were used, in `full` if all were.
    any: u8,
    full: u8,
}

const GROUP: u64 = 8;
/// The position of a group that does not exist.
const NONE: u32 = u32::MAX;

/// The used blocks, and the last request that used each of them.
pub(crate) struct UsedBlocks {
    index: FxHashMap<u64, u32>,
    groups: Vec<Group>,
    /// The positions of groups that no longer have pages.
    free: Vec<u32>,
    pages: Vec<Page>,
    pages_max: usize,
    hand: usize,
    /// The number and position of the last group looked up, because the next lookup is usually in
    /// the same group.
    found: Cell<(u64, u32)>,
}

impl UsedBlocks {
    pub(crate) fn new() -> UsedBlocks {
        UsedBlocks::of(PAGES_MAX)
    }

    fn of(pages_max: usize) -> UsedBlocks {
        UsedBlocks {
            index: FxHashMap::default(),
            groups: Vec::new(),
            free: Vec::new(),
            pages: Vec::new(),
            pages_max,
            hand: 0,
            found: Cell::new((u64::MAX, NONE)),
        }
    }

    #[inline]
    fn group(&self, number: u64) -> Option<&Group> {
        let (found, mut at) = self.found.get();
        if found != number {
            at = self.index.get(&number).copied().unwrap_or(NONE);
            self.found.set((number, at));
        }
        self.groups.get(at as usize)
    }

    #[inline]
    fn page(&self, number: u64) -> Option<&Page> {
        let (group, page) = (self.group(number / GROUP)?, number % GROUP);
        (group.any >> page & 1 == 1).then(|| &self.pages[group.pages[page as usize] as usize])
    }

    /// Returns the request that last used a block, or None if the block is new.
    #[inline]
    pub(crate) fn last(&self, block: u64) -> Option<u32> {
        let page = self.page(block / PAGE)?;
        (page.used >> (block % PAGE) & 1 == 1).then(|| page.last[(block % PAGE) as usize])
    }

    /// Returns the pages that blocks lie on, each with the first block and the end, counted from
    /// the start of the page.
    #[inline]
    fn parts(first: u64, end: u64) -> impl Iterator<Item = (u64, u64, u64)> {
        (first / PAGE..end.div_ceil(PAGE)).map(move |page| {
            let begin = page * PAGE;
            (page, first.max(begin) - begin, end.min(begin + PAGE) - begin)
        })
    }

    /// Returns how many of the blocks are new.
    #[inline]
    pub(crate) fn new_blocks(&self, first: u64, end: u64) -> u64 {
        let used = |(page, first, end): (u64, u64, u64)| {
            self.page(page).map_or(0, |page| (page.used & mask(first, end)).count_ones())
        };
        end - first - UsedBlocks::parts(first, end).map(|part| u64::from(used(part))).sum::<u64>()
    }

    /// Returns the number of consecutive blocks starting at `first` that are all used (or all new),
    /// up to `max`. Groups and pages that are entirely used or new are skipped as a whole.
    pub(crate) fn stretch(&self, first: u64, is_used: bool, max: u64) -> u64 {
        let mut block = first;
        while block < first + max {
            let (number, page) = (block / PAGE / GROUP, block / PAGE % GROUP);
            let Some(group) = self.group(number) else {
                if is_used {
                    break;
                }
                block = (number + 1) * GROUP * PAGE;
                continue;
            };
            let alike = if is_used { group.full } else { !group.any };
            let pages = u64::from((alike >> page).trailing_ones()).min(GROUP - page);
            if pages > 0 {
                block = (block / PAGE + pages) * PAGE;
                continue;
            }
            let used = self.page(block / PAGE).map_or(0, |page| page.used) >> (block % PAGE);
            let left = PAGE - block % PAGE;
            let same = if is_used { used.trailing_ones() } else { used.trailing_zeros() };
            let same = u64::from(same).min(left);
            block += same;
            if same < left {
                break;
            }
        }
        (block - first).min(max)
    }

    /// Returns the start of the first `count` consecutive new blocks within `low..high`, at or
    /// after `from` if possible.
    pub(crate) fn room(&self, from: u64, count: u64, low: u64, high: u64) -> Option<u64> {
        [from.max(low), low].into_iter().find_map(|begin| {
            let mut block = begin;
            for _ in 0..TRIES {
                if block + count > high {
                    return None;
                }
                let new = self.stretch(block, false, count);
                if new == count {
                    return Some(block);
                }
                block += new;
                block += self.stretch(block, true, high.saturating_sub(block).max(1)).max(1);
            }
            None
        })
    }

    /// Marks blocks as used by request `number`. Calls `lost` with each request that last used some
    /// of them before, and how many of its blocks it loses.
    #[inline]
    pub(crate) fn touch(
        &mut self,
        (first, end): (u64, u64),
        number: u32,
        mut lost: impl FnMut(u32, u32),
    ) {
        for (page, first, end) in UsedBlocks::parts(first, end) {
            let at = self.claim(page, &mut lost);
            let page = &mut self.pages[at];
            let mask = mask(first, end);
            let mut used = page.used & mask;
            while used != 0 {
                let block = used.trailing_zeros();
                let owner = page.last[block as usize];
                let used_on = (used >> block).trailing_ones() as usize;
                let run = alike(&page.last[block as usize..][..used_on], owner) as u32;
                lost(owner, run);
                used &= !(u64::MAX >> (PAGE as u32 - run) << block);
            }
            page.used |= mask;
            page.is_recent = true;
            page.last[first as usize..end as usize].fill(number);
            if page.used == u64::MAX {
                let (group, bit) = page.place();
                self.groups[group].full |= 1 << bit;
            }
        }
    }

    /// Returns the position of a page, which is created if necessary. If the table is full, it
    /// replaces a page that was not used recently.
    #[inline]
    fn claim(&mut self, number: u64, lost: &mut impl FnMut(u32, u32)) -> usize {
        if let Some(group) = self.group(number / GROUP)
            && group.any >> (number % GROUP) & 1 == 1
        {
            return group.pages[(number % GROUP) as usize] as usize;
        }
        let at = match self.pages.len() < self.pages_max {
            true => self.pages.len(),
            false => self.give_up(lost),
        };
        let (group, bit) = (self.claim_group(number / GROUP), (number % GROUP) as u8);
        let held = &mut self.groups[group as usize];
        held.any |= 1 << bit;
        held.pages[usize::from(bit)] = at as u32;
        let page = Page { group, bit, used: 0, is_recent: true, last: [0; PAGE as usize] };
        match self.pages.get_mut(at) {
            Some(old) => *old = page,
            None => self.pages.push(page),
        }
        at
    }

    /// Removes a page that was not used recently, and returns its position.
    fn give_up(&mut self, lost: &mut impl FnMut(u32, u32)) -> usize {
        while std::mem::take(&mut self.pages[self.hand].is_recent) {
            self.hand = (self.hand + 1) % self.pages.len();
        }
        let at = self.hand;
        self.hand = (self.hand + 1) % self.pages.len();
        let old = &self.pages[at];
        let blocks = (0..PAGE as usize).filter(|block| old.used >> block & 1 == 1);
        blocks.for_each(|block| lost(old.last[block], 1));
        let (group, bit) = old.place();
        let held = &mut self.groups[group];
        held.any &= !(1 << bit);
        held.full &= !(1 << bit);
        if held.any == 0 {
            self.index.remove(&held.number);
            self.free.push(group as u32);
            self.found.set((u64::MAX, NONE));
        }
        at
    }

    /// Returns the position of a group, which is created if necessary.
    fn claim_group(&mut self, number: u64) -> u32 {
        if let Some(&at) = self.index.get(&number) {
            return at;
        }
        let group = Group { number, pages: [0; GROUP as usize], any: 0, full: 0 };
        let at = self.free.pop().unwrap_or(self.groups.len() as u32);
        match self.groups.get_mut(at as usize) {
            Some(old) => *old = group,
            None => self.groups.push(group),
        }
        self.index.insert(number, at);
        self.found.set((number, at));
        at
    }
}

/// The number of stretches examined when searching for free space.
const TRIES: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compared with a plain list of blocks.
        #[test]
        fn every_block_is_known_by_its_last_request(
            touches in proptest::collection::vec((0u64..500, 1u64..200), 1..40),
            asked in (0u64..600, 1u64..200),
        ) {
            let (mut ground, mut plain) = (UsedBlocks::new(), vec![0u32; 1000]);
            let mut held = vec![0u64; touches.len() + 1];
            for (number, &(first, count)) in (1u32..).zip(&touches) {
                ground.touch((first, first + count), number, |owner, blocks| {
                    held[owner as usize] -= u64::from(blocks);
                });
                plain[first as usize..(first + count) as usize].fill(number);
                held[number as usize] = count;
            }
            for (number, &blocks) in (0u32..).zip(&held) {
                let owned = plain.iter().filter(|&&owner| owner == number && owner > 0).count();
                prop_assert_eq!(owned as u64, blocks);
            }
            for (block, &owner) in (0u64..).zip(&plain) {
                prop_assert_eq!(ground.last(block), (owner > 0).then_some(owner));
            }
            let (first, count) = asked;
            let new = |block: u64| plain.get(block as usize).is_none_or(|&owner| owner == 0);
            let blocks = || first..first + count;
            prop_assert_eq!(
                ground.new_blocks(first, first + count),
                blocks().filter(|&block| new(block)).count() as u64
            );
            for is_used in [false, true] {
                let stretch = blocks().take_while(|&block| new(block) != is_used).count();
                prop_assert_eq!(ground.stretch(first, is_used, count), stretch as u64);
            }
            let fits = |from: u64| (from..from + count).all(new);
            let first_fit = (first..=1000 - count).chain(0..first).find(|&from| fits(from));
            prop_assert_eq!(ground.room(first, count, 0, 1000), first_fit);
        }
    }

    #[test]
    fn the_least_recently_used_blocks_are_forgotten() {
        let (mut ground, mut lost) = (UsedBlocks::of(2), Vec::new());
        for (page, number) in (0..3).zip(1..) {
            ground.touch((page * PAGE, page * PAGE + 3), number, |owner, n| lost.push((owner, n)));
        }
        assert_eq!(ground.pages.len(), 2);
        assert_eq!(lost, [(1, 1), (1, 1), (1, 1)]);
        assert_eq!([0, PAGE, 2 * PAGE].map(|block| ground.last(block)), [None, Some(2), Some(3)]);
    }

    #[test]
    fn a_request_lies_on_the_blocks_it_touches() {
        assert_eq!(blocks(4096, 4096), (1, 2));
        assert_eq!(blocks(4095, 2), (0, 2));
        assert_eq!(blocks(8192, 0), (2, 3));
        assert_eq!(blocks(0, u32::MAX), (0, 16_384));
    }
}
