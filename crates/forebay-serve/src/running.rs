//! A running server, for the threads of the control socket, the metrics and signals.

// Allowed because this module works with threads.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use forebay_show::quantities;

use crate::back::{Policies, keeps_data};
use crate::config::{Back, Config, Named, On};
use crate::driver::Driver;
use crate::error::{Error, unfit};
use crate::export::Export;
use crate::figures::{Figures, SCHEMA_VERSION};
use crate::flash::refuse_overwriting;
use crate::front::{Order, PolicySetup, Switch, SwitchFailure};
use crate::listen::{Door, Doors};
use crate::request_memory::RequestMemory;

/// A running server.
pub(crate) struct Running {
    /// The configuration as it was last read.
    config: Mutex<Config>,
    /// Held while the configuration is reread and applied.
    reloading: Mutex<()>,
    started: Instant,
    /// The channel for messages to the user.
    says: Sender<String>,
    drivers: Mutex<Vec<Arc<Driver>>>,
    doors: Arc<Doors>,
    memory: RequestMemory,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The locks protect only complete updates, so a panic cannot leave them inconsistent.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Running {
    pub(crate) fn new(config: &Config, says: Sender<String>) -> Running {
        Running {
            config: Mutex::new(config.clone()),
            reloading: Mutex::default(),
            started: Instant::now(),
            says,
            drivers: Mutex::default(),
            doors: Arc::default(),
            memory: config.memory(),
        }
    }

    /// Adds a driver, and opens its exports to clients.
    pub(crate) fn add(&self, driver: Driver, exports: &[Export]) -> Arc<Driver> {
        let driver = Arc::new(driver);
        locked(&self.drivers).push(Arc::clone(&driver));
        self.doors.open(doors(&driver, exports.iter().cloned().enumerate()));
        driver
    }

    /// Removes a driver, whose exports must have been closed.
    pub(crate) fn remove(&self, driver: &Arc<Driver>) {
        locked(&self.drivers).retain(|other| !Arc::ptr_eq(other, driver));
    }

    /// Returns the drivers in the order in which they were added.
    pub(crate) fn drivers(&self) -> Vec<Arc<Driver>> {
        locked(&self.drivers).clone()
    }

    pub(crate) fn doors(&self) -> &Arc<Doors> {
        &self.doors
    }

    pub(crate) fn memory(&self) -> RequestMemory {
        self.memory.clone()
    }

    pub(crate) fn says(&self) -> Sender<String> {
        self.says.clone()
    }

    /// Prevents two threads from rereading the configuration at the same time.
    pub(crate) fn reloading(&self) -> MutexGuard<'_, ()> {
        locked(&self.reloading)
    }

    /// Returns the configuration as it was last read.
    pub(crate) fn config(&self) -> MutexGuard<'_, Config> {
        locked(&self.config)
    }

    pub(crate) fn driver(&self, name: &str) -> Result<Arc<Driver>, Error> {
        let drivers = self.drivers();
        let known = || drivers.iter().map(|driver| &*driver.name).collect::<Vec<_>>().join(", ");
        let unknown = || unfit(format!("nothing is named '{name}'; expected one of: {}", known()));
        drivers.iter().find(|driver| driver.name == name).cloned().ok_or_else(unknown)
    }

    /// Returns the driver with this name, or the only one if no name is given.
    ///
    /// # Errors
    /// There is no such driver, or there are several.
    pub(crate) fn named(&self, name: Option<&str>) -> Result<Arc<Driver>, Error> {
        match (name, &self.drivers()[..]) {
            (Some(name), _) => self.driver(name),
            (None, [only]) => Ok(Arc::clone(only)),
            (None, drivers) => {
                let names: Vec<&str> = drivers.iter().map(|driver| &*driver.name).collect();
                Err(unfit(format!("no disk is named, expected one of: {}", names.join(", "))))
            }
        }
    }

    /// Returns the figures of all backs that are still served.
    pub(crate) fn figures(&self) -> Figures {
        let uptime_s = self.started.elapsed().as_secs_f64();
        let backs = self.drivers().iter().filter_map(|driver| driver.figures()).collect();
        Figures { schema_version: SCHEMA_VERSION, uptime_s, backs }
    }

    /// Returns remarks on degraded volumes, one line each, if everything is being served.
    ///
    /// # Errors
    /// Returns what is not being served, one line each.
    pub(crate) fn health(&self) -> Result<String, String> {
        let (mut broken, mut remarks) = (String::new(), String::new());
        for driver in self.drivers() {
            match driver.figures() {
                None if driver.is_finished() => {
                    broken += &format!("'{}' is no longer served\n", driver.name);
                }
                None => broken += &format!("'{}' does not answer\n", driver.name),
                Some(figures) => {
                    broken += &figures.failing();
                    remarks += &figures.remarks();
                }
            }
        }
        match (broken.is_empty(), remarks.is_empty()) {
            (false, _) => Err(broken),
            (true, true) => Ok("ok\n".into()),
            (true, false) => Ok(remarks),
        }
    }

    /// Switches the policy of a back. Requests in flight are answered first; requests that arrive
    /// in the meantime wait. Returns the duration for which no requests were accepted.
    ///
    /// # Errors
    /// There is no such policy; nothing changes then.
    pub(crate) fn switch(&self, driver: &Driver, policy: &str) -> Result<Duration, Error> {
        let served = driver.current().clone();
        let pause = self.follow(driver, Back { policy: policy.into(), ..served })?;
        Ok(pause.unwrap_or_default())
    }

    /// Applies the policy, exports and promises of `next` to a driver; returns None if the policy
    /// need not be switched.
    pub(crate) fn follow(&self, driver: &Driver, next: Back) -> Result<Option<Duration>, Error> {
        let name = &driver.name;
        let mut served = driver.current();
        next.refuse_unknown_policy()?;
        let (current, spec) = (served.shaped()?, next.shaped()?);
        driver.policies.build_for(&next)?;
        let exports = driver.room().exports(&next, driver.policies.trims_to_zero(&next.policy))?;
        let changes_exports = !served.has_exports_of(&next);
        if changes_exports && matches!(driver.policies, Policies::Rearranged(..)) {
            return Err(unfit(format!(
                "'{name}': exports of a rearranged disk change after a restart"
            )));
        }
        let changes = changes_exports.then(|| Order::Exports(next.exports.clone(), exports));
        if current == spec && served.who() == next.who() {
            changes.map(|order| driver.order(order)).transpose()?;
            *served = next;
            return Ok(None);
        }
        driver.refuse_without_room()?;
        let both = [&served.policy, &next.policy];
        if let Some(placement) = both.into_iter().find(|policy| keeps_data(policy)) {
            if served.policy == next.policy {
                return Err(unfit(format!(
                    "'{name}': promises and weights above '{}', which keeps data on the \
                     flash, take effect after a restart",
                    next.policy
                )));
            }
            return Err(unfit(format!(
                "'{name}': '{placement}' keeps data on the flash that the disk does not have, \
                 expected a policy that does not move data; drain it first: `forebay control drain`"
            )));
        }
        if let On::Target { flash: Some(flash), .. }
        | On::Emulated { flash: Some((flash, _)), .. } = &served.on
        {
            refuse_overwriting(name, &next.policy, flash)?;
        }
        let changes = changes.map(|order| driver.order(order)).transpose()?;
        let (done, switched) = channel();
        // The contents of caches and tiers remain without a flush.
        let flushes = driver.policies.found_by_records();
        let setup = |back: &Back, spec| {
            let (shown, streams, exports) = (back.policy.clone(), back.who(), back.exports.clone());
            PolicySetup { spec, shown, streams, exports }
        };
        let (before, after) = (setup(&served, current), setup(&next, spec));
        driver.order(Order::Switch(Switch { next: after, before, flushes, done }))?;
        match switched.recv().map_err(|_| driver.is_gone())? {
            Ok(pause) => {
                *served = next;
                Ok(Some(Duration::from_nanos(pause.0)))
            }
            Err(failure) => {
                if changes.is_some() {
                    let trims_to_zero = driver.policies.trims_to_zero(&served.policy);
                    let exports = driver.room().exports(&served, trims_to_zero)?;
                    driver.order(Order::Exports(served.exports.clone(), exports))?;
                }
                Err(not_switched(&served, &next, failure))
            }
        }
    }

    /// Makes a volume that has grown provide all of its bytes to clients that connect from now on.
    pub(crate) fn enlarge(&self, driver: &Driver, bytes: u64) -> Result<(), Error> {
        let room = driver.room().with_bytes(bytes);
        *driver.room() = room;
        let current = self.refit(driver)?;
        let offered = self.doors.of(&driver.name);
        let is_offered = |export: &&Named| offered.iter().any(|one| one.name == export.name);
        let offered: Vec<Named> = current.exports.iter().filter(is_offered).cloned().collect();
        self.offer(driver, &offered).map(drop)
    }

    /// Lets clients choose exactly the exports of a driver that are in `wanted`; returns a sentence
    /// for each change. An export that clients could not choose before is offered only if its range
    /// is as in `wanted`.
    pub(crate) fn offer(&self, driver: &Driver, wanted: &[Named]) -> Result<Vec<String>, Error> {
        let current = driver.current();
        let trims_to_zero = driver.policies.trims_to_zero(&current.policy);
        let exports = driver.room().exports(&current, trims_to_zero)?;
        let before = self.doors.of(&driver.name);
        let known = |name: &str| before.iter().find(|one| one.name == name);
        let is_wanted = |named: &Named| {
            let is_same = |other: &&Named| other.name == named.name;
            let other = wanted.iter().find(is_same);
            other.is_some_and(|other| known(&named.name).is_some() || named.may_become(other))
        };
        let gone = before.iter().filter(|one| !wanted.iter().any(|other| other.name == one.name));
        let gone = gone.map(|one| format!("export '{}' accepts no more clients", one.name));
        let mut changes: Vec<String> = gone.collect();
        let change = |(named, now): (&Named, &Export)| match known(&named.name) {
            _ if !is_wanted(named) => None,
            None => Some(format!("export '{}' accepts clients now", named.name)),
            Some(then) if (then.offset, then.bytes) == (now.offset, now.bytes) => None,
            Some(_) => Some(format!(
                "export '{}' has {} at offset {} now{}",
                named.name,
                quantities::bytes(now.bytes as f64),
                now.offset,
                if named.ublk { "; its device keeps its size until a restart" } else { "" }
            )),
        };
        changes.extend(current.exports.iter().zip(&exports).filter_map(change));
        let offered = current.exports.iter().zip(exports).enumerate();
        let offered = offered.filter(|(_, (named, _))| is_wanted(named));
        let offered = doors(driver, offered.map(|(at, (_, export))| (at, export)));
        self.doors.replace(&driver.name, offered);
        Ok(changes)
    }
}

/// Explains why the policy of `served` was not switched to that of `next`.
fn not_switched(served: &Back, next: &Back, failure: SwitchFailure) -> Error {
    let why = match failure {
        SwitchFailure::Flush(fault) => {
            format!("writes could not be made durable: {}", fault.reason())
        }
        SwitchFailure::Open(fault) => {
            format!("'{}' could not be opened: {}", next.policy, fault.reason())
        }
    };
    unfit(format!(
        "'{}': {why}; '{}' stays in use; fix the problem and try again",
        served.name, served.policy
    ))
}

/// Returns the doors to the exports of a driver with these indices.
fn doors(driver: &Driver, exports: impl Iterator<Item = (usize, Export)>) -> Vec<Door> {
    let door = |(at, export)| {
        let (newcomers, waker) = (driver.newcomers.clone(), driver.waker.clone());
        Door { back: driver.name.clone(), export, at, newcomers, waker }
    };
    exports.map(door).collect()
}
