//! Positions where file systems keep copies of their headers.
//!
//! Wiping the first mebibytes of a drive leaves these copies, from which the rest can often be
//! restored, so such a drive counts as in use. The positions follow from the size of the drive, so
//! they can be checked without reading the whole drive. A file system may begin at the first byte
//! of the drive, or in a partition at sector 63 or 1 MiB.
//!
//! Sources: `mke2fs(8)` and the ext4 disk layout (copies in groups 1, 3, 5, 7, 9, 25, 27, 49),
//! `mkfs.xfs` (allocation groups of equal length, at most 1 TiB less a block), Btrfs (64 MiB and
//! 256 GiB), ReiserFS (a bitmap every 128 MiB), NTFS (the file table at 3 GiB, its mirror in the
//! middle), Ceph (a label at 1, 10, 100 and 1000 GiB).

use std::ops::RangeInclusive;

/// The maximum offset of a first partition, and the maximum distance from there to the end of a
/// file system's copy.
const PARTITION: u64 = 1 << 20;
const BLOCK: u64 = 64 << 10;
/// The size of ext4 groups with blocks of 4 KiB; larger groups are multiples of this by a power of
/// two, and smaller ones are near the beginning.
const GROUP: u64 = 128 << 20;
const GROUPS: [u64; 6] = [5, 7, 9, 25, 27, 49];
/// The numbers of equal parts into which file systems divide drives, and the most common ones among
/// them; for these, groups may be shifted by a partition or aligned with stripes.
const PARTS: RangeInclusive<u64> = 2..=256;
const PARTS_USUAL: RangeInclusive<u64> = 2..=16;

/// Returns the ranges of a drive of this size that may contain copies, the most likely first.
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

/// Signatures of copies: the file system, the offset in the copy, and the bytes.
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
/// The sector size; copies begin at multiples of this.
pub(crate) const SECTOR: u64 = 512;

/// Returns the name of the file system whose header a sector copies.
pub(crate) fn named(sector: &[u8]) -> Option<&'static str> {
    let holds = |at: usize, mark: &[u8]| sector.get(at..).is_some_and(|it| it.starts_with(mark));
    MARKS.iter().find(|(_, at, mark)| holds(*at, mark)).map(|(name, ..)| *name)
}
