//! Reads Arrow tables of other libraries as traces.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::types::{
    DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType,
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, RecordBatch, RecordBatchReader};
use arrow_schema::{DataType, TimeUnit};
use forebay_trace::TraceError;
use forebay_trace::error::Place;
use forebay_trace::table::{Batch, Column, ColumnKind, Field, Source, Texts, Values};

/// The maximum number of rows converted at a time.
const ROWS: usize = 1 << 14;

/// A stream of Arrow batches, read as a table of requests.
pub(crate) struct Tabled {
    /// The name of the table for messages.
    name: PathBuf,
    fields: Vec<Field>,
    batches: Box<dyn RecordBatchReader + Send>,
    /// The unread rows of the current batch.
    rest: Option<RecordBatch>,
    batch: Batch,
}

impl Tabled {
    pub(crate) fn new(name: &Path, batches: Box<dyn RecordBatchReader + Send>) -> Tabled {
        let schema = batches.schema();
        let field = |field: &arrow_schema::FieldRef| Field {
            name: field.name().clone(),
            kind: kind(field.data_type()),
        };
        let fields: Vec<Field> = schema.fields().iter().map(field).collect();
        let columns = fields.iter().map(|field| Column::of(&field.kind)).collect();
        let batch = Batch { rows: 0, columns };
        Tabled { name: name.to_path_buf(), fields, batches, rest: None, batch }
    }

    /// Returns the next rows, at most [`ROWS`].
    fn rows(&mut self) -> Result<Option<RecordBatch>, TraceError> {
        let all = match self.rest.take() {
            Some(rest) => rest,
            None => match self.batches.next().transpose() {
                Ok(Some(rows)) => rows,
                Ok(None) => return Ok(None),
                Err(error) => {
                    return Err(TraceError::Malformed {
                        path: self.name.clone(),
                        place: Place::File,
                        got: format!("an Arrow error ({error})"),
                        expected: "a whole table".into(),
                        hint: String::new(),
                    });
                }
            },
        };
        let count = all.num_rows().min(ROWS);
        if count < all.num_rows() {
            self.rest = Some(all.slice(count, all.num_rows() - count));
        }
        Ok(Some(all.slice(0, count)))
    }
}

impl Source for Tabled {
    fn fields(&self) -> &[Field] {
        &self.fields
    }

    fn next(&mut self, wanted: &[usize]) -> Result<Option<&Batch>, TraceError> {
        loop {
            let Some(rows) = self.rows()? else { return Ok(None) };
            if rows.num_rows() == 0 {
                continue;
            }
            self.batch.rows = rows.num_rows();
            for &place in wanted {
                if let Some(column) = self.batch.columns.get_mut(place) {
                    *column = taken(rows.column(place));
                }
            }
            return Ok(Some(&self.batch));
        }
    }
}

fn tick_ns(unit: TimeUnit) -> u64 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

fn kind(of: &DataType) -> ColumnKind {
    let integer = |bits, signed| ColumnKind::Integer { bits, signed };
    match of {
        DataType::Int8 => integer(8, true),
        DataType::Int16 => integer(16, true),
        DataType::Int32 => integer(32, true),
        DataType::Int64 => integer(64, true),
        DataType::UInt8 => integer(8, false),
        DataType::UInt16 => integer(16, false),
        DataType::UInt32 => integer(32, false),
        DataType::UInt64 => integer(64, false),
        DataType::Float16 => ColumnKind::Float { bits: 16 },
        DataType::Float32 => ColumnKind::Float { bits: 32 },
        DataType::Float64 => ColumnKind::Float { bits: 64 },
        DataType::Boolean => ColumnKind::Boolean,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => ColumnKind::Text,
        DataType::Dictionary(_, values) if kind(values) == ColumnKind::Text => ColumnKind::Text,
        DataType::Timestamp(unit, _) => ColumnKind::Timestamp { tick_ns: tick_ns(*unit) },
        DataType::Duration(unit) => ColumnKind::Duration { tick_ns: tick_ns(*unit) },
        other => ColumnKind::Other(other.to_string()),
    }
}

/// Converts a column whose type [`kind`] supports. Any other column has no values.
fn taken(column: &ArrayRef) -> Column {
    match column.data_type() {
        DataType::Int8 => integers::<Int8Type>(column, i64::from),
        DataType::Int16 => integers::<Int16Type>(column, i64::from),
        DataType::Int32 => integers::<Int32Type>(column, i64::from),
        DataType::Int64 => integers::<Int64Type>(column, |value| value),
        DataType::UInt8 => integers::<UInt8Type>(column, i64::from),
        DataType::UInt16 => integers::<UInt16Type>(column, i64::from),
        DataType::UInt32 => integers::<UInt32Type>(column, i64::from),
        DataType::UInt64 => integers::<UInt64Type>(column, |value| value as i64),
        DataType::Timestamp(unit, _) => match unit {
            TimeUnit::Second => integers::<TimestampSecondType>(column, |value| value),
            TimeUnit::Millisecond => integers::<TimestampMillisecondType>(column, |value| value),
            TimeUnit::Microsecond => integers::<TimestampMicrosecondType>(column, |value| value),
            TimeUnit::Nanosecond => integers::<TimestampNanosecondType>(column, |value| value),
        },
        DataType::Duration(unit) => match unit {
            TimeUnit::Second => integers::<DurationSecondType>(column, |value| value),
            TimeUnit::Millisecond => integers::<DurationMillisecondType>(column, |value| value),
            TimeUnit::Microsecond => integers::<DurationMicrosecondType>(column, |value| value),
            TimeUnit::Nanosecond => integers::<DurationNanosecondType>(column, |value| value),
        },
        DataType::Float16 => floats::<Float16Type>(column, f64::from),
        DataType::Float32 => floats::<Float32Type>(column, f64::from),
        DataType::Float64 => floats::<Float64Type>(column, |value| value),
        DataType::Boolean => {
            let truths = column.as_boolean().values().iter().collect();
            Column { values: Values::Truths(truths), missing: missing(column) }
        }
        other => match kind(other) {
            ColumnKind::Text => texts(column),
            kind => Column::of(&kind),
        },
    }
}

/// Returns for each row whether its value is missing. The list is empty if no value is missing.
fn missing(column: &dyn Array) -> Vec<bool> {
    match column.nulls().filter(|nulls| nulls.null_count() > 0) {
        Some(nulls) => nulls.iter().map(|is_valid| !is_valid).collect(),
        None => Vec::new(),
    }
}

fn integers<T: ArrowPrimitiveType>(column: &ArrayRef, to: fn(T::Native) -> i64) -> Column {
    let values = column.as_primitive::<T>().values().iter().map(|value| to(*value)).collect();
    Column { values: Values::Integers(values), missing: missing(column) }
}

fn floats<T: ArrowPrimitiveType>(column: &ArrayRef, to: fn(T::Native) -> f64) -> Column {
    let values = column.as_primitive::<T>().values().iter().map(|value| to(*value)).collect();
    Column { values: Values::Floats(values), missing: missing(column) }
}

/// Converts a column of strings.
fn texts(column: &ArrayRef) -> Column {
    let Some(dictionary) = column.as_any_dictionary_opt() else { return plain_texts(column) };
    let strings = strings(dictionary.values());
    let text = |text: &Option<&str>| text.unwrap_or_default().to_string();
    let distinct: Vec<String> = strings.iter().map(text).collect();
    if distinct.is_empty() {
        // The dictionary is empty, so no key is valid and no row has a value.
        let (rows, missing) = (vec![0; column.len()], vec![true; column.len()]);
        return Column { values: Values::Texts(Texts { distinct, rows }), missing };
    }
    let keys = dictionary.normalized_keys();
    let mut missing = missing(column);
    // Values within the dictionary may be null, too.
    if strings.contains(&None) {
        missing.resize(keys.len(), false);
        for (missing, key) in missing.iter_mut().zip(&keys) {
            *missing |= strings.get(*key).is_some_and(Option::is_none);
        }
    }
    let rows = keys.into_iter().map(|key| key as u32).collect();
    Column { values: Values::Texts(Texts { distinct, rows }), missing }
}

/// Converts a column of strings that has no dictionary.
fn plain_texts(column: &ArrayRef) -> Column {
    let mut known: BTreeMap<&str, u32> = BTreeMap::new();
    let mut texts = Texts::default();
    for text in strings(column) {
        let text = text.unwrap_or_default();
        let number = *known.entry(text).or_insert_with(|| {
            texts.distinct.push(text.to_string());
            (texts.distinct.len() - 1) as u32
        });
        texts.rows.push(number);
    }
    Column { values: Values::Texts(texts), missing: missing(column) }
}

fn strings(array: &ArrayRef) -> Vec<Option<&str>> {
    match array.data_type() {
        DataType::LargeUtf8 => array.as_string::<i64>().iter().collect(),
        DataType::Utf8View => array.as_string_view().iter().collect(),
        _ => array.as_string::<i32>().iter().collect(),
    }
}
