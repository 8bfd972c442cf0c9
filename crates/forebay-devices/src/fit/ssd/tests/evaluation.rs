//! Prints the errors of fits at depths that were not fitted, for measured drives, variations of
//! them, bundled drives and synthetic ones.

use super::synthetic::{Random, Synthetic};
use super::*;
use crate::closed::{Job, Length, play};
use forebay_core::Nanos;
use forebay_core::device::list::DeviceModel;

const DEPTHS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Changes measured rows: times by a factor, and the gain from depth and the ratio of the 99th
/// percentile to the median by an exponent. `noise` is added to each figure.
fn varied(
    rows: &[SweepRow],
    times: f64,
    gain: f64,
    tail: f64,
    noise: f64,
    seed: u64,
) -> Vec<SweepRow> {
    let mut random = Random(seed);
    let first = rows[0].iops / f64::from(rows[0].depth);
    let vary = |row: &SweepRow| {
        let alone = first * f64::from(row.depth);
        let gained = (row.iops / first).powf(gain) * first / row.iops;
        let _ = alone;
        let slip = (noise * random.normal()).exp();
        let rate = gained / times * slip;
        let p50 = row.p50_us.map(|us| us / rate);
        let p99 = row.p50_us.zip(row.p99_us).map(|(p50, p99)| {
            p50 / rate * (p99 / p50).powf(tail) * (2.5 * noise * random.normal()).exp()
        });
        SweepRow {
            iops: row.iops * rate,
            mean_us: row.mean_us.map(|us| us / rate),
            p50_us: p50,
            p99_us: p99,
            ..row.clone()
        }
    };
    rows.iter().map(vary).collect()
}

fn simulated(name: &str, op: Op) -> Vec<SweepRow> {
    let device = crate::open(name).unwrap();
    let DeviceModel::Ssd(ssd) = &device.model else { panic!() };
    let mut random = Random(7);
    let row = |depth: &u32| {
        let depth = *depth;
        let job = Job::random(op, 4096, depth);
        let length = Length { warm: 3_000, ios: 20_000, until: Nanos::MAX };
        let rows = play(&mut ssd.clone(), &[job], device.host, length);
        let row = rows.into_iter().flatten().next().unwrap();
        let slip = (0.02 * random.normal()).exp();
        let p99 = (0.05 * random.normal()).exp();
        SweepRow { iops: row.iops * slip, p99_us: row.p99_us.map(|us| us * p99), ..row }
    };
    DEPTHS.iter().map(row).collect()
}

fn print(name: &str, all: &[SweepRow], depths: &[u32]) {
    let some: Vec<SweepRow> = all
        .iter()
        .filter(|row| depths.is_empty() || depths.contains(&row.depth))
        .cloned()
        .collect();
    let known = SsdFacts { name: "judged".to_string(), capacity_bytes: None };
    let mut measured = sweep(some);
    if name.starts_with("bundled") && !name.ends_with("830") {
        measured.targets = ["/dev/nvme0n1".to_string()].into();
    }
    let fitted = fit(&measured, known).unwrap();
    let device = crate::read(Path::new("judged.toml"), &fitted.toml(&[], &[])).unwrap();
    for row in check(&device, &sweep(all.to_vec())) {
        let (model, measured) = (&row.check.model, &row.check.measured);
        let error = |of: fn(&SweepRow) -> Option<f64>| {
            of(model)
                .zip(of(measured))
                .map_or(0.0, |(model, measured)| 100.0 * (model / measured - 1.0))
        };
        let held =
            if depths.is_empty() || depths.contains(&measured.depth) { "fitted" } else { "held" };
        let key = if depths.is_empty() {
            "all".to_string()
        } else {
            depths.iter().map(u32::to_string).collect::<Vec<_>>().join("-")
        };
        println!(
            "ROW,{name},{key},{:?},{},{held},{:.1},{:.1},{:.1},{:.1},{:.1}",
            measured.op,
            measured.depth,
            error(|row| Some(row.iops)),
            error(|row| row.mean_us),
            error(|row| row.p50_us),
            error(|row| row.p99_us),
            error(|row| row.p999_us),
        );
    }
    println!("FIT,{name},{:?},{:?}", fitted.reads, fitted.writes);
}

fn both(drive: &str) -> Vec<Vec<SweepRow>> {
    [Op::Read, Op::Write].map(|op| rows(drive, op, &[])).to_vec()
}

#[test]
#[ignore = "evaluation"]
fn evaluate_fits() {
    let only = std::env::var("EVAL").unwrap_or_default();
    let want = |kind: &str| only.is_empty() || only.contains(kind);
    let drives = ["samsung-pm883", "intel-d3-s4610", "kingston-dc500m"];
    if want("measured") {
        let sets: &[&[u32]] = &[&[1, 4, 32], &[1, 8, 64], &[2, 16, 32], &[]];
        let sets = if only.contains("first") { &sets[..1] } else { sets };
        for set in sets {
            for drive in drives {
                print(&format!("measured:{drive}"), &both(drive).concat(), set);
            }
        }
    }
    if want("varied") {
        let kinds = [
            (0.8, 1.1, 0.9, 0.0),
            (1.25, 0.95, 1.1, 0.01),
            (0.9, 1.05, 1.2, 0.02),
            (1.1, 1.0, 1.0, 0.02),
        ];
        for (seed, (times, gain, tail, noise)) in (0..).zip(kinds) {
            for drive in drives {
                let all: Vec<SweepRow> = both(drive)
                    .iter()
                    .flat_map(|rows| varied(rows, times, gain, tail, noise, 1 + seed))
                    .collect();
                print(&format!("varied{seed}:{drive}"), &all, &[1, 4, 32]);
            }
        }
    }
    if want("bundled") {
        for name in
            ["990-pro", "sa2000m8250g", "kxg6aznv512g", "mtfdhba256tck", "d7-p5520", "samsung-830"]
        {
            let all = [simulated(name, Op::Read), simulated(name, Op::Write)].concat();
            print(&format!("bundled:{name}"), &all, &[1, 4, 32]);
        }
    }
    if want("synthetic") {
        let read = Synthetic {
            op: Op::Read,
            units: 16,
            service_us: 60.0,
            sigma: 0.3,
            fixed_us: 40.0,
            interval_us: 15.0,
            gap_us: 2.0,
            stalled: 0.0,
        };
        let write = Synthetic {
            op: Op::Write,
            units: 1,
            service_us: 16.0,
            sigma: 0.1,
            fixed_us: 20.0,
            interval_us: 0.0,
            gap_us: 2.0,
            stalled: 0.0005,
        };
        let pairs = [
            ("a", read, write),
            (
                "b",
                Synthetic { units: 8, sigma: 0.1, ..read },
                Synthetic { service_us: 12.0, fixed_us: 30.0, stalled: 0.002, ..write },
            ),
            (
                "c",
                Synthetic {
                    units: 64,
                    sigma: 0.6,
                    service_us: 80.0,
                    interval_us: 2.0,
                    fixed_us: 10.0,
                    ..read
                },
                Synthetic {
                    units: 4,
                    service_us: 25.0,
                    sigma: 0.5,
                    fixed_us: 8.0,
                    interval_us: 3.0,
                    ..write
                },
            ),
            (
                "d",
                Synthetic {
                    units: 32,
                    sigma: 0.4,
                    service_us: 90.0,
                    interval_us: 11.0,
                    fixed_us: 20.0,
                    ..read
                },
                Synthetic {
                    units: 2,
                    service_us: 30.0,
                    sigma: 0.3,
                    fixed_us: 10.0,
                    interval_us: 14.0,
                    stalled: 0.012,
                    ..write
                },
            ),
            (
                "e",
                Synthetic {
                    units: 24,
                    sigma: 0.2,
                    service_us: 45.0,
                    interval_us: 8.0,
                    fixed_us: 30.0,
                    ..read
                },
                Synthetic { units: 1, service_us: 10.0, sigma: 0.6, fixed_us: 12.0, ..write },
            ),
        ];
        for (name, read, write) in pairs {
            let all = [read.rows(&DEPTHS), write.rows(&DEPTHS)].concat();
            print(&format!("synthetic:{name}"), &all, &[1, 4, 32]);
        }
    }
}
