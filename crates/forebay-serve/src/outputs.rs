//! The traces that a server writes.
//!
//! Invariants: no trace replaces a file named in the configuration; all traces are started before
//! anything is served; if nothing is served, no trace is left.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;

use forebay_trace::TraceError;
use forebay_trace::write::TARGETS;
use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::io::Errno;

use crate::error::{Error, beside, unfit};
use crate::record::{ClientTrace, Destination, EndedTraces, Issued, RecordedTrace};
use crate::{Address, Back, Blocks, Config, control};

/// Begins the traces of a back.
#[derive(Clone)]
pub(crate) struct Outputs {
    pub(crate) disks: Vec<PathBuf>,
    /// The channel for messages to the user.
    pub(crate) says: Sender<String>,
    /// The traces that can no longer be written.
    pub(crate) ended: EndedTraces,
}

impl Outputs {
    /// Begins the configured trace of clients' requests, if any.
    pub(crate) fn client_trace(&self, back: &Back) -> Result<Option<ClientTrace>, Error> {
        let begin = |path| ClientTrace::begin(self.to(path, back, "trace"));
        back.trace.as_deref().map(begin).transpose().map_err(wrong(back, "trace"))
    }

    /// Begins the configured trace of the disks' I/Os, if any.
    pub(crate) fn issued_trace(&self, back: &Back) -> Result<Option<Issued>, Error> {
        let begin = |path| Issued::begin(self.to(path, back, "trace_issued"));
        back.trace_issued.as_deref().map(begin).transpose().map_err(wrong(back, "trace_issued"))
    }

    fn to<'a>(&'a self, path: &'a Path, back: &'a Back, key: &'static str) -> Destination<'a> {
        let (says, ended) = (self.says.clone(), self.ended.clone());
        Destination { path, back: &back.name, key, disks: &self.disks, says, ended }
    }

    /// Completes the traces at the end.
    ///
    /// # Errors
    /// Returns the first error of all traces; others are reported.
    pub(crate) fn finish(
        &self,
        back: &str,
        client: Option<ClientTrace>,
        issued: Option<Issued>,
    ) -> Result<(), Error> {
        let client = client.map_or(Ok(()), |trace| complete(trace, back, "trace"));
        let issued = issued.map_or(Ok(()), |trace| complete(trace, back, "trace_issued"));
        if let (Err(_), Err(other)) = (&client, &issued) {
            // If nobody receives the message, only the first error is reported.
            let _ = self.says.send(other.to_string());
        }
        client.and(issued)
    }
}

/// Completes a trace.
pub(crate) fn complete(
    trace: impl RecordedTrace,
    back: &str,
    key: &'static str,
) -> Result<(), Error> {
    let back = back.to_string();
    let at_end = |error| Error::Beside { back, key, error: Box::new(error), at_start: false };
    trace.finish().map_err(at_end)
}

fn wrong(back: &Back, key: &'static str) -> impl FnOnce(TraceError) -> Error {
    move |error| beside(&back.name, key, error)
}

/// Rejects traces that would replace a disk, a drive, another trace, or the trace from which a
/// rearrangement is learned.
pub(crate) fn refuse(config: &Config) -> Result<(), Error> {
    let mut taken: Vec<(PathBuf, String)> = Vec::new();
    taken.extend(config.file.iter().map(|path| (place(path), "the configuration".into())));
    for address in &config.listen {
        if let Address::Unix(path) = address {
            taken.push((place(path), "the socket".into()));
            taken.push((place(&control::beside(path)), "the control socket".into()));
        }
    }
    for back in &config.backs {
        let disks =
            back.on.paths().map(|path| (place(path), format!("the disk of '{}'", back.name)));
        taken.extend(disks);
        if let Blocks::Learnt(trace) = &back.blocks {
            taken.push((place(trace), format!("the trace that '{}' is rearranged by", back.name)));
        }
    }
    for back in &config.backs {
        for (key, path) in written(back) {
            if path.as_os_str().is_empty() {
                return Err(unfit(format!(
                    "'{}': {key}: the name is empty; expected a file",
                    back.name
                )));
            }
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

/// Rejects trace files with an unknown extension or in a folder that is not writable.
pub(crate) fn refuse_unwritable(back: &Back) -> Result<(), Error> {
    for (key, path) in written(back) {
        let wrong = |what: String| {
            Err(unfit(format!("'{}': {key}: {}: {what}", back.name, path.display())))
        };
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let ends = |ending: &&str| file.strip_suffix(ending).is_some_and(|it| it.ends_with('.'));
        if !TARGETS.iter().any(|target| target.endings.iter().any(ends)) {
            let ending = path.extension().unwrap_or_default().to_string_lossy();
            return wrong(format!(
                "got the ending \"{ending}\"; use a name that ends in .parquet or .csv"
            ));
        }
        if !folder(path).is_dir() {
            let what = "No such file or directory: its folder does not exist; create it first";
            return wrong(what.into());
        }
        if let Err(error) = may_create_in(folder(path)) {
            return wrong(format!("{error}: {NO_NEW_FILES}"));
        }
    }
    Ok(())
}

/// Explains an error of [`may_create_in`].
pub(crate) const NO_NEW_FILES: &str = "the server has no permission to create files in its \
                                       folder; change the permissions or specify another folder";

/// Returns whether this process may create files in a folder, without creating one.
///
/// # Errors
/// The folder is not writable.
pub(crate) fn may_create_in(folder: &Path) -> io::Result<()> {
    let access = Access::WRITE_OK | Access::EXEC_OK;
    match accessat(CWD, folder, access, AtFlags::EACCESS) {
        // The kernel does not support this check, so starting the server will show whether the
        // folder is writable.
        Ok(()) | Err(Errno::NOSYS) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the files that a back writes, with their configuration keys.
fn written(back: &Back) -> impl Iterator<Item = (&'static str, &Path)> {
    let all = [("trace", &back.trace), ("trace_issued", &back.trace_issued)];
    all.into_iter().filter_map(|(key, path)| Some((key, path.as_deref()?)))
}

/// Returns the folder of a file.
pub(crate) fn folder(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Returns the canonical path of a file, which need not exist.
fn place(path: &Path) -> PathBuf {
    if let Ok(place) = path.canonicalize() {
        return place;
    }
    match (folder(path).canonicalize(), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path.to_path_buf(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Address, On};

    #[test]
    fn outputs_never_overwrite_named_files() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("disk"), "").unwrap();
        std::fs::create_dir(at("drives")).unwrap();
        let refused = |change: &dyn Fn(&mut Back)| {
            let mut back =
                Back::of("one", On::Target { path: at("disk"), flash: Some(at("flash")) });
            change(&mut back);
            let other = Back::of("other", On::Volume(vec![at("drives")]));
            let (file, listen) = (Some(at("c.toml")), vec![Address::Unix(at("socket"))]);
            let backs = vec![back, other];
            let told = refuse(&Config { file, ..Config::of(listen, backs) });
            told.err().map(|error| error.to_string())
        };
        assert_eq!(refused(&|back| back.trace = Some(at("trace"))), None);
        for (trace, why) in [
            ("c.toml", "the configuration"),
            ("socket", "the socket"),
            ("socket.control", "the control socket"),
        ] {
            let said = refused(&|back| back.trace = Some(at(trace)));
            assert!(said.as_ref().is_some_and(|said| said.contains(why)), "{why}: {said:?}");
        }
        assert!(
            refused(&|back| back.trace = Some(PathBuf::new()))
                .unwrap()
                .contains("the name is empty")
        );
        for (change, why) in [
            (
                &(|back: &mut Back| back.trace = Some(at("flash"))) as &dyn Fn(&mut Back),
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
        ] {
            let said = refused(change);
            assert!(said.as_ref().is_some_and(|said| said.contains(why)), "{why}: {said:?}");
        }
    }
}
