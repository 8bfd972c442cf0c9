//! Reads all sectors that a writer may have written.

use std::path::PathBuf;

use forebay_core::{Buf, Bytes, Done, Flags, Nanos, Op, Request, Slots, Workload};

use crate::killed::steps::{SECTOR, SECTORS, written_by};
use crate::killed::writer::on_volume;

/// The number of sectors per read.
const STEP: u64 = 256;

/// Returns the step that wrote each sector of a volume.
pub(crate) fn read(drives: &[PathBuf]) -> Vec<u64> {
    let mut reader = Reader { found: Vec::new(), is_asked: false, buf: 0, now: Nanos::ZERO };
    on_volume(drives, &mut reader);
    reader.found
}

struct Reader {
    found: Vec<u64>,
    is_asked: bool,
    buf: Buf,
    now: Nanos,
}

impl Workload for Reader {
    fn peek(&self) -> Option<Nanos> {
        let is_due = !self.is_asked && (self.found.len() as u64) < SECTORS;
        is_due.then_some(self.now)
    }

    fn take(&mut self) -> Request {
        self.is_asked = true;
        Request {
            at: self.now,
            offset: self.found.len() as u64 * SECTOR as u64,
            id: self.found.len() as u64,
            len: STEP as u32 * SECTOR as u32,
            stream: 0,
            lane: 0,
            op: Op::Read,
            flags: Flags::NONE,
        }
    }

    fn bytes(&mut self, request: &Request, slots: &mut dyn Slots) -> Bytes {
        self.buf = slots.take(request.len);
        Bytes::of(self.buf)
    }

    fn finished(&mut self, now: Nanos, done: &Done, slots: &mut dyn Slots) {
        assert_eq!(done.outcome, Ok(()), "sectors from {} on cannot be read", done.request.id);
        for at in 0..STEP {
            let mut bytes = [0; SECTOR];
            let from = Bytes::of(self.buf).on(at as u32 * SECTOR as u32).len(SECTOR as u32);
            assert!(slots.get(from, &mut bytes));
            self.found.push(written_by(done.request.id + at, &bytes).unwrap());
        }
        slots.free(self.buf);
        (self.now, self.is_asked) = (now, false);
    }

    fn is_over(&self) -> bool {
        self.found.len() as u64 == SECTORS
    }
}
