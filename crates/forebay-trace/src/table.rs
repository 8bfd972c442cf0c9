//! Tables of requests in memory: typed columns in batches, in the form of [canonical
//! Parquet](crate::formats::parquet::canonical) or of other tools.
//!
//! Parquet files are read through this interface, and so is any other table that implements
//! [`Source`]. The Python package implements it for Arrow.

use std::fmt;
use std::path::Path;

use crate::formats::parquet::canonical::{self, StreamText};
use crate::formats::parquet::open_table;
pub use crate::op_flags::flag_letters;
use crate::{Dictionary, Notes, Reader, TraceError};

/// The type of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// Integers.
    Integer {
        /// The number of bits in a value, at most 64.
        bits: u8,
        /// Whether values may be negative.
        signed: bool,
    },
    /// Floating-point numbers of 16, 32 or 64 bits.
    Float {
        /// The number of bits in a value.
        bits: u8,
    },
    /// Truth values.
    Boolean,
    /// Strings.
    Text,
    /// Points in time, in ticks since 1970.
    Timestamp {
        /// The number of nanoseconds in a tick.
        tick_ns: u64,
    },
    /// Durations, in ticks.
    Duration {
        /// The number of nanoseconds in a tick.
        tick_ns: u64,
    },
    /// A type that requests cannot have, with its name for messages.
    Other(String),
}

impl fmt::Display for ColumnKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = |tick_ns: u64| match tick_ns {
            1 => "ns",
            1_000 => "us",
            1_000_000 => "ms",
            _ => "s",
        };
        match self {
            ColumnKind::Integer { bits, signed: true } => write!(f, "Int{bits}"),
            ColumnKind::Integer { bits, signed: false } => write!(f, "UInt{bits}"),
            ColumnKind::Float { bits } => write!(f, "Float{bits}"),
            ColumnKind::Boolean => f.write_str("Boolean"),
            ColumnKind::Text => f.write_str("Utf8"),
            ColumnKind::Timestamp { tick_ns } => write!(f, "Timestamp({})", unit(*tick_ns)),
            ColumnKind::Duration { tick_ns } => write!(f, "Duration({})", unit(*tick_ns)),
            ColumnKind::Other(name) => f.write_str(name),
        }
    }
}

/// The name and type of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The name.
    pub name: String,
    /// The type.
    pub kind: ColumnKind,
}

/// Strings, many of which occur repeatedly.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    /// The distinct strings. Some of them may not occur in any row.
    pub distinct: Vec<String>,
    /// The index into `distinct` for each row. It has no meaning if the row's value is missing.
    pub rows: Vec<u32>,
}

/// The values of a column, one per row. Missing values have placeholders.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Values of [`ColumnKind::Integer`], [`ColumnKind::Timestamp`] and [`ColumnKind::Duration`].
    /// Unsigned 64-bit integers are stored as signed ones with the same bits.
    Integers(Vec<i64>),
    /// Values of [`ColumnKind::Float`].
    Floats(Vec<f64>),
    /// Values of [`ColumnKind::Boolean`].
    Truths(Vec<bool>),
    /// Values of [`ColumnKind::Text`].
    Texts(Texts),
}

/// A column of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The values.
    pub values: Values,
    /// Whether each row's value is missing (null). Empty if no value is missing.
    pub missing: Vec<bool>,
}

impl Column {
    /// Creates a column without rows. Columns of [`ColumnKind::Other`] never have values.
    pub fn of(kind: &ColumnKind) -> Column {
        let values = match kind {
            ColumnKind::Float { .. } => Values::Floats(Vec::new()),
            ColumnKind::Boolean => Values::Truths(Vec::new()),
            ColumnKind::Text => Values::Texts(Texts::default()),
            _ => Values::Integers(Vec::new()),
        };
        Column { values, missing: Vec::new() }
    }
}

/// Several consecutive rows of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// The number of rows in the batch.
    pub rows: usize,
    /// A column for each field. Columns that were not requested are empty.
    pub columns: Vec<Column>,
}

/// A table that provides rows.
pub trait Source: Send {
    /// Returns the names and types of the columns.
    fn fields(&self) -> &[Field];

    /// Returns the next rows, at least one, or `None` at the end. Only columns whose indices are in
    /// `wanted` have values; those of [`ColumnKind::Other`] never do. Every call must request the
    /// same columns.
    fn next(&mut self, wanted: &[usize]) -> Result<Option<&Batch>, TraceError>;
}

/// Returns the metadata that columns cannot contain: the version of the format, the units, the
/// dictionaries as JSON, and when the trace began.
pub fn metadata(dictionary: &Dictionary, notes: &Notes) -> Vec<(&'static str, String)> {
    let streams: Vec<StreamText> = dictionary.streams.iter().map(StreamText::from).collect();
    // This cannot fail, because lists of numbers and strings can always be represented in JSON.
    let json = |text: Result<String, serde_json::Error>| text.unwrap_or_default();
    let mut said = vec![
        (canonical::KEY_VERSION, canonical::VERSION.into()),
        (canonical::KEY_SOURCE, notes.format.into()),
        (canonical::KEY_UNIT, canonical::UNIT.into()),
        (canonical::KEY_STREAMS, json(serde_json::to_string(&streams))),
        (canonical::KEY_VOLUMES, json(serde_json::to_string(&dictionary.volumes))),
    ];
    said.extend(notes.began.map(|began| (canonical::KEY_BEGAN, began.0.to_string())));
    said
}

/// Reads a table in canonical form or in the form of captures, as [`crate::open::open`] reads a
/// file. Its name in messages is `name`. `said` is the metadata of the table; `names` takes
/// precedence over it. Streams and volumes without names are named by their numbers.
pub fn read(
    name: &Path,
    source: Box<dyn Source>,
    said: impl IntoIterator<Item = (String, String)>,
    names: Option<&Dictionary>,
) -> Result<Box<dyn Reader>, TraceError> {
    let given = names.into_iter().flat_map(|names| metadata(names, &Notes::default()));
    let given = given.map(|(key, value)| (key.to_string(), value));
    // If a key occurs several times, its first entry counts.
    open_table(name.to_path_buf(), given.chain(said).collect(), source)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stream;
    use forebay_core::{Nanos, Op};

    /// A table that returns one row at a time.
    struct Given {
        fields: Vec<Field>,
        batches: Vec<Batch>,
        taken: Batch,
    }

    impl Source for Given {
        fn fields(&self) -> &[Field] {
            &self.fields
        }
        fn next(&mut self, _: &[usize]) -> Result<Option<&Batch>, TraceError> {
            let Some(batch) = self.batches.pop() else { return Ok(None) };
            self.taken = batch;
            Ok(Some(&self.taken))
        }
    }

    fn given(columns: &[(&str, ColumnKind, Values)]) -> Box<dyn Source> {
        let fields = columns.iter();
        let fields =
            fields.map(|(name, kind, _)| Field { name: name.to_string(), kind: kind.clone() });
        let columns = columns.iter();
        let columns =
            columns.map(|(_, _, values)| Column { values: values.clone(), missing: vec![] });
        let batch = Batch { rows: 2, columns: columns.collect() };
        Box::new(Given { fields: fields.collect(), batches: vec![batch], taken: Batch::default() })
    }

    fn requests() -> Box<dyn Source> {
        let number = ColumnKind::Integer { bits: 64, signed: true };
        let ops = Texts { distinct: vec!["write".into(), "read".into()], rows: vec![1, 0] };
        given(&[
            ("at_ns", number.clone(), Values::Integers(vec![0, 5])),
            ("op", ColumnKind::Text, Values::Texts(ops)),
            ("offset", number.clone(), Values::Integers(vec![4096, 0])),
            ("len", number.clone(), Values::Integers(vec![512, 4096])),
            ("stream", number, Values::Integers(vec![1, 1])),
        ])
    }

    #[test]
    fn a_table_is_read_and_its_names_are_given_or_numbers() {
        let named = |name: &str| Stream { thread: Some(7), process: None, name: name.into() };
        let names =
            Dictionary { streams: vec![named("a"), named("b")], volumes: vec!["sda".into()] };
        let read_with = |said: Vec<(String, String)>, names: Option<&Dictionary>| {
            let mut reader = read(Path::new("t"), requests(), said, names).unwrap();
            let mut batch = Vec::new();
            reader.read(&mut batch).unwrap();
            let found: Vec<_> = batch.iter().map(|r| (r.at, r.op, r.offset, r.len)).collect();
            let expected = [(Nanos(0), Op::Read, 4096, 512), (Nanos(5), Op::Write, 0, 4096)];
            assert_eq!(found, expected);
            reader.dictionary().clone()
        };
        assert_eq!(read_with(vec![], Some(&names)), names);
        assert_eq!(read_with(vec![], None).streams[0].name, "1");
        let said = metadata(&names, &Notes::default());
        let said: Vec<_> = said.into_iter().map(|(key, value)| (key.to_string(), value)).collect();
        assert_eq!(read_with(said.clone(), None), names);
        let others = Dictionary { streams: vec![named("c"); 2], volumes: vec!["sdb".into()] };
        assert_eq!(read_with(said, Some(&others)), others);
    }

    #[test]
    fn a_table_without_the_columns_is_refused_by_name() {
        let number = ColumnKind::Integer { bits: 64, signed: true };
        let table = given(&[("x", number, Values::Integers(vec![1, 2]))]);
        let mut reader = read(Path::new("my table"), table, [], None).unwrap();
        let text = reader.read(&mut Vec::new()).unwrap_err().to_string();
        assert!(text.starts_with("my table: ") && text.contains("column at_ns"), "{text}");
    }
}
