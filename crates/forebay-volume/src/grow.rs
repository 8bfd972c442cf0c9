//! Replaces missing drives of a volume, or adds more.
//!
//! Both may be interrupted at any time; running the same command again continues, because the
//! drives' labels record the progress ([`crate::joining`]).

use std::fs;
use std::path::{Path, PathBuf};

use forebay_core::stack::array::{DriveKind, DriveStage, Label};

use crate::create::{DRIVES_MAX, refuse_twice};
use crate::find::{Access, FoundVolume, drives_in, found, is_of};
use crate::joining::{Newcomer, Standing, join, settle};
use crate::labels::{self, Labelled};
use crate::open::{Opened, look, opening};
use crate::{Error, Tell};

/// Replaces a missing drive with the drive at `new`, rebuilds its data, and reports progress. If
/// that has already been done, checks the volume again.
///
/// # Errors
/// The paths are not a volume, no drive is missing, or the new drive is too small.
pub fn replace(
    paths: &[PathBuf],
    new: &Path,
    overwrite: bool,
    tell: Tell<'_>,
) -> Result<Opened, Error> {
    let asked = NamedDrives::of(paths, &[new.to_path_buf()])?;
    let before = asked.look()?;
    let is_whole = before.missing().is_empty();
    let volume = asked.volume(&before)?;
    let is_own = labels::read(new).is_ok_and(|it| is_of(&it.label, &volume));
    let none_missing = || {
        let what = "no drive of the volume is missing, so there is nothing to replace (forebay volume grow adds drives)";
        Err(Error::Volume(what.into()))
    };
    if is_whole && !is_own {
        return none_missing();
    }
    let newcomer = Newcomer::of(new, &volume, &before.census.members, &asked.drives, overwrite)?;
    if is_whole && !newcomer.is_member() {
        return none_missing();
    }
    let newcomers = [newcomer];
    let found = asked.found(&newcomers, &before)?;
    let bytes = Some(before.lacking_bytes());
    let opened = opening(found.array_joined_by(&newcomers).mending(), found, bytes, tell)?;
    ended(opened, &newcomers)
}

/// Adds the drives at `new`, if any, which are of the given kind, redistributes the data over all
/// drives, and increases the volume's capacity accordingly. Existing drives that have become larger
/// also count. Returns the states before and after; reports progress. Half-joined drives among
/// `paths` count as new ones.
///
/// # Errors
/// The paths are not a volume, a drive is missing, or a new drive is too small.
pub fn grow(
    paths: &[PathBuf],
    new: &[PathBuf],
    kind: DriveKind,
    overwrite: bool,
    tell: Tell<'_>,
) -> Result<(Opened, Opened), Error> {
    let asked = NamedDrives::of(paths, new)?.with_joining();
    let before = asked.look()?;
    let volume = asked.volume(&before)?;
    let newcomer = |path: &PathBuf| {
        Newcomer::of(path, &volume, &before.census.members, &asked.drives, overwrite)
    };
    let newcomers: Vec<Newcomer> = asked.new.iter().map(newcomer).collect::<Result<_, _>>()?;
    if newcomers.iter().all(Newcomer::is_member) {
        new.iter().try_for_each(|path| refuse_twice(path, &asked.named))?;
    }
    let joined: Vec<u8> = newcomers.iter().filter_map(Newcomer::number).collect();
    if let Some(number) = before.missing().into_iter().find(|number| !joined.contains(number)) {
        return Err(Error::Volume(format!(
            "drive {number} is missing, and only a complete volume can grow; replace the drive \
             first (forebay volume replace)"
        )));
    }
    let more = newcomers.iter().filter(|it| !it.is_member()).count();
    let count = before.census.members.len() + more;
    if count > DRIVES_MAX.into() {
        return Err(Error::Volume(format!(
            "the volume would have {count} drives; the maximum is {DRIVES_MAX}"
        )));
    }
    let found = asked.found(&newcomers, &before)?;
    let array = found.array_joined_by(&newcomers).growing(kind).mending();
    let opened = opening(array, found, None, tell)?;
    Ok((before, ended(opened, &newcomers)?))
}

/// The drives named in a command.
struct NamedDrives {
    /// The paths given as the volume.
    named: Vec<PathBuf>,
    /// The drives among them that are not new.
    drives: Vec<PathBuf>,
    new: Vec<PathBuf>,
}

impl NamedDrives {
    /// Expands the paths. New drives may be in the volume's folder, where they will stay.
    fn of(paths: &[PathBuf], new: &[PathBuf]) -> Result<NamedDrives, Error> {
        for (at, path) in new.iter().enumerate() {
            refuse_twice(path, &new[..at])?;
        }
        let named = drives_in(paths)?;
        let is_new = |path: &PathBuf| {
            let real = fs::canonicalize(path).ok();
            real.is_some() && new.iter().any(|new| fs::canonicalize(new).ok() == real)
        };
        let drives = named.iter().filter(|path| !is_new(path)).cloned().collect();
        Ok(NamedDrives { named, drives, new: new.to_vec() })
    }

    /// Moves joining drives to the new ones.
    fn with_joining(mut self) -> NamedDrives {
        let labels: Vec<Label> =
            self.drives.iter().filter_map(|path| Some(labels::read(path).ok()?.label)).collect();
        let is_whole = |other: &Label| other.stage != DriveStage::Joining;
        let joins = |path: &PathBuf| {
            labels::read(path).is_ok_and(|Labelled { label, .. }| {
                let has_others = labels.iter().any(|it| is_of(it, &label) && is_whole(it));
                !is_whole(&label) && has_others
            })
        };
        let (joining, drives) = self.drives.into_iter().partition(joins);
        self.drives = drives;
        self.new.extend::<Vec<PathBuf>>(joining);
        self
    }

    /// Opens the volume without the new drives, or with those that already belong to it if it needs
    /// them.
    fn look(&self) -> Result<Opened, Error> {
        look(&self.drives, Access::WRITE).or_else(|error| {
            let labelled: Vec<PathBuf> =
                self.new.iter().filter(|path| labels::read(path).is_ok()).cloned().collect();
            match labelled.is_empty() {
                true => Err(error),
                false => look(&[&self.drives[..], &labelled].concat(), Access::WRITE),
            }
        })
    }

    /// Returns a label of the volume.
    fn volume(&self, opened: &Opened) -> Result<Label, Error> {
        let labels = self.drives.iter().chain(&self.new).filter_map(|path| labels::read(path).ok());
        let is_it = |label: &Label| label.geometry.volume == opened.geometry.volume;
        let label = labels.map(|it| it.label).find(is_it);
        label.ok_or_else(|| {
            Error::Volume("the labels of the volume's drives have disappeared".into())
        })
    }

    /// Opens all drives, including the new ones, for writing.
    fn found(&self, newcomers: &[Newcomer], before: &Opened) -> Result<FoundVolume, Error> {
        let members = newcomers.iter().filter(|it| it.is_member()).map(|it| it.path.clone());
        let drives: Vec<PathBuf> = self.drives.iter().cloned().chain(members).collect();
        let mut found = found(&drives, Access::WRITE)?;
        found.mend_labels();
        let is_left_out = |it: &&Newcomer| found.others.iter().any(|other| other.path == it.path);
        if let Some(Newcomer { path, .. }) = newcomers.iter().find(is_left_out) {
            let other = found.others.iter().find(|other| other.path == *path);
            let why = other.map_or_else(String::new, |other| other.why.clone());
            return Err(Error::drive(path, why));
        }
        join(&mut found, newcomers, &before.census)?;
        Ok(found)
    }
}

impl Newcomer {
    fn number(&self) -> Option<u8> {
        match self.is {
            Standing::Member(number) | Standing::Joining(number) => Some(number),
            Standing::New => None,
        }
    }
}

/// Completes the result once the new drives contain their data.
fn ended(mut opened: Opened, new: &[Newcomer]) -> Result<Opened, Error> {
    let paths: Vec<PathBuf> = new.iter().map(|it| it.path.clone()).collect();
    settle(&paths, opened.geometry.volume, &opened.census.members)?;
    opened.already = new.iter().filter(|it| it.is_member()).map(|it| it.path.clone()).collect();
    Ok(opened)
}
