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
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use forebay_live::payload;

    use super::*;
    use crate::testing::{DRIVE_BYTES, content, empty, holds_all, made, volume};
    use crate::{check, create, replace, status, untold};

    fn write(path: &Path, at: u64, bytes: &[u8]) {
        File::options().write(true).open(path).unwrap().write_all_at(bytes, at).unwrap();
    }

    /// A modification of a drive.
    type Harm<'a> = &'a dyn Fn(&Path);

    /// Creates a volume of six drives and applies `harm` to one of them. Returns the drives and the
    /// reported non-members.
    fn harmed(harm: impl FnOnce(&Path)) -> (tempfile::TempDir, Vec<PathBuf>, Vec<NonMember>) {
        let folder = tempfile::tempdir().unwrap();
        let drives = volume(folder.path(), Level::RAID6);
        harm(&drives[2]);
        let others = status(&drives).unwrap().others;
        holds_all(&drives);
        (folder, drives, others)
    }

    #[test]
    fn labels_are_rewritten_if_one_is_left() {
        let end = DRIVE_BYTES - 4096;
        let garbage = vec![0xA7; 4096];
        let losses: [&[(u64, &[u8])]; 6] = [
            &[(0, &garbage)],
            &[(4096, &[0; 4096])],
            &[(0, &[0; 8192])],
            &[(0, &[0; 1 << 20])],
            &[(end, &garbage)],
            &[(0, &garbage), (end, &garbage)],
        ];
        for loss in losses {
            let harm = |path: &Path| loss.iter().for_each(|(at, bytes)| write(path, *at, bytes));
            let (_folder, drives, others) = harmed(harm);
            assert_eq!(others, []);
            let labels = labels::read(&drives[2]).unwrap();
            assert!(!labels.is_worn && labels.label.drive == 3, "{labels:?}");
            assert_eq!(status(&drives).unwrap().missing(), [] as [u8; 0]);
        }
    }

    #[test]
    fn a_drive_that_lost_its_label_counts_as_missing_and_is_reported() {
        let elsewhere = tempfile::tempdir().unwrap();
        let other = volume(elsewhere.path(), Level::RAID6).remove(0);
        let text = elsewhere.path().join("text");
        std::fs::write(&text, "not a drive").unwrap();
        let again = |path: &Path, from: &Path| {
            std::fs::copy(from, path).unwrap();
        };
        let zeros = |path: &Path| forebay_rig::holes(path, DRIVE_BYTES);
        let cut = |path: &Path| {
            File::options().write(true).open(path).unwrap().set_len(5 << 20).unwrap();
        };
        let looped = |path: &Path| {
            std::fs::remove_file(path).unwrap();
            std::os::unix::fs::symlink(path, path).unwrap();
        };
        let swap = |path: &Path| {
            write(path, 0, &[0; 8192]);
            write(path, 4086, b"SWAPSPACE2");
        };
        let newer = |path: &Path| {
            let mut label = labels::read(path).unwrap().label;
            label.version = 5;
            labels::write(path, &label, DRIVE_BYTES).unwrap();
        };
        let unlabelled = |path: &Path| {
            write(path, 0, &[0; 8192]);
            write(path, DRIVE_BYTES - 4096, &[0; 4096]);
        };
        let harms: [(Harm<'_>, &str, bool); 8] = [
            (&zeros, "has no Forebay label", true),
            (&unlabelled, "has no Forebay label", true),
            (&cut, "has only 5242880 bytes; the volume needs", false),
            (&looped, "cannot be opened", false),
            (&swap, "holds swap space (at byte 4086)", false),
            (&newer, "format 5, made by a newer Forebay", false),
            (&|path| again(path, &text), "has no Forebay label", false),
            (&|path| again(path, &other), "is a drive of volume", false),
        ];
        for (harm, why, is_nobodys) in harms {
            let (_folder, drives, others) = harmed(harm);
            let [ref told] = others[..] else { panic!("{why}: {others:?}") };
            assert_eq!((&told.path, told.is_nobodys), (&drives[2], is_nobodys), "{why}");
            assert!(told.why.contains(why), "{told:?}");
            let opened = status(&drives).unwrap();
            assert_eq!(opened.missing(), [3], "{why}");
            let command = opened.replace_command(&drives[..1]).unwrap();
            let new = if is_nobodys { drives[2].to_str().unwrap() } else { "NEW" };
            let overwrite = if told.has_records { " --overwrite" } else { "" };
            assert!(command.ends_with(&format!("--with {new}{overwrite}")), "{command}");
            let held = std::fs::read(&drives[2]).is_ok_and(|held| held.iter().any(|it| *it != 0));
            assert_eq!(told.has_records, is_nobodys && held);
        }
    }

    #[test]
    fn a_label_that_cannot_be_made_durable_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let drives = volume(folder.path(), Level::RAID6);
        let label = crate::labels::read(&drives[0]).unwrap().label;
        // This device accepts writes but not flushes.
        let said = crate::labels::write(Path::new("/dev/null"), &label, DRIVE_BYTES).unwrap_err();
        let said = said.to_string();
        assert!(said.contains("/dev/null: its label cannot be written: Invalid"), "{said}");
    }

    #[test]
    fn a_wiped_drive_can_replace_itself() {
        let zeros = |path: &Path| forebay_rig::holes(path, DRIVE_BYTES);
        let (_folder, drives, _) = harmed(zeros);
        let opened = replace(&drives, &drives[2], false, &mut untold).unwrap();
        assert!(opened.missing().is_empty() && opened.others.is_empty(), "{opened:?}");
        holds_all(&drives);
    }

    #[test]
    fn too_few_drives_two_volumes_and_copies_are_refused() {
        let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let [one, other] = [0, 1].map(|at: usize| volume(folders[at].path(), Level::RAID6));
        let said = |drives: &[PathBuf]| status(drives).unwrap_err().to_string();
        for drive in &one[..3] {
            write(drive, 0, &[0; 8192]);
            write(drive, DRIVE_BYTES - 4096, &[0; 4096]);
        }
        let few = said(&one);
        assert!(
            few.contains(
                "3 of the 6 drives that it was created with can be used, expected at least 4"
            ),
            "{few}"
        );
        assert!(few.contains("d1 has no Forebay label"), "{few}");
        // The drives of one volume are enough to open it, and the drives of the other are ignored.
        let all = [&one[..], &other].concat();
        let opened = status(&all).unwrap();
        assert_eq!((opened.others.len(), opened.missing()), (6, Vec::new()));
        holds_all(&all);
        // Two complete volumes are refused in any order, and so is a copy of a drive.
        let third = tempfile::tempdir().unwrap();
        let both = said(&[&volume(third.path(), Level::RAID6)[..], &other].concat());
        assert!(both.contains("is a drive of volume") && both.contains("of one volume"), "{both}");
        let copy = third.path().join("copy");
        std::fs::copy(&other[0], &copy).unwrap();
        // One drive of a complete volume, along with most drives of another volume.
        let beside = [&other[1..], &[third.path().join("d1")]].concat();
        let opened = status(&beside).unwrap();
        assert_eq!((opened.missing(), opened.others.len()), (vec![1], 1));
        let twice = said(&[&other[..], &[copy]].concat());
        assert!(twice.contains("copy: is drive 1 of the volume, and so is"), "{twice}");
    }

    /// Restores drives created by an earlier version of the format.
    fn image(name: &[u8], folder: &Path) -> Vec<PathBuf> {
        let bytes = zstd::decode_all(name).unwrap();
        let each = bytes.len() / 6;
        let drive = |(nth, bytes): (usize, &[u8])| {
            let path = folder.join(format!("d{}", nth + 1));
            std::fs::write(&path, bytes).unwrap();
            path
        };
        bytes.chunks(each).enumerate().map(drive).collect()
    }

    const FULL_3: &[u8] = include_bytes!("../tests/images/format3-full.zst");
    const ROOM_3: &[u8] = include_bytes!("../tests/images/format3-room.zst");

    #[test]
    fn volumes_of_format_3_keep_their_data_and_are_converted_if_there_is_room() {
        // Drives that just fit, drives that keep their last block free, and drives whose last cell
        // uses that block.
        let images = [(FULL_3, 0, 4, 6), (ROOM_3, 0, 4, 0), (FULL_3, 8192, 3, 6)];
        for (bytes, longer, format, without) in images {
            let folder = tempfile::tempdir().unwrap();
            let drives = image(bytes, folder.path());
            for drive in &drives {
                let file = File::options().write(true).open(drive).unwrap();
                file.set_len(file.metadata().unwrap().len() + longer).unwrap();
            }
            let expected: Vec<u8> = (0..3 * 16_384_u64)
                .map(|at| match at {
                    0..4096 | 20_480..24_576 => payload(at),
                    _ => 0,
                })
                .collect();
            assert!(content(&drives) == expected, "format 3, now {format}");
            let opened = status(&drives).unwrap();
            assert_eq!((opened.format, opened.without_end_label.len()), (format, without));
            let labels = labels::read(&drives[0]).unwrap();
            assert_eq!((labels.is_worn, labels.label.version), (false, format));
            let checked = check(&drives, 0, &mut untold).unwrap();
            let census = &checked.census;
            assert_eq!((census.lost_units, census.degraded_units), (0, 0));
            // A drive that just fits can replace another one, with or without space for a label at
            // its end.
            std::fs::remove_file(&drives[4]).unwrap();
            forebay_rig::holes(&drives[4], 6 << 20);
            replace(&drives, &drives[4], false, &mut untold).unwrap();
            assert!(content(&drives) == expected);
            assert_eq!(status(&drives).unwrap().missing(), [] as [u8; 0]);
        }
    }

    #[test]
    fn volumes_of_formats_1_and_2_are_refused_by_number() {
        let folder = tempfile::tempdir().unwrap();
        for (version, image) in [
            (1_u64, &include_bytes!("../tests/images/format1-label.bin")[..]),
            (2, &include_bytes!("../tests/images/format2-label.bin")[..]),
        ] {
            let path = empty(folder.path(), "old");
            write(&path, 0, image);
            let said = status(std::slice::from_ref(&path)).unwrap_err().to_string();
            let expected = format!("is a drive of a volume of format {version}, made by an older");
            assert!(said.contains(&expected), "{said}");
            let said = create(&[path], made(Level::RAID6)).unwrap_err().to_string();
            assert!(said.contains(&expected) && said.contains("overwrite"), "{said}");
        }
    }

    #[test]
    fn the_label_at_the_end_moves_when_a_drive_grows() {
        let folder = tempfile::tempdir().unwrap();
        let drives = volume(folder.path(), Level::RAID6);
        for drive in &drives {
            File::options().write(true).open(drive).unwrap().set_len((8 << 20) + 100).unwrap();
        }
        holds_all(&drives);
        for drive in &drives {
            write(drive, 0, &[0; 8192]);
        }
        assert_eq!(status(&drives).unwrap().others, []);
        holds_all(&drives);
    }

    #[test]
    fn a_truncated_drive_counts_as_missing() {
        let folder = tempfile::tempdir().unwrap();
        let drives: Vec<PathBuf> =
            (1..=6).map(|nth| empty(folder.path(), &format!("d{nth}"))).collect();
        for long in &drives[..5] {
            File::options().write(true).open(long).unwrap().set_len(40 << 20).unwrap();
        }
        create(&drives, made(Level::RAID6)).unwrap();
        crate::testing::rewritten(&drives, 60);
        let short = File::options().write(true).open(&drives[1]).unwrap();
        short.set_len(DRIVE_BYTES).unwrap();
        let opened = status(&drives).unwrap();
        assert_eq!(opened.missing(), [2], "{opened:?}");
        assert!(opened.others[0].why.contains("is shorter than before"), "{:?}", opened.others);
        holds_all(&drives);
    }
}
