//! Virtual times of flows that share a server by weight.
//!
//! Every request is one unit of service. While a flow has requests, its next one starts, in virtual
//! time, when the previous one finishes. A flow that had none starts at the virtual time, or at its
//! last finish if that is later. A finish is the start plus the total weight divided by the flow's
//! weight.

/// The number of fractional bits of virtual times, whose unit is a request.
const FRACTION: u32 = 40;
/// The time of one request served by the whole server.
pub(super) const UNIT: u128 = 1 << FRACTION;

#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    span: u128,
    pub(super) start: u128,
}

impl Flow {
    #[inline]
    pub(super) fn finish(&self) -> u128 {
        self.start + self.span
    }
}

/// Flows that share a server by weight.
#[derive(Clone, Debug)]
pub struct Flows {
    pub(super) flows: Vec<Flow>,
    /// The current virtual time.
    pub(super) now: u128,
}

impl Flows {
    /// Creates a flow for each of `weights`, which must be above 0.
    pub(super) fn new(weights: &[u64]) -> Flows {
        let sum: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
        let span = |weight: &u64| (sum << FRACTION) / u128::from((*weight).max(1));
        let flow = |weight: &u64| Flow { span: span(weight), start: 0 };
        Flows { flows: weights.iter().map(flow).collect(), now: 0 }
    }

    /// Records the arrival of a request in `flow`, which may have other waiting requests. If it has
    /// none, its `start` is the finish of its last request.
    #[inline]
    pub(super) fn arrive(&mut self, flow: usize, has_others: bool, server_is_idle: bool) {
        if server_is_idle {
            // A new busy period starts after all finishes of the previous one.
            let ends = self.flows.iter().map(|flow| flow.start);
            self.now = ends.max().unwrap_or(0).max(self.now);
        }
        if !has_others {
            self.flows[flow].start = self.flows[flow].start.max(self.now);
        }
    }

    /// Serves the first request of `flow`: the next one starts when this one finishes.
    #[inline]
    pub(super) fn serve(&mut self, flow: usize) {
        self.flows[flow].start = self.flows[flow].finish();
    }
}
