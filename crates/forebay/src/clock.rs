//! Whether a trace's times say how its requests met at the disk. Where they do not, whatever a
//! simulation says of schedulers, and whatever a promise of time costs, comes from made-up times:
//! `advise` runs no simulation and `plan` gives no price.

use forebay_core::Nanos;

use crate::error::Error;
use crate::input::Input;
use crate::quantities::{millis, percent, seconds};

/// A clock that steps by less tells requests apart about as well as a disk does.
const STEP_FINE: Nanos = Nanos::from_millis(2);

/// A clock that steps by more than a disk takes for ten requests hides how they came.
const STEP_MAX: Nanos = Nanos::from_millis(100);

/// With fewer requests to a step of the clock its steps hide little.
const PER_STEP_MAX: f64 = 2.0;

/// So many requests of one stamp are no coincidence on a clock that is fine.
const SHARED_LEAST: u64 = 4;

/// From this share of requests on that bear shared stamps on a grid the clock is coarse, though others are not on it.
const SHARE_LEAST: f64 = 0.5;

/// Steps that clocks have where some noise hides it.
const STEPS_MS: [u64; 4] = [60_000, 10_000, 1000, 100];

/// Parts of a step: requests that crowd into two neighbours in each step hardly came so.
const PHASES: usize = 200;

/// Steps with requests in them from which on crowding tells anything.
const STEPS_LEAST: u64 = 20;

/// What a trace's times are good for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Times {
    /// They tell when each request came.
    Usable,
    /// The source has none.
    None,
    /// All requests have the same.
    Same,
    /// The clock's steps are so long that many requests share one.
    Coarse {
        /// A step.
        step: Nanos,
        /// Requests to each stamp that occurs, on average.
        per_stamp: f64,
        /// The share of requests whose stamps are steps of it.
        share: f64,
    },
    /// Requests crowd at one place of each step: a coarse clock with some noise, or a load that a timer drives.
    Crowded {
        /// A step.
        step: Nanos,
        /// The share of requests that do.
        share: f64,
    },
}

/// What is kept of arrivals while they pass.
#[derive(Default)]
struct Seen {
    count: u64,
    stamps: u64,
    step: u64,
    last: Option<Nanos>,
    /// Requests of the last stamp.
    alike: u64,
    /// The last stamp that many share, what divides the differences of all of these, and requests on them.
    shared: Option<Nanos>,
    shared_stamps: u64,
    shared_step: u64,
    on_shared: u64,
    crowds: [Crowd; STEPS_MS.len()],
}

/// Where in a step requests come.
struct Crowd {
    phases: [u64; PHASES],
    /// Steps with requests in them, and the last of these.
    steps: u64,
    last: Option<u64>,
}

impl Default for Crowd {
    fn default() -> Crowd {
        Crowd { phases: [0; PHASES], steps: 0, last: None }
    }
}

impl Crowd {
    fn add(&mut self, at: Nanos, step: u64) {
        self.phases[(at.0 % step * PHASES as u64 / step) as usize] += 1;
        if self.last != Some(at.0 / step) {
            self.last = Some(at.0 / step);
            self.steps += 1;
        }
    }

    /// The share of requests in the fullest two neighbours.
    fn share(&self) -> f64 {
        let count: u64 = self.phases.iter().sum();
        let both = |at: usize| self.phases[at] + self.phases[(at + 1) % PHASES];
        let most = (0..self.phases.len()).map(both).max().unwrap_or(0);
        most as f64 / count.max(1) as f64
    }
}

impl Seen {
    fn add(&mut self, at: Nanos) {
        self.count += 1;
        if self.last != Some(at) {
            self.end_of_stamp();
            self.stamps += 1;
            self.step = common_divisor(self.step, at.0);
            (self.last, self.alike) = (Some(at), 0);
        }
        self.alike += 1;
        for (crowd, ms) in self.crowds.iter_mut().zip(STEPS_MS) {
            crowd.add(at, Nanos::from_millis(ms).0);
        }
    }

    fn end_of_stamp(&mut self) {
        let Some(at) = self.last.filter(|_| self.alike >= SHARED_LEAST) else { return };
        if let Some(before) = self.shared.replace(at) {
            self.shared_step = common_divisor(self.shared_step, (at - before).0);
        }
        self.shared_stamps += 1;
        self.on_shared += self.alike;
    }

    fn times(mut self) -> Times {
        self.end_of_stamp();
        let per_stamp = self.count as f64 / self.stamps.max(1) as f64;
        let step = Nanos(self.step);
        if step == Nanos::ZERO && self.count > 1 {
            return Times::Same;
        }
        if step >= STEP_FINE && per_stamp >= PER_STEP_MAX {
            return Times::Coarse { step, per_stamp, share: 1.0 };
        }
        let share = self.on_shared as f64 / self.count.max(1) as f64;
        let (step, stamps) = (Nanos(self.shared_step), self.shared_stamps);
        if step >= STEP_FINE && stamps >= STEPS_LEAST && share >= SHARE_LEAST {
            let per_stamp = self.on_shared as f64 / stamps as f64;
            return Times::Coarse { step, per_stamp, share };
        }
        let each = self.crowds.iter().zip(STEPS_MS);
        let crowded = each.map(|(crowd, ms)| (crowd, crowd.share(), Nanos::from_millis(ms)));
        let mut crowded = crowded.filter(|(crowd, share, _)| {
            let per_step = self.count as f64 / crowd.steps.max(1) as f64;
            crowd.steps >= STEPS_LEAST && per_step >= PER_STEP_MAX && *share >= SHARE_LEAST
        });
        crowded.next().map_or(Times::Usable, |(_, share, step)| Times::Crowded { step, share })
    }
}

impl Times {
    /// Reads `input` once for them.
    pub(crate) fn of(input: &Input) -> Result<Times, Error> {
        if input.notes.is_timeless {
            return Ok(Times::None);
        }
        let records = input.records()?;
        let failed = records.failed();
        let times = Times::among(records.map(|record| record.at));
        match failed.take() {
            Some(error) => Err(error.into()),
            None => Ok(times),
        }
    }

    /// The same of `arrivals`, in order.
    pub(crate) fn among(arrivals: impl Iterator<Item = Nanos>) -> Times {
        let mut seen = Seen::default();
        arrivals.for_each(|at| seen.add(at));
        seen.times()
    }

    /// Why nothing can be said; none where it can.
    pub(crate) fn why_not(self) -> Option<String> {
        Some(match self {
            Times::Usable | Times::Crowded { .. } => return None,
            Times::Coarse { step, .. } if step < STEP_MAX => return None,
            Times::None => {
                "the trace has no arrival times, so which requests met at the disk is unknown"
                    .into()
            }
            Times::Same => {
                "all requests bear the same time, so which of them met at the disk is unknown"
                    .into()
            }
            coarse => format!("{}, which they did not", coarse.told()?),
        })
    }

    /// What a clock hides that is fine enough to go by, or may hide.
    pub(crate) fn caution(self) -> Option<String> {
        let told = self.told().filter(|_| self.why_not().is_none())?;
        Some(match self {
            Times::Crowded { .. } => format!("Take care: {told}."),
            _ => format!("Take care: {told}, so they queue more than they did."),
        })
    }

    fn told(self) -> Option<String> {
        let length = |step: Nanos| match step.as_millis_f64() {
            ms if ms < 1000.0 => millis(ms),
            ms => seconds(ms / 1e3),
        };
        match self {
            Times::Coarse { step, per_stamp, share } => {
                let most = match share {
                    1.0 => "the trace's clock steps".to_string(),
                    share => {
                        format!("for {} of the requests the trace's clock steps", percent(share))
                    }
                };
                Some(format!(
                    "{most} by {}, and {per_stamp:.0} requests share a step on average: replayed, they all come at \
                     once",
                    length(step)
                ))
            }
            Times::Crowded { step, share } => Some(format!(
                "{} of the requests come within the same hundredth of each {}. If a timer drives the load that is so; \
                 if the trace's clock is coarse and carries some noise, they came apart, and whatever is said here of \
                 queueing, tails and capacity is far too high",
                percent(share),
                length(step)
            )),
            _ => None,
        }
    }
}

fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_that_hide_how_requests_came() {
        let among = |ms: &[u64]| Times::among(ms.iter().map(|&ms| Nanos::from_millis(ms)));
        assert_eq!(among(&[0, 1, 1, 1, 1]), Times::Usable);
        assert_eq!(among(&[0, 0, 0]), Times::Same);
        assert_eq!(among(&[0]), Times::Usable);
        let step = Nanos::from_secs(1);
        assert_eq!(
            among(&[0, 0, 0, 2000, 2000, 3000]),
            Times::Coarse { step, per_stamp: 2.0, share: 1.0 }
        );
        // Whole seconds, but one request to each: rare requests, not a poor clock.
        assert_eq!(among(&[0, 1000, 2000, 5000]), Times::Usable);
        // Steps of 5 ms hide a little, which is told and no more.
        let fine = among(&[0, 0, 0, 1000, 1000, 1005]);
        assert!(fine.why_not().is_none() && fine.caution().is_some());
        assert_eq!(among(&[0, 0, 1000, 1000, 1005]), Times::Usable);
        assert!(
            Times::Coarse { step, per_stamp: 15.8, share: 1.0 }
                .why_not()
                .unwrap()
                .contains("1.0 s, and 16")
        );
        assert_eq!((Times::Usable.why_not(), Times::Usable.caution()), (None, None));
        let ticks = among(&[0, 0, 0, 20, 20, 20, 30, 30]);
        assert!(ticks.why_not().is_none());
        assert!(ticks.caution().unwrap().contains("steps by 10.00 ms, and 3 requests"));
    }

    /// 16 requests a second for 100 s, about evenly, as `clock` stamps the `index`th of them, which came at so many us.
    fn stamped(clock: impl Fn(u64, u64) -> u64) -> Times {
        let mut stamps: Vec<u64> =
            (0..1600).map(|index| clock(index, index * 62_500 + index * 7919 % 40_000)).collect();
        stamps.sort();
        Times::among(stamps.into_iter().map(Nanos::from_micros))
    }

    #[test]
    fn a_clock_that_is_coarse_in_part_is_found_out() {
        assert_eq!(stamped(|_, us| us), Times::Usable);
        let floor = |us: u64| us / 1_000_000 * 1_000_000;
        // One in ten has its own stamp.
        let in_part = stamped(|index, us| if index % 10 == 3 { us } else { floor(us) });
        let Times::Coarse { step, share, .. } = in_part else { panic!("{in_part:?}") };
        assert_eq!(step, Nanos::from_secs(1));
        assert!((0.88..0.92).contains(&share), "{share}");
        let why = in_part.why_not().unwrap();
        assert!(
            why.starts_with("for 90 % of the requests the trace's clock steps by 1.0 s"),
            "{why}"
        );
        // Six in ten have theirs: then most is told right.
        assert_eq!(stamped(|index, us| if index % 10 < 6 { us } else { floor(us) }), Times::Usable);
        // Half a millisecond of noise on whole seconds.
        let noisy = stamped(|index, us| floor(us) + index * 7919 % 500);
        assert_eq!(noisy, Times::Crowded { step: Nanos::from_secs(1), share: 1.0 });
        assert!(noisy.why_not().is_none());
        assert!(noisy.caution().unwrap().contains("100 % of the requests come within the same"));
        // Within a tenth of each second is no clock's doing.
        assert_eq!(stamped(|index, us| floor(us) + index * 7919 % 100_000), Times::Usable);
    }
}
