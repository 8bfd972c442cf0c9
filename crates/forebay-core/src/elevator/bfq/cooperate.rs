//! Early queue merge: streams whose requests lie close together come to use one queue, which serves
//! them in address order, without waiting for one after the other.
//!
//! A stream that asks close to where the disk is, or to what another queue would be given next, moves
//! over with this request; what it asked before stays where it is. When a shared queue begins to
//! seek, its streams part again, each with its next request.
//!
//! Invariant: a stream away from its own queue has left it empty of streams, and nobody joins a
//! queue without streams, so its own queue is free when it comes back.

use super::{ASYNC, Bfq};

/// Requests within this many bytes (8192 sectors) are close.
const CLOSE_BYTES: u64 = 8192 * 512;

impl Bfq {
    /// The queue for a waited-for request of `stream` at `offset`: its own, the one it shares, or one
    /// that it comes to share now.
    #[inline]
    pub(super) fn queue_of(&self, stream: u32, offset: u64) -> u32 {
        let own = stream + 1;
        let place = self.streams.get(stream as usize).copied().flatten().unwrap_or(own);
        let Some(queue) = self.queues.get(place as usize) else {
            return self.partner(own, offset).unwrap_or(own);
        };
        match () {
            () if place != own && queue.splitting => own,
            () if queue.streams > 1 || queue.is_seeky() => place,
            () => self.partner(place, offset).unwrap_or(place),
        }
    }

    /// Lets `stream` use queue `place`, which [`Bfq::queue_of`] said it shall.
    #[inline]
    pub(super) fn attach(&mut self, stream: u32, place: u32) {
        self.know(stream);
        let before = self.streams[stream as usize].replace(place);
        if before == Some(place) {
            return;
        }
        if let Some(before) = before {
            let queue = self.queue(before);
            queue.streams -= 1;
            if queue.streams == 1 {
                queue.splitting = false;
            }
        }
        self.queue(place).streams += 1;
    }

    /// A queue that a stream, alone in queue `place`, can share when it asks for `offset`.
    #[inline]
    fn partner(&self, place: u32, offset: u64) -> Option<u32> {
        let other = self.close_queue(place, offset)?;
        let queue = &self.queues[other as usize];
        (queue.streams > 0 && !queue.splitting && !queue.is_seeky()).then_some(other)
    }

    /// A waited-for queue other than `place` that is or will be served close to `offset`.
    fn close_queue(&self, place: u32, offset: u64) -> Option<u32> {
        let is_close = |at: u64| at.abs_diff(offset) <= CLOSE_BYTES;
        let active = self.active.filter(|&active| active != place && active != ASYNC);
        if active.is_some() && is_close(self.head) {
            return active;
        }
        let above = self.positions.at_or_above(offset);
        let below = self.positions.below(offset);
        let close = |next: &(u64, u32)| is_close(next.0) && next.1 != place;
        above.filter(close).or(below.filter(close)).map(|(_, place)| place)
    }

    /// The streams of a shared queue that seeks shall part.
    pub(super) fn part(&mut self, place: u32) {
        let queue = self.queue(place);
        queue.splitting |= queue.streams > 1 && queue.is_seeky();
    }
}
