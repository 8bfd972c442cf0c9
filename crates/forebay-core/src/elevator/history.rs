//! The history of streams that CFQ, anticipatory and BFQ keep: think times and seek distances.

use crate::contract::Nanos;

/// The mean time between the completion of a request and the arrival of the next: an exponential
/// mean with a weight of one eighth.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ThinkTime {
    /// The weight of all samples, which approaches 256; it exceeds 80 from the third arrival on.
    samples: u64,
    total: u64,
    mean: Nanos,
    /// When the last request completed.
    pub(crate) last_end: Nanos,
}

impl ThinkTime {
    /// Records the arrival of a request. A think time counts as at most two idle times.
    #[inline]
    pub(crate) fn arrive(&mut self, now: Nanos, slice_idle: Nanos) {
        let elapsed = (now - self.last_end).0.min(2 * slice_idle.0);
        self.samples = (7 * self.samples + 256) / 8;
        self.total = (7 * self.total + 256 * elapsed) / 8;
        self.mean = Nanos((self.total + 128) / self.samples);
    }

    /// Returns whether enough arrivals were seen to trust the mean.
    #[inline]
    pub(crate) fn is_known(&self) -> bool {
        self.samples > 80
    }

    /// Returns the mean so far; `None` before the first arrival.
    #[inline]
    pub(crate) fn mean(&self) -> Option<Nanos> {
        (self.samples > 0).then_some(self.mean)
    }

    /// Returns whether the mean is known and longer than `span`.
    #[inline]
    pub(crate) fn exceeds(&self, span: Nanos) -> bool {
        self.is_known() && self.mean > span
    }
}

/// Records which of the last 32 requests were far from their predecessors.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SeekHistory {
    far: u32,
    /// The end of the last request; 0 before the first.
    last_end: u64,
}

/// Requests farther apart than this (800 sectors) count as a seek.
const FAR_BYTES: u64 = 8 * 100 * 512;

impl SeekHistory {
    #[inline]
    pub(crate) fn arrive(&mut self, offset: u64, end: u64) {
        let far = self.last_end != 0 && offset.abs_diff(self.last_end) > FAR_BYTES;
        self.far = self.far << 1 | u32::from(far);
        self.last_end = end;
    }

    /// Updates the end of the last request, which has grown at its end.
    #[inline]
    pub(crate) fn grow(&mut self, end: u64) {
        self.last_end = end;
    }

    /// Returns how many of the last 32 requests needed a seek.
    #[inline]
    pub(crate) fn far(&self) -> u32 {
        self.far.count_ones()
    }

    /// Returns whether more than an eighth of the last 32 requests needed a seek.
    #[inline]
    pub(crate) fn is_seeky(&self) -> bool {
        self.far() > 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn think_time_is_known_from_the_third_arrival_and_capped() {
        let mut think = ThinkTime::default();
        let idle = Nanos(1000);
        for (arrival, known) in [(1, false), (2, false), (3, true)] {
            think.arrive(Nanos(arrival * 500), idle);
            think.last_end = Nanos(arrival * 500);
            assert_eq!(think.is_known(), known, "arrival {arrival}");
        }
        assert!(think.exceeds(Nanos(450)) && !think.exceeds(Nanos(550)), "{think:?}");
        for _ in 0..100 {
            think.arrive(Nanos::MAX, idle);
        }
        assert!(think.exceeds(Nanos(1900)) && !think.exceeds(Nanos(2100)), "{think:?}");
    }

    #[test]
    fn five_of_thirty_two_are_seeky() {
        let mut seeks = SeekHistory::default();
        for far in 1..=5 {
            assert!(!seeks.is_seeky());
            seeks.arrive(far << 30, (far << 30) + 4096);
        }
        assert!(!seeks.is_seeky(), "the first request has no distance");
        seeks.arrive(9 << 30, (9 << 30) + 4096);
        assert!(seeks.is_seeky());
        for near in 0..31 {
            seeks.arrive((9 << 30) + 4096, (9 << 30) + 4096 + FAR_BYTES * (near & 1));
        }
        assert!(!seeks.is_seeky(), "exactly the threshold is near");
    }
}
