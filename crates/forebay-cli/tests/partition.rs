//! `forebay convert --partition-by volume`, on the real binary.

#![allow(clippy::unwrap_used)]

mod command;

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use command::{HEADER, ends, forebay, json};

/// Requests of three volumes, one with a name that leads out of the folder.
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

fn stderr(command: &mut Command, status: i32) -> String {
    let (out, err) = ends(command, status);
    assert_eq!(out, "");
    err
}

fn names(folder: &Path) -> Vec<String> {
    let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| name(entry.unwrap())).collect();
    names.sort();
    names
}

#[test]
fn a_folder_has_a_trace_a_volume_and_is_the_whole_trace() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, parts) = (trace(folder.path()), folder.path().join("parts"));
    let text = stderr(&mut convert(&trace, &parts), 0);
    assert!(text.contains("99 requests of 3 volumes"), "{text}");
    assert_eq!(names(folder.path()), ["in.csv", "parts"], "nothing beside the folder");
    let found = names(&parts);
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(found.contains(&"manifest.json".into()) && found.contains(&"a.parquet".into()));
    let text = stderr(&mut convert(&trace, &parts), 0);
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
    let text = stderr(&mut convert(&trace, &full), 2);
    assert!(text.contains("a folder with other files"), "{text}");
    assert_eq!(names(&full), ["mine"]);

    let parts = folder.path().join("parts");
    stderr(&mut convert(&trace, &parts), 0);
    let other = folder.path().join("other.csv");
    fs::copy(&trace, &other).unwrap();
    let text = stderr(&mut convert(&other, &parts), 2);
    assert!(text.contains("a partition of"), "{text}");
}
