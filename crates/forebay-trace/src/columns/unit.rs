//! Units of time and of length.

/// Nanoseconds per second.
const SECOND_NS: u64 = 1_000_000_000;

/// A unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeUnit {
    /// The name in declarations.
    pub(crate) name: &'static str,
    /// The length in nanoseconds, which is a power of ten, or 0 for dates, times of day and spans.
    pub(crate) ns: u64,
}

/// All units of time. The usual name of each length comes first.
pub(crate) const TIME_UNITS: &[TimeUnit] = &[
    TimeUnit { name: "ns", ns: 1 },
    TimeUnit { name: "ticks", ns: 100 },
    TimeUnit { name: "us", ns: 1_000 },
    TimeUnit { name: "ms", ns: 1_000_000 },
    TimeUnit { name: "s", ns: SECOND_NS },
    TimeUnit { name: "filetime", ns: 100 },
];

/// Used for columns that contain dates instead of counts.
pub(crate) const DATE: TimeUnit = TimeUnit { name: "date", ns: 0 };
/// Times of day such as `23:59:59.000345`, which continue over midnight.
pub(crate) const CLOCK: TimeUnit = TimeUnit { name: "clock", ns: 0 };
/// Time spans such as `0 days 00:00:00.001`, instead of counts.
pub(crate) const TIMEDELTA: TimeUnit = TimeUnit { name: "timedelta", ns: 0 };

impl TimeUnit {
    /// Returns whether the values are dates, times of day or time spans instead of numbers.
    pub(crate) fn is_date(self) -> bool {
        self.ns == 0
    }

    pub(crate) fn named(name: &str) -> Option<TimeUnit> {
        TIME_UNITS.iter().copied().find(|unit| unit.name == name)
    }

    /// Converts a count and its fraction, in billionths, to nanoseconds.
    #[inline]
    pub(crate) fn as_ns(self, whole: u64, billionths: u64) -> Option<u64> {
        let whole_ns = whole.checked_mul(self.ns)?;
        if billionths == 0 {
            return Some(whole_ns);
        }
        whole_ns.checked_add(billionths / (SECOND_NS / self.ns))
    }
}

/// Splits a quantity of bytes with a unit, such as `4KB`, `4 KiB` or `1.5M`, into its number and
/// its unit in bytes. All units are powers of 1024, because storage is not accessed in steps of
/// 1000 bytes.
pub(crate) fn with_byte_unit(field: &[u8]) -> Option<(&[u8], u64)> {
    let is_number = |byte: &u8| byte.is_ascii_digit() || b".,' _".contains(byte);
    let unit = field.iter().position(|byte| !is_number(byte))?;
    let (number, unit) = field.split_at(unit);
    let unit = unit.to_ascii_lowercase();
    let prefix = match &unit[..] {
        b"b" | b"byte" | b"bytes" => return Some((number.trim_ascii_end(), 1)),
        [prefix] | [prefix, b'b'] | [prefix, b'i', b'b'] => *prefix,
        _ => return None,
    };
    let power = b"kmgt".iter().position(|known| *known == prefix)? as u32 + 1;
    (!number.is_empty()).then_some((number.trim_ascii_end(), 1 << (10 * power)))
}

/// Returns the number of bytes in a unit of length: `bytes`, `sectors`, `kib`, `mib`, `pages` or
/// `blocks:N`.
pub(crate) fn length_unit_bytes(name: &str) -> Option<u64> {
    match name {
        "bytes" => Some(1),
        "sectors" => Some(512),
        "kib" => Some(1 << 10),
        "mib" => Some(1 << 20),
        "pages" => Some(4096),
        _ => {
            let bytes: u64 = name.strip_prefix("blocks:")?.parse().ok()?;
            (1..=1 << 30).contains(&bytes).then_some(bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_units() {
        for (text, number, unit) in [
            ("4KB", "4", 1 << 10),
            ("4 KiB", "4", 1 << 10),
            ("1.5MB", "1.5", 1 << 20),
            ("2g", "2", 1 << 30),
            ("1,5 TiB", "1,5", 1 << 40),
            ("512B", "512", 1),
            ("512 bytes", "512", 1),
        ] {
            assert_eq!(with_byte_unit(text.as_bytes()), Some((number.as_bytes(), unit)), "{text}");
        }
        for bad in ["", "4", "KB", "0x1b", "4KX", "4 KiBs", "4e3", "nan", "-4KB", "4KBB", "4kk"] {
            assert_eq!(with_byte_unit(bad.as_bytes()), None, "{bad}");
        }
    }
}
