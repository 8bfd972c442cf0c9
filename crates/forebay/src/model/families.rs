//! Which distribution inter-arrival times follow: the families of the paper and what stands for any
//! other, a sketch of quantiles.
//!
//! All are fitted by their moments; the best is the simplest whose Kolmogorov-Smirnov distance to the
//! times themselves is within [`DISTANCE_SLACK`] of the least. Where even that is above [`DISTANCE_MAX`], quantiles are kept.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, DiscreteCDF, Exp, Gamma, Normal, Poisson};

use super::bins::{LOG_BINS, log_bin, log_bounds};

/// A family that is further off than this stands for nothing.
pub const DISTANCE_MAX: f64 = 0.1;
/// A simpler family may be this much further off.
pub const DISTANCE_SLACK: f64 = 0.01;
/// Shares whose quantiles are kept.
pub const SHARES: [f64; 7] = [0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99];

/// A family of distributions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// Always the same.
    Constant,
    /// Normal.
    Normal,
    /// Exponential: independent arrivals.
    Exponential,
    /// Poisson, in whole milliseconds as in the paper.
    Poisson,
    /// Gamma.
    Gamma,
    /// None of these: quantiles.
    Empirical,
}

/// How the inter-arrival times of a transition are distributed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gaps {
    /// The best family.
    pub family: Family,
    /// Mean.
    pub mean_us: f64,
    /// Standard deviation.
    pub deviation_us: f64,
    /// Kolmogorov-Smirnov distance of the best of the families that have parameters.
    pub distance: f64,
    /// Quantiles at [`SHARES`], where no family fits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quantiles_us: Vec<f64>,
}

/// Collects times.
#[derive(Clone, Debug)]
pub struct Sketch {
    bins: Vec<u32>,
    count: u64,
    sum: f64,
    squares: f64,
}

impl Default for Sketch {
    fn default() -> Sketch {
        Sketch { bins: vec![0; LOG_BINS], count: 0, sum: 0.0, squares: 0.0 }
    }
}

impl Sketch {
    /// Takes a time.
    #[inline]
    pub fn add(&mut self, ns: u64) {
        self.bins[log_bin(ns)] += 1;
        self.count += 1;
        self.sum += ns as f64;
        self.squares += (ns as f64).powi(2);
    }

    /// The best family for what was taken; quantiles if none fits and there may be some.
    pub fn best(&self, quantiles: bool) -> Gaps {
        let count = self.count.max(1) as f64;
        let mean = self.sum / count;
        let variance = (self.squares / count - mean * mean).max(0.0);
        let distances: Vec<(Family, f64)> = fitted(mean, variance)
            .iter()
            .map(|(family, below)| (*family, self.distance(below)))
            .collect();
        let least = distances.iter().map(|(_, distance)| *distance).fold(1.0, f64::min);
        // The simplest, they come in that order, that is about as near as any.
        let near = |(_, distance): &&(Family, f64)| *distance <= least + DISTANCE_SLACK;
        let (family, distance) =
            distances.iter().find(near).copied().unwrap_or((Family::Empirical, 1.0));
        let fits = family != Family::Empirical && (distance <= DISTANCE_MAX || !quantiles);
        Gaps {
            family: if fits { family } else { Family::Empirical },
            mean_us: mean / 1e3,
            deviation_us: variance.sqrt() / 1e3,
            distance,
            quantiles_us: if fits { Vec::new() } else { self.quantiles() },
        }
    }

    /// The largest difference between the share below a bound and what `below` says of it.
    fn distance(&self, below: &dyn Fn(f64) -> f64) -> f64 {
        let mut sum = 0u64;
        let mut largest = 0f64;
        for (bin, &count) in self.bins.iter().enumerate() {
            if count == 0 {
                continue;
            }
            let (low, width) = log_bounds(bin);
            let before = sum as f64 / self.count as f64;
            sum += u64::from(count);
            let after = sum as f64 / self.count as f64;
            let high = low as f64 + width as f64 - 1.0;
            // What lies within the bin is not known: only what its bounds rule out counts.
            largest = largest.max(after - below(high)).max(below(low as f64 - 0.5) - before);
        }
        largest.clamp(0.0, 1.0)
    }

    fn quantiles(&self) -> Vec<f64> {
        SHARES.iter().map(|share| self.quantile(*share) as f64 / 1e3).collect()
    }

    fn quantile(&self, share: f64) -> u64 {
        let rank = (share * self.count as f64).ceil() as u64;
        let mut sum = 0;
        let found = self.bins.iter().position(|&count| {
            sum += u64::from(count);
            sum >= rank.max(1)
        });
        log_bounds(found.unwrap_or(0)).0
    }
}

type Below = Box<dyn Fn(f64) -> f64>;

/// Each family of this mean and variance as its distribution function, in nanoseconds.
fn fitted(mean: f64, variance: f64) -> Vec<(Family, Below)> {
    let mut list: Vec<(Family, Below)> = Vec::new();
    // Within a thousandth: the bins are no finer.
    list.push((Family::Constant, Box::new(move |ns| if ns >= mean * 0.999 { 1.0 } else { 0.0 })));
    if mean <= 0.0 {
        return list;
    }
    if let Ok(exponential) = Exp::new(1.0 / mean) {
        list.push((Family::Exponential, Box::new(move |ns| exponential.cdf(ns.max(0.0)))));
    }
    if let Ok(poisson) = Poisson::new(mean / 1e6) {
        let below = move |ns: f64| if ns < 0.0 { 0.0 } else { poisson.cdf((ns / 1e6) as u64) };
        list.push((Family::Poisson, Box::new(below)));
    }
    if let Ok(normal) = Normal::new(mean, variance.sqrt()) {
        list.push((Family::Normal, Box::new(move |ns| normal.cdf(ns))));
    }
    if variance > 0.0
        && let Ok(gamma) = Gamma::new(mean * mean / variance, mean / variance)
    {
        list.push((Family::Gamma, Box::new(move |ns| gamma.cdf(ns.max(0.0)))));
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_distr::Distribution;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::SeedableRng;

    fn best(draw: impl Distribution<f64>) -> Gaps {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
        let mut sketch = Sketch::default();
        (0..20_000).for_each(|_| sketch.add(draw.sample(&mut rng).max(0.0) as u64));
        sketch.best(true)
    }

    #[test]
    fn each_family_is_recognised() {
        let mut constant = Sketch::default();
        (0..100).for_each(|_| constant.add(5_000_000));
        assert_eq!(constant.best(true).family, Family::Constant);
        let exponential = best(rand_distr::Exp::new(1e-6).unwrap());
        assert_eq!(exponential.family, Family::Exponential);
        assert!((exponential.mean_us / 1e3 - 1.0).abs() < 0.03, "{exponential:?}");
        assert_eq!(best(rand_distr::Normal::new(5e6, 1e6).unwrap()).family, Family::Normal);
        assert_eq!(best(rand_distr::Gamma::new(0.3, 1e7).unwrap()).family, Family::Gamma);
        // Near to exponential is not exponential.
        assert_eq!(best(rand_distr::Gamma::new(1.4, 1e6).unwrap()).family, Family::Gamma);
        let poisson = rand_distr::Poisson::new(4.0).unwrap();
        assert_eq!(best(poisson.map(|ms: f64| ms * 1e6)).family, Family::Poisson);
    }

    #[test]
    fn two_humps_are_kept_as_quantiles() {
        let mut sketch = Sketch::default();
        (0..100).for_each(|n| sketch.add(if n % 2 == 0 { 1_000 } else { 1_000_000_000 }));
        let gaps = sketch.best(true);
        assert_eq!((gaps.family, gaps.quantiles_us.len()), (Family::Empirical, SHARES.len()));
        assert_eq!(gaps.quantiles_us[0], 0.96);
    }
}
