//! Fits published measurements of drives at some depths and evaluates the result at the other
//! depths.

mod agreement;
mod evaluation;
mod synthetic;

use std::path::Path;

use super::*;
use crate::fit::check::{RowChecked, check};
use crate::fit::disk::RowCheck;
use synthetic::Synthetic;

const MEASURED: &str = include_str!("../measured/sata-ssds.csv");

/// Returns the measured rows of `drive` for `op`, at the given `depths` or, if that is empty, at
/// all depths.
fn rows(drive: &str, op: Op, depths: &[u32]) -> Vec<SweepRow> {
    let word = if op == Op::Read { "randread" } else { "randwrite" };
    let of = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |at: usize| cells[at].parse::<f64>().unwrap();
        let is_asked = cells[0] == drive && cells[1] == word;
        is_asked.then(|| SweepRow {
            op,
            block_bytes: 4096,
            depth: number(3) as u32,
            iops: number(6),
            mean_us: Some(number(7)),
            p50_us: Some(number(8)),
            p99_us: Some(number(9)),
            p999_us: Some(number(10)),
            max_us: Some(number(11)),
        })
    };
    let lines = MEASURED.lines().filter(|line| !line.starts_with('#'));
    let rows = lines.skip(1).filter_map(of);
    rows.filter(|row| depths.is_empty() || depths.contains(&row.depth)).collect()
}

fn sweep(rows: Vec<SweepRow>) -> Sweep {
    Sweep { rows, ..Sweep::default() }
}

/// Fits a drive to `some` rows, reads its device file back and compares it with `all` rows.
fn judged(some: Vec<SweepRow>, all: Vec<SweepRow>) -> Vec<RowChecked> {
    judged_sweep(&sweep(some), all)
}

fn judged_sweep(some: &Sweep, all: Vec<SweepRow>) -> Vec<RowChecked> {
    let known = SsdFacts { name: "judged".to_string(), capacity_bytes: Some(64 << 30) };
    let fitted = fit(some, known).unwrap();
    let device = crate::read(Path::new("judged.toml"), &fitted.toml(&[], &[])).unwrap();
    check(&device, &sweep(all))
}

/// The largest errors of rates and of 99th percentiles at depths that were not fitted.
const LIMITS: [f64; 2] = [0.10, 0.15];

/// A row that does not meet [`LIMITS`]: its operation and depth, and the smallest and the largest
/// error of its 99th percentile.
type Missed = (Op, u32, [f64; 2]);

/// Fits a drive to the rows at `depths`, and checks that all rows meet [`LIMITS`] except `missed`.
fn meets(name: &str, all: &[SweepRow], depths: &[u32], missed: &[Missed]) {
    let some: Vec<SweepRow> =
        all.iter().filter(|row| depths.contains(&row.depth)).cloned().collect();
    for RowChecked { what, check, .. } in judged(some, all.to_vec()) {
        let (rate, p99) = (check.iops_error(), check.p99_error().unwrap());
        println!("{name} on {depths:?}: {what}: rate {rate:+.4}, p99 {p99:+.4}");
        let row = &check.measured;
        let known = missed.iter().find(|(op, depth, _)| (*op, *depth) == (row.op, row.depth));
        let [least, most] = known.map_or([-LIMITS[1], LIMITS[1]], |(_, _, range)| *range);
        assert!(rate.abs() <= LIMITS[0], "{name}: {what}: rate {rate:+.3}");
        assert!((least..=most).contains(&p99), "{name}: {what}: p99 {p99:+.3}");
    }
}

/// Fits both operations of a measured drive at depths 1, 4 and 32.
fn measured_meets(drive: &str, missed: &[Missed]) {
    let all = [rows(drive, Op::Read, &[]), rows(drive, Op::Write, &[])].concat();
    meets(drive, &all, &[1, 4, 32], missed);
}

#[test]
fn the_fit_predicts_a_pm883_at_unseen_depths() {
    // The 99th percentile of writes at depth 4 was measured as 1.6 times the median; it is 1.06
    // times at depth 2 and 1.04 times at depth 8. No other row has such a tail, so it is not
    // fitted.
    measured_meets("samsung-pm883", &[(Op::Write, 4, [-0.40, -0.25])]);
}

#[test]
fn the_fit_predicts_a_d3_s4610_at_unseen_depths() {
    // 93, 144 and 155 us were measured at depths 1, 2 and 4.
    measured_meets("intel-d3-s4610", &[(Op::Write, 2, [-0.30, 0.0])]);
}

#[test]
fn the_fit_predicts_a_dc500m_at_unseen_depths() {
    measured_meets("kingston-dc500m", &[]);
}

/// Without a row between 8 and 64, nothing shows the percentiles where the drive reaches its
/// maximum rate.
#[test]
fn the_fit_predicts_reads_between_distant_depths() {
    meets("intel-d3-s4610", &rows("intel-d3-s4610", Op::Read, &[]), &[1, 8, 64], &[]);
}

const SYNTHETIC_DEPTHS: [u32; 6] = [1, 2, 4, 8, 16, 32];
const READS: Synthetic = Synthetic {
    op: Op::Read,
    units: 32,
    service_us: 90.0,
    sigma: 0.4,
    fixed_us: 20.0,
    interval_us: 11.0,
    gap_us: 2.0,
    stalled: 0.0,
};
const WRITES: Synthetic = Synthetic {
    op: Op::Write,
    units: 2,
    service_us: 30.0,
    sigma: 0.3,
    fixed_us: 10.0,
    interval_us: 14.0,
    ..READS
};

fn synthetic_meets(name: &str, reads: Synthetic, writes: Synthetic) {
    let all = [reads.rows(&SYNTHETIC_DEPTHS), writes.rows(&SYNTHETIC_DEPTHS)].concat();
    meets(name, &all, &[1, 4, 32], &[]);
}

/// The drive behaves differently from the model: latencies are lognormal, and some writes are late
/// by a millisecond without delaying those behind them.
#[test]
fn the_fit_predicts_a_synthetic_drive() {
    synthetic_meets("late writes", READS, Synthetic { stalled: 0.012, ..WRITES });
}

#[test]
#[ignore = "slow: make test-full"]
fn the_fit_predicts_synthetic_drives() {
    let reads = Synthetic { units: 8, service_us: 60.0, sigma: 0.1, fixed_us: 40.0, ..READS };
    let writes = Synthetic { units: 1, service_us: 16.0, sigma: 0.1, interval_us: 0.0, ..WRITES };
    synthetic_meets("steady writes", reads, writes);
    let reads = Synthetic { units: 16, service_us: 60.0, sigma: 0.3, interval_us: 15.0, ..READS };
    let writes = Synthetic { service_us: 12.0, fixed_us: 30.0, stalled: 0.002, ..writes };
    synthetic_meets("few late writes", reads, writes);
}

#[test]
#[ignore = "slow: make test-full"]
fn the_fit_predicts_all_reads_and_writes_of_a_sweep() {
    for drive in ["intel-d3-s4610", "kingston-dc500m"] {
        let all = [rows(drive, Op::Read, &[]), rows(drive, Op::Write, &[])].concat();
        for RowChecked { what, check, is_fitted } in judged(all.clone(), all) {
            println!("{drive}: {what}: {:+.3} {:+.3?}", check.iops_error(), check.p99_error());
            assert!(is_fitted && check.iops_error().abs() <= 0.10, "{drive}: {what}: {check:?}");
        }
    }
}

#[test]
fn sweeps_that_do_not_measure_a_drive_are_rejected() {
    let one = rows("samsung-pm883", Op::Read, &[1]);
    let refused = |rows| fit(&sweep(rows), SsdFacts::default()).unwrap_err().to_string();
    assert!(refused(one).contains("random reads at 1 queue depth,"));
    assert!(refused(Vec::new()).contains("two depths or more"));
}

#[test]
fn rows_without_latencies_are_fitted_by_their_rates() {
    let mut bare = rows("intel-d3-s4610", Op::Read, &[1, 4, 32]);
    for row in &mut bare {
        (row.mean_us, row.p50_us, row.p99_us, row.p999_us, row.max_us) =
            (None, None, None, None, None);
    }
    for row in judged(bare.clone(), bare) {
        assert!(row.check.iops_error().abs() < 0.1 && row.check.p99_error().is_none(), "{row:?}");
    }
}

/// Returns a row whose latencies are multiples of the mean: the median, the 99th percentile and the
/// maximum.
fn shaped(op: Op, depth: u32, iops: f64, [p50, p99, max]: [f64; 3]) -> SweepRow {
    let mean = f64::from(depth) * 1e6 / iops;
    let of = |times: f64| Some(mean * times);
    let (mean_us, p50_us, p99_us, p999_us, max_us) = (of(1.0), of(p50), of(p99), of(max), of(max));
    SweepRow { op, block_bytes: 4096, depth, iops, mean_us, p50_us, p99_us, p999_us, max_us }
}

/// Random writes of memory sticks and cards take tens of milliseconds, and some take seconds.
#[test]
fn flash_with_very_slow_writes_makes_a_valid_file() {
    let mut all = Vec::new();
    for depth in [1, 8] {
        all.push(shaped(Op::Read, depth, 1_850.0, [0.97, 1.3, 20.0]));
        all.push(shaped(Op::Write, depth, 24.0, [0.4, 9.0, 30.0]));
    }
    for row in judged(all.clone(), all) {
        assert!(row.check.iops_error().abs() < 0.25, "{row:?}");
    }
}

#[test]
fn rows_that_a_fit_misses_have_a_note() {
    let measured = sweep(vec![
        shaped(Op::Read, 1, 8_000.0, [0.9, 2.0, 9.0]),
        shaped(Op::Read, 2, 15_000.0, [0.9, 2.0, 9.0]),
        shaped(Op::Write, 1, 9_000.0, [0.9, 2.0, 9.0]),
        shaped(Op::Write, 4, 20_000.0, [0.9, 2.0, 9.0]),
    ]);
    let checked = |rate: f64, p99: f64| -> Vec<RowChecked> {
        let row = |measured: &SweepRow| RowChecked {
            what: String::new(),
            is_fitted: true,
            check: RowCheck {
                model: SweepRow {
                    iops: measured.iops * rate,
                    p99_us: measured.p99_us.map(|us| us * p99),
                    ..measured.clone()
                },
                measured: measured.clone(),
            },
        };
        measured.rows.iter().map(row).collect()
    };
    let near = notes(&measured, &checked(0.91, 1.49));
    assert_eq!(near.len(), 1, "{near:?}");
    assert!(near[0].starts_with("no row of random writes at depth 2"), "{near:?}");
    let far = notes(&measured, &checked(0.89, 0.48));
    assert_eq!(far.len(), 9, "{far:?}");
    let rate =
        "random reads at depth 1: 8000.0 IOPS were measured and the model predicts 7120.0, -11 %";
    let p99 = "random reads at depth 1: a 99th percentile of 250 µs was measured and the model predicts \
        120 µs, -52 %";
    assert_eq!(far[..2], [rate, p99]);
}
