//! Divides time into the periods in which requests are counted.
//!
//! The default length is the paper's half hour ("within a 30-minute period there is no significant
//! fluctuation"). If a trace has fewer than [`PERIODS_MIN`] periods, the length is halved until it
//! has enough; if it has more than [`PERIODS_MAX`], the length is doubled.

use forebay_core::Nanos;

/// The length of a period in the paper: half an hour.
pub(super) const PERIOD: Nanos = Nanos(1_800_000_000_000);

/// The maximum number of periods that are counted.
pub(super) const PERIODS_MAX: usize = 512;

/// The desired minimum number of complete periods.
pub(super) const PERIODS_MIN: u64 = 8;

/// How often half an hour may be halved: down to 0.86 ms.
const HALVINGS: u32 = 21;

/// Divides time into periods. At level `l`, the length of a period is the requested length divided
/// by `2^(halvings - l)`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    length_ns: u64,
    halvings: u32,
}

impl Clock {
    pub(super) fn new(asked: Option<Nanos>) -> Clock {
        match asked {
            Some(length) => Clock { length_ns: length.0.max(1), halvings: 0 },
            None => Clock { length_ns: PERIOD.0, halvings: HALVINGS },
        }
    }

    /// Returns the index of the finest period that contains `at_ns`.
    #[inline]
    pub(super) fn finest(&self, at_ns: u64) -> u64 {
        ((u128::from(at_ns) << self.halvings) / u128::from(self.length_ns)) as u64
    }

    /// Returns the number of complete periods of `level` within the duration.
    pub(super) fn complete_periods(&self, level: u32, duration_ns: u64) -> u64 {
        self.finest(duration_ns) >> level
    }

    /// Returns the level to use in the description. Counts are available at level `least` and
    /// above.
    pub(super) fn level(&self, least: u32, duration_ns: u64) -> u32 {
        let mut level = least;
        while level < self.halvings && self.complete_periods(level + 1, duration_ns) >= PERIODS_MIN
        {
            level += 1;
        }
        level
    }

    /// Returns the length of a period of `level`.
    pub(super) fn seconds(&self, level: u32) -> f64 {
        let times = 2f64.powi(level as i32 - self.halvings as i32);
        Nanos(self.length_ns).as_secs_f64() * times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000_000_000;

    #[test]
    fn half_hours_where_there_are_eight() {
        let clock = Clock::new(None);
        let level = |hours: u64, least| clock.level(least, hours * HOUR);
        assert_eq!((level(4, 14), clock.seconds(level(4, 14))), (21, 1800.0));
        assert_eq!(clock.complete_periods(21, 4 * HOUR), 8);
        assert_eq!(clock.seconds(clock.level(14, 4 * HOUR - 1)), 900.0);
        // In a month, periods are 2 hours long, because 512 half hours are only ten days.
        assert_eq!(clock.seconds(level(30 * 24, 23)), 7200.0);
        // In a second, there are between eight and sixteen periods.
        let second = clock.level(2, 1_000_000_000);
        assert!((8..16).contains(&clock.complete_periods(second, 1_000_000_000)));
        assert_eq!((clock.complete_periods(0, 0), clock.level(0, 0)), (0, 0));
    }

    #[test]
    fn the_requested_period_is_used() {
        let clock = Clock::new(Some(Nanos(10)));
        assert_eq!((clock.finest(29), clock.finest(30), clock.level(0, 1000)), (2, 3, 0));
        assert_eq!((clock.seconds(0), clock.seconds(3)), (10e-9, 80e-9));
        assert_eq!(
            Clock::new(None).finest(u64::MAX),
            (u128::from(u64::MAX) << 21).div_euclid(1_800_000_000_000) as u64
        );
    }
}
