//! Policies, which decide where and when I/O happens.
//!
//! A policy is a state machine that receives requests and completions and returns I/Os. It cannot
//! fail, reads no clock, and gives the same answers to the same calls (checked by `tape`).

use super::bytes::{Bytes, Piece, Slots};
use super::device::Completion;
use super::outcome::Outcome;
use super::request::{Lane, Request};
use super::time::Nanos;
use super::volume::{VolumeEvent, VolumeOrder, VolumeState};

/// A client request that is answered, as the policy that answers it tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The request as it was submitted.
    pub request: Request,
    /// The longest time that any part of it spent between admission to the request queue and
    /// completion. Time spent waiting for admission is not in it; latency, from the turn of its stream, has
    /// both.
    pub wait: Nanos,
    /// The time from its arrival until its stream's turn came: in Linux the task would have slept for a place in the
    /// request queue, and would have submitted it only then.
    pub held: Nanos,
    /// The outcome: the worst outcome of its parts that could not be corrected.
    pub outcome: Outcome,
    /// Which of [`Policy::classes`] it was served in; 0 where there are none.
    pub class: u16,
}

impl Done {
    /// Returns a request that never waited and has no class.
    pub fn at_once(request: Request, outcome: Outcome) -> Done {
        Done { request, wait: Nanos::ZERO, held: Nanos::ZERO, outcome, class: 0 }
    }

    /// Returns how long it took, if it is answered `now`, since the turn of its stream came.
    #[inline]
    pub fn latency(&self, now: Nanos) -> Nanos {
        now - self.request.at - self.held
    }
}

/// A class of service that a policy keeps apart from others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// The name: `q1`, `q2`, ... or `all`.
    pub name: String,
    /// The response time that its requests are measured against.
    pub within: Nanos,
}

/// Collects the client requests that a call answered. Emptied and reused by the driver.
pub type Finished = Vec<Done>;

/// The context of a call that may answer requests or touch bytes.
pub struct Cx<'a> {
    /// The time.
    pub now: Nanos,
    /// The driver's memory, by name.
    pub slots: &'a mut dyn Slots,
    /// Receives the answers.
    pub finished: &'a mut Finished,
}

impl Cx<'_> {
    /// Returns a context for a policy below, whose answers go to `finished`.
    #[inline]
    pub fn beneath<'b>(&'b mut self, finished: &'b mut Finished) -> Cx<'b> {
        Cx { now: self.now, slots: &mut *self.slots, finished }
    }
}

/// Decides where and when I/O happens. Calls come with times that never decrease.
pub trait Policy {
    /// A client request arrives, whose data begin at `bytes`; they stay there, held and, if it
    /// writes, unchanged, until it is answered. It may be answered at once, or held for as long as
    /// the policy likes.
    fn submit(&mut self, cx: &mut Cx<'_>, request: Request, bytes: Bytes);

    /// `lane` has room: the next I/O for it, or `None` to leave it idle for now. Names of I/Os that
    /// are under way on a lane differ. The driver asks again when something is submitted, completes, or [`Policy::wakeup`] is reached.
    fn dispatch(&mut self, now: Nanos, lane: Lane) -> Option<Request>;

    /// An I/O that this policy dispatched has ended, well or not.
    fn complete(&mut self, cx: &mut Cx<'_>, done: &Completion);

    /// Returns when to be asked again although nothing happens. After [`Policy::wake`] and an offer
    /// of every lane with room at `now`, it is later than `now`, unless a lane that is busy is due.
    #[inline]
    fn wakeup(&self) -> Option<Nanos> {
        None
    }

    /// [`Policy::wakeup`] is reached. Whoever only wants to be offered its lane again has nothing to
    /// do.
    #[inline]
    fn wake(&mut self, _cx: &mut Cx<'_>) {}

    /// Reports the pieces of memory of `io`, in order of address. `io` must have been dispatched
    /// and not have completed.
    fn pieces(&self, io: &Request, each: &mut dyn FnMut(Piece));

    /// Called when a stream number is reassigned to a new submitter.
    fn begin_stream(&mut self, _stream: u32) {}

    /// Returns the policy's own statistics; most have none.
    fn figures(&self) -> Vec<Figure> {
        Vec::new()
    }

    /// How things are with it now, for whoever watches it; nothing for most.
    fn gauges(&self) -> Vec<Gauge> {
        Vec::new()
    }

    /// Returns the state of the volume that the policy manages, if any.
    fn volume(&self) -> Option<VolumeState> {
        None
    }

    /// Passes an order to the policy of a volume. The policy acts on it in its next call, so the
    /// driver has to submit a request or wake it.
    ///
    /// # Errors
    /// Says why the order cannot be carried out; nothing changes.
    fn order(&mut self, _now: Nanos, _order: &VolumeOrder) -> Result<(), &'static str> {
        Err("it is not a volume")
    }

    /// Removes and returns the events on the volume since the last call.
    fn take_events(&mut self) -> Vec<VolumeEvent> {
        Vec::new()
    }

    /// Returns the classes of service that [`Done::class`] names; none unless the policy shapes.
    fn classes(&self) -> &[Class] {
        &[]
    }

    /// The rates in IOPS of the servers it needs, one a lane; none where one of any rate will do.
    fn servers(&self) -> &[u64] {
        &[]
    }
}

/// A policy whose type is known only at run time.
pub type AnyPolicy = Box<dyn Policy + Send>;

/// Something done with a policy whose type is known at compile time.
pub trait PolicyVisitor {
    /// The result of the visit.
    type Out;
    /// Does it.
    fn visit<P: Policy + Send + 'static>(self, policy: P) -> Self::Out;
}

/// A figure of a policy's own: its name as in results, the unit last, and its value.
pub type Figure = (&'static str, f64);

/// How something of a policy is now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gauge {
    /// The name of the figure, ending with its unit.
    pub name: &'static str,
    /// The entity that the figure describes.
    pub of: GaugeOf,
    /// How much.
    pub value: f64,
}

/// The entity that a [`Gauge`] describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GaugeOf {
    /// The complete request.
    All,
    /// The part of this name.
    Part(&'static str),
    /// This lane.
    Lane(Lane),
}

impl<P: Policy + ?Sized> Policy for Box<P> {
    fn submit(&mut self, cx: &mut Cx<'_>, request: Request, bytes: Bytes) {
        (**self).submit(cx, request, bytes);
    }
    fn dispatch(&mut self, now: Nanos, lane: Lane) -> Option<Request> {
        (**self).dispatch(now, lane)
    }
    fn complete(&mut self, cx: &mut Cx<'_>, done: &Completion) {
        (**self).complete(cx, done);
    }
    fn wakeup(&self) -> Option<Nanos> {
        (**self).wakeup()
    }
    fn wake(&mut self, cx: &mut Cx<'_>) {
        (**self).wake(cx);
    }
    fn pieces(&self, io: &Request, each: &mut dyn FnMut(Piece)) {
        (**self).pieces(io, each);
    }
    fn begin_stream(&mut self, stream: u32) {
        (**self).begin_stream(stream);
    }
    fn figures(&self) -> Vec<Figure> {
        (**self).figures()
    }
    fn gauges(&self) -> Vec<Gauge> {
        (**self).gauges()
    }
    fn volume(&self) -> Option<VolumeState> {
        (**self).volume()
    }
    fn order(&mut self, now: Nanos, order: &VolumeOrder) -> Result<(), &'static str> {
        (**self).order(now, order)
    }
    fn take_events(&mut self) -> Vec<VolumeEvent> {
        (**self).take_events()
    }
    fn classes(&self) -> &[Class] {
        (**self).classes()
    }
    fn servers(&self) -> &[u64] {
        (**self).servers()
    }
}
