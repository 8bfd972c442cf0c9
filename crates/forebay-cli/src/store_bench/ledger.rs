//! What a read may find: no value older than one that was acknowledged before the read began.
//!
//! Writes to a record that were under way together may have taken effect in either order, so only a write that
//! began alone puts an end to the versions before it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Of each record what was written.
pub(super) struct Ledger(Vec<Entry>);

#[derive(Default)]
struct Entry {
    /// Versions begun, 2^24 times, and writes under way.
    begun: AtomicU64,
    /// The least version that a read may find; 0 where nothing was acknowledged.
    least: AtomicU64,
}

const ONE_VERSION: u64 = 1 << 24;

/// A write under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Write {
    pub(super) version: u64,
    is_alone: bool,
}

impl Ledger {
    pub(super) fn of(records: u64) -> Ledger {
        Ledger((0..records).map(|_| Entry::default()).collect())
    }

    /// A write begins.
    pub(super) fn begin(&self, record: u64) -> Write {
        let Some(entry) = self.0.get(record as usize) else {
            // Not kept: it is written once.
            return Write { version: 1, is_alone: true };
        };
        let before = entry.begun.fetch_add(ONE_VERSION + 1, Ordering::SeqCst);
        Write { version: before / ONE_VERSION + 1, is_alone: before.is_multiple_of(ONE_VERSION) }
    }

    /// It was acknowledged. One that was not counts as under way for ever: it may take effect yet.
    pub(super) fn done(&self, record: u64, write: Write) {
        let Some(entry) = self.0.get(record as usize) else { return };
        if write.is_alone {
            entry.least.fetch_max(write.version, Ordering::SeqCst);
        }
        entry.begun.fetch_sub(1, Ordering::SeqCst);
    }

    /// The least version that a read which begins now may find; 0 where it may find none.
    pub(super) fn least(&self, record: u64) -> u64 {
        self.0.get(record as usize).map_or(0, |entry| entry.least.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_acknowledged_alone_ends_what_was_before() {
        let ledger = Ledger::of(1);
        assert_eq!(ledger.least(0), 0);
        let first = ledger.begin(0);
        assert_eq!((first.version, ledger.least(0)), (1, 0));
        ledger.done(0, first);
        assert_eq!(ledger.least(0), 1);
        // Two together may end in either order.
        let (second, third) = (ledger.begin(0), ledger.begin(0));
        ledger.done(0, third);
        assert_eq!(ledger.least(0), 1);
        ledger.done(0, second);
        assert_eq!(ledger.least(0), 2);
        let fourth = ledger.begin(0);
        ledger.done(0, fourth);
        assert_eq!(ledger.least(0), 4);
        // One that was never answered may take effect at any time.
        ledger.begin(0);
        let sixth = ledger.begin(0);
        ledger.done(0, sixth);
        assert_eq!(ledger.least(0), 4);
    }
}
