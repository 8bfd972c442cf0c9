//! The miss ratios of LRU caches of every size, from one pass (Mattson and others 1970).
//!
//! A block is found by every LRU cache larger than the number of other blocks used since its last
//! use. That number is the count of last uses after its own: one bit an access in a bitmap, counted
//! word by word within a stretch of 4,096 and by a Fenwick tree over stretches. Positions are
//! numbered anew when they run out, so memory follows the number of distinct blocks.

use crate::index::{Index, spread};

/// Words in a stretch.
const STRETCH: usize = 64;
const STRETCH_BITS: usize = STRETCH * 64;

/// The hash of a block: those that lie beside each other on the disk share a line of the processor's
/// cache in the index, since requests use several in a row.
#[inline]
fn near(key: u64) -> u64 {
    (spread(key >> 2) & !3) | (key & 3)
}

/// Collects stack distances.
#[derive(Clone, Debug)]
pub struct MissRatioCurve {
    index: Index,
    keys: Vec<u64>,
    /// Position of each block's last use.
    last: Vec<u32>,
    /// One bit at each position that is a block's last use.
    words: Vec<u64>,
    /// Fenwick tree of bits set in each stretch.
    stretches: Vec<u32>,
    /// Block at each position, for numbering anew.
    blocks: Vec<u32>,
    /// Accesses by stack distance: how many other blocks were used since.
    distances: Vec<u64>,
    accesses: u64,
}

impl Default for MissRatioCurve {
    fn default() -> MissRatioCurve {
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
        }
    }
}

impl MissRatioCurve {
    /// Uses a block.
    #[inline]
    pub fn access(&mut self, key: u64) {
        self.distance(key);
    }

    /// Uses a block, and tells its stack distance: how many other blocks were used since its last
    /// use; `None` where it had none. A cache of more blocks than that finds it.
    #[inline]
    pub fn distance(&mut self, key: u64) -> Option<u64> {
        self.accesses += 1;
        if self.blocks.len() == self.words.len() * 64 {
            self.renumber();
        }
        let found = self.index.find(near(key), |block| self.keys[block as usize] == key);
        let (block, distance) = match found {
            Some(block) => {
                let position = self.last[block as usize] as usize;
                let distance = self.keys.len() - self.up_to(position);
                self.distances[distance] += 1;
                self.clear(position);
                (block, Some(distance as u64))
            }
            None => (self.learn(key), None),
        };
        let position = self.blocks.len();
        self.last[block as usize] = position as u32;
        self.blocks.push(block);
        self.words[position / 64] |= 1 << (position % 64);
        self.count(position / STRETCH_BITS, 1);
        distance
    }

    fn learn(&mut self, key: u64) -> u32 {
        let block = self.keys.len() as u32;
        self.index.insert(near(key), block);
        self.keys.push(key);
        self.last.push(0);
        self.distances.push(0);
        block
    }

    /// Last uses at positions up to and with this one.
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

    /// Leaves out positions that are nobody's last use, and makes room for as many again.
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

    /// Accesses so far.
    pub fn accesses(&self) -> u64 {
        self.accesses
    }

    /// Distinct blocks so far: no cache larger than this hits more.
    pub fn blocks(&self) -> u64 {
        self.keys.len() as u64
    }

    /// Misses of an LRU cache of each size: the element at `n` is for `n` blocks, from 0 to
    /// [`MissRatioCurve::blocks`].
    pub fn misses(&self) -> impl Iterator<Item = u64> + '_ {
        let hits = self.distances.iter().scan(0, |hits, &more| {
            *hits += more;
            Some(*hits)
        });
        std::iter::once(0).chain(hits).map(|hits| self.accesses - hits)
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
        keys(20_000, 60).for_each(|key| curve.access(key));
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
        keys(count, distinct).for_each(|key| curve.access(key));
        let misses: Vec<u64> = curve.misses().collect();
        for size in [1, 100, 5_000, 60_000] {
            let mut cache = Lru::new(size);
            let missed = keys(count, distinct).filter(|&key| !cache.access(key)).count();
            assert_eq!(misses[size as usize], missed as u64, "{size} blocks");
        }
        assert_eq!((curve.accesses(), curve.blocks()), (count as u64, misses[misses.len() - 1]));
    }

    #[test]
    fn nothing_seen_has_nothing_to_miss() {
        let curve = MissRatioCurve::default();
        assert_eq!(curve.misses().collect::<Vec<_>>(), [0]);
    }
}
