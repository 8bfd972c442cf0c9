//! Bookkeeping of client requests: what remains to be done for each request, and when to answer it.
//!
//! Each operation in progress for a request has a hold on the request. When the last hold is
//! released, the request is answered with the worst outcome. A write with [`Flags::PREFLUSH`] is
//! split here for all policies into a flush, followed by the write. No lower layer ever sees such a
//! write.

use crate::contract::{Bytes, Done, Flags, Nanos, Op, Outcome, Request, worst};
use crate::slab::Slab;

/// A request that has not been answered.
#[derive(Clone, Copy, Debug)]
struct Unanswered {
    request: Request,
    bytes: Bytes,
    /// The longest time from admission to completion among the completed parts.
    wait: Nanos,
    /// The time from the request's arrival until its stream's turn.
    held: Nanos,
    holds: u32,
    class: u16,
    outcome: Outcome,
    /// Whether a preflush is in progress, which the write follows.
    flushing: bool,
}

/// Returns whether a request must be split into a preflush and a write.
#[inline]
pub(crate) fn is_parted(request: &Request) -> bool {
    request.op == Op::Write && request.flags.has(Flags::PREFLUSH)
}

/// Returns the preflush of a request that [`is_parted`], which must be executed first.
#[cold]
pub(crate) fn preflush(request: &Request) -> Request {
    Request { op: Op::Flush, offset: 0, len: 0, flags: Flags::NONE, ..*request }
}

/// The end of a hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Release {
    pub(crate) client: u32,
    /// The time since the admission of the part that held the request.
    pub(crate) wait: Nanos,
    /// The time from the request's arrival until its stream's turn.
    pub(crate) held: Nanos,
    pub(crate) outcome: Outcome,
    pub(crate) class: u16,
}

/// The unanswered requests, identified by small numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outstanding {
    requests: Slab<Unanswered>,
}

impl Outstanding {
    /// Adds a request with one hold. If it [`is_parted`], its [`preflush`] must be executed first.
    #[inline]
    pub(crate) fn open(&mut self, request: Request, bytes: Bytes) -> u32 {
        self.requests.insert(Unanswered {
            request,
            bytes,
            wait: Nanos::ZERO,
            held: Nanos::ZERO,
            holds: 1,
            class: 0,
            outcome: Ok(()),
            flushing: is_parted(&request) && request.len > 0,
        })
    }

    /// Removes a request that has not been processed at all, so that it can be opened again later.
    #[inline]
    pub(crate) fn close(&mut self, key: u32) {
        debug_assert!(
            self.requests[key].holds == 1,
            "a request with remaining holds was forgotten"
        );
        self.requests.remove(key);
    }

    /// Records the time from a request's arrival until its stream's turn.
    #[cold]
    pub(crate) fn held(&mut self, key: u32, held: Nanos) {
        self.requests[key].held = held;
    }

    /// Returns whether the request [`is_parted`].
    #[inline]
    pub(crate) fn is_parted(&self, key: u32) -> bool {
        is_parted(&self.requests[key].request)
    }

    /// Adds `count` holds to a request.
    #[inline]
    pub(crate) fn hold(&mut self, key: u32, count: u32) {
        debug_assert!(self.requests[key].holds > 0, "a request that was answered is held again");
        self.requests[key].holds += count;
    }

    /// Releases a hold and returns whether it was the last one. After the last one, the caller
    /// continues with [`Outstanding::rest`] if the request [`Outstanding::was_flushed`], and with
    /// [`Outstanding::answer`] otherwise.
    #[inline]
    pub(crate) fn release(&mut self, release: Release) -> bool {
        let Release { client: key, wait, held, outcome, class } = release;
        let client = &mut self.requests[key];
        client.holds -= 1;
        client.wait = client.wait.max(wait);
        client.held = client.held.max(held);
        if outcome.is_err() {
            client.outcome = worst(client.outcome, outcome);
        }
        client.class = class;
        client.holds == 0
    }

    /// Returns whether the preflush of a request has succeeded.
    #[inline]
    pub(crate) fn was_flushed(&self, key: u32) -> bool {
        let client = &self.requests[key];
        client.flushing && client.outcome.is_ok()
    }

    /// Returns the write of a request for which [`Outstanding::was_flushed`] is true, and holds the
    /// request for that write.
    #[cold]
    pub(crate) fn rest(&mut self, key: u32) -> (Request, Bytes) {
        let client = &mut self.requests[key];
        (client.flushing, client.holds) = (false, 1);
        let flags = Flags(client.request.flags.0 & !Flags::PREFLUSH.0);
        (Request { flags, ..client.request }, client.bytes)
    }

    /// Returns an unanswered request.
    pub(crate) fn request(&self, key: u32) -> &Request {
        &self.requests[key].request
    }

    /// Removes a request that has no holds and returns its answer.
    #[inline]
    pub(crate) fn answer(&mut self, key: u32) -> Done {
        let Unanswered { request, wait, held, class, outcome, .. } = self.requests.remove(key);
        Done { request, wait, held, outcome, class }
    }

    /// Returns the number of unanswered requests.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.requests.len()
    }

    /// Returns whether all requests have been answered.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Fault;

    fn write(flags: Flags, len: u32) -> Request {
        let (at, offset, id, stream, lane) = (Nanos(3), 4096, 7, 2, 1);
        Request { at, offset, id, len, stream, lane, op: Op::Write, flags }
    }

    fn release(client: u32, wait: u64, outcome: Outcome) -> Release {
        Release { client, wait: Nanos(wait), held: Nanos::ZERO, outcome, class: 4 }
    }

    #[test]
    fn a_request_is_answered_once_by_the_worst_outcome_and_the_longest_wait() {
        let mut clients = Outstanding::default();
        let asked = write(Flags::FUA, 512);
        let key = clients.open(asked, Bytes::of(9));
        assert!(!is_parted(&asked));
        clients.hold(key, 2);
        assert!(!clients.release(release(key, 9, Ok(()))));
        let media = Err(Fault::Media);
        assert!(!clients.release(release(key, 17, media)) && !clients.is_empty());
        assert!(clients.release(release(key, 8, Ok(()))));
        assert!(!clients.was_flushed(key));
        let done =
            Done { request: asked, wait: Nanos(17), held: Nanos::ZERO, outcome: media, class: 4 };
        assert_eq!((clients.answer(key), clients.is_empty()), (done, true));
    }

    #[test]
    fn a_preflush_goes_first_and_the_write_only_if_it_succeeds() {
        let both = Flags::PREFLUSH.with(Flags::FUA);
        let mut clients = Outstanding::default();
        let key = clients.open(write(both, 512), Bytes::of(9));
        let flush = Request { op: Op::Flush, offset: 0, len: 0, ..write(Flags::NONE, 0) };
        assert!(is_parted(&write(both, 512)));
        assert_eq!(preflush(&write(both, 512)), flush);
        assert!(clients.release(release(key, 2, Ok(()))));
        assert!(clients.was_flushed(key));
        assert_eq!(clients.rest(key), (write(Flags::FUA, 512), Bytes::of(9)));
        assert!(clients.release(release(key, 4, Ok(()))));
        assert!(!clients.was_flushed(key));
        let done = Done {
            request: write(both, 512),
            wait: Nanos(4),
            held: Nanos::ZERO,
            outcome: Ok(()),
            class: 4,
        };
        assert_eq!(clients.answer(key), done);

        let key = clients.open(write(both, 512), Bytes::NONE);
        assert!(clients.release(release(key, 5, Err(Fault::Gone))));
        assert!(!clients.was_flushed(key), "the write is not begun");
        assert_eq!(clients.answer(key).outcome, Err(Fault::Gone));
        // A write without data only flushes.
        let key = clients.open(write(both, 0), Bytes::NONE);
        assert!(is_parted(&write(both, 0)));
        assert!(clients.release(release(key, 5, Ok(()))));
        assert!(!clients.was_flushed(key));
    }
}
