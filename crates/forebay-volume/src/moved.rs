//! Progress reports while a volume is checked, rebuilt or enlarged.

use std::ops::ControlFlow;

use forebay_core::{Completion, Nanos, Observer, Op};
use forebay_live::Watch;

/// The total number of bytes read and written on all drives so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moved {
    /// Bytes read from drives.
    pub read_bytes: u64,
    /// Bytes written to drives.
    pub written_bytes: u64,
    /// The approximate total: bytes to read for a check, or bytes to write for a replacement.
    /// `None` when a volume grows.
    pub all_bytes: Option<u64>,
}

/// Receives progress, at most once every [`EVERY`]. `Break` ends the work, which a later call
/// continues.
pub type Tell<'a> = &'a mut dyn FnMut(Moved) -> ControlFlow<()>;

/// Ignores progress reports and continues.
pub fn untold(_: Moved) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// The minimum interval between progress reports.
const EVERY: Nanos = Nanos::from_millis(100);

/// Counts bytes and reports them.
pub(crate) struct Counting<'a> {
    moved: Moved,
    told: Nanos,
    tell: Tell<'a>,
    is_stopped: bool,
}

impl<'a> Counting<'a> {
    pub(crate) fn new(all_bytes: Option<u64>, tell: Tell<'a>) -> Counting<'a> {
        let moved = Moved { all_bytes, ..Moved::default() };
        Counting { moved, told: Nanos::ZERO, tell, is_stopped: false }
    }

    /// Returns whether the user ended the work.
    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped
    }
}

impl Observer for Counting<'_> {
    fn io(&mut self, completion: &Completion) {
        let len = u64::from(completion.io.len);
        match completion.io.op {
            Op::Read => self.moved.read_bytes += len,
            Op::Write => self.moved.written_bytes += len,
            _ => {}
        }
    }
}

impl Watch for Counting<'_> {
    fn stops(&mut self, wall: Nanos) -> bool {
        if wall >= self.told + EVERY {
            self.told = wall;
            self.is_stopped |= (self.tell)(self.moved).is_break();
        }
        self.is_stopped
    }
}

impl Drop for Counting<'_> {
    fn drop(&mut self) {
        let _ = (self.tell)(self.moved);
    }
}
