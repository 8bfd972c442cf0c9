//! How reads and writes share the device: in one sweep, in excursions from it, or in turns.
//!
//! A common sweep moves the heads least, but a read has to wait for every write on the way. That is
//! negligible if there are few writes, but takes seconds if there are a hundred writes of half a
//! megabyte per read. In that case reads go first for a turn. Afterwards the sweep resumes where it
//! stopped.
//!
//! A stream that keeps sending requests ahead of the head prevents a sweep from completing. As soon
//! as another request has waited for long because of this, sweeps are shortened: reads and writes
//! get separate sweeps, each over half as many requests.

use super::super::queue::{Queue, QueuedId};
use super::{Forebay, READS, Side, WRITES};
use crate::contract::Nanos;

/// Both kinds share a sweep unless the waiting writes take more than this many times as long as the
/// waiting reads.
const BULK: u64 = 16;

/// While a request is late, both kinds share a sweep only if the waiting reads take at least this
/// many times as long as the waiting writes.
const BULK_LATE: u64 = 2;

/// A request is late if it has waited for this long, in percent of the bound. Once a request is
/// late, lateness ends only when no request has waited for more than `LATE_UNTIL`.
const LATE_FROM: u64 = 80;
const LATE_UNTIL: u64 = 20;

/// How the kinds share the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sharing {
    /// One sweep over both kinds.
    Together,
    /// A common sweep, interrupted by turns of reads.
    Excursions,
    /// A request is late, but both kinds are still dispatched together, because there are few
    /// writes.
    TogetherLate,
    /// A request is late: separate turns of reads and of writes.
    Turns,
}

impl Side {
    /// Returns the next request of an upward sweep from `place`, which continues at the lowest one.
    pub(super) fn next_from(&self, place: u64) -> Option<(u64, QueuedId)> {
        self.sorted.at_or_above(place).or(self.sorted.first())
    }
}

impl Forebay {
    /// Returns how reads and writes should share the device from now on.
    pub(super) fn shared(&self, now: Nanos, queue: &Queue) -> Sharing {
        let [reads, writes] = [READS, WRITES].map(|kind| {
            self.cost.service_of(kind).0.saturating_mul(self.sides[kind].sorted.len() as u64)
        });
        let was_late = matches!(self.sharing, Sharing::TogetherLate | Sharing::Turns);
        let percent = if was_late { LATE_UNTIL } else { LATE_FROM };
        let waited = |side: &Side| side.fifo.front().map(|id| now - queue[id].added);
        let oldest = self.sides.iter().filter_map(waited).max().unwrap_or(Nanos::ZERO);
        if oldest.0.saturating_mul(100) > self.config.bound.0.saturating_mul(percent) {
            let together = writes.saturating_mul(BULK_LATE) <= reads;
            return if together { Sharing::TogetherLate } else { Sharing::Turns };
        }
        let together = writes <= reads.saturating_mul(BULK);
        if together { Sharing::Together } else { Sharing::Excursions }
    }

    /// Returns the next request of the common sweep, of either kind.
    pub(super) fn on_the_way(&self) -> Option<QueuedId> {
        let next = self.sides.iter().filter_map(|side| side.next_from(self.place));
        next.min_by_key(|&(offset, _)| offset.wrapping_sub(self.place)).map(|(_, id)| id)
    }

    /// Returns whether reads are now interrupting the common sweep, which will resume where it
    /// stopped.
    pub(super) fn is_excursion(&self) -> bool {
        self.sharing == Sharing::Excursions && self.turn == READS
    }
}
