//! Determines what `forebay --version` prints after the version. In an optimized build from a
//! checkout or worktree of Forebay, this is the commit and its date. A package from a registry, a
//! tarball, or sources inside another project's repository have no commit. A debug build does not
//! name its commit, because Cargo recompiles the command whenever this script has run: otherwise,
//! each commit, `git switch` or rebase would cause a rebuild even if no code had changed.

use std::path::Path;
use std::process::Command;

/// The path of this crate within its own repository. Elsewhere, for example in packages under
/// `target/`, the path differs.
const PREFIX: &str = "crates/forebay-cli/";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let version = env!("CARGO_PKG_VERSION");
    let build = match std::env::var("PROFILE").as_deref() {
        Ok("debug") => Some("debug build".to_string()),
        _ => commit().or_else(given),
    };
    let version = match build {
        Some(build) => format!("{version} ({build})"),
        None => version.to_string(),
    };
    println!("cargo::rustc-env=FOREBAY_VERSION={version}");
}

/// Returns the short name and the date of the current commit.
fn commit() -> Option<String> {
    if git(&["rev-parse", "--show-prefix"])? != PREFIX {
        return None;
    }
    watch();
    git(&["log", "-1", "--abbrev=9", "--format=%h %cs"])
}

/// Returns what the Dockerfile passes, because the image has no checkout.
fn given() -> Option<String> {
    println!("cargo::rerun-if-env-changed=FOREBAY_COMMIT");
    std::env::var("FOREBAY_COMMIT").ok().filter(|text| !text.is_empty())
}

/// Makes Cargo rerun this script when another commit is created or checked out.
fn watch() {
    let branch = git(&["symbolic-ref", "-q", "HEAD"]);
    let names = ["HEAD", "logs/HEAD", "packed-refs"].into_iter().chain(branch.as_deref());
    for path in names.filter_map(|name| git(&["rev-parse", "--git-path", name])) {
        // Skip paths that do not exist: with them, Cargo would rerun this script on every build.
        if Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}

/// Returns the output of git, or `None` if git is missing or fails.
fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_string()).filter(|text| !text.is_empty())
}
