//! Checks the rules in `deny.toml` for every dependency, as far as possible without the network and
//! cargo-deny: its license is allowed, it comes from the registry, and its version is not a
//! wildcard. `make audit` also checks security advisories.

use std::process::Command;

use forebay_testing::skipped;
use serde_json::Value;

use crate::shell;

/// Returns cargo's metadata about the dependencies in the lock file. If cargo cannot provide it, as
/// in a package without the sources of its dependencies, reports it and returns `None`.
fn metadata() -> Option<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let words = ["metadata", "--offline", "--locked", "--format-version", "1"];
    let output = Command::new(cargo).args(words).current_dir(shell::root()).output().unwrap();
    if !output.status.success() {
        skipped(&format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr)));
        return None;
    }
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// Returns the licenses that `deny.toml` allows.
fn allowed() -> Vec<String> {
    let text = std::fs::read_to_string(shell::root().join("deny.toml")).unwrap();
    let list = text.split_once("allow = [").unwrap().1.split_once(']').unwrap().0;
    list.split(',')
        .map(|name| name.trim().trim_matches('"').to_string())
        .filter(|name| !name.is_empty())
        .collect()
}

/// Returns whether an SPDX expression can be satisfied with `allowed` licenses. `/` is an old
/// notation for OR, and AND binds more tightly.
fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    let mut text = expression.replace('/', " OR ");
    while let Some(open) = text.rfind('(') {
        let close = open + text[open..].find(')').unwrap_or_else(|| panic!("{expression}"));
        let inner = if is_allowed(&text[open + 1..close], allowed) { "yes" } else { "no" };
        text.replace_range(open..=close, inner);
    }
    let one =
        |name: &str| name.trim() == "yes" || allowed.iter().any(|allowed| allowed == name.trim());
    text.split(" OR ").any(|all| all.split(" AND ").all(one))
}

#[test]
fn expressions_are_understood() {
    let allowed = ["MIT", "Zlib"].map(String::from);
    for (expression, is) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("GPL-3.0 OR MIT", true),
        ("GPL-3.0/MIT", true),
        ("GPL-3.0 AND MIT", false),
        ("MIT AND Zlib", true),
        ("(GPL-3.0 OR MIT) AND Zlib", true),
        ("(GPL-3.0 OR LGPL-2.1) AND Zlib", false),
        ("GPL-3.0 OR MIT AND Zlib", true),
        ("MIT WITH exception", false),
    ] {
        assert_eq!(is_allowed(expression, &allowed), is, "{expression}");
    }
}

#[test]
fn every_dependency_has_an_accepted_license_and_comes_from_the_registry() {
    let Some(metadata) = metadata() else { return };
    let (allowed, members) = (allowed(), metadata["workspace_members"].as_array().unwrap());
    assert!(allowed.len() > 5, "{allowed:?}");
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 100);
    for package in packages {
        let name = format!("{} {}", package["name"], package["version"]);
        let licence =
            package["license"].as_str().unwrap_or_else(|| panic!("{name} names no licence"));
        assert!(is_allowed(licence, &allowed), "{name}: {licence} is not among those of deny.toml");
        let source = package["source"].as_str();
        if members.contains(&package["id"]) {
            assert_eq!(source, None, "{name}");
            for needs in package["dependencies"].as_array().unwrap() {
                assert!(
                    needs["req"] != "*" || needs["path"].is_string(),
                    "{name}: any {}",
                    needs["name"]
                );
            }
        } else {
            let of_registry = source.is_some_and(|source| source.starts_with("registry+"));
            assert!(of_registry, "{name} comes from {source:?}, expected the registry");
        }
    }
}

/// Returns every dependency with its version and features. If cargo cannot provide them, prints a
/// message and returns `None`.
fn features(of: &[&str]) -> Option<Vec<String>> {
    let all = ["--edges", "normal,build,dev"];
    tree(&[of, &all].concat())
}

/// Returns the lines of `cargo tree` with the options `of`.
fn tree(of: &[&str]) -> Option<Vec<String>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let words = ["tree", "--offline", "--locked", "--prefix", "none", "--format", "{p} {f}"];
    let mut command = Command::new(cargo);
    let output = command.args(words).args(of).current_dir(shell::root()).output().unwrap();
    if !output.status.success() {
        skipped(&format!("cargo tree: {}", String::from_utf8_lossy(&output.stderr)));
        return None;
    }
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().map(|line| line.replace(" (*)", "").replace(" (proc-macro)", ""));
    Some(lines.filter(|line| !line.is_empty() && !line.contains(" (/")).collect())
}

/// Only the Python package needs Arrow. With Arrow, building the command took a fifth longer and
/// its code was a third larger.
#[test]
fn the_command_is_built_without_arrow() {
    for edges in ["normal,build", "normal,build,dev"] {
        let of = ["-p", "forebay-cli", "--edges", edges];
        let Some(all) = tree(&of) else { return };
        assert!(all.iter().any(|line| line.starts_with("parquet v")), "{all:?}");
        let is_arrow =
            |line: &&String| line.starts_with("arrow") || line.starts_with("flatbuffers");
        assert_eq!(all.iter().find(is_arrow), None);
    }
}

/// Otherwise, testing one crate would rebuild proptest and similar crates with other features, and
/// `make quick` would be slow. Two crates are not checked because they have almost no dependencies.
#[test]
fn the_tests_of_one_crate_build_every_dependency_as_those_of_all_do() {
    let Some(all) = features(&["--workspace"]) else { return };
    assert!(all.len() > 100);
    let crates = [
        "", "-cli", "-devices", "-fuzz", "-live", "-model", "-play", "-py", "-serve", "-store",
        "-trace", "-volume",
    ];
    for name in crates.map(|rest| format!("forebay{rest}")) {
        let own = features(&["-p", &name]).unwrap();
        assert!(own.len() > 20, "{name}");
        for line in own {
            assert!(all.contains(&line), "{name}: crates/forebay-testing/Cargo.toml lacks {line}");
        }
    }
}

/// Returns the quoted words of every list that follows `mark` in `text`.
fn listed<'a>(text: &'a str, mark: &str) -> Vec<&'a str> {
    let lists = text.split(mark).skip(1).filter_map(|rest| rest.split_once(']'));
    lists.flat_map(|(list, _)| list.split('"').skip(1).step_by(2)).collect()
}

/// `make needs` must install every program that tests and pages use if it is available. Otherwise,
/// a machine that is set up to run all tests would skip some.
#[test]
fn make_installs_every_program_that_a_test_may_skip() {
    let root = shell::root();
    let makefile = std::fs::read_to_string(root.join("Makefile")).unwrap();
    let needs = makefile.split_once("\nOPTIONAL := ").unwrap().1.split_once("\n\n").unwrap().0;
    let installed: Vec<&str> = needs
        .split_whitespace()
        .filter_map(|each| each.split_once(':'))
        .flat_map(|(_, of)| of.split(','))
        .collect();
    let mut used = vec!["redis-benchmark", "blkparse", "btt", "script", "setpriv"];
    let tests = root.join("crates/forebay-cli/tests");
    let files = std::fs::read_dir(tests).unwrap().map(|entry| entry.unwrap().path());
    let texts: Vec<String> = files
        .filter(|path| path.is_file() && !path.ends_with("dependencies.rs"))
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    for text in &texts {
        used.extend(listed(text, "have(&["));
        // The type of a named constant also contains brackets, so skip it.
        for named in ["const CLIENTS: [&str;", "const TOOLS: [&str;"] {
            used.extend(text.split(named).skip(1).flat_map(|rest| {
                let list = rest.split_once('=').map_or("", |(_, list)| list);
                list.split(']').next().unwrap().split('"').skip(1).step_by(2)
            }));
        }
    }
    assert!(used.len() > 20 && installed.len() > 15, "{used:?} {installed:?}");
    for program in used.into_iter().filter(|program| *program != "python3") {
        assert!(installed.contains(&program), "the Makefile's `needs` does not install {program}");
    }
}
