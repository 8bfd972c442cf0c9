//! Recognizes wild rows: a few rows whose times are far from those before and after them.

use super::{AHEAD_NS, ArrivalRow, Clock, FAR_NS, STEP_NS, Step, WILD_ROWS};
use crate::Record;

/// The minimum number of rows before a row that is wild because it is earlier than the others.
const KNOWN_ROWS: u64 = 3;
/// From this time on, a clock does not count from the beginning of a recording or of an uptime.
const DATED_NS: u64 = 365 * 86_400 * 1_000_000_000;

impl Clock {
    /// Returns whether the row is far earlier than the rows before it, and than the rows after it
    /// except the next few. `ahead` contains the following rows, and is empty for the last row.
    ///
    /// In the order of completions, a slow request may look like that. Therefore, a row that is
    /// earlier by less than [`FAR_NS`] must be alone, have a time of 0, which may be missing, and
    /// precede the whole run.
    pub(super) fn is_wild(&self, row: ArrivalRow, ahead: &[Record]) -> bool {
        let back_ns = self.newest_ns - row.at_ns.min(self.newest_ns);
        let is_far = back_ns >= FAR_NS;
        let is_missing = row.at_ns == self.shift_ns && row.at_ns <= self.run.first_ns;
        // A distant time of 0 is certainly a missing time if it is followed by times like those
        // before it.
        let known_rows = if is_far && is_missing && !ahead.is_empty() { 1 } else { KNOWN_ROWS };
        if !is_far && (!is_missing || back_ns < AHEAD_NS)
            || self.rows - 1 - self.run.before < known_rows
            || self.is_explained(row, STEP_NS)
        {
            return false;
        }
        if ahead.is_empty() && is_far {
            return true;
        }
        // Missing times have the same value in all rows.
        let times = ahead.iter().map(|record| record.at.0.saturating_add(self.shift_ns));
        let times = times.skip_while(|&at_ns| is_far && at_ns == row.at_ns);
        let rows = if is_far { WILD_ROWS as usize } else { 1 };
        let mut last_ns = row.at_ns;
        times.take(rows).any(|at_ns| {
            let jump_ns = at_ns.saturating_sub(std::mem::replace(&mut last_ns, at_ns));
            jump_ns > back_ns / 2 && at_ns.saturating_sub(row.at_ns) > back_ns - back_ns / 4
        })
    }

    /// Returns the time of the first row. If it is 0 although the following rows are far later and
    /// near each other, it is missing, and the row gets the time of the next row that has one.
    /// Because a recording may begin at 0 and then pause, the later times must be dates, or some of
    /// them must be missing too.
    pub(super) fn first_time(&mut self, at_ns: u64, ahead: &[Record]) -> u64 {
        let mut times = ahead.iter().map(|record| record.at.0).skip_while(|&at_ns| at_ns == 0);
        let (Some(next_ns), 0) = (times.next(), at_ns) else { return at_ns };
        let rest: Vec<u64> = times.collect();
        let known = || rest.iter().filter(|&&at_ns| at_ns > 0);
        let is_near = known().all(|at_ns| at_ns.abs_diff(next_ns) < next_ns / 2);
        let is_missing = next_ns >= DATED_NS || known().count() < rest.len();
        if next_ns < FAR_NS || known().count() == 0 || !is_near || !is_missing {
            return at_ns;
        }
        self.count_wild(Step { row: 1, ns: next_ns, newest_ns: next_ns }, 1);
        self.placed += 1;
        next_ns
    }

    /// Returns whether the row follows a few rows that are far ahead of the others.
    pub(super) fn is_back_from_wild(&mut self, row: ArrivalRow) -> bool {
        let Some(step) = self.ahead else { return false };
        let rows = self.rows - step.row;
        let is_back = row.at_ns.abs_diff(step.newest_ns) < step.ns / 2;
        // A slow request arrived earlier but completed among the others.
        let is_slow = row.end_ns().is_some_and(|end_ns| end_ns >= self.last.at_ns);
        if rows > WILD_ROWS || !is_back || is_slow {
            return false;
        }
        self.ahead = None;
        self.newest_ns = step.newest_ns;
        self.count_wild(step, rows);
        true
    }

    pub(super) fn count_wild(&mut self, step: Step, rows: u64) {
        if self.wild == 0 {
            self.wild_first = step.row;
        }
        self.wild += rows;
        self.wild_ns = self.wild_ns.max(step.ns);
    }
}
