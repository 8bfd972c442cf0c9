//! Drives that join a volume: identifies, numbers and labels them, and finally makes them members.
//!
//! A new drive is labeled before anything else, with a number higher than any ever assigned, and
//! its label says that it is joining. It becomes a drive of the volume once a record contains it;
//! until then, opening the volume ignores it. If this is interrupted, running the same command
//! again finds the drive's label and continues.
//!
//! Before a number is assigned, it is stored in the labels of the volume's existing drives. No two
//! drives therefore ever have the same number, even if one of them never got into a record, and a
//! number in a record identifies exactly one drive.

use std::path::{Path, PathBuf};

use forebay_ask::named;
use forebay_core::stack::array::{Census, DriveStage, Label};

use crate::Error;
use crate::create::refuse_used;
use crate::find::{Access, FoundVolume, Opened as Unopened, is_of, opened};
use crate::labels::{self, Labelled};

/// The highest possible number of a drive.
const NUMBER_MAX: u8 = 254;

/// A drive that is to join.
#[derive(Clone, Debug)]
pub(crate) struct Newcomer {
    pub(crate) path: PathBuf,
    pub(crate) is: Standing,
}

/// The relation of a drive to the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The drive's number is in a record.
    Member(u8),
    /// The drive has a number that is not in a record yet.
    Joining(u8),
    New,
}

impl Newcomer {
    /// Determines the relation of the drive at `path` to a volume with this label and these other
    /// drives.
    ///
    /// # Errors
    /// It contains data that must not be overwritten.
    pub(crate) fn of(
        path: &Path,
        volume: &Label,
        members: &[u8],
        others: &[PathBuf],
        overwrite: bool,
    ) -> Result<Newcomer, Error> {
        let newcomer = |is| Ok(Newcomer { path: path.to_path_buf(), is });
        let own = labels::read(path).ok().map(|it| it.label).filter(|it| is_of(it, volume));
        let Some(Label { drive, stage, .. }) = own else {
            refuse_used(path, overwrite)?;
            return newcomer(Standing::New);
        };
        let newest = members.iter().copied().max().unwrap_or(0);
        let is_copy = others.iter().any(|other| {
            labels::read(other).is_ok_and(|it| is_of(&it.label, volume) && it.label.drive == drive)
        });
        match stage {
            _ if is_copy && overwrite => newcomer(Standing::New),
            _ if is_copy => Err(Error::drive(
                path,
                format!(
                    "is drive {drive} of volume {:016x} already, or a copy of it; {} destroys its \
                     contents",
                    volume.geometry.volume,
                    named("overwrite=true")
                ),
            )),
            _ if members.contains(&drive) => newcomer(Standing::Member(drive)),
            DriveStage::Joining if drive > newest => newcomer(Standing::Joining(drive)),
            DriveStage::Joining => newcomer(Standing::New),
            _ if overwrite => newcomer(Standing::New),
            _ => Err(Error::drive(
                path,
                format!(
                    "was drive {drive} of the volume until it was replaced or removed; {} makes it a new \
                     drive, and destroys its contents",
                    named("overwrite=true")
                ),
            )),
        }
    }

    pub(crate) fn is_member(&self) -> bool {
        matches!(self.is, Standing::Member(_))
    }
}

/// Adds the drives that are not in a record yet.
pub(crate) fn join(
    found: &mut FoundVolume,
    new: &[Newcomer],
    census: &Census,
) -> Result<(), Error> {
    let new: Vec<&Newcomer> = new.iter().filter(|it| !it.is_member()).collect();
    let mut targets = Vec::new();
    for Newcomer { path, .. } in &new {
        let target = opened(path, found.geometry.lane_bytes(), Access::WRITE);
        targets.push(target.map_err(|refused| match refused {
            Unopened::Missing(why) => Error::drive(path, why),
            Unopened::Refused(error) => error,
        })?);
    }
    let numbered = found.numbered(&new, census)?;
    for (label, target) in numbered.into_iter().zip(targets) {
        labels::write(target.path(), &label, target.capacity_bytes())?;
        found.drives.push((label.drive, target));
        found.labels.push(Labelled::whole(label));
    }
    Ok(())
}

impl FoundVolume {
    /// Creates labels for joining drives, after storing their numbers in the labels of the volume's
    /// drives.
    fn numbered(&mut self, new: &[&Newcomer], census: &Census) -> Result<Vec<Label>, Error> {
        let known = self.labels.iter().flat_map(|it| [it.label.drive, it.label.given]);
        let known = known.chain(census.members.iter().copied());
        let own = |it: &&Newcomer| match it.is {
            Standing::Joining(number) => Some(number),
            _ => None,
        };
        let known = known.chain(new.iter().filter_map(own)).max().unwrap_or(0);
        let fresh = new.iter().filter(|it| it.is == Standing::New).count();
        let given = usize::from(known) + fresh;
        let given = within_numbers(given, known)?;
        for ((_, target), labels) in self.drives.iter().zip(&mut self.labels) {
            let label = Label { given, ..labels.label };
            if label != labels.label {
                labels::write(target.path(), &label, target.capacity_bytes())?;
                labels.label = label;
            }
        }
        let mut next = known;
        let (geometry, first) = (self.geometry, self.first);
        let (stage, version, costs) = (DriveStage::Joining, Label::VERSION, self.costs());
        let number = |it: &&Newcomer| {
            own(it).unwrap_or_else(|| {
                next += 1;
                next
            })
        };
        let label = |drive| Label { geometry, drive, first, stage, given, version, costs };
        Ok(new.iter().map(number).map(label).collect())
    }
}

/// Returns the highest assigned number, or an error if no drive can have it. `known` is the highest
/// one so far.
pub(crate) fn within_numbers(given: usize, known: u8) -> Result<u8, Error> {
    u8::try_from(given).ok().filter(|given| *given <= NUMBER_MAX).ok_or_else(|| {
        Error::Volume(format!(
            "the volume has had {known} drives over time, and drive numbers end at {NUMBER_MAX}: \
             no more can be added"
        ))
    })
}

/// Updates the labels of drives that have become members.
///
/// # Errors
/// A label cannot be written.
pub(crate) fn settle(paths: &[PathBuf], volume: u64, members: &[u8]) -> Result<(), Error> {
    for path in paths {
        let Ok(Labelled { label, .. }) = labels::read(path) else { continue };
        let is_member = label.geometry.volume == volume && members.contains(&label.drive);
        if label.stage != DriveStage::Joining || !is_member {
            continue;
        }
        let (_, _, bytes) = labels::drive(path).map_err(|why| Error::drive(path, why))?;
        labels::write(path, &Label { stage: DriveStage::Member, ..label }, bytes)?;
    }
    Ok(())
}
