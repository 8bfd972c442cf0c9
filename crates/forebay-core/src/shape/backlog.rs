//! The requests in a shaper: waiting by class, outstanding at the device, and their dependencies.
//!
//! Invariant: the queue of a class is in order of arrival, so its first request is the oldest.

use std::collections::VecDeque;

use super::overlap::Overlaps;
use super::pace::Moment;
use super::pending::{Pending, Preflush};
use crate::contract::{Bytes, Flags, Lane, Nanos, Op, Outcome, Piece, Request, worst};
use crate::slab::Slab;

/// The requests in a shaper.
#[derive(Clone, Debug)]
pub struct Backlog {
    queues: Vec<VecDeque<u32>>,
    pending: Slab<Pending>,
    overlaps: Option<Overlaps>,
    at_device: Vec<u32>,
    arrived: u64,
    last_class: usize,
}

impl Backlog {
    pub(super) fn new(dependencies: bool, classes: usize) -> Backlog {
        Backlog {
            queues: vec![VecDeque::new(); classes],
            pending: Slab::default(),
            overlaps: dependencies.then(Overlaps::new),
            at_device: Vec::new(),
            arrived: 0,
            last_class: classes.saturating_sub(1),
        }
    }

    /// Returns whether no request is waiting or outstanding.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    /// Returns the number of waiting requests of `class`.
    #[inline]
    pub fn waiting(&self, class: usize) -> usize {
        self.queues.get(class).map_or(0, VecDeque::len)
    }

    /// Returns when the next request of `class` arrived at the shaper.
    #[inline]
    pub fn first_arrival(&self, class: usize) -> Option<Nanos> {
        let key = self.queues.get(class)?.front()?;
        Some(self.pending[*key].admitted)
    }

    /// Like [`Backlog::first_arrival`], but returns the time on the clock that counts rates.
    #[inline]
    pub fn first_paced(&self, class: usize) -> Option<Nanos> {
        let key = self.queues.get(class)?.front()?;
        Some(self.pending[*key].paced)
    }

    /// Returns whether the first request of `class` may be started or continued.
    #[inline]
    pub fn is_ready(&self, class: usize) -> bool {
        let first = self.queues.get(class).and_then(VecDeque::front);
        first.is_some_and(|key| {
            let is_held = self.pending[*key].follows && self.is_held(*key);
            !is_held && !self.is_flushing(*key)
        })
    }

    /// Returns the operation of the next I/O of `class`, and how many bytes of its request have not
    /// been sent.
    #[inline]
    pub(super) fn first_left(&self, class: usize) -> Option<(Op, u32)> {
        let pending = &self.pending[*self.queues.get(class)?.front()?];
        let Request { op, len, .. } = pending.request;
        Some(match pending.preflush {
            Preflush::Due => (Op::Flush, 0),
            _ => (op, len - pending.sent_bytes),
        })
    }

    /// Returns the next part of the first request of `class`, and its key. The request leaves its
    /// queue with its last part.
    #[inline]
    pub(super) fn send_first(&mut self, class: usize, len_max: u32) -> Option<(Request, u32)> {
        let key = *self.queues.get(class)?.front()?;
        let (part, is_last) = self.send_part(key, len_max, true);
        if is_last {
            self.take(class);
        }
        Some((part, key))
    }

    /// Returns the requests that are waiting or outstanding.
    pub(super) fn unanswered(&self) -> impl Iterator<Item = &Pending> {
        self.queues.iter().flatten().chain(&self.at_device).map(|key| &self.pending[*key])
    }

    /// Returns whether an earlier unfinished request must complete before `key` starts.
    fn is_held(&self, key: u32) -> bool {
        let held = &self.pending[key];
        let Some(overlaps) = &self.overlaps else { return false };
        if !Overlaps::is_wide(&held.request) {
            return overlaps.is_after_any(held, &self.pending);
        }
        let firsts = self.queues.iter().filter_map(VecDeque::front);
        firsts.chain(&self.at_device).any(|other| self.pending[*other].number < held.number)
    }

    /// Returns the highest class of the unfinished requests that `request` must wait for.
    #[inline]
    pub(super) fn least_class(&self, request: &Request) -> Option<usize> {
        let overlaps = self.overlaps.as_ref()?;
        if Overlaps::is_wide(request) {
            let waiting = self.queues.iter().rposition(|queue| !queue.is_empty());
            return waiting.max(self.at_device.iter().map(|key| self.pending[*key].class).max());
        }
        overlaps.highest_class(request, &self.pending, self.last_class)
    }

    pub(super) fn push(
        &mut self,
        at: Moment,
        (request, bytes): (Request, Bytes),
        class: usize,
        follows: bool,
    ) {
        let number = self.arrived;
        let key = self.pending.insert(Pending::new(at, (request, bytes), class, number, follows));
        self.arrived += 1;
        if class >= self.queues.len() {
            self.queues.resize_with(class + 1, VecDeque::new);
        }
        self.queues[class].push_back(key);
        if let Some(overlaps) = &mut self.overlaps {
            overlaps.insert(key, &request);
        }
    }

    /// Moves the first request of `class`, which must exist, to the class `to`, as if it arrived
    /// now. No request may wait in `to`, because its queue is in order of arrival.
    pub(super) fn promote(&mut self, at: Moment, class: usize, to: usize) {
        let key = self.queues[class].pop_front().unwrap_or_default();
        let pending = &mut self.pending[key];
        (pending.class, pending.admitted, pending.paced) = (to, at.now, at.paced);
        self.queues[to].push_back(key);
    }

    /// Removes the first request of `class`, which must exist, from its queue.
    #[inline]
    pub(super) fn take(&mut self, class: usize) -> u32 {
        debug_assert!(self.is_ready(class), "class {class} has nothing to start");
        let key = self.queues[class].pop_front().unwrap_or_default();
        self.at_device.push(key);
        key
    }

    /// Returns whether the rest of `key` has to wait for its preflush.
    #[inline]
    pub(super) fn is_flushing(&self, key: u32) -> bool {
        self.pending[key].preflush == Preflush::UnderWay
    }

    /// Returns the next part of `key`, and whether it is the last.
    #[inline]
    pub(super) fn send(&mut self, key: u32, len_max: u32) -> (Request, bool) {
        self.send_part(key, len_max, false)
    }

    /// Like [`Backlog::send`], but also splits trims if `cuts_trims` is set.
    fn send_part(&mut self, key: u32, len_max: u32, cuts_trims: bool) -> (Request, bool) {
        let pending = &mut self.pending[key];
        pending.parts += 1;
        pending.parts_sent = (pending.parts_sent + 1) & 0x3FFF_FFFF;
        let whole = pending.request;
        if pending.preflush == Preflush::Due {
            pending.preflush = Preflush::UnderWay;
            let flush = Request { op: Op::Flush, offset: 0, len: 0, flags: Flags::NONE, ..whole };
            return (flush, false);
        }
        let left = whole.len - pending.sent_bytes;
        let is_cut = whole.op.moves_data() || cuts_trims && whole.op == Op::Trim;
        let len = if is_cut { left.min(len_max.max(1)) } else { left };
        let offset = whole.offset.saturating_add(u64::from(pending.sent_bytes));
        pending.sent_bytes += len;
        pending.is_sent = len == left;
        let flags = Flags(whole.flags.0 & !Flags::PREFLUSH.0);
        (Request { offset, len, flags, ..whole }, pending.is_sent)
    }

    /// Returns the number of the last part of `key` that was sent.
    #[inline]
    pub(super) fn parts_sent(&self, key: u32) -> u32 {
        self.pending[key].parts_sent
    }

    /// Returns the memory of a part of `key`.
    pub(super) fn piece(&self, key: u32, part: &Request) -> Piece {
        let pending = &self.pending[key];
        pending.bytes.on((part.offset - pending.request.offset) as u32).len(part.len)
    }

    /// Returns the lane to which `key` was submitted.
    pub(super) fn lane(&self, key: u32) -> Lane {
        self.pending[key].request.lane
    }

    /// Records that a part of `key` has completed. Returns the request if this was its last part.
    #[inline]
    pub(super) fn part_done(&mut self, key: u32, outcome: Outcome) -> Option<Pending> {
        let pending = &mut self.pending[key];
        pending.parts -= 1;
        pending.outcome = worst(pending.outcome, outcome);
        if pending.preflush == Preflush::UnderWay {
            pending.preflush = Preflush::None;
            // If the preflush failed, the write must not be started.
            pending.is_sent = outcome.is_err();
            if pending.is_sent {
                let class = pending.class;
                self.queues[class].retain(|other| *other != key);
            }
        }
        if self.pending[key].parts > 0 || !self.pending[key].is_sent {
            return None;
        }
        let whole = self.pending.remove(key);
        self.at_device.retain(|other| *other != key);
        if let Some(overlaps) = &mut self.overlaps {
            overlaps.remove(key, &whole.request);
        }
        Some(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Fault;

    #[test]
    fn a_write_follows_its_preflush_in_parts_and_not_one_that_failed() {
        let (at, id, stream, lane) = (Nanos::ZERO, 0, 0, 0);
        let flags = Flags::PREFLUSH.with(Flags::FUA);
        let write = Request { at, offset: 4096, id, len: 12, stream, lane, op: Op::Write, flags };
        let mut backlog = Backlog::new(true, 1);
        let begin = |backlog: &mut Backlog| {
            backlog.push(Moment::plain(at), (write, Bytes { buf: 3, at: 100 }), 0, false);
            let key = backlog.take(0);
            let (flush, is_last) = backlog.send(key, 8);
            assert_eq!(
                (flush.op, flush.len, flush.flags, is_last),
                (Op::Flush, 0, Flags::NONE, false)
            );
            assert!(backlog.is_flushing(key));
            key
        };
        let key = begin(&mut backlog);
        assert!(backlog.part_done(key, Ok(())).is_none() && !backlog.is_flushing(key));
        for (offset, len, first, is_last) in [(4096, 8, 100, false), (4104, 4, 108, true)] {
            let (part, last) = backlog.send(key, 8);
            assert_eq!((part.offset, part.len, part.flags), (offset, len, Flags::FUA));
            assert_eq!(
                (backlog.piece(key, &part), last),
                (Piece { buf: 3, at: first, len }, is_last)
            );
        }
        let media = Err(Fault::Media);
        assert!(backlog.part_done(key, media).is_none());
        let whole = backlog.part_done(key, Ok(())).expect("that was all of it");
        assert_eq!((whole.request, whole.outcome), (write, media));
        let key = begin(&mut backlog);
        let whole = backlog.part_done(key, media).expect("nothing follows");
        assert_eq!((whole.outcome, backlog.is_idle()), (media, true));
    }
}
