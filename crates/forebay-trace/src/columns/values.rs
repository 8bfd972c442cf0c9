//! Reads the field at a cursor as the content of its column. There are fast paths for common cases.

use forebay_core::{Flags, Op};

use crate::columns::cursor::{CellError, Cursor};
use crate::columns::date;
use crate::columns::notation::{Mark, PlainNumber, hexadecimal, is_ambiguous, is_unknown};
use crate::columns::op_words::{OpCode, scsi};
use crate::columns::span::{self, Span};
use crate::columns::spec::Role;
use crate::columns::unit::{CLOCK, TIMEDELTA, TimeUnit, with_byte_unit};
use crate::fields::{decimal, decimal_or_power, digits, integer};
use crate::formats::clock::time_of_day;
use crate::op_flags::{FLAGS_EXPECTED, flags_of};
use crate::rows::END_BYTES_MAX;

/// Units in which a value may have decimals: KiB and MiB.
pub(crate) const BINARY_UNITS: [u64; 2] = [1 << 10, 1 << 20];
const BILLION: u128 = 1_000_000_000;

/// Describes what a column may contain.
pub(crate) fn expected(role: &Role) -> String {
    match role {
        Role::At(unit) | Role::End(unit) | Role::Latency(unit) => match unit.name {
            "s" => "seconds such as 12.000345, below 2^64 ns".into(),
            "ticks" | "filetime" => "100 ns ticks below 2^64 ns".into(),
            "timedelta" => "a span of time such as 0 days 00:00:00.000345 or PT0.000345S".into(),
            "clock" => "a time of day such as 23:59:59.000345".into(),
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

/// Reads a number without decimals.
#[inline(always)]
pub(crate) fn number(cursor: &mut Cursor<'_>, mark: Option<Mark>) -> Result<u64, CellError> {
    match cursor.number() {
        Some(number) => Ok(number),
        None => slow_number(cursor.field()?, mark),
    }
}

#[cold]
fn slow_number(field: &[u8], mark: Option<Mark>) -> Result<u64, CellError> {
    if mark.is_none() && field.contains(&b',') && is_ambiguous(field) {
        return Err(CellError::Mark);
    }
    let plain = || {
        let number = PlainNumber::of(field, mark.unwrap_or(Mark::Point))?;
        digits(number.bytes()).or_else(|| integer(number.bytes()))
    };
    hexadecimal(field).or_else(plain).ok_or(CellError::Field)
}

/// Reads an offset or a length in units of `unit_bytes`. Returns bytes, or None if the field says
/// that the value is unknown.
#[inline(always)]
pub(crate) fn optional_bytes(
    cursor: &mut Cursor<'_>,
    unit_bytes: u64,
    mark: Option<Mark>,
) -> Result<Option<u64>, CellError> {
    match cursor.number() {
        Some(count) => Ok(Some(count.saturating_mul(unit_bytes))),
        None => match cursor.field()? {
            field if is_unknown(field) => Ok(None),
            field => match slow_bytes(field, unit_bytes, mark) {
                Err(CellError::Field) => nowhere(field),
                bytes => bytes.map(Some),
            },
        },
    }
}

/// Reads a number that is negative or too large. Tracers write the offset of a flush like that: -1,
/// as a signed or unsigned number, or as a number with decimals.
#[cold]
fn nowhere(field: &[u8]) -> Result<Option<u64>, CellError> {
    let value = std::str::from_utf8(field).ok().and_then(|text| text.parse::<f64>().ok());
    match value {
        Some(..0.0) => Ok(None),
        Some(value) if value >= END_BYTES_MAX as f64 => Ok(Some(u64::MAX)),
        _ => Err(CellError::Field),
    }
}

#[cold]
fn slow_bytes(field: &[u8], unit_bytes: u64, mark: Option<Mark>) -> Result<u64, CellError> {
    if let Some((number, unit_bytes)) = with_byte_unit(field) {
        return decimal_bytes(number, unit_bytes, mark);
    }
    match slow_number(field, mark) {
        Ok(count) => Ok(count.saturating_mul(unit_bytes)),
        Err(CellError::Field) if BINARY_UNITS.contains(&unit_bytes) => {
            decimal_bytes(field, unit_bytes, mark)
        }
        Err(fault) => Err(fault),
    }
}

/// Converts a number with decimals to bytes, of which there must be a whole number.
fn decimal_bytes(number: &[u8], unit_bytes: u64, mark: Option<Mark>) -> Result<u64, CellError> {
    let (whole, billionths) = slow_decimal(number, mark)?;
    let part = u128::from(billionths) * u128::from(unit_bytes);
    let is_whole = part.is_multiple_of(BILLION);
    let part = u64::try_from(part / BILLION).ok().filter(|_| is_whole);
    Ok(whole.saturating_mul(unit_bytes).saturating_add(part.ok_or(CellError::Field)?))
}

/// Reads a decimal number whose decimal mark is a point, if the fast path supports it.
#[inline(always)]
fn quick_decimal(cursor: &mut Cursor<'_>, mark: Option<Mark>) -> Option<(u64, u64)> {
    if mark == Some(Mark::Comma) { None } else { cursor.decimal() }
}

#[inline(always)]
pub(crate) fn time(
    cursor: &mut Cursor<'_>,
    unit: TimeUnit,
    mark: Option<Mark>,
) -> Result<u64, CellError> {
    if unit.is_date() {
        let field = cursor.field()?;
        return match (unit, span::of(field)) {
            (TIMEDELTA, Some(Span::Ns(ns))) => Ok(ns),
            (TIMEDELTA, _) => Err(CellError::Field),
            (CLOCK, _) => time_of_day(field).ok_or(CellError::Field),
            _ => date::ns(field).ok_or(CellError::Field),
        };
    }
    match quick_decimal(cursor, mark) {
        Some((whole, billionths)) => as_ns(unit, whole, billionths),
        None => slow_time(cursor.field()?, unit, mark),
    }
}

/// Reads a completion time. Returns None if the field says that it is unknown.
#[inline(always)]
pub(crate) fn optional_end(
    cursor: &mut Cursor<'_>,
    unit: TimeUnit,
    mark: Option<Mark>,
) -> Result<Option<u64>, CellError> {
    let before = *cursor;
    match time(cursor, unit, mark) {
        Ok(ns) => Ok(Some(ns)),
        Err(fault) => {
            *cursor = before;
            if is_unknown(cursor.field()?) { Ok(None) } else { Err(fault) }
        }
    }
}

/// Reads a latency, if there is one. A negative latency becomes the longest possible one, as if it
/// had wrapped around.
#[inline(always)]
pub(crate) fn optional_time(
    cursor: &mut Cursor<'_>,
    unit: TimeUnit,
    mark: Option<Mark>,
) -> Result<Option<u64>, CellError> {
    if unit.is_date() {
        return match cursor.field()? {
            field if is_unknown(field) => Ok(None),
            field => match span::of(field).ok_or(CellError::Field)? {
                Span::Ns(ns) => Ok(Some(ns)),
                Span::Negative => Ok(Some(u64::MAX)),
            },
        };
    }
    match quick_decimal(cursor, mark) {
        Some((whole, billionths)) => long_time(unit, whole, billionths).map(Some),
        None => match cursor.field()? {
            field if is_unknown(field) => Ok(None),
            [b'-', rest @ ..] => {
                let is_zero = slow_decimal(rest, mark)? == (0, 0);
                Ok(Some(if is_zero { 0 } else { u64::MAX }))
            }
            field => {
                let (whole, billionths) = slow_decimal(field, mark)?;
                long_time(unit, whole, billionths).map(Some)
            }
        },
    }
}

/// Converts a time like [`as_ns`], but times that are too long become the longest possible one.
#[inline(always)]
fn long_time(unit: TimeUnit, whole: u64, billionths: u64) -> Result<u64, CellError> {
    match whole.checked_mul(unit.ns) {
        Some(_) => as_ns(unit, whole, billionths),
        None => Ok(u64::MAX),
    }
}

#[cold]
fn slow_decimal(field: &[u8], mark: Option<Mark>) -> Result<(u64, u64), CellError> {
    if let Some(number) = hexadecimal(field) {
        return Ok((number, 0));
    }
    if mark.is_none() && field.contains(&b',') {
        return Err(CellError::Mark);
    }
    let number = PlainNumber::of(field, mark.unwrap_or(Mark::Point)).ok_or(CellError::Field)?;
    let number = number.bytes();
    decimal(number).or_else(|| decimal_or_power(number)).ok_or(CellError::Field)
}

#[cold]
fn slow_time(field: &[u8], unit: TimeUnit, mark: Option<Mark>) -> Result<u64, CellError> {
    let (whole, billionths) = slow_decimal(field, mark)?;
    as_ns(unit, whole, billionths)
}

#[inline(always)]
fn as_ns(unit: TimeUnit, whole: u64, billionths: u64) -> Result<u64, CellError> {
    // A fraction of a nanosecond is a clear sign of a wrong unit.
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
        OpCode::Disksim => number(cursor, None)
            .map(|flags| Some(if flags & 1 == 1 { Op::Read } else { Op::Write })),
    }
}

#[cold]
pub(crate) fn letters(cursor: &mut Cursor<'_>) -> Result<Flags, CellError> {
    flags_of(cursor.field()?).ok_or(CellError::Field)
}
