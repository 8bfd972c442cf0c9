//! The block layer: bios, merging, the request queue and its limits, around an elevator.
//!
//! Source: the **bid** paper's appendix (a bio holds up to 256 pages of 4 KiB; a request up to 512
//! KiB; 128 read and 128 write requests) and Linux. A bio is merged if possible and otherwise needs
//! a free slot, which its submitter may have to wait for ([`super::gate`]). A request keeps its
//! slot until it completes. Flushes and trims bypass the elevator and are dispatched first, as in
//! Linux's flush machinery. A write with preflush becomes a flush followed by a write. While a
//! stream waits, everything else that it submits is held, including flushes.
//!
//! If a merged request fails, each part is retried separately, bypassing the elevator, so that a
//! part does not fail because of its neighbor. There is no retry if the device is gone.
//!
//! Departures: there is no plugging, but everything that a task submits at one instant is merged
//! before any of it is dispatched; requests with FUA do not merge but are otherwise ordinary.

mod tasks;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use super::{Gate, Held, Limits, Owner, Part, Place, Queue, QueuedId, RequestKind, fits};
use crate::contract::{
    Bytes, Completion, Cx, Fault, Figure, Flags, Lane, Nanos, Op, Outcome, Piece, Policy, Request,
};
use crate::outstanding::{Outstanding, Release, is_parted, preflush};

/// Decides the order of the request queue. All requests passed to its methods are in the queue.
pub trait Elevator {
    /// Returns the merge scope: only bios and requests of one scope (and one direction) merge.
    fn scope(&self, bio: &Request) -> u32;

    /// Returns how many tags of each word of `word` tags `bio` may use (Linux `limit_depth`). Only
    /// called if the request queue has tags.
    #[inline]
    fn first_tags(&self, _bio: &Request, word: u32) -> u32 {
        word
    }

    /// Handles request `id`, which is new in the queue.
    fn add(&mut self, now: Nanos, id: QueuedId, queue: &mut Queue);

    /// Handles the merge of a bio into `id`, whose offset was `offset_before`.
    fn grown(&mut self, now: Nanos, id: QueuedId, offset_before: u64, queue: &mut Queue);

    /// Called before `gone`, which starts where `kept` ends, is merged into `kept` and removed.
    fn join(&mut self, now: Nanos, kept: QueuedId, gone: QueuedId, queue: &mut Queue);

    /// Returns the request to dispatch now; `None` to leave the device idle.
    fn take(&mut self, now: Nanos, queue: &mut Queue) -> Option<QueuedId>;

    /// Returns a request that another device should serve. It stays in the queue until that device
    /// has completed it.
    #[inline]
    fn divert(&mut self, _now: Nanos, _queue: &mut Queue) -> Option<QueuedId> {
        None
    }

    /// Called if the other device has no space for `id`, the last result of [`Elevator::divert`],
    /// so that it must be dispatched here after all.
    #[inline]
    fn keep(&mut self, _id: QueuedId, _queue: &mut Queue) {}

    /// Handles the completion of `id`, which is still in the queue.
    #[inline]
    fn completed(&mut self, _now: Nanos, _id: QueuedId, _queue: &Queue) {}

    /// Called when a stream number is assigned to a new submitter ([`Policy::begin_stream`]).
    fn begin_stream(&mut self, _stream: u32, _queue: &Queue) {}

    /// Returns when to call the elevator again even if nothing happens.
    #[inline]
    fn wakeup(&self) -> Option<Nanos> {
        None
    }

    /// Returns the elevator's own statistics; most have none.
    fn figures(&self) -> Vec<Figure> {
        Vec::new()
    }

    /// Whether requests that become adjacent when one of them grows are merged.
    const JOINS: bool = true;

    /// Returns whether `bio` may merge with the adjacent request `id` of its scope.
    #[inline]
    fn may_merge(&self, _bio: &Request, _id: QueuedId, _queue: &Queue) -> bool {
        true
    }
}

/// A bio that waits in line for admission. There can be as many of these as requests in a trace, so
/// nothing else is stored about requests that wait as a whole.
#[derive(Clone, Copy, Debug)]
struct InLine {
    bio: Request,
    bytes: Bytes,
    /// The client request that the bio is a part of. `None` for a whole request, which is
    /// registered when it is admitted.
    client: Option<u32>,
    /// The number of bios that had begun to wait before this one.
    ticket: u64,
}

/// A policy for one lane: the block layer around `elevator`.
#[derive(Clone, Debug)]
pub struct BlockLayer<E> {
    elevator: E,
    limits: Limits,
    lane: Lane,
    clients: Outstanding,
    queue: Queue,
    /// Admits requests to the queue and holds those that must wait.
    gate: Gate,
    /// The bios that wait in line for admission: reads, then writes.
    waiting: [VecDeque<InLine>; 2],
    /// The number of bios that had to wait so far.
    tickets: u64,
    /// Flushes, trims and parts of failed requests, which the elevator does not see.
    bypass: VecDeque<QueuedId>,
    /// Clients with writes whose preflush has completed.
    flushed: Vec<u32>,
    /// The kinds of the requests that have left the queue since tasks were last woken for them.
    left: Vec<RequestKind>,
}

impl<E: Elevator> BlockLayer<E> {
    /// Creates a block layer for lane 0.
    pub fn new(elevator: E, limits: Limits) -> Self {
        BlockLayer {
            elevator,
            limits,
            lane: 0,
            clients: Outstanding::default(),
            queue: Queue::new(limits.merging),
            gate: Gate::new(limits),
            waiting: Default::default(),
            tickets: 0,
            bypass: VecDeque::new(),
            flushed: Vec::new(),
            left: Vec::new(),
        }
    }

    /// Returns the elevator, which chooses the order.
    pub fn elevator(&self) -> &E {
        &self.elevator
    }

    /// Returns the next request that another device should serve, if there is one. It completes
    /// like a dispatched request.
    pub(crate) fn divert(&mut self, now: Nanos) -> Option<Request> {
        let id = self.elevator.divert(now, &mut self.queue)?;
        Some(self.queue.io(now, id, self.lane))
    }

    /// Returns a diverted request to this device.
    pub(crate) fn keep(&mut self, io: &Request) {
        self.elevator.keep(io.id as QueuedId, &mut self.queue);
    }

    /// Records that another device has started the request. From then on, nothing is merged into
    /// the request.
    pub(crate) fn gone(&mut self, io: &Request) {
        self.queue.started(io.id as QueuedId);
    }

    /// Takes back a request that failed on the other device. Each of its parts is executed here
    /// separately.
    pub(crate) fn back(&mut self, cx: &mut Cx<'_>, io: &Request) {
        self.again(cx.now, io.id as QueuedId);
    }

    /// Calls `each` with the parts of a dispatched or diverted request, in the order of their
    /// bytes. The arguments are the part's offset and its piece of memory.
    pub(crate) fn parts(&self, io: &Request, each: &mut dyn FnMut(u64, Piece)) {
        let mut offset = io.offset;
        self.queue.parts(io.id as QueuedId, |part| {
            each(offset, part.bytes.len(part.len));
            offset += u64::from(part.len);
        });
    }

    /// Merges `bio` or adds it to the queue. Returns false if there was no free slot.
    #[inline]
    fn submit_bio(&mut self, now: Nanos, bio: &Request, owner: Owner) -> bool {
        let scope = self.elevator.scope(bio);
        if self.merge(now, bio, owner, scope) {
            return true;
        }
        let first_tags = self.first_tags(bio);
        let place = self.gate.admit(now, bio, first_tags);
        if let Some(place) = place {
            self.insert(now, bio, owner, scope, place);
        }
        place.is_some()
    }

    /// Returns how many tags of a word `bio` may use.
    #[inline]
    fn first_tags(&self, bio: &Request) -> u32 {
        let Some(word) = self.gate.word() else { return u32::MAX };
        let slept = self.gate.slept_for(bio.stream);
        slept.unwrap_or_else(|| self.elevator.first_tags(bio, word).clamp(1, word))
    }

    /// Does the same for a bio of an unknown submitter, for which no task sleeps. If there is no
    /// free slot, the bio waits in line, and the result is true.
    #[inline]
    fn submit_anonymous(&mut self, now: Nanos, bio: Request, owner: Owner) -> bool {
        let scope = self.elevator.scope(&bio);
        if self.merge(now, &bio, owner, scope) {
            return false;
        }
        let side = side(bio.op);
        if !self.waiting[side].is_empty() || !self.gate.has_room(RequestKind::of(bio.op, bio.flags))
        {
            let ticket = self.tickets;
            self.tickets += 1;
            let Owner { client, bytes } = owner;
            self.waiting[side].push_back(InLine { bio, bytes, client: Some(client), ticket });
            return true;
        }
        self.insert_anonymous(now, &bio, owner, scope);
        false
    }

    /// Forgets `client` until it is admitted. Its only bio has just been added to the line of
    /// `side`.
    #[inline]
    fn wait_whole(&mut self, client: u32, side: usize) {
        if let Some(last) = self.waiting[side].back_mut() {
            self.clients.close(client);
            last.client = None;
        }
    }

    #[inline]
    fn insert(&mut self, now: Nanos, bio: &Request, owner: Owner, scope: u32, place: Place) {
        let id = self.queue.insert(now, bio, owner, scope);
        self.queue[id].place = place;
        self.elevator.add(now, id, &mut self.queue);
    }

    #[inline]
    fn insert_anonymous(&mut self, now: Nanos, bio: &Request, owner: Owner, scope: u32) {
        let place = self.gate.admit_anonymous(RequestKind::of(bio.op, bio.flags));
        self.insert(now, bio, owner, scope, place);
    }

    /// Merges `bio` with a queued neighbor if possible, and the result with the neighbor on the
    /// other side.
    #[inline]
    fn merge(&mut self, now: Nanos, bio: &Request, owner: Owner, scope: u32) -> bool {
        if !self.limits.merging || bio.flags.has(Flags::FUA) {
            return false;
        }
        let len_max = self.limits.request_len_max;
        let mergeable = |id: &QueuedId| {
            let known = &self.queue[*id];
            !known.flags.has(Flags::FUA)
                && fits(known.len, bio.len, len_max)
                && self.elevator.may_merge(bio, *id, &self.queue)
        };
        if let Some(id) = self.queue.before(bio, scope).filter(mergeable) {
            self.grow(now, id, bio, owner);
            if E::JOINS
                && let Some(next) = self.queue.joinable(id, len_max)
            {
                self.join(now, id, next);
            }
            return true;
        }
        if let Some(id) = self.queue.after(bio, scope).filter(mergeable) {
            self.grow(now, id, bio, owner);
            if E::JOINS
                && let Some(before) = self.queue.joinable_before(id, len_max)
            {
                self.join(now, before, id);
            }
            return true;
        }
        false
    }

    fn grow(&mut self, now: Nanos, id: QueuedId, bio: &Request, owner: Owner) {
        let offset_before = self.queue[id].offset;
        self.queue.extend(now, id, bio, owner);
        self.elevator.grown(now, id, offset_before, &mut self.queue);
    }

    fn join(&mut self, now: Nanos, kept: QueuedId, gone: QueuedId) {
        if self.queue[kept].flags.with(self.queue[gone].flags).has(Flags::FUA) {
            return;
        }
        self.gate.leave(self.queue[gone].place);
        self.elevator.join(now, kept, gone, &mut self.queue);
        self.queue.join(kept, gone);
    }

    /// Admits waiting requests while there are free slots: those of woken tasks, or the first in
    /// line.
    #[inline]
    fn admit(&mut self, now: Nanos, kind: RequestKind) {
        if self.gate.has_sleepers() {
            self.wake_tasks(now, kind);
        }
        while let Some(side) = self.first_to_enter() {
            let Some(first) = self.waiting[side].pop_front() else { break };
            let InLine { bio, bytes, client, .. } = first;
            let client = client.unwrap_or_else(|| self.clients.open(bio, bytes));
            let owner = Owner { client, bytes };
            let scope = self.elevator.scope(&bio);
            if !self.merge(now, &bio, owner, scope) {
                self.insert_anonymous(now, &bio, owner, scope);
            }
        }
    }

    /// Returns the side to admit from: among sides with a free slot, the one whose first bio has
    /// waited longest.
    #[inline]
    fn first_to_enter(&self) -> Option<usize> {
        let ticket = |side: usize| {
            let first = self.waiting[side].front()?;
            let may = self.gate.has_room(RequestKind::of(first.bio.op, first.bio.flags));
            may.then_some(first.ticket)
        };
        match (ticket(0), ticket(1)) {
            (Some(read), Some(write)) => Some(usize::from(write < read)),
            (read, write) => read.map(|_| 0).or(write.map(|_| 1)),
        }
    }
}

impl<E: Elevator> BlockLayer<E> {
    /// Queues a client request, as a whole or split into bios. The caller must hold the request
    /// once.
    #[inline(always)]
    fn enter(&mut self, now: Nanos, client: u32, request: &Request, bytes: Bytes) {
        if !is_data(request) {
            return self.enter_past(now, client, request, bytes);
        }
        let owner = Owner { client, bytes };
        let is_whole = request.len <= self.limits.bio_len_max.min(self.limits.request_len_max);
        match self.gate.is_anonymous(request) {
            true if is_whole => {
                if self.submit_anonymous(now, *request, owner) && !self.clients.is_parted(client) {
                    self.wait_whole(client, side(request.op));
                }
            }
            true => self.enter_in_line(now, client, request, bytes),
            false if self.gate.sleeps(request.stream) => {
                self.expect_bios(client, request, is_whole);
                self.gate.hold(*request, bytes, Some(client), 0);
            }
            false if is_whole => {
                if !self.submit_bio(now, request, owner) {
                    self.sleep(request, bytes, client, 0);
                }
            }
            false => {
                self.expect_bios(client, request, is_whole);
                if let Err(entered) = self.go_on(now, client, request, bytes, 0) {
                    self.sleep(request, bytes, client, entered);
                }
            }
        }
    }

    /// Queues a long request whose submitter is unknown.
    fn enter_in_line(&mut self, now: Nanos, client: u32, request: &Request, bytes: Bytes) {
        self.expect_bios(client, request, false);
        for bio in bios(request, &self.limits) {
            let bytes = bytes.on((bio.offset - request.offset) as u32);
            self.submit_anonymous(now, bio, Owner { client, bytes });
        }
    }

    /// Adds a hold of `client` for each bio of `request` except the first.
    #[inline]
    fn expect_bios(&mut self, client: u32, request: &Request, is_whole: bool) {
        if !is_whole {
            self.clients.hold(client, bios(request, &self.limits).count() as u32 - 1);
        }
    }

    /// Queues a flush, a trim or a write's preflush, which bypass the elevator.
    fn enter_past(&mut self, now: Nanos, client: u32, request: &Request, bytes: Bytes) {
        let request = if is_parted(request) { preflush(request) } else { *request };
        let part = Part::new(now, &request, Owner { client, bytes });
        self.bypass.push_back(self.queue.insert_bypassing(&request, part));
    }

    /// Ends all parts of a request.
    #[inline(always)]
    fn end(&mut self, cx: &mut Cx<'_>, id: QueuedId, outcome: Outcome) {
        let bypasses = self.queue[id].bypasses;
        if !bypasses {
            self.elevator.completed(cx.now, id, &self.queue);
        }
        let (place, mut next) = self.queue.finish(id);
        while let Some(part) = self.queue.take_part(&mut next) {
            let (client, wait, held) = (part.client, cx.now - part.admitted, Nanos::ZERO);
            if !self.clients.release(Release { client, wait, held, outcome, class: 0 }) {
                continue;
            }
            if self.clients.was_flushed(client) {
                self.flushed.push(client);
            } else {
                cx.finished.push(self.clients.answer(client));
            }
        }
        self.leave(cx.now, place, bypasses);
        if !self.flushed.is_empty() {
            self.enter_flushed(cx.now);
        }
    }

    /// Queues writes whose preflush has completed.
    #[cold]
    fn enter_flushed(&mut self, now: Nanos) {
        while let Some(client) = self.flushed.pop() {
            let (write, bytes) = self.clients.rest(client);
            self.enter(now, client, &write, bytes);
        }
    }

    /// Retries each part of a failed request separately.
    #[cold]
    fn again(&mut self, now: Nanos, id: QueuedId) {
        let (mut io, bypasses) = (self.queue.io(now, id, self.lane), self.queue[id].bypasses);
        if !bypasses {
            self.elevator.completed(now, id, &self.queue);
        }
        let (place, mut next) = self.queue.finish(id);
        while let Some(part) = self.queue.take_part(&mut next) {
            io.len = part.len;
            self.bypass.push_back(self.queue.insert_bypassing(&io, part));
            io.offset += u64::from(part.len);
        }
        self.leave(now, place, bypasses);
    }

    /// Handles a request that leaves the queue.
    #[inline]
    fn leave(&mut self, now: Nanos, place: Place, bypasses: bool) {
        if !bypasses {
            self.gate.leave(place);
            match self.gate.wakes_later() {
                true => self.left.push(place.kind),
                false => self.admit(now, place.kind),
            }
        }
    }

    /// Returns the next request to dispatch.
    #[inline]
    fn next_request(&mut self, now: Nanos) -> Option<QueuedId> {
        if let Some(id) = self.bypass.pop_front() {
            return Some(id);
        }
        // The next request is chosen before woken tasks submit theirs.
        let taken = self.take(now);
        if !self.wake_later(now) || taken.is_some() {
            return taken;
        }
        self.bypass.pop_front().or_else(|| self.take(now))
    }

    #[inline]
    fn take(&mut self, now: Nanos) -> Option<QueuedId> {
        let id = self.elevator.take(now, &mut self.queue)?;
        self.queue.started(id);
        if let Some(throttle) = self.gate.throttle()
            && self.queue[id].op == Op::Read
        {
            throttle.read_given(now, id);
        }
        Some(id)
    }

    /// Wakes tasks for the requests that have left the queue. Returns whether any request had left.
    #[inline]
    fn wake_later(&mut self, now: Nanos) -> bool {
        if self.left.is_empty() {
            return false;
        }
        for at in 0..self.left.len() {
            self.admit(now, self.left[at]);
        }
        self.left.clear();
        true
    }
}

impl<E: Elevator> Policy for BlockLayer<E> {
    #[inline]
    fn submit(&mut self, cx: &mut Cx<'_>, request: Request, bytes: Bytes) {
        self.wake_later(cx.now);
        if self.gate.sleeps(request.stream) && !self.gate.is_anonymous(&request) {
            return self.gate.hold(request, bytes, None, 0);
        }
        let client = self.clients.open(request, bytes);
        match is_parted(&request) {
            true => self.enter_past(cx.now, client, &request, bytes),
            false => self.enter(cx.now, client, &request, bytes),
        }
    }

    #[inline]
    fn dispatch(&mut self, now: Nanos, lane: Lane) -> Option<Request> {
        if lane != self.lane {
            return None;
        }
        let id = self.next_request(now)?;
        Some(self.queue.io(now, id, lane))
    }

    #[inline]
    fn complete(&mut self, cx: &mut Cx<'_>, done: &Completion) {
        let id = done.io.id as QueuedId;
        if let Some(throttle) = self.gate.throttle()
            && !self.queue[id].bypasses
        {
            throttle.ended(cx.now, id, done.io.op, done.io.at);
        }
        match done.outcome {
            Err(fault) if fault != Fault::Gone && !self.queue.is_single(id) => {
                self.again(cx.now, id);
            }
            outcome => self.end(cx, id, outcome),
        }
    }

    #[inline]
    fn wakeup(&self) -> Option<Nanos> {
        self.elevator.wakeup()
    }

    fn pieces(&self, io: &Request, each: &mut dyn FnMut(Piece)) {
        if io.op.moves_data() {
            self.queue.parts(io.id as QueuedId, |part| each(part.bytes.len(part.len)));
        }
    }

    fn begin_stream(&mut self, stream: u32) {
        self.gate.begin_stream(stream);
        self.elevator.begin_stream(stream, &self.queue);
    }

    fn figures(&self) -> Vec<Figure> {
        self.elevator.figures()
    }
}

/// Returns whether the request passes through the elevator.
#[inline]
fn is_data(request: &Request) -> bool {
    request.op.moves_data() && request.len > 0
}

#[inline]
fn side(op: Op) -> usize {
    usize::from(op == Op::Write)
}

/// Splits a client request into bios, none longer than the limits for bios and requests.
pub fn bios(request: &Request, limits: &Limits) -> impl Iterator<Item = Request> + use<> {
    bios_from(request, limits, 0)
}

/// Returns the bios starting at byte `done`, which must be the start of a bio.
#[inline]
fn bios_from(
    request: &Request,
    limits: &Limits,
    mut done: u32,
) -> impl Iterator<Item = Request> + use<> {
    let (whole, bio_max, request_max) = (*request, limits.bio_len_max, limits.request_len_max);
    std::iter::from_fn(move || {
        if done == whole.len {
            return None;
        }
        let bio_left = bio_max - done % bio_max;
        let len = (whole.len - done).min(bio_left).min(request_max);
        let bio = Request { offset: whole.offset.saturating_add(u64::from(done)), len, ..whole };
        done += len;
        Some(bio)
    })
}
