//! Test support: volumes of six small drives with three units, and checks of their content.

use std::path::{Path, PathBuf};

use forebay_core::stack::array::Level;
use forebay_core::{Buf, Bytes, Done, Flags, Nanos, Op, Request, Slots, Workload};
use forebay_live::{Threads, payload, run};

use crate::{Create, create, find, over};

pub(crate) const DRIVE_BYTES: u64 = (6 << 20) + 4096;
const UNIT: u32 = 16_384;
const UNITS: u64 = 3;

/// A workload that writes or reads every unit, then flushes.
struct Units {
    writes: bool,
    /// The number of requests for the three units.
    count: u64,
    asked: u64,
    done: u64,
    buf: Buf,
    /// The data that was read.
    content: Vec<u8>,
}

impl Workload for Units {
    fn peek(&self) -> Option<Nanos> {
        (self.asked == self.done && self.asked <= self.count).then_some(Nanos::ZERO)
    }
    fn take(&mut self) -> Request {
        self.asked += 1;
        let is_flush = self.asked > self.count;
        let op = match self.writes {
            _ if is_flush => Op::Flush,
            true => Op::Write,
            false => Op::Read,
        };
        let (len, offset) = if is_flush { (0, 0) } else { (UNIT, (self.asked - 1) % UNITS) };
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
        self.content.extend(bytes);
        slots.free(self.buf);
    }
    fn is_over(&self) -> bool {
        self.done == self.count + 1
    }
}

/// Writes or reads the three units this many times. Returns the data read.
fn moved(drives: &[PathBuf], writes: bool, times: u64) -> Vec<u8> {
    let found = find(drives, true).unwrap();
    let mut policy = over(found.array(), "noop").unwrap();
    let targets = found.drives.into_iter().map(|(_, target)| target).collect();
    let mut lanes = Threads::new(targets, 4).unwrap();
    let mut units =
        Units { writes, count: UNITS * times, asked: 0, done: 0, buf: 0, content: Vec::new() };
    run(&mut policy, &mut lanes, &mut units, &mut ()).unwrap();
    units.content
}

/// Reads the content of the three units.
pub(crate) fn content(drives: &[PathBuf]) -> Vec<u8> {
    moved(drives, false, 1)
}

/// Checks every byte that [`volume`] wrote.
pub(crate) fn holds_all(drives: &[PathBuf]) {
    let wrong = (0..).zip(content(drives)).find(|(at, byte)| payload(*at) != *byte);
    assert_eq!(wrong, None, "what was written is there");
}

/// Creates a folder, in memory if possible, because many labels are flushed separately.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Rewrites the content of the three units this many times.
pub(crate) fn rewritten(drives: &[PathBuf], times: u64) {
    moved(drives, true, times);
}

/// Creates an empty drive.
pub(crate) fn empty(folder: &Path, name: &str) -> PathBuf {
    let path = folder.join(name);
    forebay_rig::holes(&path, DRIVE_BYTES);
    path
}

/// Returns the parameters of test volumes.
pub(crate) fn made(level: Level) -> Create {
    Create { chunk_bytes: 4096, ..Create::new(level) }
}

/// Creates a volume of six drives that contains three units.
pub(crate) fn volume(folder: &Path, level: Level) -> Vec<PathBuf> {
    let drives: Vec<PathBuf> = (1..=6).map(|nth| empty(folder, &format!("d{nth}"))).collect();
    create(&drives, made(level)).unwrap();
    moved(&drives, true, 1);
    drives
}
