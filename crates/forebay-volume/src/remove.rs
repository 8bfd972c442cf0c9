//! Removes drives from a volume whose other drives have space for all data.
//!
//! The drive stays a member until all of its data have moved, and a record says that it has left.
//! If this is interrupted, the volume keeps the drive, and running the same command again continues
//! the removal.

use std::path::{Path, PathBuf};

use crate::find::{Access, drives_in, found, is_of};
use crate::open::{Opened, look, opening};
use crate::{Error, Tell, labels};

/// Removes the drive with the number or path `which`, after moving its data to the other drives.
/// Reports progress. A missing drive can be removed if its data have been restored on the others.
///
/// # Errors
/// The paths are not a volume, there is no such drive, or the others have no space for its data.
pub fn remove(paths: &[PathBuf], which: &str, tell: Tell<'_>) -> Result<Opened, Error> {
    let drives = drives_in(paths)?;
    let before = look(&drives, Access::WRITE)?;
    let number = number(which, &drives, &before)?;
    if !before.census.members.contains(&number) {
        return Ok(before);
    }
    if let Some((_, why)) = before.irremovable.iter().find(|(it, _)| *it == number) {
        return Err(Error::Volume(format!("drive {number} cannot be removed: {why}")));
    }
    let mut found = found(&drives, Access::WRITE)?;
    found.mend_labels();
    let opened = opening(found.array().removing(number).mending(), found, None, tell)?;
    if opened.census.members.contains(&number) {
        return Err(Error::Volume(format!(
            "drive {number} is still part of the volume: the other drives had no space for some of its data, \
             or one of them failed"
        )));
    }
    Ok(opened)
}

/// Returns the number of a drive that belongs to the volume or once did.
fn number(which: &str, drives: &[PathBuf], volume: &Opened) -> Result<u8, Error> {
    let label = |path: &Path| Some(labels::read(path).ok()?.label);
    let own = drives.iter().filter_map(|path| label(path));
    let own: Vec<_> = own.filter(|it| it.geometry.volume == volume.geometry.volume).collect();
    let named = label(Path::new(which)).filter(|it| own.iter().any(|own| is_of(own, it)));
    let given = own.iter().map(|it| it.given).max().unwrap_or(0);
    let number = which.parse().ok().filter(|number| (1..=given).contains(number));
    number.or(named.map(|it| it.drive)).ok_or_else(|| {
        let members: Vec<String> = volume.census.members.iter().map(u8::to_string).collect();
        Error::Volume(format!(
            "got '{which}', expected the number or path of a drive of the volume: {}",
            members.join(", ")
        ))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use forebay_core::stack::array::Level;

    use super::*;
    use crate::killing::{killed_at, writes_of};
    use crate::testing::{empty, folder, holds_all, made, rewritten};
    use crate::{Create, check, create, status, untold};

    /// Creates a volume of this many drives, all but six of which are spare.
    fn roomy(folder: &Path, count: u16) -> Vec<PathBuf> {
        let drives: Vec<PathBuf> =
            (1..=count).map(|nth| empty(folder, &format!("d{nth}"))).collect();
        create(&drives, Create { spares: count - 6, ..made(Level::RAID6) }).unwrap();
        rewritten(&drives, 1);
        drives
    }

    fn without(drives: &[PathBuf], numbers: &[usize]) -> Vec<PathBuf> {
        let nth = drives.iter().enumerate().filter(|(at, _)| !numbers.contains(&(at + 1)));
        nth.map(|(_, path)| path.clone()).collect()
    }

    #[test]
    fn removed_drives_are_neither_needed_nor_used() {
        let folder = folder();
        let drives = roomy(folder.path(), 8);
        let before = status(&drives).unwrap();
        assert_eq!(before.spare_drives, 2);
        let path = drives[7].display().to_string();
        let opened = remove(&drives, &path, &mut untold).unwrap();
        assert_eq!(opened.census.members, [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!((opened.geometry, opened.spare_drives), (before.geometry, 1));
        // The drive with the highest number has left, so it does not replace the missing one.
        let missing = without(&drives, &[3]);
        assert_eq!(status(&missing).unwrap().missing(), [3]);
        assert_eq!(check(&missing, 0, &mut untold).unwrap().missing(), [3]);
        remove(&drives, "4", &mut untold).unwrap();
        assert_eq!(remove(&drives, "4", &mut untold).unwrap().missing(), [] as [u8; 0], "again");
        holds_all(&drives);
        // Six drives remain, two of which may be missing, although the labels still name eight.
        let four = without(&drives, &[1, 4, 6, 8]);
        assert_eq!(status(&four).unwrap().missing(), [1, 6]);
        holds_all(&four);
        let few = status(&without(&drives, &[1, 2, 4, 6, 8])).unwrap_err().to_string();
        assert!(few.contains("3 of the 8 drives that it was created with can be used"), "{few}");
    }

    #[test]
    fn a_drive_is_not_removed_if_the_others_have_no_room() {
        let folder = folder();
        let drives = roomy(folder.path(), 6);
        let refused = |which: &str| remove(&drives, which, &mut untold).unwrap_err().to_string();
        let said = refused("2");
        let holds = status(&drives).unwrap().geometry.capacity_bytes() >> 10;
        let expected =
            format!("drive 2 cannot be removed: its drives hold {holds} KiB, and the others");
        assert!(said.contains(&expected), "{said}");
        assert!(
            said.contains("have space for 0 KiB (units of level raid6 span 6 drives)"),
            "{said}"
        );
        assert!(refused("7").contains("expected the number or path of a drive"));
        let said = refused(&empty(folder.path(), "other").display().to_string());
        assert!(said.contains("of the volume: 1, 2, 3, 4, 5, 6"), "{said}");
        let seven = tempfile::tempdir().unwrap();
        let drives = roomy(seven.path(), 7);
        let said = remove(&without(&drives, &[5]), "1", &mut untold).unwrap_err().to_string();
        assert!(said.contains("drive 5 is missing; replace or remove that drive first"), "{said}");
    }

    #[test]
    fn a_missing_drive_is_removed_once_its_data_are_restored() {
        let folder = folder();
        let drives = roomy(folder.path(), 7);
        let left = without(&drives, &[2]);
        let said = remove(&left, "2", &mut untold).unwrap_err().to_string();
        assert!(said.contains("have not been restored on the other drives yet"), "{said}");
        assert_eq!(check(&left, 0, &mut untold).unwrap().census.degraded_units, 0);
        remove(&left, "2", &mut untold).unwrap();
        let opened = status(&drives).unwrap();
        assert_eq!((opened.missing(), opened.census.members.len()), (vec![], 6));
        holds_all(&without(&drives, &[2, 3, 7]));
    }

    #[test]
    fn a_removal_killed_at_any_write_continues() {
        let folder = folder();
        let drives = roomy(folder.path(), 7);
        let kept: Vec<Vec<u8>> = drives.iter().map(|path| fs::read(path).unwrap()).collect();
        let removing = || remove(&drives, "5", &mut untold);
        let (_, count) = writes_of(removing);
        let stride = if std::env::var_os("FOREBAY_LAWS").is_some() { 1 } else { count / 12 + 1 };
        for write in (0..count).filter(|write| write % stride == 0 || *write + 4 > count) {
            drives.iter().zip(&kept).for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
            assert!(killed_at(write, removing).is_none(), "{write} of {count}");
            let opened = status(&drives).unwrap();
            assert_eq!((opened.missing(), opened.census.lost_units), (vec![], 0), "{write}");
            let opened = removing().unwrap_or_else(|error| panic!("write {write}: {error}"));
            assert_eq!(opened.census.members, [1, 2, 3, 4, 6, 7], "{write}");
            holds_all(&without(&drives, &[1, 5, 7]));
        }
    }
}
