//! Tests `forebay compare` on the real binary.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::command::{Folder, HEADER, ends, fails, forebay, sample};

/// Returns a short trace, which can be compared quickly.
fn some(folder: &Folder) -> PathBuf {
    let rows =
        (0..200u64).map(|n| format!("{},read,{},4096,{},,,,,,\n", n * 100_000_000, n << 20, n % 3));
    folder.file("some.csv", format!("{HEADER}{}", rows.collect::<String>()))
}

#[test]
fn a_card_of_a_trace_and_itself() {
    let folder = Folder::new();
    let page = folder.path("card.html");
    let mut command = forebay(&["compare", "--device", "990-pro", "--format", "json", "-o"]);
    let (text, _) = ends(command.arg(&page).args([sample(), sample()]), 0);
    let card: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(card["verdict"]["faithful"], true);
    assert_eq!(card["mrc_mean_error"], 0.0);
    for key in ["name", "a", "b", "deviation", "deviation_kind", "a_low", "a_high"] {
        assert!(!card["features"][0][key].is_null(), "{key}");
    }
    assert_eq!(card["responses"][0]["p99_ms"]["deviation"], 0.0);
    assert!(card.get("pictures").is_none());
    assert!(fs::read_to_string(&page).unwrap().contains("A faithful twin"));
}

#[test]
fn a_table_says_which_aspects_match_and_why_others_do_not() {
    let folder = Folder::new();
    let rows = "0,write,0,4096,0,,,,,,\n9000000,read,8192,512,0,,,,,,\n";
    let other = folder.file("other.csv", format!("{HEADER}{rows}"));
    let (table, _) = ends(forebay(&["compare"]).args([sample(), other]), 0);
    assert!(table.starts_with("Too few requests to compare: terasort.parquet has "), "{table}");
    assert!(table.contains("\n caching") && table.contains(" no "), "{table}");
}

/// A trace whose latencies are ten times as long must not be called a faithful twin.
#[test]
fn the_slowdown_comes_first() {
    let folder = Folder::new();
    let trace = |name: &str, times: u64| {
        let row = |n: u64| {
            let latency_ns = (n % 7 + 1) * 100_000 * times;
            format!("{},read,{},4096,0,,{latency_ns},,,,\n", n * 10_000_000, n << 20)
        };
        folder.file(name, format!("{HEADER}{}", (0..2000).map(row).collect::<String>()))
    };
    let pair = [trace("before.csv", 1), trace("after.csv", 10)];
    let compared = |words: &[&str]| {
        let mut command = forebay(&["compare", "--device", "fixed:1000"]);
        command.args(words).args(&pair);
        ends(&mut command, 0).0
    };
    let text = compared(&[]);
    let first =
        "after.csv is slower than before.csv: p50 4.00 ms (was 400 µs), p99 7.00 ms (was 700 µs).";
    assert_eq!(text.lines().next(), Some(first));
    assert!(!text.contains("faithful"), "{text}");
    let card: Value = serde_json::from_str(&compared(&["--format", "json"])).unwrap();
    assert_eq!(card["latencies"]["change"], "slower");
    assert_eq!(card["verdict"]["faithful"], false);
}

/// By default, the answer fits on a screen. With explanations, it contains every figure, each of
/// them once.
#[test]
fn all_figures_are_shown_on_request() {
    let folder = Folder::new();
    let trace = some(&folder);
    let told = |all: &[&str]| ends(forebay(&["compare"]).args(all).args([&trace, &trace]), 0).0;
    let (few, all) = (told(&[]), told(&["--explain"]));
    assert!(few.lines().count() <= 24 && few.contains("chance can cause"), "{few}");
    let first = "\n requests in first sixteenth, ";
    for said in ["\n mean size, ", first, "\n index of dispersion at 1 ms "] {
        assert!(!few.contains(said) && all.matches(said).count() == 1, "{said}: {few}{all}");
    }
}

#[test]
fn incomparable_traces_are_rejected() {
    let folder = Folder::new();
    let empty = folder.file("empty.csv", HEADER);
    let refused = |args: &[&str], said: &str| fails(forebay(&["compare"]).args(args), 2, &[said]);
    let (trace, empty) = (sample().display().to_string(), empty.display().to_string());
    refused(&[&trace, &empty], "got no requests");
    refused(
        &[&trace, &trace, "--block-kib", "0"],
        "--block-kib: got '0', expected a number from 1 to 65536",
    );
    refused(&[&trace, &trace, "--intensity", "nan"], "--intensity: got 'nan', expected");
    refused(&[&trace, &trace, "--device", "no-such"], "no device 'no-such'");
    refused(&[&trace], "missing TRACE");
}
