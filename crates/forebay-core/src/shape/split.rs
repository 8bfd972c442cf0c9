//! Split: every class has its own server.
//!
//! The servers are lanes with the rates `cmin` (one for each tier) and delta-C. A server of
//! constant rate is then the one assumed by RTT, so no request of a tier ever misses its bound,
//! regardless of the other classes. However, no server helps another.

use super::{Backlog, Moment, Recombine};
use crate::contract::{Lane, Request};
use crate::rtt::Classes;

/// A shaper with one lane per class.
#[derive(Clone, Debug)]
pub struct Split {
    tiers: Classes,
}

impl Split {
    /// Creates a shaper with a class for each of `tiers` and one for the remaining requests.
    pub fn new(tiers: Classes) -> Split {
        Split { tiers }
    }
}

impl Recombine for Split {
    #[inline]
    fn arrive(&mut self, at: Moment, _: &Request, least: usize, backlog: &Backlog) -> usize {
        at.admit(&mut self.tiers, least, backlog).unwrap_or(self.tiers.count())
    }

    #[inline]
    fn next(&mut self, _: Moment, lane: Lane, backlog: &Backlog) -> Option<usize> {
        let class = usize::from(lane);
        backlog.is_ready(class).then_some(class)
    }
}
