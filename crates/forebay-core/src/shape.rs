//! Shapers: arrivals decomposed into classes, and the classes recombined on servers.
//!
//! Source: L. Lu, *Workload Shaping for QoS and Power Efficiency of Storage Systems*. RTT
//! ([`crate::rtt`]) puts a request into Q1 exactly if a server of `cmin` requests a second would
//! finish it within the bound; what is left is offered to the next tier, and in the end goes
//! to the last class, which is promised nothing. A [`Recombine`] then decides which class the server
//! serves next; within a class requests go first come first served. With
//! [`Promised`] each stream has promises of its own. Beside them stand a token bucket and dmClock, which people use
//! today.
//!
//! **Dependencies**, which the source leaves open: a request that overlaps an earlier, unfinished
//! one, when either changes the data, is not started before that is complete, and is placed in no earlier
//! class. Then no class ever waits for a later one, so nothing waits for itself.
//!
//! Departures: admission counts on the server of rate `cmin` alone, exactly, where the source's
//! listing compares the length of the queue; Miser can do that too. A request longer than the device
//! takes is sent in parts, one after another, and a write with preflush after a flush; it counts as one.
//!
//! A shaper stands above a device of its own, or above a stack ([`Above`]) that it gives as many requests
//! at a time as its depth says.

mod above;
mod backlog;
mod dmclock;
mod fcfs;
mod miser;
mod overlap;
mod pending;
mod promised;
mod sfq;
mod split;
mod tags;
mod token_bucket;
mod wf2q;

pub use above::Above;
pub use backlog::Backlog;
pub use dmclock::{DmClock, Share};
pub use fcfs::Fcfs;
pub use miser::{Admission, Miser};
pub use promised::{Promise, Promised};
pub use sfq::Sfq;
pub use split::Split;
pub use token_bucket::TokenBucket;
pub use wf2q::Wf2q;

use crate::contract::bytes::{Bytes, Piece};
use crate::contract::device::Completion;
use crate::contract::policy::{Class, Cx, Done, Policy};
use crate::contract::request::{Lane, Request};
use crate::contract::time::Nanos;

/// Decides which class is served next.
pub trait Recombine {
    /// `request` arrives, before it is in `backlog`; gives its class. It must be at least `least`
    /// where classes have an order.
    fn arrive(&mut self, now: Nanos, request: &Request, least: usize, backlog: &Backlog) -> usize;

    /// The class whose first request `lane` serves now: one that [`Backlog::is_ready`]; or none.
    fn next(&mut self, now: Nanos, lane: Lane, backlog: &Backlog) -> Option<usize>;

    /// A request of `class` is complete.
    #[inline]
    fn completed(&mut self, _class: usize) {}

    /// Under which of [`Policy::classes`] a request of `class` is reported; the last one where there are fewer.
    #[inline]
    fn reported(&self, class: usize) -> usize {
        class
    }

    /// When to ask again, after [`Recombine::next`] gave none at an earlier time.
    #[inline]
    fn wakeup(&self) -> Option<Nanos> {
        None
    }
}

/// What every shaper has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// What is reported: one entry a class, or one for all.
    pub classes: Vec<Class>,
    /// The rate of each server in IOPS where there must be several, else nothing.
    pub servers: Vec<u64>,
    /// I/Os that a server is given at a time.
    pub depth: u32,
    /// The longest I/O, in bytes.
    pub len_max: u32,
    /// Whether dependent requests keep their order.
    pub dependencies: bool,
}

/// One server.
#[derive(Clone, Copy, Debug, Default)]
struct Server {
    in_flight: u32,
    /// The request of which parts are still to be sent.
    sending: Option<u32>,
}

/// A shaping policy.
#[derive(Clone, Debug)]
pub struct Shaper<R> {
    recombine: R,
    backlog: Backlog,
    shape: Shape,
    servers: Vec<Server>,
    wakeup: Option<Nanos>,
}

impl<R: Recombine> Shaper<R> {
    /// A shaper that recombines by `recombine`.
    pub fn new(recombine: R, shape: Shape) -> Shaper<R> {
        let servers = vec![Server::default(); shape.servers.len().max(1)];
        let backlog = Backlog::new(shape.dependencies, shape.classes.len());
        Shaper { recombine, backlog, shape, servers, wakeup: None }
    }

    /// The lane that the request was submitted to of which `io` is a part.
    pub(super) fn lane(&self, io: &Request) -> Lane {
        self.backlog.lane(io.id as u32)
    }

    /// The request to send (more) of.
    #[inline]
    fn chosen(&mut self, now: Nanos, lane: Lane) -> Option<u32> {
        if let Some(key) = self.servers[usize::from(lane)].sending {
            return Some(key);
        }
        let class = self.recombine.next(now, lane, &self.backlog);
        self.wakeup = if class.is_none() { self.recombine.wakeup() } else { None };
        Some(self.backlog.take(class?))
    }
}

impl<R: Recombine> Policy for Shaper<R> {
    #[inline]
    fn submit(&mut self, cx: &mut Cx<'_>, request: Request, bytes: Bytes) {
        let least = self.backlog.least_class(&request);
        let backlog = &self.backlog;
        let class = self.recombine.arrive(cx.now, &request, least.unwrap_or(0), backlog);
        self.backlog.push(cx.now, (request, bytes), class, least.is_some());
    }

    #[inline]
    fn dispatch(&mut self, now: Nanos, lane: Lane) -> Option<Request> {
        if self.servers.get(usize::from(lane))?.in_flight >= self.shape.depth {
            self.wakeup = None;
            return None;
        }
        let key = self.chosen(now, lane)?;
        if self.backlog.is_flushing(key) {
            self.wakeup = None;
            return None;
        }
        let (part, is_last) = self.backlog.send(key, self.shape.len_max);
        let server = &mut self.servers[usize::from(lane)];
        server.in_flight += 1;
        server.sending = (!is_last).then_some(key);
        // Parts under way together are told apart by their number.
        let id = u64::from(key) | u64::from(self.backlog.parts_sent(key)) << 32;
        Some(Request { at: now, id, lane, ..part })
    }

    #[inline]
    fn complete(&mut self, cx: &mut Cx<'_>, done: &Completion) {
        let (server, key) = (&mut self.servers[usize::from(done.io.lane)], done.io.id as u32);
        server.in_flight -= 1;
        let Some(whole) = self.backlog.part_done(key, done.outcome) else { return };
        if server.sending == Some(key) {
            server.sending = None;
        }
        self.recombine.completed(whole.class);
        let class = self.recombine.reported(whole.class);
        let class = class.min(self.shape.classes.len().saturating_sub(1)) as u16;
        let (wait, outcome) = (cx.now - whole.admitted, whole.outcome);
        cx.finished.push(Done { request: whole.request, wait, outcome, class });
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

    fn classes(&self) -> &[Class] {
        &self.shape.classes
    }

    fn servers(&self) -> &[u64] {
        &self.shape.servers
    }
}
