//! When requests come, and which of them write: blocks of equally many requests, each with its duration and its
//! writes; within a block time and writes are divided in halves of equally many requests again and again,
//! in ratios seen at that scale, rate and share of writes. So burstiness is kept at every scale, and bursts of
//! writes are bursts.

mod ratio;

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::bytes::{Bad, Bytes, Writer};
use crate::counts::{Bag, COUNT_MAX, Counts};
use crate::dice::Dice;

/// Blocks, unless each would have fewer than [`BLOCK_MIN`] requests or more than [`BLOCK_MAX`].
pub(crate) const BLOCKS: u64 = 256;
const BLOCK_MIN: u64 = 64;
const BLOCK_MAX: u64 = 1 << 20;
/// What a file may have.
const BLOCK_READ_MAX: u64 = 1 << 22;
const BLOCKS_READ_MAX: usize = 1 << 20;
/// The longest trace: 500 years, in ns.
const DURATION_MAX: u64 = u64::MAX / 4;

/// What tells divisions apart: scale, and two classes.
type Key = (u8, u8, u8);

/// A block of requests: how long until the next begins, and how many of them write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    duration_ns: u64,
    writes: u64,
}

/// When requests come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Arrivals {
    requests: u64,
    pub(crate) tick_ns: u64,
    blocks: Vec<Block>,
    /// Whether the last request writes, which comes after all blocks.
    ends_with_write: bool,
    /// Ratios by scale, mean gap and share of writes.
    times: BTreeMap<Key, Counts>,
    /// How writes are shared out, by scale, share of writes, and ratio of times.
    writes: BTreeMap<Key, Counts>,
}

/// The first request of block `block` of `blocks`.
fn begin(requests: u64, blocks: u64, block: u64) -> u64 {
    (u128::from(requests.saturating_sub(1)) * u128::from(block) / u128::from(blocks.max(1))) as u64
}

/// The power of two nearest to a number.
fn scale(number: u64) -> u8 {
    let power = number.max(1).ilog2();
    let is_above = (u128::from(number) * u128::from(number)) >> (2 * power + 1) > 0;
    (power + u32::from(is_above)) as u8
}

/// The power of four of a mean gap.
fn rate(duration_ns: u64, requests: u64) -> u8 {
    (duration_ns / requests + 1).ilog2() as u8 / 2
}

/// Few classes of shares of writes: none, all, and between.
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

/// More classes of them.
fn fine_share(writes: u64, requests: u64) -> u8 {
    if writes == 0 || writes >= requests {
        return if writes == 0 { 0 } else { 9 };
    }
    let bounds = [1, 4, 16, 32, 48, 60, 63];
    1 + bounds.iter().filter(|&&bound| writes * 64 > requests * bound).count() as u8
}

/// The most and the fewest writes that can be in the first half.
fn possible(writes: u64, first: u64, second: u64) -> (u64, u64) {
    (writes.saturating_sub(second), writes.min(first))
}

/// Parts of the way from the fewest writes to the most; the two ends are parts of their own.
const PARTS: u64 = 9;

/// Collects arrivals.
pub(crate) struct ArrivalsFit {
    arrivals: Arrivals,
    blocks: u64,
    /// Times and writes so far of the block that goes on.
    times: Vec<u64>,
    is_write: Vec<bool>,
    seen: u64,
    end: u64,
}

impl ArrivalsFit {
    /// Of so many requests.
    pub(crate) fn new(requests: u64, tick_ns: u64, blocks_wanted: u64) -> ArrivalsFit {
        let blocks = blocks_wanted.min(requests / BLOCK_MIN).max(requests / BLOCK_MAX).max(1);
        ArrivalsFit {
            arrivals: Arrivals {
                requests,
                tick_ns: tick_ns.max(1),
                blocks: Vec::new(),
                ends_with_write: false,
                times: BTreeMap::new(),
                writes: BTreeMap::new(),
            },
            blocks,
            times: Vec::new(),
            is_write: Vec::new(),
            seen: 0,
            end: begin(requests, blocks, 1),
        }
    }

    /// The next request.
    #[inline]
    pub(crate) fn add(&mut self, at_ns: u64, is_write: bool) {
        self.times.push(at_ns);
        self.is_write.push(is_write);
        if self.seen == self.end && self.times.len() > 1 {
            self.end_block();
        }
        self.seen += 1;
    }

    fn end_block(&mut self) {
        let requests = self.times.len() - 1;
        let mut writes = Vec::with_capacity(requests + 1);
        writes.push(0u32);
        for &is_write in &self.is_write[..requests] {
            writes.push(writes[writes.len() - 1] + u32::from(is_write));
        }
        let duration_ns = self.times[requests] - self.times[0];
        self.arrivals.blocks.push(Block { duration_ns, writes: writes[requests].into() });
        self.arrivals.divide(&self.times, &writes, 0, requests);
        self.times = vec![self.times[requests]];
        self.is_write = vec![self.is_write[requests]];
        self.end =
            begin(self.arrivals.requests, self.blocks, self.arrivals.blocks.len() as u64 + 1);
    }

    pub(crate) fn finish(mut self) -> Arrivals {
        self.arrivals.ends_with_write = self.is_write.last() == Some(&true);
        if self.arrivals.blocks.is_empty() {
            self.arrivals.blocks.push(Block { duration_ns: 0, writes: 0 });
        }
        self.arrivals
    }
}

impl Arrivals {
    fn divide(&mut self, times: &[u64], writes: &[u32], begin: usize, end: usize) {
        let requests = (end - begin) as u64;
        if requests <= 1 {
            return;
        }
        let middle = begin + (end - begin) / 2;
        let (first, second) = (times[middle] - times[begin], times[end] - times[middle]);
        let all = u64::from(writes[end] - writes[begin]);
        let early = u64::from(writes[middle] - writes[begin]);
        self.add((first, second), (early, all), ((middle - begin) as u64, (end - middle) as u64));
        self.divide(times, writes, begin, middle);
        self.divide(times, writes, middle, end);
    }

    /// A division of time, of writes, and of requests.
    fn add(&mut self, (first, second): (u64, u64), (early, all): (u64, u64), halves: (u64, u64)) {
        let requests = halves.0 + halves.1;
        if first + second > 0 {
            let key =
                (scale(requests), rate(first + second, requests), coarse_share(all, requests));
            self.times.entry(key).or_default().add(ratio::of(first, second), 1);
        }
        let (least, most) = possible(all, halves.0, halves.1);
        if most > least {
            let part = match early {
                _ if early == least => 0,
                _ if early == most => PARTS + 1,
                _ => 1 + (PARTS * (early - least) / (most - least)).min(PARTS - 1),
            };
            let key = (scale(requests), fine_share(all, requests), ratio::class(first, second));
            self.writes.entry(key).or_default().add(part as u32, 1);
        }
    }

    /// From the first request to the last.
    pub(crate) fn duration_ns(&self) -> u64 {
        self.blocks.iter().map(|block| block.duration_ns).sum()
    }

    pub(crate) fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Every two blocks as one; how the first of them was divided in two is told as any division is.
    pub(crate) fn coarser(&self) -> Arrivals {
        let count = self.blocks.len() as u64;
        let mut found = Arrivals { blocks: Vec::new(), ..self.clone() };
        if count < 2 || self.requests / (count / 2) > BLOCK_MAX {
            return self.clone();
        }
        // An odd last block joins the two before it.
        let merged = count / 2;
        let mut taken = 0;
        for block in 1..=merged {
            let end = if block == merged { count } else { block * 2 };
            let parts = &self.blocks[taken as usize..end as usize];
            let (first, rest) = parts.split_at(parts.len() / 2);
            let sum = |blocks: &[Block]| Block {
                duration_ns: blocks.iter().map(|block| block.duration_ns).sum(),
                writes: blocks.iter().map(|block| block.writes).sum(),
            };
            let (first, rest) = (sum(first), sum(rest));
            let edge = |block| begin(self.requests, count, block);
            let middle = edge(taken + parts.len() as u64 / 2);
            found.add(
                (first.duration_ns, rest.duration_ns),
                (first.writes, first.writes + rest.writes),
                (middle - edge(taken), edge(end) - middle),
            );
            found.blocks.push(sum(&[first, rest]));
            taken = end;
        }
        found
    }

    /// Ratios by scale and rate alone, in fewer numbers.
    pub(crate) fn rounder(&self) -> Arrivals {
        let join = |map: &BTreeMap<Key, Counts>| {
            let mut joined: BTreeMap<Key, Counts> = BTreeMap::new();
            for (key, counts) in map {
                let all = joined.entry((key.0, key.1 / 2 * 2, 2)).or_default();
                *all = all.with(counts);
            }
            joined.values_mut().for_each(|counts| *counts = counts.commonest(16));
            joined
        };
        Arrivals { times: join(&self.times), writes: join(&self.writes), ..self.clone() }
    }

    pub(crate) fn put(&self, writer: &mut Writer) {
        writer.number(self.tick_ns);
        writer.number(self.blocks.len() as u64);
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

    pub(crate) fn get(bytes: &mut Bytes, requests: u64) -> Result<Arrivals, Bad> {
        let tick_ns = bytes.number(DURATION_MAX, "tick")?.max(1);
        let blocks = bytes.length(BLOCKS_READ_MAX, "blocks of arrivals")?;
        if blocks == 0 || requests / blocks as u64 > BLOCK_READ_MAX {
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
        let times = map([32, 4], ratio::MAX, "divisions of time")?;
        let writes = map([9, 4], PARTS as u32 + 1, "divisions of writes")?;
        Ok(Arrivals { requests, tick_ns, blocks, ends_with_write, times, writes })
    }
}

/// A table of bags, found by the key or the nearest there is.
struct Nearest {
    bags: Vec<Bag>,
    known: BTreeMap<Key, usize>,
    found: FxHashMap<Key, Option<usize>>,
    latest: Option<(Key, usize)>,
}

impl Nearest {
    fn new(counts: &BTreeMap<Key, Counts>) -> Nearest {
        Nearest {
            bags: counts.values().map(Bag::new).collect(),
            known: counts.keys().copied().zip(0..).collect(),
            found: FxHashMap::default(),
            latest: None,
        }
    }

    #[inline]
    fn draw(&mut self, key: Key, dice: &mut Dice) -> Option<u32> {
        let at = match self.latest {
            Some((latest, at)) if latest == key => at,
            _ => {
                let known = &self.known;
                (*self.found.entry(key).or_insert_with(|| nearest(known, key)))?
            }
        };
        self.latest = Some((key, at));
        self.bags[at].draw(dice)
    }
}

fn nearest(known: &BTreeMap<Key, usize>, key: Key) -> Option<usize> {
    let far = |other: &Key| {
        let [a, b, c] = [(key.0, other.0), (key.1, other.1), (key.2, other.2)]
            .map(|(one, other)| u32::from(one.abs_diff(other)));
        (a * 4 + b * 2 + c, *other)
    };
    known.iter().min_by_key(|(other, _)| far(other)).map(|(_, &at)| at)
}

/// Draws arrivals.
pub(crate) struct Clock {
    arrivals: Arrivals,
    times: Nearest,
    writes: Nearest,
    /// The block being drawn: times from its beginning, and writes.
    at: Vec<f64>,
    is_write: Vec<bool>,
    block: usize,
    next: usize,
    begun_ns: u64,
}

/// When a request comes, and whether it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) at_ns: u64,
    pub(crate) is_write: bool,
}

impl Clock {
    pub(crate) fn new(arrivals: &Arrivals) -> Clock {
        Clock {
            times: Nearest::new(&arrivals.times),
            writes: Nearest::new(&arrivals.writes),
            arrivals: arrivals.clone(),
            at: Vec::new(),
            is_write: Vec::new(),
            block: 0,
            next: 0,
            begun_ns: 0,
        }
    }

    /// The next of all requests; none after the last.
    #[inline]
    pub(crate) fn next(&mut self, dice: &mut Dice) -> Option<Arrival> {
        while self.next == self.is_write.len() {
            if self.block > self.arrivals.blocks.len() {
                return None;
            }
            self.begin_block(dice);
        }
        let at_ns = self.begun_ns + self.at[self.next] as u64;
        let is_write = self.is_write[self.next];
        self.next += 1;
        let tick_ns = self.arrivals.tick_ns;
        Some(Arrival { at_ns: at_ns / tick_ns * tick_ns, is_write })
    }

    /// Draws the next block; after the last the last request.
    fn begin_block(&mut self, dice: &mut Dice) {
        let arrivals = &self.arrivals;
        if self.block > 0 {
            self.begun_ns += arrivals.blocks[self.block - 1].duration_ns;
        }
        self.next = 0;
        let count = arrivals.blocks.len() as u64;
        let Some(&Block { duration_ns, writes }) = arrivals.blocks.get(self.block) else {
            self.block += 1;
            (self.at, self.is_write) = (vec![0.0], vec![arrivals.ends_with_write]);
            return;
        };
        let edge = |block: usize| begin(arrivals.requests, count, block as u64);
        let requests = (edge(self.block + 1) - edge(self.block)) as usize;
        self.block += 1;
        self.at.clear();
        self.at.resize(requests + 1, 0.0);
        self.at[requests] = duration_ns as f64;
        self.is_write.clear();
        self.is_write.resize(requests, false);
        self.divide(0, requests, writes.min(requests as u64), dice);
    }

    fn divide(&mut self, begin: usize, end: usize, writes: u64, dice: &mut Dice) {
        let requests = (end - begin) as u64;
        if requests <= 1 {
            if requests == 1 {
                self.is_write[begin] = writes > 0;
            }
            return;
        }
        let middle = begin + (end - begin) / 2;
        let (scale, whole) = (scale(requests), self.at[end] - self.at[begin]);
        let mut share = 0.5;
        if whole > 0.0 {
            let key = (scale, rate(whole as u64, requests), coarse_share(writes, requests));
            let drawn = self.times.draw(key, dice);
            share = drawn.map_or(0.5, |number| ratio::draw(number, dice));
        }
        self.at[middle] = self.at[begin] + share * whole;
        let (least, most) = possible(writes, (middle - begin) as u64, (end - middle) as u64);
        let mut early = least;
        if most > least {
            let key = (scale, fine_share(writes, requests), ratio::class_of(share));
            let part = self.writes.draw(key, dice).map_or(PARTS / 2, u64::from);
            early = match part {
                0 => least,
                part if part > PARTS => most,
                part => {
                    let along = (part as f64 - 1.0 + dice.unit()) / PARTS as f64;
                    let drawn = least + (along * (most - least) as f64) as u64;
                    if most - least > 1 { drawn.clamp(least + 1, most - 1) } else { drawn }
                }
            };
        }
        self.divide(begin, middle, early, dice);
        self.divide(middle, end, writes - early, dice);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn fitted(list: &[(u64, bool)], blocks: u64) -> Arrivals {
        let mut fit = ArrivalsFit::new(list.len() as u64, 10, blocks);
        list.iter().for_each(|&(at, is_write)| fit.add(at, is_write));
        fit.finish()
    }

    fn bursts(requests: u64) -> Vec<(u64, bool)> {
        (0..requests).map(|n| (n / 100 * 1_000_000 + n % 100 * 10, n / 100 % 3 == 0)).collect()
    }

    fn drawn(arrivals: &Arrivals, seed: u64) -> Vec<Arrival> {
        let (mut clock, mut dice) = (Clock::new(arrivals), Dice::new(seed));
        std::iter::from_fn(|| clock.next(&mut dice)).collect()
    }

    #[test]
    fn as_many_come_in_as_long_and_as_many_write() {
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

    #[test]
    fn half_the_blocks_have_all_that_they_had() {
        let arrivals = fitted(&bursts(7_000), 7);
        assert_eq!(arrivals.blocks(), 7);
        let coarser = arrivals.coarser();
        assert_eq!((coarser.blocks(), coarser.duration_ns()), (3, arrivals.duration_ns()));
        assert_eq!(drawn(&coarser, 1).len(), 7_000);
        let again = coarser.coarser();
        assert_eq!((again.blocks(), again.coarser().blocks()), (1, 1));
    }

    #[test]
    fn what_is_written_is_read() {
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
