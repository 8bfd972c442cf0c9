//! Finds a volume by the labels of its drives.
//!
//! Of the named paths, those labeled as drives of one volume are used. All others are reported and
//! treated as missing; they never prevent the volume from being opened.

use std::fs;
use std::path::{Path, PathBuf};

use forebay_core::stack::array::{DriveStage, Geometry, Label, Level};
use forebay_live::{Target, TargetOptions};

use crate::Error;
use crate::labels::{self, Labelled, Unlabelled};

/// The opened drives of a volume.
#[derive(Debug)]
pub struct FoundVolume {
    /// The sizes of the volume.
    pub geometry: Geometry,
    /// The level of units when they are first written.
    pub first: Level,
    /// The present drives, with their numbers.
    pub drives: Vec<(u8, Target)>,
    /// Named paths that are not used.
    pub others: Vec<NonMember>,
    /// Changes made to labels, one sentence each.
    pub notes: Vec<String>,
    /// The labels of `drives`.
    pub(crate) labels: Vec<Labelled>,
    /// The error that the drives are too few. It does not apply if drives have been removed since
    /// the volume was created.
    pub(crate) too_few: Option<String>,
}

/// A path that was named as a drive of a volume but is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NonMember {
    /// The path.
    pub path: PathBuf,
    /// The problem, as words that follow the drive's name.
    pub why: String,
    /// Whether the drive begins with zeros or the remains of a label, so that it is probably the
    /// missing drive.
    pub is_nobodys: bool,
    /// Whether the drive contains records of the volume, so that it is a drive that lost its label.
    pub has_records: bool,
}

impl NonMember {
    pub(crate) fn new(path: &Path, why: impl Into<String>) -> NonMember {
        let path = path.to_path_buf();
        NonMember { path, why: why.into(), is_nobodys: false, has_records: false }
    }
}

/// How to open the drives of a volume.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub(crate) writes: bool,
    /// Whether to bypass the page cache.
    pub(crate) direct: bool,
}

impl Access {
    pub(crate) const READ: Access = Access { writes: false, direct: true };
    pub(crate) const WRITE: Access = Access { writes: true, direct: true };
}

/// Expands `paths` to drives: a folder stands for its files in order of their names; other paths
/// are unchanged.
///
/// # Errors
/// A folder cannot be read.
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
            return Err(Error::drive(path, "the folder is empty; expected the drives of a volume"));
        }
        all.extend(files);
    }
    Ok(all)
}

/// Returns whether a file or device is labeled as a drive of a volume.
///
/// # Errors
/// It cannot be opened.
pub fn is_drive(path: &Path) -> Result<bool, Error> {
    labels::drive(path).map_err(|why| Error::drive(path, why))?;
    Ok(labels::read(path).map_or_else(|it| it.is_unknown, |_| true))
}

/// Opens and locks the drives of a volume, for writing if `writes`. In that case, labels that are
/// missing, damaged or of an older version are rewritten.
///
/// # Errors
/// There are too few drives, or a drive is a duplicate, in use, or part of a second volume that is
/// equally complete.
pub fn find(paths: &[PathBuf], writes: bool) -> Result<FoundVolume, Error> {
    let access = if writes { Access::WRITE } else { Access::READ };
    let mut found = found(&drives_in(paths)?, access)?;
    if writes {
        found.mend_labels();
    }
    Ok(found)
}

/// Opens the drives of a volume for writing through the page cache, for emulated drives, whose
/// times come from a model.
///
/// # Errors
/// The same as [`find`].
pub fn find_cached(paths: &[PathBuf]) -> Result<FoundVolume, Error> {
    let mut found = found(&drives_in(paths)?, Access { writes: true, direct: false })?;
    found.mend_labels();
    Ok(found)
}

/// Opens the volume of exactly these drives without changing labels.
pub(crate) fn found(drives: &[PathBuf], access: Access) -> Result<FoundVolume, Error> {
    if drives.is_empty() {
        return Err(Error::Volume(
            "no drives are specified; expected the drives of a volume".into(),
        ));
    }
    let mut others = Vec::new();
    let mut labelled = Vec::new();
    for path in drives {
        match labels::read(path) {
            Ok(labels) => labelled.push((path.clone(), labels)),
            Err(Unlabelled { why, is_nobodys, .. }) => {
                others.push(NonMember { is_nobodys, ..NonMember::new(path, why) });
            }
        }
    }
    let Some(of) = volume(&labelled)? else { return Err(none(&others)) };
    let is_made = labelled
        .iter()
        .any(|(_, it)| is_of(&it.label, &of) && it.label.stage == DriveStage::Member);
    let (geometry, first) = (of.geometry, of.first);
    for other in others.iter_mut().filter(|other| other.is_nobodys) {
        other.has_records = labels::has_records(&other.path, geometry.volume);
    }
    let mut found = FoundVolume {
        geometry,
        first,
        drives: Vec::new(),
        others,
        notes: Vec::new(),
        labels: Vec::new(),
        too_few: None,
    };
    for (path, it) in labelled {
        match refused(&it.label, &of, is_made) {
            Some(why) => found.others.push(NonMember::new(&path, why)),
            None => found.take(&path, it, access)?,
        }
    }
    if found.drives.len() > Geometry::PRESENT_MAX {
        return Err(Error::Volume(format!(
            "volume {:016x}: got {} drives with its label, expected at most {}; leave out those that have been \
             replaced or removed",
            geometry.volume,
            found.drives.len(),
            Geometry::PRESENT_MAX
        )));
    }
    let least = usize::from(geometry.lanes) - first.tolerates();
    if found.drives.len() >= least {
        return Ok(found);
    }
    let why: String =
        found.others.iter().map(|it| format!("; {} {}", it.path.display(), it.why)).collect();
    found.too_few = Some(format!(
        "volume {:016x}: {} of the {} drives that it was created with can be used, expected at least {least}; nothing was \
         written{why}",
        geometry.volume,
        found.drives.len(),
        geometry.lanes
    ));
    Ok(found)
}

/// Returns why a drive with this label does not belong to the volume, if it does not.
fn refused(label: &Label, of: &Label, is_made: bool) -> Option<String> {
    if !is_of(label, of) {
        return Some(format!("is a drive of volume {:016x}", label.geometry.volume));
    }
    (label.stage == DriveStage::Making && !is_made).then(|| {
        "belongs to a volume whose creation was interrupted: run the same `forebay volume create` again"
            .into()
    })
}

/// Returns whether both labels belong to the same volume.
pub(crate) fn is_of(one: &Label, other: &Label) -> bool {
    (one.geometry, one.first) == (other.geometry, other.first)
}

/// Returns a label of the volume that the user means: preferably one with all drives present, then
/// one with enough drives, then the one with the most drives.
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
    let is_complete = |(of, _, count): &&&(Label, &Path, usize)| *count >= of.geometry.lanes.into();
    let enough: Vec<_> = volumes.iter().filter(is_enough).collect();
    let complete: Vec<_> = enough.iter().filter(is_complete).copied().collect();
    let enough = if complete.is_empty() { enough } else { complete };
    if let [(one, path, _), (other, second, _), ..] = enough[..] {
        let what = format!(
            "is a drive of volume {:016x}, but {} is one of volume {:016x}; name the drives of one volume",
            other.geometry.volume,
            path.display(),
            one.geometry.volume
        );
        return Err(Error::drive(second, what));
    }
    // Of several volumes with equally many drives, the first one counts.
    let most = volumes.iter().rev().max_by_key(|(_, _, count)| *count);
    Ok(enough.first().copied().or(most).map(|(of, ..)| *of))
}

/// Returns the error that none of the paths is a drive of a volume.
fn none(others: &[NonMember]) -> Error {
    let Some(NonMember { path, why, .. }) = others.first() else {
        return Error::Volume("no drives are specified; expected the drives of a volume".into());
    };
    // An operating-system error is already a complete explanation.
    let what = labels::drive(path).err();
    let expected =
        || format!("{why}; expected a drive of a volume (forebay volume create creates one)");
    Error::drive(path, what.unwrap_or_else(expected))
}

impl FoundVolume {
    /// Opens one more drive; if that fails, it counts as missing.
    fn take(&mut self, path: &Path, labels: Labelled, access: Access) -> Result<(), Error> {
        let number = labels.label.drive;
        if let Some((_, other)) = self.drives.iter().find(|(it, _)| *it == number) {
            let what = format!(
                "is drive {number} of the volume, and so is {}: one of them is a copy; specify \
                 only one of them",
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
                self.others.push(NonMember::new(path, why));
                Ok(())
            }
            Err(Opened::Refused(error)) => Err(error),
        }
    }

    /// Closes drives, so that others can open them.
    pub fn leave_out(&mut self, numbers: &[u8]) {
        self.drives.retain(|(number, _)| !numbers.contains(number));
        self.labels.retain(|it| !numbers.contains(&it.label.drive));
    }

    /// Rewrites all labels that need it.
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
            let path = target.path().display();
            self.notes.push(match labels::write(target.path(), &label, target.capacity_bytes()) {
                Ok(()) if labels.version < label.version => format!(
                    "{path}: its labels were converted to format {}; older versions of Forebay can no longer open it",
                    label.version
                ),
                Ok(()) => format!("{path}: one of its labels was missing or damaged and has been rewritten"),
                // One label was found, which is sufficient.
                Err(error) => error.to_string(),
            });
            *labels = Labelled::whole(label);
        }
    }
}

/// Why a drive was not opened.
pub(crate) enum Opened {
    /// The drive counts as missing.
    Missing(String),
    /// The drive is in use, so the volume cannot be opened.
    Refused(Error),
}

/// Opens and locks a drive of a volume.
pub(crate) fn opened(path: &Path, need_bytes: u64, access: Access) -> Result<Target, Opened> {
    let Access { writes, direct } = access;
    let how = TargetOptions { writes, overwrite: true, need_bytes: 0, direct };
    let target = Target::open(path, how).map_err(|error| match error.is_in_use {
        true => Opened::Refused(error.into()),
        false => Opened::Missing(error.what),
    })?;
    let got = target.capacity_bytes();
    if got < need_bytes {
        return Err(Opened::Missing(format!(
            "has only {got} bytes; the volume needs {need_bytes} of it"
        )));
    }
    lock(&target, writes).map_err(Opened::Refused)?;
    Ok(target)
}

/// Locks a drive.
pub(crate) fn lock(target: &Target, writes: bool) -> Result<(), Error> {
    if target.lock(writes)? {
        return Ok(());
    }
    Err(Error::InUse(target.path().to_path_buf()))
}

#[cfg(test)]
mod tests;
