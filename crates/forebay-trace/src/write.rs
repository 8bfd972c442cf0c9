//! Writes traces.
//!
//! A file appears under its name only when it is whole: until then it is a temporary file in the
//! same folder, which goes away when the writer does, whatever stops it.

pub mod blktrace;
pub mod csv;
pub mod disksim;
pub mod fio;
mod lost;
pub mod parquet;

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use self::lost::Lost;
use crate::error::{Place, TraceError};
use crate::rows::shorten;
use crate::trace::{Dictionary, Notes, Record};

/// Writes a trace in batches.
pub trait Writer {
    /// Appends records, which are in order of time.
    fn write(&mut self, batch: &[Record], dictionary: &Dictionary) -> Result<(), TraceError>;

    /// Completes the file and gives it its name. Answers what the format could not keep, one
    /// sentence each.
    fn finish(
        self: Box<Self>,
        dictionary: &Dictionary,
        notes: &Notes,
    ) -> Result<Vec<String>, TraceError>;
}

/// A format that can be written.
pub struct Target {
    /// What `--to` calls it.
    pub name: &'static str,
    /// Endings of file names that mean it, without the dot.
    pub endings: &'static [&'static str],
    /// Begins a file.
    pub create: fn(Draft) -> Result<Box<dyn Writer>, TraceError>,
}

/// Every format that can be written.
pub static TARGETS: &[Target] = &[
    Target { name: "parquet", endings: &["parquet"], create: parquet::create },
    Target { name: "csv", endings: &["csv"], create: csv::create },
    Target { name: "fio", endings: &["iolog", "fio"], create: fio::create },
    Target { name: "disksim", endings: &["disksim"], create: disksim::create },
    Target { name: "blktrace", endings: &["blktrace.0", "blktrace"], create: blktrace::create },
];

/// Begins the file `path`, in the format `to` or, without it, that of the ending of its name. The
/// `input` is what the trace is read from, which is never overwritten.
pub fn create(
    path: &Path,
    to: Option<&str>,
    input: Option<&Path>,
) -> Result<Box<dyn Writer>, TraceError> {
    let ending = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
    let file = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
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
        let hint = "name the format with --to";
        return Err(refused(path, got, format!("one of {}", names.join(", ")), hint));
    };
    let canonical = |path: &Path| fs::canonicalize(path).ok();
    if input.is_some_and(|input| canonical(path).is_some_and(|p| canonical(input) == Some(p))) {
        let expected = "another file".into();
        return Err(refused(path, "the input as output".into(), expected, ""));
    }
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        let got = "something that is no file (a folder or a device)".into();
        return Err(refused(path, got, "a file to write".into(), ""));
    }
    (target.create)(Draft::new(path)?)
}

fn refused(path: &Path, got: String, expected: String, hint: &str) -> TraceError {
    let (path, hint) = (path.to_path_buf(), hint.into());
    TraceError::Malformed { path, place: Place::File, got, expected, hint }
}

/// A file that does not have its name yet.
pub struct Draft {
    path: PathBuf,
    file: BufWriter<NamedTempFile>,
}

impl Draft {
    fn new(path: &Path) -> Result<Draft, TraceError> {
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let mut builder = tempfile::Builder::new();
        builder.prefix(".forebay-").suffix(".partial");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // As any new file: the process's mask takes off what it must.
            builder.permissions(fs::Permissions::from_mode(0o666));
        }
        let file = builder.tempfile_in(folder);
        let file = file.map_err(|source| TraceError::Io { path: path.to_path_buf(), source })?;
        Ok(Draft { path: path.to_path_buf(), file: BufWriter::with_capacity(1 << 18, file) })
    }

    /// The error that writing failed.
    fn failed(&self, source: io::Error) -> TraceError {
        TraceError::Io { path: self.path.clone(), source }
    }

    /// Writes out what is left and gives the file its name.
    fn publish(self) -> Result<(), TraceError> {
        let path = self.path;
        let fail = |source| TraceError::Io { path: path.clone(), source };
        let file = self.file.into_inner().map_err(|error| fail(error.into_error()))?;
        file.as_file().sync_all().map_err(fail)?;
        file.persist(&path).map_err(|error| fail(error.error))?;
        Ok(())
    }
}

impl Write for Draft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// An entry of a dictionary, for writers that need it by name.
fn entry<T>(list: &[T], index: u32) -> Option<&T> {
    list.get(index as usize)
}
