//! Implements `device validate`, which compares a disk model with service times measured on the
//! real drive.
//!
//! A trace in DiskSim's `validate` format has one request per line: `R|W buffer-action sector count
//! response_us gap_us`. Only one request is outstanding; `gap` is the time from its completion to
//! the next request. The trace is played once for each of [`PHASES`] initial positions of the
//! platters. By default, the next request is issued `gap` after the simulated completion, as the
//! format defines. [`Arrivals::Measured`] uses the measured issue times instead, or the simulated
//! completion if that is later.
//!
//! With simulated arrivals, the initial position has little effect: each request is issued a fixed
//! time after a completion, which itself depends on the platters, so after the first request, all
//! phases are equal. The spread over the phases shows the effect of the unknown initial position.
//! It is not a confidence interval of the distance.
//!
//! The metric is DiskSim's: the root-mean-square horizontal distance between the measured and the
//! simulated distribution of service times. DiskSim computes it from histograms. Here, it is
//! computed exactly, as the root mean square of the differences between values of equal rank in the
//! two sorted samples.

use std::path::Path;

use forebay_core::device::drive::Drive;
use forebay_core::device::hdd::Hdd;
use forebay_core::{Device, Flags, Nanos, Op, Request, SpecError};
use forebay_trace::TraceError;
use forebay_trace::error::Place;
use forebay_trace::formats::disksim_valid::{self, ValidationRow};
use serde::Serialize;

use crate::DiskSpec;

/// The number of initial positions of the platters, spread evenly over a revolution.
pub const PHASES: u32 = 20;

/// A request of a trace, as measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// The operation, read or write.
    pub op: Op,
    /// The number of the first sector.
    pub sector: u64,
    /// The number of sectors.
    pub count: u32,
    /// The measured service time.
    pub response: Nanos,
    /// The time from completion to the issue of the next request.
    pub gap: Nanos,
}

/// The number of simulations with random rotation that are compared in pairs.
const REDRAWN: u32 = 5;

/// When requests are issued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrivals {
    /// The measured gap after the simulated completion of the previous request.
    #[default]
    Simulated,
    /// At the measured times, or at the simulated completion of the previous request if that is
    /// later.
    Measured,
}

impl std::str::FromStr for Arrivals {
    type Err = String;
    fn from_str(text: &str) -> Result<Arrivals, String> {
        [Arrivals::Simulated, Arrivals::Measured]
            .into_iter()
            .find(|arrivals| arrivals.name() == text)
            .ok_or_else(|| format!("got '{text}', expected simulated or measured"))
    }
}

impl Arrivals {
    fn name(self) -> &'static str {
        match self {
            Arrivals::Simulated => "simulated",
            Arrivals::Measured => "measured",
        }
    }
}

/// The result of comparing a model with measurements of the real drive.
#[derive(Clone, Debug, Serialize)]
pub struct Validation {
    /// The name of the disk.
    pub device: String,
    /// The number of requests played.
    pub requests: u64,
    /// The number of requests beyond the model's capacity, which were played at its last sectors.
    pub requests_beyond_end: u64,
    /// The number of initial positions of the platters that were simulated.
    pub phases: u32,
    /// Which arrival times were used: `simulated` or `measured`.
    pub arrivals: &'static str,
    /// The root-mean-square distance between the distributions of service times, averaged over the
    /// phases.
    pub rms_ms: f64,
    /// The root-mean-square distance as a share of the measured mean.
    pub rms_share: f64,
    /// The smallest distance of any phase. After the first request, every request is issued a fixed
    /// gap after a completion, so the phases differ by little more than that first request. Their
    /// spread does not indicate the error of the model; see [`Validation::sampling_floor_ms`] for
    /// that.
    pub rms_least_ms: f64,
    /// The largest distance of any phase.
    pub rms_greatest_ms: f64,
    /// The standard deviation of the distance over the phases.
    pub rms_deviation_ms: f64,
    /// The distance between two simulations that differ only in the rotational position, drawn at
    /// random for each request. A model that does not know the position of the platters cannot be
    /// closer to the drive.
    pub sampling_floor_ms: f64,
    /// The mean measured service time.
    pub mean_measured_ms: f64,
    /// The mean simulated service time.
    pub mean_simulated_ms: f64,
    /// The Pearson correlation between the measured and the simulated times of the requests,
    /// averaged over the phases.
    pub correlation: f64,
    /// The correlation after the measured times were shuffled. If shuffling changes nothing, the
    /// distributions match only by chance; for a good model of the drive, it lowers the
    /// correlation.
    pub correlation_shuffled: f64,
}

/// Reads the requests of the trace at `path`, which may be compressed.
pub fn read_trace(path: &Path) -> Result<Vec<Measured>, TraceError> {
    let micros = |us: f64| Nanos::from_millis_f64(us / 1e3);
    let measured = |row: ValidationRow| Measured {
        op: row.op,
        sector: row.first_sector,
        count: row.sectors,
        response: micros(row.response_us),
        gap: micros(row.gap_us),
    };
    let trace: Vec<Measured> =
        disksim_valid::rows(path)?.map(|row| row.map(measured)).collect::<Result<_, _>>()?;
    if trace.is_empty() {
        return Err(TraceError::Malformed {
            path: path.to_path_buf(),
            place: Place::File,
            got: "an empty file".to_string(),
            expected: "requests, one a line".to_string(),
            hint: "copy the trace again".to_string(),
        });
    }
    Ok(trace)
}

/// Returns the number of requests beyond the end of the disk. Fails if they are more than 1 % of
/// all requests, because the trace must then come from another drive.
fn beyond_end(name: &str, spec: &DiskSpec, trace: &[Measured]) -> Result<u64, ValidateError> {
    let bytes = match spec {
        DiskSpec::Hdd(hdd) => Hdd::new(hdd.clone())?.capacity(),
        DiskSpec::Drive(drive) => Drive::new(drive)?.capacity(),
    };
    let sectors = bytes / 512;
    let end = |request: &Measured| request.sector.saturating_add(request.count.into());
    let beyond = trace.iter().filter(|request| end(request) > sectors).count() as u64;
    if beyond * 100 <= trace.len() as u64 {
        return Ok(beyond);
    }
    let last = trace.iter().map(end).max().unwrap_or(0);
    Err(ValidateError::Unfit(format!(
        "the trace: got {beyond} of {} requests beyond the {sectors} sectors of {name} (up to \
         sector {last}), expected a trace measured on such a drive; choose the model of its drive",
        trace.len()
    )))
}

/// The reason why a model cannot be compared with measurements.
#[derive(Debug, thiserror::Error)]
pub enum ValidateError {
    /// The trace was measured on another kind of drive.
    #[error("{0}")]
    Unfit(String),
    /// The model is invalid.
    #[error(transparent)]
    Spec(#[from] SpecError),
}

/// Plays `trace` on the disk called `name` and compares the service times.
pub fn validate(
    name: &str,
    spec: &DiskSpec,
    trace: &[Measured],
    arrivals: Arrivals,
) -> Result<Validation, ValidateError> {
    if trace.is_empty() {
        return Err(ValidateError::Unfit(
            "the trace has no requests, expected one per line".to_string(),
        ));
    }
    let requests_beyond_end = beyond_end(name, spec, trace)?;
    let mut runs = Vec::new();
    for phase in 0..PHASES {
        runs.push(play_phase(spec, trace, arrivals, phase)?);
    }
    let measured: Vec<f64> = trace.iter().map(|request| request.response.as_millis_f64()).collect();
    let shuffled = shuffle(&measured);
    let correlate = |with: &[f64]| mean(runs.iter().map(|run| correlation(with, run)));
    let (correlation, correlation_shuffled) = (correlate(&measured), correlate(&shuffled));
    let mean_measured_ms = mean(measured.iter().copied());
    let mean_simulated_ms = mean(runs.iter().flatten().copied());
    let sorted: Vec<Vec<f64>> = runs.into_iter().map(sort).collect();
    let measured = sort(measured);
    let rms: Vec<f64> = sorted.iter().map(|run| distance(&measured, run)).collect();
    let rms_ms = mean(rms.iter().copied());
    let sampling_floor_ms = sampling_floor(spec, trace)?;
    Ok(Validation {
        device: name.to_string(),
        requests: trace.len() as u64,
        requests_beyond_end,
        phases: PHASES,
        arrivals: arrivals.name(),
        rms_ms,
        rms_share: if mean_measured_ms > 0.0 { rms_ms / mean_measured_ms } else { 0.0 },
        rms_least_ms: rms.iter().copied().fold(f64::INFINITY, f64::min),
        rms_greatest_ms: rms.iter().copied().fold(0.0, f64::max),
        rms_deviation_ms: mean(rms.iter().map(|one| (one - rms_ms).powi(2))).sqrt(),
        sampling_floor_ms,
        mean_measured_ms,
        mean_simulated_ms,
        correlation,
        correlation_shuffled,
    })
}

/// Returns the mean distance between simulations whose gaps are extended by random parts of a
/// revolution.
fn sampling_floor(spec: &DiskSpec, trace: &[Measured]) -> Result<f64, SpecError> {
    let turn = match spec {
        DiskSpec::Hdd(hdd) => hdd.revolution,
        DiskSpec::Drive(drive) => drive.disk.revolution,
    };
    let mut random = Random::new();
    let mut runs = Vec::new();
    for _ in 0..REDRAWN {
        let redrawn = |request: &Measured| {
            let part = Nanos(random.next() % turn.0.max(1));
            Measured { gap: request.gap + part, ..*request }
        };
        let trace: Vec<Measured> = trace.iter().map(redrawn).collect();
        runs.push(sort(play_phase(spec, &trace, Arrivals::Simulated, 0)?));
    }
    let next = runs.iter().cycle().skip(1);
    Ok(mean(runs.iter().zip(next).map(|(one, other)| distance(one, other))))
}

/// A deterministic pseudo-random generator (xorshift).
struct Random(u64);

impl Random {
    fn new() -> Random {
        Random(0x9E37_79B9_7F4A_7C15)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn play_phase(
    spec: &DiskSpec,
    trace: &[Measured],
    arrivals: Arrivals,
    phase: u32,
) -> Result<Vec<f64>, SpecError> {
    let turned = |turn: Nanos, from: Nanos| {
        Nanos((from.0 + turn.0 * u64::from(phase) / u64::from(PHASES)) % turn.0.max(1))
    };
    Ok(match spec {
        DiskSpec::Hdd(hdd) => {
            let mut hdd = hdd.clone();
            hdd.start_phase = turned(hdd.revolution, hdd.start_phase);
            play(Hdd::new(hdd)?, trace, arrivals)
        }
        DiskSpec::Drive(drive) => {
            let mut drive = drive.as_ref().clone();
            drive.disk.start_phase = turned(drive.disk.revolution, drive.disk.start_phase);
            play(Drive::new(&drive)?, trace, arrivals)
        }
    })
}

/// Returns the simulated service time of each request in ms.
fn play(mut device: impl Device, trace: &[Measured], arrivals: Arrivals) -> Vec<f64> {
    let (mut now, mut issued) = (Nanos::ZERO, Nanos::ZERO);
    let mut times = Vec::with_capacity(trace.len());
    for (id, request) in trace.iter().enumerate() {
        let io = Request {
            at: now,
            offset: request.sector.saturating_mul(512),
            id: id as u64,
            len: request.count * 512,
            stream: 0,
            lane: 0,
            op: request.op,
            flags: Flags::NONE,
        };
        device.start(now, io);
        let Some(done) = device.next() else { break };
        device.finish(done);
        times.push((done - now).as_millis_f64());
        issued = issued + request.response + request.gap;
        now = match arrivals {
            Arrivals::Simulated => done + request.gap,
            Arrivals::Measured => done.max(issued),
        };
    }
    times
}

fn sort(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0_u64);
    for value in values {
        (sum, count) = (sum + value, count + 1);
    }
    if count == 0 { 0.0 } else { sum / count as f64 }
}

/// Returns the root-mean-square difference between values of equal rank in two sorted samples of
/// equal size.
fn distance(one: &[f64], other: &[f64]) -> f64 {
    mean(one.iter().zip(other).map(|(a, b)| (a - b).powi(2))).sqrt()
}

/// Returns the Pearson correlation, or 0 if one of the samples is constant.
fn correlation(one: &[f64], other: &[f64]) -> f64 {
    let (a, b) = (mean(one.iter().copied()), mean(other.iter().copied()));
    let both = one.iter().zip(other);
    let product = mean(both.map(|(x, y)| (x - a) * (y - b)));
    let spread = |values: &[f64], mid: f64| mean(values.iter().map(|v| (v - mid).powi(2))).sqrt();
    let spreads = spread(one, a) * spread(other, b);
    if spreads > 0.0 { product / spreads } else { 0.0 }
}

/// Shuffles the values deterministically.
fn shuffle(values: &[f64]) -> Vec<f64> {
    let mut out = values.to_vec();
    let mut random = Random::new();
    for index in (1..out.len()).rev() {
        out.swap(index, (random.next() % (index as u64 + 1)) as usize);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_is_between_equal_ranks() {
        assert_eq!(distance(&sort(vec![3.0, 1.0]), &sort(vec![1.0, 7.0])), 8.0_f64.sqrt());
        assert_eq!(correlation(&[1.0, 2.0, 3.0], &[5.0, 7.0, 9.0]), 1.0);
        assert_eq!(correlation(&[1.0, 2.0], &[2.0, 1.0]), -1.0);
        assert_eq!(correlation(&[1.0, 1.0], &[2.0, 1.0]), 0.0);
        let values: Vec<f64> = (0..1_000).map(f64::from).collect();
        assert!(correlation(&values, &shuffle(&values)).abs() < 0.1);
        assert_eq!(sort(shuffle(&values)), values);
    }

    #[test]
    fn a_trace_of_a_greater_drive_is_refused() {
        let (name, spec) = crate::open_spec("sata250").unwrap();
        let (response, gap) = (Nanos(500_000), Nanos(250_000));
        let inside = Measured { op: Op::Read, sector: 0, count: 8, response, gap };
        let beyond = Measured { sector: 1 << 40, ..inside };
        let mut trace = vec![inside; 200];
        trace.push(beyond);
        assert_eq!(beyond_end(&name, &spec, &trace).unwrap(), 1);
        trace.extend([beyond; 3]);
        let said = beyond_end(&name, &spec, &trace).unwrap_err().to_string();
        assert!(said.contains("4 of 204 requests") && said.contains("sata250"), "{said}");
        let empty = std::env::temp_dir().join(format!("forebay-empty-{}", std::process::id()));
        std::fs::write(&empty, "").unwrap();
        let said = read_trace(&empty).unwrap_err().to_string();
        std::fs::remove_file(&empty).unwrap();
        assert!(said.contains("forebay-empty-"), "{said}");
    }

    #[test]
    fn arrivals_follow_the_simulated_or_the_measured_completion() {
        let fixed = || forebay_core::device::fixed::Fixed::new(1_000.0).unwrap();
        let (response, gap) = (Nanos(500_000), Nanos(250_000));
        let request = Measured { op: Op::Write, sector: 0, count: 1, response, gap };
        for arrivals in [Arrivals::Simulated, Arrivals::Measured] {
            assert_eq!(play(fixed(), &[request; 3], arrivals), [1.0; 3]);
        }
    }
}
