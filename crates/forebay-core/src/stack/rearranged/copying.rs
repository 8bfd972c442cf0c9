//! The progress of copying a rearrangement: the next extent, and the position in it.

use std::collections::VecDeque;

use crate::contract::{Buf, Nanos, Op};
use crate::rearrangement::Extent;
use crate::stack::placed::Planned;

/// The longest piece that is copied at a time, in bytes.
const COPY_BYTES: u32 = 1 << 20;

/// A read of a piece from its old position, or a write to its new position.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// The index of the move.
    pub(super) extent: usize,
    /// The first byte within the extent.
    pub(super) skip: u64,
    pub(super) len: u32,
    /// The data that was read.
    pub(super) buf: Buf,
    pub(super) writes: bool,
}

/// The extents that must still be copied, in order.
#[derive(Clone, Debug)]
pub(super) struct Copying {
    from: Nanos,
    begun: bool,
    len_max: u32,
    waiting: VecDeque<usize>,
    /// Whether each extent is waiting to be copied.
    waits: Vec<bool>,
    /// The current extent, the number of its bytes copied so far, and whether a client has written
    /// to the extent in the meantime.
    current: Option<(usize, u64, bool)>,
    /// The data of a piece that was read but not yet written.
    read: Option<Buf>,
}

impl Copying {
    /// Creates the state for `count` extents, whose copying begins at time `from`.
    pub(super) fn new(count: usize, from: Nanos, len_max: u32) -> Copying {
        Copying {
            from,
            begun: false,
            len_max: len_max.clamp(1, COPY_BYTES),
            waiting: (0..count).collect(),
            waits: vec![true; count],
            current: None,
            read: None,
        }
    }

    /// Returns when the copying begins; `None` if it has begun.
    pub(super) fn begins(&self) -> Option<Nanos> {
        (!self.begun).then_some(self.from)
    }

    pub(super) fn begin(&mut self) {
        self.begun = true;
    }

    /// Returns whether everything has been copied.
    pub(super) fn is_done(&self) -> bool {
        self.current.is_none() && self.waiting.is_empty()
    }

    /// Returns the next step.
    pub(super) fn next(&mut self, moves: &[Extent]) -> Option<Step> {
        if self.current.is_none() {
            let extent = self.waiting.pop_front()?;
            self.waits[extent] = false;
            self.current = Some((extent, 0, false));
        }
        let (extent, skip, _) = self.current?;
        let len = (moves[extent].len - skip).min(self.len_max.into()) as u32;
        let (buf, writes) = (self.read.unwrap_or_default(), self.read.is_some());
        Some(Step { extent, skip, len, buf, writes })
    }

    /// Handles the completion of the last step.
    pub(super) fn done(&mut self, io: &Planned, moves: &[Extent]) {
        self.read = (io.op == Op::Read).then_some(io.bytes.buf);
        let Some((extent, copied, void)) = self.current.filter(|_| io.op == Op::Write) else {
            return;
        };
        let copied = copied + u64::from(io.len);
        self.current = (copied < moves[extent].len).then_some((extent, copied, void));
        if self.current.is_none() && void {
            self.wait(extent);
        }
    }

    /// Records that a client has written to an extent, so that it must be copied again.
    pub(super) fn void(&mut self, extent: usize) {
        match &mut self.current {
            Some((current, _, void)) if *current == extent => *void = true,
            _ => self.wait(extent),
        }
    }

    fn wait(&mut self, extent: usize) {
        if !self.waits[extent] {
            self.waits[extent] = true;
            self.waiting.push_back(extent);
        }
    }
}
