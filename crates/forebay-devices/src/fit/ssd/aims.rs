//! The targets of a fit of reads or writes: some of the measured rows, the 99th percentiles
//! expected between them, and the part of the latencies that is the host's.

use forebay_core::{Nanos, Op};

use crate::closed::Pause;
use crate::fit::sweep::SweepRow;

/// A row is not fitted if a row at a greater depth has a rate per outstanding I/O that is higher by
/// more than this factor.
const FASTER: f64 = 1.03;
/// If the rates of deeper rows are within this factor, they only show that the maximum has been
/// reached.
const SATURATED_ALIKE: f64 = 1.02;
/// A 99th percentile is implausible if it exceeds the median by more than this multiple of the
/// excess at a greater depth: waiting adds to the spread of latencies, and never removes it.
const CALMER: f64 = 1.6;
/// The smallest excess over the median, as a share of the median, that a sweep measures reliably.
const EXCESS_LEAST: f64 = 0.02;
/// Latencies are narrow if their 99th percentile is less than this multiple of their median, which
/// then is the drive's and not the tail's.
const NARROW: f64 = 1.3;
/// The maximum pause of a benchmark host between I/Os, in us and as a share of the period.
const GAP_MAX_US: f64 = 20.0;
const GAP_MAX_SHARE: f64 = 0.2;
/// A host that sleeps is slow in issuing an I/O and as slow in noticing its completion, of which
/// only the first is outside of the measured latency.
const WAKE_TIMES: f64 = 2.0;
const WAKE_MAX_SHARE: f64 = 0.25;
/// The same limit if latencies vary, so that the host's share of the period is uncertain.
const UNSURE_TIMES: f64 = 0.5;
const UNSURE_MAX_SHARE: f64 = 0.1;

/// The targets of a fit.
#[derive(Clone, Debug)]
pub(super) struct Aims<'a> {
    /// The rows to fit, by depth. Implausible percentiles are left out.
    pub(super) rows: Vec<SweepRow>,
    /// Depths between those rows, each with the expected excess of the 99th percentile over the
    /// mean, in us.
    pub(super) between: Vec<(u32, f64)>,
    /// The row at the lowest depth that is fitted.
    pub(super) base: &'a SweepRow,
    pub(super) host: Pause,
}

impl<'a> Aims<'a> {
    /// Returns the aims for the `rows` of one operation, which are sorted by depth, on a drive that
    /// accepts `queue_depth` commands. Returns None if there are no rows.
    pub(super) fn of(rows: &[&'a SweepRow], queue_depth: u16) -> Option<Aims<'a>> {
        let of_each = |row: &SweepRow| row.iops / f64::from(row.depth);
        let base = rows
            .iter()
            .copied()
            .reduce(|base, row| if of_each(row) > FASTER * of_each(base) { row } else { base })?;
        let plausible = plausible(rows);
        let host = host(&plausible, base);
        let fitted = plausible.into_iter().filter(|row| row.depth >= base.depth);
        let fitted: Vec<SweepRow> = fitted.collect();
        let between = between(&fitted, queue_depth);
        Some(Aims { between, base, host, rows: without_saturated(fitted) })
    }
}

/// Returns the time between the issues of two consecutive I/Os in the same place of the queue, in
/// us.
pub(super) fn period_us(row: &SweepRow) -> f64 {
    f64::from(row.depth) * 1e6 / row.iops
}

/// Leaves out the 99th percentiles that exceed the median by far more than at a greater depth.
pub(super) fn plausible(rows: &[&SweepRow]) -> Vec<SweepRow> {
    let excess = |row: &SweepRow| {
        let (p50, p99) = row.p50_us.zip(row.p99_us)?;
        Some((p99 - p50).max(EXCESS_LEAST * p50))
    };
    let kept = |(at, row): (usize, &&SweepRow)| {
        let is_calmer = |deeper: &&SweepRow| {
            excess(deeper).zip(excess(row)).is_some_and(|(a, b)| CALMER * a < b)
        };
        let p99_us = row.p99_us.filter(|_| at == 0 || !rows[at + 1..].iter().any(is_calmer));
        SweepRow { p99_us, ..(*row).clone() }
    };
    rows.iter().enumerate().map(kept).collect()
}

/// Returns, for each power of two between the depths of rows, how much the 99th percentile should
/// exceed the mean. In measured drives, this excess is linear in the logarithm of the depth. Beyond
/// the queue depth, latencies depend on the host, so they are extrapolated up to there.
fn between(rows: &[SweepRow], queue_depth: u16) -> Vec<(u32, f64)> {
    let excess = |row: &SweepRow| Some((f64::from(row.depth).log2(), row.p99_us? - row.mean_us?));
    let deepest = f64::from(queue_depth).log2();
    let known: Vec<(f64, f64)> = rows.iter().filter_map(excess).collect();
    let within = known.iter().take_while(|row| row.0 <= deepest).count();
    let of_pair = |at: usize| {
        let ((low, before), (high, after)) = (known[at - 1], known[at]);
        let is_last = at + 1 == within && known.len() > within;
        let end = if is_last { deepest + 0.5 } else { high - 0.5 };
        let doubled = (1..10).map(move |times| low + f64::from(times));
        let doubled = doubled.take_while(move |depth| *depth < end);
        let missing = doubled.filter(move |depth| (depth - high).abs() >= 0.5);
        missing.map(move |depth| {
            let slope = (after - before) / (high - low);
            (depth.exp2().round() as u32, before + slope * (depth - low))
        })
    };
    (1..within).flat_map(of_pair).collect()
}

/// Estimates the host's pause between I/Os and, if no row at depth 2 shows it, the time by which
/// the host is late at depth 1 because it sleeps.
fn host(rows: &[SweepRow], base: &SweepRow) -> Pause {
    let period = period_us(base);
    let is_narrow = |row: &SweepRow| {
        row.p50_us.is_some_and(|p50| row.p99_us.is_none_or(|p99| p99 < NARROW * p50))
    };
    let outside = |row: &SweepRow| row.p50_us.map(|p50| period_us(row) - p50);
    let gap_us = period - base.mean_us.unwrap_or(period);
    let gap_us = gap_us.clamp(0.0, GAP_MAX_US.min(GAP_MAX_SHARE * period));
    let late_us = match rows {
        [first, second, ..] if first.depth == 1 && base.depth == 1 && second.depth > 2 => {
            outside(first).zip(outside(second)).map_or(0.0, |(first, second)| first - second)
        }
        _ => 0.0,
    };
    let wake_us = match base.op {
        _ if is_narrow(base) => (WAKE_TIMES * late_us).clamp(0.0, WAKE_MAX_SHARE * period),
        Op::Write => (UNSURE_TIMES * late_us).clamp(0.0, UNSURE_MAX_SHARE * period),
        _ => 0.0,
    };
    let nanos = |us: f64| Nanos((us * 1e3) as u64);
    Pause { gap: nanos(gap_us), wake: nanos(wake_us) }
}

/// Leaves out rows between the first that reaches the maximum rate and the last: they take the
/// longest to simulate, and their latencies follow from the rate.
fn without_saturated(rows: Vec<SweepRow>) -> Vec<SweepRow> {
    let most = rows.iter().map(|row| row.iops).fold(0.0, f64::max);
    let first = rows.iter().position(|row| SATURATED_ALIKE * row.iops >= most);
    let (first, last) = (first.unwrap_or(0), rows.len().saturating_sub(1));
    let is_kept = |(at, _): &(usize, SweepRow)| *at <= first || *at == last;
    rows.into_iter().enumerate().filter(is_kept).map(|(_, row)| row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(op: Op, depth: u32, iops: f64, [mean, p50, p99]: [f64; 3]) -> SweepRow {
        let (mean_us, p50_us, p99_us) = (Some(mean), Some(p50), Some(p99));
        let (block_bytes, p999_us, max_us) = (4096, None, None);
        SweepRow { op, block_bytes, depth, iops, mean_us, p50_us, p99_us, p999_us, max_us }
    }

    #[test]
    fn one_of_the_rows_beyond_saturation_is_enough() {
        let depths = |iops: &[f64]| {
            let rows = (0..).zip(iops).map(|(at, iops)| row(Op::Read, 1 << at, *iops, [1.0; 3]));
            let kept = without_saturated(rows.collect());
            kept.into_iter().map(|row| row.depth).collect::<Vec<_>>()
        };
        assert_eq!(depths(&[10e3, 20e3, 38e3, 39.5e3, 39.6e3, 39.8e3]), [1, 2, 4, 8, 32]);
        assert_eq!(depths(&[10e3, 20e3, 38e3]), [1, 2, 4]);
        assert_eq!(depths(&[10e3]), [1]);
        assert!(depths(&[]).is_empty());
    }

    /// The writes of a PM883 at depths 1, 4 and 32: at depth 2, the period is 41.5 us.
    #[test]
    fn a_host_that_sleeps_and_a_percentile_that_does_not_fit_are_noticed() {
        let rows = [
            row(Op::Write, 1, 19_812.22, [47.4, 38.1, 43.8]),
            row(Op::Write, 4, 61_380.13, [63.4, 57.6, 91.6]),
            row(Op::Write, 32, 62_873.75, [507.2, 501.8, 510.0]),
        ];
        let all: Vec<&SweepRow> = rows.iter().collect();
        let aims = Aims::of(&all, 32).unwrap();
        let p99s: Vec<_> = aims.rows.iter().map(|row| row.p99_us).collect();
        assert_eq!(p99s, [Some(43.8), None, Some(510.0)]);
        let late = aims.host.wake.0 as f64 / 1e3;
        assert!((late - 9.0).abs() < 1.5, "{late} us");
        // With a row at depth 2, that row shows whether the host sleeps.
        let two = row(Op::Write, 2, 48_163.01, [39.4, 34.0, 36.1]);
        let all: Vec<&SweepRow> = [&rows[0], &two, &rows[1]].to_vec();
        let aims = Aims::of(&all, 32).unwrap();
        assert_eq!((aims.base.depth, aims.host.wake), (2, Nanos::ZERO));
    }

    #[test]
    fn percentiles_between_rows_are_interpolated_up_to_the_queue_depth() {
        let rows = [
            row(Op::Read, 1, 8e3, [100.0, 90.0, 130.0]),
            row(Op::Read, 4, 30e3, [120.0, 90.0, 170.0]),
            row(Op::Read, 32, 60e3, [500.0, 490.0, 640.0]),
            row(Op::Read, 256, 60e3, [4_000.0, 4_000.0, 6_000.0]),
        ];
        let near = |got: Vec<(u32, f64)>, expected: &[(u32, f64)]| {
            let is_near = |(got, expected): (&(u32, f64), &(u32, f64))| {
                got.0 == expected.0 && (got.1 - expected.1).abs() < 1e-9
            };
            let all = got.iter().zip(expected).all(is_near);
            assert!(all && got.len() == expected.len(), "{got:?} instead of {expected:?}");
        };
        near(between(&rows[..3], 32), &[(2, 40.0), (8, 80.0), (16, 110.0)]);
        // The row at depth 32 is missing, and the drive accepts no more commands than that.
        near(
            between(&[rows[0].clone(), rows[1].clone(), rows[3].clone()], 32),
            &[(2, 40.0), (8, 60.0), (16, 70.0), (32, 80.0)],
        );
        assert_eq!(between(&rows, 1024).len(), 5);
    }
}
