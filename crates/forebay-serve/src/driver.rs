//! The thread that drives a back, and the requests of other threads to it.
//!
//! Invariant: a driver is changed only through orders, which it executes between two requests.

// Allowed because this module uses threads and their signals.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use forebay_core::contract::Gauge;
use forebay_core::{Fault, Op};
use forebay_live::{Lanes as _, SocketLanes, Waker, run};

use crate::back::{ExportRoom, Opened, Policies};
use crate::drive::{Arrivals, Fronted, Shared};
use crate::error::{Error, system, unfit};
use crate::figures::BackFigures;
use crate::front::{Course, Front, Newcomer, Order};
use crate::journal::Journal;
use crate::lanes::Lanes;
use crate::opening::Purpose;
use crate::outputs::Outputs;
use crate::paired::Paired;
use crate::record::{EndedTraces, time_of_day};
use crate::request_memory::RequestMemory;
use crate::tally::{Counting, Tally};
use crate::traces::{TraceExchange, Traces};
use crate::{Back, Export};

/// How long to wait before a policy that could not be opened is opened again.
const RETRIES: Duration = Duration::from_secs(1);

/// How long a page of figures waits for each driver. The page must arrive even if a disk hangs.
pub(crate) const SOON: Duration = Duration::from_secs(5);

/// How long a command waits for a driver's figures, or for a switch of its policy, which continues
/// in the background afterwards. A driver may be busy for a while.
pub(crate) const PATIENCE: Duration = Duration::from_secs(45);

/// A back that is being served by a thread.
pub(crate) struct Driver {
    pub(crate) name: String,
    /// The back, with its current policy, exports and traces.
    current: Mutex<Back>,
    pub(crate) policies: Policies,
    pub(crate) outputs: Outputs,
    room: Mutex<ExportRoom>,
    pub(crate) newcomers: Sender<Newcomer>,
    pub(crate) orders: Sender<Order>,
    pub(crate) waker: Waker,
    /// Held while a drive joins or begins to leave a volume.
    pub(crate) replacing: Mutex<()>,
    /// Held while traces are started, completed or rotated.
    pub(crate) tracing: Mutex<()>,
    /// Whether its policy is being switched.
    pub(crate) switching: AtomicBool,
    stop: Arc<AtomicBool>,
    /// Distinguishes this driver from earlier and later ones of the same name.
    start_id: String,
    /// None once the thread has been joined.
    thread: Mutex<Option<JoinHandle<Result<(), Error>>>>,
}

/// A driver that has opened everything it needs, and waits for permission to write.
pub(crate) struct Prepared {
    pub(crate) driver: Driver,
    pub(crate) exports: Vec<Export>,
    pub(crate) notes: Vec<String>,
    pub(crate) starting: Starting,
}

/// Gives the driver permission to begin, and receives the report that its policy is open.
pub(crate) struct Starting {
    go: Sender<()>,
    open: Receiver<()>,
}

/// The driver's side of [`Starting`].
struct Beginning {
    told: Sender<Ready>,
    goes: Receiver<()>,
    opened: Sender<()>,
}

/// A driver's message that it has opened everything it needs, and has not written anything yet.
struct Ready {
    exports: Vec<Export>,
    policies: Policies,
    outputs: Outputs,
    room: ExportRoom,
    notes: Vec<String>,
    waker: Waker,
}

impl Driver {
    /// Opens a back on the thread that will drive it. The thread waits for permission before it
    /// writes anything.
    ///
    /// # Errors
    /// The back cannot be opened.
    pub(crate) fn prepare(
        back: &Back,
        memory: RequestMemory,
        says: Sender<String>,
    ) -> Result<Prepared, Error> {
        let (newcomers, arriving) = channel();
        let (told, ready) = channel();
        let (go, goes) = channel();
        let (opened, open) = channel();
        let (orders, ordered) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let (theirs, stops) = (back.clone(), Arc::clone(&stop));
        let thread = thread::Builder::new().name(format!("drive {}", back.name));
        let begun = Beginning { told, goes, opened };
        let work = move || {
            driver(&theirs, Inbound { arriving, ordered, stop: stops, memory, says }, begun)
        };
        let thread = thread.spawn(work).map_err(system("starting a thread"))?;
        let Ok(Ready { exports, policies, outputs, room, notes, waker }) = ready.recv() else {
            // The thread ended before it could report anything.
            return Err(ended(thread).err().unwrap_or_else(ended_at_once));
        };
        let driver = Driver {
            name: back.name.clone(),
            current: Mutex::new(back.clone()),
            policies,
            outputs,
            room: Mutex::new(room),
            newcomers,
            orders,
            waker,
            replacing: Mutex::default(),
            tracing: Mutex::default(),
            switching: AtomicBool::default(),
            stop,
            start_id: format!("{:x}", time_of_day().0),
            thread: Mutex::new(Some(thread)),
        };
        Ok(Prepared { driver, exports, notes, starting: Starting { go, open } })
    }

    /// Lets the thread write, and waits until its policy is open.
    ///
    /// # Errors
    /// The policy could not be opened.
    pub(crate) fn begin(&self, starting: Starting) -> Result<(), Error> {
        let _ = starting.go.send(());
        match starting.open.recv() {
            Ok(()) => Ok(()),
            Err(_) => Err(self.join().err().unwrap_or_else(ended_at_once).of(&self.name)),
        }
    }

    pub(crate) fn current(&self) -> MutexGuard<'_, Back> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the policy and exports of `next` are in use. The files and traces of the
    /// current back are kept, because they may have changed during the switch; exports change only
    /// in switches.
    pub(crate) fn adopt(&self, next: Back) {
        let mut current = self.current();
        let Back { on, trace, trace_issued, .. } = current.clone();
        *current = Back { on, trace, trace_issued, ..next };
    }

    /// Returns the bytes available to exports.
    pub(crate) fn room(&self) -> MutexGuard<'_, ExportRoom> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rejects a policy switch while the volume has no space for new data, because opening a policy
    /// writes.
    pub(crate) fn refuse_without_room(&self) -> Result<(), Error> {
        let tally = self.tally(PATIENCE)?;
        let lacks = |gauge: &Gauge| gauge.name == "lacks_room" && gauge.value > 0.0;
        match tally.gauges.iter().any(lacks) {
            false => Ok(()),
            true => Err(unfit(format!(
                "'{}': no space for new data; free some space, then switch the policy",
                self.name
            ))),
        }
    }

    /// Passes an order to the thread.
    pub(crate) fn order(&self, order: Order) -> Result<(), Error> {
        self.orders.send(order).map_err(|_| self.is_gone())?;
        self.waker.wake();
        Ok(())
    }

    pub(crate) fn is_gone(&self) -> Error {
        unfit(format!("'{}' is no longer served", self.name))
    }

    /// Exchanges a trace; returns the previous one once everything in it is complete.
    pub(crate) fn exchange<T>(
        &self,
        new: Option<T>,
        order: impl FnOnce(TraceExchange<T>) -> Order,
    ) -> Result<Option<T>, Error> {
        let (old, released) = channel();
        self.order(order(TraceExchange { new, old }))?;
        released.recv().map_err(|_| self.is_gone())
    }

    /// Returns the figures since the start.
    ///
    /// # Errors
    /// The thread has ended, or has not answered within `patience`.
    pub(crate) fn figures(&self, patience: Duration) -> Result<BackFigures, Error> {
        Ok(BackFigures::of(&self.name, &self.start_id, &self.tally(patience)?))
    }

    /// Returns the counts from which the figures are computed.
    ///
    /// # Errors
    /// The thread has ended, or has not answered within `patience`.
    pub(crate) fn tally(&self, patience: Duration) -> Result<Tally, Error> {
        let (told, telling) = channel();
        self.order(Order::Tell(told))?;
        telling.recv_timeout(patience).map_err(|error| match error {
            RecvTimeoutError::Disconnected => self.is_gone(),
            RecvTimeoutError::Timeout => unfit(format!(
                "'{}' has not answered for {} s; try again later",
                self.name,
                patience.as_secs()
            )),
        })
    }

    /// Returns whether the thread has ended.
    pub(crate) fn is_finished(&self) -> bool {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Returns whether the thread has ended and has not been joined.
    pub(crate) fn has_just_ended(&self) -> bool {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        thread.as_ref().is_some_and(JoinHandle::is_finished)
    }

    /// Tells the thread to accept no more requests, answer those in flight, make everything
    /// durable, and end.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.waker.wake();
    }

    /// Waits until the thread has ended.
    ///
    /// # Errors
    /// The thread failed, or data could not be made durable.
    pub(crate) fn join(&self) -> Result<(), Error> {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        thread.map_or(Ok(()), ended)
    }
}

/// Waits for a thread and returns its result.
fn ended(thread: JoinHandle<Result<(), Error>>) -> Result<(), Error> {
    match thread.join() {
        Ok(outcome) => outcome,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn ended_at_once() -> Error {
    unfit("its driver ended at once")
}

/// A driver's channels from other threads.
struct Inbound {
    arriving: Receiver<Newcomer>,
    ordered: Receiver<Order>,
    stop: Arc<AtomicBool>,
    memory: RequestMemory,
    /// The channel for messages to the user.
    says: Sender<String>,
}

/// The main function of a back's thread: opens the back, reports, and drives the back until it is
/// told to stop.
fn driver(back: &Back, inbound: Inbound, begun: Beginning) -> Result<(), Error> {
    let mut opened = Opened::open(back, Purpose::Serve)?;
    match opened.lanes(back.driver)? {
        Lanes::Uring(lanes) => drive(back, opened, *lanes, inbound, begun),
        Lanes::Threads(lanes) => drive(back, opened, *lanes, inbound, begun),
        Lanes::Emulated(lanes) => drive(back, opened, *lanes, inbound, begun),
    }
}

fn drive<L: SocketLanes>(
    back: &Back,
    opened: Opened,
    mut lanes: L,
    inbound: Inbound,
    begun: Beginning,
) -> Result<(), Error> {
    let waker = lanes.waker().map_err(system("waking the driver"))?;
    let Opened { exports, room, policies, stored, notes, disks, pair, .. } = opened;
    let Inbound { arriving, ordered, stop, memory, says } = inbound;
    let ended = EndedTraces::default();
    let outputs = Outputs { disks: disks.clone(), says: says.clone(), ended };
    let ready = Ready {
        exports: exports.clone(),
        policies: policies.clone(),
        outputs: outputs.clone(),
        room,
        notes,
        waker,
    };
    let tally = Tally::new(&back.exports, &back.policy, &disks);
    let tally = if back.on.is_emulated() { tally.emulated() } else { tally };
    let mut front = Front::new(exports, back.who(), stored, arriving, ordered, tally, lanes.pool());
    front.share(memory);
    front.scrub(back.scrub, time_of_day());
    front.traces = Traces::new(outputs.client_trace(back)?, outputs.issued_trace(back)?);
    let Beginning { told, goes, opened } = begun;
    // If nothing receives this, another back has failed and nothing is served.
    let _ = told.send(ready);
    if goes.recv().is_err() {
        return Ok(());
    }
    let pair = Rc::new(RefCell::new(Paired::new(pair)));
    let theirs = Rc::clone(&pair);
    front.open(stop, move || theirs.borrow_mut().begin() && opened.send(()).is_ok());
    let front = Rc::new(RefCell::new(front));
    let mut lanes = Fronted::new(lanes, Rc::clone(&front));
    let journal = Journal::new(&back.name, &disks, says)
        .telling_answers(!policies.answers_when_done(&back.policy));
    let theirs = Some(Rc::clone(&pair));
    let mut counting = Counting { front: Rc::clone(&front), journal, pair: theirs };
    let driven = take_turns(back, &policies, &mut lanes, &mut counting);
    let ended = driven.and_then(|gauges| pair.borrow_mut().end(&gauges));
    let (client, issued) = front.borrow_mut().traces.take();
    ended.and(outputs.finish(&back.name, client, issued))
}

/// Drives one policy after another until the server ends; returns the gauges of the last policy.
fn take_turns<L: SocketLanes>(
    back: &Back,
    policies: &Policies,
    lanes: &mut Fronted<L>,
    counting: &mut Counting,
) -> Result<Vec<Gauge>, Error> {
    let front = Rc::clone(&counting.front);
    let (mut spec, mut policies) = (back.shaped()?, policies.clone());
    loop {
        // The spec was checked before the switch was ordered.
        let policy = policies.build(&spec)?;
        let policy = Rc::new(RefCell::new(policy));
        front.borrow_mut().follow(&policy);
        front.borrow_mut().may_drop(policies.answers_when_done(&spec));
        let mut policy = Shared(policy);
        let mut arrivals = Arrivals(Rc::clone(&front));
        run(&mut policy, lanes, &mut arrivals, counting).map_err(system("driving the disks"))?;
        counting.tell_events();
        counting.tell_notes();
        counting.journal.end(lanes.wall());
        let mut front = front.borrow_mut();
        front.let_policy_go();
        policies = policies.after(&policy.0.borrow(), front.own_stream());
        let state = policy.0.borrow().volume();
        let members = state.map_or_else(Vec::new, |state| {
            let recorded = state.drives.iter().filter(|drive| drive.is_member);
            let recorded: Vec<u8> = recorded.map(|drive| drive.number).collect();
            if recorded.is_empty() { recorded } else { [recorded, state.members].concat() }
        });
        policies = policies.resized(front.joined(), &members);
        let gauges = policy.0.borrow().gauges();
        drop(policy);
        if front.course() == Course::Closing {
            return closed(front.failed()).map(|()| gauges);
        }
        if let Some(next) = front.next_policy() {
            spec = next.to_string();
            if front.retries() {
                wait_to_retry(&front);
            }
            front.reopen(policies.trims_to_zero(&spec));
        }
    }
}

/// Waits before a policy is opened again, unless the server is stopping.
fn wait_to_retry(front: &Front) {
    let until = Instant::now() + RETRIES;
    while Instant::now() < until && !front.is_stopping() {
        thread::sleep(RETRIES / 50);
    }
}

/// Converts the outcome of opening the policy, or of the last flush.
fn closed(failed: Option<(Op, Fault)>) -> Result<(), Error> {
    let Some((op, fault)) = failed else { return Ok(()) };
    let why = match (op, fault) {
        (Op::Open, Fault::Gone) => "it could not be opened: a drive or its flash has disappeared",
        (Op::Open, Fault::Refused) => {
            "it could not be opened: the flash is blank, or belongs to another disk \
             (docs/placement-log.md); format=yes initializes a blank one"
        }
        (Op::Open, Fault::Full) => {
            return Err(Error::Disks(
                "it could not be opened: the file system below its disks is full (ENOSPC); free \
                 some space and start it again"
                    .into(),
            ));
        }
        (Op::Open, Fault::Media) => {
            "it could not be opened: its placement log is damaged, unreadable, or older than the \
             disk's mark (see docs/placement-log.md for what to do)"
        }
        (_, Fault::Full) => {
            return Err(Error::Disks(
                "writes could not be made durable: the file system below its disks is full (ENOSPC)"
                    .into(),
            ));
        }
        (_, Fault::Gone) => "writes could not be made durable: its disk has disappeared",
        (_, Fault::Media | Fault::Refused) => {
            "writes could not be made durable: its disk reports an error"
        }
    };
    Err(unfit(why))
}
