//! Determines which parts of a file are stored and which are holes.

use std::fs::File;
use std::io;

use rustix::fs::{SeekFrom, seek};

use crate::protocol::Status;

/// A file whose holes can be determined.
pub(crate) struct Stored(pub(crate) File);

impl Stored {
    /// Returns the extents starting at `offset`, up to `len` bytes or `most` extents. If the file
    /// system does not report extents, everything counts as stored.
    pub(crate) fn extents(
        stored: Option<&Stored>,
        offset: u64,
        len: u32,
        most: usize,
    ) -> Vec<Status> {
        let whole = || vec![Status { len, hole: false }];
        let Some(Stored(file)) = stored else { return whole() };
        let (mut at, end) = (offset, offset + u64::from(len));
        let mut extents: Vec<Status> = Vec::new();
        while at < end && extents.len() < most {
            let (hole, until) = match next_data(file, at) {
                Ok(Some(data)) if data > at => (true, data),
                Ok(None) => (true, end),
                Ok(Some(_)) => match seek(file, SeekFrom::Hole(at)) {
                    Ok(hole) if hole > at => (false, hole),
                    _ => (false, end),
                },
                // The file system does not report holes.
                Err(_) => (false, end),
            };
            let until = until.min(end);
            extents.push(Status { len: (until - at) as u32, hole });
            at = until;
        }
        if extents.is_empty() { whole() } else { extents }
    }
}

/// Returns the position of the next stored byte at or after `at`.
fn next_data(file: &File, at: u64) -> io::Result<Option<u64>> {
    match seek(file, SeekFrom::Data(at)) {
        Ok(data) => Ok(Some(data)),
        Err(rustix::io::Errno::NXIO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn holes_are_told_where_they_are() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        file.write_all_at(&[1; 4096], 65_536).unwrap();
        let stored = Some(Stored(file));
        let told = |at, len, most| {
            let extents = Stored::extents(stored.as_ref(), at, len, most);
            extents.iter().map(|one| (one.len, one.hole)).collect::<Vec<_>>()
        };
        // File systems with large blocks report holes only approximately.
        let all = told(0, 1 << 20, 9);
        assert_eq!(all.iter().map(|(len, _)| len).sum::<u32>(), 1 << 20);
        assert!(all.iter().any(|(_, hole)| !hole), "{all:?}");
        let [first, second, ..] = all[..] else { return };
        assert_eq!((first, second.1), ((65_536, true), false));
        assert_eq!(told(0, 1 << 20, 1), [first]);
        assert_eq!(told(65_536 + 512, 1024, 9), [(1024, false)]);
        assert_eq!(Stored::extents(None, 5, 7, 9), [Status { len: 7, hole: false }]);
    }
}
