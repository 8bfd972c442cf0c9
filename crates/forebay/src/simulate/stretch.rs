//! A part of a trace, with the arrangement of the disk's blocks.

use std::ops::Range;

use forebay_core::{Nanos, Rearrangement};

/// A part of a trace to be replayed on a disk whose blocks may be rearranged.
#[derive(Clone, Debug)]
pub(crate) struct Stretch<'a> {
    /// The numbers of the requests to replay. Time starts at the first of them.
    pub(crate) requests: Range<u64>,
    /// The locations of the first disk's blocks; None if they are where the trace has them.
    pub(crate) rearrangement: Option<&'a Rearrangement>,
    /// When moving the blocks begins; `None` if they were rearranged beforehand.
    pub(crate) copied_from: Option<Nanos>,
    /// The minimum length of an idle period to look for.
    pub(crate) idle_needed: Nanos,
}

impl Stretch<'_> {
    /// Creates a part with these requests, on a disk whose blocks are not rearranged.
    pub(crate) fn of(requests: Range<u64>) -> Self {
        Stretch { requests, rearrangement: None, copied_from: None, idle_needed: Nanos::MAX }
    }
}
