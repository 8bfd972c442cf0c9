//! Detects whether the driver was blocked because a target accepted no more I/Os. Linux makes the
//! submitter of an I/O sleep if the device has no free tags, even with io_uring.
//!
//! Long submissions without a sleep are not counted, because they are caused by the machine and not
//! by the target. Counting sleeps requires a system call, so sleeps are counted only for a while
//! after a long submission; the first one is therefore missed.

use forebay_core::Nanos;

use crate::cpu::sleeps;

/// A submission longer than this is examined; a normal one takes a few microseconds.
const LONG: Nanos = Nanos::from_micros(50);
/// How long sleeps are counted after a long submission.
const WATCHED: Nanos = Nanos::from_millis(1000);

/// The recent delays of submissions.
#[derive(Debug, Default)]
pub(crate) struct SubmissionDelays {
    watched_until: Nanos,
    spell: Option<(Nanos, Nanos)>,
}

/// A submission that has begun.
pub(crate) struct StartedSubmission {
    at: Nanos,
    sleeps: Option<u64>,
}

impl SubmissionDelays {
    /// Returns whether a submission took long recently, so that sleeps are counted.
    pub(crate) fn is_watched(&self, now: Nanos) -> bool {
        now < self.watched_until
    }

    /// Registers that a submission begins.
    pub(crate) fn begin(&self, now: Nanos) -> StartedSubmission {
        StartedSubmission { at: now, sleeps: self.is_watched(now).then(sleeps) }
    }

    /// Registers that a submission has ended.
    pub(crate) fn end(&mut self, begun: &StartedSubmission, now: Nanos) {
        if now - begun.at < LONG {
            return;
        }
        self.took_long(now);
        if begun.sleeps.is_some_and(|before| sleeps() > before) {
            let from = self.spell.map_or(begun.at, |(from, _)| from);
            self.spell = Some((from, now));
        }
    }

    /// Registers that an operation that includes a submission took too long.
    pub(crate) fn took_long(&mut self, now: Nanos) {
        self.watched_until = now + WATCHED;
    }

    /// Returns the start and end of the delay since the last call, if any.
    pub(crate) fn take(&mut self) -> Option<(Nanos, Nanos)> {
        self.spell.take()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn only_sleep_during_submission_delays_a_driver() {
        let (mut held, us) = (SubmissionDelays::default(), Nanos::from_micros);
        let sleep = || std::thread::sleep(Duration::from_micros(200));
        // Sleeps are not counted yet during the first long submission.
        let begun = held.begin(us(0));
        sleep();
        held.end(&begun, us(200));
        assert_eq!(held.take(), None);
        // A long submission that works without sleeping does not count.
        let begun = held.begin(us(300));
        let since = Instant::now();
        while since.elapsed() < Duration::from_micros(200) {
            std::hint::spin_loop();
        }
        held.end(&begun, us(500));
        assert_eq!(held.take(), None);
        // Two sleeps in one pass are one delay, and a short sleep does not count.
        for at in [600, 900] {
            let begun = held.begin(us(at));
            sleep();
            held.end(&begun, us(at + 200));
        }
        assert_eq!((held.take(), held.take()), (Some((us(600), us(1100))), None));
        let begun = held.begin(us(1200));
        sleep();
        held.end(&begun, us(1249));
        assert_eq!(held.take(), None);
        assert!(held.is_watched(us(1_000_000)) && !held.is_watched(us(1_001_100)));
    }
}
