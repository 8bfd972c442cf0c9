//! Finds the columns of a Parquet table by their names ([`Titles`]) and types. If the name of a
//! column of times contains no unit, the type determines it.

use super::shown;
use crate::ColumnMeaning;
use crate::columns::date::day_of;
use crate::columns::unit::TIME_UNITS;
use crate::formats::titles::{AT, LATENCY, LEN, NAME, OFFSET, OP, PROCESS, THREAD, Titles, VOLUME};
use crate::table::{ColumnKind, Field};

/// A column that was found for a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FoundColumn<'a> {
    /// The name of the column.
    pub(super) name: &'a str,
    /// The unit in nanoseconds or bytes, if the name contains one.
    pub(super) unit: Option<u64>,
}

fn titles(fields: &[Field]) -> Titles {
    Titles::new(fields.iter().map(|field| field.name.as_str()))
}

/// Finds the column of times with one of `names`, which may have the suffix of a unit.
pub(super) fn time<'a>(fields: &'a [Field], names: &[&str]) -> Option<FoundColumn<'a>> {
    let (column, unit) = titles(fields).time(names, |_| true)?;
    Some(FoundColumn { name: &fields.get(column)?.name, unit })
}

/// Finds the column of latencies, if its name or type determines the unit.
pub(super) fn latency(fields: &[Field]) -> Option<FoundColumn<'_>> {
    time(fields, &LATENCY).filter(|found| found.unit.is_some() || tells_unit(fields, found.name))
}

/// Returns a note about latencies that are ignored because their unit is unknown.
pub(super) fn unread_latency(fields: &[Field]) -> Option<String> {
    let found = time(fields, &LATENCY).filter(|_| latency(fields).is_none())?;
    Some(format!(
        "the unit of the column {} is unknown, so it is ignored; if it holds latencies, rename it \
         to {} or {}",
        shown(found.name),
        shown(&format!("{}_us", found.name)),
        shown(&format!("{}_ms", found.name))
    ))
}

/// The maximum number of ignored columns whose names are listed in a note.
const UNREAD_SHOWN: usize = 5;
/// The names of index columns that pandas may add.
const INDICES: [&str; 3] = ["index", "__index_level_0__", "Unnamed: 0"];

/// Returns a note about columns that are ignored.
pub(super) fn unread(fields: &[Field]) -> Option<String> {
    let who = [&THREAD[..], &PROCESS[..], &NAME[..], &VOLUME[..], &["stream", "flags"]].concat();
    let read: Vec<&str> = [
        time(fields, &AT).map(|found| found.name),
        any(fields, &OP, |_| true),
        bytes(fields, &OFFSET).map(|found| found.name),
        bytes(fields, &LEN).map(|found| found.name),
        time(fields, &LATENCY).map(|found| found.name),
    ]
    .into_iter()
    .flatten()
    .chain(who.iter().filter_map(|name| any(fields, &[name], |_| true)))
    .chain(INDICES)
    .collect();
    let names = fields.iter().map(|field| field.name.as_str());
    let unread: Vec<String> = names.filter(|name| !read.contains(name)).map(shown).collect();
    let shown = unread.get(..UNREAD_SHOWN).unwrap_or(&unread).join(", ");
    let more = match unread.len().saturating_sub(UNREAD_SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!unread.is_empty()).then(|| format!("ignored columns: {shown}{more}"))
}

/// Returns a note if the first time would be a few days after 1970 in the unit of the column's
/// name, but a date of this century in a unit that is a thousand times as large.
pub(super) fn other_date(found: FoundColumn<'_>, first_ns: i64) -> Option<String> {
    const DATES_S: std::ops::Range<i64> = 1_100_000_000..2_200_000_000;
    let unit = found.unit.filter(|&unit| unit <= 1_000_000)?;
    let seconds = first_ns / 1_000_000;
    let larger = ["us", "ms", "s"].get((unit.checked_ilog(1000)?) as usize)?;
    DATES_S.contains(&seconds).then(|| {
        format!(
            "the first time in {} is {}, or {} if the unit is {larger}: in that case, rename the \
             column to {}",
            shown(found.name),
            day_of(first_ns as f64 / 1e9),
            1970 + seconds / 31_556_952,
            shown(&format!("time_{larger}"))
        )
    })
}

/// Returns the declaration implied by the names of a table's columns, and the names of those for
/// times, offsets and lengths. Times whose type has a unit count as ns.
pub(super) fn declared(fields: &[Field]) -> Option<(String, [String; 3])> {
    let at = time(fields, &AT)?;
    let unit = match tells_unit(fields, at.name) {
        true => "ns",
        false => TIME_UNITS.iter().find(|unit| Some(unit.ns) == at.unit)?.name,
    };
    let [offset, len] = [bytes(fields, &OFFSET)?, bytes(fields, &LEN)?];
    let of = |found: FoundColumn<'_>| match found.unit {
        Some(512) => ":sectors",
        Some(1024) => ":kib",
        _ => "",
    };
    let text = format!("at:{unit},op,offset{},len{}", of(offset), of(len));
    Some((text, [at.name, offset.name, len.name].map(str::to_owned)))
}

/// A column's name, how the column is interpreted, and why.
type Meaning<'a> = (&'a str, String, &'static str);

fn timed<'a>(fields: &[Field], role: &str, found: FoundColumn<'a>) -> Meaning<'a> {
    if tells_unit(fields, found.name) {
        return (found.name, role.to_owned(), "its name, and the unit of its type");
    }
    let unit = TIME_UNITS.iter().find(|unit| Some(unit.ns) == found.unit);
    let unit = unit.map_or(String::new(), |unit| format!(":{}", unit.name));
    (found.name, format!("{role}{unit}"), "its name")
}

fn counted_in_bytes<'a>(role: &str, found: FoundColumn<'a>) -> Meaning<'a> {
    let unit = match found.unit {
        Some(512) => ":sectors",
        Some(1024) => ":kib",
        _ => "",
    };
    (found.name, format!("{role}{unit}"), "its name")
}

/// Explains how the columns of another tool's table are read.
pub(super) fn meanings(fields: &[Field]) -> Vec<ColumnMeaning> {
    let named = |role: &str, names: &[&str], fits: fn(&ColumnKind) -> bool| {
        Some((any(fields, names, fits)?, role.to_owned(), "its name"))
    };
    let either = |_: &ColumnKind| true;
    let read = [
        time(fields, &AT).map(|found| timed(fields, "at", found)),
        latency(fields).map(|found| timed(fields, "latency", found)),
        bytes(fields, &OFFSET).map(|found| counted_in_bytes("offset", found)),
        bytes(fields, &LEN).map(|found| counted_in_bytes("len", found)),
        named("op", &OP, either),
        named("volume", &VOLUME, either),
        named("stream", &["stream"], either),
        named("thread", &THREAD, is_number),
        named("process", &PROCESS, is_number),
        named("name", &NAME, is_text),
        named("flags", &["flags"], either),
    ];
    let meaning = |field: &Field| {
        let found = read.iter().flatten().find(|(name, ..)| *name == field.name);
        let (read_as, because) = found.map_or(
            ("_", "the name is unknown, or another column already has its role"),
            |(_, role, because)| (role.as_str(), *because),
        );
        let (column, read_as, because) =
            (field.name.clone(), read_as.to_owned(), because.to_owned());
        ColumnMeaning { column, read_as, because }
    };
    fields.iter().map(meaning).collect()
}

fn tells_unit(fields: &[Field], name: &str) -> bool {
    let kind = fields.iter().find(|field| field.name == name).map(|field| &field.kind);
    matches!(kind, Some(ColumnKind::Timestamp { .. } | ColumnKind::Duration { .. }))
}

/// Finds the column of offsets or lengths with one of `names`.
pub(super) fn bytes<'a>(fields: &'a [Field], names: &[(&str, u64)]) -> Option<FoundColumn<'a>> {
    let (column, unit) = titles(fields).bytes(names)?;
    Some(FoundColumn { name: &fields.get(column)?.name, unit: Some(unit) })
}

/// Returns a note if only one of the two names, that of the offset or that of the length, contains
/// a unit. The other column is read in bytes.
pub(super) fn open_unit(fields: &[Field]) -> Option<String> {
    let mut extents = titles(fields).extents().into_iter().flatten();
    let (column, _) = extents.find(|(_, unit)| unit.is_none())?;
    let name = &fields.get(column)?.name;
    Some(format!(
        "the unit of the column {} is unknown, so bytes are assumed; rename it to {}, or to {} if \
         it is in sectors of 512 bytes",
        shown(name),
        shown(&format!("{name}_bytes")),
        shown(&format!("{name}_sectors"))
    ))
}

/// Finds the column with one of `names` whose type satisfies `fits`.
pub(super) fn any<'a>(
    fields: &'a [Field],
    names: &[&str],
    fits: impl Fn(&ColumnKind) -> bool,
) -> Option<&'a str> {
    let fits = |column: usize| fields.get(column).is_some_and(|field| fits(&field.kind));
    Some(&fields.get(titles(fields).any(names, fits)?)?.name)
}

/// Returns whether a column contains text.
pub(super) fn is_text(kind: &ColumnKind) -> bool {
    *kind == ColumnKind::Text
}

/// Returns whether a column contains numbers.
pub(super) fn is_number(kind: &ColumnKind) -> bool {
    matches!(kind, ColumnKind::Integer { .. } | ColumnKind::Float { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    const INT64: ColumnKind = ColumnKind::Integer { bits: 64, signed: true };

    fn field(name: &str, kind: ColumnKind) -> Field {
        Field { name: name.into(), kind }
    }

    #[test]
    fn columns_that_nothing_asks_for_are_named() {
        let fields = |names: &[&str]| -> Vec<Field> {
            names.iter().map(|name| field(name, INT64)).collect()
        };
        let all = ["at_ns", "op", "offset", "len", "stream", "volume", "latency_ns", "flags"];
        assert_eq!(unread(&fields(&all)), None);
        let others =
            ["Time_us", "OP", "lba", "sectors", "pid", "comm", "disk", "response_time", "index"];
        assert_eq!(unread(&fields(&others)), None);
        let told = unread(&fields(&["at_ns", "op", "offset", "len", "svctime", "host"]));
        assert_eq!(told.as_deref(), Some("ignored columns: \"svctime\", \"host\""));
        let more = ["at_ns", "op", "offset", "len", "a", "b", "c", "d", "e", "f", "time_ms"];
        assert!(unread(&fields(&more)).unwrap().ends_with("\"e\" and 2 more"));
    }

    #[test]
    fn a_date_in_another_unit_is_reported() {
        let told = |unit, first_ns| other_date(FoundColumn { name: "time", unit }, first_ns);
        let of_2024 = 1_716_900_000_123_456;
        let ms = told(Some(1_000_000), of_2024).unwrap();
        assert!(ms.contains("is January 20, 1970, or 2024 if the unit is s:"), "{ms}");
        assert!(told(Some(1), of_2024).unwrap().contains("if the unit is us"));
        assert!(told(Some(1000), of_2024).unwrap().ends_with("rename the column to \"time_ms\""));
        for (unit, first) in
            [(Some(1), of_2024 * 1000), (Some(1_000_000_000), of_2024), (None, of_2024)]
        {
            assert_eq!(told(unit, first), None);
        }
        assert_eq!(told(Some(1), 0), None);
    }

    #[test]
    fn a_latency_without_a_unit_is_ignored_and_reported() {
        let fields = |name: &str, kind| vec![field(name, kind)];
        let bare = fields("response_time", ColumnKind::Float { bits: 64 });
        assert!(latency(&bare).is_none());
        let told = unread_latency(&bare).unwrap();
        assert!(told.contains("response_time") && told.contains("response_time_us"), "{told}");
        for (name, kind) in
            [("latency_us", INT64), ("latency", ColumnKind::Duration { tick_ns: 1 })]
        {
            let told = fields(name, kind);
            assert!(latency(&told).is_some() && unread_latency(&told).is_none(), "{name}");
        }
        assert_eq!(unread_latency(&fields("len", INT64)), None);
    }
}
