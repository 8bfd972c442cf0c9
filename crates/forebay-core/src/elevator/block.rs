//! The block layer: bios, merging, the request queue and its limits, around an elevator.
//!
//! Source: the **bid** paper's appendix (a bio holds up to 256 pages of 4 KiB; a request up to 512
//! KiB; 128 read and 128 write requests) and Linux. A bio is merged if possible and otherwise needs
//! a free request; its submitter waits for one according to [`super::gate`]. A request stays
//! allocated until it completes. Flushes and trims bypass the elevator and are dispatched first, as
//! in Linux's flush machinery. A write with preflush becomes a flush followed by a write.
//! Everything that a stream submits while it waits is held, including flushes.
//!
//! If a merged request fails, each part is retried separately, bypassing the elevator, so that a
//! part does not fail because of a neighbor; unless the device is gone.
//!
//! Departures: there is no plugging, but everything that a task submits at one instant is merged
//! before any of it is dispatched; requests with FUA do not merge but are otherwise ordinary.

mod tasks;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use super::gate::{Gate, Held, Place, RequestKind};
use super::limits::Limits;
use super::queue::{Owner, Part, Queue, QueuedId, fits};
use crate::contract::bytes::{Bytes, Piece};
use crate::contract::device::Completion;
use crate::contract::outcome::{Fault, Outcome};
use crate::contract::policy::{Cx, Figure, Policy};
use crate::contract::request::{Flags, Lane, Op, Request};
use crate::contract::time::Nanos;
use crate::outstanding::{Outstanding, Release, is_parted, preflush};

/// Decides the order of the request queue. Requests named in the calls are in the queue.
pub trait Elevator {
    /// Returns the merge scope: only bios and requests of one scope (and one direction) merge.
    fn scope(&self, bio: &Request) -> u32;

    /// Returns how many tags of each word of `word` tags `bio` may use (Linux `limit_depth`), where
    /// its request queue has tags.
    #[inline]
    fn first_tags(&self, _bio: &Request, word: u32) -> u32 {
        word
    }

    /// Request `id` is new in the queue.
    fn add(&mut self, now: Nanos, id: QueuedId, queue: &mut Queue);

    /// A bio was merged into `id`; its offset was `offset_before`.
    fn grown(&mut self, now: Nanos, id: QueuedId, offset_before: u64, queue: &mut Queue);

    /// Called before `gone`, which starts where `kept` ends, is merged into `kept` and removed.
    fn join(&mut self, now: Nanos, kept: QueuedId, gone: QueuedId, queue: &mut Queue);

    /// Returns the request to give to the device now, or none.
    fn take(&mut self, now: Nanos, queue: &mut Queue) -> Option<QueuedId>;

    /// Returns a request that another device should do; it stays in the queue until that has done
    /// it.
    #[inline]
    fn divert(&mut self, _now: Nanos, _queue: &mut Queue) -> Option<QueuedId> {
        None
    }

    /// Called if the other device has no space for `id`, the last result of [`Elevator::divert`],
    /// so that it must be dispatched here after all.
    #[inline]
    fn keep(&mut self, _id: QueuedId, _queue: &mut Queue) {}

    /// The device has completed `id`, which is still in the queue.
    #[inline]
    fn completed(&mut self, _now: Nanos, _id: QueuedId, _queue: &Queue) {}

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

    /// Returns whether `bio` may merge with request `id`, of its scope, which it touches.
    #[inline]
    fn may_merge(&self, _bio: &Request, _id: QueuedId, _queue: &Queue) -> bool {
        true
    }
}

/// A bio that waits in line for admission. There may be as many as requests in a trace, so this is
/// the only state of a request that waits as a whole.
#[derive(Clone, Copy, Debug)]
struct InLine {
    bio: Request,
    bytes: Bytes,
    /// The client whose part this is; `None` for a complete request, which becomes a client's when
    /// it is admitted.
    client: Option<u32>,
    /// The number of bios that had to wait before this one.
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
    /// Admits requests to the queue, and holds those that must wait.
    gate: Gate,
    /// Bios waiting for admission in line, reads and writes.
    waiting: [VecDeque<InLine>; 2],
    /// The number of bios that had to wait so far.
    tickets: u64,
    /// Flushes, trims and parts of failed requests, which the elevator does not see.
    bypass: VecDeque<QueuedId>,
    /// Clients' writes whose preflush has completed.
    flushed: Vec<u32>,
    /// The kinds of requests that have left the queue since tasks were last woken for them.
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

    /// Returns the next request that another device should do, if there is one. It completes like
    /// one that was dispatched.
    pub(crate) fn divert(&mut self, now: Nanos) -> Option<Request> {
        let id = self.elevator.divert(now, &mut self.queue)?;
        Some(self.queue.io(now, id, self.lane))
    }

    /// A request that was diverted is done here after all.
    pub(crate) fn keep(&mut self, io: &Request) {
        self.elevator.keep(io.id as QueuedId, &mut self.queue);
    }

    /// Records that the request is handled elsewhere and is no longer merged.
    pub(crate) fn gone(&mut self, io: &Request) {
        self.queue.started(io.id as QueuedId);
    }

    /// Takes back a request that failed elsewhere: each of its parts is executed here, separately.
    pub(crate) fn back(&mut self, cx: &mut Cx<'_>, io: &Request) {
        self.again(cx.now, io.id as QueuedId);
    }

    /// Calls `each` with the parts of a request that was given or diverted, in the order of their
    /// bytes: the first byte, and where the bytes are.
    pub(crate) fn parts(&self, io: &Request, each: &mut dyn FnMut(u64, Piece)) {
        let mut offset = io.offset;
        self.queue.parts(io.id as QueuedId, |part| {
            each(offset, part.bytes.len(part.len));
            offset += u64::from(part.len);
        });
    }

    /// Merges `bio` or queues it; whether there was room.
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

    /// The same of one that nobody sleeps for, or lets it wait in line; whether it waits.
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

    /// `client`, whose only bio on its `side` has just begun to wait, is forgotten until it is admitted.
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

    /// Merges `bio` with a queued neighbor if there is one, and then that with the next one.
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

    /// Admits waiting requests while there are free slots: woken tasks, or the first in the line.
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

    /// Returns the side with free slots whose first bio has waited longest.
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
    /// Queues a client request, on which the caller has one hold, as a whole or in bios.
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

    /// Has each bio of `request` hold `client`.
    #[inline]
    fn expect_bios(&mut self, client: u32, request: &Request, is_whole: bool) {
        if !is_whole {
            self.clients.hold(client, bios(request, &self.limits).count() as u32 - 1);
        }
    }

    /// Adds a flush, a trim, or a write's preflush, which bypass the elevator.
    fn enter_past(&mut self, now: Nanos, client: u32, request: &Request, bytes: Bytes) {
        let request = if is_parted(request) { preflush(request) } else { *request };
        let part = Part::new(now, &request, Owner { client, bytes });
        self.bypass.push_back(self.queue.insert_bypassing(&request, part));
    }

    /// A request has ended for all its parts.
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

    /// Retries each part of a request separately.
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

    /// A request has left the queue.
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

    /// Returns the next request to give to the device.
    #[inline]
    fn next_request(&mut self, now: Nanos) -> Option<QueuedId> {
        if let Some(id) = self.bypass.pop_front() {
            return Some(id);
        }
        // Requests that a woken task submits come after the choice of the next request.
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

    /// Wakes tasks for requests that have left the queue; returns whether there were any.
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

    fn figures(&self) -> Vec<Figure> {
        self.elevator.figures()
    }
}

/// Returns whether the request goes through the elevator.
#[inline]
fn is_data(request: &Request) -> bool {
    request.op.moves_data() && request.len > 0
}

#[inline]
fn side(op: Op) -> usize {
    usize::from(op == Op::Write)
}

/// Returns the bios of a client request, each no longer than a bio or a request may be.
pub fn bios(request: &Request, limits: &Limits) -> impl Iterator<Item = Request> + use<> {
    bios_from(request, limits, 0)
}

/// Returns the bios from byte `done` on, which must be the start of one of them.
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
