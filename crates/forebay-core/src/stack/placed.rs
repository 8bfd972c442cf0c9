//! Placement above policies: the placement decides which lanes store a request's data, and the
//! policies below decide the order on each lane.
//!
//! A [`Placement`] turns a client request into I/Os on lanes. It may add more I/Os when one of them
//! has completed, when it is woken, or in the background, for example to read before writing, to
//! move data, or to rebuild. It may hold a request without an I/O, or answer it immediately.
//! [`Placed`] does the bookkeeping: it passes the I/Os to the policies below, and answers a request
//! when it has no holds left. Each policy below has some of the lanes, which it numbers from 0.
//!
//! Everything that follows from a call is executed step by step from lists, never by recursion,
//! because a policy below may answer during a call. Holds are processed before releases, so that no
//! request is answered twice. A buffer is held from the planning of an I/O until its completion.

pub(crate) mod plan;

use crate::contract::{
    Bytes, Class, Completion, Cx, Done, Figure, Finished, Gauge, Lane, Nanos, Outcome, Piece,
    Policy, Request, RequestId, VolumeEvent, VolumeOrder, VolumeState,
};
use crate::outstanding::{Outstanding, Release, is_parted, preflush};
use crate::slab::Slab;

use plan::Wanted;
pub use plan::{Owner, Plan, Planned};

/// Decides which lanes store which data.
pub trait Placement {
    /// Whether the placement plans background I/Os ([`Owner::Background`]). If so, the policies
    /// below number clients' streams from 1, and stream 0 is the background.
    const BACKGROUND: bool = true;

    /// Plans the first I/Os of a client request whose data begins at `bytes`, or holds the request.
    /// If it does neither, the request is answered. Requests never have a preflush, which is a
    /// separate flush that comes first.
    fn place(&mut self, client: u32, request: &Request, bytes: Bytes, plan: &mut Plan<'_>);

    /// Handles the completion of a planned I/O, and may plan more, also for the same client.
    /// Returns the outcome to report to the client.
    fn done(&mut self, io: &Planned, outcome: Outcome, plan: &mut Plan<'_>) -> Outcome;

    /// Returns when to wake the placement even if nothing happens.
    fn wakeup(&self) -> Option<Nanos> {
        None
    }

    /// Called when [`Placement::wakeup`] is reached.
    fn wake(&mut self, _plan: &mut Plan<'_>) {}

    /// Called when a lane has completed an I/O, before [`Placement::done`] is called for each
    /// request in it.
    fn ended(&mut self, _done: &Completion) {}

    /// Offers `io`, which consists of `parts` that this placement planned, to the placement,
    /// because the policy of its lane suggests another device for it. Returns whether the placement
    /// accepts `io`. If so, the placement must report its completion ([`Plan::diverted`]).
    fn divert(&mut self, _io: &Request, _parts: &[Diverted], _plan: &mut Plan<'_>) -> bool {
        false
    }

    /// Called when a stream number is reassigned to a new submitter.
    fn begin_stream(&mut self, _stream: u32) {}

    /// Returns the placement's own statistics; most have none.
    fn figures(&self) -> Vec<Figure> {
        Vec::new()
    }

    /// Returns the current values of the placement's gauges; most have none.
    fn gauges(&self) -> Vec<Gauge> {
        Vec::new()
    }

    /// Returns the state of the volume, if the placement is one ([`Policy::volume`]).
    fn volume(&self) -> Option<VolumeState> {
        None
    }

    /// Passes an order to a volume ([`Policy::order`]).
    ///
    /// # Errors
    /// Returns the reason if the order cannot be carried out.
    fn order(&mut self, _now: Nanos, order: &VolumeOrder) -> Result<(), String> {
        Err(order.unfit().into())
    }

    /// Removes and returns the events of the volume ([`Policy::take_events`]).
    fn take_events(&mut self) -> Vec<VolumeEvent> {
        Vec::new()
    }
}

/// A part of an I/O for which a lane's policy suggests another device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Diverted {
    /// The first byte on the lane.
    pub offset: u64,
    /// The memory of the part.
    pub piece: Piece,
}

/// A policy below a placement. It may divert requests, which means that another device should serve
/// them.
pub trait Beneath: Policy {
    /// Returns the next request to divert, if there is one.
    fn divert(&mut self, _now: Nanos) -> Option<Request> {
        None
    }
    /// Called when another device has started the request.
    fn gone(&mut self, _io: &Request) {}
    /// Called if no other device has space for the request, so that it must be served here.
    fn keep(&mut self, _io: &Request) {}
    /// Called if the request failed on the other device.
    fn back(&mut self, _cx: &mut Cx<'_>, _io: &Request) {}
    /// Calls `each` with the parts of a request, in the order of their bytes. The arguments are the
    /// first byte on the lane and the piece of memory.
    fn parts(&self, _io: &Request, _each: &mut dyn FnMut(u64, Piece)) {}
}

impl Beneath for Box<dyn Policy + Send> {}

/// The lowest bit of an id marks I/Os that bypass the policies below. The other bits are the id
/// that the policy uses.
const PAST: RequestId = 1;

/// A placement above policies.
pub struct Placed<A, P> {
    placement: A,
    beneath: Vec<P>,
    /// The policy of each lane, and the number that the policy uses for the lane.
    routes: Vec<(usize, Lane)>,
    /// The first lane of each policy.
    firsts: Vec<Lane>,
    clients: Outstanding,
    planned: Slab<Planned>,
    wanted: Wanted,
    /// The answers of the policies below, and how many have been processed.
    answered: Finished,
    answered_seen: usize,
    parts: Vec<Diverted>,
}

macro_rules! plan {
    ($self:ident, $cx:ident) => {
        &mut Plan::new($cx.now, &mut *$cx.slots, &mut $self.wanted)
    };
}

impl<A: Placement, P: Beneath> Placed<A, P> {
    /// Puts `placement` above `beneath`, policies with their numbers of lanes. The lanes are
    /// numbered consecutively.
    pub fn new(placement: A, beneath: impl IntoIterator<Item = (P, Lane)>) -> Placed<A, P> {
        let (mut policies, mut routes, mut firsts) = (Vec::new(), Vec::new(), Vec::new());
        for (policy, lanes) in beneath {
            firsts.push(routes.len() as Lane);
            routes.extend((0..lanes).map(|lane| (policies.len(), lane)));
            policies.push(policy);
        }
        Placed {
            placement,
            beneath: policies,
            routes,
            firsts,
            clients: Outstanding::default(),
            planned: Slab::default(),
            wanted: Wanted::default(),
            answered: Finished::new(),
            answered_seen: 0,
            parts: Vec::new(),
        }
    }

    /// Puts `placement` above policies of one lane each.
    pub fn over(placement: A, lanes: Vec<P>) -> Placed<A, P> {
        Placed::new(placement, lanes.into_iter().map(|policy| (policy, 1)))
    }

    /// Returns the placement, for example for its statistics.
    pub fn placement(&self) -> &A {
        &self.placement
    }

    /// Returns the placement without the policies.
    #[cfg(test)]
    pub(crate) fn into_placement(self) -> A {
        self.placement
    }

    /// Returns whether no work is outstanding, neither for clients nor in the background.
    pub fn is_idle(&self) -> bool {
        self.clients.is_empty() && self.planned.is_empty()
    }

    /// Executes all pending steps.
    fn pump(&mut self, cx: &mut Cx<'_>) {
        loop {
            for client in self.wanted.holds.drain(..) {
                self.clients.hold(client, 1);
            }
            if let Some(release) = self.wanted.releases.pop_front() {
                self.release(cx, release);
            } else if let Some(planned) = self.wanted.ios.pop_front() {
                self.issue(cx, planned);
            } else if let Some(&done) = self.answered.get(self.answered_seen) {
                self.answered_seen += 1;
                self.settle(cx, &done);
            } else if let Some((io, outcome)) = self.wanted.diverted.pop_front() {
                self.end_diverted(cx, io, outcome);
            } else {
                self.answered.clear();
                self.answered_seen = 0;
                if !self.divert(cx) {
                    return;
                }
            }
        }
    }

    fn release(&mut self, cx: &mut Cx<'_>, release: Release) {
        if !self.clients.release(release) {
            return;
        }
        if !self.clients.was_flushed(release.client) {
            return cx.finished.push(self.clients.answer(release.client));
        }
        let (request, bytes) = self.clients.rest(release.client);
        self.placement.place(release.client, &request, bytes, plan!(self, cx));
        self.wanted.release(release.client, Ok(()), release.class);
    }

    /// Passes an I/O to the policy of its lane.
    fn issue(&mut self, cx: &mut Cx<'_>, planned: Planned) {
        let (place, lane) = self.routes[usize::from(planned.lane)];
        let request = Request {
            at: cx.now,
            offset: planned.offset,
            id: RequestId::from(self.planned.insert(planned)),
            len: planned.len,
            stream: planned.stream.wrapping_add(u32::from(A::BACKGROUND)),
            lane,
            op: planned.op,
            flags: planned.flags,
        };
        let cx = &mut cx.beneath(&mut self.answered);
        self.beneath[place].submit(cx, request, planned.bytes);
    }

    /// Handles the answer of a lane's policy to an I/O.
    fn settle(&mut self, cx: &mut Cx<'_>, done: &Done) {
        let io = self.planned.remove(done.request.id as u32);
        self.finish(cx, &io, done);
    }

    fn finish(&mut self, cx: &mut Cx<'_>, io: &Planned, done: &Done) {
        let outcome = self.placement.done(io, done.outcome, plan!(self, cx));
        if io.bytes.buf != 0 && io.op.moves_data() {
            cx.slots.free(io.bytes.buf);
        }
        if let Owner::Client(client) = io.owner {
            let Done { wait, held, class, .. } = *done;
            self.wanted.release_after(Release { client, wait, held, outcome, class });
        }
    }

    /// Offers the next diverted request of a policy below to the placement. Returns whether there
    /// was one.
    fn divert(&mut self, cx: &mut Cx<'_>) -> bool {
        for place in 0..self.beneath.len() {
            let beneath = &mut self.beneath[place];
            let Some(io) = beneath.divert(cx.now) else { continue };
            self.parts.clear();
            beneath.parts(&io, &mut |offset, piece| self.parts.push(Diverted { offset, piece }));
            let outward = self.outward(place, io);
            if self.placement.divert(&outward, &self.parts, plan!(self, cx)) {
                self.beneath[place].gone(&io);
            } else {
                self.beneath[place].keep(&io);
            }
            return true;
        }
        false
    }

    /// Handles the completion of a diverted request. If it failed, the policy takes it back.
    fn end_diverted(&mut self, cx: &mut Cx<'_>, diverted: Request, outcome: Outcome) {
        let (place, io) = self.inward(diverted);
        let (now, started) = (cx.now, io.at);
        let cx = &mut cx.beneath(&mut self.answered);
        if outcome.is_err() {
            return self.beneath[place].back(cx, &io);
        }
        let done = Completion { io, started, at: now, mechanics: Default::default(), outcome };
        self.beneath[place].complete(cx, &done);
    }

    /// Converts an I/O of a policy below to the numbering of this policy.
    #[inline]
    fn outward(&self, place: usize, io: Request) -> Request {
        let stream = io.stream.wrapping_sub(u32::from(A::BACKGROUND));
        let (lane, id) = (self.firsts[place] + io.lane, io.id << 1);
        Request { lane, id, stream, ..io }
    }

    /// Converts an I/O to the numbering of the policy below, and returns the index of that policy.
    #[inline]
    fn inward(&self, io: Request) -> (usize, Request) {
        let (place, lane) = self.routes[usize::from(io.lane)];
        let (stream, id) = (io.stream.wrapping_add(u32::from(A::BACKGROUND)), io.id >> 1);
        (place, Request { lane, stream, id, ..io })
    }

    /// Returns the policy below, if there is only one.
    fn only(&self) -> Option<&P> {
        self.beneath.first().filter(|_| self.beneath.len() == 1)
    }

    /// Returns the next I/O that bypasses the policies, if no client's request is outstanding.
    fn past(&mut self, now: Nanos, lane: Lane) -> Option<Request> {
        if !self.clients.is_empty() {
            return None;
        }
        let next = self.wanted.past.iter().position(|io| io.lane == lane)?;
        let planned = self.wanted.past.remove(next)?;
        let Planned { offset, len, stream, op, flags, .. } = planned;
        let id = RequestId::from(self.planned.insert(planned)) << 1 | PAST;
        Some(Request { at: now, offset, id, len, stream, lane, op, flags })
    }
}

impl<A: Placement, P: Beneath> Policy for Placed<A, P> {
    fn submit(&mut self, cx: &mut Cx<'_>, request: Request, bytes: Bytes) {
        let client = self.clients.open(request, bytes);
        match is_parted(&request) {
            false => self.placement.place(client, &request, bytes, plan!(self, cx)),
            true => self.placement.place(client, &preflush(&request), bytes, plan!(self, cx)),
        }
        self.wanted.release(client, Ok(()), 0);
        self.pump(cx);
    }

    fn dispatch(&mut self, now: Nanos, lane: Lane) -> Option<Request> {
        let &(place, own) = self.routes.get(usize::from(lane))?;
        match self.beneath[place].dispatch(now, own) {
            Some(io) => Some(self.outward(place, io)),
            None => self.past(now, lane),
        }
    }

    fn complete(&mut self, cx: &mut Cx<'_>, done: &Completion) {
        self.placement.ended(done);
        if done.io.id & PAST != 0 {
            let io = self.planned.remove((done.io.id >> 1) as u32);
            let (request, wait, outcome) = (done.io, done.at - done.started, done.outcome);
            let done = Done { request, wait, held: Nanos::ZERO, outcome, class: 0 };
            self.finish(cx, &io, &done);
        } else {
            let (place, io) = self.inward(done.io);
            let beneath = &mut cx.beneath(&mut self.answered);
            self.beneath[place].complete(beneath, &Completion { io, ..*done });
        }
        self.pump(cx);
    }

    fn wakeup(&self) -> Option<Nanos> {
        let beneath = self.beneath.iter().filter_map(Policy::wakeup);
        beneath.chain(self.placement.wakeup()).min()
    }

    fn wake(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now;
        for policy in &mut self.beneath {
            if policy.wakeup().is_some_and(|at| at <= now) {
                policy.wake(&mut cx.beneath(&mut self.answered));
            }
        }
        if self.placement.wakeup().is_some_and(|at| at <= now) {
            self.placement.wake(plan!(self, cx));
        }
        self.pump(cx);
    }

    fn pieces(&self, io: &Request, each: &mut dyn FnMut(Piece)) {
        if io.id & PAST == 0 {
            let (place, io) = self.inward(*io);
            self.beneath[place].pieces(&io, each);
        } else if io.op.moves_data() {
            each(self.planned[(io.id >> 1) as u32].bytes.len(io.len));
        }
    }

    fn begin_stream(&mut self, stream: u32) {
        self.placement.begin_stream(stream);
        let below = stream.wrapping_add(u32::from(A::BACKGROUND));
        self.beneath.iter_mut().for_each(|policy| policy.begin_stream(below));
    }

    fn figures(&self) -> Vec<Figure> {
        let mut figures = self.only().map_or_else(Vec::new, Policy::figures);
        figures.extend(self.placement.figures());
        figures
    }

    fn gauges(&self) -> Vec<Gauge> {
        let mut gauges = self.only().map_or_else(Vec::new, Policy::gauges);
        gauges.extend(self.placement.gauges());
        gauges
    }

    fn volume(&self) -> Option<VolumeState> {
        self.placement.volume()
    }

    fn order(&mut self, now: Nanos, order: &VolumeOrder) -> Result<(), String> {
        self.placement.order(now, order)
    }

    fn take_events(&mut self) -> Vec<VolumeEvent> {
        self.placement.take_events()
    }

    fn classes(&self) -> &[Class] {
        self.only().map_or(&[], Policy::classes)
    }

    fn unanswered(&self, each: &mut dyn FnMut(RequestId, u16, Nanos)) {
        let Some(only) = self.only() else { return };
        only.unanswered(&mut |id, class, deferred| {
            if let Owner::Client(client) = self.planned[id as u32].owner {
                each(self.clients.request(client).id, class, deferred);
            }
        });
    }

    fn servers(&self) -> &[u64] {
        self.only().map_or(&[], Policy::servers)
    }
}
