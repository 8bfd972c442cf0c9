//! Drives that join a volume while it is in use.
//!
//! The order is the same as in [`crate::joining`]: the number is stored in the labels of the
//! volume's drives, then the new drive is labeled as joining, and after a record names the drive,
//! its label says that it is a member. So an interruption at any time leaves a volume that opens
//! without the new drive, or with it.

use std::path::{Path, PathBuf};

use forebay_core::stack::array::{DriveStage, Label};
use forebay_live::Target;

use crate::Error;
use crate::find::{Access, Opened, opened};
use crate::joining::{Newcomer, Standing, settle, within_numbers};
use crate::labels::{self, Labelled};

/// A drive that is ready to join a volume.
#[derive(Debug)]
pub struct Successor {
    /// The drive, open for writing and locked.
    pub target: Target,
    /// Its number, which no other drive of the volume ever had.
    pub number: u8,
    /// The number of its cells.
    pub cells: u32,
}

/// Labels the drive at `path` as one that joins the volume of the drives at `present`, whose
/// members have the numbers `members`.
///
/// # Errors
/// The drive is in use, contains data that must not be overwritten, is too small, or belongs to the
/// volume already; or labels cannot be written.
pub fn prepare(
    present: &[PathBuf],
    members: &[u8],
    path: &Path,
    overwrite: bool,
) -> Result<Successor, Error> {
    let labelled = |path: &PathBuf| Some((path.clone(), labels::read(path).ok()?));
    let own: Vec<(PathBuf, Labelled)> = present.iter().filter_map(labelled).collect();
    let Some((_, Labelled { label: volume, .. })) = own.first() else {
        return Err(Error::Volume("the labels of the volume's drives cannot be read".into()));
    };
    let newcomer = Newcomer::of(path, volume, members, present, overwrite)?;
    if newcomer.is_member() {
        return Err(Error::drive(path, "is a drive of the volume already"));
    }
    let target = opened(path, volume.geometry.lane_bytes(), Access::WRITE);
    let target = target.map_err(|refused| match refused {
        Opened::Missing(why) => Error::drive(path, why),
        Opened::Refused(error) => error,
    })?;
    let known = own.iter().flat_map(|(_, it)| [it.label.drive, it.label.given]);
    let known = known.chain(members.iter().copied()).max().unwrap_or(0);
    let number = match newcomer.is {
        Standing::Joining(number) => number,
        _ => within_numbers(usize::from(known) + 1, known)?,
    };
    let given = known.max(number);
    for (path, Labelled { label, .. }) in own.iter().filter(|(_, it)| it.label.given != given) {
        let (_, _, bytes) = labels::drive(path).map_err(|why| Error::drive(path, why))?;
        labels::write(path, &Label { given, ..*label }, bytes)?;
    }
    let (stage, version) = (DriveStage::Joining, Label::VERSION);
    let label = Label { drive: number, stage, given, version, ..*volume };
    labels::write(path, &label, target.capacity_bytes())?;
    let cells = label.cells_in(target.capacity_bytes());
    Ok(Successor { target, number, cells })
}

/// Labels the drive at `path` as a member, after a record that names it has become durable.
///
/// # Errors
/// The label cannot be written.
pub fn admit(path: &Path, members: &[u8]) -> Result<(), Error> {
    let Ok(Labelled { label, .. }) = labels::read(path) else { return Ok(()) };
    settle(&[path.to_path_buf()], label.geometry.volume, members)
}

/// Rewrites missing and damaged labels of drives that are in use, given by number and path. Returns
/// a sentence for each drive whose labels were rewritten or could not be.
pub fn mend_labels(drives: &[(u8, PathBuf)]) -> Vec<String> {
    let of = |path: &PathBuf| labels::read(path);
    let Some(volume) = drives.iter().find_map(|(_, path)| of(path).ok()) else {
        return vec!["no drive has a label any more, so none can be rewritten".into()];
    };
    let mend = |(number, path): &(u8, PathBuf)| {
        let label = match of(path) {
            Ok(it) if !it.is_worn => return None,
            Ok(it) => it.label,
            Err(why) if !why.is_nobodys => {
                return Some(format!(
                    "{} {}: its label was not rewritten",
                    path.display(),
                    why.why
                ));
            }
            Err(_) => Label { drive: *number, stage: DriveStage::Member, ..volume.label },
        };
        let written = labels::drive(path)
            .map_err(|why| Error::drive(path, why))
            .and_then(|(_, _, bytes)| labels::write(path, &label, bytes));
        Some(match written {
            Ok(()) => format!(
                "{}: its labels were missing or damaged and have been rewritten",
                path.display()
            ),
            Err(error) => error.to_string(),
        })
    };
    drives.iter().filter_map(mend).collect()
}

/// Returns the label of the drive at `path`, which may be in use.
///
/// # Errors
/// The reason why the drive has no usable label, as words that follow its name.
pub fn label(path: &Path) -> Result<Label, String> {
    labels::read(path).map(|it| it.label).map_err(|unlabelled| unlabelled.why)
}
