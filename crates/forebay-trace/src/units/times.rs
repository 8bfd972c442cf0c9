//! Checks whether times are in the unit in which they are read, by the rate of requests and by the
//! date of the first one.
//!
//! If times count from 1970 and are read in a unit that is too small, the trace begins a few days
//! or minutes after 1970: 1.7 billion seconds become 20 days when read in ms. Times of a machine
//! that has been up for 20 days look the same, so a date that is a thousand times too early only
//! causes a note. The evidence is stronger if requests also arrive faster than machines can send
//! them, or if more of them are outstanding than queues can hold. A date that is a million times
//! too early looks like half an hour of uptime. It causes a note if requests arrive fast; for
//! rejection, there must be further evidence.

use forebay_core::Nanos;

use super::sample::{BURST_NS, Sample};
use super::{
    Doubt, Evidence, FEW_LEAST, Finding, GAP_MAX_NS, GAP_STEPS_MAX, RATE_MAX, REQUESTS_MAX,
    SAMPLE_LEAST,
};
use crate::columns::date::day_of;
use crate::columns::unit::{TIME_UNITS, TimeUnit};
use forebay_words::quantities;

/// With few records, a limit must be exceeded by this factor.
const FAR_TIMES: f64 = 10.0;
/// The minimum number of records for a judgment of the date.
const DATED_LEAST: usize = 10;
/// The range of plausible dates of a trace, in seconds since 1970: from 2004 to 2039.
const DATES_S: std::ops::Range<f64> = 1.1e9..2.2e9;
/// From this number of seconds since 1970 (the year 1990) on, a time may be a date as it is read.
const DATE_READ_S: f64 = 631_152_000.0;
const YEAR_S: f64 = 31_556_952.0;
/// The number of seconds from 1601, from which FILETIMEs count, to 1970.
const FILETIME_EPOCH_S: f64 = 11_644_473_600.0;
/// The number of requests per second on a volume that few machines reach, unless latencies show
/// that they can.
const BUSY_REQUESTS: f64 = 150_000.0;
/// The number of requests per second on a volume that is implausible even if latencies show that
/// the machine is fast.
const VERY_BUSY_REQUESTS: f64 = 500_000.0;
/// The limit without latencies, and the minimum number of requests, if times in ms have more than
/// three decimals.
const FINE_REQUESTS: f64 = 20_000.0;
const FINE_LEAST: usize = 100;
/// The mean number of outstanding requests that is implausible if times in ms have more than three
/// decimals and there are latencies.
const FINE_OUTSTANDING: f64 = 64.0;
/// If there are at least this many requests per second, a date that is a million times too early
/// causes a note.
const FAST_REQUESTS: f64 = 5_000.0;
/// A number of outstanding requests that exceeds what queues can hold.
const OUTSTANDING_MAX: f64 = 10_000.0;
const OUTSTANDING_MANY: f64 = 1_000.0;

impl Sample {
    /// If the trace is too slow when its times are multiplied by `times`, returns the gap that one
    /// gap in twenty is shorter than. `unit_ns` is the unit in which times were read.
    fn slow_gap_ns(&self, times: f64, unit_ns: Option<f64>) -> Option<f64> {
        let shared = self.records - self.gaps_ns.len();
        if shared * 2 > self.records {
            return None;
        }
        let gap = *self.gaps_ns.get(self.gaps_ns.len() / 20)?;
        let step = self.step_ns.max(1);
        let finer = unit_ns.is_some_and(|ns| step as f64 == ns * 1e3) && shared * 10 < self.records;
        let slow = gap as f64 * times > GAP_MAX_NS && (finer || gap / step > GAP_STEPS_MAX);
        slow.then_some(gap as f64 * times)
    }

    fn too_fast(&self, times: f64) -> bool {
        let (bytes, requests) = self.rates().unwrap_or((0.0, 0.0));
        bytes > RATE_MAX * times || requests > REQUESTS_MAX * times
    }

    /// Returns whether the trace would be plausible if its times were multiplied by `times`.
    fn plausible(&self, times: f64, unit_ns: Option<f64>) -> bool {
        !self.too_fast(times) && self.slow_gap_ns(times, unit_ns).is_none()
    }

    pub(super) fn times(&self, doubt: &Doubt) -> Option<Finding> {
        let is_short = self.records < SAMPLE_LEAST;
        if is_short && (self.records < FEW_LEAST || !self.too_fast(FAR_TIMES)) {
            return None;
        }
        let unit = doubt.unit();
        let unit_ns = unit.map(|unit| unit.ns as f64);
        let read_in = unit.map_or(String::new(), |unit| format!(" with times in {}", unit.name));
        let impossible = self.too_fast(1.0);
        let (got, expected) = if impossible {
            let (bytes, requests) = self.rates()?;
            (
                format!(
                    "{} in {requests:.0} requests/s on one volume{read_in}",
                    quantities::rate(bytes)
                ),
                format!(
                    "at most {} and {} million requests/s",
                    quantities::rate(RATE_MAX),
                    REQUESTS_MAX / 1e6
                ),
            )
        } else if let Some(gap) = self.slow_gap_ns(1.0, unit_ns) {
            (
                format!(
                    "19 of 20 gaps between requests above {}{read_in}",
                    quantities::seconds(gap / 1e9)
                ),
                format!("one gap in 20 below {} ms", GAP_MAX_NS / 1e6),
            )
        } else {
            return None;
        };
        let (mut likely, mut instead) = (Vec::new(), Vec::new());
        match unit {
            Some(unit) => {
                for other in TIME_UNITS.iter().filter(|other| other.ns != 100) {
                    let times = other.ns as f64 / unit.ns as f64;
                    if times != 1.0 && self.plausible(times, unit_ns) {
                        likely.push(other.name.to_owned());
                        instead.extend(counted_in(doubt, other));
                    }
                }
                instead.truncate(counted_in(doubt, &unit).len());
            }
            None => {
                let times = [1e-9, 1e-6, 1e-3, 1e3, 1e6, 1e9].into_iter();
                likely.extend(times.filter(|&t| self.plausible(t, None)).map(|times| {
                    if times > 1.0 {
                        format!("a unit {times} times longer")
                    } else {
                        format!("a unit {} times shorter", 1.0 / times)
                    }
                }));
            }
        }
        let expected = if likely.is_empty() {
            expected
        } else {
            format!("{expected}: the times are likely in {}", likely.join(" or "))
        };
        let evidence = match impossible {
            // All requests may have arrived in a single burst.
            true if is_short => Evidence::Weak,
            true => Evidence::Strong,
            // A superblock or heartbeat may be written about every second.
            false if self.is_at_few_places() => Evidence::Weak,
            false => Evidence::PartialRows,
        };
        Some(Finding { evidence, got, expected, instead })
    }

    /// Checks whether the first time is a date only in another unit. `began` is that time on the
    /// source's clock.
    pub(super) fn date(&self, doubt: &Doubt, began: Nanos) -> Option<Finding> {
        let unit = doubt.unit().filter(|_| self.records >= DATED_LEAST)?;
        let read_s = began.0 as f64 / 1e9;
        let is_filetime = unit.name == "filetime";
        let epoch_s = if is_filetime { FILETIME_EPOCH_S } else { 0.0 };
        if read_s - epoch_s >= DATE_READ_S {
            return None;
        }
        let in_unit = |other: &&TimeUnit| {
            let s = read_s / unit.ns as f64 * other.ns as f64;
            other.ns != 100 && other.ns > unit.ns && DATES_S.contains(&s)
        };
        let other = TIME_UNITS.iter().find(in_unit)?;
        let (_, requests) = self.rates().unwrap_or((0.0, 0.0));
        let many = |most| self.outstanding().is_some_and(|outstanding| outstanding > most);
        let few_under_way = self.outstanding().is_some_and(|n| n <= OUTSTANDING_MANY);
        let times = other.ns / unit.ns;
        let evidence = match times <= 1_000 {
            _ if self.too_fast(1.0) || many(OUTSTANDING_MAX) => Evidence::Strong,
            // No clock of Windows shows such a date.
            _ if is_filetime => Evidence::PartialRows,
            true if requests > BUSY_REQUESTS && !few_under_way => Evidence::Strong,
            true if many(OUTSTANDING_MANY) => Evidence::PartialRows,
            _ if requests > VERY_BUSY_REQUESTS => Evidence::PartialRows,
            true => Evidence::Weak,
            false if requests > FAST_REQUESTS => Evidence::Weak,
            false => return None,
        };
        let year = 1970.0 + (read_s / unit.ns as f64 * other.ns as f64 / YEAR_S).floor();
        let read_on = match is_filetime {
            true => format!("in {:.0}", 1601.0 + (read_s / YEAR_S).floor()),
            false => format!("on {}", day_of(read_s)),
        };
        Some(Finding {
            evidence,
            got: format!(
                "a first request {read_on} at {requests:.0} requests/s per volume, if times are in {}",
                unit.name
            ),
            expected: format!(
                "a recent date; if times are in {}, the trace begins in {year:.0}",
                other.name
            ),
            instead: counted_in(doubt, other),
        })
    }

    /// Checks whether there are more requests than machines can send. Used if there are no
    /// latencies to compare with.
    pub(super) fn busy(&self, doubt: &Doubt) -> Option<Finding> {
        let unit = doubt.unit().filter(|_| self.records >= FINE_LEAST)?;
        let (_, requests) = self.rates()?;
        // Times in ms with more than three decimals are often seconds with six or nine.
        let is_fine = unit.name == "ms" && self.step_ns < unit.ns / 1_000;
        let most = if is_fine { FINE_REQUESTS } else { VERY_BUSY_REQUESTS };
        let is_enough = is_fine || self.records >= SAMPLE_LEAST;
        // Latencies show that a drive is that fast, unless they pile up.
        let is_explained = |n: f64| !is_fine || n <= FINE_OUTSTANDING;
        if requests <= most || !is_enough || self.outstanding().is_some_and(is_explained) {
            return None;
        }
        let is_likely = |other: &&TimeUnit| {
            other.ns > unit.ns
                && other.ns != 100
                && self.plausible(other.ns as f64 / unit.ns as f64, None)
        };
        let other = TIME_UNITS.iter().find(is_likely)?;
        Some(Finding {
            evidence: Evidence::Weak,
            got: format!("{requests:.0} requests/s on one volume with times in {}", unit.name),
            expected: format!(
                "at most {most:.0}, {}: the times may be in {}",
                if is_fine {
                    "which few machines exceed, or times with at most three decimals"
                } else {
                    "which few machines exceed"
                },
                other.name
            ),
            instead: counted_in(doubt, other),
        })
    }

    /// Checks whether latencies are consistent with the times between arrivals, and with the number
    /// of bytes transferred.
    pub(super) fn latencies(&self, doubt: &Doubt) -> Option<Finding> {
        let weak = |got: String, expected: &str| {
            let (evidence, expected) = (Evidence::Weak, expected.to_owned());
            Some(Finding { evidence, got, expected, instead: Vec::new() })
        };
        if self.records < SAMPLE_LEAST {
            return None;
        }
        let mut outstanding = self.outstanding().into_iter().chain(self.outstanding_at_length());
        if let Some(outstanding) = outstanding.find(|n| *n > OUTSTANDING_MAX) {
            return weak(
                format!("{outstanding:.0} outstanding requests on average"),
                "fewer than 10000: the times may be in larger units, or the latencies in smaller ones",
            );
        }
        let outstanding = self.outstanding().filter(|_| self.last_ns >= BURST_NS);
        let per_volume = outstanding.map(|n| n / self.volumes.len().max(1) as f64);
        if let Some(outstanding) = per_volume.filter(|n| *n > OUTSTANDING_MANY)
            && let Some(unit) = doubt.unit()
            && let Some(larger) = TIME_UNITS.iter().find(|larger| larger.ns == unit.ns * 1_000)
            && self.plausible(1_000.0, None)
        {
            let instead = counted_in(doubt, larger);
            let got = format!("{outstanding:.0} outstanding requests per volume on average");
            let expected = format!(
                "at most {OUTSTANDING_MANY}: the times may be in {} instead of {}",
                larger.name, unit.name
            );
            return Some(Finding { evidence: Evidence::Weak, got, expected, instead });
        }
        if self.is_faster_than_any() {
            let rate = quantities::rate(RATE_MAX);
            return weak(
                format!("most requests completed faster than at {rate}, or within 1 us"),
                "no more than a drive can transfer: the latencies may be in larger units, or the \
                 lengths in smaller ones",
            );
        }
        None
    }
}

/// Returns the declarations of the columns of times, and their replacements with another unit.
fn counted_in(doubt: &Doubt, unit: &TimeUnit) -> Vec<(String, String)> {
    let name = format!(":{}", unit.name);
    ["at", "end"].into_iter().filter_map(|column| doubt.instead(column, &name)).collect()
}
