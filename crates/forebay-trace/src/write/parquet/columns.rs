//! The columns of the canonical form: their types, and how records are converted to values.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use forebay_core::Flags;
use parquet::column::writer::{ColumnWriter, ColumnWriterImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::TypePtr;

use crate::Record;
use crate::op_flags::flag_letters;

/// The columns of a file, in Parquet's message language.
const SCHEMA: &str = "message requests {
    required int64 at_ns;
    required binary op (STRING);
    required int64 offset (INTEGER(64, false));
    required int32 len (INTEGER(32, false));
    required int32 stream (INTEGER(32, false));
    required int32 volume (INTEGER(32, false));
    optional int64 latency_ns;
    required binary flags (STRING);
}";

/// The Arrow schema of the columns, as an IPC message in Base64. It makes Arrow's readers use
/// dictionaries for `op` and `flags`. The tests of the Python package check it.
pub(super) const ARROW: &str = concat!(
    "/////0ACAAAQAAAAAAAKAAwACgAJAAQACgAAAAgAAAAAAQQAVP7//wQAAAAIAAAA4AEAAIQBAAA8AQAAAAEAANAAAA",
    "CgAAAAaAAAAAQAAACo/v//PAAAADQAAAAAAAAFEAAAADAAAAAIABAACAAEAAgAAAAMAAAAAQAAAAAAAABc/v//CAAA",
    "AAAAAAEAAAAAoP7//wUAAABmbGFncwAAABAAFAAQAA4ADwAEAAAACAAQAAAAEAAAABgAAAAAAAECFAAAAKD+//9AAA",
    "AAAAAAAQAAAAAKAAAAbGF0ZW5jeV9ucwAA5P7//xAAAAAUAAAAAAAAAhAAAABu////IAAAAAAAAAAGAAAAdm9sdW1l",
    "AAAQ////EAAAABQAAAAAAAACEAAAAJr///8gAAAAAAAAAAYAAABzdHJlYW0AADz///8QAAAAFAAAAAAAAAIQAAAAxv",
    "///yAAAAAAAAAAAwAAAGxlbgAQABYAEAAAAA8ABAAAAAgAEAAAABgAAAAcAAAAAAAAAhgAAAAAAAYACAAEAAYAAABA",
    "AAAAAAAAAAYAAABvZmZzZXQAABAAGAAUAAAADwAEABAACAAQAAAAOAAAACwAAAAAAAAFEAAAACwAAAAIAAgAAAAEAA",
    "gAAAAEAAAAvP///wgAAAAAAAABAAAAAAQABAAEAAAAAgAAAG9wAAAQABQAEAAAAA8ABAAAAAgAEAAAABgAAAAgAAAA",
    "AAAAAhwAAAAIAAwABAALAAgAAABAAAAAAAAAAQAAAAAFAAAAYXRfbnMAAAA=",
);

pub(super) fn schema() -> Result<TypePtr, ParquetError> {
    parse_message_type(SCHEMA).map(Arc::new)
}

/// Appends rows to the column with this index.
pub(super) fn write(
    column: &mut ColumnWriter<'_>,
    place: usize,
    rows: &[Record],
) -> Result<(), ParquetError> {
    use ColumnWriter::{ByteArrayColumnWriter, Int32ColumnWriter, Int64ColumnWriter};
    match (place, column) {
        (0, Int64ColumnWriter(to)) => required(to, rows, |row| signed(row.at.0)),
        (1, ByteArrayColumnWriter(to)) => required(to, rows, |row| word(row.op.name())),
        (2, Int64ColumnWriter(to)) => required(to, rows, |row| row.offset as i64),
        (3, Int32ColumnWriter(to)) => required(to, rows, |row| row.len as i32),
        (4, Int32ColumnWriter(to)) => required(to, rows, |row| row.stream as i32),
        (5, Int32ColumnWriter(to)) => required(to, rows, |row| row.volume as i32),
        (6, Int64ColumnWriter(to)) => {
            let latencies: Vec<i64> =
                rows.iter().filter_map(|row| row.latency).map(|time| signed(time.0)).collect();
            let levels: Vec<i16> =
                rows.iter().map(|row| i16::from(row.latency.is_some())).collect();
            to.write_batch(&latencies, Some(&levels), None).map(drop)
        }
        (7, ByteArrayColumnWriter(to)) => required(to, rows, |row| letters(row.flags)),
        _ => Err(ParquetError::General("a column of another type".into())),
    }
}

fn required<T: DataType>(
    to: &mut ColumnWriterImpl<'_, T>,
    rows: &[Record],
    value: impl Fn(&Record) -> T::T,
) -> Result<(), ParquetError> {
    let values: Vec<T::T> = rows.iter().map(value).collect();
    to.write_batch(&values, None, None).map(drop)
}

/// Converts a time, clamping it at 292 years.
fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

fn word(text: &'static str) -> ByteArray {
    Bytes::from_static(text.as_bytes()).into()
}

fn letters(flags: Flags) -> ByteArray {
    static LETTERS: LazyLock<Vec<String>> =
        LazyLock::new(|| (0..32).map(|bits| flag_letters(Flags(bits))).collect());
    LETTERS.get(usize::from(flags.0 & 31)).map_or_else(|| word(""), |letters| word(letters))
}
