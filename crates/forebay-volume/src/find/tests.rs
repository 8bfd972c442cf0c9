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
        few.contains("3 of the 6 drives that it was created with can be used, expected at least 4"),
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

const FULL_3: &[u8] = include_bytes!("../../tests/images/format3-full.zst");
const ROOM_3: &[u8] = include_bytes!("../../tests/images/format3-room.zst");

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
        (1_u64, &include_bytes!("../../tests/images/format1-label.bin")[..]),
        (2, &include_bytes!("../../tests/images/format2-label.bin")[..]),
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
