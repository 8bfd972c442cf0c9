//! A disk with rearranged blocks, above any policy: requests are mapped, split where their bytes
//! are no longer contiguous, and answered when all pieces are complete.
//!
//! The rearranging itself can be simulated ([`Rearrange::moving`]). In that case, the old positions
//! remain valid until the last extent has been copied and no I/O is outstanding. The copying begins
//! at a given time and yields to clients: a piece is read or written only while no client request
//! is outstanding and the policy below has nothing to do. Copying bypasses that policy, which
//! therefore needs no support for it. If a client writes an extent after its copying has begun, the
//! extent is copied again. The new positions are assumed to be free. If a client writes there
//! before they are valid, or the copying fails, the disk stays as it is.
//!
//! The map is either in memory, for simulations, or stored on the disk ([`Rearrange::kept_at`]),
//! for disks that are used again after a restart. Only lane 0 is rearranged.

use crate::contract::{
    BACKGROUND, Bytes, Completion, Figure, Flags, Gauge, GaugeOf, Lane, Nanos, Op, Outcome, Request,
};
use crate::rearrangement::{Extent, Rearrangement};
use crate::stack::placed::{Owner, Placed, Placement, Plan, Planned};

mod copying;
mod kept;

use copying::{Copying, Step};
use kept::RecordKeeper;
pub use kept::{HEAD_BYTES, HeadRecord, RECORD_BYTES, ROWS_MAX, Record, found, record_at};

/// A policy on a rearranged disk.
pub type Rearranged<P> = Placed<Rearrange, P>;

/// Maps requests to the current positions of their bytes.
#[derive(Clone, Debug)]
pub struct Rearrange {
    map: Rearrangement,
    copying: Option<Copying>,
    /// Whether a step of the copying is outstanding.
    copies: bool,
    /// Writes to new positions that wait until the current step has ended.
    stalled: Vec<(u32, Request, Bytes)>,
    /// Whether the new positions are valid.
    holds: bool,
    /// Stores the map on the disk, if requested.
    kept: Option<RecordKeeper>,
    /// The number of outstanding I/Os of clients.
    under_way: u64,
    split_requests: u64,
    displaced_requests: u64,
    moved_s: f64,
}

impl Rearrange {
    /// Creates a rearrangement by `map` that is complete before the run begins.
    pub fn new(map: Rearrangement) -> Rearrange {
        Rearrange {
            map,
            copying: None,
            copies: false,
            stalled: Vec::new(),
            holds: true,
            kept: None,
            under_way: 0,
            split_requests: 0,
            displaced_requests: 0,
            moved_s: 0.0,
        }
    }

    /// Creates a rearrangement by `map` whose copying is part of the run. It begins at `from`
    /// (above zero), or when the disk is next idle, and uses I/Os of at most `len_max` bytes.
    pub fn moving(map: Rearrangement, from: Nanos, len_max: u32) -> Rearrange {
        let copying = Copying::new(map.moves().len(), from, len_max);
        Rearrange { copying: Some(copying), holds: false, ..Rearrange::new(map) }
    }

    /// Creates a rearrangement that is stored on the disk in a record of [`RECORD_BYTES`] bytes. If
    /// there is no record, the rearrangement `learnt` is executed as by [`Rearrange::moving`] and
    /// then recorded; if `learnt` is `None`, opening the disk fails.
    pub fn kept_at(
        record: Record,
        learnt: Option<Rearrangement>,
        from: Nanos,
        len_max: u32,
    ) -> Rearrange {
        let kept = Some(RecordKeeper::new(record, learnt.is_some()));
        match learnt {
            Some(map) => Rearrange { kept, ..Rearrange::moving(map, from, len_max) },
            None => Rearrange { kept, holds: false, ..Rearrange::new(Rearrangement::default()) },
        }
    }

    /// Plans the next step of the copying. After the last step, the new positions become valid as
    /// soon as no I/O is outstanding.
    fn copy(&mut self, plan: &mut Plan<'_>) {
        let Some(copying) = &mut self.copying else { return };
        let Some(Step { extent, skip, len, buf, writes }) = copying.next(self.map.moves()) else {
            return self.settle(plan);
        };
        let Extent { from, to, .. } = self.map.moves()[extent];
        let (op, place) = if writes { (Op::Write, to) } else { (Op::Read, from) };
        let buf = if writes { buf } else { plan.slots.take(len) };
        // The I/O that read the data holds the buffer until its completion has been reported.
        plan.when_idle(Planned {
            owner: Owner::Background,
            lane: 0,
            op,
            offset: place + skip,
            len,
            bytes: Bytes::of(buf),
            stream: BACKGROUND,
            flags: Flags::NONE,
            token: 0,
        });
        self.copies = true;
        if !writes {
            plan.slots.free(buf);
        }
    }

    /// Makes the new positions valid once everything has been copied and no I/O to the old
    /// positions is outstanding.
    fn settle(&mut self, plan: &mut Plan<'_>) {
        if self.under_way > 0 || !self.copying.as_ref().is_some_and(Copying::is_done) {
            return;
        }
        match &self.kept {
            Some(kept) if kept.is_recording() => {}
            Some(_) => self.record(plan),
            None => (self.copying, self.holds) = (None, true),
        }
    }

    /// Resumes the writes that were waiting.
    fn go_on(&mut self, plan: &mut Plan<'_>) {
        for (client, request, bytes) in std::mem::take(&mut self.stalled) {
            self.map(client, &request, bytes, plan);
            plan.release(client, Ok(()));
        }
    }

    /// Handles a client's write while the old positions are valid: extents that it touches must be
    /// copied again. Returns whether the write may proceed.
    fn note(&mut self, request: &Request, plan: &mut Plan<'_>) -> bool {
        let (offset, len) = (request.offset, u64::from(request.len));
        if self.kept.as_ref().is_some_and(RecordKeeper::is_recording) {
            return false;
        }
        if self.map.displaces(offset, len) && !self.holds {
            // The new positions are not free. No outstanding copy there may overtake the client's
            // write.
            self.copying = None;
            self.copies &= !plan.forget_idle();
            return !self.copies;
        }
        let Some(copying) = &mut self.copying else { return true };
        let was_done = copying.is_done();
        for (place, len) in self.map.pieces(offset, len) {
            let moves = self.map.moves();
            let first = moves.partition_point(|extent| extent.to + extent.len <= place);
            let hit = |extent: &&Extent| extent.to < place + len;
            let count = moves[first..].iter().take_while(hit).count();
            (first..first + count).for_each(|extent| copying.void(extent));
        }
        if was_done && !copying.is_done() {
            self.copy(plan);
        }
        true
    }

    /// Plans the I/Os of a client request.
    fn map(&mut self, client: u32, request: &Request, bytes: Bytes, plan: &mut Plan<'_>) {
        let whole = Planned { token: CLIENT, ..Planned::whole(client, request, bytes) };
        if !(self.holds && request.lane == 0 && request.len > 0) {
            self.under_way += 1;
            return plan.io(whole);
        }
        let len = u64::from(request.len);
        self.displaced_requests += u64::from(self.map.displaces(request.offset, len));
        let (mut skip, mut count) = (0, 0);
        for (offset, len) in self.map.pieces(request.offset, len) {
            plan.io(Planned { offset, ..whole.part(skip, len as u32) });
            (skip, count) = (skip + len as u32, count + 1);
        }
        self.under_way += count;
        self.split_requests += u64::from(count > 1);
    }

    /// Plans a client request, once the positions of data are known.
    fn place_known(&mut self, client: u32, request: &Request, bytes: Bytes, plan: &mut Plan<'_>) {
        if let Some(fault) = self.refuses(request) {
            plan.hold(client);
            return plan.release(client, Err(fault));
        }
        let writes = matches!(request.op, Op::Write | Op::Trim) && request.len > 0;
        if writes && request.lane == 0 && !self.note(request, plan) {
            plan.hold(client);
            self.stalled.push((client, *request, bytes));
            return;
        }
        self.map(client, request, bytes, plan);
    }
}

impl Placement for Rearrange {
    const BACKGROUND: bool = false;

    fn place(&mut self, client: u32, request: &Request, bytes: Bytes, plan: &mut Plan<'_>) {
        if !self.waits(client, request, bytes, plan) {
            self.place_known(client, request, bytes, plan);
        }
    }

    fn done(&mut self, io: &Planned, outcome: Outcome, plan: &mut Plan<'_>) -> Outcome {
        match io.token {
            CLIENT => {
                self.under_way -= 1;
                self.settle(plan);
                return self.told(io, outcome);
            }
            KEPT => {
                self.recorded_or_read(io, outcome, plan);
                return outcome;
            }
            _ => {}
        }
        self.copies = false;
        self.go_on(plan);
        if let Some(copying) = &mut self.copying {
            if outcome.is_err() {
                self.copying = None;
            } else {
                copying.done(io, self.map.moves());
                self.copy(plan);
            }
        }
        outcome
    }

    fn ended(&mut self, done: &Completion) {
        if done.io.lane == 0 && done.io.stream == BACKGROUND {
            self.moved_s += (done.at - done.started).as_secs_f64();
        }
    }

    fn wakeup(&self) -> Option<Nanos> {
        let is_known = self.kept.as_ref().is_none_or(RecordKeeper::is_open);
        self.copying.as_ref().filter(|_| is_known).and_then(Copying::begins)
    }

    fn wake(&mut self, plan: &mut Plan<'_>) {
        if let Some(copying) = &mut self.copying {
            copying.begin();
            self.copy(plan);
        }
    }

    fn gauges(&self) -> Vec<Gauge> {
        let value = f64::from(u8::from(self.holds));
        vec![Gauge { name: "rearranged", of: GaugeOf::All, value }]
    }

    fn figures(&self) -> Vec<Figure> {
        vec![
            ("rearranged_bytes", self.map.moved_bytes() as f64),
            ("rearranging_s", self.moved_s),
            ("rearranging_abandoned", f64::from(u8::from(!self.holds && self.copying.is_none()))),
            ("rearranged_split_requests", self.split_requests as f64),
            ("displaced_requests", self.displaced_requests as f64),
        ]
    }
}

/// The tokens of I/Os for clients and for the record; I/Os of the copying have token 0.
const CLIENT: u64 = 1;
const KEPT: u64 = 2;

impl<P: crate::stack::placed::Beneath> Rearranged<P> {
    /// Puts `placement` above `inner`, which has `lanes` lanes.
    pub fn before(placement: Rearrange, inner: P, lanes: Lane) -> Rearranged<P> {
        Placed::new(placement, [(inner, lanes.max(1))])
    }
}

#[cfg(test)]
mod tests;
