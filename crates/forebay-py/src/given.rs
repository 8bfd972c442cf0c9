//! Converts arguments to Rust types.
//!
//! An invalid number or string raises `Error`, like any other invalid input. An object of the wrong
//! type raises `TypeError` and names the expected type. An argument that accepts several values
//! also accepts a single one.

use std::any::type_name;

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyUnicodeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::error::Error;

/// Converts an argument to type `T`. Errors name the argument, either in a note on the exception or
/// in its text.
pub(crate) fn given<'a, 'py, T: FromPyObject<'a, 'py>>(
    object: &'a Bound<'py, PyAny>,
) -> PyResult<T> {
    object.extract::<T>().map_err(|error| unfit(error.into(), object, expected(type_name::<T>())))
}

/// Converts an argument with several values, which may be a list, another sequence, or a single
/// value.
pub(crate) fn several<'py, T: FromPyObjectOwned<'py>>(
    object: &Bound<'py, PyAny>,
) -> PyResult<Vec<T>> {
    let is_one = object.is_instance_of::<PyString>() || object.is_instance_of::<PyBytes>();
    let list = (!is_one).then(|| object.extract::<Vec<Bound<'py, PyAny>>>().ok()).flatten();
    match list {
        Some(list) => list.iter().map(given).collect(),
        None => match object.extract::<T>() {
            Ok(one) => Ok(vec![one]),
            Err(error) => {
                let expected = format!("{}, or several in a list", expected(type_name::<T>()));
                Err(unfit(error.into(), object, expected))
            }
        },
    }
}

/// Creates the exception for an invalid `object` from PyO3's `error`.
fn unfit(error: PyErr, object: &Bound<'_, PyAny>, expected: String) -> PyErr {
    let py = object.py();
    let said = || format!("got {}, expected {expected}", shown(object));
    if error.is_instance_of::<PyOverflowError>(py) {
        return Error::new_err(said());
    }
    if error.is_instance_of::<PyUnicodeError>(py) {
        let expected = "text that can be encoded as UTF-8";
        return Error::new_err(format!("got {}, expected {expected}", shown(object)));
    }
    // The object's own conversion methods may raise any exception.
    match error.get_type(py).is(py.get_type::<PyTypeError>()) {
        true => PyTypeError::new_err(said()),
        false => error,
    }
}

/// Describes the values that are converted to the Rust type `rust`.
fn expected(rust: &str) -> String {
    if let Some((_, each)) = rust.split_once("Vec<") {
        return format!("a list, each of it {}", expected(each));
    }
    let names =
        [("u8", u64::from(u8::MAX)), ("u16", u64::from(u16::MAX)), ("u32", u64::from(u32::MAX))];
    let most = names.into_iter().find(|(name, _)| rust.contains(name)).map(|(_, most)| most);
    match most {
        Some(most) => format!("a whole number from 0 to {most}"),
        None if rust.contains("u64") || rust.contains("usize") => {
            format!("a whole number from 0 to {}", u64::MAX)
        }
        None if rust.contains("f64") => "a number (of 64 bits)".into(),
        None if rust.contains("bool") => "True or False".into(),
        None if rust.contains("PyDict") || rust.contains("PyMapping") => "a dict".into(),
        None if rust.contains("Trace") => "a forebay.Trace".into(),
        None if rust.contains("Path") => "a path".into(),
        None => "text".into(),
    }
}

/// Returns the beginning of an object's repr, for a message.
pub(crate) fn shown(object: &Bound<'_, PyAny>) -> String {
    const MOST: usize = 80;
    // Formatting may fail: Python refuses to format integers with thousands of digits.
    let text = object
        .repr()
        .map_or_else(|_| "a value that cannot be shown".into(), |text| text.to_string());
    match text.char_indices().nth(MOST) {
        None => text,
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}
