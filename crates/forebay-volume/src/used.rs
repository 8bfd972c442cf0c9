//! Determines whether a drive contains data.
//!
//! A drive is empty if only zeros are found. Files are read completely except for holes. Block
//! devices are checked at the positions of known signatures ([`crate::signatures`]), where file
//! systems keep copies of their headers ([`crate::copies`]), at both ends, and at samples
//! throughout. Unreadable places count as possible data.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{SeekFrom, seek};

use crate::copies;
use crate::labels::{StorageKind, is_torn};
use crate::signatures::{Unreadable, known};

/// The number of bytes to read at a time.
const STEP: u64 = 1 << 20;
/// Block devices up to this size are read completely. This is also the part read at the beginning
/// of larger ones, which includes most of what a new file system writes.
const WHOLE_MAX: u64 = 256 << 20;
/// The number of bytes read at the end of a drive.
const END: u64 = 16 << 20;
/// The number of samples on a larger device, and the size of each.
const SAMPLES: u64 = 1024;
const SAMPLE: u64 = 4096;

/// Describes the data on a drive, as words that follow its name. Returns `None` if the drive is
/// empty.
///
/// # Errors
/// The drive cannot be read.
pub(crate) fn holds(
    file: &File,
    kind: StorageKind,
    bytes: u64,
) -> Result<Option<String>, Unreadable> {
    let mut read = |at: u64, to: &mut [u8]| file.read_exact_at(to, at);
    if let Some((name, at)) = known(bytes, &mut read)? {
        return Ok(Some(format!("holds {name} (at byte {at})")));
    }
    let looked = Looked { file, bytes, torn: torn(file, bytes) };
    let found = match kind {
        StorageKind::File => looked.stored()?,
        StorageKind::Device if bytes <= WHOLE_MAX => looked.range(0, bytes)?,
        StorageKind::Device => looked.sampled()?,
    };
    let Some(at) = found else { return Ok(None) };
    let sector = at / copies::SECTOR * copies::SECTOR;
    let mut block = vec![0; (bytes - sector).min(copies::SECTOR) as usize];
    file.read_exact_at(&mut block, sector).map_err(|error| Unreadable { at: sector, error })?;
    Ok(Some(match copies::named(&block) {
        Some(name) => format!("holds remains of {name} (at byte {sector})"),
        None => format!("holds data (at byte {at})"),
    }))
}

/// Returns the positions of labels whose write was interrupted.
fn torn(file: &File, bytes: u64) -> Vec<u64> {
    crate::labels::places(bytes).filter(|at| is_torn(file, *at)).collect()
}

struct Looked<'a> {
    file: &'a File,
    bytes: u64,
    /// Blocks to ignore.
    torn: Vec<u64>,
}

impl Looked<'_> {
    /// Returns the first nonzero byte in a range.
    fn range(&self, from: u64, end: u64) -> Result<Option<u64>, Unreadable> {
        let mut buf = vec![0; end.saturating_sub(from).min(STEP) as usize];
        let zeros = vec![0; buf.len()];
        let mut at = from;
        while at < end {
            let part = &mut buf[..(end - at).min(STEP) as usize];
            self.file.read_exact_at(part, at).map_err(|error| Unreadable { at, error })?;
            // Comparing slices is faster than testing single bytes.
            if *part != zeros[..part.len()] {
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

    /// Returns the first nonzero byte of a file, skipping holes.
    fn stored(&self) -> Result<Option<u64>, Unreadable> {
        let mut at = 0;
        while at < self.bytes {
            let data = match seek(self.file, SeekFrom::Data(at)) {
                Ok(data) => data,
                Err(rustix::io::Errno::NXIO) => return Ok(None),
                // The file system does not report holes.
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

    /// Returns the first nonzero byte found where file systems keep copies, at both ends, and at
    /// samples with irregular spacing.
    fn sampled(&self) -> Result<Option<u64>, Unreadable> {
        let ends = [(0, WHOLE_MAX), (self.bytes.saturating_sub(END), self.bytes)];
        let stretch = self.bytes / SAMPLES;
        let samples = (0..SAMPLES).map(|nth| {
            let within = nth.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (stretch - SAMPLE).max(1);
            let at = (nth * stretch + within) / SAMPLE * SAMPLE;
            (at, at + SAMPLE)
        });
        for (from, end) in copies::ranges(self.bytes).chain(ends).chain(samples) {
            if let Some(found) = self.range(from, end.min(self.bytes))? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

/// Describes an unreadable position in words.
pub(crate) fn unreadable(Unreadable { at, error }: &Unreadable) -> String {
    let why = if error.kind() == io::ErrorKind::UnexpectedEof {
        "it ends there".to_string()
    } else {
        error.to_string()
    };
    format!("cannot be read at byte {at} ({why}), so it may hold data")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::create::refuse_used;
    use crate::testing::{DRIVE_BYTES, empty};

    fn found(kind: StorageKind, bytes: u64, write: impl FnOnce(&File)) -> Option<String> {
        let file = tempfile::tempfile().unwrap();
        file.set_len(bytes).unwrap();
        write(&file);
        holds(&file, kind, bytes).unwrap()
    }

    #[test]
    fn one_byte_anywhere_in_a_file_is_data() {
        let bytes = 5 << 30;
        for at in [0, 4095, 1 << 20, (3 << 30) + 17, bytes - 1] {
            let said = found(StorageKind::File, bytes, |file| file.write_all_at(b"x", at).unwrap());
            assert_eq!(said, Some(format!("holds data (at byte {at})")));
        }
        assert_eq!(found(StorageKind::File, bytes, |_| ()), None);
        // Stored zeros do not count as data.
        let zeros = |file: &File| file.write_all_at(&[0; 1 << 20], 1 << 30).unwrap();
        assert_eq!(found(StorageKind::File, bytes, zeros), None);
    }

    #[test]
    fn a_large_device_is_sampled_at_its_ends_and_throughout() {
        let bytes = 6 << 30;
        for at in [0, (1 << 20) - 1, bytes - (1 << 20), bytes - 1] {
            let said =
                found(StorageKind::Device, bytes, |file| file.write_all_at(&[255], at).unwrap());
            assert_eq!(said, Some(format!("holds data (at byte {at})")));
        }
        // One percent of the device contains data, at different positions.
        for at in [8 << 20, 1 << 30, (5 << 30) + 12_345] {
            let data = vec![255; 64 << 20];
            let said =
                found(StorageKind::Device, bytes, |file| file.write_all_at(&data, at).unwrap());
            assert!(said.is_some_and(|said| said.starts_with("holds data")), "{at}");
        }
        assert_eq!(found(StorageKind::Device, bytes, |_| ()), None);
        // A small device is read completely.
        let said = found(StorageKind::Device, 32 << 20, |file| {
            file.write_all_at(b"x", (7 << 20) + 3).unwrap();
        });
        assert_eq!(said, Some(format!("holds data (at byte {})", (7 << 20) + 3)));
    }

    #[test]
    fn a_signature_far_from_both_ends_is_recognized() {
        let bytes = 6 << 30;
        let mark = |file: &File| file.write_all_at(b"_BHRfS_M", (64 << 20) + 64).unwrap();
        let said = found(StorageKind::Device, bytes, mark).unwrap();
        assert_eq!(said, "holds a Btrfs file system (at byte 67108928)");
    }

    #[test]
    fn copies_of_file_systems_are_found_after_the_beginning_was_wiped() {
        const EXT: (&str, u64, &[u8]) = ("an ext2, ext3 or ext4 file system", 56, &[0x53, 0xEF]);
        const XFS: (&str, u64, &[u8]) = ("an XFS file system", 0, b"XFSB");
        const BTRFS: (&str, u64, &[u8]) = ("a Btrfs file system", 64, b"_BHRfS_M");
        const CEPH: (&str, u64, &[u8]) = ("a drive of Ceph", 0, b"bluestore block device");
        const NTFS: (&str, u64, &[u8]) = ("an NTFS file system", 3, b"NTFS    ");
        const TABLE: (&str, u64, &[u8]) = ("an NTFS file system", 0, b"FILE0\0");
        const HFS: (&str, u64, &[u8]) = ("an HFS+ file system", 0, b"H+\0\x04");
        const GIB: u64 = 1 << 30;
        let (mib, tib) = (1 << 20, 1024 * GIB);
        let odd = 931 * GIB + 123 * 512;
        // For each copy of a superblock: the size of the drive, the position, and the file system.
        let copies = [
            // ext4 with blocks of 1, 2 and 4 KiB, with larger groups, and in partitions.
            (6 * GIB, 24 * mib + 1024, EXT),
            (6 * GIB, 32 * mib, EXT),
            (6 * GIB, 128 * mib, EXT),
            (odd, 27 * 128 * mib, EXT),
            (odd, 2 * GIB, EXT),
            (odd, 64 * GIB + 63 * 512, EXT),
            (odd, 129 * mib, EXT),
            (odd, 5 * 128 * mib + mib, EXT),
            // Four groups, more groups, in a partition, aligned with stripes, at most 1 TiB each.
            (odd, (odd / 4096).div_ceil(4) * 4096, XFS),
            (odd, (odd / 4096).div_ceil(113) * 4096, XFS),
            (odd, mib + ((odd - 2 * mib) / 4096).div_ceil(4) * 4096, XFS),
            (odd, odd / 16 / (512 << 10) * (512 << 10), XFS),
            (7 * tib, tib - 4096, XFS),
            (odd, 256 * GIB + mib, BTRFS),
            (odd, 10 * GIB, CEPH),
            (odd, odd - 512, NTFS),
            (odd, 3 * GIB, TABLE),
            (odd, odd / 2 / 4096 * 4096, TABLE),
            (odd, odd - 1024, HFS),
        ];
        for (bytes, at, (name, within, mark)) in copies {
            let write = |file: &File| {
                file.write_all_at(mark, at + within).unwrap();
                // Change a byte in the middle: the first one may be a zero byte of a counter.
                file.write_all_at(&[7], at + 100).unwrap();
            };
            let said = found(StorageKind::Device, bytes, write);
            let told = format!("holds remains of {name} (at byte {at})");
            assert_eq!(said, Some(told), "{bytes} {at}");
        }
        assert_eq!(found(StorageKind::Device, odd, |_| ()), None);
    }

    #[test]
    fn unreadable_places_count_as_possible_data() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        // The reported size is larger than the actual one, as on a failing device.
        let place = holds(&file, StorageKind::Device, 2 << 20).unwrap_err();
        assert!(unreadable(&place).starts_with("cannot be read at byte"), "{place:?}");
    }

    #[test]
    fn an_interrupted_label_is_no_data() {
        let folder = tempfile::tempdir().unwrap();
        let path = empty(folder.path(), "new");
        let file = File::options().write(true).open(&path).unwrap();
        for at in [0, 4096, DRIVE_BYTES - 4096] {
            file.write_all_at(b"forebayL\x04", at + 8).unwrap();
            refuse_used(&path, false).unwrap();
        }
        file.write_all_at(b"x", 8192).unwrap();
        let said = refuse_used(&path, false).unwrap_err().to_string();
        assert!(said.contains("holds data (at byte 8192); \u{1}overwrite"), "{said}");
    }
}
