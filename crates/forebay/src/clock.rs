//! Checks whether a trace's times show when its requests arrived at the disk. If they do not,
//! comparing schedulers or pricing promises in simulation would be meaningless, so `advise` does
//! not simulate and `plan` returns no price.
//!
//! How coarse a clock may be depends on the question. `advise` rejects steps of 100 ms and more.
//! `plan` returns no price for a promise if many requests share a clock step that is as long as the
//! promised time ([`Times::why_no_promise`]).

mod ticks;

use forebay_core::Nanos;

use self::ticks::Ticks;

use crate::quantities::{bound, percent, significant};
use crate::{Error, Input};

/// The clock step below which timestamps separate requests about as well as a disk does.
const STEP_FINE: Nanos = Nanos::from_millis(2);

/// The shortest clock step that is rejected. A disk can serve more than ten requests in this time,
/// so the step hides the pattern of arrivals.
const STEP_MAX: Nanos = Nanos::from_millis(100);

/// The mean number of requests per clock step that a rejection requires. With fewer, the steps hide
/// little and are only mentioned.
const PER_STEP_MAX: f64 = 2.0;

/// The mean number of requests per clock step below which steps are not even mentioned. It is low,
/// so that whether the caution appears does not depend on the length of the trace: Financial1 has
/// 1.83 requests per step in 10,000 rows, and fewer than 1.5 in 45,000.
const PER_STEP_FINE: f64 = 1.1;

/// The largest error that rounding to a trace's units causes.
const ROUNDING: Nanos = Nanos::from_micros(50);

/// The amounts of noise in timestamps despite which steps are still detected, in ascending order.
const NOISES: [Nanos; 2] = [Nanos::from_millis(1), Nanos::from_millis(10)];

/// The number of requests with the same timestamp that is unlikely to be a coincidence on a fine
/// clock.
const SHARED_LEAST: u64 = 4;

/// The share of requests that must have shared timestamps on a grid for the clock to count as
/// coarse, even if the other requests are off the grid.
const SHARE_LEAST: f64 = 0.5;

/// The step lengths to look for if noise hides the steps, in milliseconds.
const STEPS_MS: [u64; 4] = [60_000, 10_000, 1000, 100];

/// The number of parts into which a step is divided. If requests crowd in two neighboring parts of
/// each step, their times are unlikely to be true arrival times.
const PHASES: usize = 200;

/// The minimum number of steps with requests for crowding to be detected.
const STEPS_LEAST: u64 = 20;

/// How usable a trace's times are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Times {
    /// The times show when each request arrived.
    Usable,
    /// The trace has no times.
    None,
    /// All requests have the same timestamp.
    Same,
    /// The clock's steps are so long that many requests share one.
    Coarse {
        /// The length of a clock step.
        step: Nanos,
        /// The mean number of requests per distinct timestamp.
        per_stamp: f64,
        /// The share of requests whose timestamps are multiples of the clock step.
        share: f64,
    },
    /// Requests crowd at the same position in every step. The cause is either a coarse clock with
    /// some noise, or a load driven by a timer.
    Crowded {
        /// The length of the step that was detected; the clock's step may be longer.
        step: Nanos,
        /// The share of requests at the crowded position.
        share: f64,
    },
}

/// Counters that are updated while arrivals are scanned.
struct Seen {
    count: u64,
    stamps: u64,
    step: u64,
    last: Option<Nanos>,
    /// The number of requests with the most recent timestamp.
    alike: u64,
    /// About timestamps that at least [`SHARED_LEAST`] requests share: the most recent one, how
    /// many there are, the greatest common divisor of the differences between them, and the number
    /// of requests that have one.
    shared: Option<Nanos>,
    shared_stamps: u64,
    shared_step: u64,
    on_shared: u64,
    crowds: [Crowd; STEPS_MS.len()],
    rounded: Ticks,
    noisy: [Ticks; NOISES.len()],
}

impl Default for Seen {
    fn default() -> Seen {
        Seen {
            count: 0,
            stamps: 0,
            step: 0,
            last: None,
            alike: 0,
            shared: None,
            shared_stamps: 0,
            shared_step: 0,
            on_shared: 0,
            crowds: Default::default(),
            rounded: Ticks::new(ROUNDING),
            noisy: NOISES.map(Ticks::new),
        }
    }
}

/// The distribution of requests over the parts of a step, for one step length.
struct Crowd {
    phases: [u64; PHASES],
    /// The number of steps that contain requests, and the index of the last of them.
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

    /// Returns the share of requests in the two neighboring parts that contain most.
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
        self.rounded.add(at);
        self.noisy.iter_mut().for_each(|ticks| ticks.add(at));
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
        if step >= STEP_FINE && per_stamp >= PER_STEP_FINE {
            return Times::Coarse { step, per_stamp, share: 1.0 };
        }
        if let Some((step, per_stamp)) = self.stepped(&self.rounded, PER_STEP_FINE) {
            return Times::Coarse { step, per_stamp, share: 1.0 };
        }
        let share = self.on_shared as f64 / self.count.max(1) as f64;
        let (step, stamps) = (Nanos(self.shared_step), self.shared_stamps);
        if step >= STEP_FINE && stamps >= STEPS_LEAST && share >= SHARE_LEAST {
            let per_stamp = self.on_shared as f64 / stamps as f64;
            return Times::Coarse { step, per_stamp, share };
        }
        let noisy = self.noisy.iter().find_map(|ticks| self.stepped(ticks, PER_STEP_MAX));
        if let Some((step, _)) = noisy {
            return Times::Crowded { step, share: 1.0 };
        }
        self.crowded().unwrap_or(Times::Usable)
    }

    /// Returns the clock step found by `ticks` and the mean number of requests per step, if that
    /// number is at least `per_step_least`.
    fn stepped(&self, ticks: &Ticks, per_step_least: f64) -> Option<(Nanos, f64)> {
        let per_step = self.count as f64 / ticks.count().max(1) as f64;
        let step = ticks.step().filter(|step| *step >= STEP_FINE && per_step >= per_step_least)?;
        Some((step, per_step))
    }

    fn crowded(&self) -> Option<Times> {
        let of = |(crowd, ms): (&Crowd, u64)| {
            let per_step = self.count as f64 / crowd.steps.max(1) as f64;
            let (share, step) = (crowd.share(), Nanos::from_millis(ms));
            let is_crowded =
                crowd.steps >= STEPS_LEAST && per_step >= PER_STEP_MAX && share >= SHARE_LEAST;
            is_crowded.then_some(Times::Crowded { step, share })
        };
        self.crowds.iter().zip(STEPS_MS).find_map(of)
    }
}

impl Times {
    /// Reads `input` once and classifies its times.
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

    /// Classifies `arrivals`, which must be in order.
    pub(crate) fn among(arrivals: impl Iterator<Item = Nanos>) -> Times {
        let mut seen = Seen::default();
        arrivals.for_each(|at| seen.add(at));
        seen.times()
    }

    /// Returns why nothing can be concluded from the times; `None` if they are usable.
    pub(crate) fn why_not(self) -> Option<String> {
        Some(match self {
            Times::Usable | Times::Crowded { .. } => return None,
            Times::Coarse { step, per_stamp, .. }
                if step < STEP_MAX || per_stamp < PER_STEP_MAX =>
            {
                return None;
            }
            Times::None => {
                "the trace has no arrival times, so it is unknown which requests were at the disk \
                 together"
                    .into()
            }
            Times::Same => {
                "all requests have the same time, so it is unknown which of them were at the disk \
                 together"
                    .into()
            }
            coarse => format!("{}, which they did not", coarse.told()?),
        })
    }

    /// Returns why the times cannot be used, as a clause short enough for a headline.
    pub(crate) fn why_not_in_short(self) -> String {
        match self {
            Times::Coarse { step, .. } => {
                format!("the trace's clock steps by {}, too coarse to replay", length(step))
            }
            Times::Same => "all requests have the same time".to_string(),
            _ => "the trace has no arrival times".to_string(),
        }
    }

    /// Returns why a promise within `bound` cannot be computed; `None` if it can. A load driven by
    /// a timer looks like a coarse clock, so users who know their load must be able to override
    /// this check.
    pub(crate) fn why_no_promise(self, bound: Nanos) -> Option<String> {
        match self {
            Times::Coarse { step, per_stamp, .. } if step >= bound && per_stamp >= PER_STEP_MAX => {
                Some(format!("{}, which they did not", self.told()?))
            }
            Times::Crowded { step, .. } if step >= bound => self.told(),
            Times::None | Times::Same => self.why_not(),
            _ => None,
        }
    }

    /// Returns the length of the clock's steps, if requests certainly share them, else 0. Latencies
    /// in a replay have an uncertainty of this length.
    pub(crate) fn step(self) -> Nanos {
        match self {
            Times::Coarse { step, .. } => step,
            // The load may be driven by a timer, while the clock is fine.
            Times::Crowded { .. } | Times::Usable | Times::None | Times::Same => Nanos::ZERO,
        }
    }

    /// Returns a caution about arrivals that a usable clock hides, or may hide.
    pub(crate) fn caution(self) -> Option<String> {
        self.caution_though().filter(|_| self.why_not().is_none())
    }

    /// Returns a caution for a clock that the user wants to be used although it is too coarse.
    pub(crate) fn caution_though(self) -> Option<String> {
        let told = self.told()?;
        Some(match self {
            Times::Crowded { .. } => format!("Take care: {told}."),
            _ => format!("Caution: {told}, so they queue more than in the recording."),
        })
    }

    fn told(self) -> Option<String> {
        match self {
            Times::Coarse { step, per_stamp, share } => {
                let most = match share {
                    1.0 => "the trace's clock steps".to_string(),
                    share => {
                        format!("for {} of the requests the trace's clock steps", percent(share))
                    }
                };
                Some(format!(
                    "{most} by {}, and {} requests share a step on average: in a replay, they all \
                     arrive at once",
                    length(step),
                    significant(per_stamp)
                ))
            }
            Times::Crowded { step, share } => Some(format!(
                "{} of the requests arrive at the same position within steps of {} or longer. That \
                 is right if a timer drives the load; but if the trace's clock is coarse, with \
                 some noise, they arrived apart, and all figures here on queueing, tails and \
                 capacity are far too high",
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

/// Formats the step of a clock with all its digits, down to a microsecond.
pub(crate) fn length(step: Nanos) -> String {
    bound((step.as_millis_f64() * 1e3).round() / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coarse_clocks_are_detected() {
        let among = |ms: &[u64]| Times::among(ms.iter().map(|&ms| Nanos::from_millis(ms)));
        assert_eq!(among(&[0, 1, 1, 1, 1]), Times::Usable);
        assert_eq!(among(&[0, 0, 0]), Times::Same);
        assert_eq!(among(&[0]), Times::Usable);
        let step = Nanos::from_secs(1);
        assert_eq!(
            among(&[0, 0, 0, 2000, 2000, 3000]),
            Times::Coarse { step, per_stamp: 2.0, share: 1.0 }
        );
        // Timestamps are whole seconds, but each request has its own: requests are rare, the clock
        // is not coarse.
        assert_eq!(among(&[0, 1000, 2000, 5000]), Times::Usable);
        // Steps of 5 ms hide so little that they are only mentioned.
        let fine = among(&[0, 0, 0, 1000, 1000, 1005]);
        assert!(fine.why_not().is_none() && fine.caution().is_some());
        // 1.67 requests per timestamp are also only mentioned; 21 requests on 20 timestamps are
        // not.
        let few = among(&[0, 0, 1000, 1000, 1005]);
        assert!(few.why_not().is_none(), "{few:?}");
        assert!(few.caution().is_some_and(|said| said.contains("1.67 requests share")), "{few:?}");
        let rarely: Vec<u64> = [0].into_iter().chain((0..20).map(|n| n * 5)).collect();
        assert_eq!(among(&rarely), Times::Usable);
        assert!(
            Times::Coarse { step, per_stamp: 15.8, share: 1.0 }
                .why_not()
                .unwrap()
                .contains("1 s, and 15.8")
        );
        assert_eq!((Times::Usable.why_not(), Times::Usable.caution()), (None, None));
        let ticks = among(&[0, 0, 0, 20, 20, 20, 30, 30]);
        assert!(ticks.why_not().is_none());
        assert!(ticks.caution().unwrap().contains("steps by 10 ms, and 2.67 requests"));
    }

    /// Classifies 100 s of 16 requests per second, spaced unevenly. `clock` maps a request's index
    /// and arrival in µs to its timestamp in µs.
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
        // One request in ten has its true timestamp, the others have whole seconds.
        let in_part = stamped(|index, us| if index % 10 == 3 { us } else { floor(us) });
        let Times::Coarse { step, share, .. } = in_part else { panic!("{in_part:?}") };
        assert_eq!(step, Nanos::from_secs(1));
        assert!((0.88..0.92).contains(&share), "{share}");
        let why = in_part.why_not().unwrap();
        assert!(
            why.starts_with("for 90.0 % of the requests the trace's clock steps by 1 s"),
            "{why}"
        );
        // Six requests in ten have their true timestamps, so most times are correct.
        assert_eq!(stamped(|index, us| if index % 10 < 6 { us } else { floor(us) }), Times::Usable);
        // Timestamps are whole seconds with half a millisecond of noise.
        let noisy = stamped(|index, us| floor(us) + index * 7919 % 500);
        assert!(is_crowded(noisy, 1000), "{noisy:?}");
        assert!(noisy.why_not().is_none());
        assert!(noisy.caution().unwrap().contains("100 % of the requests arrive at the same"));
        // Requests are spread over a tenth of each second, which a coarse clock does not explain.
        assert_eq!(stamped(|index, us| floor(us) + index * 7919 % 100_000), Times::Usable);
    }

    /// Returns whether the times count as crowded in steps of about `ms`.
    fn is_crowded(times: Times, ms: u64) -> bool {
        let near = |step: Nanos| (step.as_millis_f64() / ms as f64 - 1.0).abs() < 0.01;
        matches!(times, Times::Crowded { step, share } if near(step) && share > 0.5)
    }

    /// Classifies a trace with `each` requests close together in every step of `ms`, within a
    /// hundredth of the step, and `between` requests elsewhere in the step.
    fn crowd(ms: u64, steps: u64, each: u64, between: u64) -> Times {
        let us = ms * 1000;
        let of = |step: u64| {
            let crowd =
                (0..each).map(move |k| step * us + us / 3 + (step * 7 + k * 3) % 10 * us / 1000);
            crowd.chain(
                (0..between).map(move |k| step * us + (step * 7919 + k * 5003) % 997 * us / 997),
            )
        };
        let mut stamps: Vec<u64> = (0..steps).flat_map(of).collect();
        stamps.sort_unstable();
        Times::among(stamps.into_iter().map(Nanos::from_micros))
    }

    #[test]
    fn crowds_are_found_in_each_of_the_steps_that_clocks_have() {
        for ms in STEPS_MS {
            // Some requests arrive between the ticks of the clock, so that its ticks do not reveal
            // the step.
            assert!(is_crowded(crowd(ms, 60, 8, 2), ms), "{ms}: {:?}", crowd(ms, 60, 8, 2));
        }
        // Twenty steps suffice to detect crowding, nineteen do not.
        assert!(is_crowded(crowd(1000, 20, 8, 2), 1000));
        assert_eq!(crowd(1000, 19, 8, 2), Times::Usable);
    }

    #[test]
    fn a_crowd_may_lie_about_the_end_of_a_step() {
        // Half of the requests arrive just before each whole second and half just after it, with
        // some in between.
        let of = |second: u64| {
            let about = [second * 1_000_000 - 2_000, second * 1_000_000 + 2_000 + second % 7];
            about.into_iter().chain([second * 1_000_000 + 300_000 + second * 7919 % 400_000])
        };
        let times = Times::among((1..60).flat_map(of).map(Nanos::from_micros));
        assert!(is_crowded(times, 1000), "{times:?}");
    }

    #[test]
    fn the_step_of_a_noisy_clock_is_named_right() {
        let noisy =
            |ms: u64| stamped(|index, us| us / (ms * 1000) * ms * 1000 + index * 7919 % 4000);
        for ms in [250, 500, 1000] {
            assert!(is_crowded(noisy(ms), ms), "{ms}: {:?}", noisy(ms));
        }
    }

    #[test]
    fn a_clock_of_odd_steps_is_found_out() {
        // The clock ticks in sixtieths of a second, rounded to whole microseconds, with at least
        // two requests per tick.
        let sixtieths = (0..400u64).map(|k| Nanos::from_micros(k / 4 * 1_000_000 / 60));
        let Times::Coarse { step, per_stamp, share } = Times::among(sixtieths) else { panic!() };
        assert!((16.6..16.7).contains(&step.as_millis_f64()) && per_stamp == 4.0 && share == 1.0);
    }

    #[test]
    fn a_partly_coarse_clock_reports_how_many_requests_share_a_timestamp() {
        // Each tenth of a second has four requests at its start, and one at an arbitrary time.
        let of =
            |tenth: u64| [0, 0, 0, 0, 7_919 + tenth * 631 % 80_000].map(|us| tenth * 100_000 + us);
        let times = Times::among((0..50).flat_map(of).map(Nanos::from_micros));
        let Times::Coarse { step, per_stamp, share } = times else { panic!("{times:?}") };
        assert_eq!((step, per_stamp, share), (Nanos::from_millis(100), 4.0, 0.8));
        // A tenth of a second is the shortest clock step that is rejected.
        assert!(times.why_not().is_some());
    }

    #[test]
    fn a_promise_shorter_than_a_shared_clock_step_has_no_price() {
        let ms = Nanos::from_millis;
        let coarse = |per_stamp| Times::Coarse { step: ms(50), per_stamp, share: 1.0 };
        assert!(coarse(2.0).why_no_promise(ms(50)).is_some());
        assert_eq!(coarse(2.0).why_no_promise(ms(51)), None);
        assert_eq!(coarse(1.9).why_no_promise(ms(5)), None);
        let crowded = Times::Crowded { step: ms(50), share: 1.0 };
        assert!(crowded.why_no_promise(ms(50)).is_some());
        assert_eq!(crowded.why_no_promise(ms(51)), None);
        assert!(Times::Same.why_no_promise(ms(50)).is_some());
        assert_eq!(Times::Usable.why_no_promise(ms(50)), None);
    }
}
