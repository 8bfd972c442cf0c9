//! `fit` and `generate` as a user runs them.

#![allow(clippy::unwrap_used)]

mod command;

use std::fs;
use std::path::Path;
use std::process::Output;

use command::sample;

/// Runs in `folder`.
fn forebay(folder: &Path, words: &[&str]) -> Output {
    command::forebay(words).current_dir(folder).output().unwrap()
}

#[test]
fn a_model_stands_for_its_trace() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, sample) = (folder.path(), sample());
    let sample = sample.to_str().unwrap();
    let fitted = forebay(folder, &["fit", sample, "-o", "m.json", "--level", "1"]);
    let said = String::from_utf8_lossy(&fitted.stdout).into_owned();
    assert!(fitted.status.success() && said.contains("names: none"), "{said}");
    assert!(fs::metadata(folder.join("m.json")).unwrap().len() < 100 << 10);
    let draw = |seed: &str, out: &str| {
        let words = ["generate", "m.json", "-o", out, "--seed", seed, "--requests", "2000"];
        assert!(forebay(folder, &words).status.success());
        fs::read(folder.join(out)).unwrap()
    };
    assert!(draw("1", "a.csv") == draw("1", "b.csv"));
    assert!(draw("1", "a.csv") != draw("2", "b.csv"));
    let described = forebay(folder, &["describe", "m.json", "--format", "json"]);
    let described: serde_json::Value = serde_json::from_slice(&described.stdout).unwrap();
    assert_eq!(described["records"], 75_711);
}

#[test]
fn a_damaged_model_is_bad_input() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("m.json"), "{\"forebay_model\":1}").unwrap();
    for words in [
        &["generate", "m.json", "-o", "x.csv"][..],
        &["describe", "m.json"],
        &["simulate", "m.json", "--device", "st1000nm0011", "--policy", "noop"],
    ] {
        let output = forebay(folder.path(), words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("m.json: got missing field `requests`"), "{said}");
    }
    assert!(!folder.path().join("x.csv").exists());
}

#[test]
fn a_trace_and_a_model_are_not_taken_for_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, sample) = (folder.path(), sample());
    let sample = sample.to_str().unwrap();
    fs::write(folder.join("empty"), "").unwrap();
    fs::write(folder.join("prose"), "Once upon a time\nthere was a disk.\n").unwrap();
    fs::write(folder.join("m.json"), "{\"forebay_model\":1}").unwrap();
    let refused = |words: &[&str], parts: &[&str]| {
        let output = forebay(folder, words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    };
    let generate = |of: &str, parts: &[&str]| refused(&["generate", of, "-o", "x.csv"], parts);
    let remedy = format!("forebay fit {sample} -o model.json");
    generate(sample, &["got a trace, expected a model", &remedy]);
    generate("empty", &["empty: got an empty file", "expected a model", "forebay fit TRACE"]);
    generate("prose", &["prose: got neither a model nor a trace"]);
    generate("nowhere", &["nowhere: No such file"]);
    refused(&["convert", "m.json", "x.csv"], &["got a model", "forebay generate m.json -o"]);
    assert!(!folder.join("x.csv").exists());
}
