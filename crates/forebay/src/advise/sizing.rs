//! Determines the required cache size: the smallest cache that has most of the hits of the largest
//! one. It is read off the miss-ratio curve, which one pass over the trace computes for all sizes.

use forebay_core::Op;
use forebay_core::cache::MissRatioCurve;
use serde::Serialize;

use crate::cache_curve::{FOUND_THAT_MATTERS, NEARLY_ALL, keys, smallest_with, worthwhile};
use crate::progress::{Meter, Progress};
use crate::quantities::{bytes, counted, percent};
use crate::{Error, Input};

/// Above this number of blocks, larger blocks are used, provided that requests fill them.
const BLOCKS_ENOUGH: u64 = 1 << 20;

/// The maximum number of blocks, which bounds the memory of a simulated cache.
const BLOCKS_MAX: u64 = 1 << 23;

/// The share of the requested bytes that must be in whole blocks, because a cache stores nothing
/// else.
const WHOLE_ENOUGH: f64 = 0.9;

/// The number of requests, from the start of the trace, that decide how large a block is.
const REQUESTS_EXAMINED: usize = 100_000;

/// The block sizes from 1 KiB to 64 MiB, as powers of two.
const BLOCK_BITS: std::ops::RangeInclusive<u32> = 10..=26;

/// The ratio of the share of blocks found in the last quarter of a trace to that in the whole
/// trace, at or above which the trace is too short to fill a cache.
const GROWS_TIMES: f64 = 1.3;

/// A cache size, with the figures that justify it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sizing {
    /// The block size in bytes.
    pub block_bytes: u32,
    /// The total size of all blocks that the trace accesses. A larger cache would never be full.
    pub footprint_bytes: u64,
    /// The size in bytes of the smallest cache that has most of the hits of the largest, as
    /// `forebay cache` recommends it; or the size that the user named.
    pub least_bytes: u64,
    /// The size in bytes of the smallest cache with 99 % of the hits of the largest. A larger cache
    /// gains nothing.
    pub full_bytes: u64,
    /// The flash required in MiB: the cache of `least_bytes`, and space for blocks that are being
    /// written to the disk.
    pub size_mib: u64,
    /// The share of block accesses that hit in a cache of `least_bytes`.
    pub hit_share: f64,
    /// The share of block accesses that hit in a cache of `full_bytes`.
    pub hit_share_full: f64,
    /// The share of block accesses that hit in a cache large enough for all blocks.
    pub hit_share_max: f64,
    /// The share of block accesses that hit in an unlimited cache, in the first and in the last
    /// quarter of the requests.
    #[serde(skip)]
    pub(super) quarters: [f64; 2],
}

impl Sizing {
    /// Determines the sizes for `input`. If the user named a size, `flash_bytes` replaces the
    /// recommended one.
    pub(super) fn of(
        input: &Input,
        flash_bytes: Option<u64>,
        progress: Progress<'_>,
    ) -> Result<Sizing, Error> {
        let block_bytes = block_bytes(input)?;
        let mut curve = MissRatioCurve::default();
        let records = input.records()?;
        let (failed, mut meter) = (records.failed(), Meter::new(progress));
        let mut quarters = Quarters::of(input.description.records);
        for record in records {
            quarters.pass(&curve);
            if meter.stops_after(1) {
                return Err(Error::Stopped);
            }
            keys(&record, block_bytes).for_each(|key| _ = curve.access(key));
        }
        if let Some(error) = failed.take() {
            return Err(error.into());
        }
        let sizing = Sizing::from(&curve, block_bytes as u32, flash_bytes);
        Ok(Sizing { quarters: quarters.shares(&curve), ..sizing })
    }

    /// Returns whether the trace is too short to fill a cache: the hit ratio is still rising at its
    /// end, and is high enough there to matter.
    pub(super) fn is_cold(&self) -> bool {
        let last = self.quarters[1];
        last >= FOUND_THAT_MATTERS && last > GROWS_TIMES * self.hit_share_max
    }

    /// Says how the hit ratio rises in a trace that is too short to fill a cache.
    pub(super) fn growth(&self) -> String {
        let [first, last] = self.quarters.map(percent);
        format!("the hit ratio is still rising, from {first} to {last}; record longer")
    }

    /// Says why no cache is worth trying.
    pub(super) fn too_few(&self) -> String {
        if self.is_cold() {
            return self.growth();
        }
        if self.hit_share_max == 0.0 {
            return "no block is used twice, so a cache has no hits".to_string();
        }
        format!(
            "nearly every block is used only once, so no cache finds more than {} of the blocks used ({} blocks, {} \
             in all)",
            percent(self.hit_share_max),
            bytes(self.block_bytes.into()),
            bytes(self.footprint_bytes as f64)
        )
    }

    /// Returns the flash in MiB that a cache of `cache_bytes` needs: the cache itself, and space
    /// for blocks that are being written to the disk.
    pub fn flash_mib(&self, cache_bytes: u64) -> u64 {
        let blocks = cache_bytes / u64::from(self.block_bytes);
        let blocks = blocks + (blocks / 32).max(32);
        (blocks * u64::from(self.block_bytes)).div_ceil(1 << 20)
    }

    /// Formats the recommended size in a sentence. With `in_blocks`, sizes are in blocks, because
    /// the size of a block is unknown.
    pub(super) fn told(&self, in_blocks: bool) -> String {
        let size = |of: u64| match in_blocks {
            true => counted(of / u64::from(self.block_bytes), "block"),
            false => bytes(of as f64),
        };
        let (all, some) = (size(self.footprint_bytes), size(self.least_bytes));
        if self.hit_share_max == 0.0 {
            return format!(
                "By the order of requests alone: no block is used twice, so no cache finds \
                 anything, however large ({} used).",
                all
            );
        }
        format!(
            "By the order of requests alone, an LRU cache of all {} would find {} of the blocks \
             used, and one of {} {} (`forebay cache` shows every size).",
            all,
            percent(self.hit_share_max),
            some,
            percent(self.hit_share)
        )
    }

    /// Formats the recommended cache size in a few words.
    pub(super) fn in_short(&self) -> String {
        format!(
            "by the order of requests, an LRU cache of {} finds {} of the blocks used; more than {} finds no more",
            bytes(self.least_bytes as f64),
            percent(self.hit_share),
            bytes(self.full_bytes as f64)
        )
    }

    fn from(curve: &MissRatioCurve, block_bytes: u32, flash_bytes: Option<u64>) -> Sizing {
        let accesses = curve.accesses();
        let [_, hits_max] = found(curve);
        let (block, one_in) = (u64::from(block_bytes), curve.sample().one_in());
        let misses_by_size: Vec<u64> = curve.misses().collect();
        let at = |size: usize| {
            let misses = misses_by_size.get(size).copied().unwrap_or(accesses);
            (size as u64 * one_in * block, misses)
        };
        let named = |flash_bytes: u64| {
            let at = (flash_bytes / block / one_in) as usize;
            let misses = curve.misses().nth(at).or(curve.misses().last()).unwrap_or(accesses);
            (flash_bytes, misses)
        };
        let (least_bytes, misses) =
            flash_bytes.map_or_else(|| at(worthwhile(&misses_by_size)), named);
        let (full_bytes, misses_full) = at(smallest_with(&misses_by_size, NEARLY_ALL));
        let share = |hits: u64| hits as f64 / accesses.max(1) as f64;
        let sizing = Sizing {
            block_bytes,
            footprint_bytes: curve.blocks() * block,
            least_bytes,
            full_bytes,
            size_mib: 0,
            hit_share: share(accesses - misses),
            hit_share_full: share(accesses - misses_full),
            hit_share_max: share(hits_max),
            quarters: [share(hits_max); 2],
        };
        let flash_mib = |bytes: u64| (bytes >> 20).max(1);
        let size_mib = flash_bytes.map_or_else(|| sizing.flash_mib(least_bytes), flash_mib);
        Sizing { size_mib, ..sizing }
    }
}

/// The numbers of accesses, and of hits in a cache of unlimited size, after each quarter of the
/// trace.
struct Quarters {
    records: u64,
    passed: u64,
    /// Accesses and hits before each quarter.
    before: Vec<[u64; 2]>,
}

impl Quarters {
    fn of(records: u64) -> Quarters {
        Quarters { records, passed: 0, before: Vec::new() }
    }

    /// Counts a request that `curve` does not contain yet.
    fn pass(&mut self, curve: &MissRatioCurve) {
        if self.passed * 4 >= self.before.len() as u64 * self.records {
            self.before.push(found(curve));
        }
        self.passed += 1;
    }

    /// Returns the shares of the accesses that hit in the first and in the last quarter.
    fn shares(mut self, curve: &MissRatioCurve) -> [f64; 2] {
        self.before.push(found(curve));
        let share = |pair: &[[u64; 2]]| match pair {
            [from, to] => (to[1] - from[1]) as f64 / (to[0] - from[0]).max(1) as f64,
            _ => 0.0,
        };
        let mut quarters = self.before.windows(2);
        [quarters.next(), self.before.windows(2).last()].map(|pair| pair.map_or(0.0, share))
    }
}

/// Returns the number of accesses, and of those that hit in a cache of unlimited size.
fn found(curve: &MissRatioCurve) -> [u64; 2] {
    let accesses = curve.accesses();
    [accesses, accesses - curve.misses().last().unwrap_or(0)]
}

/// Returns the block size of a cache for `input`: 4 KiB, larger for large footprints, but smaller
/// if requests would not fill the blocks. If the trace counts in blocks, that size is used if there
/// are not too many of them, and its blocks are never divided.
fn block_bytes(input: &Input) -> Result<u64, Error> {
    let blocks = |bytes: u64| input.description.footprint_bytes / bytes;
    let own = input.notes.own_block_bytes.map(u64::from);
    let sizes = || BLOCK_BITS.map(|bits| 1u64 << bits);
    let large = own.into_iter().chain(sizes().skip(2)).find(|&of| blocks(of) <= BLOCKS_ENOUGH);
    let large = large.unwrap_or(1 << BLOCK_BITS.end());
    if own.is_some() {
        return Ok(large);
    }
    let whole = whole_shares(input)?;
    let fitting = sizes().zip(whole).filter(|&(of, _)| of <= large && blocks(of) <= BLOCKS_MAX);
    let filled = fitting.clone().filter(|&(_, share)| share >= WHOLE_ENOUGH);
    Ok(filled.last().or(fitting.clone().next()).map_or(large, |(of, _)| of))
}

/// Returns for each block size the share of the bytes requested, in the first requests of the
/// trace, that are in whole blocks.
fn whole_shares(input: &Input) -> Result<Vec<f64>, Error> {
    let mut whole = vec![0u64; BLOCK_BITS.count()];
    let mut all = 0;
    for record in input.records()?.take(REQUESTS_EXAMINED) {
        if !matches!(record.op, Op::Read | Op::Write) {
            continue;
        }
        all += u64::from(record.len);
        let end = record.offset.saturating_add(record.len.into());
        for (bytes, bits) in whole.iter_mut().zip(BLOCK_BITS) {
            let block = 1u64 << bits;
            *bytes += (end / block).saturating_sub(record.offset.div_ceil(block)) * block;
        }
    }
    Ok(whole.into_iter().map(|bytes| bytes as f64 / (all as f64).max(1.0)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_cache_that_finds_most() {
        let mut curve = MissRatioCurve::default();
        // A working set of 1000 blocks is accessed a hundred times, then 100,000 other blocks once
        // each.
        for _ in 0..100 {
            (0..1000).for_each(|key| _ = curve.access(key));
        }
        (5000..105_000).for_each(|key| _ = curve.access(key));
        let sizing = Sizing::from(&curve, 4096, None);
        assert_eq!((sizing.least_bytes, sizing.full_bytes), (1000 * 4096, 1000 * 4096));
        assert_eq!(sizing.size_mib, (1032u64 * 4096).div_ceil(1 << 20));
        assert_eq!((sizing.hit_share, sizing.hit_share_max), (0.495, 0.495));
        let once = Sizing::from(&MissRatioCurve::default(), 4096, None);
        assert_eq!((once.hit_share_max, once.footprint_bytes), (0.0, 0));
        // A size that the user names, both smaller and larger than all blocks.
        let named = |bytes: u64| Sizing::from(&curve, 4096, Some(bytes));
        assert_eq!((named(2 << 20).hit_share, named(2 << 20).size_mib), (0.0, 2));
        assert_eq!((named(10 << 30).hit_share, named(10 << 30).least_bytes), (0.495, 10 << 30));
    }
}
