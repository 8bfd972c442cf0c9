//! Tests `forebay plan` on the real binary: its answers, and what it rejects.

use std::fs;
use std::path::PathBuf;

use assert_cmd::Command;
use serde_json::Value;

use crate::command;
use crate::command::{Folder, ends, forebay};

/// Creates a trace in SPC format with requests at these times in seconds, on volumes 0 and 1 in
/// turn.
fn trace_of(folder: &Folder, seconds: &[f64]) -> PathBuf {
    let line = |(index, at): (usize, &f64)| format!("{},{},4096,R,{at:.6}\n", index % 2, index * 8);
    folder.file("t.spc", seconds.iter().enumerate().map(line).collect::<String>())
}

fn plan(arguments: &[&str]) -> Command {
    let mut command = forebay(&["plan"]);
    command.args(arguments);
    command
}

fn json(command: &mut Command) -> Value {
    command::json(command).0
}

/// Asserts exit status 2, nothing on standard output, and one message that contains all `parts`.
fn refused(command: &mut Command, parts: &[&str]) {
    let (out, err) = ends(command, 2);
    assert_eq!(out, "", "{command:?}");
    for part in parts {
        assert!(err.contains(part), "{command:?}: no {part:?} in: {err}");
    }
}

/// Returns arrival times: ten requests at once every second, for ten seconds. One of them is a
/// microsecond late, so that the timestamps are clearly finer than whole seconds.
fn bursts() -> Vec<f64> {
    let late = |index| if index == 49 { 1e-6 } else { 0.0 };
    (0..100).map(|index| f64::from(index / 10) + late(index)).collect()
}

#[test]
fn capacities_are_rows_of_bound_fraction_and_iops() {
    let folder = Folder::new();
    let trace = trace_of(&folder, &bursts());
    let asked = ["capacity", "--within", "100ms,50ms", "--fraction", "0.5,1"];
    let found = json(plan(&asked).arg(&trace));
    let rows: Vec<_> = found["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            let number = |key: &str| row[key].as_f64().unwrap();
            (number("within_ms"), number("fraction"), row["capacity_iops"].as_u64().unwrap())
        })
        .collect();
    assert_eq!(rows, [(100.0, 0.5, 50), (100.0, 1.0, 100), (50.0, 0.5, 100), (50.0, 1.0, 200)]);
    assert_eq!((found["requests"].as_u64(), found["duration_s"].as_f64()), (Some(100), Some(9.0)));
    assert!(found["rows"][0].get("volume").is_none());
    let (table, _) = ends(plan(&asked).arg(&trace), 0);
    assert!(table.contains("\n 100 ms         50    100\n"), "{table}");
}

#[test]
fn each_volume_has_a_row() {
    let folder = Folder::new();
    let asked = ["capacity", "--within", "100ms", "--fraction", "1", "--by", "volume"];
    let found = json(plan(&asked).arg(trace_of(&folder, &bursts())));
    let rows = found["rows"].as_array().unwrap();
    let capacities: Vec<_> =
        rows.iter().map(|row| row["capacity_iops"].as_u64().unwrap()).collect();
    assert_eq!(capacities, [100, 50, 50]);
    assert!(rows[0].get("volume").is_none() && rows[1]["volume"] != rows[2]["volume"]);
}

#[test]
fn a_capacity_can_have_an_interval_and_a_check_and_the_seed_repeats_them() {
    let folder = Folder::new();
    let trace = trace_of(&folder, &bursts());
    let asked = ["capacity", "--within", "50ms", "--confidence", "0.9", "--hold-out", "0.3"];
    let found = json(plan(&asked).arg(&trace));
    let row = &found["rows"][5];
    for key in [
        "capacity_low_iops",
        "capacity_high_iops",
        "train_capacity_iops",
        "train_low_iops",
        "train_high_iops",
        "held_out_fraction",
        "held_out_capacity_iops",
    ] {
        assert!(row[key].is_number(), "{key}: {row}");
    }
    assert_eq!(row["held_out_kept"], true);
    assert_eq!(found, json(plan(&asked).arg(&trace)));
}

#[test]
fn the_report_is_a_page() {
    let folder = Folder::new();
    let (trace, report) = (trace_of(&folder, &bursts()), folder.path("r.html"));
    let page = |more: &[&str], begins: &str| {
        let (out, err) = ends(plan(&["capacity"]).args(more).arg(&trace).arg("-o").arg(&report), 0);
        assert!(out.starts_with(begins) && err.contains("r.html"), "{out}{err}");
        let page = fs::read_to_string(&report).unwrap();
        assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
        page
    };
    assert!(!page(&[], "Answering 99 % of the requests within ").contains("How many"));
    let devices = ["--device", "fixed:100", "--within", "50ms", "--fraction", "0.5,1"];
    let page = page(&devices, "2 fixed:100 answer 100 % of the requests within 50 ms; one fewer");
    assert!(
        page.contains("How many devices it takes")
            && page.contains("A server of constant rate would need")
    );
}

#[test]
fn bad_promises_are_refused() {
    let folder = Folder::new();
    let trace = trace_of(&folder, &bursts());
    for wrong in ["0", "1.1", "-0.5", "nan", "x", "0.5,2"] {
        let expected = ["above 0 and at most 1"];
        refused(plan(&["capacity", "--fraction", wrong]).arg(&trace), &expected);
    }
    for wrong in ["0ms", "-5ms", "5", "ms", "5ms,0s"] {
        refused(
            plan(&["capacity", "--within", wrong]).arg(&trace),
            &["--within: got '", "e.g. 10ms"],
        );
    }
    for option in ["--confidence", "--hold-out"] {
        for wrong in ["0", "1", "95", "-1"] {
            refused(plan(&["capacity", option, wrong]).arg(&trace), &["above 0 and below 1"]);
        }
    }
    let fast = ["capacity", "--within", "5ns", "--fraction", "1"];
    refused(plan(&fast).arg(&trace), &["t.spc", "more than 1000000000 IOPS", "allow more time"]);
}

#[test]
fn bad_traces_are_refused() {
    let folder = Folder::new();
    refused(plan(&["capacity"]).arg(folder.file("e.spc", "")), &["e.spc"]);
    refused(plan(&["capacity"]).arg(folder.path("none")), &["none"]);
    let untimed = "fio version 2 iolog\n/dev/a add\n/dev/a open\n/dev/a read 0 4096\n\
                   /dev/a read 8192 4096\n/dev/a close\n";
    let promise = folder.file("p.toml", "[[tier]]\nfraction = 1\nwithin_ms = 5\n");
    let questions: [&[&str]; 5] = [
        &["capacity"],
        &["capacity", "--device", "fixed:100"],
        &["consolidate"],
        &["power"],
        &["sla", promise.to_str().unwrap()],
    ];
    for question in questions {
        let trace = folder.file("u.iolog", untimed);
        refused(plan(question).arg(trace), &["u.iolog", "without times"]);
        let invented = folder.file("a.lis", "100 2 0 1\n300 1 0 2\n");
        let arc = ["--from", "arc"];
        refused(plan(question).arg(invented).args(arc), &["a.lis", "without times"]);
    }
}

#[test]
fn a_small_trace_is_answered_with_a_warning() {
    let folder = Folder::new();
    let asked = ["capacity", "--within", "10ms", "--fraction", "0.5,1", "--confidence", "0.9"];
    let capacities = |seconds: &[f64], says: &str| {
        let (out, err) =
            ends(plan(&asked).arg(trace_of(&folder, seconds)).args(["--format", "json"]), 0);
        assert!(err.contains(says), "{err}");
        let found: Value = serde_json::from_str(&out).unwrap();
        let rows = found["rows"].as_array().unwrap();
        rows.iter().map(|row| row["capacity_iops"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(capacities(&[0.0], "one request"), [100, 100]);
    refused(
        plan(&["capacity", "--seed", "3"]).arg(trace_of(&folder, &bursts())),
        &["--confidence"],
    );
}

#[test]
fn simultaneous_requests_have_no_price_unless_they_really_were_simultaneous() {
    let folder = Folder::new();
    let trace = trace_of(&folder, &[1.0; 8]);
    let promise = folder.file("p.toml", "[[tier]]\nfraction = 1\nwithin_ms = 10\n");
    let promise = promise.to_str().unwrap();
    let asked: [&[&str]; 6] = [
        &["capacity"],
        &["capacity", "--device", "fixed:100"],
        &["capacity", "--cost-us", "100"],
        &["consolidate"],
        &["sla", promise],
        &["power"],
    ];
    for question in asked {
        refused(plan(question).arg(&trace), &["t.spc: all requests have the same time"]);
    }
    for (question, key) in [(asked[0], "capacity_iops"), (asked[1], "devices")] {
        let promise = ["--within", "80ms", "--fraction", "1", "--trust-times"];
        let (out, err) =
            ends(plan(question).args(promise).args(["--format", "json"]).arg(&trace), 0);
        assert!(err.contains("all 8 requests arrive at the same time"), "{err}");
        let found: Value = serde_json::from_str(&out).unwrap();
        let expected = if key == "devices" { 1 } else { 100 };
        assert_eq!(found["rows"][0][key], expected);
        assert!(found["cautions"][0].as_str().unwrap().contains("at the same time"), "{found}");
    }
}

#[test]
fn cautions_are_in_every_json() {
    let folder = Folder::new();
    // Two requests in each clock tick of 40 ms.
    let ticks = trace_of(&folder, &(0..500).map(|k| f64::from(k / 2) / 25.0).collect::<Vec<_>>());
    let promise = folder.file("p.toml", "[[tier]]\nfraction = 1\nwithin_ms = 50\n");
    let promise = promise.to_str().unwrap();
    let within = ["--within", "50ms"];
    let cost = ["--within", "50ms", "--cost-us", "100"];
    let asked: [(&[&str], &[&str]); 8] = [
        (&["capacity"], &within),
        (&["capacity", "--device", "fixed:100"], &within),
        (&["capacity"], &cost),
        (&["consolidate"], &within),
        (&["consolidate"], &cost),
        (&["sla", promise], &[]),
        (&["sla", promise], &cost[2..]),
        (&["power"], &within),
    ];
    for (question, more) in asked {
        let found = json(plan(question).arg(&ticks).args(more));
        let found = if question == ["power"] { &found["traces"][0] } else { &found };
        let cautions = found["cautions"].as_array().unwrap();
        let told = |said: &&Value| said.as_str().unwrap().contains("clock steps by 40 ms");
        assert_eq!(cautions.iter().filter(told).count(), 1, "{question:?}: {cautions:?}");
    }
    refused(plan(&["capacity", "--within", "50ms,40ms"]).arg(&ticks), &["than the 40 ms promised"]);
}

#[test]
fn duplicate_bounds_are_answered_once() {
    let folder = Folder::new();
    let trace = trace_of(&folder, &bursts());
    let twice = ["--within", "10ms,10ms", "--fraction", "0.9,0.90"];
    let devices = ["--device", "fixed:1000"];
    let rows = |found: Value| found["rows"].as_array().unwrap().len();
    assert_eq!(rows(json(plan(&["capacity"]).args(twice).arg(&trace))), 1);
    assert_eq!(rows(json(plan(&["capacity"]).args(twice).args(devices).arg(&trace))), 1);
    let shifts = ["--shift", "1s,1s"];
    assert_eq!(rows(json(plan(&["consolidate"]).args(twice).args(shifts).arg(&trace))), 1);
}

#[test]
fn devices_have_the_scheduler_that_linux_has() {
    let folder = Folder::new();
    let trace = trace_of(&folder, &bursts());
    let asked = ["capacity", "--device", "sata250", "--within", "1s", "--fraction", "0.9"];
    assert_eq!(json(plan(&asked).arg(&trace))["policy"], "mq-deadline");
    let (text, _) = ends(plan(&asked).arg(&trace), 0);
    assert!(text.contains("the scheduler mq-deadline on each"), "{text}");
    assert!(!text.contains("brackets"), "{text}");
    let (text, _) = ends(plan(&asked).args(["--policy", "noop"]).arg(&trace), 0);
    assert!(text.contains("the scheduler noop on each"), "{text}");
    refused(
        plan(&asked).args(["--by", "volume"]).arg(&trace),
        &["--by: cannot be combined with --device"],
    );
}

#[test]
fn a_cost_is_shown_in_few_digits_and_clients_by_name() {
    let folder = Folder::new();
    let trace = trace_of(&folder, &bursts());
    let asked = ["consolidate", "--within", "1s", "--cost-us"];
    let (text, _) = ends(plan(&asked).args(["st1000nm0011", "--explain"]).arg(&trace), 0);
    let unit = text.lines().find(|line| line.contains("A server of speed 1")).unwrap();
    assert!(unit.split_whitespace().all(|word| word.len() < 16), "{unit}");
    assert!(text.contains("\n client  "), "{text}");
    let found = json(plan(&asked).arg("100").arg(&trace));
    assert_eq!(
        (&found["clients"][0]["client"], &found["clients"][1]["client"]),
        (&1.into(), &2.into())
    );
}

#[test]
fn no_price_is_given_if_the_clock_hides_arrival_times() {
    let folder = Folder::new();
    // A request every 20 ms requires 50 IOPS. With timestamps in whole seconds, fifty of them
    // arrive at once.
    let coarse = trace_of(&folder, &(0..500).map(|k| f64::from(k / 50)).collect::<Vec<_>>());
    let promise = folder.file("p.toml", "[[tier]]\nfraction = 1\nwithin_ms = 5\n");
    let questions: [&[&str]; 5] = [
        &["capacity"],
        &["capacity", "--device", "fixed:100"],
        &["consolidate"],
        &["power"],
        &["sla", promise.to_str().unwrap()],
    ];
    for question in questions {
        refused(plan(question).arg(&coarse), &["t.spc", "clock steps by 1 s", "50 requests"]);
    }
    let ticks = trace_of(&folder, &(0..500).map(|k| f64::from(k / 2) / 25.0).collect::<Vec<_>>());
    for question in &questions[..2] {
        let (_, err) = ends(plan(question).args(["--within", "50ms"]).arg(&ticks), 0);
        assert!(err.contains("steps by 40 ms"), "{err}");
    }
}

#[test]
fn sharing_a_server_is_cheaper_than_the_sum() {
    let folder = Folder::new();
    let trace = trace_of(&folder, &bursts());
    let asked = ["consolidate", "--within", "100ms", "--shift", "0s,0.5s"];
    let found = json(plan(&asked).arg(&trace));
    let rows = found["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 6);
    assert_eq!(
        (rows[0]["sum_iops"].as_u64(), rows[0]["merged_iops"].as_u64()),
        (Some(200), Some(200))
    );
    assert_eq!((rows[3]["shift_s"].as_f64(), rows[3]["ratio"].as_f64()), (Some(0.5), Some(0.5)));
    let several =
        json(plan(&["consolidate", "--within", "100ms"]).arg(&trace).arg(&trace).arg(&trace));
    assert_eq!(several["clients"].as_array().unwrap().len(), 3);
    assert_eq!(several["rows"][0]["merged_iops"], 300);
    let (table, err) = ends(plan(&["consolidate"]).arg(&trace), 0);
    assert!(err.contains("before the next begins"), "{err}");
    assert!(!table.contains("before the next begins"), "told twice: {table}");
    assert!(table.contains("shared") && table.contains("decided by"), "{table}");
    assert!(table.starts_with("Sharing saves nothing: 2 clients need "), "{table}");
}

#[test]
fn each_clients_service_is_shown() {
    let folder = Folder::new();
    let burst = trace_of(&folder, &[0.0; 30]);
    let seconds = |seconds: std::ops::Range<u32>| {
        seconds.map(|at| format!("0,0,4096,R,{at}.0\n")).collect::<String>()
    };
    let steady = folder.file("steady.spc", seconds(0..80));
    let asked = ["consolidate", "--within", "1s", "--fraction", "0.5", "--trust-times"];
    let found = json(plan(&asked).args([&steady, &burst]));
    let row = &found["rows"][0];
    assert_eq!((&row["merged_iops"], &row["every_client_iops"]), (&1.into(), &16.into()));
    assert_eq!(row["client_fractions"], serde_json::json!([1.0, 0.0]));
    assert_eq!(found["clients"][1]["rows"][0]["capacity_iops"], 15);
    assert_eq!((&row["worst_client"], &row["shaped_iops"]), (&2.into(), &16.into()));
    assert_eq!(
        (&row["worst_trace"], &found["clients"][1]["client"]),
        (&found["clients"][1]["trace"], &2.into())
    );
    let (text, _) = ends(plan(&asked).args([&steady, &burst]), 0);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("2 clients need 16 IOPS together or apart"), "{text}");
    assert!(text.contains("50 % within 1 s 16 16 2 (t.spc) 1 0.00 %"), "{text}");
    let (_, err) = ends(plan(&asked).args([&steady, &burst]), 0);
    assert!(err.contains("from 0 s to 79.0 s") && err.contains("the same length"), "{err}");
    refused(
        plan(&asked).args(["--clients", "2"]).args([&steady, &burst]),
        &["--clients: got 2 with 2 traces"],
    );
}

#[test]
fn clients_can_keep_the_clock_they_share() {
    let folder = Folder::new();
    let burst = |volume: u32, from: f64| {
        (0..10).map(move |k| format!("{volume},{k},4096,R,{:.6}\n", from + f64::from(k) * 1e-6))
    };
    // Two volumes whose bursts are five seconds apart, in one trace and in two traces.
    let both = folder.file("both.spc", burst(0, 1.0).chain(burst(1, 6.0)).collect::<String>());
    let asked = ["consolidate", "--within", "1s", "--fraction", "1"];
    let by_volume = json(plan(&asked).args(["--by", "volume"]).arg(&both));
    assert_eq!(
        (&by_volume["rows"][0]["sum_iops"], &by_volume["rows"][0]["merged_iops"]),
        (&20.into(), &10.into())
    );
    assert!(by_volume["clients"][1]["trace"].as_str().unwrap().contains("both.spc volume"));
    let (a, b) = (
        folder.file("a.spc", burst(0, 1.0).collect::<String>()),
        folder.file("b.spc", burst(0, 6.0).collect::<String>()),
    );
    let needs = |more: &[&str]| {
        let found = json(plan(&asked).args(more).args([&a, &b]));
        found["rows"][0]["merged_iops"].as_u64().unwrap()
    };
    assert_eq!((needs(&[]), needs(&["--keep-times"])), (20, 10));
    // The files that convert creates per volume must give the same result.
    let parts = folder.path("parts");
    let mut convert = forebay(&["convert", "--partition-by", "volume"]);
    assert!(convert.arg(&both).arg(&parts).output().unwrap().status.success());
    let mut parts: Vec<_> = std::fs::read_dir(&parts).unwrap().map(|e| e.unwrap().path()).collect();
    parts.retain(|path| path.extension().is_some_and(|ending| ending == "parquet"));
    let found = |more: &[&str]| json(plan(&asked).args(more).args(&parts))["rows"][0].clone();
    assert_eq!(found(&[])["merged_iops"], 20);
    let kept = found(&["--keep-times", "--confidence", "0.9"]);
    let ends = |row: &serde_json::Value| {
        let end = |name: &str| row[name].as_u64().unwrap();
        (end("merged_low_iops"), end("merged_iops"), end("merged_high_iops"))
    };
    let (low, together, high) = ends(&kept);
    assert!(low <= together && together <= high && together == 10, "{kept}");
    refused(plan(&asked).args(["--by", "volume"]).arg(&a), &["got one volume"]);
    refused(plan(&asked).args(["--by", "volume", "--keep-times"]).args([&a, &b]), &["in common"]);
}

#[test]
fn tiered_promises_are_priced_checked_and_rejected() {
    let folder = Folder::new();
    let trace = trace_of(&folder, &bursts());
    let tier = |f: &str, w: &str| format!("[[tier]]\nfraction = {f}\nwithin_ms = {w}\n");
    let good = folder.file("good.toml", tier("0.5", "50") + &tier("1", "500"));
    let found = json(plan(&["sla"]).arg(&good).arg(&trace).args(["--capacity", "20"]));
    // Five of ten requests must complete within 50 ms, the others within half a second. Separate
    // servers need 110 IOPS in total, but a shared one needs only the 100 IOPS of the first class.
    assert_eq!((&found["separate_iops"], &found["fcfs_iops"]), (&110.into(), &100.into()));
    assert_eq!(found["least"]["capacity_iops"], 100);
    assert_eq!(found["least"]["way"], "fcfs");
    let (text, _) = ends(plan(&["sla"]).arg(&good).arg(&trace), 0);
    assert!(
        text.starts_with("Provide 100 IOPS on one server, first come, first served;"),
        "{text}"
    );
    assert_eq!((&found["least"]["kept"], &found["checked"]["kept"]), (&true.into(), &false.into()));
    assert_eq!((&found["floor_iops"], &found["requests"]), (&100.into(), &100.into()));
    let contradiction = folder.file("bad.toml", tier("0.9", "20") + &tier("0.5", "50"));
    refused(plan(&["sla"]).arg(contradiction).arg(&trace), &["bad.toml", "contradict each other"]);
    let capacity = ["--capacity", "1000000001"];
    refused(plan(&["sla"]).arg(&good).arg(&trace).args(capacity), &["1000000001"]);
    refused(plan(&["sla"]).arg(folder.path("no.toml")).arg(&trace), &["no.toml"]);
    let single = folder.file("single.toml", tier("0.9", "20").replace("[[tier]]", "[tier]"));
    refused(plan(&["sla"]).arg(single).arg(&trace), &["single.toml: line 1", "each [[tier]]"]);
    refused(plan(&["sla"]).arg(&trace).arg(&good), &["t.spc: line 1", "each [[tier]]"]);
}

#[test]
fn answers_are_speeds_if_bytes_have_a_cost() {
    let folder = Folder::new();
    let trace = trace_of(&folder, &bursts());
    let tier = |f: &str, w: &str| format!("[[tier]]\nfraction = {f}\nwithin_ms = {w}\n");
    let promise = folder.file("promise.toml", tier("0.9", "10") + &tier("1", "500"));
    let (trace, promise) = (trace.to_str().unwrap(), promise.to_str().unwrap());
    let cost = ["--cost-us", "1000"];
    // Each request takes 1 ms, so a speed of one thousandth is one request per second.
    let iops = |speed: &Value| (speed.as_f64().unwrap() * 1e3).round();
    let tiers = json(&mut plan(&["sla", promise, trace]));
    let costed = json(plan(&["sla", promise, trace]).args(cost));
    assert_eq!(costed["cost_us"], "1000+0/KiB");
    assert_eq!(iops(&costed["fcfs_speed"]), tiers["fcfs_iops"].as_f64().unwrap());
    assert_eq!(iops(&costed["floor_speed"]), tiers["floor_iops"].as_f64().unwrap());
    let both = json(&mut plan(&["consolidate", trace]));
    let costed = json(plan(&["consolidate", trace]).args(cost));
    for (ours, plain) in
        costed["rows"].as_array().unwrap().iter().zip(both["rows"].as_array().unwrap())
    {
        for (speed, capacity) in [
            ("sum_speed", "sum_iops"),
            ("merged_speed", "merged_iops"),
            ("shaped_speed", "shaped_iops"),
        ] {
            assert_eq!(iops(&ours[speed]), plain[capacity].as_f64().unwrap(), "{speed}");
        }
    }
    for arguments in [&["sla", promise, trace][..], &["consolidate", trace], &["capacity", trace]] {
        let (text, _) = ends(plan(arguments).args(["--cost-us", "100+2/KiB"]), 0);
        assert!(text.contains("A server of speed 1 takes 100+2/KiB µs per request"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        refused(
            plan(arguments).args(["--cost-us", "2+1"]),
            &["--cost-us: got '2+1'", "100+0.5/KiB"],
        );
        refused(
            plan(arguments).args(["--cost-us", "no-such"]),
            &["--cost-us: got 'no-such'", "100+0.5/KiB", "no device 'no-such'"],
        );
    }
    refused(plan(&["sla", promise, trace]).args(cost).args(["--capacity", "9"]), &["--capacity"]);
}

#[test]
fn switching_pools_saves_energy() {
    let folder = Folder::new();
    let mut seconds: Vec<f64> = vec![0.0; 12];
    seconds.extend((1..400).map(f64::from));
    let trace = trace_of(&folder, &seconds);
    let asked = ["power", "--epoch", "100s", "--pool-disks", "1", "--disk-iops", "100"];
    let found = json(plan(&asked).arg(&trace));
    let rows = found["traces"][0]["rows"].as_array().unwrap();
    let plans: Vec<_> = rows.iter().map(|row| row["plan"].as_str().unwrap()).collect();
    assert_eq!(plans, ["all-on", "static", "predicted", "oracle"]);
    let saved = |index: usize| rows[index]["saving_ratio"].as_f64().unwrap();
    assert!(saved(0) == 1.0 && saved(2) > 1.4 && saved(3) >= saved(2), "{rows:?}");
    refused(plan(&["power", "--within", "1ms"]).arg(&trace), &["more disks"]);
    refused(plan(&["power", "--epoch", "1ns"]).arg(&trace), &["make them longer"]);
    refused(plan(&["power", "--device", "nothing"]).arg(&trace), &["nothing"]);
    refused(plan(&["power", "--epoch", "3s"]).arg(&trace), &["t.spc", "epochs of 3 s", "spins up"]);
    refused(plan(&["power", "--off-w", "50"]).arg(&trace), &["50 W when off", "10.2 W"]);
    refused(plan(&["power"]).arg(trace_of(&folder, &[0.0])), &["t.spc", "at a single time"]);
}

#[test]
fn sentences_about_energy_come_first() {
    let folder = Folder::new();
    let asked = ["power", "--epoch", "100s", "--pool-disks", "1", "--disk-iops", "100"];
    let said = |seconds: &[f64]| {
        let (text, _) = ends(plan(&asked).arg("--explain").arg(trace_of(&folder, seconds)), 0);
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let steady: Vec<f64> = (0..400).map(f64::from).collect();
    let text = said(&steady);
    assert!(
        text.contains("1 pool of 1 ultrastar-36z15 (each disk 100 IOPS, each pool 100) answer"),
        "{text}"
    );
    assert!(
        text.contains("Switching saves nothing: every plan keeps 1 pool on in each epoch."),
        "{text}"
    );
    assert!(text.contains("Broken: epochs in which fewer than 99 % were answered"), "{text}");
    let burst: Vec<f64> = std::iter::repeat_n(0.0, 11).chain(steady).collect();
    let text = said(&burst);
    assert!(!text.contains("saves nothing"), "{text}");
}

#[test]
fn data_too_large_for_one_device_need_more() {
    let folder = Folder::new();
    // Ten reads a second, spread over 9.7 TB.
    let line = |k: u64| format!("0,{},4096,R,{}.{}\n", k % 20 * 1_000_000_000, k / 10, k % 10);
    let trace = folder.file("t.spc", (0..120).map(line).collect::<String>());
    let asked = ["capacity", "--device", "samsung-830", "--within", "50ms", "--fraction", "0.99"];
    let found = json(plan(&asked).args(["--price", "100"]).arg(&trace));
    let row = &found["rows"][0];
    assert_eq!((&row["devices_for_bytes"], &row["devices_for_time"]), (&38.into(), &1.into()));
    assert_eq!((&row["devices"], &row["binds"]), (&38.into(), &"bytes".into()));
    assert_eq!(row["price"], 3800.0);
    let (text, _) = ends(plan(&asked).args(["--devices-max", "30"]).arg(&trace), 0);
    assert!(text.contains("The data alone needs 38 samsung-830, more than the 30"), "{text}");
}

#[test]
fn devices_are_counted() {
    let folder = Folder::new();
    let trace = trace_of(&folder, &bursts());
    let asked =
        ["capacity", "--device", "fixed:100", "--policy", "noop:merge=no", "--fraction", "1"];
    let found = json(plan(&asked).args(["--within", "100ms,1ms"]).arg(&trace));
    assert_eq!(
        (&found["rows"][0]["devices"], &found["rows"][1]["devices"]),
        (&1.into(), &Value::Null)
    );
    assert_eq!((&found["replay"], &found["policy"]), (&"open".into(), &"noop:merge=no".into()));
    refused(plan(&["capacity", "--device", "nothing"]).arg(&trace), &["nothing"]);
    let said = |more: &[&str]| {
        let (text, _) = ends(plan(&asked).args(more).arg(&trace), 0);
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let text = said(&["--within", "50ms,1ms", "--price", "9.5"]);
    let first =
        "2 fixed:100 answer 100 % of the requests within 50 ms; one fewer answers only 50.00 %.";
    let kept = "A server of constant rate would need 200 IOPS. Together they cost 19.00 in the currency \
                of the price.";
    assert!(text.starts_with(first) && text.contains(kept), "{text}");
    assert!(!text.contains("are enough") && text.matches("50.00 %").count() == 1, "{text}");
    let never = "10000 IOPS keep 100 % within 1 ms; no number of fixed:100 is enough: an idle one \
                 answers only 0.00 % in time";
    assert!(text.contains(never), "{text}");
    for wrong in ["-1", "nan", "x"] {
        refused(plan(&asked).args(["--price", wrong]).arg(&trace), &["--price: got '"]);
    }
    let policy = ["capacity", "--device", "fixed:100", "--policy", "nothing"];
    refused(plan(&policy).arg(&trace), &["nothing"]);
}
