//! What clients have begun to send and not finished: bounded for each by the longest command, and here in all.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// In so long a client sends a command to its end,
const WINDOW: Duration = Duration::from_secs(60);
/// or so many bytes of it: else few clients that send next to nothing would hold all that there is.
const LEAST_BYTES: usize = 1 << 20;

/// Bytes of unfinished commands of all clients.
#[derive(Default)]
pub(super) struct Unfinished(AtomicUsize);

/// A client's part of them.
pub(super) struct Part {
    all: Arc<Unfinished>,
    bytes: usize,
    most: usize,
}

impl Part {
    /// None yet, of at most `most` in all.
    pub(super) fn new(all: &Arc<Unfinished>, most: usize) -> Part {
        Part { all: Arc::clone(all), bytes: 0, most }
    }

    /// The client has sent so many bytes of a command; false, where all clients have sent too much and this one is
    /// to go.
    pub(super) fn holds(&mut self, bytes: usize) -> bool {
        let before = std::mem::replace(&mut self.bytes, bytes);
        let all = &self.all.0;
        if bytes <= before {
            all.fetch_sub(before - bytes, Ordering::SeqCst);
            return true;
        }
        all.fetch_add(bytes - before, Ordering::SeqCst) + (bytes - before) <= self.most
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.all.0.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

/// How fast a client sends a command.
pub(super) struct Pace {
    since: Instant,
    /// Of the command, then.
    bytes: usize,
}

impl Pace {
    pub(super) fn new(now: Instant) -> Pace {
        Pace { since: now, bytes: 0 }
    }

    /// By now so many bytes have come of a command that has no end yet; false, where the client is to go.
    pub(super) fn keeps_up(&mut self, now: Instant, bytes: usize) -> bool {
        if bytes == 0 || bytes >= self.bytes + LEAST_BYTES {
            *self = Pace { since: now, bytes };
        }
        now - self.since <= WINDOW
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_sends_next_to_nothing_is_to_go() {
        let begin = Instant::now();
        let at = |seconds: u64| begin + Duration::from_secs(seconds);
        // A byte every half minute.
        let mut pace = Pace::new(begin);
        assert!(pace.keeps_up(at(30), 1) && pace.keeps_up(at(60), 2) && !pace.keeps_up(at(61), 3));
        // Nobody waits for one that has nothing to send.
        let mut pace = Pace::new(begin);
        assert!(
            pace.keeps_up(at(5000), 0) && pace.keeps_up(at(5060), 9) && !pace.keeps_up(at(5061), 9)
        );
        // As much as is asked for.
        let mut pace = Pace::new(begin);
        assert!(
            (1..60).all(|minute| pace.keeps_up(at(minute * 60), minute as usize * LEAST_BYTES))
        );
    }

    #[test]
    fn who_makes_it_too_much_is_to_go() {
        let all = Arc::default();
        let (mut one, mut other) = (Part::new(&all, 100), Part::new(&all, 100));
        assert!(one.holds(60) && other.holds(40) && !other.holds(41));
        drop(other);
        assert!(one.holds(100) && one.holds(0));
        let mut third = Part::new(&all, 100);
        assert!(third.holds(100) && !one.holds(1));
    }
}
