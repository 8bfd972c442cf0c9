//! S3-FIFO: three first-in-first-out queues (Yang, Zhang, Qiu, Yue and Rashmi, SOSP 2023).
//!
//! New blocks enter a small queue with a tenth of the frames. Blocks that are used again before
//! they leave it move to the main queue. All others are evicted, but their keys are remembered, and
//! if they return soon, they enter the main queue directly. The main queue gives a block another
//! round for each use, up to three.
//!
//! Two rules follow the authors' simulator rather than the paper: a block needs two uses in the
//! small queue to move to the main queue; and until the first eviction, new blocks go directly to
//! the main queue when the small one is full.

use super::frames::{Frames, List};
use super::{Cache, Frame, Inserted};

/// The number of uses in the small queue that promote a block.
const PROMOTING_USES: u8 = 2;
/// The maximum number of uses that are counted.
const USES_MAX: u8 = 3;

#[derive(Clone, Copy, Debug, Default)]
struct State {
    uses: u8,
    in_main: bool,
}

/// A cache of three FIFO queues.
#[derive(Clone, Debug)]
pub struct S3Fifo {
    frames: Frames,
    states: Vec<State>,
    small: List,
    main: List,
    small_max: u32,
    main_max: u32,
    ghosts: Ghosts,
    has_evicted: bool,
}

impl S3Fifo {
    /// Creates a cache of `capacity` blocks, at least one.
    pub fn new(capacity: u32) -> S3Fifo {
        let capacity = capacity.max(1);
        let small_max = capacity / 10;
        S3Fifo {
            frames: Frames::new(capacity),
            states: Vec::new(),
            small: List::default(),
            main: List::default(),
            small_max,
            main_max: capacity - small_max,
            ghosts: Ghosts::new((u64::from(capacity) * 9 / 10) as usize),
            has_evicted: false,
        }
    }

    /// Frees a frame and returns the key of its block.
    fn evict(&mut self) -> Option<u64> {
        let from_main = self.main.len() > self.main_max || self.small.len() == 0;
        let evicted = if from_main { None } else { self.evict_small() };
        evicted.or_else(|| self.evict_main())
    }

    /// Evicts the oldest block of the small queue that should not be promoted; returns `None` if
    /// all should.
    fn evict_small(&mut self) -> Option<u64> {
        while let Some(frame) = self.frames.oldest(&self.small) {
            if self.states[frame as usize].uses < PROMOTING_USES {
                let key = self.frames.drop(frame, &mut self.small);
                self.ghosts.add(key);
                return Some(key);
            }
            self.frames.unlink(frame, &mut self.small);
            self.frames.push(frame, &mut self.main);
            self.states[frame as usize] = State { uses: 0, in_main: true };
        }
        None
    }

    fn evict_main(&mut self) -> Option<u64> {
        while let Some(frame) = self.frames.oldest(&self.main) {
            let state = &mut self.states[frame as usize];
            if state.uses == 0 {
                return Some(self.frames.drop(frame, &mut self.main));
            }
            state.uses -= 1;
            self.frames.renew(frame, &mut self.main);
        }
        None
    }
}

impl Cache for S3Fifo {
    fn capacity(&self) -> u32 {
        self.frames.capacity()
    }

    #[inline]
    fn get(&mut self, key: u64) -> Option<Frame> {
        let frame = self.frames.find(key)?;
        let state = &mut self.states[frame as usize];
        state.uses = (state.uses + 1).min(USES_MAX);
        Some(frame)
    }

    fn peek(&self, key: u64) -> Option<Frame> {
        self.frames.find(key)
    }

    fn insert(&mut self, key: u64) -> Inserted {
        let known = self.ghosts.take(key);
        let evicted = if self.frames.room() { None } else { self.evict() };
        self.has_evicted |= evicted.is_some();
        let small_is_full = !self.has_evicted && self.small.len() >= self.small_max;
        let in_main = known || small_is_full;
        let list = if in_main { &mut self.main } else { &mut self.small };
        let frame = self.frames.add(key, list);
        if self.states.len() <= frame as usize {
            self.states.resize(frame as usize + 1, State::default());
        }
        self.states[frame as usize] = State { uses: 0, in_main };
        Inserted { frame, evicted }
    }

    fn remove(&mut self, key: u64) -> Option<Frame> {
        let frame = self.frames.find(key)?;
        let in_main = self.states[frame as usize].in_main;
        self.frames.drop(frame, if in_main { &mut self.main } else { &mut self.small });
        Some(frame)
    }
}

/// The keys of the last `max` blocks that left the small queue.
#[derive(Clone, Debug)]
struct Ghosts {
    frames: Frames,
    order: List,
}

impl Ghosts {
    fn new(max: usize) -> Ghosts {
        Ghosts { frames: Frames::new(max as u32), order: List::default() }
    }

    fn add(&mut self, key: u64) {
        if self.frames.capacity() == 0 {
            return;
        }
        if !self.frames.room()
            && let Some(oldest) = self.frames.oldest(&self.order)
        {
            self.frames.drop(oldest, &mut self.order);
        }
        self.frames.add(key, &mut self.order);
    }

    /// Removes a key and returns whether it was remembered.
    fn take(&mut self, key: u64) -> bool {
        let found = self.frames.find(key);
        if let Some(frame) = found {
            self.frames.drop(frame, &mut self.order);
        }
        found.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_used_twice_are_promoted_and_ghosts_come_back_to_the_main_queue() {
        let mut cache = S3Fifo::new(10);
        // One key goes to the small queue; for the other nine, the small queue is full before the
        // first eviction.
        (0..10).for_each(|key| assert!(!cache.access(key)));
        assert_eq!((cache.small.len(), cache.main.len()), (1, 9));
        // The small queue's only block was not used again, so it is evicted and remembered.
        assert_eq!(cache.insert(10).evicted, Some(0));
        assert!((0..2).all(|_| cache.access(10)));
        // Block 10 is promoted, which empties the small queue, so the main queue evicts its oldest
        // block.
        assert_eq!(cache.insert(11).evicted, Some(1));
        assert_eq!((cache.small.len(), cache.main.len()), (1, 9));
        // Block 0 was remembered, so it goes to the main queue.
        cache.insert(0);
        assert!(cache.states[cache.peek(0).unwrap() as usize].in_main);
    }

    #[test]
    fn used_blocks_of_the_main_queue_get_another_round_for_each_use() {
        let mut cache = S3Fifo::new(10);
        (0..10).for_each(|key| assert!(!cache.access(key)));
        (0..5).for_each(|_| assert!(cache.access(1)));
        assert_eq!(cache.states[cache.peek(1).unwrap() as usize].uses, USES_MAX);
        assert_eq!(cache.evict_main(), Some(2));
        assert_eq!(cache.states[cache.peek(1).unwrap() as usize].uses, USES_MAX - 1);
    }

    #[test]
    fn a_removed_block_is_forgotten() {
        let mut cache = S3Fifo::new(10);
        (0..5).for_each(|key| assert!(!cache.access(key)));
        let frame = cache.remove(3);
        assert!(frame.is_some() && cache.peek(3).is_none() && cache.remove(3).is_none());
        assert_eq!(Some(cache.insert(99).frame), frame);
    }
}
