//! Tests `forebay convert` with `--partition-by volume` and `--anonymize` on the real binary.

use std::fs;
use std::path::Path;

use assert_cmd::Command;

use crate::command::{Folder, HEADER, ends, fails, forebay, json, sample};

/// Creates a trace with three volumes, one of whose names would lead out of the folder.
fn trace(folder: &Path) -> std::path::PathBuf {
    let volumes = ["../../up", "a", "b"];
    let line = |n: usize| format!("{n},read,{},4096,0,{},,,,,\n", n * 4096, volumes[n % 3]);
    let path = folder.join("in.csv");
    fs::write(&path, HEADER.to_string() + &(0..99).map(line).collect::<String>()).unwrap();
    path
}

fn convert(trace: &Path, output: &Path) -> Command {
    let mut command = forebay(&["convert"]);
    command.arg(trace).arg(output).args(["--partition-by", "volume"]);
    command
}

/// Runs a command. Returns its standard output if it succeeds, and otherwise its standard error.
fn said(command: &mut Command, status: i32) -> String {
    let (out, err) = ends(command, status);
    assert!(status == 0 || out.is_empty(), "{out}");
    out + &err
}

fn names(folder: &Path) -> Vec<String> {
    let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| name(entry.unwrap())).collect();
    names.sort();
    names
}

#[test]
fn a_folder_has_one_trace_per_volume_and_reads_as_the_whole_trace() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, parts) = (trace(folder.path()), folder.path().join("parts"));
    let text = said(&mut convert(&trace, &parts), 0);
    assert!(text.contains("99 requests of 3 volumes"), "{text}");
    assert_eq!(names(folder.path()), ["in.csv", "parts"], "nothing beside the folder");
    let found = names(&parts);
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(found.contains(&"manifest.json".into()) && found.contains(&"a.parquet".into()));
    let text = said(&mut convert(&trace, &parts), 0);
    assert!(text.contains("complete already"), "{text}");

    let (described, _) = json(forebay(&["describe"]).arg(&parts));
    assert_eq!((&described["requests"], &described["volumes"]), (&99.into(), &3.into()));
    let (described, _) = json(forebay(&["describe"]).arg(parts.join("a.parquet")));
    assert_eq!((&described["requests"], &described["volumes"]), (&33.into(), &1.into()));
}

#[test]
fn other_folders_and_inputs_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, full) = (trace(folder.path()), folder.path().join("full"));
    fs::create_dir(&full).unwrap();
    fs::write(full.join("mine"), "precious").unwrap();
    let text = said(&mut convert(&trace, &full), 2);
    assert!(text.contains("a folder with other files"), "{text}");
    assert_eq!(names(&full), ["mine"]);

    let parts = folder.path().join("parts");
    said(&mut convert(&trace, &parts), 0);
    let other = folder.path().join("other.csv");
    fs::copy(&trace, &other).unwrap();
    let text = said(&mut convert(&other, &parts), 2);
    assert!(text.contains("a partition of"), "{text}");
}

/// Returns the bundled trace as CSV, anonymized with `options`.
fn anonymized(folder: &Folder, name: &str, options: &[&str]) -> String {
    let output = folder.path(name);
    let mut command = forebay(&["convert", "--anonymize"]);
    said(command.arg(sample()).arg(&output).args(options), 0);
    fs::read_to_string(output).unwrap()
}

#[test]
fn an_anonymized_trace_hides_names_and_keeps_its_figures() {
    let folder = Folder::new();
    let key = folder.file("key", "a secret that is long enough");
    let with_key = ["--key", key.to_str().unwrap()];
    let first = anonymized(&folder, "first.csv", &with_key);
    assert_eq!(first, anonymized(&folder, "second.csv", &with_key), "the same key");
    assert_ne!(first, anonymized(&folder, "random.csv", &[]), "a key of chance");
    let other = anonymized(&folder, "cells.csv", &[&with_key[..], &["--cell-mib", "1"]].concat());
    assert_ne!(first, other, "smaller cells");
    for name in ["DataXceiver", "/30097", "disk,"] {
        assert!(!first.contains(name), "{name}");
    }
    let figures = |path: &Path| json(forebay(&["describe"]).arg(path)).0;
    let (before, after) = (figures(&sample()), figures(&folder.path("first.csv")));
    for key in ["requests", "read_share", "duration_s"] {
        assert_eq!(before[key], after[key], "{key}");
    }
}

#[test]
fn a_key_is_checked_and_kept() {
    let folder = Folder::new();
    let key = folder.file("key", "short");
    let refuses = |options: &[&str], parts: &[&str]| {
        let mut command = forebay(&["convert"]);
        fails(command.arg(sample()).arg(folder.path("out.csv")).args(options), 2, parts);
        assert!(!folder.path("out.csv").exists());
    };
    let path = key.to_str().unwrap();
    refuses(
        &["--anonymize", "--key", path],
        &["key", "5 bytes", "16 to 4096 unguessable bytes", "urandom"],
    );
    refuses(&["--key", path], &["--anonymize"]);
    refuses(&["--anonymize", "--cell-mib", "0"], &["--cell-mib"]);
    refuses(&["--anonymize", "--partition-by", "volume"], &["--partition-by"]);
    refuses(&["--anonymize", "--key", "/nowhere"], &["/nowhere"]);
    let key = folder.file("key.csv", "a secret that is long enough");
    let mut command = forebay(&["convert", "--anonymize", "--key"]);
    fails(command.arg(&key).arg(sample()).arg(&key), 2, &["key.csv"]);
    assert_eq!(fs::read_to_string(&key).unwrap(), "a secret that is long enough");
}

#[test]
fn odd_rows_and_columns_are_explained() {
    let folder = Folder::new();
    let rows: String = (0..300).map(|n| format!("{n},R,{},4096,x\n", n * 4096)).collect();
    let trace = folder.file("t.csv", format!("time_ms,op,offset,len,host\n{rows}300,R,?,4096,x\n"));
    let output = folder.path("out.csv");
    let (out, err) = ends(forebay(&["convert", "--explain"]).arg(&trace).arg(&output), 0);
    assert!(err.contains("1 row cannot be read and is left out: line 302 (got \"?\""), "{err}");
    for part in ["How the columns were read", "at:ms", "the name is unknown"] {
        assert!(out.contains(part), "{out}");
    }
    let refused = &["line 302", "got \"?\" in column offset"];
    fails(forebay(&["describe", "--bad-rows", "0"]).arg(&trace), 2, refused);
    fails(forebay(&["describe", "--bad-rows", "2"]).arg(&trace), 2, &["share of 0 to 1"]);
}
