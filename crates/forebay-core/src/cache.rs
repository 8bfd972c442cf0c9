//! Caches: they determine which blocks of a slow device are also stored on a fast one.
//!
//! A cache has a fixed number of *frames*, each for one block. It decides which block a new block
//! replaces. Its owner decides where frames are stored and when data moves. Keys identify blocks
//! and have no other meaning here.
//!
//! Invariants: a key is in at most one frame; a block stays in its frame until it is evicted or
//! removed; once the cache has been full, nothing allocates.

mod curve;
mod frames;
mod lru;
mod s3fifo;
mod sample;

pub use curve::{MissRatioCurve, Use};
pub use lru::Lru;
pub use s3fifo::S3Fifo;
pub use sample::Sample;

/// The number of a frame, which stores one block.
pub type Frame = u32;

/// The effect of inserting a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inserted {
    /// The frame of the block.
    pub frame: Frame,
    /// The block that the frame contained before.
    pub evicted: Option<u64>,
}

/// Decides which blocks a cache holds.
pub trait Cache {
    /// Returns the maximum number of cached blocks.
    fn capacity(&self) -> u32;

    /// Returns the frame of a block if it is cached, and counts this as a use.
    fn get(&mut self, key: u64) -> Option<Frame>;

    /// Returns the frame of a block if it is cached, without counting this as a use.
    fn peek(&self, key: u64) -> Option<Frame>;

    /// Inserts a block that is not cached, after [`Cache::get`] has missed it.
    fn insert(&mut self, key: u64) -> Inserted;

    /// Removes a block and returns its frame.
    fn remove(&mut self, key: u64) -> Option<Frame>;

    /// Uses a block and inserts it on a miss; returns whether it was a hit.
    #[inline]
    fn access(&mut self, key: u64) -> bool {
        let hit = self.get(key).is_some();
        if !hit {
            self.insert(key);
        }
        hit
    }
}
