//! Shapers, which decompose arrivals into classes and recombine the classes on servers.
//!
//! Source: L. Lu, *Workload Shaping for QoS and Power Efficiency of Storage Systems*. RTT
//! ([`crate::rtt`]) puts a request into Q1 exactly if a server with a rate of `cmin` requests per
//! second would finish it within the bound. All others are offered to the next tier, and finally go
//! to the last class, which has no promise. A [`Recombine`] then decides which class the server
//! serves next; within a class, requests are served first come, first served. With [`Promised`],
//! each stream has its own promises. Two shapers in common use, a token bucket and dmClock, are
//! available for comparison.
//!
//! **Dependencies**, which the source leaves open: a request that overlaps an earlier, unfinished
//! one, if either changes the data, is started only after the other has completed, and is never
//! placed in an earlier class. No class therefore ever waits for a later one, which prevents
//! deadlocks.
//!
//! Departures: admission exactly simulates a server of rate `cmin`, while the source's listing
//! compares the length of the queue; Miser supports both. A request longer than the device's
//! maximum is sent in parts, one after another, and a write with preflush is sent as a flush and a
//! write. Each counts as one request.
//!
//! A shaper runs either above its own device, or above a stack ([`Above`]), to which it passes at
//! most as many requests at a time as its depth permits.

mod above;
mod backlog;
mod device_time;
mod dmclock;
mod fair;
mod fcfs;
mod miser;
mod overlap;
mod pace;
mod pending;
mod promised;
mod split;
mod tags;
mod token_bucket;

pub use above::Above;
pub use backlog::Backlog;
pub use dmclock::{DmClock, Share};
pub use fair::{Sfq, Wf2q};
pub use fcfs::Fcfs;
pub use miser::{Admission, Miser};
pub use pace::{Capacity, Following, Moment, Pace};
pub use promised::{Promise, Promised};
pub use split::Split;
pub use token_bucket::TokenBucket;

use crate::contract::{
    Bytes, Class, Completion, Cx, Done, Figure, Flags, Gauge, Lane, Nanos, Op, Piece, Policy,
    Request, RequestId,
};
use pace::{Follower, Full};
use pending::Pending;

/// Decides which class is served next.
pub trait Recombine {
    /// Returns the class of `request`, which has just arrived and is not yet in `backlog`. If
    /// classes are ordered, the class must be `least` or a later one.
    fn arrive(&mut self, at: Moment, request: &Request, least: usize, backlog: &Backlog) -> usize;

    /// Returns the class whose first request `lane` should serve now. [`Backlog::is_ready`] must be
    /// true for it. `None` leaves the lane idle.
    fn next(&mut self, at: Moment, lane: Lane, backlog: &Backlog) -> Option<usize>;

    /// Returns a class whose first request may now join an earlier class, and that earlier class.
    /// RTT has admitted the request.
    #[inline]
    fn promoted(&mut self, _at: Moment, _backlog: &Backlog) -> Option<(usize, usize)> {
        None
    }

    /// Returns the stream of a request for the layer below.
    #[inline]
    fn stream_below(&self, stream: u32) -> u32 {
        stream
    }

    /// Records that a request of `class` has completed.
    #[inline]
    fn completed(&mut self, _class: usize) {}

    /// Whether other requests may be sent between two parts of a request.
    const MIXES_PARTS: bool = false;

    /// Returns the length of the next part of a request that has `left` bytes left.
    #[inline]
    fn part_bytes(&self, _op: Op, left: u32) -> u32 {
        left
    }

    /// Records that `io`, the part chosen by [`Recombine::next`], is being sent. Returns additional
    /// flags for `io`.
    #[inline]
    fn sent(&mut self, _now: Nanos, _io: &Request) -> Flags {
        Flags::NONE
    }

    /// Records that the part `id` has completed.
    #[inline]
    fn part_completed(&mut self, _now: Nanos, _id: RequestId) {}

    /// Returns whether [`Recombine::next`] last returned `None` because the device has enough work.
    #[inline]
    fn is_saturated(&self) -> bool {
        false
    }

    /// Returns whether [`Recombine::next`] would have returned a request if no earlier request had
    /// taken longer than expected.
    #[inline]
    fn is_cautious(&self) -> bool {
        false
    }

    /// Returns how much `io` counts in the measured rate, in thousandths of a small request.
    #[inline]
    fn units_milli(&self, _io: &Request) -> u64 {
        1000
    }

    /// Returns the current values of the shaper's gauges.
    fn gauges(&self) -> Vec<Gauge> {
        Vec::new()
    }

    /// Returns the index into [`Policy::classes`] under which requests of `class` are reported. The
    /// last index is used if it is too high.
    #[inline]
    fn reported(&self, class: usize) -> usize {
        class
    }

    /// Returns the server capacity that the shaper needs to keep its promises. By default there are
    /// no promises.
    fn capacity(&self) -> Capacity {
        Capacity::default()
    }

    /// Returns when to call [`Recombine::next`] again after it returned `None`.
    #[inline]
    fn wakeup(&self) -> Option<Nanos> {
        None
    }
}

/// The properties common to all shapers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The classes to report: either one entry per class, or a single one for all.
    pub classes: Vec<Class>,
    /// The rate of each server in IOPS if several servers are required; otherwise empty.
    pub servers: Vec<u64>,
    /// The maximum number of outstanding I/Os per server.
    pub depth: u32,
    /// The longest I/O, in bytes.
    pub len_max: u32,
    /// Whether dependent requests keep their order.
    pub dependencies: bool,
    /// The limits within which rates follow the server's actual pace; `None` if rates are fixed.
    /// Requires a single server.
    pub following: Option<Following>,
}

/// The state of a server.
#[derive(Clone, Copy, Debug, Default)]
struct Server {
    in_flight: u32,
    /// The request that still has unsent parts.
    sending: Option<u32>,
}

/// A shaping policy, whose classes are recombined by `R`.
#[derive(Clone, Debug)]
pub struct Shaper<R> {
    recombine: R,
    backlog: Backlog,
    shape: Shape,
    servers: Vec<Server>,
    wakeup: Option<Nanos>,
    follower: Option<Follower>,
}

impl<R: Recombine> Shaper<R> {
    /// Creates a shaper with the given recombiner.
    pub fn new(recombine: R, shape: Shape) -> Shaper<R> {
        let servers = vec![Server::default(); shape.servers.len().max(1)];
        let backlog = Backlog::new(shape.dependencies, shape.classes.len());
        let shortest = shape.classes.iter().map(|class| class.within).min();
        let follower = |following| Follower::new(following, shortest.unwrap_or(Nanos::ZERO));
        let follower = shape.following.map(follower);
        Shaper { recombine, backlog, shape, servers, wakeup: None, follower }
    }

    /// Returns the current time, also on the clock with which rates are counted.
    #[inline]
    fn moment(&mut self, now: Nanos) -> Moment {
        let Some(follower) = &mut self.follower else { return Moment::plain(now) };
        follower.moment(now, || self.recombine.capacity())
    }

    /// Records whether the request `whole`, completed by its last part `done`, was in time. If
    /// there is only one class, the time counts from when the shaper dispatched the I/O, because
    /// the bound is then a requirement on the server.
    fn observe(&mut self, done: &Completion, whole: &Pending, class: u16) {
        let (Some(follower), classes) = (&mut self.follower, &self.shape.classes) else { return };
        let since = if classes.len() == 1 { done.io.at } else { whole.admitted };
        if !R::MIXES_PARTS {
            follower.ended(1000);
        }
        if classes.len() == 1 || usize::from(class) + 1 < classes.len() {
            let is_late = done.at - since > classes[usize::from(class)].within;
            follower.was_due(since, is_late);
        }
    }

    /// Returns the lane to which the request that contains `io` was submitted.
    pub(super) fn lane(&self, io: &Request) -> Lane {
        self.backlog.lane(io.id as u32)
    }

    /// Returns the stream of an I/O for the layer below. Flushes keep theirs, because layers report
    /// lost data to each client that flushes.
    #[inline]
    fn stream_below(&self, io: &Request) -> u32 {
        match io.op {
            Op::Read | Op::Write | Op::Trim => self.recombine.stream_below(io.stream),
            _ => io.stream,
        }
    }

    /// Moves requests to the classes that they now belong to.
    #[inline]
    fn promote(&mut self, at: Moment) {
        while let Some((from, to)) = self.recombine.promoted(at, &self.backlog) {
            self.backlog.promote(at, from, to);
        }
    }

    /// Returns the next I/O, which may be a part of any request, and the key of that request.
    fn next_part(&mut self, at: Moment, lane: Lane) -> Option<(Request, u32)> {
        self.promote(at);
        let class = self.recombine.next(at, lane, &self.backlog);
        self.wakeup = if class.is_none() { self.recombine.wakeup() } else { None };
        if let Some(follower) = &mut self.follower
            && self.recombine.is_saturated()
        {
            let inside = self.servers[usize::from(lane)].in_flight;
            let is_cautious = self.recombine.is_cautious();
            follower.window(at.now, Some(Full { inside, is_cautious }));
        }
        let (op, left) = self.backlog.first_left(class?)?;
        let part = self.recombine.part_bytes(op, left);
        let len_max = if op.moves_data() { part.min(self.shape.len_max) } else { part };
        self.backlog.send_first(class?, len_max)
    }

    /// Returns the next I/O and the key of its request. The parts of a request are sent one after
    /// another.
    fn next_of_request(&mut self, at: Moment, lane: Lane) -> Option<(Request, u32)> {
        let key = self.chosen(at, lane)?;
        if self.backlog.is_flushing(key) {
            self.wakeup = None;
            return None;
        }
        let (part, is_last) = self.backlog.send(key, self.shape.len_max);
        self.servers[usize::from(lane)].sending = (!is_last).then_some(key);
        Some((part, key))
    }

    /// Returns the request to send next, or to continue sending.
    #[inline]
    fn chosen(&mut self, at: Moment, lane: Lane) -> Option<u32> {
        if let Some(key) = self.servers[usize::from(lane)].sending {
            return Some(key);
        }
        let class = self.recombine.next(at, lane, &self.backlog);
        self.wakeup = if class.is_none() { self.recombine.wakeup() } else { None };
        Some(self.backlog.take(class?))
    }
}

impl<R: Recombine> Policy for Shaper<R> {
    #[inline]
    fn submit(&mut self, cx: &mut Cx<'_>, request: Request, bytes: Bytes) {
        let at = self.moment(cx.now);
        let least = self.backlog.least_class(&request);
        let backlog = &self.backlog;
        let class = self.recombine.arrive(at, &request, least.unwrap_or(0), backlog);
        self.backlog.push(at, (request, bytes), class, least.is_some());
        self.promote(at);
    }

    #[inline]
    fn dispatch(&mut self, now: Nanos, lane: Lane) -> Option<Request> {
        if self.servers.get(usize::from(lane))?.in_flight >= self.shape.depth {
            self.wakeup = None;
            return None;
        }
        let at = self.moment(now);
        let (part, key) = match R::MIXES_PARTS {
            true => self.next_part(at, lane)?,
            false => self.next_of_request(at, lane)?,
        };
        let server = &mut self.servers[usize::from(lane)];
        server.in_flight += 1;
        if let Some(follower) = &mut self.follower {
            let (inside, depth) = (server.in_flight, self.shape.depth);
            let full = Full { inside, is_cautious: false };
            follower.window(now, (inside >= depth).then_some(full));
        }
        // The part number in the id distinguishes concurrent parts of a request.
        let id = u64::from(key) | u64::from(self.backlog.parts_sent(key)) << 32;
        let io = Request { at: now, id, lane, ..part };
        let flags = self.recombine.sent(now, &io);
        Some(Request { flags: io.flags.with(flags), ..io })
    }

    #[inline]
    fn complete(&mut self, cx: &mut Cx<'_>, done: &Completion) {
        let (server, key) = (&mut self.servers[usize::from(done.io.lane)], done.io.id as u32);
        server.in_flight -= 1;
        self.recombine.part_completed(cx.now, done.io.id);
        if let Some(follower) = &mut self.follower
            && R::MIXES_PARTS
        {
            follower.ended(self.recombine.units_milli(&done.io));
        }
        let whole = self.backlog.part_done(key, done.outcome);
        if server.sending == Some(key) && whole.is_some() {
            server.sending = None;
        }
        if let Some(whole) = whole {
            self.answer(cx, done, &whole);
        }
        if let Some(follower) = &mut self.follower {
            follower.window(cx.now, None);
        }
    }

    #[inline]
    fn wakeup(&self) -> Option<Nanos> {
        self.wakeup
    }

    fn pieces(&self, io: &Request, each: &mut dyn FnMut(Piece)) {
        if io.op.moves_data() {
            each(self.backlog.piece(io.id as u32, io));
        }
    }

    fn figures(&self) -> Vec<Figure> {
        self.follower.iter().flat_map(Follower::figures).collect()
    }

    fn gauges(&self) -> Vec<Gauge> {
        let pace = self.follower.iter().flat_map(Follower::gauges);
        pace.chain(self.recombine.gauges()).collect()
    }

    fn classes(&self) -> &[Class] {
        &self.shape.classes
    }

    fn unanswered(&self, each: &mut dyn FnMut(RequestId, u16, Nanos)) {
        for pending in self.backlog.unanswered() {
            let deferred = pending.admitted - pending.request.at;
            each(pending.request.id, self.reported(pending.class), deferred);
        }
    }

    fn servers(&self) -> &[u64] {
        &self.shape.servers
    }
}

impl<R: Recombine> Shaper<R> {
    /// Returns the index into [`Policy::classes`] of a class of the recombiner.
    #[inline]
    fn reported(&self, class: usize) -> u16 {
        self.recombine.reported(class).min(self.shape.classes.len().saturating_sub(1)) as u16
    }

    /// Answers the request `whole`, whose last part `done` has completed.
    #[inline]
    fn answer(&mut self, cx: &mut Cx<'_>, done: &Completion, whole: &Pending) {
        self.recombine.completed(whole.class);
        let class = self.reported(whole.class);
        self.observe(done, whole, class);
        let (wait, outcome) = (cx.now - whole.admitted, whole.outcome);
        cx.finished.push(Done { request: whole.request, wait, held: Nanos::ZERO, outcome, class });
    }
}
