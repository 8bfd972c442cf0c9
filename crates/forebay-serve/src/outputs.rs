//! Files that a server writes beside its disks: traces and tapes.
//!
//! Invariants: none takes the place of what the configuration names; all are begun before anything is served, and none has a
//! name where nothing is.

use std::path::{Path, PathBuf};

use forebay::tape::{Blank, Header, Tape};
use forebay_core::catalog::DeviceSet;
use forebay_core::contract::policy::AnyPolicy;

use crate::back::Policies;
use crate::config::{Back, Blocks, Config, On};
use crate::error::{Error, beside, unfit};
use crate::record::{Asked, Issued};

/// What a back writes beside its disks.
pub(crate) struct Beside<'a> {
    back: &'a Back,
    traces: (Option<Asked>, Option<Issued>),
    /// What its policies are built for, where they go on tape.
    lanes: Option<DeviceSet>,
    /// The tape of the first policy.
    first: Option<Blank>,
    /// Policies so far.
    policies: u32,
}

impl<'a> Beside<'a> {
    /// Begins all files that `back`, on these disks, is to write.
    pub(crate) fn begin(
        back: &'a Back,
        disks: &[PathBuf],
        policies: &Policies,
    ) -> Result<Beside<'a>, Error> {
        let wrong = |key| move |error| beside(&back.name, key, forebay::Error::output(error));
        let disks: Vec<&Path> = disks.iter().map(PathBuf::as_path).collect();
        let asked = back.trace.as_ref().map(|path| Asked::begin(path, &back.name, &disks));
        let issued = back.trace_issued.as_ref().map(|path| Issued::begin(path, &disks));
        let asked = asked.transpose().map_err(wrong("trace"))?;
        let issued = issued.transpose().map_err(wrong("trace_issued"))?;
        // Of others a tape was refused.
        let lanes = match policies {
            Policies::Placed(lanes) => Some(*lanes),
            _ => None,
        };
        let mut begun = Beside { back, traces: (asked, issued), lanes, first: None, policies: 0 };
        begun.first = back.tape.as_ref().map(|path| begun.blank(path)).transpose()?;
        Ok(begun)
    }

    fn blank(&self, path: &Path) -> Result<Blank, Error> {
        let disk = self.back.on.paths().next().unwrap_or(Path::new(""));
        Blank::new(path, disk).map_err(|error| beside(&self.back.name, "tape", error))
    }

    /// The traces of what clients ask and of what disks are given.
    pub(crate) fn traces(&mut self) -> (Option<Asked>, Option<Issued>) {
        std::mem::take(&mut self.traces)
    }

    /// Puts what `policy` does on tape, if that is asked for: on one for each policy that there is in turn, of which the
    /// first has the name that was asked for.
    pub(crate) fn record(
        &mut self,
        policy: AnyPolicy,
        spec: &str,
    ) -> Result<(AnyPolicy, Option<Tape>), Error> {
        let (Some(path), Some(lanes)) = (&self.back.tape, self.lanes) else {
            return Ok((policy, None));
        };
        self.policies += 1;
        let blank = match self.first.take() {
            Some(first) => first,
            None => self.blank(&path.with_extension(format!("{}.tape", self.policies)))?,
        };
        let tape = blank.begin(&Header { policy: spec.to_string(), lanes });
        Ok((Box::new(tape.record(policy)), Some(tape)))
    }

    /// Completes a tape.
    pub(crate) fn finish_tape(&self, tape: Tape) -> Result<(), Error> {
        tape.finish().map(drop).map_err(|error| self.unwritten("tape", error))
    }

    /// Completes the traces.
    pub(crate) fn finish(&self, asked: Option<Asked>, issued: Option<Issued>) -> Result<(), Error> {
        let wrong = |key| move |error| self.unwritten(key, forebay::Error::output(error));
        asked.map(Asked::finish).transpose().map_err(wrong("trace"))?;
        issued.map(Issued::finish).transpose().map_err(wrong("trace_issued"))?;
        Ok(())
    }

    fn unwritten(&self, key: &'static str, error: forebay::Error) -> Error {
        let (back, error) = (self.back.name.clone(), Box::new(error));
        Error::Beside { back, key, error, at_start: false }
    }
}

/// Refuses traces and tapes that would replace a disk, a drive, each other, or the trace that a disk is rearranged by, and
/// tapes of what has none.
pub(crate) fn refuse(config: &Config) -> Result<(), Error> {
    let mut taken: Vec<(PathBuf, String)> = Vec::new();
    for back in &config.backs {
        let disks =
            back.on.paths().map(|path| (place(path), format!("the disk of '{}'", back.name)));
        taken.extend(disks);
        if let Blocks::Learnt(trace) = &back.blocks {
            taken.push((place(trace), format!("what '{}' is rearranged by", back.name)));
        }
    }
    for back in &config.backs {
        if back.tape.is_some()
            && (matches!(back.on, On::Volume(_)) || back.blocks != Blocks::InPlace)
        {
            return Err(unfit(format!(
                "'{}': tape: got a volume or a rearranged disk, expected a disk whose blocks are in place",
                back.name
            )));
        }
        for (key, path) in written(back) {
            let at = place(path);
            if let Some((_, what)) = taken.iter().find(|(other, _)| at.starts_with(other)) {
                return Err(unfit(format!(
                    "'{}': {key}: got {}, which is {what}, expected a file of its own",
                    back.name,
                    path.display()
                )));
            }
            taken.push((at, format!("the {key} of '{}'", back.name)));
        }
    }
    Ok(())
}

/// What it writes, by the keys that say so.
fn written(back: &Back) -> impl Iterator<Item = (&'static str, &Path)> {
    let Back { trace, trace_issued, tape, .. } = back;
    let all = [("trace", trace), ("trace_issued", trace_issued), ("tape", tape)];
    all.into_iter().filter_map(|(key, path)| Some((key, path.as_deref()?)))
}

/// A file by the folder it is really in, whether it is there yet or not.
fn place(path: &Path) -> PathBuf {
    if let Ok(place) = path.canonicalize() {
        return place;
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new(".")).canonicalize();
    match (folder, path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path.to_path_buf(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Address;

    #[test]
    fn nothing_that_is_named_is_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("disk"), "").unwrap();
        std::fs::create_dir(at("drives")).unwrap();
        let refused = |change: &dyn Fn(&mut Back)| {
            let mut back =
                Back::of("one", On::Target { path: at("disk"), flash: Some(at("flash")) });
            change(&mut back);
            let other = Back::of("other", On::Volume(vec![at("drives")]));
            let listen = vec![Address::Unix(at("socket"))];
            let told = refuse(&Config { listen, metrics: None, backs: vec![back, other] });
            told.err().map(|error| error.to_string())
        };
        assert_eq!(refused(&|back| back.trace = Some(at("trace"))), None);
        for (change, why) in [
            (
                &(|back: &mut Back| back.tape = Some(at("flash"))) as &dyn Fn(&mut Back),
                "disk of 'one'",
            ),
            (&|back| back.trace = Some(at("drives/../disk")), "trace: got"),
            (&|back| back.trace = Some(at("drives/1")), "disk of 'other'"),
            (
                &|back| (back.trace, back.trace_issued) = (Some(at("x")), Some(at("x"))),
                "the trace of",
            ),
            (
                &|back| {
                    (back.trace, back.blocks) = (Some(at("x")), Blocks::Learnt(at("x")));
                },
                "rearranged by",
            ),
            (
                &|back| (back.tape, back.blocks) = (Some(at("x")), Blocks::Rearranged),
                "tape: got a volume or a rearranged disk",
            ),
        ] {
            let said = refused(change);
            assert!(said.as_ref().is_some_and(|said| said.contains(why)), "{why}: {said:?}");
        }
    }
}
