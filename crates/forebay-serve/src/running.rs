//! A running server, for the threads of the control socket, the metrics and signals.

// Allowed because this module works with threads.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use forebay_words::quantities;

use crate::driver::{Driver, SOON};
use crate::error::{Error, unfit};
use crate::figures::{Figures, SCHEMA_VERSION};
use crate::listen::{Door, Doors};
use crate::request_memory::RequestMemory;
use crate::{Config, Export, Named};

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
        let unknown =
            || unfit(format!("no disk or volume is named '{name}'; expected one of: {}", known()));
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

    /// Returns the figures of all backs that are still served and answer within `patience`.
    pub(crate) fn figures(&self, patience: Duration) -> Figures {
        let (mut backs, mut unanswered) = (Vec::new(), Vec::new());
        for driver in self.drivers() {
            match driver.figures(patience) {
                Ok(figures) => backs.push(figures),
                Err(_) if driver.is_finished() => {}
                Err(_) => unanswered.push(driver.name.clone()),
            }
        }
        // Read the clock last, so that every count was taken before this time.
        let uptime_s = self.started.elapsed().as_secs_f64();
        Figures { schema_version: SCHEMA_VERSION, uptime_s, backs, unanswered }
    }

    /// Returns remarks on degraded volumes, one line each, if everything is being served.
    ///
    /// # Errors
    /// Returns what is not being served, one line each.
    pub(crate) fn health(&self) -> Result<String, String> {
        let (mut broken, mut remarks) = (String::new(), String::new());
        for driver in self.drivers() {
            match driver.figures(SOON) {
                Err(_) if driver.is_finished() => {
                    broken += &format!("'{}' is no longer served\n", driver.name);
                }
                Err(_) => broken += &format!("'{}' does not answer\n", driver.name),
                Ok(figures) => {
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

    /// Makes a volume that has grown provide all of its bytes to clients that connect from now on.
    pub(crate) fn enlarge(&self, driver: &Driver, bytes: u64) -> Result<(), Error> {
        let room = driver.room().with_bytes(bytes);
        *driver.room() = room;
        let current = self.refit(driver)?;
        let offered = self.doors.of(&driver.name);
        let names: BTreeSet<&str> = offered.iter().map(|one| &*one.name).collect();
        let is_offered = |export: &&Named| names.contains(&*export.name);
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
        let offered: BTreeMap<&str, &Export> = before.iter().map(|one| (&*one.name, one)).collect();
        let known = |name: &str| offered.get(name).copied();
        let wanted = Named::by_name(wanted);
        let is_wanted = |named: &Named| {
            let other = wanted.get(&*named.name);
            other.is_some_and(|other| known(&named.name).is_some() || named.may_become(other))
        };
        let gone = before.iter().filter(|one| !wanted.contains_key(&*one.name));
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

/// Returns the doors to the exports of a driver with these indices.
fn doors(driver: &Driver, exports: impl Iterator<Item = (usize, Export)>) -> Vec<Door> {
    let door = |(at, export)| {
        let (newcomers, waker) = (driver.newcomers.clone(), driver.waker.clone());
        Door { back: driver.name.clone(), export, at, newcomers, waker }
    };
    exports.map(door).collect()
}
