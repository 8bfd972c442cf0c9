//! Tests options, help and listings on the real binary. Invalid or useless options must be
//! reported.

use std::fs;
use std::path::Path;

use crate::command::{Folder, SPC, ends, fails, forebay, json};

#[test]
fn errors_in_options_say_what_is_expected() {
    let folder = Folder::new();
    let trace = folder.file("trace.spc", SPC);
    let simulate = |options: &[&str], parts: &[&str]| {
        fails(forebay(&["simulate"]).arg(&trace).args(options), 2, parts);
    };
    let noop = ["--device", "sata250", "--policy", "noop"];
    let with = |more: [&'static str; 2]| [&noop[..], &more].concat();
    simulate(
        &["--device", "sata250", "--policy", "nope"],
        &["no policy 'nope' (did you mean none?); `forebay policies` lists all\n"],
    );
    simulate(&["--device", "sata250", "--policy", "cfq:quantun=2"], &["quantun", "quantum"]);
    simulate(&["--device", "sata250", "--policy", "cfq:quantum=0"], &["got '0'", "at least 1"]);
    simulate(&["--device", "sata250", "--policy", "noop,bid:wait-ms=-1"], &["wait-ms", "-1"]);
    simulate(
        &["--device", "sata25", "--policy", "noop"],
        &["no device 'sata25' (did you mean sata250?); `forebay devices` lists all\n"],
    );
    simulate(&["--device", "fixed:0", "--policy", "noop"], &["fixed", "expected"]);
    simulate(&["--device", "none.toml", "--policy", "noop"], &["none.toml"]);
    simulate(&["--device", "sata250"], &["--policy"]);
    simulate(&["--policy", "noop"], &["--device"]);
    simulate(&with(["--intensity", "0"]), &["--intensity", "from 1e-6 to 1e12"]);
    simulate(&with(["--intensity", "nan"]), &["--intensity", "from 1e-6 to 1e12"]);
    simulate(&with(["--replay", "sideways"]), &["sideways", "open, closed, dependent"]);
    simulate(&with(["--map", "fold"]), &["fold", "scale, wrap, clip"]);
    simulate(&with(["--stream-by", "colour"]), &["colour", "thread, process, name"]);
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
        ("rpm = 7200", "rpm = \"fast\"", "line 12"),
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
fn unwritable_outputs_are_reported() {
    let folder = Folder::new();
    let trace = folder.file("trace.spc", SPC);
    let nowhere = folder.path("nowhere");
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
    assert_eq!(fs::read_dir(folder.root()).unwrap().count(), 1, "something is left");
}

#[test]
fn grouping_by_a_missing_column_has_a_warning() {
    let folder = Folder::new();
    let trace = folder.file("trace.spc", SPC);
    let (found, said) = json(forebay(&["describe", "--stream-by", "process"]).arg(&trace));
    assert!(found["warnings"].to_string().contains("no process id"), "{found}");
    assert!(said.contains("no process id"), "{said}");
    let (found, _) = json(forebay(&["describe"]).arg(&trace));
    assert_eq!(found["warnings"].to_string(), "[]");
}

#[test]
fn options_are_not_mistaken_for_file_names() {
    let folder = Folder::new();
    let trace = folder.file("trace.spc", SPC);
    for (verb, option) in [("plan buy", "--configure"), ("describe", "--report")] {
        let mut command = forebay(&verb.split(' ').collect::<Vec<_>>());
        let command = command.arg(&trace).args([option, "--explain"]).current_dir(folder.root());
        fails(command, 2, &[option]);
        assert!(!folder.path("--explain").exists(), "{verb}");
    }
}

#[test]
fn help_names_the_options_of_each_verb() {
    let reading = ["--from", "--stream-by", "--format"];
    let replaying = ["--replay", "--intensity", "--map", "--device"];
    let all = [&reading[..], &replaying].concat();
    for (verb, options) in [
        ("advise", [&all[..], &["--report", "--flash"]].concat()),
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

/// `command::json` checks the schema version of each answer.
#[test]
fn the_json_of_each_verb_is_an_object_with_its_version() {
    let folder = Folder::new();
    let trace = folder.file("trace.spc", SPC);
    let trace = trace.to_str().unwrap();
    let long: String = (0..200).map(|n| format!("0,{},4096,R,0.{n:03}\n", n * 8)).collect();
    let long = folder.file("long.spc", long);
    let long = long.to_str().unwrap();
    let tiers = folder.file("tiers.toml", "[[tier]]\nfraction = 1\nwithin_ms = 20\n");
    let (tiers, report) = (tiers.to_str().unwrap(), folder.path("report.html"));
    let (report, model) = (report.to_str().unwrap(), folder.path("model.json"));
    let sla = ["plan", "sla", tiers, long];
    let capacity = ["plan", "capacity", long, "--within", "10ms", "--fraction", "0.9"];
    let power = ["plan", "power", long, "--device", "st1000nm0011", "--epoch", "1h"];
    let array = ["array", "score", "st1000nm0011", "--writes", "20", "--filled-mib", "1024"];
    let put = ["store", "simulate", "--total-mb", "2", "--arrangement", "enhanced"];
    for words in [
        &["describe", trace][..],
        &["simulate", "--device", "sata250", "--policy", "noop", trace],
        &["advise", trace, "-o", report],
        &["cache", trace],
        &["compare", trace, trace, "-o", report],
        &["fit", long, "-o", model.to_str().unwrap()],
        &capacity,
        &[&capacity[..], &["--device", "st1000nm0011"]].concat(),
        &[&capacity[..], &["--cost-us", "100+0.5/KiB"]].concat(),
        &["plan", "consolidate", long, long, "--within", "10ms", "--fraction", "0.9"],
        &sla,
        &power,
        &array,
        &put,
    ] {
        let (answer, _) = json(&mut forebay(words));
        assert!(answer.as_object().unwrap().len() > 1, "{words:?}");
    }
}

#[test]
fn listings_name_every_accepted_value() {
    let (devices, _) = ends(&mut forebay(&["devices"]), 0);
    for name in ["sata250", "st1000nm0011", "exos-x18", "fixed:RATE"] {
        assert!(devices.contains(name), "{devices}");
    }
    let (policies, _) = ends(&mut forebay(&["policies", "--explain"]), 0);
    for name in ["noop", "anticipatory", "mq-deadline", "none", "bfq", "bid", "reads-max"] {
        assert!(policies.contains(name), "{policies}");
    }
    for name in
        ["fcfs", "split", "wf2q", "sfq", "miser", "promised", "token-bucket", "dmclock", "delta-ms"]
    {
        assert!(policies.contains(name), "{policies}");
    }
}

/// A disk whose seeks are given as a table, so that its media rate cannot be varied.
const KNOWN: &str = r#"
kind = "hdd"
name = "known"
description = "a disk of which everything is known"
[geometry]
heads = 2
rpm = 7200
[[zone]]
first_cylinder = 0
last_cylinder = 9999
sectors_per_track = 1000
[seek]
distances_cylinders = [1, 9999]
times_ms = [1.0, 12.0]
write_settle_ms = 0.5
[switch]
head_ms = 0.5
cylinder_ms = 1.0
[command]
overhead_ms = 0.1
[power]
idle_w = 6.0
seek_w = 10.0
transfer_w = 8.0
"#;

#[test]
fn a_fit_needs_the_disk_of_the_recording_and_latencies() {
    let folder = Folder::new();
    let bare = folder.file("bare.spc", "0,1000,4096,R,0.1\n0,90000,4096,W,0.2\n");
    let rows: String =
        (0..400).map(|n| format!("{n}0000000,read,{},4096,5000000\n", n << 20)).collect();
    let measured = folder.file("m.csv", format!("at_ns,op,offset,len,latency_ns\n{rows}"));
    let advise = |trace: &Path, options: &[&str]| {
        let mut command = forebay(&["advise", "-o"]);
        command.arg(folder.path("r.html")).arg(trace).args(options);
        command
    };
    let refused = |trace: &Path, options: &[&str], said: &[&str]| {
        let (_, err) = ends(&mut advise(trace, options), 2);
        said.iter().for_each(|part| assert!(err.contains(part), "no {part:?} in: {err}"));
    };
    refused(&measured, &["--fit-device"], &["--fit-device: has an effect only with --device"]);
    let on = |device| ["--fit-device", "--device", device];
    refused(&measured, &on("d7-p5520"), &["--fit-device on d7-p5520", "without moving parts"]);
    refused(&bare, &on("sata250"), &["--fit-device", "records no latencies", "leave it out"]);
    // All tracks and seeks of this disk are known, and it has neither a queue nor a write cache.
    let known = folder.file("known.toml", KNOWN);
    refused(
        &measured,
        &on(known.to_str().unwrap()),
        &[
            "--fit-device on known: got a device without any",
            "[queue] depth",
            "[write_cache]",
            "media rate",
        ],
    );
    for change in [":queue-depth=2", ":queue-depth=1"] {
        let named = format!("{}{change}", known.display());
        let is_fitted = change.ends_with('2');
        let options = ["--fit-device", "--device", &named, "--explain"];
        let mut command = advise(&measured, &options);
        let (said, err) = ends(&mut command, if is_fitted { 0 } else { 2 });
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains("catch_margin_ms = ") == is_fitted, "{said}{err}");
    }
    let (said, _) = ends(&mut advise(&measured, &["--device", "fixed:100"]), 0);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("model's read p50 is 100 % too high and its p99 100 % too high"),
        "{said}"
    );
    let (said, _) = ends(&mut advise(&measured, &[]), 0);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("not checked: the recording's device is unknown"), "{said}");
    let (said, _) = ends(advise(&measured, &on("sata250")).arg("--explain"), 0);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("the second half of the trace, which the fit has not seen, the "),
        "{said}"
    );
    assert!(
        said.contains("after fitting to 200 requests of the first half: write cache"),
        "{said}"
    );
}

#[test]
fn options_without_effect_are_reported_or_rejected() {
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
    assert!(out.contains("the seek table ends at 100 of "), "{out}");
}
