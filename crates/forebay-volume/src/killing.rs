//! For tests: a process that is killed at a write, again and again, at each in turn.
//!
//! The thread that writes panics instead of writing, and unwinding takes its drives away, as the end of a process does.

use std::cell::Cell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};

use forebay_core::{Lane, Nanos, Op, Piece, Request, Slots};
use forebay_live::{Ended, Lanes, Target, Threads, Waker};

thread_local! {
    /// Writes until the one that kills; none where nothing does.
    static LEFT: Cell<Option<u64>> = const { Cell::new(None) };
}

/// What a killed thread panics with.
struct Killed;

/// A write comes.
pub(crate) fn point() {
    match LEFT.get() {
        Some(0) => panic_any(Killed),
        left => LEFT.set(left.map(|left| left - 1)),
    }
}

/// Does `work`, which is killed at the write before which it did so many; none if it was.
pub(crate) fn killed_at<T>(writes: u64, work: impl FnOnce() -> T) -> Option<T> {
    LEFT.set(Some(writes));
    let done = catch_unwind(AssertUnwindSafe(work));
    LEFT.set(None);
    match done {
        Ok(done) => Some(done),
        Err(panic) if panic.is::<Killed>() => None,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Lanes whose writes count.
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
    use std::fs::{self, File};
    use std::path::{Path, PathBuf};

    use forebay_core::stack::array::{DriveStage, Kind, Level};
    use forebay_core::{Buf, Bytes, Done, Flags, Workload};
    use forebay_live::{payload, run};

    use super::*;
    use crate::open::{Opened, over};
    use crate::{Create, Error, create, find, grow, labels, replace, status};

    const DRIVE_BYTES: u64 = (6 << 20) + 4096;
    const UNIT: u32 = 16_384;
    const UNITS: u64 = 3;

    /// Writes every unit, or reads it and looks at what it holds; then a flush.
    struct Units {
        writes: bool,
        asked: u64,
        done: u64,
        buf: Buf,
    }

    impl Workload for Units {
        fn peek(&self) -> Option<Nanos> {
            (self.asked == self.done && self.asked <= UNITS).then_some(Nanos::ZERO)
        }
        fn take(&mut self) -> Request {
            self.asked += 1;
            let is_flush = self.asked > UNITS;
            let op = match self.writes {
                _ if is_flush => Op::Flush,
                true => Op::Write,
                false => Op::Read,
            };
            let (len, offset) = if is_flush { (0, 0) } else { (UNIT, self.asked - 1) };
            let (at, flags, stream, lane) = (Nanos::ZERO, Flags::NONE, 0, 0);
            let offset = offset * u64::from(UNIT);
            Request { at, offset, id: self.asked, len, stream, lane, op, flags }
        }
        fn bytes(&mut self, request: &Request, slots: &mut dyn Slots) -> Bytes {
            if request.len == 0 {
                return Bytes::NONE;
            }
            self.buf = slots.take(request.len);
            let bytes: Vec<u8> = (request.offset..request.end()).map(payload).collect();
            if self.writes {
                slots.put(Bytes::of(self.buf).len(request.len), &bytes);
            }
            Bytes::of(self.buf)
        }
        fn finished(&mut self, _now: Nanos, done: &Done, slots: &mut dyn Slots) {
            assert_eq!(done.outcome, Ok(()), "{:?}", done.request);
            self.done += 1;
            if done.request.len == 0 {
                return;
            }
            let mut bytes = vec![0; UNIT as usize];
            assert!(slots.get(Bytes::of(self.buf).len(UNIT), &mut bytes));
            let wrong = (done.request.offset..).zip(bytes).find(|(at, byte)| payload(*at) != *byte);
            assert_eq!(wrong, None, "what was written is there");
            slots.free(self.buf);
        }
        fn is_over(&self) -> bool {
            self.done == UNITS + 1
        }
    }

    fn units(drives: &[PathBuf], writes: bool) {
        let found = find(drives, true).unwrap();
        let mut policy = over(found.array(), "noop").unwrap();
        let targets = found.drives.into_iter().map(|(_, target)| target).collect();
        let mut lanes = Threads::new(targets, 4).unwrap();
        run(&mut policy, &mut lanes, &mut Units { writes, asked: 0, done: 0, buf: 0 }, &mut ())
            .unwrap();
    }

    /// Drives as they were, to be as they were again.
    struct Kept(Vec<(PathBuf, Vec<u8>)>);

    impl Kept {
        fn of(drives: &[PathBuf]) -> Kept {
            Kept(drives.iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect())
        }
        fn again(&self) {
            self.0.iter().for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
        }
    }

    fn empty(folder: &Path, name: &str) -> PathBuf {
        let path = folder.join(name);
        File::create(&path).unwrap().set_len(DRIVE_BYTES).unwrap();
        path
    }

    fn volume(folder: &Path, level: Level) -> Vec<PathBuf> {
        let drives: Vec<PathBuf> = (1..=6).map(|nth| empty(folder, &format!("d{nth}"))).collect();
        let how = Create { level, chunk_bytes: 4096, chunks: 4, ssds: 0, overwrite: false };
        create(&drives, how).unwrap();
        units(&drives, true);
        drives
    }

    /// Kills `verb` at each of its writes in turn. It goes on when it is asked once more, and then the volume has
    /// all its drives and data; a half made drive is never called used.
    fn killed_everywhere(
        drives: &[PathBuf],
        new: &[PathBuf],
        mut verb: impl FnMut() -> Result<Opened, Error>,
    ) {
        let kept = Kept::of(&[drives, new].concat());
        let all = [drives, new].concat();
        // Labels come first and last; what is between is one write like the other.
        for writes in (0..48).chain((48..).step_by(7)) {
            kept.again();
            let is_over = killed_at(writes, &mut verb).is_some_and(|done| {
                done.unwrap();
                true
            });
            for path in new {
                let how = Create {
                    level: Level::RAID6,
                    chunk_bytes: 4096,
                    chunks: 4,
                    ssds: 0,
                    overwrite: false,
                };
                let said = create(std::slice::from_ref(path), how).unwrap_err().to_string();
                let is_member =
                    labels::read(path).is_ok_and(|it| it.label.stage == DriveStage::Member);
                assert!(is_member || !said.contains("--overwrite"), "write {writes}: {said}");
            }
            let opened = verb().unwrap_or_else(|error| panic!("write {writes}: {error}"));
            assert!(opened.others.is_empty() && opened.joining.is_empty(), "{opened:?}");
            let whole = status(&all).unwrap();
            let is_whole = whole.missing().is_empty() && whole.census.degraded_units == 0;
            assert!(is_whole && whole.others.is_empty(), "write {writes}: {whole:?}");
            let stages = all.iter().map(|path| labels::read(path).unwrap());
            assert!(
                stages.into_iter().all(|it| it.label.stage == DriveStage::Member && !it.is_worn)
            );
            units(&all, false);
            if is_over {
                let opened = verb().unwrap();
                assert_eq!(opened.already, new, "it is done already");
                return;
            }
        }
    }

    #[test]
    fn a_replacement_that_is_killed_at_any_write_continues() {
        let folder = tempfile::tempdir().unwrap();
        let mut drives = volume(folder.path(), Level::RAID6);
        fs::remove_file(drives.remove(2)).unwrap();
        let new = empty(folder.path(), "new");
        killed_everywhere(&drives, std::slice::from_ref(&new), || {
            replace(&drives, &new, false, &mut |_| ())
        });
    }

    #[test]
    fn growth_that_is_killed_at_any_write_continues() {
        for level in [Level::RAID6, Level::Striped { parities: 0 }] {
            let folder = tempfile::tempdir().unwrap();
            let drives = volume(folder.path(), level);
            let new = ["a", "b"].map(|name| empty(folder.path(), name));
            killed_everywhere(&drives, &new, || {
                grow(&drives, &new, Kind::Hdd, false, &mut |_| ()).map(|(_, after)| after)
            });
        }
    }
}
