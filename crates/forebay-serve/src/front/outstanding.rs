//! The arrival times of clients' outstanding requests, by export.

use forebay_core::{Nanos, Request};

use super::Front;

/// The outstanding requests. Registering one takes constant time; all are visited only when figures
/// are requested.
#[derive(Debug, Default)]
pub(super) struct Outstanding {
    /// For each name of a request, its export and its arrival; None if it is not outstanding.
    arrivals: Vec<Option<(usize, Nanos)>>,
}

impl Outstanding {
    /// Registers that request `name` has arrived completely, and that parts of it may begin.
    #[inline]
    pub(super) fn begins(&mut self, name: u32, export: usize, at: Nanos) {
        let place = name as usize;
        if place >= self.arrivals.len() {
            self.arrivals.resize(place + 1, None);
        }
        self.arrivals[place] = Some((export, at));
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
        let export = self.streams.export(io.stream).or_else(|| {
            let connection = self.connections.get(io.stream as usize);
            connection.and_then(Option::as_ref).map(|one| one.agreed.export)
        });
        if let Some(export) = export.and_then(|export| self.tally.exports.get_mut(export)) {
            export.figures.disk_s += took.0 as f64 / 1e9;
        }
    }

    /// Updates the figures of outstanding requests and I/Os.
    pub(crate) fn look_at_outstanding(&mut self, now: Nanos) {
        self.tally.exports.iter_mut().for_each(|export| export.none_outstanding());
        for (export, at) in self.outstanding.arrivals.iter().flatten() {
            if let Some(export) = self.tally.exports.get_mut(*export) {
                export.is_outstanding(now - *at);
            }
        }
        // Requests that wait for memory have arrived too.
        for connection in self.connections.iter().flatten() {
            if let (Some(since), Some(export)) =
                (connection.starving_since(), self.tally.exports.get_mut(connection.agreed.export))
            {
                export.is_outstanding(now - since);
            }
        }
        self.tally.look_at_disks(now);
    }
}
