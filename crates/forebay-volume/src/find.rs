//! Finding a volume by the labels of its drives.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use forebay_core::stack::array::{Geometry, Label, Level};
use forebay_live::{Opening, Target, checksum};

use crate::error::Error;

/// Bytes of a label; it stands twice.
const LABEL: usize = 4096;

/// A volume's drives, opened.
#[derive(Debug)]
pub struct Found {
    /// Its sizes.
    pub geometry: Geometry,
    /// The level of units that are written for the first time.
    pub first: Level,
    /// Its drives that are there, with their numbers.
    pub drives: Vec<(u8, Target)>,
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

/// The label of a drive, if it has one.
pub(crate) fn label(path: &Path) -> Result<Option<Label>, Error> {
    let file = File::open(path).map_err(|error| Error::drive(path, error.to_string()))?;
    let mut bytes = [0; LABEL];
    for at in 0..2 {
        // What cannot be read is no label; the other may be.
        if file.read_exact_at(&mut bytes, at * LABEL as u64).is_ok()
            && let Some(label) = Label::decode(&bytes, checksum(&bytes[8..]))
        {
            return Ok(Some(label));
        }
    }
    Ok(None)
}

/// Whether a file or device is labelled as a drive of a volume.
///
/// # Errors
/// Where it cannot be opened.
pub fn is_drive(path: &Path) -> Result<bool, Error> {
    Ok(label(path)?.is_some())
}

/// Opens the drives of a volume, for writing too if `writes`, and locks them.
///
/// # Errors
/// [`Error`] names the drive that is foreign, of another volume, short or there twice; or says that there
/// are too few.
pub fn find(paths: &[PathBuf], writes: bool) -> Result<Found, Error> {
    found(paths, writes, true)
}

/// The same, to write, through the page cache: where the time that drives take is another's, as with emulated ones.
///
/// # Errors
/// As [`find`].
pub fn find_cached(paths: &[PathBuf]) -> Result<Found, Error> {
    found(paths, true, false)
}

fn found(paths: &[PathBuf], writes: bool, direct: bool) -> Result<Found, Error> {
    let mut labels: Vec<(PathBuf, Label)> = Vec::new();
    for path in drives_in(paths)? {
        let Some(label) = label(&path)? else {
            let what = "got no label, expected a drive of a volume (forebay volume create)";
            return Err(Error::drive(&path, what));
        };
        labels.push((path, label));
    }
    let Some((first_path, first)) = labels.first().cloned() else {
        return Err(Error::Volume("got no drives, expected those of a volume".into()));
    };
    for (at, (path, label)) in labels.iter().enumerate() {
        if label.geometry != first.geometry || label.first != first.first {
            let what = format!(
                "is a drive of volume {:016x}, while {} is one of volume {:016x}",
                label.geometry.volume,
                first_path.display(),
                first.geometry.volume
            );
            return Err(Error::drive(path, what));
        }
        if let Some((other, _)) = labels[..at].iter().find(|(_, it)| it.drive == label.drive) {
            let what = format!(
                "is drive {} of the volume, and so is {}: got a copy, expected each drive once",
                label.drive,
                other.display()
            );
            return Err(Error::drive(path, what));
        }
    }
    let Label { geometry, first: level, .. } = first;
    let least = usize::from(geometry.lanes) - level.tolerates();
    if labels.len() < least {
        return Err(Error::Volume(format!(
            "volume {:016x}: got {} of its {} drives, expected at least {least}; nothing was written",
            geometry.volume,
            labels.len(),
            geometry.lanes
        )));
    }
    let mut drives = Vec::new();
    for (path, label) in labels {
        drives.push((label.drive, opened(&path, geometry.lane_bytes(), writes, direct)?));
    }
    Ok(Found { geometry, first: level, drives })
}

/// A drive of a volume, locked.
pub(crate) fn opened(
    path: &Path,
    need_bytes: u64,
    writes: bool,
    direct: bool,
) -> Result<Target, Error> {
    let target = Target::open(path, Opening { writes, overwrite: true, need_bytes: 0, direct })?;
    if target.capacity_bytes() < need_bytes {
        let what = format!("got {} bytes, expected {need_bytes}", target.capacity_bytes());
        return Err(Error::drive(path, what));
    }
    lock(&target, writes)?;
    Ok(target)
}

/// Keeps others from a drive.
pub(crate) fn lock(target: &Target, writes: bool) -> Result<(), Error> {
    if target.lock(writes)? {
        return Ok(());
    }
    Err(Error::drive(target.path(), "is in use by another process; nothing was written"))
}
