//! A part of a trace, with the disk's block arrangement during it.

use std::ops::Range;

use forebay_core::{Nanos, Rearrangement};

/// A part of a trace, on a disk whose blocks may be rearranged.
#[derive(Clone, Debug)]
pub(crate) struct Stretch<'a> {
    /// The range of requests to replay; time starts at the first of them.
    pub(crate) requests: Range<u64>,
    /// The locations of the first disk's blocks, if different from the trace.
    pub(crate) rearrangement: Option<&'a Rearrangement>,
    /// The time at which copying begins; none if the blocks were rearranged beforehand.
    pub(crate) copied_from: Option<Nanos>,
    /// The least length of a useful idle period.
    pub(crate) idle_needed: Nanos,
}

impl Stretch<'_> {
    /// Makes a stretch of these requests, with blocks located as in the trace.
    pub(crate) fn of(requests: Range<u64>) -> Self {
        Stretch { requests, rearrangement: None, copied_from: None, idle_needed: Nanos::MAX }
    }
}
