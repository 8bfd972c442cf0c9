//! Test support: kills a process at a write, for each write in turn, and simulates sectors that
//! cannot be read.
//!
//! Instead of writing, the thread panics, and unwinding closes its drives, like the end of a
//! process.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;

use forebay_core::{Fault, Lane, Nanos, Op, Piece, Request, Slots};
use forebay_live::{Ended, Failure, Lanes, Target, Threads, Waker};

thread_local! {
    /// The number of writes before the fatal one; `None` if no write is fatal.
    static LEFT: Cell<Option<u64>> = const { Cell::new(None) };
}

/// The panic payload of a killed thread.
struct Killed;

/// Called before each write.
pub(crate) fn point() {
    match LEFT.get() {
        // Unlike a failing test, this panic prints nothing.
        Some(0) => resume_unwind(Box::new(Killed)),
        left => LEFT.set(left.map(|left| left - 1)),
    }
}

/// Runs `work`, which is killed after this many writes. Returns `None` if it was killed.
pub(crate) fn killed_at<T>(writes: u64, work: impl FnOnce() -> T) -> Option<T> {
    LEFT.set(Some(writes));
    let done = catch_unwind(AssertUnwindSafe(work));
    LEFT.set(None);
    match done {
        Ok(done) => Some(done),
        Err(panic) if panic.is::<Killed>() => None,
        Err(panic) => resume_unwind(panic),
    }
}

/// Runs `work` without killing it. Returns its result and its number of writes.
pub(crate) fn writes_of<T>(work: impl FnOnce() -> T) -> (T, u64) {
    LEFT.set(Some(u64::MAX));
    let done = work();
    (done, u64::MAX - LEFT.take().unwrap_or(u64::MAX))
}

thread_local! {
    /// Blocks of 4 KiB that cannot be read: the inode of the file, and the position.
    static BAD: RefCell<BTreeSet<(u64, u64)>> = const { RefCell::new(BTreeSet::new()) };
}

/// Runs `work` while blocks of drives cannot be read.
pub(crate) fn unreadable<T>(bad: &[(PathBuf, u64)], work: impl FnOnce() -> T) -> T {
    let inode = |path: &PathBuf| fs::metadata(path).unwrap().ino();
    BAD.set(bad.iter().map(|(path, at)| (inode(path), *at)).collect());
    let done = work();
    BAD.take();
    done
}

fn is_bad(inode: u64, at: u64, len: u64) -> bool {
    BAD.with_borrow(|bad| bad.range((inode, at)..(inode, at + len)).next().is_some())
}

/// Called before a block is read.
pub(crate) fn before_read(file: &File, at: u64) -> io::Result<()> {
    match is_bad(file.metadata()?.ino(), at, 4096) {
        true => Err(io::Error::other("a bad sector")),
        false => Ok(()),
    }
}

/// Lanes whose writes are counted, and whose blocks may be unreadable.
pub(crate) struct Mortal {
    threads: Threads,
    inodes: Vec<u64>,
    failed: Vec<Ended>,
}

impl Mortal {
    pub(crate) fn new(targets: Vec<Target>, depth: u32) -> io::Result<Mortal> {
        let inode = |target: &Target| Ok(fs::metadata(target.path())?.ino());
        let inodes = targets.iter().map(inode).collect::<io::Result<_>>()?;
        Ok(Mortal { threads: Threads::new(targets, depth)?, inodes, failed: Vec::new() })
    }
}

impl Lanes for Mortal {
    fn count(&self) -> usize {
        self.threads.count()
    }
    fn reap(&mut self, next: Nanos, ended: &mut Vec<Ended>) -> io::Result<Nanos> {
        match self.failed.is_empty() {
            true => self.threads.reap(next, ended),
            false => {
                ended.append(&mut self.failed);
                Ok(self.threads.wall())
            }
        }
    }
    fn wall(&mut self) -> Nanos {
        self.threads.wall()
    }
    fn room(&self, lane: Lane) -> bool {
        self.threads.room(lane)
    }
    fn slots(&mut self) -> &mut dyn Slots {
        self.threads.slots()
    }
    fn start(&mut self, now: Nanos, io: Request, pieces: &[Piece]) {
        if io.op == Op::Write {
            point();
        }
        let inode = self.inodes[usize::from(io.lane)];
        if io.op == Op::Read && is_bad(inode, io.offset, io.len.into()) {
            let failure = Failure::Emulated(Fault::Media);
            return self.failed.push(Ended::new(io, now, now, Some(failure)));
        }
        self.threads.start(now, io, pieces);
    }
    fn waker(&mut self) -> io::Result<Waker> {
        self.threads.waker()
    }
    fn in_flight(&self) -> usize {
        self.threads.in_flight() + self.failed.len()
    }
    fn proceed(&mut self, until: Nanos) -> io::Result<()> {
        self.threads.proceed(until)
    }
    fn held_up(&mut self) -> Option<(Nanos, Nanos)> {
        self.threads.held_up()
    }
}

mod tests {
    use forebay_core::stack::array::{DriveKind, DriveStage, Geometry, Label, Level};
    use forebay_testing::{below, longer};

    use super::*;
    use crate::testing::{empty, folder, holds_all, made, volume};
    use crate::{Error, Opened, check, create, grow, labels, replace, status, untold};

    /// Copies of drives, used to restore them.
    struct SavedDrives(Vec<(PathBuf, Vec<u8>)>);

    impl SavedDrives {
        fn of(drives: &[PathBuf]) -> SavedDrives {
            SavedDrives(drives.iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect())
        }
        fn again(&self) {
            self.0.iter().for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
        }
    }

    /// Kills `verb` at its writes. When repeated, it continues, and the volume then has all its
    /// drives and data. A half-joined drive is never reported as in use.
    fn killed_everywhere(
        drives: &[PathBuf],
        new: &[PathBuf],
        mut verb: impl FnMut() -> Result<Opened, Error>,
    ) {
        let all = [drives, new].concat();
        let kept = SavedDrives::of(&all);
        let (opened, count) = writes_of(&mut verb);
        assert_eq!(opened.unwrap().already, [] as [PathBuf; 0]);
        assert_eq!(verb().unwrap().already, new, "it is done already");
        // Include all writes of labels: those with which drives join, at the beginning, and those
        // that make them members, at the end.
        let is_label = |write: &u64| *write < 32 || *write + 8 > count;
        // `make laws` kills it at every write.
        let stride = if std::env::var_os("FOREBAY_LAWS").is_some() { 1 } else { 211 };
        for write in (0..count).filter(|write| is_label(write) || write % stride == 0) {
            kept.again();
            // The order in which I/Os complete may save the last writes.
            match killed_at(write, &mut verb) {
                None => {}
                Some(done) => assert!(done.is_ok() && write + 8 > count, "{write} of {count}"),
            }
            for path in new {
                let said = create(std::slice::from_ref(path), made(Level::RAID6));
                let said = said.unwrap_err().to_string();
                let is_member =
                    labels::read(path).is_ok_and(|it| it.label.stage == DriveStage::Member);
                assert!(is_member || !said.contains("overwrite"), "write {write}: {said}");
            }
            let opened = verb().unwrap_or_else(|error| panic!("write {write}: {error}"));
            assert!(opened.others.is_empty() && opened.joining.is_empty(), "{opened:?}");
            let whole = status(&all).unwrap();
            let is_whole = whole.missing().is_empty() && whole.census.degraded_units == 0;
            assert!(is_whole && whole.others.is_empty(), "write {write}: {whole:?}");
            for path in &all {
                let labels = labels::read(path).unwrap();
                assert!(labels.label.stage == DriveStage::Member && !labels.is_worn, "{write}");
            }
            holds_all(&all);
        }
    }

    #[test]
    fn a_creation_killed_at_any_write_can_be_repeated() {
        let folder = folder();
        let drives: Vec<PathBuf> =
            (1..=6).map(|nth| empty(folder.path(), &format!("d{nth}"))).collect();
        let making = || create(&drives, made(Level::RAID6));
        let kept = SavedDrives::of(&drives);
        let (_, count) = writes_of(making);
        for write in 0..count {
            kept.again();
            assert!(killed_at(write, making).is_none(), "{write} of {count}");
            making().unwrap_or_else(|error| panic!("write {write}: {error}"));
            let opened = status(&drives).unwrap();
            assert!(opened.others.is_empty() && opened.missing().is_empty(), "{write}: {opened:?}");
            // It is unknown whether the process was killed before or after its last write. Once the
            // volume contains data, creating it again is refused.
            assert_eq!(making().unwrap(), opened.geometry, "{write}");
        }
        let other = tempfile::tempdir().unwrap();
        let written = volume(other.path(), Level::RAID6);
        let said = create(&written, made(Level::RAID6)).unwrap_err().to_string();
        assert!(said.contains("is drive 1 of volume"), "{said}");
    }

    #[test]
    fn a_replacement_killed_at_any_write_continues() {
        let folder = folder();
        let mut drives = volume(folder.path(), Level::RAID6);
        fs::remove_file(drives.remove(2)).unwrap();
        let new = empty(folder.path(), "new");
        killed_everywhere(&drives, std::slice::from_ref(&new), || {
            replace(&drives, &new, false, &mut untold)
        });
    }

    #[test]
    fn a_half_joined_drive_joins_only_by_the_command_that_names_it() {
        let folder = folder();
        let mut drives = volume(folder.path(), Level::RAID6);
        fs::remove_file(drives.remove(2)).unwrap();
        let new = empty(folder.path(), "new");
        // The drive is only labeled: its three labels follow those of the five others.
        let replaced = || replace(&drives, &new, false, &mut untold);
        assert!(killed_at(18, replaced).is_none());
        let all = [&drives[..], std::slice::from_ref(&new)].concat();
        let stage = || labels::read(&new).unwrap().label.stage;
        assert_eq!((stage(), status(&drives).unwrap().missing()), (DriveStage::Joining, vec![3]));
        // Drive 3 may reappear later, so commands that only open the volume do not give its slot to
        // another drive.
        holds_all(&all);
        let checked = check(&all, 0, &mut untold).unwrap();
        assert_eq!((checked.missing(), &checked.joining[..]), (vec![3], &[7][..]));
        let other = empty(folder.path(), "other");
        let replaced = replace(&all, &other, false, &mut untold).unwrap();
        assert_eq!(
            (replaced.missing(), &replaced.census.members[..]),
            (vec![], &[1, 2, 8, 4, 5, 6][..])
        );
        assert_eq!(
            (stage(), labels::read(&other).unwrap().label.stage),
            (DriveStage::Joining, DriveStage::Member)
        );
        holds_all(&all);
    }

    #[test]
    fn two_drives_never_have_the_same_number() {
        let folder = folder();
        let mut drives = volume(folder.path(), Level::RAID6);
        fs::remove_file(drives.remove(2)).unwrap();
        let [half, other] = ["half", "other"].map(|name| empty(folder.path(), name));
        let number = |path: &PathBuf| labels::read(path).unwrap().label.drive;
        assert!(killed_at(18, || replace(&drives, &half, false, &mut untold)).is_none());
        replace(&drives, &other, false, &mut untold).unwrap();
        assert_eq!((number(&half), number(&other)), (7, 8));
        drives.push(other);
        let all = [&drives[..], std::slice::from_ref(&half)].concat();
        let opened = status(&all).unwrap();
        assert_eq!((opened.joining.clone(), opened.missing()), (vec![7], vec![]));
        // The drive counts as new and gets a number that no other drive has had.
        let grown = grow(&all, &[], DriveKind::Hdd, false, &mut untold).unwrap().1;
        assert_eq!((grown.census.members.len(), number(&half)), (7, 9));
        holds_all(&all);
    }

    #[test]
    fn growth_killed_at_any_write_continues() {
        let levels = [Level::RAID6, Level::Striped { parities: 0 }];
        // `make laws` tests both.
        for level in levels.into_iter().take(longer(1).min(2) as usize) {
            let folder = folder();
            let drives = volume(folder.path(), level);
            let new = ["a", "b"].map(|name| empty(folder.path(), name));
            killed_everywhere(&drives, &new, || {
                grow(&drives, &new, DriveKind::Hdd, false, &mut untold).map(|(_, after)| after)
            });
        }
    }

    #[test]
    fn unreadable_labels_and_records_lose_no_data() {
        let mut missing = 0;
        for seed in 0..longer(4) {
            let (folder, mut state) = (folder(), seed);
            let drives = volume(folder.path(), Level::RAID6);
            let ring = status(&drives).unwrap().geometry.ring * Geometry::RECORD_BYTES;
            let first = below(&mut state, 6) as usize;
            let mut bad = Vec::new();
            for nth in 0..1 + below(&mut state, 2) as usize {
                let path = &drives[(first + nth) % 6];
                let places = labels::places(crate::testing::DRIVE_BYTES);
                let labels = places.filter(|_| below(&mut state, 3) > 0).collect::<Vec<_>>();
                bad.extend(labels.into_iter().map(|at| (path.clone(), at)));
                for _ in 0..below(&mut state, 40) {
                    let at = below(&mut state, ring / 4096 * (1 + nth as u64) / 2) * 4096;
                    bad.push((path.clone(), 8192 + at));
                }
            }
            unreadable(&bad, || {
                let seen = status(&drives).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                let checked = check(&drives, 0, &mut untold).unwrap();
                missing += seen.missing().len();
                assert_eq!((seen.census.lost_units, checked.census.lost_units), (0, 0), "{seed}");
            });
            let opened = status(&drives).unwrap();
            assert_eq!((opened.missing(), opened.census.lost_units), (vec![], 0), "seed {seed}");
            holds_all(&drives);
        }
        assert!(missing > 0, "no drive had no label");
    }

    #[test]
    fn a_drive_with_scattered_bad_sectors_is_used_but_not_an_unreadable_one() {
        let folder = folder();
        let drives = volume(folder.path(), Level::RAID6);
        let ring = status(&drives).unwrap().geometry.ring;
        let record_at = |nth: u64| 8192 + nth * Geometry::RECORD_BYTES;
        // Without two drives, the other four are needed.
        let four = &drives[2..];
        let bad = |records: &mut dyn Iterator<Item = u64>| -> Vec<(PathBuf, u64)> {
            records.map(|nth| (four[0].clone(), record_at(nth))).collect()
        };
        unreadable(&bad(&mut (0..ring).step_by(2)), || {
            assert_eq!(status(four).unwrap().missing(), [1, 2]);
        });
        unreadable(&bad(&mut (0..ring)), || {
            let said = status(four).unwrap_err().to_string();
            assert!(said.contains("cannot be read from enough of its drives"), "{said}");
        });
    }

    #[test]
    fn many_replaced_drives_may_be_present() {
        let folder = folder();
        let drives = volume(folder.path(), Level::RAID6);
        let label = labels::read(&drives[0]).unwrap().label;
        let stale = |drive: u8| {
            let path = empty(folder.path(), &format!("stale{drive}"));
            let bytes = crate::testing::DRIVE_BYTES;
            labels::write(&path, &Label { drive, ..label }, bytes).unwrap();
            path
        };
        let stale: Vec<PathBuf> = (100..=159).map(stale).collect();
        // The volume's drives come after drives that no record names.
        let all = [&stale[..40], &drives].concat();
        let opened = check(&all, 0, &mut untold).unwrap();
        assert_eq!((opened.missing(), opened.census.members.len()), (vec![], 6));
        holds_all(&all);
        let said = status(&[&stale[..], &drives].concat()).unwrap_err().to_string();
        assert!(said.contains("got 66 drives with its label, expected at most 64"), "{said}");
    }
}
