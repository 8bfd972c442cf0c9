//! Tiering by address: writes that are far from most queued requests go to the flash.
//!
//! Source: the approach that the **bid** paper argues against (section "Initial tier placement"),
//! which measures randomness as the deviation of an address from the largest group of queued
//! requests. It mistakes a sequential process with few queued requests for a random one.
//!
//! A group consists of the requests within a range that is as long as the deviation. A write is
//! judged when it enters the queue: it goes to the flash if its distance from the start of the
//! largest group exceeds the deviation. All other requests are served first in, first out.

use std::collections::VecDeque;

use super::{Elevator, List, Queue, QueuedId};
use crate::contract::{Nanos, Op, Request};

/// A flag in a request's mark that means that the request goes to the flash. The rest of the mark
/// is the request's group.
const FLASH: u32 = 1 << 31;

/// The queued requests within one range of addresses.
#[derive(Clone, Copy, Debug)]
struct Group {
    mark: u32,
    offset: u64,
    count: u32,
}

/// The elevator that tiers by address.
#[derive(Clone, Debug)]
pub(crate) struct TierLba {
    deviation_bytes: u64,
    fifo: List,
    diverted: VecDeque<QueuedId>,
    groups: Vec<Group>,
}

impl TierLba {
    pub(crate) fn new(deviation_bytes: u64) -> TierLba {
        TierLba {
            deviation_bytes: deviation_bytes.max(1),
            fifo: List::default(),
            diverted: VecDeque::new(),
            groups: Vec::new(),
        }
    }

    /// Adds a request to its group. Returns the group's mark and the start of the largest group.
    fn enter(&mut self, offset: u64) -> (u32, u64) {
        let number = offset / self.deviation_bytes;
        let mark = number as u32 & !FLASH;
        match self.groups.iter_mut().find(|group| group.mark == mark) {
            Some(group) => group.count += 1,
            None => {
                let offset = number * self.deviation_bytes;
                self.groups.push(Group { mark, offset, count: 1 });
            }
        }
        // In case of a tie, the oldest group is the largest.
        let largest = self.groups.iter().rev().max_by_key(|group| group.count);
        (mark, largest.map_or(offset, |group| group.offset))
    }

    fn leave(&mut self, mark: u32) {
        let place = self.groups.iter().position(|group| group.mark == mark & !FLASH);
        let Some(place) = place else { return };
        self.groups[place].count -= 1;
        if self.groups[place].count == 0 {
            self.groups.remove(place);
        }
    }
}

impl Elevator for TierLba {
    #[inline]
    fn scope(&self, _bio: &Request) -> u32 {
        0
    }

    fn add(&mut self, _now: Nanos, id: QueuedId, queue: &mut Queue) {
        let (mark, centre) = self.enter(queue[id].offset);
        let group = queue[id].offset / self.deviation_bytes * self.deviation_bytes;
        if queue[id].op == Op::Write && group.abs_diff(centre) > self.deviation_bytes {
            queue[id].mark = mark | FLASH;
            self.diverted.push_back(id);
        } else {
            queue[id].mark = mark;
            queue.push(&mut self.fifo, id);
        }
    }

    #[inline]
    fn grown(&mut self, _now: Nanos, _id: QueuedId, _offset_before: u64, _queue: &mut Queue) {}

    fn join(&mut self, _now: Nanos, _kept: QueuedId, gone: QueuedId, queue: &mut Queue) {
        let mark = queue[gone].mark;
        self.leave(mark);
        if mark & FLASH != 0 {
            self.diverted.retain(|&id| id != gone);
        } else {
            queue.unlink(&mut self.fifo, gone);
        }
    }

    fn divert(&mut self, _now: Nanos, queue: &mut Queue) -> Option<QueuedId> {
        let id = self.diverted.pop_front()?;
        self.leave(queue[id].mark);
        Some(id)
    }

    fn keep(&mut self, id: QueuedId, queue: &mut Queue) {
        let (mark, _) = self.enter(queue[id].offset);
        queue[id].mark = mark;
        queue.push(&mut self.fifo, id);
    }

    fn take(&mut self, _now: Nanos, queue: &mut Queue) -> Option<QueuedId> {
        let id = self.fifo.front()?;
        queue.unlink(&mut self.fifo, id);
        self.leave(queue[id].mark);
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{Bare, Flags, Policy};
    use crate::elevator::{BlockLayer, Limits};

    #[test]
    fn writes_away_from_the_crowd_are_diverted() {
        let mut layer = BlockLayer::new(TierLba::new(1 << 20), Limits::default());
        let mib = |mib: u64| mib << 20;
        let rows = [
            (Op::Write, mib(100)),
            (Op::Write, mib(100) + 8192),
            (Op::Write, mib(101)), // near the group
            (Op::Write, mib(500)), // far away
            (Op::Read, mib(700)),  // far away, but a read
            (Op::Write, mib(500) + 8192),
        ];
        for (id, (op, offset)) in rows.into_iter().enumerate() {
            let (at, len, stream, lane, flags) = (Nanos::ZERO, 4096, 0, 0, Flags::NONE);
            let id = id as u64;
            layer.submit_bare(at, Request { at, offset, id, len, stream, lane, op, flags });
        }
        let mut diverted = Vec::new();
        while let Some(io) = layer.divert(Nanos::ZERO) {
            diverted.push(io);
        }
        let offsets: Vec<u64> = diverted.iter().map(|io| io.offset).collect();
        assert_eq!(offsets, [mib(500), mib(500) + 8192]);
        // The flash has no space for one of them.
        layer.gone(&diverted[0]);
        layer.keep(&diverted[1]);
        let kept = std::iter::from_fn(|| layer.dispatch(Nanos::ZERO, 0)).map(|io| io.offset);
        let stay = [mib(100), mib(100) + 8192, mib(101), mib(700), mib(500) + 8192];
        assert_eq!(kept.collect::<Vec<_>>(), stay);
    }
}
