//! Reads numbers that are not written as plain digits: with decimal commas, groups of thousands or
//! hexadecimal digits, and words for unknown values.
//!
//! `1,500` means 1.5 or 1500. The decimal mark of a text is therefore either declared
//! (`decimal=comma`) or derived from the first rows ([`Mark::of_rows`]), because lengths and
//! offsets have no decimals, and groups have three digits. If neither is possible, ambiguous times
//! are rejected.

use crate::columns::cursor::{Cursor, Separator};
use crate::columns::spec::Role;
use crate::columns::unit::with_byte_unit;
use crate::columns::values::BINARY_UNITS;

/// The decimal mark. The other character (comma or point) then groups thousands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    Point,
    Comma,
}

/// The maximum length of a number in bytes.
const NUMBER_BYTES_MAX: usize = 64;
/// The number of lines from which the decimal mark is derived.
const LINES: usize = 1000;
/// Words that mean that a value is unknown.
const UNKNOWN: [&[u8]; 13] = [
    b"nan",
    b"-nan",
    b"null",
    b"none",
    b"na",
    b"n/a",
    b"<na>",
    b"nat",
    b"inf",
    b"-inf",
    b"infinity",
    b"-",
    b"\\N",
];
/// Characters that group thousands regardless of the decimal mark: apostrophes, underscores, and
/// various spaces.
const GROUPS: [&[u8]; 6] = [b"'", b"_", b" ", b"\xc2\xa0", b"\xe2\x80\xaf", b"\xe2\x80\x99"];

/// Returns whether the content of a field means that its value is unknown.
pub(crate) fn is_unknown(field: &[u8]) -> bool {
    field.is_empty() || UNKNOWN.iter().any(|word| word.eq_ignore_ascii_case(field))
}

/// Parses a hexadecimal integer such as `0x1f00`.
pub(crate) fn hexadecimal(field: &[u8]) -> Option<u64> {
    let digits = field.strip_prefix(b"0x").or_else(|| field.strip_prefix(b"0X"))?;
    let is_number = digits.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(digits).ok().filter(|_| is_number)?;
    u64::from_str_radix(text, 16).ok()
}

/// A number in plain notation: digits with an optional decimal point.
pub(crate) struct PlainNumber {
    bytes: [u8; NUMBER_BYTES_MAX],
    length: usize,
}

impl PlainNumber {
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    /// Converts a number with the decimal mark `mark` to plain notation by removing groups of
    /// thousands and a plus sign. Returns `None` if groups do not have three digits.
    pub(crate) fn of(field: &[u8], mark: Mark) -> Option<PlainNumber> {
        let (decimal, group) = match mark {
            Mark::Point => (b'.', b','),
            Mark::Comma => (b',', b'.'),
        };
        let mut rest = field.strip_prefix(b"+").unwrap_or(field);
        let mut number = PlainNumber { bytes: [0; NUMBER_BYTES_MAX], length: 0 };
        // Count the digits since the last digit-group separator.
        let (mut digits, mut is_grouped, mut is_fraction) = (0, false, false);
        while let [byte, after @ ..] = rest {
            let sign = GROUPS.iter().find(|sign| rest.starts_with(sign)).map(|sign| sign.len());
            let sign = sign.or((*byte == group).then_some(1));
            let ends_group = sign.is_some() || !byte.is_ascii_digit();
            if ends_group
                && !is_fraction
                && (is_grouped && digits != 3 || digits > 3 && sign.is_some())
            {
                return None;
            }
            if let Some(length) = sign {
                if is_fraction || digits == 0 {
                    return None;
                }
                (digits, is_grouped) = (0, true);
                rest = rest.get(length..)?;
                continue;
            }
            // Numbers with an exponent have no digit groups: 1.000e-01 is not 1000e-01.
            if is_grouped && matches!(byte, b'e' | b'E') {
                return None;
            }
            digits += usize::from(byte.is_ascii_digit());
            is_fraction |= !byte.is_ascii_digit();
            number.push(if *byte == decimal { b'.' } else { *byte })?;
            rest = after;
        }
        (is_fraction || !is_grouped || digits == 3).then_some(number)
    }

    fn push(&mut self, byte: u8) -> Option<()> {
        *self.bytes.get_mut(self.length)? = byte;
        self.length += 1;
        Some(())
    }
}

impl Mark {
    /// Derives the decimal mark of a text from its first rows. Returns `None` if nothing shows it
    /// or if rows contradict each other.
    pub(crate) fn of_rows(rows: &[u8], separator: Separator, roles: &[Role]) -> Option<Mark> {
        let mut found = None;
        for line in rows.split_inclusive(|&byte| byte == b'\n').take(LINES) {
            let mut cursor = Cursor::new(line, separator);
            cursor.first();
            for role in roles {
                let Ok(field) = cursor.field() else { break };
                let with_unit = with_byte_unit(field).map(|(number, _)| number);
                let shown = match role {
                    Role::Offset(_) | Role::Len(_) if with_unit.is_some() => {
                        Mark::of_decimal(with_unit.unwrap_or_default())
                    }
                    // Values in KiB and MiB may have decimals.
                    Role::Offset(unit) | Role::Len(unit) if BINARY_UNITS.contains(unit) => {
                        Mark::of_decimal(field)
                    }
                    Role::Offset(_) | Role::Len(_) => Mark::of_whole(field),
                    Role::At(unit) | Role::End(unit) | Role::Latency(unit) if unit.is_date() => {
                        None
                    }
                    Role::At(_) | Role::End(_) | Role::Latency(_) => Mark::of_decimal(field),
                    _ => None,
                };
                match (found, shown) {
                    (Some(before), Some(now)) if before != now => return None,
                    (_, shown) => found = found.or(shown),
                }
                if cursor.next().is_err() {
                    break;
                }
            }
        }
        found
    }

    /// Returns the decimal mark shown by a number that must be whole, because it groups thousands
    /// or all its decimals are zero.
    fn of_whole(field: &[u8]) -> Option<Mark> {
        let has = |byte: u8| field.contains(&byte);
        if has(b'e') || has(b'E') {
            return Mark::of_exponent(field);
        }
        if is_ambiguous(field) {
            return None;
        }
        let is_grouped = |mark| {
            let number = PlainNumber::of(field, mark);
            !field.starts_with(b"0") && number.is_some_and(|n| !n.bytes().contains(&b'.'))
        };
        match (has(b','), has(b'.')) {
            (true, true) => Mark::of_decimal(field),
            (true, false) if is_grouped(Mark::Point) => Some(Mark::Point),
            (true, false) => Some(Mark::Comma).filter(|_| is_digits_and(field, b',')),
            (false, true) if is_grouped(Mark::Comma) => Some(Mark::Comma),
            _ => None,
        }
    }

    /// Returns the decimal mark of a number with an exponent, which never has groups of thousands.
    fn of_exponent(field: &[u8]) -> Option<Mark> {
        match (field.contains(&b','), field.contains(&b'.')) {
            (true, false) => Some(Mark::Comma),
            (false, true) => Some(Mark::Point),
            _ => None,
        }
    }

    /// Returns the decimal mark of a number that is invalid with the other mark.
    pub(crate) fn of_decimal(field: &[u8]) -> Option<Mark> {
        if field.iter().any(|byte| matches!(byte, b'e' | b'E')) {
            return Mark::of_exponent(field);
        }
        let is_of = |mark| {
            let number = PlainNumber::of(field, mark)?;
            let points = number.bytes().iter().filter(|&&byte| byte == b'.').count();
            // Numbers such as 500 are never written as 0,500.
            let is_padded = points == 0 && field.first() == Some(&b'0');
            (points < 2 && is_digits_and(number.bytes(), b'.') && !is_padded).then_some(mark)
        };
        if !field.iter().any(|byte| matches!(byte, b',' | b'.')) {
            return None;
        }
        match (is_of(Mark::Point), is_of(Mark::Comma)) {
            (Some(_), Some(_)) => None,
            (point, comma) => point.or(comma),
        }
    }
}

/// Returns whether a whole number may either group thousands or have three zero decimals:
/// `512,000`.
pub(crate) fn is_ambiguous(field: &[u8]) -> bool {
    let whole = field.strip_suffix(b",000").or_else(|| field.strip_suffix(b".000"));
    whole.is_some_and(|digits| {
        (1..=3).contains(&digits.len())
            && digits.first() != Some(&b'0')
            && digits.iter().all(u8::is_ascii_digit)
    })
}

fn is_digits_and(field: &[u8], mark: u8) -> bool {
    field.iter().all(|&byte| byte.is_ascii_digit() || byte == mark)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Columns;

    fn plain(field: &str, mark: Mark) -> Option<String> {
        PlainNumber::of(field.as_bytes(), mark)
            .map(|number| String::from_utf8(number.bytes().to_vec()).unwrap())
    }

    #[test]
    fn groups_have_three_digits() {
        for (field, mark, expected) in [
            ("1,234,567.5", Mark::Point, Some("1234567.5")),
            ("1.234.567,5", Mark::Comma, Some("1234567.5")),
            ("1 234 567,5", Mark::Comma, Some("1234567.5")),
            ("16\u{202f}384", Mark::Point, Some("16384")),
            ("16'384", Mark::Comma, Some("16384")),
            ("+4096", Mark::Point, Some("4096")),
            ("1e-05", Mark::Point, Some("1e-05")),
            ("1,23", Mark::Point, None),
            ("1234,567", Mark::Point, None),
            (",567", Mark::Point, None),
            ("1,5678", Mark::Point, None),
            ("1,", Mark::Point, None),
            ("1.5,000", Mark::Point, None),
            ("1.000e-01", Mark::Comma, None),
            ("1,000e-01", Mark::Comma, Some("1.000e-01")),
        ] {
            assert_eq!(plain(field, mark).as_deref(), expected, "{field}");
        }
    }

    #[test]
    fn the_decimal_mark_is_detected_from_the_rows() {
        let columns: Columns = "at:s,op,offset,len,latency:us,sep=semicolon".parse().unwrap();
        let of = |rows: &str| Mark::of_rows(rows.as_bytes(), Separator::Byte(b';'), &columns.roles);
        assert_eq!(of("1,000000;R;0;4096;100,000\n"), Some(Mark::Comma));
        assert_eq!(of("1.000000;R;0;4096;100.000\n"), Some(Mark::Point));
        assert_eq!(of("1,000;R;0;4096;100,000\n"), None);
        assert_eq!(of("1,000;R;0;4.096;100,000\n"), Some(Mark::Comma));
        assert_eq!(of("1,000;R;0;4,096;100,000\n"), Some(Mark::Point));
        assert_eq!(of("0,500;R;0;512;1\n"), Some(Mark::Comma));
        assert_eq!(of("1.500,25;R;0;512;1\n"), Some(Mark::Comma));
        assert_eq!(of("1.5;R;0;512;1\n1,5;R;0;512;1\n"), None);
        assert_eq!(of("1;R;0;4096.0;1e-05\n"), None);
        assert_eq!(of("1.000e-01;R;0;4.096e+03;1\n"), Some(Mark::Point));
        assert_eq!(of("1;R;0;4.096e+03;1\n"), Some(Mark::Point));
        assert_eq!(of("1,000E-01;R;0;4,096E+03;1\n"), Some(Mark::Comma));
        assert_eq!(of("1,125;R;8192,000;4096,000;1\n2,250;R;0;512,000;1\n"), Some(Mark::Comma));
        assert_eq!(of("1,125;R;0;512,000;1\n"), None);
        assert_eq!(of("1,125;R;0;1,512,000;1\n"), Some(Mark::Point));
    }

    #[test]
    fn hexadecimal_numbers_have_a_prefix() {
        assert_eq!(hexadecimal(b"0x0000000048100000"), Some(0x4810_0000));
        assert_eq!(hexadecimal(b"0XFFFFFFFFFFFFFFFF"), Some(u64::MAX));
        for bad in [&b"0x"[..], b"1f00", b"0x1g", b"0x+1", b"0x10000000000000000"] {
            assert_eq!(hexadecimal(bad), None);
        }
    }
}
