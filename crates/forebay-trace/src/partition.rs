//! Splits a trace into a folder with one canonical Parquet file per volume, in bounded memory.
//!
//! There are two steps. First, the trace is read once, and its records are stored by volume in a
//! spool in the folder (34 bytes per request). Then, each volume is written to its own file. A file
//! gets its name only when it is complete. `manifest.json` is written last, and the spool is
//! deleted.
//!
//! If the first step is interrupted, a rerun starts over. In the second step, an interruption loses
//! nothing: a rerun with the same input does not read it again, and writes only the missing
//! volumes. A different input is rejected.
//!
//! As in every trace, the times in each file count from its first request. The manifest records
//! when that was in the whole trace (`first_ns`). Each file records when that was on the source's
//! own clock or, if that is unknown, relative to the whole trace.

pub(crate) mod merge;
mod spool;

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use self::spool::{Extent, Runs, Spool};
use crate::formats::FORMATS;
use crate::formats::parquet::canonical::StreamText;
use crate::write::{self, ProtectedFiles};
use crate::{Dictionary, Notes, Place, Record, Stream, TraceError};

/// The file that lists the volumes and marks the partition as complete.
const MANIFEST: &str = "manifest.json";
/// The folder that contains an incomplete partition.
const WORK: &str = ".forebay-partition";

/// The source of a partition, which shows whether a rerun has the same input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The absolute path of the input.
    pub path: PathBuf,
    /// The format that the user specified.
    pub from: Option<String>,
    /// The size of the input, or `None` if the path refers to a set of files.
    pub size_bytes: Option<u64>,
    /// The input's modification time since 1970, or `None` if the path refers to a set of files.
    pub modified_ns: Option<u64>,
}

impl Source {
    fn of(input: &Path, from: Option<&str>) -> Source {
        let found = fs::metadata(input).ok().filter(fs::Metadata::is_file);
        let modified = found.as_ref().and_then(|found| found.modified().ok());
        let modified = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        Source {
            path: std::path::absolute(input).unwrap_or_else(|_| input.to_path_buf()),
            from: from.map(str::to_owned),
            size_bytes: found.map(|found| found.len()),
            modified_ns: modified.map(|since| since.as_nanos() as u64),
        }
    }
}

/// A volume of a finished partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The volume's name.
    pub volume: String,
    /// The name of the volume's file in the folder.
    pub file: String,
    /// The number of requests.
    pub requests: u64,
    /// When the first request arrived, relative to the first request of the whole trace.
    pub first_ns: u64,
    /// When the last request arrived, relative to the first request of the whole trace.
    pub last_ns: u64,
}

/// The contents of a finished partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The source of the partition.
    pub source: Source,
    /// When the whole trace began on the source's own clock, or `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_ns: Option<u64>,
    /// The volumes that have requests.
    pub parts: Vec<Part>,
}

/// Everything that the second step needs.
#[derive(Serialize, Deserialize)]
struct Sealed {
    source: Source,
    #[serde(default)]
    began_ns: Option<u64>,
    format: String,
    streams: Vec<StreamText>,
    volumes: Vec<String>,
    extents: Vec<Extent>,
}

/// The state of a partition.
pub enum Partition {
    /// The partition is complete.
    Finished(Manifest),
    /// The trace was read, but volumes remain to be written.
    Read(Volumes),
    /// The trace must be read.
    Begun(Intake),
}

/// Finds or begins the partition of `input`, read in the format `from`, in `folder`.
///
/// # Errors
/// Fails if the folder contains something else or cannot be created.
pub fn open(folder: &Path, input: &Path, from: Option<&str>) -> Result<Partition, TraceError> {
    let source = Source::of(input, from);
    let same = |found: &Source| {
        let got = format!("a partition of {}", found.path.display());
        let hint = "remove it, or specify another folder";
        let expected = "a new folder, or a folder of the same, unchanged input";
        if *found == source { Ok(()) } else { Err(refused(folder, got, expected, hint)) }
    };
    if let Some(manifest) = load::<Manifest>(&folder.join(MANIFEST))? {
        same(&manifest.source)?;
        if let Some(part) = manifest.parts.iter().find(|part| !folder.join(&part.file).is_file()) {
            let (got, expected) = (format!("no file {}", part.file), "every file of its manifest");
            return Err(refused(folder, got, expected, "remove the folder and convert again"));
        }
        return Ok(Partition::Finished(manifest));
    }
    let work = folder.join(WORK);
    if let Some(sealed) = load::<Sealed>(&work.join("sealed.json"))? {
        same(&sealed.source)?;
        return Ok(Partition::Read(Volumes { folder: folder.to_path_buf(), sealed }));
    }
    if let Ok(mut entries) = fs::read_dir(folder)
        && entries.any(|entry| entry.is_ok_and(|entry| entry.file_name() != WORK))
    {
        let (got, expected) = ("a folder with other files".into(), "a new or an empty folder");
        return Err(refused(folder, got, expected, "name another folder"));
    }
    fs::create_dir_all(&work).map_err(|source| io_error(folder, source))?;
    let path = work.join("spool");
    ProtectedFiles::trace(input).refuse(&path)?;
    let file = File::create(&path).map_err(|error| io_error(&path, error))?;
    Ok(Partition::Begun(Intake { folder: folder.to_path_buf(), source, spool: Spool::new(file) }))
}

/// Returns whether `folder` contains a finished partition.
pub(crate) fn is_finished(folder: &Path) -> bool {
    load::<Manifest>(&folder.join(MANIFEST)).is_ok_and(|manifest| manifest.is_some())
}

/// Returns the files of a finished partition.
pub(crate) fn files(folder: &Path) -> Option<Vec<PathBuf>> {
    let manifest = load::<Manifest>(&folder.join(MANIFEST)).ok().flatten()?;
    let parts = manifest.parts.iter().map(|part| folder.join(&part.file));
    Some(parts.chain([folder.join(MANIFEST)]).collect())
}

/// The first step of splitting a trace: stores its records in the spool.
pub struct Intake {
    folder: PathBuf,
    source: Source,
    spool: Spool,
}

impl Intake {
    /// Adds records. They must be in order of time.
    pub fn add(&mut self, batch: &[Record]) -> Result<(), TraceError> {
        self.spool.add(batch).map_err(|source| io_error(&self.folder, source))
    }

    /// Completes the first step. From then on, an interruption loses nothing.
    pub fn seal(self, dictionary: &Dictionary, notes: &Notes) -> Result<Volumes, TraceError> {
        let fail = |source| io_error(&self.folder, source);
        let extents = self.spool.seal().map_err(fail)?;
        let sealed = Sealed {
            source: self.source,
            began_ns: notes.began.map(|began| began.0),
            format: notes.format.into(),
            streams: dictionary.streams.iter().map(StreamText::from).collect(),
            volumes: dictionary.volumes.clone(),
            extents,
        };
        let work = self.folder.join(WORK);
        store(&work, "sealed.json", &sealed).map_err(fail)?;
        Ok(Volumes { folder: self.folder, sealed })
    }
}

/// The second step of splitting a trace: writes the volumes.
pub struct Volumes {
    folder: PathBuf,
    sealed: Sealed,
}

impl Volumes {
    /// Returns the total number of requests of all volumes.
    pub fn requests(&self) -> u64 {
        self.sealed.extents.iter().map(|extent| extent.requests).sum()
    }

    /// Writes each missing volume, and finally the manifest. Calls `go_on` with the number of
    /// requests done. If that returns false, the result is `None`, and files that were written
    /// remain for the next run.
    pub fn write(self, mut go_on: impl FnMut(u64) -> bool) -> Result<Option<Manifest>, TraceError> {
        let work = self.folder.join(WORK);
        let path = work.join("spool");
        let mut spool = File::open(&path).map_err(|error| io_error(&path, error))?;
        let streams: Vec<Stream> = self.sealed.streams.iter().map(Stream::from).collect();
        let (parts, mut done) = (self.parts(), 0);
        for (part, extent) in &parts {
            let file = self.folder.join(&part.file);
            if !file.exists() {
                let mut runs = Runs::new(&mut spool, extent).map_err(|e| io_error(&path, e))?;
                // Drafts that a killed process left behind are deleted with the work folder.
                let whole = work.join(&part.file);
                let mut go_on = |of_volume| go_on(done + of_volume);
                if !self.volume(&whole, part, &mut runs, &streams, &mut go_on)? {
                    return Ok(None);
                }
                fs::rename(&whole, &file).map_err(|error| io_error(&file, error))?;
            }
            done += part.requests;
            if !go_on(done) {
                return Ok(None);
            }
        }
        let parts = parts.into_iter().map(|(part, _)| part).collect();
        let Sealed { source, began_ns, .. } = self.sealed;
        let manifest = Manifest { source, began_ns, parts };
        let fail = |source| io_error(&self.folder, source);
        store(&self.folder, MANIFEST, &manifest).map_err(fail)?;
        fs::remove_dir_all(&work).map_err(fail)?;
        Ok(Some(manifest))
    }

    /// Returns the volumes that have requests, each with a unique file name.
    fn parts(&self) -> Vec<(Part, Extent)> {
        let mut taken = HashSet::new();
        let filled = self.sealed.extents.iter().enumerate().filter(|(_, e)| e.requests > 0);
        let part = |(number, extent): (usize, &Extent)| {
            let volume = self.sealed.volumes.get(number).cloned().unwrap_or_default();
            let mut file = file_name(&volume, number);
            // Names must also be unique in a file system that ignores case.
            if !taken.insert(file.to_lowercase()) {
                file = format!("volume-{number}.parquet");
                taken.insert(file.clone());
            }
            let Extent { requests, first_ns, last_ns, .. } = *extent;
            (Part { volume, file, requests, first_ns, last_ns }, extent.clone())
        };
        filled.map(part).collect()
    }

    /// Writes a volume. Returns whether it was completed.
    fn volume(
        &self,
        file: &Path,
        part: &Part,
        runs: &mut Runs<'_>,
        streams: &[Stream],
        go_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<bool, TraceError> {
        let mut writer = write::create(file, Some("parquet"), &ProtectedFiles::default())?;
        let mut dictionary = Dictionary { volumes: vec![part.volume.clone()], streams: Vec::new() };
        let (mut own, mut batch, mut done) = (HashMap::new(), Vec::new(), 0);
        loop {
            runs.next(&mut batch).map_err(|source| io_error(&self.folder, source))?;
            if batch.is_empty() {
                break;
            }
            for record in &mut batch {
                record.at = record.at - forebay_core::Nanos(part.first_ns);
                record.stream = *own.entry(record.stream).or_insert_with(|| {
                    let stream = streams.get(record.stream as usize).cloned();
                    dictionary.streams.push(stream.unwrap_or_default());
                    (dictionary.streams.len() - 1) as u32
                });
            }
            writer.write(&batch, &dictionary)?;
            done += batch.len() as u64;
            if done < part.requests && !go_on(done) {
                return Ok(false);
            }
        }
        let format = FORMATS.iter().find(|format| format.name == self.sealed.format);
        let format = format.map_or("", |format| format.name);
        let began = self.sealed.began_ns.unwrap_or(0).saturating_add(part.first_ns);
        let began = Some(forebay_core::Nanos(began));
        writer.finish(&dictionary, &Notes { format, began, ..Notes::default() })?;
        Ok(true)
    }
}

/// The maximum length of a file name's stem, which every file system supports.
const STEM_BYTES_MAX: usize = 200;

/// Converts the name of a volume to the name of a file.
fn file_name(volume: &str, number: usize) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let stem: String = volume.chars().map(|c| if plain(c) { c } else { '_' }).collect();
    match stem.is_empty() || stem.starts_with('.') || stem.len() > STEM_BYTES_MAX {
        true => format!("volume-{number}.parquet"),
        false => format!("{stem}.parquet"),
    }
}

/// The maximum size of a file that Forebay wrote, in which names may take 32 MiB.
const OURS_MAX: u64 = 256 << 20;

/// Reads a file that Forebay wrote. Returns `None` if it does not exist.
fn load<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<Option<T>, TraceError> {
    let mut text = String::new();
    let read = fs::File::open(path).and_then(|file| file.take(OURS_MAX).read_to_string(&mut text));
    match read {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(None),
        Err(error) => return Err(io_error(path, error)),
    };
    serde_json::from_str(&text).map(Some).map_err(|error| {
        let got = format!("content that cannot be read ({error})");
        refused(path, got, "what forebay wrote", "remove the folder and start over")
    })
}

/// Writes a file that [`load`] reads, atomically.
fn store(folder: &Path, name: &str, value: &impl Serialize) -> io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    serde_json::to_writer_pretty(&mut file, value)?;
    file.flush()?;
    file.as_file().sync_all()?;
    file.persist(folder.join(name))?;
    Ok(())
}

fn io_error(path: &Path, source: io::Error) -> TraceError {
    TraceError::Io { path: path.to_path_buf(), source }
}

fn refused(path: &Path, got: String, expected: &str, hint: &str) -> TraceError {
    TraceError::Malformed {
        path: path.to_path_buf(),
        place: Place::File,
        got,
        expected: expected.into(),
        hint: hint.into(),
    }
}
