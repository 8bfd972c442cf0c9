//! The columns of a batch, checked: present, of a fitting type, without nulls where none may be.

use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch, downcast_integer_array};
use arrow_schema::{DataType, Fields, TimeUnit};
use forebay_core::Op;
use rustc_hash::FxHashMap;

use super::found::Found;
use crate::error::{Place, TraceError};
use crate::op_flags::{OPS_EXPECTED, op_word};
use crate::rows::Wrong;

/// One batch of rows.
pub(super) struct Columns<'a> {
    path: &'a Path,
    /// Rows before this batch.
    before: u64,
    batch: &'a RecordBatch,
}

/// Integers without nulls, unless asked for.
pub(super) struct Numbers {
    array: Int64Array,
}

impl Numbers {
    /// The value of a row; `None` for null.
    pub(super) fn get(&self, row: usize) -> Option<i64> {
        (row < self.array.len() && self.array.is_valid(row)).then(|| self.array.value(row))
    }
}

impl<'a> Columns<'a> {
    pub(super) fn new(path: &'a Path, before: u64, batch: &'a RecordBatch) -> Columns<'a> {
        Columns { path, before, batch }
    }

    pub(super) fn rows(&self) -> usize {
        self.batch.num_rows()
    }

    /// The error that a row of a column is wrong.
    pub(super) fn wrong(&self, row: usize, wrong: Wrong) -> TraceError {
        wrong.at(self.path, Place::Row(self.before + row as u64 + 1), "")
    }

    fn column(&self, name: &str) -> Result<&'a ArrayRef, TraceError> {
        self.batch.column_by_name(name).ok_or_else(|| self.missing(name, ""))
    }

    /// The error that there is no column `name`, nor one of the names that would do for it.
    pub(super) fn missing(&self, name: &str, others: &str) -> TraceError {
        let others = if others.is_empty() { String::new() } else { format!(", or {others}") };
        TraceError::Malformed {
            path: self.path.to_path_buf(),
            place: Place::File,
            got: "a table without it".into(),
            expected: format!("a column {name}{others}"),
            hint: "docs/traces.md lists the names that columns may have".into(),
        }
    }

    /// The columns' names and types.
    pub(super) fn fields(&self) -> &'a Fields {
        self.batch.schema_ref().fields()
    }

    fn type_error(&self, name: &str, got: &DataType, expected: &str) -> TraceError {
        TraceError::Malformed {
            path: self.path.to_path_buf(),
            place: Place::File,
            got: format!("type {got} in column {name}"),
            expected: expected.into(),
            hint: String::new(),
        }
    }

    /// A column of integers; nulls only where `nullable`.
    pub(super) fn numbers(&self, name: &str, nullable: bool) -> Result<Numbers, TraceError> {
        let column = self.column(name)?;
        let array = match column.data_type() {
            integer if integer.is_integer() => self.integers(name, column)?,
            float if float.is_floating() => self.whole(name, column)?,
            other => return Err(self.type_error(name, other, "an integer type")),
        };
        if !nullable {
            self.without_nulls(name, &array)?;
        }
        Ok(Numbers { array })
    }

    /// A column of any integer type.
    // The same lines for every type, also those that always fit.
    #[allow(clippy::useless_conversion, clippy::unnecessary_fallible_conversions)]
    fn integers(&self, name: &str, column: &ArrayRef) -> Result<Int64Array, TraceError> {
        downcast_integer_array!(
            column => {
                let mut numbers = Vec::with_capacity(column.len());
                for (row, value) in column.iter().enumerate() {
                    let Some(value) = value else {
                        numbers.push(None);
                        continue;
                    };
                    let number = i64::try_from(value).map_err(|_| {
                        let got = value.to_string();
                        self.wrong(row, Wrong::new(name.to_string(), got.as_bytes(), "an integer below 2^63"))
                    })?;
                    numbers.push(Some(number));
                }
                Ok(numbers.into())
            }
            other => Err(self.type_error(name, other, "an integer type")),
        )
    }

    /// A column of floating point whose values are all whole: what pandas makes of integers where
    /// one is missing. NaN is null. Beyond what its type tells apart, a value has been rounded.
    fn whole(&self, name: &str, column: &ArrayRef) -> Result<Int64Array, TraceError> {
        let (exact_max, expected) = match column.data_type() {
            DataType::Float16 => (2f64.powi(11), "a whole number within 2^11, exact in float16"),
            DataType::Float32 => (2f64.powi(24), "a whole number within 2^24, exact in float32"),
            _ => (2f64.powi(53), "a whole number within 2^53, exact in float64"),
        };
        let whole = |(row, value): (usize, Option<f64>)| match value {
            Some(value) if value.fract() == 0.0 && value.abs() <= exact_max => {
                Ok(Some(value as i64))
            }
            Some(value) if !value.is_nan() => Err(self
                .wrong(row, Wrong::new(name.to_string(), value.to_string().as_bytes(), expected))),
            _ => Ok(None),
        };
        self.floats(column).iter().enumerate().map(whole).collect()
    }

    /// A column of times in nanoseconds: of a type that says its unit, or of numbers with the unit in the column's name.
    pub(super) fn times(&self, found: Found<'_>, nullable: bool) -> Result<Numbers, TraceError> {
        let (name, column) = (found.name, self.column(found.name)?);
        let array = match column.data_type() {
            DataType::Timestamp(unit, _) | DataType::Duration(unit) => {
                let data = column.to_data().into_builder().data_type(DataType::Int64).build();
                let ticks = data.map_err(|_| {
                    self.type_error(name, column.data_type(), "a whole column of times")
                })?;
                self.scaled(name, Int64Array::from(ticks), ns_of(*unit))?
            }
            kind => {
                let expected = "a timestamp, or numbers whose unit ends the name: call it NAME_ns, _us, _ms or _s";
                let unit = found.unit.ok_or_else(|| self.type_error(name, kind, expected))?;
                match kind.is_floating() && unit > 1 {
                    true => self.decimals(name, column, unit)?,
                    false => self.scaled(name, self.numbers(name, true)?.array, unit)?,
                }
            }
        };
        if !nullable {
            self.without_nulls(name, &array)?;
        }
        Ok(Numbers { array })
    }

    /// A column of bytes, without nulls.
    pub(super) fn bytes(&self, found: Found<'_>) -> Result<Numbers, TraceError> {
        let array = self.numbers(found.name, false)?.array;
        Ok(Numbers { array: self.scaled(found.name, array, found.unit.unwrap_or(1))? })
    }

    /// Each value times `unit`.
    fn scaled(&self, name: &str, array: Int64Array, unit: u64) -> Result<Int64Array, TraceError> {
        if unit == 1 {
            return Ok(array);
        }
        let one = |(row, value): (usize, Option<i64>)| {
            let Some(value) = value else { return Ok(None) };
            let scaled = value.checked_mul(unit as i64).ok_or_else(|| {
                let expected = format!("a number below 2^63 once it is multiplied by {unit}");
                self.wrong(
                    row,
                    Wrong::new(name.to_string(), value.to_string().as_bytes(), expected),
                )
            })?;
            Ok(Some(scaled))
        };
        array.iter().enumerate().map(one).collect()
    }

    /// Floating point in `unit`s, to the nearest whole. NaN is null.
    fn decimals(&self, name: &str, column: &ArrayRef, unit: u64) -> Result<Int64Array, TraceError> {
        let one = |(row, value): (usize, Option<f64>)| match value
            .map(|value| (value, value * unit as f64))
        {
            Some((_, scaled)) if scaled.abs() < 2f64.powi(63) => Ok(Some(scaled.round() as i64)),
            Some((value, _)) if !value.is_nan() => {
                let expected = "a time below 2^63 ns";
                Err(self.wrong(
                    row,
                    Wrong::new(name.to_string(), value.to_string().as_bytes(), expected),
                ))
            }
            _ => Ok(None),
        };
        self.floats(column).iter().enumerate().map(one).collect()
    }

    /// A column of any floating point as the widest.
    fn floats(&self, column: &ArrayRef) -> Float64Array {
        match column.data_type() {
            DataType::Float16 => column.as_primitive::<Float16Type>().unary(f64::from),
            DataType::Float32 => column.as_primitive::<Float32Type>().unary(f64::from),
            _ => column.as_primitive::<Float64Type>().clone(),
        }
    }

    /// A column of operations: words, or whether a request writes, or reads.
    pub(super) fn ops(&self, name: &str) -> Result<Vec<Op>, TraceError> {
        let column = self.column(name)?;
        if *column.data_type() != DataType::Boolean {
            return self.meanings(name, OPS_EXPECTED, None, op_word);
        }
        self.without_nulls(name, column)?;
        let of_true = if name.to_lowercase().contains("read") { Op::Read } else { Op::Write };
        let of_false = if of_true == Op::Read { Op::Write } else { Op::Read };
        let op = |is: Option<bool>| if is == Some(true) { of_true } else { of_false };
        Ok(column.as_boolean().iter().map(op).collect())
    }

    /// Whether there is such a column.
    pub(super) fn has(&self, name: &str) -> bool {
        self.batch.column_by_name(name).is_some()
    }

    /// A column of few distinct strings, each translated once: the meaning of every row. Null means `of_null`, if that is given.
    pub(super) fn meanings<T: Clone>(
        &self,
        name: &str,
        expected: &'static str,
        of_null: Option<T>,
        mut meaning: impl FnMut(&str) -> Option<T>,
    ) -> Result<Vec<T>, TraceError> {
        let column = self.column(name)?;
        if of_null.is_none() {
            self.without_nulls(name, column)?;
        }
        let rows = column.len();
        if rows == 0 {
            return Ok(Vec::new());
        }
        let (values, keys) = match column.as_any_dictionary_opt() {
            Some(dictionary) if dictionary.values().is_empty() => {
                let wrong = || self.wrong(0, Wrong::new(name.to_string(), b"", expected));
                return of_null.map(|meaning| vec![meaning; rows]).ok_or_else(wrong);
            }
            Some(dictionary) => (dictionary.values(), dictionary.normalized_keys()),
            None => (column, (0..rows).collect()),
        };
        let texts: Vec<Option<&str>> = match values.data_type() {
            DataType::Utf8 => values.as_string::<i32>().iter().collect(),
            DataType::LargeUtf8 => values.as_string::<i64>().iter().collect(),
            DataType::Utf8View => values.as_string_view().iter().collect(),
            _ => return Err(self.type_error(name, column.data_type(), "a string type")),
        };
        // A dictionary may hold texts that no row uses: only rows decide what is wrong.
        let mut known: FxHashMap<&str, Option<T>> = FxHashMap::default();
        let mut meaning = |text: &Option<&'a str>| match text {
            Some(text) => known.entry(text).or_insert_with(|| meaning(text)).clone(),
            None => of_null.clone(),
        };
        let meanings: Vec<Option<T>> = texts.iter().map(&mut meaning).collect();
        let found = |(row, key): (usize, usize)| {
            let meaning = if column.is_null(row) { &of_null } else { &meanings[key] };
            meaning.clone().ok_or_else(|| {
                let text = texts[key].unwrap_or_default();
                self.wrong(row, Wrong::new(name.to_string(), text.as_bytes(), expected))
            })
        };
        keys.into_iter().enumerate().map(found).collect()
    }

    fn without_nulls(&self, name: &str, array: &dyn Array) -> Result<(), TraceError> {
        if array.null_count() == 0 {
            return Ok(());
        }
        let row = (0..array.len()).find(|&row| array.is_null(row)).unwrap_or(0);
        let wrong = Wrong {
            column: name.to_string().into(),
            got: "null".into(),
            expected: "a value".into(),
        };
        Err(self.wrong(row, wrong))
    }

    /// A number that must be there and must not be negative.
    pub(super) fn unsigned(
        &self,
        numbers: &Numbers,
        row: usize,
        name: &str,
    ) -> Result<u64, TraceError> {
        let value = numbers.get(row).unwrap_or_default();
        u64::try_from(value).map_err(|_| {
            let got = value.to_string();
            self.wrong(
                row,
                Wrong::new(name.to_string(), got.as_bytes(), "a number that is not negative"),
            )
        })
    }

    /// A number that may be null but not negative.
    pub(super) fn optional(
        &self,
        numbers: &Numbers,
        row: usize,
        name: &str,
    ) -> Result<Option<u64>, TraceError> {
        match numbers.get(row) {
            None => Ok(None),
            Some(_) => self.unsigned(numbers, row, name).map(Some),
        }
    }
}

/// Nanoseconds of a type's unit.
fn ns_of(unit: TimeUnit) -> u64 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}
