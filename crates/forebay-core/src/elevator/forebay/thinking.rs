//! How long a stream thinks between an answer and its next request, and how long to wait for that
//! request.
//!
//! Think times are counted in a histogram whose classes double in width; old times decay. Waiting
//! until `t` saves a movement if the request has arrived by then, and costs the device the time
//! waited. The best `t` maximizes the expected saving minus the expected loss.

use crate::contract::Nanos;

/// The number of classes; the last one is unbounded.
const CLASSES: usize = 9;
/// The upper limit of the first class of think times.
const FIRST: Nanos = Nanos(125_000);
/// The sum of all shares, except for rounding.
const WHOLE: u32 = 1 << 16;

/// The value that represents a share of 1.
pub(super) const ALL: u64 = 256;

/// A histogram of think times in which old ones decay.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thinking {
    shares: [u32; CLASSES],
}

/// How long to wait for a stream's next request, and the expected gain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pause {
    /// How long after the completion to give up; zero means not to wait.
    pub(super) until: Nanos,
    /// The mean time saved, minus the mean time waited.
    pub(super) gain: Nanos,
    /// The share of waits that succeed because the stream continues, in units of 1 / [`ALL`].
    pub(super) share: u64,
}

impl Default for Thinking {
    /// Assumes that half of the think times are below a millisecond and half are unbounded.
    fn default() -> Thinking {
        let mut shares = [0; CLASSES];
        (shares[3], shares[CLASSES - 1]) = (WHOLE / 2, WHOLE / 2);
        Thinking { shares }
    }
}

impl Thinking {
    /// Adds a think time. Decay makes the histogram represent about the last 2^`last` think times.
    pub(super) fn add(&mut self, think: Nanos, last: u32) {
        let class = (think.0 / FIRST.0).checked_ilog2().map_or(0, |class| class as usize + 1);
        for share in &mut self.shares {
            *share -= *share >> last;
        }
        self.shares[class.min(CLASSES - 1)] += WHOLE >> last;
    }

    /// Returns how long to wait for the next request. Its arrival saves `saving` with probability
    /// `near` / [`ALL`], and otherwise nothing.
    pub(super) fn pause(&self, saving: Nanos, near: u64) -> Pause {
        let all: i64 = self.shares.iter().map(|&share| i64::from(share)).sum();
        let saved = (saving.0.min(1 << 36) * near / ALL) as i64;
        let (mut come, mut waited, mut begins) = (0, 0, 0);
        let (mut best, mut come_by_best, mut until) = (0, 0, 0);
        for (class, &share) in self.shares[..CLASSES - 1].iter().enumerate() {
            let ends = (FIRST.0 << class) as i64;
            come += i64::from(share);
            waited += i64::from(share) * (begins + ends) / 2;
            let gain = come * saved - waited - (all - come) * ends;
            if gain > best {
                (best, come_by_best, until) = (gain, come, ends);
            }
            begins = ends;
        }
        Pause {
            until: Nanos(until as u64),
            gain: Nanos((best / all) as u64),
            share: come_by_best as u64 * near / all as u64,
        }
    }
}

impl Pause {
    /// Returns whether waiting for the next request, and for those that follow while the stream
    /// continues, gains more than `price`.
    pub(super) fn is_worth(&self, price: Nanos) -> bool {
        // The gain is multiplied by the expected number of waits until one fails.
        let each = self.gain.0.saturating_mul(ALL);
        self.until > Nanos::ZERO && each >= price.0.saturating_mul(ALL + 1 - self.share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: f64) -> Nanos {
        Nanos::from_millis_f64(ms)
    }

    fn counted(thinks: &[f64]) -> Thinking {
        let mut thinking = Thinking::default();
        (0..100).for_each(|i| thinking.add(ms(thinks[i % thinks.len()]), 3));
        thinking
    }

    #[test]
    fn waits_last_as_long_as_they_save_time() {
        let even = counted(&[0.8]);
        assert_eq!(even.pause(ms(5.0), ALL).until, ms(1.0));
        assert_eq!(even.pause(ms(0.7), ALL), Pause::default(), "0.75 ms waited for 0.7 ms");
        // Half of the requests arrive immediately, and half so late that they are not worth waiting
        // for.
        let either = counted(&[0.05, 12.0]);
        assert_eq!(either.pause(ms(5.0), ALL).until, ms(0.125));
        assert_eq!(either.pause(ms(50.0), ALL).until, ms(16.0), "unless there is a lot to save");
        let pause = either.pause(ms(5.0), ALL);
        assert!(pause.share.abs_diff(ALL / 2) < 20, "{pause:?}");
        assert!(pause.gain > ms(2.0) && pause.gain < ms(2.8), "{pause:?}");
    }

    #[test]
    fn arrivals_elsewhere_save_nothing() {
        let soon = counted(&[0.05]);
        assert!(soon.pause(ms(5.0), ALL).gain > ms(4.5));
        assert!(soon.pause(ms(5.0), ALL / 4).gain < ms(1.3));
        assert_eq!(soon.pause(ms(5.0), 0), Pause::default());
    }

    #[test]
    fn old_times_fade_and_the_last_bin_is_open() {
        let mut thinking = counted(&[0.2]);
        (0..40).for_each(|_| thinking.add(Nanos(u64::MAX), 3));
        assert_eq!(thinking.pause(ms(50.0), ALL).until, Nanos::ZERO);
    }

    #[test]
    fn a_long_run_may_have_a_cost() {
        let (run, rare) = (counted(&[0.05]), counted(&[0.05, 40.0, 40.0]));
        assert!(run.pause(ms(5.0), ALL).is_worth(ms(50.0)));
        assert!(!rare.pause(ms(5.0), ALL).is_worth(ms(50.0)));
        assert!(rare.pause(ms(5.0), ALL).is_worth(Nanos::ZERO));
        assert!(!Pause::default().is_worth(Nanos::ZERO));
    }
}
