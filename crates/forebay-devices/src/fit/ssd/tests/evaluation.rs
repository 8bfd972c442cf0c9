//! Fits measured drives, variations of them, bundled drives and synthetic ones, prints the errors
//! of every row, and counts those that were not fitted and are missed.

use super::synthetic::normal;
use super::*;
use crate::closed::{Job, Length, play};
use crate::random::Random;
use forebay_core::{DeviceModel, Nanos};

const DEPTHS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
const DRIVES: [&str; 3] = ["samsung-pm883", "intel-d3-s4610", "kingston-dc500m"];

/// How a measured drive is changed: times by a factor; the gain from depth, and the ratio of the
/// 99th percentile to the median, by an exponent. `noise` is the deviation of each rate.
#[derive(Clone, Copy)]
struct Change {
    times: f64,
    gain: f64,
    tail: f64,
    noise: f64,
}

const CHANGES: [Change; 4] = [
    Change { times: 0.8, gain: 1.1, tail: 0.9, noise: 0.0 },
    Change { times: 1.25, gain: 0.95, tail: 1.1, noise: 0.01 },
    Change { times: 0.9, gain: 1.05, tail: 1.2, noise: 0.02 },
    Change { times: 1.1, gain: 1.0, tail: 1.0, noise: 0.02 },
];

fn changed(rows: &[SweepRow], by: Change, seed: u64) -> Vec<SweepRow> {
    let mut random = Random(seed);
    let first = rows[0].iops;
    let change = |row: &SweepRow| {
        let gained = (row.iops / first).powf(by.gain - 1.0);
        let rate = gained / by.times * (by.noise * normal(&mut random)).exp();
        let slip = (2.5 * by.noise * normal(&mut random)).exp();
        let p99 = row.p50_us.zip(row.p99_us).map(|(p50, p99)| p50 * (p99 / p50).powf(by.tail));
        SweepRow {
            iops: row.iops * rate,
            mean_us: row.mean_us.map(|us| us / rate),
            p50_us: row.p50_us.map(|us| us / rate),
            p99_us: p99.map(|us| us / rate * slip),
            ..row.clone()
        }
    };
    rows.iter().map(change).collect()
}

/// Simulates a sweep of a bundled drive, with noise.
fn simulated(name: &str, op: Op) -> Vec<SweepRow> {
    let device = crate::open(name).unwrap();
    let DeviceModel::Ssd(ssd) = &device.model else { panic!("{name} is no solid-state drive") };
    let mut random = Random(7);
    let row = |depth: &u32| {
        let length = Length { warm: 3_000, ios: 20_000, until: Nanos::MAX };
        let rows = play(&mut ssd.clone(), &[Job::random(op, 4096, *depth)], device.host, length);
        let row = rows.into_iter().flatten().next().unwrap();
        let [rate, p99] = [0.02, 0.05].map(|noise| (noise * normal(&mut random)).exp());
        SweepRow { iops: row.iops * rate, p99_us: row.p99_us.map(|us| us * p99), ..row }
    };
    DEPTHS.iter().map(row).collect()
}

/// The number of rows that were not fitted, and of those whose rate or 99th percentile is missed.
#[derive(Debug, Default, PartialEq)]
struct Count {
    held_back: usize,
    rates: usize,
    p99s: usize,
}

impl Count {
    /// Fits the rows at `depths` (all of them if there are none) and counts the other rows.
    fn add(&mut self, name: &str, all: &[SweepRow], depths: &[u32]) {
        let is_fitted = |row: &SweepRow| depths.is_empty() || depths.contains(&row.depth);
        let mut some = sweep(all.iter().filter(|row| is_fitted(row)).cloned().collect());
        if !DRIVES.contains(&name) {
            some.targets = vec!["/dev/nvme0n1".to_string()];
        }
        println!("{name} fitted on {depths:?}: errors of IOPS, mean, p50, p99, p99.9 in %");
        for RowChecked { what, check, .. } in judged_sweep(&some, all.to_vec()) {
            let RowCheck { measured, model } = &check;
            let error = |of: fn(&SweepRow) -> Option<f64>| {
                let pair = of(model).zip(of(measured));
                pair.map_or(f64::NAN, |(model, measured)| 100.0 * (model / measured - 1.0))
            };
            let [rate, mean, p50, p99, p999] = [
                error(|row| Some(row.iops)),
                error(|row| row.mean_us),
                error(|row| row.p50_us),
                error(|row| row.p99_us),
                error(|row| row.p999_us),
            ];
            let held_back = !is_fitted(measured);
            let mark = if held_back { "held back" } else { "" };
            println!(
                "  {what:<38}{rate:>+6.1}{mean:>+7.1}{p50:>+7.1}{p99:>+7.1}{p999:>+7.1}  {mark}"
            );
            self.held_back += usize::from(held_back);
            self.rates += usize::from(held_back && rate.abs() > 100.0 * LIMITS[0]);
            self.p99s += usize::from(held_back && p99.abs() > 100.0 * LIMITS[1]);
        }
    }
}

fn both(drive: &str) -> [Vec<SweepRow>; 2] {
    [Op::Read, Op::Write].map(|op| rows(drive, op, &[]))
}

#[test]
#[ignore = "slow: make test-full"]
fn the_fit_mispredicts_few_unseen_rows() {
    let mut count = Count::default();
    for drive in DRIVES {
        for depths in [&[1, 4, 32][..], &[1, 8, 64], &[]] {
            count.add(drive, &both(drive).concat(), depths);
        }
        for (seed, change) in (1..).zip(CHANGES) {
            let all = both(drive).map(|rows| changed(&rows, change, seed));
            count.add(drive, &all.concat(), &[1, 4, 32]);
        }
    }
    for name in ["990-pro", "sa2000m8250g", "kxg6aznv512g", "mtfdhba256tck", "d7-p5520"] {
        let all = [Op::Read, Op::Write].map(|op| simulated(name, op));
        count.add(name, &all.concat(), &[1, 4, 32]);
    }
    println!("{count:?}");
    let share = |missed: usize| missed as f64 / count.held_back as f64;
    // Of 184 rows, 7 rates and 19 percentiles are missed.
    assert!(share(count.rates) < 0.05 && share(count.p99s) < 0.12, "{count:?}");
}
