//! A server: one driver thread for each back, and one accepting thread for each address.

// This module works with threads and their signals.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use forebay_core::contract::policy::Gauge;
use forebay_core::{Fault, Op};
use forebay_live::{Lanes as _, Waker, Wired, run};
use forebay_metrics::Scraped;

use crate::address::Address;
use crate::back::{Opened, Policies};
use crate::config::{Back, Config};
use crate::control::Control;
use crate::devices::{Devices, Orders, Wanted};
use crate::drive::{Arrivals, Fronted, Shared};
use crate::error::{Error, system, unfit};
use crate::export::Export;
use crate::figures::Figures;
use crate::front::{Course, Front, Newcomer, Order};
use crate::journal::Journal;
use crate::lanes::Lanes;
use crate::listen::{Door, Listening};
use crate::outputs::{self, Outputs};
use crate::paired::Paired;
use crate::running::{Running, ServedBack};
use crate::tally::{Counting, Tally};
use crate::traces::Traces;

/// A running server.
pub struct Server {
    running: Arc<Running>,
    listening: Vec<Listening>,
    drivers: Vec<Driver>,
    exports: Vec<Export>,
    devices: Option<Devices>,
    notes: Vec<String>,
    controls: Vec<Control>,
    scraped: Option<Scraped>,
    says: Sender<String>,
    said: Mutex<Receiver<String>>,
}

/// The thread of a back.
struct Driver {
    name: String,
    waker: Waker,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), Error>>,
}

/// The message from a driver that everything it needs is open and nothing has been written yet.
pub(crate) struct Ready {
    exports: Vec<Export>,
    pub(crate) policies: Policies,
    pub(crate) outputs: Outputs,
    notes: Vec<String>,
    pub(crate) waker: Waker,
}

impl Server {
    /// Opens everything, then listens.
    ///
    /// # Errors
    /// The configuration, a target, a policy or an address is invalid. Nothing has been written in
    /// this case.
    pub fn start(config: &Config) -> Result<Server, Error> {
        refuse_doubles(config)?;
        outputs::refuse(config)?;
        let (says, said) = channel();
        let mut server = Server {
            says,
            said: Mutex::new(said),
            running: Arc::new(Running::new(config, Vec::new())),
            listening: Vec::new(),
            drivers: Vec::new(),
            exports: Vec::new(),
            devices: None,
            notes: Vec::new(),
            controls: Vec::new(),
            scraped: None,
        };
        match server.begin(config) {
            Ok(()) => Ok(server),
            Err(error) => {
                // No client has been accepted yet, so no data can be lost.
                let _ = server.stop();
                Err(error)
            }
        }
    }

    fn begin(&mut self, config: &Config) -> Result<(), Error> {
        self.devices = config.has_devices().then(Devices::prepare).transpose()?;
        let mut listeners = Vec::new();
        for address in &config.listen {
            listeners.push(address.listen()?);
        }
        let (mut doors, mut drivers, mut wanted) = (Vec::new(), Vec::new(), Vec::new());
        let mut served = Vec::new();
        for back in &config.backs {
            let (newcomers, arriving) = channel();
            let (ready, starting, orders) = self.prepare(back, arriving)?;
            drivers.push(starting);
            served.push(ServedBack::new(back, &ready, orders));
            for at in 0..ready.exports.len() {
                let (newcomers, waker) = (newcomers.clone(), ready.waker.clone());
                doors.push(Door { at, newcomers, waker });
            }
            wanted.push(devices_of(back, &ready));
            self.exports.extend(ready.exports);
            // Notes that apply to all backs are reported once.
            let new: Vec<String> =
                ready.notes.into_iter().filter(|note| !self.notes.contains(note)).collect();
            self.notes.extend(new);
        }
        self.running = Arc::new(Running::new(config, served));
        self.control(config)?;
        // All backs are ready, so from here on data may be written.
        for (nth, Starting { go, open }) in drivers.into_iter().enumerate() {
            let _ = go.send(());
            if open.recv().is_err() {
                // The driver ended before its policy was open.
                let Driver { thread, name, .. } = self.drivers.remove(nth);
                let ended = ended(thread).err();
                return Err(ended.unwrap_or_else(|| unfit("its driver ended at once")).of(&name));
            }
        }
        if let Some(devices) = &mut self.devices {
            for (back, wanted) in self.running.backs().zip(&wanted) {
                for one in wanted {
                    let orders = Orders(back.orders(), back.waker());
                    self.notes.push(devices.start(one, &orders)?);
                }
            }
        }
        for (listener, address) in listeners {
            let (exports, doors) = (self.exports.clone(), doors.clone());
            self.listening.push(Listening::start(listener, address, exports, doors)?);
        }
        Ok(())
    }

    /// Starts taking commands and publishing figures.
    fn control(&mut self, config: &Config) -> Result<(), Error> {
        for address in &config.listen {
            if let Address::Unix(path) = address {
                self.controls.push(Control::start(path, &self.running)?);
            }
        }
        if let Some(address) = config.metrics {
            let running = Arc::clone(&self.running);
            let scraped = Scraped::start(address, move || running.figures().page());
            self.scraped = Some(scraped.map_err(|error| unfit(format!("{address}: {error}")))?);
        }
        Ok(())
    }

    /// Opens a back on the thread that will drive it. The thread waits for a message before it
    /// writes anything.
    fn prepare(
        &mut self,
        back: &Back,
        arriving: Receiver<Newcomer>,
    ) -> Result<(Ready, Starting, Sender<Order>), Error> {
        let (told, ready) = channel();
        let (go, goes) = channel();
        let (opened, open) = channel();
        let (orders, ordered) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let (theirs, stops) = (back.clone(), Arc::clone(&stop));
        let thread = thread::Builder::new().name(format!("drive {}", back.name));
        let begun = Beginning { told, goes, opened };
        let says = self.says.clone();
        let work = move || driver(&theirs, Inbound { arriving, ordered, stop: stops, says }, begun);
        let thread = thread.spawn(work).map_err(system("starting a thread"))?;
        match ready.recv() {
            Ok(ready) => {
                let (name, waker) = (back.name.clone(), ready.waker.clone());
                self.drivers.push(Driver { name, waker, stop, thread });
                Ok((ready, Starting { go, open }, orders))
            }
            // The thread ended before it could report anything.
            Err(_) => Err(ended(thread).err().unwrap_or_else(|| unfit("its driver ended at once"))),
        }
    }

    /// Returns the addresses on which the server listens.
    pub fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.listening.iter().map(Listening::address)
    }

    /// Returns the exports.
    pub fn exports(&self) -> &[Export] {
        &self.exports
    }

    /// Returns notes for the user, one sentence each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns the problems since the last call that do not end the server, one sentence each.
    pub fn said(&self) -> Vec<String> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).try_iter().collect()
    }

    /// Switches the policy of a back; see [`Running::switch`].
    ///
    /// # Errors
    /// There is no such back or policy; nothing changes.
    pub fn switch(&self, back: &str, policy: &str) -> Result<Duration, Error> {
        self.running.switch(back, policy)
    }

    /// Rereads the configuration file; see [`Running::reload`].
    ///
    /// # Errors
    /// There is no configuration file, or it is invalid; nothing changes.
    pub fn reload(&self) -> Result<Vec<String>, Error> {
        self.running.reload()
    }

    /// Rotates the traces of all backs; returns what was completed and what failed, one sentence
    /// each.
    pub fn rotate_traces(&self) -> Vec<String> {
        self.running.rotate_all_traces()
    }

    /// Applies what can be changed of `now`, the reread configuration; returns the same as
    /// [`Server::reload`].
    pub fn reread(&self, now: &Config) -> Vec<String> {
        self.running.reread(now)
    }

    /// Returns the counts since the start.
    pub fn figures(&self) -> Figures {
        self.running.figures()
    }

    /// Returns whether a driver ended by itself; [`Server::stop`] returns the reason.
    pub fn is_broken(&self) -> bool {
        self.drivers.iter().any(|driver| driver.thread.is_finished())
    }

    /// Stops taking requests, answers those in flight, makes everything durable, and ends.
    ///
    /// # Errors
    /// A driver failed, or data could not be made durable.
    pub fn stop(self) -> Result<(), Error> {
        self.end().1
    }

    /// Stops like [`Server::stop`]; also returns unreported problems, one sentence each.
    pub fn end(self) -> (Vec<String>, Result<(), Error>) {
        self.listening.into_iter().for_each(Listening::stop);
        self.controls.into_iter().for_each(Control::stop);
        self.scraped.into_iter().for_each(Scraped::stop);
        let mut devices = self.devices;
        let waiting = devices.as_mut().map(Devices::stop).unwrap_or_default();
        let mut worst = Ok(());
        for driver in &self.drivers {
            driver.stop.store(true, Ordering::SeqCst);
            driver.waker.wake();
        }
        for driver in self.drivers {
            if let Err(error) = ended(driver.thread) {
                worst = Err(error.of(&driver.name));
            }
        }
        if let Some(mut devices) = devices {
            devices.forget();
        }
        let said = self.said.into_inner().unwrap_or_else(PoisonError::into_inner);
        (said.try_iter().chain(waiting).collect(), worst)
    }
}

/// Returns the exports of a back that become devices.
fn devices_of(back: &Back, ready: &Ready) -> Vec<Wanted> {
    let exports = back.exports.iter().zip(&ready.exports).enumerate();
    let wanted = exports.filter(|(_, (named, _))| named.ublk);
    let wanted = wanted.map(|(at, (_, export))| Wanted {
        back: back.name.clone(),
        at,
        export: export.clone(),
        file: back.on.paths().next().map(PathBuf::from).unwrap_or_default(),
        recovers: ready.policies.answers_when_done(&back.policy),
    });
    wanted.collect()
}

/// A driver that waits for permission to begin and reports when its policy is open.
struct Starting {
    go: Sender<()>,
    open: Receiver<()>,
}

/// The driver's side of [`Starting`].
struct Beginning {
    told: Sender<Ready>,
    goes: Receiver<()>,
    opened: Sender<()>,
}

/// Waits for a driver's thread and returns its result.
fn ended(thread: JoinHandle<Result<(), Error>>) -> Result<(), Error> {
    match thread.join() {
        Ok(outcome) => outcome,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Rejects duplicate names and files.
fn refuse_doubles(config: &Config) -> Result<(), Error> {
    let mut names: Vec<&str> = Vec::new();
    for export in config.backs.iter().flat_map(|back| &back.exports) {
        if names.contains(&export.name.as_str()) {
            return Err(unfit(format!(
                "export '{}': got two of that name, expected each name once",
                export.name
            )));
        }
        names.push(&export.name);
    }
    let mut files: Vec<(PathBuf, &str)> = Vec::new();
    for back in &config.backs {
        let named: Vec<PathBuf> = back.on.paths().map(PathBuf::from).collect();
        // Drives that cannot be inspected are reported when they are opened.
        for path in forebay_volume::drives_in(&named).unwrap_or(named) {
            // Files that cannot be found are reported when they are opened.
            let Ok(file) = path.canonicalize() else { continue };
            if let Some((_, other)) = files.iter().find(|(known, _)| *known == file) {
                return Err(unfit(format!(
                    "{}: is used by '{other}' and by '{}', expected a separate file or drive for \
                     each",
                    path.display(),
                    back.name
                )));
            }
            files.push((file, &back.name));
        }
    }
    Ok(())
}

/// A driver's channels from other threads.
struct Inbound {
    arriving: Receiver<Newcomer>,
    ordered: Receiver<Order>,
    stop: Arc<AtomicBool>,
    /// The channel for messages to the user.
    says: Sender<String>,
}

/// The thread of a back: opens the back, reports, and drives it until it is told to stop.
fn driver(back: &Back, inbound: Inbound, begun: Beginning) -> Result<(), Error> {
    let mut opened = Opened::open(back)?;
    match opened.lanes(back.driver)? {
        Lanes::Uring(lanes) => drive(back, opened, *lanes, inbound, begun),
        Lanes::Threads(lanes) => drive(back, opened, *lanes, inbound, begun),
        Lanes::Emulated(lanes) => drive(back, opened, *lanes, inbound, begun),
    }
}

fn drive<L: Wired>(
    back: &Back,
    opened: Opened,
    mut lanes: L,
    inbound: Inbound,
    begun: Beginning,
) -> Result<(), Error> {
    let waker = lanes.waker().map_err(system("waking the driver"))?;
    let Opened { exports, policies, stored, notes, disks, pair, .. } = opened;
    let Inbound { arriving, ordered, stop, says } = inbound;
    let outputs = Outputs { disks: disks.clone(), says: says.clone() };
    let (theirs, policies_theirs) = (outputs.clone(), policies.clone());
    let ready = Ready {
        exports: exports.clone(),
        policies: policies_theirs,
        outputs: theirs,
        notes,
        waker,
    };
    let tally = Tally::new(&back.exports, &back.policy, &disks);
    let tally = if back.on.is_emulated() { tally.emulated() } else { tally };
    let mut front = Front::new(exports, back.who(), stored, arriving, ordered, tally, lanes.pool());
    front.traces = Traces::new(outputs.client_trace(back)?, outputs.issued_trace(back)?);
    let Beginning { told, goes, opened } = begun;
    // If nobody receives this, another back has failed and nothing is served.
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

/// Drives one policy after another until the server ends; returns the last one's gauges.
fn take_turns<L: Wired>(
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
        front.borrow_mut().follow(&policy, &spec);
        front.borrow_mut().may_drop(policies.answers_when_done(&spec));
        let mut policy = Shared(policy);
        let mut arrivals = Arrivals(Rc::clone(&front));
        run(&mut policy, lanes, &mut arrivals, counting).map_err(system("driving the disks"))?;
        counting.journal.end(lanes.wall());
        let mut front = front.borrow_mut();
        front.let_policy_go();
        policies = policies.after(&policy.0.borrow(), front.own_stream());
        let gauges = policy.0.borrow().gauges();
        drop(policy);
        if front.course() == Course::Closing {
            return closed(front.failed()).map(|()| gauges);
        }
        if let Some(next) = front.next_policy() {
            spec = next.to_string();
            front.reopen(policies.trims_to_zero(&spec));
        }
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
             disk's mark (docs/placement-log.md says what you can do)"
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
