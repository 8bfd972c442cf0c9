//! Fits the reads or the writes of a solid-state drive to a sweep, by searching with the model
//! itself.
//!
//! The maximum rate is a separate parameter. An I/O has one of two latencies, and occupies its die
//! (or the entrance to the buffer) during only a part of it. Both latencies, their shares, the
//! occupied part and the number of dies are chosen to minimize the errors in rates, means, medians
//! and 99th percentiles of all rows: with Nelder and Mead's method (1965) for continuous
//! parameters, and by trying a few numbers of dies and both places of the bottleneck. With only
//! three rows, several solutions are nearly as good, so a weak prior prefers typical ones.

use forebay_core::device::ssd::{
    Ceiling, Collection, Entrance, Mode, Modes, Power, Precondition, Ssd, SsdSpec,
};
use forebay_core::{Nanos, Op, SpecError};

use super::simplex;
use crate::closed::{Host, Job, Length, Pause, play};
use crate::fit::sweep::SweepRow;

/// The fitted parameters of one operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Side {
    /// The least interval between two commands, in us.
    pub interval_us: f64,
    /// Whether the bottleneck is behind the flash rather than before it.
    pub behind: bool,
    /// The two latencies, in us.
    pub modes_us: [f64; 2],
    /// The share of I/Os with the first latency.
    pub first_share: f64,
    /// The share of its latency during which an I/O occupies a die.
    pub busy_share: f64,
    /// The number of dies, or of writes that can enter the buffer at the same time.
    pub lanes: u32,
    /// The host's pause between I/Os.
    pub host: Pause,
    /// The least depth that was fitted.
    pub depth_least: u32,
}

/// A rate error of this size, as a difference of logarithms, costs one unit.
const IOPS_UNIT: f64 = 0.03;
const MEAN_UNIT: f64 = 0.08;
const MEDIAN_UNIT: f64 = 0.2;
const P99_UNIT: f64 = 0.08;
/// The weight of the prior relative to the measurements.
const PRIOR: f64 = 0.6;
/// Rows are not fitted if a greater depth has a higher rate per outstanding I/O by more than this
/// factor.
const FASTER: f64 = 1.03;
/// If the last step in depth raises the rate by more than this share of the increase in depth, the
/// rate has not reached its maximum.
const SATURATED: f64 = 0.7;
/// The number of rows used in the coarse search.
const COARSE_ROWS: usize = 4;
/// The steps of the coarse search: of all starting points, and of the best of them.
const COARSE_STEPS: [u32; 2] = [10, 24];
/// The number of starting points that the coarse search continues from.
const COARSE_KEPT: usize = 8;
/// The steps of the fine search: of the best solutions of the coarse one with their neighbors, and of
/// the best of these.
const FINE_STEPS: [u32; 2] = [20, 60];
/// The numbers of solutions that the fine search begins and continues from.
const FINE_KEPT: [usize; 2] = [4, 2];
/// Deeper rows whose rates are within this factor show only that the maximum is reached.
const SATURATED_ALIKE: f64 = 1.02;
/// The maximum pause of a benchmark host between I/Os, in us.
const GAP_MAX_US: f64 = 20.0;

/// The queue depths assumed for SATA drives and, over several queues, for NVMe drives.
pub(super) const SATA_DEPTH: u16 = 32;
pub(super) const NVME_DEPTH: u16 = 1024;

/// The controller time per command: none, because the measured latency includes it.
const OVERHEAD: Nanos = Nanos::ZERO;
/// The assumed rate of a flash channel, at which a page takes slightly more than 3 us.
pub(super) const CHANNEL_MB_PER_S: u64 = 1_200;

/// Returns the drive to simulate during the search: as small as possible, but never in need of
/// garbage collection.
fn searched(side: &Side, op: Op, queue_depth: u16, link_bytes_per_s: u64) -> SsdSpec {
    let dies = if op == Op::Read { side.lanes } else { 16 };
    let mut spec = SsdSpec {
        capacity_bytes: 64 << 20,
        page_bytes: 4096,
        program_pages: 8,
        pages_per_block: 256,
        channels: dies,
        dies_per_channel: 1,
        over_provisioning_share: 8.0,
        read: Nanos(1_000).into(),
        program: Nanos(1_000),
        erase: Nanos(1_000),
        channel_bytes_per_s: CHANNEL_MB_PER_S * 1_000_000,
        link_bytes_per_s,
        duplex: queue_depth > SATA_DEPTH,
        command: Nanos::ZERO,
        ceiling: Ceiling::Arrival,
        write_command: Nanos::ZERO,
        write_ceiling: Ceiling::Arrival,
        overhead: OVERHEAD,
        entrance: None,
        write_buffer_bytes: 16 << 20,
        read_cache_bytes: 0,
        power_loss_protection: false,
        queue_depth,
        collection: Collection::Greedy,
        precondition: Precondition::default(),
        len_max: 1 << 20,
        power: Power::default(),
    };
    side.put_into(op, &mut spec);
    spec
}

impl Side {
    /// Returns the latencies in the format of the model.
    pub(super) fn times(&self) -> Modes {
        let [first, second] = self.modes_us;
        let mode = |us: f64, share| Mode { time: Nanos((us * 1e3).round().max(1.0) as u64), share };
        Modes {
            modes: vec![mode(first, self.first_share), mode(second, 1.0 - self.first_share)],
            busy_share: self.busy_share,
        }
    }

    /// Sets the parameters of this operation in `spec`.
    fn put_into(&self, op: Op, spec: &mut SsdSpec) {
        let interval = Nanos((self.interval_us * 1e3).round() as u64);
        let ceiling = if self.behind { Ceiling::Completion } else { Ceiling::Arrival };
        if op == Op::Read {
            (spec.command, spec.ceiling, spec.read) = (interval, ceiling, self.times());
        } else {
            (spec.write_command, spec.write_ceiling) = (interval, ceiling);
            spec.entrance = Some(Entrance { times: self.times(), lanes: self.lanes });
        }
    }

    fn host_of(&self, op: Op) -> Host {
        match op {
            Op::Read => Host { reads: self.host, ..Host::default() },
            _ => Host { writes: self.host, ..Host::default() },
        }
    }
}

fn sides(answers: Vec<Answer>) -> Vec<Side> {
    answers.into_iter().map(|(_, side)| side).collect()
}

/// Leaves out rows between the first that reaches the maximum rate and the last: they take the
/// longest to simulate, and their latencies follow from the rate.
fn without_saturated(rows: Vec<&SweepRow>) -> Vec<&SweepRow> {
    let most = rows.iter().map(|row| row.iops).fold(0.0, f64::max);
    let first = rows.iter().position(|row| SATURATED_ALIKE * row.iops >= most);
    let (first, last) = (first.unwrap_or(0), rows.len().saturating_sub(1));
    let is_kept = |(at, _): &(usize, &SweepRow)| *at <= first || *at == last;
    rows.into_iter().enumerate().filter(is_kept).map(|(_, row)| row).collect()
}

/// The rows to fit, and what is known about the drive.
pub(super) struct Search<'a> {
    op: Op,
    rows: Vec<&'a SweepRow>,
    base: &'a SweepRow,
    queue_depth: u16,
    link_bytes_per_s: u64,
}

/// The cost of a solution, and the solution.
type Answer = (f64, Side);

impl<'a> Search<'a> {
    /// Fits the `rows` of `op`, which are sorted by depth. Returns None if there are none.
    pub(super) fn fit(
        op: Op,
        rows: &[&'a SweepRow],
        queue_depth: u16,
        link_bytes_per_s: u64,
    ) -> Option<Side> {
        let of_each = |row: &SweepRow| row.iops / f64::from(row.depth);
        let base = rows
            .iter()
            .copied()
            .reduce(|base, row| if of_each(row) > FASTER * of_each(base) { row } else { base })?;
        let fitted = rows.iter().copied().filter(|row| row.depth >= base.depth).collect();
        let fitted = without_saturated(fitted);
        let search = Search { op, rows: fitted, base, queue_depth, link_bytes_per_s };
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
        let lanes: &[u32] = if self.op == Op::Read { &[1, 2, 4, 8, 16, 40] } else { &[1, 2, 4, 8] };
        let mut starts = Vec::new();
        for behind in [false, true] {
            for &lanes in lanes {
                let intervals = self.intervals().into_iter();
                starts.extend(intervals.map(|interval_us| Side {
                    behind,
                    lanes,
                    interval_us,
                    ..self.first_guess()
                }));
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
            (every_second(0), odd.join().unwrap_or_default())
        });
        let mut answers: Vec<Answer> = even.into_iter().chain(odd).collect();
        // The order of the threads' results does not depend on their speed.
        answers.sort_by(|one, other| one.0.total_cmp(&other.0));
        answers.truncate(kept);
        answers
    }

    /// Returns a search that uses only a few of the rows, including the first and the last.
    fn coarse(&self) -> Search<'a> {
        let last = self.rows.len().saturating_sub(1);
        let some = last.min(COARSE_ROWS - 1);
        let rows = (0..=some).map(|index| self.rows[index * last / some.max(1)]).collect();
        Search { rows, ..*self }
    }

    /// Returns the intervals between commands to try: the reciprocal of the highest rate and, if
    /// the rate still rises at the greatest depth, shorter ones.
    fn intervals(&self) -> Vec<f64> {
        let most = self.rows.iter().map(|row| row.iops).fold(0.0, f64::max);
        let rises = match self.rows.as_slice() {
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
        let base = self.base;
        let period_us = f64::from(base.depth) * 1e6 / base.iops;
        let median = base.p50_us.or(base.mean_us).unwrap_or(period_us);
        let p99 = base.p99_us.unwrap_or(median * 1.3).max(median * 1.02);
        let mean = base.mean_us.unwrap_or(period_us);
        let gap_us = (period_us - mean).clamp(0.0, GAP_MAX_US.min(0.2 * period_us));
        Side {
            interval_us: 0.0,
            behind: false,
            modes_us: [median, p99],
            first_share: 0.6,
            busy_share: 0.5,
            lanes: 8,
            host: Pause { gap: Nanos((gap_us * 1e3) as u64), wake: Nanos::ZERO },
            depth_least: base.depth,
        }
    }

    /// Refines the continuous parameters of a solution; the number of dies, the maximum rate and
    /// the place of the bottleneck stay the same.
    fn descend(&self, begun: Side, steps: u32) -> Answer {
        let logit = |share: f64| (share / (1.0 - share)).ln();
        let share = |x: f64| 1.0 / (1.0 + (-x.clamp(-9.0, 9.0)).exp());
        let [first, second] = begun.modes_us;
        let room = (first - begun.interval_us).max(0.3 * first);
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
        let squared = |model: Option<f64>, measured: Option<f64>, unit: f64| {
            let pair = model.zip(measured);
            pair.map_or(0.0, |(model, measured)| ((model / measured).ln() / unit).powi(2))
        };
        let mut cost = self.unusual(side);
        for row in &self.rows {
            if cost >= limit {
                return cost;
            }
            let Ok(model) = self.measure(side, row) else { return f64::INFINITY };
            cost += squared(Some(model.iops), Some(row.iops), IOPS_UNIT)
                + squared(model.mean_us, row.mean_us, MEAN_UNIT)
                + squared(model.p50_us, row.p50_us, MEDIAN_UNIT)
                + squared(model.p99_us, row.p99_us, P99_UNIT);
        }
        cost
    }

    /// Returns the distance from a typical solution, which has a dozen dies that are occupied half
    /// of the time, and the median measured at the least depth.
    fn unusual(&self, side: &Side) -> f64 {
        let median = self.base.p50_us.unwrap_or(side.modes_us[0]);
        let plain = (median - side.interval_us).max(0.3 * median);
        let busy = (side.busy_share / (1.0 - side.busy_share)).ln();
        let lanes = (f64::from(side.lanes) / 12.0).ln();
        let first = (side.modes_us[0] / plain).ln();
        PRIOR * (busy.powi(2) / 4.0 + lanes.powi(2) / 4.0 + first.powi(2) / 0.04)
    }

    fn measure(&self, side: &Side, row: &SweepRow) -> Result<SweepRow, SpecError> {
        let spec = searched(side, self.op, self.queue_depth, self.link_bytes_per_s);
        let mut drive = Ssd::new(spec)?;
        let job = Job::random(self.op, row.block_bytes, row.depth);
        let depth = u64::from(row.depth);
        // Large I/Os take longer to simulate and vary less, so fewer suffice.
        let shorter = 1 + u64::from(row.block_bytes) / (32 << 10);
        let ios = (3_500 + 30 * depth.min(256)) / shorter;
        let length = Length { warm: 600 + 4 * depth, ios, until: Nanos::MAX };
        let rows = play(&mut drive, &[job], side.host_of(self.op), length);
        rows.into_iter().flatten().next().ok_or_else(|| SpecError("no I/O".to_string()))
    }

    /// Sets the host's wakeup delay: the time by which a row at depth 1 is slower than the model,
    /// unless the fit included that row.
    fn wake(&self, side: &mut Side, rows: &[&SweepRow]) {
        let Some(row) = rows.iter().find(|row| row.depth == 1 && row.depth < side.depth_least)
        else {
            return;
        };
        let Ok(model) = self.measure(side, row) else { return };
        let late_us = 1e6 / row.iops - 1e6 / model.iops;
        side.host.wake = Nanos((late_us * 1e3).max(0.0) as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(depth: u32, iops: f64) -> SweepRow {
        let (mean_us, p50_us, p99_us, p999_us, max_us) = (None, None, None, None, None);
        let (op, block_bytes) = (Op::Read, 4096);
        SweepRow { op, block_bytes, depth, iops, mean_us, p50_us, p99_us, p999_us, max_us }
    }

    #[test]
    fn one_of_the_rows_beyond_saturation_is_enough() {
        let depths = |iops: &[f64]| {
            let rows: Vec<SweepRow> =
                (0..).zip(iops).map(|(at, iops)| row(1 << at, *iops)).collect();
            let kept = without_saturated(rows.iter().collect());
            kept.into_iter().map(|row| row.depth).collect::<Vec<_>>()
        };
        assert_eq!(depths(&[10e3, 20e3, 38e3, 39.5e3, 39.6e3, 39.8e3]), [1, 2, 4, 8, 32]);
        assert_eq!(depths(&[10e3, 20e3, 38e3]), [1, 2, 4]);
        assert_eq!(depths(&[10e3]), [1]);
        assert!(depths(&[]).is_empty());
    }

    /// A solution that is worse than the limit is not simulated on all rows.
    #[test]
    fn a_cost_stops_at_its_limit() {
        let rows = [row(1, 10e3), row(4, 35e3), row(32, 90e3)];
        let (base, link_bytes_per_s) = (&rows[0], 550_000_000);
        let rows = rows.iter().collect();
        let (op, queue_depth) = (Op::Read, 32);
        let search = Search { op, rows, base, queue_depth, link_bytes_per_s };
        let side = Side { modes_us: [300.0, 900.0], lanes: 1, ..search.first_guess() };
        let all = search.cost(&side, f64::INFINITY);
        let cut = search.cost(&side, 1.0);
        assert!(1.0 <= cut && cut < all, "{cut} of {all}");
        assert_eq!(search.cost(&side, 2.0 * all), all);
    }
}
