//! noop: first in, first out, with merging.
//!
//! Source: Linux `noop-iosched`; the **bid** paper, section "Issues with current I/O schedulers".

use super::block::Elevator;
use super::limits::Limits;
use super::queue::{List, Queue, QueuedId};
use super::scheduler::{ElevatorVisitor, Scheduler};
use crate::contract::{Given, Listed, Nanos, Origin, Request, SpecError};

impl Scheduler for Noop {
    const LISTED: Listed = Listed {
        name: "noop",
        origin: Origin::LinuxBefore5,
        summary: "first in, first out, merging adjacent requests",
        parameters: &[],
    };

    fn visit<V: ElevatorVisitor>(_given: &Given<'_>, visitor: V) -> Result<V::Out, SpecError> {
        Ok(visitor.visit(Noop::default()))
    }

    fn limits(_given: &Given<'_>, limits: Limits) -> Result<Limits, SpecError> {
        Ok(limits.legacy())
    }
}

/// The noop elevator: first in, first out.
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
