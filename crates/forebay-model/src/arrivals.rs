//! Arrival times, and which requests are writes.
//!
//! The trace is a sequence of blocks with equal numbers of requests, each with its duration and its
//! number of writes. Within a block, time and writes are repeatedly divided between two halves with
//! equal numbers of requests, in ratios observed at the same scale, rate and share of writes. This
//! preserves burstiness at every scale, and keeps bursts of writes together.

mod draw;
mod fit;
mod ratio;

use std::collections::{BTreeMap, BTreeSet};

pub(crate) use draw::{Arrival, Clock};
pub(crate) use fit::ArrivalsFit;

use crate::bytes::{ByteError, Bytes, Writer};
use crate::counts::{COUNT_MAX, Counts};
use crate::parts::Parts;

/// The number of blocks, unless each would have fewer than [`BLOCK_MIN`] requests or more than
/// [`BLOCK_MAX`].
pub(crate) const BLOCKS: u64 = 256;
const BLOCK_MIN: u64 = 64;
const BLOCK_MAX: u64 = 1 << 20;
/// The maximum number of requests per block in a file.
const BLOCK_READ_MAX: u64 = 1 << 22;
const BLOCKS_READ_MAX: usize = 1 << 20;
/// The maximum duration of a trace in ns, about 146 years.
const DURATION_MAX: u64 = u64::MAX / 4;

/// The key under which divisions are counted: the scale, and two classes.
type Key = (u8, u8, u8);

/// A block of requests: its duration, and its number of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    duration_ns: u64,
    writes: u64,
}

/// The model of arrival times and of writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Arrivals {
    requests: u64,
    pub(crate) tick_ns: u64,
    /// How the requests are divided into blocks.
    parts: Parts,
    blocks: Vec<Block>,
    /// Whether the last request, which belongs to no block, is a write.
    ends_with_write: bool,
    /// The ratios of durations, by scale, mean gap and share of writes.
    times: BTreeMap<Key, Counts>,
    /// The division of writes, by scale, share of writes, and ratio of durations.
    writes: BTreeMap<Key, Counts>,
}

/// Returns the exponent of the power of two nearest to a number.
fn scale(number: u64) -> u8 {
    let power = number.max(1).ilog2();
    let is_above = (u128::from(number) * u128::from(number)) >> (2 * power + 1) > 0;
    (power + u32::from(is_above)) as u8
}

/// Returns the logarithm to base 4 of the mean gap in ns, rounded down.
fn rate(duration_ns: u64, requests: u64) -> u8 {
    (duration_ns / requests + 1).ilog2() as u8 / 2
}

/// Returns the coarse class of a share of writes: none, all, or one of three between.
fn coarse_share(writes: u64, requests: u64) -> u8 {
    let of = |parts: u64, whole: u64| writes * whole < requests * parts;
    match () {
        () if writes == 0 => 0,
        () if writes >= requests => 4,
        () if of(1, 4) => 1,
        () if of(3, 4) => 2,
        () => 3,
    }
}

/// Returns the fine class of a share of writes.
fn fine_share(writes: u64, requests: u64) -> u8 {
    if writes == 0 || writes >= requests {
        return if writes == 0 { 0 } else { 9 };
    }
    let bounds = [1, 4, 16, 32, 48, 60, 63];
    1 + bounds.iter().filter(|&&bound| writes * 64 > requests * bound).count() as u8
}

/// Returns the fewest and the most writes that can be in the first half.
fn possible(writes: u64, first: u64, second: u64) -> (u64, u64) {
    (writes.saturating_sub(second), writes.min(first))
}

/// The number of classes between the fewest and the most writes. These two have classes of their
/// own.
const PARTS: u64 = 9;

/// The minimum of the mean number of divisions per key at a scale. With fewer, the keys would
/// almost identify each division, and thus reveal the arrival times of single requests in a short
/// trace.
const OF_KEY_MIN: u64 = 8;
/// The largest scale to which [`OF_KEY_MIN`] applies. Longer stretches are at least as long as
/// blocks, which are stored individually anyway.
const SHARED_SCALE_MAX: u8 = BLOCK_MIN.ilog2() as u8;
/// Functions that make the key of a ratio of durations increasingly coarse: without the preceding
/// gap, without the share of writes, and with the rate in powers of 16.
const TIMES_COARSER: [fn(Key) -> Key; 4] =
    [|k| k, |k| (k.0, k.1, k.2 / 4 * 4 + 1), |k| (k.0, k.1, 9), |k| (k.0, k.1 / 2 * 2, 9)];
/// Functions that make the key of a division of writes increasingly coarse.
const WRITES_COARSER: [fn(Key) -> Key; 4] =
    [|k| k, |k| (k.0, k.1, k.2 / 2 * 2), |k| (k.0, k.1, 4), |k| (k.0, k.1 / 2 * 2, 4)];

/// Returns the known key nearest to `key`.
fn nearest<'a>(known: impl Iterator<Item = &'a Key>, key: Key) -> Option<&'a Key> {
    known.min_by_key(|&&other| {
        let [a, b, c] = [(key.0, other.0), (key.1, other.1), (key.2, other.2)]
            .map(|(one, other)| u32::from(one.abs_diff(other)));
        (a * 4 + b * 2 + c, other)
    })
}

/// Replaces the keys of each scale with the finest keys for which there are enough divisions.
fn shared(all: BTreeMap<Key, Counts>, coarser: [fn(Key) -> Key; 4]) -> BTreeMap<Key, Counts> {
    let mut found = BTreeMap::new();
    for scale in 0..=u8::MAX {
        let of_scale = || all.range((scale, 0, 0)..=(scale, u8::MAX, u8::MAX));
        let divisions: u64 = of_scale().map(|entry| entry.1.sum()).sum();
        let suits = |key: &&fn(Key) -> Key| {
            let keys: BTreeSet<Key> = of_scale().map(|entry| key(*entry.0)).collect();
            scale > SHARED_SCALE_MAX || keys.len() as u64 * OF_KEY_MIN <= divisions
        };
        let key = coarser.iter().find(suits).unwrap_or(&coarser[3]);
        for (&fine, counts) in of_scale() {
            let kept: &mut Counts = found.entry(key(fine)).or_default();
            *kept = kept.with(counts);
        }
    }
    found
}

/// The division of a stretch of requests into two halves.
#[derive(Clone, Copy)]
struct Division {
    /// The duration of each half.
    times: (u64, u64),
    /// The number of writes in the first half, and in both.
    writes: (u64, u64),
    /// The number of requests in each half.
    halves: (u64, u64),
    /// The events just before the first half.
    before: Before,
}

/// The events just before a stretch: the gap since the previous request, and whether that request
/// was a write.
#[derive(Clone, Copy, Debug, Default)]
struct Before {
    gap_ns: u64,
    is_write: bool,
}

/// The largest scale at which a division depends on the previous request. Short stretches continue
/// what came before; longer ones are related through the stretch that they are halves of.
const BEFORE_SCALE_MAX: u8 = 3;
/// The number of classes of the preceding gap.
const GAPS_BEFORE: u8 = 4;

impl Before {
    /// Returns the class of the preceding gap: much shorter than the stretch's mean gap, shorter,
    /// about as long, or longer.
    fn gap(self, scale: u8, duration_ns: u64, requests: u64) -> u8 {
        if scale > BEFORE_SCALE_MAX {
            return 0;
        }
        let gaps = self.gap_ns.saturating_mul(requests);
        [8, 2]
            .map(|parts| gaps.saturating_mul(parts) >= duration_ns)
            .iter()
            .map(|&is| u8::from(is))
            .sum::<u8>()
            + u8::from(gaps / 2 >= duration_ns)
    }

    fn wrote(self, scale: u8) -> u8 {
        u8::from(scale <= BEFORE_SCALE_MAX && self.is_write)
    }
}

impl Division {
    fn requests(self) -> u64 {
        self.halves.0 + self.halves.1
    }

    /// Returns the class of the ratio of durations and the key under which it is counted, or None
    /// if the duration is zero.
    #[inline]
    fn of_time(self) -> Option<(Key, u32)> {
        let ((first, second), requests) = (self.times, self.requests());
        let share = coarse_share(self.writes.1, requests);
        let key = || {
            let (scale, whole) = (scale(requests), first + second);
            let before = self.before.gap(scale, whole, requests);
            (scale, rate(whole, requests), share * GAPS_BEFORE + before)
        };
        (first + second > 0).then(|| (key(), ratio::of(self.times, self.halves)))
    }

    /// Returns the class of the number of writes in the first half and the key under which it is
    /// counted, or None if there is only one possibility.
    #[inline]
    fn of_writes(self) -> Option<(Key, u32)> {
        let ((early, all), requests) = (self.writes, self.requests());
        let (least, most) = possible(all, self.halves.0, self.halves.1);
        if most <= least {
            return None;
        }
        let part = match early {
            _ if early == least => 0,
            _ if early == most => PARTS + 1,
            _ => 1 + (PARTS * (early - least) / (most - least)).min(PARTS - 1),
        };
        let class = ratio::class(self.times.0, self.times.1);
        let scale = scale(requests);
        let class = class * 2 + self.before.wrote(scale);
        Some(((scale, fine_share(all, requests), class), part as u32))
    }
}

impl Arrivals {
    /// Coarsens the keys so that no key identifies a single division.
    fn shared(self) -> Arrivals {
        let (times, writes) =
            (shared(self.times, TIMES_COARSER), shared(self.writes, WRITES_COARSER));
        Arrivals { times, writes, ..self }
    }

    /// Counts a division.
    fn add(&mut self, division: Division) {
        if let Some((key, ratio)) = division.of_time() {
            self.times.entry(key).or_default().add(ratio, 1);
        }
        if let Some((key, part)) = division.of_writes() {
            self.writes.entry(key).or_default().add(part, 1);
        }
    }

    /// Returns the time from the first request to the last, in ns.
    pub(crate) fn duration_ns(&self) -> u64 {
        self.blocks.iter().map(|block| block.duration_ns).sum()
    }

    pub(crate) fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Merges the blocks in pairs. The division of each merged block is counted like any other.
    pub(crate) fn coarser(&self) -> Arrivals {
        let parts = self.parts.joined();
        if parts == self.parts || self.requests / parts.count() > BLOCK_MAX {
            return self.clone();
        }
        let mut found = Arrivals { blocks: Vec::new(), parts, ..self.clone() };
        for (at, two) in self.blocks.chunks(2).enumerate() {
            let [first, rest] = *two else {
                found.blocks.extend(two);
                continue;
            };
            let whole = Block {
                duration_ns: first.duration_ns + rest.duration_ns,
                writes: first.writes + rest.writes,
            };
            let [begin, middle, end] = [0, 1, 2].map(|block| self.begin(2 * at + block));
            let halves = (middle - begin, end - middle);
            // If the last block is shorter, the two are not halves.
            if halves.0.abs_diff(halves.1) <= 1 {
                found.add(Division {
                    times: (first.duration_ns, rest.duration_ns),
                    writes: (first.writes, whole.writes),
                    halves,
                    before: Before::default(),
                });
            }
            found.blocks.push(whole);
        }
        found
    }

    /// Returns the index of a block's first request. For the block after the last, this is the last
    /// request of the trace.
    #[inline]
    fn begin(&self, block: usize) -> u64 {
        self.parts.begin(block, self.requests.saturating_sub(1))
    }

    /// Returns a smaller model: the ratios depend only on scale and rate, and only the most common
    /// ones are kept.
    pub(crate) fn rounder(&self) -> Arrivals {
        let join = |map: &BTreeMap<Key, Counts>, name: fn(Key) -> Key| {
            let mut joined: BTreeMap<Key, Counts> = BTreeMap::new();
            for (key, counts) in map {
                let all = joined.entry(name(*key)).or_default();
                *all = all.with(counts);
            }
            joined.values_mut().for_each(|counts| *counts = counts.commonest(16));
            joined
        };
        let times = join(&self.times, TIMES_COARSER[3]);
        Arrivals { times, writes: join(&self.writes, WRITES_COARSER[3]), ..self.clone() }
    }

    pub(crate) fn put(&self, writer: &mut Writer) {
        writer.number(self.tick_ns);
        self.parts.put(writer);
        writer.number(self.ends_with_write.into());
        writer.numbers(self.blocks.iter().map(|block| block.duration_ns / self.tick_ns));
        writer.numbers(self.blocks.iter().map(|block| block.writes));
        for map in [&self.times, &self.writes] {
            writer.number(map.len() as u64);
            for (key, counts) in map {
                writer.numbers([key.0, key.1, key.2].map(u64::from));
                counts.put(writer);
            }
        }
    }

    pub(crate) fn get(bytes: &mut Bytes, requests: u64) -> Result<Arrivals, ByteError> {
        let tick_ns = bytes.number(DURATION_MAX, "tick")?.max(1);
        let parts = Parts::get(bytes, BLOCKS_READ_MAX, "blocks of arrivals")?;
        let blocks = parts.count() as usize;
        if requests / parts.count() > BLOCK_READ_MAX {
            return bytes.bad(format!("{blocks} blocks of {requests} requests"), "more of them");
        }
        let ends_with_write = bytes.number(1, "whether the last request writes")? == 1;
        let mut left = DURATION_MAX / tick_ns;
        let durations = bytes.list(blocks, |bytes| {
            let ticks = bytes.number(left, "duration of a block")?;
            left -= ticks;
            Ok(ticks * tick_ns)
        })?;
        let writes = bytes.list(blocks, |bytes| bytes.number(COUNT_MAX, "writes of a block"))?;
        let blocks = durations.into_iter().zip(writes);
        let blocks = blocks.map(|(duration_ns, writes)| Block { duration_ns, writes }).collect();
        let mut map = |classes: [u64; 2], numbers: u32, what: &str| {
            let length = bytes.length(1 << 16, what)?;
            let entries = bytes.list(length, |bytes| {
                let scale = bytes.number(64, what)? as u8;
                let [one, two] = [bytes.number(classes[0], what)?, bytes.number(classes[1], what)?];
                Ok(((scale, one as u8, two as u8), Counts::get(bytes, numbers, what)?))
            })?;
            Ok(entries.into_iter().collect::<BTreeMap<Key, Counts>>())
        };
        let times = map([32, 19], ratio::MAX, "divisions of time")?;
        let writes = map([9, 9], PARTS as u32 + 1, "divisions of writes")?;
        Ok(Arrivals { requests, tick_ns, parts, blocks, ends_with_write, times, writes })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::dice::RandomSource;

    fn fitted(list: &[(u64, bool)], blocks: u64) -> Arrivals {
        let mut fit = ArrivalsFit::new(list.len() as u64, 10, blocks);
        list.iter().for_each(|&(at, is_write)| fit.add(at, is_write));
        fit.finish()
    }

    fn bursts(requests: u64) -> Vec<(u64, bool)> {
        (0..requests).map(|n| (n / 100 * 1_000_000 + n % 100 * 10, n / 100 % 3 == 0)).collect()
    }

    fn drawn(arrivals: &Arrivals, seed: u64) -> Vec<Arrival> {
        let (mut clock, mut dice) = (Clock::new(arrivals), RandomSource::new(seed));
        std::iter::from_fn(|| clock.next(&mut dice)).collect()
    }

    #[test]
    fn counts_duration_and_share_of_writes_are_kept() {
        for requests in [1, 2, 3, 63, 64, 65, 1000, 10_001] {
            let list = bursts(requests);
            let arrivals = fitted(&list, BLOCKS);
            let drawn = drawn(&arrivals, 1);
            assert_eq!(drawn.len() as u64, requests);
            assert!(drawn.is_sorted_by_key(|arrival| arrival.at_ns));
            assert!(drawn.iter().all(|arrival| arrival.at_ns % 10 == 0));
            assert_eq!(drawn.last().unwrap().at_ns, list.last().unwrap().0);
            let writes = |mut all: Box<dyn Iterator<Item = bool> + '_>| {
                all.by_ref().filter(|&is_write| is_write).count()
            };
            assert_eq!(
                writes(Box::new(drawn.iter().map(|arrival| arrival.is_write))),
                writes(Box::new(list.iter().map(|request| request.1)))
            );
        }
    }

    #[test]
    fn bursts_stay_bursts() {
        let drawn = drawn(&fitted(&bursts(20_000), 16), 2);
        let short = drawn.windows(2).filter(|two| two[1].at_ns - two[0].at_ns <= 1000).count();
        assert!(short > 18_500, "{short} short gaps of 19,800");
        let changes = drawn.windows(2).filter(|two| two[0].is_write != two[1].is_write).count();
        assert!(changes < 1500, "{changes} changes of 132");
    }

    /// With rare keys, the twins of two seeds would agree on the arrival times of single requests.
    #[test]
    fn divisions_of_a_short_trace_share_keys() {
        let (mut dice, mut at_ns) = (RandomSource::new(7), 0);
        let mut next = |n: u64| {
            at_ns += 10 << dice.below(20);
            (at_ns, (n / 40).is_multiple_of(3))
        };
        let list: Vec<(u64, bool)> = (0..1500).map(&mut next).collect();
        let arrivals = fitted(&list, BLOCKS);
        for scale in 1..=5 {
            let keys = || arrivals.times.range((scale, 0, 0)..(scale + 1, 0, 0));
            let divisions: u64 = keys().map(|entry| entry.1.sum()).sum();
            let keys = keys().count() as u64;
            assert!(keys * OF_KEY_MIN <= divisions, "{scale}: {keys} keys of {divisions}");
        }
    }

    /// Alternating runs of three writes and three reads, whose ends never coincide with the halving
    /// of a block.
    #[test]
    fn the_state_before_a_part_is_continued() {
        let list: Vec<(u64, bool)> = (0..20_000).map(|n| (n * 1000, n / 3 % 2 == 0)).collect();
        let drawn = drawn(&fitted(&list, 16), 2);
        let lone = drawn.windows(3).filter(|three| {
            three[0].is_write != three[1].is_write && three[1].is_write != three[2].is_write
        });
        let lone = lone.count();
        assert!(lone < 1000, "{lone} requests stand alone, none of the trace");
    }

    #[test]
    fn halving_the_blocks_keeps_all_requests() {
        let arrivals = fitted(&bursts(7_000), 7);
        assert_eq!(arrivals.blocks(), 7);
        let coarser = arrivals.coarser();
        assert_eq!((coarser.blocks(), coarser.duration_ns()), (4, arrivals.duration_ns()));
        assert_eq!(drawn(&coarser, 1).len(), 7_000);
        let again = coarser.coarser().coarser();
        assert_eq!((again.blocks(), again.coarser().blocks()), (1, 1));
    }

    /// However many blocks are merged, each remaining block has the same requests, duration and
    /// writes as in the trace.
    #[test]
    fn joined_blocks_say_of_the_same_requests_the_same() {
        let list: Vec<(u64, bool)> =
            (0..6_900u64).map(|n| (n * n / 10 * 10, n * 7 % 6_900 < n)).collect();
        for blocks in [107, 15, 8, 3] {
            let mut arrivals = fitted(&list, blocks);
            while arrivals.blocks() > 1 {
                arrivals = arrivals.coarser();
                let drawn = drawn(&arrivals, 1);
                for block in 0..arrivals.blocks() {
                    let (begin, end) = (arrivals.begin(block), arrivals.begin(block + 1));
                    let (begin, end) = (begin as usize, end as usize);
                    assert_eq!(drawn[begin].at_ns, list[begin].0, "{blocks}: {block}");
                    let writes = list[begin..end].iter().filter(|request| request.1).count();
                    let twin = drawn[begin..end].iter().filter(|request| request.is_write);
                    assert_eq!(twin.count(), writes, "{blocks}: {block}");
                }
            }
        }
    }

    #[test]
    fn an_even_pace_is_kept() {
        for requests in [100, 1_000, 4_567] {
            let list: Vec<(u64, bool)> = (0..requests).map(|n| (n * 1_000, n % 5 == 0)).collect();
            let drawn = drawn(&fitted(&list, BLOCKS), 3);
            let even = drawn.windows(2).filter(|two| two[1].at_ns - two[0].at_ns == 1_000).count();
            assert_eq!(even as u64, requests - 1);
        }
    }

    #[test]
    fn written_data_are_read_back() {
        let arrivals = fitted(&bursts(3_000), 8);
        let mut writer = Writer::default();
        arrivals.put(&mut writer);
        let mut bytes = Bytes::new(&writer.0);
        assert_eq!(Arrivals::get(&mut bytes, 3_000).unwrap(), arrivals);
        assert!(bytes.end().is_ok());
    }

    #[test]
    fn scales_are_the_nearest_powers_of_two() {
        assert_eq!([1, 2, 3, 4, 5, 6, 90, 91].map(scale), [0, 1, 2, 2, 2, 3, 6, 7]);
    }
}
