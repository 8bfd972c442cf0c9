//! A reference implementation of S3-FIFO with three plain lists that are searched from end to end.

use forebay_core::cache::{Cache, S3Fifo};
use proptest::prelude::*;

/// The key of a block, and the number of its uses since it entered its queue.
type Block = (u64, u8);

/// The paper's queues, oldest first, with the two rules that its authors' simulator adds.
struct PlainS3Fifo {
    capacity: usize,
    small: Vec<Block>,
    main: Vec<Block>,
    ghosts: Vec<u64>,
    has_evicted: bool,
}

impl PlainS3Fifo {
    fn new(capacity: usize) -> PlainS3Fifo {
        let (small, main, ghosts) = Default::default();
        PlainS3Fifo { capacity, small, main, ghosts, has_evicted: false }
    }

    /// The small queue has a tenth of the frames. The ghost list holds as many keys as the main
    /// queue has frames.
    fn small_max(&self) -> usize {
        self.capacity / 10
    }

    fn ghosts_max(&self) -> usize {
        self.capacity * 9 / 10
    }

    /// Returns whether the key was cached, and the evicted key if it was not.
    fn access(&mut self, key: u64) -> (bool, Option<u64>) {
        if let Some(block) = self.small.iter_mut().chain(&mut self.main).find(|it| it.0 == key) {
            block.1 = (block.1 + 1).min(3);
            return (true, None);
        }
        let is_ghost = self.ghosts.contains(&key);
        self.ghosts.retain(|&ghost| ghost != key);
        let is_full = self.small.len() + self.main.len() == self.capacity;
        let evicted = is_full.then(|| self.evict());
        self.has_evicted |= is_full;
        let no_room = !self.has_evicted && self.small.len() >= self.small_max();
        if is_ghost || no_room { &mut self.main } else { &mut self.small }.push((key, 0));
        (false, evicted)
    }

    fn evict(&mut self) -> u64 {
        // The queue to evict from is chosen once, even if promotions then overfill the main queue.
        let from_small = self.main.len() <= self.capacity - self.small_max();
        while from_small && !self.small.is_empty() {
            let (key, uses) = self.small.remove(0);
            if uses < 2 {
                self.ghosts.push(key);
                let known = self.ghosts.len();
                self.ghosts.drain(..known.saturating_sub(self.ghosts_max()));
                return key;
            }
            self.main.push((key, 0));
        }
        loop {
            let (key, uses) = self.main.remove(0);
            if uses == 0 {
                return key;
            }
            self.main.push((key, uses - 1));
        }
    }

    fn remove(&mut self, key: u64) -> bool {
        let held = self.small.len() + self.main.len();
        self.small.retain(|it| it.0 != key);
        self.main.retain(|it| it.0 != key);
        self.small.len() + self.main.len() < held
    }
}

proptest! {
    #[test]
    fn s3fifo_keeps_what_three_lists_keep(
        capacity in 1usize..45,
        // A mix of hot blocks, warm blocks and a scan.
        keys in prop::collection::vec((prop_oneof![0u64..12, 0u64..70, 0u64..400], 0u8..40), 1..600),
    ) {
        let mut cache = S3Fifo::new(capacity as u32);
        let mut plain = PlainS3Fifo::new(capacity);
        prop_assert_eq!(cache.capacity() as usize, capacity);
        for (key, kind) in keys {
            if kind == 0 {
                prop_assert_eq!(cache.remove(key).is_some(), plain.remove(key));
                continue;
            }
            let held = cache.get(key).is_some();
            let evicted = if held { None } else { cache.insert(key).evicted };
            prop_assert_eq!((held, evicted), plain.access(key));
            prop_assert!(cache.peek(key).is_some());
        }
    }
}
