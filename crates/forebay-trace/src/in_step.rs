//! Detects volumes that move in step: most requests on one have a counterpart on the other, with
//! the same operation and length and at nearly the same time. Probably, one of them is a layer
//! above the other (LVM, md, dm-crypt), or both are halves of a mirror, but the trace does not say
//! so. The volume below may also have requests of its own, for example of other partitions.
//!
//! A volume above several others (a stripe, or LVM over two disks) moves in step with all of them
//! together: each request of a lower volume is a part of a request of the upper volume, and these
//! parts add up.
//!
//! Only the first [`SAMPLE`] records are examined. Busy volumes whose requests all have the same
//! length are in step by chance. Therefore, counterparts must either be close to each other
//! compared with the gaps between requests, or have a constant difference of offsets.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::{Dictionary, Record};

/// The number of records that are examined.
const SAMPLE: usize = 1 << 14;
/// The minimum number of requests on each volume for a judgment.
const REQUESTS_MIN: u64 = 20;
/// The maximum time between counterparts, in nanoseconds.
const APART_NS: u64 = 1_000_000;
/// The minimum share of requests on the volume above that must have a counterpart.
const SHARE_MIN: f64 = 0.9;
/// The maximum ratio of a volume's requests to its counterparts. The remaining requests are its
/// own.
const OTHERS_MAX: f64 = 10.0;
/// The minimum number of requests on the volume above if the other has requests of its own, and
/// only their order in time shows that they belong together.
const CAUSED_MIN: u64 = 50;
/// The minimum ratio of the gaps between requests to the time between counterparts.
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
    /// The number of requests of each volume, and their total size in bytes.
    requests: BTreeMap<u32, (u64, u64)>,
    recent: VecDeque<Recent>,
    pairs: BTreeMap<(u32, u32), Counterparts>,
}

/// A recent record.
struct Recent {
    record: Record,
    /// How many of the request's bytes were found on other volumes.
    found: u32,
    /// The volumes on which the request has counterparts, and the differences of their offsets.
    counterparts: Vec<(u32, u64)>,
}

/// The counterparts on a pair of volumes. The request on the first volume precedes the other.
#[derive(Default)]
struct Counterparts {
    /// The number of requests that have a counterpart, each of which is a counterpart only once.
    count: u64,
    /// The sum of the times between counterparts.
    apart_ns: u64,
    /// The number of counterparts that are nearer than the preceding request of the same kind on
    /// the second volume.
    nearer: u64,
    /// The number of requests that have a counterpart at each difference of offsets.
    distances: HashMap<u64, u64>,
    /// The number of requests on the second volume that may be parts of requests on the first,
    /// their total size, and the sum of the times between part and whole.
    parts: u64,
    parts_bytes: u64,
    parts_apart_ns: u64,
    /// The number of parts that are nearer than the request on the second volume before the whole.
    parts_nearer: u64,
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
            let (requests, bytes) = self.requests.entry(record.volume).or_default();
            (*requests, *bytes) = (*requests + 1, *bytes + u64::from(record.len));
            if self.requests.len() > 1 {
                self.compare(record);
                self.find_whole(record);
            }
            let counterparts = Vec::new();
            self.recent.push_back(Recent { record: *record, found: 0, counterparts });
            if self.recent.len() > RECENT_MAX {
                self.recent.pop_front();
            }
        }
        self.records >= SAMPLE
    }

    /// Finds the counterpart of a record among the recent records on each other volume.
    fn compare(&mut self, record: &Record) {
        let mut met: Vec<(u32, Option<usize>)> = Vec::new();
        for (index, recent) in self.recent.iter_mut().enumerate().rev() {
            let other = &recent.record;
            if record.at.0 - other.at.0 > APART_NS {
                break;
            }
            let is_like = other.volume != record.volume
                && (other.op, other.len) == (record.op, record.len)
                && met.iter().all(|&(volume, _)| volume != other.volume);
            if !is_like {
                continue;
            }
            let is_first = recent.counterparts.iter().all(|&(volume, _)| volume != record.volume);
            met.push((other.volume, is_first.then_some(index)));
            let pair = self.pairs.entry((other.volume, record.volume)).or_default();
            let distance = record.offset.wrapping_sub(other.offset);
            let is_new =
                recent.counterparts.iter().all(|known| *known != (record.volume, distance));
            if is_new && pair.distances.len() < SAMPLE {
                *pair.distances.entry(distance).or_default() += 1;
            }
            if is_first {
                pair.count += 1;
                pair.apart_ns += record.at.0 - other.at.0;
            }
            recent.counterparts.push((record.volume, distance));
        }
        for (volume, first) in met {
            let is_like = |other: &Record| other.len == record.len;
            let is_nearer = first.is_some_and(|index| self.is_nearer(index, record, is_like));
            if let Some(pair) = self.pairs.get_mut(&(volume, record.volume)) {
                pair.nearer += u64::from(is_nearer);
            }
        }
    }

    /// Returns whether `record` is nearer to the recent record at `index` than the request before
    /// that one that is on the volume of `record`, has the same operation and satisfies `fits`. A
    /// request follows the request that caused it, but is as far from the next as from the previous
    /// request of an independent volume.
    fn is_nearer(&self, index: usize, record: &Record, fits: impl Fn(&Record) -> bool) -> bool {
        let Some(Recent { record: whole, .. }) = self.recent.get(index) else { return false };
        let before = self.recent.range(..index).rev().map(|recent| &recent.record);
        let is_like =
            |other: &&Record| other.volume == record.volume && other.op == record.op && fits(other);
        let apart = record.at - whole.at;
        before.take(RECENT_MAX).find(is_like).is_none_or(|other| apart < whole.at - other.at)
    }

    /// Finds the most recent request on each other volume of which `record` may be a part.
    fn find_whole(&mut self, record: &Record) {
        let mut met: Vec<(u32, usize)> = Vec::new();
        for (index, recent) in self.recent.iter_mut().enumerate().rev() {
            let other = &recent.record;
            let apart_ns = record.at.0 - other.at.0;
            if apart_ns > APART_NS || met.len() + 1 >= self.requests.len() {
                break;
            }
            let is_met = met.iter().any(|&(volume, _)| volume == other.volume);
            if other.volume == record.volume || other.op != record.op || is_met {
                continue;
            }
            if other.len - recent.found >= record.len {
                recent.found += record.len;
                met.push((other.volume, index));
                let pair = self.pairs.entry((other.volume, record.volume)).or_default();
                pair.parts += 1;
                pair.parts_bytes += u64::from(record.len);
                pair.parts_apart_ns += apart_ns;
            }
        }
        for (volume, index) in met {
            let nearer = self.is_nearer(index, record, |_| true);
            if let Some(pair) = self.pairs.get_mut(&(volume, record.volume)) {
                pair.parts_nearer += u64::from(nearer);
            }
        }
    }

    /// Returns the volumes whose requests are parts of those of `upper`, if these parts add up to
    /// the requests of `upper`.
    fn parts_of(&self, upper: u32) -> Option<Vec<u32>> {
        let &(requests, bytes) = self.requests.get(&upper)?;
        let gap_ns = self.last_ns / requests.max(1);
        let is_part = |pair: &Counterparts, lower: u32| {
            let all = self.requests.get(&lower).map_or(0, |(requests, _)| *requests);
            let share = pair.parts as f64 / all.max(1) as f64;
            let is_close = pair.parts_apart_ns / pair.parts.max(1) * GAPS_MIN <= gap_ns;
            let is_nearer = pair.parts_nearer as f64 >= SHARE_MIN * pair.parts as f64;
            let is_caused = is_close && (share >= SHARE_MIN || is_nearer);
            share * OTHERS_MAX >= 1.0 && (is_caused || pair.is_at_one_distance(pair.parts))
        };
        let all = self.pairs.range((upper, 0)..=(upper, u32::MAX));
        let parts = all.filter(|((_, lower), pair)| is_part(pair, *lower));
        let parts: Vec<(u32, &Counterparts)> = parts.map(|(pair, found)| (pair.1, found)).collect();
        let sum =
            |of: fn(&Counterparts) -> u64| parts.iter().map(|(_, pair)| of(pair)).sum::<u64>();
        let is_whole = sum(|pair| pair.parts_bytes) as f64 >= SHARE_MIN * bytes as f64;
        let is_enough = requests.min(sum(|pair| pair.parts)) >= REQUESTS_MIN;
        (parts.len() > 1 && is_whole && is_enough)
            .then(|| parts.into_iter().map(|(lower, _)| lower).collect())
    }

    /// Returns a sentence about volumes that move in step, unless they are known to be `legs` of
    /// one volume.
    pub(crate) fn sentence(&self, dictionary: &Dictionary, legs: &[Vec<String>]) -> Option<String> {
        self.pair_sentence(dictionary, legs).or_else(|| self.parts_sentence(dictionary, legs))
    }

    fn parts_sentence(&self, dictionary: &Dictionary, legs: &[Vec<String>]) -> Option<String> {
        let name = |volume: u32| dictionary.volumes.get(volume as usize).map_or("", |name| name);
        let (upper, parts) = self.requests.keys().find_map(|&upper| {
            let parts: Vec<&str> = self.parts_of(upper)?.into_iter().map(name).collect();
            let names = || parts.iter().copied().chain([name(upper)]);
            let is_known =
                |legs: &Vec<String>| names().all(|name| legs.iter().any(|leg| leg == name));
            (!legs.iter().any(is_known)).then_some((name(upper), parts))
        })?;
        Some(format!(
            "the requests of volumes {} are parts of those of volume {upper} at nearly the same times, and add \
             up to them: {upper} is probably a layer above the others (LVM, md), and each request counts at \
             both; {} reads only one of them",
            and(&parts),
            forebay_ask::named("only_volume=NAME")
        ))
    }

    /// Returns a sentence about the first two volumes that move in step.
    fn pair_sentence(&self, dictionary: &Dictionary, legs: &[Vec<String>]) -> Option<String> {
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
             the same times: unless they are halves of a mirror, one of them is a layer above the other \
             (LVM, md, dm-crypt), and each request counts twice; {} reads only one of them",
            forebay_ask::named("only_volume=NAME")
        ))
    }

    fn is_in_step(&self, one: u32, other: u32, pair: &Counterparts) -> bool {
        let count = |volume| self.requests.get(&volume).map_or(0, |requests| requests.0);
        let (upper, lower) = (count(one), count(other));
        let most = upper.max(lower);
        // The volume below may have requests of its own, but the one above may not.
        let is_known = |found: u64| found as f64 >= SHARE_MIN * upper as f64;
        let is_equal = upper.min(lower) as f64 >= SHARE_MIN * most as f64;
        if upper.min(lower) < REQUESTS_MIN || most as f64 > OTHERS_MAX * upper as f64 {
            return false;
        }
        if pair.is_at_one_distance(upper) {
            return true;
        }
        let is_close = pair.apart_ns / pair.count.max(1) * GAPS_MIN <= self.last_ns / most;
        let is_caused = upper >= CAUSED_MIN && is_known(pair.nearer);
        is_close && is_known(pair.count) && (is_equal || is_caused)
    }
}

impl Counterparts {
    /// Returns whether nearly all of `requests` requests have a like request at the same difference
    /// of offsets.
    fn is_at_one_distance(&self, requests: u64) -> bool {
        let constant = self.distances.values().copied().max().unwrap_or(0);
        requests > 0 && constant as f64 >= SHARE_MIN * requests as f64
    }
}

/// Lists names: `a, b and c`.
fn and(names: &[&str]) -> String {
    match names {
        [others @ .., last] if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => names.concat(),
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
        let volumes = ["dm-0", "sda", "sdb", "sdc"].map(str::to_owned).to_vec();
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
    fn layers_are_distinguished_from_volumes_of_their_own() {
        let told = layers(1_000_000, 8_000, |_| 1 << 20).unwrap();
        assert!(told.starts_with("volumes dm-0 and sda move in step"), "{told}");
        // The counterpart arrives long after the next request, but at a constant difference of
        // offsets.
        assert!(layers(100_000, 90_000, |_| 1 << 20).is_some());
        // The counterpart is at a different offset, but arrives at once.
        assert!(layers(1_000_000, 8_000, |n| n * 104_729 % 977 * 4096).is_some());
        // The volumes are independent but busy, and all requests have the same length.
        assert_eq!(layers(100_000, 40_000, |n| n * 104_729 % 977 * 4096), None);
        assert_eq!(layers(100_000_000, 2_000_000, |_| 1 << 20), None);
    }

    /// Returns a sequence of numbers that look random.
    fn scattered(seed: u64) -> impl FnMut() -> u64 {
        let mut state = seed;
        move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        }
    }

    /// Compares a volume with the one below it, which has `own` more requests per request of the
    /// volume above.
    fn with_own(own: u64, gap_ns: u64, later_ns: u64, is_linear: bool) -> Option<String> {
        let mut random = scattered(own + gap_ns);
        let mut records = Vec::new();
        for n in 0..200 {
            let (at, offset) = (n * gap_ns + random() % (gap_ns / 2), random() % 100_000 * 4096);
            let below = if is_linear { offset + (1 << 20) } else { random() % 100_000 * 4096 };
            records.extend([(at, 0, offset, 4096), (at + later_ns, 1, below, 4096)]);
            for _ in 0..own {
                let at = n * gap_ns + random() % gap_ns;
                records.push((at, 1, random() % 100_000 * 4096, 4096));
            }
        }
        sentence(records)
    }

    #[test]
    fn requests_of_the_lower_volume_hide_no_layer() {
        for own in 0..=6 {
            for (gap_ns, later_ns) in [(10_000_000, 20_000), (1_000_000, 8_000), (100_000, 40_000)]
            {
                assert!(with_own(own, gap_ns, later_ns, true).is_some(), "{own} {gap_ns}");
            }
            assert!(with_own(own, 1_000_000, 4_000, false).is_some(), "{own}");
            // The counterpart does not arrive at once, so it matches by chance.
            assert_eq!(with_own(own, 1_000_000, 500_000, false), None, "{own}");
        }
    }

    #[test]
    fn bursts_on_independent_volumes_are_no_layers() {
        for times in 1..=9 {
            let mut random = scattered(times);
            let mut records = Vec::new();
            for n in 0..200 {
                let begin = n * 50_000_000;
                for m in 0..=times {
                    let at = begin + random() % 300_000;
                    records.push((at, u32::from(m > 0), random() % 1000 * 4096, 4096));
                }
            }
            assert_eq!(sentence(records), None, "{times}");
        }
    }

    #[test]
    fn requests_of_the_lower_volumes_hide_no_stripe() {
        for own in 1..=4 {
            let mut random = scattered(own);
            let mut records = Vec::new();
            for n in 0..400 {
                let (at, offset) = (n * 2_000_000, random() % 10_007 * 4096);
                let leg = 1 + (offset / 65_536 % 2) as u32;
                records.extend([(at, 0, offset, 4096), (at + 5_000, leg, offset / 2, 4096)]);
                for _ in 0..own {
                    let at = n * 2_000_000 + random() % 2_000_000;
                    records.push((at, 1 + random() as u32 % 2, random() % 10_007 * 4096, 4096));
                }
            }
            let told = sentence(records).unwrap_or_default();
            assert!(told.contains("volumes sda and sdb are parts"), "{own}: {told}");
        }
    }

    #[test]
    fn other_lengths_and_few_requests_are_no_layers() {
        let both = |n: u64, len| [(n * 1_000_000, 0, 0, 4096), (n * 1_000_000 + 9, 1, 0, len)];
        assert!(sentence((0..50).flat_map(|n| both(n, 4096))).is_some());
        assert_eq!(sentence((0..50).flat_map(|n| both(n, 8192))), None);
        assert_eq!(sentence((0..10).flat_map(|n| both(n, 4096))), None);
    }

    /// Requests of a volume striped over `legs` disks in chunks of 64 KiB, each `later_ns` before
    /// its parts.
    fn stripe(legs: u64, gap_ns: u64, later_ns: u64, len: impl Fn(u64) -> u64) -> Option<String> {
        const CHUNK: u64 = 65_536;
        let request = |n: u64| {
            let (offset, len) = (n * 104_729 % 10_007 * 4096, len(n));
            let mut all = vec![(n * gap_ns, 0, offset, len)];
            let mut at = offset;
            while at < offset + len {
                let end = ((at / CHUNK + 1) * CHUNK).min(offset + len);
                let (leg, place) = (at / CHUNK % legs, at / CHUNK / legs * CHUNK + at % CHUNK);
                all.push((n * gap_ns + later_ns, 1 + leg as u32, place, end - at));
                at = end;
            }
            all
        };
        sentence((0..200).flat_map(request))
    }

    #[test]
    fn a_volume_above_several_is_the_sum_of_their_requests() {
        for legs in [2, 3] {
            for len in [|_| 4096, |n: u64| (n % 40 + 1) * 4096] {
                let told = stripe(legs, 1_000_000, 8_000, len).unwrap();
                let names = if legs == 2 { "sda and sdb" } else { "sda, sdb and sdc" };
                assert!(
                    told.contains(&format!("volumes {names} are parts of those of volume dm-0")),
                    "{told}"
                );
            }
        }
        // Busy independent disks, whose requests are close to others by chance.
        assert_eq!(stripe(2, 100_000, 40_000, |_| 4096), None);
        // Too late for a layer.
        assert_eq!(stripe(2, 100_000_000, 2_000_000, |_| 4096), None);
    }

    #[test]
    fn volumes_that_do_not_add_up_are_no_layers() {
        let own = |n: u64| {
            let at = n * 1_000_000;
            // Half of the requests of the first volume have no part anywhere.
            let lower = (at + 5_000, 1 + n as u32 % 4 / 2, n * 65_536, 4096);
            [(at, 0, n * 4096, 4096)].into_iter().chain(n.is_multiple_of(2).then_some(lower))
        };
        assert_eq!(sentence((0..400).flat_map(own)), None);
    }
}
