//! Drives whose behavior is known but is not that of the model, and their sweeps as fio would
//! measure them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::*;
use crate::random::Random;

/// Returns a number from the standard normal distribution.
pub(super) fn normal(random: &mut Random) -> f64 {
    let (radius, angle) = (random.share().max(1e-12), random.share());
    (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
}

/// A drive of equal units with a lognormal service time, which a command occupies one of at random,
/// behind a controller that accepts one command per interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct Synthetic {
    pub(super) op: Op,
    pub(super) units: usize,
    pub(super) service_us: f64,
    pub(super) sigma: f64,
    /// The time that a command takes in addition to its service.
    pub(super) fixed_us: f64,
    pub(super) interval_us: f64,
    /// The host's time between a completion and the next I/O.
    pub(super) gap_us: f64,
    /// The share of commands that wait for an additional millisecond.
    pub(super) stalled: f64,
}

impl Synthetic {
    /// Simulates a sweep at `depths`.
    pub(super) fn rows(&self, depths: &[u32]) -> Vec<SweepRow> {
        depths.iter().map(|depth| self.row(*depth)).collect()
    }

    fn row(&self, depth: u32) -> SweepRow {
        const WARM: usize = 2_000;
        const IOS: usize = 30_000;
        let mut random = Random(u64::from(depth) << 8);
        let mut units = vec![0.0_f64; self.units];
        let mut free = 0.0_f64;
        // Times are in whole picoseconds so that they can be compared.
        let mut issues: BinaryHeap<Reverse<(u64, bool, u64)>> =
            (0..depth).map(|at| Reverse((u64::from(at), false, 0))).collect();
        let (mut latencies, mut begun) = (Vec::new(), 0.0);
        let mut done = 0;
        let mut now = 0.0;
        while done < WARM + IOS {
            let Some(Reverse((at, completes, since))) = issues.pop() else { break };
            now = at as f64 / 1e6;
            if completes {
                done += 1;
                if done == WARM {
                    begun = now;
                } else if done > WARM {
                    latencies.push(now - since as f64 / 1e6);
                }
                issues.push(Reverse((at + (self.gap_us * 1e6) as u64, false, 0)));
                continue;
            }
            let accepted = free.max(now);
            free = accepted + self.interval_us;
            let unit = &mut units[(random.share() * self.units as f64) as usize];
            let scale = self.service_us * (-self.sigma * self.sigma / 2.0).exp();
            *unit = unit.max(accepted) + scale * (self.sigma * normal(&mut random)).exp();
            let late = if random.share() < self.stalled { 1_000.0 } else { 0.0 };
            let ready = *unit + self.fixed_us + late;
            issues.push(Reverse(((ready * 1e6) as u64, true, at)));
        }
        latencies.sort_by(f64::total_cmp);
        let at = |share: f64| latencies.get((latencies.len() as f64 * share) as usize).copied();
        SweepRow {
            op: self.op,
            block_bytes: 4096,
            depth,
            iops: latencies.len() as f64 / (now - begun) * 1e6,
            mean_us: Some(latencies.iter().sum::<f64>() / latencies.len() as f64),
            p50_us: at(0.5),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: latencies.last().copied(),
        }
    }
}
