//! A server: one driver thread for each back, and one accepting thread for each address.

// Allowed because this module works with threads and their signals.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use forebay_metrics::{Pages, Scraped};

use crate::control::Control;
use crate::devices::{Devices, Orders, Wanted};
use crate::driver::{Driver, PATIENCE, Prepared, SOON};
use crate::error::{Error, unfit};
use crate::figures::Figures;
use crate::listen::Listening;
use crate::running::Running;
use crate::{Address, Back, Config, Export, Reloaded};

/// A running server.
pub struct Server {
    running: Arc<Running>,
    listening: Vec<Listening>,
    devices: Option<Devices>,
    notes: Vec<String>,
    controls: Vec<Control>,
    scraped: Option<Scraped>,
    said: Mutex<Receiver<String>>,
    /// Why drivers ended while the others continued.
    ended: Mutex<Vec<Error>>,
    /// The number of reloads that were requested and have not finished.
    reloads: Arc<AtomicUsize>,
}

impl Server {
    /// Opens everything, then listens.
    ///
    /// # Errors
    /// The configuration, a target, a policy or an address is invalid. Nothing has been written in
    /// this case.
    pub fn start(config: &Config) -> Result<Server, Error> {
        config.refuse()?;
        let (says, said) = channel();
        let mut server = Server {
            said: Mutex::new(said),
            running: Arc::new(Running::new(config, says)),
            listening: Vec::new(),
            devices: None,
            notes: Vec::new(),
            controls: Vec::new(),
            scraped: None,
            ended: Mutex::default(),
            reloads: Arc::default(),
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
            let (listener, address) = address.listen()?;
            address.allow(config.access)?;
            listeners.push((listener, address));
        }
        Address::refuse_other_inherited(&config.listen)?;
        let mut starting = Vec::new();
        for back in &config.backs {
            let prepared = Driver::prepare(back, self.running.memory(), self.running.says())?;
            let wanted = devices_of(back, &prepared);
            // Notes that apply to all backs are reported once.
            let is_new = |note: &&String| !self.notes.contains(note);
            let new: Vec<String> = prepared.notes.iter().filter(is_new).cloned().collect();
            self.notes.extend(new);
            let driver = self.running.add(prepared.driver, &prepared.exports);
            starting.push((driver, prepared.starting, wanted));
        }
        self.control(config)?;
        // All backs are ready, so from here on data may be written.
        let mut wanted = Vec::new();
        for (driver, starting, devices) in starting {
            driver.begin(starting)?;
            wanted.extend(devices.into_iter().map(|device| (Arc::clone(&driver), device)));
        }
        if let Some(devices) = &mut self.devices {
            for (driver, wanted) in &wanted {
                let orders = Orders(&driver.orders, &driver.waker);
                self.notes.push(devices.start(wanted, &orders)?);
            }
        }
        for (listener, address) in listeners {
            let doors = Arc::clone(self.running.doors());
            self.listening.push(Listening::start(listener, address, doors)?);
        }
        Ok(())
    }

    /// Starts to accept commands and publish figures.
    fn control(&mut self, config: &Config) -> Result<(), Error> {
        for address in &config.listen {
            if let Address::Unix(path) = address {
                self.controls.push(Control::start(path, &self.running)?);
            }
        }
        if let Some(address) = config.metrics {
            let scraped = Scraped::start(address, ServerPages(Arc::clone(&self.running)));
            self.scraped = Some(scraped.map_err(|error| unfit(format!("{address}: {error}")))?);
        }
        Ok(())
    }

    /// Returns the addresses on which the server listens.
    pub fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.listening.iter().map(Listening::address)
    }

    /// Returns the exports.
    pub fn exports(&self) -> Vec<Export> {
        self.running.doors().exports()
    }

    /// Returns notes for the user, one sentence each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns the non-fatal problems since the last call, one sentence each.
    pub fn said(&self) -> Vec<String> {
        let mut said: Vec<String> =
            self.said.lock().unwrap_or_else(PoisonError::into_inner).try_iter().collect();
        said.extend(self.running.drivers().iter().filter_map(|driver| self.lost(driver)));
        said
    }

    /// Closes the exports of a driver that ended by itself while others continue; returns a
    /// sentence about it.
    fn lost(&self, driver: &Driver) -> Option<String> {
        if self.is_broken() || !driver.has_just_ended() {
            return None;
        }
        self.running.doors().replace(&driver.name, Vec::new());
        let error = driver.join().err()?.of(&driver.name);
        let line = format!(
            "error: {error}; it is no longer served; fix the problem, then `forebay control reload` serves \
             it again"
        );
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).push(error);
        Some(line)
    }

    /// Switches the policy of a back, like [`Running::switch`].
    ///
    /// # Errors
    /// There is no such back or policy; nothing changes then.
    pub fn switch(&self, back: &str, policy: &str) -> Result<Duration, Error> {
        self.running.switch(&self.running.driver(back)?, policy)
    }

    /// Rereads the configuration file like [`Server::reload`] in another thread, because disks may
    /// take long to answer; [`Server::said`] returns the outcome. A call during a reload starts
    /// another reload afterwards.
    pub fn reload_later(&self) {
        if self.reloads.fetch_add(1, Ordering::SeqCst) > 0 {
            return;
        }
        let (running, reloads) = (Arc::clone(&self.running), Arc::clone(&self.reloads));
        let work = move || loop {
            let begun = reloads.load(Ordering::SeqCst);
            for line in outcome(running.reload(true)) {
                // If the receiver is gone, the server is stopping.
                let _ = running.says().send(line);
            }
            if reloads.fetch_sub(begun, Ordering::SeqCst) == begun {
                return;
            }
        };
        if thread::Builder::new().name("reload".into()).spawn(work).is_err() {
            self.reloads.store(0, Ordering::SeqCst);
        }
    }

    /// Rereads the configuration file, applies the changes that are possible, and rotates the
    /// traces.
    ///
    /// # Errors
    /// There is no configuration file, or it is invalid; nothing changes then.
    pub fn reload(&self) -> Result<Reloaded, Error> {
        self.running.reload(true)
    }

    /// Returns the figures since the server started. Waits for disks that are slow to answer.
    pub fn figures(&self) -> Figures {
        self.running.figures(PATIENCE)
    }

    /// Returns whether all drivers ended by themselves; [`Server::stop`] returns the reason.
    pub fn is_broken(&self) -> bool {
        let drivers = self.running.drivers();
        !drivers.is_empty() && drivers.iter().all(|driver| driver.is_finished())
    }

    /// Stops accepting requests, answers those in flight, makes everything durable, and ends.
    ///
    /// # Errors
    /// A driver failed, or data could not be made durable.
    pub fn stop(self) -> Result<(), Error> {
        self.end().1
    }

    /// Stops like [`Server::stop`]; also returns the problems not reported yet, one sentence each.
    pub fn end(self) -> (Vec<String>, Result<(), Error>) {
        if self.devices.is_none() {
            // Stop the drivers first, so that data becomes durable whatever happens to the other
            // threads. Devices can be removed only while their drivers answer.
            self.running.drivers().iter().for_each(|driver| driver.stop());
        }
        self.listening.into_iter().for_each(Listening::stop);
        self.controls.into_iter().for_each(Control::stop);
        self.scraped.into_iter().for_each(Scraped::stop);
        let mut devices = self.devices;
        let waiting = devices.as_mut().map(Devices::stop).unwrap_or_default();
        let ended = self.ended.into_inner().unwrap_or_else(PoisonError::into_inner);
        let (drivers, mut worst) = (self.running.drivers(), ended.into_iter().try_for_each(Err));
        drivers.iter().for_each(|driver| driver.stop());
        for driver in drivers {
            if let Err(error) = driver.join() {
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

/// Describes the outcome of a reload, one line each.
fn outcome(reloaded: Result<Reloaded, Error>) -> Vec<String> {
    match reloaded {
        Ok(Reloaded { changes, failures }) => {
            let failures = failures.iter().map(|line| format!("error: {line}"));
            changes.into_iter().chain(failures).collect()
        }
        Err(error) => vec![format!("error: SIGHUP: {error}; nothing was changed")],
    }
}

/// The pages for monitoring.
struct ServerPages(Arc<Running>);

impl Pages for ServerPages {
    fn metrics(&self) -> String {
        self.0.figures(SOON).page()
    }

    fn health(&self) -> Result<String, String> {
        self.0.health()
    }
}

/// Returns the exports of a back that are to become devices.
fn devices_of(back: &Back, prepared: &Prepared) -> Vec<Wanted> {
    let exports = back.exports.iter().zip(&prepared.exports).enumerate();
    let wanted = exports.filter(|(_, (named, _))| named.ublk);
    let wanted = wanted.map(|(at, (_, export))| Wanted {
        back: back.name.clone(),
        at,
        export: export.clone(),
        file: back.on.paths().next().map(PathBuf::from).unwrap_or_default(),
        recovers: prepared.driver.policies.answers_when_done(&back.policy),
    });
    wanted.collect()
}

/// Rejects duplicate names and files.
pub(crate) fn refuse_doubles(config: &Config) -> Result<(), Error> {
    for back in &config.backs {
        refuse_control_characters("", &back.name)?;
        let names = back.exports.iter().map(|export| &export.name);
        names.into_iter().try_for_each(|name| refuse_control_characters("export ", name))?;
    }
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for export in config.backs.iter().flat_map(|back| &back.exports) {
        if !names.insert(&export.name) {
            return Err(unfit(format!(
                "export '{}': got two of that name, expected each name once",
                export.name
            )));
        }
    }
    let mut files: Vec<(FileIdentity, &str)> = Vec::new();
    for back in &config.backs {
        let named: Vec<PathBuf> = back.on.paths().map(PathBuf::from).collect();
        // Drives that cannot be inspected are reported when they are opened.
        for path in forebay_volume::drives_in(&named).unwrap_or(named) {
            // Files that cannot be found are reported when they are opened.
            let Ok(file) = std::fs::metadata(&path).map(|found| FileIdentity::of(&found)) else {
                continue;
            };
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

/// Rejects a name that would break lines of messages and metrics.
fn refuse_control_characters(what: &str, name: &str) -> Result<(), Error> {
    match name.chars().any(char::is_control) {
        false => Ok(()),
        true => Err(unfit(format!(
            "{what}{name:?}: got a line break or another control character in the name, expected only \
             printable ones"
        ))),
    }
}

/// Identifies a file or device independently of its name.
#[derive(PartialEq, Eq)]
enum FileIdentity {
    Device(u64),
    File { device: u64, inode: u64 },
}

impl FileIdentity {
    fn of(found: &Metadata) -> FileIdentity {
        match found.file_type().is_block_device() {
            true => FileIdentity::Device(found.rdev()),
            false => FileIdentity::File { device: found.dev(), inode: found.ino() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file;

    #[test]
    fn a_disk_that_ends_by_itself_does_not_end_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let disk = |name: &str| {
            std::fs::write(at(name), vec![0; 1 << 20]).unwrap();
            let path = at(name);
            format!("[[disk]]\nname = '{name}'\nfile = '{}'\npage_cache = true\n", path.display())
        };
        let socket = at("socket");
        let text = format!("socket = '{}'\n{}{}", socket.display(), disk("a"), disk("b"));
        std::fs::write(at("c.toml"), text).unwrap();
        let server = Server::start(&file::read(&at("c.toml")).unwrap()).unwrap();
        let end = |nth: usize| {
            let driver = Arc::clone(&server.running.drivers()[nth]);
            driver.stop();
            while !driver.is_finished() {
                std::thread::yield_now();
            }
        };
        let names = || server.exports().into_iter().map(|export| export.name).collect::<Vec<_>>();
        end(0);
        assert!(!server.is_broken());
        server.said();
        assert_eq!(names(), ["b"]);
        let health = server.running.health().unwrap_err();
        assert_eq!(health, "'a' is no longer served\n");
        let Reloaded { changes, failures } = server.reload().unwrap();
        assert!(failures.is_empty(), "{failures:?}");
        assert!(changes.contains(&"'a' is served now".to_string()), "{changes:?}");
        assert!(server.running.health().is_ok());
        assert_eq!(names(), ["b", "a"]);
        end(0);
        end(1);
        assert!(server.is_broken(), "nothing is left to serve");
        server.stop().unwrap();
    }
}
