//! Reads the field at a cursor as the content of its column, with fast paths.

use forebay_core::{Flags, Op};

use crate::columns::cursor::{CellError, Cursor};
use crate::columns::date;
use crate::columns::op_words::{OpCode, scsi};
use crate::columns::spec::Role;
use crate::columns::unit::TimeUnit;
use crate::fields::{decimal, decimal_or_power, digits, whole};
use crate::op_flags::{FLAGS_EXPECTED, flags_of};

/// Describes the valid content of a column.
pub(crate) fn expected(role: &Role) -> String {
    match role {
        Role::At(unit) | Role::End(unit) | Role::Latency(unit) => match unit.name {
            "s" => "seconds such as 12.000345, below 2^64 ns".into(),
            "ticks" | "filetime" => "100 ns ticks below 2^64 ns".into(),
            "date" => "a date such as 2026-01-31 12:00:00.000345, from 1970 to 2262".into(),
            "ns" => "whole nanoseconds below 2^64; decimals mean that the unit is not ns".into(),
            name => format!("{name} such as 12.345, below 2^64 ns"),
        },
        Role::Offset(_) | Role::Len(_) | Role::Volume(_) => "a whole number without a sign".into(),
        Role::Op(OpCode::Words(words)) => words.expected.clone(),
        Role::Op(OpCode::Scsi) => "a SCSI operation code in hexadecimal such as 28 or 2a".into(),
        Role::Op(OpCode::Disksim) => "flags as a whole number, bit 0 set for reads".into(),
        Role::Thread | Role::Process => "an id below 2^32".into(),
        Role::Flags => FLAGS_EXPECTED.into(),
        Role::Name | Role::Skip => "text".into(),
    }
}

#[inline(always)]
pub(crate) fn number(cursor: &mut Cursor<'_>) -> Result<u64, CellError> {
    match cursor.number() {
        Some(number) => Ok(number),
        None => slow_number(cursor.field()?),
    }
}

#[cold]
fn slow_number(field: &[u8]) -> Result<u64, CellError> {
    digits(field).or_else(|| whole(field)).ok_or(CellError::Field)
}

/// Reads a number, or none from an empty field.
#[inline(always)]
pub(crate) fn optional_number(cursor: &mut Cursor<'_>) -> Result<Option<u64>, CellError> {
    match cursor.number() {
        Some(number) => Ok(Some(number)),
        None => match cursor.field()? {
            b"" => Ok(None),
            field => slow_number(field).map(Some),
        },
    }
}

#[inline(always)]
pub(crate) fn time(cursor: &mut Cursor<'_>, unit: TimeUnit) -> Result<u64, CellError> {
    if unit.is_date() {
        return date::ns(cursor.field()?).ok_or(CellError::Field);
    }
    match cursor.decimal() {
        Some((whole, billionths)) => as_ns(unit, whole, billionths),
        None => slow_time(cursor.field()?, unit),
    }
}

/// Reads a latency, if there is one. A negative latency becomes the longest possible one, as if it
/// had wrapped around.
#[inline(always)]
pub(crate) fn optional_time(
    cursor: &mut Cursor<'_>,
    unit: TimeUnit,
) -> Result<Option<u64>, CellError> {
    match cursor.decimal() {
        Some((whole, billionths)) => long_time(unit, whole, billionths).map(Some),
        None => match cursor.field()? {
            b"" => Ok(None),
            [b'-', rest @ ..] => {
                let is_zero = slow_decimal(rest)? == (0, 0);
                Ok(Some(if is_zero { 0 } else { u64::MAX }))
            }
            field => {
                let (whole, billionths) = slow_decimal(field)?;
                long_time(unit, whole, billionths).map(Some)
            }
        },
    }
}

/// Does the same as [`as_ns`], but times that are too long become the longest possible one.
#[inline(always)]
fn long_time(unit: TimeUnit, whole: u64, billionths: u64) -> Result<u64, CellError> {
    match whole.checked_mul(unit.ns) {
        Some(_) => as_ns(unit, whole, billionths),
        None => Ok(u64::MAX),
    }
}

#[cold]
fn slow_decimal(field: &[u8]) -> Result<(u64, u64), CellError> {
    decimal(field).or_else(|| decimal_or_power(field)).ok_or(CellError::Field)
}

#[cold]
fn slow_time(field: &[u8], unit: TimeUnit) -> Result<u64, CellError> {
    let (whole, billionths) = slow_decimal(field)?;
    as_ns(unit, whole, billionths)
}

#[inline(always)]
fn as_ns(unit: TimeUnit, whole: u64, billionths: u64) -> Result<u64, CellError> {
    // A fraction of a nanosecond is the clearest sign of a wrong unit.
    if unit.ns == 1 && billionths > 0 {
        return Err(CellError::Field);
    }
    unit.as_ns(whole, billionths).ok_or(CellError::Field)
}

#[inline(always)]
pub(crate) fn operation(cursor: &mut Cursor<'_>, code: &OpCode) -> Result<Option<Op>, CellError> {
    match code {
        OpCode::Words(words) => {
            let before = *cursor;
            if let Some(op) = cursor.short().and_then(|key| words.short(key)) {
                return Ok(Some(op));
            }
            *cursor = before;
            words.word(cursor.field()?).map(Some).ok_or(CellError::Field)
        }
        OpCode::Scsi => scsi(cursor.field()?).ok_or(CellError::Field),
        OpCode::Disksim => {
            number(cursor).map(|flags| Some(if flags & 1 == 1 { Op::Read } else { Op::Write }))
        }
    }
}

#[cold]
pub(crate) fn letters(cursor: &mut Cursor<'_>) -> Result<Flags, CellError> {
    flags_of(cursor.field()?).ok_or(CellError::Field)
}
