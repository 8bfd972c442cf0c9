//! Runs the commands of the documentation and of help in a shell, in a folder that contains the
//! files that they name.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the root folder of the repository.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns the blocks of shell commands on a page.
pub(crate) fn blocks(page: &str) -> Vec<&str> {
    let fenced = page.split("```sh\n").skip(1);
    fenced.map(|rest| rest.split("```").next().unwrap()).collect()
}

/// Prepares a folder with `forebay` and `sudo` in the search path, and with the traces that the
/// pages use.
pub(crate) fn prepared(folder: &Path) {
    fs::create_dir(folder.join("bin")).unwrap();
    symlink(assert_cmd::cargo::cargo_bin!("forebay"), folder.join("bin/forebay")).unwrap();
    symlink(root().join("traces"), folder.join("traces")).unwrap();
    let sudo = folder.join("bin/sudo");
    fs::write(&sudo, "#!/bin/sh\nexec \"$@\"\n").unwrap();
    fs::set_permissions(&sudo, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs `text` as a shell script. Returns its output, or an error if it fails.
pub(crate) fn run(folder: &Path, text: &str) -> Result<String, String> {
    let bin = folder.join("bin").display().to_string();
    let path = format!("{bin}:{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap());
    // Kill background jobs at the end, because the shell would wait for them.
    let text = format!("trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{text}");
    // The timeout covers scripts that wait for the socket of a server that did not start.
    let shell = Command::new("timeout")
        .args(["--kill-after=5", "600", "bash", "-euo", "pipefail", "-c", &text])
        .current_dir(folder)
        .env("PATH", path)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&shell.stdout).into_owned();
    let wrong = String::from_utf8_lossy(&shell.stderr).into_owned();
    if shell.status.success() { Ok(said) } else { Err(format!("{said}\n{wrong}")) }
}

/// Returns every verb with its parents, as listed by help: `["plan"]`, `["plan", "capacity"]`.
pub(crate) fn verbs() -> Vec<Vec<String>> {
    below(&[])
}

fn below(above: &[String]) -> Vec<Vec<String>> {
    let mut command = assert_cmd::Command::new(assert_cmd::cargo::cargo_bin!("forebay"));
    let output = command.args(above).arg("--help").output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    let Some(listed) = help.split("\nCommands:\n").nth(1) else { return Vec::new() };
    let lines = listed.lines().take_while(|line| !line.is_empty());
    let named = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = named.map(|line| line.split_whitespace().next().unwrap());
    let each = names.filter(|name| *name != "help").flat_map(|name| {
        let verb = [above, &[name.to_string()]].concat();
        [vec![verb.clone()], below(&verb)].concat()
    });
    each.collect()
}
