//! The memory for clients' requests and answers, shared by all drivers.
//!
//! Invariants: the memory in use never exceeds the limit. Apart from its first request, no client
//! holds more than an equal share, so that a few clients cannot hold everything. While a client
//! without memory waits for its first request, no client gets memory for more than one request.
//! While an export has a promise, a quarter of the memory is reserved for clients of such exports.

// Allowed because the memory is shared between threads.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// The smallest amount of memory that is reserved, in bytes.
const PAGE_BYTES: u64 = 4096;
/// The maximum length of a short request, and the fraction of the memory (one part in this many)
/// reserved for short requests, so that they need not wait for long ones.
const SHORT_BYTES: u64 = 64 << 10;
const SHORT_ONE_IN: u64 = 16;
/// The fraction of the memory (one part in this many) that is reserved for exports with a promise,
/// so that their requests need not wait for data that others have not sent yet.
const PROMISED_ONE_IN: u64 = 4;

/// The shared memory; clones refer to the same memory.
#[derive(Clone, Debug)]
pub(crate) struct RequestMemory(Arc<Held>);

#[derive(Debug)]
struct Held {
    limit_bytes: u64,
    /// The memory in use, in pages: that of exports with a promise in the upper 32 bits, and all of
    /// it in the lower ones, so that both change together.
    held_pages: AtomicU64,
    /// Whether an export has a promise.
    has_promises: AtomicBool,
    clients: AtomicUsize,
    /// The number of clients that wait for memory.
    starving: AtomicUsize,
    /// The number of waiting clients that hold no memory.
    hungry: AtomicUsize,
}

impl RequestMemory {
    /// Creates the memory, of which at most `limit_bytes` may be in use.
    pub(crate) fn new(limit_bytes: u64) -> RequestMemory {
        let (held_pages, has_promises, clients, starving, hungry) = Default::default();
        RequestMemory(Arc::new(Held {
            limit_bytes,
            held_pages,
            has_promises,
            clients,
            starving,
            hungry,
        }))
    }

    /// Sets whether a part of the memory is reserved for exports with a promise.
    pub(crate) fn reserves_for_promises(&self, has_promises: bool) {
        self.0.has_promises.store(has_promises, Ordering::Relaxed);
    }

    /// Registers that a client has connected, or has disconnected.
    pub(crate) fn shared_by(&self, has_come: bool) {
        match has_come {
            true => self.0.clients.fetch_add(1, Ordering::Relaxed),
            false => self.0.clients.fetch_sub(1, Ordering::Relaxed),
        };
    }

    /// Returns how much memory a buffer of `len` bytes occupies.
    pub(crate) fn occupied(len: u32) -> u64 {
        u64::from(len).max(PAGE_BYTES).next_power_of_two()
    }

    /// Reserves memory for a buffer of a client that already holds `own_bytes`; returns whether
    /// there was enough. `is_promised` says that the client's export has a promise.
    pub(crate) fn reserve(&self, bytes: u64, own_bytes: u64, is_promised: bool) -> bool {
        let Held { limit_bytes, held_pages, has_promises, clients, hungry, .. } = &*self.0;
        let clients = clients.load(Ordering::Relaxed).max(1) as u64;
        let kept = if bytes > SHORT_BYTES { limit_bytes / SHORT_ONE_IN } else { 0 };
        let most = limit_bytes - kept;
        let is_hungry = hungry.load(Ordering::Relaxed) > 0;
        let is_fair = own_bytes == 0 || !is_hungry && own_bytes + bytes <= most / clients;
        let reserved = match has_promises.load(Ordering::Relaxed) {
            true => limit_bytes / PROMISED_ONE_IN,
            false => 0,
        };
        let fits = |held: u64| {
            let [promised, all] = halves(held).map(|pages| pages * PAGE_BYTES);
            let is_allowed = match is_promised {
                true => is_fair || promised + bytes <= reserved,
                false => is_fair && all - promised + bytes <= most - reserved,
            };
            let fits = is_allowed && all + bytes <= most;
            fits.then(|| held + pages(bytes, is_promised))
        };
        held_pages.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }

    /// Releases memory that was reserved with the same `is_promised`.
    pub(crate) fn release(&self, bytes: u64, is_promised: bool) {
        self.0.held_pages.fetch_sub(pages(bytes, is_promised), Ordering::Relaxed);
    }

    /// Registers that a client waits for memory, or no longer does; `is_hungry` says that the
    /// client holds none.
    pub(crate) fn starves(&self, is_starving: bool, is_hungry: bool) {
        let Held { starving, hungry, .. } = &*self.0;
        for counter in [Some(starving), is_hungry.then_some(hungry)].into_iter().flatten() {
            match is_starving {
                true => counter.fetch_add(1, Ordering::Relaxed),
                false => counter.fetch_sub(1, Ordering::Relaxed),
            };
        }
    }

    /// Returns whether a client of any driver waits for memory.
    pub(crate) fn is_short(&self) -> bool {
        self.0.starving.load(Ordering::Relaxed) > 0
    }
}

/// Returns the summand of [`Held::held_pages`] for this amount of memory.
fn pages(bytes: u64, is_promised: bool) -> u64 {
    let pages = bytes / PAGE_BYTES;
    if is_promised { pages << 32 | pages } else { pages }
}

/// Splits [`Held::held_pages`] into its two numbers.
fn halves(held: u64) -> [u64; 2] {
    [held >> 32, held & u64::from(u32::MAX)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_occupy_powers_of_two() {
        let all = [0, 1, 4096, 4097, 32 << 20].map(RequestMemory::occupied);
        assert_eq!(all, [4096, 4096, 4096, 8192, 32 << 20]);
    }

    #[test]
    fn clients_have_equal_shares_and_at_least_one_request() {
        let memory = RequestMemory::new(16 << 20);
        (0..3).for_each(|_| memory.shared_by(true));
        let mut own = 0;
        while memory.reserve(1 << 20, own, false) {
            own += 1 << 20;
        }
        assert_eq!(own, 5 << 20, "a third of 15 MiB");
        assert!(memory.reserve(10 << 20, 0, false), "the first request of another");
        memory.release(15 << 20, false);
        memory.shared_by(false);
        assert!(memory.reserve(7 << 20, 1 << 19, false), "a half of 15 MiB");
    }

    #[test]
    fn a_long_first_request_is_not_overtaken_by_the_next_ones_of_others() {
        let memory = RequestMemory::new(64 << 20);
        (0..7).for_each(|_| memory.shared_by(true));
        (0..6).for_each(|_| assert!(memory.reserve(8 << 20, 0, false)));
        assert!(!memory.reserve(32 << 20, 0, false));
        memory.starves(true, true);
        memory.release(8 << 20, false);
        assert!(!memory.reserve(1 << 20, 7 << 20, false), "more for one that has some");
        (0..2).for_each(|_| memory.release(8 << 20, false));
        assert!(memory.reserve(32 << 20, 0, false));
        memory.starves(false, true);
        assert!(memory.reserve(1 << 20, 1 << 20, false));
    }

    #[test]
    fn long_requests_leave_memory_for_short_ones() {
        let memory = RequestMemory::new(16 << 20);
        assert!(memory.reserve(15 << 20, 0, false));
        assert!(!memory.reserve(128 << 10, 0, false), "a long one");
        for _ in 0..16 {
            assert!(memory.reserve(64 << 10, 0, false));
        }
        assert!(!memory.reserve(4096, 0, false), "nothing is left");
        memory.release(4096, false);
        assert!(memory.reserve(4096, 0, false));
    }

    #[test]
    fn half_sent_writes_of_others_leave_memory_for_promised_exports() {
        let memory = RequestMemory::new(64 << 20);
        memory.reserves_for_promises(true);
        (0..6).for_each(|_| memory.shared_by(true));
        // One request of maximum length fits, but exports without a promise may not use all of the
        // memory.
        assert!(memory.reserve(32 << 20, 0, false));
        assert!(memory.reserve(8 << 20, 0, false));
        assert!(!memory.reserve(8 << 20, 0, false));
        memory.starves(true, true);
        assert!(memory.reserve(1 << 20, 0, true));
        assert!(memory.reserve(1 << 20, 1 << 20, true), "although another client waits");
        assert!(memory.reserve(14 << 20, 2 << 20, true), "all that is reserved");
        assert!(!memory.reserve(1 << 20, 16 << 20, true), "then all are equal");
        memory.release(32 << 20, false);
        assert!(memory.reserve(32 << 20, 0, false), "promised requests do not take its place");
        memory.release(16 << 20, true);
        memory.starves(false, true);
        memory.reserves_for_promises(false);
        assert!(memory.reserve(8 << 20, 0, false), "nothing is reserved without a promise");
    }
}
