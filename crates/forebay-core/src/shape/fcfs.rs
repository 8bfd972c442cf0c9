//! First come, first served, without decomposition: the baseline for shapers.

use super::{Backlog, Moment, Recombine};
use crate::contract::{Lane, Request};

/// A shaper with a single queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fcfs;

impl Recombine for Fcfs {
    #[inline]
    fn arrive(&mut self, _: Moment, _: &Request, _: usize, _: &Backlog) -> usize {
        0
    }

    #[inline]
    fn next(&mut self, _: Moment, _lane: Lane, backlog: &Backlog) -> Option<usize> {
        backlog.is_ready(0).then_some(0)
    }
}
