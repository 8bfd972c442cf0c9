//! What another disk knows of a disk, so that where one is lost nothing older is answered than what it had.
//!
//! Of every segment another disk has the description and a copy of the filter, of every log that it has begun; both
//! from before they decide anything. Which disk that is changes from one to the next: an idle one, so
//! that no disk does two things at a time.

use std::rc::Rc;

use crate::frame::pad;
use crate::operation::Trouble;
use crate::root::{Begun, Change};
use crate::segment::put_filter;

use super::Engine;
use super::log::Log;
use super::version::{Copy, Segment};

impl Engine {
    /// The disk that is to know of another: an idle one with most room, else one that is not on duty. None where no
    /// other takes writes. Of all where that other is none of them.
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

    /// Has another disk know of a log before anything in it is answered.
    pub(super) fn announce(self: &Rc<Self>, log: &Rc<Log>) {
        let (engine, log) = (Rc::clone(self), Rc::clone(log));
        self.executor.spawn(async move {
            while let Some(disk) = engine.neighbour(log.disk) {
                let (disk_of_log, at) = (log.disk as u16, engine.wall_ns());
                let begun = vec![Begun { log: log.id, disk: disk_of_log, at }];
                let said = engine.change_root(disk, Change { begun, ..Change::default() }).await;
                // One whose write failed is left alone from then on; one without room for a root is of no use.
                if said.is_ok() || said == Err(Trouble::Full) {
                    break;
                }
            }
            log.is_announced.set(true);
            drop(log);
            engine.changed.notify();
        });
    }

    /// The segment, if a disk's root says that it has a copy which it has not.
    fn stale(&self, disk: usize, segment: &Segment) -> Vec<u64> {
        let id = segment.described.id;
        let is_stale = self.state.borrow().stale_copies.contains(&(disk, id));
        Vec::from_iter(is_stale.then_some(id))
    }

    /// Gives a segment, which its disk's root has, a copy of its filter on another disk, whose root says so once this
    /// has ended. Without any other disk that takes writes it stays without. Where it fails the segment is kept.
    pub(super) async fn copy(&self, segment: &Segment) -> Result<(), Trouble> {
        let Some(disk) = self.neighbour(segment.disk) else { return Ok(()) };
        let mut bytes = Vec::new();
        put_filter(&mut bytes, &segment.filter, self.store, segment.described.id);
        pad(&mut bytes);
        let len = bytes.len() as u64;
        let space = &self.disks[disk].space;
        let taken = space.borrow_mut().take(len);
        let Some(offset) = taken else {
            segment.keep();
            return Err(Trouble::Full);
        };
        let copy = Copy { disk, offset, len };
        segment.has_copy(copy, space);
        // In place of one whose bytes are somebody else's by now.
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
