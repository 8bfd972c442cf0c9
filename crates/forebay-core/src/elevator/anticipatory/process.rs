//! What the anticipatory scheduler knows about processes: whether, when and where a process will
//! read again.

use crate::contract::Nanos;
use crate::elevator::history::ThinkTime;

/// The limit for think times (20 ms), stored as half of it.
const THINK_HALF_MAX: Nanos = Nanos::from_millis(10);

/// A single distance counts as at most four times the mean distance plus this.
const DISTANCE_SLACK_BYTES: u64 = 64 << 20;

/// The mean distance between a process's requests: an exponential mean with a weight of one eighth.
#[derive(Clone, Copy, Debug, Default)]
struct SeekDistance {
    samples: u64,
    total: u128,
    mean: u64,
    last_end: Option<u64>,
}

impl SeekDistance {
    fn arrive(&mut self, offset: u64, end: u64) {
        if let Some(last) = self.last_end {
            let most = self.mean.saturating_mul(4).saturating_add(DISTANCE_SLACK_BYTES);
            let distance = match self.samples {
                0 => offset.abs_diff(last),
                _ => offset.abs_diff(last).min(most),
            };
            self.samples = (7 * self.samples + 256) / 8;
            self.total = (7 * self.total + 256 * u128::from(distance)) / 8;
            self.mean = u64::try_from(self.total / u128::from(self.samples)).unwrap_or(u64::MAX);
        }
        self.last_end = Some(end);
    }
}

/// The state of one process.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Process {
    think: ThinkTime,
    seeks: SeekDistance,
    has_read: bool,
    /// The number of its synchronous requests in the queue.
    pub(super) queued: u32,
    /// The number of its synchronous requests at the device.
    pub(super) in_flight: u32,
}

impl Process {
    /// Records the arrival of a synchronous request, which enters the queue.
    pub(super) fn arrive(&mut self, now: Nanos, offset: u64, end: u64, newcomers: &mut Newcomers) {
        if self.queued + self.in_flight > 0 {
            // The process did not wait for the previous answer, so its think time is 0.
            self.think.last_end = now;
        }
        if self.has_read {
            if self.think.mean().is_none() {
                newcomers.second_read(now - self.think.last_end);
            }
            self.think.arrive(now, THINK_HALF_MAX);
        }
        self.has_read = true;
        self.seeks.arrive(offset, end);
        self.queued += 1;
    }

    /// Forgets all except outstanding requests.
    pub(super) fn begin(&mut self) {
        let Process { queued, in_flight, .. } = *self;
        *self = Process { queued, in_flight, ..Process::default() };
    }

    /// Records that a request of the process has completed.
    pub(super) fn completed(&mut self, now: Nanos) {
        self.in_flight -= 1;
        self.think.last_end = now;
    }

    /// Returns when the last request of the process completed.
    pub(super) fn idle_since(&self) -> Nanos {
        self.think.last_end
    }

    /// Returns whether the process has read only once so far.
    pub(super) fn is_new(&self) -> bool {
        self.think.mean().is_none()
    }

    /// Returns whether the next read of the process can be expected within `span` of its last one.
    pub(super) fn reads_on_within(&self, span: Nanos, newcomers: &Newcomers) -> bool {
        match self.think.mean() {
            Some(mean) => mean <= span,
            None => newcomers.read_on_within(span),
        }
    }

    /// Returns the mean distance between consecutive requests of the process.
    pub(super) fn seek_mean(&self) -> u64 {
        self.seeks.mean
    }
}

/// Statistics on what processes do after their first read, which predict what the next new process
/// will do.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Newcomers {
    /// The share of processes that never read again, in units of 1/256: an exponential mean with a
    /// weight of one eighth.
    ended: u32,
    think: Option<Nanos>,
}

impl Newcomers {
    fn second_read(&mut self, think: Nanos) {
        let think = think.min(Nanos(2 * THINK_HALF_MAX.0));
        self.ended = 7 * self.ended / 8;
        self.think = Some(self.think.map_or(think, |mean| Nanos((7 * mean.0 + think.0) / 8)));
    }

    /// Records that the scheduler waited in vain for a process's second read.
    pub(super) fn end(&mut self) {
        self.ended = (7 * self.ended + 256) / 8;
    }

    fn read_on_within(&self, span: Nanos) -> bool {
        self.ended <= 128 && self.think.is_none_or(|mean| mean <= span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newcomers_that_end_are_no_longer_waited_for_until_one_reads_on() {
        let (mut newcomers, span) = (Newcomers::default(), Nanos::from_millis(6));
        for _ in 0..5 {
            assert!(newcomers.read_on_within(span));
            newcomers.end();
        }
        newcomers.end();
        assert!(!newcomers.read_on_within(span));
        (0..4).for_each(|_| newcomers.second_read(Nanos::from_millis(1)));
        assert!(newcomers.read_on_within(span));
    }

    #[test]
    fn a_far_outlier_does_not_ruin_the_mean_distance() {
        let mut seeks = SeekDistance::default();
        for step in 0..50 {
            seeks.arrive(step * 8192, step * 8192 + 4096);
        }
        assert!((4_096..4_300).contains(&seeks.mean), "{}", seeks.mean);
        seeks.arrive(1 << 40, (1 << 40) + 4096);
        assert!(seeks.mean < 10 << 20, "{}", seeks.mean);
    }
}
