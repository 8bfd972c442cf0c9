//! Tests how errors in arguments are reported: for every verb in one line that begins with
//! `forebay:`, with exit status 2, whoever found the error.

use crate::command::{Folder, SPC, ends, fails, forebay};
use crate::shell;

/// Asserts that `line` fails with exactly one message.
fn says(line: &str, message: &str) {
    let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
    let (out, err) = ends(&mut forebay(&words), 2);
    assert_eq!((out.as_str(), err.as_str()), ("", format!("forebay: {message}\n").as_str()));
}

#[test]
fn errors_in_arguments_are_one_line() {
    for (line, message) in [
        ("describe", "missing TRACE, as in `forebay describe <TRACE>`; see `forebay describe --help`"),
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
        ("completions csh", "SHELL: got 'csh', expected one of bash, elvish, fish, powershell, zsh"),
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
        (
            "describe a --format json --format csv",
            "--format: given more than once; give it once",
        ),
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
        ("array", "missing command, expected one of score; see `forebay array --help`"),
    ] {
        says(line, message);
    }
    fails(&mut forebay(&["describe", "a", "b\nc"]), 2, &["'b c'"]);
}

#[test]
fn every_verb_reports_errors_in_its_arguments_in_the_same_form() {
    let verbs = shell::verbs();
    let is_group = |verb: &[String]| verbs.iter().any(|other| other.len() > verb.len() && other.starts_with(verb));
    for verb in &verbs {
        let name = verb.join(" ");
        let words: Vec<&str> = verb.iter().map(String::as_str).collect();
        let see = format!("`forebay {name} --help`");
        fails(forebay(&words).arg("--no-such-option"), 2, &["no option '--no-such-option'", &see]);
        fails(forebay(&words).arg("-%"), 2, &["no option '-%'", &see]);
        if is_group(verb) {
            fails(&mut forebay(&words), 2, &["missing command, expected one of ", &see]);
            fails(forebay(&words).arg("nosuch"), 2, &["no command 'nosuch'", &see]);
        }
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
