//! What requests of a category are like, wherever they are.

use rustc_hash::FxHashMap;

use super::super::bins::ALIGN_BINS;
use super::super::file::{Bins, CategoryModel};
use super::super::state::FOLLOWS_MAX;
use super::lists::digits;

/// Sizes of a category.
const SIZES_MAX: usize = 32;

/// Counts of values, those that repeat the one before apart.
#[derive(Clone, Debug)]
pub(super) struct Repeating {
    pub(super) fresh: Vec<u32>,
    pub(super) repeats: Vec<u32>,
    pub(super) last: usize,
}

impl Repeating {
    pub(super) fn new(bins: usize) -> Repeating {
        Repeating { fresh: vec![0; bins], repeats: vec![0; bins], last: usize::MAX }
    }

    #[inline]
    pub(super) fn add(&mut self, bin: usize) {
        let counts = if bin == self.last { &mut self.repeats } else { &mut self.fresh };
        counts[bin] += 1;
        self.last = bin;
    }
}

/// What a category's requests are like.
#[derive(Clone, Debug)]
pub(super) struct Traits {
    /// Count and repeats of each size.
    pub(super) sizes: FxHashMap<u32, (u32, u32)>,
    pub(super) last_len: u32,
    pub(super) distances: Repeating,
    pub(super) same_size: u32,
    /// Those whose place was used before.
    pub(super) seen: u32,
    pub(super) same_stream: u32,
    pub(super) same_op: u32,
    pub(super) same_class: u32,
    pub(super) count: u32,
    pub(super) alignments: [u32; ALIGN_BINS],
    /// Count of each; there are but few.
    pub(super) flags: Vec<(u8, u32)>,
}

impl Default for Traits {
    fn default() -> Traits {
        Traits {
            sizes: FxHashMap::default(),
            last_len: 0,
            distances: Repeating::new(FOLLOWS_MAX as usize + 1),
            same_size: 0,
            seen: 0,
            same_stream: 0,
            same_op: 0,
            same_class: 0,
            count: 0,
            alignments: [0; ALIGN_BINS],
            flags: Vec::new(),
        }
    }
}

impl Traits {
    /// A request has these flags.
    #[inline]
    pub(super) fn add_flags(&mut self, flags: u8) {
        match self.flags.iter_mut().find(|known| known.0 == flags) {
            Some(known) => known.1 += 1,
            None => self.flags.push((flags, 1)),
        }
    }
}

pub(super) fn category_model(category: u16, traits: &Traits) -> CategoryModel {
    let mut sizes: Vec<(u32, u32, u32)> =
        traits.sizes.iter().map(|(&len, &(count, repeats))| (len, count, repeats)).collect();
    sizes.sort_unstable_by_key(|&(len, count, _)| (std::cmp::Reverse(count), len));
    merge_rare(&mut sizes);
    sizes.sort_unstable();
    let mut flags = traits.flags.clone();
    flags.sort_unstable();
    CategoryModel {
        category,
        sizes,
        distances: Bins::new(&traits.distances.fresh),
        distance_repeats: Bins::new(&traits.distances.repeats),
        same_size_share: digits(f64::from(traits.same_size) / f64::from(traits.seen.max(1)), 4),
        same_stream_share: digits(f64::from(traits.same_stream) / f64::from(traits.count), 4),
        same_op_share: digits(f64::from(traits.same_op) / f64::from(traits.count), 4),
        same_class_share: digits(f64::from(traits.same_class) / f64::from(traits.count), 4),
        alignments: Bins::new(&traits.alignments),
        flags: if flags == [(0, traits.count)] { Vec::new() } else { flags },
    }
}

/// Rare sizes become the mean of their neighbours, in multiples of what divides them all: else runs would
/// leave the pages of the others.
fn merge_rare(sizes: &mut Vec<(u32, u32, u32)>) {
    if sizes.len() <= SIZES_MAX {
        return;
    }
    let mut rare = sizes.split_off(SIZES_MAX / 2);
    rare.sort_unstable();
    let unit = f64::from(rare.iter().fold(0, |unit, size| gcd(unit, size.0)).max(1));
    let all: u64 = rare.iter().map(|size| u64::from(size.1)).sum();
    let each = all.div_ceil(SIZES_MAX as u64 / 2).max(1);
    let (mut bytes, mut count, mut repeats) = (0u64, 0u64, 0u32);
    for (index, &(len, times, again)) in rare.iter().enumerate() {
        bytes += u64::from(len) * u64::from(times);
        count += u64::from(times);
        repeats += again;
        if count >= each || index + 1 == rare.len() {
            let mean = bytes as f64 / count as f64;
            let len = (mean / unit).round().max(1.0) * unit;
            sizes.push((len as u32, count as u32, repeats));
            (bytes, count, repeats) = (0, 0, 0);
        }
    }
}

fn gcd(mut a: u32, mut b: u32) -> u32 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_sizes_are_merged_to_their_mean() {
        // By count, as they come.
        let mut sizes: Vec<(u32, u32, u32)> = (1..=200).map(|n| (n * 4096, 300 - n, 1)).collect();
        let sums = |sizes: &[(u32, u32, u32)]| {
            let bytes = sizes.iter().map(|size| u64::from(size.0) * u64::from(size.1)).sum::<u64>();
            (bytes, sizes.iter().map(|size| size.1).sum::<u32>())
        };
        let before = sums(&sizes);
        merge_rare(&mut sizes);
        let after = sums(&sizes);
        assert!(sizes.len() <= SIZES_MAX && sizes.iter().all(|size| size.0 % 4096 == 0));
        assert!(after.1 == before.1 && after.0.abs_diff(before.0) < before.0 / 100, "{sizes:?}");
    }
}
