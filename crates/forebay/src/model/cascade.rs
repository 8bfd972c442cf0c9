//! Arrivals at every time scale: how a stretch of requests divides its time between its halves.
//!
//! A block of `2^j` requests that lasts `d` is cut into halves of equal counts; the ratio of their
//! durations is drawn from what was seen at that `j` in blocks of about that duration. From epochs of
//! known duration down to single gaps this keeps the burstiness of every scale, which a renewal
//! process with the same gaps loses, and conserves the time of each epoch exactly. The ratios of the
//! coarser scales are kept one by one, as many as fit in a bounded list; each is chosen so that the
//! shorter half comes out right whatever the ratios above made of the whole, lest errors add up.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::letters::{letter, numbers};

/// Bins of a ratio: an eighth of an octave near one, several octaves far from it.
pub const BINS: usize = 2 * HALF + 1;
const HALF: usize = 44;
/// Time classes: powers of four of the mean gap in nanoseconds.
pub const CLASSES: usize = 32;
/// Scales told apart; longer blocks are like the longest.
pub const SCALES: usize = 24;

/// Bins of each octave of ratios, as powers of two: most where halves are about alike, since the time of
/// a whole that is divided wrongly there moves most requests.
const STEPS: [u32; 16] = [3, 3, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0];
/// Octaves to a bin beyond.
const WIDE: usize = 5;

/// The bin of the ratio `(first + 1) / (second + 1)`.
#[inline]
fn bin(first: u64, second: u64) -> usize {
    /// The first bin of each octave.
    const BEGINS: [usize; STEPS.len() + 1] = {
        let mut begins = [0; STEPS.len() + 1];
        let mut power = 0;
        while power < STEPS.len() {
            begins[power + 1] = begins[power] + (1 << STEPS[power]);
            power += 1;
        }
        begins
    };
    let (first, second) = (first as f64 + 1.0, second as f64 + 1.0);
    let ratio = if first < second { second / first } else { first / second };
    // From its exponent and mantissa: a logarithm would take longer than all the rest.
    let power = (ratio.to_bits() >> 52) as usize - 1023;
    let step = match STEPS.get(power) {
        Some(&steps) => {
            let mantissa = ratio.to_bits() & (u64::MAX >> 12);
            BEGINS[power] + (mantissa >> (52 - steps)) as usize
        }
        None => BEGINS[STEPS.len()] + (power - STEPS.len()) / WIDE,
    };
    let step = step.min(HALF);
    if first < second { HALF - step } else { HALF + step }
}

/// The lower and upper logarithm of each bin.
static BOUNDS: LazyLock<[(f64, f64); BINS]> = LazyLock::new(|| {
    let narrow = (0..).zip(STEPS).flat_map(|(power, steps)| {
        let count = 1u32 << steps;
        (0..count).map(move |at| f64::from(power) + (1.0 + f64::from(at) / f64::from(count)).log2())
    });
    let wide = (0..).map(|at| (STEPS.len() + WIDE * at) as f64);
    let edges: Vec<f64> = narrow.chain(wide).take(HALF + 2).collect();
    std::array::from_fn(|bin| match (bin.abs_diff(HALF), bin < HALF) {
        (0, _) => (-edges[1], edges[1]),
        (step, true) => (-edges[step + 1], -edges[step]),
        (step, false) => (edges[step], edges[step + 1]),
    })
});

/// The lower and upper logarithm of a bin.
#[inline]
fn bounds(bin: usize) -> (f64, f64) {
    BOUNDS[bin.min(BINS - 1)]
}

/// Two to a power of up to some hundreds, within a ten-millionth: quicker than the library's, and the same
/// on every machine.
#[inline]
fn power_of_two(power: f64) -> f64 {
    // Of the series of `exp(power * ln 2)`.
    const TERMS: [f64; 6] = [
        1.540_353_039e-4,
        1.333_355_814_6e-3,
        9.618_129_107_6e-3,
        5.550_410_866_48e-2,
        0.240_226_506_959,
        std::f64::consts::LN_2,
    ];
    let whole = (power + 1024.5) as u64;
    let rest = power - (whole as f64 - 1024.0);
    let sum = TERMS.iter().fold(0.0, |sum, term| (sum + term) * rest);
    (1.0 + sum) * f64::from_bits((whole - 1) << 52)
}

/// The class of blocks of `2^scale` requests that last `ns`.
#[inline]
fn class(ns: u64, scale: usize) -> usize {
    let mean = ns >> scale.min(63);
    ((64 - mean.leading_zeros()) / 2).min(CLASSES as u32 - 1) as usize
}

/// How blocks of one scale and time class divide: counts by bin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Split {
    /// `log2` of the block's requests.
    pub scale: u8,
    /// Class of its mean gap.
    pub class: u8,
    /// The first bin that is counted.
    pub first: u8,
    /// Counts of the bins from there on.
    pub counts: Vec<u32>,
}

/// How all blocks of one scale divide, in their order: a bin each.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Division {
    /// `log2` of a block's requests.
    pub scale: u8,
    /// The bin of each whole block, a letter each.
    pub bins: String,
}

/// When requests come: what a [`Collector`] found.
#[derive(Clone, Debug)]
pub struct Found {
    /// `log2` of the gaps in an epoch.
    pub epoch_scale: u8,
    /// Durations of epochs; the last may hold fewer gaps.
    pub epochs_ns: Vec<u64>,
    /// Coarse scales, each block for itself.
    pub divisions: Vec<Division>,
    /// Fine scales, by what blocks of some duration do.
    pub splits: Vec<Split>,
}

/// Collects splits and the durations of epochs, in one pass.
#[derive(Clone, Debug)]
pub struct Collector {
    /// Duration of the waiting block of each scale.
    waiting: [Option<u64>; 64],
    counts: Vec<u32>,
    /// Durations of the halves of all blocks of each scale from `known_from` on.
    known: Vec<Vec<[u64; 2]>>,
    known_from: usize,
    known_max: usize,
    /// Durations of blocks of `2^epoch_scale` gaps.
    epochs: Vec<u64>,
    epochs_max: usize,
    epoch_scale: u32,
    /// The epoch that is not whole.
    partial_ns: u64,
    partial: u64,
}

impl Collector {
    /// For at most `epochs_max` epochs and `known_max` blocks that are kept one by one.
    pub fn new(epochs_max: usize, known_max: usize) -> Collector {
        Collector {
            waiting: [None; 64],
            counts: vec![0; SCALES * CLASSES * BINS],
            known: vec![Vec::new(); SCALES],
            known_from: 1,
            known_max,
            epochs: Vec::new(),
            epochs_max,
            epoch_scale: 0,
            partial_ns: 0,
            partial: 0,
        }
    }

    /// Takes the time since the request before.
    #[inline]
    pub fn add(&mut self, gap_ns: u64) {
        self.divide(gap_ns);
        self.partial_ns = self.partial_ns.saturating_add(gap_ns);
        self.partial += 1;
        if self.partial == 1 << self.epoch_scale {
            self.epochs.push(self.partial_ns);
            (self.partial_ns, self.partial) = (0, 0);
            if self.epochs.len() == self.epochs_max {
                self.coarsen();
            }
            self.forget();
        }
    }

    #[inline]
    fn divide(&mut self, gap_ns: u64) {
        let mut ns = gap_ns;
        for scale in 0..63 {
            let Some(before) = self.waiting[scale].take() else {
                self.waiting[scale] = Some(ns);
                return;
            };
            let whole = before.saturating_add(ns);
            let row = (scale + 1).min(SCALES - 1) * CLASSES + class(whole, scale + 1);
            let bin = bin(before, ns);
            self.counts[row * BINS + bin] += 1;
            if (self.known_from..SCALES).contains(&(scale + 1)) {
                self.known[scale + 1].push([before, ns]);
            }
            ns = whole;
        }
    }

    /// Forgets the single blocks of the finest scales, until those of epochs are not too many.
    fn forget(&mut self) {
        let end = (self.epoch_scale as usize + 1).clamp(self.known_from, SCALES);
        while self.known[self.known_from..end].iter().map(Vec::len).sum::<usize>() > self.known_max
        {
            self.known[self.known_from] = Vec::new();
            self.known_from += 1;
        }
    }

    fn coarsen(&mut self) {
        self.epochs = self.epochs.chunks(2).map(|pair| pair.iter().sum()).collect();
        self.epoch_scale += 1;
    }

    /// What was found.
    pub fn finish(mut self) -> Found {
        if self.partial > 0 {
            self.epochs.push(self.partial_ns);
        }
        self.forget();
        let scales = (self.epoch_scale as usize + 1).min(SCALES);
        let known_from = self.known_from.min(scales);
        let mut splits = Vec::new();
        for scale in 1..known_from {
            for class in 0..CLASSES {
                let row = (scale * CLASSES + class) * BINS;
                let counts = &self.counts[row..row + BINS];
                let Some(first) = counts.iter().position(|&count| count > 0) else { continue };
                let end = counts.iter().rposition(|&count| count > 0).unwrap_or(first) + 1;
                splits.push(Split {
                    scale: scale as u8,
                    class: class as u8,
                    first: first as u8,
                    counts: counts[first..end].to_vec(),
                });
            }
        }
        let mut told = Told { halves: self.known, known_from, bins: vec![Vec::new(); scales] };
        let each = 1u64 << self.epoch_scale;
        for (number, &ns) in (1..).zip(&self.epochs) {
            let is_last = number == self.epochs.len();
            let requests = if is_last && self.partial > 0 { self.partial } else { each };
            told.divide(self.epoch_scale as usize, requests, ns);
        }
        let letters = |bins: Vec<usize>| bins.into_iter().map(letter).collect();
        let divisions = (0u8..)
            .zip(told.bins)
            .skip(known_from)
            .map(|(scale, bins)| Division { scale, bins: letters(bins) })
            .collect();
        let epoch_scale = self.epoch_scale as u8;
        Found { epoch_scale, epochs_ns: self.epochs, divisions, splits }
    }
}

/// Bins of single blocks, as drawing will use them.
struct Told {
    halves: Vec<Vec<[u64; 2]>>,
    known_from: usize,
    bins: Vec<Vec<usize>>,
}

impl Told {
    /// Goes on with a block of at most `2^scale` requests that drawing makes `ns` long.
    fn divide(&mut self, scale: usize, requests: u64, ns: u64) {
        if scale < self.known_from.max(1) {
            return;
        }
        let half = 1u64 << (scale - 1);
        if requests <= half {
            return self.divide(scale - 1, requests, ns);
        }
        let first = match requests == 2 * half {
            true => self.block(scale, ns),
            false => by_count(ns, half, requests),
        };
        self.divide(scale - 1, half, first);
        self.divide(scale - 1, requests - half, ns - first);
    }

    /// The first half of the next whole block.
    fn block(&mut self, scale: usize, ns: u64) -> u64 {
        let bins = &mut self.bins[scale];
        let [first, second] = self.halves[scale][bins.len()];
        // The shorter half, as long as it was.
        let bin = match first <= second {
            true => bin(first, ns.saturating_sub(first)),
            false => bin(ns.saturating_sub(second), second),
        };
        bins.push(bin);
        part(ns, bin, 0.5)
    }
}

/// The first half of a block that lasts `ns`, `share` of the way through a bin of ratios.
#[inline]
fn part(ns: u64, bin: usize, share: f64) -> u64 {
    let (low, high) = bounds(bin);
    let ratio = power_of_two(low + (high - low) * share);
    let whole = ns as f64 + 2.0;
    let first = whole * ratio / (1.0 + ratio) - 1.0;
    ((first.max(0.0) + 0.5) as u64).min(ns)
}

/// What is over of an epoch that is not whole is divided by its count.
#[inline]
fn by_count(ns: u64, first: u64, requests: u64) -> u64 {
    (ns as f64 * first as f64 / requests as f64) as u64
}

/// Draws gaps.
#[derive(Clone, Debug)]
pub struct Cascade {
    /// First bin and cumulative counts of each scale and class; empty where nothing was seen.
    rows: Vec<(usize, Vec<u64>)>,
    /// Bins of single blocks by scale, and how many were used.
    known: Vec<(Vec<u8>, usize)>,
    /// Blocks still to be divided: scale, requests, duration.
    stack: Vec<(u8, u64, u64)>,
}

impl Cascade {
    /// From what was seen.
    pub fn new(splits: &[Split], divisions: &[Division]) -> Cascade {
        let mut rows = vec![(0, Vec::new()); SCALES * CLASSES];
        for split in splits {
            let sums = split.counts.iter().scan(0, |sum, &count| {
                *sum += u64::from(count);
                Some(*sum)
            });
            rows[usize::from(split.scale) * CLASSES + usize::from(split.class)] =
                (usize::from(split.first), sums.collect());
        }
        let mut known = vec![(Vec::new(), 0); SCALES];
        for division in divisions {
            let bins = numbers(&division.bins).unwrap_or_default();
            known[usize::from(division.scale)].0 = bins.iter().map(|&bin| bin as u8).collect();
        }
        Cascade { rows, known, stack: Vec::new() }
    }

    /// Begins again with the first epoch.
    pub fn restart(&mut self) {
        self.known.iter_mut().for_each(|known| known.1 = 0);
    }

    /// Begins an epoch of `requests` that lasts `ns`.
    pub fn begin(&mut self, requests: u64, ns: u64) {
        self.stack.clear();
        if requests > 0 {
            self.stack.push((requests.next_power_of_two().ilog2() as u8, requests, ns));
        }
    }

    /// The next gap of the epoch; `uniform` answers numbers below one.
    #[inline]
    pub fn next(&mut self, mut uniform: impl FnMut() -> f64) -> Option<u64> {
        let (mut scale, mut requests, mut ns) = self.stack.pop()?;
        while requests > 1 {
            let half = 1u64 << (scale - 1);
            scale -= 1;
            if requests <= half {
                continue;
            }
            let first = if requests == 2 * half {
                self.divide(scale + 1, ns, &mut uniform)
            } else {
                by_count(ns, half, requests)
            };
            self.stack.push((scale, requests - half, ns - first));
            (requests, ns) = (half, first);
        }
        Some(ns)
    }

    #[inline]
    fn divide(&mut self, scale: u8, ns: u64, uniform: &mut impl FnMut() -> f64) -> u64 {
        let scale = usize::from(scale).min(SCALES - 1);
        let (bins, used) = &mut self.known[scale];
        let known = bins.get(*used).copied();
        *used += usize::from(known.is_some());
        if let Some(bin) = known {
            return part(ns, bin.into(), 0.5);
        }
        if ns == 0 {
            return 0;
        }
        match self.likely(scale, ns, uniform) {
            Some(bin) => part(ns, bin, uniform()),
            None => ns / 2,
        }
    }

    /// A bin as blocks of this scale and duration have it.
    #[inline]
    fn likely(&self, scale: usize, ns: u64, uniform: &mut impl FnMut() -> f64) -> Option<usize> {
        let (first, sums) = &self.rows[scale * CLASSES + class(ns, scale)];
        let drawn = (uniform() * *sums.last()? as f64) as u64;
        Some(first + sums.partition_point(|&below| below <= drawn))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn bins_hold_their_ratios() {
        for (first, second) in [(0, 0), (1, 0), (0, 1), (7, 300), (1 << 50, 3), (0, u64::MAX >> 1)]
        {
            let (low, high) = bounds(bin(first, second));
            let log = ((first as f64 + 1.0) / (second as f64 + 1.0)).log2();
            let capped = log.clamp(-36.0, 36.0);
            assert!(low - 1e-9 <= capped && capped <= high + 1e-9, "{first} {second}");
        }
    }

    #[test]
    fn powers_are_those_of_the_library() {
        for n in -4000..4000 {
            let power = f64::from(n) / 100.0;
            assert!((power_of_two(power) / power.exp2() - 1.0).abs() < 2e-7, "{power}");
        }
    }

    #[test]
    fn an_epoch_keeps_its_time_and_count() {
        for known_max in [0, 40, 10_000] {
            keeps_time_and_count(known_max);
        }
    }

    fn keeps_time_and_count(known_max: usize) {
        let mut collector = Collector::new(8, known_max);
        (0..1000u64).for_each(|n| collector.add(n % 7 * 1000));
        let Found { epoch_scale, epochs_ns, divisions, splits } = collector.finish();
        assert_eq!((epoch_scale, epochs_ns.len()), (7, 8));
        assert_eq!(epochs_ns.iter().sum::<u64>(), (0..1000u64).map(|n| n % 7 * 1000).sum::<u64>());
        let kept: usize = divisions.iter().map(|division| division.bins.len()).sum();
        let expected = BTreeMap::from([(0, 0), (40, 15 + 7), (10_000, 990)]);
        assert_eq!(kept, expected[&known_max]);
        assert_eq!(splits.is_empty(), known_max == 10_000);
        let mut cascade = Cascade::new(&splits, &divisions);
        let mut state = 1u64;
        for requests in [128, 104, 1, 3] {
            cascade.begin(requests, 1_000_000);
            let mut gaps = Vec::new();
            while let Some(gap) = cascade.next(|| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 11) as f64 / (1u64 << 53) as f64
            }) {
                gaps.push(gap);
            }
            assert_eq!((gaps.len() as u64, gaps.iter().sum::<u64>()), (requests, 1_000_000));
        }
    }

    #[test]
    fn the_slow_half_stays_where_it_was_and_comes_again() {
        let mut collector = Collector::new(2, 10_000);
        (0..128u64).for_each(|n| collector.add(if n % 8 < 4 { 1_000 } else { 1_000_000 }));
        let Found { epochs_ns, divisions, splits, .. } = collector.finish();
        let mut cascade = Cascade::new(&splits, &divisions);
        for _ in 0..2 {
            cascade.restart();
            cascade.begin(128, epochs_ns.iter().sum());
            let gaps: Vec<u64> = std::iter::from_fn(|| cascade.next(|| 0.5)).collect();
            let fast = gaps.chunks(8).map(|block| block[..4].iter().sum::<u64>()).sum::<u64>();
            assert!(gaps.len() == 128 && fast * 100 < gaps.iter().sum(), "{fast} of {gaps:?}");
        }
    }
}
