//! The busy time of a drive: with commands outstanding, or its arm working on the write cache. Each
//! moment counts once, and only after it has passed.
//!
//! The arm's work is reported late, when the drive is next examined, or in advance, when a write
//! waits for cache space.

/// Spans of busy time.
#[derive(Clone, Debug, Default)]
pub(super) struct Busy {
    /// The total length of spans that can no longer grow.
    settled_ns: u64,
    /// The other spans, which neither overlap nor touch.
    spans: Vec<(u64, u64)>,
    /// Since when commands have been outstanding.
    open: Option<u64>,
}

impl Busy {
    /// Records that a command arrives at an idle drive. All activity of the arm up to `now` has
    /// already been recorded.
    pub(super) fn begin(&mut self, now: u64) {
        self.open = Some(now);
        let ended = |span: &(u64, u64)| span.1 <= now;
        let lengths = self.spans.iter().filter(|span| ended(span)).map(|span| span.1 - span.0);
        self.settled_ns = self.settled_ns.saturating_add(lengths.sum());
        self.spans.retain(|span| !ended(span));
    }

    /// Records the completion of the last outstanding command.
    pub(super) fn end(&mut self, done: u64) {
        if let Some(since) = self.open.take() {
            self.add(since, done);
        }
    }

    /// Records that the arm works on the cache from `since` to `until`, which became known at
    /// `now`.
    pub(super) fn work(&mut self, now: u64, since: u64, until: u64) {
        if let Some(open) = self.open {
            self.spans.retain(|span| span.0 < open || span.1 > now);
        }
        self.add(since, until);
    }

    fn add(&mut self, since: u64, until: u64) {
        let mut whole = (since, until);
        self.spans.retain(|span| {
            let is_apart = span.1 < whole.0 || whole.1 < span.0;
            if !is_apart {
                whole = (whole.0.min(span.0), whole.1.max(span.1));
            }
            is_apart
        });
        self.spans.push(whole);
    }

    /// Returns the busy time until `now`.
    pub(super) fn at(&self, now: u64) -> u64 {
        let before = self.open.map_or(now, |open| open.min(now));
        let part = |span: &(u64, u64)| span.1.min(before).saturating_sub(span.0);
        let spans: u64 = self.spans.iter().map(part).sum();
        self.settled_ns.saturating_add(spans).saturating_add(now - before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_busy_times_count_once() {
        let mut busy = Busy::default();
        busy.begin(10);
        busy.work(10, 15, 40);
        assert_eq!([busy.at(10), busy.at(20)], [0, 10]);
        busy.end(30);
        assert_eq!([busy.at(30), busy.at(35), busy.at(50)], [20, 25, 30]);
        // Work that is recorded late, and work that is known in advance, with a gap in between.
        busy.work(60, 50, 70);
        busy.work(60, 90, 95);
        assert_eq!([busy.at(60), busy.at(80), busy.at(92), busy.at(99)], [40, 50, 52, 55]);
        busy.begin(92);
        assert_eq!(busy.at(94), 54);
        busy.end(100);
        assert_eq!(busy.at(120), 60);
    }

    #[test]
    fn busy_times_within_a_long_wait_are_not_stored() {
        let mut busy = Busy::default();
        busy.begin(0);
        for at in 1..1000 {
            busy.work(at * 10, at * 10, at * 10 + 5);
        }
        assert!(busy.spans.len() <= 2, "{}", busy.spans.len());
        assert_eq!(busy.at(9_998), 9_998);
    }
}
