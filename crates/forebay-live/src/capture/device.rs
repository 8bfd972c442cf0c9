//! A block device, identified by its major and minor numbers.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};

use super::CaptureError;

/// A block device that can be traced.
#[derive(Clone, Debug)]
pub struct Device {
    /// The path that the user gave.
    pub path: PathBuf,
    /// The device's folder in sysfs.
    pub(crate) sysfs: PathBuf,
}

impl Device {
    /// Returns the device at `path`, which may be a link to it.
    ///
    /// # Errors
    /// [`CaptureError::Usage`] if the file does not exist or is not a block device.
    pub fn find(path: &Path) -> Result<Device, CaptureError> {
        let usage = |what: String| CaptureError::Usage(format!("{}: {what}", path.display()));
        let found = fs::metadata(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                usage("no such device; `lsblk` lists the available devices".into())
            }
            _ => usage(error.to_string()),
        })?;
        if !found.file_type().is_block_device() {
            let what = "not a block device; specify one listed by `lsblk -p`, e.g. /dev/sda";
            return Err(usage(what.into()));
        }
        let sysfs = sysfs_of(found.rdev()).map_err(|error| {
            usage(format!("the kernel knows no such device ({error}); is it attached?"))
        })?;
        Ok(Device { path: path.to_path_buf(), sysfs })
    }

    /// Returns the device's name in the kernel, which is also the name of its folder in debugfs.
    pub(crate) fn name(&self) -> String {
        let name = self.sysfs.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// Returns the file in sysfs that turns tracing of the device on and off.
    pub(crate) fn switch(&self) -> PathBuf {
        self.sysfs.join("trace/enable")
    }

    /// Returns whether the file or folder at `path` is on the device or one of its partitions.
    pub(crate) fn holds(&self, path: &Path) -> bool {
        let under = fs::metadata(path).and_then(|found| sysfs_of(found.dev()));
        under.is_ok_and(|under| under.starts_with(&self.sysfs))
    }
}

/// Returns the folder in sysfs of the block device with this number, with links resolved.
fn sysfs_of(device: u64) -> io::Result<PathBuf> {
    fs::canonicalize(format!("/sys/dev/block/{}:{}", major(device), minor(device)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_is_no_block_device_is_a_usage_error() {
        for (path, part) in [("/nonexistent/sda", "no such device"), ("/dev/null", "not a block")] {
            let error = Device::find(Path::new(path)).unwrap_err();
            assert!(error.is_usage() && error.to_string().contains(part), "{error}");
            assert!(error.to_string().starts_with(path), "{error}");
        }
    }

    #[test]
    fn partitions_lie_on_their_disk() {
        let device = Device { path: "x".into(), sysfs: "/nonexistent".into() };
        assert!(!device.holds(Path::new("/")));
    }
}
