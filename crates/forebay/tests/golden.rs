//! Golden tables of every scheduler on the bundled trace. `UPDATE=1` rewrites them; a commit that
//! changes them must explain why.

use std::fmt::Write;
use std::path::Path;

use forebay::devices;
use forebay::input::Input;
use forebay::progress::{unheard, untold};
use forebay::simulate::{Bed, Replay, Setup, run, run_on};
use forebay_core::catalog::{PLACEMENTS, POLICIES, YARDSTICKS};
use forebay_core::replay::Intensity;
use forebay_trace::streams::StreamBy;

const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// Returns the table of `policies` on the disk called `name`.
fn table(name: &str, policies: &[&str]) -> String {
    let path = Path::new(HERE).join("../../traces/terasort.parquet");
    let input = Input::read(&path, None, StreamBy::Thread, &mut untold).unwrap();
    let device = devices::open(name).unwrap();
    let mut table = format!("TeraSort, the bundled trace, simulated on {name}\n\n");
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
        for name in policies {
            let intensity = Intensity::new(times).unwrap();
            let setup = Setup { replay, intensity, ..Setup::default() };
            let figures = run(&input, &device, name, setup).unwrap().result.figures;
            assert_eq!(figures.unfinished, 0);
            writeln!(
                table,
                "{:12} {:6} {:>5} {:>9.3} {:>10.3} {:>7.2} {:>9} {:>8.2} {:>11.2} {:>11.2} {:>10.1} {:>9.1}",
                name,
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
    let names: Vec<&str> = POLICIES.iter().chain(YARDSTICKS).map(|listed| listed.name).collect();
    is_golden("terasort.txt", &table("st1000nm0011:plain", &names));
}

/// The drive has its factory configuration, with its queue, buffer and write cache.
#[test]
fn some_schedulers_on_the_drive_as_it_ships() {
    let names = ["noop", "mq-deadline", "kyber", "bfq", "cfq", "bid", "forebay"];
    is_golden("terasort-drive.txt", &table("st1000nm0011", &names));
}

fn is_golden(name: &str, table: &str) {
    let path = Path::new(HERE).join("tests/golden").join(name);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, table).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    assert_eq!(table, golden, "UPDATE=1 writes the table anew");
}

/// Returns the table of each device's figures for placements on a disk and flash, at one replay
/// speed.
fn placed_table() -> String {
    let path = Path::new(HERE).join("../../traces/terasort.parquet");
    let input = Input::read(&path, None, StreamBy::Thread, &mut untold).unwrap();
    let disk = devices::open("st1000nm0011:plain").unwrap();
    let flash = devices::open("samsung-830").unwrap();
    let bed = Bed { flash: Some(&flash), ..Bed::of(&disk) };
    let mut table =
        String::from("TeraSort, the bundled trace, on st1000nm0011:plain and samsung-830\n\n");
    writeln!(
        table,
        "{:28} {:>9} {:>9} {:>9} {:>9} {:>9} {:>11} {:>11} {:>9}",
        "policy",
        "disk_s",
        "flash_s",
        "disk_ios",
        "flash_ios",
        "flash_mib",
        "read_p99_ms",
        "write_p99ms",
        "energy_j",
    )
    .unwrap();
    let listed = PLACEMENTS.iter().map(|listed| listed.name);
    let variants = ["bid-hybrid:size-mib=4", "cache:block-kib=64:size-mib=1024"];
    for policy in listed.chain(variants) {
        let result = run_on(&input, bed, policy, Setup::default(), &mut untold).unwrap().result;
        let [disk, flash] = &result.devices[..] else { panic!("two devices") };
        assert_eq!(result.figures.unfinished, 0);
        writeln!(
            table,
            "{:28} {:>9.3} {:>9.3} {:>9} {:>9} {:>9} {:>11.2} {:>11.2} {:>9.1}",
            policy,
            disk.busy_s,
            flash.busy_s,
            disk.ios,
            flash.ios,
            flash.written_bytes >> 20,
            result.figures.read_p99_ms.unwrap(),
            result.figures.write_p99_ms.unwrap(),
            result.figures.energy_j,
        )
        .unwrap();
    }
    table
}

#[test]
fn placements_on_the_bundled_trace() {
    is_golden("terasort-flash.txt", &placed_table());
}

/// Which drives to buy for the bundled trace, limited to a quick search.
#[test]
fn what_to_buy_for_the_bundled_trace() {
    use forebay::plan::buy::{
        Answer, By, Candidate, Layout, Prices, Promise, Question, Reliability, Sharing, answer,
    };
    let path = Path::new(HERE).join("../../traces/terasort.parquet");
    let inputs = [Input::read(&path, None, StreamBy::Thread, &mut untold).unwrap()];
    let open = |names: &[&str]| -> Vec<Candidate> {
        names.iter().map(|name| Candidate::open(name).unwrap()).collect()
    };
    let asked = |drives: &[Candidate], layouts: &[Layout], fraction: &str| -> Answer {
        let question = Question {
            promise: Promise {
                within: forebay_core::Nanos::from_millis(50),
                fraction: fraction.parse().unwrap(),
            },
            own: &[],
            by: By::Trace,
            begin: forebay::plan::consolidate::Begin::Together,
            trust_times: false,
            growth: 1.0,
            gib: None,
            spare: 1,
            survives: 0,
            drives,
            layouts,
            flash: &open(&["d7-p5520"])[0],
            scheduler: "mq-deadline",
            drives_max: 16,
            sharings: &[Sharing::Shared],
            prices: &Prices::default(),
            budget: None,
            refuses_few: false,
            headroom: 0.3,
            reliability: Reliability {
                failures_per_year: 0.0157,
                defects_per_year: 0.95,
                scrub: forebay_core::Nanos::from_secs(7 * 86_400),
                rebuild_bytes_per_s: 50e6,
            },
            bootstrap: None,
        };
        answer(&inputs, &question, &mut unheard).unwrap()
    };
    let mut table =
        String::from("TeraSort, the bundled trace: drives for a share within 50 ms\n\n");
    let (disks, flash) = (open(&["hc550", "wd10ezex", "travelstar-5k320"]), open(&["990-pro"]));
    for (drives, layouts, fraction) in [
        (&disks, &[Layout::Single][..], "0.9"),
        (&flash, &[Layout::Single, Layout::Mirror, Layout::Raid6], "0.999"),
    ] {
        let found = asked(drives, layouts, fraction);
        writeln!(table, "{fraction}: {}", found.said).unwrap();
        for row in &found.rows {
            writeln!(
                table,
                "{:18} {:8} {:?}/{:?}/{:?} {:?} {:10} busy {:.4} watts {:.3} price {:?} in time {:.5} one less {:?}",
                row.drive,
                row.layout.name(),
                row.drives_for_bytes.unwrap_or(0),
                row.drives_for_redundancy.unwrap_or(0),
                row.drives_for_time.unwrap_or(0),
                row.drives.unwrap_or(0),
                row.binds.map_or("-", |binds| binds.name()),
                row.utilisation.unwrap_or(0.0),
                row.mean_power_w.unwrap_or(0.0),
                row.price,
                row.worst().unwrap().in_time_fraction,
                row.one_less.as_ref().map(|less| less.drives),
            )
            .unwrap();
        }
        writeln!(table, "{}", found.configuration.unwrap().serve).unwrap();
    }
    is_golden("buy.txt", &table);
}
