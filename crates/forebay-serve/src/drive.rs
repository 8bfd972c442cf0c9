//! The driver's view of clients: lanes that also wait for sockets, and clients' requests as a
//! workload.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use forebay_core::contract::{AnyPolicy, Done};
use forebay_core::{Bytes, Lane, Nanos, Piece, Policy, Request, Slots, Workload, forward_policy};
use forebay_live::{Ended, Lanes, SocketLanes, Waker};

use crate::front::Front;

/// The maximum time between two checks of outstanding I/Os.
const LOOKS: Nanos = Nanos::from_millis(1000);

/// Lanes combined with a front, which handles clients.
pub(crate) struct Fronted<L> {
    pub(crate) lanes: L,
    pub(crate) front: Rc<RefCell<Front>>,
    /// I/Os of clients that have disconnected. They are completed in the next pass without being
    /// performed.
    dropped: Vec<(Request, Nanos)>,
}

impl<L> Fronted<L> {
    pub(crate) fn new(lanes: L, front: Rc<RefCell<Front>>) -> Fronted<L> {
        Fronted { lanes, front, dropped: Vec::new() }
    }
}

impl<L: SocketLanes> Lanes for Fronted<L> {
    fn count(&self) -> usize {
        self.lanes.count()
    }

    #[inline]
    fn reap(&mut self, next: Nanos, ended: &mut Vec<Ended>) -> io::Result<Nanos> {
        let now = self.lanes.reap(next, ended)?;
        let mut front = self.front.borrow_mut();
        if !ended.is_empty() && front.tally.late_us.is_some() {
            front.tally.late(ended.len(), self.lanes.wall() - now);
        }
        let done = |(io, started)| Ended::new(io, started, now, None);
        ended.extend(self.dropped.drain(..).map(done));
        front.turn(&mut self.lanes)?;
        front.look_after_memory(now, &mut self.lanes);
        Ok(now)
    }

    fn wall(&mut self) -> Nanos {
        self.lanes.wall()
    }

    #[inline]
    fn room(&self, lane: Lane) -> bool {
        self.lanes.room(lane)
    }

    fn slots(&mut self) -> &mut dyn Slots {
        self.lanes.slots()
    }

    #[inline]
    fn start(&mut self, now: Nanos, io: Request, pieces: &[Piece]) {
        match self.front.borrow_mut().drops(&io, pieces) {
            true => self.dropped.push((io, now)),
            false => self.lanes.start(now, io, pieces),
        }
    }

    fn held_up(&mut self) -> Option<(Nanos, Nanos)> {
        self.lanes.held_up()
    }

    fn in_flight(&self) -> usize {
        self.lanes.in_flight() + self.dropped.len()
    }

    #[inline]
    fn proceed(&mut self, until: Nanos) -> io::Result<()> {
        let mut front = self.front.borrow_mut();
        front.send(&mut self.lanes);
        // Poll instead of waiting if requests have already arrived.
        let goes_on = front.peek().is_some() || !self.dropped.is_empty();
        let until = match goes_on {
            true => Nanos::ZERO,
            false => front.looks_by().map_or(until, |looks_by| until.min(looks_by)),
        };
        drop(front);
        // While I/Os are outstanding, wake up regularly to detect a disk that does not respond.
        let until = match self.lanes.in_flight() {
            0 => until,
            _ => until.min(self.lanes.wall() + LOOKS),
        };
        self.lanes.proceed(until)
    }

    fn waker(&mut self) -> io::Result<Waker> {
        self.lanes.waker()
    }
}

/// A policy that can be inspected between the driver's calls.
pub(crate) struct Shared(pub(crate) Rc<RefCell<AnyPolicy>>);

impl Policy for Shared {
    forward_policy!(self => self.0.borrow_mut();
        submit dispatch complete wake begin_stream take_events);

    forward_policy!(self => self.0.borrow(); wakeup pieces);
}

/// Clients' requests as a workload.
pub(crate) struct Arrivals(pub(crate) Rc<RefCell<Front>>);

impl Workload for Arrivals {
    #[inline]
    fn peek(&self) -> Option<Nanos> {
        self.0.borrow().peek()
    }

    #[inline]
    fn take(&mut self) -> Request {
        self.0.borrow_mut().take()
    }

    #[inline]
    fn bytes(&mut self, request: &Request, _slots: &mut dyn Slots) -> Bytes {
        self.0.borrow().bytes(request)
    }

    #[inline]
    fn finished(&mut self, now: Nanos, done: &Done, slots: &mut dyn Slots) {
        self.0.borrow_mut().finished(now, done, slots);
    }

    fn is_over(&self) -> bool {
        self.0.borrow().is_over()
    }

    fn is_stopped(&self) -> bool {
        self.0.borrow().is_stopped()
    }
}
