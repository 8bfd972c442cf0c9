//! Records whether the bound was kept: compares the time from admission to the answer with the
//! bound.
//!
//! A bound shorter than the device's time for a full queue cannot be kept in any order. In this
//! case the oldest requests go first, and late ones are counted.

use crate::contract::{Figure, Nanos};

/// The observations so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BoundRecord {
    longest: Nanos,
    beyond: u64,
}

impl BoundRecord {
    /// Records that an I/O was answered `wait` after the admission of its first request.
    pub(super) fn answered(&mut self, wait: Nanos, bound: Nanos) {
        self.longest = self.longest.max(wait);
        self.beyond += u64::from(wait > bound);
    }

    /// Returns the statistics; `bound_held` is 1 or 0.
    pub(super) fn figures(&self, bound: Nanos) -> Vec<Figure> {
        vec![
            ("bound_ms", bound.as_millis_f64()),
            ("bound_held", f64::from(u8::from(self.beyond == 0))),
            ("longest_queue_wait_ms", self.longest.as_millis_f64()),
            ("ios_beyond_bound", self.beyond as f64),
        ]
    }
}
