//! What an installation holds: the version, completions, manual pages, and where `make install` puts them.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod command;
mod shell;

use std::fs;
use std::process::Command;

use command::{Folder, ends, fails, forebay};

/// What a command prints, if it is there and goes well.
fn said(command: &mut Command) -> Option<String> {
    let output = command.current_dir(env!("CARGO_MANIFEST_DIR")).output().ok()?;
    let text = String::from_utf8(output.stdout).unwrap();
    output.status.success().then(|| text.trim().to_string())
}

#[test]
fn the_version_names_the_commit_of_a_checkout() {
    let (version, _) = ends(&mut forebay(&["--version"]), 0);
    assert_eq!(version, ends(&mut forebay(&["-V"]), 0).0);
    let own = said(Command::new("git").args(["rev-parse", "--show-prefix"]));
    let plain = concat!("forebay ", env!("CARGO_PKG_VERSION"));
    if own.as_deref() != Some("crates/forebay-cli/") {
        assert_eq!(version.trim_end(), plain);
        return;
    }
    let commit = said(Command::new("git").args(["log", "-1", "--abbrev=9", "--format=%h %cs"]));
    assert_eq!(version.trim_end(), format!("{plain} ({})", commit.unwrap()));
}

#[test]
fn completions_name_every_verb() {
    let verbs = shell::verbs();
    assert!(verbs.len() > 30 && verbs.contains(&vec!["plan".into(), "buy".into()]), "{verbs:?}");
    for kind in ["bash", "zsh", "fish"] {
        let (script, _) = ends(&mut forebay(&["completions", kind]), 0);
        for verb in &verbs {
            let name = verb.last().unwrap();
            assert!(script.contains(name), "{kind}: no {verb:?}");
        }
    }
    fails(&mut forebay(&["completions", "cmd"]), 2, &["cmd", "bash", "zsh", "fish"]);
}

/// What bash answers after `words` and Tab.
fn completed(folder: &Folder, words: &[&str]) -> String {
    let words = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
    let text = format!(
        "source <(forebay completions bash)\nCOMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n\
         _forebay forebay \"${{COMP_WORDS[-1]}}\" \"${{COMP_WORDS[-2]}}\"\necho \"${{COMPREPLY[@]}}\""
    );
    shell::run(folder.root(), &text).unwrap()
}

#[test]
fn bash_completes_verbs_and_options() {
    let folder = Folder::new();
    shell::prepared(folder.root());
    let verbs = completed(&folder, &["forebay", ""]);
    for verb in shell::verbs().iter().filter(|verb| verb.len() == 1) {
        assert!(verbs.split_whitespace().any(|word| word == verb[0]), "{verb:?}: {verbs}");
    }
    let options = completed(&folder, &["forebay", "plan", "capacity", "--w"]);
    assert_eq!(options.trim(), "--within");
    assert_eq!(completed(&folder, &["forebay", "describe", "--format", "j"]).trim(), "json");
}

#[test]
fn every_verb_has_a_manual_page() {
    let folder = Folder::new();
    let pages = folder.path("some/man1");
    ends(forebay(&["man"]).arg(&pages), 0);
    let mut names: Vec<String> =
        shell::verbs().iter().map(|verb| format!("forebay-{}.1", verb.join("-"))).collect();
    names.push("forebay.1".to_string());
    for name in &names {
        let page = fs::read_to_string(pages.join(name)).unwrap_or_else(|_| panic!("no {name}"));
        let title = format!(".TH {} 1", name.strip_suffix(".1").unwrap());
        assert!(page.contains(&title) && page.contains(".SH NAME"), "{name}: {page}");
    }
    assert_eq!(fs::read_dir(&pages).unwrap().count(), names.len());
    let file = folder.file("file", "");
    fails(forebay(&["man"]).arg(&file), 1, &["file"]);
}

#[test]
fn make_installs_and_uninstalls_all_of_it() {
    let folder = Folder::new();
    let make = |what: &str| {
        let mut command = Command::new("make");
        command.current_dir(shell::root()).args(["--no-print-directory", what, "PREFIX=/usr"]);
        command.arg(format!("DESTDIR={}", folder.root().display()));
        let binary = assert_cmd::cargo::cargo_bin!("forebay");
        let output = command.arg(format!("BINARY={}", binary.display())).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let files = [
        "usr/bin/forebay",
        "usr/share/bash-completion/completions/forebay",
        "usr/share/zsh/site-functions/_forebay",
        "usr/share/fish/vendor_completions.d/forebay.fish",
        "usr/share/man/man1/forebay.1",
        "usr/share/man/man1/forebay-plan-buy.1",
    ];
    make("install");
    for file in files {
        assert!(fs::metadata(folder.path(file)).is_ok_and(|found| found.len() > 0), "{file}");
    }
    make("uninstall");
    for file in files {
        assert!(!folder.path(file).exists(), "{file}");
    }
}

#[test]
fn the_page_on_installing_does_what_it_says() {
    let folder = Folder::new();
    shell::prepared(folder.root());
    let page = fs::read_to_string(shell::root().join("docs/install.md")).unwrap();
    let blocks = shell::blocks(&page);
    assert_eq!(blocks.len(), 1);
    shell::run(folder.root(), blocks[0]).unwrap();
    assert!(folder.path("forebay.bash").exists() && folder.path("man1/forebay.1").exists());
}

/// The oldest Rust that is promised is not older than what any dependency asks for. That our own code needs no newer one is
/// clippy's to say, and `make msrv`'s.
#[test]
fn no_dependency_needs_a_newer_rust_than_is_promised() {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--format-version=1", "--offline", "--locked"]);
    let known = said(cargo.args(["--filter-platform", "x86_64-unknown-linux-gnu"])).unwrap();
    let known: serde_json::Value = serde_json::from_str(&known).unwrap();
    let number = |text: &str| -> Vec<u32> {
        let parts = text.split('.').chain(["0"]);
        parts.take(3).map(|part| part.parse().unwrap()).collect()
    };
    let packages = known["packages"].as_array().unwrap();
    assert!(packages.len() > 100);
    let promised = number(env!("CARGO_PKG_RUST_VERSION"));
    for package in packages {
        if let Some(needs) = package["rust_version"].as_str() {
            assert!(number(needs) <= promised, "{} needs Rust {needs}", package["name"]);
        }
    }
}
