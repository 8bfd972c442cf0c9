//! A disk or volume of `forebay serve`'s configuration as policies and devices of a simulation, so
//! that a trace of its clients is replayed under the same policy and promises.
//!
//! The policies are the specs that the server builds, and streams have the numbers that they have
//! in the server ([`forebay_trace::served`]), so that connections share the promise of their
//! export. The configuration itself is read by the face ([`Session::served_disk`]), because this
//! library knows no driver.

use forebay_core::contract::Class;
use forebay_core::{Done, Nanos};
use forebay_trace::Reader;
use forebay_trace::served::{Served, ServedStreams};

use crate::verb::{Session, SourceAsk, StreamsAsk, TraceInput};
use crate::{Error, Input, OpenDevice};

/// A disk or volume of a configuration of `forebay serve`.
pub struct ServedDisk {
    /// The configured policy, without the layers that the server adds above it.
    pub policy: String,
    /// The models of the disk and of its flash, as far as they are emulated. For a volume, the
    /// first is the model of each drive.
    pub devices: (Option<OpenDevice>, Option<OpenDevice>),
    /// The drives of a volume; `None` for a disk.
    pub drives: Option<ServedDrives>,
    /// The exports.
    pub exports: Vec<ServedExport>,
    /// What the server's policy treats as streams.
    pub streams: ServedStreams,
    /// Returns the spec that the server builds from a policy: the policy with the promises above
    /// it.
    pub shaped: Shaped,
}

/// The drives of a volume of a configuration of `forebay serve`.
#[derive(Clone, Copy, Debug)]
pub struct ServedDrives {
    /// The number of drives.
    pub count: u16,
    /// How much of each drive the volume uses, in bytes.
    pub bytes: u64,
}

/// Returns the complete spec of a policy.
pub type Shaped = Box<dyn Fn(&str) -> Result<String, Error>>;

/// An export of a [`ServedDisk`].
pub struct ServedExport {
    /// The name of the export.
    pub name: String,
    /// The time within which its promised requests are answered; `None` without a promise.
    pub within: Option<Nanos>,
}

impl ServedDisk {
    /// Returns `given`, or the configured policy if none are given.
    pub(super) fn policies(&self, given: Vec<&str>) -> Vec<String> {
        match given.is_empty() {
            true => vec![self.policy.clone()],
            false => given.into_iter().map(str::to_string).collect(),
        }
    }

    /// Returns the complete specs of the policies, with the promises above them.
    pub(super) fn specs(&self, given: Vec<&str>) -> Result<Vec<String>, Error> {
        self.policies(given).iter().map(|policy| (self.shaped)(policy)).collect()
    }

    /// Reads the trace, whose streams become those of the server's policy.
    pub(super) fn input(
        &self,
        source: &SourceAsk,
        trace: &TraceInput,
        streams: &StreamsAsk,
        session: &mut dyn Session,
    ) -> Result<Input, Error> {
        let exports: Vec<String> = self.exports.iter().map(|one| one.name.clone()).collect();
        let (path, served) = (trace.name().to_path_buf(), self.streams);
        let as_served = move |reader: Box<dyn Reader>| -> Box<dyn Reader> {
            Box::new(Served::new(reader, path.clone(), exports.clone(), served))
        };
        source.read_as(trace, streams.by(), as_served, session)
    }

    /// Returns the promises as classes of service, by export, and that of requests that belong to
    /// no export; empty if nothing is promised.
    pub(super) fn promises(&self) -> Vec<Option<Class>> {
        let class = |export: &ServedExport| {
            Some(Class { name: export.name.clone(), within: export.within? })
        };
        let promises: Vec<Option<Class>> = self.exports.iter().map(class).chain([None]).collect();
        match promises.iter().all(Option::is_none) {
            true => Vec::new(),
            false => promises,
        }
    }
}

/// Returns the classes in which a run is reported: the promised requests of each export, and all
/// others.
pub(super) fn classes(promises: &[Option<Class>]) -> Vec<Class> {
    let kept = || promises.iter().flatten().cloned();
    let within = kept().map(|class| class.within).max().unwrap_or_default();
    kept().chain([Class { name: "not promised".into(), within }]).collect()
}

/// Returns the class in which a request is reported. The policy serves promised requests in its
/// first class. As in the server, promises are about reads and writes.
pub(super) fn class_of(promises: &[Option<Class>], done: &Done) -> u16 {
    // Streams of an export are equal modulo this number.
    let export = done.request.stream as usize % promises.len();
    let is_promised = promises[export].is_some();
    match done.class == 0 && is_promised && done.request.op.moves_data() {
        true => promises[..export].iter().flatten().count() as u16,
        false => promises.iter().flatten().count() as u16,
    }
}
