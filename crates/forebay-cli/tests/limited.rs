//! Limits I/O with cgroups: runs the command in a cgroup, and compares the model `iomax` with the
//! kernel.

use std::fmt::Write;
use std::fs;
use std::os::linux::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command as Process;

use assert_cmd::Command;
use forebay_play::AS_RECORDED;
use forebay_testing::below;
use serde_json::Value;

use crate::command::{Folder, forebay, json};
use crate::served::skipped;

/// A cgroup that limits the I/O of one disk, removed when dropped.
pub(crate) struct Limited(PathBuf);

impl Limited {
    /// Limits the disk with the number `disk` (`MAJOR:MINOR`). `limits` has the names used in
    /// `io.max`. Returns a reason if that is not possible.
    pub(crate) fn new(disk: &str, limits: &[(&str, u64)]) -> Result<Limited, String> {
        let refused = |error: std::io::Error| format!("cgroups cannot be changed: {error}");
        let root = Path::new("/sys/fs/cgroup");
        let controllers = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
        let has_io = controllers.split_whitespace().any(|controller| controller == "io");
        let name = format!("forebay-{}-{}", std::process::id(), disk.replace(':', "-"));
        if has_io {
            fs::write(root.join("cgroup.subtree_control"), "+io").map_err(refused)?;
            let group = Limited(root.join(name));
            fs::create_dir(&group.0).map_err(refused)?;
            let mut line = disk.to_string();
            limits.iter().for_each(|(key, limit)| write!(line, " {key}={limit}").unwrap());
            fs::write(group.0.join("io.max"), line).map_err(refused)?;
            return Ok(group);
        }
        if !root.join("blkio/blkio.throttle.read_iops_device").exists() {
            return Err("no cgroup limits I/O here".to_string());
        }
        let group = Limited(root.join("blkio").join(name));
        fs::create_dir(&group.0).map_err(refused)?;
        for (key, limit) in limits {
            let direction = if key.starts_with('r') { "read" } else { "write" };
            let file = format!("blkio.throttle.{direction}_{}_device", &key[1..]);
            fs::write(group.0.join(file), format!("{disk} {limit}")).map_err(refused)?;
        }
        Ok(group)
    }

    /// Returns the command with `arguments`, to be run in the cgroup. Callers may add arguments.
    pub(crate) fn forebay(&self, arguments: &str) -> Command {
        let program = assert_cmd::cargo::cargo_bin!("forebay");
        let (group, program) = (self.0.display(), program.display());
        let script = format!("echo $$ > {group}/cgroup.procs && exec {program} {arguments} \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script, "sh"]);
        command
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// Returns the number of the disk that holds `file`, or the reason why there is none.
pub(crate) fn number_of_disk(file: &Path) -> Result<String, String> {
    let device = fs::metadata(file).unwrap().st_dev();
    let (major, minor) = (device >> 8 & 0xfff, device & 0xff | device >> 12 & 0xfff00);
    let mut disk = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    if disk.join("partition").exists() {
        disk = fs::canonicalize(&disk).unwrap().parent().unwrap().to_path_buf();
    }
    let number = fs::read_to_string(disk.join("dev"))
        .map_err(|error| format!("the folder for tests is not on a disk: {error}"))?;
    Ok(number.trim().to_string())
}

/// A loop device on a file in memory, detached when dropped.
struct Loop(String);

impl Loop {
    fn new(file: &Path) -> Result<Loop, String> {
        let output = Process::new("losetup")
            .args(["--find", "--show", "--direct-io=on"])
            .arg(file)
            .output()
            .map_err(|error| format!("losetup: {error}"))?;
        let device = String::from_utf8_lossy(&output.stdout).trim().to_string();
        let why = || format!("losetup: {}", String::from_utf8_lossy(&output.stderr).trim());
        if output.status.success() { Ok(Loop(device)) } else { Err(why()) }
    }

    fn number(&self) -> String {
        let name = self.0.trim_start_matches("/dev/");
        fs::read_to_string(format!("/sys/block/{name}/dev")).unwrap().trim().to_string()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Process::new("losetup").args(["--detach", &self.0]).status();
    }
}

const SIZE: u64 = 1 << 30;

/// Returns a trace of 12 s: bursts of `count` requests at random times, `mean_ms` apart on average.
fn load(seed: u64, op: char, count: std::ops::Range<u64>, mean_ms: u64, kib: u64) -> String {
    let (mut state, mut at_us, mut text) = (seed, 0, "time_us,op,offset,size\n".to_string());
    while at_us < 12_000_000 {
        for number in 0..count.start + below(&mut state, count.end - count.start) {
            let offset = below(&mut state, SIZE / 65_536) * 65_536;
            writeln!(text, "{},{op},{offset},{}", at_us + number * 100, kib << 10).unwrap();
        }
        at_us += mean_ms * 500 + below(&mut state, mean_ms * 1000);
    }
    text
}

#[test]
#[ignore = "slow: make test-full"]
fn delays_are_those_of_the_kernel() {
    let folder = Folder::new();
    let file = tempfile::Builder::new().tempfile_in("/dev/shm").unwrap();
    fs::write(file.path(), vec![0; SIZE as usize]).unwrap();
    let disk = match Loop::new(file.path()) {
        Ok(disk) => disk,
        Err(why) => return skipped(&why),
    };
    // Bursts after idle periods, batches above the limit, single requests above it, and limits in
    // bytes.
    let loads = [
        ("riops", 100, load(1, 'R', 90..110, 4000, 4)),
        ("riops", 200, load(2, 'R', 20..120, 400, 16)),
        ("riops", 150, load(3, 'R', 1..2, 6, 4)),
        ("rbps", 8 << 20, load(4, 'R', 30..60, 300, 64)),
        ("wiops", 300, load(5, 'W', 10..400, 700, 4)),
        ("wbps", 16 << 20, load(6, 'W', 1..200, 500, 64)),
    ];
    for (key, limit, text) in loads {
        let limited = match Limited::new(&disk.number(), &[(key, limit)]) {
            Ok(limited) => limited,
            Err(why) => return skipped(&why),
        };
        folder.file("load.csv", text);
        let median = |run: &Value| {
            let key = if key.starts_with('r') { "read_p50_ms" } else { "write_p50_ms" };
            run[key].as_f64().unwrap()
        };
        let play = format!("play load.csv --overwrite --depth 4096 --target {}", disk.0);
        let (played, _) = json(limited.forebay(&play).current_dir(folder.root()));
        let device = format!("iomax:{key}={limit}");
        let mut simulate = forebay(&["simulate", "load.csv", "--policy", AS_RECORDED]);
        simulate.args(["--replay", "open", "--device", &device]).current_dir(folder.root());
        let (simulated, _) = json(&mut simulate);
        let (measured_ms, model_ms) = (median(&played), median(&simulated["runs"][0]));
        println!("{device}: {measured_ms:.1} ms measured, {model_ms:.1} ms in the model");
        assert!(measured_ms > 20.0, "{device}: the limit delays nothing");
        assert!((model_ms / measured_ms - 1.0).abs() < 0.1, "{device}");
    }
}
