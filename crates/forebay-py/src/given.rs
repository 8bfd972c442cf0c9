//! What is given as an argument: a number or a text that does not fit is an `Error`, as everything else that is wrong
//! with what was asked for. (Something of another type stays Python's `TypeError`.)

use std::any::type_name;

use pyo3::exceptions::{PyOverflowError, PyUnicodeError};
use pyo3::prelude::*;

use crate::error::Error;

/// Takes an argument of type `T`; from Python 3.11 on a note of the exception names it.
pub(crate) fn given<'a, 'py, T: FromPyObject<'a, 'py>>(
    object: &'a Bound<'py, PyAny>,
) -> PyResult<T> {
    object.extract::<T>().map_err(|error| {
        let (error, py) = (error.into(), object.py());
        let is = |error: &PyErr| {
            error.is_instance_of::<PyOverflowError>(py)
                || error.is_instance_of::<PyUnicodeError>(py)
        };
        match is(&error) {
            true => Error::new_err(format!(
                "got {}, expected {}",
                shown(object),
                range(type_name::<T>())
            )),
            false => error,
        }
    })
}

/// What fits `rust`, a type's name.
fn range(rust: &str) -> String {
    let names =
        [("u8", u64::from(u8::MAX)), ("u16", u64::from(u16::MAX)), ("u32", u64::from(u32::MAX))];
    let most = names.into_iter().find(|(name, _)| rust.contains(name)).map(|(_, most)| most);
    match most {
        Some(most) => format!("a whole number from 0 to {most}"),
        None if rust.contains("u64") || rust.contains("usize") => {
            format!("a whole number from 0 to {}", u64::MAX)
        }
        None if rust.contains("f64") => "a number of 64 bits".into(),
        None => "text of characters that can be written down as UTF-8".into(),
    }
}

/// The beginning of what was given, for a message.
pub(crate) fn shown(object: &Bound<'_, PyAny>) -> String {
    const MOST: usize = 80;
    // An integer of thousands of digits refuses to be shown.
    let text =
        object.repr().map_or_else(|_| "what cannot be shown".into(), |text| text.to_string());
    match text.char_indices().nth(MOST) {
        None => text,
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}
