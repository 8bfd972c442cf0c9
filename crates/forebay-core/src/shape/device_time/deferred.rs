//! The work that a drive defers.
//!
//! A drive with a write cache acknowledges writes before performing them, and the deferred writes
//! then compete with promised reads. If a promised I/O is at the device much longer than estimated,
//! the difference between cost and measured time of each unpromised write is *owed* from then on.
//! Unpromised writes enter only when enough of this debt has been paid, which happens while the
//! device is empty, and more slowly while it is not. The difference of promised writes is owed too,
//! and all unpromised I/Os wait until it has been paid: without pauses, the drive would have to
//! perform these writes while promised I/Os wait.
//!
//! From the first I/O on, the whole difference is owed. While promised I/Os take as long as
//! estimated, the share that is owed shrinks to zero within [`OWED_BOUNDS`](super::OWED_BOUNDS). If
//! promised I/Os take too long at some share, the whole is owed again, and the share then shrinks
//! only half as far before it shrinks more slowly, by 1 / [`CAREFUL`]. Otherwise, such a drive
//! would fill its cache and then empty it again and again.

use super::{CAREFUL, DeviceTime, InDevice, PAID_BUSY, Share};
use crate::contract::Nanos;

impl DeviceTime {
    /// Returns how much of the debt has been paid since its last update.
    pub(super) fn paid_until(&self, now: Nanos) -> Nanos {
        let since = now - self.owed_since;
        if self.inside.is_empty() { since } else { Nanos(since.0 / PAID_BUSY) }
    }

    /// Updates the debt to the time `now`.
    pub(super) fn pay(&mut self, now: Nanos) {
        let paid = self.paid_until(now);
        (self.owed, self.owed_promised) = (self.owed - paid, self.owed_promised - paid);
        self.owed_since = now;
    }

    /// Updates the debt after `io` has completed.
    pub(super) fn defer(
        &mut self,
        now: Nanos,
        io: &InDevice,
        took: Nanos,
        excess: Nanos,
        window: Nanos,
    ) {
        let is_promised = io.deadline.is_some();
        let is_first = self.disturbed.is_none() && self.shortest > Nanos::ZERO;
        if is_promised && excess.0 > window.0 / 2 || is_first {
            self.disturb(now);
        }
        let Some(disturbed) = self.disturbed.filter(|_| io.is_write()) else { return };
        let share = self.owed_share(now - disturbed);
        let owed = share.of(io.cost - took);
        self.has_deferred |= owed > Nanos::ZERO;
        self.owed += owed;
        if is_promised {
            // Times vary: defer only the time that these writes save on average.
            let paid = share.of(took - io.cost);
            self.owed = self.owed - paid;
            self.owed_promised = self.owed_promised + owed - paid;
        }
    }

    /// Records that a promised I/O took too long, or that the first I/O has completed.
    pub(super) fn disturb(&mut self, now: Nanos) {
        let share = self.disturbed.map_or(Share::ALL, |at| self.owed_share(now - at));
        // Several disturbances in a row carry no more information than the first one.
        if self.has_deferred && share.0 < Share::ALL.0 - Share::ALL.0 / CAREFUL {
            self.careful = share.half_way_to_all();
        }
        (self.disturbed, self.has_deferred) = (Some(now), false);
    }

    /// Returns the owed share of deferred work, some time after a promised I/O took too long.
    pub(super) fn owed_share(&self, since: Nanos) -> Share {
        let quick = Share::ALL.without(since, self.owed_for);
        let until_careful = self.owed_for - self.careful.of(self.owed_for);
        let slow_for = Nanos(self.owed_for.0.saturating_mul(CAREFUL));
        Share(quick.0.max(self.careful.without(since - until_careful, slow_for).0))
    }
}
