//! Policies: what decides where and when I/O happens.
//!
//! A policy is a state machine fed with requests and completions and asked for I/Os. It cannot
//! fail, reads no clock, and gives the same answers to the same calls ([`crate::tape`] checks it).

mod anticipatory;
mod bfq;
mod bid;
mod block;
pub mod cached;
mod cfq;
#[cfg(test)]
mod contents;
mod deadline;
mod each;
mod forebay;
mod history;
mod hybrid;
mod link;
mod list;
mod none;
mod noop;
mod paper;
mod placements;
mod queue;
mod seek_order;
pub mod shape;
mod sorted;
mod tier;
mod tier_lba;
#[cfg(test)]
mod trial;

pub use anticipatory::{Anticipatory, AnticipatoryConfig};
pub use bfq::{Bfq, BfqConfig};
pub use bid::{Bid, BidConfig};
pub use block::{BlockLayer, Elevator, Limits};
pub use cfq::{Cfq, CfqConfig};
pub use deadline::{Deadline, DeadlineConfig};
pub use forebay::{Forebay, ForebayConfig};
pub use list::{BLOCK_PARAMETERS, Listed, POLICIES, PolicyVisitor, build, with_policy};
pub use none::NoScheduler;
pub use noop::Noop;
pub use paper::{PaperCfq, PaperDeadline};
pub use placements::{FlashLane, Lanes, PLACEMENTS, build_placed, is_placement, with_placed};
pub use queue::{List, Queue, Queued, QueuedId};

use crate::device::Completion;
use crate::request::{Lane, Request};
use crate::time::Nanos;

/// A client request that is complete, as the policy that completed it tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The request as it was submitted.
    pub request: Request,
    /// The longest time that any part of it spent between admission to the request queue and
    /// completion. Time spent waiting for admission is not in it; latency, from `request.at`, has
    /// both.
    pub wait: Nanos,
    /// Which of [`Policy::classes`] it was served in; 0 where there are none.
    pub class: u16,
}

/// A class of service that a policy keeps apart from others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// Its name: `q1`, `q2`, ... or `all`.
    pub name: String,
    /// The response time that its requests are measured against.
    pub within: Nanos,
}

/// Collects the client requests that a completion finished. Emptied and reused by the driver.
pub type Finished = Vec<Done>;

/// Decides where and when I/O happens. Calls come with times that never decrease.
pub trait Policy {
    /// A client request arrives. It may be held for as long as the policy likes.
    fn submit(&mut self, now: Nanos, request: Request);

    /// `lane` has room: the next I/O for it, or `None` to leave it idle for now. The driver asks
    /// again when something is submitted, completes, or [`Policy::wakeup`] is reached.
    fn dispatch(&mut self, now: Nanos, lane: Lane) -> Option<Request>;

    /// An I/O that this policy dispatched is complete; client requests that are finished thereby
    /// are added to `finished`.
    fn complete(&mut self, now: Nanos, done: &Completion, finished: &mut Finished);

    /// When to ask again although nothing happens. After every lane with room was offered at
    /// `now`, it is later than `now`.
    #[inline]
    fn wakeup(&self) -> Option<Nanos> {
        None
    }

    /// What it counted for itself; nothing for most.
    fn figures(&self) -> Vec<Figure> {
        Vec::new()
    }

    /// The classes of service that [`Done::class`] names; none unless the policy shapes.
    fn classes(&self) -> &[Class] {
        &[]
    }

    /// The rates in IOPS of the servers it needs, one a lane; none where one of any rate will do.
    fn servers(&self) -> &[u64] {
        &[]
    }
}

/// A figure of a policy's own: its name as in results, the unit last, and its value.
pub type Figure = (&'static str, f64);

impl<P: Policy + ?Sized> Policy for Box<P> {
    fn submit(&mut self, now: Nanos, request: Request) {
        (**self).submit(now, request);
    }
    fn dispatch(&mut self, now: Nanos, lane: Lane) -> Option<Request> {
        (**self).dispatch(now, lane)
    }
    fn complete(&mut self, now: Nanos, done: &Completion, finished: &mut Finished) {
        (**self).complete(now, done, finished);
    }
    fn wakeup(&self) -> Option<Nanos> {
        (**self).wakeup()
    }
    fn figures(&self) -> Vec<Figure> {
        (**self).figures()
    }
    fn classes(&self) -> &[Class] {
        (**self).classes()
    }
    fn servers(&self) -> &[u64] {
        (**self).servers()
    }
}
