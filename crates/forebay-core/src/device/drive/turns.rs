//! Whose turn it is at the arm.
//!
//! What the head reaches first goes first, and what has waited longer than the drive's patience goes
//! before it, but only once in [`FORCED_ONE_IN`] turns. Without that limit a drive that is busy for
//! longer than its patience would serve by age alone: everything it holds is then too old, the order of
//! arrival costs most of the throughput, and so everything stays too old. With it, all that waits is
//! still served: the oldest has its turn after seven others. The share is assumed, as no data sheet has one. At
//! one in four, drives with room for 64 to 128 random requests still do a fifth less than with room for 48; at one in
//! eight no more than 3 %, and the longest wait is as long.

/// One turn in so many may be forced.
const FORCED_ONE_IN: u32 = 8;

/// What has the arm next, among commands or among runs of the write cache.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pick {
    pub(super) index: usize,
    /// Whether it goes because it has waited too long.
    pub(super) forced: bool,
    /// When the head reaches it; 0 where that did not matter.
    pub(super) at: u64,
    /// Since when it has waited.
    pub(super) since: u64,
}

/// Counts turns since the last that was forced.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turns {
    since_forced: u32,
}

impl Default for Turns {
    /// The first turn may be forced.
    fn default() -> Turns {
        Turns { since_forced: FORCED_ONE_IN - 1 }
    }
}

impl Turns {
    /// Whether the next turn may be forced.
    pub(super) fn may_force(&self) -> bool {
        self.since_forced >= FORCED_ONE_IN - 1
    }

    /// A turn was taken.
    pub(super) fn count(&mut self, forced: bool) {
        self.since_forced = if forced { 0 } else { (self.since_forced + 1).min(FORCED_ONE_IN) };
    }
}
