//! The simulation that the search uses agrees with the model of the drive.

use super::super::quick::{Known, simulate};
use super::*;
use crate::closed::Pause;
use forebay_core::Nanos;

/// Compares both for `side` at several depths.
fn agree(op: Op, side: &Side, block_bytes: u32) {
    let link_bytes_per_s = 550_000_000;
    let fitted = SsdFit {
        known: SsdFacts { name: "simulated".to_string(), capacity_bytes: Some(8 << 30) },
        reads: side.clone(),
        writes: Some(side.clone()),
        link_mb_per_s: (550.0, true),
        queue_depth: 32,
        written_mb_per_s: 2_000.0,
    };
    let device = crate::read(Path::new("simulated.toml"), &fitted.toml(&[], &[])).unwrap();
    let row = |depth| SweepRow { block_bytes, ..shaped(op, depth, 1e4, [1.0, 1.0, 1.0]) };
    let rows = [1, 3, 16, 32].map(row);
    for RowChecked { check, what, .. } in check(&device, &sweep(rows.to_vec())) {
        let known = Known { op, queue_depth: 32, link_bytes_per_s, block_bytes };
        let quick = simulate(side, known, check.model.depth, 20_000);
        let model = &check.model;
        let near = |quick: f64, model: f64, within: f64| {
            assert!(
                (quick / model - 1.0).abs() < within,
                "{what}: {quick} instead of {model}: {side:?}"
            );
        };
        near(quick.iops, model.iops, 0.02);
        near(quick.mean_us, model.mean_us.unwrap(), 0.03);
        near(quick.p99_us, model.p99_us.unwrap(), 0.06);
    }
}

#[test]
fn the_search_simulates_the_model() {
    let host = Pause { gap: Nanos(3_000), wake: Nanos(9_000) };
    let reads = Side {
        interval_us: 15.0,
        behind: true,
        modes_us: [70.0, 160.0],
        first_share: 0.8,
        busy_share: 0.6,
        lanes: 6,
        host,
        depth_least: 1,
    };
    agree(Op::Read, &reads, 4096);
    agree(Op::Read, &Side { behind: false, lanes: 12, ..reads.clone() }, 16_384);
    let writes = Side { behind: false, modes_us: [25.0, 900.0], first_share: 0.98, ..reads };
    agree(Op::Write, &writes, 4096);
    agree(Op::Write, &Side { behind: true, lanes: 2, ..writes }, 4096);
}
