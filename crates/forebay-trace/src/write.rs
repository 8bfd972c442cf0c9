//! Writes traces.
//!
//! A file gets its name only when it is complete. Until then, it is a temporary file in the same
//! folder. The temporary file is removed when the writer is dropped, also after an error or a
//! panic. Signal handlers must call [`stop`] first. Only a process that is killed immediately
//! leaves the temporary file behind.

pub mod blktrace;
pub mod csv;
pub mod disksim;
pub mod fio;
mod kept;
mod lost;
pub mod parquet;

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::NamedTempFile;

pub use self::kept::ProtectedFiles;
use self::lost::LossCounts;
use crate::rows::shorten;
use crate::{Dictionary, Notes, Place, Record, TraceError};
use forebay_ask::named;

/// Writes a trace in batches.
pub trait Writer: Send {
    /// Appends records, which must be in order of time.
    fn write(&mut self, batch: &[Record], dictionary: &Dictionary) -> Result<(), TraceError>;

    /// Ensures that what was written so far can be read if the process is killed, as far as the
    /// format supports that. The file is not renamed to its final name yet.
    fn checkpoint(&mut self, _dictionary: &Dictionary, _notes: &Notes) -> Result<(), TraceError> {
        Ok(())
    }

    /// Completes the file and renames it to its final name. Returns what the format could not
    /// represent, one sentence each.
    fn finish(
        self: Box<Self>,
        dictionary: &Dictionary,
        notes: &Notes,
    ) -> Result<Vec<String>, TraceError>;
}

/// A format that can be written.
pub struct Target {
    /// The name of the format in `--to`.
    pub name: &'static str,
    /// The endings of file names that select the format, without the dot.
    pub endings: &'static [&'static str],
    /// Begins writing a file in this format.
    pub create: fn(Draft) -> Result<Box<dyn Writer>, TraceError>,
}

/// All formats that can be written.
pub static TARGETS: &[Target] = &[
    Target { name: "parquet", endings: &["parquet"], create: parquet::create },
    Target { name: "csv", endings: &["csv"], create: csv::create },
    Target { name: "fio", endings: &["iolog", "fio"], create: fio::create },
    Target { name: "disksim", endings: &["disksim"], create: disksim::create },
    Target { name: "blktrace", endings: &["blktrace.0", "blktrace"], create: blktrace::create },
];

/// Begins the file `path`, in the format `to` or, failing that, the one selected by the ending of
/// its name. Never overwrites a file in `kept`.
pub fn create(
    path: &Path,
    to: Option<&str>,
    kept: &ProtectedFiles,
) -> Result<Box<dyn Writer>, TraceError> {
    // All known endings are UTF-8, so converting others lossily does no harm.
    let ending = path.extension().unwrap_or_default().to_string_lossy();
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let ends = |ending: &&str| file.strip_suffix(*ending).is_some_and(|stem| stem.ends_with('.'));
    let target = match to {
        Some(name) => TARGETS.iter().find(|target| target.name == name),
        None => TARGETS.iter().find(|target| target.endings.iter().any(ends)),
    };
    let Some(target) = target else {
        let got = match to {
            Some(name) => format!("the format name {}", shorten(name.as_bytes())),
            None => format!("the ending {}", shorten(ending.as_bytes())),
        };
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        let hint = format!("name the format with {}", named("to"));
        return Err(refused(path, got, format!("one of {}", names.join(", ")), &hint));
    };
    (target.create)(Draft::new(path, kept)?)
}

fn refused(path: &Path, got: String, expected: String, hint: &str) -> TraceError {
    let (path, hint) = (path.to_path_buf(), hint.into());
    TraceError::Malformed { path, place: Place::File, got, expected, hint }
}

/// The temporary files that exist at the moment.
static DRAFTS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn drafts() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    DRAFTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes all temporary files and calls `exit`. No new ones are created in between.
pub fn stop(exit: impl FnOnce()) {
    let drafts = drafts();
    for path in drafts.iter() {
        // If a file cannot be removed, it stays, because there is no way to report the error any
        // longer.
        let _ = fs::remove_file(path);
    }
    exit();
}

/// Returns the permissions that the process withholds from new files. Only Linux shows them;
/// elsewhere, this is the usual value.
#[cfg(unix)]
fn umask() -> u32 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    line.and_then(|octal| u32::from_str_radix(octal.trim(), 8).ok()).unwrap_or(0o022)
}

/// A file that does not have its final name yet.
pub struct Draft {
    path: PathBuf,
    file: BufWriter<NamedTempFile>,
    _listed: Listed,
}

/// An entry in the list of temporary files.
struct Listed(PathBuf);

impl Drop for Listed {
    fn drop(&mut self) {
        drafts().remove(&self.0);
    }
}

/// Returns the file that writing to `path` creates or replaces, which is the target if `path` is a
/// link. Only regular files are ever replaced.
fn destination(path: &Path) -> Result<PathBuf, TraceError> {
    if fs::symlink_metadata(path).is_err() {
        return Ok(path.to_path_buf());
    }
    let got = match fs::metadata(path) {
        Ok(found) if found.is_file() && path.is_symlink() => {
            return fs::canonicalize(path).map_err(|error| io_error(path, error));
        }
        Ok(found) if found.is_file() => return Ok(path.to_path_buf()),
        Ok(_) => "something that is not a file (a folder, a device or a pipe)".into(),
        Err(_) => "a dangling symbolic link".into(),
    };
    Err(refused(path, got, "a file to write".into(), ""))
}

impl Draft {
    /// Begins the file that will have the name `path`. If `path` exists, it must be a file, or a
    /// link to one (which stays a link), and not in `kept`.
    pub fn new(path: &Path, kept: &ProtectedFiles) -> Result<Draft, TraceError> {
        if path.as_os_str() == "-" {
            let expected = "a file to write; traces are not written to standard output, and ./- is a file of \
                 that name";
            return Err(refused(path, "-".into(), expected.into(), ""));
        }
        kept.refuse(path)?;
        let path = &destination(path)?;
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let mut builder = tempfile::Builder::new();
        builder.prefix(".forebay-").suffix(".partial");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // Until the file is complete, only its owner may read it: a trace names the processes
            // and files of others.
            builder.permissions(fs::Permissions::from_mode(0o600));
        }
        let mut drafts = drafts();
        let file = builder.tempfile_in(folder).map_err(|error| io_error(path, error))?;
        let temporary = file.path().to_path_buf();
        drafts.insert(temporary.clone());
        Ok(Draft {
            path: path.to_path_buf(),
            file: BufWriter::with_capacity(1 << 18, file),
            _listed: Listed(temporary),
        })
    }

    /// Creates the error that writing failed. It contains the final name of the file.
    pub fn failed(&self, source: io::Error) -> TraceError {
        io_error(&self.path, source)
    }

    /// Writes the complete content of the file and renames it to its final name.
    pub fn fill(mut self, content: &[u8]) -> Result<(), TraceError> {
        self.write_all(content).map_err(|error| self.failed(error))?;
        self.publish()
    }

    /// Writes buffered data and gives the file its final name.
    pub fn publish(self) -> Result<(), TraceError> {
        let path = self.path;
        let fail = |source| io_error(&path, source);
        let file = self.file.into_inner().map_err(|error| fail(error.into_error()))?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // A file that is replaced may be private. Some file systems, such as FAT, have no
            // permissions.
            let usual = || fs::Permissions::from_mode(0o666 & !umask());
            let mode = fs::metadata(&path).map_or_else(|_| usual(), |old| old.permissions());
            let _ = file.as_file().set_permissions(mode);
        }
        file.as_file().sync_all().map_err(fail)?;
        file.persist(&path).map_err(|error| fail(error.error))?;
        Ok(())
    }
}

/// Creates an error about a file. If it contains the name of the temporary file, that name is moved
/// to the end.
fn io_error(path: &Path, error: io::Error) -> TraceError {
    let said = error.to_string();
    let source = match said.split_once(" at path ") {
        Some((reason, _)) => io::Error::new(error.kind(), reason),
        None => error,
    };
    TraceError::Io { path: path.to_path_buf(), source }
}

impl Write for Draft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Returns an entry of a dictionary, for writers that need its name.
fn entry<T>(list: &[T], index: u32) -> Option<&T> {
    list.get(index as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_the_file_and_never_the_temporary_one() {
        let Err(error) = Draft::new(Path::new("/nonexistent/out.csv"), &ProtectedFiles::default())
        else {
            panic!("made")
        };
        let text = error.to_string();
        assert!(text.starts_with("/nonexistent/out.csv: ") && !text.contains("partial"), "{text}");
    }

    #[cfg(unix)]
    #[test]
    fn only_files_are_replaced_and_links_stay_links() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let write = |name: &str| {
            let mut draft = Draft::new(&at(name), &ProtectedFiles::default())?;
            draft.write_all(b"new").unwrap();
            draft.publish()
        };
        std::os::unix::fs::symlink(at("there"), at("link")).unwrap();
        let said = write("link").unwrap_err().to_string();
        assert!(said.contains("dangling symbolic link"), "{said}");
        // As /dev/stdout is if standard output is a pipe.
        let (pipe, _writer) = io::pipe().unwrap();
        let pipe = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&pipe));
        std::os::unix::fs::symlink(pipe, at("stdout")).unwrap();
        let said = write("stdout").unwrap_err().to_string();
        assert!(said.contains("a device or a pipe"), "{said}");
        fs::write(at("there"), "old").unwrap();
        write("link").unwrap();
        assert_eq!(fs::read(at("there")).unwrap(), b"new");
        // A private file stays private.
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(at("there"), fs::Permissions::from_mode(0o640)).unwrap();
        write("link").unwrap();
        let mode = fs::metadata(at("there")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        assert!(fs::symlink_metadata(at("link")).unwrap().is_symlink());
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        let said = write("socket").unwrap_err().to_string();
        assert!(said.contains("not a file"), "{said}");
        assert!(!fs::symlink_metadata(at("socket")).unwrap().is_file());
    }

    #[test]
    fn a_draft_is_listed_until_it_is_dropped_or_published() {
        let folder = tempfile::tempdir().unwrap();
        let listed = || drafts().iter().filter(|path| path.starts_with(folder.path())).count();
        let draft = Draft::new(&folder.path().join("a"), &ProtectedFiles::default()).unwrap();
        assert_eq!(listed(), 1);
        draft.publish().unwrap();
        assert_eq!(listed(), 0);
        drop(Draft::new(&folder.path().join("b"), &ProtectedFiles::default()).unwrap());
        assert_eq!((listed(), fs::read_dir(folder.path()).unwrap().count()), (0, 1));
    }
}
