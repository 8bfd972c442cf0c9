//! Rereads the configuration while a server runs: applies the changes that are possible, and lists
//! those that must wait for a restart.
//!
//! Invariants: open files and listening sockets never change; disks and exports can be added and
//! removed, but not removed while they have clients.

use std::collections::BTreeMap;
use std::mem::discriminant;
use std::path::PathBuf;
use std::sync::Arc;

use forebay_words::plural::{counted, verb};
use forebay_words::quantities;

use crate::driver::{Driver, PATIENCE};
use crate::error::{Error, unfit};
use crate::running::Running;
use crate::server::refuse_doubles;
use crate::switching::Switching;
use crate::traced::{TracePaths, complete};
use crate::{Back, Blocks, Config, Named, On, file, outputs};

/// The outcome of rereading a configuration, one sentence each.
#[derive(Clone, Debug)]
pub struct Reloaded {
    /// The changes that were made, and those that must wait for a restart.
    pub changes: Vec<String>,
    /// The changes that failed.
    pub failures: Vec<String>,
}

impl Running {
    /// Rereads the configuration file and applies the changes that are possible while the server
    /// runs. With `rotates`, also rotates the traces whose configuration is unchanged.
    ///
    /// # Errors
    /// There is no configuration file, or it is invalid; nothing changes then.
    pub(crate) fn reload(&self, rotates: bool) -> Result<Reloaded, Error> {
        let _alone = self.reloading();
        let before = self.config().clone();
        let Some(path) = &before.file else {
            return match rotates {
                true => Ok(Reloaded { changes: self.rotate_all()?, failures: Vec::new() }),
                false => Err(unfit("the server has no configuration file to reload")),
            };
        };
        let mut now = file::read(path)?;
        for back in &mut now.backs {
            // `force` matters only at the start, and the command line may have set it then.
            let started = before.backs.iter().find(|started| started.name == back.name);
            back.force |= started.is_some_and(|started| started.force);
        }
        refuse_doubles(&now)?;
        outputs::refuse(&now)?;
        let reloaded = self.reread(&before, &mut now, rotates);
        self.memory().reserves_for_promises(now.has_promises());
        *self.config() = now;
        Ok(reloaded)
    }

    /// Applies the changes from `before` to `now`. Changes that fail are undone in `now`.
    fn reread(&self, before: &Config, now: &mut Config, rotates: bool) -> Reloaded {
        let (mut said, mut failures) = (Vec::new(), Vec::new());
        // Disks whose drivers ended by themselves are opened again.
        for driver in self.drivers().iter().filter(|driver| driver.is_finished()) {
            self.doors().replace(&driver.name, Vec::new());
            failures.extend(driver.join().err().map(|error| error.of(&driver.name).to_string()));
            self.remove(driver);
        }
        for driver in self.drivers() {
            let Some(back) = now.backs.iter_mut().find(|back| back.name == driver.name) else {
                match self.drop_driver(&driver) {
                    Ok(line) => said.push(line),
                    Err(error) => failures.push(error.to_string()),
                }
                continue;
            };
            let was = before.backs.iter().find(|other| other.name == driver.name);
            match self.follow_file(&driver, back) {
                Ok(changes) => {
                    said.extend(changes);
                    let traced = TracePaths::of(&driver.current());
                    match self.trace_as(&driver, was, back, rotates) {
                        Ok(paths) => {
                            said.extend(paths.iter().map(|path| complete(path)));
                            said.extend(TracePaths::of(&driver.current()).begun_since(&traced));
                        }
                        Err(error) => {
                            failures.push(error.to_string());
                            // The next reload tries again.
                            let written = was.map(TracePaths::of).unwrap_or_default();
                            (back.trace, back.trace_issued) = (written.client, written.issued);
                        }
                    }
                }
                Err(error) => {
                    // A switch that takes long still changes the driver later.
                    failures.push(match driver.is_switching() {
                        true => error.to_string(),
                        false => format!("{error}; '{}' was not changed", driver.name),
                    });
                    back.clone_from(was.unwrap_or(&*driver.current()));
                }
            }
        }
        let is_served = |back: &&Back| self.driver(&back.name).is_ok();
        for back in now.backs.iter().filter(|back| !is_served(back)) {
            match self.start_driver(back) {
                Ok(()) => said.push(format!("'{}' is served now", back.name)),
                Err(error) => failures.push(format!("{error}; '{}' is not served", back.name)),
            }
        }
        said.extend(before.left_of(now));
        Reloaded { changes: said, failures }
    }

    /// Applies the policy, exports and promises of `back` to its driver.
    fn follow_file(&self, driver: &Arc<Driver>, back: &Back) -> Result<Vec<String>, Error> {
        let name = &driver.name;
        let counts = driver.tally(PATIENCE)?;
        let is_idle =
            |at: usize| counts.exports.get(at).is_none_or(|export| export.figures.clients == 0);
        let mut said: Vec<String> = self.grow(driver)?.into_iter().collect();
        let switching = Switching::begin(driver)?;
        let served = driver.current().clone();
        let next = served.with_policy_of(back, is_idle);
        let left = next.left_of(back).join(", ");
        said.push(match self.follow(switching, next)? {
            None => format!("'{name}' keeps its policy, which has not changed in the file"),
            Some(pause) => {
                let what = match served.policy == back.policy {
                    true => "new promises, weights or streams",
                    false => &back.policy,
                };
                let pause = quantities::seconds(pause.as_secs_f64());
                format!("'{name}' has {what} now; requests were paused for {pause}")
            }
        });
        said.extend(self.offer(driver, &back.exports)?);
        if !left.is_empty() {
            said.push(format!("'{name}': {left}: this change takes effect after a restart"));
        }
        Ok(said)
    }

    /// Starts and completes traces as configured in `now`; `was` is the previous configuration of
    /// the same back. With `rotates`, rotates active traces whose configuration is unchanged.
    /// Returns the names of the traces that were completed.
    fn trace_as(
        &self,
        driver: &Driver,
        was: Option<&Back>,
        now: &Back,
        rotates: bool,
    ) -> Result<Vec<PathBuf>, Error> {
        let restarts = self.forget_ended_traces(driver)?;
        let (was, now) = (was.map(TracePaths::of), TracePaths::of(now));
        let current = TracePaths::of(&driver.current());
        match (was.as_ref() == Some(&now), current == TracePaths::default()) {
            _ if restarts => self.write_traces(driver, now),
            (false, _) if current != now => self.write_traces(driver, now),
            (_, false) if rotates => self.rotate_traces(driver),
            _ => Ok(Vec::new()),
        }
    }

    /// Starts to serve a disk or volume that is new in the configuration file.
    fn start_driver(&self, back: &Back) -> Result<(), Error> {
        if back.exports.iter().any(|export| export.ublk) {
            return Err(unfit(format!("'{}': devices (ublk) are added at a start", back.name)));
        }
        let prepared = Driver::prepare(back, self.memory(), self.says())?;
        prepared.driver.begin(prepared.starting)?;
        self.add(prepared.driver, &prepared.exports);
        Ok(())
    }

    /// Stops serving a disk or volume that is no longer in the configuration file, unless it has
    /// clients.
    ///
    /// # Errors
    /// The driver does not answer, or data could not be made durable.
    fn drop_driver(&self, driver: &Arc<Driver>) -> Result<String, Error> {
        let name = &driver.name;
        // New clients are refused from here on.
        self.offer(driver, &[])?;
        let figures = driver.figures(PATIENCE).map_err(|_| {
            unfit(format!("'{name}' does not answer, and was not removed; reload again later"))
        })?;
        let clients = figures.exports.iter().map(|export| export.clients).sum();
        if clients > 0 {
            return Ok(format!(
                "'{name}' accepts no more clients, but is still served for {} that {} connected; reload \
                 again when {} gone",
                counted(clients, "client"),
                verb(clients, "is", "are"),
                verb(clients, "it is", "they are")
            ));
        }
        driver.stop();
        let ended = driver.join();
        self.remove(driver);
        ended.map_err(|error| error.of(name))?;
        Ok(format!("'{name}' is no longer served"))
    }
}

impl Back {
    /// Returns this back with the policy, promises and exports of `now`. Exports keep their order;
    /// those no longer in `now` stay without a promise. `is_idle` returns whether no client uses an
    /// export: it then takes any range, and its place is free for a new export if it is no longer
    /// in `now`. Other new exports follow.
    pub(crate) fn with_policy_of(&self, now: &Back, is_idle: impl Fn(usize) -> bool) -> Back {
        let (named, served) = (Named::by_name(&now.exports), Named::by_name(&self.exports));
        let of = |name: &str| named.get(name).copied();
        let export = |(at, one): (usize, &Named)| match of(&one.name) {
            Some(other) if is_idle(at) => Named { ublk: one.ublk, ..other.clone() },
            Some(other) => Named {
                promise: other.promise,
                weight: other.weight,
                description: other.description.clone(),
                bytes: if one.may_become(other) { other.bytes } else { one.bytes },
                ..one.clone()
            },
            // Exports that are no longer configured have no promise.
            None => Named { promise: None, weight: 1, ..one.clone() },
        };
        let is_new = |one: &&Named| !served.contains_key(&*one.name);
        let new = now.exports.iter().filter(is_new);
        let new = new.map(|one| Named { ublk: false, ..one.clone() });
        let mut exports: Vec<Named> = self.exports.iter().enumerate().map(export).collect();
        let is_free = |at: &usize| {
            let one = &self.exports[*at];
            of(&one.name).is_none() && !one.ublk && is_idle(*at)
        };
        let mut free = (0..self.exports.len()).filter(is_free);
        for named in new {
            match free.next() {
                Some(at) => exports[at] = named,
                None => exports.push(named),
            }
        }
        Back {
            policy: now.policy.clone(),
            capacity_iops: now.capacity_iops,
            measures_capacity: now.measures_capacity,
            streams: now.streams,
            exports,
            ..self.clone()
        }
    }

    /// Returns the changed keys of `now` that must wait for a restart.
    pub(crate) fn left_of(&self, now: &Back) -> Vec<String> {
        let is_in_place = |back: &Back| back.blocks == Blocks::InPlace;
        let changed = [
            ("its files or devices", !self.on.is(&now.on)),
            ("depth", self.depth != now.depth),
            ("driver", self.driver != now.driver),
            ("page_cache", self.page_cache != now.page_cache),
            ("read_only", self.read_only != now.read_only),
            ("force", self.force != now.force),
            ("scrub", self.scrub != now.scrub),
            ("rearrange", is_in_place(self) != is_in_place(now)),
        ];
        let keys = changed.into_iter().filter(|(_, changed)| *changed);
        let mut left: Vec<String> = keys.map(|(key, _)| key.to_string()).collect();
        let exports = Named::by_name(&self.exports);
        for other in &now.exports {
            let one = exports.get(&*other.name);
            if one.is_some_and(|one| !one.may_become(other)) {
                left.push(format!(
                    "export '{}': its offset, a smaller size, or its access",
                    other.name
                ));
            } else if one.is_none_or(|one| !one.ublk) && other.ublk {
                left.push(format!("export '{}': ublk", other.name));
            }
        }
        left
    }
}

impl Named {
    /// Returns these exports by their names.
    pub(crate) fn by_name(exports: &[Named]) -> BTreeMap<&str, &Named> {
        exports.iter().map(|one| (&*one.name, one)).collect()
    }

    /// Returns whether clients of this export can stay if it becomes `other`: at the same offset,
    /// with the same access, and not smaller.
    pub(crate) fn may_become(&self, other: &Named) -> bool {
        let is_shorter = match (self.bytes, other.bytes) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(before), Some(now)) => now < before,
        };
        (self.offset, self.read_only) == (other.offset, other.read_only)
            && !is_shorter
            && (other.ublk || !self.ublk)
    }
}

impl Back {
    /// Returns whether the exports of `other` are the same ranges, whatever their promises.
    pub(crate) fn has_exports_of(&self, other: &Back) -> bool {
        let range = |one: &Named| {
            (one.name.clone(), one.description.clone(), one.offset, one.bytes, one.read_only)
        };
        self.exports.iter().map(range).eq(other.exports.iter().map(range))
    }
}

impl On {
    /// Returns whether both use the same files, emulated as the same devices.
    fn is(&self, other: &On) -> bool {
        let devices = |on: &On| match on {
            On::Target { .. } | On::Volume(_) => Vec::new(),
            On::Emulated { device, flash, .. } => {
                let flash = flash.iter().map(|(_, device)| device.name.clone());
                [device.name.clone()].into_iter().chain(flash).collect()
            }
            On::EmulatedVolume { device, .. } => vec![device.name.clone()],
        };
        discriminant(self) == discriminant(other)
            && self.paths().eq(other.paths())
            && devices(self) == devices(other)
    }
}

impl Config {
    /// Describes, in one sentence each, the changes in `now` that must wait for a restart, except
    /// those within its disks and volumes.
    fn left_of(&self, now: &Config) -> Option<String> {
        let is_changed = self.listen != now.listen
            || self.metrics != now.metrics
            || self.access != now.access
            || self.memory_bytes != now.memory_bytes;
        let left = "changes to the addresses, their access rights or the memory take effect after \
                    a restart";
        is_changed.then(|| left.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Promise, Streams};
    use forebay_core::Nanos;

    fn back(change: impl FnOnce(&mut Back)) -> Back {
        let on = On::Target { path: "disk".into(), flash: None };
        let mut back = Back::of("data", on);
        back.exports.push(Named::all("more"));
        change(&mut back);
        back
    }

    fn told(back: &Back) -> String {
        format!("{back:?}")
    }

    #[test]
    fn policies_and_their_settings_are_reloaded() {
        let promise = Some(Promise { iops: 3, within: Nanos(7) });
        let now = back(|now| {
            (now.policy, now.capacity_iops) = ("bid".into(), Some(77));
            (now.measures_capacity, now.streams) = (true, Some(Streams::Exports));
            // The order of exports differs from the order in which they are served.
            now.exports.reverse();
            (now.exports[0].promise, now.exports[1].weight) = (promise, 5);
        });
        let before = back(|_| {});
        let next = before.with_policy_of(&now, |_| false);
        let mut expected = now.clone();
        expected.exports.reverse();
        assert_eq!(told(&next), told(&expected));
        assert!(next.left_of(&now).is_empty() && before.left_of(&now).is_empty());
    }

    #[test]
    fn settings_that_need_a_restart_are_named() {
        type Change = fn(&mut Back);
        const PLACE: &str = "export 'more': its offset, a smaller size, or its access";
        let changes: [(Change, &str); 12] = [
            (
                |now| now.on = On::Target { path: "other".into(), flash: None },
                "its files or devices",
            ),
            (|now| now.on = On::Volume(vec!["disk".into()]), "its files or devices"),
            (|now| now.depth = 1, "depth"),
            (|now| now.driver = Some(forebay_live::Driver::Threads), "driver"),
            (|now| now.page_cache = true, "page_cache"),
            (|now| now.read_only = true, "read_only"),
            (|now| now.force = true, "force"),
            (|now| now.blocks = Blocks::Rearranged, "rearrange"),
            (|now| now.exports[1].bytes = Some(1), PLACE),
            (|now| now.exports[1].offset = 1, PLACE),
            (|now| now.exports[1].read_only = true, PLACE),
            (|now| now.exports[1].ublk = true, "export 'more': ublk"),
        ];
        let before = back(|_| {});
        for (change, what) in changes {
            let now = back(change);
            assert_eq!(before.left_of(&now).join(", "), what);
            let next = before.with_policy_of(&now, |_| false);
            assert_eq!(told(&next), told(&before), "{what} is not taken up");
        }
    }

    #[test]
    fn an_export_without_clients_can_change_freely_and_frees_its_resources() {
        let before = back(|_| {});
        let moved = back(|now| {
            now.exports[1] = Named { offset: 4096, read_only: true, ..Named::all("more") };
        });
        let next = before.with_policy_of(&moved, |at| at == 1);
        assert_eq!(told(&next), told(&moved));
        assert!(next.left_of(&moved).is_empty());
        let renamed = back(|now| now.exports[1].name = "new".into());
        let names =
            |back: &Back| back.exports.iter().map(|one| one.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&before.with_policy_of(&renamed, |at| at == 1)), ["data", "new"]);
        assert_eq!(names(&before.with_policy_of(&renamed, |at| at == 0)), ["data", "more", "new"]);
    }
}
