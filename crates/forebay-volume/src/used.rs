//! Whether a drive holds something.
//!
//! A drive is empty where nothing but zeros is found. Of files everything is read that is no hole; of block devices
//! both ends, the places of known marks ([`crate::signatures`]) and samples all over. What cannot be read
//! may hold something.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{SeekFrom, seek};

use crate::labels::{Kind, is_torn};
use crate::signatures::{Unreadable, known};

/// Bytes that are read at a time, and of both ends of every drive.
const STEP: u64 = 1 << 20;
/// Block devices up to this are read from end to end.
const WHOLE_MAX: u64 = 256 << 20;
/// Places of a longer one that are looked at, and the bytes of each.
const SAMPLES: u64 = 1024;
const SAMPLE: u64 = 4096;

/// What a drive is found to hold: words that follow its name, or none where it is empty.
///
/// # Errors
/// Where it cannot be read.
pub(crate) fn holds(file: &File, kind: Kind, bytes: u64) -> Result<Option<String>, Unreadable> {
    let mut read = |at: u64, to: &mut [u8]| file.read_exact_at(to, at);
    if let Some((name, at)) = known(bytes, &mut read)? {
        return Ok(Some(format!("holds {name} (at byte {at})")));
    }
    let looked = Looked { file, bytes, torn: torn(file, bytes) };
    let found = match kind {
        Kind::File => looked.stored()?,
        Kind::Device if bytes <= WHOLE_MAX => looked.range(0, bytes)?,
        Kind::Device => looked.sampled()?,
    };
    Ok(found.map(|at| format!("holds data (at byte {at})")))
}

/// Places of labels that were being written when that was cut short.
fn torn(file: &File, bytes: u64) -> Vec<u64> {
    crate::labels::places(bytes).filter(|at| is_torn(file, *at)).collect()
}

struct Looked<'a> {
    file: &'a File,
    bytes: u64,
    /// Blocks that do not count.
    torn: Vec<u64>,
}

impl Looked<'_> {
    /// The first byte from `from` to `end` that is not zero.
    fn range(&self, from: u64, end: u64) -> Result<Option<u64>, Unreadable> {
        let mut buf = vec![0; end.saturating_sub(from).min(STEP) as usize];
        let mut at = from;
        while at < end {
            let part = &mut buf[..(end - at).min(STEP) as usize];
            self.file.read_exact_at(part, at).map_err(|error| Unreadable { at, error })?;
            if part.iter().any(|byte| *byte != 0) {
                let nonzero = (at..).zip(part.iter()).filter(|(_, byte)| **byte != 0);
                let first = nonzero.map(|(at, _)| at).find(|at| !self.is_torn(*at));
                if first.is_some() {
                    return Ok(first);
                }
            }
            at += part.len() as u64;
        }
        Ok(None)
    }

    fn is_torn(&self, at: u64) -> bool {
        self.torn.iter().any(|block| (*block..block + SAMPLE).contains(&at))
    }

    /// The same in whatever of a file is no hole.
    fn stored(&self) -> Result<Option<u64>, Unreadable> {
        let mut at = 0;
        while at < self.bytes {
            let data = match seek(self.file, SeekFrom::Data(at)) {
                Ok(data) => data,
                Err(rustix::io::Errno::NXIO) => return Ok(None),
                // A file system that cannot tell.
                Err(_) => return self.range(at, self.bytes),
            };
            let hole = seek(self.file, SeekFrom::Hole(data)).unwrap_or(self.bytes);
            let end = if hole > data { hole.min(self.bytes) } else { self.bytes };
            if let Some(found) = self.range(data, end)? {
                return Ok(Some(found));
            }
            at = end.max(data + 1);
        }
        Ok(None)
    }

    /// The same at both ends and at places spread over all between, no two at a like distance.
    fn sampled(&self) -> Result<Option<u64>, Unreadable> {
        let ends = [(0, STEP), (self.bytes.saturating_sub(STEP), self.bytes)];
        let stretch = self.bytes / SAMPLES;
        let samples = (0..SAMPLES).map(|nth| {
            let within = nth.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (stretch - SAMPLE).max(1);
            let at = (nth * stretch + within) / SAMPLE * SAMPLE;
            (at, at + SAMPLE)
        });
        for (from, end) in ends.into_iter().chain(samples) {
            if let Some(found) = self.range(from, end.min(self.bytes))? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

/// In words what is wrong with a place that cannot be read.
pub(crate) fn unreadable(Unreadable { at, error }: &Unreadable) -> String {
    let why = if error.kind() == io::ErrorKind::UnexpectedEof {
        "it ends there".to_string()
    } else {
        error.to_string()
    };
    format!("cannot be read at byte {at} ({why}), so it may hold data")
}
