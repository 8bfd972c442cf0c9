//! Detects gaps that are much longer than the rest of a trace. They are caused by a clock that was
//! set or by a wrong timestamp.

use crate::Record;
use crate::order::clock::long;
use forebay_core::Nanos;
use forebay_words::plural::counted;
use forebay_words::quantities;

/// The minimum lengths of gaps in nanoseconds: an hour or, if a trace has only a few gaps of a
/// minute, a minute.
const GAPS_NS: [u64; 2] = [3_600_000_000_000, 60_000_000_000];
/// A trace with more gaps than this consists of bursts.
const GAPS_MAX: u64 = 2;
/// The minimum ratio of the gaps to the rest of the trace.
const TIMES: u64 = 10;
/// The minimum number of requests from which gaps can be judged.
const REQUESTS_LEAST: u64 = 10;

/// Returns the time in seconds from the first to the last of `times` without gaps, if one or two
/// gaps make up nearly all of it, as when a recording was stopped for hours.
pub fn without_gaps_s(times: impl IntoIterator<Item = Nanos>) -> Option<f64> {
    let mut times = times.into_iter();
    let first = times.next()?;
    let mut gaps = Gaps { requests: 1, ..Gaps::default() };
    for at in times {
        let at_ns = at.0.saturating_sub(first.0);
        gaps.count(at_ns.saturating_sub(gaps.last_ns), gaps.requests);
        (gaps.last_ns, gaps.requests) = (at_ns, gaps.requests + 1);
    }
    gaps.without_s()
}

/// The longest gaps of a trace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gaps {
    requests: u64,
    last_ns: u64,
    /// The gaps that exceed each of the minimum lengths.
    long: [Long; 2],
}

/// The gaps that exceed some minimum length.
#[derive(Clone, Debug, Default)]
struct Long {
    /// The number of gaps, and their total length in nanoseconds.
    gaps: u64,
    gaps_ns: u64,
    /// The length of the longest gap in nanoseconds, and the number of requests that precede it.
    longest: (u64, u64),
}

impl Gaps {
    /// Adds the next records, in order of time. A time earlier than its predecessor counts as no
    /// gap.
    pub(crate) fn add(&mut self, batch: &[Record]) {
        let Some(last) = batch.last() else { return };
        if self.requests == 0 {
            self.last_ns = batch.first().map_or(0, |first| first.at.0);
        }
        if last.at.0.saturating_sub(self.last_ns) >= GAPS_NS[1] {
            self.look_for(batch);
        }
        self.last_ns = last.at.0;
        self.requests += batch.len() as u64;
    }

    fn look_for(&mut self, batch: &[Record]) {
        let mut last_ns = self.last_ns;
        for (before, record) in (self.requests..).zip(batch) {
            self.count(record.at.0.saturating_sub(last_ns), before);
            last_ns = record.at.0;
        }
    }

    /// Counts the time between two requests, the second of which comes after `before` others.
    fn count(&mut self, gap_ns: u64, before: u64) {
        if gap_ns < GAPS_NS[1] {
            return;
        }
        let counts = |(_, least_ns): &(&mut Long, u64)| gap_ns >= *least_ns;
        for (long, _) in self.long.iter_mut().zip(GAPS_NS).filter(counts) {
            long.gaps += 1;
            long.gaps_ns = long.gaps_ns.saturating_add(gap_ns);
            long.longest = long.longest.max((gap_ns, before));
        }
    }

    /// Returns the gaps that make up nearly the whole trace; `None` if none do.
    fn nearly_all(&self) -> Option<&Long> {
        let is_most = |long: &&Long| {
            (1..=GAPS_MAX).contains(&long.gaps) && long.gaps_ns / TIMES >= self.rest_ns(long)
        };
        self.long.iter().find(is_most).filter(|_| self.requests >= REQUESTS_LEAST)
    }

    fn rest_ns(&self, long: &Long) -> u64 {
        self.last_ns.saturating_sub(long.gaps_ns)
    }

    /// Returns the duration of the trace without gaps, in seconds, if one or two gaps make up
    /// nearly the whole trace.
    pub(crate) fn without_s(&self) -> Option<f64> {
        Some(self.rest_ns(self.nearly_all()?) as f64 / 1e9).filter(|rest_s| *rest_s > 0.0)
    }

    /// Returns a warning if one or two gaps make up nearly the whole trace, unless timestamps that
    /// are off by up to `wild_ns` explain them.
    pub(crate) fn sentence(&self, wild_ns: u64) -> Option<String> {
        let of_most = self.nearly_all().filter(|of_most| of_most.longest.0 > wild_ns)?;
        let (longest_ns, before) = of_most.longest;
        Some(format!(
            "only {} of the whole trace is outside {}; {} lasts {} and ends at request {} \
             of {}: if a clock was set, or a timestamp is wrong, all rates are wrong too",
            quantities::seconds(self.rest_ns(of_most) as f64 / 1e9),
            counted(of_most.gaps, "gap"),
            if of_most.gaps == 1 { "it" } else { "the longest" },
            long(longest_ns),
            before + 1,
            self.requests
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_core::{Flags, Op};

    const HOUR_S: u64 = 3600;

    fn said(times_s: impl IntoIterator<Item = u64>) -> Option<String> {
        let record = |s: u64| Record {
            at: Nanos(s * 1_000_000_000),
            offset: 0,
            latency: None,
            len: 512,
            stream: 0,
            volume: 0,
            op: Op::Read,
            flags: Flags::NONE,
        };
        let records: Vec<Record> = times_s.into_iter().map(record).collect();
        let mut gaps = Gaps::default();
        records.chunks(7).for_each(|batch| gaps.add(batch));
        gaps.sentence(0)
    }

    #[test]
    fn times_on_any_clock_have_a_length_without_their_gaps() {
        let times = |gap_s: u64, begins_s: u64| {
            let at = move |n: u64| begins_s + n + if n >= 50 { gap_s } else { 0 };
            without_gaps_s((0..100).map(move |n| Nanos(at(n) * 1_000_000_000)))
        };
        // The gap includes the second that would have been there.
        assert_eq!([0, 10 * HOUR_S].map(|begins_s| times(8 * HOUR_S, begins_s)), [Some(98.0); 2]);
        assert_eq!(times(0, 7), None);
        assert_eq!(times(300, 7), None, "not nearly all");
        assert_eq!(without_gaps_s([]), None);
    }

    #[test]
    fn a_gap_that_is_nearly_all_of_the_trace_is_reported() {
        let jump = |n: u64| n + if n >= 50 { 10 * 365 * 24 * HOUR_S } else { 0 };
        let told = said((0..100).map(jump)).unwrap();
        assert!(
            told.starts_with("only 98.0 s of the whole trace is outside 1 gap; it lasts 3650 days"),
            "{told}"
        );
        assert!(told.contains("ends at request 51 of 100"), "{told}");
        assert!(said((0..100).map(|n| n + if n == 99 { HOUR_S } else { 0 })).is_some());
        // The gap is less than an hour, but there may also be other gaps of minutes.
        assert!(said((0..200).map(|n| n / 50 + if n >= 60 { 1800 } else { 0 })).is_some());
        assert!(said((0..200).map(|n| n / 40 + if n == 199 { 61 } else { 0 })).is_some());
        assert!(said((0..100).map(|n| n * 120 + if n >= 50 { 300 * HOUR_S } else { 0 })).is_some());
        assert!(said([0, 0, 0, 0, 0, 0, 0, 0, 0, 2 * HOUR_S]).is_some());
    }

    #[test]
    fn quiet_days_are_no_gaps_to_tell_of() {
        assert_eq!(said((0..100).map(|n| n * 2 * HOUR_S)), None);
        assert_eq!(said((0..100).map(|n| n * 60 + n / 20 * 5 * HOUR_S)), None);
        assert_eq!(said((0..100).map(|n| n * 60 + if n > 50 { HOUR_S - 61 } else { 0 })), None);
        assert_eq!(said((0..100).map(|n| n / 30 + if n > 50 { 59 } else { 0 })), None);
        assert_eq!(said((0..100).map(|n| n + if n > 50 { 600 } else { 0 })), None);
        assert_eq!(said((0..100).map(|n| n / 30 + n / 25 * 300)), None);
        assert_eq!(said([0, 48 * HOUR_S]), None);
        assert_eq!(said([]), None);
    }
}
