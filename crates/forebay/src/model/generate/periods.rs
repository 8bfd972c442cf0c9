//! Arrivals as the paper has them: each gap is drawn from the family of its transition, and intensity is
//! switched period by period.
//!
//! The paper leaves open how both meet. Here a gap is scaled by the time over the requests that are left
//! of the period, over the mean of the latest transitions: so each period has exactly its requests. A
//! gap that would leave the period is replaced by the first of what is left, spread at random. A period
//! begins anew where the one before ended.

use rand_distr::{Distribution, Exp, Gamma, Normal, Poisson};
use rustc_hash::FxHashMap;

use super::super::families::{Family, Gaps, SHARES};
use super::super::file::{Model, Part, Periods};
use super::super::state::Range;
use super::draw::Dice;

/// Over how many requests the mean of transitions is taken.
const LATEST: f64 = 64.0;

/// Draws inter-arrival times of a transition, in microseconds.
enum Drawer {
    Constant(f64),
    Normal(Normal<f64>),
    Exponential(Exp<f64>),
    /// In whole milliseconds.
    Poisson(Poisson<f64>),
    Gamma(Gamma<f64>),
    /// Quantiles, and the mean of what is beyond the last.
    Quantiles(Vec<f64>, f64),
}

impl Drawer {
    /// The drawer and its mean.
    fn new(gaps: &Gaps) -> (Drawer, f64) {
        let (mean, deviation) = (gaps.mean_us, gaps.deviation_us);
        let drawer = match gaps.family {
            Family::Constant => None,
            Family::Normal => Normal::new(mean, deviation).ok().map(Drawer::Normal),
            Family::Exponential => Exp::new(1.0 / mean).ok().map(Drawer::Exponential),
            Family::Poisson => Poisson::new(mean / 1e3).ok().map(Drawer::Poisson),
            Family::Gamma => {
                let variance = deviation * deviation;
                Gamma::new(mean * mean / variance, variance / mean).ok().map(Drawer::Gamma)
            }
            Family::Empirical => {
                let body = body_mean(&gaps.quantiles_us);
                let beyond = ((mean - body) / (1.0 - SHARES[SHARES.len() - 1])).max(0.0);
                return (Drawer::Quantiles(gaps.quantiles_us.clone(), beyond), mean.max(body));
            }
        };
        (drawer.unwrap_or(Drawer::Constant(mean)), mean)
    }

    #[inline]
    fn draw(&self, dice: &mut Dice) -> f64 {
        let us = match self {
            Drawer::Constant(us) => *us,
            Drawer::Normal(normal) => normal.sample(dice.source()),
            Drawer::Exponential(exponential) => exponential.sample(dice.source()),
            Drawer::Poisson(poisson) => poisson.sample(dice.source()) * 1e3,
            Drawer::Gamma(gamma) => gamma.sample(dice.source()),
            Drawer::Quantiles(quantiles, beyond) => quantile(quantiles, *beyond, dice),
        };
        if us.is_finite() { us.max(0.0) } else { 0.0 }
    }
}

/// A time between quantiles, evenly by its logarithm; beyond the last exponential.
fn quantile(quantiles: &[f64], beyond: f64, dice: &mut Dice) -> f64 {
    let share = dice.unit();
    let above = SHARES.partition_point(|&below| below <= share);
    if above == SHARES.len() {
        return quantiles[above - 1] - beyond * (1.0 - dice.unit()).ln();
    }
    let (low, from) = match above {
        0 => (0.0, 0.0),
        _ => (quantiles[above - 1], SHARES[above - 1]),
    };
    let (high, part) = (quantiles[above], (share - from) / (SHARES[above] - from));
    if low > 0.0 { low * (high / low).powf(part) } else { high * part }
}

/// The mean of [`quantile`] where nothing is beyond the last.
fn body_mean(quantiles: &[f64]) -> f64 {
    let (mut low, mut from, mut sum) = (0.0f64, 0.0, 0.0);
    for (&high, share) in quantiles.iter().zip(SHARES) {
        let ratio = high / low;
        let mean = if low > 0.0 && ratio > 1.0 + 1e-9 {
            (high - low) / ratio.ln()
        } else {
            (low + high) / 2.0
        };
        sum += mean * (share - from);
        (low, from) = (high, share);
    }
    sum + low * (1.0 - from)
}

/// Goes through the periods.
pub(super) struct PeriodClock {
    /// Those of transitions with their means, then one for what the model has none for.
    drawers: Vec<(Drawer, f64)>,
    /// By leaf before and leaf after.
    drawer_of: Vec<u32>,
    leaves: usize,
    /// Mean of the latest transitions.
    mean_us: f64,
    period_ns: u64,
    begin_ns: u64,
    end_ns: u64,
    requests: Vec<u64>,
    /// The period that comes next.
    period: usize,
    /// When this one ends, and its requests that are left.
    until: u64,
    left: u64,
    at: u64,
    /// When this cycle began.
    base: u64,
}

impl PeriodClock {
    /// Of a part of a model with these leaves.
    pub(super) fn new(
        periods: &Periods,
        (model, part): (&Model, &Part),
        leaves: &[Range],
    ) -> PeriodClock {
        let ns = |seconds: f64| (seconds * 1e9).round() as u64;
        let mut drawers: Vec<(Drawer, f64)> =
            part.transitions.iter().map(|t| Drawer::new(&t.inter_arrival)).collect();
        let means = part.transitions.iter().zip(&drawers);
        let mean_us: f64 = means.map(|(transition, drawer)| transition.share * drawer.1).sum();
        let unknown =
            Exp::new(1.0 / mean_us).map_or(Drawer::Constant(mean_us), Drawer::Exponential);
        drawers.push((unknown, mean_us));
        let begin_ns = ns(part.begin_s);
        PeriodClock {
            drawer_of: drawer_of(model, part, leaves),
            drawers,
            leaves: leaves.len(),
            mean_us,
            period_ns: ns(periods.period_s).max(1),
            begin_ns,
            end_ns: ns(periods.end_s),
            requests: periods.requests.clone(),
            period: periods.requests.len(),
            until: 0,
            left: 0,
            at: begin_ns,
            base: 0,
        }
    }

    /// The next gap, which leads from leaf to leaf.
    #[inline]
    pub(super) fn gap(&mut self, (from, to): (usize, usize), dice: &mut Dice) -> u64 {
        let before = self.at;
        let begins = self.left == 0 && self.begin_period();
        // The first of all is what times are counted from.
        if !begins {
            self.at = self.at.saturating_add(self.draw((from, to), dice));
        }
        self.left -= 1;
        self.at - before
    }

    fn draw(&mut self, (from, to): (usize, usize), dice: &mut Dice) -> u64 {
        let (drawer, mean_us) = &self.drawers[self.drawer_of[from * self.leaves + to] as usize];
        self.mean_us += (mean_us - self.mean_us) / LATEST;
        let times = if self.mean_us > 0.0 { drawer.draw(dice) / self.mean_us } else { 1.0 };
        let time_left = self.until.saturating_sub(self.at);
        let mut gap = time_left as f64 / self.left as f64 * times;
        if gap > time_left as f64 {
            gap = time_left as f64 * (1.0 - dice.unit().powf(1.0 / self.left as f64));
        }
        (gap as u64).min(time_left.saturating_sub(1))
    }

    /// Goes on with the next period that has requests; whether a cycle begins.
    fn begin_period(&mut self) -> bool {
        let next = self.requests.iter().skip(self.period).position(|&requests| requests > 0);
        let cycles = next.is_none();
        if cycles {
            self.base = self.at.saturating_sub(self.begin_ns);
            self.period = 0;
        }
        let first = || self.requests.iter().position(|&requests| requests > 0);
        self.period += next.or_else(first).unwrap_or(0);
        let begins = (self.period as u64).saturating_mul(self.period_ns);
        if !cycles {
            self.at = self.at.max(self.base.saturating_add(begins));
        }
        self.left = self.requests[self.period].max(1);
        self.period += 1;
        let ends = begins.saturating_add(self.period_ns).min(self.end_ns.saturating_add(1));
        self.until = self.base.saturating_add(ends);
        cycles
    }
}

/// The number of the transition from each leaf to each.
fn drawer_of(model: &Model, part: &Part, leaves: &[Range]) -> Vec<u32> {
    let known: FxHashMap<(Range, Range), u32> = part
        .transitions
        .iter()
        .zip(0..)
        .filter_map(|(t, number)| Some(((Range::parse(&t.from)?, Range::parse(&t.to)?), number)))
        .collect();
    let unknown = part.transitions.len() as u32;
    let number = |from: &Range, to: &Range| {
        known.get(&Range::transition(*from, *to, model.flat)).copied().unwrap_or(unknown)
    };
    let mut numbers = Vec::with_capacity(leaves.len() * leaves.len());
    for from in leaves {
        numbers.extend(leaves.iter().map(|to| number(from, to)));
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gaps(family: Family, mean_us: f64, deviation_us: f64, quantiles_us: Vec<f64>) -> Gaps {
        Gaps { family, mean_us, deviation_us, distance: 0.0, quantiles_us }
    }

    /// Mean and standard deviation of what is drawn.
    fn moments(gaps: &Gaps) -> (f64, f64) {
        let (mut dice, (drawer, mean)) = (Dice::new(3), Drawer::new(gaps));
        assert!((mean / gaps.mean_us - 1.0).abs() < 1e-9);
        let drawn: Vec<f64> = (0..50_000).map(|_| drawer.draw(&mut dice)).collect();
        let of = |power: i32| drawn.iter().map(|us| us.powi(power)).sum::<f64>() / 50_000.0;
        (of(1), (of(2) - of(1) * of(1)).max(0.0).sqrt())
    }

    #[test]
    fn each_family_is_drawn_with_its_moments() {
        for (family, mean, deviation) in [
            (Family::Constant, 500.0, 0.0),
            (Family::Normal, 500.0, 100.0),
            (Family::Exponential, 500.0, 500.0),
            (Family::Poisson, 4000.0, 2000.0),
            (Family::Gamma, 500.0, 900.0),
            (Family::Gamma, 500.0, 50.0),
        ] {
            let drawn = moments(&gaps(family, mean, deviation, Vec::new()));
            assert!((drawn.0 / mean - 1.0).abs() < 0.02, "{family:?}: {drawn:?}");
            assert!((drawn.1 - deviation).abs() <= 0.03 * deviation, "{family:?}: {drawn:?}");
        }
    }

    #[test]
    fn quantiles_are_drawn_between_and_their_mean_is_made_up_beyond() {
        let quantiles = vec![1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];
        let known = gaps(Family::Empirical, 50.0, 0.0, quantiles.clone());
        let (mean, _) = moments(&known);
        assert!((mean / 50.0 - 1.0).abs() < 0.05, "{mean}");
        let (mut dice, (drawer, _)) = (Dice::new(3), Drawer::new(&known));
        let drawn: Vec<f64> = (0..50_000).map(|_| drawer.draw(&mut dice)).collect();
        for (us, share) in quantiles.iter().zip(SHARES) {
            let below = drawn.iter().filter(|drawn| *drawn < us).count() as f64 / 50_000.0;
            assert!((below - share).abs() < 0.01, "{us}: {below}");
        }
    }
}
