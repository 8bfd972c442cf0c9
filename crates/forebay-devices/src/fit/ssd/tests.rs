//! Fits published measurements of drives at some depths and evaluates the result at the other
//! depths.

use std::path::Path;

mod agreement;
mod evaluation;
mod synthetic;

use super::*;
use crate::fit::check::{RowChecked, check};

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
    let known = SsdFacts { name: "judged".to_string(), capacity_bytes: None };
    let fitted = fit(&sweep(some), known).unwrap();
    let device = crate::read(Path::new("judged.toml"), &fitted.toml(&[], &[])).unwrap();
    check(&device, &sweep(all))
}

/// Checks that a fit to the reads at `depths` is accurate at all depths of at least `from`.
fn reads_hold(drive: &str, depths: &[u32], from: u32) {
    let mut all = rows(drive, Op::Read, &[]);
    all.retain(|row| row.depth >= from);
    assert!(all.len() >= 6);
    for RowChecked { what, check, .. } in judged(rows(drive, Op::Read, depths), all) {
        let (rate, p99) = (check.iops_error(), check.p99_error().unwrap());
        println!("{drive} on {depths:?}: {what}: rate {rate:+.3}, p99 {p99:+.3}");
        assert!(rate.abs() <= 0.10, "{drive}: {what}: rate {rate:+.3}");
        assert!(p99.abs() <= 0.15, "{drive}: {what}: p99 {p99:+.3}");
    }
}

#[test]
fn reads_of_a_pm883_hold_at_depths_that_were_not_fitted() {
    reads_hold("samsung-pm883", &[1, 4, 32], 1);
}

#[test]
fn reads_of_a_d3_s4610_hold_at_depths_that_were_not_fitted() {
    reads_hold("intel-d3-s4610", &[1, 4, 32], 1);
}

#[test]
fn reads_of_a_dc500m_hold_from_depth_2_on() {
    // At depth 1, the host sleeps between I/Os, so the drive seems slower per I/O than at depth 2.
    reads_hold("kingston-dc500m", &[1, 4, 32], 2);
    reads_hold("kingston-dc500m", &[2, 4, 32], 2);
}

#[test]
#[ignore = "slow: make test-full"]
fn all_rows_of_a_sweep_reads_and_writes_are_met() {
    for drive in ["intel-d3-s4610", "kingston-dc500m"] {
        let all = [rows(drive, Op::Read, &[]), rows(drive, Op::Write, &[])].concat();
        for RowChecked { what, check, is_fitted } in judged(all.clone(), all) {
            println!("{drive}: {what}: {:+.3} {:+.3?}", check.iops_error(), check.p99_error());
            assert!(is_fitted && check.iops_error().abs() <= 0.10, "{drive}: {what}: {check:?}");
        }
    }
}

#[test]
fn what_shows_no_drive_is_refused() {
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
            check: crate::fit::disk::RowCheck {
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
