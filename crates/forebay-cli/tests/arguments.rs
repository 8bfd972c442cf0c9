//! Tests how errors in arguments are reported: for every verb in one line that begins with
//! `forebay:`, with exit status 2, whoever found the error.

use std::fs;

use crate::command::{Folder, SPC, ends, fails, forebay};
use crate::shell;

/// Asserts that `line` fails with exactly one message.
fn says(folder: &Folder, line: &str, message: &str) {
    let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
    let (out, err) = ends(forebay(&words).current_dir(folder.root()), 2);
    assert_eq!((out.as_str(), err.as_str()), ("", format!("forebay: {message}\n").as_str()));
}

#[test]
fn errors_in_arguments_are_one_line() {
    let folder = Folder::new();
    folder.file("t.spc", SPC);
    for (line, message) in [
        (
            "describe",
            "missing TRACE, as in `forebay describe <TRACE>`; see `forebay describe --help`",
        ),
        (
            "convert t.spc",
            "missing FILE, as in `forebay convert <TRACE> <FILE>`; see `forebay convert --help`",
        ),
        (
            "generate --requests 9",
            "missing --output and MODEL, as in `forebay generate --output <FILE> --requests <N> \
             <MODEL>`; see `forebay generate --help`",
        ),
        (
            "simulate t.spc --polic noop",
            "no option '--polic' (did you mean --policy?); see `forebay simulate --help`",
        ),
        (
            "simulate t.spc --polic=noop",
            "no option '--polic' (did you mean --policy?); see `forebay simulate --help`",
        ),
        (
            "simulate t.spc -format json",
            "no option '-format' (did you mean --format?); see `forebay simulate --help`",
        ),
        (
            "describe t.spc -x",
            "no option '-x', expected `forebay describe [OPTIONS] <TRACE>`; see `forebay describe \
             --help`",
        ),
        ("--verson", "no option '--verson' (did you mean --version?); see `forebay --help`"),
        (
            "describe a b",
            "too many arguments: 'b'; expected `forebay describe [OPTIONS] <TRACE>`; see `forebay \
             describe --help`",
        ),
        (
            "describe a --format xml",
            "--format: got 'xml', expected one of table, json, csv, markdown",
        ),
        (
            "describe a --format jsn",
            "--format: got 'jsn', expected one of table, json, csv, markdown; did you mean json?",
        ),
        (
            "completions cmd",
            "SHELL: got 'cmd', expected one of bash, elvish, fish, powershell, zsh",
        ),
        (
            "simulate a --device",
            "--device: got no value, expected DEVICE; see `forebay simulate --help`",
        ),
        (
            "describe a --format",
            "--format: got no value, expected one of table, json, csv, markdown; see `forebay \
             describe --help`",
        ),
        (
            "describe a --explain=3",
            "--explain: got '3', expected no value; see `forebay describe --help`",
        ),
        ("describe a --format json --format csv", "--format: given more than once; give it once"),
        ("advise a --array x", "--array: got 'x', expected a whole number from 0 to 65535"),
        ("pln", "no command 'pln' (did you mean plan?); `forebay --help` lists all commands"),
        ("sla", "no command 'sla' (did you mean plan sla?); `forebay --help` lists all commands"),
        ("mine.csv", "no command 'mine.csv'; `forebay --help` lists all commands"),
        (
            "plan buyy",
            "no command 'buyy' (did you mean buy?); `forebay plan --help` lists all commands",
        ),
        ("help pln", "no command 'pln' (did you mean plan?); `forebay --help` lists all commands"),
        ("help plan x", "no command 'x'; `forebay plan --help` lists all commands"),
        ("array", "missing command, expected score; see `forebay array --help`"),
    ] {
        says(&folder, line, message);
    }
    fails(&mut forebay(&["describe", "a", "b\nc"]), 2, &["'b c'"]);
    // Devices may be listed with commas, and each of them must exist.
    ends(&mut forebay(&["devices", "sata250,990-pro"]), 0);
    fails(
        &mut forebay(&["devices", "sata250,990-prx"]),
        2,
        &["'990-prx'", "did you mean 990-pro?"],
    );
}

#[test]
fn every_verb_reports_errors_in_its_arguments_in_the_same_form() {
    let verbs = shell::verbs();
    let is_group = |verb: &[String]| {
        verbs.iter().any(|other| other.len() > verb.len() && other.starts_with(verb))
    };
    for verb in &verbs {
        let name = verb.join(" ");
        let words: Vec<&str> = verb.iter().map(String::as_str).collect();
        let see = format!("`forebay {name} --help`");
        fails(forebay(&words).arg("--no-such-option"), 2, &["no option '--no-such-option'", &see]);
        fails(forebay(&words).arg("-%"), 2, &["no option '-%'", &see]);
        if is_group(verb) {
            fails(&mut forebay(&words), 2, &["missing command, expected ", &see]);
            fails(forebay(&words).arg("nosuch"), 2, &["no command 'nosuch'", &see]);
        }
    }
}

/// Otherwise a user who adds the missing option only then learns about the misspelled name.
#[test]
fn what_does_not_exist_is_reported_before_what_is_missing() {
    let folder = Folder::new();
    folder.file("t.spc", SPC);
    let nowhere = "nowhere: No such file or directory (os error 2); check the name and the folder";
    let policy = "no policy 'mq-deadlin' (did you mean mq-deadline?); `forebay policies` lists all";
    let device = "no device 'sata25' (did you mean sata250?); `forebay devices` lists all";
    for (line, message) in [
        ("simulate nowhere", nowhere),
        ("simulate t.spc --policy mq-deadlin", policy),
        ("simulate t.spc --policy noop,mq-deadlin", policy),
        ("simulate t.spc --policy cfq:quantun=2", "no parameter 'quantun' (did you mean quantum?)"),
        ("simulate t.spc --flash sata25", device),
        ("simulate t.spc --policy noop", "--device: got none, expected a device"),
        ("simulate t.spc --device sata250", "--policy: got none, expected at least one"),
        ("retrodict nowhere", nowhere),
        ("retrodict t.spc --policy mq-deadlin", policy),
        ("retrodict t.spc --disks 0", "--disks: got '0', expected a number from 1 to 256"),
        (
            "retrodict t.spc",
            "missing --device, as in `forebay retrodict --device <DEVICE> <TRACE>`",
        ),
        ("offline nowhere", nowhere),
        ("offline t.spc --policy mq-deadlin", policy),
        ("offline t.spc --device sata25", device),
        ("offline t.spc --device nowhere/x.toml", "nowhere/x.toml: No such file"),
        ("offline t.spc --ios 99 --policy noop", "--ios: got '99'"),
        ("compare nowhere", nowhere),
        ("generate nowhere", nowhere),
        ("generate t.spc", "missing --output"),
        ("convert nowhere", nowhere),
        ("capture nowhere", nowhere),
        ("device fit nowhere", nowhere),
        ("device validate sata25", device),
        ("plan sla nowhere", nowhere),
        ("play nowhere", nowhere),
        ("play t.spc --policy mq-deadlin", policy),
        ("play t.spc", "got nothing to play on"),
        ("serve nowhere", "nowhere: no such file"),
        ("serve t.spc --policy mq-deadlin", policy),
        ("serve t.spc", "no address to listen on"),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        fails(forebay(&words).current_dir(folder.root()), 2, &[message]);
    }
}

#[test]
fn the_output_of_convert_can_be_an_option_too() {
    let folder = Folder::new();
    folder.file("t.spc", SPC);
    let lines = [
        "convert t.spc a.csv",
        "convert t.spc -o b.csv",
        "convert -o c.csv t.spc",
        "convert t.spc --output=d.csv",
    ];
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        ends(forebay(&words).current_dir(folder.root()), 0);
    }
    let written = ["a.csv", "b.csv", "c.csv", "d.csv"].map(|name| fs::read(folder.path(name)));
    let written = written.map(Result::unwrap);
    assert!(written.iter().all(|one| *one == written[0]));
    let both = ["convert", "t.spc", "e.csv", "-o", "f.csv"];
    let parts = ["cannot be combined with", "FILE", "--output"];
    fails(forebay(&both).current_dir(folder.root()), 2, &parts);
    assert!(!folder.path("e.csv").exists() && !folder.path("f.csv").exists());
}

#[test]
fn unknown_names_are_not_followed_by_long_lists() {
    let folder = Folder::new();
    folder.file("t.spc", SPC);
    for (line, parts) in [
        ("devices samsung-831", &["(did you mean samsung-830?); `forebay devices` lists all"][..]),
        (
            "devices floppy",
            &["expected a name that `forebay devices` lists, fixed:RATE or a .toml"],
        ),
        ("policies bids", &["(did you mean bid?); `forebay policies` lists all"]),
        ("policies elevator", &["no policy 'elevator'; `forebay policies` lists all"]),
        ("formats msrr", &["(did you mean msr?); `forebay formats` lists all"]),
        ("formats nothing-like-it", &["'nothing-like-it'; `forebay formats` lists all"]),
        ("describe t.spc --from msrr", &["`forebay formats` lists"]),
        ("advise t.spc --current mq-deadlin", &["did you mean mq-deadline?", "lists all"]),
        ("advise t.spc --current elevator", &["expected a scheduler, one of noop, clook"]),
        ("plan volume t.spc --type gp9", &["(did you mean gp3?); `forebay devices` lists all"]),
        ("plan volume t.spc --type tape", &["a type that `forebay devices` lists, or a file"]),
        ("plan volume t.spc --current gp9", &["(did you mean gp3?)", "`forebay devices` lists"]),
        ("plan volume t.spc --current tape", &["no volume type 'tape'; `forebay devices` lists"]),
        ("store simulate sata25", &["(did you mean sata250?)"]),
        ("array score sata25", &["(did you mean sata250?)"]),
        ("plan buy t.spc --device sata25", &["(did you mean sata250?)"]),
        ("simulate t.spc --device samsung-830:filed=1 --policy noop", &["no parameter 'filed'"]),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let mut command = forebay(&words);
        let command = command.current_dir(folder.root());
        fails(command, 2, parts);
        let (_, said) = ends(command, 2);
        assert!(said.len() < 200, "{line}: {said}");
    }
}

#[test]
fn without_arguments_the_help_is_shown() {
    let (out, err) = ends(&mut forebay(&[]), 2);
    assert_eq!(out, "");
    assert!(err.contains("Commands:\n") && err.contains("simulate"), "{err}");
    for line in ["--help", "--version", "help", "plan --help", "help plan sla"] {
        let (out, err) = ends(&mut forebay(&line.split(' ').collect::<Vec<_>>()), 0);
        assert!(!out.is_empty() && err.is_empty(), "{line}: {err}");
    }
}
