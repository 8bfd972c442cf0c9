//! The page-mapped flash translation layer: maps logical pages to flash pages.
//!
//! Pages are never overwritten in place. A logical page always stays on the same die (stripes of
//! [`Shape::stripe_pages`] pages are distributed round-robin), so each die has its own share of
//! spare blocks, and garbage collection always gains space. A die with few free blocks collects
//! garbage along with the host's writes: each write moves as many of the victim's valid pages as
//! necessary to free a block by the time the host has filled its own. They move to a separate
//! block, so that cold data accumulates there; then the victim is erased. Only a die without any
//! free block collects a whole block at once. Free blocks are used in the order in which they were
//! erased, which levels wear among the collected blocks.
//!
//! A drive that is initially full in sequential order uses no memory for untouched pages: an entry
//! of zero means the position of the initial fill.
//!
//! Invariants: every mapped logical page has exactly one flash page, and that page names it as its
//! owner; a block's valid count is the number of its pages with an owner.

use std::collections::VecDeque;

use super::sparse::Sparse;
use crate::contract::SpecError;
use crate::random;

/// The rule for choosing the next block to collect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Collection {
    /// The block with the fewest valid pages.
    #[default]
    Greedy,
    /// The block with the best ratio of space gained to pages moved, times its age: (1 - u) / 2u ·
    /// age (Rosenblum and Ousterhout 1992; Kawaguchi, Nishioka and Motoda 1995).
    CostBenefit,
}

/// The sizes of the flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The number of logical pages, which the host can use.
    pub logical_pages: u32,
    /// The number of dies, which are all alike.
    pub dies: u32,
    /// The number of erase blocks per die.
    pub blocks_per_die: u32,
    /// The number of pages per erase block.
    pub pages_per_block: u32,
    /// The number of consecutive logical pages on one die. [`Shape::pages_per_block`] is a multiple
    /// of it.
    pub stripe_pages: u32,
}

/// Receives the flash operations that the translation layer decides on.
pub(super) trait Work {
    /// A page of a die is read and written elsewhere on the die.
    fn copied(&mut self, die: u32);
    /// A block of a die is erased.
    fn erased(&mut self, die: u32);
}

/// The numbers of pages written and blocks erased since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Wear {
    /// The number of pages that the host wrote.
    pub host_pages: u64,
    /// The number of pages that garbage collection moved.
    pub moved_pages: u64,
    /// The number of erases.
    pub erases: u64,
    /// The maximum number of erases of one block.
    pub erases_max: u32,
    /// The number of blocks.
    pub blocks: u32,
}

impl Wear {
    /// Returns the number of flash pages programmed per page that the host wrote; `None` before the
    /// first write.
    pub fn write_amplification(&self) -> Option<f64> {
        (self.host_pages > 0)
            .then(|| (self.host_pages + self.moved_pages) as f64 / self.host_pages as f64)
    }

    /// Returns the mean number of erases per block.
    pub fn erases_mean(&self) -> f64 {
        self.erases as f64 / f64::from(self.blocks.max(1))
    }
}

/// Marks an entry that is neither mapped nor owned. Zero means the position of the initial fill.
const NONE: u32 = u32::MAX;

/// The number of free blocks that a die reserves for garbage collection.
pub(super) const RESERVE_BLOCKS: usize = 2;

/// The number of blocks of a die that the host cannot fill: the reserve, and the two being filled.
const OVERHEAD_BLOCKS: u32 = RESERVE_BLOCKS as u32 + 2;

/// The maximum number of erase blocks. Each takes some twenty bytes of memory.
const BLOCKS_MAX: u64 = 1 << 24;

/// A block that is being filled.
#[derive(Clone, Copy, Debug)]
struct Open {
    block: u32,
    next: u32,
}

/// A block that is being collected.
#[derive(Clone, Copy, Debug)]
struct Victim {
    block: u32,
    /// The next page of the block to examine.
    next: u32,
    /// The number of pages to move per host write.
    a_write: u32,
}

#[derive(Clone, Debug)]
struct Die {
    free: VecDeque<u32>,
    host: Option<Open>,
    moves: Option<Open>,
    victim: Option<Victim>,
}

impl Die {
    fn with(free: VecDeque<u32>) -> Die {
        Die { free, host: None, moves: None, victim: None }
    }
}

/// The translation layer of a drive.
#[derive(Clone, Debug)]
pub(super) struct Ftl {
    shape: Shape,
    collection: Collection,
    /// The number of logical pages that were initially filled, in order.
    filled: u32,
    /// For each logical page, its flash page plus one.
    map: Sparse,
    /// For each flash page, its logical page plus one.
    owner: Sparse,
    valid: Vec<u32>,
    /// Whether each block is full and in use: neither free nor being filled.
    closed: Vec<bool>,
    erases: Vec<u32>,
    /// For each block, the number of host pages written when the block last changed.
    changed: Vec<u64>,
    dies: Vec<Die>,
    wear: Wear,
}

impl Ftl {
    /// Returns a layer whose first `filled` logical pages contain data, written in order.
    pub(super) fn new(shape: Shape, collection: Collection, filled: u32) -> Result<Ftl, SpecError> {
        check(&shape, filled)?;
        let blocks = shape.dies * shape.blocks_per_die;
        let mut ftl = Ftl {
            shape,
            collection,
            filled,
            map: Sparse::new(shape.logical_pages as usize),
            owner: Sparse::new((blocks * shape.pages_per_block) as usize),
            valid: vec![0; blocks as usize],
            closed: vec![false; blocks as usize],
            erases: vec![0; blocks as usize],
            changed: vec![0; blocks as usize],
            dies: Vec::with_capacity(shape.dies as usize),
            wear: Wear { blocks, ..Wear::default() },
        };
        for die in 0..shape.dies {
            let used = ftl.fill_blocks(die);
            let first = die * shape.blocks_per_die;
            let mut free = VecDeque::with_capacity(shape.blocks_per_die as usize);
            free.extend(first + used..first + shape.blocks_per_die);
            ftl.dies.push(Die::with(free));
        }
        Ok(ftl)
    }

    /// Initializes the state of a die after the initial fill. Returns the number of blocks used.
    fn fill_blocks(&mut self, die: u32) -> u32 {
        let Shape { dies, stripe_pages, pages_per_block, blocks_per_die, .. } = self.shape;
        let row = u64::from(dies) * u64::from(stripe_pages);
        let (rows, rest) = (u64::from(self.filled) / row, u64::from(self.filled) % row);
        let partial = rest.saturating_sub(u64::from(die * stripe_pages)).min(stripe_pages.into());
        let mut pages = rows * u64::from(stripe_pages) + partial;
        let mut used = 0;
        while pages > 0 {
            let here = pages.min(pages_per_block.into());
            let block = (die * blocks_per_die + used) as usize;
            self.valid[block] = here as u32;
            self.closed[block] = true;
            pages -= here;
            used += 1;
        }
        used
    }

    /// Returns the die of a logical page.
    #[inline]
    pub(super) fn die(&self, page: u32) -> u32 {
        page / self.shape.stripe_pages % self.shape.dies
    }

    /// Returns the flash page of a logical page after the initial fill.
    #[inline]
    fn home(&self, page: u32) -> u32 {
        let Shape { dies, stripe_pages, blocks_per_die, pages_per_block, .. } = self.shape;
        let stripe = page / stripe_pages;
        let on_die = stripe / dies * stripe_pages + page % stripe_pages;
        stripe % dies * blocks_per_die * pages_per_block + on_die
    }

    /// Returns the logical page whose position after the initial fill is this flash page.
    #[inline]
    fn resident(&self, flash: u32) -> u32 {
        let Shape { dies, stripe_pages, blocks_per_die, pages_per_block, .. } = self.shape;
        let per_die = blocks_per_die * pages_per_block;
        let (die, on_die) = (flash / per_die, flash % per_die);
        (on_die / stripe_pages * dies + die) * stripe_pages + on_die % stripe_pages
    }

    /// Returns the flash page of a logical page.
    #[inline]
    pub(super) fn lookup(&self, page: u32) -> Option<u32> {
        match self.map.get(page) {
            Some(0) if page < self.filled => Some(self.home(page)),
            None | Some(0 | NONE) => None,
            Some(flash) => Some(flash - 1),
        }
    }

    /// Returns the logical page in a flash page.
    #[inline]
    fn held(&self, flash: u32) -> Option<u32> {
        match self.owner.get(flash) {
            Some(0) => Some(self.resident(flash))
                .filter(|&page| page < self.filled && self.map.get(page) == Some(0)),
            None | Some(NONE) => None,
            Some(page) => Some(page - 1),
        }
    }

    /// Writes a logical page for the host.
    #[inline]
    pub(super) fn write(&mut self, page: u32, work: &mut impl Work) {
        let number = self.die(page);
        self.wear.host_pages += 1;
        self.invalidate(page);
        if self.dies[number as usize].host.is_none() {
            self.open_host_block(number, work);
        }
        let die = &mut self.dies[number as usize];
        let Some(open) = die.host else { return };
        die.host = self.shape.after(open);
        let is_short = die.free.len() <= RESERVE_BLOCKS || die.victim.is_some();
        self.place(page, open);
        if is_short {
            self.go_on_collecting(number, work);
        }
    }

    /// Discards the contents of a logical page.
    pub(super) fn trim(&mut self, page: u32) {
        self.invalidate(page);
        self.map.set(page, NONE);
    }

    #[inline]
    fn invalidate(&mut self, page: u32) {
        let Some(flash) = self.lookup(page) else { return };
        self.owner.set(flash, NONE);
        let block = (flash / self.shape.pages_per_block) as usize;
        self.valid[block] -= 1;
        self.changed[block] = self.wear.host_pages;
    }

    #[inline]
    fn place(&mut self, page: u32, open: Open) {
        let flash = open.block * self.shape.pages_per_block + open.next;
        let block = open.block as usize;
        self.map.set(page, flash + 1);
        self.owner.set(flash, page + 1);
        self.valid[block] += 1;
        self.closed[block] = self.shape.after(open).is_none();
        self.changed[block] = self.wear.host_pages;
    }

    #[cold]
    fn open_host_block(&mut self, die: u32, work: &mut impl Work) {
        while self.dies[die as usize].free.len() <= RESERVE_BLOCKS && self.collect(die, work) {}
        let free = self.dies[die as usize].free.pop_front();
        self.dies[die as usize].host = free.map(|block| Open { block, next: 0 });
    }

    /// Performs one host write's share of the collection that a die needs.
    fn go_on_collecting(&mut self, die: u32, work: &mut impl Work) {
        let state = &self.dies[die as usize];
        // If the host's block is full, its successor's collection is completed when the successor
        // is opened.
        let Some(open) = state.host else { return };
        let Some(victim) = state.victim.or_else(|| self.next_victim(die, open)) else { return };
        self.advance(die, victim, victim.a_write, work);
    }

    /// Returns the next block to collect. The rate of collection is chosen so that a block is free
    /// when the host has filled `open`.
    fn next_victim(&self, die: u32, open: Open) -> Option<Victim> {
        let block = self.victim(die)?;
        let Die { free, moves, .. } = &self.dies[die as usize];
        let pages = u64::from(self.shape.pages_per_block);
        let valid = u64::from(self.valid[block as usize]);
        let room = moves.map_or(0, |moves| pages - u64::from(moves.next));
        let short = (RESERVE_BLOCKS + 1).saturating_sub(free.len()).max(1) as u64;
        // Each victim gains its invalid pages, but its valid pages need space in other blocks.
        let gain = pages - valid;
        let victims = (short * pages).saturating_sub(room).div_ceil(gain).max(short);
        let left = u64::from(self.shape.pages_per_block - open.next).max(1);
        let a_write = (victims * valid).div_ceil(left).max(1);
        Some(Victim { block, next: 0, a_write: a_write.min(pages) as u32 })
    }

    /// Completes the collection in progress on a die, or collects the best block. Returns whether
    /// there was a block to collect.
    fn collect(&mut self, die: u32, work: &mut impl Work) -> bool {
        let fresh = |block| Victim { block, next: 0, a_write: 0 };
        let under_way = self.dies[die as usize].victim;
        let Some(victim) = under_way.or_else(|| self.victim(die).map(fresh)) else { return false };
        self.advance(die, victim, u32::MAX, work);
        true
    }

    /// Moves at most `pages_most` valid pages of a victim, and erases it when none is left.
    fn advance(&mut self, die: u32, mut victim: Victim, pages_most: u32, work: &mut impl Work) {
        let block = victim.block as usize;
        let first = victim.block * self.shape.pages_per_block;
        let mut moved = 0;
        let pages = self.shape.pages_per_block;
        while self.valid[block] > 0 && moved < pages_most && victim.next < pages {
            let Some(page) = self.held(first + victim.next) else {
                victim.next += 1;
                continue;
            };
            self.relocate(die, page, work);
            victim.next += 1;
            moved += 1;
        }
        if self.valid[block] == 0 {
            self.erase(die, victim.block, work);
        } else {
            self.dies[die as usize].victim = Some(victim).filter(|victim| victim.next < pages);
        }
    }

    fn erase(&mut self, die: u32, block: u32, work: &mut impl Work) {
        let first = block * self.shape.pages_per_block;
        for flash in first..first + self.shape.pages_per_block {
            self.owner.set(flash, NONE);
        }
        let erases = &mut self.erases[block as usize];
        *erases += 1;
        self.wear.erases_max = self.wear.erases_max.max(*erases);
        self.wear.erases += 1;
        self.closed[block as usize] = false;
        self.dies[die as usize].victim = None;
        self.dies[die as usize].free.push_back(block);
        work.erased(die);
    }

    fn relocate(&mut self, die: u32, page: u32, work: &mut impl Work) {
        let state = &mut self.dies[die as usize];
        let fresh = |block| Open { block, next: 0 };
        // The reserve contains a block for every collection.
        let Some(open) = state.moves.or_else(|| state.free.pop_front().map(fresh)) else { return };
        state.moves = self.shape.after(open);
        self.invalidate(page);
        self.place(page, open);
        self.wear.moved_pages += 1;
        work.copied(die);
    }

    /// Returns the best block of a die to collect; `None` if no block has invalid pages.
    fn victim(&self, die: u32) -> Option<u32> {
        let first = die * self.shape.blocks_per_die;
        let pages = self.shape.pages_per_block;
        let blocks = (first..first + self.shape.blocks_per_die)
            .filter(|&block| self.closed[block as usize] && self.valid[block as usize] < pages);
        match self.collection {
            Collection::Greedy => blocks.min_by_key(|&block| self.valid[block as usize]),
            Collection::CostBenefit => {
                blocks.max_by(|&a, &b| self.benefit(a).total_cmp(&self.benefit(b)).then(b.cmp(&a)))
            }
        }
    }

    /// Returns the value by which cost-benefit collection ranks a block.
    fn benefit(&self, block: u32) -> f64 {
        let used = f64::from(self.valid[block as usize]) / f64::from(self.shape.pages_per_block);
        let age = (self.wear.host_pages - self.changed[block as usize]) as f64 + 1.0;
        if used == 0.0 { f64::INFINITY } else { (1.0 - used) / (2.0 * used) * age }
    }

    /// Returns a layer with the same sizes but without data.
    pub(super) fn emptied(&self) -> Ftl {
        let shape = self.shape;
        let first = |die| die * shape.blocks_per_die;
        let fresh = |die| Die::with((first(die)..first(die + 1)).collect());
        let blocks = self.valid.len();
        Ftl {
            shape,
            collection: self.collection,
            filled: 0,
            map: Sparse::new(shape.logical_pages as usize),
            owner: Sparse::new(blocks * shape.pages_per_block as usize),
            valid: vec![0; blocks],
            closed: vec![false; blocks],
            erases: vec![0; blocks],
            changed: vec![0; blocks],
            dies: (0..shape.dies).map(fresh).collect(),
            wear: Wear { blocks: blocks as u32, ..Wear::default() },
        }
    }

    /// Returns the numbers of pages written and blocks erased so far.
    pub(super) fn wear(&self) -> Wear {
        self.wear
    }

    /// Writes `writes` random pages among the filled ones, then resets the statistics.
    pub(super) fn churn(&mut self, writes: u64, seed: u64) {
        let mut state = seed;
        for _ in 0..writes {
            let page = random::next(&mut state) % u64::from(self.filled.max(1));
            self.write(page as u32, &mut Untimed);
        }
        self.forget_wear();
    }

    /// Resets the statistics, because earlier writes were preconditioning.
    fn forget_wear(&mut self) {
        self.wear = Wear { blocks: self.wear.blocks, ..Wear::default() };
        self.erases.fill(0);
        self.changed.fill(0);
    }
}

impl Shape {
    /// Returns the position of the next page in the block.
    #[inline]
    fn after(&self, open: Open) -> Option<Open> {
        let next = open.next + 1;
        (next < self.pages_per_block).then_some(Open { next, ..open })
    }

    /// Returns the maximum number of logical pages on one die.
    fn logical_pages_per_die(&self) -> u64 {
        let row = u64::from(self.dies) * u64::from(self.stripe_pages);
        u64::from(self.logical_pages).div_ceil(row) * u64::from(self.stripe_pages)
    }
}

/// Flash work that takes no time, because it is done before the run.
struct Untimed;

impl Work for Untimed {
    fn copied(&mut self, _die: u32) {}
    fn erased(&mut self, _die: u32) {}
}

fn check(shape: &Shape, filled: u32) -> Result<(), SpecError> {
    let Shape { logical_pages, dies, blocks_per_die, pages_per_block, stripe_pages } = *shape;
    if [logical_pages, dies, blocks_per_die, pages_per_block, stripe_pages].contains(&0) {
        return Err(SpecError(
            "flash: got a size of 0, expected every size to be 1 or more".into(),
        ));
    }
    if pages_per_block % stripe_pages != 0 {
        return Err(SpecError(format!(
            "flash: got blocks of {pages_per_block} pages, expected a multiple of the \
             {stripe_pages} pages of a stripe"
        )));
    }
    let blocks = u64::from(dies) * u64::from(blocks_per_die);
    if blocks > BLOCKS_MAX {
        return Err(SpecError(format!(
            "flash: got {blocks} erase blocks, expected at most {BLOCKS_MAX}; use more pages per \
             block"
        )));
    }
    if blocks.saturating_mul(pages_per_block.into()) >= u64::from(NONE) {
        return Err(SpecError("flash: got 2^32 pages or more, expected fewer".into()));
    }
    let room =
        u64::from(blocks_per_die.saturating_sub(OVERHEAD_BLOCKS)) * u64::from(pages_per_block);
    let need = shape.logical_pages_per_die();
    if need > room {
        return Err(SpecError(format!(
            "flash: got {need} logical pages per die, expected at most {room}: all blocks but \
             {OVERHEAD_BLOCKS}, which garbage collection needs"
        )));
    }
    if filled > logical_pages {
        return Err(SpecError(format!(
            "flash: got {filled} filled pages, expected at most {logical_pages}, the number of \
             pages"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
