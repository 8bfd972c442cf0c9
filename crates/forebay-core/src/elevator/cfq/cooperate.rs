//! Shared queues: streams whose requests are close together share a queue.
//!
//! If the active queue becomes empty and the next request of another queue is near the head, the
//! other queue continues the slice and the two are merged: each stream of the queue with fewer
//! streams moves to the other with its next request. A shared queue that seeks is split in the same
//! way.

use super::stream_queue::StreamQueue;
use super::{ASYNC, Cfq, Stream};
use crate::contract::Nanos;

/// A request at most this many bytes from the head (8192 sectors) is close.
const CLOSE_BYTES: u64 = 8 * 1024 * 512;

impl Cfq {
    #[inline]
    pub(super) fn is_close(&self, offset: u64) -> bool {
        offset.abs_diff(self.head) <= CLOSE_BYTES
    }

    /// Returns a queue with a request close to the head, which can continue for the empty queue
    /// `place`.
    #[inline]
    pub(super) fn close_queue(&self, place: u32) -> Option<u32> {
        if place == ASYNC || self.queues[place as usize].seeks.is_seeky() {
            return None;
        }
        let above = self.positions.at_or_above(self.head);
        let near = above.filter(|&(offset, _)| self.is_close(offset));
        let (_, close) = near.or_else(|| {
            self.positions.below(self.head).filter(|&(offset, _)| self.is_close(offset))
        })?;
        (!self.queues[close as usize].seeks.is_seeky()).then_some(close)
    }

    /// Plans to merge `a` with the queue at the end of `b`'s chain of planned merges. The queue
    /// with fewer streams merges into the other.
    pub(super) fn plan_merge(&mut self, a: u32, mut b: u32) {
        if self.queues[a as usize].merges_into.is_some() {
            return;
        }
        while let Some(next) = self.queues[b as usize].merges_into {
            if next == a {
                return;
            }
            b = next;
        }
        let [a_streams, b_streams] = [a, b].map(|place| self.queues[place as usize].streams);
        if a_streams == 0 || b_streams == 0 {
            return;
        }
        if b_streams >= a_streams {
            self.queue(a).merges_into = Some(b);
        } else {
            self.queue(b).merges_into = Some(a);
        }
    }

    /// Returns the queue for the next synchronous request of `stream`.
    #[inline]
    pub(super) fn queue_of(&self, stream: u32) -> u32 {
        let known = self.streams.get(stream as usize).and_then(|stream| stream.queue);
        let Some(place) = known else { return self.vacant(stream) };
        let queue = &self.queues[place as usize];
        if queue.shared && queue.splitting {
            return if queue.streams > 1 { self.vacant(stream) } else { place };
        }
        queue.merges_into.unwrap_or(place)
    }

    /// Returns a queue without streams, preferably this stream's own. One exists, because there are
    /// as many queues as streams and this stream uses none.
    fn vacant(&self, stream: u32) -> u32 {
        let own = stream + 1;
        if self.queues.get(own as usize).is_none_or(|queue| queue.streams == 0) {
            return own;
        }
        let free = self.queues.iter().skip(1).position(|queue| queue.streams == 0);
        free.map_or(own, |free| free as u32 + 1)
    }

    /// Forgets `stream`, whose number is assigned to a new submitter. If no other stream uses its
    /// queue, the queue loses the disk and its credit.
    pub(super) fn detach(&mut self, stream: u32) {
        let Some(known) = self.streams.get_mut(stream as usize) else { return };
        let Some(place) = std::mem::take(known).queue else { return };
        self.leave(place);
        let queue = &self.queues[place as usize];
        if queue.streams == 0 && queue.order.is_empty() {
            if self.active == Some(place) {
                // The time only matters to a queue with requests.
                self.expire(Nanos::ZERO, false);
            }
            self.queue(place).slice.residual = 0;
        }
    }

    /// Records that a stream no longer uses queue `place`.
    fn leave(&mut self, place: u32) {
        let queue = self.queue(place);
        queue.streams -= 1;
        if queue.streams == 0 {
            queue.merges_into = None;
        }
    }

    /// Makes `stream` use queue `place`, the result of [`Cfq::queue_of`].
    #[inline]
    pub(super) fn attach(&mut self, now: Nanos, stream: u32, place: u32) {
        let index = stream as usize;
        if index >= self.streams.len() {
            self.streams.resize(index + 1, Stream::default());
            self.queues.resize(index + 2, StreamQueue::new(true));
        }
        match self.streams[index].queue {
            Some(before) if before == place => {
                let queue = self.queue(place);
                if queue.shared && queue.splitting {
                    (queue.shared, queue.splitting) = (false, false);
                }
                return;
            }
            Some(before) => self.leave(before),
            None => self.streams[index].think.last_end = now,
        }
        self.streams[index].queue = Some(place);
        let queue = self.queue(place);
        if queue.streams == 0 {
            queue.renew();
        } else {
            queue.shared = true;
        }
        queue.streams += 1;
    }
}
