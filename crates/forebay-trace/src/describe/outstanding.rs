//! Computes the highest number of requests that are outstanding at the same time.
//!
//! As only the maximum is needed, completed requests are removed only when the number might
//! otherwise exceed the previous maximum. Memory is proportional to the maximum.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The maximum number of requests that are tracked, which take 8 MB.
const REQUESTS_MAX: usize = 1 << 20;
/// Up to this number, a linear search is faster than a heap.
const FEW: usize = 64;

/// The completion times of outstanding requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Outstanding {
    few: Vec<u64>,
    /// All completion times, once there have been more than [`FEW`].
    many: BinaryHeap<Reverse<u64>>,
    most: usize,
}

impl Outstanding {
    /// Adds a request. Arrival times must not decrease from call to call.
    #[inline]
    pub(super) fn add(&mut self, at_ns: u64, completion_ns: u64) {
        if self.most < FEW {
            self.few.push(completion_ns);
            if self.few.len() > self.most {
                // An arrival counts even if its latency is zero.
                let arrived = self.few.pop();
                self.few.retain(|&completion_ns| completion_ns > at_ns);
                self.few.extend(arrived);
                self.most = self.most.max(self.few.len());
            }
        } else {
            self.add_to_many(at_ns, completion_ns);
        }
    }

    fn add_to_many(&mut self, at_ns: u64, completion_ns: u64) {
        self.many.extend(self.few.drain(..).map(Reverse));
        if self.many.len() >= self.most {
            while self.many.peek().is_some_and(|&Reverse(end_ns)| end_ns <= at_ns) {
                self.many.pop();
            }
        }
        if self.many.len() < REQUESTS_MAX {
            self.many.push(Reverse(completion_ns));
        }
        self.most = self.most.max(self.many.len());
    }

    /// Returns the highest number of requests outstanding just after an arrival.
    pub(super) fn most(&self) -> usize {
        self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_counting_at_every_arrival() {
        let mut seed = 1u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) % below
        };
        for longest in [5, 100, 1500, 6000] {
            let (mut outstanding, mut at, mut all) = (Outstanding::default(), 0, Vec::new());
            let mut most = 0;
            for _ in 0..3000 {
                at += random(20);
                all.push(at + random(longest));
                let others = all[..all.len() - 1].iter().filter(|&&end| end > at).count();
                most = most.max(others + 1);
                outstanding.add(at, *all.last().expect("just added"));
                assert_eq!(outstanding.most(), most, "up to {longest}");
            }
            assert!(longest != 6000 || most > 2 * FEW);
        }
    }
}
