//! Limits messages that repeat.

use forebay_core::Nanos;

use super::EVERY;

/// The maximum interval between reports of a repeated event.
const EVERY_MAX: Nanos = Nanos::from_millis(600_000);

/// Limits repeated messages: the first event of a kind is reported, and then at most one every
/// [`EVERY`]. The interval doubles after each report as long as the event keeps occurring.
#[derive(Clone, Debug)]
pub(super) struct Limiter<K> {
    known: Vec<Known<K>>,
}

#[derive(Clone, Debug)]
struct Known<K> {
    kind: K,
    told: Nanos,
    pause: Nanos,
    left_out: u64,
}

impl<K> Known<K> {
    /// Returns whether an event of this kind may be reported again.
    fn is_due(&self, now: Nanos) -> bool {
        now - self.told >= self.pause
    }

    /// Registers a report; returns the number of events omitted before it.
    fn tell(&mut self, now: Nanos) -> u64 {
        let went_on = self.left_out > 0 || now - self.told < self.pause + self.pause;
        self.pause = if went_on { EVERY_MAX.min(self.pause + self.pause) } else { EVERY };
        self.told = now;
        std::mem::take(&mut self.left_out)
    }
}

impl<K: PartialEq + Clone> Limiter<K> {
    pub(super) fn new() -> Limiter<K> {
        Limiter { known: Vec::new() }
    }

    /// Registers an event. If it should be reported, returns the number of similar events omitted
    /// before it.
    pub(super) fn event(&mut self, kind: &K, now: Nanos) -> Option<u64> {
        let Some(known) = self.known.iter_mut().find(|known| known.kind == *kind) else {
            let (kind, told) = (kind.clone(), now);
            self.known.push(Known { kind, told, pause: EVERY, left_out: 0 });
            return Some(0);
        };
        if !known.is_due(now) {
            known.left_out += 1;
            return None;
        }
        Some(known.tell(now))
    }

    /// Returns the kinds of omitted events that may be reported now, and how many; with `is_end`,
    /// all kinds.
    pub(super) fn due(&mut self, now: Nanos, is_end: bool) -> Vec<(K, u64)> {
        let is_due = |known: &&mut Known<K>| known.left_out > 0 && (is_end || known.is_due(now));
        let tell = |known: &mut Known<K>| (known.kind.clone(), known.tell(now));
        self.known.iter_mut().filter(is_due).map(tell).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(count: u64) -> Nanos {
        Nanos::from_millis(count * 1000)
    }

    #[test]
    fn repeated_events_are_reported_less_and_less_often_with_a_count() {
        let mut limiter = Limiter::new();
        assert_eq!(limiter.event(&'a', seconds(5)), Some(0));
        for nth in 0..30 {
            assert_eq!(limiter.event(&'a', seconds(5) + Nanos::from_millis(nth)), None);
        }
        assert_eq!(limiter.event(&'b', seconds(6)), Some(0), "another kind");
        assert_eq!(limiter.due(seconds(14), false), []);
        assert_eq!(limiter.event(&'a', seconds(15)), Some(30));
        assert_eq!(limiter.event(&'a', seconds(16)), None);
        assert_eq!(limiter.due(seconds(34), false), [], "twice as long");
        assert_eq!(limiter.due(seconds(35), false), [('a', 1)]);
        assert_eq!(limiter.due(seconds(60), true), [], "nothing was left out since");
        assert_eq!(limiter.event(&'a', seconds(61)), None, "four times as long");
        assert_eq!(limiter.due(seconds(62), true), [('a', 1)], "at the end all is told");
        // A day of failures takes some 150 lines.
        let told = (100..86_400).filter_map(|at| limiter.event(&'c', seconds(at))).count();
        assert!((140..160).contains(&told), "{told}");
        // After a long pause, the next event is reported immediately, like a first one.
        assert_eq!(limiter.event(&'c', seconds(90_000)).map(|_| ()), Some(()));
        assert_eq!(limiter.event(&'c', seconds(100_000)), Some(0));
        assert_eq!(limiter.event(&'c', seconds(100_009)), None);
        assert_eq!(limiter.due(seconds(100_010), false), [('c', 1)]);
    }
}
