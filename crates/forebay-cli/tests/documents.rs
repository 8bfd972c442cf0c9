//! Runs the commands in the documentation and compares their output with the pages. Also checks
//! that pages list everything that exists, and that no line of help is wider than a terminal.
//!
//! The commands of a page run as one script, in a folder that contains small traces under the names
//! that pages use, and the files that the page itself shows (blocks of TOML whose first line is `#
//! NAME.toml`). The commands of some pages are run by `guide.rs`, `install.rs` or the Python
//! package's tests. Commands that no test can run are marked `console`, and their number is checked
//! here.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use forebay_testing::skipped;

use crate::command::{Folder, ends, forebay, json, sample};
use crate::served::free_port;
use crate::shell;

/// Pages whose commands are run by other tests, or that have requirements no test can meet.
const ELSEWHERE: [&str; 7] = [
    "README.md",          // other tests run these: guide.rs and cargo
    "guide.md",           // guide.rs
    "install.md",         // install.rs
    "measure-a-drive.md", // requires a drive and hdparm
    "python.md",          // test_documents.py runs its Python; the rest is for pip
    "python-policies.md", // test_laws.py
    "sweep.md",           // commands for pip; test_sweep.py
];

/// The number of lines of commands that no test runs, by page.
const NOT_RUN: [(&str, usize); 7] = [
    ("capture.md", 1),        // requires root, a disk and tracing: capture.rs
    ("device-files.md", 2),   // requires a volume to probe: forebay-play
    ("play.md", 7),           // requires real devices: forebay-play
    ("results.md", 4),        // requires a trace that is not in the repository
    ("serve-measured.md", 4), // benchmarks
    ("serve.md", 8),          // requires a VM, ublk and nbd modules, certificates
    ("traces.md", 3),         // requires a kernel with tracing, and a program to trace
];

/// Optional programs. If a program is missing, its commands are skipped.
const CLIENTS: [&str; 5] = ["nbdinfo", "nbdcopy", "qemu-img", "fio", "redis-cli"];

/// The maximum width, in columns, of output on pages and of help.
const COLUMNS: usize = 100;

fn page(name: &str) -> String {
    let folder = if name == "README.md" { "" } else { "docs" };
    fs::read_to_string(shell::root().join(folder).join(name)).unwrap()
}

/// Returns the contents of every page by its name.
fn pages() -> Vec<String> {
    let entries = fs::read_dir(shell::root().join("docs")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut pages: Vec<String> =
        names.filter(|name| name.ends_with(".md") && name != "README.md").collect();
    pages.push("README.md".into());
    pages.sort();
    pages
}

/// Returns the expected output on a page, which is in the text blocks after its commands.
fn shown(page: &str) -> Vec<&str> {
    let after = page.split("```sh\n").skip(1).filter_map(|rest| rest.split_once("```\n"));
    after
        .filter_map(|(_, rest)| rest.trim_start().strip_prefix("```text\n"))
        .map(|rest| rest.split("```").next().unwrap())
        .collect()
}

/// Returns the code blocks on a page: the language of each, and its lines.
fn code(page: &str) -> Vec<(&str, Vec<&str>)> {
    let mut blocks: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut within = false;
    for line in page.lines() {
        match line.trim_start().strip_prefix("```") {
            Some(called) => {
                within = !within;
                if within {
                    blocks.push((called, Vec::new()));
                }
            }
            None if within => blocks.last_mut().unwrap().1.push(line),
            None => assert!(!line.starts_with("    "), "code that does not say what it is: {line}"),
        }
    }
    blocks
}

/// Returns the files that a page shows: blocks that begin with a file name.
fn files(page: &str) -> Vec<(&str, String)> {
    let blocks = code(page).into_iter().filter(|(called, _)| *called == "toml");
    let named = blocks.filter_map(|(_, lines)| {
        let name = lines[0].strip_prefix("# ").filter(|name| name.ends_with(".toml"))?;
        Some((name, lines.join("\n")))
    });
    named.collect()
}

/// Returns a page's text with free ports in place of fixed ones, and without commands of missing
/// programs.
fn fitted(text: &str) -> String {
    let mut fitted = text.to_string();
    let ports: BTreeSet<&str> = text.split("127.0.0.1:").skip(1).map(digits).collect();
    for port in ports.into_iter().filter(|port| port.len() > 3) {
        fitted = fitted.replace(port, &free_port().to_string());
    }
    let missing = CLIENTS.into_iter().filter(|tool| which(tool).is_none());
    for tool in missing {
        let theirs = |line: &&str| line.split_whitespace().next() == Some(tool);
        if fitted.lines().any(|line| theirs(&line)) {
            skipped(&format!("there is no {tool}"));
            fitted = fitted
                .lines()
                .filter(|line| !theirs(line))
                .map(|line| format!("{line}\n"))
                .collect();
        }
    }
    fitted
}

fn digits(text: &str) -> &str {
    text.split(|one: char| !one.is_ascii_digit()).next().unwrap()
}

/// Returns the path of a program, or None if it is not installed.
fn which(tool: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&path).map(|folder| folder.join(tool)).find(|file| file.is_file())
}

/// Fills a folder with a small trace under each name that pages use, and the bundled trace.
fn prepared(folder: &Path) {
    shell::prepared(folder);
    let whole = folder.join("whole.csv");
    ends(forebay(&["convert"]).arg(sample()).arg(&whole), 0);
    let rows = fs::read_to_string(&whole).unwrap();
    let some: String = rows.lines().take(1001).map(|line| format!("{line}\n")).collect();
    for name in ["TRACE", "A", "B"] {
        fs::write(folder.join(name), &some).unwrap();
    }
    fs::remove_file(whole).unwrap();
}

/// Runs the commands of a page and checks that they print the output shown on the page.
fn tried(name: &str, text: &str) {
    let folder = Folder::new();
    prepared(folder.root());
    let commands = shell::blocks(text).join("\n");
    let files = files(text);
    let all: Vec<&str> = files.iter().map(|(_, text)| &**text).chain([&*commands]).collect();
    // Replace ports in commands and files together, so that they get the same ones.
    let fitted = fitted(&all.join("\0"));
    let mut fitted: Vec<&str> = fitted.split('\0').collect();
    let commands = fitted.pop().unwrap();
    for ((file, _), text) in files.iter().zip(fitted) {
        folder.file(file, text);
    }
    let printed = shell::run(folder.root(), commands);
    let printed = printed.unwrap_or_else(|said| panic!("{name}:\n{said}"));
    let printed: BTreeSet<&str> = printed.lines().map(str::trim_end).collect();
    let lines = || shown(text).into_iter().flat_map(str::lines);
    let others: Vec<&str> = lines().filter(|line| !printed.contains(line)).collect();
    assert!(others.is_empty(), "{name}: not in its commands' answers:\n{}", others.join("\n"));
    assert!(lines().all(|line| line.chars().count() <= COLUMNS), "{name}: wider than {COLUMNS}");
}

#[test]
#[ignore = "slow: make test-full"]
fn commands_of_every_page_do_what_the_page_says() {
    let pages: Vec<(String, String)> =
        pages().into_iter().map(|name| (page(&name), name)).collect();
    let tested: Vec<&(String, String)> = pages
        .iter()
        .filter(|(text, name)| !shell::blocks(text).is_empty() && !ELSEWHERE.contains(&&**name))
        .collect();
    assert!(tested.len() >= 16, "{}", tested.len());
    // Pages are tested in parallel, because most of the time is spent waiting.
    std::thread::scope(|scope| {
        for half in tested.chunks(tested.len().div_ceil(2)) {
            scope.spawn(move || half.iter().for_each(|(text, name)| tried(name, text)));
        }
    });
    for name in ELSEWHERE {
        assert!(!shell::blocks(&page(name)).is_empty(), "{name} has no commands");
    }
}

#[test]
fn untested_commands_are_marked_and_counted() {
    let verbs = shell::verbs();
    // `forebay tape 2` is not a command but the first line of a file.
    let is_command = |line: &str| {
        let line = line.rsplit("| ").next().unwrap().trim_start();
        let line = line.strip_prefix("sudo ").unwrap_or(line);
        let verb = line.strip_prefix("forebay ").and_then(|rest| rest.split_whitespace().next());
        verb.is_some_and(|verb| verbs.iter().any(|other| other[0] == verb))
    };
    for name in pages() {
        let text = page(&name);
        let mut not_run = 0;
        for (called, lines) in code(&text) {
            let commands =
                lines.iter().filter(|line| !line.is_empty() && !line.starts_with(['#', ' ']));
            match called {
                "sh" => {}
                "console" => not_run += commands.count(),
                "" => panic!("{name}: a block does not say what it is: {lines:?}"),
                _ => assert!(!lines.iter().any(|line| is_command(line)), "{name}: {lines:?}"),
            }
        }
        let named = NOT_RUN.iter().find(|(page, _)| *page == name).map_or(0, |(_, lines)| *lines);
        assert_eq!(
            not_run, named,
            "{name}: commands that no test runs; make them `sh`, or name them"
        );
    }
}

/// Checks that every verb has a page, and that the index lists every page.
#[test]
fn every_verb_has_a_page_and_every_page_a_line_in_the_index() {
    let index = page("../docs/README.md");
    for name in pages().iter().filter(|name| *name != "README.md") {
        assert!(index.contains(&format!("({name})")), "docs/README.md does not list {name}");
    }
    for verb in shell::verbs().iter().filter(|verb| verb.len() == 1) {
        let listed = format!("`{}`", verb[0]);
        let row = index.lines().find(|line| line.starts_with("| ") && line.contains(&listed));
        assert!(
            row.is_some_and(|row| row.contains(".md)")),
            "docs/README.md: no page for {listed}"
        );
    }
}

#[test]
fn pages_name_every_policy_format_and_type_of_volume() {
    let policies = [page("policies.md"), page("shaping.md")].concat();
    let (listed, _) = json(&mut forebay(&["policies"]));
    for policy in listed["rows"].as_array().unwrap() {
        let name = policy["policy"].as_str().unwrap();
        if !name.starts_with('(') {
            assert!(policies.contains(&format!("`{name}`")), "docs/policies.md: no {name}");
        }
    }
    let volumes = page("device-files.md");
    let types = forebay::devices::volume::list().unwrap();
    for name in types.into_iter().map(|volume| volume.name) {
        assert!(volumes.contains(&format!("`{name}`")), "docs/device-files.md: no {name}");
    }
    let traces = page("traces.md");
    for format in forebay_trace::formats::FORMATS {
        assert!(
            traces.contains(&format!("`{}`", format.name)),
            "docs/traces.md: no {}",
            format.name
        );
    }
}

#[test]
fn no_line_of_help_or_of_a_list_is_wider_than_a_page() {
    let mut all = vec![vec![]];
    all.extend(shell::verbs());
    let mut asked: Vec<Vec<String>> = all
        .iter()
        .flat_map(|verb| ["--help", "-h"].map(|help| [&verb[..], &[help.to_string()]].concat()))
        .collect();
    let lists = [
        &["policies"][..],
        &["policies", "bid", "array"],
        &["devices"],
        &["devices", "st1000nm0011"],
        &["devices", "990-pro"],
    ];
    asked.extend(lists.map(|words| words.iter().map(ToString::to_string).collect()));
    for words in asked {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (said, _) = ends(&mut forebay(&words), 0);
        for line in said.lines() {
            assert!(line.chars().count() <= COLUMNS, "{words:?}: {line}");
        }
    }
}
