//! What a client's reads may hold in memory: how many are under way, and how much of what they found was not
//! sent yet. A client that asks for much and takes little waits, and nobody else pays for it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Reads under way at a time.
const UNDER_WAY_MAX: usize = 32;
/// Bytes that reads under way find, as far as one can guess, and of replies not yet sent.
pub(super) const BYTES_MAX: usize = 16 << 20;
/// What a value is taken to have before the first was read.
const FIRST_GUESS: usize = 1 << 20;

struct State {
    under_way: usize,
    unsent: usize,
    /// Bytes that the next value may have: as the last ones did.
    guess: usize,
}

impl State {
    fn most(&self) -> usize {
        (BYTES_MAX / self.guess.max(1)).clamp(1, UNDER_WAY_MAX)
    }
}

/// Of one client.
pub(super) struct Reads {
    state: Mutex<State>,
    room: Condvar,
}

impl Reads {
    pub(super) fn new() -> Arc<Reads> {
        let state = State { under_way: 0, unsent: 0, guess: FIRST_GUESS };
        Arc::new(Reads { state: Mutex::new(state), room: Condvar::new() })
    }

    /// A panic elsewhere leaves numbers as they were.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins one, once there is room. The store answers whoever waits, so there will be.
    pub(super) fn begin(self: &Arc<Reads>) -> Reading {
        let mut state = self.state();
        if state.under_way >= state.most() {
            // Half of them at a time, so that threads do not take turns for each.
            while state.under_way > state.most() / 2 {
                state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
        state.under_way += 1;
        Reading(Arc::clone(self))
    }

    /// A reply of so many bytes waits to be sent.
    pub(super) fn holds(&self, bytes: usize) {
        self.state().unsent += bytes;
    }

    /// And was.
    pub(super) fn sent(&self, bytes: usize) {
        let mut state = self.state();
        state.unsent = state.unsent.saturating_sub(bytes);
    }

    /// Whether nothing more is to be read before replies are sent.
    pub(super) fn is_full(&self) -> bool {
        self.state().unsent >= BYTES_MAX
    }
}

/// One that is under way, until it is dropped.
pub(super) struct Reading(Arc<Reads>);

impl Reading {
    /// It found a value of so many bytes, of which so many are held until they are sent.
    pub(super) fn found(self, bytes: usize, held: usize) {
        let mut state = self.0.state();
        state.guess = bytes.max(state.guess / 2);
        state.unsent += held;
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.under_way -= 1;
        if state.under_way <= state.most() / 2 {
            self.0.room.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_larger_values_are_the_fewer_are_read_at_a_time() {
        let reads = Reads::new();
        let most = || reads.state().most();
        assert_eq!(most(), 16);
        reads.begin().found(4 << 20, 0);
        assert_eq!(most(), 4);
        reads.begin().found(64 << 20, 0);
        assert_eq!(most(), 1);
        (0..10).for_each(|_| reads.begin().found(100, 0));
        assert_eq!(most(), UNDER_WAY_MAX);
        let under_way: Vec<_> = (0..UNDER_WAY_MAX).map(|_| reads.begin()).collect();
        assert_eq!(reads.state().under_way, UNDER_WAY_MAX);
        drop(under_way);
        assert_eq!(reads.state().under_way, 0);
    }

    #[test]
    fn what_is_not_sent_counts() {
        let reads = Reads::new();
        reads.begin().found(BYTES_MAX - 1, BYTES_MAX - 1);
        assert!(!reads.is_full());
        reads.holds(1);
        assert!(reads.is_full());
        reads.sent(2);
        assert!(!reads.is_full());
    }
}
