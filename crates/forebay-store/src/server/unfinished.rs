//! Limits the memory for incomplete commands. The maximum length of a command limits it for each
//! client; this module limits the total.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The time within which a client must complete its command or send [`LEAST_BYTES`] of it.
const WINDOW: Duration = Duration::from_secs(60);
/// The minimum number of bytes per [`WINDOW`]. Without it, a few very slow clients could occupy the
/// whole limit.
const LEAST_BYTES: usize = 1 << 20;

/// The bytes of incomplete commands of all clients.
#[derive(Default)]
pub(super) struct Unfinished(AtomicUsize);

/// One client's share of these bytes.
pub(super) struct Part {
    all: Arc<Unfinished>,
    bytes: usize,
    most: usize,
}

impl Part {
    /// Creates an empty share; the limit for all clients is `most`.
    pub(super) fn new(all: &Arc<Unfinished>, most: usize) -> Part {
        Part { all: Arc::clone(all), bytes: 0, most }
    }

    /// Registers that the client has sent `bytes` bytes of an incomplete command. Returns false if
    /// the limit is exceeded and this client must be disconnected.
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

/// The rate at which a client sends a command.
pub(super) struct Pace {
    since: Instant,
    /// The number of bytes of the command received by `since`.
    bytes: usize,
}

impl Pace {
    pub(super) fn new(now: Instant) -> Pace {
        Pace { since: now, bytes: 0 }
    }

    /// Registers that `bytes` bytes of an incomplete command have arrived so far. Returns false if
    /// the client is too slow and must be disconnected.
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
    fn clients_that_send_next_to_nothing_are_disconnected() {
        let begin = Instant::now();
        let at = |seconds: u64| begin + Duration::from_secs(seconds);
        // One byte every half minute is too slow.
        let mut pace = Pace::new(begin);
        assert!(pace.keeps_up(at(30), 1) && pace.keeps_up(at(60), 2) && !pace.keeps_up(at(61), 3));
        // A client that has nothing to send is not too slow.
        let mut pace = Pace::new(begin);
        assert!(
            pace.keeps_up(at(5000), 0) && pace.keeps_up(at(5060), 9) && !pace.keeps_up(at(5061), 9)
        );
        // Exactly the required rate is enough.
        let mut pace = Pace::new(begin);
        assert!(
            (1..60).all(|minute| pace.keeps_up(at(minute * 60), minute as usize * LEAST_BYTES))
        );
    }

    #[test]
    fn the_client_that_exceeds_the_memory_limit_is_disconnected() {
        let all = Arc::default();
        let (mut one, mut other) = (Part::new(&all, 100), Part::new(&all, 100));
        assert!(one.holds(60) && other.holds(40) && !other.holds(41));
        drop(other);
        assert!(one.holds(100) && one.holds(0));
        let mut third = Part::new(&all, 100);
        assert!(third.holds(100) && !one.holds(1));
    }
}
