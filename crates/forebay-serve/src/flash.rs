//! What is on a flash that stands beside a disk, looked at before anything is served: a log of ours (docs/placement-log.md) says
//! that the disk's newest data may be there alone.

use std::fs::File;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;

use forebay_core::stack::{LABEL_BYTES, labelled_id};
use forebay_live::checksum;

use crate::back::keeps_data;
use crate::error::{Error, unfit};

/// What is where the labels of a log are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Blank,
    /// A log of ours, of this identity.
    Log(u64),
    Other,
}

fn look(path: &Path) -> Result<Found, Error> {
    // What is no disk is told when it is opened.
    if !std::fs::metadata(path).is_ok_and(|it| it.is_file() || it.file_type().is_block_device()) {
        return Ok(Found::Other);
    }
    let mut labels = [0; 2 * LABEL_BYTES];
    let read = File::open(path).and_then(|file| file.read_at(&mut labels, 0));
    let count = read.map_err(|error| unfit(format!("{}: reading it: {error}", path.display())))?;
    let labelled = labels[..count].chunks_exact(LABEL_BYTES);
    let mut ids = labelled.filter_map(|label| labelled_id(label, checksum(&label[8..])));
    Ok(match ids.next() {
        Some(id) => Found::Log(id),
        None if labels.iter().all(|byte| *byte == 0) => Found::Blank,
        None => Found::Other,
    })
}

/// Refuses `policy` beside this flash where it would show a disk without what only the flash has, or where the flash has no
/// log and is not to get one.
pub(crate) fn refuse(name: &str, policy: &str, path: &Path) -> Result<(), Error> {
    let told = path.display();
    let begins = policy.contains("format=yes");
    match (look(path)?, keeps_data(policy)) {
        (Found::Log(id), false) => Err(unfit(format!(
            "'{name}': policy: got '{policy}', but {told} has the log of a cache or tiers (id {id}), and the disk's newest data \
             may be there alone; expected the policy that it was served with; to be without the flash copy the export to \
             another disk first"
        ))),
        (Found::Blank, true) if !begins => Err(unfit(format!(
            "'{name}': flash: {told} is blank, expected one with a log (docs/placement-log.md); format=yes in the policy begins \
             one"
        ))),
        (Found::Other, true) if path.is_file() => Err(unfit(format!(
            "'{name}': flash: {told} has something else where the log would be, expected a log (docs/placement-log.md) or a \
             blank flash, its first {} bytes zeros",
            2 * LABEL_BYTES
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flash_says_which_policies_may_stand_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("flash");
        let told = |spec: &str| refuse("data", spec, &path).map_err(|error| error.to_string());
        let (back, formats) = ("cache:write=back", "cache:write=back:format=yes");
        let plain = ["noop", "cache:write=through", "promised:cmin=1:over=cache+write=around"];
        std::fs::write(&path, [0; 3 * LABEL_BYTES]).unwrap();
        assert!(told(back).unwrap_err().contains("is blank"));
        plain.iter().chain(&[formats]).for_each(|spec| assert_eq!(told(spec), Ok(())));
        std::fs::write(&path, [7; 3 * LABEL_BYTES]).unwrap();
        assert!(
            [back, formats].iter().all(|spec| told(spec).unwrap_err().contains("something else"))
        );
        assert_eq!(told("noop"), Ok(()));
        // Shorter than labels are.
        std::fs::write(&path, [0; 100]).unwrap();
        assert_eq!(told("noop"), Ok(()));
    }
}
