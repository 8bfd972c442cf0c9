//! The course of a server: a policy is opened, takes requests, is held for the next one, is closed.
//!
//! Invariants: a policy is followed by another only when nothing is under way; what a server does last is a flush.

// Signs from other threads are its task.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;

use forebay_core::contract::policy::{AnyPolicy, Gauge};
use forebay_core::{Fault, Nanos, Op, Outcome};
use forebay_live::{Plug, Wired};

use super::{Front, PendingRequest, Streams};
use crate::config::Named;
use crate::protocol::Header;
use crate::tally::Tally;

/// How long a server that ends waits for clients that do not read their answers.
const PATIENCE: Nanos = Nanos::from_millis(5000);

/// How long a policy may go on with work of its own when all clients are answered and it is to end.
const LINGER: Nanos = Nanos::from_millis(500);

/// What other threads want of a driver.
pub(crate) enum Order {
    /// Another policy from now on.
    Switch(Switch),
    /// What was counted so far.
    Tell(Sender<Tally>),
}

/// The next policy.
pub(crate) struct Switch {
    /// Its spec.
    pub(crate) spec: String,
    /// Who is a stream to it.
    pub(crate) streams: Streams,
    /// What exports are promised by it.
    pub(crate) exports: Vec<Named>,
    /// Whether what was answered has to be durable before: where the next policy finds no more than that.
    pub(crate) flushes: bool,
    /// Told how long nothing was taken, or why all stays as it is.
    pub(crate) done: Sender<Result<Nanos, Fault>>,
}

/// A switch that was ordered.
pub(super) struct Ordered {
    switch: Switch,
    since: Nanos,
    flush: Flush,
}

/// How far a flush is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flush {
    Owed,
    Asked,
    Done,
}

/// How the driver is to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Course {
    /// Takes requests.
    Open,
    /// Takes none, while the policy is opened or until those under way are answered for the next one.
    Held,
    /// Takes none any more; then makes all durable.
    Closing,
}

impl Front {
    /// Does what other threads want, and what the end of the server asks for.
    pub(super) fn steer<L: Wired + ?Sized>(&mut self, lanes: &mut L) {
        while let Ok(order) = self.orders.try_recv() {
            match order {
                // Who asked may not wait for it.
                Order::Tell(told) => drop(told.send(self.figures(lanes.wall()))),
                Order::Switch(switch) => self.switches.push_back(switch),
            }
        }
        // One after another: the next policy is open before another switch begins.
        if self.course == Course::Open
            && let Some(switch) = self.switches.pop_front()
        {
            (self.course, self.now) = (Course::Held, self.now.max(lanes.wall()));
            let flush = if switch.flushes { Flush::Owed } else { Flush::Done };
            self.next = Some(Ordered { switch, since: self.now, flush });
        }
        if self.course != Course::Held && !self.flushing {
            std::mem::take(&mut self.held).into_iter().for_each(|name| self.begin(name));
        }
        if let (Course::Held, 0, Some(next)) = (self.course, self.begun, &mut self.next)
            && next.flush == Flush::Owed
        {
            next.flush = Flush::Asked;
            self.ask(Op::Flush);
        }
        self.over = self.is_over().then(|| self.over.unwrap_or(self.now));
        if self.stop.load(Ordering::Relaxed) {
            self.close(lanes.wall());
            self.switches.clear();
        }
        if self.course == Course::Closing && !self.flushing && self.begun == 0 {
            // What was written is made durable before the end.
            (self.flushing, self.now) = (true, self.now.max(lanes.wall()));
            self.ask(Op::Flush);
        }
    }

    /// Has the policy get back the state that was there before; then calls `opened`, where it could, and ends where that
    /// answers that nothing may be served. It ends when `stop` is set.
    pub(crate) fn open(&mut self, stop: Arc<AtomicBool>, opened: impl FnOnce() -> bool + 'static) {
        self.stop = stop;
        self.opened = Some(Box::new(opened));
        self.ask(Op::Open);
    }

    /// The policy from now on is this one.
    pub(crate) fn follow(&mut self, policy: &Rc<RefCell<AnyPolicy>>, spec: &str) {
        self.policy = Some(Rc::clone(policy));
        self.tally.policy = spec.to_string();
    }

    /// Nobody looks at the policy any more.
    pub(crate) fn let_policy_go(&mut self) {
        self.policy = None;
    }

    /// How things are with the policy, as it says, once it is open.
    pub(crate) fn open_gauges(&self) -> Option<Vec<Gauge>> {
        let policy = self.policy.as_ref().filter(|_| self.course == Course::Open);
        policy.map(|policy| policy.borrow().gauges())
    }

    /// What was counted until now.
    fn figures(&mut self, now: Nanos) -> Tally {
        if let Some(policy) = &self.policy {
            self.tally.counted = policy.borrow().figures();
            self.tally.gauges = policy.borrow().gauges();
        }
        self.tally.at(now)
    }

    /// The policy for which a run ended.
    pub(crate) fn next_policy(&self) -> Option<&str> {
        self.next.as_ref().map(|next| &*next.switch.spec)
    }

    /// Has the next policy get back its state; then takes requests again.
    pub(crate) fn reopen(&mut self, trims_to_zero: bool) {
        if let Some(Ordered { switch, .. }) = &self.next {
            self.streams = switch.streams;
            self.tally.promise(&switch.exports);
        }
        for (plug, connection) in self.connections.iter_mut().enumerate() {
            let Some(connection) = connection else { continue };
            connection.stream = self.streams.of(plug as Plug, &connection.agreed);
        }
        self.exports.iter_mut().for_each(|export| export.trims_to_zero = trims_to_zero);
        self.ask(Op::Open);
    }

    /// Takes no more requests.
    fn close(&mut self, wall: Nanos) {
        if self.course != Course::Closing {
            self.course = Course::Closing;
            self.deadline = Some(wall + PATIENCE);
        }
    }

    /// What failed of opening the policy and of the flush at the end, and how.
    pub(crate) fn failed(&self) -> Option<(Op, Fault)> {
        self.failed
    }

    pub(crate) fn course(&self) -> Course {
        self.course
    }

    /// Whether a run of the driver is over.
    pub(crate) fn is_over(&self) -> bool {
        let sent = || self.connections.iter().flatten().all(|one| one.deaf || one.is_quiet());
        match self.course {
            Course::Open => false,
            Course::Held => {
                let is_settled = self.next.as_ref().is_none_or(|next| next.flush == Flush::Done);
                self.begun == 0 && is_settled
            }
            Course::Closing => {
                let late = self.deadline.is_some_and(|deadline| self.now > deadline);
                self.flushed && self.begun == 0 && (late || sent())
            }
        }
    }

    /// Whether a run is to end although its policy would go on: some have always something to do.
    pub(crate) fn is_stopped(&self) -> bool {
        self.over.is_some_and(|since| self.now - since > LINGER)
    }

    /// Asks something that no client wants.
    pub(super) fn ask(&mut self, op: Op) {
        let (header, at, outcome) = (Header::FLUSH, self.now, Ok(()));
        let asked = PendingRequest {
            plug: None,
            header,
            at,
            buf: 0,
            rest: (0, 0),
            op,
            parts: 0,
            outcome,
            kept: false,
        };
        let name = self.asked.insert(asked);
        self.begin(name);
    }

    /// What the front asked itself is answered.
    pub(super) fn told(&mut self, op: Op, outcome: Outcome) {
        match (op, outcome) {
            (Op::Open, Ok(())) => {
                if self.opened.take().is_some_and(|opened| !opened()) {
                    return self.give_up();
                }
                if self.course == Course::Held {
                    (self.course, self.listens) = (Course::Open, true);
                }
                if let Some(Ordered { switch, since, .. }) = self.next.take() {
                    // Who ordered it may not wait for it.
                    let pause = self.now - since;
                    (self.tally.switches, self.tally.last_pause) = (self.tally.switches + 1, pause);
                    let _ = switch.done.send(Ok(pause));
                }
            }
            (Op::Open, Err(_)) => {
                self.failed = outcome.err().map(|fault| (op, fault));
                self.give_up();
            }
            _ if !self.flushing => self.settled(outcome),
            _ => {
                (self.failed, self.flushed) = (outcome.err().map(|fault| (op, fault)), true);
            }
        }
    }

    /// Ends although nothing was served.
    fn give_up(&mut self) {
        (self.course, self.flushing, self.flushed) = (Course::Closing, true, true);
    }

    /// The flush before a switch is answered. Where it failed the policy stays, which knows what is not durable.
    fn settled(&mut self, outcome: Outcome) {
        match (outcome, &mut self.next) {
            (Ok(()), Some(next)) => next.flush = Flush::Done,
            (Err(fault), next) => {
                if let Some(Ordered { switch, .. }) = next.take() {
                    let _ = switch.done.send(Err(fault));
                }
                if self.course == Course::Held {
                    (self.course, self.listens) = (Course::Open, true);
                }
            }
            (Ok(()), None) => {}
        }
    }
}
