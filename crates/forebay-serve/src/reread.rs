//! Rereads a configuration while a server runs: applies what can be changed and lists what must
//! wait for a restart.
//!
//! Invariant: policies and their parameters (promises, weights, `capacity`) are applied;
//! open files, listening sockets and output files never change.

use std::mem::discriminant;

use forebay_show::quantities;

use crate::config::{Back, Blocks, Config, Named, On};
use crate::running::Running;

impl Running {
    /// Applies the policies and their parameters in `now`, the reread configuration. Returns what
    /// was changed and what must wait for a restart, one sentence each.
    pub(crate) fn reread(&self, now: &Config) -> Vec<String> {
        let mut said = Vec::new();
        for served in self.current() {
            let name = &served.name;
            let Some(back) = now.backs.iter().find(|other| other.name == *name) else {
                said.push(format!("'{name}' is still served, although the file no longer has it"));
                continue;
            };
            let next = served.with_policy_of(back);
            said.push(match self.follow(name, next) {
                Ok(None) => format!("'{name}' keeps its policy, which has not changed in the file"),
                Ok(Some(pause)) => {
                    let pause = quantities::seconds(pause.as_secs_f64());
                    format!("'{name}' has {} now; requests were paused for {pause}", back.policy)
                }
                Err(error) => format!("{error}; '{name}' was not changed"),
            });
            let left = served.left_of(back).join(", ");
            if !left.is_empty() {
                said.push(format!("'{name}': {left}: this change takes effect after a restart"));
            }
        }
        said.extend(self.config().left_of(now));
        said
    }
}

impl Back {
    /// Returns this back with the policy and promises of `now`.
    pub(crate) fn with_policy_of(&self, now: &Back) -> Back {
        let export = |one: &Named| match now.exports.iter().find(|other| other.name == one.name) {
            Some(Named { promise, weight, .. }) => {
                Named { promise: *promise, weight: *weight, ..one.clone() }
            }
            // Exports that are no longer configured have no promise.
            None => Named { promise: None, weight: 1, ..one.clone() },
        };
        let exports: Vec<Named> = self.exports.iter().map(export).collect();
        Back {
            policy: now.policy.clone(),
            capacity_iops: now.capacity_iops,
            measures_capacity: now.measures_capacity,
            streams: now.streams,
            exports,
            ..self.clone()
        }
    }

    /// Returns the keys of `now` that must wait for a restart.
    pub(crate) fn left_of(&self, now: &Back) -> Vec<String> {
        let is_in_place = |back: &Back| back.blocks == Blocks::InPlace;
        let changed = [
            ("its files or devices", !self.on.is(&now.on)),
            ("depth", self.depth != now.depth),
            ("page_cache", self.page_cache != now.page_cache),
            ("read_only", self.read_only != now.read_only),
            ("force", self.force != now.force),
            ("rearrange", is_in_place(self) != is_in_place(now)),
            ("trace", self.trace != now.trace),
            ("trace_issued", self.trace_issued != now.trace_issued),
        ];
        let keys = changed.into_iter().filter(|(_, changed)| *changed);
        let mut left: Vec<String> = keys.map(|(key, _)| key.to_string()).collect();
        for one in &self.exports {
            let what = match now.exports.iter().find(|other| other.name == one.name) {
                None => "that is gone",
                Some(other) if !one.is_alike(other) => "and what it is of",
                Some(_) => continue,
            };
            left.push(format!("export '{}' {what}", one.name));
        }
        let is_known = |one: &&Named| self.exports.iter().any(|other| other.name == one.name);
        let new = now.exports.iter().filter(|one| !is_known(one));
        left.extend(new.map(|one| format!("the new export '{}'", one.name)));
        left
    }
}

impl Named {
    /// Returns whether both are the same range with the same properties.
    fn is_alike(&self, other: &Named) -> bool {
        (self.offset, self.bytes, self.read_only, self.ublk, &self.description)
            == (other.offset, other.bytes, other.read_only, other.ublk, &other.description)
    }
}

impl On {
    /// Returns whether both have the same files, emulated as the same devices.
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
    /// Returns the changes in `now`, other than those within its disks and volumes, that must wait
    /// for a restart; one sentence each.
    pub(crate) fn left_of(&self, now: &Config) -> Vec<String> {
        let mut left = Vec::new();
        if self.listen != now.listen || self.metrics != now.metrics {
            left.push("changes of the addresses take effect after a restart".to_string());
        }
        let is_known = |back: &&Back| self.backs.iter().any(|other| other.name == back.name);
        let new = now.backs.iter().filter(|back| !is_known(back));
        left.extend(new.map(|back| format!("the new '{}' is served after a restart", back.name)));
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Promise;
    use crate::front::Streams;
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
    fn policies_and_all_that_they_are_made_of_are_taken_up() {
        let promise = Some(Promise { iops: 3, within: Nanos(7) });
        let now = back(|now| {
            (now.policy, now.capacity_iops) = ("bid".into(), Some(77));
            (now.measures_capacity, now.streams) = (true, Some(Streams::Exports));
            // The order differs from the one being served.
            now.exports.reverse();
            (now.exports[0].promise, now.exports[1].weight) = (promise, 5);
        });
        let before = back(|_| {});
        let next = before.with_policy_of(&now);
        let mut expected = now.clone();
        expected.exports.reverse();
        assert_eq!(told(&next), told(&expected));
        assert!(next.left_of(&now).is_empty() && before.left_of(&now).is_empty());
    }

    #[test]
    fn what_waits_for_a_restart_is_said_each_by_its_name() {
        type Change = fn(&mut Back);
        let changes: [(Change, &str); 11] = [
            (
                |now| now.on = On::Target { path: "other".into(), flash: None },
                "its files or devices",
            ),
            (|now| now.on = On::Volume(vec!["disk".into()]), "its files or devices"),
            (|now| now.depth = 1, "depth"),
            (|now| now.page_cache = true, "page_cache"),
            (|now| now.read_only = true, "read_only"),
            (|now| now.force = true, "force"),
            (|now| now.blocks = Blocks::Rearranged, "rearrange"),
            (|now| now.trace = Some("t".into()), "trace"),
            (|now| now.trace_issued = Some("t".into()), "trace_issued"),
            (|now| now.exports[1].bytes = Some(1), "export 'more' and what it is of"),
            (
                |now| now.exports[1].name = "x".into(),
                "export 'more' that is gone, the new export 'x'",
            ),
        ];
        let before = back(|_| {});
        for (change, what) in changes {
            let now = back(change);
            assert_eq!(before.left_of(&now).join(", "), what);
            assert_eq!(told(&before.with_policy_of(&now)), told(&before), "{what} is not taken up");
        }
    }
}
