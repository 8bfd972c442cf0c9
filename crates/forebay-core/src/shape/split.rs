//! Split: every class has a server to itself.
//!
//! The servers are lanes, of rates `cmin` (one a tier) and delta-C. A server of constant rate is
//! then the one that RTT counts on, so no request of a tier ever misses its bound, whatever the
//! rest does; but no server helps another.

use super::{Backlog, Moment, Recombine};
use crate::contract::request::{Lane, Request};
use crate::rtt::Classes;

/// A lane a class.
#[derive(Clone, Debug)]
pub struct Split {
    tiers: Classes,
}

impl Split {
    /// Serves `tiers`, and one more class for the rest.
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
