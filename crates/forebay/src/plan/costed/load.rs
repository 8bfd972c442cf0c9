//! The arrival times and lengths of a trace's requests.
//!
//! Each request takes 16 bytes of memory, or 32 if volumes are recorded separately.

use forebay_core::Nanos;

use super::in_time::Arrival;
use crate::plan::arrival_times::{Arrivals, Requests};

/// The arrival times and lengths of a trace's requests.
pub type Load = Requests<Vec<Arrival>>;

impl Arrivals for Vec<Arrival> {
    fn add(&mut self, at: Nanos, len: u32) {
        self.push((at, len));
    }

    fn count(&self) -> u64 {
        self.len() as u64
    }

    fn times(&self) -> impl Iterator<Item = Nanos> {
        self.iter().map(|(at, _)| *at)
    }

    fn ends(&self) -> (Nanos, Nanos) {
        let at = |request: Option<&Arrival>| request.map_or(Nanos::ZERO, |(at, _)| *at);
        (at(self.first()), at(self.last()))
    }

    fn later(mut self, by: Nanos) -> Vec<Arrival> {
        self.iter_mut().for_each(|(at, _)| *at += by);
        self
    }
}

impl Load {
    /// Returns the mean length of the requests in bytes.
    pub fn mean_bytes(&self) -> f64 {
        let sum: u128 = self.whole.iter().map(|(_, len)| u128::from(*len)).sum();
        sum as f64 / self.whole.len().max(1) as f64
    }
}
