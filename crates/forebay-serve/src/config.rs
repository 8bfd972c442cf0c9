//! The server's configuration. [`crate::file`] reads it from a file.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use forebay_ask::shell_word;
use forebay_core::catalog::{DeviceSet, build, build_placed, is_array, is_placement, is_shaper};
use forebay_core::{Nanos, Spec};
use forebay_devices::OpenDevice;
use forebay_live::Driver;

use crate::error::{Error, unfit};
use crate::request_memory::RequestMemory;
use crate::{Address, Streams};

/// The configuration of a server.
#[derive(Clone, Debug)]
pub struct Config {
    /// The configuration file, if there is one. The server never overwrites it.
    pub file: Option<PathBuf>,
    /// The addresses to listen on, at least one unless an export is a device.
    pub listen: Vec<Address>,
    /// The loopback address for metrics in Prometheus's text format.
    pub metrics: Option<SocketAddr>,
    /// The maximum memory for clients' requests and answers, in bytes.
    pub memory_bytes: u64,
    /// Who may connect to the Unix sockets for clients.
    pub access: SocketAccess,
    /// The backs.
    pub backs: Vec<Back>,
}

/// A back: disks with a policy in front of them.
#[derive(Clone, Debug)]
pub struct Back {
    /// The name of the back in messages and figures.
    pub name: String,
    /// The disks that hold the data.
    pub on: On,
    /// The policy (see `forebay policies`). On a volume, either the scheduler of each drive, or
    /// `array` with its rule for changing levels.
    pub policy: String,
    /// The maximum number of I/Os in flight on a disk.
    pub depth: u32,
    /// The I/O driver; by default io_uring if it is available.
    pub driver: Option<Driver>,
    /// Whether I/O uses the page cache.
    pub page_cache: bool,
    /// Whether nothing may be written to the disks.
    pub read_only: bool,
    /// Whether to serve the back even if its newest data may be elsewhere.
    pub force: bool,
    /// What the policy treats as a stream: by default connections. If an export has a promise or a
    /// weight, they are then clients of their exports.
    pub streams: Option<Streams>,
    /// The disk's capacity in requests per second, for any mix of reads and writes. The sum of the
    /// promises must not exceed it.
    pub capacity_iops: Option<u64>,
    /// Whether promises are reduced to the measured capacity of the disk.
    pub measures_capacity: bool,
    /// Whether blocks are at their original addresses or rearranged.
    pub blocks: Blocks,
    /// How often the whole volume is read and repaired; None for never.
    pub scrub: Option<Scrub>,
    /// The file for a trace of clients' requests. The file is complete once the server has stopped.
    pub trace: Option<PathBuf>,
    /// The file for a trace of the disks' I/Os.
    pub trace_issued: Option<PathBuf>,
    /// The exports, at least one.
    pub exports: Vec<Named>,
}

/// Regular checks of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scrub {
    /// The time between the beginnings of two checks.
    pub every: Nanos,
    /// The maximum rate in bytes of data per second.
    pub bytes_per_s: u64,
}

impl Scrub {
    /// The time that checks are counted from, since 1970: the first Sunday, at 01:00 UTC.
    const FIRST: Nanos = Nanos::from_secs((3 * 24 + 1) * 3600);

    /// Returns when the first check after `since_1970` begins. This does not depend on when the
    /// server was started, so that a server that is often restarted still checks its volumes.
    pub(crate) fn next_after(self, since_1970: Nanos) -> Nanos {
        let every = self.every.0.max(1);
        let phase = Scrub::FIRST.0 % every;
        Nanos((since_1970.0.saturating_sub(phase) / every + 1) * every + phase)
    }
}

/// The placement of a disk's blocks (docs/serve.md).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Blocks {
    /// Blocks are at their original addresses.
    #[default]
    InPlace,
    /// Blocks are rearranged according to the record on the disk.
    Rearranged,
    /// Blocks are rearranged according to the record on the disk. If there is no record, they are
    /// rearranged in the order in which this trace reads them.
    Learnt(PathBuf),
}

/// The disks that hold the data of a back.
#[derive(Clone, Debug)]
pub enum On {
    /// A file or block device, with a flash if the policy is a placement policy.
    Target {
        /// The existing file or device.
        path: PathBuf,
        /// The flash, another file or device.
        flash: Option<PathBuf>,
    },
    /// A file, and possibly another one as its flash, whose I/Os take the time of a model.
    Emulated {
        /// The file.
        path: PathBuf,
        /// The model of the disk.
        device: Box<OpenDevice>,
        /// The flash: its file and its model.
        flash: Option<(PathBuf, Box<OpenDevice>)>,
    },
    /// A volume of drives.
    Volume(Vec<PathBuf>),
    /// A volume of files whose I/Os take the time of a model.
    EmulatedVolume {
        /// The files.
        drives: Vec<PathBuf>,
        /// The model of each file.
        device: Box<OpenDevice>,
    },
}

/// The beginning of a spec that gives all streams equal shares, above the configured policy.
const FAIR: &str = "promised:cmin=0:dependencies=no";

/// Who may connect to a Unix socket. By default, the process's umask determines this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketAccess {
    /// The permissions of the socket.
    pub mode: Option<u32>,
    /// The group of the socket, by number.
    pub group: Option<u32>,
}

/// The default maximum memory for clients' requests and answers.
pub(crate) const MEMORY_BYTES: u64 = 1 << 30;

impl Config {
    /// Creates a configuration that does not come from a file.
    pub fn of(listen: Vec<Address>, backs: Vec<Back>) -> Config {
        let (memory_bytes, access) = (MEMORY_BYTES, SocketAccess::default());
        Config { file: None, listen, metrics: None, memory_bytes, access, backs }
    }

    /// Returns a line for each back: what it exports and promises, and the remaining capacity. For
    /// a back in a configuration file, another line has the command that simulates a trace of its
    /// clients under the same policy and promises.
    ///
    /// # Errors
    /// A policy does not exist, or exports promise more than the capacity.
    pub fn summary(&self) -> Result<Vec<String>, Error> {
        let mut lines = Vec::new();
        for back in &self.backs {
            lines.push(back.summary()?);
            lines.extend(self.simulation(back));
        }
        Ok(lines)
    }

    /// Returns the command that simulates a trace of the clients of a disk or volume.
    fn simulation(&self, back: &Back) -> Option<String> {
        let file = shell_word(&self.file.as_ref()?.display().to_string());
        let devices = match &back.on {
            On::Emulated { .. } | On::EmulatedVolume { .. } => "",
            On::Target { flash: None, .. } | On::Volume(_) => " --device DEVICE",
            On::Target { .. } => " --device DEVICE --flash DEVICE",
        };
        let disk = match self.backs.len() {
            1 => String::new(),
            _ => format!(" --served-disk {}", shell_word(&back.name)),
        };
        Some(format!("    forebay simulate TRACE --serve {file}{disk}{devices}"))
    }
}

impl On {
    /// Returns whether a model determines the duration of I/Os.
    pub(crate) fn is_emulated(&self) -> bool {
        matches!(self, On::Emulated { .. } | On::EmulatedVolume { .. })
    }

    /// Returns the files and devices of the back; for a volume its drives, or their folder.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        let (path, flash, drives): (Option<&PathBuf>, Option<&PathBuf>, &[PathBuf]) = match self {
            On::Target { path, flash } => (Some(path), flash.as_ref(), &[]),
            On::Emulated { path, flash, .. } => {
                (Some(path), flash.as_ref().map(|(path, _)| path), &[])
            }
            On::Volume(drives) | On::EmulatedVolume { drives, .. } => (None, None, drives),
        };
        path.into_iter().chain(flash).chain(drives).map(PathBuf::as_path)
    }
}

/// A named part of a back that is exported to clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The export name that clients request.
    pub name: String,
    /// A description for people.
    pub description: String,
    /// The offset in the back in bytes.
    pub offset: u64,
    /// The size in bytes; by default everything after the offset.
    pub bytes: Option<u64>,
    /// Whether writes are refused.
    pub read_only: bool,
    /// The promise to the export's clients.
    pub promise: Option<Promise>,
    /// The export's weight for sharing the capacity that is not promised.
    pub weight: u64,
    /// Whether the export becomes a block device of this machine (`/dev/ublkb0`).
    pub ublk: bool,
}

/// A promise to answer requests up to a rate within a latency bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// The rate in requests per second.
    pub iops: u64,
    /// The maximum latency.
    pub within: Nanos,
}

impl Promise {
    /// Returns whether the rate is too low for a single request within the bound.
    fn is_void(&self) -> bool {
        u128::from(self.iops) * u128::from(self.within.0) < 1_000_000_000
    }
}

impl Named {
    /// Exports everything under one name.
    pub fn all(name: &str) -> Named {
        let (name, description) = (name.to_string(), String::new());
        Named {
            name,
            description,
            offset: 0,
            bytes: None,
            read_only: false,
            promise: None,
            weight: 1,
            ublk: false,
        }
    }
}

impl Config {
    /// Creates the memory for clients' requests.
    pub(crate) fn memory(&self) -> RequestMemory {
        let memory = RequestMemory::new(self.memory_bytes);
        memory.reserves_for_promises(self.has_promises());
        memory
    }

    /// Returns whether an export has a promise.
    pub(crate) fn has_promises(&self) -> bool {
        self.backs.iter().flat_map(|back| &back.exports).any(|export| export.promise.is_some())
    }

    /// Returns whether an export becomes a block device of this machine.
    pub fn has_devices(&self) -> bool {
        self.backs.iter().flat_map(|back| &back.exports).any(|export| export.ublk)
    }
}

impl Back {
    /// Creates a back that exports all of `on` under one name with the policy `noop`.
    pub fn of(name: &str, on: On) -> Back {
        Back {
            name: name.into(),
            on,
            policy: "noop".into(),
            depth: 64,
            driver: None,
            page_cache: false,
            read_only: false,
            force: false,
            streams: None,
            capacity_iops: None,
            measures_capacity: false,
            blocks: Blocks::InPlace,
            scrub: None,
            trace: None,
            trace_issued: None,
            exports: vec![Named::all(name)],
        }
    }

    /// Returns the complete policy spec: the promises and weights of the exports, above the policy.
    /// Without promises and weights, streams share the disk equally.
    ///
    /// # Errors
    /// The exports promise more than the disk's capacity, or a key that requires promises is used
    /// without them.
    pub fn shaped(&self) -> Result<String, Error> {
        let policy = &self.policy;
        self.refuse_idle_keys()?;
        let beneath = Spec::nested(policy);
        let depth = self.depth;
        if !self.is_shaped() && self.shares_fairly() {
            return Ok(format!("{FAIR}:depth={depth}:over={beneath}"));
        }
        if !self.is_shaped() {
            return Ok(policy.to_string());
        }
        let (promised_iops, beside_iops) = self.promised_iops();
        let mut promises = self.exports.iter().filter_map(|export| export.promise);
        if let Some(Promise { iops, within }) = promises.find(|promise| promise.is_void()) {
            let least = 1_000_000_000_u64.div_ceil(within.0.max(1));
            return Err(unfit(format!(
                "'{}': keep_iops: got {iops}, expected at least {least}, one request within {within}",
                self.name
            )));
        }
        if promised_iops > 0 {
            let name = &self.name;
            let Some(capacity_iops) = self.capacity_iops else {
                return Err(unfit(format!(
                    "'{name}': capacity_iops: not given, expected the rate of its disk, which \
                     limits the promises"
                )));
            };
            // The requests in flight when a request arrives must also finish within its bound.
            if promised_iops.saturating_add(beside_iops) > capacity_iops {
                return Err(unfit(format!(
                    "'{name}': keep_iops: got {promised_iops} for all exports, plus {beside_iops} \
                     for one request within the shortest bound, which exceeds capacity_iops \
                     ({capacity_iops}); promise less, or with a longer bound"
                )));
            }
        }
        // The last stream, which is the server's own flushes, has no promise.
        let own = Named::all("");
        let list = |figure: &dyn Fn(&Named) -> String| {
            self.exports.iter().chain([&own]).map(figure).collect::<Vec<_>>().join("/")
        };
        let rates = list(&|export| export.promise.map_or(0, |promise| promise.iops).to_string());
        let bound = |promise: Promise| promise.within.0 as f64 / 1e6;
        let bounds = list(&|export| export.promise.map_or(10.0, bound).to_string());
        let weights = list(&|export| export.weight.to_string());
        // Promises need a capacity, so without one only weights share the disk.
        let delta_c = match self.capacity_iops {
            Some(capacity_iops) => format!(":delta-c={}", capacity_iops - promised_iops),
            None => String::new(),
        };
        let measured = if self.measures_capacity { ":capacity=measured" } else { "" };
        let shared = if self.who() == Streams::Exports { "" } else { ":shared=yes" };
        let spec = format!(
            "promised:cmin={rates}:delta-ms={bounds}:weight={weights}{shared}:dependencies=no{measured}{delta_c}:depth={depth}:over={beneath}"
        );
        // Validate the policy by itself before opening anything.
        build(&spec[..spec.find(":over=").unwrap_or(spec.len())], u32::MAX)?;
        Ok(spec)
    }

    /// Rejects a policy that does not exist or has invalid parameters, in terms of the
    /// configuration.
    pub(crate) fn refuse_unknown_policy(&self) -> Result<(), Error> {
        // Placements and arrays cannot be built here, because they need their devices.
        if is_placement(&self.policy) || is_array(&self.policy) {
            return Ok(());
        }
        if self.is_shaped() && is_shaper(self.policy.split(':').next().unwrap_or_default()) {
            return Err(unfit(format!(
                "'{}': policy: '{}' would be a shaper above a shaper, because an export has a \
                 promise or weight; expected a scheduler",
                self.name, self.policy
            )));
        }
        let any = DeviceSet { disks: 1, disk_len_max: u32::MAX, ..DeviceSet::default() };
        let built = build_placed(&self.policy, &any).map(drop);
        built.map_err(|error| unfit(format!("'{}': policy: {error}", self.name)))
    }

    /// Returns a sentence about the back's exports and promises.
    fn summary(&self) -> Result<String, Error> {
        self.refuse_unknown_policy()?;
        self.shaped()?;
        let Back { name, policy, exports, .. } = self;
        let exports = match exports.len() {
            1 => "1 export".to_string(),
            count => format!("{count} exports"),
        };
        let (promised_iops, beside_iops) = self.promised_iops();
        let promises = match self.capacity_iops {
            Some(capacity_iops) => format!(
                "promises {promised_iops} of {capacity_iops} IOPS, {} more can be promised",
                capacity_iops - promised_iops - beside_iops
            ),
            None => "nothing is promised".to_string(),
        };
        Ok(format!("'{name}': {exports}, policy {policy}; {promises}"))
    }

    /// Returns the total promised rate, and the additional rate needed for one request within the
    /// shortest bound.
    fn promised_iops(&self) -> (u64, u64) {
        let promises = || self.exports.iter().filter_map(|export| export.promise);
        let shortest = promises().map(|promise| promise.within).min();
        let beside_iops =
            shortest.map_or(0, |shortest| 1_000_000_000_u64.div_ceil(shortest.0.max(1)));
        (promises().map(|promise| promise.iops).fold(0, u64::saturating_add), beside_iops)
    }

    /// Returns whether an export has a promise or a weight.
    fn is_shaped(&self) -> bool {
        self.exports.iter().any(|export| export.promise.is_some() || export.weight != 1)
    }

    /// Returns whether connections share the disk equally. They do unless the policy is a shaper
    /// itself, or moves data between disks.
    fn shares_fairly(&self) -> bool {
        let name = self.policy.split(':').next().unwrap_or_default();
        !is_placement(&self.policy) && !is_shaper(name)
    }

    /// Returns what the policy treats as a stream: connections or exports.
    pub fn who(&self) -> Streams {
        match self.streams.unwrap_or(Streams::Connections) {
            // Reserve one more number for the server's own requests.
            Streams::Connections if self.is_shaped() => {
                Streams::ConnectionsOf(self.exports.len() as u32 + 1)
            }
            streams => streams,
        }
    }

    /// Rejects configuration keys that would have no effect.
    fn refuse_idle_keys(&self) -> Result<(), Error> {
        let Back { name, capacity_iops, measures_capacity, .. } = self;
        let is_promised = self.exports.iter().any(|export| export.promise.is_some());
        let idle = [
            ("capacity_iops", capacity_iops.is_some() && !is_promised, "keep_iops"),
            ("capacity", *measures_capacity && !is_promised, "keep_iops"),
        ];
        match idle.iter().find(|(_, is_idle, _)| *is_idle) {
            None => Ok(()),
            Some((key, _, what)) => Err(unfit(format!(
                "'{name}': {key}: has no effect, because no export on it has {what}; set one for \
                 an export, or leave {key} out"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shaper_above_a_scheduler_is_a_policy() {
        let known = |policy: &str| {
            let mut back = Back::of("data", On::Volume(Vec::new()));
            back.policy = policy.into();
            back.refuse_unknown_policy().map_err(|error| error.to_string())
        };
        for policy in ["noop", "token-bucket:rate=90", "token-bucket:rate=90:over=bfq"] {
            assert_eq!(known(policy), Ok(()));
        }
        for (policy, part) in [("nope", "'nope'"), ("token-bucket:rate=90:over=nope", "over: ")] {
            let said = known(policy).unwrap_err();
            assert!(said.starts_with("'data': policy: ") && said.contains(part), "{said}");
        }
    }

    #[test]
    fn checks_begin_at_times_that_restarts_do_not_change() {
        let hours = |hours: u64| Nanos::from_secs(hours * 3600);
        let scrub = |every| Scrub { every, bytes_per_s: 1 };
        let (daily, weekly) = (scrub(hours(24)), scrub(hours(7 * 24)));
        // Sunday, 29 November 2026, 01:00 UTC.
        let sunday = Nanos::from_secs(1_795_914_000);
        assert_eq!(weekly.next_after(sunday), sunday + hours(7 * 24));
        for later in 1..=7 * 24 {
            assert_eq!(weekly.next_after(sunday + hours(later) - Nanos(1)), sunday + hours(7 * 24));
            assert_eq!(
                daily.next_after(sunday + hours(later) - Nanos(1)),
                sunday + hours(later.div_ceil(24) * 24)
            );
        }
        // Whenever and however often the server is started, checks are an interval apart.
        for every in [1, 12, 24, 10 * 24].map(hours) {
            let first = scrub(every).next_after(sunday);
            assert_eq!(scrub(every).next_after(first - Nanos(1)), first);
            assert_eq!(scrub(every).next_after(first), first + every);
        }
        assert_eq!(weekly.next_after(Scrub::FIRST), Scrub::FIRST + weekly.every);
    }
}
