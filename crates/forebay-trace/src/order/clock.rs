//! Analyzes the clock of a source, as seen from the rows in the order of the file.
//!
//! Rows of a trace may be slightly out of order: several processors write to one log, or the log is
//! in the order of completions. A clock that was set back, a second recording in the same file, or
//! a timestamp that is years off look the same to a sort, which would overlay one part on the
//! other. Therefore each row is compared with the previous one:
//!
//! - A *step back* is one of [`STEP_NS`] or more in the time of arrival and, if latencies are
//!   known, in that of completion. On a clock of whole seconds it must be more than two seconds.
//! - A smaller step counts if a run begins *again* with it: it goes back almost to the beginning of
//!   the run, and the following rows stay there ([`again`]).
//! - Any step back counts in the first row after a repeated header.
//! - None of the others counts if the time soon *returns* by a jump to where it was: that is a slow request in
//!   the order of completions ([`again::returns`]).
//! - *Wild* rows are up to [`WILD_ROWS`] rows that are [`AHEAD_NS`] or more ahead of, or before,
//!   those on both sides.

mod again;

use forebay_ask::named;
use forebay_core::Nanos;

pub(super) use again::LOOK_AHEAD;

use crate::trace::Record;
use forebay_show::plural::{counted, verb};
use forebay_show::quantities;

/// The least reported step back.
const STEP_NS: u64 = 900_000_000;
/// The least step ahead of a wild timestamp.
pub(crate) const AHEAD_NS: u64 = 3_600_000_000_000;
/// The most consecutive rows that count as wild.
const WILD_ROWS: u64 = 16;
/// The time between runs that are placed one after another.
pub(crate) const APART_NS: u64 = 1_000_000_000;
/// The most steps back that are listed individually; with more, they are not separate runs.
const STEPS_SHOWN: usize = 4;
const RUNS_MAX: u64 = 16;
const SECOND_NS: u64 = 1_000_000_000;
const DAY_S: f64 = 86_400.0;

/// A row: when its request arrived, and how long it took.
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

/// A step of the clock.
#[derive(Clone, Copy)]
struct Step {
    /// The first row after it, counted from 1.
    row: u64,
    /// The size of the step.
    ns: u64,
    /// The newest time before it.
    newest_ns: u64,
}

/// The rows since the last step back, or since the beginning.
#[derive(Clone, Copy, Default)]
struct Run {
    /// The number of rows before it.
    before: u64,
    first_ns: u64,
    newest_ns: u64,
    /// Whether any of its rows came after a row with a later time.
    is_shaken: bool,
}

/// The clock of a source.
#[derive(Default)]
pub(super) struct Clock {
    /// Whether a step back begins a new run, which is placed after the previous one.
    splits: bool,
    /// The offset added to every time.
    shift_ns: u64,
    rows: u64,
    run: Run,
    last: ArrivalRow,
    newest_ns: u64,
    /// The number of rows before the newest time, and how far back they are at most.
    moved: u64,
    moved_ns: u64,
    /// The first steps back, and the number of all.
    back: Vec<Step>,
    steps: u64,
    /// The last step ahead.
    ahead: Option<Step>,
    /// The number of rows before each repeated header.
    headers_again: Vec<u64>,
    /// The number of wild rows, the first of them, and how far off they are at most.
    wild: u64,
    wild_first: u64,
    wild_ns: u64,
}

impl Clock {
    /// Makes a step back begin a new run.
    pub(super) fn split(&mut self) {
        self.splits = true;
    }

    /// Sets the number of rows before each repeated header, after which any step back begins a run.
    pub(super) fn repeat_headers(&mut self, rows: Vec<u64>) {
        self.headers_again = rows;
    }

    /// Processes the next rows of the file if nothing about them is unusual, which is nearly always
    /// the case. Their times remain unchanged.
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

    /// Returns the time of the next row of the file, which is after the previous run if the row
    /// begins another. `ahead` are the following rows, as far as known.
    #[inline(always)]
    pub(super) fn time(&mut self, at_ns: u64, latency: Option<Nanos>, ahead: &[Record]) -> u64 {
        let mut at_ns = at_ns.saturating_add(self.shift_ns);
        self.rows += 1;
        if self.rows == 1 {
            self.run.first_ns = at_ns;
        }
        // A step back wraps around to a large step ahead.
        if at_ns.wrapping_sub(self.last.at_ns) >= AHEAD_NS {
            at_ns = self.step(ArrivalRow { at_ns, latency }, ahead);
        }
        self.run.newest_ns = self.run.newest_ns.max(at_ns);
        self.moved += u64::from(at_ns < self.newest_ns);
        self.newest_ns = self.newest_ns.max(at_ns);
        self.last = ArrivalRow { at_ns, latency };
        at_ns
    }

    #[cold]
    #[inline(never)]
    fn step(&mut self, row: ArrivalRow, ahead: &[Record]) -> u64 {
        if self.rows == 1 {
            return row.at_ns;
        }
        if row.at_ns > self.last.at_ns {
            self.step_ahead(row);
            return row.at_ns;
        }
        if self.is_back_from_wild(row) {
            return row.at_ns;
        }
        let back_ns = self.newest_ns - row.at_ns.min(self.newest_ns);
        let is_first = self.headers_again.binary_search(&(self.rows - 1)).is_ok();
        let is_step = is_first || self.is_step(row, ahead);
        self.run.is_shaken = true;
        if is_step {
            self.steps += 1;
            self.run = Run { before: self.rows - 1, first_ns: row.at_ns, ..Run::default() };
            if self.splits {
                self.shift_ns = self.shift_ns.saturating_add(back_ns).saturating_add(APART_NS);
                return self.newest_ns.saturating_add(APART_NS);
            }
            if self.back.len() < STEPS_SHOWN {
                let newest_ns = self.newest_ns;
                self.back.push(Step { row: self.rows, ns: self.last.at_ns - row.at_ns, newest_ns });
            }
        }
        self.moved_ns = self.moved_ns.max(back_ns);
        row.at_ns
    }

    /// Returns whether the clock was set back, as opposed to rows being out of order.
    fn is_step(&self, row: ArrivalRow, ahead: &[Record]) -> bool {
        let back_ns = self.last.at_ns - row.at_ns;
        let whole = |ns: u64| ns.is_multiple_of(SECOND_NS);
        let is_coarse = whole(self.last.at_ns) && whole(row.at_ns);
        let least_ns = if is_coarse { 2 * SECOND_NS + 1 } else { STEP_NS };
        let by_completion = self.last.end_ns().zip(row.end_ns());
        let is_explained = |by_ns: u64| {
            by_completion.is_some_and(|(last, this)| this.saturating_add(by_ns) > last)
        };
        match back_ns >= least_ns {
            true => !is_explained(STEP_NS) && !self.returns(row, ahead),
            false => !is_coarse && !is_explained(back_ns / 2) && self.begins_again(row, ahead),
        }
    }

    /// Processes a step ahead, which may follow a few rows that are far before the others.
    fn step_ahead(&mut self, row: ArrivalRow) {
        let ns = row.at_ns - self.last.at_ns;
        let few = |step: &Step| self.rows - step.row <= WILD_ROWS && step.ns >= AHEAD_NS;
        let ends = |step: &Step| row.at_ns.saturating_add(AHEAD_NS) > step.newest_ns;
        if let Some(step) = self.back.pop_if(|step| few(step) && ends(step)) {
            let rows = self.rows - step.row;
            (self.steps, self.moved) = (self.steps - 1, self.moved.saturating_sub(rows));
            self.moved_ns = self.back.iter().map(|step| step.ns).max().unwrap_or(0);
            self.count_wild(step, rows);
            return;
        }
        self.ahead = Some(Step { row: self.rows, ns, newest_ns: self.newest_ns });
    }

    /// Returns whether the row returns from a few rows that are far ahead.
    fn is_back_from_wild(&mut self, row: ArrivalRow) -> bool {
        let Some(step) = self.ahead else { return false };
        let rows = self.rows - step.row;
        let is_back = row.at_ns < step.newest_ns.saturating_add(AHEAD_NS / 2);
        if rows > WILD_ROWS || !is_back {
            return false;
        }
        self.ahead = None;
        self.newest_ns = step.newest_ns;
        self.count_wild(step, rows);
        true
    }

    fn count_wild(&mut self, step: Step, rows: u64) {
        if self.wild == 0 {
            self.wild_first = step.row;
        }
        self.wild += rows;
        self.wild_ns = self.wild_ns.max(step.ns);
    }

    /// Returns notes for the user. `late` is the number of out-of-order rows that could not be
    /// sorted.
    pub(super) fn sentences(&self, late: u64) -> impl Iterator<Item = String> {
        let back = self.back_sentence(self.moved.saturating_sub(late));
        [self.wild_sentence(), self.split_sentence(), back].into_iter().flatten()
    }

    fn wild_sentence(&self) -> Option<String> {
        (self.wild > 0).then(|| {
            format!(
                "{} {} up to {} away from those before and after (the first is request {} of the \
                 file): this makes the trace look that long, and its rates and figures over time \
                 mean little",
                counted(self.wild, "request"),
                verb(self.wild, "has a timestamp", "have timestamps"),
                long(self.wild_ns),
                self.wild_first
            )
        })
    }

    fn split_sentence(&self) -> Option<String> {
        (self.splits && self.steps > 0).then(|| {
            format!(
                "the file holds {}: each starts {} after the previous one",
                counted(self.steps + 1, "run"),
                quantities::seconds(APART_NS as f64 / 1e9)
            )
        })
    }

    fn back_sentence(&self, moved: u64) -> Option<String> {
        if self.back.is_empty() {
            return None;
        }
        let most = self.back.iter().map(|step| step.ns).max().unwrap_or(0);
        let places: Vec<String> = self.back.iter().map(|step| step.row.to_string()).collect();
        let places = places.join(", ");
        let back = match self.steps {
            1 => format!("goes back by {} at request {places} of the file", long(most)),
            n if n as usize <= STEPS_SHOWN => {
                format!(
                    "goes back {n} times, by up to {}, at requests {places} of the file",
                    long(most)
                )
            }
            n => format!("goes back {n} times, at first at requests {places} of the file"),
        };
        let moved = match moved {
            0 => "no request was moved for that".into(),
            _ => format!(
                "{} {} sorted before earlier rows, by up to {}",
                counted(moved, "request"),
                verb(moved, "was", "were"),
                long(self.moved_ns)
            ),
        };
        let hint = match self.steps {
            ..=RUNS_MAX => format!(
                "; if another recording begins there, or a clock was set, {} appends what follows \
                 instead",
                named("split_runs=true")
            ),
            _ => String::new(),
        };
        Some(format!("the clock {back}: {moved}{hint}"))
    }
}

/// Formats a time that may be years long.
pub(crate) fn long(ns: u64) -> String {
    let s = ns as f64 / 1e9;
    match s / DAY_S {
        days @ 3.0.. => format!("{days:.0} days"),
        _ => quantities::seconds(s),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = SECOND_NS;
    const YEARS_10: u64 = 3652 * 86_400 * S;

    fn run(times: impl IntoIterator<Item = u64>) -> (Vec<u64>, Vec<String>) {
        clock(Clock::default(), times.into_iter().map(|at| (at, None)))
    }

    fn clock(
        mut clock: Clock,
        rows: impl IntoIterator<Item = (u64, Option<u64>)>,
    ) -> (Vec<u64>, Vec<String>) {
        let (offset, len, stream, volume) = (0, 512, 0, 0);
        let (op, flags) = (forebay_core::Op::Read, forebay_core::Flags::NONE);
        let records = rows.into_iter().map(|(at, latency)| {
            let (at, latency) = (Nanos(at), latency.map(Nanos));
            Record { at, latency, offset, len, stream, volume, op, flags }
        });
        let records: Vec<Record> = records.collect();
        let times = records.iter().enumerate().map(|(row, record)| {
            let ahead = &records[row + 1..];
            clock.time(record.at.0, record.latency, &ahead[..ahead.len().min(LOOK_AHEAD)])
        });
        let times = times.collect();
        (times, clock.sentences(0).collect())
    }

    #[test]
    fn a_clock_that_is_set_back_is_told_with_how_much_was_moved() {
        for (back, told) in [(S + 5_000_001, "1.00 s"), (30 * S, "30.0 s"), (3600 * S, "3600 s")] {
            let step = |n: u64| 5000 * S + n * 5_000_001;
            let times: Vec<u64> =
                (0..1500).map(step).chain((1500..3000).map(|n| step(n) - back)).collect();
            let (read, said) = run(times.clone());
            assert!(read == times, "nothing is changed");
            let [only] = &said[..] else { panic!("{said:?}") };
            let expected = format!("goes back by {told} at request 1501 of the file: ");
            assert!(only.contains(&expected), "{only}");
            assert!(only.contains("by up to ") && only.contains("split_runs"));
        }
        let (_, said) = run((0..10).map(|n| n * S + 1).chain([4 * S + 5, 11 * S]));
        assert!(said.is_empty(), "one row alone: {said:?}");
        let (_, said) = run((0..10).map(|n| n * S + 1).chain((4..7).map(|n| n * S + 5)));
        assert!(said[0].contains("3 requests were sorted"), "{said:?}");
    }

    #[test]
    fn a_second_run_can_be_put_behind_the_first() {
        let times = [5, 5 * S, 0, 1, 2, 6 * S, 3, 4];
        let mut splitting = Clock::default();
        splitting.split();
        let (read, said) = clock(splitting, times.map(|at| (at, None)));
        let again = [6 * S, 6 * S + 1, 6 * S + 2, 12 * S, 13 * S, 13 * S + 1];
        assert_eq!(read, [&[5, 5 * S], &again[..]].concat());
        assert_eq!(said.len(), 1);
        assert!(said[0].contains("holds 3 runs"), "{said:?}");
        let (_, said) = run(times);
        assert!(
            said[0].contains("goes back 2 times, by up to 6.00 s, at requests 3, 7"),
            "{said:?}"
        );
    }

    #[test]
    fn a_few_wild_stamps_are_told_apart_from_a_clock_that_was_set() {
        for wild in [YEARS_10 + 7, 0] {
            let base = 2 * YEARS_10;
            let mut times: Vec<u64> = (0..3000).map(|n| base + n * 5_000_001).collect();
            times[1500] = wild;
            times[1501] = wild + 1;
            let (_, said) = run(times);
            let [only] = &said[..] else { panic!("{said:?}") };
            let start = "2 requests have timestamps up to ";
            assert!(only.starts_with(start) && only.contains("request 1501"), "{only}");
        }
        let ahead = (0..3000).map(|n| n * 5_000_001 + if n == 7 { YEARS_10 } else { 0 });
        let (_, said) = run(ahead);
        assert!(said.len() == 1 && said[0].contains("up to 3652 days away"), "{said:?}");
    }

    #[test]
    fn rows_that_changed_places_a_little_are_no_steps() {
        let quiet: [&[(u64, Option<u64>)]; 4] = [
            // In the order of completions.
            &[(9 * S, Some(S)), (2 * S, Some(8 * S)), (9 * S + 1, Some(S))],
            // A clock of whole seconds.
            &[(9 * S, None), (7 * S, None), (8 * S, None)],
            &[(9 * S + 5, None), (9 * S - 600_000_000, None), (9 * S, None)],
            &[(0, None), (400 * 3600 * S, None), (800 * 3600 * S, None)],
        ];
        for rows in quiet {
            let (_, said) = clock(Clock::default(), rows.iter().copied());
            assert!(said.is_empty(), "{said:?}");
        }
        // Many steps, each after a while.
        let (_, said) = run((0..100_000).map(|n| n / 500 * 3 * S + n % 500 * S / 50 + 3));
        assert!(
            said[0].contains("goes back 199 times") && !said[0].contains("split_runs"),
            "{said:?}"
        );
    }

    /// Returns arrivals of a trace without latencies, in the order of completions: most requests
    /// take 1 ms, a few take much longer.
    fn by_completion(rate: u64, count: u64, slow: u64, slow_ns: u64, burst: u64) -> Vec<u64> {
        let mut rows: Vec<(u64, u64)> = (0..count)
            .map(|n| {
                let at = 3 * S + n * S / rate + n * 7919 % 1000;
                let is_slow = n % slow >= slow - burst;
                let took = if is_slow { slow_ns + n * 104_729 % (slow_ns / 3) } else { S / 1000 };
                (at + took, at)
            })
            .collect();
        rows.sort_unstable();
        // Slow requests that are still outstanding at the end come last, which looks like another
        // run.
        let is_fast = |&(end, at): &(u64, u64)| end == at + S / 1000;
        rows.truncate(rows.iter().rposition(is_fast).unwrap_or(0) + 1);
        rows.into_iter().map(|row| row.1).collect()
    }

    #[test]
    fn rows_in_the_order_of_completions_are_no_steps_without_latencies_either() {
        for rate in [50, 500, 5_000] {
            for slow_ns in [S, 3 * S, 25 * S, 600 * S] {
                for (slow, burst) in [(97, 1), (211, 2), (500, 1), (900, 3)] {
                    let (_, said) = run(by_completion(rate, 20_000, slow, slow_ns, burst));
                    let case = format!("{rate}/s, {burst} of {slow} take {slow_ns} ns");
                    assert!(said.is_empty(), "{case}: {said:?}");
                }
            }
        }
    }

    #[test]
    fn a_run_is_told_however_short_it_is() {
        for length_ns in [S / 50, S / 10, S / 2, 89 * S / 100, 5 * S] {
            for rows in [20u64, 100, 5_000] {
                for start in [0, 1_700_000_000 * S] {
                    let one =
                        |n: u64| start + n * length_ns / rows + n * 7919 % (length_ns / rows / 2);
                    // Almost in order, or out of order because of several processors.
                    for shaken in [false, true] {
                        let mut first: Vec<u64> = (0..rows).map(one).collect();
                        if shaken && rows > 20 {
                            first.chunks_mut(7).for_each(|chunk| chunk.swap(1, 0));
                        } else if shaken {
                            continue;
                        }
                        let both =
                            [first.clone(), first.iter().map(|at| at + 17).collect()].concat();
                        let (_, said) = run(both.clone());
                        let case = format!("{length_ns} ns, {rows} rows, {shaken}");
                        let told = format!("at request {} of the file", rows + 1);
                        assert!(said.len() == 1 && said[0].contains(&told), "{case}: {said:?}");
                        let mut splitting = Clock::default();
                        splitting.split();
                        let (read, said) = clock(splitting, both.into_iter().map(|at| (at, None)));
                        assert!(said[0].contains("holds 2 runs"), "{case}: {said:?}");
                        let newest = *first.iter().max().unwrap();
                        assert!(read[rows as usize..].iter().all(|&at| at > newest), "{case}");
                    }
                }
            }
        }
    }

    /// Queues, elevators and processors reorder rows at the beginning of a trace as well.
    #[test]
    fn requests_that_overtake_each_other_begin_no_run() {
        for seed in 0..60u64 {
            for depth in [2u64, 8, 32, 128, 512] {
                let mut state = seed * 7919 + depth;
                let mut chance = move |below: u64| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (state >> 33) % below
                };
                let gap_ns = 1 + chance(2_000_000);
                let mut queue: Vec<u64> = Vec::new();
                let (mut rows, mut at) = (Vec::new(), 5 * S);
                while rows.len() < 3000 {
                    while (queue.len() as u64) < depth {
                        at += chance(2 * gap_ns);
                        queue.push(at);
                    }
                    rows.push(queue.swap_remove(chance(depth) as usize));
                }
                let (_, said) = run(rows);
                assert!(
                    said.iter().all(|said| !said.contains("goes back")),
                    "{seed}, {depth}: {said:?}"
                );
            }
        }
    }

    #[test]
    fn no_time_is_too_large() {
        let (read, _) = run([u64::MAX, 0, u64::MAX, 5]);
        assert_eq!(read, [u64::MAX, 0, u64::MAX, 5]);
        let mut splitting = Clock::default();
        splitting.split();
        let times = [u64::MAX - 9 * S, 5 * 3600 * S, u64::MAX, 5 * 3600 * S];
        let (read, _) = clock(splitting, times.map(|at| (at, Some(at))));
        assert!(read.iter().all(|&at| at >= u64::MAX - 9 * S), "{read:?}");
    }
}
