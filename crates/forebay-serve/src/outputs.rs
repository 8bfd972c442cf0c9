//! Files that a server writes beside its disks: traces and tapes.
//!
//! Invariants: none takes the place of what the configuration names; all are begun before anything is served, and none has a
//! name where nothing is.

use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;

use forebay::tape::{Blank, Header, Tape};
use forebay_core::catalog::DeviceSet;
use forebay_core::contract::policy::AnyPolicy;

use crate::address::Address;
use crate::back::Policies;
use crate::config::{Back, Blocks, Config, On};
use crate::error::{Error, beside, unfit};
use crate::record::{Asked, Issued};
use crate::report;

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
    says: Sender<String>,
    /// The first that could not be written while all went on.
    failed: Option<Error>,
}

impl<'a> Beside<'a> {
    /// Begins all files that `back`, on these disks, is to write.
    pub(crate) fn begin(
        back: &'a Back,
        disks: &[PathBuf],
        policies: &Policies,
        says: Sender<String>,
    ) -> Result<Beside<'a>, Error> {
        let wrong = |key| move |error| beside(&back.name, key, forebay::Error::output(error));
        let disks: Vec<&Path> = disks.iter().map(PathBuf::as_path).collect();
        let asked = back.trace.as_ref().map(|path| Asked::begin(path, &back.name, &disks));
        let issued = back.trace_issued.as_ref().map(|path| Issued::begin(path, &disks));
        let asked = asked.transpose().map_err(wrong("trace"))?;
        let issued = issued.transpose().map_err(wrong("trace_issued"))?;
        // Of others a tape was refused.
        let lanes = match policies {
            Policies::Placed(lanes, _) => Some(*lanes),
            _ => None,
        };
        let (traces, first, policies, failed) = ((asked, issued), None, 0, None);
        let mut begun = Beside { back, traces, lanes, first, policies, says, failed };
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
    pub(crate) fn record(&mut self, policy: AnyPolicy, spec: &str) -> (AnyPolicy, Option<Tape>) {
        let (Some(path), Some(lanes)) = (&self.back.tape, self.lanes) else {
            return (policy, None);
        };
        self.policies += 1;
        let blank = match self.first.take() {
            Some(first) => Ok(first),
            None => self.blank(&later(path, self.policies)),
        };
        match blank {
            Ok(blank) => {
                let tape = blank.begin(&Header { policy: spec.to_string(), lanes });
                (Box::new(tape.record(policy)), Some(tape))
            }
            // Clients are served all the same.
            Err(error) => {
                self.failed(error);
                (policy, None)
            }
        }
    }

    /// Completes a tape.
    pub(crate) fn finish_tape(&mut self, tape: Tape) {
        if let Err(error) = tape.finish() {
            self.unwritten("tape", error);
        }
    }

    /// Completes the traces.
    ///
    /// # Errors
    /// The first that could not be written, of all of them.
    pub(crate) fn finish(
        mut self,
        asked: Option<Asked>,
        issued: Option<Issued>,
    ) -> Result<(), Error> {
        for (key, written) in [
            ("trace", asked.map_or(Ok(()), Asked::finish)),
            ("trace_issued", issued.map_or(Ok(()), Issued::finish)),
        ] {
            // The first is what the server ends with.
            if let (Err(error), back) = (written, self.back.name.clone()) {
                let error = Box::new(forebay::Error::output(error));
                let error = Error::Beside { back, key, error, at_start: false };
                match self.failed {
                    None => self.failed = Some(error),
                    Some(_) => self.failed(error),
                }
            }
        }
        self.failed.map_or(Ok(()), Err)
    }

    fn unwritten(&mut self, key: &'static str, error: forebay::Error) {
        let (back, error) = (self.back.name.clone(), Box::new(error));
        self.failed(Error::Beside { back, key, error, at_start: false });
    }

    fn failed(&mut self, mut error: Error) {
        if let Error::Beside { at_start, .. } = &mut error {
            *at_start = false;
        }
        // Where nobody asks for it, it is told at the end.
        let _ = self.says.send(error.to_string());
        self.failed.get_or_insert(error);
    }
}

/// The name of the tape of the `nth` policy, from the second on.
fn later(path: &Path, nth: u32) -> PathBuf {
    path.with_extension(format!("{nth}.tape"))
}

/// Whether `other` is called as a later tape of `first`.
fn is_later(other: &Path, first: &Path) -> bool {
    let stem = |path: &Path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let (Some(own), Some(its)) = (stem(first), stem(other)) else { return false };
    let number = its.strip_prefix(&own).and_then(|rest| rest.strip_prefix('.'));
    other.parent() == first.parent()
        && other.extension().is_some_and(|ending| ending == "tape")
        && number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether a later tape of `tape` would take the place of `other`, or of what `other`, another tape, is followed by.
fn are_mixed(tape: &Path, other: &Path, other_is_tape: bool) -> bool {
    let are_alike = || later(tape, 2) == later(other, 2);
    tape != other
        && (is_later(other, tape) || other_is_tape && (is_later(tape, other) || are_alike()))
}

/// Refuses traces and tapes that would replace a disk, a drive, each other, or the trace that a disk is rearranged by, and
/// tapes of what has none.
pub(crate) fn refuse(config: &Config) -> Result<(), Error> {
    let mut taken: Vec<(PathBuf, String)> = Vec::new();
    taken.extend(config.file.iter().map(|path| (place(path), "the configuration".into())));
    for address in &config.listen {
        if let Address::Unix(path) = address {
            taken.push((place(path), "the socket".into()));
            taken.push((place(&report::beside(path)), "where figures are asked for".into()));
        }
    }
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
            if path.as_os_str().is_empty() {
                return Err(unfit(format!(
                    "'{}': {key}: the name is empty; expected a file",
                    back.name
                )));
            }
            let at = place(path);
            let mixed = taken.iter().find(|(other, what)| {
                key == "tape" && are_mixed(&at, other, what.starts_with("the tape of"))
            });
            if let Some((other, what)) = mixed {
                return Err(unfit(format!(
                    "'{}': tape: got {}, after which tapes of later policies are called, as {} is, {what}; expected another \
                     name",
                    back.name,
                    path.display(),
                    other.display()
                )));
            }
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
        std::fs::write(at("run.2.tape"), "").unwrap();
        let refused = |change: &dyn Fn(&mut Back)| {
            let mut back =
                Back::of("one", On::Target { path: at("disk"), flash: Some(at("flash")) });
            change(&mut back);
            let other = Back::of("other", On::Volume(vec![at("drives")]));
            let on = On::Target { path: at("run.2.tape"), flash: None };
            let third = Back { tape: Some(at("its.one")), ..Back::of("third", on) };
            let (file, listen) = (Some(at("c.toml")), vec![Address::Unix(at("socket"))]);
            let backs = vec![back, other, third];
            let told = refuse(&Config { file, listen, metrics: None, backs });
            told.err().map(|error| error.to_string())
        };
        assert_eq!(refused(&|back| back.trace = Some(at("trace"))), None);
        assert_eq!(refused(&|back| back.tape = Some(at("run.3.tape"))), None);
        for (tape, why) in [
            ("c.toml", "the configuration"),
            ("socket", "the socket"),
            ("socket.figures", "where figures are asked for"),
            ("run.tape", "after which tapes of later policies are called"),
            ("its.two", "the tape of 'one'"),
            ("its.4.tape", "the tape of 'one'"),
        ] {
            let said = refused(&|back| back.tape = Some(at(tape)));
            assert!(said.as_ref().is_some_and(|said| said.contains(why)), "{why}: {said:?}");
        }
        assert!(
            refused(&|back| back.tape = Some(PathBuf::new()))
                .unwrap()
                .contains("the name is empty")
        );
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
