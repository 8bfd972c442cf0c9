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
//! - *Addresses*: requests are shorter than a sector on average, reach beyond [`EXTENT_MAX`], or are
//!   of [`LARGE_BYTES`] on average and all in steps of exactly 512 sectors, which is what bytes become
//!   when they are taken for sectors.
//!
//! Fewer than [`SAMPLE_LEAST`] records prove nothing. A preset of [`crate::formats::presets`] is
//! refused, because its unit is a guess; declared columns are where no drive there is could have done
//! it (too fast, too large), and otherwise warned of. `units=sure` among the columns reads them all
//! the same. Where the format states its units (blktrace, Parquet, canonical CSV), the trace is read
//! and the user warned.

use std::path::{Path, PathBuf};

use crate::columns::spec::Columns;
use crate::columns::unit::TIME_UNITS;
use crate::error::{Place, TraceError};
use crate::formats::presets::preset;
use crate::order::WINDOW;
use crate::quantities;
use crate::trace::{Dictionary, Notes, Reader, Record};

/// Share of records that may have lost their time for coming too late; beyond it the trace is no
/// trace in order of time.
const LATE_SHARE_MAX: f64 = 0.01;
/// Records looked at.
pub const SAMPLE: usize = 1 << 16;
/// Records that are needed to judge.
pub const SAMPLE_LEAST: usize = 1_000;
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
/// 512 sectors of 512 bytes, as a power of two.
const SECTOR_SQUARED_BITS: u32 = 18;

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
}

impl Doubt {
    /// Of a format, found by looking or named: a preset may have the wrong unit, other formats state
    /// theirs.
    pub(crate) fn of(format: &str) -> Doubt {
        let columns = preset(format).and_then(|preset| preset.columns.parse::<Columns>().ok());
        let refused = if columns.is_some() { Refused::Doubtful } else { Refused::None };
        Doubt { refused, columns }
    }

    /// The user declared the units.
    pub(crate) fn declared(columns: &Columns) -> Doubt {
        let refused = if columns.sure { Refused::None } else { Refused::Impossible };
        Doubt { refused, columns: Some(columns.clone()) }
    }

    /// The unit of times, if columns declare it: its name and nanoseconds.
    fn unit(&self) -> Option<(&'static str, f64)> {
        let unit = self.columns.as_ref()?.at_unit()?;
        Some((unit.name, unit.ns as f64))
    }
}

/// What is wrong with a trace as it was read.
#[derive(Clone, Debug, PartialEq)]
struct Finding {
    /// No drive there is could have done it.
    impossible: bool,
    got: String,
    expected: String,
    /// Pieces of the declaration and what should stand there.
    instead: Vec<(String, String)>,
}

/// The first records of a trace.
#[derive(Default)]
struct Sample {
    records: usize,
    last_ns: u64,
    /// Gaps above zero.
    gaps_ns: Vec<u64>,
    /// Step of the clock: what divides every time.
    step_ns: u64,
    /// Bytes and requests of each volume.
    volumes: Vec<(u64, u64)>,
    bytes: u64,
    end: u64,
    /// Every bit set in an offset or a length.
    bits: u64,
}

fn greatest_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl Sample {
    fn add(&mut self, batch: &[Record]) {
        for record in batch.iter().take(SAMPLE - self.records.min(SAMPLE)) {
            let at = record.at.0;
            if self.records > 0 && at > self.last_ns {
                self.gaps_ns.push(at - self.last_ns);
                if self.step_ns != 1 {
                    self.step_ns = greatest_divisor(at, self.step_ns);
                }
            }
            self.records += 1;
            self.last_ns = at;
            let volume = record.volume as usize;
            if volume >= self.volumes.len() {
                self.volumes.resize(volume + 1, (0, 0));
            }
            if !record.op.moves_data() {
                continue;
            }
            let len = u64::from(record.len);
            self.volumes[volume].0 += len;
            self.volumes[volume].1 += 1;
            self.bytes += len;
            self.end = self.end.max(record.offset.saturating_add(len));
            self.bits |= record.offset | len;
        }
    }

    fn judge(&mut self, doubt: &Doubt) -> Option<Finding> {
        if self.records < SAMPLE_LEAST {
            return None;
        }
        self.gaps_ns.sort_unstable();
        self.times(doubt).or_else(|| self.addresses(doubt))
    }

    /// Bytes and requests a second on the busiest volume; nothing if all arrive at once.
    fn rates(&self) -> Option<(f64, f64)> {
        let seconds = self.last_ns as f64 / 1e9;
        let busiest = |of: fn(&(u64, u64)) -> u64| {
            self.volumes.iter().map(of).max().unwrap_or(0) as f64 / seconds
        };
        (seconds > 0.0).then(|| (busiest(|v| v.0), busiest(|v| v.1)))
    }

    /// The gap that one in twenty is shorter than, if it says that the trace is too slow when its times
    /// are multiplied so; `unit_ns` is the unit they were read in.
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

    /// Whether times would be right if they were multiplied so.
    fn plausible(&self, times: f64, unit_ns: Option<f64>) -> bool {
        !self.too_fast(times) && self.slow_gap_ns(times, unit_ns).is_none()
    }

    fn times(&self, doubt: &Doubt) -> Option<Finding> {
        let unit = doubt.unit();
        let unit_ns = unit.map(|(_, ns)| ns);
        let read_in = unit.map_or(String::new(), |(name, _)| format!(" with times in {name}"));
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
            Some((name, ns)) => {
                for other in TIME_UNITS.iter().filter(|other| other.ns != 100) {
                    let times = other.ns as f64 / ns;
                    if times != 1.0 && self.plausible(times, unit_ns) {
                        likely.push(other.name.to_owned());
                        for column in ["at", "end"] {
                            let piece = |unit| format!("{column}:{unit},");
                            instead.push((piece(name), piece(other.name)));
                        }
                    }
                }
                instead.truncate(2);
            }
            None => {
                let times = [1e-9, 1e-6, 1e-3, 1e3, 1e6, 1e9].into_iter();
                likely.extend(times.filter(|&t| self.plausible(t, None)).map(|times| {
                    if times > 1.0 {
                        format!("units {times} times as long")
                    } else {
                        format!("units {} times as short", 1.0 / times)
                    }
                }));
            }
        }
        let expected = if likely.is_empty() {
            expected
        } else {
            format!("{expected}: the times are likely in {}", likely.join(" or "))
        };
        Some(Finding { impossible, got, expected, instead })
    }

    fn addresses(&self, doubt: &Doubt) -> Option<Finding> {
        let requests: u64 = self.volumes.iter().map(|volume| volume.1).sum();
        let mean = self.bytes as f64 / requests.max(1) as f64;
        let shown = doubt.columns.as_ref().map_or("", |columns| columns.text.as_str());
        let in_sectors = shown.contains("len:sectors");
        let pieces = |from: &str, to: &str| {
            let piece = |column, unit: &str| format!("{column}{unit},");
            let instead = |column| (piece(column, from), piece(column, to));
            vec![instead("offset"), instead("len")]
        };
        if self.bits.trailing_zeros() == SECTOR_SQUARED_BITS && mean >= LARGE_BYTES && in_sectors {
            return Some(Finding {
                impossible: false,
                got: format!(
                    "requests of {} on average, all in steps of 512 sectors",
                    quantities::bytes(mean)
                ),
                expected: "smaller steps: offsets and lengths are likely in bytes".into(),
                instead: pieces(":sectors", ""),
            });
        }
        if requests > 0 && mean < LEN_MEAN_LEAST && !in_sectors {
            return Some(Finding {
                impossible: false,
                got: format!("requests of {} on average", quantities::bytes(mean)),
                expected: "at least a sector of 512 bytes: lengths are likely in sectors".into(),
                instead: pieces("", ":sectors"),
            });
        }
        if self.end > EXTENT_MAX {
            return Some(Finding {
                impossible: true,
                got: format!("a volume of at least {}", quantities::bytes(self.end as f64)),
                expected: "volumes below 1 PiB: offsets are likely in smaller units".into(),
                instead: pieces(":sectors", ""),
            });
        }
        None
    }
}

/// A reader that stops, or warns, if the units of what it reads cannot be right.
pub struct Checked {
    inner: Box<dyn Reader>,
    path: PathBuf,
    doubt: Doubt,
    /// Until it is judged.
    sample: Option<Sample>,
    records: u64,
    warning: Option<String>,
    notes: Notes,
}

impl Checked {
    pub(crate) fn new(inner: Box<dyn Reader>, path: &Path, doubt: Doubt) -> Checked {
        let notes = inner.notes().clone();
        let sample = Some(Sample::default());
        Checked { inner, path: path.to_path_buf(), doubt, sample, records: 0, warning: None, notes }
    }

    /// The error, or the warning.
    fn tell(&mut self, finding: Finding) -> Result<(), TraceError> {
        let Finding { impossible, got, expected, instead } = finding;
        let mended = self.doubt.columns.as_ref().and_then(|columns| {
            let text = format!("{columns},");
            let mended =
                instead.iter().fold(text.clone(), |text, (from, to)| text.replace(from, to));
            (mended != text).then(|| mended.trim_end_matches(',').to_owned())
        });
        let mended = mended.map_or(String::new(), |mended| format!("if so, --columns {mended}"));
        let refused = match self.doubt.refused {
            Refused::Doubtful => true,
            Refused::Impossible => impossible,
            Refused::None => false,
        };
        if !refused {
            let parts = [format!("the units may be wrong: got {got}, expected {expected}"), mended];
            let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            self.warning = Some(parts.join("; "));
            return Ok(());
        }
        let declared = self.doubt.columns.as_ref().map(Columns::to_string).unwrap_or_default();
        let believe = format!("if the units are right, --columns {declared},units=sure");
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
        Err(TraceError::Malformed {
            path: self.path.clone(),
            place: Place::File,
            got: format!(
                "{late} of {} rows more than {WINDOW} rows after their time",
                self.records
            ),
            expected: "rows in about the order of their times".into(),
            hint: "sort the file by time (sort -n on that column) and read it again".into(),
        })
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
                let finding = sample.judge(&self.doubt);
                self.sample = None;
                if let Some(finding) = finding {
                    self.tell(finding)?;
                }
            }
        }
        if let Some(warning) = &self.warning {
            self.notes.clone_from(self.inner.notes());
            self.notes.warnings.push(warning.clone());
        }
        Ok(())
    }

    fn dictionary(&self) -> &Dictionary {
        self.inner.dictionary()
    }

    fn notes(&self) -> &Notes {
        if self.warning.is_some() { &self.notes } else { self.inner.notes() }
    }
}

#[cfg(test)]
mod tests;
