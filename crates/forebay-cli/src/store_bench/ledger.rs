//! Checks freshness: no read may return a value that is older than the last write acknowledged
//! before the read began.
//!
//! Concurrent writes to a record may take effect in either order, so an acknowledged write rules
//! out older versions only if no other write was pending when it began.

use std::sync::atomic::{AtomicU64, Ordering};

/// The write history of each record.
pub(super) struct Ledger(Vec<Entry>);

#[derive(Default)]
struct Entry {
    /// The number of versions that were begun, times 2^24, plus the number of pending writes.
    begun: AtomicU64,
    /// The oldest version that a read may return, or 0 if no write was acknowledged.
    least: AtomicU64,
}

const ONE_VERSION: u64 = 1 << 24;

/// A pending write to a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Write {
    pub(super) version: u64,
    is_alone: bool,
}

impl Ledger {
    pub(super) fn of(records: u64) -> Ledger {
        Ledger((0..records).map(|_| Entry::default()).collect())
    }

    /// Records that a write begins.
    pub(super) fn begin(&self, record: u64) -> Write {
        let Some(entry) = self.0.get(record as usize) else {
            // Without a ledger, each record is written only once.
            return Write { version: 1, is_alone: true };
        };
        let before = entry.begun.fetch_add(ONE_VERSION + 1, Ordering::SeqCst);
        Write { version: before / ONE_VERSION + 1, is_alone: before.is_multiple_of(ONE_VERSION) }
    }

    /// Records that a write was acknowledged. A write that is never acknowledged stays pending
    /// forever, because it may still take effect.
    pub(super) fn done(&self, record: u64, write: Write) {
        let Some(entry) = self.0.get(record as usize) else { return };
        if write.is_alone {
            entry.least.fetch_max(write.version, Ordering::SeqCst);
        }
        entry.begun.fetch_sub(1, Ordering::SeqCst);
    }

    /// Returns the oldest version that a read beginning now may return, or 0 if it may find no
    /// value.
    pub(super) fn least(&self, record: u64) -> u64 {
        self.0.get(record as usize).map_or(0, |entry| entry.least.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acknowledged_put_rules_out_earlier_values() {
        let ledger = Ledger::of(1);
        assert_eq!(ledger.least(0), 0);
        let first = ledger.begin(0);
        assert_eq!((first.version, ledger.least(0)), (1, 0));
        ledger.done(0, first);
        assert_eq!(ledger.least(0), 1);
        // Two concurrent writes may take effect in either order.
        let (second, third) = (ledger.begin(0), ledger.begin(0));
        ledger.done(0, third);
        assert_eq!(ledger.least(0), 1);
        ledger.done(0, second);
        assert_eq!(ledger.least(0), 2);
        let fourth = ledger.begin(0);
        ledger.done(0, fourth);
        assert_eq!(ledger.least(0), 4);
        // A write without an answer may take effect at any time.
        ledger.begin(0);
        let sixth = ledger.begin(0);
        ledger.done(0, sixth);
        assert_eq!(ledger.least(0), 4);
    }
}
