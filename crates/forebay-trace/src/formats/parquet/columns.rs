//! Checks the columns of a batch: that they exist, have a suitable type, and contain no nulls
//! unless these are permitted.

use std::borrow::Cow;
use std::path::Path;

use forebay_core::Op;

use super::found::FoundColumn;
use crate::op_flags::{OPS_EXPECTED, op_word};
use crate::rows::RowError;
use crate::table::{Batch, Column, ColumnKind, Field, Values};
use crate::{Place, TraceError};

/// A batch of rows.
pub(super) struct Columns<'a> {
    path: &'a Path,
    /// The number of rows that precede this batch.
    before: u64,
    fields: &'a [Field],
    batch: &'a Batch,
}

/// A column of integers. It contains no nulls unless they were permitted.
pub(super) struct Numbers<'a> {
    values: Cow<'a, [i64]>,
    /// Whether each row is null. Empty if no row is.
    missing: Cow<'a, [bool]>,
}

impl Numbers<'_> {
    /// Returns the value of a row, or `None` if it is null.
    pub(super) fn get(&self, row: usize) -> Option<i64> {
        match self.missing.get(row) {
            Some(true) => None,
            _ => self.values.get(row).copied(),
        }
    }

    /// Creates a column from converted values, some of which may be null.
    fn mapped(
        values: impl Iterator<Item = Option<Result<Option<i64>, TraceError>>>,
    ) -> Result<Numbers<'static>, TraceError> {
        let (mut numbers, mut missing) = (Vec::with_capacity(values.size_hint().0), Vec::new());
        for value in values {
            let value = value.transpose()?.flatten();
            if value.is_none() {
                missing.resize(numbers.len(), false);
                missing.push(true);
            }
            numbers.push(value.unwrap_or_default());
        }
        if !missing.is_empty() {
            missing.resize(numbers.len(), false);
        }
        Ok(Numbers { values: numbers.into(), missing: missing.into() })
    }
}

impl<'a> Columns<'a> {
    pub(super) fn new(
        path: &'a Path,
        before: u64,
        fields: &'a [Field],
        batch: &'a Batch,
    ) -> Columns<'a> {
        Columns { path, before, fields, batch }
    }

    pub(super) fn rows(&self) -> usize {
        self.batch.rows
    }

    /// Creates the error that a column is invalid in a row.
    pub(super) fn row_error(&self, row: usize, wrong: RowError) -> TraceError {
        wrong.at(self.path, Place::Row(self.before + row as u64 + 1), "")
    }

    fn column(&self, name: &str) -> Result<(&'a ColumnKind, &'a Column), TraceError> {
        let place = self.fields.iter().position(|field| field.name == name);
        let found =
            place.and_then(|at| Some((&self.fields.get(at)?.kind, self.batch.columns.get(at)?)));
        found.ok_or_else(|| self.missing(name, ""))
    }

    /// Creates the error that no column is called `name` or by one of the alternative names.
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

    /// Returns the names and types of the columns.
    pub(super) fn fields(&self) -> &'a [Field] {
        self.fields
    }

    fn type_error(&self, name: &str, got: &ColumnKind, expected: &str) -> TraceError {
        TraceError::Malformed {
            path: self.path.to_path_buf(),
            place: Place::File,
            got: format!("type {got} in column {name}"),
            expected: expected.into(),
            hint: String::new(),
        }
    }

    /// Returns a column of integers. Nulls are permitted only if `nullable` is true.
    pub(super) fn numbers(&self, name: &str, nullable: bool) -> Result<Numbers<'a>, TraceError> {
        let (kind, column) = self.column(name)?;
        let numbers = match (kind, &column.values) {
            (ColumnKind::Integer { bits, signed }, Values::Integers(values)) => {
                let numbers = Numbers {
                    values: values.as_slice().into(),
                    missing: column.missing.as_slice().into(),
                };
                if *bits == 64 && !signed {
                    self.below_2_to_63(name, &numbers)?;
                }
                numbers
            }
            (ColumnKind::Float { bits }, Values::Floats(values)) => {
                self.whole(name, *bits, values, &column.missing)?
            }
            _ => return Err(self.type_error(name, kind, "an integer type")),
        };
        if !nullable {
            self.without_nulls(name, &numbers.missing)?;
        }
        Ok(numbers)
    }

    /// Returns an error if an unsigned integer is 2^63 or more.
    fn below_2_to_63(&self, name: &str, numbers: &Numbers) -> Result<(), TraceError> {
        let beyond = |row: &usize| numbers.get(*row).is_some_and(|value| value < 0);
        if numbers.values.iter().all(|value| *value >= 0) {
            return Ok(());
        }
        let Some(row) = (0..numbers.values.len()).find(beyond) else { return Ok(()) };
        let got = (numbers.get(row).unwrap_or_default() as u64).to_string();
        Err(self.row_error(
            row,
            RowError::new(name.to_string(), got.as_bytes(), "an integer below 2^63"),
        ))
    }

    /// Returns a column of floating-point numbers that are all integral. pandas converts integers
    /// to such numbers if any is missing; NaN is null. Numbers beyond the range in which the type
    /// is exact are rejected, because they were rounded.
    fn whole(
        &self,
        name: &str,
        bits: u8,
        values: &[f64],
        missing: &[bool],
    ) -> Result<Numbers<'a>, TraceError> {
        let (exact_max, expected) = match bits {
            16 => (2f64.powi(11), "a whole number within 2^11, exact in float16"),
            32 => (2f64.powi(24), "a whole number within 2^24, exact in float32"),
            _ => (2f64.powi(53), "a whole number within 2^53, exact in float64"),
        };
        let whole = |row: usize, value: f64| match value {
            value if value.fract() == 0.0 && value.abs() <= exact_max => Ok(Some(value as i64)),
            value if !value.is_nan() => Err(self.row_error(
                row,
                RowError::new(name.to_string(), value.to_string().as_bytes(), expected),
            )),
            _ => Ok(None),
        };
        Numbers::mapped(present(values, missing).map(|(row, value)| Some(whole(row, value?))))
    }

    /// Returns a column of times in nanoseconds. Their unit comes from the type or the name of the
    /// column.
    pub(super) fn times(
        &self,
        found: FoundColumn<'_>,
        nullable: bool,
    ) -> Result<Numbers<'a>, TraceError> {
        let name = found.name;
        let (kind, column) = self.column(name)?;
        let numbers = match (kind, &column.values) {
            (
                ColumnKind::Timestamp { tick_ns } | ColumnKind::Duration { tick_ns },
                Values::Integers(values),
            ) => {
                let ticks = Numbers {
                    values: values.as_slice().into(),
                    missing: column.missing.as_slice().into(),
                };
                self.scaled(name, ticks, *tick_ns)?
            }
            (kind, values) => {
                let expected = "a timestamp, or numbers with the unit at the end of the name: \
                    call it NAME_ns, _us, _ms or _s";
                let unit = found.unit.ok_or_else(|| self.type_error(name, kind, expected))?;
                match values {
                    Values::Floats(values) if unit > 1 => {
                        self.decimals(name, values, &column.missing, unit)?
                    }
                    _ => self.scaled(name, self.numbers(name, true)?, unit)?,
                }
            }
        };
        if !nullable {
            self.without_nulls(name, &numbers.missing)?;
        }
        Ok(numbers)
    }

    /// Returns a column of offsets or lengths in bytes, without nulls.
    pub(super) fn bytes(&self, found: FoundColumn<'_>) -> Result<Numbers<'a>, TraceError> {
        let numbers = self.numbers(found.name, false)?;
        self.scaled(found.name, numbers, found.unit.unwrap_or(1))
    }

    /// Multiplies each value by `unit`.
    fn scaled(
        &self,
        name: &str,
        numbers: Numbers<'a>,
        unit: u64,
    ) -> Result<Numbers<'a>, TraceError> {
        if unit == 1 {
            return Ok(numbers);
        }
        let one = |row: usize, value: i64| {
            let scaled = value.checked_mul(unit as i64);
            scaled.map(Some).ok_or_else(|| {
                let expected = format!("a number below 2^63 once it is multiplied by {unit}");
                self.row_error(
                    row,
                    RowError::new(name.to_string(), value.to_string().as_bytes(), expected),
                )
            })
        };
        let given = present(&numbers.values, &numbers.missing);
        Numbers::mapped(given.map(|(row, value)| Some(one(row, value?))))
    }

    /// Converts floating-point numbers in units of `unit`, rounding to the nearest integer. NaN is
    /// null.
    fn decimals(
        &self,
        name: &str,
        values: &[f64],
        missing: &[bool],
        unit: u64,
    ) -> Result<Numbers<'a>, TraceError> {
        let one = |row: usize, value: f64| match value * unit as f64 {
            scaled if scaled.abs() < 2f64.powi(63) => Ok(Some(scaled.round() as i64)),
            _ if !value.is_nan() => {
                let expected = "a time below 2^63 ns";
                Err(self.row_error(
                    row,
                    RowError::new(name.to_string(), value.to_string().as_bytes(), expected),
                ))
            }
            _ => Ok(None),
        };
        Numbers::mapped(present(values, missing).map(|(row, value)| Some(one(row, value?))))
    }

    /// Returns a column of operations, which are words, or truth values for write or read.
    pub(super) fn ops(&self, name: &str) -> Result<Vec<Op>, TraceError> {
        let (_, column) = self.column(name)?;
        let Values::Truths(truths) = &column.values else {
            return self.meanings(name, OPS_EXPECTED, None, op_word);
        };
        self.without_nulls(name, &column.missing)?;
        let of_true = if name.to_lowercase().contains("read") { Op::Read } else { Op::Write };
        let of_false = if of_true == Op::Read { Op::Write } else { Op::Read };
        Ok(truths.iter().map(|is| if *is { of_true } else { of_false }).collect())
    }

    /// Returns whether the column exists.
    pub(super) fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|field| field.name == name)
    }

    /// Translates a column with few distinct strings, each of which is translated only once.
    /// Returns the meaning of every row. Nulls are translated to `of_null`, if it is given.
    pub(super) fn meanings<T: Clone>(
        &self,
        name: &str,
        expected: &'static str,
        of_null: Option<T>,
        mut meaning: impl FnMut(&str) -> Option<T>,
    ) -> Result<Vec<T>, TraceError> {
        let (kind, column) = self.column(name)?;
        let Values::Texts(texts) = &column.values else {
            return Err(self.type_error(name, kind, "a string type"));
        };
        if of_null.is_none() {
            self.without_nulls(name, &column.missing)?;
        }
        // Strings that no row uses are not errors.
        let mut known: Vec<Option<Option<T>>> = vec![None; texts.distinct.len()];
        let text = |index: u32| texts.distinct.get(index as usize).map_or("", String::as_str);
        let found = |(row, index): (usize, Option<u32>)| {
            let meaning = match index {
                None => of_null.clone(),
                Some(index) => known
                    .get_mut(index as usize)
                    .and_then(|known| known.get_or_insert_with(|| meaning(text(index))).clone()),
            };
            meaning.ok_or_else(|| {
                let text = index.map_or("", text);
                self.row_error(row, RowError::new(name.to_string(), text.as_bytes(), expected))
            })
        };
        present(&texts.rows, &column.missing).map(found).collect()
    }

    fn without_nulls(&self, name: &str, missing: &[bool]) -> Result<(), TraceError> {
        let Some(row) = missing.iter().position(|missing| *missing) else { return Ok(()) };
        let wrong = RowError {
            column: name.to_string().into(),
            got: "null".into(),
            expected: "a value".into(),
        };
        Err(self.row_error(row, wrong))
    }

    /// Returns a column of numbers without nulls and negative values.
    pub(super) fn unsigned(
        &self,
        numbers: &Numbers,
        row: usize,
        name: &str,
    ) -> Result<u64, TraceError> {
        let value = numbers.get(row).unwrap_or_default();
        u64::try_from(value).map_err(|_| {
            let got = value.to_string();
            self.row_error(
                row,
                RowError::new(name.to_string(), got.as_bytes(), "a number that is not negative"),
            )
        })
    }

    /// Returns a column of numbers without negative values. Nulls are permitted.
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

/// Returns the index and the value of each row. The value is `None` if it is missing.
fn present<T: Copy>(values: &[T], missing: &[bool]) -> impl Iterator<Item = (usize, Option<T>)> {
    let is_missing = |row: usize| missing.get(row).is_some_and(|missing| *missing);
    let values = values.iter().enumerate();
    values.map(move |(row, value)| (row, (!is_missing(row)).then_some(*value)))
}
