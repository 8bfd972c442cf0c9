//! Signatures that file systems, partition tables, and other users of whole drives leave at fixed
//! positions.
//!
//! Sources: the formats' public descriptions (kernel headers of each file system, UEFI for GPT,
//! md(4), LVM2's label and LUKS's on-disk specifications, ECMA-119 for ISO 9660). A signature only
//! names the content: a drive that contains any data is in use with or without one.

use std::io;

/// The position of a signature.
#[derive(Clone, Copy)]
enum At {
    /// At this offset from the beginning of the drive.
    Start(u64),
    /// At this offset before the end of the drive.
    End(u64),
    /// In the next-to-last complete 64 KiB, as md's first superblock format.
    Md0,
    /// At least 8 KiB before the end, at a multiple of 4 KiB, as md's superblock 1.0.
    Md1,
}

use At::{End, Md0, Md1, Start};

impl At {
    /// Returns the offset in a drive of this size, if it is large enough.
    fn within(self, bytes: u64) -> Option<u64> {
        match self {
            Start(at) => Some(at),
            End(before) => bytes.checked_sub(before),
            Md0 => (bytes & !0xFFFF).checked_sub(65_536),
            Md1 => (bytes / 512).checked_sub(16).map(|sector| (sector & !7) * 512),
        }
    }
}

const MD: &[u8] = &[0xFC, 0x4E, 0x2B, 0xA9];
const BCACHE: &[u8] = &[0xC6, 0x85, 0x73, 0xF6, 0x4E, 0x1A, 0x45, 0xCA];
const BCACHEFS: &[u8] = &[0xC6, 0x85, 0x73, 0xF6, 0x66, 0xCE, 0x90, 0xA9];
const UBERBLOCK: &[u8] = &[0x0C, 0xB1, 0xBA, 0, 0, 0, 0, 0];
/// The first signature found names the drive, so content within a partition table precedes the
/// table itself.
const MARKS: &[(&str, At, &[u8])] = &[
    ("a LUKS container", Start(0), b"LUKS\xBA\xBE"),
    ("a LUKS container", Start(0x4000), b"SKUL\xBA\xBE"),
    ("a LUKS container", Start(0x8000), b"SKUL\xBA\xBE"),
    ("a LUKS container", Start(0x1_0000), b"SKUL\xBA\xBE"),
    ("a LUKS container", Start(0x2_0000), b"SKUL\xBA\xBE"),
    ("a LUKS container", Start(0x4_0000), b"SKUL\xBA\xBE"),
    ("a LUKS container", Start(0x8_0000), b"SKUL\xBA\xBE"),
    ("a LUKS container", Start(0x10_0000), b"SKUL\xBA\xBE"),
    ("a LUKS container", Start(0x20_0000), b"SKUL\xBA\xBE"),
    ("a LUKS container", Start(0x40_0000), b"SKUL\xBA\xBE"),
    ("an LVM physical volume", Start(0), b"LABELONE"),
    ("an LVM physical volume", Start(512), b"LABELONE"),
    ("an LVM physical volume", Start(1024), b"LABELONE"),
    ("an LVM physical volume", Start(1536), b"LABELONE"),
    ("a drive of an md array", Start(0), MD),
    ("a drive of an md array", Start(4096), MD),
    ("a drive of an md array", Md1, MD),
    ("a drive of an md array", Md0, MD),
    ("a drive of a firmware RAID", End(512), &[0xDE, 0x11, 0xDE, 0x11]),
    ("a drive of a firmware RAID", End(1024), b"Intel Raid ISM Cfg Sig. "),
    ("a drive of bcache", Start(4120), BCACHE),
    ("a bcachefs file system", Start(4120), BCACHEFS),
    ("an ext2, ext3 or ext4 file system", Start(1080), &[0x53, 0xEF]),
    ("an XFS file system", Start(0), b"XFSB"),
    ("a Btrfs file system", Start(65_600), b"_BHRfS_M"),
    ("a Btrfs file system", Start((64 << 20) + 64), b"_BHRfS_M"),
    ("a Btrfs file system", Start((256 << 30) + 64), b"_BHRfS_M"),
    ("an F2FS file system", Start(1024), &[0x10, 0x20, 0xF5, 0xF2]),
    ("an EROFS file system", Start(1024), &[0xE2, 0xE1, 0xF5, 0xE0]),
    ("a SquashFS file system", Start(0), b"hsqs"),
    ("a JFS file system", Start(32_768), b"JFS1"),
    ("a ReiserFS file system", Start(65_588), b"ReIsEr"),
    ("an APFS container", Start(32), b"NXSB"),
    ("an HFS+ file system", Start(1024), b"H+\0\x04"),
    ("a drive of Ceph", Start(0), b"bluestore block device"),
    ("an NTFS file system", Start(3), b"NTFS    "),
    ("an exFAT file system", Start(3), b"EXFAT   "),
    ("a FAT file system", Start(54), b"FAT1"),
    ("a FAT file system", Start(82), b"FAT32"),
    ("an ISO 9660 file system", Start(32_769), b"CD001"),
    ("a UDF file system", Start(32_769), b"BEA01"),
    ("swap space", Start(4086), b"SWAP"),
    ("swap space", Start(8182), b"SWAP"),
    ("swap space", Start(16_374), b"SWAP"),
    ("swap space", Start(65_526), b"SWAP"),
    ("a QEMU disk image", Start(0), b"QFI\xFB"),
    ("a GPT partition table", Start(512), b"EFI PART"),
    ("a GPT partition table", Start(4096), b"EFI PART"),
    ("a GPT partition table", End(512), b"EFI PART"),
    ("a GPT partition table", End(4096), b"EFI PART"),
    ("a partition table or boot sector", Start(510), &[0x55, 0xAA]),
];

/// The size of a ZFS label. There are two at the beginning and two at the end of a drive; the
/// second half of each contains uberblocks, at multiples of 1 KiB.
const ZFS_LABEL: u64 = 256 << 10;
const ZFS: [At; 4] = [Start(0), Start(ZFS_LABEL), End(2 * ZFS_LABEL), End(ZFS_LABEL)];

/// Reads from a drive. Fails if any of the bytes is beyond its end.
pub(crate) type Read<'a> = &'a mut dyn FnMut(u64, &mut [u8]) -> io::Result<()>;

/// Identifies the content of a drive of this size. Returns its name and the position of the
/// signature.
///
/// # Errors
/// A position cannot be read.
pub(crate) fn known(bytes: u64, read: Read<'_>) -> Result<Option<(&'static str, u64)>, Unreadable> {
    let mut holds = |at: u64, mark: &[u8]| {
        if at.checked_add(mark.len() as u64).is_none_or(|end| end > bytes) {
            return Ok(false);
        }
        let mut found = vec![0; mark.len()];
        read(at, &mut found).map_err(|error| Unreadable { at, error })?;
        Ok(found == mark)
    };
    for (name, at, mark) in MARKS {
        if let Some(at) = at.within(bytes)
            && holds(at, mark)?
        {
            return Ok(Some((name, at)));
        }
    }
    let swapped: Vec<u8> = UBERBLOCK.iter().rev().copied().collect();
    // Labels at the end begin at a multiple of their size.
    let whole = bytes / ZFS_LABEL * ZFS_LABEL;
    let labels = ZFS.iter().filter_map(|at| at.within(whole));
    for at in labels.flat_map(|label| (128..256).map(move |nth| label + nth * 1024)) {
        if holds(at, UBERBLOCK)? || holds(at, &swapped)? {
            return Ok(Some(("a drive of ZFS", at)));
        }
    }
    Ok(None)
}

/// An unreadable position, and the operating-system error.
#[derive(Debug)]
pub(crate) struct Unreadable {
    pub(crate) at: u64,
    pub(crate) error: io::Error,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known_in(drive: &[u8]) -> Option<(&'static str, u64)> {
        let mut read = |at: u64, to: &mut [u8]| {
            to.copy_from_slice(&drive[at as usize..][..to.len()]);
            Ok(())
        };
        known(drive.len() as u64, &mut read).unwrap()
    }

    #[test]
    fn every_signature_within_a_drive_is_recognized() {
        let bytes = 5 << 20;
        for (name, at, mark) in MARKS {
            let at = at.within(bytes).unwrap();
            if at >= bytes {
                continue;
            }
            let mut drive = vec![0; bytes as usize];
            drive[at as usize..][..mark.len()].copy_from_slice(mark);
            assert_eq!(known_in(&drive), Some((*name, at)));
        }
        assert_eq!(known_in(&vec![0; bytes as usize]), None);
        // Drives too short for most signatures, down to an empty one.
        (0..600).for_each(|bytes| assert_eq!(known_in(&vec![0; bytes]), None));
    }

    #[test]
    fn signatures_at_the_end_are_where_their_formats_say() {
        let at = |at: At, bytes| at.within(bytes);
        // According to md(4), 0.90 is in the last 64 KiB aligned at 64 KiB, and 1.0 at least 8 KiB
        // before the end.
        assert_eq!(at(Md0, (1 << 20) + 5000), Some((1 << 20) - 65_536));
        assert_eq!(at(Md1, 1 << 20), Some((1 << 20) - 8192));
        assert_eq!(at(Md1, (1 << 20) + 512), Some((1 << 20) - 8192));
        for label in [0, 256 << 10, (4 << 20) - (512 << 10), (4 << 20) - (256 << 10)] {
            let mut drive = vec![0; (4 << 20) + 8192];
            let uberblock = label + (128 << 10) + 7 * 1024;
            drive[uberblock..][..8].copy_from_slice(UBERBLOCK);
            assert_eq!(known_in(&drive), Some(("a drive of ZFS", uberblock as u64)));
        }
    }
}
