//! The command's contract, on the real binary: what goes where, which exit status, which message.
//!
//! Bad input or usage: exit 2, one message on standard error, nothing on standard output. Input
//! with blemishes that can honestly be kept: exit 0 and a counted warning.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use serde_json::Value;
use tempfile::TempDir;

const BLKTRACE: &[u8] = include_bytes!("../../../fuzz/seeds/open/blktrace");
const PARQUET: &[u8] = include_bytes!("../../../fuzz/seeds/open/parquet");
const GZIP: &[u8] = include_bytes!("../../../fuzz/seeds/open/spc-gz");
const XZ: &[u8] = include_bytes!("../../../fuzz/seeds/open/spc-xz");
const ZSTD: &[u8] = include_bytes!("../../../fuzz/seeds/open/spc-zst");

const SPC: &str = "0,100,4096,R,0.0\n0,9000,8192,W,0.001\n1,40,512,r,0.002\n";
const MSR: &str = "128166372003061629,usr,0,Read,7014609920,24576,41286\n\
                   128166372003062629,usr,1,Write,1317441536,8192,1963\n";

const CSV_WITH_FLUSH: &str = "at_ns,op,offset,len,stream,volume,latency_ns,flags,thread,process,name\n\
     0,read,4096,4096,0,,,,,,\n1000,flush,0,0,0,,,,,,\n2000,write,8192,4096,0,,,P,,,\n\
     3000,read,512,512,0,,,,,,\n";

/// A folder for one test's files.
struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        fs::write(self.path(name), content).unwrap();
        self.path(name)
    }

    /// Every verb that reads a trace, on `trace`.
    fn verbs(&self, trace: &Path) -> [Command; 4] {
        let mut simulate = forebay(&["simulate", "--device", "sata250", "--policy", "noop"]);
        simulate.arg(trace);
        let mut describe = forebay(&["describe"]);
        describe.arg(trace);
        let mut convert = forebay(&["convert"]);
        convert.arg(trace).arg(self.path("converted.csv"));
        let mut advise = forebay(&["advise"]);
        advise.arg(trace).arg("--output").arg(self.path("report.html"));
        [describe, simulate, convert, advise]
    }

    /// Asserts that every verb refuses a file that holds `content`, and leaves nothing behind.
    fn refused(&self, name: &str, content: impl AsRef<[u8]>, parts: &[&str]) {
        let trace = self.file(name, content);
        let parts: Vec<&str> = parts.iter().copied().chain([name]).collect();
        for mut verb in self.verbs(&trace) {
            fails(&mut verb, 2, &parts);
        }
        assert!(!self.path("converted.csv").exists() && !self.path("report.html").exists());
        fs::remove_file(trace).unwrap();
        assert_eq!(fs::read_dir(self.0.path()).unwrap().count(), 0, "{name}: something is left");
    }
}

fn forebay(arguments: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("forebay"));
    command.args(arguments);
    command
}

fn shown(command: &Command) -> String {
    let words = command.get_args().map(|word| word.to_string_lossy().into_owned());
    words.collect::<Vec<_>>().join(" ")
}

/// Standard output and error of a command that has to end with `code`.
fn ends(command: &mut Command, code: i32) -> (String, String) {
    let output = command.output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{}: {err}", shown(command));
    assert!(!err.contains("panicked") && !err.contains("RUST_BACKTRACE"), "{err}");
    (out, err)
}

/// Asserts failure with one message that holds all `parts`, nothing on standard output.
fn fails(command: &mut Command, code: i32, parts: &[&str]) {
    let (out, err) = ends(command, code);
    assert_eq!(out, "", "{}", shown(command));
    // The parser of the command line adds how to get help.
    let begins = |line: &&str| line.starts_with("forebay: ") || line.starts_with("error: ");
    assert_eq!(err.lines().filter(begins).count(), 1, "{}: {err}", shown(command));
    assert!(err.starts_with("error: ") || err.lines().count() == 1, "{err}");
    for part in parts {
        assert!(err.contains(part), "{}: no {part:?} in: {err}", shown(command));
    }
}

/// The JSON that a command prints, and what it says on standard error.
fn json(command: &mut Command) -> (Value, String) {
    let (out, err) = ends(command.args(["--format", "json"]), 0);
    (serde_json::from_str(&out).unwrap(), err)
}

/// `describe` of a file that holds `content`.
fn described(content: impl AsRef<[u8]>) -> (Value, String) {
    let folder = Folder::new();
    let trace = folder.file("trace", content);
    json(forebay(&["describe"]).arg(trace))
}

/// `simulate` of SPC text with noop on the 250 GB disk.
fn simulated(text: &str, options: &[&str]) -> (Value, String) {
    let folder = Folder::new();
    let trace = folder.file("trace.spc", text);
    let mut command = forebay(&["simulate", "--device", "sata250", "--policy", "noop"]);
    let (result, err) = json(command.arg(trace).args(options));
    (result["runs"][0].clone(), err)
}

#[test]
fn what_is_no_trace_is_refused_by_every_verb() {
    let folder = Folder::new();
    for mut verb in folder.verbs(&folder.path("nowhere")) {
        fails(&mut verb, 2, &["nowhere", "No such file"]);
    }
    let noise: Vec<u8> =
        (0..9000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    folder.refused("empty", b"", &["empty file", "expected"]);
    folder.refused("noise", noise, &["got", "expected", "--from"]);
    folder.refused("prose", "Once upon a time\nthere was a disk.\n", &["Once upon", "--from"]);
    folder.refused("blank", "\n\n\n", &["expected"]);
}

#[test]
fn what_is_cut_off_is_refused_by_every_verb() {
    let folder = Folder::new();
    for (name, whole) in [("gz", GZIP), ("xz", XZ), ("zst", ZSTD), ("parquet", PARQUET)] {
        folder.refused(name, &whole[..whole.len() - 9], &[]);
        folder.refused(name, &whole[..whole.len() / 2], &[]);
    }
    folder.refused("blktrace", &BLKTRACE[..20], &[]);
    folder.refused("damaged", [&BLKTRACE[..208], b"no record"].concat(), &["expected"]);
}

#[test]
fn damage_inside_a_parquet_file_is_told_in_one_message() {
    let folder = Folder::new();
    for at in (4..PARQUET.len()).step_by(29) {
        let mut damaged = PARQUET.to_vec();
        damaged[at] ^= 0xff;
        let trace = folder.file("damaged.parquet", damaged);
        let mut describe = forebay(&["describe"]);
        let output = describe.arg(&trace).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!err.contains("panicked"), "byte {at}: {err}");
        match output.status.code() {
            Some(0) => {}
            Some(2) => fails(&mut describe, 2, &["damaged.parquet"]),
            other => panic!("byte {at}: exit {other:?}: {err}"),
        }
    }
}

#[test]
fn a_blktrace_cut_in_its_last_record_keeps_the_others_and_says_so() {
    let (whole, err) = described(BLKTRACE);
    assert!(!err.contains("cut short"), "{err}");
    let (cut, err) = described(&BLKTRACE[..BLKTRACE.len() - 3]);
    assert!(err.contains("cut short"), "{err}");
    assert_eq!(cut["reads"], whole["reads"]);
}

#[test]
fn the_format_can_be_named_but_not_wrongly() {
    let folder = Folder::new();
    let trace = folder.file("trace.txt", SPC);
    for (from, part) in
        [("parquet", "Parquet"), ("csv", "at_ns"), ("blkparse", "line 1"), ("pcap", "pcap")]
    {
        for mut verb in folder.verbs(&trace) {
            fails(verb.args(["--from", from]), 2, &[part, "expected"]);
        }
    }
    for mut verb in folder.verbs(&trace) {
        ends(verb.args(["--from", "spc"]), 0);
    }
}

#[test]
fn columns_can_be_declared() {
    let folder = Folder::new();
    let rows = "1000;write;8;16;usr\n3000;R;0;8;src\n";
    let trace = folder.file("trace.txt", rows);
    let spec = "at:us,op,offset:sectors,len:sectors,volume";
    for mut verb in folder.verbs(&trace) {
        ends(verb.args(["--columns", spec]), 0);
        fails(verb.args(["--from", "spc"]), 2, &["--columns", "--from"]);
    }
    let described = |spec: &str| {
        let mut describe = forebay(&["describe", "--columns", spec]);
        describe.arg(&trace);
        describe
    };
    let (table, _) = ends(&mut described(spec), 0);
    assert!(table.contains("columns"), "{table}");
    fails(&mut described("at:hours,op,offset,len"), 2, &["\"hours\"", "at:us"]);
    fails(&mut described("at:us,op,offset,size"), 2, &["\"size\"", "latency"]);
    fails(&mut described("at:us,op:0/1,offset,len"), 2, &["line 1", "write", "0 or 1"]);
}

#[test]
fn units_that_cannot_be_right_are_refused_and_may_be_insisted_on() {
    let folder = Folder::new();
    // Two thousand requests in 2 s: as milliseconds 23 days without a burst.
    let mut state = 1u64;
    let rows: String = (0..2000u64)
        .map(|n| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            format!("{} 0 {} 8 1\n", n * 1_000_000 + (state >> 33) % 900_000, state >> 40)
        })
        .collect();
    let trace = folder.file("trace.txt", &rows);
    ends(forebay(&["describe"]).arg(&trace), 0);
    let parts = ["19 of 20 gaps", "times in ms", "likely in ns", "--columns at:ns,"];
    for mut verb in folder.verbs(&trace) {
        fails(verb.args(["--from", "disksim-ascii"]), 2, &parts);
    }
    let spec = "at:ms,volume,offset:sectors,len:sectors,op:disksim";
    let (_, err) = ends(forebay(&["describe", "--columns", spec]).arg(&trace), 0);
    assert!(err.contains("likely in ns"), "{err}");
}

#[test]
fn mistakes_in_options_say_what_is_right() {
    let folder = Folder::new();
    let trace = folder.file("trace.spc", SPC);
    let simulate = |options: &[&str], parts: &[&str]| {
        fails(forebay(&["simulate"]).arg(&trace).args(options), 2, parts);
    };
    let noop = ["--device", "sata250", "--policy", "noop"];
    let with = |more: [&'static str; 2]| [&noop[..], &more].concat();
    simulate(
        &["--device", "sata250", "--policy", "nope"],
        &["nope", "noop, deadline, anticipatory, cfq, none, mq-deadline, bfq, bid"],
    );
    simulate(&["--device", "sata250", "--policy", "cfq:quantun=2"], &["quantun", "quantum"]);
    simulate(&["--device", "sata250", "--policy", "cfq:quantum=0"], &["got '0'", "at least 1"]);
    simulate(&["--device", "sata250", "--policy", "noop,bid:wait-ms=-1"], &["wait-ms", "-1"]);
    simulate(&["--device", "sata25", "--policy", "noop"], &["sata25", "did you mean sata250"]);
    simulate(&["--device", "fixed:0", "--policy", "noop"], &["fixed", "expected"]);
    simulate(&["--device", "none.toml", "--policy", "noop"], &["none.toml"]);
    simulate(&["--device", "sata250"], &["--policy"]);
    simulate(&["--policy", "noop"], &["--device"]);
    simulate(&with(["--intensity", "0"]), &["--intensity", "from 1e-6 to 1e12"]);
    simulate(&with(["--intensity", "nan"]), &["--intensity", "from 1e-6 to 1e12"]);
    simulate(&with(["--replay", "sideways"]), &["sideways", "open, closed or dependent"]);
    simulate(&with(["--map", "fold"]), &["fold", "scale, wrap or clip"]);
    simulate(&with(["--stream-by", "colour"]), &["colour", "thread, process or name"]);
    simulate(&with(["--format", "xml"]), &["xml", "json"]);
    let advise = &mut forebay(&["advise", "--device", "st1000nm0012"]);
    fails(advise.arg(&trace), 2, &["st1000nm0012", "st1000nm0011"]);
    fails(&mut forebay(&["foresee"]), 2, &["foresee"]);
}

#[test]
fn a_device_file_with_a_mistake_is_refused_with_its_line() {
    let folder = Folder::new();
    let trace = folder.file("trace.spc", SPC);
    let good = include_str!("../../../devices/sata250.toml");
    for (old, new, part) in [
        ("heads = 4", "heads = 0", "heads"),
        ("rpm = 7200", "rpm = \"fast\"", "line 11"),
        ("rpm = 7200", "rpn = 7200", "rpn"),
        ("[seek]", "[seek", "line"),
    ] {
        assert!(good.contains(old), "{old}");
        let device = folder.file("disk.toml", good.replacen(old, new, 1));
        let mut command = forebay(&["simulate", "--policy", "noop", "--device"]);
        fails(command.arg(device).arg(&trace), 2, &["disk.toml, line", part]);
    }
}

#[test]
fn outputs_that_cannot_be_written_are_told() {
    let folder = Folder::new();
    let trace = folder.file("trace.spc", SPC);
    let nowhere = folder.path("nowhere");
    let advise = &mut forebay(&["advise", "--output"]);
    fails(advise.arg(nowhere.join("report.html")).arg(&trace), 1, &["report.html"]);
    for (output, part) in [
        (nowhere.join("out.csv"), "out.csv"),
        (folder.path("out.xyz"), "--to"),
        (trace.clone(), "--to"),
    ] {
        let result = forebay(&["convert"]).arg(&trace).arg(&output).output().unwrap();
        let err = String::from_utf8(result.stderr).unwrap();
        assert!(matches!(result.status.code(), Some(1 | 2)), "{err}");
        assert!(
            result.stdout.is_empty() && err.lines().count() == 1 && err.contains(part),
            "{err}"
        );
    }
    let mut onto_itself = forebay(&["convert", "--to", "csv"]);
    fails(onto_itself.arg(&trace).arg(&trace), 2, &["trace.spc", "another file"]);
    assert_eq!(fs::read_to_string(&trace).unwrap(), SPC);
    assert_eq!(fs::read_dir(folder.0.path()).unwrap().count(), 1, "something is left");
}

#[test]
fn mixed_line_ends_and_blank_lines_are_read() {
    for text in [SPC, MSR] {
        let mixed = format!("\r\n{}\n\n{}", text.replace('\n', "\r\n"), text.trim_end());
        let (plain, _) = described(text);
        let (found, err) = described(mixed);
        let requests = |value: &Value| value["requests"].as_u64().unwrap();
        assert_eq!(requests(&found), 2 * requests(&plain));
        assert_eq!((found["rows_skipped"].as_u64(), err.as_str()), (Some(0), ""));
    }
}

#[test]
fn times_running_backwards_are_sorted_or_counted() {
    let (sorted, err) = described("0,8,512,R,2.0\n0,16,512,R,1.0\n0,24,512,R,3.5\n");
    assert_eq!((sorted["duration_s"].as_f64(), err.as_str()), (Some(2.5), ""));
    let rows = |n: u64| format!("0,{},512,R,{}.0\n", n * 8, n);
    let late: String = (10..75_010).map(rows).chain([rows(3), rows(4)]).collect();
    let (found, err) = described(late);
    assert_eq!(found["requests"], 75_002);
    assert!(err.contains('2') && err.lines().count() == 1, "{err}");
}

#[test]
fn lengths_of_zero_are_counted_and_absurd_ones_refused() {
    let (found, err) = described(format!("{SPC}0,5,0,R,0.003\n0,6,0,W,0.004\n"));
    assert_eq!((&found["requests"], &found["rows_skipped"]), (&3.into(), &2.into()));
    assert!(err.contains("2 rows skipped"), "{err}");
    let folder = Folder::new();
    folder.refused("long", format!("{SPC}0,5,9999999999,R,0.1\n"), &["line 4", "1 GiB"]);
    folder.refused("far", format!("{SPC}0,18446744073709551615,512,R,1\n"), &["line 4", "2^63"]);
    folder.refused("huge", format!("{SPC}0,99999999999999999999999,512,R,1\n"), &["line 4"]);
    folder.refused("minus", format!("{SPC}0,5,512,R,-0.1\n"), &["line 4", "-0.1"]);
}

#[test]
fn a_trace_of_nothing_but_skipped_rows_is_refused_by_every_verb() {
    let folder = Folder::new();
    let trace = folder.file("trace.spc", "0,5,0,R,0.0\n");
    for mut verb in folder.verbs(&trace) {
        fails(&mut verb, 2, &["trace.spc", "no requests", "1 rows skipped"]);
    }
}

#[test]
fn requests_beyond_the_device_are_clipped_and_counted_or_moved() {
    let text = format!("{SPC}0,1000000000,4096,R,0.003\n");
    let (clipped, _) = simulated(&text, &["--map", "clip"]);
    assert_eq!((&clipped["requests_clipped"], &clipped["requests"]), (&2.into(), &2.into()));
    for map in ["scale", "wrap"] {
        let (kept, said) = simulated(&text, &["--map", map]);
        assert_eq!((&kept["requests_clipped"], &kept["requests"]), (&0.into(), &4.into()), "{map}");
        let moved = kept["requests_moved"].as_u64().unwrap();
        assert!(moved > 0 && moved <= 4 && kept["requests_cut"] == 0, "{map}: {moved}");
        assert!(said.contains(&format!("{moved} requests were moved onto it")), "{map}: {said}");
    }
}

#[test]
fn grouping_by_what_a_trace_does_not_know_is_warned_of() {
    let folder = Folder::new();
    let trace = folder.file("trace.spc", SPC);
    let (found, said) = json(forebay(&["describe", "--stream-by", "process"]).arg(&trace));
    assert!(found["warnings"].to_string().contains("no process id"), "{found}");
    assert!(said.contains("no process id"), "{said}");
    let (found, _) = json(forebay(&["describe"]).arg(&trace));
    assert_eq!(found["warnings"].to_string(), "[]");
}

#[test]
fn flushes_count_as_requests_of_a_run_and_apart() {
    let folder = Folder::new();
    let trace = folder.file("trace.csv", CSV_WITH_FLUSH);
    let mut command = forebay(&["simulate", "--device", "sata250", "--policy", "noop"]);
    let (result, _) = json(command.arg(&trace));
    let counts = ["requests", "reads", "writes", "flushes", "trims"]
        .map(|key| result["runs"][0][key].as_u64().unwrap());
    assert_eq!(counts, [4, 2, 1, 1, 0]);
    let (described, _) = json(forebay(&["describe"]).arg(&trace));
    assert_eq!((&described["records"], &described["requests"]), (&4.into(), &3.into()));
}

#[test]
fn a_fit_names_what_is_missing_or_wrong_and_writes_nothing() {
    let folder = Folder::new();
    let fit = || {
        let mut fit = forebay(&["device", "fit", "--capacity", "1000000000000"]);
        fit.arg(folder.0.path()).arg("-o").arg(folder.path("mine.toml"));
        fit
    };
    fails(&mut fit(), 2, &["zones*_lat.*.log", "got 0 runs", "measure-a-drive.md"]);
    folder.file("zones_lat.1.log", "5, 2000000, 0, 131072, 0, 0\n6, 2000000, 0, 131072\n");
    fails(&mut fit(), 2, &["zones_lat.1.log, line 2", "got '6, 2", "log_offset=1"]);
    folder.file("zones_lat.1.log", "5, 2000000, 1, 131072, 0, 0\n");
    fails(&mut fit(), 2, &["got 0 runs"]);
    assert!(!folder.path("mine.toml").exists());
    let nowhere = folder.path("nowhere");
    let mut missing = forebay(&["device", "fit", "--capacity", "1", "-o", "x.toml"]);
    fails(missing.arg(nowhere), 2, &["nowhere", "No such file"]);
}

#[test]
fn json_has_the_keys_that_are_promised() {
    let (described, _) = described(SPC);
    for key in [
        "requests",
        "reads",
        "writes",
        "read_bytes",
        "write_bytes",
        "duration_s",
        "streams",
        "volumes",
        "footprint_bytes",
        "sequential_share",
        "rows_skipped",
    ] {
        assert!(described.get(key).is_some(), "describe: no {key}");
    }
    assert_eq!((&described["reads"], &described["write_bytes"]), (&2.into(), &8192.into()));
    let (run, _) = simulated(SPC, &["--replay", "open"]);
    let latencies = ["read", "write"]
        .map(|op| ["mean", "p50", "p99", "p999"].map(|figure| format!("{op}_{figure}_ms")));
    let others = [
        "policy",
        "device",
        "replay",
        "requests",
        "makespan_s",
        "busy_s",
        "transfer_bound_s",
        "head_movements",
        "seek_sweeps",
        "avg_seek_tracks",
        "seek_stddev_tracks",
        "longest_wait_ms",
        "energy_j",
        "streams",
        "simulated_requests_per_s",
    ];
    for key in others.iter().copied().chain(latencies.iter().flatten().map(String::as_str)) {
        assert!(run.get(key).is_some_and(|value| !value.is_null()), "simulate: no {key}");
    }
    assert_eq!((&run["policy"], &run["replay"]), (&"noop".into(), &"open".into()));
    for key in ["busy_share", "p99_ms"] {
        assert!(run["streams"][0].get(key).is_some(), "simulate: streams without {key}");
    }
}

#[test]
fn one_run_a_policy_and_a_report_beside_the_answer() {
    let folder = Folder::new();
    let trace = folder.file("trace.msr", MSR);
    let mut simulate = forebay(&["simulate", "--device", "fixed:200"]);
    let (results, _) = json(simulate.arg(&trace).args(["--policy", "bid,cfq:quantum=2,noop"]));
    let policies: Vec<_> =
        results["runs"].as_array().unwrap().iter().map(|r| &r["policy"]).collect();
    assert_eq!(policies, ["bid", "cfq:quantum=2", "noop"]);
    let [.., mut advise] = folder.verbs(&trace);
    let (advice, _) = json(&mut advise);
    assert_eq!((&advice["verdict"], &advice["recommended"]), (&"too_short".into(), &Value::Null));
    assert!(advice["ranking"].is_array());
    assert!(folder.path("report.html").exists());
}

/// SPC text of one reader without a name over scattered fragments, again and again.
fn fragments(scans: u64) -> String {
    let row = |n: u64| {
        let sector = (n % 150).wrapping_mul(0x9E37_79B9) % 40_000_000 * 8;
        format!("0,{sector},32768,R,{:.3}\n", n as f64 * 0.02)
    };
    (0..scans * 150).map(row).collect()
}

#[test]
fn defragmentation_is_asked_for_and_told() {
    let (run, _) = simulated(SPC, &[]);
    assert!(run.get("rearranged_bytes").is_none());
    let folder = Folder::new();
    let trace = folder.file("trace.spc", fragments(30));
    let simulate = |options: &[&str]| {
        let mut command = forebay(&["simulate", "--device", "sata250", "--policy", "noop,bid"]);
        command.arg(&trace).args(options);
        command
    };
    let (plain, _) = json(&mut simulate(&[]));
    assert!(plain.get("defragmentation").is_none());
    let (results, _) = json(&mut simulate(&["--defragment"]));
    assert_eq!(results["runs"][0]["busy_s"], plain["runs"][0]["busy_s"], "runs stay as they are");
    let studies = results["defragmentation"].as_array().unwrap();
    assert_eq!(studies.len(), 2);
    for study in studies {
        for effect in ["held_out", "in_sample"] {
            assert!(study[effect]["gain_share"].as_f64().unwrap() > 0.2, "{effect}: {study}");
            let share = |when: &str| study[effect][format!("sequential_{when}_share")].as_f64();
            assert!(share("after").unwrap() > share("before").unwrap() + 0.2, "{effect}: {study}");
        }
        assert_eq!(study["moved_bytes"].as_u64(), Some(150 * 32_768));
        assert!(study["cost_s"].as_f64().unwrap() > 0.0 && study["pay_back_s"].is_number());
    }
    let (table, _) = ends(&mut simulate(&["--defragment"]), 0);
    assert!(table.contains("not learnt from") && table.contains("In-sample"), "{table}");
    fails(&mut simulate(&["--defragment", "--disks", "2"]), 2, &["2 disks", "--disks 1"]);
}

#[test]
fn advice_on_a_trace_without_names_shows_what_is_free_apart_from_what_costs() {
    let folder = Folder::new();
    let trace = folder.file("trace.spc", fragments(30));
    let [.., mut advise] = folder.verbs(&trace);
    let (advice, _) = json(&mut advise);
    let remedies = advice["remedies"].as_array().unwrap();
    let kinds: Vec<_> = remedies.iter().map(|remedy| remedy["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["scheduling", "defragmentation", "offloading", "caching"]);
    assert!(remedies[..2].iter().all(|remedy| remedy["flash_bytes"] == 0));
    assert!(remedies[3]["flash_bytes"].as_u64().unwrap() > 0);
    assert!(remedies.iter().all(|remedy| remedy["reason"].is_string()));
    let said = advice["findings"].to_string();
    assert!(said.contains("does not say who submitted") && said.contains("only reads"), "{said}");
    let [.., mut advise] = folder.verbs(&trace);
    let (text, _) = ends(&mut advise, 0);
    assert!(text.contains("| > | defragmentation: noop"), "{text}");
    let report = fs::read_to_string(folder.path("report.html")).unwrap();
    assert!(report.contains("<h2>Remedies</h2>"));
    let short = folder.file("short.spc", SPC);
    let [.., mut advise] = folder.verbs(&short);
    let (advice, _) = json(&mut advise);
    assert_eq!(advice["verdict"], "too_short");
    let advise = &mut forebay(&["advise", "--flash", "d7-p552"]);
    fails(advise.arg(&trace), 2, &["d7-p552", "d7-p5520"]);
}

#[test]
fn help_names_the_options_of_each_verb() {
    let reading = ["--from", "--stream-by", "--format"];
    let replaying = ["--replay", "--intensity", "--map", "--device"];
    let all = [&reading[..], &replaying].concat();
    for (verb, options) in [
        ("advise", [&all[..], &["--output", "--flash"]].concat()),
        ("describe", reading.to_vec()),
        ("simulate", [&all[..], &["--policy", "--defragment"]].concat()),
        ("convert", vec!["--from", "--to"]),
        ("devices", vec!["--help"]),
        ("policies", vec!["--help"]),
    ] {
        let (help, err) = ends(&mut forebay(&[verb, "--help"]), 0);
        assert_eq!(err, "");
        for option in options {
            assert!(help.contains(option), "{verb} --help: no {option}");
        }
        assert!(ends(&mut forebay(&["--help"]), 0).0.contains(verb), "--help: no {verb}");
    }
}

#[test]
fn listings_name_everything_that_can_be_asked_for() {
    let (devices, _) = ends(&mut forebay(&["devices"]), 0);
    for name in ["sata250", "st1000nm0011", "exos-x18", "fixed:RATE"] {
        assert!(devices.contains(name), "{devices}");
    }
    let (policies, _) = ends(&mut forebay(&["policies"]), 0);
    for name in ["noop", "anticipatory", "mq-deadline", "none", "bfq", "bid", "reads-max"] {
        assert!(policies.contains(name), "{policies}");
    }
    for name in ["fcfs", "split", "wf2q", "sfq", "miser", "token-bucket", "dmclock", "delta-ms"] {
        assert!(policies.contains(name), "{policies}");
    }
}

#[test]
fn shapers_answer_by_class() {
    let folder = Folder::new();
    let trace = folder.file("t.csv", SPC);
    let simulate = |policies: &str, format: &str| {
        let mut simulate = forebay(&["simulate", "--device", "fixed:200", "--format", format]);
        simulate.args(["--policy", policies]).arg(&trace);
        simulate
    };
    let (out, _) = ends(&mut simulate("noop,miser:cmin=100:delta-ms=15", "json"), 0);
    let runs: Value = serde_json::from_str(&out).unwrap();
    assert!(runs["runs"][0].get("classes").is_none(), "a scheduler has none");
    let classes = runs["runs"][1]["classes"].as_array().unwrap();
    let said: Vec<_> = classes
        .iter()
        .map(|c| (&c["class"], c["requests"].as_u64(), c["within_bound"].as_u64()))
        .collect();
    // One place: the first comes at once, the others while it is served for 5 ms.
    let all = [("all", 3, 3), ("q1", 1, 1), ("q2", 2, 2)];
    for ((class, requests, within), expected) in said.iter().zip(all) {
        assert_eq!((class.as_str(), *requests), (Some(expected.0), Some(expected.1)), "{out}");
        assert_eq!(*within, Some(expected.2), "{out}");
    }
    for key in ["bound_ms", "within_bound_share", "mean_ms", "p50_ms", "p99_ms", "longest_ms"] {
        assert!(classes[1].get(key).is_some(), "{key}");
    }
    let (table, _) = ends(&mut simulate("split:cmin=100:delta-ms=15", "table"), 0);
    assert!(table.contains("within %") && table.contains("q2"), "{table}");
    let (_, message) = ends(&mut simulate("miser", "table"), 2);
    assert!(message.contains("cmin: not given") && message.lines().count() == 1, "{message}");
}

#[test]
fn a_disksim_drive_is_imported_and_validated() {
    let folder = Folder::new();
    let text = include_str!("../../../fuzz/seeds/disksim/beside");
    let specs = folder.file("x.diskspecs", text);
    folder.file("m.model", text);
    let drive = folder.path("x.toml");
    let mut import = Command::cargo_bin("forebay").unwrap();
    let said =
        import.args(["device", "import"]).arg(&specs).arg("-o").arg(&drive).assert().success();
    let notes = String::from_utf8_lossy(&said.get_output().stderr).into_owned();
    assert!(notes.contains("Oddity = 7 is not modelled"), "{notes}");
    let trace = folder.file("x.trace", "R Hit 10 4 5000.0 2000.0\nW Hit 14 4 900.0 20000.0\n");
    let mut validate = Command::cargo_bin("forebay").unwrap();
    validate.args(["device", "validate"]).arg(&drive).arg(&trace).args(["--format", "json"]);
    let out = validate.assert().success().get_output().stdout.clone();
    let figures: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!((&figures["requests"], &figures["phases"]), (&2.into(), &20.into()));
    assert!(figures["rms_ms"].as_f64().unwrap() > 0.0);
    let bad = folder.file("bad.trace", "R Hit 10 4\n");
    let mut fails = Command::cargo_bin("forebay").unwrap();
    let said = fails.args(["device", "validate"]).arg(&drive).arg(&bad).assert().code(2);
    let message = String::from_utf8_lossy(&said.get_output().stderr).into_owned();
    assert!(message.contains("bad.trace, line 1") && message.lines().count() == 1, "{message}");
}

#[test]
fn placements_name_each_device_and_need_flash() {
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/terasort.parquet");
    let mut simulate = forebay(&["simulate", "--device", "sata250", "--flash", "samsung-830"]);
    let (results, _) = json(simulate.arg(&trace).args(["--policy", "noop,bid-hybrid"]));
    let devices = |run: usize| results["runs"][run]["devices"].as_array().unwrap().clone();
    assert_eq!((devices(0).len(), devices(1).len()), (1, 2));
    assert_eq!(devices(1)[1]["role"], "flash");
    let run = &results["runs"][1];
    let busy: f64 = devices(1).iter().map(|device| device["busy_s"].as_f64().unwrap()).sum();
    assert!((run["busy_s"].as_f64().unwrap() - busy).abs() < 1e-6, "the sum of all devices");
    assert!(run["write_amplification"].as_f64().unwrap() >= 1.0 && run["erases"].is_u64());
    assert!(run["placement"]["offloaded_bytes"].as_f64().unwrap() > 0.0);
    let mut without = forebay(&["simulate", "--device", "sata250", "--policy", "bid-hybrid"]);
    fails(without.arg(&trace), 2, &["bid-hybrid", "--flash"]);
    let mut small = forebay(&["simulate", "--device", "sata250", "--flash", "samsung-830"]);
    let spec = ["--policy", "cache:size-mib=999999999"];
    fails(small.arg(&trace).args(spec), 2, &["size-mib", "of the flash device"]);
}

#[test]
fn the_miss_ratio_curve_ends_at_first_uses() {
    let folder = Folder::new();
    let trace = folder.file("trace.msr", MSR);
    let mut cache = forebay(&["cache", "--block-kib", "64", "--sizes-mib", "0.0625"]);
    let (curve, _) = json(cache.arg(&trace));
    let points = curve["points"].as_array().unwrap();
    let whole = points.iter().find(|point| point["size_blocks"] == curve["distinct_blocks"]);
    let largest = points.last().unwrap();
    assert_eq!(whole.unwrap()["lru_miss_ratio"], largest["lru_miss_ratio"]);
    assert_eq!(largest["size_blocks"], curve["distinct_blocks"]);
    fails(forebay(&["cache", "--block-kib", "0"]).arg(&trace), 2, &["block size: got 0"]);
}

#[test]
fn options_that_would_do_nothing_are_told_or_refused() {
    let folder = Folder::new();
    let trace = folder.file("trace.spc", "0,1000,4096,R,0.1\n0,90000,4096,W,0.2\n");
    let simulate = |options: &[&str]| {
        let mut command = forebay(&["simulate"]);
        command.arg(&trace).args(options);
        command
    };
    let disk = ["--device", "sata250", "--flash", "sata250", "--policy", "cache"];
    fails(&mut simulate(&disk), 2, &["--flash sata250", "mechanical disk", "solid-state drive"]);
    let mut advise = forebay(&["advise", "--flash", "sata250", "-o"]);
    fails(advise.arg(folder.path("r.html")).arg(&trace), 2, &["mechanical disk"]);
    let promise = ["--device", "fixed:500", "--policy", "miser:cmin=900"];
    fails(&mut simulate(&promise), 2, &["cmin: got 900", "at most the 500"]);
    let flash = ["--device", "sata250", "--flash", "samsung-830", "--policy", "noop,cfq"];
    let (_, err) = json(&mut simulate(&flash));
    assert!(err.contains("samsung-830 stays idle: none of the policies uses flash"), "{err}");
    assert!(err.contains("Models, not measurements:"), "{err}");
    let (_, err) =
        json(&mut simulate(&["--device", "sata250", "--disks", "4", "--policy", "noop"]));
    assert!(err.contains("3 of the 4 disks stay idle") && err.contains("has 1 volume"), "{err}");
}

#[test]
fn a_cache_counts_an_arc_list_in_its_own_blocks() {
    let folder = Folder::new();
    let trace = folder.file("trace.lis", "0 8 0 0\n4 8 0 1\n0 8 0 2\n");
    let (curve, _) = json(forebay(&["cache", "--sizes-blocks", "12"]).arg(&trace));
    assert_eq!((&curve["accesses"], &curve["distinct_blocks"]), (&24.into(), &12.into()));
    assert_eq!(curve["is_own_block"], true);
    let points = curve["points"].as_array().unwrap();
    assert!(points.iter().any(|point| point["s3fifo_miss_ratio"] == 0.5), "{curve}");
    for wrong in ["0.5", "-1", "1.25"] {
        let mut command = forebay(&["cache", "--block-kib", wrong]);
        fails(command.arg(&trace), 2, &[wrong, "whole KiB from 1 to 65536", "ARC list"]);
    }
}

#[test]
fn a_device_is_described_with_its_notes_and_guesses() {
    let (out, _) = ends(&mut forebay(&["devices", "d7-p5520"]), 0);
    assert!(out.contains("assumed: page_bytes") && out.contains("derived: "), "{out}");
    let folder = Folder::new();
    let bundled = concat!(env!("CARGO_MANIFEST_DIR"), "/../../devices/sata250.toml");
    let text = fs::read_to_string(bundled).unwrap();
    let (before, after) = (text.find("[seek]").unwrap(), text.find("[switch]").unwrap());
    let seek =
        "[seek]\ndistances_cylinders = [1, 100]\ntimes_ms = [1.0, 2.0]\nwrite_settle_ms = 1.0\n";
    let file = folder.file("short.toml", text[..before].to_string() + seek + &text[after..]);
    let (out, _) = ends(forebay(&["devices"]).arg(&file), 0);
    assert!(out.contains("note: the seek table ends at 100 of "), "{out}");
}
