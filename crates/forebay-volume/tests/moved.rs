//! Tests the progress of reading, repairing and growing a volume: it ends at the size of the
//! volume's data.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use forebay_core::contract::policy::Done;
use forebay_core::stack::array::{DriveKind, Geometry, Level};
use forebay_core::{Flags, Nanos, Op, Request, Slots, Workload};
use forebay_live::{Patterned, Target, Threads, run};
use forebay_rig::holes;
use forebay_volume::{
    Create, Error, Moved, Tell, check, create, find, grow, over, replace, status, untold,
};

const CHUNK_BYTES: u32 = 64 << 10;
/// The size of a cell in bytes: a chunk and its trailer.
const CELL_BYTES: u64 = CHUNK_BYTES as u64 + 4096;
const UNIT_BYTES: u32 = 4 * CHUNK_BYTES;
const DRIVE_BYTES: u64 = 32 << 20;

/// A workload that opens the volume, writes this many units one after another, and flushes.
struct Writes {
    units: u64,
    asked: u64,
    done: u64,
}

impl Workload for Writes {
    fn peek(&self) -> Option<Nanos> {
        (self.asked == self.done && self.asked <= self.units + 1).then_some(Nanos::ZERO)
    }

    fn take(&mut self) -> Request {
        let step = self.asked;
        self.asked += 1;
        let (op, len) = match step {
            0 => (Op::Open, 0),
            step if step <= self.units => (Op::Write, UNIT_BYTES),
            _ => (Op::Flush, 0),
        };
        let offset = step.saturating_sub(1) % self.units * u64::from(UNIT_BYTES);
        let (at, flags) = (Nanos::ZERO, Flags::NONE);
        Request { at, offset, id: step, len, stream: 0, lane: 0, op, flags }
    }

    fn finished(&mut self, _now: Nanos, done: &Done, _slots: &mut dyn Slots) {
        assert!(done.outcome.is_ok(), "{:?}", done.outcome);
        self.done += 1;
    }

    fn is_over(&self) -> bool {
        self.done == self.units + 2
    }
}

fn drive(folder: &Path, name: &str) -> PathBuf {
    let path = folder.join(name);
    holes(&path, DRIVE_BYTES);
    path
}

/// Returns a volume of six drives on which this many units have been written.
fn volume(folder: &Path, units: u64) -> Vec<PathBuf> {
    let drives: Vec<PathBuf> = (0..6).map(|nth| drive(folder, &format!("d{nth}"))).collect();
    let level = Level::Striped { parities: 2 };
    let how = Create { chunk_bytes: CHUNK_BYTES, ..Create::new(level) };
    create(&drives, how).unwrap();
    let found = find(&drives, true).unwrap();
    let mut policy = over(found.array(), "noop").unwrap();
    let targets: Vec<Target> = found.drives.into_iter().map(|(_, target)| target).collect();
    let mut lanes = Threads::new(targets, 8).unwrap();
    let pattern = lanes.pattern();
    let mut writes = Patterned::new(Writes { units, asked: 0, done: 0 }, pattern, true);
    run(&mut policy, &mut lanes, &mut writes, &mut ()).unwrap();
    drives
}

/// Returns the last progress report of `verb`, after checking that progress never decreased.
fn last(verb: impl FnOnce(Tell<'_>)) -> Moved {
    let mut last = Moved::default();
    verb(&mut |moved| {
        assert!(moved.read_bytes >= last.read_bytes && moved.written_bytes >= last.written_bytes);
        last = moved;
        ControlFlow::Continue(())
    });
    last
}

#[test]
fn a_later_call_continues_stopped_work() {
    let folder = tempfile::tempdir().unwrap();
    let drives = volume(folder.path(), 40);
    let slow = check(&drives, 1_000_000, &mut |_| ControlFlow::Break(()));
    assert!(matches!(slow, Err(Error::Stopped)), "{slow:?}");
    let checked = check(&drives, 0, &mut untold).unwrap();
    assert_eq!((checked.census.lost_units, checked.census.degraded_units), (0, 0));
}

#[test]
fn progress_ends_at_the_bytes_read_by_a_check_and_written_to_a_new_drive() {
    let folder = tempfile::tempdir().unwrap();
    let units = 40;
    let mut drives = volume(folder.path(), units);
    let records = 6 * status(&drives).unwrap().geometry.ring * Geometry::RECORD_BYTES;
    let read = last(|tell| drop(check(&drives, 0, tell).unwrap()));
    let stored = read.all_bytes.unwrap();
    assert_eq!(stored - records, units * 6 * CELL_BYTES, "four chunks of data and two parities");
    assert!(
        (stored - records / 10..stored + stored / 10).contains(&read.read_bytes),
        "{read:?} of {stored}"
    );
    assert!(read.written_bytes < u64::from(CHUNK_BYTES) * units, "{read:?}");
    std::fs::remove_file(drives.remove(2)).unwrap();
    let new = drive(folder.path(), "new");
    let made = last(|tell| drop(replace(&drives, &new, false, tell).unwrap()));
    let lacking = made.all_bytes.unwrap();
    assert_eq!(lacking, units * CELL_BYTES, "a cell of each unit was there");
    assert!((lacking..lacking * 2).contains(&made.written_bytes), "{made:?}");
    drives.push(new);
    assert_eq!(status(&drives).unwrap().census.degraded_units, 0);
    let more = drive(folder.path(), "more");
    let spread = last(|tell| {
        drop(grow(&drives, std::slice::from_ref(&more), DriveKind::Hdd, false, tell).unwrap())
    });
    assert!(spread.written_bytes > 0 && spread.all_bytes.is_none(), "{spread:?}");
}
