//! Reads, compares and writes the labels of a drive.
//!
//! Labels are in the first and the second block, and in the last one if the drive has space
//! ([`Label::end_at`]). The first intact label counts. It is written last, after the others are
//! durable, so that an interruption leaves either the old or the new state. A label at the end
//! alone counts only if the beginning of the drive does not belong to something else.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;

use forebay_core::stack::array::{Geometry, Label, LabelError};
use forebay_live::checksum;

use crate::Error;
use crate::signatures::known;

const BLOCK: u64 = Label::BYTES;
/// The size of a drive's beginning. A signature there means that the drive is no longer part of a
/// volume.
const BEGIN: u64 = 1 << 20;

/// The kind of storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StorageKind {
    File,
    Device,
}

/// A drive that is labeled as part of a volume.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Labelled {
    /// The label as it should be, in the current version if the drive has space.
    pub(crate) label: Label,
    /// Whether a copy of the label is missing, damaged or different.
    pub(crate) is_worn: bool,
    /// The version of the existing label.
    pub(crate) version: u64,
}

impl Labelled {
    /// Creates the result for a drive on which all labels are equal to this one.
    pub(crate) fn whole(label: Label) -> Labelled {
        Labelled { label, is_worn: false, version: label.version }
    }
}

/// Why a drive is not usable as part of a volume.
#[derive(Debug)]
pub(crate) struct Unlabelled {
    /// The reason, as words that follow the drive's name.
    pub(crate) why: String,
    /// Whether the drive begins with zeros or the remains of a label.
    pub(crate) is_nobodys: bool,
    /// Whether the drive belongs to a volume in an unsupported format.
    pub(crate) is_unknown: bool,
}

impl Unlabelled {
    fn others(why: String) -> Unlabelled {
        Unlabelled { why, is_nobodys: false, is_unknown: false }
    }
}

/// Opens a drive for reading. Returns the file, its kind and its size.
///
/// # Errors
/// Describes the problem in words.
pub(crate) fn drive(path: &Path) -> Result<(File, StorageKind, u64), String> {
    // Anything that is not a disk is not opened, because opening a pipe would wait for a writer.
    let found = fs::metadata(path).map_err(|error| format!("cannot be opened: {error}"))?;
    let kind = match found.file_type() {
        kind if kind.is_file() => StorageKind::File,
        kind if kind.is_block_device() => StorageKind::Device,
        _ => return Err("is neither a file nor a block device".into()),
    };
    let file = File::open(path).map_err(|error| format!("cannot be opened: {error}"))?;
    let bytes = io::Seek::seek(&mut &file, io::SeekFrom::End(0));
    let bytes = bytes.map_err(|error| format!("cannot be read: {error}"))?;
    Ok((file, kind, bytes))
}

/// Returns the possible positions of labels on a drive of this size.
pub(crate) fn places(bytes: u64) -> impl Iterator<Item = u64> {
    let end = (bytes / BLOCK).saturating_sub(1) * BLOCK;
    let places = [0, BLOCK, end];
    let count = if end > BLOCK { 3 } else { 2 };
    places.into_iter().take(count)
}

/// Reads one label.
fn at(file: &File, at: u64) -> io::Result<Result<Label, LabelError>> {
    let mut bytes = [0; BLOCK as usize];
    #[cfg(test)]
    crate::killing::before_read(file, at)?;
    match file.read_exact_at(&mut bytes, at) {
        Ok(()) => Ok(Label::decode(&bytes, checksum(&bytes[8..]))),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(Err(LabelError::Absent)),
        Err(error) => Err(error),
    }
}

/// Returns whether a block begins like a label but is not a valid one.
pub(crate) fn is_torn(file: &File, place: u64) -> bool {
    matches!(at(file, place), Ok(Err(LabelError::Damaged)))
}

/// Reads the labels of a drive.
///
/// # Errors
/// The reason why there is no usable label.
pub(crate) fn read(path: &Path) -> Result<Labelled, Unlabelled> {
    let (file, _, bytes) = drive(path).map_err(Unlabelled::others)?;
    let found: Vec<io::Result<Result<Label, LabelError>>> =
        places(bytes).map(|place| at(&file, place)).collect();
    let whole = |found: &io::Result<Result<Label, LabelError>>| match found {
        Ok(Ok(label)) => Some(*label),
        _ => None,
    };
    let mut part = |at: u64, to: &mut [u8]| file.read_exact_at(to, at);
    let marked = match whole(&found[0]).or(whole(&found[1])) {
        Some(_) => None,
        None => known(bytes, &mut part).ok().flatten().filter(|(_, at)| *at < BEGIN),
    };
    let Some(label) = found.iter().find_map(whole) else {
        let mut begin = vec![0; 2 * BLOCK as usize];
        let is_zeros = file.read_exact_at(&mut begin, 0).is_ok() && begin.iter().all(|it| *it == 0);
        return Err(why_none(&found, marked, is_zeros));
    };
    if let Some((name, at)) = marked {
        return Err(Unlabelled::others(format!(
            "holds {name} (at byte {at}); of volume {:016x} it has only the label at its end",
            label.geometry.volume
        )));
    }
    let (version, label) = (label.version, label.converted(bytes));
    let is_worn = needed(&label, bytes)
        .any(|place| !matches!(at(&file, place), Ok(Ok(found)) if found == label));
    Ok(Labelled { label, is_worn, version })
}

/// Returns whether a drive contains records of a volume at the position of the first records.
pub(crate) fn has_records(path: &Path, volume: u64) -> bool {
    const RECORD: u64 = Geometry::RECORD_BYTES;
    let Ok((file, ..)) = drive(path) else { return false };
    (1..16).any(|nth| {
        let mut head = [0; 24];
        let is_read = file.read_exact_at(&mut head, nth * RECORD).is_ok();
        is_read && head[8..16] == *b"forebayR" && head[16..] == volume.to_le_bytes()
    })
}

/// Returns the positions of this label on a drive of this size.
fn needed(label: &Label, bytes: u64) -> impl Iterator<Item = u64> {
    [Some(0), Some(BLOCK), label.end_at(bytes)].into_iter().flatten()
}

/// Determines why there is no usable label.
fn why_none(
    found: &[io::Result<Result<Label, LabelError>>],
    marked: Option<(&'static str, u64)>,
    is_zeros: bool,
) -> Unlabelled {
    let version = found.iter().find_map(|it| match it {
        Ok(Err(LabelError::Version(version))) => Some(*version),
        _ => None,
    });
    if let Some(version) = version {
        let whose = if version < Label::VERSION { "an older" } else { "a newer" };
        let why = format!(
            "is a drive of a volume of format {version}, made by {whose} Forebay; this one \
             supports formats 3 and {}",
            Label::VERSION
        );
        return Unlabelled { why, is_nobodys: false, is_unknown: true };
    }
    if let Some(error) = found.iter().find_map(|it| it.as_ref().err()) {
        return Unlabelled::others(format!("its label cannot be read: {error}"));
    }
    if let Some((name, at)) = marked {
        return Unlabelled::others(format!("has no Forebay label; it holds {name} (at byte {at})"));
    }
    let is_damaged = found.iter().any(|it| matches!(it, Ok(Err(LabelError::Damaged))));
    let why = if is_damaged { "has only damaged Forebay labels" } else { "has no Forebay label" };
    Unlabelled { why: why.into(), is_nobodys: is_damaged || is_zeros, is_unknown: false }
}

/// Durably writes all copies of a label on a drive of this size.
///
/// # Errors
/// Returns the operating-system error.
pub(crate) fn write(path: &Path, label: &Label, bytes: u64) -> Result<(), Error> {
    let mut block = label.encode();
    let sum = checksum(&block[8..]);
    block[..8].copy_from_slice(&sum.to_le_bytes());
    let wrong = |error: io::Error| {
        let what = format!("its label cannot be written: {error}");
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Error::Full(format!("{}: {what}; free some space and try again", path.display()))
            }
            _ => Error::drive(path, what),
        }
    };
    let file = File::options().write(true).open(path).map_err(wrong)?;
    let places: Vec<u64> = needed(label, bytes).collect();
    for place in places.into_iter().rev() {
        #[cfg(test)]
        crate::killing::point();
        file.write_all_at(&block, place).and_then(|()| file.sync_all()).map_err(wrong)?;
    }
    Ok(())
}
