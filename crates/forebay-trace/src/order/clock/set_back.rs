//! Decides whether the clock was set back by less than a second: the rows on both sides are in
//! order, and those after the step do not soon jump back to where the clock was.
//!
//! In a log whose rows are out of order anyway, such a step is not reported, because a slow request
//! or a part of the log that was written later looks the same.

use super::{ArrivalRow, Clock, SMALL_STEP_NS};
use crate::Record;

/// The minimum number of rows before the step.
const KNOWN_ROWS: u64 = 64;
/// The minimum number of rows after the first, and how many of them must be earlier than the rows
/// before the step.
const AHEAD_ROWS: usize = 8;
const STAY_ROWS: usize = 4;
/// The rows are in order if no other row falls back by more than the step divided by this.
const ORDERLY_SHARE: u64 = 8;

impl Clock {
    /// Returns whether the clock was set back before this row.
    pub(super) fn is_set_back(&self, row: ArrivalRow, ahead: &[Record]) -> bool {
        let back_ns = self.last.at_ns - row.at_ns;
        let rows = self.rows - 1 - self.run.before;
        if back_ns < SMALL_STEP_NS || rows < KNOWN_ROWS || ahead.len() < AHEAD_ROWS {
            return false;
        }
        let times = || ahead.iter().map(|record| record.at.0.saturating_add(self.shift_ns));
        let gaps = || std::iter::once(row.at_ns).chain(times()).zip(times());
        let falls_ns = gaps().map(|(last, next)| last.saturating_sub(next)).max().unwrap_or(0);
        let jumps_ns = gaps().map(|(last, next)| next.saturating_sub(last)).max().unwrap_or(0);
        let is_orderly = falls_ns.max(self.run.shaken_ns) <= back_ns / ORDERLY_SHARE;
        let stays = times().take(STAY_ROWS).all(|at_ns| at_ns < self.last.at_ns);
        // A step of one or two ticks of a coarse clock is not significant.
        let is_tick = |at_ns: u64| at_ns.is_multiple_of(back_ns / 2);
        let is_coarse = is_tick(row.at_ns) && is_tick(self.last.at_ns) && times().all(is_tick);
        is_orderly && stays && jumps_ns < back_ns / 2 && !is_coarse
    }
}
