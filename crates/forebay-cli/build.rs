//! The commit that `forebay --version` names: that of a checkout or worktree of Forebay. A package from a registry, a tarball, and
//! sources that lie in somebody else's repository have none, and the version stands alone.

use std::path::Path;
use std::process::Command;

/// Where this crate lies in its own repository; in any other it lies elsewhere, as packages under `target/` do.
const PREFIX: &str = "crates/forebay-cli/";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let version = env!("CARGO_PKG_VERSION");
    let version = match commit() {
        Some(commit) => format!("{version} ({commit})"),
        None => version.to_string(),
    };
    println!("cargo::rustc-env=FOREBAY_VERSION={version}");
}

/// The commit's short name and its date.
fn commit() -> Option<String> {
    if git(&["rev-parse", "--show-prefix"])? != PREFIX {
        return None;
    }
    watch();
    git(&["log", "-1", "--abbrev=9", "--format=%h %cs"])
}

/// Has this run again when another commit is checked out or made.
fn watch() {
    let branch = git(&["symbolic-ref", "-q", "HEAD"]);
    let names = ["HEAD", "logs/HEAD", "packed-refs"].into_iter().chain(branch.as_deref());
    for path in names.filter_map(|name| git(&["rev-parse", "--git-path", name])) {
        // A path that is not there would have it run each time.
        if Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}

/// What git answers here; nothing where there is no git, or it refuses.
fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_string()).filter(|text| !text.is_empty())
}
