//! The device that contains a target. Disks that should fail independently must be on different
//! devices.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use rustix::fs::{major, minor};

use super::{Target, TargetKind};

/// A device number, formatted as the system does (`8:0`). A file system without a device has a
/// number that no other file system has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceNumber {
    major: u32,
    minor: u32,
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

impl DeviceNumber {
    /// Returns the device of which this one is a partition, or this device itself.
    fn whole(self) -> DeviceNumber {
        let folder = PathBuf::from(format!("/sys/dev/block/{self}"));
        if !folder.join("partition").exists() {
            return self;
        }
        let said = fs::read_to_string(folder.join("../dev")).unwrap_or_default();
        DeviceNumber::parse(&said).unwrap_or(self)
    }

    fn parse(said: &str) -> Option<DeviceNumber> {
        let (major, minor) = said.trim().split_once(':')?;
        Some(DeviceNumber { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }
}

impl Target {
    /// Returns the whole device that the target is or is stored on, or `None` if the system does
    /// not report it. What is behind that device (RAID, a mapper, a network) is not examined.
    pub fn device(&self) -> Option<DeviceNumber> {
        let found = self.file.metadata().ok()?;
        let number = if self.kind == TargetKind::BlockDevice { found.rdev() } else { found.dev() };
        Some(DeviceNumber { major: major(number), minor: minor(number) }.whole())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TargetOptions;

    #[test]
    fn files_of_one_folder_are_on_one_device() {
        let folder = tempfile::tempdir().unwrap();
        let how = TargetOptions { writes: true, overwrite: false, need_bytes: 4096, direct: false };
        let targets = ["a", "b"].map(|name| Target::open(&folder.path().join(name), how).unwrap());
        let [a, b] = targets.map(|target| target.device().unwrap());
        assert_eq!(a, b);
        assert_eq!(DeviceNumber::parse(&format!("{a}\n")), Some(a));
        assert_eq!(DeviceNumber::parse("sda"), None);
    }
}
