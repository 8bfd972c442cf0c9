//! Whether a trace's times say how its requests met at the disk. Where they do not, whatever a
//! simulation says of schedulers, and whatever a promise of time costs, comes from made-up times:
//! `advise` runs no simulation and `plan` gives no price.

use forebay_core::Nanos;

use crate::error::Error;
use crate::input::Input;
use crate::quantities::{millis, seconds};

/// A clock that steps by less tells requests apart about as well as a disk does.
const STEP_FINE: Nanos = Nanos::from_millis(2);

/// A clock that steps by more than a disk takes for ten requests hides how they came.
const STEP_MAX: Nanos = Nanos::from_millis(100);

/// With fewer requests to a step of the clock its steps hide little.
const PER_STEP_MAX: f64 = 2.0;

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
    },
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
        let (mut count, mut stamps, mut step, mut last) = (0u64, 0u64, 0u64, None);
        for at in arrivals {
            count += 1;
            if last != Some(at) {
                stamps += 1;
                step = common_divisor(step, at.0);
                last = Some(at);
            }
        }
        let per_stamp = count as f64 / stamps.max(1) as f64;
        match Nanos(step) {
            Nanos::ZERO if count > 1 => Times::Same,
            step if step >= STEP_FINE && per_stamp >= PER_STEP_MAX => {
                Times::Coarse { step, per_stamp }
            }
            _ => Times::Usable,
        }
    }

    /// Why nothing can be said; none where it can.
    pub(crate) fn why_not(self) -> Option<String> {
        Some(match self {
            Times::Usable => return None,
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

    /// What a clock hides that is fine enough to go by.
    pub(crate) fn caution(self) -> Option<String> {
        let told = self.told().filter(|_| self.why_not().is_none())?;
        Some(format!("Take care: {told}, so they queue more than they did."))
    }

    fn told(self) -> Option<String> {
        let Times::Coarse { step, per_stamp } = self else { return None };
        let step = match step.as_millis_f64() {
            ms if ms < 1000.0 => millis(ms),
            ms => seconds(ms / 1e3),
        };
        Some(format!(
            "the trace's clock steps by {step}, and {per_stamp:.0} requests share a step on average: \
             replayed, they all come at once"
        ))
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
        assert_eq!(among(&[0, 0, 0, 2000, 2000, 3000]), Times::Coarse { step, per_stamp: 2.0 });
        // Whole seconds, but one request to each: rare requests, not a poor clock.
        assert_eq!(among(&[0, 1000, 2000, 5000]), Times::Usable);
        // Steps of 5 ms hide a little, which is told and no more.
        let fine = among(&[0, 0, 0, 1000, 1000, 1005]);
        assert!(fine.why_not().is_none() && fine.caution().is_some());
        assert_eq!(among(&[0, 0, 1000, 1000, 1005]), Times::Usable);
        assert!(
            Times::Coarse { step, per_stamp: 15.8 }.why_not().unwrap().contains("1.0 s, and 16")
        );
        assert_eq!((Times::Usable.why_not(), Times::Usable.caution()), (None, None));
        let ticks = among(&[0, 0, 0, 20, 20, 20, 30, 30]);
        assert!(ticks.why_not().is_none());
        assert!(ticks.caution().unwrap().contains("steps by 10.00 ms, and 3 requests"));
    }
}
