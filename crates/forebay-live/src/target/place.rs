//! Where a target may be created: not among devices, where a misspelled name would become a plain
//! file in memory.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{major, minor};

/// Rejects creating a file in `/dev` or any other folder on its file system, even through links.
/// Other file systems mounted below it, such as `/dev/shm`, are permitted.
pub(super) fn refuse_devices(path: &Path) -> Result<(), String> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    // If the folder cannot be examined, creating a file in it fails with a better message.
    let (Ok(folder), Ok(found)) = (fs::canonicalize(folder), fs::metadata(folder)) else {
        return Ok(());
    };
    let dev = Path::new("/dev");
    let among = fs::metadata(dev).is_ok_and(|dev| dev.dev() == found.dev());
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    if (folder.starts_with(dev) && among) || is_devtmpfs(&mounts, found.dev()) {
        return Err(
            "does not exist, and files are not created among devices; check the name".into()
        );
    }
    Ok(())
}

/// Returns whether the file system with this number contains devices, given the text of
/// `/proc/self/mountinfo`.
fn is_devtmpfs(mounts: &str, device: u64) -> bool {
    let number = format!("{}:{}", major(device), minor(device));
    let is_it = |line: &str| {
        let kind = line.split_once(" - ").map_or("", |(_, kind)| kind);
        line.split(' ').nth(2) == Some(&number) && kind.starts_with("devtmpfs ")
    };
    mounts.lines().any(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::makedev;

    #[test]
    fn a_file_system_of_devices_is_known_by_its_number() {
        let mounts = "24 27 0:6 / /dev rw,relatime shared:2 - devtmpfs devtmpfs rw,size=1k\n\
                      25 24 0:23 / /dev/shm rw - tmpfs tmpfs rw\n";
        assert!(is_devtmpfs(mounts, makedev(0, 6)));
        assert!(!is_devtmpfs(mounts, makedev(0, 23)) && !is_devtmpfs(mounts, makedev(0, 7)));
    }
}
