//! What is read and written while a volume is looked at, told as it happens.

use std::ops::ControlFlow;

use forebay_core::contract::observer::Observer;
use forebay_core::{Completion, Nanos, Op};
use forebay_live::Watch;

/// Bytes that drives have read and written so far, all together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moved {
    /// Read from drives.
    pub read_bytes: u64,
    /// Written to drives.
    pub written_bytes: u64,
    /// How many it will be, or so: of a check those read, of a replacement those written; not known of growing.
    pub all_bytes: Option<u64>,
}

/// Hears of it, at most every [`EVERY`]. `Break` ends the work, which a later call continues.
pub type Tell<'a> = &'a mut dyn FnMut(Moved) -> ControlFlow<()>;

/// Goes on, whatever is moved.
pub fn untold(_: Moved) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// How often somebody is told.
const EVERY: Nanos = Nanos::from_millis(100);

/// Counts, and tells.
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

    /// Whether the user ended the work.
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
