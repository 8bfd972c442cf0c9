//! A configuration of `forebay serve` as policies and devices of a simulation, so that a trace of its
//! clients is replayed under the same policy and promises.
//!
//! The policies are the specs that the server builds ([`Back::shaped`]). If exports have promises or
//! weights, stream `i` of the trace is export `i`, as in the server.

use std::path::Path;

use forebay_ask::named;
use forebay_core::contract::policy::Class;
use forebay_core::{Done, Nanos};
use forebay_serve::{Back, On, Streams, file};
use forebay_trace::Reader;
use forebay_trace::by_export::ByExport;

use crate::devices::OpenDevice;
use crate::error::Error;
use crate::input::Input;
use crate::verb::{Session, SourceAsk, StreamsAsk, TraceInput};

/// A disk of a configuration.
pub(super) struct Served(Back);

fn unfit(error: &impl ToString) -> Error {
    Error::Unfit(error.to_string())
}

impl Served {
    /// Reads the disk called `disk`, or the only one, from the configuration `path`.
    pub(super) fn read(path: &Path, disk: Option<&str>) -> Result<Served, Error> {
        let mut backs = file::read(path).map_err(|error| unfit(&error))?.backs;
        let names: Vec<String> = backs.iter().map(|back| format!("'{}'", back.name)).collect();
        let at = match disk {
            Some(disk) => backs.iter().position(|back| back.name == disk),
            None => (backs.len() == 1).then_some(0),
        };
        let back = at.map(|at| backs.swap_remove(at)).ok_or_else(|| {
            Error::Unfit(format!(
                "{}: {}: got {}, expected one of {}",
                path.display(),
                named("served_disk"),
                disk.map_or_else(|| "none".to_string(), |disk| format!("'{disk}'")),
                names.join(", ")
            ))
        })?;
        match back.on {
            On::Volume(_) | On::EmulatedVolume { .. } => Err(Error::Unfit(format!(
                "'{}': got a volume, expected a disk; to simulate a volume, name its drives and its \
                 level: {}, {} and {}",
                back.name,
                named("device"),
                named("disks"),
                named("policy=array:level=raid6"),
            ))),
            On::Target { .. } | On::Emulated { .. } => Ok(Served(back)),
        }
    }

    /// Returns the models of the disk and of its flash, as far as they are emulated.
    pub(super) fn devices(&self) -> (Option<OpenDevice>, Option<OpenDevice>) {
        match &self.0.on {
            On::Emulated { device, flash, .. } => {
                let flash = flash.as_ref().map(|(_, device)| (**device).clone());
                (Some((**device).clone()), flash)
            }
            _ => (None, None),
        }
    }

    /// Returns `given`, or the configured policy if none are given.
    pub(super) fn policies(&self, given: Vec<&str>) -> Vec<String> {
        match given.is_empty() {
            true => vec![self.0.policy.clone()],
            false => given.into_iter().map(str::to_string).collect(),
        }
    }

    /// Returns the complete specs of the policies, with the promises above them.
    pub(super) fn specs(&self, given: Vec<&str>) -> Result<Vec<String>, Error> {
        let spec = |policy: String| {
            let back = Back { policy, ..self.0.clone() };
            back.shaped().map_err(|error| unfit(&error))
        };
        self.policies(given).into_iter().map(spec).collect()
    }

    /// Reads the trace. Its streams are exports if the server's are.
    pub(super) fn input(
        &self,
        source: &SourceAsk,
        trace: &TraceInput,
        streams: &StreamsAsk,
        session: &mut dyn Session,
    ) -> Result<Input, Error> {
        let exports: Vec<String> = self.0.exports.iter().map(|one| one.name.clone()).collect();
        let is_by_export = self.0.who() == Streams::Exports;
        let as_exports = move |reader: Box<dyn Reader>| -> Box<dyn Reader> {
            match is_by_export {
                true => Box::new(ByExport::among(reader, &exports)),
                false => reader,
            }
        };
        source.read_as(trace, streams.by(), as_exports, session)
    }

    /// Returns the promises as classes of service, by stream; empty if nothing is promised.
    pub(super) fn promises(&self) -> Vec<Option<Class>> {
        let of = |within: Nanos, name: &str| Class { name: name.to_string(), within };
        let exports = self.0.exports.iter();
        let promises: Vec<Option<Class>> = exports
            .map(|export| export.promise.map(|promise| of(promise.within, &export.name)))
            .collect();
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

/// Returns the class in which a request is reported. The policy serves promised requests in its first
/// class. As in the server, promises are about reads and writes.
pub(super) fn class_of(promises: &[Option<Class>], done: &Done) -> u16 {
    let stream = done.request.stream as usize;
    let is_promised = promises.get(stream).is_some_and(Option::is_some);
    match done.class == 0 && is_promised && done.request.op.moves_data() {
        true => promises[..stream].iter().flatten().count() as u16,
        false => promises.iter().flatten().count() as u16,
    }
}
