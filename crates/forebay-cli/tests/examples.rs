//! Runs the examples at the end of each verb's help, in an order in which every example finds the
//! files that it needs.
//!
//! `/dev/sdX` are files here. Examples that need a disk to capture from, or measurements of a
//! drive, may fail, but only after their arguments were accepted. (The test of docs/guide.md
//! captures; `device.rs` and forebay-devices fit, import and validate.)

use std::fs;
use std::path::Path;

use crate::command::{Folder, ends, forebay, sample};
use crate::shell;

/// Verbs that must run first, in this order, because each uses files created by earlier ones.
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

/// Verbs whose examples may fail, but not because of their arguments.
const UNDERSTOOD: [&str; 17] = [
    "attach",
    "capture",
    "control cancel-check",
    "control check",
    "control drain",
    "control grow",
    "control limit",
    "control reload",
    "control remove",
    "control replace",
    "control volume",
    "detach",
    "device import",
    "device probe",
    "device validate",
    "device fit",
    "volume remove",
];

/// Verbs whose examples need a running server, in this order.
const SERVED: [&str; 5] =
    ["top", "control policy", "control start-trace", "control rotate-trace", "control stop-trace"];

/// Returns the examples in the help of a verb.
fn examples(verb: &str) -> Vec<String> {
    let words: Vec<&str> = verb.split(' ').chain(["--help"]).collect();
    let (help, _) = ends(&mut forebay(&words), 0);
    let shown = help.split("\nExamples:\n").nth(1).unwrap_or_else(|| panic!("{verb}: {help}"));
    shown.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_string).collect()
}

/// Fills a folder with drives, and with a small trace under each name that the examples use.
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

/// Creates what the examples of a verb need.
fn meanwhile(folder: &Path, verb: &str) {
    match verb {
        "volume replace" => fs::rename(folder.join("dev/sdh"), folder.join("dev/gone")).unwrap(),
        "store repair" => fs::rename(folder.join("disk2"), folder.join("gone")).unwrap(),
        _ => {}
    }
}

/// Returns the examples of a verb as one script. A server runs in the background; the script waits
/// for its socket, runs its clients and then stops it.
fn script(verb: &str, lines: &[String]) -> String {
    // Skip these: capturing needs a disk, and a block device needs the kernel's ublk driver.
    let needs = ["sudo forebay advise", "sudo forebay serve"];
    let lines = lines.iter().filter(|line| !needs.iter().any(|need| line.starts_with(need)));
    let lines = lines.map(|line| line.replace("/dev/sd", "dev/sd"));
    let each = lines.map(|line| match verb {
        "serve" if line.starts_with("forebay serve") => format!(
            "{line} &\nuntil forebay top disk.sock --format json >/dev/null 2>&1; do sleep 0.05; done\n{}\nkill $!; wait $!",
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
    let is_understood = |said: &str| {
        !["forebay: --", "forebay: missing ", " --help`"].iter().any(|part| said.contains(part))
    };
    let run = |verb: &str| {
        meanwhile(folder.root(), verb);
        let text = script(verb, &examples(verb));
        let done = shell::run(folder.root(), &text);
        match UNDERSTOOD.contains(&verb) {
            true => assert!(done.is_ok() || is_understood(&done.unwrap_err()), "{text}"),
            false => assert!(done.is_ok(), "{text}\n{}", done.unwrap_err()),
        }
    };
    FIRST.into_iter().for_each(run);
    // The remaining examples do not depend on each other, so half of them can run in parallel.
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
