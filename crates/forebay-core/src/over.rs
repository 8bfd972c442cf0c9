//! Placement over schedulers: one decides which devices a request's data are on, the others decide
//! the order on each device.
//!
//! A [`Placement`] turns a client request into I/Os on lanes, and may add more when one of them is
//! done: reading ahead of writing, moving data between devices. What it adds for nobody is
//! background work. Each lane has a policy of its own beneath, which sees the I/Os as requests.
//!
//! Invariants: a client request finishes when every I/O planned for it has; a lane's policy is
//! never asked for another lane.

use crate::device::Completion;
use crate::policy::{Done, Figure, Finished, Policy};
use crate::request::{Flags, Lane, Op, Request, RequestId};
use crate::slab::Slab;
use crate::time::Nanos;

/// For whom an I/O is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A client request, as [`Placement::place`] was told.
    Client(u32),
    /// Nobody who waits.
    Background,
}

/// An I/O that a placement wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// For whom.
    pub owner: Owner,
    /// On which device.
    pub lane: Lane,
    /// What it does.
    pub op: Op,
    /// First byte there.
    pub offset: u64,
    /// Bytes.
    pub len: u32,
    /// Who asked in the end.
    pub stream: u32,
    /// Its properties.
    pub flags: Flags,
    /// Whatever the placement wants to be told when it is done.
    pub token: u64,
}

/// Decides which devices data are on.
pub trait Placement {
    /// Plans the first I/Os of a client request; at least one.
    fn place(&mut self, client: u32, request: &Request, plan: &mut Vec<Planned>);

    /// An I/O it planned is done; it may plan more, also for the same client.
    fn done(&mut self, io: &Planned, plan: &mut Vec<Planned>);

    /// What it counted; nothing for most.
    fn figures(&self) -> Vec<Figure> {
        Vec::new()
    }
}

/// A client request on its way.
#[derive(Clone, Copy, Debug)]
struct Client {
    request: Request,
    left: u32,
    /// When the first of its I/Os was admitted.
    admitted: Nanos,
}

/// A placement over one policy a lane.
#[derive(Clone, Debug)]
pub struct Over<A, P> {
    placement: A,
    lanes: Vec<P>,
    clients: Slab<Client>,
    planned: Slab<Planned>,
    plan: Vec<Planned>,
    finished: Finished,
}

impl<A: Placement, P: Policy> Over<A, P> {
    /// Places over `lanes`, each a policy that knows its own device as lane 0.
    pub fn new(placement: A, lanes: Vec<P>) -> Over<A, P> {
        Over {
            placement,
            lanes,
            clients: Slab::default(),
            planned: Slab::default(),
            plan: Vec::new(),
            finished: Finished::new(),
        }
    }

    /// The placement, for its figures.
    pub fn placement(&self) -> &A {
        &self.placement
    }

    /// Hands what is planned to the lanes.
    fn issue(&mut self, now: Nanos) {
        for planned in self.plan.drain(..) {
            if let Owner::Client(client) = planned.owner {
                self.clients[client].left += 1;
            }
            let request = Request {
                at: now,
                offset: planned.offset,
                id: RequestId::from(self.planned.insert(planned)),
                len: planned.len,
                // Background work has a stream of its own, next to the others.
                stream: planned.stream.wrapping_add(1),
                lane: 0,
                op: planned.op,
                flags: planned.flags,
            };
            self.lanes[usize::from(planned.lane)].submit(now, request);
        }
    }

    /// An I/O that was planned is done, `wait` after its lane's policy admitted it.
    fn settle(&mut self, now: Nanos, io: &Planned, wait: Nanos, finished: &mut Finished) {
        self.placement.done(io, &mut self.plan);
        self.issue(now);
        let Owner::Client(key) = io.owner else { return };
        let client = &mut self.clients[key];
        client.left -= 1;
        client.admitted = client.admitted.min(now - wait);
        if client.left == 0 {
            let Client { request, admitted, .. } = self.clients.remove(key);
            finished.push(Done { request, wait: now - admitted, class: 0 });
        }
    }
}

impl<A: Placement, P: Policy> Policy for Over<A, P> {
    fn submit(&mut self, now: Nanos, request: Request) {
        let client = self.clients.insert(Client { request, left: 0, admitted: Nanos::MAX });
        self.placement.place(client, &request, &mut self.plan);
        debug_assert!(!self.plan.is_empty(), "nothing planned for {request:?}");
        self.issue(now);
    }

    fn dispatch(&mut self, now: Nanos, lane: Lane) -> Option<Request> {
        let io = self.lanes.get_mut(usize::from(lane))?.dispatch(now, 0)?;
        Some(Request { lane, stream: io.stream.wrapping_sub(1), ..io })
    }

    fn complete(&mut self, now: Nanos, done: &Completion, finished: &mut Finished) {
        let lane = usize::from(done.io.lane);
        let beneath = Completion { io: Request { lane: 0, ..done.io }, ..*done };
        let mut parts = std::mem::take(&mut self.finished);
        self.lanes[lane].complete(now, &beneath, &mut parts);
        for Done { request, wait, .. } in parts.drain(..) {
            let io = self.planned.remove(request.id as u32);
            self.settle(now, &io, wait, finished);
        }
        self.finished = parts;
    }

    fn wakeup(&self) -> Option<Nanos> {
        self.lanes.iter().filter_map(Policy::wakeup).min()
    }

    fn figures(&self) -> Vec<Figure> {
        self.placement.figures()
    }
}
