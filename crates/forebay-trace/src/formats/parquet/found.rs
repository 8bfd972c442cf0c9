//! Columns by the names that people give them: `timestamp` or `time_us` for `at_ns`, `size` or `sectors` for `len`.
//!
//! Case plays no part, nor does a blank or a hyphen for `_`. Of several columns that would do, the one listed first is taken, so
//! the canonical names always win. A unit stands at the end of the name, or the type says it; without either, offsets and lengths
//! are bytes, and times are refused.

use arrow_schema::{DataType, Fields};

/// A column that plays a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found<'a> {
    /// Its name.
    pub(super) name: &'a str,
    /// Nanoseconds or bytes that one of it is, as far as the name says.
    pub(super) unit: Option<u64>,
}

/// Times of arrival.
pub(super) const AT: [&str; 8] =
    ["at", "time", "timestamp", "ts", "datetime", "arrival", "start_time", "issue_time"];
/// Times from arrival to completion.
pub(super) const LATENCY: [&str; 4] = ["latency", "response_time", "duration", "response"];
/// First bytes.
pub(super) const OFFSET: [(&str, u64); 8] = [
    ("offset", 1),
    ("offset_bytes", 1),
    ("byte_offset", 1),
    ("lba", SECTOR_BYTES),
    ("sector", SECTOR_BYTES),
    ("lbn", SECTOR_BYTES),
    ("offset_sectors", SECTOR_BYTES),
    ("offset_kib", 1024),
];
/// Lengths.
pub(super) const LEN: [(&str, u64); 13] = [
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
    ("size_kib", 1024),
];
/// Operations as words, or whether a request writes or reads as truth values.
pub(super) const OP: [&str; 8] =
    ["op", "operation", "rw", "io_type", "type", "is_write", "is_read", "write"];
/// Volumes by number or name.
pub(super) const VOLUME: [&str; 7] =
    ["volume", "disk", "device", "dev", "lun", "volume_id", "device_id"];
/// Threads by number.
pub(super) const THREAD: [&str; 3] = ["thread", "tid", "thread_id"];
/// Processes by number.
pub(super) const PROCESS: [&str; 4] = ["process", "pid", "process_id", "tgid"];
/// Names of those who submit.
pub(super) const NAME: [&str; 6] =
    ["name", "comm", "process_name", "thread_name", "application", "process"];

const SECTOR_BYTES: u64 = 512;
const TIME_UNITS: [(&str, u64); 4] =
    [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];

/// A name as it is compared.
fn plain(name: &str) -> String {
    name.trim().to_lowercase().replace([' ', '-'], "_")
}

/// The column of times that one of `names` calls, with its unit behind it or without.
pub(super) fn time<'a>(fields: &'a Fields, names: &[&str]) -> Option<Found<'a>> {
    let called = |wanted: &str| {
        fields.iter().find_map(|field| {
            let title = plain(field.name());
            let rest = title.strip_prefix(wanted)?;
            let unit = TIME_UNITS.iter().find(|(unit, _)| rest.strip_prefix('_') == Some(unit));
            let unit = unit.map(|(_, ns)| *ns);
            (rest.is_empty() || unit.is_some()).then_some(Found { name: field.name(), unit })
        })
    };
    names.iter().find_map(|name| called(name))
}

/// The column of bytes that one of `names` calls.
pub(super) fn bytes<'a>(fields: &'a Fields, names: &[(&str, u64)]) -> Option<Found<'a>> {
    let called = |(wanted, unit): &(&str, u64)| {
        let field = fields.iter().find(|field| plain(field.name()) == *wanted)?;
        Some(Found { name: field.name(), unit: Some(*unit) })
    };
    names.iter().find_map(called)
}

/// The column that one of `names` calls and whose type `fits`.
pub(super) fn any<'a>(
    fields: &'a Fields,
    names: &[&str],
    fits: impl Fn(&DataType) -> bool,
) -> Option<&'a str> {
    let called = |wanted: &&str| {
        fields.iter().find(|field| plain(field.name()) == *wanted && fits(field.data_type()))
    };
    names.iter().find_map(called).map(|field| field.name().as_str())
}

/// Whether a column holds words.
pub(super) fn is_text(kind: &DataType) -> bool {
    match kind {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => is_text(values),
        _ => false,
    }
}

/// Whether a column holds numbers.
pub(super) fn is_number(kind: &DataType) -> bool {
    kind.is_integer() || kind.is_floating()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_schema::Field;

    fn fields(names: &[&str]) -> Fields {
        names.iter().map(|name| Field::new(*name, DataType::Int64, true)).collect()
    }

    #[test]
    fn units_stand_at_the_end_of_names() {
        let found = |name: &'static str| {
            time(&fields(&[name]), &AT).map(|found| (found.name.to_string(), found.unit))
        };
        for (name, unit) in [
            ("at_ns", Some(1)),
            ("Time_us", Some(1_000)),
            ("timestamp-ms", Some(1_000_000)),
            ("start time s", Some(1_000_000_000)),
            ("TS", None),
        ] {
            assert_eq!(found(name), Some((name.to_string(), unit)));
        }
        for other in ["latency_ns", "at_min", "attempts", "times"] {
            assert_eq!(found(other), None, "{other}");
        }
    }

    #[test]
    fn the_canonical_name_wins_wherever_it_stands() {
        let all = fields(&["lba", "Size", "offset", "sectors", "len", "time", "at_ns"]);
        assert_eq!(bytes(&all, &OFFSET).unwrap(), Found { name: "offset", unit: Some(1) });
        assert_eq!(bytes(&all, &LEN).unwrap(), Found { name: "len", unit: Some(1) });
        assert_eq!(time(&all, &AT).unwrap(), Found { name: "at_ns", unit: Some(1) });
        let some = fields(&["sectors", "LBA"]);
        assert_eq!(bytes(&some, &LEN).unwrap().unit, Some(512));
        assert_eq!(bytes(&some, &OFFSET).unwrap(), Found { name: "LBA", unit: Some(512) });
        assert_eq!(bytes(&some, &[("len", 1)]), None);
    }
}
