//! Checks whether the units of a trace are plausible. Most text formats do not record their units,
//! and a trace that is read a thousand times too fast can still be simulated, with meaningless
//! results.
//!
//! The first [`SAMPLE`] records are judged once, by properties that a trace never has if it is read
//! correctly:
//!
//! - *Too fast*: a volume has more than [`RATE_MAX`] bytes or [`REQUESTS_MAX`] requests per second.
//! - *Too slow*: of the gaps between arrivals at different times, 19 of 20 are longer than
//!   [`GAP_MAX_NS`] and than [`GAP_STEPS_MAX`] steps of the clock. Requests come in bursts even on
//!   volumes that are idle for days, and evenly spaced requests have gaps of one step. A step of
//!   exactly 1000 units does not count, because it is typical of microseconds written as ns, unless
//!   a tenth of the requests have the same time as the previous one. Coarse clocks, with which most
//!   requests have the same time as others, are not judged.
//! - *Another date*: the first time is a few days after 1970 in the unit in which it is read, and a
//!   date of this century in another ([`times`]).
//! - *Addresses*: requests are shorter than a sector on average, extend beyond [`EXTENT_MAX`], or
//!   have offsets and lengths that only make sense in bytes although they are read in sectors, or
//!   vice versa ([`places`]).
//!
//! The gaps between fewer than [`SAMPLE_LEAST`] records prove nothing, and neither do fewer than
//! [`PLACES_LEAST`] offsets. [`FEW_LEAST`] records suffice if rates or extents are far beyond the
//! limits. Traces in a format of [`crate::formats::presets`] are rejected, because the unit of a
//! preset is a guess. With declared columns or a header, they are rejected if the [`Evidence`] is
//! strong (no existing drive could have done it); otherwise, there is a warning. `units=sure` among
//! the columns prevents rejection. If the format defines its units (blktrace, Parquet, canonical
//! CSV), there is only a warning.

mod places;
mod sample;
mod times;

use std::path::{Path, PathBuf};

use crate::columns::spec::{Columns, Role};
use crate::columns::unit::TimeUnit;
use crate::formats::Format;
use crate::gaps::Gaps;
use crate::in_step::InStep;
use crate::order::WINDOW;
use crate::{Dictionary, Notes, Place, Reader, Record, TraceError};
use forebay_ask::named;
use sample::Sample;

/// The maximum share of records whose time was changed because they were late. With more, the trace
/// is not in order of time.
const LATE_SHARE_MAX: f64 = 0.01;
/// Formats that cannot be sorted with text tools.
const BINARY: [&str; 6] =
    ["parquet", "hadoop-parquet", "blktrace", "hp-srt", "vscsi", "oracle-general"];
/// The number of records that are examined.
pub const SAMPLE: usize = 1 << 16;
/// The minimum number of records for a judgment.
pub const SAMPLE_LEAST: usize = 1_000;
/// The minimum number of records for a judgment of offsets and lengths.
pub const PLACES_LEAST: u64 = 100;
/// The minimum number of records if they are far beyond the limits.
const FEW_LEAST: usize = 32;
/// The maximum size of a volume on a single drive, in bytes. A larger volume must consist of
/// several drives.
const DRIVE_BYTES_MAX: u64 = 1 << 46;
/// The limit of bytes per second on a volume, which exceeds what PCIe 5.0 transfers on four lanes
/// (15.75 GB/s).
pub const RATE_MAX: f64 = 16e9;
/// The limit of requests per second on a volume, which exceeds the rate of any drive on sale (3.3
/// million).
pub const REQUESTS_MAX: f64 = 3.5e6;
/// At least one gap in twenty should be shorter than this, in nanoseconds.
pub const GAP_MAX_NS: f64 = 50e6;
/// At least one gap in twenty should be shorter than this, in steps of the trace's clock.
pub const GAP_STEPS_MAX: u64 = 50;
/// The minimum mean length of requests in bytes: a sector.
pub const LEN_MEAN_LEAST: f64 = 512.0;
/// The maximum plausible size of a volume: 1 PiB.
pub const EXTENT_MAX: u64 = 1 << 50;
/// The alignment of requests is examined if their mean length is at least this, in bytes.
pub const LARGE_BYTES: f64 = 1_048_576.0;
/// The number of bytes in a sector.
const SECTOR_BYTES: u64 = 512;

/// Under which circumstances a trace is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rejection {
    Doubtful,
    Impossible,
    None,
}

/// The information about the units of a trace that is available before the trace is read.
pub struct Doubt {
    refused: Rejection,
    /// The declaration of the columns, if there is one.
    columns: Option<Columns>,
    /// The names of a table's columns for times, offsets and lengths.
    names: Option<[String; 3]>,
}

impl Doubt {
    /// Creates the doubt about a format, which was detected or specified. The unit of a preset may
    /// be wrong, while other formats define their units.
    pub(crate) fn of(format: &str) -> Doubt {
        let columns = Format::named(format).and_then(Format::preset);
        let columns = columns.and_then(|preset| preset.columns.parse::<Columns>().ok());
        let refused = if columns.is_some() { Rejection::Doubtful } else { Rejection::None };
        Doubt { refused, columns, names: None }
    }

    /// Creates the doubt about a table whose column names imply the given columns.
    pub(crate) fn of_table(columns: Columns, names: [String; 3]) -> Doubt {
        Doubt { refused: Rejection::Impossible, columns: Some(columns), names: Some(names) }
    }

    /// Creates the doubt about units that the user declared.
    pub(crate) fn declared(columns: &Columns) -> Doubt {
        let refused = if columns.trusts_units { Rejection::None } else { Rejection::Impossible };
        Doubt { refused, columns: Some(columns.clone()), names: None }
    }

    /// Returns the unit of times, if the columns declare it.
    fn unit(&self) -> Option<TimeUnit> {
        self.columns.as_ref()?.at_unit()
    }

    /// Returns the units of offsets and lengths in bytes, if the columns declare them.
    fn lengths(&self) -> Option<(u64, u64)> {
        let roles = &self.columns.as_ref()?.roles;
        let unit_of = |wanted: fn(&Role) -> Option<u64>| roles.iter().find_map(wanted);
        let offset = unit_of(|role| if let Role::Offset(unit) = role { Some(*unit) } else { None });
        let len = unit_of(|role| if let Role::Len(unit) = role { Some(*unit) } else { None });
        Some((offset?, len?))
    }

    /// Suggests a corrected declaration, or returns an empty string if there is nothing to correct.
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

    /// Explains how to confirm that the units are right.
    fn believed(&self) -> String {
        match (&self.names, &self.columns) {
            (None, Some(columns)) => {
                let sure = named(&format!("columns={columns},units=sure"));
                format!("if the units are right, {sure}")
            }
            _ => format!("if the units are right, {}", named("from=parquet")),
        }
    }

    /// Returns the part of the declaration that begins with `column`, and its correction.
    fn instead(&self, column: &str, unit: &str) -> Option<(String, String)> {
        let columns = self.columns.as_ref()?.text.split(',').map(str::trim);
        let is_of = |piece: &&str| piece.split(':').next() == Some(column);
        let piece = columns.clone().find(is_of)?;
        Some((format!("{piece},"), format!("{column}{unit},")))
    }
}

/// Explains how to rename a column of a table so that its name implies `piece`, which is part of a
/// declaration.
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

/// How strong the evidence for wrong units is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Evidence {
    /// Correct traces with this property are rare but exist.
    Weak,
    /// No correct trace with this property is known.
    PartialRows,
    /// No existing drive could have done this, or there are several agreeing findings.
    Strong,
}

/// A problem with how a trace was read.
#[derive(Clone, Debug, PartialEq)]
struct Finding {
    evidence: Evidence,
    got: String,
    expected: String,
    /// Parts of the declaration that should be changed, and their corrections.
    instead: Vec<(String, String)>,
}

/// A reader that fails or warns if units cannot be right.
pub struct Checked {
    inner: Box<dyn Reader>,
    path: PathBuf,
    doubt: Doubt,
    /// The first records, until they have been evaluated.
    sample: Option<Sample>,
    records: u64,
    gaps: Gaps,
    /// The comparison of volumes, until it is complete.
    in_step: Option<InStep>,
    warnings: Vec<String>,
    notes: Notes,
}

impl Checked {
    pub(crate) fn new(inner: Box<dyn Reader>, path: &Path, doubt: Doubt) -> Checked {
        let notes = inner.notes().clone();
        let sample = Some(Sample::default());
        let (path, gaps, warnings) = (path.to_path_buf(), Gaps::default(), Vec::new());
        let in_step = Some(InStep::default());
        Checked { inner, path, doubt, sample, records: 0, gaps, in_step, warnings, notes }
    }

    /// Adds a warning to the notes.
    pub(crate) fn warn(&mut self, warning: String) {
        self.warnings.push(warning);
        self.notes.clone_from(self.inner.notes());
        self.notes.warnings.extend(self.warnings.iter().cloned());
    }

    /// Returns the finding as an error, or adds it as a warning.
    fn tell(&mut self, finding: Finding) -> Result<(), TraceError> {
        let Finding { evidence, got, expected, instead } = finding;
        let mended = self.doubt.mended(&instead);
        let refused = match self.doubt.refused {
            Rejection::Doubtful => evidence > Evidence::Weak,
            Rejection::Impossible => evidence == Evidence::Strong,
            Rejection::None => false,
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
    /// Adds a warning if volumes move in step, once enough requests were read.
    fn follow_volumes(&mut self, batch: &[Record]) {
        let Some(in_step) = &mut self.in_step else { return };
        if in_step.add(batch) || batch.is_empty() {
            self.warnings
                .extend(in_step.sentence(self.inner.dictionary(), &self.inner.facts().legs));
            self.in_step = None;
        }
    }

    /// Returns an error if many times were changed because the trace is not in order of time at
    /// all.
    fn refuse_disorder(&self) -> Result<(), TraceError> {
        let late = self.inner.notes().rows_late;
        if late as f64 <= self.records as f64 * LATE_SHARE_MAX {
            return Ok(());
        }
        let notes = self.inner.notes();
        let clock = notes.warnings.iter().find(|told| told.starts_with("the clock goes back"));
        let in_order = "rows approximately in the order of their times".to_owned();
        let told = |got, expected, hint| {
            let (path, place) = (self.path.clone(), Place::File);
            Err(TraceError::Malformed { path, place, got, expected, hint })
        };
        let requests = format!("{late} of {} requests", self.records);
        match clock.filter(|told| told.contains("another recording")) {
            Some(clock) => {
                let got =
                    format!("a clock that goes back, or several runs: {requests} after their time");
                told(got, "one run, approximately in the order of its times".into(), clock.clone())
            }
            None if BINARY.contains(&notes.format) => {
                let hint = "is one of its times off by years, or does it mix several recordings?";
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
        self.follow_volumes(batch);
        if batch.is_empty() {
            self.warnings.extend(self.gaps.sentence(self.inner.facts().wild_ns));
        }
        if !self.warnings.is_empty() {
            self.notes.clone_from(self.inner.notes());
            self.notes.warnings.extend(self.warnings.iter().cloned());
        }
        Ok(())
    }

    fn found(&self) -> (&Dictionary, &Notes) {
        (
            self.inner.dictionary(),
            if self.warnings.is_empty() { self.inner.notes() } else { &self.notes },
        )
    }
}

#[cfg(test)]
mod tests;
