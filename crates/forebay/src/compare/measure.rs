//! The features of a load that the paper compares (**model**, section V.C and Table IV). Each is
//! computed from a [`Sample`].

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Clock, RANGES, SIZE_DIGITS, STREAMS_MAX, Sample, Sum, bucket};
use crate::Input;

/// The maximum number of sizes, and of streams, that have a feature of their own.
const NAMED_MAX: usize = 8;
/// The share of the first trace's requests that a size or a stream must have to get a feature of
/// its own.
const NAMED_SHARE: f64 = 0.01;

/// How a deviation between two figures is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviationKind {
    /// The difference divided by the first figure.
    Relative,
    /// The difference between two shares: 0.01 is one percentage point.
    Points,
}

/// A feature, as it is computed from a sample of either trace.
#[derive(Clone, Debug)]
pub(super) struct Measure {
    pub(super) name: String,
    pub(super) kind: DeviationKind,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// The ratio of two sums, multiplied by a factor.
    Ratio(Sum, Sum, f64),
    /// The mean size of the writes.
    WriteSize,
    /// The share of requests of this size, given as a bucket.
    Size(usize),
    /// The share of requests of a stream, given as its column in each trace; `None` if a trace
    /// lacks the stream.
    Stream([Option<usize>; 2]),
    /// The share of requests in a span of ranges of the used addresses.
    State(usize, usize),
}

impl Measure {
    fn mean(name: &str, what: What) -> Measure {
        Measure { name: name.to_string(), kind: DeviationKind::Relative, what }
    }

    fn share(name: String, what: What) -> Measure {
        Measure { name, kind: DeviationKind::Points, what }
    }

    /// Returns the feature of the first trace (`side` 0) or of the second; `None` if undefined.
    pub(super) fn of(&self, sample: &Sample, side: usize) -> Option<f64> {
        let ratio = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
        let requests = sample.of(Sum::Requests);
        match self.what {
            What::Ratio(part, whole, factor) => {
                ratio(sample.of(part), sample.of(whole)).map(|found| found * factor)
            }
            What::WriteSize => ratio(
                sample.of(Sum::Bytes) - sample.of(Sum::ReadBytes),
                requests - sample.of(Sum::Reads),
            ),
            What::Size(column) => ratio(sample.sizes.of(column), requests),
            What::Stream(columns) => {
                ratio(columns[side].map_or(0, |column| sample.streams.of(column)), requests)
            }
            What::State(from, to) => ratio(sample.ranges.within(from..to), requests),
        }
    }

    /// Returns the deviation of `b` from `a`, in the way defined for this feature.
    pub(super) fn deviation(&self, a: f64, b: f64) -> Option<f64> {
        match self.kind {
            DeviationKind::Points => Some(b - a),
            DeviationKind::Relative => relative(a, b),
        }
    }
}

/// Returns the difference divided by the first figure; `None` if only the first figure is zero.
pub(super) fn relative(a: f64, b: f64) -> Option<f64> {
    let deviation = if a == b { 0.0 } else { (b - a) / a };
    deviation.is_finite().then_some(deviation)
}

/// Returns all features. The first trace determines for which sizes and streams there are features.
pub(super) fn measures(inputs: [&Input; 2], samples: [&Sample; 2], clock: Clock) -> Vec<Measure> {
    let by_request = |name, part| Measure::share(name, What::Ratio(part, Sum::Requests, 1.0));
    let mut all = vec![
        Measure::mean("mean_size_bytes", What::Ratio(Sum::Bytes, Sum::Requests, 1.0)),
        Measure::mean("read_mean_size_bytes", What::Ratio(Sum::ReadBytes, Sum::Reads, 1.0)),
        Measure::mean("write_mean_size_bytes", What::WriteSize),
    ];
    all.extend(sizes(samples[0]));
    all.push(by_request("read_share".into(), Sum::Reads));
    all.push(by_request("sequential_share".into(), Sum::Sequential));
    all.push(by_request("sequential_share_by_stream".into(), Sum::SequentialInStream));
    if let Clock::Times(_) = clock {
        let gap = What::Ratio(Sum::GapTime, Sum::Gaps, 1e-6);
        all.push(Measure::mean("mean_inter_arrival_ms", gap));
    }
    all.extend(streams(inputs, samples));
    for parts in [4, 16] {
        let width = RANGES / parts;
        let state = |part: usize| {
            let name = format!("state_weight:{}/{parts}", part + 1);
            Measure::share(name, What::State(part * width, (part + 1) * width))
        };
        all.extend((0..parts).map(state));
    }
    all
}

/// Returns features for the most common sizes of the first trace.
fn sizes(a: &Sample) -> Vec<Measure> {
    let common = most(a.sizes.0.iter().copied(), a.of(Sum::Requests));
    let mut sizes: Vec<usize> = common;
    sizes.sort_unstable();
    let bytes: BTreeMap<usize, u64> = a
        .sizes
        .values(SIZE_DIGITS)
        .into_iter()
        .map(|(value, _)| (bucket(value as u64, SIZE_DIGITS), value as u64))
        .collect();
    let named = |column: usize| {
        let bytes = bytes.get(&column).copied().unwrap_or(0);
        Measure::share(format!("size_share:{bytes}_bytes"), What::Size(column))
    };
    sizes.into_iter().map(named).collect()
}

/// Returns features for the busiest streams of the first trace. They are matched by name if the
/// second trace has all of these names, else by rank, because a model does not have to keep names.
fn streams(inputs: [&Input; 2], samples: [&Sample; 2]) -> Vec<Measure> {
    let requests = |side: usize| samples[side].of(Sum::Requests);
    let common = |side: usize| {
        let named = samples[side].streams.0.iter().filter(|entry| entry.0 < STREAMS_MAX);
        most(named.copied(), requests(side))
    };
    let label = |side: usize, column: usize| inputs[side].labels.get(column).map(String::as_str);
    let a = common(0);
    let named: Option<Vec<usize>> = a
        .iter()
        .map(|&column| {
            let wanted = label(0, column)?;
            inputs[1].labels.iter().position(|other| other == wanted).filter(|c| *c < STREAMS_MAX)
        })
        .collect();
    let ranked = common(1);
    let row = |rank: usize| {
        let (name, other) = match &named {
            Some(named) => (label(0, a[rank]).unwrap_or("").to_string(), Some(named[rank])),
            None => (format!("#{}", rank + 1), ranked.get(rank).copied()),
        };
        Measure::share(format!("stream_weight:{name}"), What::Stream([Some(a[rank]), other]))
    };
    (0..a.len()).map(row).collect()
}

/// Returns the columns with the highest counts, if they are at least [`NAMED_SHARE`] of `all`.
fn most(counts: impl Iterator<Item = (usize, u64)>, all: u64) -> Vec<usize> {
    let enough = |entry: &(usize, u64)| entry.1 as f64 >= NAMED_SHARE * all as f64 && entry.1 > 0;
    let mut common: Vec<(usize, u64)> = counts.filter(enough).collect();
    common.sort_by_key(|&(column, count)| (std::cmp::Reverse(count), column));
    common.into_iter().take(NAMED_MAX).map(|entry| entry.0).collect()
}
