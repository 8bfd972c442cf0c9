//! Computes the mean number of outstanding requests in each second.
//!
//! A request is outstanding from its submission to its completion. Memory is bounded: if a run
//! would have more than [`STEPS_MAX`] steps of one second, a step is two seconds long, then four,
//! and so on.

use forebay_core::Nanos;
use serde::Serialize;

/// The maximum number of steps that are stored; at one second each, they cover three days.
const STEPS_MAX: u64 = 1 << 18;

/// The total time for which requests are outstanding, by step.
#[derive(Clone, Debug)]
pub(super) struct Outstanding {
    step: Nanos,
    /// For each step, the total time for which requests are outstanding in only a part of the step.
    partly: Vec<u64>,
    /// For each step, by how many the requests that are outstanding for the whole step outnumber
    /// those of the previous step.
    wholly: Vec<i64>,
}

impl Default for Outstanding {
    fn default() -> Outstanding {
        let step = Nanos::from_secs(1);
        Outstanding { step, partly: Vec::new(), wholly: Vec::new() }
    }
}

impl Outstanding {
    /// Adds a request that was submitted at `from` and completed at `to`.
    pub(super) fn add(&mut self, from: Nanos, to: Nanos) {
        while to.0 / self.step.0 >= STEPS_MAX {
            self.lengthen();
        }
        let (first, last) = ((from.0 / self.step.0) as usize, (to.0 / self.step.0) as usize);
        if last >= self.partly.len() {
            self.partly.resize(last + 1, 0);
            self.wholly.resize(last + 1, 0);
        }
        if first == last {
            self.partly[first] += to.0 - from.0;
            return;
        }
        self.partly[first] += (first as u64 + 1) * self.step.0 - from.0;
        self.partly[last] += to.0 - last as u64 * self.step.0;
        self.wholly[first + 1] += 1;
        self.wholly[last] -= 1;
    }

    /// Yields for each step the total time for which requests are outstanding.
    fn times(&self) -> impl Iterator<Item = u64> {
        let mut under_way = 0i64;
        self.partly.iter().zip(&self.wholly).map(move |(partly, more)| {
            under_way += more;
            partly + under_way as u64 * self.step.0
        })
    }

    /// Doubles the length of the steps, which halves their number.
    fn lengthen(&mut self) {
        let times: Vec<u64> = self.times().collect();
        self.partly = times.chunks(2).map(|pair| pair.iter().sum()).collect();
        self.wholly = vec![0; self.partly.len()];
        self.step = self.step + self.step;
    }

    /// Returns a copy with steps of length `step`, which must not be shorter than the current
    /// steps.
    fn at(&self, step: Nanos) -> Outstanding {
        let mut longer = self.clone();
        while longer.step < step {
            longer.lengthen();
        }
        longer
    }
}

/// A comparison of the number of outstanding requests in each second between the recording and the
/// model. Seconds in which neither has outstanding requests are left out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OutstandingAnswer {
    /// The length of a step in seconds: one, or more for recordings longer than three days.
    pub step_s: f64,
    /// The number of steps in which a request is outstanding in the recording or in the model.
    pub steps: u64,
    /// The mean number of requests outstanding in the recording, over these steps.
    pub recorded_mean: f64,
    /// The mean number of requests outstanding in the model, over these steps.
    pub modelled_mean: f64,
    /// The mean absolute difference between the recording and the model, over these steps.
    pub mean_absolute_error: f64,
    /// Pearson's correlation between the recording and the model, over these steps; `None` if
    /// either is constant.
    pub correlation: Option<f64>,
}

impl OutstandingAnswer {
    /// Compares the model with the recording; `None` if no request was ever outstanding.
    pub(super) fn of(recorded: &Outstanding, modelled: &Outstanding) -> Option<OutstandingAnswer> {
        let step = recorded.step.max(modelled.step);
        let (recorded, modelled) = (recorded.at(step), modelled.at(step));
        let steps = recorded.partly.len().max(modelled.partly.len());
        let count = |time: u64| time as f64 / step.0 as f64;
        let both = |one: &Outstanding| -> Vec<f64> {
            one.times().map(count).chain(std::iter::repeat(0.0)).take(steps).collect()
        };
        let pairs: Vec<(f64, f64)> = both(&recorded).into_iter().zip(both(&modelled)).collect();
        let pairs: Vec<(f64, f64)> =
            pairs.into_iter().filter(|(was, is)| *was > 0.0 || *is > 0.0).collect();
        let mean = |of: &dyn Fn(&(f64, f64)) -> f64| {
            pairs.iter().map(of).sum::<f64>() / pairs.len().max(1) as f64
        };
        let (was, is) = (mean(&|pair| pair.0), mean(&|pair| pair.1));
        let spread = mean(&|pair| (pair.0 - was).powi(2)) * mean(&|pair| (pair.1 - is).powi(2));
        let together = mean(&|pair| (pair.0 - was) * (pair.1 - is));
        (!pairs.is_empty()).then(|| OutstandingAnswer {
            step_s: step.as_secs_f64(),
            steps: pairs.len() as u64,
            recorded_mean: was,
            modelled_mean: is,
            mean_absolute_error: mean(&|pair| (pair.0 - pair.1).abs()),
            correlation: (spread > 0.0).then(|| (together / spread.sqrt()).clamp(-1.0, 1.0)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(requests: &[(u64, u64)]) -> Outstanding {
        let mut all = Outstanding::default();
        requests
            .iter()
            .for_each(|(from, to)| all.add(Nanos::from_millis(*from), Nanos::from_millis(*to)));
        all
    }

    #[test]
    fn each_second_has_the_time_that_requests_are_outstanding_in_it() {
        let all = of(&[(500, 700), (800, 3250), (2000, 3000), (900, 1000)]);
        let seconds = |all: &Outstanding| -> Vec<f64> {
            all.times().map(|time| time as f64 / all.step.0 as f64).collect()
        };
        assert_eq!(seconds(&all), [0.5, 1.0, 2.0, 0.25]);
        assert_eq!(seconds(&all.at(Nanos::from_secs(2))), [0.75, 1.125]);
        assert_eq!(seconds(&all.at(Nanos::from_secs(4))), [0.9375]);
    }

    #[test]
    fn a_long_recording_has_longer_steps_and_the_same_time() {
        let last_ms = STEPS_MAX * 5000;
        let all = of(&[(0, 1500), (last_ms - 500, last_ms)]);
        assert_eq!(all.step, Nanos::from_secs(8));
        assert!(all.partly.len() as u64 <= STEPS_MAX);
        assert_eq!(all.times().sum::<u64>(), Nanos::from_millis(2000).0);
    }

    #[test]
    fn the_model_is_held_against_the_recording_second_by_second() {
        // One request is outstanding in second 0, two are in second 1, none in second 2, and only
        // the model's in second 3.
        let recorded = of(&[(0, 2000), (1000, 2000)]);
        let modelled = of(&[(0, 2000), (1000, 2000), (3000, 3500)]);
        let answer = OutstandingAnswer::of(&recorded, &modelled).unwrap();
        assert_eq!((answer.steps, answer.step_s), (3, 1.0));
        assert_eq!((answer.recorded_mean, answer.modelled_mean), (1.0, 3.5 / 3.0));
        assert!((answer.mean_absolute_error - 0.5 / 3.0).abs() < 1e-12);
        let same = OutstandingAnswer::of(&recorded, &recorded).unwrap();
        assert_eq!((same.mean_absolute_error, same.correlation), (0.0, Some(1.0)));
        let level = OutstandingAnswer::of(&of(&[(0, 1000)]), &of(&[(0, 500)])).unwrap();
        assert_eq!((level.mean_absolute_error, level.correlation), (0.5, None));
        assert_eq!(OutstandingAnswer::of(&of(&[]), &of(&[])), None);
    }
}
