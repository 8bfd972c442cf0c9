//! Caches: which blocks of a slow device are on a fast one.
//!
//! A cache has a fixed number of *frames*, each for one block. It decides which block a new one
//! replaces; its owner decides where the data are and when they move, and locates them by frame.
//! Keys identify blocks and have no other meaning here.
//!
//! Invariants: a key is in at most one frame; a block stays in its frame until it is evicted or
//! removed; after the cache has been filled once, nothing allocates.

mod curve;
mod frames;
mod lru;
mod s3fifo;
mod sample;

pub use curve::{MissRatioCurve, Use};
pub use lru::Lru;
pub use s3fifo::S3Fifo;
pub use sample::Sample;

/// A place for one block.
pub type Frame = u32;

/// The effect of inserting a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inserted {
    /// The frame of the block.
    pub frame: Frame,
    /// The block that was there before.
    pub evicted: Option<u64>,
}

/// Decides which blocks a cache holds.
pub trait Cache {
    /// Blocks it can hold.
    fn capacity(&self) -> u32;

    /// Returns the frame of a block that is used now, if it is held.
    fn get(&mut self, key: u64) -> Option<Frame>;

    /// Returns the frame of a block, which is not used by asking.
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
