//! Fits the reads or the writes of a solid-state drive to a sweep, by searching with a simulation
//! of the model.
//!
//! The maximum rate is a separate parameter. An I/O has one of two latencies, and occupies its die
//! (or the entrance to the buffer) during only a part of it. Both latencies, their shares, the
//! occupied part and the number of dies are chosen to minimize the errors in rates, means, medians
//! and 99th percentiles of all rows ([`Aims`]): with Nelder and Mead's method (1965) for continuous
//! parameters, and by trying a few numbers of dies and both places of the bottleneck. With only
//! three rows, several solutions are nearly as good, so a weak prior prefers typical ones.

use forebay_core::{Nanos, Op};

use super::aims::{Aims, period_us};
use super::quick::{Known, Simulated, simulate};
use super::side::Side;
use super::simplex;
use crate::fit::sweep::SweepRow;

/// A rate error of this size, as a difference of logarithms, costs one unit.
const IOPS_UNIT: f64 = 0.03;
const MEAN_UNIT: f64 = 0.08;
const MEDIAN_UNIT: f64 = 0.2;
const P99_UNIT: f64 = 0.08;
/// The unit for percentiles that are interpolated rather than measured.
const BETWEEN_UNIT: f64 = 0.1;
/// Errors of percentiles beyond this many units cost little more, so that a single row does not
/// spoil the others.
const SOFT_UNITS: f64 = 3.0;
/// The weight of the prior relative to the measurements.
const PRIOR: f64 = 0.6;
/// If the last step in depth raises the rate by more than this share of the increase in depth, the
/// rate has not reached its maximum.
const SATURATED: f64 = 0.7;
/// If a 99th percentile is more than this multiple of the median, only few I/Os may be slow.
const LONG_TAIL: f64 = 2.5;
/// The shares of the first latency that the search starts with: the usual one, and that of drives
/// with a long tail.
const FIRST_SHARES: [f64; 2] = [0.6, 0.98];
/// The number of rows used in the coarse search.
const COARSE_ROWS: usize = 4;
/// The number of I/Os simulated per row in the coarse and in the fine search.
const COARSE_IOS: usize = 1_000;
const FINE_IOS: usize = 3_500;
/// The number of I/Os simulated in addition per I/O outstanding.
const IOS_PER_DEPTH: usize = 30;
/// The numbers of steps of the coarse search: from every starting point, and from the best ones.
const COARSE_STEPS: [u32; 2] = [10, 24];
/// The number of starting points that the coarse search continues from.
const COARSE_KEPT: usize = 8;
/// The steps of the fine search: of the best solutions of the coarse one with their neighbors, and
/// of the best of these.
const FINE_STEPS: [u32; 2] = [20, 60];
/// The numbers of solutions that the fine search begins and continues from.
const FINE_KEPT: [usize; 2] = [4, 2];

/// The aims of a fit, and what is known about the drive.
pub(super) struct Search<'a> {
    aims: Aims<'a>,
    known: Known,
    ios: usize,
}

/// The cost of a solution, and the solution.
type Answer = (f64, Side);

fn sides(answers: Vec<Answer>) -> Vec<Side> {
    answers.into_iter().map(|(_, side)| side).collect()
}

impl<'a> Search<'a> {
    /// Fits the `rows` of `op`, which are sorted by depth. Returns None if there are none.
    pub(super) fn fit(
        op: Op,
        rows: &[&'a SweepRow],
        queue_depth: u16,
        link_bytes_per_s: u64,
    ) -> Option<Side> {
        let aims = Aims::of(rows, queue_depth)?;
        let block_bytes = aims.base.block_bytes;
        let known = Known { op, queue_depth, link_bytes_per_s, block_bytes };
        let search = Search { aims, known, ios: FINE_IOS };
        let mut side = search.best();
        search.wake(&mut side, rows);
        Some(side)
    }

    /// Runs a coarse search, refines its best results and returns the best solution.
    fn best(&self) -> Side {
        let coarse = self.coarse();
        let begun = coarse.descend_all(self.starts(), COARSE_STEPS[0], COARSE_KEPT);
        let rough = coarse.descend_all(sides(begun), COARSE_STEPS[1], FINE_KEPT[0]);
        let beside = |(_, side): &Answer| {
            let more = (side.lanes + 1).max(side.lanes * 3 / 2);
            [side.lanes, more].map(|lanes| Side { lanes, ..side.clone() })
        };
        let near = rough.iter().flat_map(beside).collect();
        let fine = self.descend_all(near, FINE_STEPS[0], FINE_KEPT[1]);
        let best = self.descend_all(sides(fine), FINE_STEPS[1], 1);
        best.into_iter().next().map_or_else(|| self.first_guess(), |(_, side)| side)
    }

    /// Returns the solutions that the search starts from.
    fn starts(&self) -> Vec<Side> {
        let is_read = self.known.op == Op::Read;
        let lanes: &[u32] = if is_read { &[1, 2, 4, 8, 16, 40] } else { &[1, 2, 4, 8] };
        let has_tail =
            self.aims.rows.iter().any(|row| {
                row.p50_us.zip(row.p99_us).is_some_and(|(p50, p99)| p99 > LONG_TAIL * p50)
            });
        let shares = if has_tail { &FIRST_SHARES[..] } else { &FIRST_SHARES[..1] };
        let mut starts = Vec::new();
        for behind in [false, true] {
            for &lanes in lanes {
                for interval_us in self.intervals() {
                    let guess = Side { behind, lanes, interval_us, ..self.first_guess() };
                    let with = |share: &f64| Side { first_share: *share, ..guess.clone() };
                    starts.extend(shares.iter().map(with));
                }
            }
        }
        starts
    }

    /// Refines each solution on two threads, and returns the best `kept` of the results, the best
    /// first.
    fn descend_all(&self, begun: Vec<Side>, steps: u32, kept: usize) -> Vec<Answer> {
        let every_second = |first: usize| -> Vec<Answer> {
            let some = begun.iter().skip(first).step_by(2);
            some.map(|side| self.descend(side.clone(), steps)).collect()
        };
        let (even, odd) = std::thread::scope(|scope| {
            let odd = scope.spawn(|| every_second(1));
            let even = every_second(0);
            (even, odd.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        let mut answers: Vec<Answer> = even.into_iter().chain(odd).collect();
        // The order of the threads' results does not depend on their speed.
        answers.sort_by(|one, other| one.0.total_cmp(&other.0));
        answers.truncate(kept);
        answers
    }

    /// Returns a search that uses only a few of the rows, including the first and the last, and
    /// fewer I/Os.
    fn coarse(&self) -> Search<'a> {
        let last = self.aims.rows.len().saturating_sub(1);
        let some = last.min(COARSE_ROWS - 1);
        let row = |index: usize| self.aims.rows[index * last / some.max(1)].clone();
        let aims = Aims { rows: (0..=some).map(row).collect(), ..self.aims.clone() };
        Search { aims, known: self.known, ios: COARSE_IOS }
    }

    /// Returns the intervals between commands to try: the reciprocal of the highest rate and, if
    /// the rate still rises at the highest depth, shorter ones.
    fn intervals(&self) -> Vec<f64> {
        let most = self.aims.rows.iter().map(|row| row.iops).fold(0.0, f64::max);
        let rises = match self.aims.rows.as_slice() {
            [.., before, last] => {
                let depths = f64::from(last.depth) / f64::from(before.depth);
                last.iops / before.iops > SATURATED * depths
            }
            _ => true,
        };
        let times: &[f64] = if rises { &[1.0, 0.7, 0.4] } else { &[1.0] };
        times.iter().map(|times| 1e6 / most * times).collect()
    }

    fn first_guess(&self) -> Side {
        let base = self.aims.base;
        let median = base.p50_us.or(base.mean_us).unwrap_or(period_us(base));
        let p99 = base.p99_us.unwrap_or(median * 1.3).max(median * 1.02);
        Side {
            interval_us: 0.0,
            behind: false,
            modes_us: [median, p99],
            first_share: FIRST_SHARES[0],
            busy_share: 0.5,
            lanes: 8,
            host: self.aims.host,
            depth_least: base.depth,
        }
    }

    /// Refines the continuous parameters of a solution; the number of dies, the maximum rate and
    /// the place of the bottleneck stay the same.
    fn descend(&self, begun: Side, steps: u32) -> Answer {
        let logit = |share: f64| (share / (1.0 - share)).ln();
        let share = |x: f64| 1.0 / (1.0 + (-x.clamp(-9.0, 9.0)).exp());
        let [first, second] = begun.modes_us;
        let room = (first - begun.interval_us - self.woken_us()).max(0.3 * first);
        let from = [
            logit(begun.busy_share.clamp(0.01, 0.99)),
            room.ln(),
            (second - first).max(0.02 * first).ln(),
            logit(begun.first_share.clamp(0.01, 0.99)),
        ];
        let side = |x: &[f64; 4]| {
            let first = x[1].clamp(-3.0, 15.0).exp();
            Side {
                busy_share: share(x[0]),
                modes_us: [first, first + x[2].clamp(-6.0, 15.0).exp()],
                first_share: share(x[3]),
                ..begun.clone()
            }
        };
        let (cost, x) = simplex::minimize(from, 0.3, steps, |x, limit| self.cost(&side(x), limit));
        (cost, side(&x))
    }

    /// Returns the cost of a solution: its errors on the rows plus its distance from a typical
    /// solution. Stops at `limit`.
    fn cost(&self, side: &Side, limit: f64) -> f64 {
        let error = |model: f64, aim: f64, unit: f64| (model / aim).ln() / unit;
        let soft = |error: f64| SOFT_UNITS.powi(2) * (error / SOFT_UNITS).powi(2).ln_1p();
        let mut cost = self.unusual(side);
        for row in &self.aims.rows {
            if cost >= limit {
                return cost;
            }
            let model = self.simulate(side, row.depth);
            cost += error(model.iops, row.iops, IOPS_UNIT).powi(2);
            // Beyond the queue depth, I/Os wait in the host.
            if row.depth > self.known.queue_depth.into() {
                continue;
            }
            let of = |model: f64, aim: Option<f64>, unit: f64| {
                aim.map_or(0.0, |aim| error(model, aim, unit))
            };
            cost += of(model.mean_us, row.mean_us, MEAN_UNIT).powi(2)
                + soft(of(model.p50_us, row.p50_us, MEDIAN_UNIT))
                + soft(of(model.p99_us, row.p99_us, P99_UNIT));
        }
        for (depth, excess_us) in &self.aims.between {
            if cost >= limit {
                return cost;
            }
            let model = self.simulate(side, *depth);
            let p99_us = (model.mean_us + excess_us).max(model.p50_us);
            cost += soft(error(model.p99_us, p99_us, BETWEEN_UNIT));
        }
        cost
    }

    /// Returns by how much the host is late at the lowest depth.
    fn woken_us(&self) -> f64 {
        if self.aims.base.depth == 1 { self.aims.host.wake.0 as f64 / 1e3 } else { 0.0 }
    }

    /// Returns the distance from a typical solution, which has a dozen dies that are occupied half
    /// of the time, and the median measured at the lowest depth.
    fn unusual(&self, side: &Side) -> f64 {
        let median = self.aims.base.p50_us.unwrap_or(side.modes_us[0]) - self.woken_us();
        let passing = if side.behind { side.interval_us } else { 0.0 };
        let plain = (median - passing).max(0.3 * median);
        let busy = (side.busy_share / (1.0 - side.busy_share)).ln();
        let lanes = (f64::from(side.lanes) / 12.0).ln();
        let first = (side.modes_us[0] / plain).ln();
        PRIOR * (busy.powi(2) / 4.0 + lanes.powi(2) / 4.0 + first.powi(2) / 0.04)
    }

    fn simulate(&self, side: &Side, depth: u32) -> Simulated {
        simulate(side, self.known, depth, self.ios + IOS_PER_DEPTH * depth.min(256) as usize)
    }

    /// Sets the host's wakeup delay: the time by which a row at depth 1 is slower than the model,
    /// unless the fit included that row.
    fn wake(&self, side: &mut Side, rows: &[&SweepRow]) {
        let Some(row) = rows.iter().find(|row| row.depth == 1 && row.depth < side.depth_least)
        else {
            return;
        };
        let late_us = 1e6 / row.iops - 1e6 / self.simulate(side, 1).iops;
        side.host.wake = Nanos((late_us * 1e3).max(0.0) as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closed::Pause;

    fn row(depth: u32, iops: f64) -> SweepRow {
        let (mean_us, p50_us, p99_us, p999_us, max_us) = (None, None, None, None, None);
        let (op, block_bytes) = (Op::Read, 4096);
        SweepRow { op, block_bytes, depth, iops, mean_us, p50_us, p99_us, p999_us, max_us }
    }

    /// A solution that is worse than the limit is not simulated on all rows.
    #[test]
    fn a_cost_stops_at_its_limit() {
        let rows = [row(1, 10e3), row(4, 35e3), row(32, 90e3)];
        let (base, op, queue_depth) = (&rows[0], Op::Read, 32);
        let known = Known { op, queue_depth, link_bytes_per_s: 550_000_000, block_bytes: 4096 };
        let (rows, host) = (rows.to_vec(), Pause::default());
        let search =
            Search { aims: Aims { rows, between: Vec::new(), base, host }, known, ios: 500 };
        let side = Side { modes_us: [300.0, 900.0], lanes: 1, ..search.first_guess() };
        let all = search.cost(&side, f64::INFINITY);
        let cut = search.cost(&side, 1.0);
        assert!(1.0 <= cut && cut < all, "{cut} of {all}");
        assert_eq!(search.cost(&side, 2.0 * all), all);
    }
}
