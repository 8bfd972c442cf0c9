//! Tests `device fit`, `import` and `validate` on the real binary.

use serde_json::Value;

use crate::command::{Folder, fails, forebay};

#[test]
fn a_fit_names_what_is_missing_or_wrong_and_writes_nothing() {
    let folder = Folder::new();
    let fit = || {
        let mut fit = forebay(&["device", "fit", "--capacity", "1000000000000"]);
        fit.arg(folder.root()).arg("-o").arg(folder.path("mine.toml"));
        fit
    };
    fails(&mut fit(), 2, &["zones*_lat.*.log", "neither fio's results", "measure-a-drive.md"]);
    folder.file("zones_lat.1.log", "5, 2000000, 0, 131072, 0, 0\n6, 2000000, 0, 131072\n");
    fails(&mut fit(), 2, &["zones_lat.1.log, line 2", "got '6, 2", "log_offset=1"]);
    folder.file("zones_lat.1.log", "5, 2000000, 1, 131072, 0, 0\n");
    fails(&mut fit(), 2, &["got 0 sequential runs"]);
    assert!(!folder.path("mine.toml").exists());
    let nowhere = folder.path("nowhere");
    let mut missing = forebay(&["device", "fit", "--capacity", "1", "-o", "x.toml"]);
    fails(missing.arg(nowhere), 2, &["nowhere", "No such file"]);
}

#[test]
fn a_disksim_drive_is_imported_and_validated() {
    let folder = Folder::new();
    let text = include_str!("../../../fuzz/seeds/disksim/beside");
    let specs = folder.file("x.diskspecs", text);
    folder.file("m.model", text);
    let drive = folder.path("x.toml");
    let mut import = forebay(&[]);
    let said =
        import.args(["device", "import"]).arg(&specs).arg("-o").arg(&drive).assert().success();
    let notes = String::from_utf8_lossy(&said.get_output().stderr).into_owned();
    assert!(notes.contains("Oddity = 7 is not modeled"), "{notes}");
    let kept = std::fs::read_to_string(&drive).unwrap();
    let noted = kept.lines().find(|line| line.contains("Oddity")).unwrap();
    assert_eq!(noted, "# x.diskspecs, line 12: Oddity = 7 is not modeled");
    let trace = folder.file("x.trace", "R Hit 10 4 5000.0 2000.0\nW Hit 14 4 900.0 20000.0\n");
    let mut validate = forebay(&[]);
    validate.args(["device", "validate"]).arg(&drive).arg(&trace).args(["--format", "json"]);
    let out = validate.assert().success().get_output().stdout.clone();
    let figures: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!((&figures["requests"], &figures["phases"]), (&2.into(), &20.into()));
    assert!(figures["rms_ms"].as_f64().unwrap() > 0.0);
    let bad = folder.file("bad.trace", "R Hit 10 4\n");
    let mut fails = forebay(&[]);
    let said = fails.args(["device", "validate"]).arg(&drive).arg(&bad).assert().code(2);
    let message = String::from_utf8_lossy(&said.get_output().stderr).into_owned();
    assert!(message.contains("bad.trace, line 1") && message.lines().count() == 1, "{message}");
}

#[test]
fn an_import_prints_the_notes_on_its_device_file() {
    let folder = Folder::new();
    let text = include_str!("../../../fuzz/seeds/disksim/beside");
    let text = text.replace("= hpl,", "= extracted,");
    let specs = folder.file("x.diskspecs", &text);
    folder.file("m.model", &text);
    folder.file("c.seek", "Seek distances measured: 2\n1, 1.0\n3, 1.5\n");
    let mut import = forebay(&["device", "import"]);
    let said = import.arg(&specs).assert().success().get_output().stderr.clone();
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("the seek table ends at 3 of"), "{said}");
}

#[test]
fn a_solid_state_fit_that_misses_rows_says_so() {
    let folder = Folder::new();
    // The 99th percentiles contradict the rates.
    let jobs = [
        job(1, [8000.0, 124.0, 10.0, 12.0]),
        job(4, [9000.0, 440.0, 10.0, 9000.0]),
        job(32, [70000.0, 455.0, 450.0, 460.0]),
    ];
    folder.file("depth.json", results(&jobs));
    let mut fit = forebay(&["device", "fit"]);
    let out = fit.arg(folder.path("depth.json")).arg("-o").arg(folder.path("m.toml"));
    let out = out.assert().success().get_output().clone();
    let [page, notes] = [&out.stdout, &out.stderr].map(|text| String::from_utf8_lossy(text));
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(page.contains("This is not one solid-state drive"), "{page}");
    assert!(notes.contains("IOPS were measured and the model predicts"), "{notes}");
    assert!(notes.contains("no row of random reads at depth 2"), "{notes}");
}

/// Formats a job in fio's results: random reads of 4 KiB at `depth`, with the rate and latencies in
/// us.
fn job(depth: u32, [iops, mean, p50, p99]: [f64; 4]) -> String {
    format!(
        r#"{{"jobname": "depth{depth}", "groupid": {depth}, "error": 0,
        "job options": {{"rw": "randread", "bs": "4k", "iodepth": "{depth}", "ioengine": "libaio"}},
        "read": {{"iops": {iops}, "clat_ns": {{"mean": {}, "max": {}, "percentile":
            {{"50.000000": {}, "99.000000": {}}}}}}},
        "write": {{"iops": 0.0, "clat_ns": {{"mean": 0.0}}}}}}"#,
        mean * 1e3,
        p99 * 3e3,
        p50 * 1e3,
        p99 * 1e3
    )
}

fn results(jobs: &[String]) -> String {
    format!("fio: a warning\n{{\n\"fio version\": \"fio-3.33\", \"jobs\": [{}]}}\n", jobs.join(","))
}

#[test]
fn a_sweep_creates_a_solid_state_drive_and_reports_each_rows_error() {
    let folder = Folder::new();
    // An Intel D3-S4610 (fio-plot, benchmark_data/SERVER/IBM_M1015).
    let jobs = [
        job(1, [7816.3, 125.4, 110.1, 146.4]),
        job(4, [29526.56, 133.5, 119.3, 203.8]),
        job(32, [63110.33, 505.4, 505.9, 692.2]),
    ];
    folder.file("depth.json", results(&jobs));
    let output = folder.path("mine.toml");
    let mut fit = forebay(&["device", "fit", "--format", "json"]);
    let out = fit.arg(folder.path("depth.json")).arg("-o").arg(&output).assert().success();
    let figures: Value = serde_json::from_slice(&out.get_output().stdout).unwrap();
    assert_eq!((&figures["kind"], figures["rows"].as_array().unwrap().len()), (&"ssd".into(), 3));
    assert!(figures["iops_error_share"].as_f64().unwrap() < 0.1, "{figures}");
    let said = String::from_utf8_lossy(&out.get_output().stderr).into_owned();
    assert!(said.contains("--capacity") && said.contains("no random writes"), "{said}");
    // The device file states what the fit is based on, and can be compared with other rows.
    let mut devices = forebay(&["devices"]);
    let told = devices.arg(&output).assert().success().get_output().stdout.clone();
    let told = String::from_utf8_lossy(&told).into_owned();
    assert!(
        told.contains("times: fitted, rates within") && told.contains("an fio sweep"),
        "{told}"
    );
    std::fs::create_dir(folder.path("more")).unwrap();
    folder.file("more/depth8.json", results(&[job(8, [49016.25, 161.7, 150.5, 257.0])]));
    let mut validate = forebay(&["device", "validate", "--format", "json"]);
    let out = validate.arg(&output).arg(folder.path("more")).assert().success();
    let figures: Value = serde_json::from_slice(&out.get_output().stdout).unwrap();
    let row = &figures["rows"][0];
    assert_eq!(row["row"], "random reads of 4 KiB at depth 8");
    assert!(row["iops_error_share"].as_f64().unwrap().abs() < 0.1, "{figures}");
    assert!(row["p99_error_share"].as_f64().unwrap().abs() < 0.15, "{figures}");
}

#[test]
fn files_that_are_no_sweep_are_rejected_in_one_line() {
    let folder = Folder::new();
    let fit = |file: &std::path::Path| {
        let mut fit = forebay(&["device", "fit"]);
        fit.arg(file).arg("-o").arg(folder.path("mine.toml"));
        fit
    };
    let broken = folder.file("broken.json", "{\"jobs\": [");
    fails(&mut fit(&broken), 2, &["broken.json", "truncated", "--output-format=json"]);
    let other = folder.file("other.json", "{\"a\": 1}");
    fails(&mut fit(&other), 2, &["other.json", "without \"jobs\""]);
    let one = folder.file("one.json", results(&[job(1, [7816.3, 125.4, 110.1, 146.4])]));
    fails(&mut fit(&one), 2, &["random reads at 1 queue depth,"]);
    let mut kind = fit(&one);
    fails(kind.args(["--kind", "tape"]), 2, &["--kind: got 'tape'", "hdd, ssd"]);
    // The results are input files, so they are never overwritten.
    let mut over = forebay(&["device", "fit"]);
    fails(over.arg(&one).arg("-o").arg(&one), 2, &["one.json", "an input file"]);
    assert!(!folder.path("mine.toml").exists());
    let mut printed = forebay(&["device", "job"]);
    let job = printed.assert().success().get_output().stdout.clone();
    let job = String::from_utf8_lossy(&job);
    let (told, sections): (Vec<&str>, Vec<&str>) =
        job.lines().filter(|line| !line.is_empty()).partition(|line| line.starts_with('#'));
    // The job is short enough to read before running it, and begins with how to run it.
    assert!(sections.len() <= 20 && told.len() <= 6, "{job}");
    for part in ["[depth]", "iodepth=${DEPTH}", "[large]", "[streams]", "[beside]"] {
        assert!(sections.contains(&part), "no {part} in {job}");
    }
    assert!(told.iter().any(|line| line.contains("for DEPTH in 1 2 4 8 16 32 64; do")), "{job}");
}
