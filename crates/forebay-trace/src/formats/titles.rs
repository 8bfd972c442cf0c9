//! Finds columns by common names, such as `timestamp` or `time_us` for `at_ns`, and `size` or
//! `sectors` for `len`. This is the only table of names, both for Parquet and for CSV with a
//! header.
//!
//! Case is ignored, and a space or a hyphen equals `_`; `time (us)` and `time[us]` are `time_us`.
//! If several columns match, the one whose name is listed first here counts, so canonical names
//! always win. A name ends with its unit. Without one, offsets and lengths are in bytes, and times
//! need a type that has a unit; otherwise, they are rejected.

/// Names of arrival times.
pub(super) const AT: [&str; 20] = [
    "elapsed",
    "elapsed_time",
    "request_time",
    "at",
    "time",
    "timestamp",
    "ts",
    "datetime",
    "arrival",
    "arrival_time",
    "start_time",
    "issue_time",
    "issue",
    "issued",
    "submit_time",
    "submit",
    "submitted",
    "arrived",
    "date",
    "init_time",
];
/// Names of arrival times, provided that they state a unit. Without a unit, they may be offsets.
pub(super) const AT_WITH_UNIT: [&str; 2] = ["start", "begin"];
/// Names of completion times.
pub(super) const END: [&str; 10] = [
    "end",
    "end_time",
    "completion",
    "completion_time",
    "complete_time",
    "completed",
    "complete",
    "finish",
    "finish_time",
    "finished",
];
/// Names of latencies, from arrival to completion.
pub(super) const LATENCY: [&str; 6] =
    ["latency", "response_time", "duration", "response", "lat", "io_time"];
/// Names of the offset of the first byte, with their units.
pub(super) const OFFSET: [(&str, u64); 15] = [
    ("offset", 1),
    ("offset_bytes", 1),
    ("byte_offset", 1),
    ("file_offset", 1),
    ("offset_b", 1),
    ("lba", SECTOR_BYTES),
    ("sector", SECTOR_BYTES),
    ("lbn", SECTOR_BYTES),
    ("start_lba", SECTOR_BYTES),
    ("start_sector", SECTOR_BYTES),
    ("sector_number", SECTOR_BYTES),
    ("sector_offset", SECTOR_BYTES),
    ("offset_sectors", SECTOR_BYTES),
    ("offset_kib", 1024),
    ("min_offset", 1),
];
/// Names of offsets in an unknown unit.
pub(super) const OFFSET_UNSURE: [&str; 13] = [
    "offset_kb",
    "offset_mb",
    "offset_blocks",
    "start",
    "block",
    "blkno",
    "block_number",
    "block_id",
    "block_offset",
    "address",
    "addr",
    "page",
    "position",
];
/// Names of lengths, with their units.
pub(super) const LEN: [(&str, u64); 23] = [
    ("nr_sector", SECTOR_BYTES),
    ("size_b", 1),
    ("len_b", 1),
    ("io_size_bytes", 1),
    ("len", 1),
    ("length", 1),
    ("size", 1),
    ("bytes", 1),
    ("len_bytes", 1),
    ("length_bytes", 1),
    ("size_bytes", 1),
    ("io_size", 1),
    ("nbytes", 1),
    ("sectors", SECTOR_BYTES),
    ("len_sectors", SECTOR_BYTES),
    ("nr_sectors", SECTOR_BYTES),
    ("num_sectors", SECTOR_BYTES),
    ("nsectors", SECTOR_BYTES),
    ("n_sectors", SECTOR_BYTES),
    ("sector_count", SECTOR_BYTES),
    ("sectorcount", SECTOR_BYTES),
    ("size_sectors", SECTOR_BYTES),
    ("size_kib", 1024),
];
/// Names of lengths in an unknown unit.
pub(super) const LEN_UNSURE: [&str; 9] = [
    "size_kb",
    "len_kb",
    "io_size_kb",
    "blocks",
    "nblocks",
    "block_count",
    "pages",
    "npages",
    "count",
];
/// Names of offsets and lengths that mean bytes only if the other of the two has no other unit.
const BARE: [&str; 6] = ["offset", "file_offset", "len", "length", "size", "io_size"];
/// Names of operations, as words or as truth values for write or read.
pub(super) const OP: [&str; 10] =
    ["op", "operation", "op_type", "rw", "io_type", "type", "is_write", "is_read", "write", "rwbs"];
/// Names of volumes, by number or name.
pub(super) const VOLUME: [&str; 7] =
    ["volume", "disk", "device", "dev", "lun", "volume_id", "device_id"];
/// Names of thread ids.
pub(super) const THREAD: [&str; 3] = ["thread", "tid", "thread_id"];
/// Names of process ids.
pub(super) const PROCESS: [&str; 4] = ["process", "pid", "process_id", "tgid"];
/// Names of columns with the submitter's name.
pub(super) const NAME: [&str; 6] =
    ["name", "comm", "process_name", "thread_name", "application", "process"];

const SECTOR_BYTES: u64 = 512;
const TIME_UNITS: [(&str, u64); 12] = [
    ("ns", 1),
    ("nsec", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("usec", 1_000),
    ("ms", 1_000_000),
    ("msec", 1_000_000),
    ("s", SECOND_NS),
    ("sec", SECOND_NS),
    ("secs", SECOND_NS),
    ("second", SECOND_NS),
    ("seconds", SECOND_NS),
];
const SECOND_NS: u64 = 1_000_000_000;

/// The normalized names of a table's columns.
pub(super) struct Titles(Vec<String>);

/// Normalizes a name for comparison.
fn plain(name: &str) -> String {
    let name = name.trim().trim_end_matches([')', ']']).to_lowercase();
    let words = name.split([' ', '-', '_', '(', '[']).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("_")
}

impl Titles {
    pub(super) fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Titles {
        Titles(names.into_iter().map(plain).collect())
    }

    /// Returns the column of times with one of `names`, and the nanoseconds of its unit suffix, if
    /// there is one. `fits` decides whether a column is acceptable with or without a unit.
    pub(super) fn time(
        &self,
        names: &[&str],
        fits: impl Fn(Option<u64>) -> bool,
    ) -> Option<(usize, Option<u64>)> {
        let called = |wanted: &&str| {
            self.0.iter().enumerate().find_map(|(column, title)| {
                let rest = title.strip_prefix(wanted)?;
                let unit = TIME_UNITS.iter().find(|(unit, _)| rest.strip_prefix('_') == Some(unit));
                let unit = unit.map(|(_, ns)| *ns);
                ((rest.is_empty() || unit.is_some()) && fits(unit)).then_some((column, unit))
            })
        };
        names.iter().find_map(called)
    }

    /// Returns the column of offsets or lengths with one of `names`, and its unit in bytes.
    pub(super) fn bytes(&self, names: &[(&str, u64)]) -> Option<(usize, u64)> {
        let called = |(wanted, unit): &(&str, u64)| {
            Some((self.0.iter().position(|title| title == wanted)?, *unit))
        };
        names.iter().find_map(called)
    }

    /// Returns the columns of offsets and of lengths, each with its unit in bytes. If one of them
    /// counts sectors, a name without a unit leaves the other's unit open: in `lba,size`, the size
    /// may just as well be in sectors as in bytes.
    pub(super) fn extents(&self) -> [Option<(usize, Option<u64>)>; 2] {
        let [offset, len] = [self.bytes(&OFFSET), self.bytes(&LEN)];
        let told = |one: Option<(usize, u64)>, other: Option<(usize, u64)>| {
            let (column, unit) = one?;
            let is_open = self.is(column, &BARE) && other.is_some_and(|(_, unit)| unit != 1);
            Some((column, (!is_open).then_some(unit)))
        };
        [told(offset, len), told(len, offset)]
    }

    /// Returns the column with one of `names` that satisfies `fits`.
    pub(super) fn any(&self, names: &[&str], fits: impl Fn(usize) -> bool) -> Option<usize> {
        let called = |wanted: &&str| {
            let columns = self.0.iter().enumerate();
            columns
                .filter(|(_, title)| title == wanted)
                .map(|(column, _)| column)
                .find(|c| fits(*c))
        };
        names.iter().find_map(called)
    }

    /// Returns the role that the name of `column` means, as written in declarations.
    pub(super) fn role(&self, column: usize) -> Option<&'static str> {
        let one = Titles(vec![self.0.get(column)?.clone()]);
        let times: [(&str, &[&str]); 4] =
            [("at", &AT), ("at", &AT_WITH_UNIT), ("end", &END), ("latency", &LATENCY)];
        let words: [(&str, &[&str]); 9] = [
            ("op", &OP),
            ("offset", &OFFSET_UNSURE),
            ("len", &LEN_UNSURE),
            ("volume", &VOLUME),
            ("thread", &THREAD),
            ("process", &PROCESS),
            ("name", &NAME),
            ("stream", &["stream"]),
            ("flags", &["flags"]),
        ];
        let time = times.into_iter().find(|(_, names)| one.time(names, |_| true).is_some());
        let word = || words.into_iter().find(|(_, names)| one.any(names, |_| true).is_some());
        let found = time.or_else(word).map(|(role, _)| role);
        let offset = || one.bytes(&OFFSET).map(|_| "offset");
        found.or_else(offset).or_else(|| one.bytes(&LEN).map(|_| "len"))
    }

    /// Returns the column called `title`, however it is spelled.
    pub(super) fn named(&self, title: &str) -> Option<usize> {
        let title = plain(title);
        self.0.iter().position(|name| *name == title)
    }

    /// Returns whether two columns have the same name.
    pub(super) fn is_same(&self, one: usize, other: usize) -> bool {
        self.0.get(one) == self.0.get(other)
    }

    /// Returns whether another column has the same name as `column`.
    pub(super) fn is_twice(&self, column: usize) -> bool {
        let Some(wanted) = self.0.get(column) else { return false };
        self.0.iter().filter(|title| *title == wanted).count() > 1
    }

    /// Returns whether the name of `column` is one of `names`.
    pub(super) fn is(&self, column: usize, names: &[&str]) -> bool {
        self.0.get(column).is_some_and(|title| names.contains(&title.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_stand_at_the_end_of_names() {
        let found = |name: &str| Titles::new([name]).time(&AT, |_| true).map(|(_, unit)| unit);
        for (name, unit) in [
            ("at_ns", Some(1)),
            ("Time_us", Some(1_000)),
            ("timestamp-ms", Some(1_000_000)),
            ("start time s", Some(SECOND_NS)),
            ("Time (us)", Some(1_000)),
            ("arrival[ms]", Some(1_000_000)),
            ("ts_sec", Some(SECOND_NS)),
            ("time (µs)", Some(1_000)),
            ("TS", None),
        ] {
            assert_eq!(found(name), Some(unit), "{name}");
        }
        for other in ["latency_ns", "at_min", "attempts", "times", "", "_"] {
            assert_eq!(found(other), None, "{other}");
        }
    }

    #[test]
    fn every_spelling_of_a_unit_is_its_size() {
        for (words, ns) in [
            (&["ns", "nsec"][..], 1),
            (&["us", "usec", "µs"], 1_000),
            (&["ms", "msec"], 1_000_000),
            (&["s", "sec", "secs", "second", "seconds"], 1_000_000_000),
        ] {
            for word in words {
                let found = Titles::new([format!("at_{word}").as_str()]).time(&AT, |_| true);
                assert_eq!(found, Some((0, Some(ns))), "{word}");
            }
        }
    }

    #[test]
    fn a_bare_name_beside_sectors_tells_no_unit() {
        let units = |names: [&str; 2]| Titles::new(names).extents().map(|found| found.unwrap().1);
        assert_eq!(units(["offset", "size"]), [Some(1), Some(1)]);
        assert_eq!(units(["lba", "size"]), [Some(512), None]);
        assert_eq!(units(["Sector", "io_size"]), [Some(512), None]);
        assert_eq!(units(["offset", "sectors"]), [None, Some(512)]);
        assert_eq!(units(["offset_kib", "length"]), [Some(1024), None]);
        assert_eq!(units(["lba", "bytes"]), [Some(512), Some(1)]);
        assert_eq!(units(["offset_bytes", "nr_sectors"]), [Some(1), Some(512)]);
    }

    #[test]
    fn the_canonical_name_wins_wherever_it_stands() {
        let all = Titles::new(["lba", "Size", "offset", "sectors", "len", "time", "at_ns"]);
        assert_eq!(all.bytes(&OFFSET), Some((2, 1)));
        assert_eq!(all.bytes(&LEN), Some((4, 1)));
        assert_eq!(all.time(&AT, |_| true), Some((6, Some(1))));
        assert_eq!(all.time(&AT, |unit| unit.is_none()), Some((5, None)));
        let some = Titles::new(["sectors", "LBA", "lba"]);
        assert_eq!((some.bytes(&LEN), some.bytes(&OFFSET)), (Some((0, 512)), Some((1, 512))));
        assert_eq!(
            (some.bytes(&[("len", 1)]), some.any(&["lba"], |column| column > 1)),
            (None, Some(2))
        );
        assert!(some.is_twice(1) && !some.is_twice(0) && some.is(2, &["lba"]) && !some.is(0, &OP));
    }
}
