//! Reads a column of a row group, several rows at a time.

use ::parquet::column::page::PageReader;
use ::parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use ::parquet::data_type::{DataType, FixedLenByteArray, Int96};
use ::parquet::errors::ParquetError;
use ::parquet::schema::types::ColumnDescPtr;

use super::pages::{NewStrings, Pages};
use crate::table::{Column, ColumnKind, Values};

type Result<T> = std::result::Result<T, ParquetError>;

/// The remaining rows of a column in a row group.
pub(super) struct Chunk {
    kind: ColumnKind,
    /// The reader of the values. For a column of strings, these are the strings' numbers.
    reader: ColumnReader,
    fresh: NewStrings,
}

impl Chunk {
    /// Creates a chunk from the pages of a column that is not part of a nested field.
    pub(super) fn new(
        column: ColumnDescPtr,
        pages: Box<dyn PageReader>,
        kind: ColumnKind,
    ) -> Result<Chunk> {
        let fresh = NewStrings::default();
        let (pages, column) = match kind {
            ColumnKind::Text => Pages::of_texts(pages, column, fresh.clone())?,
            _ => (Pages::new(pages), column),
        };
        Ok(Chunk { kind, reader: get_column_reader(column, Box::new(pages)), fresh })
    }

    /// Reads the next rows into `column`, replacing those in it. `column` is initially
    /// [`Column::of`], and must be the same for each call.
    pub(super) fn read(&mut self, rows: usize, column: &mut Column) -> Result<()> {
        let Column { values, missing } = column;
        match (&mut self.reader, values) {
            (ColumnReader::Int64ColumnReader(reader), Values::Integers(to)) => {
                packed(reader, rows, to, missing)?;
                spread(to, missing);
            }
            (ColumnReader::DoubleColumnReader(reader), Values::Floats(to)) => {
                packed(reader, rows, to, missing)?;
                spread(to, missing);
            }
            (ColumnReader::BoolColumnReader(reader), Values::Truths(to)) => {
                packed(reader, rows, to, missing)?;
                spread(to, missing);
            }
            (ColumnReader::Int32ColumnReader(reader), Values::Integers(to)) => match self.kind {
                ColumnKind::Integer { signed: false, .. } => {
                    converted(reader, rows, to, missing, |value| i64::from(*value as u32))?;
                }
                _ => converted(reader, rows, to, missing, |value| i64::from(*value))?,
            },
            (ColumnReader::Int96ColumnReader(reader), Values::Integers(to)) => {
                let ticks = match self.kind {
                    ColumnKind::Timestamp { tick_ns: 1_000_000_000 } => Int96::to_seconds,
                    ColumnKind::Timestamp { tick_ns: 1_000_000 } => Int96::to_millis,
                    ColumnKind::Timestamp { tick_ns: 1_000 } => Int96::to_micros,
                    _ => Int96::to_nanos,
                };
                converted(reader, rows, to, missing, ticks)?;
            }
            (ColumnReader::FloatColumnReader(reader), Values::Floats(to)) => {
                converted(reader, rows, to, missing, |value| f64::from(*value))?;
            }
            (ColumnReader::FixedLenByteArrayColumnReader(reader), Values::Floats(to)) => {
                converted(reader, rows, to, missing, half)?;
            }
            (ColumnReader::Int32ColumnReader(reader), Values::Texts(to)) => {
                converted(reader, rows, &mut to.rows, missing, |number| *number as u32)?;
                self.fresh.take(&mut to.distinct);
            }
            _ => return Err(ParquetError::General("a column of another type".into())),
        }
        Ok(())
    }
}

/// Reads the values that are present, without gaps, and determines which rows have none.
fn packed<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    rows: usize,
    values: &mut Vec<T::T>,
    missing: &mut Vec<bool>,
) -> Result<()> {
    let mut levels = Vec::new();
    values.clear();
    missing.clear();
    let (read, present, _) = reader.read_records(rows, Some(&mut levels), None, values)?;
    if read != rows {
        return Err(ParquetError::General("a column that ends before its rows".into()));
    }
    if present < rows {
        missing.extend(levels.iter().map(|level| *level == 0));
    }
    Ok(())
}

fn converted<T: DataType, U: Clone + Default>(
    reader: &mut ColumnReaderImpl<T>,
    rows: usize,
    to: &mut Vec<U>,
    missing: &mut Vec<bool>,
    convert: impl Fn(&T::T) -> U,
) -> Result<()> {
    let mut values = Vec::new();
    packed(reader, rows, &mut values, missing)?;
    to.clear();
    to.extend(values.iter().map(convert));
    spread(to, missing);
    Ok(())
}

/// Moves each value to its row.
fn spread<T: Clone + Default>(values: &mut Vec<T>, missing: &[bool]) {
    if missing.is_empty() {
        return;
    }
    let mut from = values.len();
    values.resize(missing.len(), T::default());
    for (row, missing) in missing.iter().enumerate().rev() {
        if !missing {
            // The number of values equals the number of rows that are not null.
            from -= 1;
            values.swap(from, row);
        }
    }
}

/// Decodes a 16-bit floating-point number.
fn half(value: &FixedLenByteArray) -> f64 {
    let bits = u16::from_le_bytes(value.data().first_chunk().copied().unwrap_or_default());
    let fraction = f64::from(bits & 0x3FF);
    let size = match bits >> 10 & 0x1F {
        0 => fraction * 2f64.powi(-24),
        0x1F if fraction == 0.0 => f64::INFINITY,
        0x1F => f64::NAN,
        exponent => (1024.0 + fraction) * 2f64.powi(i32::from(exponent) - 25),
    };
    if bits >> 15 == 0 { size } else { -size }
}
