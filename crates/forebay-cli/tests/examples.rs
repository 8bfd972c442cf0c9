//! The examples at the end of each verb's help, run as they stand, in an order in which each finds what it needs.
//!
//! `/dev/sdX` are files. What needs a disk to capture from or a drive's measurements is held to be understood, no more: it
//! may fail, but not over its words (docs/guide.md's test captures; `device.rs` and forebay-devices fit, import and validate).

use std::fs;
use std::path::Path;

use crate::command::{Folder, ends, forebay, sample};
use crate::shell;

/// Verbs in an order in which each finds what those before it made; all others come after them.
const FIRST: [&str; 15] = [
    "describe",
    "convert",
    "fit",
    "generate",
    "store create",
    "store check",
    "store bench",
    "store serve",
    "store repair",
    "serve",
    "volume create",
    "volume status",
    "volume check",
    "volume grow",
    "volume replace",
];

/// Verbs whose examples are only parsed.
const UNDERSTOOD: [&str; 13] = [
    "attach",
    "capture",
    "control cancel-check",
    "control check",
    "control limit",
    "control reload",
    "control replace",
    "control volume",
    "detach",
    "device import",
    "device probe",
    "device validate",
    "device fit",
];

/// Verbs whose examples need a server, in this order.
const SERVED: [&str; 5] =
    ["top", "control policy", "control start-trace", "control rotate-trace", "control stop-trace"];

/// Returns the examples of a verb.
fn examples(verb: &str) -> Vec<String> {
    let words: Vec<&str> = verb.split(' ').chain(["--help"]).collect();
    let (help, _) = ends(&mut forebay(&words), 0);
    let shown = help.split("\nExamples:\n").nth(1).unwrap_or_else(|| panic!("{verb}: {help}"));
    shown.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_string).collect()
}

/// A folder with a small trace under the names that examples use, and drives.
fn prepare(folder: &Folder) {
    shell::prepared(folder.root());
    let whole = folder.path("whole.csv");
    ends(forebay(&["convert"]).arg(sample()).arg(&whole), 0);
    let rows = fs::read_to_string(&whole).unwrap();
    let some: String = rows.lines().take(1001).map(|line| format!("{line}\n")).collect();
    let some = folder.file("some.csv", some);
    for name in ["mine.parquet", "other.parquet"] {
        ends(forebay(&["convert"]).arg(&some).arg(folder.path(name)), 0);
    }
    shell::run(folder.root(), "gzip -k < some.csv > mine.csv.gz; rm whole.csv some.csv").unwrap();
    fs::create_dir(folder.path("dev")).unwrap();
    for drive in 'b'..='i' {
        let file = fs::File::create(folder.path(&format!("dev/sd{drive}"))).unwrap();
        file.set_len(32 << 20).unwrap();
    }
}

/// Prepares what an example needs.
fn meanwhile(folder: &Path, verb: &str) {
    match verb {
        "volume replace" => fs::rename(folder.join("dev/sdh"), folder.join("dev/gone")).unwrap(),
        "store repair" => fs::rename(folder.join("disk2"), folder.join("gone")).unwrap(),
        _ => {}
    }
}

/// Returns the commands of a verb as one script; a server goes to the background, is waited for and
/// ended.
fn script(verb: &str, lines: &[String]) -> String {
    // Capturing needs a disk, and a device needs the kernel's ublk.
    let needs = ["sudo forebay advise", "sudo forebay serve"];
    let lines = lines.iter().filter(|line| !needs.iter().any(|need| line.starts_with(need)));
    let lines = lines.map(|line| line.replace("/dev/sd", "dev/sd"));
    let each = lines.map(|line| match verb {
        "serve" if line.starts_with("forebay serve") => format!(
            "{line} &\nuntil [ -S disk.sock.control ]; do sleep 0.05; done\n{}\nkill $!; wait $!",
            SERVED.iter().flat_map(|verb| examples(verb)).collect::<Vec<_>>().join("\n")
        ),
        "store serve" if line.starts_with("forebay store serve") => {
            format!("{line} --listen 127.0.0.1:0 2> said &\nuntil grep -q serving said; do sleep 0.05; done\nserver=$!")
        }
        "store serve" => format!(
            "{line} --connect $(grep -o '127.0.0.1:[0-9]*' said | head -n 1)\nkill $server; wait $server"
        ),
        _ => line,
    });
    each.collect::<Vec<_>>().join("\n")
}

#[test]
#[ignore = "slow: make test-full"]
fn every_example_does_what_it_says() {
    let folder = Folder::new();
    prepare(&folder);
    let verbs: Vec<String> = shell::verbs().iter().map(|verb| verb.join(" ")).collect();
    let inner = |verb: &str| verbs.iter().any(|other| other.starts_with(&format!("{verb} ")));
    let rest = verbs.iter().map(String::as_str).filter(|verb| !inner(verb));
    let rest: Vec<&str> =
        rest.filter(|verb| !FIRST.contains(verb) && !SERVED.contains(verb)).collect();
    let run = |verb: &str| {
        meanwhile(folder.root(), verb);
        let text = script(verb, &examples(verb));
        let done = shell::run(folder.root(), &text);
        match UNDERSTOOD.contains(&verb) {
            true => assert!(done.is_ok() || !done.unwrap_err().contains("error: "), "{text}"),
            false => assert!(done.is_ok(), "{text}\n{}", done.unwrap_err()),
        }
    };
    FIRST.into_iter().for_each(run);
    // None of the rest depends on another's output.
    let (some, others) = rest.split_at(rest.len() / 2);
    std::thread::scope(|scope| {
        scope.spawn(|| some.iter().for_each(|verb| run(verb)));
        others.iter().for_each(|verb| run(verb));
    });
    let pages = ["report", "mine", "card", "cache", "shared", "tiers", "power"];
    let pages = pages.map(|page| format!("{page}.html"));
    let others = ["mine.model", "from-pipe.parquet", "man1"];
    for made in pages.iter().map(String::as_str).chain(others) {
        assert!(folder.path(made).exists(), "{made}");
    }
}
