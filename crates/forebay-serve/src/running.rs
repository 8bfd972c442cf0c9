//! A running server as the other threads see it: the control socket, the metrics, and signals.
//!
//! Invariant: a back's driver is changed only through orders that it executes between two requests.

// This module works with threads.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use forebay_live::Waker;

use crate::back::{Policies, keeps_data};
use crate::config::{Back, Config, On};
use crate::error::{Error, system, unfit};
use crate::figures::{BackFigures, Figures, SCHEMA_VERSION};
use crate::file;
use crate::flash::refuse_overwriting;
use crate::front::{Order, Switch};
use crate::outputs::{self, Outputs};
use crate::record::{ClientTrace, Issued};
use crate::server::Ready;
use crate::traces::TraceExchange;

/// How long to wait for a driver's figures.
const PATIENCE: Duration = Duration::from_secs(5);

/// A running server.
pub(crate) struct Running {
    /// The configuration with which it was started.
    config: Config,
    started: Instant,
    backs: Vec<ServedBack>,
}

/// A back that is being served.
pub(crate) struct ServedBack {
    name: String,
    /// The back, with its current policy.
    current: Mutex<Back>,
    policies: Policies,
    outputs: Outputs,
    orders: Sender<Order>,
    waker: Waker,
}

impl ServedBack {
    pub(crate) fn new(back: &Back, ready: &Ready, orders: Sender<Order>) -> ServedBack {
        ServedBack {
            name: back.name.clone(),
            current: Mutex::new(back.clone()),
            policies: ready.policies.clone(),
            outputs: ready.outputs.clone(),
            orders,
            waker: ready.waker.clone(),
        }
    }

    pub(crate) fn orders(&self) -> &Sender<Order> {
        &self.orders
    }

    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }

    fn current(&self) -> MutexGuard<'_, Back> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives an order to the driver.
    fn order(&self, order: Order) -> Result<(), Error> {
        self.orders.send(order).map_err(|_| self.is_gone())?;
        self.waker.wake();
        Ok(())
    }

    fn is_gone(&self) -> Error {
        unfit(format!("'{}' is no longer served", self.name))
    }

    /// Writes the trace of clients' requests that `next` names, or none; returns the previous one
    /// once its requests are answered.
    fn exchange_client_trace(&self, next: &Back) -> Result<Option<ClientTrace>, Error> {
        self.exchange(self.outputs.client_trace(next)?, Order::ClientTrace)
    }

    /// Writes the trace of the disks' I/Os that `next` names, or none; returns the previous one
    /// once its I/Os have ended.
    fn exchange_issued_trace(&self, next: &Back) -> Result<Option<Issued>, Error> {
        self.exchange(self.outputs.issued_trace(next)?, Order::IssuedTrace)
    }

    fn exchange<T>(
        &self,
        new: Option<T>,
        order: impl FnOnce(TraceExchange<T>) -> Order,
    ) -> Result<Option<T>, Error> {
        let (old, released) = channel();
        self.order(order(TraceExchange { new, old }))?;
        released.recv().map_err(|_| self.is_gone())
    }

    fn figures(&self) -> Option<BackFigures> {
        let (told, telling) = channel();
        self.order(Order::Tell(told)).ok()?;
        let tally = telling.recv_timeout(PATIENCE).ok()?;
        Some(BackFigures::of(&self.name, &tally))
    }
}

impl Running {
    pub(crate) fn new(config: &Config, backs: Vec<ServedBack>) -> Running {
        Running { config: config.clone(), started: Instant::now(), backs }
    }

    /// Returns the backs in the order of the configuration.
    pub(crate) fn backs(&self) -> impl Iterator<Item = &ServedBack> {
        self.backs.iter()
    }

    fn back(&self, name: &str) -> Result<&ServedBack, Error> {
        self.backs.iter().find(|back| back.name == name).ok_or_else(|| {
            let known: Vec<_> = self.backs.iter().map(|back| &*back.name).collect();
            unfit(format!("nothing is named '{name}'; expected one of: {}", known.join(", ")))
        })
    }

    /// Returns the name of the only back if none is given.
    ///
    /// # Errors
    /// There are several.
    pub(crate) fn name<'a>(&'a self, given: &'a Option<String>) -> Result<&'a str, Error> {
        match (given, &self.backs[..]) {
            (Some(name), _) => Ok(name),
            (None, [only]) => Ok(&only.name),
            (None, backs) => {
                let names: Vec<&str> = backs.iter().map(|back| &*back.name).collect();
                Err(unfit(format!("no disk is named, expected one of: {}", names.join(", "))))
            }
        }
    }

    /// Returns all backs with their current policies.
    pub(crate) fn current(&self) -> impl Iterator<Item = Back> {
        self.backs.iter().map(|back| back.current().clone())
    }

    /// Returns the configuration with which the server was started.
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the figures of all backs that are still served.
    pub(crate) fn figures(&self) -> Figures {
        let uptime_s = self.started.elapsed().as_secs_f64();
        let backs = self.backs.iter().filter_map(ServedBack::figures).collect();
        Figures { schema_version: SCHEMA_VERSION, uptime_s, backs }
    }

    /// Rereads the configuration file and applies what can be changed while the server runs.
    /// Returns what was changed and what must wait for a restart, one sentence each.
    ///
    /// # Errors
    /// There is no configuration file, or it is invalid; nothing changes.
    pub(crate) fn reload(&self) -> Result<Vec<String>, Error> {
        let Some(path) = &self.config.file else {
            return Err(unfit("the server has no configuration file to reload"));
        };
        let mut now = file::read(path)?;
        for back in &mut now.backs {
            // It matters only at the start, where the command line may have set it.
            let started = self.config.backs.iter().find(|started| started.name == back.name);
            back.force |= started.is_some_and(|started| started.force);
        }
        Ok(self.reread(&now))
    }

    /// Switches the policy of a back. Requests in flight are answered first; requests that arrive
    /// meanwhile wait. Returns how long no requests were taken.
    ///
    /// # Errors
    /// There is no such back or policy; nothing changes.
    pub(crate) fn switch(&self, back: &str, policy: &str) -> Result<Duration, Error> {
        let served = self.back(back)?.current().clone();
        let pause = self.follow(back, Back { policy: policy.into(), ..served })?;
        Ok(pause.unwrap_or_default())
    }

    /// Gives the back called `name` the policy and the promises of `next`; returns None if no
    /// switch was necessary.
    pub(crate) fn follow(&self, name: &str, next: Back) -> Result<Option<Duration>, Error> {
        let back = self.back(name)?;
        let mut served = back.current();
        let (current, spec) = (served.shaped()?, next.shaped()?);
        back.policies.build(&spec)?;
        if current == spec && served.who() == next.who() {
            *served = next;
            return Ok(None);
        }
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
                 expected a policy that does not move data; stop the server to change it"
            )));
        }
        if let On::Target { flash: Some(flash), .. }
        | On::Emulated { flash: Some((flash, _)), .. } = &served.on
        {
            refuse_overwriting(name, &next.policy, flash)?;
        }
        let (done, switched) = channel();
        // Caches and tiers remain.
        let flushes = back.policies.found_by_records();
        let (streams, exports) = (next.who(), next.exports.clone());
        let order = Order::Switch(Switch { spec, streams, exports, flushes, done });
        back.order(order)?;
        let pause = switched.recv().map_err(|_| back.is_gone())?.map_err(|fault| {
            unfit(format!(
                "'{name}': writes could not be made durable: {}; '{current}' stays in use; fix \
                 the problem and try again",
                fault.reason()
            ))
        })?;
        *served = next;
        Ok(Some(Duration::from_nanos(pause.0)))
    }

    /// Starts a trace of clients' requests, or of the disks' I/Os if `is_issued`.
    ///
    /// # Errors
    /// There is no such back, a trace is already being written, or the file cannot be begun.
    pub(crate) fn start_trace(
        &self,
        back: &str,
        path: &Path,
        is_issued: bool,
    ) -> Result<(), Error> {
        let back = self.back(back)?;
        let mut current = back.current();
        let mut next = current.clone();
        let (place, key) = match is_issued {
            false => (&mut next.trace, "trace"),
            true => (&mut next.trace_issued, "trace_issued"),
        };
        if let Some(path) = place.replace(path.to_path_buf()) {
            return Err(unfit(format!(
                "'{}': {key}: {} is being written, expected none; stop or rotate it",
                back.name,
                path.display()
            )));
        }
        self.refuse_output(&next)?;
        match is_issued {
            false => back.exchange_client_trace(&next).map(drop)?,
            true => back.exchange_issued_trace(&next).map(drop)?,
        }
        *current = next;
        Ok(())
    }

    /// Completes the traces of a back, and returns their names.
    ///
    /// # Errors
    /// There is no such back, no trace is being written, or one cannot be completed.
    pub(crate) fn stop_traces(&self, back: &str) -> Result<Vec<PathBuf>, Error> {
        self.end_traces(back, |back| Back { trace: None, trace_issued: None, ..back.clone() })
    }

    /// Completes the traces of a back and begins new ones under the same names. Returns the names
    /// of the completed ones, to which a number has been added.
    ///
    /// # Errors
    /// There is no such back, no trace is being written, or one cannot be completed.
    pub(crate) fn rotate_traces(&self, back: &str) -> Result<Vec<PathBuf>, Error> {
        let paths = self.end_traces(back, Back::clone)?;
        paths.into_iter().map(|path| set_aside(&path)).collect()
    }

    /// Rotates all traces that are being written; returns a sentence for each.
    pub(crate) fn rotate_all_traces(&self) -> Vec<String> {
        let is_traced = |back: &&ServedBack| {
            let current = back.current();
            current.trace.is_some() || current.trace_issued.is_some()
        };
        let rotate = |back: &ServedBack| match self.rotate_traces(&back.name) {
            Ok(paths) => {
                let complete = |path: PathBuf| format!("{} is complete", path.display());
                paths.into_iter().map(complete).collect()
            }
            Err(error) => vec![error.to_string()],
        };
        self.backs.iter().filter(is_traced).flat_map(rotate).collect()
    }

    /// Replaces the traces of a back by those that `next` returns; returns the names of completed
    /// ones.
    fn end_traces(
        &self,
        back: &str,
        next: impl FnOnce(&Back) -> Back,
    ) -> Result<Vec<PathBuf>, Error> {
        let back = self.back(back)?;
        let mut current = back.current();
        let paths: Vec<PathBuf> =
            [&current.trace, &current.trace_issued].into_iter().flatten().cloned().collect();
        if paths.is_empty() {
            return Err(unfit(format!("'{}': no trace is being written", back.name)));
        }
        let next = next(&current);
        let client = back.exchange_client_trace(&next)?;
        let issued = back.exchange_issued_trace(&next)?;
        *current = next;
        back.outputs.finish(&back.name, client, issued)?;
        Ok(paths)
    }

    /// Rejects a trace that would replace another file of this server.
    fn refuse_output(&self, changed: &Back) -> Result<(), Error> {
        let mut config = self.config.clone();
        for back in &mut config.backs {
            if let Some(served) = self.backs.iter().find(|served| served.name == back.name) {
                *back = match back.name == changed.name {
                    true => changed.clone(),
                    false => served.current().clone(),
                };
            }
        }
        outputs::refuse(&config)
    }
}

/// Renames a completed trace so that its name is free: `came.parquet` becomes `came.1.parquet`, or
/// the next number that is free.
fn set_aside(path: &Path) -> Result<PathBuf, Error> {
    let ending = path.extension().map(|ending| ending.to_string_lossy().into_owned());
    let numbered = |number: u64| match &ending {
        Some(ending) => path.with_extension(format!("{number}.{ending}")),
        None => path.with_extension(number.to_string()),
    };
    let free = (1..).map(numbered).find(|path| std::fs::symlink_metadata(path).is_err());
    let free = free.expect("numbers do not run out");
    std::fs::rename(path, &free).map_err(system(format!("renaming {}", path.display())))?;
    Ok(free)
}
