//! A lower bound on the time that a disk takes for some requests, in any order.
//!
//! *What is bounded.* The requests are given as the pieces from which every scheduler builds its
//! I/Os. A scheduler may join adjacent pieces of one operation, but never divides one. It may serve
//! them in any order, leave the disk idle, and delay any of them arbitrarily.
//! [`OrderBound::makespan`] bounds the time of the last completion, [`OrderBound::busy`] the total
//! time from start to completion of all I/Os.
//!
//! *The bound.* Each piece costs its transfer. Unless another piece of its operation ends where it
//! begins, it also costs the minimum, over all other pieces that could precede it, of the time to
//! get there. A read that begins at most one revolution beyond the end of another read may cost
//! only the gap, and no busy time. The first piece has no predecessor, so the largest such cost is
//! left out.
//!
//! *Why it holds.* Let `p` be the piece served right before `r`. If both are in one I/O, or `r`
//! continues where `p` ended without losing a revolution, they are adjacent, and `r` costs no less
//! than its transfer. Otherwise `r` begins an I/O after that of `p`, which takes the overhead and
//! the move from where `p` left the head: that is busy time. For the makespan, let `e(p)` be the
//! time at which the head passes the end of `p`. It is no later than the completion of `p`, and the
//! angle at that time depends only on the position of `p`. Then `r` cannot begin to pass before its
//! position first arrives under the head after `e(p)`, the overhead and the move. The time from
//! `e(p)` until the head passes the end of `r` therefore depends only on the two positions; idling,
//! a flush or a late start cannot shorten it. If `r` continues the stream instead, the head passes
//! its end no earlier than the gap and a transfer after `e(p)`. The sum over all pieces is at most
//! `e` of the last one, which is no later than its completion. `p` is one of the other pieces, so
//! the minimum over these is no more than the actual cost.
//!
//! The bound is not the minimum time over all orders: although each piece has a best predecessor,
//! there need not be an order in which all pieces have theirs.

use super::geometry::Place;
use super::{Hdd, SECTOR};
use crate::contract::{Device, Nanos, Op, Request};

/// Lower bounds for all orders of some requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrderBound {
    /// The time from the start of the run to the last completion.
    pub makespan: Nanos,
    /// The total time of all I/Os, from start to completion.
    pub busy: Nanos,
}

/// A piece of a request that no scheduler divides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    op: Op,
    /// The first sector, and the sector after the last one.
    first: u64,
    end: u64,
    /// Whether the piece begins and ends at sector boundaries.
    whole: bool,
}

/// The pieces of requests, collected for a bound.
#[derive(Clone, Debug)]
pub struct Pieces<'a> {
    disk: &'a Hdd,
    pieces: Vec<Piece>,
    beyond: bool,
}

/// A position at which pieces end.
#[derive(Clone, Copy, Debug)]
struct End {
    place: Place,
    sector: u64,
    /// The number of pieces that end at this position.
    count: u32,
}

impl<'a> Pieces<'a> {
    /// Creates an empty collection for `disk`.
    pub fn new(disk: &'a Hdd) -> Self {
        Pieces { disk, pieces: Vec::new(), beyond: false }
    }

    /// Returns the number of pieces.
    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Returns whether there are no pieces.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Adds a piece. Requests without data are ignored.
    pub fn add(&mut self, piece: &Request) {
        if !piece.op.moves_data() || piece.len == 0 {
            return;
        }
        let sector = u64::from(SECTOR);
        self.beyond |= piece.end() > self.disk.capacity();
        let whole = piece.offset.is_multiple_of(sector) && piece.end().is_multiple_of(sector);
        let (first, end) = (piece.offset / sector, piece.end().div_ceil(sector));
        self.pieces.push(Piece { op: piece.op, first, end, whole });
    }

    /// Returns the bound; `None` if a piece extends beyond the end of the disk.
    pub fn bound(mut self) -> Option<OrderBound> {
        if self.beyond {
            return None;
        }
        if self.pieces.len() < 2 {
            let makespan = self.pieces.iter().map(|piece| self.transfer(piece)).next();
            let busy = makespan.unwrap_or_default();
            return Some(OrderBound { makespan: busy, busy });
        }
        let mut touched = self.touched();
        let ends = self.ends(&touched);
        touched.dedup();
        // After sorting, equal pieces are adjacent and need only one search, and neighbors search
        // the same locations.
        self.pieces.sort_unstable_by_key(|piece| (piece.first, piece.end));
        let (mut bound, mut largest) = (OrderBound::default(), OrderBound::default());
        for alike in self.pieces.chunk_by(|a, b| a == b) {
            let (piece, count) = (&alike[0], alike.len() as u64);
            let transfer = Nanos(self.transfer(piece).0 * count);
            bound.busy += transfer;
            bound.makespan += transfer;
            let goes_on = touched.binary_search(&(piece.first, piece.op == Op::Write)).is_ok();
            if goes_on || !piece.whole {
                continue;
            }
            let mut least = self.least(piece, &ends);
            if let Some(gap) = self.gap(piece, &touched) {
                least = OrderBound { makespan: least.makespan.min(gap), busy: Nanos::ZERO };
            }
            bound.busy += Nanos(least.busy.0 * count);
            bound.makespan += Nanos(least.makespan.0 * count);
            largest.busy = largest.busy.max(least.busy);
            largest.makespan = largest.makespan.max(least.makespan);
        }
        bound.busy = bound.busy - largest.busy;
        bound.makespan = bound.makespan - largest.makespan;
        Some(bound)
    }

    /// Returns the transfer time of the piece's whole sectors; sectors shared with other pieces may
    /// be transferred once for all of them.
    fn transfer(&self, piece: &Piece) -> Nanos {
        let (first, end) = match piece.whole {
            true => (piece.first, piece.end),
            false => (piece.first + 1, piece.end.saturating_sub(1)),
        };
        if end <= first {
            return Nanos::ZERO;
        }
        let (from, last) = self.disk.geometry.run(first, end - first);
        Nanos(last.ends - from.begins)
    }

    /// Returns the positions at which pieces end, from the outer cylinder inward. `touched` is the
    /// result of [`Pieces::touched`].
    fn ends(&self, touched: &[(u64, bool)]) -> Vec<End> {
        let end = |same: &[(u64, bool)]| End {
            place: self.disk.geometry.place(same[0].0 - 1),
            sector: same[0].0,
            count: same.len() as u32,
        };
        touched.chunk_by(|a, b| a.0 == b.0).map(end).collect()
    }

    /// Returns the ends of all pieces (the sector after the last one, and whether the piece is a
    /// write), sorted, with duplicates.
    fn touched(&self) -> Vec<(u64, bool)> {
        let mut touched: Vec<_> =
            self.pieces.iter().map(|piece| (piece.end, piece.op == Op::Write)).collect();
        touched.sort_unstable();
        touched
    }

    /// Returns the time between the nearest end of a read before `piece` and the start of `piece`,
    /// if `piece` is a read and reading can continue through that gap.
    fn gap(&self, piece: &Piece, touched: &[(u64, bool)]) -> Option<Nanos> {
        let before = touched.partition_point(|end| *end < (piece.first, false));
        let (end, _) = touched[..before].iter().rfind(|(_, write)| !write)?;
        let begins = self.disk.geometry.place(piece.first).begins;
        let gap = begins - self.disk.geometry.place(*end - 1).ends;
        (piece.op == Op::Read && gap <= self.disk.revolution).then_some(Nanos(gap))
    }

    /// Returns the minimum cost of getting to `piece` from the end of any other piece.
    fn least(&self, piece: &Piece, ends: &[End]) -> OrderBound {
        let to = self.disk.geometry.place(piece.first);
        let mut least = OrderBound { makespan: Nanos::MAX, busy: Nanos::MAX };
        let inner = ends.partition_point(|end| end.place.cylinder < to.cylinder);
        let (mut below, mut above) =
            (ends[..inner].iter().rev().peekable(), ends[inner..].iter().peekable());
        let far = |end: Option<&&End>| {
            end.map_or(u32::MAX, |end| end.place.cylinder.abs_diff(to.cylinder))
        };
        loop {
            let (down, up) = (far(below.peek()), far(above.peek()));
            let distance = down.min(up);
            if distance == u32::MAX || self.no_less(distance, piece.op) >= least.makespan {
                return least;
            }
            let Some(from) = (if down < up { below.next() } else { above.next() }) else {
                return least;
            };
            if from.sector == piece.end && from.count == 1 {
                continue; // only the piece itself ends there
            }
            let moved = self.disk.overhead + self.moved(from.place, to, piece.op);
            let arrived = from.place.ends + moved;
            let around = self.disk.turn.divide(arrived).1;
            let begins = self.disk.turn.divide(to.begins).1;
            let turn = if begins >= around { 0 } else { self.disk.revolution };
            least.busy = least.busy.min(Nanos(moved));
            least.makespan = least.makespan.min(Nanos(moved + turn + begins - around));
        }
    }

    fn moved(&self, from: Place, to: Place, op: Op) -> u64 {
        self.disk.move_between((from.cylinder, from.head), (to.cylinder, to.head), op)
    }

    /// Returns the minimum time of any move across this many cylinders.
    fn no_less(&self, distance: u32, op: Op) -> Nanos {
        let settle = if op == Op::Write && distance > 0 { self.disk.write_settle } else { 0 };
        Nanos(self.disk.overhead + self.disk.curve.time(distance) + settle)
    }
}
