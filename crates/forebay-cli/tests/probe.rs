//! `device probe` on real files: what it refuses, and a limit that the kernel sets.

use std::fs;
use std::os::linux::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::command::{Folder, fails, forebay, json};
use crate::served::skipped;

#[test]
fn what_is_no_volume_is_refused() {
    let folder = Folder::new();
    folder.holes("holes", 128 << 20);
    let probe = |target: &str, output: &str| {
        let mut command = forebay(&["device", "probe", target, "-o", output]);
        command.current_dir(folder.root());
        command
    };
    fails(&mut probe("none", "v.toml"), 2, &["none: No such file", "a block device or a file"]);
    fails(&mut probe("holes", "v.toml"), 2, &["holes: is a sparse file"]);
    fails(&mut probe("holes", "holes"), 2, &["got an input file as the output"]);
    assert!(!folder.path("v.toml").exists());
}

/// A cgroup with a limit of reads, which ends with the test.
struct Limited(PathBuf);

impl Limited {
    /// Limits reads of the disk that holds `file`; says why if that is not possible here.
    fn new(file: &Path, riops: u32) -> Result<Limited, String> {
        let root = Path::new("/sys/fs/cgroup");
        let controllers = fs::read_to_string(root.join("cgroup.controllers"))
            .map_err(|error| format!("no cgroup v2: {error}"))?;
        if !controllers.split_whitespace().any(|controller| controller == "io") {
            return Err("the cgroup has no io controller".to_string());
        }
        let device = fs::metadata(file).unwrap().st_dev();
        let (major, minor) = (device >> 8 & 0xfff, device & 0xff | device >> 12 & 0xfff00);
        let mut disk = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
        if disk.join("partition").exists() {
            disk = fs::canonicalize(&disk).unwrap().parent().unwrap().to_path_buf();
        }
        let number = fs::read_to_string(disk.join("dev"))
            .map_err(|error| format!("the folder for tests is not on a disk: {error}"))?;
        let told = |error: std::io::Error| format!("cgroups cannot be changed: {error}");
        fs::write(root.join("cgroup.subtree_control"), "+io").map_err(told)?;
        let group = root.join(format!("forebay-probe-{}", std::process::id()));
        fs::create_dir(&group).map_err(told)?;
        let limited = Limited(group);
        let limit = format!("{} riops={riops}", number.trim());
        fs::write(limited.0.join("io.max"), limit).map_err(told)?;
        Ok(limited)
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
#[ignore = "slow: make test-full"]
fn a_limit_of_the_kernel_is_found() {
    let folder = Folder::new();
    folder.file("disk", vec![7; 256 << 20]);
    let limited = match Limited::new(&folder.path("disk"), 500) {
        Ok(limited) => limited,
        Err(why) => return skipped(&why),
    };
    let program = assert_cmd::cargo::cargo_bin!("forebay");
    let script = format!(
        "echo $$ > {}/cgroup.procs && exec {} device probe disk -o v.toml --driver threads --format json",
        limited.0.display(),
        program.display()
    );
    let mut command = assert_cmd::Command::new("sh");
    command.args(["-c", &script]).current_dir(folder.root());
    let (found, _) = json(&mut command);
    let rate = found["ops"]["rate_per_s"].as_f64().unwrap();
    assert!((450.0..550.0).contains(&rate), "{rate}");
}
