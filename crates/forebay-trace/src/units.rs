//! Are the units of a trace right? Most text formats do not say theirs, and a trace read a thousand
//! times too fast still simulates, to results that mean nothing.
//!
//! The first [`SAMPLE`] records are judged once, by what no honest trace does:
//!
//! - *Too fast*: one volume takes more than [`RATE_MAX`] bytes or [`REQUESTS_MAX`] requests a second.
//! - *Too slow*: of the gaps between arrivals at different times, 19 of 20 are longer than
//!   [`GAP_MAX_NS`] and than [`GAP_STEPS_MAX`] steps of the clock. Even volumes idle for days get
//!   their requests in bursts; evenly spaced requests have gaps of one step. A step of exactly 1000
//!   units counts for none, unless a tenth of the requests share their time with the one before: it
//!   is what microseconds written as ns look like. Coarse clocks, where most requests share their
//!   time, are not judged.
//! - *Another date*: the first time is a few days after 1970 in the unit it is read in, and a date of this
//!   century in another ([`times`]).
//! - *Addresses*: requests are shorter than a sector on average, reach beyond [`EXTENT_MAX`], or have
//!   places and lengths that only make sense in bytes where they are read in sectors, or the other way round
//!   ([`places`]).
//!
//! Gaps of fewer than [`SAMPLE_LEAST`] records prove nothing, nor do places of fewer than [`PLACES_LEAST`]. A
//! preset of [`crate::formats::presets`] is refused, because its unit is a guess; declared columns and
//! headers are where the [`Evidence`] is strong (no drive there is could have done it), and otherwise warned of.
//! `units=sure` among the columns reads them all the same. Where the format states its units (blktrace,
//! Parquet, canonical CSV), the trace is read and the user warned.

mod places;
mod sample;
mod times;

use std::path::{Path, PathBuf};

use crate::columns::spec::{Columns, Role};
use crate::columns::unit::TimeUnit;
use crate::error::{Place, TraceError};
use crate::formats::Format;
use crate::gaps::Gaps;
use crate::order::WINDOW;
use crate::trace::{Dictionary, Notes, Reader, Record};
use forebay_ask::named;
use sample::Sample;

/// Share of records that may have lost their time for coming too late; beyond it the trace is no
/// trace in order of time.
const LATE_SHARE_MAX: f64 = 0.01;
/// Formats that no text tool sorts.
const BINARY: [&str; 6] =
    ["parquet", "hadoop-parquet", "blktrace", "hp-srt", "vscsi", "oracle-general"];
/// Records looked at.
pub const SAMPLE: usize = 1 << 16;
/// Records that are needed to judge.
pub const SAMPLE_LEAST: usize = 1_000;
/// Records that are needed to judge places and lengths.
pub const PLACES_LEAST: u64 = 100;
/// Bytes a second on one volume: more than PCIe 5.0 carries on four lanes (15.75 GB/s).
pub const RATE_MAX: f64 = 16e9;
/// Requests a second on one volume: more than any one drive is sold for (3.3 million).
pub const REQUESTS_MAX: f64 = 3.5e6;
/// Gap in nanoseconds that at least one gap in twenty is shorter than.
pub const GAP_MAX_NS: f64 = 50e6;
/// The same in steps of the trace's clock.
pub const GAP_STEPS_MAX: u64 = 50;
/// Shortest mean request, in bytes: a sector.
pub const LEN_MEAN_LEAST: f64 = 512.0;
/// Largest volume believed, in bytes: 1 PiB.
pub const EXTENT_MAX: u64 = 1 << 50;
/// Mean request, in bytes, from which its alignment is looked at.
pub const LARGE_BYTES: f64 = 1_048_576.0;
/// Bytes in a sector.
const SECTOR_BYTES: u64 = 512;

/// Which traces are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refused {
    Doubtful,
    Impossible,
    None,
}

/// What is known of a trace's units before it is read.
pub struct Doubt {
    refused: Refused,
    /// The declaration of its columns, if it has one.
    columns: Option<Columns>,
    /// What a table calls its times, places and lengths.
    names: Option<[String; 3]>,
}

impl Doubt {
    /// Of a format, found by looking or named: a preset may have the wrong unit, other formats state
    /// theirs.
    pub(crate) fn of(format: &str) -> Doubt {
        let columns = Format::named(format).and_then(Format::preset);
        let columns = columns.and_then(|preset| preset.columns.parse::<Columns>().ok());
        let refused = if columns.is_some() { Refused::Doubtful } else { Refused::None };
        Doubt { refused, columns, names: None }
    }

    /// Of a table whose names of columns say as much as these columns declare.
    pub(crate) fn of_table(columns: Columns, names: [String; 3]) -> Doubt {
        Doubt { refused: Refused::Impossible, columns: Some(columns), names: Some(names) }
    }

    /// The user declared the units.
    pub(crate) fn declared(columns: &Columns) -> Doubt {
        let refused = if columns.sure { Refused::None } else { Refused::Impossible };
        Doubt { refused, columns: Some(columns.clone()), names: None }
    }

    /// The unit of times, if columns declare it.
    fn unit(&self) -> Option<TimeUnit> {
        self.columns.as_ref()?.at_unit()
    }

    /// The bytes that places and lengths are counted in, if columns declare them.
    fn lengths(&self) -> Option<(u64, u64)> {
        let roles = &self.columns.as_ref()?.roles;
        let unit_of = |wanted: fn(&Role) -> Option<u64>| roles.iter().find_map(wanted);
        let offset = unit_of(|role| if let Role::Offset(unit) = role { Some(*unit) } else { None });
        let len = unit_of(|role| if let Role::Len(unit) = role { Some(*unit) } else { None });
        Some((offset?, len?))
    }

    /// What to do if pieces of the declaration should be others; nothing if there are none.
    fn mended(&self, instead: &[(String, String)]) -> String {
        let Some(columns) = &self.columns else { return String::new() };
        if let Some(names) = &self.names {
            let renamed: Vec<String> =
                instead.iter().filter_map(|(_, to)| renamed(names, to)).collect();
            return match renamed.is_empty() {
                true => String::new(),
                false => format!("if so, {}", renamed.join(" and ")),
            };
        }
        let text = format!("{columns},");
        let mended = instead.iter().fold(text.clone(), |text, (from, to)| text.replace(from, to));
        match mended == text {
            true => String::new(),
            false => {
                let columns = mended.trim_end_matches(',');
                format!("if so, {}", named(&format!("columns={columns}")))
            }
        }
    }

    /// How to say that the units are right.
    fn believed(&self) -> String {
        match (&self.names, &self.columns) {
            (None, Some(columns)) => {
                let sure = named(&format!("columns={columns},units=sure"));
                format!("if the units are right, {sure}")
            }
            _ => format!("if the units are right, {}", named("from=parquet")),
        }
    }

    /// The piece of the declaration that begins with `column`, and what it should be.
    fn instead(&self, column: &str, unit: &str) -> Option<(String, String)> {
        let columns = self.columns.as_ref()?.text.split(',').map(str::trim);
        let is_of = |piece: &&str| piece.split(':').next() == Some(column);
        let piece = columns.clone().find(is_of)?;
        Some((format!("{piece},"), format!("{column}{unit},")))
    }
}

/// How to rename a column of a table, so that its name tells what a piece of a declaration says.
fn renamed([at, offset, len]: &[String; 3], piece: &str) -> Option<String> {
    let (role, unit) = piece.trim_end_matches(',').split_once(':').unwrap_or((piece, "bytes"));
    let (name, stem) = match role.trim_end_matches(',') {
        "at" => (at, "time"),
        "offset" => (offset, "offset"),
        "len" => (len, "len"),
        _ => return None,
    };
    Some(format!("rename the column \"{name}\" to \"{stem}_{unit}\""))
}

/// How sure it is that units are wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Evidence {
    /// Seldom, but there are such traces.
    Weak,
    /// No honest trace that is known.
    Odd,
    /// No drive there is could have done it, or several things say the same.
    Strong,
}

/// What is wrong with a trace as it was read.
#[derive(Clone, Debug, PartialEq)]
struct Finding {
    evidence: Evidence,
    got: String,
    expected: String,
    /// Pieces of the declaration and what should stand there.
    instead: Vec<(String, String)>,
}

/// A reader that stops, or warns, if the units of what it reads cannot be right.
pub struct Checked {
    inner: Box<dyn Reader>,
    path: PathBuf,
    doubt: Doubt,
    /// Until it is judged.
    sample: Option<Sample>,
    records: u64,
    gaps: Gaps,
    warnings: Vec<String>,
    notes: Notes,
}

impl Checked {
    pub(crate) fn new(inner: Box<dyn Reader>, path: &Path, doubt: Doubt) -> Checked {
        let notes = inner.notes().clone();
        let sample = Some(Sample::default());
        let (path, gaps, warnings) = (path.to_path_buf(), Gaps::default(), Vec::new());
        Checked { inner, path, doubt, sample, records: 0, gaps, warnings, notes }
    }

    /// The error, or the warning.
    fn tell(&mut self, finding: Finding) -> Result<(), TraceError> {
        let Finding { evidence, got, expected, instead } = finding;
        let mended = self.doubt.mended(&instead);
        let refused = match self.doubt.refused {
            Refused::Doubtful => evidence > Evidence::Weak,
            Refused::Impossible => evidence == Evidence::Strong,
            Refused::None => false,
        };
        if !refused {
            let parts = [format!("the units may be wrong: got {got}, expected {expected}"), mended];
            let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            self.warnings.push(parts.join("; "));
            return Ok(());
        }
        let believe = self.doubt.believed();
        let hint = [mended, believe].into_iter().filter(|part| !part.is_empty());
        Err(TraceError::Malformed {
            path: self.path.clone(),
            place: Place::File,
            got,
            expected,
            hint: hint.collect::<Vec<_>>().join("; "),
        })
    }
}

impl Checked {
    /// Refuses a trace of which many times were lost: it is not in order of time at all.
    fn refuse_disorder(&self) -> Result<(), TraceError> {
        let late = self.inner.notes().rows_late;
        if late as f64 <= self.records as f64 * LATE_SHARE_MAX {
            return Ok(());
        }
        let notes = self.inner.notes();
        let clock = notes.warnings.iter().find(|told| told.starts_with("the clock goes back"));
        let in_order = "rows in about the order of their times".to_owned();
        let told = |got, expected, hint| {
            let (path, place) = (self.path.clone(), Place::File);
            Err(TraceError::Malformed { path, place, got, expected, hint })
        };
        let requests = format!("{late} of {} requests", self.records);
        match clock.filter(|told| told.contains("another recording")) {
            Some(clock) => {
                let got =
                    format!("a clock that goes back, or several runs: {requests} after their time");
                told(got, "one run, in about the order of its times".into(), clock.clone())
            }
            None if BINARY.contains(&notes.format) => {
                let hint = "is one of its times years off, or is it a mix of several recordings?";
                told(format!("{requests} after their time"), in_order, hint.into())
            }
            None => {
                let sort = "sort the file by time (sort -n on that column) and read it again";
                let hint = clock.map_or(sort.into(), |clock| format!("{clock}; or {sort}"));
                told(format!("{requests} more than {WINDOW} rows after their time"), in_order, hint)
            }
        }
    }
}

impl Reader for Checked {
    fn read(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        self.inner.read(batch)?;
        self.records += batch.len() as u64;
        if batch.is_empty() {
            self.refuse_disorder()?;
        }
        if let Some(sample) = &mut self.sample {
            sample.add(batch);
            if sample.records >= SAMPLE || batch.is_empty() {
                let finding = sample.judge(&self.doubt, self.inner.notes().began);
                self.sample = None;
                if let Some(finding) = finding {
                    self.tell(finding)?;
                }
            }
        }
        self.gaps.add(batch);
        if batch.is_empty() {
            self.warnings.extend(self.gaps.sentence());
        }
        if !self.warnings.is_empty() {
            self.notes.clone_from(self.inner.notes());
            self.notes.warnings.extend(self.warnings.iter().cloned());
        }
        Ok(())
    }

    fn dictionary(&self) -> &Dictionary {
        self.inner.dictionary()
    }

    fn notes(&self) -> &Notes {
        if self.warnings.is_empty() { self.inner.notes() } else { &self.notes }
    }
}

#[cfg(test)]
mod tests;
