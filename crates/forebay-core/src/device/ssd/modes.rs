//! Times that differ between pages: a few modes, each with its share.
//!
//! A flash cell stores several bits, some of which can be read faster than others, so the reads of
//! a drive have a few different times. The mode of a page depends on its number, so a page always
//! has the same time.

use crate::contract::{Nanos, SpecError};

/// One of the possible durations of an operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mode {
    /// The duration of the operation.
    pub time: Nanos,
    /// The share of pages with this time.
    pub share: f64,
}

/// The duration of an operation, and the part of it during which others must wait.
#[derive(Clone, Debug, PartialEq)]
pub struct Modes {
    /// The modes, at least one. Their shares must add up to 1.
    pub modes: Vec<Mode>,
    /// The share of each duration in which the die, or the entrance of the buffer, is busy. The
    /// rest of the time comes before that and delays no other operation.
    pub busy_share: f64,
}

/// The maximum number of modes; more would be a histogram.
const MODES_MAX: usize = 16;
/// The maximum deviation of the sum of shares from 1, because shares are rounded to three digits.
const SHARES_MISS: f64 = 0.01;
/// The maximum duration: one second.
const LONGEST: u64 = 1_000_000_000;

impl From<Nanos> for Modes {
    /// Creates a single mode: the same time for all operations, during which others wait.
    fn from(time: Nanos) -> Modes {
        Modes { modes: vec![Mode { time, share: 1.0 }], busy_share: 1.0 }
    }
}

impl Modes {
    /// Returns the mean duration over all modes.
    pub fn mean(&self) -> Nanos {
        let sum: f64 = self.modes.iter().map(|mode| mode.time.0 as f64 * mode.share).sum();
        Nanos(sum.round() as u64)
    }

    /// Checks the modes. `what` begins the error message.
    ///
    /// # Errors
    /// Names the first invalid value.
    pub(super) fn check(&self, what: &str) -> Result<(), SpecError> {
        let refuse = |got: String, expected: &str| {
            Err(SpecError(format!("{what}: got {got}, expected {expected}")))
        };
        if !(1..=MODES_MAX).contains(&self.modes.len()) {
            return refuse(format!("{} modes", self.modes.len()), "1 to 16");
        }
        for Mode { time, share } in &self.modes {
            if !(1..=LONGEST).contains(&time.0) {
                return refuse(format!("{} ns", time.0), "more than 0 and at most one second");
            }
            if !(0.0..=1.0).contains(share) {
                return refuse(format!("a share of {share}"), "0 to 1");
            }
        }
        let sum: f64 = self.modes.iter().map(|mode| mode.share).sum();
        if (sum - 1.0).abs() > SHARES_MISS {
            return refuse(format!("shares that add up to {sum}"), "shares that add up to 1");
        }
        if !(0.0..=1.0).contains(&self.busy_share) {
            return refuse(format!("a busy share of {}", self.busy_share), "0 to 1");
        }
        Ok(())
    }
}

/// Modes, prepared for choosing a duration by number.
#[derive(Clone, Debug)]
pub(super) struct Times {
    /// For each mode, the highest 32-bit number that selects it, and its durations before and while
    /// it occupies a resource.
    steps: Vec<(u32, u64, u64)>,
}

impl Times {
    pub(super) fn new(modes: &Modes) -> Times {
        let sum: f64 = modes.modes.iter().map(|mode| mode.share).sum();
        let mut below = 0.0;
        let steps = modes.modes.iter().map(|mode| {
            below += mode.share / sum;
            let busy = (mode.time.0 as f64 * modes.busy_share).round() as u64;
            ((below * f64::from(u32::MAX)) as u32, mode.time.0 - busy.min(mode.time.0), busy)
        });
        Times { steps: steps.collect() }
    }

    /// Returns the durations before and while an operation occupies a resource. `number` determines
    /// the mode.
    #[inline]
    pub(super) fn of(&self, number: u64) -> (u64, u64) {
        let [first, rest @ ..] = self.steps.as_slice() else { return (0, 0) };
        if rest.is_empty() {
            return (first.1, first.2);
        }
        let drawn = (mixed(number) >> 32) as u32;
        let step = self.steps.iter().find(|step| drawn <= step.0).unwrap_or(first);
        (step.1, step.2)
    }
}

/// Mixes the bits of a number so that the order of inputs is lost.
#[inline]
pub(super) fn mixed(number: u64) -> u64 {
    crate::random::next(&mut { number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_occur_with_their_shares_and_each_number_keeps_its_mode() {
        let mode = |us: u64, share| Mode { time: Nanos(us * 1_000), share };
        let modes =
            Modes { modes: vec![mode(100, 0.6), mode(200, 0.3), mode(400, 0.1)], busy_share: 0.25 };
        modes.check("read").unwrap();
        assert_eq!(modes.mean(), Nanos(160_000));
        let times = Times::new(&modes);
        let count = |us: u64| (0..10_000).filter(|page| times.of(*page).1 == us * 250).count();
        for (us, expected) in [(100, 6_000), (200, 3_000), (400, 1_000_usize)] {
            assert!(count(us).abs_diff(expected) < 150, "{us}: {}", count(us));
        }
        assert_eq!(times.of(7), times.of(7));
        assert!((0..100).all(|page| times.of(page).0 == 3 * times.of(page).1));
    }

    #[test]
    fn modes_that_make_no_sense_are_refused() {
        let one = Modes::from(Nanos(5));
        let with = |mode: Mode| Modes { modes: vec![mode], ..one.clone() };
        let said = |modes: Modes| modes.check("read").unwrap_err().0;
        assert!(said(Modes { modes: Vec::new(), ..one.clone() }).contains("0 modes"));
        assert!(said(with(Mode { time: Nanos(0), share: 1.0 })).contains("read: got 0 ns"));
        assert!(said(with(Mode { time: Nanos(5), share: 0.5 })).contains("add up to 0.5"));
        assert!(said(with(Mode { time: Nanos(5), share: f64::NAN })).contains("share of NaN"));
        assert!(said(Modes { busy_share: 1.5, ..one }).contains("busy share of 1.5"));
    }
}
