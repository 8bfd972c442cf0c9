//! `forebay compare` on the real binary.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use serde_json::Value;

fn terasort() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/terasort.parquet")
}

const HEADER: &str = "at_ns,op,offset,len,stream,volume,latency_ns,flags,thread,process,name\n";

fn forebay() -> Command {
    Command::cargo_bin("forebay").unwrap()
}

#[test]
fn a_card_of_a_trace_and_itself() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("card.html");
    let compare = || {
        let mut command = forebay();
        command.args(["compare", "--device", "990-pro", "--format", "json", "-o"]).arg(&page);
        command.args([terasort(), terasort()]).assert().success().get_output().stdout.clone()
    };
    let text = compare();
    let card: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(card["verdict"]["faithful"], true);
    assert_eq!(card["mrc_mean_error"], 0.0);
    for key in ["name", "a", "b", "deviation", "deviation_kind", "a_low", "a_high"] {
        assert!(!card["features"][0][key].is_null(), "{key}");
    }
    assert_eq!(card["responses"][0]["p99_ms"]["deviation"], 0.0);
    assert!(card.get("pictures").is_none());
    assert!(fs::read_to_string(&page).unwrap().contains("A faithful twin"));
    assert_eq!(compare(), text);
}

#[test]
fn a_table_says_for_what_and_why_not() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other.csv");
    let rows = "0,write,0,4096,0,,,,,,\n9000000,read,8192,512,0,,,,,,\n";
    fs::write(&other, format!("{HEADER}{rows}")).unwrap();
    let output = forebay().arg("compare").args([terasort(), other]).assert().success();
    let table = String::from_utf8(output.get_output().stdout.clone()).unwrap();
    assert!(table.starts_with("other.csv is no twin of terasort.parquet"), "{table}");
    assert!(table.contains("| NO | caching") && table.contains("mean_size_bytes"), "{table}");
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.csv");
    fs::write(&empty, HEADER).unwrap();
    let refused = |args: &[&str], said: &str| {
        let output = forebay().arg("compare").args(args).assert().code(2);
        let output = output.get_output();
        let error = String::from_utf8(output.stderr.clone()).unwrap();
        assert!(output.stdout.is_empty() && error.contains(said), "{error}");
    };
    let (trace, empty) = (terasort().display().to_string(), empty.display().to_string());
    refused(&[&trace, &empty], "got no requests");
    refused(&[&trace, &trace, "--block-kib", "0"], "block size: got 0 KiB");
    refused(&[&trace, &trace, "--intensity", "nan"], "intensity: got NaN");
    refused(&[&trace, &trace, "--device", "no-such"], "no device 'no-such'");
    refused(&[&trace], "required");
}
