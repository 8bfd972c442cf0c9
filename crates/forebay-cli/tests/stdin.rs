//! Tests `-` as the name of a trace, for every verb that accepts it. The answer must equal that for
//! a file, whether the data comes from a pipe, a socket or a redirected file.

use std::fs;

use serde_json::Value;

use crate::command::{Folder, ends, forebay, sample};
use crate::served::have;
use crate::shell;

/// Creates a folder with 300 requests as SPC and as Parquet with latencies, both longer than a
/// pipe's buffer, and the other files that verbs need.
fn folder() -> Folder {
    let folder = Folder::new();
    shell::prepared(folder.root());
    let place = |n: u32| n * 977 % 5000 * 8;
    let line = |n: u32| format!("0,{},4096,R,{:.3}\n", place(n), f64::from(n) / 50.0);
    folder.file("t.spc", (0..300).map(line).collect::<String>());
    let row = |n: u32| format!("{},read,{},4096,5000\n", n * 20_000, place(n) * 512);
    let rows = (0..300).map(row).collect::<String>();
    let timed = folder.file("t.csv", format!("at_us,op,offset,len,latency_us\n{rows}"));
    folder.file("tiers.toml", "[[tier]]\nfraction = 1\nwithin_ms = 100\n");
    ends(forebay(&["convert"]).arg(timed).arg(folder.path("t.parquet")), 0);
    folder
}

/// The arguments of every verb that reads a trace, if it needs more than the trace. `@` stands for
/// the trace.
const ASKED: &[&str] = &[
    "advise @ -o r.html",
    "simulate @ --device sata250 --policy noop",
    "compare @ t.spc",
    "compare t.spc @",
    "fit @ -o m.model",
    "retrodict @ --device sata250",
    "offline @ --device sata250:plain --policy noop --windows 2 --ios 4",
    "plan capacity @ --within 10ms",
    "plan consolidate @ t.spc --within 10ms --fraction 0.9",
    "plan sla tiers.toml @",
    "plan power @ --device st1000nm0011 --epoch 30s",
    "plan volume @ --within 50ms --type gp3",
    "plan buy @ t.spc --within 100ms --fraction 0.9 --device hc550 --devices-max 2",
    "convert @ out.csv",
    "play @ --emulate fixed:1000 --policy noop --for 100ms",
];

/// Returns a command of every verb that reads a trace, with `@` for the trace.
pub(crate) fn reading() -> Vec<String> {
    let verbs = shell::verbs();
    let is_group = |verb: &[String]| {
        verbs.iter().any(|other| other.len() > verb.len() && other.starts_with(verb))
    };
    let mut all: Vec<String> = ASKED.iter().map(ToString::to_string).collect();
    for verb in verbs.iter().filter(|verb| !is_group(verb)) {
        let name = verb.join(" ");
        let words: Vec<&str> = verb.iter().map(String::as_str).chain(["--help"]).collect();
        let help = ends(&mut forebay(&words), 0).0;
        let usage = help.lines().find(|line| line.starts_with("Usage:")).unwrap();
        let usage = usage.replace("--output <TRACE>", "");
        // `device` reads measurements of a drive, which are not traces of a workload.
        let takes = ["TRACE", "<A>"].iter().any(|word| usage.contains(word)) && verb[0] != "device";
        let is_asked = ASKED.iter().any(|asked| asked.starts_with(&format!("{name} ")));
        assert!(takes || !is_asked, "{name}");
        all.extend((takes && !is_asked).then(|| format!("{name} @")));
    }
    all
}

/// Removes the speed of this run from an answer.
fn answer(text: &str) -> Value {
    fn timeless(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.remove("simulated_requests_per_s");
                fields.values_mut().for_each(timeless);
            }
            Value::Array(items) => items.iter_mut().for_each(timeless),
            _ => {}
        }
    }
    let mut answer = serde_json::from_str(text).unwrap();
    timeless(&mut answer);
    answer
}

#[test]
fn standard_input_gives_the_same_answers_as_a_file() {
    let folder = folder();
    let run = |text: &str| shell::run(folder.root(), text).unwrap();
    // Make the trace's name equal in both answers.
    let named = |text: &str| text.replace("/dev/stdin", "stdin").replace("stdin", "t.parquet");
    for asked in reading() {
        let words = |trace: &str| format!("forebay {}", asked.replace('@', trace));
        if asked.starts_with("convert") {
            run(&format!("cat t.parquet | {}; mv out.csv piped.csv", words("-")));
            run(&words("t.parquet"));
            run("cmp out.csv piped.csv");
            continue;
        }
        let of_file = run(&format!("{} --format json", words("t.parquet")));
        for from in ["cat t.parquet |", "<t.parquet"] {
            let piped = run(&format!("{from} {} --format json", words("-")));
            // How far a run in real time gets depends on the machine.
            if !asked.starts_with("play") {
                assert_eq!(answer(&named(&piped)), answer(&named(&of_file)), "{from} {asked}");
            }
        }
    }
}

/// A command must not consume standard input that it does not need: otherwise, a shell loop such as
/// `while read name; do ...` would end after one round.
#[test]
fn standard_input_is_read_only_on_request() {
    let folder = folder();
    let text = "printf 't.spc\nt.parquet\n' | while read -r name; do forebay describe $name >/dev/null; echo $name; done";
    assert_eq!(shell::run(folder.root(), text).unwrap(), "t.spc\nt.parquet\n");
}

/// The data is larger than a pipe or a buffer. Some programs use a socket as a pipe.
#[test]
fn standard_input_is_read_to_its_end() {
    let folder = Folder::new();
    shell::prepared(folder.root());
    let lines: String =
        (0..200_000).map(|n| format!("0,{},4096,R,{n}.5\n", n % 5000 * 8)).collect();
    folder.file("long.spc", lines);
    let sock = "import socket, subprocess\n\
                ours, theirs = socket.socketpair()\n\
                child = subprocess.Popen(['forebay', 'describe', '-', '--format', 'csv'], stdin=theirs)\n\
                theirs.close()\nours.sendall(open('long.spc', 'rb').read())\nours.close()\n\
                raise SystemExit(child.wait())\n";
    folder.file("sock.py", sock);
    let of_file = shell::run(folder.root(), "forebay describe long.spc --format csv").unwrap();
    assert!(of_file.contains(",200000,"), "{of_file}");
    for text in ["cat long.spc | forebay describe - --format csv", "python3 sock.py"] {
        assert_eq!(shell::run(folder.root(), text).unwrap(), of_file, "{text}");
    }
}

#[test]
fn words_beside_the_dash_stay_as_they_are() {
    let folder = folder();
    // File names may contain spaces and invalid UTF-8. An empty option is rejected.
    let text = "cat t.spc | forebay convert - $'a b\\xff.csv' >/dev/null && test -s $'a b\\xff.csv' && ls a*.csv | wc -l\n\
                cat t.spc | forebay describe - --from '' 2>&1 || echo refused";
    let said = shell::run(folder.root(), text).unwrap();
    assert!(said.starts_with("1\n") && said.ends_with("refused\n"), "{said}");
    let (folder, trace) = (folder.root(), fs::read(folder.path("t.spc")).unwrap());
    let refused = shell::run(folder, "forebay convert - t.spc --to csv < t.spc").unwrap_err();
    assert!(refused.contains("an input file, /dev/stdin, as the output"), "{refused}");
    assert_eq!(fs::read(folder.join("t.spc")).unwrap(), trace);
}

#[test]
fn truncated_input_and_a_full_temporary_folder_are_reported() {
    let folder = folder();
    let sample = sample();
    let cases = [
        ("head -c 1000 t.parquet | forebay describe -", 2, "/dev/stdin: got a Parquet error"),
        (
            "gzip < t.spc | head -c 500 | forebay describe -",
            2,
            "/dev/stdin: the gzip stream is truncated",
        ),
        ("forebay describe - < .", 2, "/dev/stdin: got a folder"),
        ("forebay describe - <&-", 2, "/dev/stdin: got an empty file"),
        ("cat t.spc | TMPDIR=$PWD/none forebay describe -", 2, "/none: got No such file"),
        ("cat t.spc | TMPDIR=$PWD/none forebay describe -", 2, "set TMPDIR to another folder"),
        (
            "touch a.blktrace.0; tar cf set.tar a.blktrace.0; TMPDIR=$PWD/none forebay describe set.tar",
            2,
            "/none: got No such file",
        ),
        // A limit on the file size simulates a full disk.
        ("cat 'SAMPLE' | (ulimit -f 4; forebay describe -)", 1, "File too large"),
        ("cat 'SAMPLE' | (ulimit -f 4; forebay describe -)", 1, "standard input is copied to "),
    ];
    for (text, status, part) in cases {
        let text = text.replace("SAMPLE", &sample.display().to_string());
        let told = format!("set +e +o pipefail; said=$({text} 2>&1); echo \"$? $said\"");
        let said = shell::run(folder.root(), &told).unwrap();
        assert!(said.starts_with(&format!("{status} forebay: ")), "{text}: {said}");
        assert!(said.contains(part) && said.lines().count() == 1, "{text}: {said}");
    }
}

#[test]
fn the_bundled_trace_needs_no_folder_for_temporary_files() {
    let folder = folder();
    let text = "TMPDIR=$PWD/none forebay advise --format json";
    let said = shell::run(folder.root(), text).unwrap();
    let answer: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert!(answer["trace"].as_str().unwrap().contains("TeraSort"), "{answer}");
    assert!(answer["headline"].as_str().unwrap().len() > 20, "{answer}");
}

#[test]
fn a_terminal_is_rejected_as_a_trace() {
    if !have(&["script"]) {
        return;
    }
    let folder = folder();
    let text = "script -qec 'timeout 120 forebay describe -' /dev/null < /dev/null || true";
    let said = shell::run(folder.root(), text).unwrap();
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("/dev/stdin: got a terminal, expected a trace"), "{said}");
}
