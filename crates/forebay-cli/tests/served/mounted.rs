//! Mounts an export as a file system: nbdfuse, a loop device, and ext4.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

use forebay_rig::wait_until;

use super::{Folder, does, ran};

/// The content of an export before it is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Nothing; a file system is created.
    Blank,
    /// A file system that was unmounted cleanly.
    Clean,
    /// A file system that was not unmounted, so mounting it replays its journal.
    Cut,
}

/// A mounted export. However the test ends, its parts are shut down in the right order.
pub(crate) struct Mounted<'a> {
    folder: &'a Folder,
    fuse: Child,
    device: Option<String>,
    is_mounted: bool,
}

impl<'a> Mounted<'a> {
    /// Mounts the export at `socket` through nbdfuse and a loop device. Returns a reason if the
    /// system does not permit that.
    pub(crate) fn over(
        folder: &'a Folder,
        socket: &Path,
        state: State,
    ) -> Result<Mounted<'a>, String> {
        for name in ["image", "tree"] {
            match name {
                "image" => drop(folder.holes(name, 0)),
                _ if !folder.path(name).exists() => fs::create_dir(folder.path(name)).unwrap(),
                _ => {}
            }
        }
        let mut fuse = Command::new("nbdfuse");
        fuse.args([folder.path("image").as_path(), Path::new("--unix"), socket]);
        let fuse = fuse.spawn().map_err(|error| error.to_string())?;
        let mut mounted = Mounted { folder, fuse, device: None, is_mounted: false };
        let is_mounted = || fs::metadata(folder.path("image")).is_ok_and(|found| found.len() > 0);
        let mut has_ended = false;
        wait_until("nbdfuse does not mount", || {
            has_ended = mounted.fuse.try_wait().unwrap().is_some();
            has_ended || is_mounted()
        });
        if has_ended {
            return Err("nbdfuse does not mount".into());
        }
        let device = ran(folder, "losetup", &["-f", "--show", "image"]);
        if !device.status.success() {
            return Err(format!("losetup: {}", String::from_utf8_lossy(&device.stderr)));
        }
        let device = String::from_utf8_lossy(&device.stdout).trim().to_string();
        mounted.device = Some(device.clone());
        if state == State::Blank {
            does(folder, "mkfs.ext4", &["-q", &device]);
        }
        if state != State::Cut {
            does(folder, "fsck.ext4", &["-fn", &device]);
        }
        let mount = ran(folder, "mount", &[&device, "tree"]);
        if !mount.status.success() {
            return Err(format!("mount: {}", String::from_utf8_lossy(&mount.stderr)));
        }
        mounted.is_mounted = true;
        Ok(mounted)
    }

    /// Unmounts the export and checks the file system.
    pub(crate) fn close(mut self) {
        does(self.folder, "umount", &["tree"]);
        self.is_mounted = false;
        let device = self.device.clone().unwrap();
        does(self.folder, "fsck.ext4", &["-fn", &device]);
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        if self.is_mounted {
            ran(self.folder, "umount", &["-l", "tree"]);
        }
        if let Some(device) = &self.device {
            ran(self.folder, "losetup", &["-d", device]);
        }
        ran(self.folder, "umount", &["-l", "image"]);
        for _ in 0..100 {
            if self.fuse.try_wait().is_ok_and(|ended| ended.is_some()) {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
        // nbdfuse may be waiting for a server that no longer exists.
        let _ = self.fuse.kill();
        let _ = self.fuse.wait();
    }
}
