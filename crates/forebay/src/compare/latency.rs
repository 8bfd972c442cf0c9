//! The recorded latencies of one trace: of all requests, of reads and writes, by request size, and
//! by the submitter's name.

mod answer;
mod judge;
mod since;
mod text;

use std::collections::BTreeMap;

use forebay_core::Op;
use forebay_trace::Record;

use super::{Counts, TIME_DIGITS, Tally, bucket};

pub use answer::{GroupKind, LatencyAnswer, LatencyChange, LatencyFigure, LatencyGroup};
pub(super) use judge::latency_answer;
pub(super) use text::sentence;

/// The upper ends of the size classes in KiB; the last class has none.
const SIZE_ENDS_KIB: [u64; 4] = [4, 16, 64, 256];

/// The maximum number of submitters' names that are counted separately.
const NAMES_MAX: usize = 64;

/// The binary digits of the latency in a bucket, which make it exact to 0.1 %.
const LATENCY_DIGITS: u32 = 10;

/// The columns of a group's sums; there is a row for each block of time.
#[derive(Clone, Copy, Debug)]
enum LatencySum {
    Requests,
    Nanoseconds,
    /// The sum of binary logarithms of the latencies, in units of 1/[`LOG_UNITS`]. It gives the
    /// geometric mean, which a few slow requests hardly affect.
    Logarithms,
}

/// The number of units in which a doubling of the latency is counted.
const LOG_UNITS: f64 = 65_536.0;

/// Identifies a group of requests, which is compared with the same group of the other trace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum GroupKey {
    All,
    Reads,
    Writes,
    /// The requests of a size class, by its index in [`SIZE_ENDS_KIB`].
    Size(usize),
    /// The requests of submitters of this name. It excludes thread and process numbers, which
    /// differ between recordings.
    Name(String),
}

/// The recorded latencies of a group of requests, by block of time.
#[derive(Clone, Debug, Default)]
struct Group {
    sums: Tally,
    /// The number of requests in each bucket of latencies.
    times: Vec<u64>,
}

impl Group {
    #[inline]
    fn add(&mut self, block: usize, latency_ns: u64) {
        let log = ((latency_ns.max(1) as f64).log2() * LOG_UNITS) as u64;
        self.sums.add(block, LatencySum::Requests as usize, 1);
        self.sums.add(block, LatencySum::Nanoseconds as usize, latency_ns);
        self.sums.add(block, LatencySum::Logarithms as usize, log);
        let bucket = bucket(latency_ns, LATENCY_DIGITS);
        if bucket >= self.times.len() {
            self.times.resize(bucket + 1, 0);
        }
        self.times[bucket] += 1;
    }

    fn counts(&self) -> Counts {
        let counted = self.times.iter().copied().enumerate().filter(|(_, count)| *count > 0);
        Counts(counted.collect())
    }
}

/// The recorded latencies of one trace, by group.
#[derive(Debug)]
pub(super) struct Latencies {
    groups: BTreeMap<GroupKey, Group>,
    /// The latencies of all requests, by block of time.
    times: Tally,
    /// For each stream, its submitter's name; `None` for names beyond the first [`NAMES_MAX`].
    names: Vec<Option<String>>,
    /// The number of reads and writes, with and without a recorded latency.
    requests: u64,
}

impl Latencies {
    /// Creates empty counts; `labels` are the names of the trace's streams.
    pub(super) fn new(labels: &[String]) -> Latencies {
        let mut known = std::collections::BTreeSet::new();
        let mut name = |label: &String| {
            let name = without_number(label).to_string();
            let is_followed = known.contains(&name) || known.len() < NAMES_MAX;
            is_followed.then(|| {
                known.insert(name.clone());
                name
            })
        };
        let names = labels.iter().map(&mut name).collect();
        Latencies { groups: BTreeMap::new(), times: Tally::default(), names, requests: 0 }
    }

    /// Adds a read or a write.
    pub(super) fn add(&mut self, record: &Record, block: usize) {
        self.requests += 1;
        let Some(latency) = record.latency else { return };
        let kib = u64::from(record.len).div_ceil(1024);
        let size = SIZE_ENDS_KIB.partition_point(|end| *end < kib);
        let op = if record.op == Op::Read { GroupKey::Reads } else { GroupKey::Writes };
        let name = self.names.get(record.stream as usize).cloned().flatten();
        let keys = [GroupKey::All, op, GroupKey::Size(size)].into_iter();
        for key in keys.chain(name.map(GroupKey::Name)) {
            self.groups.entry(key).or_default().add(block, latency.0);
        }
        self.times.add(block, bucket(latency.0, TIME_DIGITS), 1);
    }

    pub(super) fn finish(&mut self) {
        self.times.compact();
    }

    /// Returns how many requests of a group have a recorded latency.
    fn known(&self, key: &GroupKey) -> u64 {
        self.groups.get(key).map_or(0, |group| group.times.iter().sum())
    }

    /// Returns the share of all requests that have a recorded latency.
    pub(super) fn known_share(&self) -> f64 {
        self.known(&GroupKey::All) as f64 / self.requests.max(1) as f64
    }

    /// Returns whether any latency was recorded. If all latencies are 0, they are a placeholder of
    /// the trace's format.
    pub(super) fn is_known(&self) -> bool {
        self.groups.get(&GroupKey::All).is_some_and(|group| group.times.len() > 1)
    }
}

/// Removes the thread or process number from a label: "java/4978" becomes "java".
fn without_number(label: &str) -> &str {
    match label.rsplit_once('/') {
        Some((name, number))
            if !name.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            name
        }
        _ => label,
    }
}

#[cfg(test)]
mod tests;
