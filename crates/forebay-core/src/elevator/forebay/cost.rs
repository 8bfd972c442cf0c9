//! The cost of the device's movements, learned from its completions.
//!
//! The time of an I/O is counted from its dispatch or, if later, from the previous completion. This
//! is exact for a device that serves one I/O at a time and a suitable average for one with a
//! command queue. The cost of positioning is that time minus the transfer at the best recent rate.

use crate::contract::Nanos;

/// The minimum length of I/Os from which the rate is learned, in bytes.
const LONG_BYTES: u32 = 64 << 10;

/// The cost of continuing after a pause decays over this many moves elsewhere.
const FORGET: u64 = 1024;

/// The position of an I/O relative to the previously dispatched one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Elsewhere on the device.
    Away,
    /// Just ahead of the head, after the device was idle.
    OnAfterPause,
    /// Just ahead of the head, without a pause.
    On,
}

/// The learned times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    /// The minimum time for a byte, in units of 1/1024 ns. It increases slowly, because rates
    /// differ by zone.
    byte: u64,
    /// The mean cost of moving elsewhere.
    away: Nanos,
    /// The mean cost of continuing after a pause.
    on: Nanos,
    /// The mean total time of an I/O: of all kinds together, and of each kind.
    service: Nanos,
    service_of: [Nanos; 2],
    answered: Nanos,
}

impl Default for Cost {
    /// Assumes a disk of 100 MB/s that seeks in 8 ms and reads ahead.
    fn default() -> Self {
        Cost {
            byte: 10 << 10,
            away: Nanos::from_millis(8),
            on: Nanos::ZERO,
            service: Nanos::from_millis(5),
            service_of: [Nanos::from_millis(5); 2],
            answered: Nanos::ZERO,
        }
    }
}

impl Cost {
    /// Learns from an I/O of `kind` and of `len` bytes that was dispatched at `given` and completed
    /// at `now`.
    pub(super) fn learn(&mut self, now: Nanos, given: Nanos, kind: usize, len: u32, step: Step) {
        let took = now - given.max(self.answered);
        self.answered = now;
        self.service = mean(self.service, took);
        self.service_of[kind] = mean(self.service_of[kind], took);
        if len >= LONG_BYTES {
            let byte = (took.0.min(1 << 40) << 10) / u64::from(len);
            self.byte = (self.byte + self.byte / 1024 + 1).min(byte.max(1));
        }
        let getting_there = took - Nanos((u64::from(len) * self.byte) >> 10);
        match step {
            Step::Away => {
                self.away = mean(self.away, getting_there);
                // Otherwise a device that once lost time on pauses would never be tried again.
                self.on = Nanos(self.on.0 - self.on.0 / FORGET);
            }
            Step::OnAfterPause => self.on = mean(self.on, getting_there),
            Step::On => {}
        }
    }

    /// Returns how much time continuing, even after a pause, saves compared with coming back later.
    pub(super) fn saving(&self) -> Nanos {
        self.away - self.on
    }

    /// Returns the mean time of an I/O.
    pub(super) fn service(&self) -> Nanos {
        self.service
    }

    /// Returns the mean time of an I/O of `kind`.
    pub(super) fn service_of(&self, kind: usize) -> Nanos {
        self.service_of[kind]
    }
}

fn mean(mean: Nanos, sample: Nanos) -> Nanos {
    Nanos((15 * mean.0 + sample.0.min(1 << 50)) / 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: f64) -> Nanos {
        Nanos::from_millis_f64(ms)
    }

    /// Returns the costs learned from a device that takes `seek_ms` to move anywhere else and 1 ms
    /// for 100 KB.
    fn learnt(seek_ms: f64, pause_ms: f64) -> Cost {
        let (mut cost, mut now) = (Cost::default(), Nanos::ZERO);
        for turn in 0..600 {
            let (step, extra) = match turn % 3 {
                0 => (Step::Away, seek_ms),
                1 => (Step::On, 0.0),
                _ => (Step::OnAfterPause, pause_ms),
            };
            let given = now + ms(0.5);
            now = given + ms(1.0 + extra);
            cost.learn(now, given, 0, 100_000, step);
        }
        cost
    }

    #[test]
    fn the_gain_of_continuing_a_stream_is_learned() {
        let near = |saving: Nanos, ms: f64| (saving.as_millis_f64() - ms).abs() < 0.1;
        assert!(near(learnt(6.0, 0.0).saving(), 6.0));
        assert!(near(learnt(6.0, 4.0).saving(), 2.0), "a disk that does not read ahead");
        let mut cost = learnt(4.0, 8.0);
        assert_eq!(cost.saving(), Nanos::ZERO, "a pause costs more than a seek");
        let mut now = cost.answered;
        for turn in 0..4000 {
            let (step, took) = if turn % 2 == 0 { (Step::Away, 5.0) } else { (Step::On, 1.0) };
            now += ms(took);
            cost.learn(now, now - ms(took), 0, 100_000, step);
        }
        assert!(cost.saving() > ms(2.0), "it is forgotten while there are no pauses");
    }

    #[test]
    fn commands_that_overlap_are_counted_from_the_answer_before() {
        let mut cost = Cost::default();
        for i in 1..200 {
            cost.learn(ms(i as f64), Nanos::ZERO, 1, 4096, Step::Away);
        }
        assert!((cost.service().as_millis_f64() - 1.0).abs() < 0.01, "{:?}", cost.service());
        assert_eq!(cost.service_of(1), cost.service());
        assert_eq!(cost.service_of(0), Cost::default().service_of(0), "there were none of those");
    }
}
