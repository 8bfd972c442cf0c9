//! Creates six drives for a test, on loop devices or files.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

const BYTES: u64 = 32 << 20;

/// Drives that are removed when this is dropped.
pub(crate) struct Drives {
    paths: Vec<PathBuf>,
    /// Open loop devices. The kernel removes each of them when its last descriptor is closed.
    open: Vec<File>,
}

impl Drives {
    pub(crate) fn files(folder: &Path) -> Drives {
        let paths: Vec<PathBuf> = (1..=6).map(|at| folder.join(format!("drive{at}"))).collect();
        paths.iter().for_each(|path| forebay_rig::holes(path, BYTES));
        Drives { paths, open: Vec::new() }
    }

    /// Creates drives on loop devices. If that is not possible, prints a message and uses files.
    pub(crate) fn loops(folder: &Path) -> Drives {
        let files = Drives::files(folder);
        let loops: Option<Vec<_>> = files.paths.iter().map(|path| device(path)).collect();
        match loops {
            Some(loops) => {
                let (paths, open) = loops.into_iter().unzip();
                Drives { paths, open }
            }
            None => {
                forebay_testing::skipped(
                    "losetup is not permitted: files stand in for loop devices",
                );
                files
            }
        }
    }

    pub(crate) fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    pub(crate) fn kind(&self) -> &'static str {
        if self.open.is_empty() { "files" } else { "loop devices" }
    }
}

/// Creates a loop device that the kernel removes once nobody has it open, even if this process is
/// killed.
fn device(file: &Path) -> Option<(PathBuf, File)> {
    let made = Command::new("losetup").args(["--find", "--show"]).arg(file).output().ok()?;
    if !made.status.success() {
        return None;
    }
    let path = PathBuf::from(String::from_utf8(made.stdout).unwrap().trim());
    let open = File::open(&path);
    let detached = Command::new("losetup").arg("--detach").arg(&path).status().unwrap();
    assert!(detached.success(), "{}: it stays a loop device", path.display());
    Some((path, open.ok()?))
}
