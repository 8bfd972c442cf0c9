//! Test support: a process that is killed at a write, for each write in turn.
//!
//! Instead of writing, the thread panics, and unwinding closes its drives, as the end of a process
//! does.

use std::cell::Cell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use forebay_core::{Lane, Nanos, Op, Piece, Request, Slots};
use forebay_live::{Ended, Lanes, Target, Threads, Waker};

thread_local! {
    /// The number of writes before the fatal one; None if no write is fatal.
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

/// Runs `work`, which is killed after this many writes; returns None if it was killed.
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

/// Runs `work` without killing it; returns its result and its number of writes.
pub(crate) fn writes_of<T>(work: impl FnOnce() -> T) -> (T, u64) {
    LEFT.set(Some(u64::MAX));
    let done = work();
    (done, u64::MAX - LEFT.take().unwrap_or(u64::MAX))
}

/// Lanes whose writes are counted.
pub(crate) struct Mortal(Threads);

impl Mortal {
    pub(crate) fn new(targets: Vec<Target>, depth: u32) -> io::Result<Mortal> {
        Ok(Mortal(Threads::new(targets, depth)?))
    }
}

impl Lanes for Mortal {
    fn count(&self) -> usize {
        self.0.count()
    }
    fn reap(&mut self, next: Nanos, ended: &mut Vec<Ended>) -> io::Result<Nanos> {
        self.0.reap(next, ended)
    }
    fn wall(&mut self) -> Nanos {
        self.0.wall()
    }
    fn room(&self, lane: Lane) -> bool {
        self.0.room(lane)
    }
    fn slots(&mut self) -> &mut dyn Slots {
        self.0.slots()
    }
    fn start(&mut self, now: Nanos, io: Request, pieces: &[Piece]) {
        if io.op == Op::Write {
            point();
        }
        self.0.start(now, io, pieces);
    }
    fn waker(&mut self) -> io::Result<Waker> {
        self.0.waker()
    }
    fn under_way(&self) -> usize {
        self.0.under_way()
    }
    fn proceed(&mut self, until: Nanos) -> io::Result<()> {
        self.0.proceed(until)
    }
    fn held_up(&mut self) -> Option<(Nanos, Nanos)> {
        self.0.held_up()
    }
}

mod tests {
    use std::fs;
    use std::path::PathBuf;

    use forebay_core::stack::array::{DriveKind, DriveStage, Level};
    use forebay_testing::longer;

    use super::*;
    use crate::open::Opened;
    use crate::testing::{empty, folder, holds_all, made, volume};
    use crate::{Error, check, create, grow, labels, replace, status, untold};

    /// Copies of drives, to restore them.
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
            assert!(killed_at(write, &mut verb).is_none(), "{write} of {count}");
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
    fn making_that_is_killed_at_any_write_begins_anew_or_ends() {
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
    fn a_replacement_that_is_killed_at_any_write_continues() {
        let folder = folder();
        let mut drives = volume(folder.path(), Level::RAID6);
        fs::remove_file(drives.remove(2)).unwrap();
        let new = empty(folder.path(), "new");
        killed_everywhere(&drives, std::slice::from_ref(&new), || {
            replace(&drives, &new, false, &mut untold)
        });
    }

    #[test]
    fn a_half_made_drive_that_others_take_in_is_a_member_when_it_was_checked() {
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
        holds_all(&all);
        let checked = check(&all, 0, &mut untold).unwrap();
        assert_eq!((checked.missing(), checked.census.degraded_units), (vec![], 0));
        assert_eq!(stage(), DriveStage::Member);
    }

    #[test]
    fn two_drives_never_have_one_number() {
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
        // The drive is new again and gets a number that no other drive had.
        let grown = grow(&all, &[], DriveKind::Hdd, false, &mut untold).unwrap().1;
        assert_eq!((grown.census.members.len(), number(&half)), (7, 9));
        holds_all(&all);
    }

    #[test]
    fn growth_that_is_killed_at_any_write_continues() {
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
}
