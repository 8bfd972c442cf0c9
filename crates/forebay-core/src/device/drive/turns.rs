//! The order in which commands get the arm.
//!
//! The command that the head reaches first goes first. A command that has waited for longer than
//! the starvation limit precedes it, but only once in [`FORCED_ONE_IN`] turns. Without that
//! restriction, a drive that is busy for longer than its limit would serve commands by age alone:
//! every waiting command is then too old, serving in order of arrival costs most of the throughput,
//! and so all commands stay too old. With the restriction, every command is still served, because
//! the oldest has its turn after seven others. The fraction is an assumption, since data sheets do
//! not specify one. At one in four, drives with space for 64 to 128 random requests are a fifth
//! slower than with space for 48; at one in eight, at most 3 % slower, and the longest wait is the
//! same.

/// At most one in this many turns may be forced.
const FORCED_ONE_IN: u32 = 8;

/// The command or write-cache run that the arm serves next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pick {
    pub(super) index: usize,
    /// Whether the command or run was chosen because it has waited too long.
    pub(super) forced: bool,
    /// When the head reaches the first sector; 0 if the choice did not depend on the head's
    /// position.
    pub(super) at: u64,
    /// When the command or run began to wait.
    pub(super) since: u64,
}

/// Counts the turns since the last forced one.
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
    /// Returns whether the next turn may be forced.
    pub(super) fn may_force(&self) -> bool {
        self.since_forced >= FORCED_ONE_IN - 1
    }

    /// Records a turn.
    pub(super) fn count(&mut self, forced: bool) {
        self.since_forced = if forced { 0 } else { (self.since_forced + 1).min(FORCED_ONE_IN) };
    }
}
