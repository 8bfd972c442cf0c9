//! Checks that docs/policy-parameters.md matches the output of `forebay policies`. With `UPDATE=1`,
//! rewrites the page.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::command::{ends, forebay, json};

const BEGINNING: &str = "\
# Parameters of policies

Select a policy with `--policy NAME:KEY=VALUE:KEY=VALUE`, also in Python and in a server's configuration. The tables
show each parameter with its default; the default of a choice is its first value. Capitals mean that there is no default.
`forebay policies NAME` shows the same information in the terminal. [policies.md](policies.md) describes what the
policies do and when to use them. Names and units of Linux's sysfs are accepted too: `mq-deadline:fifo_batch=32`,
`bfq:slice_idle_us=2000`, `nr_requests`.
";

/// Kinds of policies that accept shared parameters in addition to their own.
const SHARED: [(&str, &str); 2] = [
    ("scheduler", "All schedulers, and `tier-lba`, `bid-hybrid`, `sptf`"),
    ("shaper", "All shapers"),
];

fn table(page: &mut String, shown: &[&Value], described: &[&Value]) {
    page.push_str("\n| parameter | what it does |\n|---|---|\n");
    for (shown, parameter) in shown.iter().zip(described) {
        let shown = shown.as_str().unwrap().replace('|', "\\|");
        let about = parameter["about"].as_str().unwrap();
        writeln!(page, "| `{shown}` | {about} |").unwrap();
    }
}

fn list<'a>(policy: &'a Value, key: &str) -> Vec<&'a Value> {
    policy[key].as_array().unwrap().iter().collect()
}

fn page() -> String {
    let (all, _) = json(&mut forebay(&["policies"]));
    let rows = list(&all, "rows");
    let mut page = BEGINNING.to_string();
    for policy in &rows {
        let (own, described) = (list(policy, "parameters"), list(policy, "described"));
        if !own.is_empty() {
            write!(page, "\n## `{}`\n", policy["policy"].as_str().unwrap()).unwrap();
            table(&mut page, &own, &described[..own.len()]);
        }
    }
    for (kind, title) in SHARED {
        let one = rows.iter().find(|policy| policy["kind"] == kind).unwrap();
        let (own, described) = (list(one, "parameters").len(), list(one, "described"));
        write!(page, "\n## {title}\n").unwrap();
        table(&mut page, &list(one, "parameters_of_kind"), &described[own..]);
    }
    page
}

#[test]
fn the_parameter_page_matches_the_command() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/policy-parameters.md");
    let is = page();
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, is).unwrap();
    } else {
        let stands = fs::read_to_string(&path).unwrap();
        assert_eq!(is, stands, "docs/policy-parameters.md: UPDATE=1 writes it anew");
    }
}

#[test]
fn every_parameter_has_a_description() {
    let (all, _) = json(&mut forebay(&["policies"]));
    for policy in list(&all, "rows") {
        let own = [list(policy, "parameters"), list(policy, "parameters_of_kind")].concat();
        let described = list(policy, "described");
        assert_eq!(own.len(), described.len(), "{policy}");
        for (shown, parameter) in own.iter().zip(described) {
            let about = parameter["about"].as_str().unwrap();
            assert!(about.len() > 10 && !about.ends_with('.'), "{parameter}");
            let key = shown.as_str().unwrap().split('=').next();
            assert_eq!(parameter["parameter"].as_str(), key);
            let default = parameter["default"].as_str().unwrap();
            let choices = list(parameter, "choices");
            assert!(choices.is_empty() || choices[0] == default, "{parameter}");
        }
    }
}

#[test]
fn known_policies_are_described_and_others_rejected() {
    let (said, _) = ends(&mut forebay(&["policies", "bid", "fcfs", "--explain"]), 0);
    for part in [
        "bid: BID-HDD",
        "--policy NAME:KEY=VALUE",
        "wait-ms=5 ",
        "staging-limit=yes|no",
        "request-max-kib=512",
        "fcfs: first come",
        "delta-ms=10",
    ] {
        assert!(said.contains(part), "no {part}:\n{said}");
    }
    let (_, wrong) = ends(&mut forebay(&["policies", "noop", "bids"]), 2);
    let said = "no policy 'bids' (did you mean bid?); `forebay policies` lists all";
    assert!(wrong.contains(said), "{wrong}");
}
