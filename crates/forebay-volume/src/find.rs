//! Finding a volume by the labels of its drives.
//!
//! Of the paths that are named, those whose labels say that they are drives of one volume are used. Whatever else
//! is among them counts as missing, and is told: it never keeps the others from being opened.

use std::fs;
use std::path::{Path, PathBuf};

use forebay_core::stack::array::{DriveStage, Geometry, Label, Level};
use forebay_live::{Opening, Target};

use crate::error::Error;
use crate::labels::{self, Labelled, Unlabelled};

/// A volume's drives, opened.
#[derive(Debug)]
pub struct Found {
    /// Its sizes.
    pub geometry: Geometry,
    /// The level of units that are written for the first time.
    pub first: Level,
    /// Its drives that are there, with their numbers.
    pub drives: Vec<(u8, Target)>,
    /// Paths that are not used, though they were named.
    pub others: Vec<NonMember>,
    /// What was done to labels, one sentence each.
    pub notes: Vec<String>,
    /// Of `drives`.
    pub(crate) labels: Vec<Labelled>,
}

/// A path that was named among a volume's drives and is not used as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NonMember {
    /// Which.
    pub path: PathBuf,
    /// What is wrong with it: words that follow its name.
    pub why: String,
    /// Whether nothing on it says that it is anybody else's.
    pub is_nobodys: bool,
}

/// How the drives of a volume are to be had.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub(crate) writes: bool,
    /// Past the page cache.
    pub(crate) direct: bool,
}

impl Access {
    pub(crate) const READ: Access = Access { writes: false, direct: true };
    pub(crate) const WRITE: Access = Access { writes: true, direct: true };
}

/// The drives that `paths` name: each file of a folder, by name, and whatever else as it is.
///
/// # Errors
/// Where a folder cannot be read.
pub fn drives_in(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    let mut all = Vec::new();
    for path in paths {
        if !path.is_dir() {
            all.push(path.clone());
            continue;
        }
        let listed = fs::read_dir(path).map_err(|error| Error::drive(path, error.to_string()))?;
        let files = listed.filter_map(|entry| Some(entry.ok()?.path()));
        let mut files: Vec<PathBuf> = files.filter(|path| !path.is_dir()).collect();
        files.sort();
        if files.is_empty() {
            return Err(Error::drive(path, "got an empty folder, expected the drives of a volume"));
        }
        all.extend(files);
    }
    Ok(all)
}

/// Whether a file or device is labelled as a drive of a volume.
///
/// # Errors
/// Where it cannot be opened.
pub fn is_drive(path: &Path) -> Result<bool, Error> {
    labels::drive(path).map_err(|why| Error::drive(path, why))?;
    Ok(labels::read(path).is_ok())
}

/// Opens the drives of a volume, for writing too if `writes`, and locks them. Labels that are missing, damaged
/// or of an older version are written anew where drives are opened for writing.
///
/// # Errors
/// [`Error`] says that there are too few, or names the drive that is there twice, in use, or of a second volume
/// that is as complete.
pub fn find(paths: &[PathBuf], writes: bool) -> Result<Found, Error> {
    let access = if writes { Access::WRITE } else { Access::READ };
    let mut found = found(&drives_in(paths)?, access)?;
    if writes {
        found.mend_labels();
    }
    Ok(found)
}

/// The same, to write, through the page cache: where the time that drives take is another's, as with emulated ones.
///
/// # Errors
/// As [`find`].
pub fn find_cached(paths: &[PathBuf]) -> Result<Found, Error> {
    let mut found = found(&drives_in(paths)?, Access { writes: true, direct: false })?;
    found.mend_labels();
    Ok(found)
}

/// The same of these very drives; labels stay as they are.
pub(crate) fn found(drives: &[PathBuf], access: Access) -> Result<Found, Error> {
    if drives.is_empty() {
        return Err(Error::Volume("got no drives, expected those of a volume".into()));
    }
    let mut others = Vec::new();
    let mut labelled = Vec::new();
    for path in drives {
        match labels::read(path) {
            Ok(labels) => labelled.push((path.clone(), labels)),
            Err(Unlabelled { why, is_nobodys }) => {
                others.push(NonMember { path: path.clone(), why, is_nobodys });
            }
        }
    }
    let Some(of) = volume(&labelled)? else { return Err(none(&others)) };
    let is_made = labelled
        .iter()
        .any(|(_, it)| is_of(&it.label, &of) && it.label.stage == DriveStage::Member);
    let (geometry, first) = (of.geometry, of.first);
    let mut found =
        Found { geometry, first, drives: Vec::new(), others, notes: Vec::new(), labels: Vec::new() };
    for (path, it) in labelled {
        match refused(&it.label, &of, is_made) {
            Some(why) => found.others.push(NonMember { path, why, is_nobodys: false }),
            None => found.take(&path, it, access)?,
        }
    }
    let least = usize::from(geometry.lanes) - first.tolerates();
    if found.drives.len() >= least {
        return Ok(found);
    }
    let why: String =
        found.others.iter().map(|it| format!("; {} {}", it.path.display(), it.why)).collect();
    Err(Error::Volume(format!(
        "volume {:016x}: got {} of its {} drives, expected at least {least}; nothing was written{why}",
        geometry.volume,
        found.drives.len(),
        geometry.lanes
    )))
}

/// Why a drive with this label is no member of a volume, if it is none.
fn refused(label: &Label, of: &Label, is_made: bool) -> Option<String> {
    if !is_of(label, of) {
        return Some(format!("is a drive of volume {:016x}", label.geometry.volume));
    }
    (label.stage == DriveStage::Making && !is_made).then(|| {
        "is of a volume whose making was cut short: the same `forebay volume create` makes it anew"
            .into()
    })
}

/// Whether both labels are of one volume.
pub(crate) fn is_of(one: &Label, other: &Label) -> bool {
    (one.geometry, one.first) == (other.geometry, other.first)
}

/// A label of the volume that is meant: the one of which enough drives are there, or else most.
fn volume(labelled: &[(PathBuf, Labelled)]) -> Result<Option<Label>, Error> {
    let mut volumes: Vec<(Label, &Path, usize)> = Vec::new();
    for (path, Labelled { label, .. }) in labelled {
        match volumes.iter_mut().find(|(of, ..)| is_of(label, of)) {
            Some((_, _, count)) => *count += 1,
            None => volumes.push((*label, path, 1)),
        }
    }
    let is_enough = |(of, _, count): &&(Label, &Path, usize)| {
        count + of.first.tolerates() >= of.geometry.lanes.into()
    };
    let enough: Vec<_> = volumes.iter().filter(is_enough).collect();
    if let [(one, path, _), (other, second, _), ..] = enough[..] {
        let what = format!(
            "is a drive of volume {:016x}, while {} is one of volume {:016x}: expected the drives of one volume",
            other.geometry.volume,
            path.display(),
            one.geometry.volume
        );
        return Err(Error::drive(second, what));
    }
    // The first of those that have most.
    let most = volumes.iter().rev().max_by_key(|(_, _, count)| *count);
    Ok(enough.first().copied().or(most).map(|(of, ..)| *of))
}

/// None of the paths is a drive of a volume.
fn none(others: &[NonMember]) -> Error {
    let Some(NonMember { path, why, .. }) = others.first() else {
        return Error::Volume("got no drives, expected those of a volume".into());
    };
    Error::drive(path, format!("{why}, expected a drive of a volume (forebay volume create)"))
}

impl Found {
    /// Opens one more drive, which is missing if it cannot be.
    fn take(&mut self, path: &Path, labels: Labelled, access: Access) -> Result<(), Error> {
        let number = labels.label.drive;
        if let Some((_, other)) = self.drives.iter().find(|(it, _)| *it == number) {
            let what = format!(
                "is drive {number} of the volume, and so is {}: got a copy, expected each drive once",
                other.path().display()
            );
            return Err(Error::drive(path, what));
        }
        match opened(path, self.geometry.lane_bytes(), access) {
            Ok(target) => {
                self.drives.push((number, target));
                self.labels.push(labels);
                Ok(())
            }
            Err(Opened::Missing(why)) => {
                self.others.push(NonMember { path: path.to_path_buf(), why, is_nobodys: false });
                Ok(())
            }
            Err(Opened::Refused(error)) => Err(error),
        }
    }

    /// Writes labels anew that are not as they should be.
    pub(crate) fn mend_labels(&mut self) {
        for ((_, target), labels) in self.drives.iter().zip(&mut self.labels) {
            let stage = match labels.label.stage {
                DriveStage::Making => DriveStage::Member,
                stage => stage,
            };
            let label = Label { stage, ..labels.label };
            if !labels.is_worn && label == labels.label {
                continue;
            }
            self.notes.push(match labels::write(target.path(), &label, target.capacity_bytes()) {
                Ok(()) => format!(
                    "{}: its labels were not all there, whole and of format {}; they are written anew",
                    target.path().display(),
                    label.version
                ),
                // The label that was found is enough.
                Err(error) => error.to_string(),
            });
            *labels = Labelled { label, is_worn: false };
        }
    }
}

/// Why a drive is not opened.
pub(crate) enum Opened {
    /// It counts as missing.
    Missing(String),
    /// Somebody uses it: then the volume is not for us.
    Refused(Error),
}

/// A drive of a volume, locked.
pub(crate) fn opened(path: &Path, need_bytes: u64, access: Access) -> Result<Target, Opened> {
    let Access { writes, direct } = access;
    let how = Opening { writes, overwrite: true, need_bytes: 0, direct };
    let target = Target::open(path, how).map_err(|error| match error.is_in_use {
        true => Opened::Refused(error.into()),
        false => Opened::Missing(error.what),
    })?;
    let got = target.capacity_bytes();
    if got < need_bytes {
        return Err(Opened::Missing(format!("got {got} bytes, expected {need_bytes}")));
    }
    lock(&target, writes).map_err(Opened::Refused)?;
    Ok(target)
}

/// Keeps others from a drive.
pub(crate) fn lock(target: &Target, writes: bool) -> Result<(), Error> {
    if target.lock(writes)? {
        return Ok(());
    }
    Err(Error::drive(target.path(), "is in use by another process; nothing was written"))
}
