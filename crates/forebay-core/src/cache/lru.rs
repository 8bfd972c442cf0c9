//! LRU: evicts the least recently used block.

use super::frames::{Frames, List};
use super::{Cache, Frame, Inserted};

/// A cache that evicts the least recently used block.
#[derive(Clone, Debug)]
pub struct Lru {
    frames: Frames,
    order: List,
}

impl Lru {
    /// Creates a cache of `capacity` blocks, at least one.
    pub fn new(capacity: u32) -> Lru {
        Lru { frames: Frames::new(capacity.max(1)), order: List::default() }
    }
}

impl Cache for Lru {
    fn capacity(&self) -> u32 {
        self.frames.capacity()
    }

    #[inline]
    fn get(&mut self, key: u64) -> Option<Frame> {
        let frame = self.frames.find(key)?;
        self.frames.renew(frame, &mut self.order);
        Some(frame)
    }

    fn peek(&self, key: u64) -> Option<Frame> {
        self.frames.find(key)
    }

    #[inline]
    fn insert(&mut self, key: u64) -> Inserted {
        let oldest = if self.frames.room() { None } else { self.frames.oldest(&self.order) };
        let evicted = oldest.map(|frame| self.frames.drop(frame, &mut self.order));
        Inserted { frame: self.frames.add(key, &mut self.order), evicted }
    }

    fn remove(&mut self, key: u64) -> Option<Frame> {
        let frame = self.frames.find(key)?;
        self.frames.drop(frame, &mut self.order);
        Some(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_block_is_evicted() {
        let mut cache = Lru::new(2);
        assert_eq!(cache.insert(7), Inserted { frame: 0, evicted: None });
        assert_eq!(cache.insert(8), Inserted { frame: 1, evicted: None });
        assert_eq!(cache.get(7), Some(0));
        assert_eq!(cache.insert(9), Inserted { frame: 1, evicted: Some(8) });
        assert_eq!((cache.peek(7), cache.peek(8), cache.peek(9)), (Some(0), None, Some(1)));
        // Peeking does not count as a use.
        assert_eq!(cache.insert(1).evicted, Some(7));
    }

    #[test]
    fn a_removed_block_leaves_its_frame() {
        let mut cache = Lru::new(2);
        cache.insert(7);
        cache.insert(8);
        assert_eq!((cache.remove(7), cache.remove(7)), (Some(0), None));
        assert_eq!(cache.insert(9), Inserted { frame: 0, evicted: None });
    }
}
