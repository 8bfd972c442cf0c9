//! A lower bound on the time that a disk takes for some requests, in whatever order.
//!
//! *What is bounded.* The requests are given as the pieces of which every scheduler makes its I/Os: it
//! may join pieces of one operation that touch, and never divides one. It may serve them in any order,
//! let the disk idle, and let any of them wait for ever so long. [`OrderBound::makespan`] bounds the
//! time of the last completion, [`OrderBound::busy`] the time from start to completion of all I/Os
//! together.
//!
//! *The bound.* Each piece costs its transfer and, unless some other piece of its operation ends where it
//! begins, the least that any other piece, were it the one before, leaves to get there. A read that
//! begins a revolution or less beyond the end of another may cost the gap alone, and no busy time. One
//! of them is the first and has none before it: the largest such cost is left out.
//!
//! *Why it holds.* Let `p` be the piece served right before `r`. If both are in one I/O, or `r` goes on
//! where `p` ended without a revolution lost, they touch: `r` costs no less than its transfer. Else `r`
//! begins an I/O after that of `p`, and takes the overhead and the move from where `p` left the head:
//! that is busy time. For the makespan, say that the head passes the end of `p` at `e(p)`: no later than
//! the completion of `p`, and at an angle that its place alone gives. Then `r` cannot begin to pass
//! before its place first comes round after `e(p)`, the overhead and the move. When that is, and so how
//! long after `e(p)` the head passes the end of `r`, depends on the two places only; idling, a flush or
//! a late start makes it no sooner. Where `r` goes on instead, its end passes the gap and a transfer
//! after `e(p)` or later. The sum over all pieces is at most `e` of the last one, which is no later than its completion.
//! `p` is one of the other pieces, so that the least over these is no more than what it costs.
//!
//! It is not the least time of any order: that each piece has the best neighbour before it does not
//! mean that there is an order in which all have.

use super::geometry::Place;
use super::{Hdd, SECTOR};
use crate::contract::device::Device;
use crate::contract::request::{Op, Request};
use crate::contract::time::Nanos;

/// What no order of some requests can be below.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrderBound {
    /// From the start of the run to the last completion.
    pub makespan: Nanos,
    /// All I/Os together, from start to completion.
    pub busy: Nanos,
}

/// A piece that no scheduler divides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    op: Op,
    /// Its first sector, and the one after its last.
    first: u64,
    end: u64,
    /// It begins and ends with a sector.
    whole: bool,
}

/// Pieces of requests, collected for a bound.
#[derive(Clone, Debug)]
pub struct Pieces<'a> {
    disk: &'a Hdd,
    pieces: Vec<Piece>,
    beyond: bool,
}

/// Where pieces end.
#[derive(Clone, Copy, Debug)]
struct End {
    place: Place,
    sector: u64,
    /// The number of pieces that end there.
    count: u32,
}

impl<'a> Pieces<'a> {
    /// None so far, for `disk`.
    pub fn new(disk: &'a Hdd) -> Self {
        Pieces { disk, pieces: Vec::new(), beyond: false }
    }

    /// Returns the number of pieces.
    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Takes one more; what moves no data has no part in it.
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

    /// Returns the bound, or `None` if a piece reaches beyond the disk.
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
        // Neighbors search the same locations, and equal pieces have the same result.
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

    /// Where pieces end, from the outer cylinder inward, of what [`Pieces::touched`] has.
    fn ends(&self, touched: &[(u64, bool)]) -> Vec<End> {
        let end = |same: &[(u64, bool)]| End {
            place: self.disk.geometry.place(same[0].0 - 1),
            sector: same[0].0,
            count: same.len() as u32,
        };
        touched.chunk_by(|a, b| a.0 == b.0).map(end).collect()
    }

    /// Returns the sectors after which pieces continue, sorted, each as often as a piece ends
    /// there.
    fn touched(&self) -> Vec<(u64, bool)> {
        let mut touched: Vec<_> =
            self.pieces.iter().map(|piece| (piece.end, piece.op == Op::Write)).collect();
        touched.sort_unstable();
        touched
    }

    /// What passes under the head between the nearest end of a read before `piece`, a read, and its
    /// beginning, where reading may go on through that.
    fn gap(&self, piece: &Piece, touched: &[(u64, bool)]) -> Option<Nanos> {
        let before = touched.partition_point(|end| *end < (piece.first, false));
        let (end, _) = touched[..before].iter().rfind(|(_, write)| !write)?;
        let begins = self.disk.geometry.place(piece.first).begins;
        let gap = begins - self.disk.geometry.place(*end - 1).ends;
        (piece.op == Op::Read && gap <= self.disk.revolution).then_some(Nanos(gap))
    }

    /// What getting to `piece` costs at least, from the end of any other.
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
                continue; // that is its own
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

    /// Returns the minimum time of any move over this many cylinders.
    fn no_less(&self, distance: u32, op: Op) -> Nanos {
        let settle = if op == Op::Write && distance > 0 { self.disk.write_settle } else { 0 };
        Nanos(self.disk.overhead + self.disk.curve.time(distance) + settle)
    }
}
