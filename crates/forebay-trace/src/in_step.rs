//! Detects volumes that move in step: most requests on one have a counterpart on the other, with
//! the same operation and length and at nearly the same time. Probably, one of them is a layer
//! above the other (LVM, md, dm-crypt), or both are halves of a mirror, but the trace does not say
//! so.
//!
//! Only the first [`SAMPLE`] records are examined. Busy volumes whose requests all have the same
//! length are in step by chance. Therefore, counterparts must either be close to each other
//! compared with the gaps between requests, or have a constant difference of offsets.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::trace::{Dictionary, Record};

/// The number of records that are examined.
const SAMPLE: usize = 1 << 14;
/// The minimum number of requests on each volume for a judgment.
const REQUESTS_MIN: u64 = 20;
/// The maximum time between counterparts, in nanoseconds.
const APART_NS: u64 = 1_000_000;
/// The minimum share of requests on each volume that must have a counterpart.
const SHARE_MIN: f64 = 0.9;
/// How many times as long as the time between counterparts the gaps between requests must be.
const GAPS_MIN: u64 = 10;
/// The maximum number of recent records that are compared with the next one.
const RECENT_MAX: usize = 64;
/// The maximum number of volumes that are compared.
const VOLUMES_MAX: usize = 64;

/// Compares the requests of all pairs of volumes.
#[derive(Default)]
pub(crate) struct InStep {
    records: usize,
    last_ns: u64,
    requests: BTreeMap<u32, u64>,
    /// Recent records that lack a counterpart on some volume.
    recent: VecDeque<Record>,
    pairs: BTreeMap<(u32, u32), Counterparts>,
}

/// The counterparts on a pair of volumes.
#[derive(Default)]
struct Counterparts {
    count: u64,
    /// The sum of the times between counterparts.
    apart_ns: u64,
    /// The number of counterparts for each difference of offsets.
    distances: HashMap<u64, u64>,
}

impl InStep {
    /// Examines records. Returns whether enough of them have been examined.
    pub(crate) fn add(&mut self, batch: &[Record]) -> bool {
        for record in batch.iter().take(SAMPLE.saturating_sub(self.records)) {
            self.records += 1;
            self.last_ns = record.at.0;
            if self.requests.len() >= VOLUMES_MAX && !self.requests.contains_key(&record.volume) {
                continue;
            }
            *self.requests.entry(record.volume).or_default() += 1;
            if self.requests.len() > 1 {
                self.compare(record);
            }
            self.recent.push_back(*record);
            if self.recent.len() > RECENT_MAX {
                self.recent.pop_front();
            }
        }
        self.records >= SAMPLE
    }

    /// Finds the counterpart of a record among the recent records on each other volume.
    fn compare(&mut self, record: &Record) {
        let is_near = |other: &&Record| record.at.0 - other.at.0 <= APART_NS;
        let mut met: Vec<u32> = Vec::new();
        for other in self.recent.iter().rev().take_while(is_near) {
            let is_like = other.volume != record.volume
                && (other.op, other.len) == (record.op, record.len)
                && !met.contains(&other.volume);
            if is_like {
                met.push(other.volume);
                let pair = self.pairs.entry((other.volume, record.volume)).or_default();
                pair.count += 1;
                pair.apart_ns += record.at.0 - other.at.0;
                let distance = record.offset.wrapping_sub(other.offset);
                if pair.distances.len() < SAMPLE {
                    *pair.distances.entry(distance).or_default() += 1;
                }
            }
        }
    }

    /// Returns a sentence about the first two volumes that move in step, unless both are known to
    /// be `legs` of one volume.
    pub(crate) fn sentence(&self, dictionary: &Dictionary, legs: &[Vec<String>]) -> Option<String> {
        let name = |volume: u32| dictionary.volumes.get(volume as usize).map_or("", |name| name);
        let (one, other) = self.pairs.iter().find_map(|(&(one, other), pair)| {
            let names = [name(one), name(other)];
            let is_known =
                |legs: &Vec<String>| names.iter().all(|name| legs.iter().any(|l| l == name));
            let is_told = self.is_in_step(one, other, pair) && !legs.iter().any(is_known);
            is_told.then_some((names[0], names[1]))
        })?;
        Some(format!(
            "volumes {one} and {other} move in step, with the same operations and lengths at nearly \
             the same times: unless they are halves of a mirror, one is a layer above the other (LVM, \
             md, dm-crypt), and each request counts twice; {} reads only one of them",
            forebay_ask::named("only_volume=NAME")
        ))
    }

    fn is_in_step(&self, one: u32, other: u32, pair: &Counterparts) -> bool {
        let requests = [one, other].map(|volume| self.requests.get(&volume).copied().unwrap_or(0));
        let most = requests.into_iter().max().unwrap_or(0);
        if requests.iter().any(|&count| count < REQUESTS_MIN)
            || (pair.count as f64) < SHARE_MIN * most as f64
        {
            return false;
        }
        let constant = pair.distances.values().copied().max().unwrap_or(0);
        let is_constant = constant as f64 >= SHARE_MIN * pair.count as f64;
        let gap_ns = self.last_ns / most;
        is_constant || pair.apart_ns / pair.count * GAPS_MIN <= gap_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows;
    use forebay_core::Op;

    fn sentence(records: impl IntoIterator<Item = (u64, u32, u64, u64)>) -> Option<String> {
        let make = |(at, volume, offset, len)| Record {
            volume,
            ..rows::record(at, Op::Write, offset, len).unwrap()
        };
        let mut records: Vec<Record> = records.into_iter().map(make).collect();
        records.sort_by_key(|record| record.at);
        let mut in_step = InStep::default();
        in_step.add(&records);
        let volumes = vec!["dm-0".to_owned(), "sda".to_owned()];
        in_step.sentence(&Dictionary { volumes, ..Dictionary::default() }, &[])
    }

    /// Compares requests on two volumes. Those on the lower one are `later_ns` later than those on
    /// the upper one, with offsets that differ by `away`.
    fn layers(gap_ns: u64, later_ns: u64, away: impl Fn(u64) -> u64) -> Option<String> {
        let place = |n: u64| n * 7919 % 1000 * 4096;
        sentence((0..100).flat_map(|n| {
            let (at, offset) = (n * gap_ns, place(n));
            [(at, 0, offset, 4096), (at + later_ns, 1, offset + away(n), 4096)]
        }))
    }

    #[test]
    fn layers_are_told_from_volumes_of_their_own() {
        let told = layers(1_000_000, 8_000, |_| 1 << 20).unwrap();
        assert!(told.starts_with("volumes dm-0 and sda move in step"), "{told}");
        // The counterpart comes long after the next request, but at a constant difference of
        // offsets.
        assert!(layers(100_000, 90_000, |_| 1 << 20).is_some());
        // The counterpart is elsewhere, but comes at once.
        assert!(layers(1_000_000, 8_000, |n| n * 104_729 % 977 * 4096).is_some());
        // The volumes are independent but busy, and all requests have the same length.
        assert_eq!(layers(100_000, 40_000, |n| n * 104_729 % 977 * 4096), None);
        assert_eq!(layers(100_000_000, 2_000_000, |_| 1 << 20), None);
    }

    #[test]
    fn other_lengths_and_few_requests_are_no_layers() {
        let both = |n: u64, len| [(n * 1_000_000, 0, 0, 4096), (n * 1_000_000 + 9, 1, 0, len)];
        assert!(sentence((0..50).flat_map(|n| both(n, 4096))).is_some());
        assert_eq!(sentence((0..50).flat_map(|n| both(n, 8192))), None);
        assert_eq!(sentence((0..10).flat_map(|n| both(n, 4096))), None);
    }
}
