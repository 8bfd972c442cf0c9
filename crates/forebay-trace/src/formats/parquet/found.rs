//! Columns of a Parquet table by their names ([`Titles`]) and types. Where a time's name has no unit, its type says it.

use arrow_schema::{DataType, Fields};

use super::shown;
use crate::formats::titles::Titles;

/// A column that plays a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found<'a> {
    /// Its name.
    pub(super) name: &'a str,
    /// Nanoseconds or bytes that one of it is, as far as the name says.
    pub(super) unit: Option<u64>,
}

fn titles(fields: &Fields) -> Titles {
    Titles::new(fields.iter().map(|field| field.name().as_str()))
}

/// The column of times that one of `names` calls, with its unit behind it or without.
pub(super) fn time<'a>(fields: &'a Fields, names: &[&str]) -> Option<Found<'a>> {
    let (column, unit) = titles(fields).time(names, |_| true)?;
    Some(Found { name: fields.get(column)?.name(), unit })
}

/// The column of bytes that one of `names` calls.
pub(super) fn bytes<'a>(fields: &'a Fields, names: &[(&str, u64)]) -> Option<Found<'a>> {
    let (column, unit) = titles(fields).bytes(names)?;
    Some(Found { name: fields.get(column)?.name(), unit: Some(unit) })
}

/// What to say of a place or a length whose name leaves its unit open beside the other's: it is read in bytes.
pub(super) fn open_unit(columns: &[String]) -> Option<String> {
    let extents = Titles::new(columns.iter().map(String::as_str)).extents().into_iter().flatten();
    let (column, _) = extents.into_iter().find(|(_, unit)| unit.is_none())?;
    let name = columns.get(column)?;
    Some(format!(
        "nothing tells the unit of the column {}, and it is read in bytes; call it {}, or {} if it counts sectors of 512 bytes",
        shown(name),
        shown(&format!("{name}_bytes")),
        shown(&format!("{name}_sectors"))
    ))
}

/// The column that one of `names` calls and whose type `fits`.
pub(super) fn any<'a>(
    fields: &'a Fields,
    names: &[&str],
    fits: impl Fn(&DataType) -> bool,
) -> Option<&'a str> {
    let fits = |column: usize| fields.get(column).is_some_and(|field| fits(field.data_type()));
    Some(fields.get(titles(fields).any(names, fits)?)?.name())
}

/// Whether a column holds words.
pub(super) fn is_text(kind: &DataType) -> bool {
    match kind {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => is_text(values),
        _ => false,
    }
}

/// Whether a column holds numbers.
pub(super) fn is_number(kind: &DataType) -> bool {
    kind.is_integer() || kind.is_floating()
}
