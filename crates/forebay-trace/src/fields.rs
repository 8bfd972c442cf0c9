//! Fields parted by commas, read one after another without copying. Numbers are exact: nothing
//! goes through floating point.

use crate::rows::Wrong;

/// The fields of one line not read yet.
pub(crate) struct Fields<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> Fields<'a> {
    #[inline]
    pub(crate) fn new(line: &'a [u8]) -> Fields<'a> {
        Fields { rest: Some(line) }
    }

    /// The next field, blanks around it taken off.
    #[inline]
    pub(crate) fn bytes(&mut self, column: &'static str) -> Result<&'a [u8], Wrong> {
        let Some(rest) = self.rest else {
            return Err(Wrong {
                column,
                got: "the end of the line".into(),
                expected: "one more field",
            });
        };
        // Fields are a few bytes long: a loop finds their end sooner than a search by blocks.
        let field = match rest.iter().position(|&b| b == b',') {
            Some(at) => {
                let (field, more) = rest.split_at(at);
                self.rest = more.get(1..);
                field
            }
            None => {
                self.rest = None;
                rest
            }
        };
        Ok(field.trim_ascii())
    }

    /// A decimal number without a sign.
    #[inline]
    pub(crate) fn number(&mut self, column: &'static str) -> Result<u64, Wrong> {
        // In one pass for what almost every field is: up to 19 digits and a comma.
        if let Some(rest) = self.rest {
            let mut value = 0u64;
            for (at, &byte) in rest.iter().take(20).enumerate() {
                let digit = byte.wrapping_sub(b'0');
                if digit <= 9 {
                    value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
                } else if byte == b',' && at > 0 {
                    // At most 19 digits came before, which never overflow.
                    self.rest = rest.get(at + 1..);
                    return Ok(value);
                } else {
                    break;
                }
            }
        }
        let field = self.bytes(column)?;
        digits(field).ok_or_else(|| Wrong::new(column, field, "a whole number without a sign"))
    }

    /// A decimal number of seconds without a sign, in nanoseconds; digits beyond are dropped.
    #[inline]
    pub(crate) fn seconds_as_ns(&mut self, column: &'static str) -> Result<u64, Wrong> {
        let field = self.bytes(column)?;
        nanoseconds(field).ok_or_else(|| Wrong::new(column, field, "seconds such as 12.000345"))
    }
}

/// A decimal number that fits; `None` for anything else.
pub(crate) fn digits(field: &[u8]) -> Option<u64> {
    if field.is_empty() {
        return None;
    }
    field.iter().try_fold(0u64, |value, &byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

fn nanoseconds(field: &[u8]) -> Option<u64> {
    let dot = field.iter().position(|&b| b == b'.').unwrap_or(field.len());
    let (whole, fraction) = field.split_at(dot);
    let fraction = fraction.get(1..).unwrap_or_default();
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut ns = if whole.is_empty() { 0 } else { digits(whole)?.checked_mul(1_000_000_000)? };
    let mut unit = 100_000_000;
    for byte in fraction {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        ns = ns.checked_add(u64::from(digit) * unit)?;
        unit /= 10;
    }
    Some(ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_exact_up_to_the_last() {
        let mut fields = Fields::new(b"18446744073709551615,007, 5 ,9");
        let all: Vec<u64> = (0..4).map(|_| fields.number("n").unwrap()).collect();
        assert_eq!(all, [u64::MAX, 7, 5, 9]);
        assert!(fields.number("n").unwrap_err().got.contains("end of the line"));
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for bad in [&b"18446744073709551616"[..], b"-1", b"", b"1.5", b"1e3", b"0x1", b"+1"] {
            let wrong = Fields::new(bad).number("Offset").unwrap_err();
            assert_eq!(wrong.column, "Offset", "{}", bad.escape_ascii());
            let mut line = bad.to_vec();
            line.push(b',');
            assert!(Fields::new(&line).number("Offset").is_err(), "{}", bad.escape_ascii());
        }
    }

    #[test]
    fn seconds_become_exact_nanoseconds() {
        let ns = |text: &str| nanoseconds(text.as_bytes());
        assert_eq!(ns("0.026214"), Some(26_214_000));
        assert_eq!(ns("16777217.123456789"), Some(16_777_217_123_456_789));
        assert_eq!(ns("1.0000000019"), Some(1_000_000_001));
        assert_eq!((ns("3"), ns("3."), ns(".5")), (Some(3_000_000_000), ns("3"), ns("0.5")));
        for bad in ["", ".", "-1", "1e3", "nan", "1.2.3", "1.-2", "18446744074"] {
            assert_eq!(ns(bad), None, "{bad}");
        }
    }
}
