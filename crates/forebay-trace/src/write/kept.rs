//! Protects the files that a verb reads from being overwritten.
//!
//! Invariant: a file is identified by its device and inode, regardless of the path, link or hard
//! link that leads to it. Every [`Draft`](super::Draft) checks this before it creates anything, so
//! no verb can forget to.

use std::fs;
use std::path::{Path, PathBuf};

use super::refused;
use crate::{TraceError, open};

/// Files that must not be overwritten.
#[derive(Clone, Debug, Default)]
pub struct ProtectedFiles {
    paths: Vec<PathBuf>,
}

impl ProtectedFiles {
    /// Protects the trace or model at `path`, which may be a file, a set of files or a folder.
    pub fn trace(path: &Path) -> ProtectedFiles {
        ProtectedFiles::default().and_trace(path)
    }

    /// Protects the file at `path`.
    pub fn file(path: &Path) -> ProtectedFiles {
        ProtectedFiles::default().and_file(path)
    }

    /// Also protects the trace or model at `path`.
    pub fn and_trace(mut self, path: &Path) -> ProtectedFiles {
        self.paths.extend(open::files(path));
        self
    }

    /// Also protects the file at `path`. If `path` is not a file, but for example the name of a
    /// bundled device, it is ignored.
    pub fn and_file(mut self, path: &Path) -> ProtectedFiles {
        self.paths.push(path.to_path_buf());
        self
    }

    /// Returns the paths of the protected files.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Returns an error if `output` is one of the protected files.
    ///
    /// # Errors
    /// Fails with [`TraceError::Malformed`], which contains both paths.
    pub fn refuse(&self, output: &Path) -> Result<(), TraceError> {
        let Some(kept) = self.paths.iter().find(|kept| is_same(kept, output)) else {
            return Ok(());
        };
        let got = match kept == output {
            true => "an input file as the output".into(),
            false => format!("an input file, {}, as the output", kept.display()),
        };
        Err(refused(output, got, "another file".into(), "name a file that is not an input"))
    }
}

impl FromIterator<PathBuf> for ProtectedFiles {
    fn from_iter<I: IntoIterator<Item = PathBuf>>(paths: I) -> ProtectedFiles {
        ProtectedFiles { paths: paths.into_iter().collect() }
    }
}

/// Returns whether both paths refer to the same existing file.
#[cfg(unix)]
fn is_same(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    identity(one).is_some_and(|one| identity(other) == Some(one))
}

/// Returns whether both paths refer to the same existing file. Hard links are not recognized on
/// this platform.
#[cfg(not(unix))]
fn is_same(one: &Path, other: &Path) -> bool {
    let place = |path| fs::canonicalize(path).ok();
    place(one).is_some_and(|one| place(other) == Some(one))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_kept_under_every_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("trace"), "t").unwrap();
        fs::write(at("twin"), "t").unwrap();
        fs::hard_link(at("trace"), at("hard")).unwrap();
        std::os::unix::fs::symlink(at("trace"), at("link")).unwrap();
        std::os::unix::fs::symlink(folder.path(), at("folder")).unwrap();
        let kept = ProtectedFiles::file(&at("none")).and_trace(&at("trace"));
        for name in ["trace", "hard", "link", "./trace", "folder/link"] {
            let said = kept.refuse(&at(name)).unwrap_err().to_string();
            assert!(said.contains("an input file") && said.contains("another file"), "{said}");
        }
        for name in ["twin", "new", "none"] {
            assert!(kept.refuse(&at(name)).is_ok(), "{name}");
        }
    }

    #[test]
    fn every_file_of_a_set_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let files = ["sda.blktrace.0", "sda.blktrace.1.gz"];
        files.iter().for_each(|name| fs::write(at(name), name).unwrap());
        fs::write(at("other"), "").unwrap();
        for named in [at("sda"), at(files[0]), folder.path().to_path_buf()] {
            let kept = ProtectedFiles::trace(&named);
            files.iter().for_each(|name| assert!(kept.refuse(&at(name)).is_err(), "{named:?}"));
            assert!(kept.refuse(&at("other")).is_ok() && kept.refuse(&at("sda")).is_ok());
        }
    }
}
