//! Decides whether a step back begins a new run, from the rows that follow it.

use super::{ArrivalRow, Clock, FAR_NS};
use crate::Record;

/// The number of rows after a step that are examined.
pub(in crate::order) const LOOK_AHEAD: usize = 64;
/// If the time returns to its earlier course after at most this many rows, these rows do not form a
/// new run.
const FEW_ROWS: usize = 3;
/// The minimum number of rows before the step for a decision.
const KNOWN_ROWS: u64 = 8;
/// The minimum number of rows before the step if the next row is later than all of them.
const ALONE_ROWS: u64 = 3;
/// Rows are out of order throughout if at least one row in this many is earlier than its
/// predecessors by at least the step divided by this number.
const RESTLESS_SHARE: usize = 8;
/// If the time jumps back to where it was after more rows, these do not form a new run if the jump
/// is at least this many times the mean gap.
const JUMP_GAPS: u64 = 20;
/// The minimum number of rows and the minimum duration of a run before a small step can begin a new
/// one.
const RUN_ROWS: u64 = 16;
const RUN_NS: u64 = 10_000_000;
/// The minimum number of rows if some of them were out of order.
const SHAKEN_ROWS: u64 = 64;
/// In a run with rows out of order, the number of rows examined after a step is the length of the
/// run divided by this. If at least one in this many of them is later than the middle of the step,
/// there is no new run.
const SHAKEN_SHARE: usize = 8;
/// The number of rows that must stay near the beginning of a new run. The second number is for runs
/// with rows out of order.
const STAY_ROWS: usize = 4;
const STAY_SHAKEN_ROWS: usize = 24;

impl Clock {
    /// Returns whether the time soon jumps back to where it was before the row.
    pub(super) fn returns(&self, row: ArrivalRow, ahead: &[Record]) -> bool {
        let back_ns = self.newest_ns - row.at_ns.min(self.newest_ns);
        let run_rows = self.rows - self.run.before;
        if back_ns >= FAR_NS {
            return false;
        }
        let falls = |pair: &&[Record]| {
            pair[0].at.0.saturating_sub(pair[1].at.0) > back_ns / RESTLESS_SHARE as u64
        };
        let often = ahead.windows(2).filter(falls).count();
        if often > 1 && often * RESTLESS_SHARE > ahead.len() {
            return true;
        }
        if run_rows <= KNOWN_ROWS {
            // A single row is not a run.
            let next_ns = ahead.first().map(|record| record.at.0.saturating_add(self.shift_ns));
            return run_rows > ALONE_ROWS && next_ns >= Some(self.newest_ns);
        }
        if self.run.is_shaken() && run_rows >= SHAKEN_ROWS {
            // Rows are far out of order throughout, so few of those after this one stay close to
            // it.
            let window = (run_rows as usize / SHAKEN_SHARE).min(LOOK_AHEAD);
            let next = &ahead[..ahead.len().min(window)];
            let is_above = |record: &&Record| {
                record.at.0.saturating_add(self.shift_ns) > row.at_ns + back_ns / 2
            };
            let above = next.iter().filter(is_above).count();
            if next.len() < window / 2 || above * SHAKEN_SHARE >= next.len() {
                return true;
            }
        }
        let mean_ns = (self.run.newest_ns - self.run.first_ns.min(self.run.newest_ns)) / run_rows;
        let (mut last_ns, mut jump_ns) = (row.at_ns, 0);
        for (rows, record) in ahead.iter().enumerate() {
            let at_ns = record.at.0.saturating_add(self.shift_ns);
            jump_ns = jump_ns.max(at_ns.saturating_sub(last_ns));
            last_ns = at_ns;
            if at_ns >= self.newest_ns.saturating_sub(back_ns / 4) {
                let is_jump = jump_ns >= back_ns / 2;
                return is_jump && (rows < FEW_ROWS || jump_ns / JUMP_GAPS >= mean_ns);
            }
        }
        false
    }

    /// Returns whether a new run begins with a row that follows a small step back.
    pub(super) fn begins_again(&self, row: ArrivalRow, ahead: &[Record]) -> bool {
        let run = &self.run;
        let (rows, span_ns) =
            (self.rows - 1 - run.before, run.newest_ns.saturating_sub(run.first_ns));
        let (rows_least, stay) = match run.is_shaken() {
            true => (SHAKEN_ROWS, STAY_SHAKEN_ROWS),
            false => (RUN_ROWS, STAY_ROWS),
        };
        let from_begin_ns = |at_ns: u64| at_ns.saturating_sub(run.first_ns);
        let is_at_begin = from_begin_ns(row.at_ns) <= span_ns / 10
            && run.first_ns.saturating_sub(row.at_ns) <= span_ns / 10;
        if rows < rows_least || span_ns < RUN_NS || !is_at_begin {
            return false;
        }
        let follow = &ahead[..ahead.len().min(stay)];
        let times = || follow.iter().map(|record| record.at.0.saturating_add(self.shift_ns));
        let stays = times().all(|at_ns| from_begin_ns(at_ns) < span_ns / 2);
        let is_in_order = times().is_sorted();
        follow.len() * 2 >= stay && stays && (run.is_shaken() || is_in_order)
    }
}
