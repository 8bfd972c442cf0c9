//! A disk of this machine: its properties in sysfs, and the bundled device that represents it in
//! simulations.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use forebay_core::Device;
use forebay_core::catalog::POLICIES;

use super::default_flash;
use crate::Error;
use crate::devices::{self, OpenDevice};

/// The properties of a block device, as sysfs reports them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LocalDisk {
    /// The path of the device node, as the user named it.
    pub(super) path: PathBuf,
    /// The kernel's name of the whole disk, such as `sdb`.
    pub(super) node: String,
    /// The scheduler in use, if Forebay knows it.
    pub(super) scheduler: Option<String>,
    /// The model name that the drive reports.
    name: Option<String>,
    /// Whether the device is a rotating disk; true if sysfs does not specify it.
    rotates: bool,
    /// The size of the disk in bytes.
    bytes: u64,
    /// The length of the disk's command queue, if it is configurable.
    queue_depth: Option<u32>,
}

/// The bundled device that represents a disk of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StandIn {
    /// The bundled device, in the form that `--device` accepts.
    pub(super) device: String,
    /// Why this bundled device was chosen, in words.
    pub(super) reason: String,
    /// Whether the bundled device is a model of exactly this drive.
    pub(super) is_known: bool,
}

/// Returns the bundled device that represents the block device at `path`, in the form that
/// `--device` accepts; `None` if `path` is no block device.
pub fn stand_in(path: &Path) -> Option<String> {
    Some(LocalDisk::find(path)?.model().ok()?.device)
}

/// Returns the bundled device that is a model of exactly the block device at `path`, if there is
/// one.
pub fn known_model(path: &Path) -> Option<String> {
    let found = LocalDisk::find(path)?.model().ok()?;
    found.is_known.then_some(found.device)
}

impl LocalDisk {
    /// Returns the disk at `path`, or the disk that contains the partition at `path`; `None` if
    /// `path` is not a block device.
    pub(super) fn find(path: &Path) -> Option<LocalDisk> {
        let is_block = fs::metadata(path).is_ok_and(|of| of.file_type().is_block_device());
        let name = fs::canonicalize(path).ok().filter(|_| is_block)?;
        Some(LocalDisk::read(Path::new("/sys/class/block"), name.file_name()?.to_str()?, path))
    }

    fn read(class: &Path, name: &str, path: &Path) -> LocalDisk {
        let own = fs::canonicalize(class.join(name)).unwrap_or_else(|_| class.join(name));
        let whole = match own.parent() {
            Some(parent) if own.join("partition").exists() => parent.to_path_buf(),
            _ => own,
        };
        let node = whole.file_name().map_or(name.into(), |node| node.to_string_lossy());
        let text = |file: &str| {
            let text = fs::read_to_string(whole.join(file)).ok()?;
            Some(text.trim().to_string()).filter(|text| !text.is_empty())
        };
        let number = |file: &str| text(file)?.parse::<u64>().ok();
        // If only one scheduler is available, sysfs prints its name without brackets.
        let set = |text: String| {
            let marked = text.split_whitespace().find(|word| word.starts_with('['));
            let word = marked.unwrap_or(&text).trim_matches(['[', ']']);
            let is_ours = POLICIES.iter().any(|listed| listed.name == word);
            is_ours.then(|| word.to_string())
        };
        LocalDisk {
            path: path.to_path_buf(),
            node: node.into_owned(),
            scheduler: text("queue/scheduler").and_then(set),
            name: text("device/model"),
            rotates: number("queue/rotational") != Some(0),
            bytes: number("size").unwrap_or(0).saturating_mul(512),
            queue_depth: number("device/queue_depth").and_then(|depth| depth.try_into().ok()),
        }
    }

    /// Chooses the bundled device: the model of this drive, or else one of the same kind and a
    /// similar size.
    pub(super) fn model(&self) -> Result<StandIn, Error> {
        let called = self.name.as_deref().unwrap_or("of an unknown model");
        if let Some(device) = self.name.as_deref().and_then(devices::reported_as).map(String::from)
        {
            let reason = format!("{} is a {called}", self.path.display());
            let bytes = devices::open(&device)?.model.capacity() as f64;
            let is_known = (self.bytes as f64 / bytes - 1.0).abs() < SAME_SIZE_SHARE;
            return Ok(StandIn { device: self.at_its_depth(device)?, reason, is_known });
        }
        let reason =
            |kind: &str| format!("a stand-in for {} ({called}): {kind}", self.path.display());
        if !self.rotates {
            let device = default_flash()?.name;
            return Ok(StandIn { device, reason: reason("flash of its kind"), is_known: false });
        }
        let drives = devices::general()?;
        let large = drives.iter().find(|drive| drive.model.capacity() >= self.bytes);
        let Some(drive) = large.or(drives.last()) else {
            return Err(Error::Unfit("no drives are bundled".to_string()));
        };
        let kind = if large.is_some() { "a disk as large" } else { "the largest bundled disk" };
        let device = self.at_its_depth(drive.name.clone())?;
        Ok(StandIn { device, reason: reason(kind), is_known: false })
    }

    /// Adds the disk's own queue depth to the device, if it is less than the device's.
    fn at_its_depth(&self, device: String) -> Result<String, Error> {
        let open = devices::open(&device)?;
        let shorter = self.queue_depth.and_then(|depth| OpenDevice::at_queue_depth(&open, depth));
        Ok(shorter.map_or(device, |open| open.name))
    }
}

/// A bundled drive of the same name counts as this drive if their sizes differ by at most this
/// share.
const SAME_SIZE_SHARE: f64 = 0.1;

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a sysfs tree with one disk, sdb, and a partition on it.
    fn sysfs(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let disk = root.path().join("sdb");
        for (file, text) in files {
            let path = disk.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        fs::create_dir_all(disk.join("sdb1")).unwrap();
        fs::write(disk.join("sdb1/partition"), "1\n").unwrap();
        std::os::unix::fs::symlink("sdb/sdb1", root.path().join("sdb1")).unwrap();
        root
    }

    const DISK: [(&str, &str); 5] = [
        ("queue/scheduler", "none [bfq] mq-deadline\n"),
        ("queue/rotational", "1\n"),
        ("device/model", "ST1000NM0011    \n"),
        ("device/queue_depth", "4\n"),
        ("size", "1953525168\n"),
    ];

    #[test]
    fn a_drive_of_a_bundled_model_is_found_by_its_partition_too() {
        let root = sysfs(&DISK);
        for name in ["sdb", "sdb1"] {
            let disk = LocalDisk::read(root.path(), name, Path::new("/dev/sdb"));
            assert_eq!((disk.scheduler.as_deref(), &disk.node[..]), (Some("bfq"), "sdb"));
            let model = disk.model().unwrap();
            assert_eq!(model.device, "st1000nm0011:queue-depth=4");
            assert_eq!((&model.reason[..], model.is_known), ("/dev/sdb is a ST1000NM0011", true));
        }
    }

    #[test]
    fn an_unknown_drive_has_a_stand_in_of_its_kind_and_size() {
        let mut files = DISK;
        files[2].1 = "NO SUCH DRIVE\n";
        let root = sysfs(&files);
        let read = || LocalDisk::read(root.path(), "sdb", Path::new("/dev/sdb"));
        let model = read().model().unwrap();
        assert_eq!((&model.device[..], model.is_known), ("st1000nm0011:queue-depth=4", false));
        assert!(
            model.reason.starts_with("a stand-in for /dev/sdb (NO SUCH DRIVE): a disk as large")
        );
        fs::write(root.path().join("sdb/queue/rotational"), "0\n").unwrap();
        assert_eq!(read().model().unwrap().device, default_flash().unwrap().name);
    }

    #[test]
    fn a_drive_of_another_size_is_no_known_one() {
        let mut files = DISK;
        files[4].1 = "3907029168\n";
        let root = sysfs(&files);
        let model = LocalDisk::read(root.path(), "sdb", Path::new("/dev/sdb")).model().unwrap();
        assert_eq!((&model.device[..], model.is_known), ("st1000nm0011:queue-depth=4", false));
    }

    #[test]
    fn a_virtual_disk_says_little() {
        let root = sysfs(&[("queue/scheduler", "none\n"), ("size", "16\n")]);
        let disk = LocalDisk::read(root.path(), "sdb", Path::new("/dev/vda"));
        let said = (disk.scheduler.as_deref(), disk.rotates, disk.bytes);
        assert_eq!(said, (Some("none"), true, 8192));
        assert_eq!(disk.model().unwrap().device, "sata250");
    }
}
