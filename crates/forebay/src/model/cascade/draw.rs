//! Drawing gaps from how stretches divide their time.

use super::super::base91::numbers;
use super::ratio::part;
use super::{CLASSES, Division, SCALES, Split, by_count, class};

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
