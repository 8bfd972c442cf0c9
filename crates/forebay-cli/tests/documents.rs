//! The documents' commands, each run as it stands, and what the pages show of their answers; that pages list what there is;
//! and that no line of help is wider than a terminal.
//!
//! A page's commands are one script in a folder that has small traces called as pages call theirs. `guide.rs` runs those of
//! the guide, `install.rs` and the Python package's tests those that are theirs.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod command;
mod shell;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use command::{Folder, ends, forebay, json, sample};

/// Pages with commands that others run, or that need what no test has.
const ELSEWHERE: [&str; 7] = [
    "README.md",          // as the guide's; and cargo's
    "guide.md",           // guide.rs
    "install.md",         // install.rs
    "measure-a-drive.md", // a drive and hdparm
    "python.md", // test_documents.py has its Python; these are pip's and `forebay.reproduce`'s
    "python-policies.md", // test_laws.py
    "sweep.md",  // pip's, and test_sweep.py
];

/// Columns of a page's answer, and of help.
const COLUMNS: usize = 100;

fn page(name: &str) -> String {
    let folder = if name == "README.md" { "" } else { "docs" };
    fs::read_to_string(shell::root().join(folder).join(name)).unwrap()
}

/// Every page, by its name.
fn pages() -> Vec<String> {
    let entries = fs::read_dir(shell::root().join("docs")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut pages: Vec<String> =
        names.filter(|name| name.ends_with(".md") && name != "README.md").collect();
    pages.push("README.md".into());
    pages.sort();
    pages
}

/// What a page shows of answers: the blocks of text that follow its commands.
fn shown(page: &str) -> Vec<&str> {
    let after = page.split("```sh\n").skip(1).filter_map(|rest| rest.split_once("```\n"));
    after
        .filter_map(|(_, rest)| rest.trim_start().strip_prefix("```text\n"))
        .map(|rest| rest.split("```").next().unwrap())
        .collect()
}

/// A folder with a small trace under each name that pages use, and the bundled one.
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

#[test]
fn the_commands_of_every_page_do_what_it_says() {
    let mut tried = 0;
    for name in pages() {
        let text = page(&name);
        let blocks = shell::blocks(&text);
        if blocks.is_empty() || ELSEWHERE.contains(&&*name) {
            continue;
        }
        let folder = Folder::new();
        prepared(folder.root());
        let run = shell::run(folder.root(), &blocks.join("\n"));
        let printed = run.unwrap_or_else(|said| panic!("{name}:\n{said}"));
        let printed: BTreeSet<&str> = printed.lines().map(str::trim_end).collect();
        for line in shown(&text).iter().flat_map(|block| block.lines()) {
            assert!(printed.contains(line), "{name}: {line:?} is not in its commands' answers");
            assert!(line.chars().count() <= COLUMNS, "{name}: {line}");
        }
        tried += 1;
    }
    assert!(tried >= 10, "{tried}");
    for name in ELSEWHERE {
        assert!(!shell::blocks(&page(name)).is_empty(), "{name} has no commands");
    }
}

/// The verb that the page of the name is about, or what else has none of its own.
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
fn pages_name_every_policy_and_every_format() {
    let policies = [page("policies.md"), page("shaping.md")].concat();
    let (listed, _) = json(&mut forebay(&["policies"]));
    for policy in listed["rows"].as_array().unwrap() {
        let name = policy["policy"].as_str().unwrap();
        if !name.starts_with('(') {
            assert!(policies.contains(&format!("`{name}`")), "docs/policies.md: no {name}");
        }
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
    let lists =
        [&["policies"][..], &["devices"], &["devices", "st1000nm0011"], &["devices", "990-pro"]];
    asked.extend(lists.map(|words| words.iter().map(ToString::to_string).collect()));
    for words in asked {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (said, _) = ends(&mut forebay(&words), 0);
        for line in said.lines() {
            assert!(line.chars().count() <= COLUMNS, "{words:?}: {line}");
        }
    }
}
