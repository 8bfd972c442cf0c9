//! Determines the required cache size: the smallest cache that has most of the hits of the largest
//! one. It is read off the miss-ratio curve, which one pass over the trace computes for all sizes.

use forebay_core::cache::MissRatioCurve;
use serde::Serialize;

use crate::cache_curve::{HITS_THAT_SUFFICE, keys};
use crate::error::Error;
use crate::input::Input;
use crate::progress::{Meter, Progress};
use crate::quantities::{bytes, counted, percent};

/// The maximum number of distinct blocks to track. Larger footprints are divided into larger
/// blocks.
const BLOCKS_MAX: u64 = 1 << 20;

/// The share of the largest cache's hits that counts as nearly all; larger caches gain nothing.
const NEARLY_ALL: f64 = 0.99;

/// A cache size, with the figures that justify it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sizing {
    /// The block size in bytes.
    pub block_bytes: u32,
    /// The total size of all blocks that the trace accesses. A larger cache would never be full.
    pub footprint_bytes: u64,
    /// The size in bytes of the smallest cache that has most of the hits of the largest, as
    /// `forebay cache` recommends it.
    pub least_bytes: u64,
    /// The size in bytes of the smallest cache with 99 % of the hits of the largest. A larger cache
    /// gains nothing.
    pub full_bytes: u64,
    /// The flash required in MiB: the cache itself, and room for blocks on their way to the disk.
    pub size_mib: u64,
    /// The share of block accesses that hit in the recommended cache.
    pub hit_share: f64,
    /// The share of block accesses that hit in a cache large enough for all blocks.
    pub hit_share_max: f64,
}

impl Sizing {
    pub(super) fn of(input: &Input, progress: Progress<'_>) -> Result<Sizing, Error> {
        let blocks = |bytes: u64| input.description.footprint_bytes / bytes;
        // If the trace counts in blocks, use its block size, and never combine its blocks into
        // larger ones.
        let own = input.notes.own_block_bytes.map(u64::from);
        let mut sizes = own.into_iter().chain((12..26).map(|bits| 1u64 << bits));
        let block_bytes = sizes.find(|&b| blocks(b) <= BLOCKS_MAX);
        let block_bytes = block_bytes.unwrap_or(1 << 26);
        let mut curve = MissRatioCurve::default();
        let records = input.records()?;
        let (failed, mut meter) = (records.failed(), Meter::new(progress));
        for record in records {
            if meter.stops_after(1) {
                return Err(Error::Stopped);
            }
            keys(&record, block_bytes).for_each(|key| _ = curve.access(key));
        }
        if let Some(error) = failed.take() {
            return Err(error.into());
        }
        Ok(Sizing::from(&curve, block_bytes as u32))
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
                "By order alone: no block is used twice, so no cache finds anything, however large \
                 ({} used).",
                all
            );
        }
        format!(
            "By order alone, whatever the times: of the blocks used, an LRU cache of all {} would \
             find {}, one of {} {} (`forebay cache` tells it for every size).",
            all,
            percent(self.hit_share_max),
            some,
            percent(self.hit_share)
        )
    }

    /// Formats the recommended cache size in a few words.
    pub(super) fn in_short(&self) -> String {
        format!(
            "by the order of requests, an LRU cache of {} finds {} of the blocks used; more than {} gains nothing",
            bytes(self.least_bytes as f64),
            percent(self.hit_share),
            bytes(self.full_bytes as f64)
        )
    }

    fn from(curve: &MissRatioCurve, block_bytes: u32) -> Sizing {
        let accesses = curve.accesses();
        let hits_max = accesses - curve.misses().last().unwrap_or(0);
        let smallest_with = |share_of_hits: f64| {
            let misses_max = accesses - (hits_max as f64 * share_of_hits).ceil() as u64;
            let found = curve.misses().enumerate().find(|&(_, misses)| misses <= misses_max);
            let (size, misses) = found.unwrap_or((0, accesses));
            (size as u64 * curve.sample().one_in(), misses)
        };
        let (size, misses) = smallest_with(HITS_THAT_SUFFICE);
        let (full_size, _) = smallest_with(NEARLY_ALL);
        let share = |hits: u64| hits as f64 / accesses.max(1) as f64;
        let blocks = size + (size / 32).max(32);
        Sizing {
            block_bytes,
            footprint_bytes: curve.blocks() * u64::from(block_bytes),
            least_bytes: size * u64::from(block_bytes),
            full_bytes: full_size * u64::from(block_bytes),
            size_mib: (blocks * u64::from(block_bytes)).div_ceil(1 << 20),
            hit_share: share(accesses - misses),
            hit_share_max: share(hits_max),
        }
    }
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
        let sizing = Sizing::from(&curve, 4096);
        assert_eq!((sizing.least_bytes, sizing.full_bytes), (1000 * 4096, 1000 * 4096));
        assert_eq!(sizing.size_mib, (1032u64 * 4096).div_ceil(1 << 20));
        assert_eq!((sizing.hit_share, sizing.hit_share_max), (0.495, 0.495));
        let once = Sizing::from(&MissRatioCurve::default(), 4096);
        assert_eq!((once.hit_share_max, once.footprint_bytes), (0.0, 0));
    }
}
