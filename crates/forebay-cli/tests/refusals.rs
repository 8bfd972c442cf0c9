//! Tests how every verb reports operating-system errors about files: in one line that contains the
//! file, the system's message and what to do. The exit status is 2 if another file name would help,
//! and 1 if the machine is at fault.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use forebay_testing::skipped;

use crate::command::{Folder, SPC, ends, fails, forebay};
use crate::{shell, stdin};

/// Commands that read `AT` as something else than their trace, or write `AT/x.csv`, and how their
/// messages refer to it.
const OTHERS: &[&str] = &[
    "simulate t.spc --device ./AT.toml --policy noop",
    "advise t.spc -o AT/x.html",
    "plan sla AT t.spc",
    "plan buy t.spc --prices AT.toml",
    "plan volume t.spc --prices AT.toml",
    "plan volume --from-counters AT",
    "convert t.spc AT/x.csv",
    "convert t.spc new.csv --anonymize --key AT",
    "fit t.spc -o AT/x",
    "generate AT -o new.csv",
    "generate t.model -o AT/x.csv",
    "play t.spc --target AT/x",
    "serve AT.toml",
    "serve t.spc --socket AT/x",
    "volume check AT/x",
    "store check AT/x",
    "device import AT",
    "device validate sata250 AT",
    "devices AT/x.toml",
];

/// Returns commands that read `AT` or write `AT/x.csv`.
fn each() -> impl Iterator<Item = String> {
    let reading = stdin::reading().into_iter().map(|words| words.replace('@', "AT"));
    reading.chain(OTHERS.iter().map(ToString::to_string))
}

fn folder() -> Folder {
    let folder = Folder::new();
    shell::prepared(folder.root());
    folder.file("t.spc", SPC);
    folder.file("tiers.toml", "[[tier]]\nfraction = 0.9\nwithin_ms = 20\n");
    ends(forebay(&["fit", "t.spc", "-o", "t.model"]).current_dir(folder.root()), 0);
    folder
}

/// Runs every command with `at` as its file, and checks that it fails with a message that contains
/// `parts`.
fn refused(folder: &Folder, at: &str, parts: &[&str]) {
    for words in each() {
        let words: Vec<String> = words.split(' ').map(|word| word.replace("AT", at)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let parts: Vec<&str> = [at].into_iter().chain(parts.iter().copied()).collect();
        fails(forebay(&words).current_dir(folder.root()), 2, &parts);
    }
}

#[test]
fn missing_files_are_named_with_a_remedy() {
    refused(
        &folder(),
        "none",
        &["No such file or directory (os error 2); check the name and the folder"],
    );
}

#[test]
fn a_file_in_place_of_a_folder_is_reported() {
    refused(
        &folder(),
        "t.spc/below",
        &["Not a directory (os error 20); check the name: a part of it"],
    );
}

#[test]
fn a_folder_in_place_of_a_file_is_reported() {
    let folder = folder();
    fs::create_dir(folder.path("dir")).unwrap();
    fs::create_dir(folder.path("dir.toml")).unwrap();
    for words in each().filter(|words| !words.contains("AT/x")) {
        let words: Vec<String> = words.split(' ').map(|word| word.replace("AT", "dir")).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (out, err) = ends(forebay(&words).current_dir(folder.root()), 2);
        assert!(
            out.is_empty() && err.lines().count() == 1 && err.contains("dir"),
            "{words:?}: {err}"
        );
        // `device fit` also accepts a folder with a fio sweep.
        let no_sweep = "got no I/O by any job";
        let told = ["got a folder", "it is a folder; name a file", no_sweep];
        assert!(told.iter().any(|told| err.contains(told)), "{words:?}: {err}");
    }
}

/// Runs commands as a user without read permission. If the test runs as root, it switches to such a
/// user.
#[test]
fn unreadable_files_are_reported() {
    let folder = folder();
    let closed = folder.path("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(folder.root(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let is_root = fs::read_dir(&closed).is_ok();
    let program = assert_cmd::cargo::cargo_bin!("forebay");
    let other = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let mut command = match is_root {
        true => Command::new("setpriv"),
        false => Command::new(program),
    };
    if is_root {
        command.args(other).arg(program);
    }
    command.args(["describe", "closed/t.spc"]).current_dir(folder.root());
    let Ok(output) = command.output() else {
        return skipped("there is no setpriv");
    };
    let err = String::from_utf8(output.stderr).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o755)).unwrap();
    if is_root && err.starts_with("setpriv: ") {
        return skipped("setpriv cannot change the user here");
    }
    assert_eq!(output.status.code(), Some(2), "{err}");
    let expected = "closed/t.spc: Permission denied (os error 13); get permission to use it";
    assert!(err.contains(expected) && err.lines().count() == 1, "{err}");
}

#[test]
fn a_full_disk_behind_standard_output_is_a_system_error() {
    let folder = folder();
    for words in [
        "describe t.spc",
        "describe t.spc --format json",
        "describe t.spc --format csv",
        "cache t.spc",
        "compare t.spc t.spc",
        "plan capacity t.spc",
        "devices",
        "devices sata250",
        "policies",
        "completions bash",
        "--help",
        "help",
        "help plan sla",
        "--version",
        "plan sla --help",
    ] {
        let text = format!("set +e; said=$(forebay {words} 2>&1 >/dev/full); echo \"$? $said\"");
        let said = shell::run(folder.root(), &text).unwrap();
        let expected =
            "forebay: standard output: No space left on device (os error 28); free some space";
        let last = said.lines().last().unwrap();
        assert!(said.starts_with("1 ") && last.contains(expected), "{words}: {said}");
        // It is not an error if the reader closes the pipe.
        let text =
            format!("set +e +o pipefail; (forebay {words} 2>&1; echo $? >&2) 2>rc | true; cat rc");
        assert_eq!(shell::run(folder.root(), &text).unwrap().trim(), "0", "{words}");
    }
}

#[test]
fn standard_input_is_one_trace() {
    let folder = folder();
    for words in ["compare - -", "plan consolidate - t.spc -", "plan buy - -"] {
        let words: Vec<&str> = words.split(' ').collect();
        let parts = ["got standard input as 2 traces, expected it once; name a file for"];
        fails(forebay(&words).current_dir(folder.root()).write_stdin(SPC), 2, &parts);
    }
    ends(forebay(&["compare", "-", "t.spc"]).current_dir(folder.root()).write_stdin(SPC), 0);
}

#[test]
fn traces_with_the_same_name_are_distinguished_and_notes_printed_once() {
    let folder = folder();
    fs::create_dir(folder.path("b")).unwrap();
    folder.file("b/t.spc", SPC);
    folder.file("n.csv", "time_us,op,offset,size\n0,R,0,512\n9,W,0,512\n30000,R,512,512\n");
    let run = |words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        ends(forebay(&words).current_dir(folder.root()), 0)
    };
    assert!(run("compare t.spc t.spc").0.contains(" and t.spc#2 has "));
    assert!(run("compare t.spc b/t.spc").0.contains(" and b/t.spc has "));
    assert!(run("compare t.spc ./b/../n.csv").0.contains(" and n.csv has "));
    for verb in ["compare", "plan consolidate"] {
        let (_, err) = run(&format!("{verb} n.csv n.csv"));
        assert_eq!(err.matches("the header names the columns").count(), 1, "{verb}: {err}");
        assert_eq!(
            err.lines().count(),
            err.lines().collect::<std::collections::BTreeSet<_>>().len()
        );
    }
    for cost in ["", " --cost-us 100"] {
        let (out, _) = run(&format!("plan consolidate t.spc b/t.spc t.spc n.csv --explain{cost}"));
        let cells = |line: &str| -> Vec<String> {
            line.split_whitespace().take(2).map(str::to_string).collect()
        };
        let rows: Vec<Vec<String>> = out.lines().map(cells).collect();
        for row in [["1", "(t.spc)"], ["2", "(b/t.spc)"], ["3", "(t.spc)"], ["4", "(n.csv)"]] {
            assert!(rows.iter().any(|cells| *cells == row), "{row:?}: {out}");
        }
    }
}

#[test]
fn help_is_a_verb_like_others() {
    let said = |words: &str| ends(&mut forebay(&words.split(' ').collect::<Vec<_>>()), 0).0;
    assert_eq!(said("help plan sla"), said("plan sla --help"));
    assert_eq!(said("plan help sla"), said("plan sla --help"));
    assert_eq!(said("help plan"), said("plan --help"));
    assert_eq!(said("help"), said("--help"));
    assert_eq!(said("help --help"), said("help help"));
    assert!(said("help --help").starts_with("Explain a command, or list them all\n"));
    assert!(said("plan help -h").starts_with("Explain a command, or list them all\n"));
    for (words, told) in [
        ("help nonsense", "no command 'nonsense'; `forebay --help` lists"),
        ("help plan nonsense", "no command 'nonsense'; `forebay plan --help` lists"),
        ("plan help nonsense", "no command 'nonsense'; `forebay plan --help` lists"),
        ("plan nonsense", "nonsense"),
    ] {
        fails(&mut forebay(&words.split(' ').collect::<Vec<_>>()), 2, &[told]);
    }
}

/// Messages use the singular for one request, one client and one disk.
#[test]
fn one_takes_the_singular() {
    let folder = Folder::new();
    folder.file("one.csv", "time_us,op,offset,size\n0,R,0,512\n");
    for words in [
        "describe one.csv",
        "describe one.csv --threads",
        "simulate one.csv --device sata250 --policy noop,forebay",
        "simulate one.csv --device sata250 --policy noop --disks 2",
        "cache one.csv",
        "advise one.csv -o one.html",
        "compare one.csv one.csv",
        "plan capacity one.csv",
        "plan capacity one.csv --device sata250",
        "plan consolidate one.csv",
        "plan buy one.csv --device sata250",
        "plan volume one.csv --type gp3,gp2 --gib 10 --explain",
        "convert one.csv one.parquet",
        "convert one.csv out.csv --anonymize",
        "fit one.csv -o one.model",
        "generate one.model -o two.csv",
        "generate one.model -o two.fio",
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let (out, err) = ends(forebay(&words).current_dir(folder.root()), 0);
        for line in out.lines().chain(err.lines()) {
            let all: Vec<&str> = line.split([' ', '\u{a0}']).collect();
            for pair in all.windows(2).filter(|pair| pair[0].trim_start_matches('(') == "1") {
                let word = pair[1].trim_end_matches([',', '.', ';', ':', ')']);
                let many = word.len() > 3 && word.ends_with('s') && !word.ends_with("ss");
                assert!(!many, "{words:?}: 1 {word}: {line}");
            }
            for wrong in ["1 request say ", "1 request tell ", "in 0.0 ms tell "] {
                assert!(!line.contains(wrong), "{words:?}: {line}");
            }
        }
    }
}
