//! The verb `cache`: computes the miss ratios of caches of every size in one pass over a trace.
//!
//! Reads and writes access every block that they touch, in trace order; flushes and trims access
//! none. LRU's misses are computed for all sizes at once; S3-FIFO is simulated at the requested
//! sizes only. Arrival times have no effect.
//!
//! Memory is bounded. If there are too many blocks, only a sample of them is tracked. If a cache is
//! too large to simulate, a miniature of it is simulated on a sample of the blocks (Waldspurger,
//! Saemundsson, Ahmad and Park, USENIX ATC 2017).

mod page;
mod verb;

use std::path::Path;

use forebay_ask::AskError;
use forebay_core::Op;
use forebay_core::cache::{Cache, MissRatioCurve, S3Fifo, Sample};
use forebay_trace::{Reader, Record};
use serde::Serialize;

use crate::input::read_through;
use crate::quantities::bytes;
use crate::{Error, Progress};

pub(crate) use page::FOUND_THAT_MATTERS;
pub use verb::CacheAsk;

/// The number of points on the curve, in addition to the requested sizes.
const POINTS: u32 = 64;
/// How many low bits of a key hold the block number; the bits above hold the volume.
const KEY_BITS: u32 = 40;

/// The maximum number of blocks in all simulated caches together, which take 200 MB of memory.
const FRAMES_MAX: u64 = 1 << 21;
/// The maximum number of sizes that users may request.
const SIZES_MAX: usize = 1024;

/// The block size in bytes if neither the options nor the trace specify one.
const BLOCK_BYTES: u32 = 4096;

/// The options of `cache`.
#[derive(Clone, Debug, Default)]
pub struct CurveOptions {
    /// The block size in bytes. Defaults to the trace's own block size if the trace counts in
    /// blocks, else to 4 KiB.
    pub block_bytes: Option<u32>,
    /// Cache sizes in MiB for which S3-FIFO is simulated and LRU is computed exactly.
    pub sizes_mib: Vec<f64>,
    /// Cache sizes in blocks for which S3-FIFO is simulated and LRU is computed exactly.
    pub sizes_blocks: Vec<u32>,
}

impl CurveOptions {
    /// Returns all requested cache sizes in blocks of `block_bytes`, sorted and without duplicates.
    fn sizes(&self, block_bytes: u32) -> Result<Vec<u32>, AskError> {
        let blocks = |&mib: &f64| {
            let blocks = (mib * f64::from(1 << 20) / f64::from(block_bytes)).floor();
            if !(1.0..f64::from(u32::MAX)).contains(&blocks) {
                let block_kib = f64::from(block_bytes) / 1024.0;
                let expected = format!("expected space for 1 to 2^32 blocks of {block_kib} KiB");
                return Err(AskError::new("sizes_mib", format!("got {mib} MiB, {expected}")));
            }
            Ok(blocks as u32)
        };
        let mut sizes: Vec<u32> = self.sizes_mib.iter().map(blocks).collect::<Result<_, _>>()?;
        sizes.extend(&self.sizes_blocks);
        sizes.sort_unstable();
        sizes.dedup();
        if sizes.len() > SIZES_MAX {
            let text = format!("got {} sizes, expected at most {SIZES_MAX}", sizes.len());
            return Err(AskError::new("sizes_mib", text));
        }
        Ok(sizes)
    }
}

/// The miss-ratio curve of a trace.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// The name of the trace.
    pub trace: String,
    /// The block size in bytes.
    pub block_bytes: u32,
    /// Whether the trace counts in blocks and its blocks are used, so that the real size of a block
    /// is unknown.
    pub is_own_block: bool,
    /// The number of block accesses in the trace.
    pub accesses: u64,
    /// The number of distinct blocks in the trace, which is also the largest useful cache size. An
    /// estimate if blocks were sampled.
    pub distinct_blocks: u64,
    /// One in this many blocks was tracked by LRU; 1 means that its curve is exact.
    pub sampled_one_in: u64,
    /// The number of distinct blocks that were tracked.
    pub sampled_blocks: u64,
    /// The relative error of the number of accesses estimated from the sample.
    pub sample_error_share: f64,
    /// The recommended cache; `None` if no cache is worthwhile.
    pub recommended: Option<Recommended>,
    /// The points of the curve, by increasing cache size.
    pub points: Vec<CurvePoint>,
}

/// The recommended cache: the smallest one with [`HITS_THAT_SUFFICE`] of the largest cache's hits,
/// or a larger one if this gives many more hits for little more space, or if the larger cache is
/// small anyway.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Recommended {
    /// The cache size in blocks.
    pub size_blocks: u64,
    /// The cache size in MiB.
    pub size_mib: f64,
    /// The share of accesses that miss in an LRU cache of this size.
    pub lru_miss_ratio: f64,
    /// The share of accesses that hit in an LRU cache of this size.
    pub lru_hit_ratio: f64,
    /// The share of the trace's distinct blocks that fit into the cache.
    pub distinct_blocks_share: f64,
}

/// The share of the largest cache's hits that the recommended cache must have.
const HITS_THAT_SUFFICE: f64 = 0.8;

/// The share of the largest cache's hits that counts as nearly all; larger caches gain nothing.
pub(crate) const NEARLY_ALL: f64 = 0.99;

/// A cache of up to this size costs so little that it should have nearly all hits.
const SMALL_BYTES: u64 = 64 << 20;

/// A larger cache is recommended while another quarter of the size adds this share of the largest
/// cache's hits.
const HITS_WORTH_A_QUARTER: f64 = 0.05;

/// The minimum share of the largest cache's hits that the last part of that quarter must add.
const HITS_WORTH_THE_REST: f64 = 0.005;

/// Returns the index of the smallest size with `share` of the largest cache's hits. `misses` holds
/// the misses by size.
pub(crate) fn smallest_with(misses: &[u64], share: f64) -> usize {
    let (Some(none), Some(most)) = (misses.first(), misses.last()) else { return 0 };
    let enough = none - ((none - most) as f64 * share).ceil() as u64;
    misses.partition_point(|&misses| misses > enough)
}

/// Returns the index of the size to recommend.
pub(crate) fn worthwhile(misses: &[u64]) -> usize {
    let (Some(none), Some(most)) = (misses.first(), misses.last()) else { return 0 };
    let share = |hits: u64| hits as f64 / (none - most).max(1) as f64;
    let mut size = smallest_with(misses, HITS_THAT_SUFFICE);
    loop {
        let next = (size + size.div_ceil(4)).min(misses.len() - 1);
        if share(misses[size] - misses[next]) < HITS_WORTH_A_QUARTER {
            return size;
        }
        let is_enough = |at: &usize| share(misses[*at] - misses[next]) <= HITS_WORTH_THE_REST;
        size = (size + 1..next).find(is_enough).unwrap_or(next);
    }
}

impl Recommended {
    fn of(lru: &MissRatioCurve, block_bytes: u64, distinct_blocks: u64) -> Option<Recommended> {
        let misses: Vec<u64> = lru.misses().collect();
        let blocks = |size: usize| size as u64 * lru.sample().one_in();
        let nearly_all = smallest_with(&misses, NEARLY_ALL);
        let is_small = blocks(nearly_all) * block_bytes <= SMALL_BYTES;
        let size = worthwhile(&misses).max(if is_small { nearly_all } else { 0 });
        let size_blocks = blocks(size);
        let missed = |misses: u64| misses as f64 / lru.accesses().max(1) as f64;
        let lru_miss_ratio = missed(misses[size]);
        let findable = 1.0 - misses.last().map_or(1.0, |least| missed(*least));
        (findable >= FOUND_THAT_MATTERS).then(|| Recommended {
            size_blocks,
            size_mib: mib(size_blocks, block_bytes),
            lru_miss_ratio,
            lru_hit_ratio: 1.0 - lru_miss_ratio,
            distinct_blocks_share: size_blocks as f64 / distinct_blocks.max(1) as f64,
        })
    }
}

fn mib(blocks: u64, block_bytes: u64) -> f64 {
    blocks as f64 * block_bytes as f64 / f64::from(1 << 20)
}

impl CurvePoint {
    /// Builds the point for one cache size. `most` is the hit ratio of the largest cache. S3-FIFO's
    /// miss ratio comes with its sampling rate, if S3-FIFO was simulated at this size.
    fn new(
        size_blocks: u64,
        block_bytes: u64,
        (lru_miss_ratio, most): (f64, f64),
        s3fifo: Option<(f64, u64)>,
    ) -> CurvePoint {
        let lru_hit_ratio = 1.0 - lru_miss_ratio;
        CurvePoint {
            size_blocks,
            size_mib: mib(size_blocks, block_bytes),
            lru_miss_ratio,
            lru_hit_ratio,
            lru_findable_share: if most > 0.0 { lru_hit_ratio / most } else { 0.0 },
            s3fifo_miss_ratio: s3fifo.map(|of| of.0),
            s3fifo_hit_ratio: s3fifo.map(|of| 1.0 - of.0),
            s3fifo_sampled_one_in: s3fifo.map(|of| of.1),
        }
    }
}

impl Curve {
    /// Returns the hit ratio of the largest cache, which no cache can exceed.
    pub fn findable(&self) -> f64 {
        self.points.last().map_or(0.0, |point| point.lru_hit_ratio)
    }

    /// Returns the points at the requested cache sizes, for which S3-FIFO was simulated.
    pub fn simulated(&self) -> Vec<CurvePoint> {
        self.points.iter().filter(|point| point.s3fifo_miss_ratio.is_some()).copied().collect()
    }

    /// Returns the points that a reader needs first: the smallest caches that reach certain shares
    /// of the largest cache's hits, and the recommended cache.
    pub fn handful(&self) -> Vec<CurvePoint> {
        let findable = self.findable();
        let reaching = |share: &f64| {
            let least = share * findable * (1.0 - 1e-9);
            self.points.iter().find(|point| point.lru_hit_ratio >= least)
        };
        let recommended = self.recommended.map(|size| size.size_blocks);
        let recommended = self.points.iter().filter(|point| Some(point.size_blocks) == recommended);
        let found = SHARES.iter().filter_map(reaching).chain(recommended).copied().collect();
        if findable > 0.0 { by_size(found) } else { Vec::new() }
    }

    /// Returns whether any block is accessed twice.
    fn finds_anything(&self) -> bool {
        self.findable() > 0.0
    }

    /// Formats a cache size in bytes, or in blocks if the block size is unknown.
    pub fn size(&self, blocks: u64) -> String {
        bytes(mib(blocks, self.block_bytes.into()) * f64::from(1 << 20))
    }

    /// Returns the size, in blocks, of the smallest cache that reaches [`NEARLY_ALL`] of the
    /// largest cache's hit ratio.
    fn nearly_all(&self) -> u64 {
        let least = NEARLY_ALL * self.findable() * (1.0 - 1e-9);
        let enough = |point: &&CurvePoint| point.lru_hit_ratio >= least;
        self.points.iter().find(enough).map_or(self.distinct_blocks, |point| point.size_blocks)
    }
}

/// The shares of the largest cache's hits for which [`Curve::handful`] returns a point.
const SHARES: [f64; 6] = [0.25, 0.5, 0.9, 0.95, NEARLY_ALL, 1.0];

/// Sorts points by cache size and removes duplicates.
fn by_size(mut points: Vec<CurvePoint>) -> Vec<CurvePoint> {
    points.sort_unstable_by_key(|point| point.size_blocks);
    points.dedup_by_key(|point| point.size_blocks);
    points
}

/// A point of the curve: the results of caches of one size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CurvePoint {
    /// The cache size in blocks.
    pub size_blocks: u64,
    /// The cache size in MiB.
    pub size_mib: f64,
    /// LRU's misses as a share of the accesses.
    pub lru_miss_ratio: f64,
    /// LRU's hits as a share of the accesses.
    pub lru_hit_ratio: f64,
    /// LRU's hits as a share of the hits of the largest cache.
    pub lru_findable_share: f64,
    /// S3-FIFO's misses as a share of the accesses; `None` for sizes that were not requested.
    pub s3fifo_miss_ratio: Option<f64>,
    /// S3-FIFO's hits as a share of the accesses; `None` for sizes that were not requested.
    pub s3fifo_hit_ratio: Option<f64>,
    /// S3-FIFO was simulated with one in this many blocks; 1 means that its ratios are exact.
    pub s3fifo_sampled_one_in: Option<u64>,
}

/// An S3-FIFO cache of one size, simulated in full or in miniature.
struct Simulated {
    size: u32,
    cache: S3Fifo,
    sample: Sample,
    misses: u64,
}

impl Simulated {
    /// Creates one of `caches` simulated caches, which share the memory limit.
    fn new(size: u32, caches: usize) -> Simulated {
        let sample = Sample::keeping(FRAMES_MAX / caches as u64, size.into());
        let frames = u64::from(size).div_ceil(sample.one_in());
        Simulated { size, cache: S3Fifo::new(frames as u32), sample, misses: 0 }
    }

    #[inline]
    fn access(&mut self, key: u64) {
        if self.sample.holds(key) && !self.cache.access(key) {
            self.misses += self.sample.one_in();
        }
    }

    /// Returns the number of misses, and the sampling rate by which it was estimated. Requires that
    /// LRU's curve is complete.
    fn told(&self, lru: &MissRatioCurve) -> (u64, u64) {
        // A cache that holds all blocks misses only first accesses, whatever its eviction policy.
        match lru.sample().one_in() == 1 && u64::from(self.size) >= lru.blocks() {
            true => (lru.blocks(), 1),
            false => (self.misses.min(lru.accesses()), self.sample.one_in()),
        }
    }
}

/// Computes the curve of the trace in `reader`; error messages call the trace `name`.
pub fn curve(
    name: &Path,
    reader: &mut dyn Reader,
    options: &CurveOptions,
    progress: Progress<'_>,
) -> Result<Curve, Error> {
    let own = reader.notes().own_block_bytes;
    let block = options.block_bytes.or(own).unwrap_or(BLOCK_BYTES);
    let (block_bytes, sizes) = (u64::from(block), options.sizes(block)?);
    let mut lru = MissRatioCurve::default();
    let mut others: Vec<Simulated> =
        sizes.iter().map(|&size| Simulated::new(size, sizes.len())).collect();
    read_through(name, reader, progress, |batch, _| {
        for key in batch.iter().flat_map(|record| keys(record, block_bytes)) {
            lru.access(key);
            others.iter_mut().for_each(|other| other.access(key));
        }
    })?;
    Ok(Curve {
        trace: name.display().to_string(),
        block_bytes: block,
        is_own_block: own == Some(block),
        accesses: lru.accesses(),
        distinct_blocks: lru.blocks(),
        sampled_one_in: lru.sample().one_in(),
        sampled_blocks: lru.kept(),
        sample_error_share: lru.error_share(),
        recommended: Recommended::of(&lru, block_bytes, lru.blocks()),
        points: points(&lru, &others, block_bytes),
    })
}

/// Returns the keys of the blocks that a request accesses.
pub(crate) fn keys(record: &Record, block_bytes: u64) -> impl Iterator<Item = u64> {
    let len = if matches!(record.op, Op::Read | Op::Write) { u64::from(record.len) } else { 0 };
    let end = record.offset.saturating_add(len);
    let volume = u64::from(record.volume) << KEY_BITS;
    let blocks =
        if len == 0 { 0..0 } else { record.offset / block_bytes..end.div_ceil(block_bytes) };
    blocks.map(move |block| volume ^ block)
}

/// Returns the points of the curve, at geometrically spaced sizes and at the requested sizes.
fn points(lru: &MissRatioCurve, others: &[Simulated], block_bytes: u64) -> Vec<CurvePoint> {
    let (blocks, accesses) = (lru.blocks(), lru.accesses().max(1) as f64);
    let even = |point: u32| {
        let share = f64::from(point) / f64::from(POINTS);
        (blocks.max(1) as f64).powf(share).round() as u64
    };
    let mut sizes: Vec<u64> = (0..=POINTS).map(even).collect();
    sizes.extend(others.iter().map(|other| u64::from(other.size)));
    sizes.extend(Recommended::of(lru, block_bytes, blocks).map(|size| size.size_blocks));
    let misses: Vec<u64> = lru.misses().collect();
    let (last, one_in) = (misses.len() as u64 - 1, lru.sample().one_in());
    sizes.push((smallest_with(&misses, NEARLY_ALL) as u64 * one_in).clamp(1, blocks.max(1)));
    sizes.sort_unstable();
    sizes.dedup();
    let most = 1.0 - misses[last as usize] as f64 / accesses;
    let point = |size: u64| {
        let other = others.iter().find(|other| u64::from(other.size) == size);
        let other = other.map(|other| other.told(lru));
        let missed = misses[size.div_ceil(one_in).min(last) as usize] as f64 / accesses;
        let s3fifo = other.map(|(misses, one_in)| (misses as f64 / accesses, one_in));
        CurvePoint::new(size, block_bytes, (missed, most), s3fifo)
    };
    sizes.into_iter().map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_core::{Flags, Nanos};

    #[test]
    fn blocks_of_a_request() {
        let record = |op, offset, len, volume| Record {
            at: Nanos::ZERO,
            offset,
            latency: None,
            len,
            stream: 0,
            volume,
            op,
            flags: Flags::NONE,
        };
        let used = |record| keys(&record, 4096).collect::<Vec<_>>();
        assert_eq!(used(record(Op::Read, 4095, 2, 0)), [0, 1]);
        assert_eq!(used(record(Op::Write, 4096, 4096, 2)), [2 << 40 | 1]);
        assert!(used(record(Op::Trim, 0, 4096, 0)).is_empty());
        assert!(used(record(Op::Read, 100, 0, 0)).is_empty());
    }

    #[test]
    fn the_bundled_trace_s_curve_falls_to_its_first_uses() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/terasort.parquet");
        let mut reader = forebay_trace::open::open(&path, None).unwrap();
        let sizes_blocks = vec![100, 1000, 100];
        let options =
            CurveOptions { block_bytes: Some(65_536), sizes_blocks, ..CurveOptions::default() };
        let curve = curve(&path, &mut *reader, &options, &mut crate::progress::untold).unwrap();
        assert!(curve.points.is_sorted_by(
            |a, b| a.size_blocks < b.size_blocks && a.lru_miss_ratio >= b.lru_miss_ratio
        ));
        let last = curve.points.last().unwrap();
        assert_eq!(last.size_blocks, curve.distinct_blocks);
        let first_uses = curve.distinct_blocks as f64 / curve.accesses as f64;
        assert_eq!(last.lru_miss_ratio, first_uses);
        let found = curve.recommended.unwrap();
        let least = 1.0 - HITS_THAT_SUFFICE * curve.findable();
        let at = curve.points.iter().position(|p| p.size_blocks == found.size_blocks).unwrap();
        assert_eq!(curve.points[at].lru_miss_ratio, found.lru_miss_ratio);
        assert!(found.lru_miss_ratio <= least);
        // The size beyond which little is gained is exact, and one of the sizes that are shown
        // first.
        let nearly = curve.nearly_all();
        let shown = curve.handful();
        let shown = shown.iter().find(|point| point.size_blocks == nearly).unwrap();
        assert!(shown.lru_findable_share >= NEARLY_ALL - 1e-9, "{shown:?}");
        let at = curve.points.iter().position(|point| point.size_blocks == nearly).unwrap();
        assert!(curve.points[at - 1].lru_findable_share < NEARLY_ALL, "{shown:?}");
        let simulated = curve.points.iter().filter(|point| point.s3fifo_miss_ratio.is_some());
        assert_eq!(simulated.count(), 2);
    }

    #[test]
    fn a_size_just_below_a_cliff_is_not_recommended() {
        // 81 of 100 hits need 100 blocks; 110 blocks have all but one of them, and 400 have all.
        let mut misses = vec![200];
        misses.extend((1..=100).map(|size| 200 - size * 81 / 100));
        misses.extend((101..=110).map(|size| if size < 110 { 119 } else { 101 }));
        misses.extend((111..=400).map(|size| if size < 400 { 101 } else { 100 }));
        assert_eq!(misses.len(), 401);
        assert_eq!(smallest_with(&misses, HITS_THAT_SUFFICE), 99);
        assert_eq!((worthwhile(&misses), smallest_with(&misses, NEARLY_ALL)), (110, 110));
        // An even curve has no cliff, and neither has a cache of which a quarter more finds
        // nothing.
        let even: Vec<u64> = (0..=2000).map(|size| 2000 - size).collect();
        let flat: Vec<u64> = (0..=1000).map(|size| 1000 - size.min(100)).collect();
        assert_eq!((worthwhile(&even), worthwhile(&flat)), (1990, 100));
        assert_eq!((worthwhile(&[7]), smallest_with(&[7], 1.0)), (0, 0));
    }

    #[test]
    fn an_arc_list_is_counted_in_its_own_blocks() {
        let folder = std::env::temp_dir().join(format!("forebay-cache-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("small.lis");
        // The trace accesses blocks 8 to 10, 9 and 11, which 4 KiB blocks of eight sectors could
        // not distinguish.
        std::fs::write(&path, "8 3 0 1\n9 1 0 2\n11 1 0 3\n").unwrap();
        let of = |block_bytes: Option<u32>| {
            let mut reader = forebay_trace::open::open(&path, None).unwrap();
            let options = CurveOptions { block_bytes, ..CurveOptions::default() };
            curve(&path, &mut *reader, &options, &mut crate::progress::untold).unwrap()
        };
        let (own, larger) = (of(None), of(Some(4096)));
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(own.is_own_block && !larger.is_own_block);
        assert_eq!((own.block_bytes, own.accesses, own.distinct_blocks), (512, 5, 4));
        assert_eq!((larger.accesses, larger.distinct_blocks), (3, 1));
    }

    #[test]
    fn more_blocks_than_are_kept_are_sampled() {
        let folder = std::env::temp_dir().join(format!("forebay-sampled-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("large.spc");
        // Ten requests of 1 GiB, each made twice, touch 2.6 million blocks of 4 KiB.
        let row = |n: u64| format!("0,{},{},R,{n}.0\n", ((n % 10) << 21) + 8, 1u64 << 30);
        std::fs::write(&path, (0..20).map(row).collect::<String>()).unwrap();
        let mut reader = forebay_trace::open::open(&path, None).unwrap();
        let blocks = 10 << 18;
        let sizes_blocks = vec![1000, blocks / 2, blocks + blocks / 8];
        let options = CurveOptions { sizes_blocks, ..CurveOptions::default() };
        let curve = curve(&path, &mut *reader, &options, &mut crate::progress::untold).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        let off = |found: f64, expected: f64| (found / expected - 1.0).abs();
        assert_eq!((curve.accesses, curve.sampled_one_in), (2 * u64::from(blocks), 2));
        assert!(off(curve.distinct_blocks as f64, blocks.into()) < 0.01);
        assert!(curve.sample_error_share < 0.01 && curve.sample_error_share > 0.0);
        for point in curve.points.iter().filter(|point| point.s3fifo_miss_ratio.is_some()) {
            let fits = point.size_blocks > blocks.into();
            let expected = if fits { 0.5 } else { 1.0 };
            assert!(off(point.lru_miss_ratio, expected) < 0.01, "{point:?}");
            if fits {
                let found = point.s3fifo_miss_ratio.unwrap();
                assert!(off(found, 0.5) < 0.01 && point.s3fifo_sampled_one_in > Some(1));
            }
        }
    }

    #[test]
    fn caches_in_miniature_miss_as_often() {
        let size = 1 << 17;
        let sample = Sample::keeping(1 << 13, size);
        let mini = S3Fifo::new((size / sample.one_in()) as u32);
        let mut mini = Simulated { size: size as u32, cache: mini, sample, misses: 0 };
        let (mut whole, mut misses, mut state) = (S3Fifo::new(size as u32), 0u64, 1u64);
        let accesses = 2_000_000;
        for _ in 0..accesses {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let uniform = (state >> 33) as f64 / f64::from(1u32 << 31);
            let key = (uniform.powi(3) * f64::from(1 << 20)) as u64;
            misses += u64::from(!whole.access(key));
            mini.access(key);
        }
        let ratios = [misses, mini.misses].map(|misses| misses as f64 / f64::from(accesses));
        assert!(sample.one_in() == 16 && ratios[0] > 0.2, "{ratios:?}");
        assert!((ratios[0] - ratios[1]).abs() < 0.01, "{ratios:?}");
    }

    #[test]
    fn impossible_sizes_are_rejected() {
        let sizes = |mib: f64| {
            let options = CurveOptions { sizes_mib: vec![mib], ..CurveOptions::default() };
            options.sizes(4096)
        };
        assert_eq!(sizes(1.0).unwrap(), vec![256]);
        assert!(sizes(0.0).is_err() && sizes(f64::NAN).is_err() && sizes(1e9).is_err());
    }
}
