//! Measures how far a run lags behind its recording.

use crate::contract::Nanos;

/// Statistics of how late requests reach the device: from their recorded time until they get a
/// place in the request queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    requests: u64,
    late: u64,
    sum_ns: u128,
    longest: Nanos,
}

impl Lag {
    /// A request whose lag exceeds this is late.
    pub const LATE: Nanos = Nanos::from_secs(1);

    /// A device is overloaded if more than this share of the requests is late.
    const LATE_SHARE_MAX: f64 = 0.01;

    /// Adds one request.
    #[inline]
    pub fn record(&mut self, lag: Nanos) {
        self.requests += 1;
        self.late += u64::from(lag > Lag::LATE);
        self.sum_ns += u128::from(lag.0);
        self.longest = self.longest.max(lag);
    }

    /// The share of requests that are late.
    pub fn late_share(&self) -> f64 {
        self.late as f64 / self.requests.max(1) as f64
    }

    /// Returns whether the devices are overloaded.
    pub fn is_overload(&self) -> bool {
        Lag::is_overload_of(self.late_share())
    }

    /// Returns whether devices are overloaded if this share of the requests is late.
    pub fn is_overload_of(late_share: f64) -> bool {
        late_share > Lag::LATE_SHARE_MAX
    }

    /// Returns the mean lag; `None` without requests.
    pub fn mean(&self) -> Option<Nanos> {
        let requests = u128::from(self.requests);
        (requests > 0).then(|| Nanos((self.sum_ns / requests) as u64))
    }

    /// Returns the maximum lag.
    pub fn longest(&self) -> Nanos {
        self.longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_is_not_late_and_more_is() {
        let mut lag = Lag::default();
        assert_eq!((lag.mean(), lag.late_share()), (None, 0.0));
        for ms in [0, 1000, 1001, 3999] {
            lag.record(Nanos::from_millis(ms));
        }
        assert_eq!(lag.late_share(), 0.5);
        assert_eq!(lag.mean(), Some(Nanos::from_millis(1500)));
        assert_eq!(lag.longest(), Nanos::from_millis(3999));
    }
}
