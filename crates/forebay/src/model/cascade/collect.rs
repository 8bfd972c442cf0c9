//! Collecting how stretches divide their time.

use super::super::base91::letter;
use super::ratio::{BINS, bin, part};
use super::{CLASSES, Division, Found, SCALES, Split, by_count, class};

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
