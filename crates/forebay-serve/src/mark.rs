//! The mark of a disk whose newest data may be on a flash. The mark is in the disk's last whole
//! block (docs/placement-log.md).
//!
//! Exports end before the mark, so clients never see or overwrite it. The block contains two copies
//! of the mark, each within one sector, which a power cut cannot tear.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use forebay_live::checksum;
use rustix::fs::{SeekFrom, seek};

/// The size of the block that contains the mark.
pub(crate) const MARK_BYTES: u64 = 4096;
const SECTOR: usize = 512;
/// The offsets of the two copies in the block.
const PLACES: [usize; 2] = [0, 2048];
/// The magic number of a mark, which follows the checksum; the format's version is next.
const MAGIC: u64 = u64::from_le_bytes(*b"forebayD");
pub(crate) const VERSION: u64 = 1;

/// The state of a disk with respect to its flash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The id that disk and flash share.
    pub(crate) pair: u128,
    /// How often disk and flash have been served together.
    pub(crate) generation: u64,
    /// The flash contains all log records up to this number, and possibly later ones.
    pub(crate) newest: u64,
    /// Whether the disk contained all data when it was last served.
    pub(crate) is_drained: bool,
}

/// What was found at the position of the mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MarkFound {
    None,
    /// A mark in another version of the format.
    Version(u64),
    /// An incomplete or damaged mark.
    Damaged,
    Of(Mark),
}

/// Returns the position of the mark on a disk of this size, or None if the disk is too short.
pub(crate) fn mark_at(disk_bytes: u64) -> Option<u64> {
    (disk_bytes / MARK_BYTES * MARK_BYTES).checked_sub(MARK_BYTES).filter(|at| *at > 0)
}

impl Mark {
    /// Encodes the mark's block for a disk on which the block is at `at`.
    pub(crate) fn block(&self, at: u64) -> Vec<u8> {
        let Mark { pair, generation, newest, is_drained } = *self;
        let (low, high) = (pair as u64, (pair >> 64) as u64);
        let words = [MAGIC, VERSION, low, high, generation, newest, u64::from(is_drained), at];
        let mut block = vec![0; MARK_BYTES as usize];
        for place in PLACES {
            let sector = &mut block[place..][..SECTOR];
            for (to, word) in sector[8..].chunks_exact_mut(8).zip(words) {
                to.copy_from_slice(&word.to_le_bytes());
            }
            let sum = checksum(&sector[8..]);
            sector[..8].copy_from_slice(&sum.to_le_bytes());
        }
        block
    }
}

/// Decodes the block at position `at`.
pub(crate) fn found(block: &[u8], at: u64) -> MarkFound {
    let mut all: Vec<MarkFound> =
        PLACES.into_iter().map(|place| in_sector(block, place, at)).collect();
    // If a write was interrupted between the copies, the first copy is newer.
    let whole = |one: &&MarkFound| matches!(one, MarkFound::Of(_));
    if let Some(MarkFound::Of(first)) = all.iter().find(whole).copied() {
        let later = all.iter().filter_map(|one| match one {
            MarkFound::Of(mark) => Some(*mark),
            _ => None,
        });
        return MarkFound::Of(later.fold(first, Mark::later));
    }
    all.sort_by_key(|one| *one == MarkFound::None);
    all.first().copied().unwrap_or(MarkFound::None)
}

impl Mark {
    fn later(self, other: Mark) -> Mark {
        if other.generation > self.generation { other } else { self }
    }
}

fn in_sector(block: &[u8], place: usize, at: u64) -> MarkFound {
    let Some(sector) = block.get(place..place + SECTOR) else { return MarkFound::None };
    let word =
        |nth: usize| sector[8 * nth..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    if word(1) != MAGIC {
        return MarkFound::None;
    }
    if word(0) != checksum(&sector[8..]) || word(8) != at && word(2) == VERSION {
        return MarkFound::Damaged;
    }
    if word(2) != VERSION {
        return MarkFound::Version(word(2));
    }
    MarkFound::Of(Mark {
        pair: u128::from(word(4)) << 64 | u128::from(word(3)),
        generation: word(5),
        newest: word(6),
        is_drained: word(7) == 1,
    })
}

/// Reads the mark of a disk of this size.
pub(crate) fn read(disk: &File, disk_bytes: u64) -> io::Result<MarkFound> {
    let Some(at) = mark_at(disk_bytes) else { return Ok(MarkFound::None) };
    let mut block = vec![0; MARK_BYTES as usize];
    disk.read_exact_at(&mut block, at)?;
    Ok(found(&block, at))
}

/// Returns the former length of a sparse file that was extended after it was marked. The mark is
/// then the last data stored in the file.
pub(crate) fn was_shorter(disk: &File, disk_bytes: u64) -> io::Result<Option<u64>> {
    let Some(end) = stored_end(disk, disk_bytes) else { return Ok(None) };
    let Some(at) = mark_at(end) else { return Ok(None) };
    let mut block = vec![0; MARK_BYTES as usize];
    disk.read_exact_at(&mut block, at)?;
    Ok(matches!(found(&block, at), MarkFound::Of(_)).then_some(at + MARK_BYTES))
}

/// Returns the end of the last stored data, or None if that is unknown or nothing is stored.
fn stored_end(disk: &File, disk_bytes: u64) -> Option<u64> {
    let mut back = 1 << 20;
    // Search backward from the end, so that a heavily fragmented file need not be scanned
    // completely.
    let mut data = loop {
        let from = disk_bytes.saturating_sub(back);
        match seek(disk, SeekFrom::Data(from)) {
            Ok(data) => break data,
            Err(rustix::io::Errno::NXIO) if from > 0 => back *= 2,
            Err(_) => return None,
        }
    };
    loop {
        let hole = seek(disk, SeekFrom::Hole(data)).ok()?;
        match seek(disk, SeekFrom::Data(hole)) {
            Ok(more) if more > hole => data = more,
            _ => return Some(hole),
        }
    }
}

/// Returns whether a disk contains only zeros from `at` to its end.
pub(crate) fn is_free(disk: &File, at: u64, disk_bytes: u64) -> io::Result<bool> {
    let mut tail = vec![0; (disk_bytes - at) as usize];
    disk.read_exact_at(&mut tail, at)?;
    Ok(tail.iter().all(|byte| *byte == 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARK: Mark = Mark { pair: 7 << 70 | 5, generation: 3, newest: 900, is_drained: false };

    #[test]
    fn a_mark_is_found_again_and_its_damage_is_reported() {
        let at = mark_at(10_000_001).unwrap();
        assert_eq!(at, 9_994_240);
        let block = MARK.block(at);
        assert_eq!(found(&block, at), MarkFound::Of(MARK));
        assert_eq!(found(&[0; 4096], at), MarkFound::None);
        // Any byte may be damaged in one of the copies, but not in both.
        for nth in 8..80 {
            let mut one = block.clone();
            one[nth] ^= 4;
            assert_eq!(found(&one, at), MarkFound::Of(MARK), "byte {nth}");
            one[2048 + nth] ^= 4;
            let is_magic = (8..16).contains(&nth);
            let expected = if is_magic { MarkFound::None } else { MarkFound::Damaged };
            assert_eq!(found(&one, at), expected, "byte {nth}");
        }
        assert_eq!(found(&block, at + 4096), MarkFound::Damaged, "a copy of it elsewhere");
    }

    #[test]
    fn a_partly_written_mark_is_read_from_its_second_half() {
        let later = Mark { generation: 4, ..MARK };
        let (old, new) = (MARK.block(8192), later.block(8192));
        assert_eq!(found(&[&new[..2048], &old[2048..]].concat(), 8192), MarkFound::Of(later));
        assert_eq!(found(&[&old[..2048], &new[2048..]].concat(), 8192), MarkFound::Of(later));
    }

    #[test]
    fn another_version_is_told_by_its_number() {
        let mut block = MARK.block(8192);
        for place in PLACES {
            block[place + 16] = 9;
            let sum = checksum(&block[place + 8..place + SECTOR]);
            block[place..place + 8].copy_from_slice(&sum.to_le_bytes());
        }
        assert_eq!(found(&block, 8192), MarkFound::Version(9));
    }

    #[test]
    fn a_file_that_has_become_longer_has_its_mark_where_data_end() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8 << 20).unwrap();
        let at = mark_at(8 << 20).unwrap();
        file.write_all_at(&[1; 4096], 65_536).unwrap();
        file.write_all_at(&MARK.block(at), at).unwrap();
        assert_eq!(read(&file, 8 << 20).unwrap(), MarkFound::Of(MARK));
        file.set_len(80 << 20).unwrap();
        assert_eq!(read(&file, 80 << 20).unwrap(), MarkFound::None);
        assert_eq!(was_shorter(&file, 80 << 20).unwrap(), Some(8 << 20));
        let other = tempfile::tempfile().unwrap();
        other.set_len(8 << 20).unwrap();
        assert_eq!(was_shorter(&other, 8 << 20).unwrap(), None);
    }
}
