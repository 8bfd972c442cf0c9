//! Tests `forebay describe --threads` on the real binary.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::command::{Folder, ends, forebay};

/// Returns a trace of a random reader and an appending log, with 20 requests per second for ten
/// seconds.
fn trace() -> (Folder, PathBuf) {
    let folder = Folder::new();
    let line = |k: u64| match k % 2 {
        0 => format!("{},R,{},8192,1,db\n", k * 50, k * 7919 % 64 * 1_048_576),
        _ => format!("{},W,{},4096,2,wal\n", k * 50, (1u64 << 30) + k / 2 * 4096),
    };
    let path = folder.file("t.txt", (0..200).map(line).collect::<String>());
    (folder, path)
}

fn describe(path: &Path, arguments: &[&str], code: i32) -> (String, String) {
    let mut command = forebay(&["describe", "--columns", "at:ms,op:R/W,offset,len,thread,name"]);
    ends(command.arg(path).args(arguments), code)
}

#[test]
fn threads_are_shown_by_type_and_individually() {
    let (_folder, path) = trace();
    let found = |arguments: &[&str]| -> Value {
        let (out, _) = describe(&path, &[arguments, &["--format", "json"]].concat(), 0);
        serde_json::from_str(&out).unwrap()
    };
    let threads = &found(&["--threads", "--period", "1s"])["by_thread"];
    assert_eq!((&threads["threads"], &threads["period_s"]), (&2.into(), &1.0.into()));
    let labels: Vec<_> =
        threads["types"].as_array().unwrap().iter().map(|of| of["label"].as_str()).collect();
    assert_eq!(labels, [Some("Data #0"), Some("Log #0")]);
    let wal = &threads["rows"][1];
    assert_eq!((&wal["label"], &wal["type"]), (&"wal/2".into(), &"Log #0".into()));
    assert_eq!((&wal["requests"], &wal["inter_arrival_mean_ms"]), (&100.into(), &100.0.into()));
    for key in ["weight_share", "mean_iops", "mean_kib", "sequential_share", "fluctuation"] {
        assert!(threads["all"][key].is_number(), "{key}: {threads}");
    }
    assert_eq!(threads["rules"]["log_write_share"], 0.9);
    let one = found(&["--threads", "--limit", "1"]);
    assert_eq!(one["by_thread"]["rows"].as_array().map(Vec::len), Some(1));
    assert_eq!(one["by_thread"]["threads_hidden"], 1);
    assert_eq!(found(&["--threads", "--limit", "4096"])["by_thread"]["threads_hidden"], 0);
    assert!(found(&[]).get("by_thread").is_none());
    let (table, _) = describe(&path, &["--threads"], 0);
    assert!(
        table.contains("db/1") && table.contains("wal/2") && !table.contains("all 2"),
        "{table}"
    );
    let (table, _) = describe(&path, &["--threads", "--limit", "1"], 0);
    assert!(table.contains("all 2") && table.contains("Log #0: 1 thread"), "{table}");
    assert!(table.contains("Busiest: db/1 (50.0 %)."), "{table}");
}

#[test]
fn thread_options_need_threads() {
    let (_folder, path) = trace();
    for option in [["--limit", "3"], ["--period", "1s"]] {
        let (out, err) = describe(&path, &option, 2);
        assert!(out.is_empty() && err.contains("--threads"), "{err}");
    }
    let (_, err) = describe(&path, &["--threads", "--period", "0s"], 2);
    assert!(err.contains("above 0"), "{err}");
    let (_, err) = describe(&path, &["--threads", "--limit", "4097"], 2);
    assert!(err.contains("from 0 to 4096"), "{err}");
}
