//! Tests how the command ends if a signal stops it: its exit status, its message, and that it
//! leaves no files behind.

use std::fs;
use std::process::{Command, Stdio};

use crate::command::sample;

#[test]
fn a_signal_ends_the_command_with_status_128_plus_its_number() {
    for (signal, status) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let folder = tempfile::tempdir().unwrap();
        // A pipe without a writer makes the command wait in the middle of its work.
        let pipe = folder.path().join("trace.csv");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let mut child = Command::new(assert_cmd::cargo::cargo_bin("forebay"))
            .arg("describe")
            .arg(&pipe)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let status_file = format!("/proc/{}/status", child.id());
        // Wait until the handlers are installed: the mask of caught signals then contains SIGTERM.
        let catches = |status: String| {
            let line = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
            let mask = line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
            mask.is_some_and(|mask| mask >> 14 & 1 == 1 && mask & 1 == 1)
        };
        while child.try_wait().unwrap().is_none()
            && !fs::read_to_string(&status_file).is_ok_and(catches)
        {
            std::thread::yield_now();
        }
        let kill = format!("kill -{signal} {}", child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
        assert_eq!(child.wait().unwrap().code(), Some(status), "{signal}");
    }
}

#[test]
fn a_file_size_limit_is_an_error_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new("sh")
        .args(["-c", "ulimit -f 8 && exec \"$0\" convert \"$1\" out.csv"])
        .arg(assert_cmd::cargo::cargo_bin("forebay"))
        .arg(sample())
        .current_dir(folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("out.csv: File too large"), "{said}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
