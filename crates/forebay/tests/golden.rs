//! Golden tables: every scheduler on the bundled trace. `UPDATE=1` writes them anew; a change must
//! be explained in the commit that makes it.

#![allow(clippy::unwrap_used)]

use std::fmt::Write;
use std::path::Path;

use forebay::devices;
use forebay::input::Input;
use forebay::simulate::{Replay, Setup, run};
use forebay_core::policy::POLICIES;
use forebay_core::replay::Intensity;
use forebay_trace::streams::StreamBy;

const HERE: &str = env!("CARGO_MANIFEST_DIR");

fn table() -> String {
    let path = Path::new(HERE).join("../../traces/terasort.parquet");
    let input = Input::read(&path, None, StreamBy::Thread, |_| ()).unwrap();
    let device = devices::open("st1000nm0011").unwrap();
    let mut table = String::from("TeraSort, the bundled trace, simulated on st1000nm0011\n\n");
    writeln!(
        table,
        "{:12} {:6} {:>5} {:>9} {:>10} {:>7} {:>9} {:>8} {:>11} {:>11} {:>10} {:>9}",
        "policy",
        "replay",
        "times",
        "busy_s",
        "makespan_s",
        "floor_s",
        "movements",
        "sweeps",
        "read_p99_ms",
        "write_p99ms",
        "longest_ms",
        "energy_j",
    )
    .unwrap();
    for (replay, times) in [(Replay::Open, 1.0), (Replay::Open, 10.0), (Replay::Closed, 1.0)] {
        for listed in POLICIES {
            let intensity = Intensity::new(times).unwrap();
            let setup = Setup { replay, intensity, ..Setup::default() };
            let figures = run(&input, &device, listed.name, setup).unwrap().result.figures;
            assert_eq!(figures.unfinished, 0);
            writeln!(
                table,
                "{:12} {:6} {:>5} {:>9.3} {:>10.3} {:>7.2} {:>9} {:>8.2} {:>11.2} {:>11.2} {:>10.1} {:>9.1}",
                listed.name,
                format!("{replay:?}").to_lowercase(),
                times,
                figures.busy_s,
                figures.makespan_s,
                figures.transfer_bound_s,
                figures.head_movements,
                figures.seek_sweeps,
                figures.read_p99_ms.unwrap(),
                figures.write_p99_ms.unwrap(),
                figures.longest_wait_ms,
                figures.energy_j,
            )
            .unwrap();
        }
    }
    table
}

#[test]
fn schedulers_on_the_bundled_trace() {
    let path = Path::new(HERE).join("tests/golden/terasort.txt");
    let table = table();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &table).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    assert_eq!(table, golden, "UPDATE=1 writes the table anew");
}
