//! Tests what `advise` and `plan` say about redundancy on an array.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use super::{MIB, forebay, json, refused};
use crate::command::{Folder, HEADER};

/// Creates a trace of writes that come slowly enough for a drive to be rebuilt in the meantime.
fn slow_writes(folder: &Folder, count: u64) -> PathBuf {
    let row = |n: u64| {
        let (at_ms, offset, len) = (n * 40, n * 7919 % 9000 * 4096, 4096 << (n % 7));
        format!("{},write,{offset},{len},0,0,1000000,,,,\n", at_ms * 1_000_000)
    };
    folder.file("slow.csv", HEADER.to_string() + &(0..count).map(row).collect::<String>())
}

#[test]
fn advice_says_which_redundancy_pays_on_an_array() {
    let folder = Folder::new();
    let trace = slow_writes(&folder, 1000);
    let trace = trace.to_str().unwrap();
    let advise = |drives: &str| {
        let args = ["advise", trace, "--array", drives, "-o", "page.html", "--device", "sata250"];
        forebay(&folder, &args)
    };
    let advice = json(&mut advise("7"));
    let redundancy = &advice["redundancy"];
    let tried = redundancy["tried"].as_array().unwrap();
    let of = |name: &str| tried.iter().find(|one| one["name"] == name).unwrap();
    let holds = |name: &str| of(name)["usable_bytes"].as_f64().unwrap();
    // With RAID 6, four of every six chunks hold data, and with three copies, one of every three.
    assert!((holds("RAID 6") / holds("three copies") - 2.0).abs() < 0.05, "{redundancy}");
    assert!((holds("striping") / holds("RAID 6") - 1.5).abs() < 0.05, "{redundancy}");
    assert_eq!((&redundancy["drives"], &of("RAID 5")["failures_survived"]), (&7.into(), &1.into()));
    // The less redundancy, the fewer chunks are written.
    let total = |name: &str| of(name)["total_s"].as_f64().unwrap();
    assert!(total("striping") < total("RAID 5") && total("RAID 5") < total("RAID 6"));
    let said = redundancy["said"].as_str().unwrap();
    assert!(said.contains("7 drives like sata250"), "{said}");
    let page = fs::read_to_string(folder.path("page.html")).unwrap();
    assert!(page.contains("Redundancy on 7 drives") && page.contains(">three copies<"));
    assert_eq!(redundancy["rule"], "work-function");
    assert!(said.contains("work-function"), "{said}");
    let failing = |name: &str| (&of(name)["degraded"], &of(name)["rebuilding"], of(name));
    for name in ["RAID 6", "adaptive", "three copies", "RAID 5", "two copies"] {
        let (degraded, rebuilding, of) = failing(name);
        let mean = |of: &Value| of["write_mean_ms"].as_f64().unwrap();
        assert!(mean(degraded) > 0.0 && mean(rebuilding) > mean(degraded), "{of}");
        // A drive of 250 GB at 50 MB/s at most.
        assert!(of["rebuild_s"].as_f64().unwrap() > 250e9 / 51e6, "{of}");
    }
    assert!(failing("striping").0.is_null() && of("striping")["rebuild_s"].is_null());
    let lost = |name: &str| of(name)["lost_per_year_bytes"].as_f64().unwrap();
    assert!(lost("RAID 6") < lost("RAID 5") && lost("RAID 5") < lost("striping"), "{redundancy}");
    let often = json(advise("7").args(["--failures-per-year", "0.5", "--rebuild-mb-per-s", "1"]));
    let often = often["redundancy"]["tried"][0].clone();
    assert!(often["lost_per_year_bytes"].as_f64().unwrap() > 100.0 * lost("RAID 6"), "{often}");
    assert!(often["rebuild_s"].as_f64().unwrap() > 249e9 / 1e6, "{often}");
    refused(&mut advise("5"), &["--array: got '5', expected a number from 6 to 32"]);
}

#[test]
fn commands_that_advice_on_an_array_prints_can_be_run() {
    let folder = Folder::new();
    crate::shell::prepared(folder.root());
    let trace = slow_writes(&folder, 300);
    fs::create_dir(folder.root().join("DRIVES")).unwrap();
    folder.drives("DRIVES/drive", 6, 32 * MIB);
    let asked = ["advise", trace.to_str().unwrap(), "--array", "6", "--device", "sata250"];
    let advise = || {
        let mut command = forebay(&folder, &asked);
        command.args(["-o", "page.html"]);
        command
    };
    let commands = json(&mut advise())["redundancy"]["commands"].clone();
    let commands: Vec<&str> =
        commands.as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
    let [create, serve] = commands[..] else { panic!("{commands:?}") };
    let printed = String::from_utf8(advise().output().unwrap().stdout).unwrap();
    for command in [create, serve] {
        assert!(printed.lines().any(|line| line.trim() == command), "{printed}");
    }
    assert!(printed.lines().count() <= 24, "{printed}");
    let until = "until [ -S volume.sock ]; do sleep 0.05; done; kill $!; wait $!";
    crate::shell::run(folder.root(), &format!("{create} && {{ {serve} & {until}; }}")).unwrap();
}

#[test]
fn levels_are_scored_on_a_device() {
    let folder = Folder::new();
    let args = ["array", "score", "st1000nm0011", "--writes", "100", "--filled-mib", "1024"];
    let scores = json(forebay(&folder, &args).args(["--outstanding", "1,8"]));
    let write_ms = |score: usize, level: usize, chunks: usize| {
        scores["rows"][score]["write_ms"][level][chunks - 1].as_f64().unwrap()
    };
    for score in 0..2 {
        assert!(write_ms(score, 1, 1) < write_ms(score, 0, 1), "{scores}");
    }
    refused(&mut forebay(&folder, &["array", "score", "nothing"]), &["nothing"]);
}
