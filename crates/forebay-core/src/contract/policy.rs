//! Policies, which decide where and when I/O happens.
//!
//! A policy is a state machine that receives requests and completions and returns I/Os. It cannot
//! fail, reads no clock, and gives the same answers to the same calls (checked by `tape`).

use super::bytes::{Bytes, Piece, Slots};
use super::device::Completion;
use super::outcome::Outcome;
use super::request::{Lane, Request, RequestId};
use super::time::Nanos;
use super::volume::{VolumeEvent, VolumeOrder, VolumeState};

/// A client request that a policy answers, with the policy's account of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The request as it was submitted.
    pub request: Request,
    /// The longest time that any part of the request spent between admission to the request queue
    /// and completion. Excludes the wait for admission, of which latency includes the part after
    /// the stream's turn came.
    pub wait: Nanos,
    /// The time from arrival until the stream's turn came. In Linux the task would have slept
    /// during this time, waiting for a place in the request queue, and submitted the request only
    /// afterwards.
    pub held: Nanos,
    /// The worst outcome among the parts of the request, apart from faults that were corrected.
    pub outcome: Outcome,
    /// The index into [`Policy::classes`] of the class that the request was served in; 0 if there
    /// are no classes.
    pub class: u16,
}

impl Done {
    /// Returns an answer without waiting or a class.
    pub fn at_once(request: Request, outcome: Outcome) -> Done {
        Done { request, wait: Nanos::ZERO, held: Nanos::ZERO, outcome, class: 0 }
    }

    /// Returns the latency of a request that is answered `now`, counted from the turn of its
    /// stream.
    #[inline]
    pub fn latency(&self, now: Nanos) -> Nanos {
        now - self.request.at - self.held
    }

    /// Returns the part of the latency for which the request waited before its class admitted it.
    #[inline]
    pub fn deferred(&self, now: Nanos) -> Nanos {
        self.latency(now) - self.wait
    }
}

/// A class of service, whose latencies a policy reports separately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// The name of the class: `q1`, `q2`, ... or `all`.
    pub name: String,
    /// The response time that its requests should meet.
    pub within: Nanos,
}

/// Collects the client requests that a call answered. The driver empties and reuses it.
pub type Finished = Vec<Done>;

/// The context of a call that may answer requests or touch bytes.
pub struct Cx<'a> {
    /// The current time.
    pub now: Nanos,
    /// The driver's memory, addressed by buffer names.
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

/// Decides where and when I/O happens. The times passed to calls never decrease.
pub trait Policy {
    /// Handles the arrival of a client request, whose data begins at `bytes`. The driver holds the
    /// buffer until the request is answered and does not change the data of a write. The policy may
    /// answer at once, or delay the answer as long as it likes.
    fn submit(&mut self, cx: &mut Cx<'_>, request: Request, bytes: Bytes);

    /// Returns the next I/O for `lane`, which can accept one, or `None` to leave it idle for now.
    /// Outstanding I/Os on a lane must have different ids. The driver calls again when a request is
    /// submitted, an I/O completes, or [`Policy::wakeup`] is reached.
    fn dispatch(&mut self, now: Nanos, lane: Lane) -> Option<Request>;

    /// Handles the end of an I/O that this policy dispatched, whether it succeeded or failed.
    fn complete(&mut self, cx: &mut Cx<'_>, done: &Completion);

    /// Returns when the driver should call again even if nothing happens. After [`Policy::wake`]
    /// and a dispatch for every lane that accepts I/Os at `now`, this time is later than `now`,
    /// unless a busy lane is due.
    #[inline]
    fn wakeup(&self) -> Option<Nanos> {
        None
    }

    /// Called when [`Policy::wakeup`] is reached. A policy that only needs another dispatch for its
    /// lane need not implement it.
    #[inline]
    fn wake(&mut self, _cx: &mut Cx<'_>) {}

    /// Calls `each` with the pieces of memory of `io`, in order of address. `io` must have been
    /// dispatched and not have completed.
    fn pieces(&self, io: &Request, each: &mut dyn FnMut(Piece));

    /// Called when a stream number is assigned to a new submitter. All requests of the previous one
    /// have been answered, and its history must not affect the new one.
    fn begin_stream(&mut self, _stream: u32) {}

    /// Returns the policy's own statistics; most policies have none.
    fn figures(&self) -> Vec<Figure> {
        Vec::new()
    }

    /// Returns the current values of the policy's gauges, for monitoring; most policies have none.
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
    /// Returns the reason if the order cannot be carried out; nothing changes.
    fn order(&mut self, _now: Nanos, order: &VolumeOrder) -> Result<(), String> {
        Err(order.unfit().into())
    }

    /// Removes and returns the events on the volume since the last call.
    fn take_events(&mut self) -> Vec<VolumeEvent> {
        Vec::new()
    }

    /// Returns the classes of service that [`Done::class`] refers to; empty unless the policy is a
    /// shaper.
    fn classes(&self) -> &[Class] {
        &[]
    }

    /// Calls `each` with the id and the class of every request that has not been answered, and how
    /// long the request waited before its class admitted it, for monitoring. Policies without
    /// classes need not implement it.
    fn unanswered(&self, _each: &mut dyn FnMut(RequestId, u16, Nanos)) {}

    /// Returns the rates in IOPS of the servers that the policy requires, one per lane; empty if
    /// servers of any rate will do.
    fn servers(&self) -> &[u64] {
        &[]
    }
}

/// A policy whose type is known only at run time.
pub type AnyPolicy = Box<dyn Policy + Send>;

/// An operation on a policy whose type is known at compile time.
pub trait PolicyVisitor {
    /// The result of the visit.
    type Out;
    /// Performs the operation on `policy`.
    fn visit<P: Policy + Send + 'static>(self, policy: P) -> Self::Out;
}

/// A statistic of a policy: its name in results, which ends with the unit, and its value.
pub type Figure = (&'static str, f64);

/// A current value of a policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gauge {
    /// The name of the gauge, ending with its unit.
    pub name: &'static str,
    /// The entity that the gauge describes.
    pub of: GaugeOf,
    /// The current value.
    pub value: f64,
}

/// The entity that a [`Gauge`] describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GaugeOf {
    /// The whole policy.
    All,
    /// The part of the policy with this name.
    Part(&'static str),
    /// This lane.
    Lane(Lane),
    /// The clients that share this promise, by its number.
    Tenant(u32),
}

/// Implements methods of [`Policy`] by calling them on another policy, as in
/// `forward_policy!(self => self.beneath; dispatch pieces begin_stream);`.
#[macro_export]
macro_rules! forward_policy {
    ($this:ident => $to:expr; all) => {
        $crate::forward_policy!($this => $to; submit dispatch complete wakeup wake pieces
            begin_stream figures gauges volume order take_events classes unanswered servers);
    };
    ($this:ident => $to:expr; $($method:ident)+) => {
        $($crate::forward_policy!(@$method $this => $to);)+
    };
    (@submit $this:ident => $to:expr) => {
        $crate::forward_policy!(# fn submit(&mut $this, cx: &mut $crate::Cx<'_>,
            request: $crate::Request, bytes: $crate::Bytes) => $to);
    };
    (@dispatch $this:ident => $to:expr) => {
        $crate::forward_policy!(# fn dispatch(&mut $this, now: $crate::Nanos,
            lane: $crate::Lane) -> Option<$crate::Request> => $to);
    };
    (@complete $this:ident => $to:expr) => {
        $crate::forward_policy!(# fn complete(&mut $this, cx: &mut $crate::Cx<'_>,
            done: &$crate::Completion) => $to);
    };
    (@wakeup $this:ident => $to:expr) => {
        $crate::forward_policy!(# fn wakeup(&$this) -> Option<$crate::Nanos> => $to);
    };
    (@wake $this:ident => $to:expr) => {
        $crate::forward_policy!(# fn wake(&mut $this, cx: &mut $crate::Cx<'_>) => $to);
    };
    (@pieces $this:ident => $to:expr) => {
        $crate::forward_policy!(# fn pieces(&$this, io: &$crate::Request,
            each: &mut dyn FnMut($crate::Piece)) => $to);
    };
    (@begin_stream $this:ident => $to:expr) => {
        $crate::forward_policy!(# fn begin_stream(&mut $this, stream: u32) => $to);
    };
    (@figures $this:ident => $to:expr) => {
        $crate::forward_policy!(# fn figures(&$this)
            -> Vec<$crate::contract::policy::Figure> => $to);
    };
    (@gauges $this:ident => $to:expr) => {
        $crate::forward_policy!(# fn gauges(&$this)
            -> Vec<$crate::contract::policy::Gauge> => $to);
    };
    (@volume $this:ident => $to:expr) => {
        $crate::forward_policy!(# fn volume(&$this)
            -> Option<$crate::contract::volume::VolumeState> => $to);
    };
    (@order $this:ident => $to:expr) => {
        $crate::forward_policy!(# fn order(&mut $this, now: $crate::Nanos,
            order: &$crate::contract::volume::VolumeOrder) -> Result<(), String> => $to);
    };
    (@take_events $this:ident => $to:expr) => {
        $crate::forward_policy!(# fn take_events(&mut $this)
            -> Vec<$crate::contract::volume::VolumeEvent> => $to);
    };
    (@classes $this:ident => $to:expr) => {
        $crate::forward_policy!(# fn classes(&$this) -> &[$crate::contract::policy::Class] => $to);
    };
    (@unanswered $this:ident => $to:expr) => {
        $crate::forward_policy!(# fn unanswered(&$this,
            each: &mut dyn FnMut($crate::RequestId, u16, $crate::Nanos)) => $to);
    };
    (@servers $this:ident => $to:expr) => {
        $crate::forward_policy!(# fn servers(&$this) -> &[u64] => $to);
    };
    (# fn $method:ident(&mut $this:ident $(, $arg:ident: $type:ty)*) $(-> $out:ty)? => $to:expr) => {
        #[inline]
        fn $method(&mut $this $(, $arg: $type)*) $(-> $out)? {
            $to.$method($($arg),*)
        }
    };
    (# fn $method:ident(&$this:ident $(, $arg:ident: $type:ty)*) $(-> $out:ty)? => $to:expr) => {
        #[inline]
        fn $method(&$this $(, $arg: $type)*) $(-> $out)? {
            $to.$method($($arg),*)
        }
    };
}

impl<P: Policy + ?Sized> Policy for Box<P> {
    forward_policy!(self => (**self); all);
}
