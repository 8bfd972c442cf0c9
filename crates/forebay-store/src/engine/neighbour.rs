//! Stores information about each disk on another disk, so that after the loss of a disk, no read
//! returns a value older than the one that the disk contained.
//!
//! For each segment, another disk stores its description and a copy of its filter; for each log,
//! the fact that it began. Both are stored before the segment or log takes effect. The other disk
//! is chosen among idle ones each time, so that no disk does two things at a time.

use std::rc::Rc;

use crate::OperationError;
use crate::frame::pad;
use crate::root::{Change, StartedLog};
use crate::segment::put_filter;

use super::Engine;
use super::log::Log;
use super::version::{Copy, Segment};

impl Engine {
    /// Chooses the disk that stores information about another disk: the idle one with the most
    /// space, or else one that is not on duty. Returns None if no other disk accepts writes.
    pub(super) fn neighbour(&self, disk: usize) -> Option<usize> {
        let state = self.state.borrow();
        let others =
            (0..self.disks.len()).filter(|other| *other != disk && !self.is_failed(&state, *other));
        others.max_by_key(|other| {
            let is_on_duty = state.is_on_duty && state.duty == *other;
            let free = self.disks[*other].space.borrow().free_bytes();
            (state.is_idle(*other), !is_on_duty, free)
        })
    }

    /// Records a log on another disk before any put in it is acknowledged.
    pub(super) fn announce(self: &Rc<Self>, log: &Rc<Log>) {
        let (engine, log) = (Rc::clone(self), Rc::clone(log));
        self.executor.spawn(async move {
            while let Some(disk) = engine.neighbour(log.disk) {
                let (disk_of_log, at) = (log.disk as u16, engine.wall_ns());
                let begun = vec![StartedLog { log: log.id, disk: disk_of_log, at }];
                let said = engine.change_root(disk, Change { begun, ..Change::default() }).await;
                // A disk whose write failed is left alone from then on, so another disk is tried.
                // Retrying is useless if the disk has no space for a root.
                if said.is_ok() || said == Err(OperationError::Full) {
                    break;
                }
            }
            log.is_announced.set(true);
            drop(log);
            engine.changed.notify();
        });
    }

    /// Returns the segment's id if a disk's root lists a copy of its filter that no longer exists.
    fn stale(&self, disk: usize, segment: &Segment) -> Vec<u64> {
        let id = segment.described.id;
        let is_stale = self.state.borrow().stale_copies.contains(&(disk, id));
        Vec::from_iter(is_stale.then_some(id))
    }

    /// Copies a segment's filter to another disk. The segment must already be listed in its own
    /// disk's root; the copy is listed in the other disk's root when this returns. If no other disk
    /// accepts writes, no copy is made. If copying fails, the space of the copy stays allocated.
    pub(super) async fn copy(&self, segment: &Segment) -> Result<(), OperationError> {
        let Some(disk) = self.neighbour(segment.disk) else { return Ok(()) };
        let mut bytes = Vec::new();
        put_filter(&mut bytes, &segment.filter, self.store, segment.described.id);
        pad(&mut bytes);
        let len = bytes.len() as u64;
        let space = &self.disks[disk].space;
        let taken = space.borrow_mut().take(len);
        let Some(offset) = taken else {
            segment.keep();
            return Err(OperationError::Full);
        };
        let copy = Copy { disk, offset, len };
        segment.has_copy(copy, space);
        // Replaces the entry of a copy whose space has been reused.
        let (added, removed) = (vec![segment.copied_entry(&copy)], self.stale(disk, segment));
        let change = Change { added, removed, ..Change::default() };
        let said = match self.write(disk, offset, bytes, true).await {
            Ok(()) => self.change_root(disk, change).await,
            failed => failed,
        };
        if said.is_err() {
            segment.keep();
        }
        said
    }
}
