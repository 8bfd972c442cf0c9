//! The labels of a drive: read, compared, and written.
//!
//! Labels are at the first and the second block, and at the last one where the drive has room ([`Label::end_at`]). The
//! first that is whole counts, and it is written last, when the others are durable: so a cut leaves either the old
//! state or the new one. A label at the end alone counts unless the drive's begin is another's.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;

use forebay_core::stack::array::{Geometry, Label, LabelError};
use forebay_live::checksum;

use crate::error::Error;
use crate::signatures::known;

const BLOCK: u64 = Label::BYTES;
/// The begin of a drive: what has a mark of its own there is no drive of a volume any more.
const BEGIN: u64 = 1 << 20;

/// What a drive is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StorageKind {
    File,
    Device,
}

/// A drive that says of which volume it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Labelled {
    /// As it is to be: in this version, if the drive has room.
    pub(crate) label: Label,
    /// A label of it is missing, damaged or not the same.
    pub(crate) is_worn: bool,
    /// The version that it had.
    pub(crate) version: u64,
}

impl Labelled {
    /// All labels are like this one.
    pub(crate) fn whole(label: Label) -> Labelled {
        Labelled { label, is_worn: false, version: label.version }
    }
}

/// Why a drive does not say of which volume it is.
#[derive(Debug)]
pub(crate) struct Unlabelled {
    /// Words that follow its name.
    pub(crate) why: String,
    /// Whether its begin is zeros, or what is left of a label.
    pub(crate) is_nobodys: bool,
    /// Whether it is a drive of a volume, though in a format that is not understood.
    pub(crate) is_unknown: bool,
}

impl Unlabelled {
    fn others(why: String) -> Unlabelled {
        Unlabelled { why, is_nobodys: false, is_unknown: false }
    }
}

/// Opens a drive for reading: what it is, and how many bytes it has.
///
/// # Errors
/// Words on what is wrong with it.
pub(crate) fn drive(path: &Path) -> Result<(File, StorageKind, u64), String> {
    // What is no disk is not opened: a pipe would wait for whoever writes to it.
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

/// Where a drive of so many bytes may have labels.
pub(crate) fn places(bytes: u64) -> impl Iterator<Item = u64> {
    let end = (bytes / BLOCK).saturating_sub(1) * BLOCK;
    let places = [0, BLOCK, end];
    let count = if end > BLOCK { 3 } else { 2 };
    places.into_iter().take(count)
}

/// Reads one label.
fn at(file: &File, at: u64) -> io::Result<Result<Label, LabelError>> {
    let mut bytes = [0; BLOCK as usize];
    match file.read_exact_at(&mut bytes, at) {
        Ok(()) => Ok(Label::decode(&bytes, checksum(&bytes[8..]))),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(Err(LabelError::Absent)),
        Err(error) => Err(error),
    }
}

/// Whether a block begins as a label does and is none.
pub(crate) fn is_torn(file: &File, place: u64) -> bool {
    matches!(at(file, place), Ok(Err(LabelError::Damaged)))
}

/// What a drive says of itself.
///
/// # Errors
/// Why it says nothing that can be used.
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

/// Whether a drive has records of a volume where the first of them are.
pub(crate) fn has_records(path: &Path, volume: u64) -> bool {
    const RECORD: u64 = Geometry::RECORD_BYTES;
    let Ok((file, ..)) = drive(path) else { return false };
    (1..16).any(|nth| {
        let mut head = [0; 24];
        let is_read = file.read_exact_at(&mut head, nth * RECORD).is_ok();
        is_read && head[8..16] == *b"forebayR" && head[16..] == volume.to_le_bytes()
    })
}

/// Where a drive of so many bytes has this label.
fn needed(label: &Label, bytes: u64) -> impl Iterator<Item = u64> {
    [Some(0), Some(BLOCK), label.end_at(bytes)].into_iter().flatten()
}

/// Why none of these is a label that can be used.
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
            "is a drive of a volume of format {version}, made by {whose} Forebay; this one knows formats 3 and {}",
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

/// Writes a label wherever a drive of so many bytes has it, durably.
///
/// # Errors
/// What the system says.
pub(crate) fn write(path: &Path, label: &Label, bytes: u64) -> Result<(), Error> {
    let mut block = label.encode();
    let sum = checksum(&block[8..]);
    block[..8].copy_from_slice(&sum.to_le_bytes());
    let wrong = |error: io::Error| {
        let what = format!("its label cannot be written: {error}");
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Error::Full(format!("{}: {what}; make room there and try again", path.display()))
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
