//! Detects files in use by loop devices and swap.
//!
//! A mounted block device is busy, but its backing file is not: the kernel permits writing to it,
//! which can destroy a file system in use. Files are identified by device and inode. A loop device
//! of another mount namespace refers to its file by a path that may not exist here.

use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

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
             /dev/{device} if it is not needed, or name another file"
        ));
    }
    if swapped(swaps).iter().any(|path| is_it(path)) {
        return Err("is in use as swap: nothing is written to it; name another file".into());
    }
    Ok(())
}

/// Returns the loop devices in `blocks`, which is the kernel's folder of block devices, with the
/// file of each.
fn backing(blocks: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(blocks).into_iter().flatten().flatten();
    let file_of = |device: &Path| {
        let mut name = fs::read(device.join("loop/backing_file")).ok()?;
        name.pop_if(|last| *last == b'\n');
        Some(PathBuf::from(OsString::from_vec(name)))
    };
    entries
        .filter_map(|entry| {
            Some((entry.file_name().to_string_lossy().into_owned(), file_of(&entry.path())?))
        })
        .collect()
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
    fn what_a_loop_device_or_the_swap_stands_on_is_refused_by_any_name() {
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
    fn names_are_unescaped_and_broken_escapes_stay() {
        assert_eq!(unescaped(br"/a\040b\011c\134"), b"/a b\tc\\");
        assert_eq!(unescaped(br"\04\999\"), br"\04\999\");
    }
}
