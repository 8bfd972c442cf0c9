//! What clients that are gone still wanted: it is not done where that harms nobody.
//!
//! A client that asks for much and leaves would have all others wait for what nobody reads any more. So an I/O whose bytes
//! all belong to clients that are gone ends without being done when the policy comes to it; its turn and the policy's
//! accounts are as if it had been.
//!
//! Invariants: no write that was answered is dropped, for a scheduler's writes are answered when they are done; no I/O is
//! dropped beneath a placement, which may have answered already or keep what it reads. Flushes, trims and zeros name
//! no bytes of a client and are done.

use forebay_core::{Buf, Piece, Request};
use forebay_live::{Plug, entry_of};

use super::Front;

/// What is known of clients' buffers.
#[derive(Debug, Default)]
pub(super) struct Gone {
    /// By the place of a buffer: its name, and whose it is.
    owners: Vec<(Buf, Plug)>,
    /// Whether the policy moves clients' bytes only, and nothing is answered before it is done.
    drops: bool,
    /// I/Os that were dropped and have not been counted.
    dropped: Vec<Request>,
}

impl Gone {
    /// A client was given a buffer.
    #[inline]
    pub(super) fn took(&mut self, buf: Buf, plug: Plug) {
        let at = entry_of(buf);
        if at >= self.owners.len() {
            self.owners.resize(at + 1, (0, 0));
        }
        self.owners[at] = (buf, plug);
    }
}

impl Front {
    /// Whether the policy from now on leaves bytes where clients put them, so that what nobody waits for can be dropped.
    pub(crate) fn may_drop(&mut self, drops: bool) {
        self.gone.drops = drops;
    }

    /// Whether a client left without a word. What one asked for before it took leave is done.
    fn is_gone(&self, plug: Plug) -> bool {
        let one = self.connections.get(plug as usize).and_then(Option::as_ref);
        one.is_some_and(|one| one.deaf && !one.took_leave)
    }

    /// Whether what was not begun of a request need not be.
    pub(super) fn is_for_nobody(&self, name: u32) -> bool {
        self.gone.drops && self.asked[name].plug.is_some_and(|plug| self.is_gone(plug))
    }

    /// Whether an I/O of these bytes need not be done.
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

    /// Whether an I/O that is under way is one that was dropped.
    #[inline]
    pub(crate) fn is_dropping(&self, io: &Request) -> bool {
        self.place_of(io).is_some()
    }

    /// Whether an I/O that has ended was dropped; told once.
    #[inline]
    pub(crate) fn was_dropped(&mut self, io: &Request) -> bool {
        let place = self.place_of(io);
        place.map(|at| self.gone.dropped.swap_remove(at)).is_some()
    }

    fn place_of(&self, io: &Request) -> Option<usize> {
        self.gone.dropped.iter().position(|one| one.id == io.id && one.lane == io.lane)
    }
}
