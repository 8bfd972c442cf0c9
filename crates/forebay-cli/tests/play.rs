//! Tests `forebay play` on the real binary: what it writes to files, what it rejects, and its
//! output. No test depends on the speed of the machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::command::{Folder, HEADER};

/// Creates a trace from rows of `(microseconds, op, offset, bytes)`.
fn trace_of(folder: &Folder, rows: &[(u64, &str, u64, u32)]) -> PathBuf {
    let row = |(at_us, op, offset, len): &(u64, &str, u64, u32)| {
        format!("{},{op},{offset},{len},0,0,1000000,,,,\n", at_us * 1000)
    };
    folder.file("trace.csv", HEADER.to_string() + &rows.iter().map(row).collect::<String>())
}

fn play(folder: &Folder, trace: &Path) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("forebay"));
    command.arg("play").arg(trace).current_dir(folder.root());
    command
}

/// Returns rows with reads or writes of 4 KiB, one every `gap_us` microseconds.
fn rows(count: u64, gap_us: u64, writes: bool) -> Vec<(u64, &'static str, u64, u32)> {
    let op = |n: u64| if writes && n.is_multiple_of(3) { "write" } else { "read" };
    (0..count).map(|n| (n * gap_us, op(n), n * 7919 % 512 * 4096, 4096)).collect()
}

fn json(command: &mut Command) -> Value {
    json_and(command, 0).0
}

/// Runs a command that must exit with status `code`. Returns its JSON output and its messages.
fn json_and(command: &mut Command, code: i32) -> (Value, String) {
    let output = command.args(["--format", "json"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{said}");
    (serde_json::from_slice(&output.stdout).unwrap(), said)
}

/// Asserts exit status 2, one message that contains all `parts`, and nothing on standard output.
fn refused(command: &mut Command, parts: &[&str]) {
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(output.stdout.is_empty(), "{said}");
    let messages = said.lines().filter(|line| line.starts_with("forebay: "));
    assert_eq!(messages.count(), 1, "{said}");
    parts.iter().for_each(|part| assert!(said.contains(part), "no {part:?} in: {said}"));
}

#[test]
fn every_driver_replay_and_policy_plays_a_trace() {
    let folder = Folder::new();
    let trace = trace_of(&folder, &rows(300, 50, true));
    let cases: [&[&str]; 6] = [
        &["--driver", "threads"],
        &["--replay", "closed"],
        &["--replay", "dependent", "--policy", "deadline"],
        &["--intensity", "3", "--policy", "bid", "--buffered"],
        &["--depth", "1", "--policy", "fcfs"],
        &[],
    ];
    for (index, options) in cases.into_iter().enumerate() {
        let target = format!("disk{index}");
        let result = json(play(&folder, &trace).args(["--target", &target]).args(options));
        let number = |key: &str| result[key].as_u64().unwrap();
        assert_eq!((number("requests"), number("reads"), number("writes")), (300, 200, 100));
        assert_eq!((number("unfinished"), number("ios_failed")), (0, 0), "{options:?}");
        assert_eq!(result["result"], "measured");
        assert_eq!(result["targets"][0]["kind"], "created file");
        assert_eq!(result["targets"][0]["capacity_bytes"].as_u64(), Some(2 << 20));
        assert!(result["verdict"][0].is_string() && result["read_p99_ms"].as_f64().is_some());
        assert!(result["lateness_p99_ms"].as_f64().is_some() && result["cpu_user_s"].is_number());
        let closed = options.contains(&"closed");
        assert_eq!(result["wanted_iops"].is_null(), closed);
        // Requests that depend on others become due later.
        if !closed && !options.contains(&"dependent") {
            let times = if options.contains(&"--intensity") { 3.0 } else { 1.0 };
            let wanted = result["wanted_iops"].as_f64().unwrap() / times;
            assert!((wanted - 20_000.0).abs() < 1.0, "{options:?}: {wanted}");
        }
        assert_eq!(fs::metadata(folder.path(&target)).unwrap().len(), 2 << 20);
        if options.contains(&"threads") {
            assert_eq!(result["driver"], "threads");
        }
        if options.contains(&"--buffered") {
            assert_eq!(result["targets"][0]["direct"], false);
        }
    }
    // All drivers must write the same data.
    let first = fs::read(folder.path("disk0")).unwrap();
    for index in 1..cases.len() {
        assert!(fs::read(folder.path(&format!("disk{index}"))).unwrap() == first, "disk{index}");
    }
    assert!(first.iter().any(|byte| *byte != 0));
}

#[test]
fn nothing_is_overwritten_by_accident() {
    let folder = Folder::new();
    let disk = folder.path("disk");
    let content = vec![0x55; 2 << 20];
    fs::write(&disk, &content).unwrap();
    let trace = trace_of(&folder, &rows(30, 10, true));
    let target = ["--target", "disk"];
    refused(play(&folder, &trace).args(target), &["disk: exists already", "--overwrite"]);
    assert!(fs::read(&disk).unwrap() == content);
    json(play(&folder, &trace).args(target).arg("--overwrite"));
    assert!(fs::read(&disk).unwrap() != content);
    // Reads are allowed without `--overwrite`, and change nothing.
    fs::write(&disk, &content).unwrap();
    let reads = trace_of(&folder, &rows(30, 10, false));
    let result = json(play(&folder, &reads).args(target));
    assert_eq!((result["reads"].as_u64(), result["ios_failed"].as_u64()), (Some(30), Some(0)));
    assert_eq!(result["targets"][0]["kind"], "file");
    assert!(fs::read(&disk).unwrap() == content);
}

#[test]
fn bad_targets_and_options_are_refused() {
    let folder = Folder::new();
    let trace = trace_of(&folder, &rows(300, 10, true));
    fs::write(folder.path("tiny"), [0; 100]).unwrap();
    let cases: [(&[&str], &[&str]); 11] = [
        (&["--target", "."], &["is a folder"]),
        (&["--target", "/dev/null"], &["/dev/null", "neither a file nor a block device"]),
        (&["--target", "no/such/folder"], &["cannot create it"]),
        (&["--target", "tiny", "--overwrite"], &["got 100 bytes", "at least 4096"]),
        (&["--target", "trace.csv", "--overwrite"], &["the trace itself"]),
        (
            &["--map-volume", "nope=disk", "--target", "disk"],
            &["no volume 'nope'", "expected one of"],
        ),
        (&["--target", "disk", "--policy", "split:cmin=100"], &["several servers", "--emulate"]),
        (&["--target", "disk", "--policy", "nope"], &["no policy 'nope'"]),
        (&[], &["--target"]),
        (&["--target", "disk", "--for", "0s"], &["got '0s', expected a time above 0"]),
        (
            &["--emulate", "sata250", "--depth", "4"],
            &["--emulate: cannot be combined with --depth"],
        ),
    ];
    for (options, parts) in cases {
        refused(play(&folder, &trace).args(options), parts);
        assert!(!folder.path("disk").exists(), "{options:?}");
    }
    assert!(fs::read_to_string(&trace).unwrap().starts_with(HEADER));
}

#[test]
fn requests_beyond_the_target_are_moved_or_left_out() {
    let folder = Folder::new();
    let trace = trace_of(&folder, &[(0, "read", 0, 4096), (9, "read", 5 << 20, 4096)]);
    fs::write(folder.path("disk"), vec![1; 2 << 20]).unwrap();
    let count = |map: &str, key: &str| {
        let result = json(play(&folder, &trace).args(["--target", "disk", "--map", map]));
        assert_eq!(result["ios_failed"], 0, "{map}");
        result[key].as_u64().unwrap()
    };
    assert_eq!(count("scale", "requests_moved"), 1);
    assert_eq!(count("wrap", "requests_moved"), 1);
    assert_eq!((count("clip", "requests_clipped"), count("clip", "requests")), (1, 1));
    let beyond = trace_of(&folder, &[(0, "read", 5 << 20, 4096)]);
    let options = ["--target", "disk", "--map", "clip"];
    refused(play(&folder, &beyond).args(options), &["all 1 requests lie beyond", "--map scale"]);
}

#[test]
fn a_limit_on_file_size_is_counted() {
    let folder = Folder::new();
    let mut rows = rows(60, 10, true);
    rows.push((600, "write", (1 << 20) - 512, 1024));
    let trace = trace_of(&folder, &rows);
    fs::write(folder.path("disk"), vec![0; 2 << 20]).unwrap();
    let io_uring = match forebay_live::Uring::new(Vec::new(), 1) {
        Ok(_) => Some("io_uring"),
        Err((error, _)) => {
            forebay_testing::skipped(&format!("io_uring: {error}"));
            None
        }
    };
    for driver in io_uring.into_iter().chain(["threads"]) {
        // sh counts blocks of 512 bytes, so only the first half of the file may be written.
        let script = "ulimit -f 2048 && exec \"$0\" \"$@\"";
        let play = play(&folder, &trace);
        let mut limited = Command::new("sh");
        limited.args(["-c", script]).arg(play.get_program()).args(play.get_args());
        limited.args(["--target", "disk", "--overwrite", "--driver", driver]);
        let (result, said) = json_and(limited.current_dir(folder.root()), 1);
        assert!(said.contains("I/Os failed; see the verdict"), "{said}");
        // One more write crosses the limit. The part that was not written is tried again, which
        // reveals the error.
        let beyond = rows.iter().filter(|row| row.1 == "write" && row.2 >= 1 << 20).count();
        assert_eq!(result["ios_failed"].as_u64(), Some(beyond as u64 + 1), "{driver}");
        assert_eq!(result["targets"][0]["ios_failed"], result["ios_failed"]);
        assert_eq!(result["errors"][0]["error"], "EFBIG", "{driver}");
        assert_eq!(result["errors"][0]["ios"], result["ios_failed"], "{driver}");
        assert_eq!(result["errors"][0]["op"], "write");
        assert_eq!(result["requests"], 61, "{driver}");
        let verdict = result["verdict"].as_array().unwrap();
        assert!(verdict.iter().any(|said| said.as_str().unwrap().contains("I/Os failed")));
    }
}

/// On an emulated device, all results that do not depend on the speed of the host equal those of
/// the simulator.
#[test]
fn an_emulated_device_matches_the_simulator() {
    let folder = Folder::new();
    let mut rows = rows(200, 400, true);
    // This read is beyond the end of the device, to test --map.
    rows.push((80_000, "read", 300 << 30, 4096));
    let trace = trace_of(&folder, &rows);
    let cases: [&[&str]; 8] = [
        &["--policy", "noop"],
        &["--policy", "deadline"],
        &["--policy", "miser:cmin=300:delta-ms=20"],
        &["--policy", "split:cmin=300:delta-c=300"],
        &["--policy", "noop", "--intensity", "0.1"],
        &["--policy", "noop", "--replay", "closed"],
        &["--policy", "cfq", "--replay", "dependent", "--intensity", "3"],
        &["--policy", "noop", "--map", "clip"],
    ];
    for options in cases {
        let live = json(play(&folder, &trace).args(["--emulate", "sata250"]).args(options));
        let simulated = Command::new(assert_cmd::cargo::cargo_bin!("forebay"))
            .arg("simulate")
            .arg(&trace)
            .args(["--device", "sata250", "--format", "json"])
            .args(options)
            .output()
            .unwrap();
        let simulated: Value = serde_json::from_slice(&simulated.stdout).unwrap();
        let simulated = &simulated["runs"][0];
        assert_eq!(live["result"], "emulated");
        for key in ["requests", "ios", "makespan_s", "seek_s", "head_movements", "wait_p99_ms"] {
            assert_eq!(live[key], simulated[key], "{options:?}: {key}");
        }
        let p99 = |result: &Value| result["read_p99_ms"].as_f64().unwrap();
        assert!(p99(&live) >= p99(simulated) * 0.999, "{options:?}: earlier than the model says");
        assert_eq!(live["replay"].as_str() == Some("closed"), options.contains(&"closed"));
    }
}

#[test]
fn an_emulated_volume_matches_the_simulator() {
    let folder = Folder::new();
    let trace = trace_of(&folder, &rows(200, 400, true));
    for volume in ["ebs-gp3:gib=600:depth-ms=1", "iotune:total-iops-sec=500:size-iops-sec=4096"] {
        let options = ["--policy", "noop"];
        let live = json(play(&folder, &trace).args(["--emulate", volume]).args(options));
        let simulated = Command::new(assert_cmd::cargo::cargo_bin!("forebay"))
            .arg("simulate")
            .arg(&trace)
            .args(["--device", volume, "--format", "json"])
            .args(options)
            .output()
            .unwrap();
        let simulated: Value = serde_json::from_slice(&simulated.stdout).unwrap();
        for key in ["requests", "ios", "makespan_s", "wait_p99_ms"] {
            assert_eq!(live[key], simulated["runs"][0][key], "{volume}: {key}");
        }
    }
}

#[test]
fn time_and_an_interruption_end_it_with_the_results_so_far() {
    let folder = Folder::new();
    // One request per second, for an hour.
    let trace = trace_of(&folder, &rows(3600, 1_000_000, true));
    let result = json(play(&folder, &trace).args(["--target", "a", "--for", "0.01s"]));
    assert_eq!(result["ended_early"], "time is up");
    let mut play = play(&folder, &trace);
    play.args(["--target", "b", "--format", "json"]).stdout(Stdio::piped()).stderr(Stdio::null());
    let child = play.spawn().unwrap();
    // Wait until the run has created its file, which happens while the interrupted run continues.
    while !folder.path("b").exists() {
        std::thread::yield_now();
    }
    let kill = format!("kill -INT {}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["ended_early"], "interrupted");
    assert!(result["requests"].as_u64().unwrap() < 3600);
}

#[test]
fn placements_need_a_flash_target() {
    let folder = Folder::new();
    let trace = trace_of(&folder, &rows(200, 50, true));
    let options = ["--target", "disk", "--flash", "flash", "--policy", "cache:size-mib=1"];
    let result = json(play(&folder, &trace).args(options));
    assert_eq!((result["requests"].as_u64(), result["ios_failed"].as_u64()), (Some(200), Some(0)));
    assert_eq!(result["targets"][1]["role"], "flash");
    assert!(result["targets"][1]["written_bytes"].as_u64().unwrap() > 0);
    refused(
        play(&folder, &trace).args(["--target", "new", "--policy", "cache"]),
        &["no flash device", "specify it as the flash"],
    );
}

/// With a cache, the disk ends up with the same content as with a scheduler alone.
#[test]
fn a_cache_moves_the_data_itself() {
    let folder = Folder::new();
    let mut written: Vec<_> =
        (0..40).map(|n| (n * 50, "write", n * 7919 % 512 * 4096, 8192)).collect();
    // These requests cover only parts of blocks.
    written.extend((0..40).map(|n| (2000 + n * 50, "write", n * 104_729 % 2_000_000 + 77, 5000)));
    written.extend((0..80).map(|n| (4000 + n * 50, "read", n * 7919 % 512 * 4096, 4096)));
    let trace = trace_of(&folder, &written);
    let alone = json(play(&folder, &trace).args([
        "--target",
        "alone",
        "--policy",
        "noop:merge=no:reads-max=1:writes-max=1",
    ]));
    assert_eq!(alone["failed"], 0);
    let expected = fs::read(folder.path("alone")).unwrap();
    assert!(expected.iter().filter(|byte| **byte != 0).count() > 400_000);
    for (name, policy) in [
        ("through", "cache:write=through:size-mib=1"),
        ("around", "cache:write=around:size-mib=1:disk=cfq"),
        ("shaped", "fcfs:depth=4:over=cache+write=through+size-mib=1"),
    ] {
        let flash = format!("{name}.flash");
        let result = json(
            play(&folder, &trace).args(["--target", name, "--flash", &flash, "--policy", policy]),
        );
        assert_eq!((&result["failed"], &result["ios_failed"]), (&0.into(), &0.into()), "{name}");
        if name != "around" {
            assert!(result["targets"][1]["written_bytes"].as_u64() > Some(0), "{name}");
        }
        assert!(fs::read(folder.path(name)).unwrap() == expected, "{name}: the disk differs");
    }
}

#[test]
fn an_emulated_device_fails_where_configured() {
    let folder = Folder::new();
    let trace = trace_of(&folder, &rows(300, 50, false));
    let fails = |options: &[&str]| {
        json(play(&folder, &trace).args(["--emulate", "fixed:20000"]).args(options))
    };
    let gone = fails(&["--fail", "from-s=0"]);
    assert_eq!((&gone["failed"], &gone["errors"][0]["error"]), (&300.into(), &"gone".into()));
    let some = fails(&["--fail", "one-in=10", "--policy", "noop:merge=no"]);
    assert!((10..60).contains(&some["failed"].as_u64().unwrap()), "{}", some["failed"]);
    refused(
        play(&folder, &trace).args(["--target", "x", "--fail", "one-in=10"]),
        &["--fail: has an effect only with --emulate"],
    );
    refused(
        play(&folder, &trace).args(["--emulate", "fixed:9", "--fail", "lane=3:one-in=2"]),
        &["lane 3", "expected a lane from 0 to 0"],
    );
    refused(
        play(&folder, &trace).args(["--emulate", "fixed:9", "--fail", "often"]),
        &["got 'often'", "one-in=N"],
    );
}

#[test]
fn a_volume_has_one_target_and_a_vanished_target_is_reported() {
    let folder = Folder::new();
    let trace = trace_of(&folder, &rows(30, 10, false));
    let twice = ["--map-volume", "0=a", "--map-volume", "0=b"];
    refused(play(&folder, &trace).args(twice), &["'0': got a and b, expected one target"]);
    let trace = trace_of(&folder, &rows(2, 60_000_000, false));
    let mut play = play(&folder, &trace);
    play.args(["--target", "disk", "--format", "json"]).stdout(Stdio::piped());
    let child = play.stderr(Stdio::null()).spawn().unwrap();
    while fs::remove_file(folder.path("disk")).is_err() {
        std::thread::yield_now();
    }
    let kill = format!("kill -INT {}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    // The command may have been stopped before it opened the file that it created.
    if output.status.code() == Some(0) {
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        let notes = result["notes"].as_array().unwrap();
        let told = |note: &Value| note.as_str().unwrap().contains("moved or removed");
        assert!(notes.iter().any(told), "{notes:?}");
    }
}
