//! Analyzes the clock of a source, from the times of rows in the order of the file.
//!
//! Rows may be slightly out of order, because several CPUs write to one log, or because the log is
//! in the order of completions. To a sort, this looks the same as a clock that was set back, a
//! second recording in the same file, or a timestamp that is years off, and it would overlay one
//! part of the trace on another. Therefore, each row is compared with the previous one:
//!
//! - A *step back* is a decrease of at least [`STEP_NS`] in the time of arrival and, if latencies
//!   are known, also in that of completion. If the clock counts whole seconds, it must be more than
//!   two seconds.
//! - A smaller step counts if a run begins *again* with it: it goes back almost to the beginning of
//!   the run, and the following rows stay there ([`again`]). One of at least [`SMALL_STEP_NS`] also
//!   counts if the rows before and after it are in order, and stay in order ([`set_back`]).
//! - Any step back counts in the first row after a repeated header. If the clock *restarts* there,
//!   a second recording begins, which is placed after the first: the time is near the clock's zero,
//!   and the row is not the first of its volume. On a clock that shows the date or the uptime, and
//!   for another volume, both recordings may have been made at the same time.
//! - None of the others counts if the time soon *returns* by a jump to where it was, because this
//!   is a slow request in the order of completions ([`again`]).
//! - *Wild* rows are up to [`WILD_ROWS`] rows that are at least [`AHEAD_NS`] later, or at least
//!   [`FAR_NS`] earlier, than the rows on both sides. Those that are earlier get the time of the row
//!   before them ([`wild`]), because a missing time is often written as 0. If the first rows are
//!   such rows, they get the time of the row after them.

mod again;
mod report;
mod set_back;
mod wild;

use forebay_core::Nanos;

pub(super) use again::LOOK_AHEAD;
pub(crate) use report::long;

use crate::formats::BIAS_NS;
use crate::{HeaderAgain, Record, RunEvidence, RunStart};

/// The minimum step back that is reported.
const STEP_NS: u64 = 900_000_000;
/// The minimum step back that is reported if rows are in order otherwise. Several CPUs and queues
/// change the order of rows by less.
const SMALL_STEP_NS: u64 = 10_000_000;
/// The minimum step ahead of a wild timestamp.
const AHEAD_NS: u64 = 10_000_000_000;
/// The minimum step back of a wild timestamp, unless it precedes the first row. Shorter steps back
/// may be slow requests in the order of completions.
const FAR_NS: u64 = 3_600_000_000_000;
/// The maximum number of consecutive wild rows.
const WILD_ROWS: u64 = 16;
/// The maximum number of wild rows at the beginning, which are later than all rows after them.
const WILD_FIRST_ROWS: u64 = 2;
/// The time between runs that are placed one after another.
pub(crate) const APART_NS: u64 = 1_000_000_000;
/// The maximum number of steps back that are listed individually.
const STEPS_SHOWN: usize = 4;
const SECOND_NS: u64 = 1_000_000_000;

/// The times of a row: when its request arrived, and its latency.
#[derive(Clone, Copy, Default)]
pub(super) struct ArrivalRow {
    pub(super) at_ns: u64,
    pub(super) latency: Option<Nanos>,
}

impl ArrivalRow {
    fn end_ns(self) -> Option<u64> {
        Some(self.at_ns.saturating_add(self.latency?.0))
    }
}

/// A step back or ahead of the clock.
#[derive(Clone, Copy)]
struct Step {
    /// The number of the first row after the step, counted from 1.
    row: u64,
    /// The size of the step in ns.
    ns: u64,
    /// The newest time before the step.
    newest_ns: u64,
}

/// The rows since the last step back, or since the beginning.
#[derive(Clone, Copy, Default)]
struct Run {
    /// The number of rows that precede the run.
    before: u64,
    first_ns: u64,
    newest_ns: u64,
    /// The largest step back between two rows of the run.
    shaken_ns: u64,
}

impl Run {
    /// Returns whether any row of the run came after a row with a later time.
    fn is_shaken(&self) -> bool {
        self.shaken_ns > 0
    }
}

/// Tracks the clock of a source.
#[derive(Default)]
pub(super) struct Clock {
    /// Whether a step back begins a new run, which is placed after the previous one.
    splits: bool,
    /// The offset that is added to all times.
    shift_ns: u64,
    rows: u64,
    run: Run,
    last: ArrivalRow,
    newest_ns: u64,
    /// The time of the earliest row that began a run.
    oldest_ns: u64,
    /// The number of rows that are earlier than the newest time, and how much earlier they are at
    /// most.
    moved: u64,
    moved_ns: u64,
    /// The first steps back and the number of all steps, not counting steps after which a run was
    /// placed after the previous one.
    back: Vec<RunStart>,
    steps: u64,
    /// The first steps back after which a run was placed after the previous one.
    appended_starts: Vec<RunStart>,
    /// The number of runs that were placed after the previous one.
    appended: u64,
    /// The last step ahead.
    ahead: Option<Step>,
    /// The repeated headers.
    headers_again: Vec<HeaderAgain>,
    /// The number of wild rows, the first of them, and how far off they are at most.
    wild: u64,
    wild_first: u64,
    wild_ns: u64,
    /// The number of wild rows that were given the time of the previous row.
    placed: u64,
}

impl Clock {
    /// Makes every step back begin a new run.
    pub(super) fn split(&mut self) {
        self.splits = true;
    }

    /// Sets the repeated headers. After a header, any step back begins a run.
    pub(super) fn repeat_headers(&mut self, headers: Vec<HeaderAgain>) {
        self.headers_again = headers;
    }

    /// Processes the next rows of the file if nothing about them is unusual, which is nearly always
    /// the case. Their times stay unchanged. Returns whether it did.
    pub(super) fn pass(&mut self, batch: &[Record]) -> bool {
        let [first, .., last] = batch else { return batch.is_empty() };
        let begins = self.rows > 0 && self.shift_ns == 0 && first.at.0 >= self.newest_ns;
        let is_near = |from_ns: u64, to_ns: u64| to_ns.wrapping_sub(from_ns) < AHEAD_NS;
        let steady = begins
            && is_near(self.last.at_ns, first.at.0)
            && batch.windows(2).all(|pair| is_near(pair[0].at.0, pair[1].at.0));
        if steady {
            self.rows += batch.len() as u64;
            self.newest_ns = last.at.0;
            self.run.newest_ns = last.at.0;
            self.last = ArrivalRow { at_ns: last.at.0, latency: last.latency };
        }
        steady
    }

    /// Returns the time of the next row in the file. If the row begins a new run, its time is after
    /// the previous one. `ahead` contains the following rows, as far as they are known.
    #[inline(always)]
    pub(super) fn time(&mut self, record: &Record, ahead: &[Record]) -> u64 {
        let Record { at, latency, volume, .. } = *record;
        let mut at_ns = at.0.saturating_add(self.shift_ns);
        self.rows += 1;
        if self.rows == 1 {
            at_ns = self.first_time(at_ns, ahead);
            self.run.first_ns = at_ns;
            self.oldest_ns = at_ns;
        }
        // If time goes backwards, the subtraction wraps to a large number.
        if at_ns.wrapping_sub(self.last.at_ns) >= AHEAD_NS {
            at_ns = self.step(ArrivalRow { at_ns, latency }, volume, ahead);
        }
        self.run.newest_ns = self.run.newest_ns.max(at_ns);
        self.moved += u64::from(at_ns < self.newest_ns);
        self.newest_ns = self.newest_ns.max(at_ns);
        self.last = ArrivalRow { at_ns, latency };
        at_ns
    }

    #[cold]
    #[inline(never)]
    fn step(&mut self, row: ArrivalRow, volume: u32, ahead: &[Record]) -> u64 {
        if self.rows == 1 {
            return row.at_ns;
        }
        if row.at_ns > self.last.at_ns {
            // The row after a slow request is later than the slow request, but not later than the
            // other rows.
            if row.at_ns.saturating_sub(self.newest_ns) >= AHEAD_NS {
                let (row_number, ns) = (self.rows, row.at_ns - self.last.at_ns);
                self.ahead = Some(Step { row: row_number, ns, newest_ns: self.newest_ns });
            }
            return row.at_ns;
        }
        if self.is_back_from_wild(row) {
            return row.at_ns;
        }
        let back_ns = self.newest_ns - row.at_ns.min(self.newest_ns);
        let header = self.headers_again.binary_search_by_key(&(self.rows - 1), |one| one.records);
        let header = header.ok().map(|place| self.headers_again[place]);
        let is_first = header.is_some();
        let evidence = match header {
            None => RunEvidence::Clock,
            Some(HeaderAgain { volumes: 0, .. }) => RunEvidence::Comment,
            Some(_) => RunEvidence::Header,
        };
        let is_anew = header.is_some_and(|header| self.starts_anew(row, volume, header));
        if !is_first && self.is_wild(row, ahead) {
            let newest_ns = self.newest_ns;
            self.count_wild(Step { row: self.rows, ns: back_ns, newest_ns }, 1);
            self.placed += 1;
            return newest_ns;
        }
        let is_step = is_first || self.is_step(row, ahead);
        self.run.shaken_ns = self.run.shaken_ns.max(self.last.at_ns - row.at_ns);
        let begins_wild =
            !self.splits && !is_first && self.rows <= WILD_FIRST_ROWS + 1 && back_ns >= AHEAD_NS;
        if is_step && begins_wild {
            self.count_wild(Step { row: 1, ns: back_ns, newest_ns: row.at_ns }, self.rows - 1);
            self.run = Run { first_ns: row.at_ns, ..Run::default() };
            self.oldest_ns = row.at_ns;
            self.newest_ns = row.at_ns;
            return row.at_ns;
        }
        if is_step {
            self.run = Run { before: self.rows - 1, first_ns: row.at_ns, ..Run::default() };
            let is_appended = self.splits || is_anew;
            let (request, back_ns) = (self.rows, self.last.at_ns - row.at_ns);
            let start = RunStart { request, back_ns, evidence, is_appended };
            let starts = if is_appended { &mut self.appended_starts } else { &mut self.back };
            if starts.len() < STEPS_SHOWN {
                starts.push(start);
            }
            if is_appended {
                self.appended += 1;
                self.shift_ns = self.shift_ns.saturating_add(back_ns).saturating_add(APART_NS);
                self.run.first_ns = self.newest_ns.saturating_add(APART_NS);
                return self.run.first_ns;
            }
            self.steps += 1;
            self.oldest_ns = self.oldest_ns.min(row.at_ns);
        }
        self.moved_ns = self.moved_ns.max(back_ns);
        row.at_ns
    }

    /// Returns whether the clock was set back before this row, rather than the row being out of
    /// order.
    fn is_step(&self, row: ArrivalRow, ahead: &[Record]) -> bool {
        let back_ns = self.last.at_ns - row.at_ns;
        let whole = |ns: u64| ns.is_multiple_of(SECOND_NS);
        let is_coarse = whole(self.last.at_ns) && whole(row.at_ns);
        let least_ns = if is_coarse { 2 * SECOND_NS + 1 } else { STEP_NS };
        match back_ns >= least_ns {
            true => !self.is_explained(row, STEP_NS) && !self.returns(row, ahead),
            false => {
                let is_explained = self.is_explained(row, back_ns / 2);
                !is_coarse
                    && !is_explained
                    && (self.begins_again(row, ahead) || self.is_set_back(row, ahead))
            }
        }
    }

    /// Returns whether the clock restarts in the first row after a repeated header.
    fn starts_anew(&self, row: ArrivalRow, volume: u32, header: HeaderAgain) -> bool {
        let at_ns = row.at_ns - self.shift_ns;
        let from_zero_ns = at_ns.min(at_ns.abs_diff(BIAS_NS));
        from_zero_ns < FAR_NS && volume < header.volumes
    }

    /// Returns whether the row completed after the previous one, or less than `by_ns` before it, so
    /// that rows may be in the order of completions.
    fn is_explained(&self, row: ArrivalRow, by_ns: u64) -> bool {
        let by_completion = self.last.end_ns().zip(row.end_ns());
        by_completion.is_some_and(|(last, this)| this.saturating_add(by_ns) > last)
    }
}

#[cfg(test)]
mod tests;
