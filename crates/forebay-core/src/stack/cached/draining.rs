//! Draining a write-back cache, so that its flash can be removed: the disk receives all dirty
//! blocks, and no block is cached any longer.
//!
//! One pass over the frames evicts the blocks that were dirty when draining began, a few at a time.
//! Blocks that are written later are evicted at once, and leave when the write has completed.

use super::Cached;
use crate::cache::{Cache, Frame};
use crate::stack::placed::Plan;

/// The number of blocks that are written back at the same time.
const AT_ONCE: usize = 8;

impl<C: Cache> Cached<C> {
    /// Continues draining, if it was ordered.
    pub(super) fn drain_on(&mut self, plan: &mut Plan<'_>) {
        let is_open = self.survival.as_ref().is_none_or(|survival| survival.log.is_open());
        let Some(mut frame) = self.draining.filter(|_| is_open) else { return };
        while (frame as usize) < self.held.len() && self.blocks_leaving() < AT_ONCE {
            self.evict(frame, plan);
            frame += 1;
        }
        self.draining = Some(frame);
        if frame as usize == self.held.len() && self.blocks_leaving() == 0 {
            self.free_retired(plan);
        }
    }

    /// Evicts the block in `frame` if it is dirty.
    pub(super) fn evict(&mut self, frame: Frame, plan: &mut Plan<'_>) {
        let held = self.held[frame as usize];
        if !held.dirty {
            return;
        }
        let key = self.pending[held.at as usize].key;
        // The frame may have been freed, and its last flash block may be used by another frame.
        if self.cache.peek(key) == Some(frame) {
            self.cache.remove(key);
            self.held[frame as usize].dirty = false;
            self.let_go(key, held, plan);
        }
    }

    /// Returns the number of evicted blocks that are not on the disk.
    fn blocks_leaving(&self) -> usize {
        self.leaving.iter().filter(|leaving| !leaving.copied).count()
    }
}
