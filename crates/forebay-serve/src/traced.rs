//! Starts, stops and rotates the traces of a running server.

// Allowed because traces are received from other threads.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::path::{Path, PathBuf};
use std::sync::{MutexGuard, PoisonError};

use crate::driver::Driver;
use crate::error::{Error, system, unfit};
use crate::front::Order;
use crate::running::Running;
use crate::{Back, Config, outputs};

/// The files to which a back's traces are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TracePaths {
    pub(crate) client: Option<PathBuf>,
    pub(crate) issued: Option<PathBuf>,
}

impl TracePaths {
    /// Returns a sentence for each trace that is written now, but was not in `before`.
    pub(crate) fn begun_since(&self, before: &TracePaths) -> Vec<String> {
        let traces = [
            (&self.client, &before.client, "clients' requests"),
            (&self.issued, &before.issued, "the disks' I/Os"),
        ];
        let begun = traces.into_iter().filter(|(now, before, _)| now != before);
        let line = |(now, _, of): (&Option<PathBuf>, _, &str)| {
            Some(format!("a trace of {of} is written to {} now", now.as_ref()?.display()))
        };
        begun.filter_map(line).collect()
    }

    pub(crate) fn of(back: &Back) -> TracePaths {
        TracePaths { client: back.trace.clone(), issued: back.trace_issued.clone() }
    }
}

impl Running {
    /// Starts a trace of clients' requests, or of the disks' I/Os if `is_issued`.
    ///
    /// # Errors
    /// A trace is already being written, or its file cannot be created.
    pub(crate) fn start_trace(
        &self,
        driver: &Driver,
        path: &Path,
        is_issued: bool,
    ) -> Result<(), Error> {
        let _alone = alone(driver);
        if std::fs::symlink_metadata(path).is_ok() {
            return Err(unfit(format!(
                "'{}': {}: got a file that exists, expected a new name",
                driver.name,
                path.display()
            )));
        }
        let mut paths = TracePaths::of(&driver.current());
        let (place, key) = match is_issued {
            false => (&mut paths.client, "trace"),
            true => (&mut paths.issued, "trace_issued"),
        };
        if let Some(path) = place.replace(path.to_path_buf()) {
            return Err(unfit(format!(
                "'{}': {key}: {} is being written, expected none; stop it first",
                driver.name,
                path.display()
            )));
        }
        self.exchange_traces(driver, paths, false).map(drop)
    }

    /// Completes the traces of a back, and returns their names.
    ///
    /// # Errors
    /// No trace is being written, or one cannot be completed.
    pub(crate) fn stop_traces(&self, driver: &Driver) -> Result<Vec<PathBuf>, Error> {
        let _alone = alone(driver);
        traced(driver)?;
        self.exchange_traces(driver, TracePaths::default(), false)
    }

    /// Completes the traces of a back and starts new ones with the same names. Returns the new
    /// names of the completed traces, to which a number was added.
    ///
    /// # Errors
    /// No trace is being written, or a trace cannot be completed.
    pub(crate) fn rotate_traces(&self, driver: &Driver) -> Result<Vec<PathBuf>, Error> {
        let _alone = alone(driver);
        let completed = self.exchange_traces(driver, traced(driver)?, true)?;
        completed.into_iter().map(|path| set_aside(&path)).collect()
    }

    /// Rotates the traces of all backs; returns a sentence for each.
    ///
    /// # Errors
    /// No trace is being written.
    pub(crate) fn rotate_all(&self) -> Result<Vec<String>, Error> {
        let mut said = Vec::new();
        for driver in self.drivers().iter().filter(|driver| traced(driver).is_ok()) {
            match self.rotate_traces(driver) {
                Ok(paths) => said.extend(paths.iter().map(|path| complete(path))),
                Err(error) => said.push(error.to_string()),
            }
        }
        match said.is_empty() {
            true => Err(unfit("no configuration file to reload, and no trace to rotate")),
            false => Ok(said),
        }
    }

    /// Forgets the traces that can no longer be written, so that they can be started again; returns
    /// whether there were any.
    pub(crate) fn forget_ended_traces(&self, driver: &Driver) -> Result<bool, Error> {
        let _alone = alone(driver);
        let ended = driver.outputs.ended.take();
        let is_ended = |path: &Option<PathBuf>| path.iter().any(|path| ended.contains(path));
        let TracePaths { client, issued } = TracePaths::of(&driver.current());
        // The errors of these traces were reported when they occurred.
        if is_ended(&client) {
            drop(driver.exchange(None, Order::ClientTrace)?);
            driver.current().trace = None;
        }
        if is_ended(&issued) {
            drop(driver.exchange(None, Order::IssuedTrace)?);
            driver.current().trace_issued = None;
        }
        Ok(is_ended(&client) || is_ended(&issued))
    }

    /// Switches to these trace files. Returns the names of the traces that this completed.
    ///
    /// # Errors
    /// A file cannot be created, in which case nothing changes, or a trace cannot be completed.
    pub(crate) fn write_traces(
        &self,
        driver: &Driver,
        paths: TracePaths,
    ) -> Result<Vec<PathBuf>, Error> {
        let _alone = alone(driver);
        self.exchange_traces(driver, paths, false)
    }

    /// Switches to these trace files. With `restarts`, also completes and restarts the traces whose
    /// files do not change.
    fn exchange_traces(
        &self,
        driver: &Driver,
        paths: TracePaths,
        restarts: bool,
    ) -> Result<Vec<PathBuf>, Error> {
        let (before, client, issued) = {
            // The lock keeps other threads from choosing the same names in the meantime.
            let config = self.config();
            let before = TracePaths::of(&driver.current());
            let changes_client = restarts || before.client != paths.client;
            let changes_issued = restarts || before.issued != paths.issued;
            let current = driver.current().clone();
            let next = Back { trace: paths.client, trace_issued: paths.issued, ..current };
            self.refuse_outputs(&config, &next)?;
            let client = changes_client.then(|| driver.outputs.client_trace(&next)).transpose()?;
            let issued = changes_issued.then(|| driver.outputs.issued_trace(&next)).transpose()?;
            let mut current = driver.current();
            (current.trace, current.trace_issued) = (next.trace, next.trace_issued);
            (before, client, issued)
        };
        let client = client.map(|new| driver.exchange(new, Order::ClientTrace)).transpose()?;
        let issued = issued.map(|new| driver.exchange(new, Order::IssuedTrace)).transpose()?;
        let (client, issued) = (client.flatten(), issued.flatten());
        let completed = [
            before.client.filter(|_| client.is_some()),
            before.issued.filter(|_| issued.is_some()),
        ];
        driver.outputs.finish(&driver.name, client, issued)?;
        Ok(completed.into_iter().flatten().collect())
    }

    /// Rejects traces of `next` that would replace another file that this server uses.
    fn refuse_outputs(&self, config: &Config, next: &Back) -> Result<(), Error> {
        let current = |driver: &Driver| match driver.name == next.name {
            true => next.clone(),
            false => driver.current().clone(),
        };
        let backs = self.drivers().iter().map(|driver| current(driver)).collect();
        outputs::refuse(&Config { backs, ..config.clone() })
    }
}

/// Prevents other threads from exchanging traces of this driver until the guard is dropped.
fn alone(driver: &Driver) -> MutexGuard<'_, ()> {
    driver.tracing.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Describes a completed trace.
pub(crate) fn complete(path: &Path) -> String {
    format!("{} is complete", path.display())
}

/// Returns the traces that are being written.
fn traced(driver: &Driver) -> Result<TracePaths, Error> {
    let paths = TracePaths::of(&driver.current());
    match paths == TracePaths::default() {
        true => Err(unfit(format!("'{}': no trace is being written", driver.name))),
        false => Ok(paths),
    }
}

/// Renames a completed trace to free its name: `came.parquet` becomes `came.1.parquet`, or gets the
/// next free number.
pub(crate) fn set_aside(path: &Path) -> Result<PathBuf, Error> {
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
