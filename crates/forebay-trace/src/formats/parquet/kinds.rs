//! Determines the types of a Parquet file's columns, from its own schema and from the Arrow schema
//! that Arrow's writers add.

use ::parquet::basic::{
    ConvertedType as Converted, LogicalType as Logical, Repetition, TimeUnit, Type as Physical,
};
use ::parquet::errors::ParquetError;
use ::parquet::schema::types::Type;

use super::arrow_schema::{self, Hint};
use crate::table::{ColumnKind, Field};

/// Returns the columns at the root of the file, including nested ones. `arrow` is the metadata
/// entry `ARROW:schema`, if the file contains it.
pub(super) fn fields(root: &Type, arrow: Option<&str>) -> Result<Vec<Field>, ParquetError> {
    let columns = root.get_fields();
    let hints = match arrow.map(arrow_schema::hints).transpose() {
        Ok(hints) => hints,
        Err(what) => return Err(ParquetError::General(format!("ARROW:schema: {what}"))),
    };
    if let Some(hints) = &hints
        && !hints.iter().map(|(name, _)| name.as_str()).eq(columns.iter().map(|c| c.name()))
    {
        let text = "ARROW:schema: names other columns than the file has";
        return Err(ParquetError::General(text.into()));
    }
    let hint = |at: usize| Some(hints.as_ref()?.get(at)?.1);
    let field = |(at, column): (usize, &std::sync::Arc<Type>)| Field {
        name: column.name().to_string(),
        kind: kind(column, hint(at)),
    };
    Ok(columns.iter().enumerate().map(field).collect())
}

/// Returns the type of a column at the root.
fn kind(column: &Type, hint: Option<Hint>) -> ColumnKind {
    let info = column.get_basic_info();
    if info.has_repetition() && info.repetition() == Repetition::REPEATED {
        return other("List");
    }
    if column.is_group() {
        return other(match (info.logical_type_ref(), info.converted_type()) {
            (Some(Logical::List), _) | (None, Converted::LIST) => "List",
            (Some(Logical::Map), _) | (None, Converted::MAP | Converted::MAP_KEY_VALUE) => "Map",
            _ => "Struct",
        });
    }
    hinted(plain(column), column.get_physical_type(), hint)
}

fn other(name: &str) -> ColumnKind {
    ColumnKind::Other(name.into())
}

fn integer(bits: u8, signed: bool) -> ColumnKind {
    ColumnKind::Integer { bits, signed }
}

/// Adds information to a type that only the Arrow schema contains.
fn hinted(kind: ColumnKind, physical: Physical, hint: Option<Hint>) -> ColumnKind {
    let bare = match kind {
        ColumnKind::Integer { bits: 32, signed: true } => physical == Physical::INT32,
        ColumnKind::Integer { bits: 64, signed: true } => physical == Physical::INT64,
        _ => false,
    };
    match hint {
        Some(Hint::Timestamp { tick_ns }) if bare => ColumnKind::Timestamp { tick_ns },
        // INT96 may contain dates beyond the range of 64-bit nanoseconds.
        Some(Hint::Timestamp { tick_ns }) if physical == Physical::INT96 => {
            ColumnKind::Timestamp { tick_ns }
        }
        Some(Hint::Duration { tick_ns }) if bare && physical == Physical::INT64 => {
            ColumnKind::Duration { tick_ns }
        }
        Some(Hint::Time) if bare => other("Time"),
        Some(Hint::Date) if bare && physical == Physical::INT64 => other("Date"),
        Some(Hint::Text) if kind == other("Binary") => ColumnKind::Text,
        _ => kind,
    }
}

/// Returns the type of a column according to Parquet's own schema.
fn plain(column: &Type) -> ColumnKind {
    let info = column.get_basic_info();
    let (logical, converted) = (info.logical_type_ref(), info.converted_type());
    if matches!(logical, Some(Logical::Unknown)) {
        return other("Null");
    }
    if matches!((logical, converted), (Some(Logical::Decimal(_)), _) | (None, Converted::DECIMAL)) {
        return other("Decimal");
    }
    match column.get_physical_type() {
        Physical::BOOLEAN => ColumnKind::Boolean,
        Physical::FLOAT => ColumnKind::Float { bits: 32 },
        Physical::DOUBLE => ColumnKind::Float { bits: 64 },
        Physical::INT32 => of_integer(32, logical, converted),
        Physical::INT64 => of_integer(64, logical, converted),
        Physical::INT96 => ColumnKind::Timestamp { tick_ns: 1 },
        Physical::BYTE_ARRAY => match (logical, converted) {
            (Some(Logical::String | Logical::Json), _)
            | (None, Converted::UTF8 | Converted::JSON) => ColumnKind::Text,
            _ => other("Binary"),
        },
        Physical::FIXED_LEN_BYTE_ARRAY => match (logical, converted) {
            (Some(Logical::Float16), _) => ColumnKind::Float { bits: 16 },
            (None, Converted::INTERVAL) => other("Interval"),
            _ => other("FixedSizeBinary"),
        },
    }
}

/// Returns the type of a column that is stored as integers of `width` bits.
fn of_integer(width: u8, logical: Option<&Logical>, converted: Converted) -> ColumnKind {
    match (logical, converted) {
        (Some(Logical::Integer(of)), _) => match u8::try_from(of.bit_width) {
            Ok(bits @ (8 | 16 | 32 | 64)) if bits <= width => integer(bits, of.is_signed),
            _ => other("Integer of another width"),
        },
        (Some(Logical::Timestamp(of)), _) if width == 64 => ColumnKind::Timestamp {
            tick_ns: match of.unit {
                TimeUnit::MILLIS => 1_000_000,
                TimeUnit::MICROS => 1_000,
                TimeUnit::NANOS => 1,
            },
        },
        (Some(Logical::Date), _) | (None, Converted::DATE) => other("Date"),
        (Some(Logical::Time(_)), _) | (None, Converted::TIME_MILLIS | Converted::TIME_MICROS) => {
            other("Time")
        }
        (None, Converted::TIMESTAMP_MILLIS) => ColumnKind::Timestamp { tick_ns: 1_000_000 },
        (None, Converted::TIMESTAMP_MICROS) => ColumnKind::Timestamp { tick_ns: 1_000 },
        (None, Converted::NONE) => integer(width, true),
        (None, Converted::INT_8) => integer(8, true),
        (None, Converted::INT_16) => integer(16, true),
        (None, Converted::INT_32) => integer(32, true),
        (None, Converted::INT_64) => integer(64, true),
        (None, Converted::UINT_8) => integer(8, false),
        (None, Converted::UINT_16) => integer(16, false),
        (None, Converted::UINT_32) => integer(32, false),
        (None, Converted::UINT_64) => integer(64, false),
        _ => other("Integer of another meaning"),
    }
}
