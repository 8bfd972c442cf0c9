//! Detects the step of a clock whose timestamps are near a grid but not exactly on it, either
//! because the step is not a whole number of the trace's units (6.5536 ms in microseconds), or
//! because of noise.
//!
//! Requests less than a tolerance, the *slack*, apart count as one tick. The clock has a step if
//! all ticks are at least 4 slacks apart and 99 % of the distances between ticks are whole
//! multiples of one step. The step is estimated from the first [`DISTANCES_MAX`] distances; the
//! minimum distance is taken over all ticks.

use forebay_core::Nanos;

/// The maximum number of distances between ticks that are stored.
const DISTANCES_MAX: usize = 4096;

/// The minimum number of distances for a common step not to be a coincidence.
const DISTANCES_LEAST: usize = 20;

/// The minimum distance between ticks, in units of the slack.
const APART: u64 = 4;

/// The percentage of distances that must be whole multiples of the step.
const WHOLE_PERCENT: usize = 99;

/// Counters that are updated while arrivals are scanned.
pub(super) struct Ticks {
    slack: Nanos,
    count: u64,
    begins: Option<Nanos>,
    least: Nanos,
    distances: Vec<u64>,
}

impl Ticks {
    /// Creates empty counters. Requests that arrive less than `slack` after the first request of a
    /// tick belong to that tick.
    pub(super) fn new(slack: Nanos) -> Ticks {
        Ticks { slack, count: 0, begins: None, least: Nanos::MAX, distances: Vec::new() }
    }

    pub(super) fn add(&mut self, at: Nanos) {
        if let Some(begins) = self.begins {
            let distance = at - begins;
            if distance < self.slack {
                return;
            }
            self.least = self.least.min(distance);
            if self.distances.len() < DISTANCES_MAX {
                self.distances.push(distance.0);
            }
        }
        self.begins = Some(at);
        self.count += 1;
    }

    /// Returns the number of ticks.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the clock's step, if it has one.
    pub(super) fn step(&self) -> Option<Nanos> {
        let apart = self.slack.0 * APART;
        if self.least.0 < apart || self.distances.len() < DISTANCES_LEAST {
            return None;
        }
        let mut distances = self.distances.clone();
        distances.sort_unstable();
        let mut step = distances[0] as f64;
        // Longer distances determine the step more precisely, so the estimate is refined from the
        // shortest distance to the longest.
        for distance in distances.iter().map(|distance| *distance as f64) {
            let steps = (distance / step).round();
            if (distance - steps * step).abs() < step / 10.0 {
                step = distance / steps;
            }
        }
        // A single distance is affected by noise; averaged over all distances, the noise per step
        // almost vanishes.
        let steps: f64 = distances.iter().map(|distance| (*distance as f64 / step).round()).sum();
        step = distances.iter().map(|distance| *distance as f64).sum::<f64>() / steps.max(1.0);
        // Random distances are rarely this close to a multiple of the step.
        let near = (self.slack.0 as f64).min(step / 8.0);
        let is_whole = |distance: &&u64| {
            let distance = **distance as f64;
            (distance - (distance / step).round() * step).abs() <= near
        };
        let whole = distances.iter().filter(is_whole).count();
        (whole * 100 >= distances.len() * WHOLE_PERCENT).then_some(Nanos(step.round() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(slack_us: u64, at_us: impl Iterator<Item = u64>) -> Option<Nanos> {
        let mut ticks = Ticks::new(Nanos::from_micros(slack_us));
        at_us.for_each(|at| ticks.add(Nanos::from_micros(at)));
        ticks.step()
    }

    #[test]
    fn a_step_that_is_no_whole_number_of_units_is_found() {
        // The step is 6553.6 µs, timestamps are whole microseconds, and two of three ticks have a
        // request.
        let ticks = (0..300u64).filter(|tick| tick % 3 != 1).map(|tick| tick * 65_536 / 10);
        let found = step(600, ticks).unwrap();
        assert!((6_553_500..6_553_700).contains(&found.0), "{found:?}");
    }

    #[test]
    fn a_step_under_noise_is_named_right() {
        for step_ms in [250u64, 500, 700, 1000] {
            let noisy = (0..400u64).map(|k| k / 4 * step_ms * 1000 + k % 4 * 1300 + k * 7919 % 900);
            let found = step(10_000, noisy).unwrap().as_millis_f64();
            assert!((found / step_ms as f64 - 1.0).abs() < 0.01, "{step_ms}: {found}");
        }
    }

    #[test]
    fn times_on_no_grid_have_no_step() {
        // The ticks are far apart, but at irregular distances.
        assert_eq!(step(600, (0..100u64).map(|k| k * 20_000 + k * k * 7919 % 9_000)), None);
        // All but one tick in fifty lie on a grid.
        let some = (0..100u64).map(|k| k * 10_000 + if k % 50 == 7 { 4_000 } else { 0 });
        assert_eq!(step(600, some), None);
        // The ticks lie on a grid that is as fine as the tolerance allows, or slightly finer.
        assert_eq!(step(600, (0..100u64).map(|k| k * 2_399)), None);
        assert!(step(600, (0..100u64).map(|k| k * 2_400)).is_some());
        // Twenty distances, the minimum, take twenty-one ticks.
        assert_eq!(step(600, (0..20u64).map(|k| k * 10_000)), None);
        assert!(step(600, (0..21u64).map(|k| k * 10_000)).is_some());
    }
}
