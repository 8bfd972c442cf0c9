//! Tests `forebay capture` on the real binary and a loop device.
//!
//! Requires root, losetup(8), dd(1), and a mounted tracefs with an unused `blk` tracer. Without
//! them, the tests are skipped with a message. The loop device uses a temporary file and is removed
//! when the test ends for any reason. Tests run one at a time, because there is only one tracer.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

/// The size of the device and of its file, in bytes.
const DEVICE_BYTES: u64 = 8 << 20;
const READ_BYTES: u64 = 64 << 10;

/// A loop device; detached when dropped.
struct Loop(String);

impl Loop {
    fn over(file: &Path, options: &[&str]) -> Result<Loop, String> {
        let command =
            Command::new("losetup").args(["--find", "--show"]).args(options).arg(file).output();
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

/// Returns which prerequisite for capturing with tracefs is missing, if any.
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

/// Ensures that only one test uses the tracer at a time.
static TRACER: Mutex<()> = Mutex::new(());

/// Creates a loop device on a new file in `folder`. Returns None if a prerequisite is missing.
fn device_in(folder: &Path, options: &[&str]) -> Option<Loop> {
    let file = folder.join("disk");
    fs::write(&file, vec![7; DEVICE_BYTES as usize]).unwrap();
    let device = match missing() {
        Some(what) => Err(format!("needs {what}")),
        None => Loop::over(&file, options),
    };
    if let Err(why) = &device {
        // Write to standard error directly, because the test harness hides the output of tests that
        // pass.
        let mut past = io::stderr();
        let _ = writeln!(past, "!!! capture on a loop device is SKIPPED: {why}");
    }
    device.ok()
}

/// Waits until a command captures from a device.
fn begins(device: &Loop, capture: &mut Child) {
    let name = device.0.trim_start_matches("/dev/");
    let switch = format!("/sys/block/{name}/trace/enable");
    while fs::read_to_string(&switch).unwrap().trim() != "1" {
        assert!(capture.try_wait().unwrap().is_none(), "capture ended");
        std::thread::yield_now();
    }
}

/// `play` issues exactly the requests of the trace to the device, and nothing else.
#[test]
fn capture_records_a_played_trace() {
    let _alone = TRACER.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let Some(device) = device_in(folder.path(), &[]) else { return };
    // Requests must not be adjacent, because the kernel might merge them.
    let trace = folder.path().join("trace.csv");
    let row = |n: u64| {
        let op = if n.is_multiple_of(3) { "write" } else { "read" };
        let (at_ns, offset, len) = (n * 500_000, n * 2_654_435_761 % 100 * 81_920, 4096 << (n % 4));
        format!("{at_ns},{op},{offset},{len},0,0,,,,,\n")
    };
    let head = "at_ns,op,offset,len,stream,volume,latency_ns,flags,thread,process,name\n";
    fs::write(&trace, head.to_string() + &(0..300).map(row).collect::<String>()).unwrap();
    let captured = folder.path().join("captured.parquet");
    let forebay = || Command::new(assert_cmd::cargo::cargo_bin!("forebay"));
    let mut capture = forebay()
        .args(["capture", &device.0, "--for", "5m", "--via", "tracefs", "-o"])
        .arg(&captured)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    begins(&device, &mut capture);
    let play =
        forebay().arg("play").arg(&trace).args(["--target", &device.0, "--overwrite"]).output();
    let play = play.unwrap();
    assert!(play.status.success(), "{}", String::from_utf8_lossy(&play.stderr));
    let kill = format!("kill -INT {}", capture.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    assert!(capture.wait().unwrap().success());
    drop(device);
    let described = |trace: &Path| -> Value {
        let output = forebay().args(["describe", "--format", "json"]).arg(trace).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let (wanted, got) = (described(&trace), described(&captured));
    for key in ["reads", "writes", "read_bytes", "write_bytes", "footprint_bytes", "read_size"] {
        assert_eq!(got[key], wanted[key], "{key}");
    }
}

#[test]
fn capture_records_reads_of_a_process() {
    let _alone = TRACER.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let Some(device) = device_in(folder.path(), &["--read-only"]) else { return };
    let trace = folder.path().join("out.parquet");
    let mut capture = Command::new(assert_cmd::cargo::cargo_bin("forebay"))
        .args(["capture", &device.0, "--for", "5m", "--via", "tracefs", "-o"])
        .arg(&trace)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    begins(&device, &mut capture);
    for _ in 0..20 {
        let input = format!("if={}", device.0);
        let size = format!("bs={READ_BYTES}");
        let dd = Command::new("dd")
            .args([&input, "of=/dev/null", "iflag=direct", &size, "status=none"])
            .status()
            .unwrap();
        assert!(dd.success());
    }
    let kill = format!("kill -INT {}", capture.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    let output = capture.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let said = String::from_utf8_lossy(&output.stdout);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
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
