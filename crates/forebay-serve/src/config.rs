//! What to serve, as the server takes it; [`crate::file`] reads it from a file.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use forebay_core::Nanos;
use forebay_core::catalog::build;
use forebay_devices::OpenDevice;
use forebay_live::Driver;

use crate::address::Address;
use crate::error::{Error, unfit};
use crate::front::Streams;

/// Everything that a server serves.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where it was read, if it was: that file is never written over.
    pub file: Option<PathBuf>,
    /// Where it listens, at least one place.
    pub listen: Vec<Address>,
    /// The loopback address that answers what is counted, in Prometheus's text format.
    pub metrics: Option<SocketAddr>,
    /// What lies behind its exports.
    pub backs: Vec<Back>,
}

/// Disks with a policy in front of them.
#[derive(Clone, Debug)]
pub struct Back {
    /// Its name in messages and figures.
    pub name: String,
    /// Where its bytes are.
    pub on: On,
    /// The policy in between (`forebay policies`); on a volume a scheduler for each drive, or `array` with how it follows its workload.
    pub policy: String,
    /// I/Os that a disk is given at a time.
    pub depth: u32,
    /// How I/Os get there; by io_uring where it can be had if nothing is said.
    pub driver: Option<Driver>,
    /// Whether I/O goes through the page cache.
    pub page_cache: bool,
    /// Whether nothing is written.
    pub read_only: bool,
    /// Whether it is served although its newest data may be elsewhere.
    pub force: bool,
    /// Who is a stream to the policy; unless said exports, where one of them has a promise or weight, and connections.
    pub streams: Option<Streams>,
    /// Requests a second that its disk does whatever they are; promises are held against it.
    pub capacity_iops: Option<u64>,
    /// Whether promises shrink to what its disk is measured to do.
    pub measures_capacity: bool,
    /// Requests that the policy is given at a time where promises and weights are kept above it; 4 unless said.
    pub window: Option<u32>,
    /// Whether its blocks are where they were, or laid as they are read.
    pub blocks: Blocks,
    /// Where to write a trace of what clients asked; complete when the server has ended.
    pub trace: Option<PathBuf>,
    /// Where to write a trace of what its disks were given.
    pub trace_issued: Option<PathBuf>,
    /// What clients see of it, at least one.
    pub exports: Vec<Named>,
}

/// Where the blocks of a disk are (docs/serve.md).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Blocks {
    /// At their addresses.
    #[default]
    InPlace,
    /// As the disk's record says.
    Rearranged,
    /// As the disk's record says; where there is none they are laid as this trace of the disk reads them.
    Learnt(PathBuf),
}

/// Where bytes are.
#[derive(Clone, Debug)]
pub enum On {
    /// A file or block device, with flash beside it where a placement wants one.
    Target {
        /// It is not created.
        path: PathBuf,
        /// The flash.
        flash: Option<PathBuf>,
    },
    /// Files whose I/Os take the time of a model.
    Emulated {
        /// The file.
        path: PathBuf,
        /// The disk.
        device: Box<OpenDevice>,
        /// The flash: its file and what it is.
        flash: Option<(PathBuf, Box<OpenDevice>)>,
    },
    /// A volume of drives.
    Volume(Vec<PathBuf>),
    /// A volume of files whose I/Os take the time of a model, each of its own.
    EmulatedVolume {
        /// The files.
        drives: Vec<PathBuf>,
        /// What each of them is.
        device: Box<OpenDevice>,
    },
}

/// Requests that a policy is given at a time beneath promises.
const WINDOW: u32 = 4;

impl On {
    /// Whether a model says how long its I/Os take.
    pub(crate) fn is_emulated(&self) -> bool {
        matches!(self, On::Emulated { .. } | On::EmulatedVolume { .. })
    }

    /// The files and devices that it names; of a volume its drives, or the folder of them.
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

/// A range under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// What clients ask for.
    pub name: String,
    /// For people.
    pub description: String,
    /// Where it begins.
    pub offset: u64,
    /// Bytes it has; all that are left if nothing is said.
    pub bytes: Option<u64>,
    /// Whether writes are refused.
    pub read_only: bool,
    /// What it is promised.
    pub promise: Option<Promise>,
    /// Its part of what nobody is promised.
    pub weight: u64,
}

/// So many requests a second are answered within a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// Requests a second.
    pub iops: u64,
    /// The bound.
    pub within: Nanos,
}

impl Named {
    /// All there is, under a name.
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
        }
    }
}

impl Back {
    /// All of `on` under one name, through `noop`.
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
            window: None,
            blocks: Blocks::InPlace,
            trace: None,
            trace_issued: None,
            exports: vec![Named::all(name)],
        }
    }

    /// Its policy, with its exports' promises above it where there are any.
    ///
    /// # Errors
    /// Where they promise more than its disk does, or something is said of promises that there are none of.
    pub fn shaped(&self) -> Result<String, Error> {
        let policy = &self.policy;
        let promises = || self.exports.iter().filter_map(|export| export.promise);
        self.refuse_idle_keys()?;
        if !self.is_shaped() {
            return Ok(policy.to_string());
        }
        if self.streams == Some(Streams::Connections) {
            return Err(unfit(format!(
                "'{}': streams: got \"connections\", expected \"exports\", since an export on it has a promise or weight",
                self.name
            )));
        }
        if let Some(shortest) = promises().map(|promise| promise.within).min() {
            let name = &self.name;
            let Some(capacity_iops) = self.capacity_iops else {
                return Err(unfit(format!(
                    "'{name}': capacity_iops: not given, expected what its disk does, since promises are checked against it"
                )));
            };
            // What is under way when a request comes has to be done within its bound too.
            let beside_iops = 1_000_000_000_u64.div_ceil(shortest.0.max(1));
            let promised_iops: u64 =
                promises().map(|promise| promise.iops).fold(0, u64::saturating_add);
            if promised_iops.saturating_add(beside_iops) > capacity_iops {
                return Err(unfit(format!(
                    "'{name}': keep_iops: got {promised_iops} of all exports, and {beside_iops} for what is \
                     under way, above the {capacity_iops} of capacity_iops; promise less, or for longer"
                )));
            }
        }
        // The server's own flushes, the last of all streams, are promised nothing.
        let own = Named::all("");
        let list = |figure: &dyn Fn(&Named) -> String| {
            self.exports.iter().chain([&own]).map(figure).collect::<Vec<_>>().join("/")
        };
        let rates = list(&|export| export.promise.map_or(0, |promise| promise.iops).to_string());
        let bound = |promise: Promise| promise.within.0 as f64 / 1e6;
        let bounds = list(&|export| export.promise.map_or(10.0, bound).to_string());
        let weights = list(&|export| export.weight.to_string());
        let beneath = policy.replace('+', "++").replace(':', "+");
        let window = self.window.unwrap_or(WINDOW);
        let measured = if self.measures_capacity { ":capacity=measured" } else { "" };
        let spec = format!(
            "promised:cmin={rates}:delta-ms={bounds}:weight={weights}:dependencies=no{measured}:depth={window}:over={beneath}"
        );
        // What is wrong in itself, before anything is opened.
        build(&spec[..spec.find(":over=").unwrap_or(spec.len())], u32::MAX)?;
        Ok(spec)
    }

    /// Whether an export on it has a promise or weight.
    fn is_shaped(&self) -> bool {
        self.exports.iter().any(|export| export.promise.is_some() || export.weight != 1)
    }

    /// Who is a stream to the policy.
    pub(crate) fn who(&self) -> Streams {
        let unsaid = if self.is_shaped() { Streams::Exports } else { Streams::Connections };
        self.streams.unwrap_or(unsaid)
    }

    /// Refuses what would do nothing, so that nobody takes it for done.
    fn refuse_idle_keys(&self) -> Result<(), Error> {
        let Back { name, window, capacity_iops, measures_capacity, .. } = self;
        let is_promised = self.exports.iter().any(|export| export.promise.is_some());
        let idle = [
            ("capacity_iops", capacity_iops.is_some() && !is_promised, "keep_iops"),
            ("capacity", *measures_capacity && !is_promised, "keep_iops"),
            ("window", window.is_some() && !self.is_shaped(), "keep_iops or weight"),
        ];
        match idle.iter().find(|(_, is_idle, _)| *is_idle) {
            None => Ok(()),
            Some((key, _, what)) => Err(unfit(format!(
                "'{name}': {key}: does nothing here, since no export on it has {what}; give one to an export, or leave {key} out"
            ))),
        }
    }
}
