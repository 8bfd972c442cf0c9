//! Limits a client's reads: the number in flight, and the bytes of results that wait to be sent. A
//! client that requests much and reads slowly delays only itself.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The maximum number of reads in flight.
const UNDER_WAY_MAX: usize = 32;
/// The maximum number of bytes in the estimated results of reads in flight and in unsent replies.
pub(super) const BYTES_MAX: usize = 16 << 20;
/// The estimated size of a value until the first has been read.
const FIRST_GUESS: usize = 1 << 20;

struct State {
    under_way: usize,
    unsent: usize,
    /// The estimated size of the next value, based on previous ones.
    guess: usize,
}

impl State {
    fn most(&self) -> usize {
        (BYTES_MAX / self.guess.max(1)).clamp(1, UNDER_WAY_MAX)
    }
}

/// The reads of one client.
pub(super) struct Reads {
    state: Mutex<State>,
    room: Condvar,
}

impl Reads {
    pub(super) fn new() -> Arc<Reads> {
        let state = State { under_way: 0, unsent: 0, guess: FIRST_GUESS };
        Arc::new(Reads { state: Mutex::new(state), room: Condvar::new() })
    }

    /// Locks the state. A panic elsewhere cannot leave the numbers inconsistent.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a read, waiting until there is space for it. The wait ends because the store always
    /// answers.
    pub(super) fn begin(self: &Arc<Reads>) -> Reading {
        let mut state = self.state();
        if state.under_way >= state.most() {
            // Waiting until half of the reads have ended avoids a thread switch for each read.
            while state.under_way > state.most() / 2 {
                state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
        state.under_way += 1;
        Reading(Arc::clone(self))
    }

    /// Registers that `bytes` bytes of a reply wait to be sent.
    pub(super) fn holds(&self, bytes: usize) {
        self.state().unsent += bytes;
    }

    /// Registers that `bytes` bytes have been sent.
    pub(super) fn sent(&self, bytes: usize) {
        let mut state = self.state();
        state.unsent = state.unsent.saturating_sub(bytes);
    }

    /// Returns whether replies must be sent before any more values are read.
    pub(super) fn is_full(&self) -> bool {
        self.state().unsent >= BYTES_MAX
    }
}

/// A read in flight, until it is dropped.
pub(super) struct Reading(Arc<Reads>);

impl Reading {
    /// Registers that the read returned a value of `bytes` bytes, of which `held` are waiting to be
    /// sent.
    pub(super) fn returned(self, bytes: usize, held: usize) {
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
    fn fewer_large_values_are_read_at_a_time() {
        let reads = Reads::new();
        let most = || reads.state().most();
        assert_eq!(most(), 16);
        reads.begin().returned(4 << 20, 0);
        assert_eq!(most(), 4);
        reads.begin().returned(64 << 20, 0);
        assert_eq!(most(), 1);
        (0..10).for_each(|_| reads.begin().returned(100, 0));
        assert_eq!(most(), UNDER_WAY_MAX);
        let under_way: Vec<_> = (0..UNDER_WAY_MAX).map(|_| reads.begin()).collect();
        assert_eq!(reads.state().under_way, UNDER_WAY_MAX);
        drop(under_way);
        assert_eq!(reads.state().under_way, 0);
    }

    #[test]
    fn unsent_replies_count() {
        let reads = Reads::new();
        reads.begin().returned(BYTES_MAX - 1, BYTES_MAX - 1);
        assert!(!reads.is_full());
        reads.holds(1);
        assert!(reads.is_full());
        reads.sent(2);
        assert!(!reads.is_full());
    }
}
