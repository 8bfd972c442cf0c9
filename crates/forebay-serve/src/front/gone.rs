//! Drops the I/Os of clients that have disconnected, if that is safe.
//!
//! A client that sends many requests and disconnects would otherwise delay all others with I/Os
//! whose results nobody reads. An I/O whose bytes all belong to disconnected clients therefore ends
//! without being performed when the policy dispatches it. The policy's state is the same as if the
//! I/O had been performed.
//!
//! Invariants: no answered write is dropped, because a scheduler's writes are answered only when
//! they are completed; no I/O below a placement policy is dropped, because the policy may already
//! have answered it, or may cache what it reads. Flushes, trims and zeros do not use a client's
//! bytes and are always performed.

use forebay_core::{Buf, Piece, Request};
use forebay_live::{Plug, entry_of};

use super::Front;

/// The owners of clients' buffers, and the dropped I/Os.
#[derive(Debug, Default)]
pub(super) struct Gone {
    /// For each buffer index, the buffer's name and its owner.
    owners: Vec<(Buf, Plug)>,
    /// Whether I/Os may be dropped. They may if the policy transfers only clients' bytes and
    /// answers requests only when they are completed.
    drops: bool,
    /// Dropped I/Os that have not been counted yet.
    dropped: Vec<Request>,
}

impl Gone {
    /// Registers the client that was given a buffer.
    #[inline]
    pub(super) fn took(&mut self, buf: Buf, plug: Plug) {
        let at = entry_of(buf);
        if at >= self.owners.len() {
            self.owners.resize(at + 1, (0, 0));
        }
        self.owners[at] = (buf, plug);
    }

    /// Returns whether I/Os may be dropped.
    pub(super) fn drops(&self) -> bool {
        self.drops
    }
}

impl Front {
    /// Sets whether the current policy keeps data only in clients' buffers, so that I/Os may be
    /// dropped.
    pub(crate) fn may_drop(&mut self, drops: bool) {
        self.gone.drops = drops;
    }

    /// Returns whether a client disconnected without announcing it. Requests sent before an
    /// announced disconnect are performed.
    fn is_gone(&self, plug: Plug) -> bool {
        let one = self.connections.get(plug as usize).and_then(Option::as_ref);
        one.is_some_and(|one| one.deaf && !one.took_leave)
    }

    /// Returns whether the rest of a request can be skipped.
    pub(super) fn is_for_nobody(&self, name: u32) -> bool {
        self.gone.drops && self.asked[name].plug.is_some_and(|plug| self.is_gone(plug))
    }

    /// Returns whether an I/O on these bytes can be skipped, and registers it as dropped.
    #[inline]
    pub(crate) fn drops(&mut self, io: &Request, pieces: &[Piece]) -> bool {
        let is_gone = |piece: &Piece| {
            let owner = self.gone.owners.get(entry_of(piece.buf));
            owner.is_some_and(|(buf, plug)| *buf == piece.buf && self.is_gone(*plug))
        };
        let drops = self.gone.drops && !pieces.is_empty() && pieces.iter().all(is_gone);
        if drops {
            self.gone.dropped.push(*io);
        }
        drops
    }

    /// Returns whether an I/O in flight has been dropped.
    #[inline]
    pub(crate) fn is_dropping(&self, io: &Request) -> bool {
        self.place_of(io).is_some()
    }

    /// Returns whether a completed I/O had been dropped, and removes it from the list.
    #[inline]
    pub(crate) fn was_dropped(&mut self, io: &Request) -> bool {
        let place = self.place_of(io);
        place.map(|at| self.gone.dropped.swap_remove(at)).is_some()
    }

    fn place_of(&self, io: &Request) -> Option<usize> {
        self.gone.dropped.iter().position(|one| one.id == io.id && one.lane == io.lane)
    }
}
