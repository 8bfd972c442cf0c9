//! Fits disks to some rows of real measurements and evaluates them on the other rows. Also tests
//! implausible rows.

mod measured;

use super::*;
use measured::{HDD_500GB, RAPTOR, ST2000DM006, rows};

fn known(rpm: f64, capacity_bytes: u64) -> DiskFacts {
    DiskFacts { name: "test".into(), rpm: Some(rpm), capacity_bytes, ..DiskFacts::default() }
}

const GB_500: u64 = 500_107_862_016;

/// Checks that the errors of all rows of one operation are within limits: the rates at every depth,
/// the 99th percentiles at depth `p99_from` and above.
fn judge(checks: &[RowCheck], of: Op, iops_most: f64, p99_from: u32) {
    for check in checks.iter().filter(|check| check.measured.op == of) {
        let depth = check.measured.depth;
        let error = check.iops_error();
        assert!(error.abs() <= iops_most, "{of:?} at depth {depth}: IOPS {error:+.3}");
        let p99 = check.p99_error().filter(|_| depth >= p99_from);
        assert!(p99.unwrap_or(0.0).abs() <= 0.25, "{of:?} at depth {depth}: p99 {p99:?}");
    }
}

/// Fits only the rows at `depths`, then compares all rows.
fn fitted(table: &str, depths: &[u32], known: DiskFacts) -> (DiskFit, Vec<RowCheck>) {
    let all = rows(table);
    let some: Vec<SweepRow> =
        all.iter().filter(|row| depths.contains(&row.depth)).cloned().collect();
    let fit = fit(&some, known).unwrap();
    let checks = fit.check(&all).unwrap();
    (fit, checks)
}

#[test]
fn the_fit_predicts_unseen_reads_of_a_disk() {
    let reads = reads_of(HDD_500GB);
    let (fit, checks) = fitted(&reads, &[1, 4, 32], known(7200.0, GB_500));
    judge(&checks, Op::Read, 0.05, 1);
    assert_eq!(fit.figures.ahead, 0);
    assert!(fit.notes.iter().any(|note| note.contains("no random writes")), "{:?}", fit.notes);
    // The written device file must describe the same disk.
    let (_, spec) = crate::read_spec(std::path::Path::new("fit.toml"), &fit.toml()).unwrap();
    let crate::DiskSpec::Drive(drive) = spec else { panic!("a plain disk") };
    let again = check(&Drive::new(&drive).unwrap(), &rows(&reads)[2..4]);
    for (again, check) in again.iter().zip(&checks[2..4]) {
        assert!((again.model.iops / check.model.iops - 1.0).abs() < 0.01, "{again:?} {check:?}");
    }
}

/// The assumed number of data surfaces grows with the capacity, which hardly matters to the rates.
#[test]
fn disks_of_any_size_can_be_fitted() {
    let reads = reads_of(HDD_500GB);
    for (terabytes, heads) in [(18, 9), (36, 18)] {
        let known = known(7200.0, terabytes * 1_000_000_000_000);
        let (fit, checks) = fitted(&reads, &[1, 4, 32], known);
        judge(&checks, Op::Read, 0.05, u32::MAX);
        assert_eq!(fit.figures.heads, heads, "{terabytes} TB");
    }
}

#[test]
#[ignore = "slow: make test-full"]
fn the_fit_predicts_writes_of_a_disk_that_serves_the_newest_first() {
    let (fit, checks) = fitted(HDD_500GB, &[1, 4, 32], known(7200.0, GB_500));
    judge(&checks, Op::Read, 0.05, 1);
    judge(&checks, Op::Write, 0.05, 8);
    assert!(fit.figures.admits_newest && fit.notes.is_empty(), "{:?}", fit.notes);
    assert!((1_800.0..2_050.0).contains(&fit.figures.starvation_ms), "{:?}", fit.figures);
}

#[test]
#[ignore = "slow: make test-full"]
fn the_fit_predicts_a_disk_that_chooses_ahead() {
    let (fit, checks) = fitted(RAPTOR, &[1, 8, 32], known(10_000.0, 74_355_769_344));
    judge(&checks, Op::Read, 0.05, 1);
    judge(&checks, Op::Write, 0.10, u32::MAX);
    assert!(fit.figures.ahead >= 2 && !fit.figures.admits_newest, "{:?}", fit.figures);
}

#[test]
#[ignore = "slow: make test-full"]
fn the_fit_predicts_a_disk_that_waits_for_the_answer() {
    let (fit, checks) = fitted(ST2000DM006, &[1, 2, 32], known(7200.0, 2_000_398_934_016));
    judge(&checks, Op::Read, 0.05, 1);
    judge(&checks, Op::Write, 0.10, u32::MAX);
    assert_eq!(fit.figures.ahead, -1);
}

/// Checks that the bundled files of measured disks are as accurate as they claim.
#[test]
fn bundled_files_agree_with_measurements() {
    let checked = |name: &str, table: &str| {
        let (_, spec) = crate::open_spec(name).unwrap();
        let crate::DiskSpec::Drive(drive) = spec else { panic!("{name} is a plain disk") };
        check(&Drive::new(&drive).unwrap(), &rows(table))
    };
    let mut wrong = Vec::new();
    for (name, table) in
        [("hdd-500gb", HDD_500GB), ("wd-raptor-73gb-10k", RAPTOR), ("st2000dm006", ST2000DM006)]
    {
        let is_newest = name == "hdd-500gb";
        let (writes_most, p99_from) = if is_newest { (0.05, 8) } else { (0.10, u32::MAX) };
        let checks = checked(name, table);
        judge(&checks, Op::Read, 0.05, 1);
        judge(&checks, Op::Write, writes_most, p99_from);
        wrong.extend(misstated(name, &checks));
    }
    assert!(wrong.is_empty(), "devices/: expected\n{}", wrong.join("\n"));
}

/// Returns the lines in which a bundled file does not state the errors in `checks`, in its table
/// and as its evidence.
fn misstated(name: &str, checks: &[RowCheck]) -> Vec<String> {
    let (_, text) = crate::BUNDLED.iter().find(|(stem, _)| *stem == name).unwrap();
    let percent = |share: f64| format!("{:+.1} %", 100.0 * share);
    let row = |check: &RowCheck| {
        let RowCheck { measured, model } = check;
        format!(
            "# {:<25}{:>11.1}{:>10.1}{:>9}{:>11}",
            format!("{} at depth {}", noun(measured.op), measured.depth),
            measured.iops,
            model.iops,
            percent(check.iops_error()),
            check.p99_error().map_or("-".to_string(), percent)
        )
    };
    let most = |key: &str, errors: &mut dyn Iterator<Item = f64>| {
        let error = 100.0 * errors.map(f64::abs).fold(0.0, f64::max);
        format!("{key} = {error:.1} # as above, of reads and writes")
    };
    let rate = most("rate_error_percent", &mut checks.iter().map(RowCheck::iops_error));
    let p99 = most("p99_error_percent", &mut checks.iter().filter_map(RowCheck::p99_error));
    let lines = checks.iter().map(row).chain([rate, p99]);
    lines.filter(|line| !text.lines().any(|stated| stated == line)).collect()
}

/// No drive gains more from queue depth than its manufacturer claims, or, without such a claim,
/// than has been measured on other drives: desktop, server and nearline drives.
#[test]
fn bundled_disks_gain_a_plausible_share_by_depth() {
    for device in crate::list().unwrap() {
        let crate::list::DeviceModel::Drive(drive) = &device.model else { continue };
        let rate = |depth| play_disk(&mut drive.clone(), Op::Read, 4096, depth).iops;
        let gain = rate(32) / rate(1);
        let [least, most] = match &device.name[..] {
            "hdd-500gb" | "st2000dm006" | "wd-raptor-73gb-10k" => [1.44, 1.68],
            "sata250" | "wd10ezex" | "st2000dm008" | "travelstar-5k320" | "st1000lm035" => {
                [1.4, 1.7]
            }
            "exos-x18" | "hc550" | "mg08" => [2.2, 2.5],
            "st1000nm0011" | "st91000640ss" | "cheetah-15k7" | "ultrastar-36z15" => [1.7, 2.2],
            _ => [1.4, 2.5],
        };
        assert!((least..most).contains(&gain), "{}: {gain:.2}", device.name);
    }
}

fn row(op: Op, depth: u32, iops: f64) -> SweepRow {
    let none = None;
    SweepRow {
        op,
        block_bytes: 4096,
        depth,
        iops,
        mean_us: none,
        p50_us: none,
        p99_us: none,
        p999_us: none,
        max_us: none,
    }
}

fn refused(rows: &[SweepRow], known: DiskFacts) -> String {
    fit(rows, known).unwrap_err().to_string()
}

#[test]
fn rows_impossible_for_a_disk_are_rejected() {
    let disk = || known(7200.0, GB_500);
    let said = |rows: &[SweepRow]| refused(rows, disk());
    assert!(said(&[]).contains("no usable row"));
    assert!(said(&[row(Op::Read, 1, f64::NAN), row(Op::Read, 2, -4.0)]).contains("no usable row"));
    assert!(said(&[row(Op::Read, 1, 9_000.0)]).contains("9000 random reads a second"));
    assert!(said(&[row(Op::Read, 8, 100.0)]).contains("rows from queue depth 8 on"));
    let too_fast = said(&[row(Op::Read, 1, 240.0)]);
    assert!(too_fast.contains("4.17 ms each at 7200 rpm"), "{too_fast}");
    let none = refused(&[row(Op::Read, 1, 70.0)], DiskFacts::default());
    assert!(none.contains("the drive's capacity"), "{none}");
    let odd = DiskFacts { heads: Some(0), ..disk() };
    assert!(
        refused(&[row(Op::Read, 1, 70.0)], odd).contains("modeled: heads: got 0, expected 1 to")
    );
    let odd = DiskFacts { heads: Some(1), capacity_bytes: 8_000_000_000_000, ..disk() };
    let large = refused(&[row(Op::Read, 1, 70.0)], odd);
    assert!(large.contains("8000000000000 bytes, which need") && large.contains("data surfaces"));
    let odd = DiskFacts { rpm: Some(f64::NAN), ..disk() };
    assert!(refused(&[row(Op::Read, 1, 70.0)], odd).contains("the disk cannot be modeled: "));
}

#[test]
fn inconsistent_rows_are_left_out_and_reported() {
    let mut notes = Vec::new();
    let busy = SweepRow { mean_us: Some(99_000.0), ..row(Op::Read, 4, 80.0) };
    let falling =
        SweepRow { p50_us: Some(9_000.0), p99_us: Some(8_000.0), ..row(Op::Read, 8, 90.0) };
    let other = SweepRow { block_bytes: 65_536, ..row(Op::Read, 16, 90.0) };
    let twice = row(Op::Read, 1, 71.0);
    let slower = row(Op::Read, 32, 50.0);
    let rows = [row(Op::Read, 1, 70.0), busy, falling, other, twice, slower];
    let kept = super::rows::sorted(&rows, &mut notes).unwrap();
    let depths: Vec<u32> = kept.reads.iter().map(|row| row.depth).collect();
    assert_eq!(depths, [1, 32]);
    for part in [
        "random reads at depth 4: left out, its rate times its mean latency is 7.9",
        "random reads at depth 8: left out, its percentiles fall",
        "1 row of sizes other than 4096 bytes",
        "random reads at depth 1: left out, because there is already a row",
        "random reads drop from 70.0 IOPS at depth 1 to 50.0 at depth 32",
    ] {
        assert!(notes.iter().any(|note| note.contains(part)), "{part}: {notes:?}");
    }
}

#[test]
fn a_small_sweep_is_fitted_and_open_parameters_are_reported() {
    // With a single row of reads, the rotational speed and the catch margin are guesses.
    let unknown = DiskFacts { rpm: None, ..known(0.0, GB_500) };
    let fit = super::fit(&[row(Op::Read, 1, 57.0)], unknown.clone()).unwrap();
    assert_eq!(fit.figures.rpm, 5400.0);
    assert!((fit.figures.catch_margin_ms - 4.0).abs() < 0.01, "{:?}", fit.figures);
    assert!(fit.notes.iter().any(|note| note.contains("5400 rpm is assumed")));
    assert!(fit.notes.iter().any(|note| note.contains("of 4 or more")), "{:?}", fit.notes);
    let text = fit.toml();
    assert!(text.contains("# assumed: 0.36 of a revolution"), "{text}");
    let read = crate::read(std::path::Path::new("fitted.toml"), &text).unwrap();
    let range = read.catch_margin_range().unwrap().map(|margin| margin.as_millis_f64());
    assert!((range[0] - 2.778).abs() < 0.001 && (range[1] - 5.0).abs() < 0.001, "{range:?}");
    // The sweep contains only writes, at a rate that requires a write cache.
    let fit = super::fit(&[row(Op::Write, 1, 150.0)], unknown).unwrap();
    assert!(
        fit.figures.places > 1 && fit.notes.iter().any(|note| note.contains("no random reads"))
    );
    // A drive without command queuing.
    let rows = [row(Op::Read, 1, 70.0), row(Op::Read, 32, 71.0)];
    let fit = super::fit(&rows, known(7200.0, GB_500)).unwrap();
    assert_eq!((fit.figures.queue_depth, fit.figures.catch_margin_ms), (1, 0.0));
    // Writes as slow as reads imply that there is no write cache.
    let rows = [row(Op::Read, 1, 70.0), row(Op::Write, 1, 66.0)];
    let fit = super::fit(&rows, known(7200.0, GB_500)).unwrap();
    assert_eq!(fit.figures.places, 0);
    let each = 1e3 / 66.0 - 1e3 / 70.0;
    assert!((fit.figures.write_settle_ms - each).abs() < 0.2, "{:?}", fit.figures);
}

/// Returns rows of one operation with these depths and rates.
fn bare(op: Op, rates: &[(u32, f64)]) -> Vec<SweepRow> {
    rates.iter().map(|&(depth, iops)| row(op, depth, iops)).collect()
}

#[test]
fn fitting_several_disks_is_reported() {
    let rows = bare(Op::Read, &[(1, 70.0), (4, 250.0), (32, 900.0)]);
    let fit = super::fit(&rows, known(7200.0, GB_500)).unwrap();
    let count = |part: &str| fit.notes.iter().filter(|note| note.contains(part)).count();
    assert_eq!(count("not one disk, or not a disk of this kind"), 1, "{:?}", fit.notes);
    assert_eq!(count("gain more from depth than the model"), 1, "{:?}", fit.notes);
    assert!(fit.toml().contains("# Note: this is not one disk"));
}

#[test]
fn falling_writes_suggest_a_shingled_disk() {
    let notes_on = |op: Op| {
        let mut notes = Vec::new();
        let rows = bare(op, &[(1, 22.0), (4, 17.0), (32, 13.0)]);
        super::rows::sorted(&rows, &mut notes).unwrap();
        notes.join("\n")
    };
    assert!(notes_on(Op::Write).contains("`shingled = true`"));
    let reads = notes_on(Op::Read);
    assert!(reads.contains("random reads drop") && !reads.contains("shingled"), "{reads}");
}

#[test]
#[ignore = "slow: make test-full"]
fn writes_faster_than_any_cache_have_an_assumed_one() {
    let mut rows = bare(Op::Read, &[(1, 70.0)]);
    rows.extend(bare(Op::Write, &[(1, 2_000.0)]));
    let fit = super::fit(&rows, known(7200.0, GB_500)).unwrap();
    assert_eq!(fit.figures.places, 64);
    assert!(fit.notes.iter().any(|note| note.contains("faster than a write cache explains")));
    let text = fit.toml();
    assert!(text.contains("# assumed: no write cache explains the rate"), "{text}");
}

/// Returns the lines of `table` that describe reads.
fn reads_of(table: &str) -> String {
    table
        .lines()
        .filter(|line| line.starts_with("read"))
        .map(|line| line.to_string() + "\n")
        .collect()
}

#[test]
fn rows_that_hardly_tell_how_far_ahead_a_disk_chooses_do_not_mislead() {
    // A single row at depth 8 also fits a drive that waits for the host's next command; only depth
    // 2 would tell.
    let (fit, checks) = fitted(&reads_of(HDD_500GB), &[1, 8, 32], known(7200.0, GB_500));
    judge(&checks, Op::Read, 0.05, 1);
    assert_eq!(fit.figures.ahead, 0);
    // No gain is visible at depth 4, so two or three commands may be committed.
    let (fit, checks) = fitted(&reads_of(RAPTOR), &[1, 4, 32], known(10_000.0, 74_355_769_344));
    judge(&checks, Op::Read, 0.05, 1);
    assert_eq!(fit.figures.ahead, 3);
    // With a random error, the rate suggests a drive that waits for the host; the 99th percentile
    // does not.
    let mut off = rows(&reads_of(HDD_500GB));
    off[0].iops *= 0.96;
    off[1].iops *= 1.04;
    assert_eq!(super::fit(&off, known(7200.0, GB_500)).unwrap().figures.ahead, 0);
}

#[test]
fn a_99th_percentile_shows_how_long_commands_are_passed_over() {
    let known = known(5400.0, GB_500);
    let (fit, _) = fitted(&reads_of(HDD_500GB), &[1, 2, 32], known.clone());
    let figures = DiskFigures { starvation_ms: 700.0, rpm: 5400.0, ..fit.figures };
    let drive = Drive::new(&figures.spec(GB_500).unwrap()).unwrap();
    let row = |depth| SweepRow {
        p999_us: None,
        max_us: None,
        ..play_disk(&mut drive.clone(), Op::Read, 4096, depth)
    };
    let all = [1, 2, 8, 16, 32, 64].map(row);
    let some: Vec<SweepRow> =
        all.iter().filter(|row| [1, 2, 32].contains(&row.depth)).cloned().collect();
    let fit = super::fit(&some, known).unwrap();
    assert!((500.0..900.0).contains(&fit.figures.starvation_ms), "{:?}", fit.figures);
    judge(&fit.check(&all).unwrap(), Op::Read, 0.05, 1);
}

/// Writes without a cache have no margin of their own: the settle time balances the errors at all
/// depths.
#[test]
fn the_fit_predicts_uncached_writes_at_every_depth() {
    let mut rows = rows(&reads_of(HDD_500GB));
    let rates = [(1, 68.0), (4, 80.24), (8, 86.36), (16, 92.48), (32, 98.6)];
    rows.extend(bare(Op::Write, &rates));
    let fit = super::fit(&rows, known(7200.0, GB_500)).unwrap();
    assert_eq!(fit.figures.places, 0);
    judge(&fit.check(&rows).unwrap(), Op::Write, 0.10, u32::MAX);
    assert!(fit.toml().contains("fitted: from random writes at queue depths 1, 4, 8, 16, 32"));
}
