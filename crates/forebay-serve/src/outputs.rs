//! The traces that a server writes.
//!
//! Invariants: no trace replaces a file named in the configuration; all traces are started before
//! anything is served, and if nothing is served, no trace is left.

use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;

use crate::address::Address;
use crate::config::{Back, Blocks, Config};
use crate::error::{Error, beside, unfit};
use crate::front::Streams;
use crate::record::{ClientTrace, Issued};
use crate::report;

/// The traces that a back writes.
pub(crate) struct Beside<'a> {
    back: &'a Back,
    traces: (Option<ClientTrace>, Option<Issued>),
    says: Sender<String>,
    /// The first write error during operation.
    failed: Option<Error>,
}

impl<'a> Beside<'a> {
    /// Starts all traces that `back`, on these disks, writes.
    pub(crate) fn begin(
        back: &'a Back,
        disks: &[PathBuf],
        says: Sender<String>,
    ) -> Result<Beside<'a>, Error> {
        let wrong = |key| move |error| beside(&back.name, key, error);
        let disks: Vec<&Path> = disks.iter().map(PathBuf::as_path).collect();
        let exports = || match back.who() {
            Streams::Exports => back.exports.iter().map(|export| export.name.clone()).collect(),
            Streams::Connections => Vec::new(),
        };
        let begin = |path: &PathBuf| ClientTrace::begin(path, &back.name, exports(), &disks);
        let asked = back.trace.as_ref().map(begin);
        let issued = back.trace_issued.as_ref().map(|path| Issued::begin(path, &disks));
        let asked = asked.transpose().map_err(wrong("trace"))?;
        let issued = issued.transpose().map_err(wrong("trace_issued"))?;
        Ok(Beside { back, traces: (asked, issued), says, failed: None })
    }

    /// Returns the traces of clients' requests and of disks' I/Os.
    pub(crate) fn traces(&mut self) -> (Option<ClientTrace>, Option<Issued>) {
        std::mem::take(&mut self.traces)
    }

    /// Completes the traces.
    ///
    /// # Errors
    /// Returns the first error of all traces.
    pub(crate) fn finish(
        mut self,
        asked: Option<ClientTrace>,
        issued: Option<Issued>,
    ) -> Result<(), Error> {
        for (key, written) in [
            ("trace", asked.map_or(Ok(()), ClientTrace::finish)),
            ("trace_issued", issued.map_or(Ok(()), Issued::finish)),
        ] {
            // The server ends with the first error.
            if let (Err(error), back) = (written, self.back.name.clone()) {
                let error = Box::new(error);
                let error = Error::Beside { back, key, error, at_start: false };
                match self.failed {
                    None => self.failed = Some(error),
                    Some(_) => self.failed(error),
                }
            }
        }
        self.failed.map_or(Ok(()), Err)
    }

    fn failed(&mut self, mut error: Error) {
        if let Error::Beside { at_start, .. } = &mut error {
            *at_start = false;
        }
        // If nobody receives the message, it is reported at the end.
        let _ = self.says.send(error.to_string());
        self.failed.get_or_insert(error);
    }
}

/// Rejects traces that would replace a disk, a drive, another trace, or the trace by which a disk
/// is rearranged.
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

/// Returns the files that a back writes, by their configuration keys.
fn written(back: &Back) -> impl Iterator<Item = (&'static str, &Path)> {
    let all = [("trace", &back.trace), ("trace_issued", &back.trace_issued)];
    all.into_iter().filter_map(|(key, path)| Some((key, path.as_deref()?)))
}

/// Returns the canonical path of a file, which need not exist.
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
    use crate::config::On;

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
            let (file, listen) = (Some(at("c.toml")), vec![Address::Unix(at("socket"))]);
            let backs = vec![back, other];
            let told = refuse(&Config { file, listen, metrics: None, backs });
            told.err().map(|error| error.to_string())
        };
        assert_eq!(refused(&|back| back.trace = Some(at("trace"))), None);
        for (trace, why) in [
            ("c.toml", "the configuration"),
            ("socket", "the socket"),
            ("socket.figures", "where figures are asked for"),
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
