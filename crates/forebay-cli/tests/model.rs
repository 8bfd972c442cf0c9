//! Tests `fit` and `generate` on the real binary.

use std::fs;
use std::path::Path;
use std::process::Output;

use crate::command;
use crate::command::{HEADER, sample};

/// Runs the command in `folder`.
fn forebay(folder: &Path, words: &[&str]) -> Output {
    command::forebay(words).current_dir(folder).output().unwrap()
}

#[test]
fn a_model_resembles_its_trace() {
    let folder = command::Folder::new();
    command::start_of_sample(&folder, "sample.csv", 8000);
    let folder = folder.root();
    let fitted = forebay(folder, &["fit", "sample.csv", "-o", "m.json"]);
    let said = String::from_utf8_lossy(&fitted.stdout).into_owned();
    assert!(fitted.status.success() && said.contains("names: none"), "{said}");
    assert!(said.contains("A twin of the trace stands in for"), "{said}");
    assert!(fs::metadata(folder.join("m.json")).unwrap().len() <= 64 << 10);
    let draw = |seed: &str, out: &str| {
        let words = ["generate", "m.json", "-o", out, "--seed", seed, "--requests", "2000"];
        assert!(forebay(folder, &words).status.success());
        fs::read(folder.join(out)).unwrap()
    };
    assert!(draw("1", "a.csv") == draw("1", "b.csv"));
    assert!(draw("1", "a.csv") != draw("2", "b.csv"));
    let described = forebay(folder, &["describe", "m.json", "--format", "json"]);
    let described: serde_json::Value = serde_json::from_slice(&described.stdout).unwrap();
    assert_eq!(described["records"], 8000);
}

#[test]
fn models_of_old_versions_are_rejected() {
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
        assert!(said.contains("m.json: got a model of an earlier Forebay"), "{said}");
        assert!(said.contains("fit the trace again") && said.lines().count() == 1, "{said}");
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
    let remedy = format!("forebay fit {sample} -o trace.model");
    generate(sample, &["got a trace, expected a model", &remedy]);
    generate("empty", &["empty: got an empty file", "expected a model", "forebay fit TRACE"]);
    generate("prose", &["prose: got neither a model nor a trace"]);
    generate("nowhere", &["nowhere: No such file"]);
    refused(&["convert", "m.json", "x.csv"], &["got a model", "forebay generate m.json -o"]);
    assert!(!folder.join("x.csv").exists());
}

#[test]
fn fio_accepts_the_generated_job() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let sample = sample();
    let words = ["fit", sample.to_str().unwrap(), "--no-verdict", "-o", "m.json"];
    let fitted = forebay(folder, &words);
    assert!(fitted.status.success());
    let draw = |out: &str, more: &[&str]| {
        let words = [&["generate", "m.json", "-o", out, "--requests", "3000"], more].concat();
        let output = forebay(folder, &words);
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(draw("out.fio", &[]).0, Some(0));
    assert_eq!(draw("out.job", &["--to", "fio-job"]).0, Some(0));
    let job = fs::read_to_string(folder.join("out.fio")).unwrap();
    assert_eq!(job, fs::read_to_string(folder.join("out.job")).unwrap());
    assert!(
        job.starts_with("; Generated from m.json") && job.contains("does not preserve"),
        "{job}"
    );
    assert!(job.contains("rate_process=poisson") && job.contains("random_distribution=zoned:"));
    // The extension `.iolog` and the format name `fio` still mean fio's iolog, not a job file.
    for (out, more) in [("a.iolog", &[][..]), ("b.fio", &["--to", "fio"])] {
        assert_eq!(draw(out, more).0, Some(0));
        assert!(fs::read_to_string(folder.join(out)).unwrap().starts_with("fio version 3 iolog"));
    }
    let (status, said) = draw("m.json", &["--to", "fio-job"]);
    assert!(status == Some(2) && said.contains("got an input file"), "{said}");
    assert!(fs::read(folder.join("m.json")).unwrap().starts_with(b"forebay model 5\n"));
    let fio = std::process::Command::new("fio")
        .args(["--parse-only", "--warnings-fatal", "out.fio"])
        .current_dir(folder)
        .output();
    let Ok(fio) = fio else { return forebay_testing::skipped("there is no fio") };
    let said = String::from_utf8_lossy(&[fio.stdout, fio.stderr].concat()).into_owned();
    assert!(fio.status.success() && said.is_empty(), "{said}");
}

/// Checks the exit status and the message of a run, and that the folder still contains the same
/// files afterwards.
fn refused(folder: &Path, words: &[&str], status: i32, parts: &[&str]) {
    let names = |folder: &Path| {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        entries.collect::<std::collections::BTreeSet<_>>()
    };
    let before = names(folder);
    let output = forebay(folder, words);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{words:?}: {said}");
    assert!(parts.iter().all(|part| said.contains(part)), "{words:?}: {said}");
    assert!(output.stdout.is_empty() && names(folder) == before, "{words:?}");
}

#[test]
fn a_fit_never_writes_over_its_trace_nor_half_a_model() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let trace = fs::read(sample()).unwrap();
    fs::write(folder.join("t.parquet"), &trace).unwrap();
    fs::write(folder.join("m.json"), "an older model").unwrap();
    // The trace is damaged too, so the output path must be rejected before the trace is read.
    fs::write(folder.join("cut.parquet"), &trace[..5000]).unwrap();
    let refused = |words: &[&str], status, parts: &[&str]| refused(folder, words, status, parts);
    refused(&["fit", "t.parquet", "-o", "t.parquet"], 2, &["got an input file"]);
    refused(&["fit", "t.parquet", "-o", "./t.parquet"], 2, &["got an input file"]);
    refused(&["fit", "cut.parquet", "-o", "no/m.json"], 2, &["no/m.json: No such file"]);
    refused(&["fit", "cut.parquet", "-o", "."], 2, &["got something that is not a file"]);
    refused(&["fit", "cut.parquet", "-o", "m.json"], 2, &["cut.parquet: got a Parquet error"]);
    assert!(fs::read(folder.join("t.parquet")).unwrap() == trace);
    assert_eq!(fs::read_to_string(folder.join("m.json")).unwrap(), "an older model");
}

#[cfg(unix)]
#[test]
fn a_pipe_is_rejected_where_a_file_is_needed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let rows: String = (0..9).map(|n| format!("{n}000,read,{n},512,0,0,,,0,,\n")).collect();
    fs::write(folder.join("t.csv"), format!("{HEADER}{rows}")).unwrap();
    let piped = |file: &str, words: &str| {
        let command = format!("cat '{file}' | \"$0\" {words}");
        let output = std::process::Command::new("sh")
            .args(["-c", &command])
            .arg(assert_cmd::cargo::cargo_bin!("forebay"))
            .current_dir(folder)
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (status, said) = piped("t.csv", "fit /dev/stdin -o m.json");
    assert!(status == Some(2) && said.contains("got a pipe, expected a file"), "{said}");
    assert!(said.contains("write it to a file") && !folder.join("m.json").exists(), "{said}");
    let (status, said) = piped(sample().to_str().unwrap(), "describe /dev/stdin");
    assert!(status == Some(2) && said.contains("got Parquet from a pipe"), "{said}");
    let (status, said) = piped("/dev/null", "describe /dev/stdin");
    assert!(status == Some(2) && said.contains("an empty or already consumed pipe"), "{said}");
    // Formats that are read only once can come from any path, such as /dev/stdin.
    assert_eq!(piped("t.csv", "describe /dev/stdin"), (Some(0), String::new()));
    refused(folder, &["generate", "/dev/zero", "-o", "x.csv"], 2, &["got more than 16 MiB"]);
}

#[test]
fn odd_options_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::copy(sample(), folder.join("t.parquet")).unwrap();
    let fit = |more: &[&str]| {
        let words = [&["fit", "-o", "m.json", "--level", "1"], more].concat();
        let output = forebay(folder, &words);
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    };
    let (status, said) = fit(&["t.parquet", "--no-verdict", "--budget-kib", "10"]);
    assert!(status == Some(0) && !said.contains("stands in"), "{said}");
    assert!(fs::metadata(folder.join("m.json")).unwrap().len() <= 10 << 10);
    let (status, said) = fit(&["t.parquet", "--budget-kib", "1"]);
    assert!(status == Some(2) && said.contains("a budget of 1024 bytes, expected"), "{said}");
    for (option, value, part) in [
        ("--for", "0s", "above 0"),
        ("--for", "-1s", "with its unit"),
        ("--for", "30", "with its unit"),
        ("--requests", "0", "of at least 1"),
        ("--requests", "-1", "--requests"),
        ("--intensity", "0", "from 1e-6 to 1000000"),
        ("--intensity", "nan", "from 1e-6 to 1000000"),
        ("--intensity", "-1", "from 1e-6 to 1000000"),
        ("--seed", "-1", "--seed"),
    ] {
        let words = ["generate", "m.json", "-o", "x.csv", option, value];
        refused(folder, &words, 2, &[&format!("{option}: got '{value}', expected"), part]);
    }
    let both = ["generate", "m.json", "-o", "x.csv", "--requests", "5", "--for", "1h"];
    refused(folder, &both, 2, &["--for: cannot be combined with --requests"]);
    for level in ["0", "5"] {
        refused(
            folder,
            &["fit", "t.parquet", "-o", "n.json", "--level", level],
            2,
            &["from 1 to 4"],
        );
    }
}

/// A model can be fitted, read back and sampled even if all requests are near the far end of a huge
/// volume.
#[test]
fn a_volume_that_is_used_only_near_its_far_end_is_fitted() {
    let folder = tempfile::tempdir().unwrap();
    let rows: String = (0..300u64)
        .map(|n| format!("{n}000,read,{},4096,0,0,,,,,\n", (1u64 << 62) + n * 4096))
        .collect();
    fs::write(folder.path().join("far.csv"), format!("{HEADER}{rows}")).unwrap();
    let ends = |words: &[&str]| {
        let run = forebay(folder.path(), words);
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        assert_eq!(run.status.code(), Some(0), "{words:?}: {said}");
        said
    };
    let said = ends(&["fit", "far.csv", "-o", "far.model"]);
    assert!(said.contains("far.csv") && said.contains("the units may be wrong"), "{said}");
    ends(&["generate", "far.model", "-o", "drawn.csv"]);
    let drawn = fs::read_to_string(folder.path().join("drawn.csv")).unwrap();
    assert!(drawn.lines().filter(|line| line.contains(",46116860184")).count() > 100, "{drawn}");
}

#[test]
fn a_trace_of_flushes_has_a_model_and_no_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let rows: String = (0..300u64).map(|n| format!("{n}000,flush,0,0,0,0,,,,,\n")).collect();
    fs::write(folder.path().join("f.csv"), format!("{HEADER}{rows}")).unwrap();
    let fitted = forebay(folder.path(), &["fit", "f.csv", "-o", "f.model"]);
    let said = String::from_utf8_lossy(&fitted.stdout).into_owned();
    assert_eq!(fitted.status.code(), Some(0), "{said}");
    assert!(said.contains("nothing to compare"), "{said}");
    // A model fitted to generated requests would claim what it never saw, so fitting them is
    // rejected.
    let again = forebay(folder.path(), &["fit", "f.model", "-o", "g.model"]);
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert_eq!(again.status.code(), Some(2), "{said}");
    assert!(said.contains("got a model, expected a trace"), "{said}");
}
