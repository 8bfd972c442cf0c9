//! Resamples the first trace, and computes how far samples are from the whole trace.

use super::dispersion::{BINS_MS, dispersion};
use super::{
    Apart, Counts, Measure, SIZE_DIGITS, Sample, TIME_DIGITS, apart, interval, spread,
    total_variation,
};

/// The distances between a sample and the whole first trace.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Apartness {
    pub(super) sizes: Apart,
    pub(super) gaps: Option<Apart>,
    pub(super) mrc: f64,
    pub(super) heat: f64,
}

/// The first trace, as the reference that samples are compared with.
pub(super) struct Against {
    pub(super) measures: Vec<Measure>,
    pub(super) whole: Sample,
    pub(super) cache_sizes: usize,
    pub(super) miss_ratios: Vec<f64>,
}

impl Against {
    pub(super) fn apart(&self, other: &Sample) -> Apartness {
        let values = |counts: &Counts, digits| counts.values(digits);
        let gaps = |sample: &Sample| values(&sample.gaps, TIME_DIGITS);
        let sizes = |sample: &Sample| values(&sample.sizes, SIZE_DIGITS);
        let ratios = other.miss_ratios(self.cache_sizes);
        let errors = self.miss_ratios.iter().zip(&ratios).map(|(a, b)| (a - b).abs());
        Apartness {
            sizes: apart(&sizes(&self.whole), &sizes(other)).unwrap_or_default(),
            gaps: apart(&gaps(&self.whole), &gaps(other)),
            mrc: errors.sum::<f64>() / self.cache_sizes.max(1) as f64,
            heat: total_variation(&self.whole.heat(), &other.heat()),
        }
    }

    /// Returns the features of a sample, followed by its indices of dispersion.
    pub(super) fn figures(&self, sample: &Sample, side: usize) -> Vec<Option<f64>> {
        let features = self.measures.iter().map(|measure| measure.of(sample, side));
        let scale = |scale| sample.bins.as_ref().and_then(|bins| dispersion(bins, scale));
        features.chain((0..BINS_MS.len()).map(scale)).collect()
    }
}

/// The figures of all resamples of the first trace, and their distances from the whole trace.
#[derive(Default)]
pub(super) struct Resamples {
    pub(super) figures: Vec<Vec<Option<f64>>>,
    pub(super) apart: Vec<Apartness>,
    pub(super) level: f64,
    /// How much farther than a resample a second recording may be, from [`two_samples`].
    pub(super) two_samples: f64,
}

/// Returns by how much the difference of two recordings of one process exceeds that of a resample
/// from the first recording, given the number of requests of each. The variance of a sample is
/// inversely proportional to its length. A resample has the variance of the first recording only;
/// the difference of two independent recordings has the sum of both variances.
pub(super) fn two_samples([a, b]: [u64; 2]) -> f64 {
    (1.0 + a as f64 / b.max(1) as f64).sqrt().min(TWO_SAMPLES_MAX)
}

/// The maximum of [`two_samples`]: a second trace of an eighth of the first one's length.
const TWO_SAMPLES_MAX: f64 = 3.0;

impl Resamples {
    /// Returns the interval in which a second recording's figure is expected, if the first one's
    /// is `whole`.
    pub(super) fn interval(&self, figure: usize, whole: f64) -> Option<(f64, f64)> {
        let drawn = self.figures.iter().filter_map(|drawn| drawn[figure]).collect();
        Some(spread(interval(drawn, self.level)?, whole, self.two_samples))
    }

    /// Returns the value of `of` that a second recording is expected to stay below, with
    /// probability `level`.
    pub(super) fn itself(&self, of: impl Fn(&Apartness) -> Option<f64>) -> Option<f64> {
        let drawn = self.apart.iter().filter_map(of).collect();
        // An interval excludes equal shares at both ends. Only its upper end is used here, so
        // compute it at a lower level.
        interval(drawn, 2.0 * self.level - 1.0).map(|(_, high)| high * self.two_samples)
    }
}
