//! Tests the answers of `simulate`, `advise` and `cache` on the real binary.

use std::fs;

use serde_json::Value;

use crate::command::{
    Folder, MSR, SPC, Verbs, described, ends, fails, forebay, json, sample, simulated,
    start_of_sample,
};

const CSV_WITH_FLUSH: &str = "at_ns,op,offset,len,stream,volume,latency_ns,flags,thread,process,name\n\
     0,read,4096,4096,0,,,,,,\n1000,flush,0,0,0,,,,,,\n2000,write,8192,4096,0,,,P,,,\n\
     3000,read,512,512,0,,,,,,\n";

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
        let what = if moved == 1 { "request was" } else { "requests were" };
        assert!(said.contains(&format!("{moved} {what} moved onto it")), "{map}: {said}");
        let gaps = said.contains("of long gaps without requests were left out");
        assert_eq!(gaps, map == "scale", "{map}: {said}");
    }
}

#[test]
fn flushes_count_as_requests_and_separately() {
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
fn json_has_the_documented_keys() {
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
fn each_policy_runs_once_and_the_report_is_written_beside_the_answer() {
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

#[test]
fn runs_are_shown_beside_the_order_bound() {
    let folder = Folder::new();
    let trace = folder.file("trace.spc", SPC);
    let on = |device: &str, policies: &str| {
        let mut simulate = forebay(&["simulate", "--device", device, "--policy", policies]);
        simulate.arg("--least-time").arg(&trace);
        simulate
    };
    let (results, _) = json(&mut on("sata250:plain", "sptf,noop"));
    let least_s = results["least_time"]["busy_s"].as_f64().unwrap();
    for run in results["runs"].as_array().unwrap() {
        assert!(least_s > 0.0 && run["busy_s"].as_f64().unwrap() >= least_s, "{run}");
    }
    let shown = on("sata250:plain", "sptf,noop").output().unwrap().stdout;
    let shown = String::from_utf8(shown).unwrap();
    assert!(
        shown.contains("No order of these requests has a busy time") && shown.contains("sptf"),
        "{shown}"
    );
    for device in ["fixed:200", "sata250"] {
        assert_eq!(json(&mut on(device, "noop")).0["least_time"], Value::Null);
    }
    fails(&mut on("sata250", "sptf"), 2, &["'sptf'", "positioning times", "NAME:plain"]);
    fails(&mut on("fixed:200", "sptf"), 2, &["'sptf'", "positioning times"]);
}

#[test]
fn advice_fits_100_columns() {
    let folder = Folder::new();
    let trace = start_of_sample(&folder, "mine.csv", 400);
    // Test the recorded saturation, and an intensity at which latencies have more digits.
    for intensity in ["1", "4", "10"] {
        let mut advise =
            forebay(&["advise", "--explain", "--intensity", intensity, "-o", "page.html"]);
        let shown = advise.arg(&trace).current_dir(folder.path(".")).output().unwrap().stdout;
        let shown = String::from_utf8(shown).unwrap();
        let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        let is_compared = words.contains("On arm and platters alone");
        assert!(is_compared || intensity != "1", "{shown}");
        // Lines that users copy into a shell or a file are not wrapped.
        let copied = |line: &&str| {
            let line = line.trim_start();
            !line.starts_with("echo ") && !line.starts_with("ACTION==")
        };
        for line in shown.lines().filter(copied) {
            assert!(line.chars().count() <= 100, "{}: {line}", line.chars().count());
        }
    }
}

/// Returns SPC text of one unnamed reader that reads scattered fragments repeatedly in the same
/// order.
fn fragments(scans: u64) -> String {
    let row = |n: u64| {
        let sector = (n % 150).wrapping_mul(0x9E37_79B9) % 40_000_000 * 8;
        format!("0,{sector},32768,R,{:.3}\n", n as f64 * 0.02)
    };
    (0..scans * 150).map(row).collect()
}

#[test]
fn defragmentation_is_tried_and_reported_on_request() {
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
fn advice_on_a_trace_without_names_separates_free_from_paid_remedies() {
    let folder = Folder::new();
    let trace = folder.file("trace.spc", fragments(30));
    let [.., mut advise] = folder.verbs(&trace);
    let (advice, _) = json(&mut advise);
    let remedies = advice["remedies"].as_array().unwrap();
    let kinds: Vec<_> = remedies.iter().map(|remedy| remedy["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["scheduling", "queue_sizes", "defragmentation", "offloading", "caching"]);
    assert!(remedies[..3].iter().all(|remedy| remedy["flash_bytes"] == 0));
    assert!(remedies[4]["flash_bytes"].as_u64().unwrap() > 0);
    assert!(remedies.iter().all(|remedy| remedy["reason"].is_string()));
    let said = advice["findings"].to_string();
    assert!(
        said.contains("does not record which process submitted") && said.contains("only reads"),
        "{said}"
    );
    let [.., mut advise] = folder.verbs(&trace);
    let (text, _) = ends(&mut advise, 0);
    assert!(text.starts_with("Defragment: moving ") && text.contains(" flash "), "{text}");
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
    // The queue has one place. The first request takes it, and the others arrive during its service
    // of 5 ms.
    let all = [("all", 3, 3), ("q1", 1, 1), ("q2", 2, 2)];
    for ((class, requests, within), expected) in said.iter().zip(all) {
        assert_eq!((class.as_str(), *requests), (Some(expected.0), Some(expected.1)), "{out}");
        assert_eq!(*within, Some(expected.2), "{out}");
    }
    for key in ["bound_ms", "within_bound_share", "mean_ms", "p50_ms", "p99_ms", "longest_ms"] {
        assert!(classes[1].get(key).is_some(), "{key}");
    }
    let (table, _) = ends(&mut simulate("split:cmin=100:delta-ms=15", "table"), 0);
    assert!(table.contains("  within it  ") && table.contains("q2"), "{table}");
    let (_, message) = ends(&mut simulate("miser", "table"), 2);
    assert!(message.contains("cmin: not given") && message.lines().count() == 1, "{message}");
}

#[test]
fn placements_name_each_device_and_need_flash() {
    let trace = sample();
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
    fails(
        without.arg(&trace),
        2,
        &["bid-hybrid", "no flash device, expected one in addition to the disk"],
    );
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
    fails(forebay(&["cache", "--block-kib", "0"]).arg(&trace), 2, &["--block-kib: got '0'"]);
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
        fails(command.arg(&trace), 2, &["--block-kib", wrong, "whole number"]);
    }
}

/// Policies and results report failed I/Os. If a cache's flash fails, its disk provides the data.
#[test]
fn failures_reach_the_client_if_no_other_copy_exists() {
    let folder = Folder::new();
    let rows = (0..400).map(|n| format!("0,{},4096,R,{}\n", n % 40 * 8, n as f64 / 100.0));
    let trace = folder.file("trace.spc", rows.collect::<String>());
    let runs = |options: &[&str]| {
        let mut command = forebay(&["simulate", "--device", "sata250", "--flash", "samsung-830"]);
        json(command.args(["--policy", "noop,cache:write=around"]).args(options).arg(&trace)).0
    };
    let figures = |options: &[&str], key: &str| {
        let result = runs(options);
        [0, 1].map(|run| result["runs"][run][key].as_u64().unwrap())
    };
    assert_eq!(figures(&[], "failed"), [0, 0]);
    // The flash fails from the beginning, but the disk holds all its data.
    let gone = ["--fail", "lane=1:from-s=0"];
    assert_eq!(figures(&gone, "failed"), [0, 0]);
    assert!(figures(&gone, "ios_failed")[1] > 0);
    assert_eq!(figures(&["--fail", "lane=0:from-s=0"], "failed"), [400, 400]);
    fails(
        forebay(&["simulate", "--device", "sata250", "--policy", "noop", "--fail", "x=1"])
            .arg(&trace),
        2,
        &["got 'x=1'"],
    );
}

#[test]
fn a_report_holds_every_run_and_says_when_it_replaces_a_file() {
    let folder = Folder::new();
    let (trace, report) = (folder.file("t.csv", SPC), folder.path("mine.html"));
    let run = |status: i32, output: &std::path::Path| {
        let mut simulate =
            forebay(&["simulate", "--device", "sata250", "--policy", "noop,deadline"]);
        ends(simulate.arg(&trace).arg("-o").arg(output), status)
    };
    let (_, said) = run(0, &report);
    assert!(said.contains("mine.html") && !said.contains("in place of"), "{said}");
    let page = fs::read_to_string(&report).unwrap();
    assert!(page.contains("<h2>Policies</h2>"));
    assert!(page.contains(">noop") && page.contains("deadline"), "{page}");
    let (_, said) = run(0, &report);
    assert!(said.contains("mine.html, replacing the existing file"), "{said}");
    let (_, said) = run(2, &trace);
    assert!(said.contains("t.csv"), "{said}");
    assert_eq!(fs::read_to_string(&trace).unwrap(), SPC);
}

/// `simulate` warns about an overloaded disk, and about a trace whose requests have no submitter.
#[test]
fn limits_of_open_replay_are_stated() {
    let folder = Folder::new();
    let row = |n: u64, thread: &str| {
        format!("{},read,{},4096,0,,,,{thread},,\n", n * 1000, n * 7919 % 200_000 * 4096)
    };
    let told = |thread: &str, requests: u64| {
        let head = "at_ns,op,offset,len,stream,volume,latency_ns,flags,thread,process,name\n";
        let rows: String = (0..requests).map(|n| row(n, thread)).collect();
        let trace = folder.file("trace.csv", format!("{head}{rows}"));
        let mut command = forebay(&["simulate", "--device", "sata250", "--policy", "none"]);
        let output = command.arg("--explain").arg(&trace).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap().replace("\n  ", " ");
        [
            "does not record which process submitted each request",
            "with --replay dependent, requests wait",
        ]
        .map(|said| text.contains(said))
    };
    assert_eq!(told("7", 20), [false, false]);
    assert_eq!(told("7", 3000), [false, true]);
    assert_eq!(told("", 3000), [true, true]);
}

/// No model describes how much data a random write makes a shingled drive move. Reads and
/// sequential writes behave as on any disk.
#[test]
fn shingled_drives_are_refused_for_random_writes_by_every_verb() {
    let folder = Folder::new();
    let file = |name: &str, op: &str, sector: fn(u64) -> u64| {
        let line = |at: u64| format!("0,{},4096,{op},{:.3}\n", sector(at), at as f64 * 0.02);
        folder.file(name, (0..1500).map(line).collect::<String>())
    };
    let random = file("random.spc", "W", |at| at * 7919 % 1499 * 80_000);
    let read = file("read.spc", "R", |at| at * 7919 % 1499 * 80_000);
    let in_order = file("in-order.spc", "W", |at| at * 8);
    let verbs: [&[&str]; 3] = [
        &["simulate", "--policy", "noop"],
        &["advise"],
        &["plan", "buy", "--within", "90ms", "--layout", "single"],
    ];
    for verb in verbs {
        for drive in ["st2000dm008", "st1000lm035"] {
            let asked = |trace| {
                let mut command = forebay(verb);
                command.args(["--device", drive]).arg(trace).current_dir(folder.root());
                command
            };
            let parts = [
                drive,
                "1500 writes, 1500 of them random",
                "shingled",
                "choose a drive that is not",
            ];
            fails(&mut asked(&random), 2, &parts);
            ends(&mut asked(&in_order), 0);
        }
        ends(
            forebay(verb).args(["--device", "st2000dm008"]).arg(&read).current_dir(folder.root()),
            0,
        );
    }
    // In a list with other drives, the shingled drive is skipped and the reason is reported.
    let mut both = forebay(verbs[2]);
    let (found, _) = json(both.args(["--device", "st2000dm008,wd10ezex"]).arg(&random));
    assert!(found["refused"][0].as_str().unwrap().contains("shingled"), "{found}");
    assert_eq!(found["rows"][0]["drive"], "wd10ezex");
}
