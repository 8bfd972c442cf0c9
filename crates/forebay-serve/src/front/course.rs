//! The states of a driver: it opens a policy, accepts requests, is paused for a switch, and closes.
//!
//! Invariants: a policy is replaced only when no requests are in flight; the last operation of a
//! driver is a flush.

// Allowed because this module receives signals from other threads.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;

use forebay_core::contract::{AnyPolicy, Gauge, VolumeDrive, VolumeOrder};
use forebay_core::{Fault, Nanos, Op, Outcome};
use forebay_live::{Plug, SocketLanes};

use super::volume::{Carried, EarlierCounts};
use super::{Attachment, Front, JoiningDrive, PendingRequest, Streams};
use crate::protocol::Header;
use crate::record::{ClientTrace, Issued};
use crate::tally::Tally;
use crate::traces::TraceExchange;
use crate::{Export, Named};

/// How long a stopping server waits for clients that do not read their answers.
const PATIENCE: Nanos = Nanos::from_millis(5000);

/// How long a policy may continue its own work after all clients have been answered, while the
/// server is stopping.
const LINGER: Nanos = Nanos::from_millis(500);

/// An order from another thread to a driver.
pub(crate) enum Order {
    /// Switches to another policy.
    Switch(Switch),
    /// Serves a device of this machine.
    Attach(Attachment),
    /// Requests the current counts.
    Tell(Sender<Tally>),
    /// Allows I/Os up to this many bytes of a disk that has grown.
    Enlarge(u64),
    /// Changes the exports: existing ones keep their order, and new ones follow.
    Exports(Vec<Named>, Vec<Export>),
    /// Passes an order to the policy of a volume.
    Volume(VolumeOrder, Carried),
    /// Adds a drive to a volume.
    Join(JoiningDrive),
    /// Exchanges the trace of clients' requests.
    ClientTrace(TraceExchange<ClientTrace>),
    /// Exchanges the trace of the disks' I/Os.
    IssuedTrace(TraceExchange<Issued>),
}

/// A policy, and what it is applied to.
#[derive(Clone, Debug)]
pub(crate) struct PolicySetup {
    /// The complete policy spec.
    pub(crate) spec: String,
    /// The policy as the user configured it.
    pub(crate) shown: String,
    /// What the policy treats as a stream.
    pub(crate) streams: Streams,
    /// The exports with their promises.
    pub(crate) exports: Vec<Named>,
}

/// Why a policy was not switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SwitchFailure {
    /// The flush before the switch failed.
    Flush(Fault),
    /// The next policy could not be opened.
    Open(Fault),
}

/// A switch to another policy.
pub(crate) struct Switch {
    pub(crate) next: PolicySetup,
    /// The current policy, which stays in use if the next one cannot be opened.
    pub(crate) before: PolicySetup,
    /// Whether answered writes must be durable before the switch, because the next policy finds
    /// only durable data.
    pub(crate) flushes: bool,
    /// Receives the time during which no requests were accepted, or the reason why nothing changed.
    pub(crate) done: Sender<Result<Nanos, SwitchFailure>>,
}

/// A policy switch that has begun.
pub(super) struct Ordered {
    switch: Switch,
    since: Nanos,
    flush: Flush,
    /// How often the previous policy could not be reopened after the next policy failed to open;
    /// None if the next policy has not failed.
    returns: Option<u64>,
}

impl Ordered {
    /// Returns the policy to open: the next one, or the previous one if the next one has failed.
    fn setup(&self) -> &PolicySetup {
        match self.returns {
            None => &self.switch.next,
            Some(_) => &self.switch.before,
        }
    }

    /// Registers that a policy could not be opened, so that the previous one must be opened;
    /// returns a message for the user if that one has failed for the first time.
    fn returns_after(&mut self, fault: Fault) -> Option<String> {
        let failed = self.returns.map_or(0, |failed| failed + 1);
        self.returns = Some(failed);
        if failed == 0 {
            // The requesting thread may no longer be waiting.
            let _ = self.switch.done.send(Err(SwitchFailure::Open(fault)));
        }
        let why = fault.reason();
        (failed == 1).then(|| {
            format!(
                "error: its policy '{}' could not be opened again: {why}; requests wait, and the server \
                 tries again every second",
                self.switch.before.shown
            )
        })
    }
}

/// The progress of a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flush {
    Owed,
    Asked,
    Done,
}

/// The state of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Course {
    /// Accepts requests.
    Open,
    /// Accepts no requests, because the policy is being opened or because requests in flight must
    /// be answered before a switch.
    Held,
    /// Accepts no more requests, and makes everything durable.
    Closing,
}

/// Explains why work that was in progress before a policy switch does not continue.
fn not_resumed(order: &VolumeOrder, why: &str) -> String {
    match order {
        VolumeOrder::Retire { member } => format!(
            "warning: drive {member} was being removed or replaced before the policy was \
             switched, and remains in the volume: {why}; run the command again"
        ),
        VolumeOrder::Grow => format!("warning: the volume no longer grows after the switch: {why}"),
        _ => format!("warning: its check or limit did not survive the switch: {why}"),
    }
}

impl Front {
    /// Executes the orders of other threads, and stops the server if requested.
    pub(super) fn steer<L: SocketLanes + ?Sized>(&mut self, lanes: &mut L) {
        if self.course == Course::Open {
            for order in std::mem::take(&mut self.resumed) {
                if let Err(why) = self.order(&order, lanes.wall()) {
                    self.notes.push(not_resumed(&order, &why));
                }
            }
        }
        while let Ok(order) = self.orders.try_recv() {
            match order {
                // The requesting thread may no longer be waiting.
                Order::Tell(told) => drop(told.send(self.figures(lanes.wall()))),
                Order::Enlarge(bytes) => lanes.enlarge(0, bytes),
                Order::Exports(named, exports) => self.change_exports(&named, exports, lanes),
                Order::ClientTrace(exchange) => self.traces.client.exchange(exchange),
                Order::IssuedTrace(exchange) => self.traces.issued.exchange(exchange),
                Order::Attach(attachment) => self.attach(attachment, lanes),
                Order::Volume(order, done) => drop(done.send(self.order(&order, lanes.wall()))),
                Order::Join(JoiningDrive { successor, purpose, done }) => {
                    drop(done.send(self.join(successor, purpose, lanes)));
                }
                Order::Switch(switch) => self.switches.push_back(switch),
            }
        }
        // Switches are executed one after another: the new policy must be open before the next
        // switch begins.
        if self.course == Course::Open
            && let Some(switch) = self.switches.pop_front()
        {
            (self.course, self.now) = (Course::Held, self.now.max(lanes.wall()));
            let flush = if switch.flushes { Flush::Owed } else { Flush::Done };
            self.next = Some(Ordered { switch, since: self.now, flush, returns: None });
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
            // Make everything written durable before the end.
            (self.flushing, self.now) = (true, self.now.max(lanes.wall()));
            self.ask(Op::Flush);
        }
    }

    /// Opens the policy, which restores its previous state, and calls `opened` if that succeeded.
    /// If `opened` returns false, the driver ends without serving. The driver also ends when `stop`
    /// is set.
    pub(crate) fn open(&mut self, stop: Arc<AtomicBool>, opened: impl FnOnce() -> bool + 'static) {
        self.stop = stop;
        self.opened = Some(Box::new(opened));
        self.ask(Op::Open);
    }

    /// Registers the policy that follows.
    pub(crate) fn follow(&mut self, policy: &Rc<RefCell<AnyPolicy>>) {
        self.policy = Some(Rc::clone(policy));
    }

    /// Releases the policy, and remembers the work on a volume that its successor must resume. A
    /// check begins anew.
    pub(crate) fn let_policy_go(&mut self) {
        if self.next.as_ref().is_some_and(|next| next.returns.is_some()) {
            // Opening failed, so the predecessor's work must still be resumed.
            self.policy = None;
            return;
        }
        let state = self.policy.take().and_then(|policy| policy.borrow().volume());
        let Some(state) = state.map(|state| self.earlier.with(state)) else { return };
        self.earlier = EarlierCounts::of(&state);
        let retire = |drive: &VolumeDrive| VolumeOrder::Retire { member: drive.number };
        self.resumed = self.limit.into_iter().collect();
        self.resumed.extend(state.drives.iter().filter(|drive| drive.is_leaving).map(retire));
        self.resumed.extend(state.is_growing.then_some(VolumeOrder::Grow));
        self.resumed.extend(self.check.filter(|_| state.is_checking));
    }

    /// Returns the policy's gauges once it is open.
    pub(crate) fn open_gauges(&self) -> Option<Vec<Gauge>> {
        let policy = self.policy.as_ref().filter(|_| self.course == Course::Open);
        policy.map(|policy| policy.borrow().gauges())
    }

    /// Returns the counts until now.
    fn figures(&mut self, now: Nanos) -> Tally {
        self.look_at_outstanding(now);
        if let Some(policy) = &self.policy {
            self.tally.counted = policy.borrow().figures();
            let gauges = policy.borrow().gauges();
            self.tally.receive(&gauges);
            self.tally.gauges = gauges;
            // A policy that is still opening has not taken over all of its predecessor's work.
            if self.course != Course::Held || self.tally.volume.is_none() {
                let volume = policy.borrow().volume();
                self.tally.volume = volume.map(|state| self.earlier.with(state));
            }
        }
        self.tally.at(now)
    }

    /// Returns the spec of the next policy, if the run ended for a switch.
    pub(crate) fn next_policy(&self) -> Option<&str> {
        self.next.as_ref().map(|next| &*next.setup().spec)
    }

    /// Returns whether the policy in use before a switch must be opened again, and an earlier
    /// attempt failed.
    pub(crate) fn retries(&self) -> bool {
        self.next.as_ref().is_some_and(|next| next.returns.is_some_and(|failed| failed > 0))
    }

    /// Returns whether the server is stopping.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Opens the next policy, which restores its state, and accepts requests again.
    pub(crate) fn reopen(&mut self, trims_to_zero: bool) {
        if let Some(next) = &self.next {
            let PolicySetup { shown, streams, exports, .. } = next.setup();
            self.streams = *streams;
            self.tally.policy.clone_from(shown);
            self.tally.promise(exports);
        }
        for (plug, connection) in self.connections.iter_mut().enumerate() {
            let Some(connection) = connection else { continue };
            connection.stream = self.streams.of(plug as Plug, connection.agreed.export);
        }
        self.exports.iter_mut().for_each(|export| export.trims_to_zero = trims_to_zero);
        self.ask(Op::Open);
    }

    /// Stops accepting requests.
    fn close(&mut self, wall: Nanos) {
        if self.course != Course::Closing {
            self.course = Course::Closing;
            self.deadline = Some(wall + PATIENCE);
        }
    }

    /// Returns the operation that failed (opening the policy, or the final flush) and the fault.
    pub(crate) fn failed(&self) -> Option<(Op, Fault)> {
        self.failed
    }

    pub(crate) fn course(&self) -> Course {
        self.course
    }

    /// Returns whether a run of the driver has ended.
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

    /// Returns whether a run must end even though its policy still has work, because some policies
    /// never finish.
    pub(crate) fn is_stopped(&self) -> bool {
        self.over.is_some_and(|since| self.now - since > LINGER)
    }

    #[cfg(test)]
    pub(crate) fn stop_now(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Submits a request of the server's own.
    pub(super) fn ask(&mut self, op: Op) {
        let (header, at, outcome) = (Header::FLUSH, self.now, Ok(()));
        let asked = PendingRequest {
            plug: None,
            header,
            at,
            waited: Nanos::ZERO,
            buf: 0,
            rest: (0, 0),
            op,
            parts: 0,
            outcome,
            kept_after: None,
        };
        let name = self.asked.insert(asked);
        self.begin(name);
    }

    /// Handles the answer to one of the server's own requests.
    pub(super) fn told(&mut self, op: Op, outcome: Outcome) {
        match (op, outcome) {
            (Op::Open, _) if self.nudges > 0 => self.nudges -= 1,
            (Op::Open, Ok(())) => {
                if self.opened.take().is_some_and(|opened| !opened()) {
                    return self.give_up();
                }
                if self.course == Course::Held {
                    (self.course, self.listens) = (Course::Open, true);
                }
                if let Some(Ordered { switch, since, returns, .. }) = self.next.take() {
                    let pause = self.now - since;
                    match returns {
                        None => {
                            self.tally.switches += 1;
                            self.tally.last_pause = pause;
                            // The requesting thread may no longer be waiting.
                            let _ = switch.done.send(Ok(pause));
                        }
                        Some(0) => {}
                        Some(_) => self.notes.push("its policy is open again".into()),
                    }
                }
                self.tally.waits_for = None;
            }
            (Op::Open, Err(fault)) => match &mut self.next {
                Some(next) if self.course == Course::Held => {
                    let note = next.returns_after(fault);
                    self.notes.extend(note);
                    self.tally.waits_for = self.retries().then_some(fault);
                }
                _ => {
                    self.failed = Some((op, fault));
                    self.give_up();
                }
            },
            _ if !self.flushing => self.settled(outcome),
            _ => {
                (self.failed, self.flushed) = (outcome.err().map(|fault| (op, fault)), true);
            }
        }
    }

    /// Ends the driver without serving anything.
    fn give_up(&mut self) {
        (self.course, self.flushing, self.flushed) = (Course::Closing, true, true);
    }

    /// Handles the answer to the flush before a switch. If the flush failed, the current policy
    /// stays in use, because it knows which data is not durable.
    fn settled(&mut self, outcome: Outcome) {
        match (outcome, &mut self.next) {
            (Ok(()), Some(next)) => next.flush = Flush::Done,
            (Err(fault), next) => {
                if let Some(Ordered { switch, .. }) = next.take() {
                    let _ = switch.done.send(Err(SwitchFailure::Flush(fault)));
                }
                if self.course == Course::Held {
                    (self.course, self.listens) = (Course::Open, true);
                }
            }
            (Ok(()), None) => {}
        }
    }
}
