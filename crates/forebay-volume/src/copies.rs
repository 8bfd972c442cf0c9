//! Where file systems keep copies of what begins their drive.
//!
//! Wiping a drive's first mebibytes leaves these, and whoever has them can often restore the rest: such a drive is in
//! use. The places follow from the length of the drive, so they are cheap to read although the drive is not read whole.
//! A file system may begin at the drive's first byte, or in a partition at sector 63 or 1 MiB.
//!
//! Sources: `mke2fs(8)` and the ext4 disk layout (copies in groups 1, 3, 5, 7, 9, 25, 27, 49), `mkfs.xfs` (allocation
//! groups of equal length, at most 1 TiB less a block), Btrfs (64 MiB and 256 GiB), ReiserFS (a bitmap each 128 MiB),
//! NTFS (the file table 3 GiB in, its mirror in the middle), Ceph (a label at 1, 10, 100 and 1000 GiB).

use std::ops::RangeInclusive;

/// Where partitions begin, at most, and what follows from there until a file system's copy is over.
const PARTITION: u64 = 1 << 20;
const BLOCK: u64 = 64 << 10;
/// Groups of ext4 with blocks of 4 KiB; larger ones are powers of two of that, smaller ones are near the begin.
const GROUP: u64 = 128 << 20;
const GROUPS: [u64; 6] = [5, 7, 9, 25, 27, 49];
/// Equal parts that file systems divide drives into, and of these the usual ones: with those, groups may be
/// shifted by a partition or aligned with stripes.
const PARTS: RangeInclusive<u64> = 2..=256;
const PARTS_USUAL: RangeInclusive<u64> = 2..=16;

/// Ranges of a drive of so many bytes that copies are in, the most likely first.
pub(crate) fn ranges(bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    let doubled = |first: u64| (0..64).map_while(move |by| first.checked_mul(1 << by));
    let powers = doubled(GROUP).chain(doubled(GROUP / 2)).chain(doubled(GROUP / 4 * 3));
    let groups = GROUPS.iter().map(|group| group * GROUP);
    let ceph = [10, 100, 1000].into_iter().map(|gib| gib << 30);
    let fixed = powers.chain(groups).chain(ceph);
    let fixed = fixed.map(|at| (at - BLOCK, at.saturating_add(PARTITION + 2 * BLOCK)));
    let parts = PARTS.map(move |count| {
        let is_usual = PARTS_USUAL.contains(&count) || count == 32;
        let around = if is_usual { PARTITION + BLOCK } else { BLOCK };
        let at = bytes / count;
        (at.saturating_sub(around), at.saturating_add(around))
    });
    let begun = move |range: &(u64, u64)| range.0 < bytes;
    fixed.filter(begun).chain(parts).map(move |(from, end)| (from, end.min(bytes)))
}

/// What copies are known by: where in them, and the mark.
const MARKS: &[(&str, usize, &[u8])] = &[
    ("an XFS file system", 0, b"XFSB"),
    ("a Btrfs file system", 64, b"_BHRfS_M"),
    ("a drive of Ceph", 0, b"bluestore block device"),
    ("an NTFS file system", 3, b"NTFS    "),
    ("an NTFS file system", 0, b"FILE0\0"),
    ("an exFAT file system", 3, b"EXFAT   "),
    ("a FAT file system", 82, b"FAT32"),
    ("an HFS+ file system", 0, b"H+\0\x04"),
    ("an F2FS file system", 0, &[0x10, 0x20, 0xF5, 0xF2]),
    ("an ext2, ext3 or ext4 file system", 56, &[0x53, 0xEF]),
];
/// Sectors begin at multiples of this, and copies with them.
pub(crate) const SECTOR: u64 = 512;

/// The name of what a sector is a copy of.
pub(crate) fn named(sector: &[u8]) -> Option<&'static str> {
    let holds = |at: usize, mark: &[u8]| sector.get(at..).is_some_and(|it| it.starts_with(mark));
    MARKS.iter().find(|(_, at, mark)| holds(*at, mark)).map(|(name, ..)| *name)
}
