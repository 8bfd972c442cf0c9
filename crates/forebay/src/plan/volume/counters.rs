//! Reads counters of operations and bytes, which replace a trace. There is a reading every second
//! or so.
//!
//! Counters do not tell when requests arrive within an interval, so the settings found for them are
//! a lower bound ([`least`]).
//!
//! Formats: Forebay's own CSV and the CSV of other collectors ([`csv`]), `iostat -x -t` and
//! `sar -d` ([`sysstat`]), and node_exporter's metrics with timestamps ([`scrape`]). A disk's
//! intervals are between consecutive readings. Readings that cannot be used are counted.

mod clock;
mod csv;
pub(super) mod least;
mod scrape;
mod sysstat;

use std::collections::BTreeSet;
use std::path::Path;

use forebay_ask::{AskError, named, suggestion};
use forebay_trace::whole;
use forebay_words::plural::{counted, verb};
use serde::Serialize;

use crate::Error;
use crate::quantities::{bound, seconds};

/// The longest interval accepted, in seconds. Averages over a longer time would hide how a volume
/// is used.
const INTERVAL_MAX_S: f64 = 60.0;

/// The maximum size of a file of counters in bytes.
const BYTES_MAX: u64 = 1 << 28;

/// The operations and bytes of one interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    pub from_s: f64,
    pub len_s: f64,
    /// The number of reads, of writes, and of operations of unknown kind.
    pub ops: [f64; 3],
    /// The number of bytes read, and of bytes written.
    pub bytes: [f64; 2],
}

impl Sample {
    pub(super) fn all_ops(&self) -> f64 {
        self.ops.iter().sum()
    }
}

/// A description of a file of counters, and of the rows that were left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CountersRead {
    /// The format of the file.
    pub format: String,
    /// The name of the disk, if the file names any.
    pub disk: Option<String>,
    /// The number of intervals that were used.
    pub intervals: u64,
    /// The usual length of an interval, in seconds.
    pub interval_s: f64,
    /// The number of rows that could not be read.
    pub bad_rows: u64,
    /// The first row that could not be read, with the reason.
    pub first_bad_row: Option<String>,
    /// How many times cumulative counters restarted. The intervals around a restart are left out.
    pub resets: u64,
    /// The number of intervals longer than a minute, which are left out.
    pub gaps: u64,
    /// The number of intervals with discards. They are left out because their discards cannot be
    /// separated from other operations.
    pub with_discards: u64,
}

/// The counters of one disk.
#[derive(Clone, Debug)]
pub(super) struct Counters {
    pub samples: Vec<Sample>,
    /// An upper bound of the number of operations, which includes those left out because of
    /// discards.
    pub ops_most: f64,
    pub read: CountersRead,
}

impl Counters {
    /// Speeds up the load, so that the same operations arrive `growth` times as fast.
    pub(super) fn growing(mut self, growth: f64) -> Counters {
        for sample in &mut self.samples {
            (sample.from_s, sample.len_s) = (sample.from_s / growth, sample.len_s / growth);
        }
        self
    }
}

/// The meaning of the figures in a file.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Meaning {
    /// Rates per second since the previous reading.
    Rates,
    /// Numbers since the previous reading.
    Counts,
    /// Totals since the counters were last reset.
    Totals,
}

/// One reading of a disk's counters: a row of a file.
#[derive(Clone, Debug, PartialEq)]
struct Reading {
    line: usize,
    at_s: f64,
    disk: String,
    ops: [f64; 3],
    bytes: [f64; 2],
    has_discards: bool,
}

/// The readings in a file, as parsed by its format.
struct Parsed {
    format: &'static str,
    meaning: Meaning,
    readings: Vec<Reading>,
    bad: BadRows,
}

/// The rows that could not be read.
#[derive(Clone, Debug, Default)]
struct BadRows {
    count: u64,
    first: Option<String>,
}

impl BadRows {
    fn add(&mut self, line: usize, what: impl std::fmt::Display) {
        self.count += 1;
        self.first.get_or_insert_with(|| format!("line {line}: {what}"));
    }
}

/// Reads the counters of `disk` from the file at `path`. Without `disk`, the file must contain only
/// one.
///
/// # Errors
/// Fails if the file cannot be read, has another format, contains several disks and `disk` is not
/// given, or has intervals longer than a minute.
pub(super) fn read(path: &Path, disk: Option<&str>) -> Result<Counters, Error> {
    let unfit = |what: String| Error::Unfit(format!("{}: {what}", path.display()));
    let text = whole::read_text(path, BYTES_MAX, "a table of counters")
        .map_err(|error| unfit(error.to_string()))?;
    let parsed = parsed(text.trim_start_matches('\u{feff}')).map_err(&unfit)?;
    let disk = chosen(&parsed, disk, &unfit)?;
    counters(parsed, &disk).map_err(unfit)
}

fn parsed(text: &str) -> Result<Parsed, String> {
    if sysstat::is_one(text) {
        return sysstat::parsed(text);
    }
    if scrape::is_one(text) {
        return Ok(scrape::parsed(text));
    }
    csv::parsed(text)
}

/// Returns the name of the disk to use; empty if the file names no disks.
fn chosen(
    parsed: &Parsed,
    wanted: Option<&str>,
    unfit: &dyn Fn(String) -> Error,
) -> Result<String, Error> {
    let disks: BTreeSet<&str> = parsed.readings.iter().map(|of| of.disk.as_str()).collect();
    let disks: Vec<&str> = disks.into_iter().collect();
    match (wanted, disks.as_slice()) {
        (_, []) => {
            let first = parsed.bad.first.as_ref().map_or(String::new(), |bad| format!(" ({bad})"));
            Err(unfit(format!("got no usable row, expected some{first}")))
        }
        (Some(wanted), _) if disks.contains(&wanted) && !wanted.is_empty() => Ok(wanted.into()),
        (Some(wanted), _) => {
            let near = suggestion(wanted, &disks);
            let text = format!("got '{wanted}', expected one of {}{near}", listed(&disks));
            Err(AskError::new("disk", text).into())
        }
        (None, [one]) => Ok((*one).into()),
        (None, _) => Err(unfit(format!(
            "got {}, expected one: choose from {} with {}",
            counted(disks.len() as u64, "disk"),
            listed(&disks),
            named("disk")
        ))),
    }
}

fn listed(disks: &[&str]) -> String {
    match disks {
        [] | [""] => "none, because the file does not name disks".into(),
        disks => disks.join(", "),
    }
}

/// Converts the readings of a disk to samples.
fn counters(parsed: Parsed, disk: &str) -> Result<Counters, String> {
    let Parsed { format, meaning, readings, mut bad } = parsed;
    let readings: Vec<Reading> = readings.into_iter().filter(|of| of.disk == disk).collect();
    let interval_s = interval_s(&readings)?;
    let (mut samples, mut ops_most) = (Vec::with_capacity(readings.len()), 0.0);
    let (mut resets, mut gaps, mut with_discards) = (0, 0, 0);
    let mut previous: Option<&Reading> = None;
    for now in &readings {
        let before = previous.replace(now);
        let len_s = before.map_or(interval_s, |before| now.at_s - before.at_s);
        if len_s <= 0.0 {
            bad.add(now.line, "the time is not later than that of the previous row");
            continue;
        }
        if len_s > INTERVAL_MAX_S {
            gaps += 1;
            continue;
        }
        let (ops, bytes) = match (meaning, before) {
            (Meaning::Counts, _) => (now.ops, now.bytes),
            (Meaning::Rates, _) => (now.ops.map(|of| of * len_s), now.bytes.map(|of| of * len_s)),
            (Meaning::Totals, None) => continue,
            (Meaning::Totals, Some(before)) => (
                std::array::from_fn(|at| now.ops[at] - before.ops[at]),
                std::array::from_fn(|at| now.bytes[at] - before.bytes[at]),
            ),
        };
        if ops.iter().chain(&bytes).any(|of| *of < 0.0) {
            resets += 1;
            continue;
        }
        let mut sample = Sample { from_s: now.at_s - len_s, len_s, ops, bytes };
        ops_most += sample.all_ops();
        if now.has_discards {
            with_discards += 1;
            (sample.ops, sample.bytes) = ([0.0; 3], [0.0; 2]);
        }
        samples.push(sample);
    }
    if samples.iter().all(|sample| sample.all_ops() == 0.0) {
        return Err("got no operations, expected some; use counters from a busy time".into());
    }
    let read = CountersRead {
        format: format.into(),
        disk: (!disk.is_empty()).then(|| disk.into()),
        intervals: samples.len() as u64,
        interval_s,
        bad_rows: bad.count,
        first_bad_row: bad.first,
        resets,
        gaps,
        with_discards,
    };
    Ok(Counters { samples, ops_most, read })
}

/// Returns the median length of the intervals in seconds.
fn interval_s(readings: &[Reading]) -> Result<f64, String> {
    let mut all: Vec<f64> = readings.windows(2).map(|pair| pair[1].at_s - pair[0].at_s).collect();
    all.retain(|len_s| *len_s > 0.0);
    if all.is_empty() {
        return Err("got fewer than two readings of a disk at different times, expected at least \
                    two"
        .into());
    }
    all.sort_unstable_by(f64::total_cmp);
    let median = all[all.len() / 2];
    if median > INTERVAL_MAX_S {
        return Err(format!(
            "got intervals of {}, expected at most {}: requests queue in milliseconds, so averages \
             over longer times say nothing about a promise; record one-second counters, as with \
             `iostat -x -t 1`, or a trace with `forebay capture`",
            seconds(median),
            bound(INTERVAL_MAX_S * 1e3)
        ));
    }
    Ok(median)
}

impl CountersRead {
    /// Describes what was left out, one sentence each.
    pub(super) fn cautions(&self) -> Vec<String> {
        let mut all = Vec::new();
        let mut add = |count: u64, sentence: String| all.extend((count > 0).then_some(sentence));
        let first = self.first_bad_row.as_deref().unwrap_or_default();
        let rows = counted(self.bad_rows, "row");
        let are = verb(self.bad_rows, "is", "are");
        add(self.bad_rows, format!("{rows} could not be read and {are} left out ({first})."));
        let resets = counted(self.resets, "time");
        add(
            self.resets,
            format!("The counters were reset {resets}; the intervals around it are left out."),
        );
        let gaps = counted(self.gaps, "gap");
        let are = verb(self.gaps, "is", "are");
        add(self.gaps, format!("{gaps} of more than a minute between readings {are} left out."));
        let discards = counted(self.with_discards, "interval");
        add(
            self.with_discards,
            format!(
                "{discards} with discards {} left out, because the file counts them as operations.",
                verb(self.with_discards, "is", "are")
            ),
        );
        all
    }
}

#[cfg(test)]
mod tests;
