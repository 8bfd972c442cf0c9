//! Places where requests began, in their order.

use rustc_hash::FxHashMap;

/// Bits that one level tells apart.
const BITS: u32 = 6;
/// Levels, so that every block of an address has its bit.
const LEVELS: u32 = 10;

/// Blocks of a grain in which requests began: a bit for each, 64 to a node, and above those a bit for each
/// node, and so on; so the nearest one is found in a few steps, however many there are.
#[derive(Clone, Debug)]
pub struct Starts {
    /// Bits by level and number of the node.
    nodes: FxHashMap<u64, u64>,
    count: usize,
    /// A block has this power of two of bytes.
    grain_power: u32,
}

/// A node among those of all levels.
#[inline]
fn key(level: u32, number: u64) -> u64 {
    u64::from(level) << 58 | number
}

impl Starts {
    /// For blocks of so many bytes, a power of two.
    pub fn new(grain_bytes: u32) -> Starts {
        Starts { nodes: FxHashMap::default(), count: 0, grain_power: grain_bytes.ilog2() }
    }

    /// How many there are.
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// A request began at `address`.
    #[inline]
    pub fn insert(&mut self, address: u64) {
        let mut number = address >> self.grain_power;
        for level in 0..LEVELS {
            let node = self.nodes.entry(key(level, number >> BITS)).or_default();
            let (before, bit) = (*node, 1 << (number % 64));
            *node |= bit;
            if level == 0 {
                self.count += usize::from(before & bit == 0);
            }
            if before != 0 {
                break;
            }
            number >>= BITS;
        }
    }

    #[inline]
    fn node(&self, level: u32, number: u64) -> u64 {
        self.nodes.get(&key(level, number)).copied().unwrap_or(0)
    }

    /// The last block before that of `address` in which a request began.
    #[inline]
    pub fn below(&self, address: u64) -> Option<u64> {
        let mut number = address >> self.grain_power;
        for level in 0..LEVELS {
            let bits = self.node(level, number >> BITS) & ((1 << (number % 64)) - 1);
            if bits != 0 {
                let at = number >> BITS << BITS | u64::from(63 - bits.leading_zeros());
                return Some(self.descend(level, at, |bits| 63 - bits.leading_zeros()));
            }
            number >>= BITS;
        }
        None
    }

    /// The first block from that of `address` on in which a request began.
    #[inline]
    pub fn from(&self, address: u64) -> Option<u64> {
        let mut number = address >> self.grain_power;
        let mut later = u64::MAX;
        for level in 0..LEVELS {
            let bits = self.node(level, number >> BITS) & (later << (number % 64));
            if bits != 0 {
                let at = number >> BITS << BITS | u64::from(bits.trailing_zeros());
                return Some(self.descend(level, at, u64::trailing_zeros));
            }
            // Above it must be another node.
            later = u64::MAX << 1;
            number >>= BITS;
        }
        None
    }

    /// The first byte of the block under a bit of a level.
    #[inline]
    fn descend(&self, level: u32, number: u64, choose: impl Fn(u64) -> u32) -> u64 {
        let number = (0..level).rev().fold(number, |number, level| {
            number << BITS | u64::from(choose(self.node(level, number)) & 63)
        });
        number << self.grain_power
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_nearest_are_found() {
        let (mut starts, mut expected, mut state) = (Starts::new(1024), BTreeSet::new(), 1u64);
        let mut next = |bits: u32| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state >> (64 - bits)
        };
        for round in 0..2000 {
            let address = next([20, 30, 48, 60][round % 4]);
            starts.insert(address);
            expected.insert(address / 1024);
            let asked = next([21, 31, 49, 61][round / 4 % 4]);
            let block = asked / 1024;
            let below = expected.range(..block).next_back().map(|block| block * 1024);
            let from = expected.range(block..).next().map(|block| block * 1024);
            assert_eq!((starts.below(asked), starts.from(asked)), (below, from));
        }
        assert_eq!(starts.count(), expected.len());
    }
}
