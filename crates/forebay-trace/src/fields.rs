//! Numbers written in decimal digits, read exactly: nothing goes through floating point.

/// A whole number that fits; `None` for anything else.
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

/// A decimal number without a sign: its whole part, and its decimals in billionths; decimals beyond
/// the ninth are dropped.
pub(crate) fn decimal(field: &[u8]) -> Option<(u64, u64)> {
    let dot = field.iter().position(|&b| b == b'.').unwrap_or(field.len());
    let (whole, fraction) = field.split_at(dot);
    let fraction = fraction.get(1..).unwrap_or_default();
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole = if whole.is_empty() { 0 } else { digits(whole)? };
    let (mut billionths, mut unit) = (0, 100_000_000);
    for byte in fraction {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        billionths += u64::from(digit) * unit;
        unit /= 10;
    }
    Some((whole, billionths))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_exact_up_to_the_last() {
        assert_eq!(digits(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(digits(b"007"), Some(7));
        for bad in [&b"18446744073709551616"[..], b"-1", b"", b"1.5", b"1e3", b"0x1", b"+1"] {
            assert_eq!(digits(bad), None, "{}", bad.escape_ascii());
        }
    }

    #[test]
    fn decimals_are_exact_up_to_billionths() {
        let read = |text: &str| decimal(text.as_bytes());
        assert_eq!(read("0.026214"), Some((0, 26_214_000)));
        assert_eq!(read("16777217.123456789"), Some((16_777_217, 123_456_789)));
        assert_eq!(read("1.0000000019"), Some((1, 1)));
        assert_eq!((read("3"), read("3."), read(".5")), (Some((3, 0)), read("3"), read("0.5")));
        for bad in ["", ".", "-1", "1e3", "nan", "1.2.3", "1.-2", "18446744073709551616"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
