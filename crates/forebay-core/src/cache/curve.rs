//! Computes the miss ratios of LRU caches of every size in one pass (Mattson and others 1970).
//!
//! An LRU cache hits a block if it is larger than the number of distinct other blocks used since
//! the block's last use. That number is the number of last uses after the block's own. Last uses
//! are stored in a bitmap with one bit per access. They are counted word by word within a stretch
//! of 4096 accesses, and by a Fenwick tree over stretches. Positions are renumbered when they run
//! out, so memory is proportional to the number of distinct blocks.
//!
//! If there are too many distinct blocks, a [`Sample`] represents them, and is halved each time it
//! is full (SHARDS, section 4; counting misses over all accesses is what the paper calls
//! SHARDS-adj). Each use of a sampled block then counts once per block that the sampled block
//! represents, and its distance is scaled by the same factor. Until then, the result is exact.

use super::Sample;
use crate::index::{Index, spread};

/// The default maximum number of tracked blocks, which takes 130 MB of memory.
const KEPT_MAX: usize = 1 << 21;

/// The number of words in a stretch.
const STRETCH: usize = 64;
const STRETCH_BITS: usize = STRETCH * 64;

/// Hashes a block. Adjacent blocks share a cache line of the index, because requests usually use
/// several of them.
#[inline]
fn near(key: u64) -> u64 {
    (spread(key >> 2) & !3) | (key & 3)
}

/// Collects stack distances.
#[derive(Clone, Debug)]
pub struct MissRatioCurve {
    index: Index,
    keys: Vec<u64>,
    /// The position of each block's last use.
    last: Vec<u32>,
    /// One bit per position, set if the position is the last use of a block.
    words: Vec<u64>,
    /// A Fenwick tree of the number of bits set in each stretch.
    stretches: Vec<u32>,
    /// The block at each position, for renumbering.
    blocks: Vec<u32>,
    /// The number of accesses by stack distance: how many other sampled blocks were used since the
    /// block's last use.
    distances: Vec<u64>,
    accesses: u64,
    /// The number of accesses that the sampled ones represent.
    stood_for: u64,
    sample: Sample,
    kept_max: usize,
}

/// The result of looking up a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// The stack distance: the number of other blocks used since the last use of this block, or
    /// `None` for a first use. A cache hits if it has more blocks than that.
    pub distance: Option<u64>,
    /// The number of accesses that this one represents, including itself.
    pub stands_for: u64,
}

impl Default for MissRatioCurve {
    fn default() -> MissRatioCurve {
        MissRatioCurve::keeping(KEPT_MAX)
    }
}

impl MissRatioCurve {
    /// Creates a curve that tracks at most `kept_max` blocks, and samples if there are more.
    pub fn keeping(kept_max: usize) -> MissRatioCurve {
        let positions = 16 * STRETCH_BITS;
        MissRatioCurve {
            index: Index::new(),
            keys: Vec::new(),
            last: Vec::new(),
            words: vec![0; positions / 64],
            stretches: vec![0; positions / STRETCH_BITS + 1],
            blocks: Vec::with_capacity(positions),
            distances: Vec::new(),
            accesses: 0,
            stood_for: 0,
            sample: Sample::default(),
            kept_max: kept_max.max(1),
        }
    }

    /// Uses a block and returns the result; `None` if the block is not in the sample.
    #[inline]
    pub fn access(&mut self, key: u64) -> Option<Use> {
        self.accesses += 1;
        if !self.sample.holds(key) {
            return None;
        }
        if self.blocks.len() == self.words.len() * 64 {
            self.renumber();
        }
        let found = self.index.find(near(key), |block| self.keys[block as usize] == key);
        let (block, distance) = match found {
            Some(block) => {
                let position = self.last[block as usize] as usize;
                let distance = self.keys.len() - self.up_to(position);
                self.distances[distance] += self.sample.one_in();
                self.clear(position);
                (block, Some(distance as u64 * self.sample.one_in()))
            }
            None => (self.learn(key)?, None),
        };
        let stands_for = self.sample.one_in();
        self.stood_for += stands_for;
        let position = self.blocks.len();
        self.last[block as usize] = position as u32;
        self.blocks.push(block);
        self.words[position / 64] |= 1 << (position % 64);
        self.count(position / STRETCH_BITS, 1);
        Some(Use { distance, stands_for })
    }

    /// Assigns a number to a new block. Returns `None` if the sample had to be reduced and no
    /// longer contains the block.
    fn learn(&mut self, key: u64) -> Option<u32> {
        while self.keys.len() >= self.kept_max {
            self.thin();
            if !self.sample.holds(key) {
                return None;
            }
        }
        let block = self.keys.len() as u32;
        self.index.insert(near(key), block);
        self.keys.push(key);
        self.last.push(0);
        self.distances.push(0);
        Some(block)
    }

    /// Halves the sample and removes the blocks that it no longer contains.
    #[cold]
    fn thin(&mut self) {
        self.sample = self.sample.halved();
        let is_last = |&(position, &block): &(usize, &u32)| {
            self.last[block as usize] as usize == position
                && self.sample.holds(self.keys[block as usize])
        };
        let used = self.blocks.iter().enumerate().filter(is_last);
        self.keys = used.map(|(_, &block)| self.keys[block as usize]).collect();
        self.index = Index::new();
        for (&key, block) in self.keys.iter().zip(0..) {
            self.index.insert(near(key), block);
        }
        self.last = (0..self.keys.len() as u32).collect();
        self.blocks.clear();
        self.blocks.extend(0..self.keys.len() as u32);
        self.mark();
        // Two adjacent distances become one, because half as many blocks are in the sample.
        self.distances = self.distances.chunks(2).map(|pair| pair.iter().sum()).collect();
        let len = self.distances.len().max(self.keys.len());
        self.distances.resize(len, 0);
    }

    /// Returns the number of last uses at positions up to and including `position`.
    #[inline]
    fn up_to(&self, position: usize) -> usize {
        let (word, stretch) = (position / 64, position / STRETCH_BITS);
        let whole = &self.words[stretch * STRETCH..word];
        let part = self.words[word] & (u64::MAX >> (63 - position % 64));
        let within: u32 = whole.iter().map(|word| word.count_ones()).sum();
        let mut before = 0;
        let mut node = stretch;
        while node > 0 {
            before += self.stretches[node] as usize;
            node &= node - 1;
        }
        before + (within + part.count_ones()) as usize
    }

    #[inline]
    fn clear(&mut self, position: usize) {
        self.words[position / 64] &= !(1 << (position % 64));
        self.count(position / STRETCH_BITS, u32::MAX);
    }

    /// Adds to a stretch's count, modulo 2^32.
    #[inline]
    fn count(&mut self, stretch: usize, change: u32) {
        let mut node = stretch + 1;
        while let Some(count) = self.stretches.get_mut(node) {
            *count = count.wrapping_add(change);
            node += node & node.wrapping_neg();
        }
    }

    /// Removes positions that are not the last use of any block, and provides space for as many new
    /// positions as remain.
    #[cold]
    fn renumber(&mut self) {
        let (last, mut kept) = (&mut self.last, 0);
        let mut position = 0;
        self.blocks.retain(|&block| {
            let current = last[block as usize] == position;
            position += 1;
            if current {
                last[block as usize] = kept;
                kept += 1;
            }
            current
        });
        self.mark();
    }

    /// Marks all positions as last uses, and provides space for as many new positions.
    fn mark(&mut self) {
        let room =
            (2 * self.blocks.len()).next_multiple_of(STRETCH_BITS).max(self.words.len() * 64);
        self.words.clear();
        self.words.resize(room / 64, 0);
        self.stretches.clear();
        self.stretches.resize(room / STRETCH_BITS + 1, 0);
        for position in 0..self.blocks.len() {
            self.words[position / 64] |= 1 << (position % 64);
            self.count(position / STRETCH_BITS, 1);
        }
    }

    /// Returns the number of accesses so far.
    pub fn accesses(&self) -> u64 {
        self.accesses
    }

    /// Returns the number of distinct blocks so far, estimated from the sample. A larger cache does
    /// not have more hits.
    pub fn blocks(&self) -> u64 {
        self.kept() * self.sample.one_in()
    }

    /// Returns the number of distinct blocks in the sample.
    pub fn kept(&self) -> u64 {
        self.keys.len() as u64
    }

    /// Returns the sample that represents all blocks. It contains all of them unless they were too
    /// many.
    pub fn sample(&self) -> Sample {
        self.sample
    }

    /// Returns the relative error of the number of accesses estimated from the sample, which
    /// indicates the error of the curve.
    pub fn error_share(&self) -> f64 {
        self.stood_for.abs_diff(self.accesses) as f64 / self.accesses.max(1) as f64
    }

    /// Returns the misses of an LRU cache of each size. Element `n` is for a size of `n` sampled
    /// blocks, each of which represents [`Sample::one_in`] blocks; `n` goes from 0 to all blocks.
    pub fn misses(&self) -> impl Iterator<Item = u64> + '_ {
        let hits = self.distances.iter().scan(0, |hits, &more| {
            *hits += more;
            Some(*hits)
        });
        let misses = hits.map(|hits| (self.stood_for - hits).min(self.accesses));
        std::iter::once(self.accesses).chain(misses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::{Cache, Lru};

    fn keys(count: usize, distinct: u64) -> impl Iterator<Item = u64> {
        let mut state = 11u64;
        (0..count).map(move |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let uniform = (state >> 33) as f64 / f64::from(1u32 << 31);
            // Some blocks are much hotter than others.
            (uniform.powi(3) * distinct as f64) as u64
        })
    }

    #[test]
    fn every_size_agrees_with_a_cache_of_that_size() {
        let mut curve = MissRatioCurve::default();
        keys(20_000, 60).for_each(|key| _ = curve.access(key));
        let misses: Vec<u64> = curve.misses().collect();
        assert_eq!(misses.len(), 61);
        assert_eq!((misses[0], misses[60]), (20_000, 60));
        for size in 1..=60 {
            let mut cache = Lru::new(size);
            let missed = keys(20_000, 60).filter(|&key| !cache.access(key)).count();
            assert_eq!(misses[size as usize], missed as u64, "{size} blocks");
        }
    }

    #[test]
    fn long_streams_are_numbered_anew() {
        let mut curve = MissRatioCurve::default();
        let (count, distinct) = (400_000, 90_000);
        keys(count, distinct).for_each(|key| _ = curve.access(key));
        let misses: Vec<u64> = curve.misses().collect();
        for size in [1, 100, 5_000, 60_000] {
            let mut cache = Lru::new(size);
            let missed = keys(count, distinct).filter(|&key| !cache.access(key)).count();
            assert_eq!(misses[size as usize], missed as u64, "{size} blocks");
        }
        assert_eq!((curve.accesses(), curve.blocks()), (count as u64, misses[misses.len() - 1]));
    }

    #[test]
    fn an_empty_curve_has_no_misses() {
        let curve = MissRatioCurve::default();
        assert_eq!(curve.misses().collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn a_sample_represents_all_blocks() {
        let (mut exact, mut sampled) =
            (MissRatioCurve::default(), MissRatioCurve::keeping(1 << 13));
        let (count, distinct) = (1_000_000, 150_000);
        for key in keys(count, distinct) {
            exact.access(key);
            sampled.access(key);
            assert!(sampled.keys.len() <= 1 << 13);
        }
        let one_in = sampled.sample().one_in();
        assert_eq!((exact.sample().one_in(), one_in, exact.error_share()), (1, 32, 0.0));
        assert!(sampled.blocks().abs_diff(exact.blocks()) < exact.blocks() / 30);
        let all = exact.misses().collect::<Vec<_>>();
        let off = sampled.misses().enumerate().map(|(size, misses)| {
            let size = (size * one_in as usize).min(all.len() - 1);
            misses.abs_diff(all[size]) as f64 / count as f64
        });
        let off: Vec<f64> = off.collect();
        let mean = off.iter().sum::<f64>() / off.len() as f64;
        // The error is largest near the hottest block, which is in no sample.
        let most = off.iter().fold(0.0, |most: f64, &off| most.max(off));
        assert!(mean < 0.01 && most < 0.05, "{mean} {most}");
        assert!(sampled.error_share() < 0.05, "{}", sampled.error_share());
    }

    #[test]
    fn the_weights_of_sampled_uses_add_up() {
        let mut curve = MissRatioCurve::keeping(64);
        let (mut stood_for, mut hits) = (0, 0);
        for key in keys(20_000, 1000) {
            let Some(told) = curve.access(key) else { continue };
            stood_for += told.stands_for;
            hits += told.distance.map_or(0, |_| told.stands_for);
            assert!(told.distance.is_none_or(|distance| distance < 1000 * 4));
        }
        assert_eq!(curve.misses().last(), Some(stood_for - hits));
        assert!(curve.misses().is_sorted_by(|a, b| a >= b));
    }
}
