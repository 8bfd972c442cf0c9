//! The first pass: how much, how far, how large, by whom.

use forebay_core::{Nanos, Op};
use forebay_trace::Record;
use rustc_hash::FxHashMap;

use super::super::leaf_ranges::Places;
use super::super::state::{CLASSES_MAX, SizeClasses};

/// What a first pass finds.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// Requests.
    pub requests: u64,
    /// When the last came.
    pub last: Nanos,
    /// Highest byte reached on each volume.
    pub extents: Vec<u64>,
    /// Requests of each stream.
    pub streams: Vec<u64>,
    pub(super) tick_ns: u64,
    sizes: FxHashMap<u32, u64>,
    pub(super) places: Places,
    /// Requests that begin and end at a multiple of each of [`GRAINS_BYTES`].
    aligned: [u64; GRAINS_BYTES.len()],
}

/// Places may be told apart by these.
const GRAINS_BYTES: [u32; 4] = [4096, 2048, 1024, 512];
/// Share of requests that has to keep to a grain.
const GRAIN_SHARE: f64 = 0.98;
/// Sizes told apart while surveying.
const SURVEYED_SIZES_MAX: usize = 4096;
/// Share of requests that makes a size common, and a class worth having.
const COMMON_SHARE: f64 = 0.04;
const CLASS_SHARE: f64 = 0.005;

impl Survey {
    /// Takes the next record.
    #[inline]
    pub fn add(&mut self, record: &Record) {
        self.requests += 1;
        let gap = record.at.0 - self.last.0.min(record.at.0);
        self.last = record.at;
        self.tick_ns = if self.tick_ns == 1 { 1 } else { gcd(self.tick_ns, gap) };
        let volume = record.volume as usize;
        if volume >= self.extents.len() {
            self.extents.resize(volume + 1, 0);
        }
        let end = record.offset.saturating_add(u64::from(record.len));
        self.extents[volume] = self.extents[volume].max(end);
        if record.op != Op::Flush {
            self.places.add(record.volume, record.offset);
        }
        let ends = record.offset | u64::from(record.len);
        for (count, grain_bytes) in self.aligned.iter_mut().zip(GRAINS_BYTES) {
            *count += u64::from(ends.is_multiple_of(u64::from(grain_bytes)));
        }
        let stream = record.stream as usize;
        if stream >= self.streams.len() {
            self.streams.resize(stream + 1, 0);
        }
        self.streams[stream] += 1;
        if let Some(count) = self.sizes.get_mut(&record.len) {
            *count += 1;
        } else if self.sizes.len() < SURVEYED_SIZES_MAX {
            self.sizes.insert(record.len, 1);
        }
    }

    /// By how many bytes places are told apart: what nearly all requests keep to.
    pub(super) fn grain_bytes(&self) -> u32 {
        let kept = |count: u64| count as f64 >= GRAIN_SHARE * self.requests as f64;
        let grains = self.aligned.iter().zip(GRAINS_BYTES);
        grains.filter(|(count, _)| kept(**count)).map(|(_, grain)| grain).next().unwrap_or(512)
    }

    /// Classes that tell the most common sizes from those between them.
    pub(super) fn size_classes(&self, common_sizes: usize) -> SizeClasses {
        let mut sizes: Vec<(u32, u64)> =
            self.sizes.iter().map(|(&len, &count)| (len, count)).collect();
        sizes.sort_unstable_by_key(|&(len, count)| (std::cmp::Reverse(count), len));
        let share = |count: u64| count as f64 / self.requests.max(1) as f64;
        let common = sizes.iter().take(common_sizes).filter(|size| share(size.1) >= COMMON_SHARE);
        let mut bounds: Vec<u32> =
            common.flat_map(|&(len, _)| [len.saturating_sub(1), len]).collect();
        bounds.sort_unstable();
        bounds.dedup();
        debug_assert!(bounds.len() < CLASSES_MAX);
        let mut kept: Vec<u32> = Vec::new();
        for (index, &bound) in bounds.iter().enumerate() {
            let low = kept.last().map_or(0, |&low| u64::from(low) + 1);
            let within = |above: u64, to: u64| -> u64 {
                let inside = |len: u32| (above..=to).contains(&u64::from(len));
                sizes.iter().filter(|size| inside(size.0)).map(|size| size.1).sum()
            };
            let next = bounds.get(index + 1).map_or(u64::from(u32::MAX), |&next| u64::from(next));
            let below = share(within(low, u64::from(bound)));
            let above = share(within(u64::from(bound) + 1, next));
            if below >= CLASS_SHARE && above >= CLASS_SHARE {
                kept.push(bound);
            }
        }
        SizeClasses(kept)
    }
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}
