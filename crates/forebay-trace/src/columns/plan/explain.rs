//! Explains why a row cannot be read.

use super::{FieldError, Plan, field_at};
use crate::columns::cursor::{CellError, Cursor};
use crate::columns::spec::Role;
use crate::columns::unit::{TIME_UNITS, TimeUnit};
use crate::columns::values::expected;
use crate::fields::decimal;
use crate::naming;
use crate::rows::RowError;

impl Plan {
    /// Describes the error for a message.
    #[cold]
    pub(crate) fn explain(&self, bad: FieldError, cursor: &Cursor<'_>) -> RowError {
        let column_of = |wanted: fn(&Role) -> bool| self.roles.iter().position(wanted);
        let title = |column: usize| self.titles.get(column).cloned().unwrap_or_default();
        let got = field_at(cursor, bad.from);
        match bad.fault {
            CellError::Field => {
                let role = self.roles.get(bad.column);
                let expected = role.map_or_else(String::new, |role| {
                    let hint = other_date(role, got)
                        .or_else(|| hexadecimal_hint(role, got))
                        .or_else(|| negative_time(role, got));
                    expected(role) + &hint.unwrap_or_default()
                });
                RowError::new(title(bad.column), got, expected)
            }
            CellError::Mark => RowError::new(
                title(bad.column),
                got,
                "decimal=comma or decimal=point in the declaration, because this comma may be a \
                 decimal mark or a thousands separator",
            ),
            CellError::Ended => RowError {
                column: title(bad.column).into(),
                got: "the end of the line".into(),
                expected: "one more field".into(),
            },
            CellError::LoneReturn => RowError {
                column: title(bad.column).into(),
                got: "a carriage return within the line".into(),
                expected: "lines that end with a line feed (use tr '\\r' '\\n')".into(),
            },
            CellError::Quotes => RowError {
                column: title(bad.column).into(),
                got: "an open quote".into(),
                expected: "a quote that ends the field".into(),
            },
            CellError::Name => naming::invalid_name(title(bad.column), got),
            CellError::Length => {
                let expected = match self.roles.get(bad.column) {
                    Some(Role::Len(2..)) => {
                        "at most 1 GiB per request, and 64 TiB per trim; are lengths in bytes?"
                    }
                    _ => "at most 4 GiB per request, and 64 TiB per trim",
                };
                RowError::new(title(bad.column), got, expected)
            }
            CellError::Address => {
                let column = column_of(|role| matches!(role, Role::Offset(_)));
                let column = column.unwrap_or(bad.column);
                RowError::new(title(column), got, "a request that ends below 2^63 bytes")
            }
            CellError::Backwards => {
                let column = column_of(|role| matches!(role, Role::End(_))).unwrap_or(bad.column);
                RowError::new(title(column), got, "a completion at or after the arrival")
            }
        }
    }
}

/// Returns a hint if an offset or a length consists of hexadecimal digits without a prefix.
fn hexadecimal_hint(role: &Role, field: &[u8]) -> Option<String> {
    let is_hexadecimal = !field.is_empty() && field.iter().all(u8::is_ascii_hexdigit);
    (matches!(role, Role::Offset(_) | Role::Len(_)) && is_hexadecimal)
        .then(|| "; hexadecimal numbers need the prefix 0x".into())
}

/// Returns a hint if a time is negative.
fn negative_time(role: &Role, field: &[u8]) -> Option<String> {
    let digits = field.strip_prefix(b"-")?;
    (matches!(role, Role::At(_) | Role::End(_)) && decimal(digits).is_some())
        .then(|| "; times must not be negative: add a constant to all times".into())
}

/// Returns a hint if a time is invalid in its unit but would be a date of this century in another.
fn other_date(role: &Role, field: &[u8]) -> Option<String> {
    let (Role::At(unit) | Role::End(unit)) = role else { return None };
    let (count, _) = decimal(field)?;
    let is_date = |other: &&TimeUnit| {
        let s = u128::from(count) * u128::from(other.ns) / 1_000_000_000;
        other.ns != 100 && other.name != unit.name && (1_000_000_000..4_000_000_000).contains(&s)
    };
    let other = TIME_UNITS.iter().find(is_date)?;
    Some(format!("; in {} it is a date of this century", other.name))
}
