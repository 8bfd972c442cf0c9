//! Detects files in use by loop devices and swap.
//!
//! A mounted block device is busy, but its backing file is not: the kernel permits writing to it,
//! which can destroy a file system in use. Files are identified by device and inode. A loop device
//! of another mount namespace refers to its file by a path that may not exist here.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock, major, minor};

/// Rejects a file that is used by an active loop device or as swap.
pub(super) fn refuse(found: &Metadata) -> Result<(), String> {
    let swaps = fs::read("/proc/swaps").unwrap_or_default();
    refuse_held(found, Path::new("/sys/block"), &swaps)
}

fn refuse_held(found: &Metadata, blocks: &Path, swaps: &[u8]) -> Result<(), String> {
    let is_it = |path: &Path| {
        fs::metadata(path).is_ok_and(|held| (held.dev(), held.ino()) == (found.dev(), found.ino()))
    };
    if let Some((device, _)) = backing(blocks).iter().find(|(_, file)| is_it(file)) {
        return Err(format!(
            "is the backing file of /dev/{device}: nothing is written to it; losetup --detach \
             /dev/{device} if it is not needed, or specify another file"
        ));
    }
    if swapped(swaps).iter().any(|path| is_it(path)) {
        return Err(
            "is in use as swap, so nothing is written to it; specify a different file".into()
        );
    }
    Ok(())
}

/// Rejects a loop device whose backing file is locked, because a server serves that file.
pub(super) fn refuse_device(found: &Metadata) -> Result<(), String> {
    let device = found.rdev();
    let folder = format!("/sys/dev/block/{}:{}", major(device), minor(device));
    match backing_file(Path::new(&folder)) {
        Some(file) => refuse_locked(&file),
        None => Ok(()),
    }
}

/// Rejects a loop device with this backing file if the file is locked.
fn refuse_locked(file: &Path) -> Result<(), String> {
    // A file that cannot be opened here, for example one of another mount namespace, cannot be
    // checked.
    let Ok(opened) = File::open(file) else { return Ok(()) };
    match flock(&opened, FlockOperation::NonBlockingLockShared) {
        Err(rustix::io::Errno::WOULDBLOCK) => Err(format!(
            "is a loop device of {}, which another process keeps open for writing, so nothing is \
             written to it; specify the file itself, and serve it only once",
            file.display()
        )),
        _ => Ok(()),
    }
}

/// Returns the backing file of the block device with this folder of the kernel, if it is a loop
/// device.
fn backing_file(device: &Path) -> Option<PathBuf> {
    let mut name = fs::read(device.join("loop/backing_file")).ok()?;
    name.pop_if(|last| *last == b'\n');
    Some(PathBuf::from(OsString::from_vec(name)))
}

/// Returns the loop devices in `blocks`, which is the kernel's folder of block devices, with the
/// file of each.
fn backing(blocks: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(blocks).into_iter().flatten().flatten();
    let named = |entry: fs::DirEntry| {
        let file = backing_file(&entry.path())?;
        Some((entry.file_name().to_string_lossy().into_owned(), file))
    };
    entries.filter_map(named).collect()
}

/// Returns the paths in the text of `/proc/swaps`, in which spaces are encoded as octal escapes.
fn swapped(text: &[u8]) -> Vec<PathBuf> {
    let lines = text.split(|byte| *byte == b'\n').skip(1);
    let path = |line: &[u8]| {
        let word = line.split(|byte| matches!(byte, b' ' | b'\t')).next().unwrap_or_default();
        PathBuf::from(OsString::from_vec(unescaped(word)))
    };
    lines.filter(|line| !line.is_empty()).map(path).collect()
}

/// Replaces escapes such as `\040` with their bytes.
fn unescaped(word: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((&first, more)) = rest.split_first() {
        let octal = (first == b'\\').then(|| more.get(..3)).flatten();
        let value =
            octal.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(value.unwrap_or(first));
        rest = if value.is_some() { &more[3..] } else { more };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_behind_loop_devices_or_swap_are_refused_under_any_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        ["image", "swap file", "free"].iter().for_each(|name| fs::write(at(name), "x").unwrap());
        fs::hard_link(at("image"), at("hard")).unwrap();
        std::os::unix::fs::symlink(at("swap file"), at("link")).unwrap();
        fs::create_dir_all(at("block/loop3/loop")).unwrap();
        fs::create_dir_all(at("block/sda")).unwrap();
        let image = format!("{}\n", at("image").display());
        fs::write(at("block/loop3/loop/backing_file"), image).unwrap();
        let escaped = at("swap file").display().to_string().replace(' ', "\\040");
        let swaps = format!("Filename\tType\tSize\n{escaped}  file\t8 0 -2\n");
        let said = |name: &str| {
            let found = fs::metadata(at(name)).unwrap();
            refuse_held(&found, &at("block"), swaps.as_bytes())
        };
        for name in ["image", "hard"] {
            assert!(said(name).unwrap_err().contains("the backing file of /dev/loop3"), "{name}");
        }
        for name in ["swap file", "link"] {
            assert!(said(name).unwrap_err().contains("in use as swap"), "{name}");
        }
        assert_eq!(said("free"), Ok(()));
    }

    #[test]
    fn a_loop_device_is_refused_while_its_file_is_locked() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        fs::write(&image, "x").unwrap();
        fs::create_dir(folder.path().join("loop")).unwrap();
        let text = format!("{}\n", image.display());
        fs::write(folder.path().join("loop/backing_file"), text).unwrap();
        let file = backing_file(folder.path()).unwrap();
        assert_eq!(refuse_locked(&file), Ok(()));
        let served = File::open(&image).unwrap();
        flock(&served, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert!(refuse_locked(&file).unwrap_err().contains("is a loop device of "));
        drop(served);
        assert_eq!(refuse_locked(&file), Ok(()));
        assert_eq!(backing_file(Path::new("/sys/dev/block/no")), None);
    }

    #[test]
    fn names_are_unescaped_and_broken_escapes_stay() {
        assert_eq!(unescaped(br"/a\040b\011c\134"), b"/a b\tc\\");
        assert_eq!(unescaped(br"\04\999\"), br"\04\999\");
    }
}
