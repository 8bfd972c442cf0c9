//! Early queue merge: streams whose requests are close together share a queue, which serves their
//! requests in address order without waiting for each stream in turn.
//!
//! If a stream's request is close to the position of the disk, or to the next request of another
//! queue, the stream moves to that queue with this request. Its earlier requests stay in its own
//! queue. A queue can be joined only within 100 ms of its first dispatched request; later streams
//! remain separate. If a shared queue begins to seek, its streams separate again, each with its
//! next request.
//!
//! Streams that begin within [`BURST_GAP`] of each other are considered one task. Unless they prove
//! to be sequential, all of them eventually use the first one's queue and stay there.
//!
//! Invariant: when a stream moves to another queue, its own queue has no streams left. No stream
//! joins a queue without streams, so a stream's own queue is free when it returns. If a stream ends
//! while others use its queue, the queue becomes that of one of them.

use super::raise::{BURST_GAP, Raised};
use super::service::Ended;
use super::{ASYNC, Bfq};
use crate::contract::{Nanos, Request};
use crate::elevator::queue::Queue;

/// Requests at most this many bytes apart (8192 sectors) are close.
const CLOSE_BYTES: u64 = 8192 * 512;
/// Queues that have been served for longer than this no longer cooperate.
const TOO_LATE: Nanos = Nanos::from_millis(100);
/// A stream that begins within this time of the eldest is compared with it; a later one becomes the
/// new eldest.
const FAMILY_GAP: Nanos = Nanos::from_millis(600);
/// How long a stream is observed before it may join its sibling, in case it does better alone.
const FAMILY_AFTER: Nanos = Nanos::from_millis(600);

impl Bfq {
    /// Returns the queue for a synchronous request: that of its stream, one that the stream shares,
    /// or one that it should share from now on.
    #[inline]
    pub(super) fn queue_of(&self, bio: &Request) -> u32 {
        let known = self.streams.get(bio.stream as usize);
        let own = known.map_or(bio.stream + 1, |known| known.own);
        let now = self.now.max(bio.at);
        let place = known.and_then(|known| known.queue).unwrap_or(own);
        let Some(queue) = self.queues.get(place as usize) else {
            return self.partner(now, own, bio.offset).unwrap_or(own);
        };
        match self.family(now, place) {
            _ if place != own && queue.splitting && !queue.is_family => own,
            Some(family) => family,
            None => self.partner(now, place, bio.offset).unwrap_or(place),
        }
    }

    /// Makes `stream` use queue `place`, the result of [`Bfq::queue_of`].
    #[inline]
    pub(super) fn attach(&mut self, now: Nanos, stream: u32, place: u32) {
        self.know(stream);
        let own = self.streams[stream as usize].own;
        if self.queues[own as usize].created.is_none() {
            self.begin_queue(now, own);
        }
        let before = self.streams[stream as usize].queue.replace(place);
        if before == Some(place) {
            return self.forget_sibling(now, place);
        }
        if let Some(before) = before {
            self.leave(before);
        }
        self.queue(place).streams += 1;
        match before {
            _ if place != own => self.merge(own, place),
            Some(_) => self.come_back(now, place),
            None => {}
        }
    }

    /// Records that a stream no longer uses queue `place`.
    fn leave(&mut self, place: u32) {
        let queue = self.queue(place);
        queue.streams -= 1;
        if queue.streams == 1 {
            queue.splitting = false;
        }
    }

    /// Forgets `stream`, whose number is assigned to a new submitter, unless it has requests.
    pub(super) fn forget(&mut self, stream: u32, queue: &Queue) {
        let known = self.streams.get_mut(stream as usize).filter(|known| known.requests == 0);
        let Some(known) = known else { return };
        let (used, mut own) = (known.queue.take(), known.own);
        if let Some(used) = used {
            self.leave(used);
        }
        if let Some(other) = self.streams.iter().position(|other| other.queue == Some(own)) {
            let others = std::mem::replace(&mut self.streams[other].own, own);
            self.streams[stream as usize].own = others;
            own = others;
        }
        if self.queues[own as usize].order.is_empty() {
            if self.active == Some(own) {
                self.end_turn(self.now, Ended::NoRequests, queue);
            }
            self.fair.renew(own);
        }
        self.queue(own).renew();
        self.queues.iter_mut().for_each(|queue| queue.forget(own));
        self.eldest = self.eldest.filter(|&(eldest, _)| eldest != own);
        self.last_ended = self.last_ended.filter(|&(last, _)| last != own);
    }

    /// Initializes the queue of a stream when its first request arrives.
    fn begin_queue(&mut self, now: Nanos, place: u32) {
        let burst = self.burst.begins(now, self.fair.busy() == 0);
        let (raised, budget) = (Raised::new(now, burst), self.budget_max.first());
        self.queue(place).begin(now, raised, budget);
        match self.eldest {
            Some((eldest, at)) if now <= at + FAMILY_GAP => {
                if now <= at + BURST_GAP {
                    self.queue(place).sibling = Some(eldest);
                }
            }
            _ => self.eldest = Some((place, now)),
        }
    }

    /// Returns the sibling queue that `place` should join, because they probably belong to one
    /// task.
    fn family(&self, now: Nanos, place: u32) -> Option<u32> {
        let queue = &self.queues[place as usize];
        let eldest = queue.sibling.filter(|_| self.is_known_well(now, place))?;
        (!self.idling_boosts(place) && self.queues[eldest as usize].streams > 0).then_some(eldest)
    }

    fn is_known_well(&self, now: Nanos, place: u32) -> bool {
        let queue = &self.queues[place as usize];
        let for_long = |since: Option<Nanos>| since.is_none_or(|at| now > at + FAMILY_AFTER);
        queue.created.is_some() && for_long(queue.created) && for_long(queue.split)
    }

    /// Removes the sibling of a queue that was observed long enough and did not join it.
    fn forget_sibling(&mut self, now: Nanos, place: u32) {
        let has_sibling = self.queues[place as usize].sibling.is_some();
        if has_sibling && self.is_known_well(now, place) && self.family(now, place).is_none() {
            self.queue(place).sibling = None;
        }
    }

    /// Moves the stream of queue `own` to the queue `place`, which inherits the raised weight.
    fn merge(&mut self, own: u32, place: u32) {
        let is_family = self.queue(own).sibling.take() == Some(place);
        let mine = self.queue(own);
        let (raised, was_io_bound) = (mine.raised, std::mem::take(&mut mine.is_io_bound));
        mine.raised_alone = Some(raised);
        mine.raised.lower();
        let shared = self.queue(place);
        shared.is_family |= is_family;
        shared.is_io_bound |= was_io_bound;
        shared.raised_alone.get_or_insert(shared.raised);
        shared.raised.inherit(&raised);
    }

    /// Returns a stream to its own queue.
    fn come_back(&mut self, now: Nanos, own: u32) {
        let queue = self.queue(own);
        queue.split = Some(now);
        if let Some(raised) = queue.raised_alone.take() {
            queue.raised = raised;
        }
    }

    /// Returns a queue that a stream, alone in queue `place`, can share for a request at `offset`.
    #[inline]
    fn partner(&self, now: Nanos, place: u32, offset: u64) -> Option<u32> {
        let may = |queue: &super::StreamQueue| {
            let too_late = queue.raised.busy_bytes > 0 && now > queue.first_given + TOO_LATE;
            !too_late && !queue.is_seeky()
        };
        let is_joined = |queue: &super::StreamQueue| queue.is_shared() || !may(queue);
        if self.fair.busy() == 1 || self.queues.get(place as usize).is_some_and(is_joined) {
            return None;
        }
        let other = self.close_queue(place, offset)?;
        let queue = &self.queues[other as usize];
        (queue.streams > 0 && !queue.splitting && may(queue)).then_some(other)
    }

    /// Returns a synchronous queue other than `place` that is, or will be, served close to
    /// `offset`.
    fn close_queue(&self, place: u32, offset: u64) -> Option<u32> {
        let is_close = |at: u64| at.abs_diff(offset) <= CLOSE_BYTES;
        let active = self.active.filter(|&active| active != place && active != ASYNC);
        if active.is_some() && self.active_end.is_some_and(is_close) {
            return active;
        }
        let above = self.positions.at_or_above(offset);
        let below = self.positions.below(offset);
        let close = |next: &(u64, u32)| is_close(next.0) && next.1 != place;
        above.filter(close).or(below.filter(close)).map(|(_, place)| place)
    }

    /// Separates the streams of a shared queue if it seeks.
    pub(super) fn part(&mut self, place: u32) {
        let queue = self.queue(place);
        queue.splitting |= queue.is_shared() && queue.is_seeky();
    }
}
