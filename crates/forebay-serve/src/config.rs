//! What to serve, as the server takes it; [`crate::file`] reads it from a file.

use std::path::PathBuf;

use forebay::devices::OpenDevice;

use crate::address::Address;
use crate::front::Streams;

/// Everything that a server serves.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where it listens, at least one place.
    pub listen: Vec<Address>,
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
    /// Whether I/O goes through the page cache.
    pub page_cache: bool,
    /// Whether nothing is written.
    pub read_only: bool,
    /// Who is a stream to the policy.
    pub streams: Streams,
    /// What clients see of it, at least one.
    pub exports: Vec<Named>,
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
}

/// A range under a name.
#[derive(Clone, Debug, Default)]
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
}

impl Back {
    /// All of `on` under one name, through `noop`.
    pub fn of(name: &str, on: On) -> Back {
        Back {
            name: name.into(),
            on,
            policy: "noop".into(),
            depth: 64,
            page_cache: false,
            read_only: false,
            streams: Streams::Connections,
            exports: vec![Named { name: name.into(), ..Named::default() }],
        }
    }
}
