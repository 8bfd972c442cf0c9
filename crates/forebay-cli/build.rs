//! What `forebay --version` prints after the version: in an optimized build from a checkout or worktree of Forebay, the commit and
//! its date. A package from a registry, a tarball, and sources inside another project's repository have no commit. A debug build
//! does not name its commit, because Cargo compiles the command again whenever this script has run: the command would be built
//! anew after each commit, `git switch` or rebase, though none of its code had changed.

use std::path::Path;
use std::process::Command;

/// The location of this crate in its own repository; anywhere else it differs, as in packages under
/// `target/`.
const PREFIX: &str = "crates/forebay-cli/";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let version = env!("CARGO_PKG_VERSION");
    let build = match std::env::var("PROFILE").as_deref() {
        Ok("debug") => Some("debug build".to_string()),
        _ => commit(),
    };
    let version = match build {
        Some(build) => format!("{version} ({build})"),
        None => version.to_string(),
    };
    println!("cargo::rustc-env=FOREBAY_VERSION={version}");
}

/// Returns the commit's short name and its date.
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

/// Returns git's output, or `None` if git is missing or fails.
fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_string()).filter(|text| !text.is_empty())
}
