//! Results as Arrow tables, with one row for each JSON object and one column for each scalar key.

use std::fmt;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, RecordBatch, RecordBatchIterator, StringArray,
    UInt64Array,
};
use arrow_schema::ArrowError;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use serde::Serialize;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use crate::arrow;

/// A JSON object whose keys are in their original order.
pub(crate) struct Row(pub(crate) Vec<(String, Value)>);

impl Row {
    /// Converts a serializable `value` to a row.
    pub(crate) fn of(value: &impl Serialize) -> PyResult<Row> {
        // Parsing the text preserves the order of keys, but numbers may lose their last digit.
        let mut row: Row = serde_json::from_str(&json(value)?).map_err(internal)?;
        let mut object = serde_json::to_value(value).map_err(internal)?;
        for (key, value) in &mut row.0 {
            *value = object[key.as_str()].take();
        }
        Ok(row)
    }

    fn get(&self, key: &str) -> &Value {
        self.0.iter().find(|(name, _)| name == key).map_or(&Value::Null, |(_, value)| value)
    }
}

impl<'de> Deserialize<'de> for Row {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Row, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = Row;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Row, A::Error> {
                let mut row = Row(Vec::new());
                while let Some(entry) = map.next_entry()? {
                    row.0.push(entry);
                }
                Ok(row)
            }
        }
        deserializer.deserialize_map(Keys)
    }
}

/// Serializes a result to JSON.
pub(crate) fn json(value: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(internal)
}

fn internal(error: impl fmt::Display) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

/// Builds a table from `rows`, with the keys of the first row. Lists and objects are omitted.
pub(crate) fn table(rows: &[Row]) -> PyResult<RecordBatch> {
    let keys = rows.first().map_or(&[][..], |row| &row.0[..]).iter();
    let plain = keys.filter(|(_, value)| !value.is_array() && !value.is_object());
    let columns = plain.map(|(key, _)| (key, column(key, rows), true));
    RecordBatch::try_from_iter_with_nullable(columns).map_err(|error: ArrowError| internal(error))
}

/// Builds the column of a key. A column without values is numeric, because it contains a figure
/// that could not be measured.
fn column(key: &str, rows: &[Row]) -> ArrayRef {
    let values = || rows.iter().map(|row| row.get(key));
    let all = |is: fn(&Value) -> bool| values().all(|value| value.is_null() || is(value));
    let some = values().any(|value| !value.is_null());
    if some && all(Value::is_string) {
        return Arc::new(values().map(Value::as_str).collect::<StringArray>());
    }
    if some && all(Value::is_boolean) {
        return Arc::new(values().map(Value::as_bool).collect::<BooleanArray>());
    }
    if some && all(Value::is_u64) {
        return Arc::new(values().map(Value::as_u64).collect::<UInt64Array>());
    }
    Arc::new(values().map(Value::as_f64).collect::<Float64Array>())
}

/// Rows of a result. Opens in Polars, pandas and pyarrow, as a `Trace` does.
#[pyclass(frozen, module = "forebay")]
pub(crate) struct Table(pub(crate) RecordBatch);

/// Creates a capsule that streams a single batch.
pub(crate) fn stream<'py>(py: Python<'py>, rows: &RecordBatch) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = rows.schema();
    arrow::stream(py, RecordBatchIterator::new([Ok(rows.clone())], schema))
}

#[pymethods]
impl Table {
    /// Arrow's PyCapsule interface.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        stream(py, &self.0)
    }

    /// Returns the rows as a `pyarrow.Table`.
    fn to_pyarrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        arrow::PYARROW.open(slf)
    }

    /// Returns the rows as a `polars.DataFrame`.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        arrow::POLARS.open(slf)
    }

    /// Returns the rows as a `pandas.DataFrame` of Arrow columns. Needs pyarrow.
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        arrow::to_pandas(&arrow::PYARROW.open(slf)?)
    }

    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    fn __repr__(&self) -> String {
        format!("forebay.Table({} rows, {} columns)", self.0.num_rows(), self.0.num_columns())
    }
}
