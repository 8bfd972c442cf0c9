//! A part of a trace, and where the disk's blocks lie meanwhile.

use std::ops::Range;

use forebay_core::{Nanos, Rearrangement};

/// A part of a trace, on a disk that may be rearranged.
#[derive(Clone, Debug)]
pub(crate) struct Stretch<'a> {
    /// The requests that are replayed, by number; time begins with the first of them.
    pub(crate) requests: Range<u64>,
    /// Where the first disk's blocks lie, if not where the trace has them.
    pub(crate) rearrangement: Option<&'a Rearrangement>,
    /// When the copying begins; without it blocks were rearranged before.
    pub(crate) copied_from: Option<Nanos>,
    /// How long an idle period has to be to be of use.
    pub(crate) idle_needed: Nanos,
}

impl Stretch<'_> {
    /// These requests, blocks where the trace has them.
    pub(crate) fn of(requests: Range<u64>) -> Self {
        Stretch { requests, rearrangement: None, copied_from: None, idle_needed: Nanos::MAX }
    }
}
