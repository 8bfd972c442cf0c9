//! Weight raising (`low_latency`): a stream that begins, or asks again after a pause, weighs thirty
//! times as much for some seconds, so that what a person waits for is done quickly.
//!
//! Many streams that begin together are one job (a boot, a make) that does not want latency: once a
//! burst is large none of its streams is raised, those before the last one from when they ask again.

use crate::contract::time::Nanos;

/// How many times more a raised queue weighs.
pub(super) const RAISE: u32 = 30;

/// How long a queue is raised on a rotating disk.
const RAISED_FOR: Nanos = Nanos::from_secs(7);

/// After a pause of this length a queue is raised again.
const PAUSE_MIN: Nanos = Nanos::from_secs(2);

/// Streams that begin within this time of the one before belong to its burst.
const BURST_GAP: Nanos = Nanos::from_millis(180);

/// Streams that make a burst large.
const BURST_LARGE: u32 = 8;

/// Streams that begin about now.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Burst {
    /// Bursts before it.
    number: u32,
    streams: u32,
    last: Nanos,
    /// The last burst that was large.
    large: Option<u32>,
}

impl Burst {
    fn begins(&mut self, now: Nanos) {
        if now > self.last + BURST_GAP {
            (self.number, self.streams) = (self.number + 1, 0);
        }
        self.streams += 1;
        self.last = now;
        if self.streams >= BURST_LARGE {
            self.large = Some(self.number);
        }
    }
}

/// Whether and until when one queue is raised.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Raised {
    until: Option<Nanos>,
    /// When it ran out of requests; none before its first.
    idle_since: Option<Nanos>,
    /// The burst that it began in.
    burst: u32,
}

impl Raised {
    /// The queue has requests again.
    pub(super) fn enter(&mut self, now: Nanos, burst: &mut Burst) {
        let is_new = self.idle_since.is_none();
        if is_new {
            burst.begins(now);
            self.burst = burst.number;
        }
        let is_of_large = burst.large == Some(self.burst);
        let has_paused = self.idle_since.is_none_or(|since| since + PAUSE_MIN <= now);
        if is_of_large && (is_new || !has_paused) {
            self.until = None;
        } else if has_paused {
            self.until = Some(now + RAISED_FOR);
        }
        self.expire(now);
    }

    /// The queue has no more requests.
    pub(super) fn leave(&mut self, now: Nanos) {
        self.idle_since = Some(now);
    }

    /// Ends the raising when its time is over.
    pub(super) fn expire(&mut self, now: Nanos) {
        self.until = self.until.filter(|&until| now < until);
    }

    #[inline]
    pub(super) fn is_raised(&self) -> bool {
        self.until.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_raised_when_it_begins_and_after_a_pause() {
        let (mut raised, mut burst) = (Raised::default(), Burst::default());
        let at = Nanos::from_secs;
        raised.enter(at(0), &mut burst);
        assert!(raised.is_raised());
        raised.leave(at(6));
        raised.enter(at(7), &mut burst);
        assert!(!raised.is_raised(), "seven seconds, and the pause was too short");
        raised.leave(at(8));
        raised.enter(at(10), &mut burst);
        assert!(raised.is_raised());
    }

    #[test]
    fn a_large_burst_is_not_raised() {
        let mut burst = Burst::default();
        let begin = |at_ms: u64, burst: &mut Burst| {
            let mut raised = Raised::default();
            raised.enter(Nanos::from_millis(at_ms), burst);
            raised.is_raised()
        };
        let raised = (0..20).filter(|i| begin(i * 100, &mut burst)).count();
        assert_eq!(raised, 7, "the eighth makes it large");
        assert!(begin(3000, &mut burst), "one that begins later is alone");
    }

    #[test]
    fn the_first_of_a_large_burst_lose_what_they_had_when_they_ask_again() {
        let (at, mut burst) = (Nanos::from_millis, Burst::default());
        let mut streams = [Raised::default(); 8];
        streams.iter_mut().for_each(|stream| stream.enter(at(1), &mut burst));
        assert!(streams[0].is_raised() && !streams[7].is_raised());
        for stream in &mut streams {
            stream.leave(at(2));
            stream.enter(at(3), &mut burst);
            assert!(!stream.is_raised());
            stream.leave(at(4));
            stream.enter(at(5000), &mut burst);
            assert!(stream.is_raised(), "one person's request after a pause");
        }
    }
}
