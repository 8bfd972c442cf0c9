//! noop: first in, first out, with merging.
//!
//! Source: Linux `noop-iosched`; the **bid** paper, section "Issues with current I/O schedulers".

use super::block::Elevator;
use super::queue::{List, Queue, QueuedId};
use crate::contract::request::Request;
use crate::contract::time::Nanos;

/// First in, first out.
#[derive(Clone, Debug, Default)]
pub struct Noop {
    list: List,
}

impl Elevator for Noop {
    #[inline]
    fn scope(&self, _bio: &Request) -> u32 {
        0
    }

    #[inline]
    fn add(&mut self, _now: Nanos, id: QueuedId, queue: &mut Queue) {
        queue.push(&mut self.list, id);
    }

    #[inline]
    fn grown(&mut self, _now: Nanos, _id: QueuedId, _offset_before: u64, _queue: &mut Queue) {}

    fn join(&mut self, _now: Nanos, _kept: QueuedId, gone: QueuedId, queue: &mut Queue) {
        queue.unlink(&mut self.list, gone);
    }

    #[inline]
    fn take(&mut self, _now: Nanos, queue: &mut Queue) -> Option<QueuedId> {
        let id = self.list.front()?;
        queue.unlink(&mut self.list, id);
        Some(id)
    }
}
