//! Opens existing files and devices, to serve them or to check whether they can be served.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use forebay_core::contract::suggestion;
use forebay_live::{Target, TargetKind, TargetOptions};
use forebay_volume::is_drive;

use crate::error::{Error, unfit};
use crate::{Back, outputs};

/// Why a back is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To serve the targets, which are locked.
    Serve,
    /// To check the targets. Nothing is written, and another server may be serving them.
    Check,
}

/// The maximum number of files among which a similar name is searched for.
const FILES_MAX: usize = 1000;

/// Suggests the file in the folder of `path` whose name is most similar.
fn similar(path: &Path) -> String {
    let (Ok(files), Some(name)) = (std::fs::read_dir(outputs::folder(path)), path.file_name())
    else {
        return String::new();
    };
    let mut names: Vec<String> = files
        .take(FILES_MAX)
        .filter_map(|file| file.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    suggestion(&name.to_string_lossy(), &names)
}

/// Inspects an existing target.
fn found(path: &Path) -> Result<Metadata, Error> {
    let told = path.display();
    std::fs::metadata(path).map_err(|error| {
        unfit(match error.kind() {
            io::ErrorKind::NotFound => format!(
                "{told}: no such file{}; expected a file or block device (truncate -s 10G {told} \
                 creates a file)",
                similar(path)
            ),
            _ => format!("{told}: {error}"),
        })
    })
}

/// Opens an existing target. To serve it, also locks it.
pub(crate) fn target(
    path: &Path,
    back: &Back,
    direct: bool,
    purpose: Purpose,
) -> Result<Target, Error> {
    found(path)?;
    // Opening a pipe would wait for a writer.
    let is_disk = std::fs::metadata(path)
        .is_ok_and(|found| found.is_file() || found.file_type().is_block_device());
    if is_disk && is_drive(path).unwrap_or(false) {
        return Err(unfit(format!(
            "'{}': file: {} is a drive of a volume, expected a disk of its own; a [[volume]] serves it",
            back.name,
            path.display()
        )));
    }
    let writes = !back.read_only;
    let how = TargetOptions { writes, overwrite: true, need_bytes: 0, direct };
    if purpose == Purpose::Check {
        Target::inspect(path, how)?;
        refuse_unwritable(path, writes)?;
        let how = TargetOptions { writes: false, ..how };
        return whole(Target::open(path, how)?, how);
    }
    let target = whole(Target::open(path, how)?, how)?;
    match target.lock(writes) {
        Ok(true) => Ok(target),
        Ok(false) => Err(unfit(format!(
            "{0}: another process has it open; stop that process first (`fuser -v {0}` names it)",
            path.display()
        ))),
        Err(error) => Err(unfit(format!("{}: it cannot be locked: {error}", path.display()))),
    }
}

/// Rejects a target that the user may not write to, if it is to be written.
fn refuse_unwritable(path: &Path, writes: bool) -> Result<(), Error> {
    match rustix::fs::access(path, rustix::fs::Access::WRITE_OK) {
        Err(error) if writes => Err(unfit(format!(
            "{}: cannot be opened for writing: {}",
            path.display(),
            io::Error::from(error)
        ))),
        _ => Ok(()),
    }
}

/// Makes all bytes of a target accessible. Direct I/O transfers only whole blocks, so a file that
/// does not end at a block boundary is reopened through the page cache.
fn whole(target: Target, how: TargetOptions) -> Result<Target, Error> {
    let path = target.path().to_path_buf();
    let is_file = target.kind() != TargetKind::BlockDevice;
    let bytes = std::fs::metadata(&path).map_or(0, |found| found.len());
    if !is_file || target.capacity_bytes() == bytes {
        return Ok(target);
    }
    let block = target.block_bytes().unwrap_or(1);
    let mut target = Target::open(&path, TargetOptions { direct: false, ..how })?;
    target.note(format!(
        "its size of {bytes} bytes is not a multiple of the {block} bytes that direct I/O \
         requires, so I/O uses the page cache"
    ));
    Ok(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_a_similar_name_is_suggested() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.img"), "").unwrap();
        let said = |name: &str| found(&folder.path().join(name)).unwrap_err().to_string();
        assert!(said("a.imgg").contains("no such file (did you mean a.img?); expected"));
        assert!(said("other").contains("no such file; expected"));
    }
}
