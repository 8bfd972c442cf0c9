//! The arrival times of clients' outstanding requests, by export.

use forebay_core::{Nanos, Request};

use super::Front;
use crate::protocol::Command;
use crate::tally::Coverage;

/// A request that has arrived and was not answered.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    export: usize,
    at: Nanos,
    /// Whether a promise can cover the request.
    is_promisable: bool,
}

/// The outstanding requests. Registering one takes constant time; all are visited only when figures
/// are requested.
#[derive(Debug, Default)]
pub(super) struct Outstanding {
    /// For each name of a request, its arrival; None if it is not outstanding.
    arrivals: Vec<Option<Arrival>>,
}

impl Outstanding {
    /// Registers that request `name` has arrived completely, and that parts of it may begin.
    #[inline]
    pub(super) fn begins(&mut self, name: u32, export: usize, at: Nanos, command: Command) {
        let place = name as usize;
        if place >= self.arrivals.len() {
            self.arrivals.resize(place + 1, None);
        }
        self.arrivals[place] = Some(Arrival { export, at, is_promisable: command.is_promisable() });
    }

    /// Registers that request `name` was answered.
    #[inline]
    pub(super) fn ends(&mut self, name: u32) {
        if let Some(arrival) = self.arrivals.get_mut(name as usize) {
            *arrival = None;
        }
    }
}

impl Front {
    /// Charges an I/O to the export whose client requested it.
    #[inline]
    pub(crate) fn charge(&mut self, io: &Request, took: Nanos) {
        let export = self.export_of(io);
        if let Some(export) = export.and_then(|export| self.tally.exports.get_mut(export)) {
            export.figures.disk_s += took.0 as f64 / 1e9;
        }
    }

    /// Returns the class of each outstanding request by its name, and how long the request waited
    /// before its class admitted it, if the policy knows the request.
    fn classes(&self) -> Vec<Option<(u16, Nanos)>> {
        let mut classes = vec![None; self.outstanding.arrivals.len()];
        if let Some(policy) = &self.policy {
            policy.borrow().unanswered(&mut |id, class, deferred| {
                if let Some(known) = classes.get_mut(id as usize) {
                    // A request in several parts is outside the promise if one part is.
                    *known = (*known).max(Some((class, deferred)));
                }
            });
        }
        classes
    }

    /// Updates the figures of outstanding requests and I/Os.
    pub(crate) fn look_at_outstanding(&mut self, now: Nanos) {
        self.tally.exports.iter_mut().for_each(|export| export.none_outstanding());
        for (arrival, class) in self.outstanding.arrivals.iter().zip(self.classes()) {
            let Some(Arrival { export, at, is_promisable }) = *arrival else { continue };
            if let Some(export) = self.tally.exports.get_mut(export) {
                let coverage = match class {
                    _ if !is_promisable => Coverage::Exempt,
                    None => Coverage::Undecided,
                    Some((0, after)) => Coverage::Kept { after },
                    Some(_) => Coverage::Beyond,
                };
                export.is_outstanding(now - at, coverage);
            }
        }
        // Requests that wait for memory have arrived too.
        for connection in self.connections.iter().flatten() {
            if let (Some(since), Some(export)) =
                (connection.starving_since(), self.tally.exports.get_mut(connection.agreed.export))
            {
                export.is_outstanding(now - since, Coverage::Undecided);
            }
        }
        self.tally.exports.iter_mut().for_each(|export| export.all_outstanding());
        self.tally.look_at_disks(now);
    }
}
