//! Parses decimal numbers exactly, without floating point.

/// Parses an unsigned integer. Returns `None` for anything else, including numbers that are too
/// large.
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

/// Parses a decimal number without a sign. Returns its integer part, and its fraction in
/// billionths. Digits after the ninth decimal are dropped.
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

/// Parses a number with an optional exponent, as pandas writes small and large numbers (`1e-05`,
/// `1.6777216e+07`). Returns its digits as an integer, and the power of ten to multiply it by.
fn powered(field: &[u8]) -> Option<(u128, i32)> {
    let end = field.iter().position(|byte| matches!(byte, b'e' | b'E')).unwrap_or(field.len());
    let (digits, power) = field.split_at(end);
    let mut power = match power.get(1..) {
        None => 0,
        Some(power) => std::str::from_utf8(power).ok()?.parse::<i8>().map(i32::from).ok()?,
    };
    let (mut value, mut is_fraction, mut any) = (0u128, false, false);
    for &byte in digits {
        if byte == b'.' && !is_fraction {
            is_fraction = true;
            continue;
        }
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        any = true;
        value = value.checked_mul(10)?.checked_add(u128::from(digit))?;
        power -= i32::from(is_fraction);
    }
    any.then_some((value, power))
}

/// Parses an integer in any floating-point notation, such as `4096.0` or `1e+09`.
pub(crate) fn integer(field: &[u8]) -> Option<u64> {
    let (value, power) = powered(field)?;
    let scale = 10u128.checked_pow(power.unsigned_abs())?;
    let value = match power {
        0.. => value.checked_mul(scale)?,
        _ if value.is_multiple_of(scale) => value / scale,
        _ => return None,
    };
    u64::try_from(value).ok()
}

/// Parses a number like [`decimal`], but with an optional exponent.
pub(crate) fn decimal_or_power(field: &[u8]) -> Option<(u64, u64)> {
    const BILLION: u128 = 1_000_000_000;
    let (value, power) = powered(field)?;
    let billionths = match power + 9 {
        up @ 0.. => value.checked_mul(10u128.checked_pow(up.unsigned_abs())?)?,
        down => 10u128.checked_pow(down.unsigned_abs()).map_or(0, |scale| value / scale),
    };
    let whole = u64::try_from(billionths / BILLION).ok()?;
    Some((whole, (billionths % BILLION) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_ten_are_exact() {
        let read = |text: &str| decimal_or_power(text.as_bytes());
        assert_eq!((read("1e-05"), read("2.5E-3")), (Some((0, 10_000)), Some((0, 2_500_000))));
        assert_eq!(read("1.6777216e+07"), Some((16_777_216, 0)));
        assert_eq!((read("1e-30"), read("0.0")), (Some((0, 0)), Some((0, 0))));
        assert_eq!((read("1e30"), read("1e"), read("e5"), read("1e5e5")), (None, None, None, None));
        let integer = |text: &str| super::integer(text.as_bytes());
        assert_eq!(
            (integer("4096.0"), integer("1.5e1"), integer("3e2")),
            (Some(4096), Some(15), Some(300))
        );
        assert_eq!(integer("1.8446744073709551615e+19"), Some(u64::MAX));
        for bad in ["4096.5", "1e-1", "1.8446744073709551616e19", "-1.0", "", ".", "nan", "1e99"] {
            assert_eq!(integer(bad), None, "{bad}");
        }
    }

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
