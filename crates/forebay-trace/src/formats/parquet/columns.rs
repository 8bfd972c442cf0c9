//! The columns of a batch, checked: present, of a fitting type, without nulls where none may be.

use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, downcast_integer_array};
use arrow_schema::DataType;
use rustc_hash::FxHashMap;

use crate::error::{Place, TraceError};
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

    fn column(&self, name: &'static str) -> Result<&'a ArrayRef, TraceError> {
        self.batch.column_by_name(name).ok_or_else(|| TraceError::Malformed {
            path: self.path.to_path_buf(),
            place: Place::File,
            got: "a table without it".into(),
            expected: format!("a column {name}"),
            hint: "a CSV or SPC trace can be converted to canonical Parquet".into(),
        })
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
    pub(super) fn numbers(
        &self,
        name: &'static str,
        nullable: bool,
    ) -> Result<Numbers, TraceError> {
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
    fn integers(&self, name: &'static str, column: &ArrayRef) -> Result<Int64Array, TraceError> {
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
                        self.wrong(row, Wrong::new(name, got.as_bytes(), "an integer below 2^63"))
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
    fn whole(&self, name: &'static str, column: &ArrayRef) -> Result<Int64Array, TraceError> {
        let (exact_max, expected, values) = match column.data_type() {
            DataType::Float16 => (
                2f64.powi(11),
                "a whole number within 2^11, exact in float16",
                column.as_primitive::<Float16Type>().unary::<_, Float64Type>(f64::from),
            ),
            DataType::Float32 => (
                2f64.powi(24),
                "a whole number within 2^24, exact in float32",
                column.as_primitive::<Float32Type>().unary::<_, Float64Type>(f64::from),
            ),
            _ => (
                2f64.powi(53),
                "a whole number within 2^53, exact in float64",
                column.as_primitive::<Float64Type>().clone(),
            ),
        };
        let whole = |(row, value): (usize, Option<f64>)| match value {
            Some(value) if value.fract() == 0.0 && value.abs() <= exact_max => {
                Ok(Some(value as i64))
            }
            Some(value) if !value.is_nan() => {
                Err(self.wrong(row, Wrong::new(name, value.to_string().as_bytes(), expected)))
            }
            _ => Ok(None),
        };
        values.iter().enumerate().map(whole).collect()
    }

    /// Whether there is such a column.
    pub(super) fn has(&self, name: &str) -> bool {
        self.batch.column_by_name(name).is_some()
    }

    /// A column of few distinct strings, each translated once: the meaning of every row.
    pub(super) fn meanings<T: Clone>(
        &self,
        name: &'static str,
        expected: &'static str,
        mut meaning: impl FnMut(&str) -> Option<T>,
    ) -> Result<Vec<T>, TraceError> {
        let column = self.column(name)?;
        self.without_nulls(name, column)?;
        let rows = column.len();
        if rows == 0 {
            return Ok(Vec::new());
        }
        let (values, keys) = match column.as_any_dictionary_opt() {
            Some(dictionary) if dictionary.values().is_empty() => {
                return Err(self.wrong(0, Wrong::new(name, b"", expected)));
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
        let meanings: Vec<Option<T>> = texts
            .iter()
            .map(|text| {
                text.and_then(|text| known.entry(text).or_insert_with(|| meaning(text)).clone())
            })
            .collect();
        let found = |(row, key): (usize, usize)| {
            meanings[key].clone().ok_or_else(|| {
                let text = texts[key].unwrap_or_default();
                self.wrong(row, Wrong::new(name, text.as_bytes(), expected))
            })
        };
        keys.into_iter().enumerate().map(found).collect()
    }

    fn without_nulls(&self, name: &'static str, array: &dyn Array) -> Result<(), TraceError> {
        if array.null_count() == 0 {
            return Ok(());
        }
        let row = (0..array.len()).find(|&row| array.is_null(row)).unwrap_or(0);
        let wrong = Wrong { column: name.into(), got: "null".into(), expected: "a value".into() };
        Err(self.wrong(row, wrong))
    }

    /// A number that must be there and must not be negative.
    pub(super) fn unsigned(
        &self,
        numbers: &Numbers,
        row: usize,
        name: &'static str,
    ) -> Result<u64, TraceError> {
        let value = numbers.get(row).unwrap_or_default();
        u64::try_from(value).map_err(|_| {
            let got = value.to_string();
            self.wrong(row, Wrong::new(name, got.as_bytes(), "a number that is not negative"))
        })
    }

    /// A number that may be null but not negative.
    pub(super) fn optional(
        &self,
        numbers: &Numbers,
        row: usize,
        name: &'static str,
    ) -> Result<Option<u64>, TraceError> {
        match numbers.get(row) {
            None => Ok(None),
            Some(_) => self.unsigned(numbers, row, name).map(Some),
        }
    }
}
