//! `forebay capture`, on the real binary and a loop device of its own.
//!
//! Needs root, losetup(8), dd(1) and a mounted tracefs with the `blk` tracer, not in use; without
//! them it is skipped, loudly. The device holds a temporary file, is only read, and goes away with
//! the test, however that ends.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// Size of the device and of each read.
const DEVICE_BYTES: u64 = 8 << 20;
const READ_BYTES: u64 = 64 << 10;

/// A loop device; detached when dropped.
struct Loop(String);

impl Loop {
    fn over(file: &Path) -> Result<Loop, String> {
        let command =
            Command::new("losetup").args(["--find", "--show", "--read-only"]).arg(file).output();
        let output = command.map_err(|error| format!("losetup: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        match output.status.success() && text.starts_with("/dev/loop") {
            true => Ok(Loop(text)),
            false => Err(format!("losetup: {}", String::from_utf8_lossy(&output.stderr).trim())),
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let detached = Command::new("losetup").arg("--detach").arg(&self.0).status();
        if !detached.is_ok_and(|status| status.success()) {
            eprintln!("!!! {} could not be detached: losetup --detach {}", self.0, self.0);
        }
    }
}

/// What is missing to capture through tracefs.
fn missing() -> Option<String> {
    let id = Command::new("id").arg("-u").output().map(|output| output.stdout);
    if id.ok().as_deref() != Some(b"0\n") {
        return Some("root".into());
    }
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mut tracefs = mounts.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        (fields.get(2) == Some(&"tracefs")).then(|| PathBuf::from(fields[1]))
    });
    let Some(tracefs) = tracefs.next() else { return Some("a mounted tracefs".into()) };
    let read = |name: &str| fs::read_to_string(tracefs.join(name)).unwrap_or_default();
    if !read("available_tracers").split_whitespace().any(|tracer| tracer == "blk") {
        return Some("the kernel's blk tracer".into());
    }
    (read("current_tracer").trim() != "nop").then(|| "a tracer nobody uses".into())
}

#[test]
fn what_a_process_reads_is_captured() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("disk");
    fs::write(&file, vec![7; DEVICE_BYTES as usize]).unwrap();
    let device = match missing() {
        Some(what) => Err(format!("needs {what}")),
        None => Loop::over(&file),
    };
    let device = match device {
        Ok(device) => device,
        Err(why) => {
            // Past the test harness, which shows nothing of a test that passes.
            writeln!(io::stderr(), "!!! capture on a loop device is SKIPPED: {why}").unwrap();
            return;
        }
    };
    let trace = folder.path().join("out.parquet");
    let mut capture = Command::new(assert_cmd::cargo::cargo_bin("forebay"))
        .args(["capture", &device.0, "--for", "2s", "--via", "tracefs", "-o"])
        .arg(&trace)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Over and over, since nobody says from when on it captures.
    while capture.try_wait().unwrap().is_none() {
        let input = format!("if={}", device.0);
        let size = format!("bs={READ_BYTES}");
        let dd = Command::new("dd")
            .args([&input, "of=/dev/null", "iflag=direct", &size, "status=none"])
            .status()
            .unwrap();
        assert!(dd.success());
    }
    let output = capture.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("in tracefs"), "{said}");
    drop(device);

    let describe = Command::new(assert_cmd::cargo::cargo_bin("forebay"))
        .args(["describe", "--format", "json"])
        .arg(&trace)
        .output()
        .unwrap();
    let json: Value = serde_json::from_slice(&describe.stdout).unwrap();
    let number = |key: &str| json[key].as_u64().unwrap();
    assert!(number("reads") > 0 && number("writes") == 0, "{json}");
    assert_eq!(number("read_bytes"), number("reads") * READ_BYTES);
    assert!(number("footprint_bytes") <= DEVICE_BYTES);
    let labels = json["by_stream"]["rows"].as_array().unwrap().iter();
    let by_dd = labels.filter(|row| row["label"].as_str().unwrap().starts_with("dd/"));
    assert!(by_dd.count() > 0, "{json}");
    assert!(json["read_latency"]["measured_share"].as_f64().unwrap() > 0.5, "{json}");
}
