//! Other drives for a volume: in the place of missing ones, or more of them.
//!
//! A new drive has its label first, with a number above all others. It is a drive of the volume once a
//! record names it; until then opening the volume leaves it alone.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use forebay_core::stack::array::{Census, Kind, Label};
use forebay_live::checksum;

use crate::create::{DRIVES_MAX, refuse_twice, refuse_used};
use crate::error::Error;
use crate::find::{Found, drives_in, find, opened};
use crate::moved::Tell;
use crate::open::{Opened, opening, status};

/// The highest number of a drive.
const NUMBER_MAX: u8 = 254;

/// Has the drive at `new` take the place of a missing one, and makes anew what that held; tells what is moved.
///
/// # Errors
/// Where it is none, no drive is missing, or the new one is too small.
pub fn replace(
    paths: &[PathBuf],
    new: &Path,
    overwrite: bool,
    tell: Tell<'_>,
) -> Result<Opened, Error> {
    let before = status(paths)?;
    if missing(&before.census).is_empty() {
        return Err(Error::Volume(
            "got all drives of the volume, expected one to be missing".into(),
        ));
    }
    let found = with_new(paths, &[new.to_path_buf()], &before.census, overwrite)?;
    opening(found.array().mending(), found, Some(before.lacking_bytes()), tell)
}

/// Adds the drives at `new`, if any, which are of that kind, spreads what the volume holds over all drives, and promises as much
/// as they then have room for: drives that have become larger count too. Answers what it was like before,
/// and after; tells what is moved.
///
/// # Errors
/// Where it is none, a drive is missing, or a new one is too small.
pub fn grow(
    paths: &[PathBuf],
    new: &[PathBuf],
    kind: Kind,
    overwrite: bool,
    tell: Tell<'_>,
) -> Result<(Opened, Opened), Error> {
    let before = status(paths)?;
    if let [number, ..] = missing(&before.census)[..] {
        return Err(Error::Volume(format!(
            "got a volume whose drive {number} is missing, expected all of them (forebay volume replace \
             gives it another)"
        )));
    }
    let count = before.census.members.len() + new.len();
    if count > DRIVES_MAX.into() {
        return Err(Error::Volume(format!("got {count} drives, expected at most {DRIVES_MAX}")));
    }
    let found = with_new(paths, new, &before.census, overwrite)?;
    Ok((before, opening(found.array().growing(kind).mending(), found, None, tell)?))
}

/// Numbers of drives that are not there.
fn missing(census: &Census) -> Vec<u8> {
    let is_there = |number: &u8| census.drives.iter().any(|drive| drive.number == *number);
    census.members.iter().copied().filter(|number| !is_there(number)).collect()
}

/// The volume's drives and new ones, with their labels.
fn with_new(
    paths: &[PathBuf],
    new: &[PathBuf],
    census: &Census,
    overwrite: bool,
) -> Result<Found, Error> {
    let before = drives_in(paths)?;
    for (at, path) in new.iter().enumerate() {
        refuse_twice(path, &before)?;
        refuse_twice(path, &new[..at])?;
        refuse_used(path, overwrite)?;
    }
    let mut found = find(paths, true)?;
    // Those of drives that a record never came to name are not used again either.
    let used = found.drives.iter().map(|(number, _)| number).chain(&census.members).max();
    let first = usize::from(used.copied().unwrap_or(0)) + 1;
    if first + new.len() > usize::from(NUMBER_MAX) + 1 {
        return Err(Error::Volume(format!(
            "got a volume that had {} drives, one after another, expected at most {NUMBER_MAX}",
            first - 1
        )));
    }
    let mut targets = Vec::new();
    for path in new {
        targets.push(opened(path, found.geometry.lane_bytes(), true, true)?);
    }
    for ((number, path), target) in (first as u8..).zip(new).zip(targets) {
        let label = Label { geometry: found.geometry, drive: number, first: found.first };
        write_label(path, label)?;
        found.drives.push((number, target));
    }
    Ok(found)
}

fn write_label(path: &Path, label: Label) -> Result<(), Error> {
    let mut bytes = label.encode();
    let sum = checksum(&bytes[8..]);
    bytes[..8].copy_from_slice(&sum.to_le_bytes());
    let wrong = |error: std::io::Error| Error::drive(path, error.to_string());
    let file = std::fs::File::options().write(true).open(path).map_err(wrong)?;
    (0..2).try_for_each(|at| file.write_all_at(&bytes, at * bytes.len() as u64)).map_err(wrong)?;
    file.sync_all().map_err(wrong)
}
