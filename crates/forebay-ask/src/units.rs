//! Parses times, sizes and shares as people write them: `10 ms`, `64GiB`, `64G`, `99.9%`.
//!
//! Values are never rounded: a value that cannot be represented exactly is an error.

use std::fmt;
use std::str::FromStr;

use forebay_core::Nanos;

/// The maximum number of decimal places in a number.
const PLACES_MAX: usize = 18;

/// Parses a decimal number into its digits and its number of decimal places; returns `None` for any
/// other text.
pub fn decimal(text: &str) -> Option<(u64, u32)> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    let part = part.trim_end_matches('0');
    if !is_number(whole) || !is_number(part) || text.trim_matches('.').is_empty() {
        return None;
    }
    if part.len() > PLACES_MAX {
        return None;
    }
    Some((format!("{whole}{part}").parse().ok()?, part.len() as u32))
}

/// Splits text into a number and a unit, which may be separated by a space.
fn parted(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

/// Multiplies `number` by `worth`. Returns `None` if `number` is not a decimal number, and an error
/// if the result is not a whole number.
fn whole(number: &str, worth: u64) -> Option<Result<u64, ()>> {
    let (digits, places) = decimal(number)?;
    let (units, power) = (u128::from(digits) * u128::from(worth), 10u128.pow(places));
    Some(match units % power {
        0 => u64::try_from(units / power).map_err(|_| ()),
        _ => Err(()),
    })
}

/// Parses a time: a number with a unit.
///
/// # Errors
/// Returns a message that states what was given and what was expected.
pub fn duration(text: &str) -> Result<Nanos, String> {
    let (number, unit) = parted(text);
    let expected = "a time with its unit (ns, us, ms, s, min, h, d), e.g. 10ms";
    let worth = match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return Err(format!("got '{text}', expected {expected}")),
    };
    match whole(number, worth) {
        Some(Ok(nanos)) => Ok(Nanos(nanos)),
        Some(Err(())) => {
            Err(format!("got '{text}', expected whole nanoseconds, less than 500 years in total"))
        }
        None => Err(format!("got '{text}', expected {expected}")),
    }
}

/// Parses a time above zero.
///
/// # Errors
/// Fails like [`duration`].
pub fn positive_duration(text: &str) -> Result<Nanos, String> {
    match duration(text)? {
        Nanos::ZERO => Err(format!("got '{text}', expected a time above 0, e.g. 10ms")),
        time => Ok(time),
    }
}

/// A time that may be zero, such as `0s` or `1.5s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay(pub Nanos);

/// A size in bytes, such as `4096`, `64KiB`, `64K` (units of 1024) or `1.5GB` (units of 1000).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size {
    /// The number of bytes.
    pub bytes: u64,
}

impl FromStr for Size {
    type Err = String;
    fn from_str(text: &str) -> Result<Size, String> {
        let (number, unit) = parted(text);
        let expected = "a size, e.g. 4096, 64KiB, 64K, 1.5GiB or 2TB";
        let power = |base: u64, letter: u8| {
            let place = b"KMGTPE".iter().position(|known| *known == letter)?;
            base.checked_pow(place as u32 + 1)
        };
        let worth = match unit.to_ascii_uppercase().as_bytes() {
            [] | [b'B'] => Some(1),
            [letter] | [letter, b'I'] | [letter, b'I', b'B'] => power(1024, *letter),
            [letter, b'B'] => power(1000, *letter),
            _ => None,
        };
        let bytes = worth.and_then(|worth| whole(number, worth));
        match bytes {
            Some(Ok(bytes)) => Ok(Size { bytes }),
            Some(Err(())) => Err(format!("got '{text}', expected whole bytes, less than 16 EiB")),
            None => Err(format!("got '{text}', expected {expected}")),
        }
    }
}

/// A share above 0 and at most 1, such as `0.999`, `99.9%` or `1`. All digits are preserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Share {
    digits: u64,
    places: u32,
}

impl Share {
    /// The share of 1, which means everything.
    pub const ALL: Share = Share { digits: 1, places: 0 };

    /// Returns the smallest whole number that is at least this share of `count`.
    pub fn of(self, count: u64) -> u64 {
        let (product, power) =
            (u128::from(self.digits) * u128::from(count), 10u128.pow(self.places));
        product.div_ceil(power) as u64
    }

    /// Returns the share as a floating-point number.
    pub fn as_f64(self) -> f64 {
        // Parsing the decimal text returns the nearest floating-point number.
        self.to_string().parse().unwrap_or(f64::NAN)
    }
}

impl FromStr for Share {
    type Err = String;
    fn from_str(text: &str) -> Result<Share, String> {
        let wrong =
            || format!("got '{text}', expected a share above 0 and at most 1, e.g. 0.99 or 99%");
        let trimmed = text.trim();
        let (number, percent) = match trimmed.strip_suffix('%') {
            Some(number) => (number.trim_end(), 2),
            None => (trimmed, 0),
        };
        let (digits, places) = decimal(number).ok_or_else(wrong)?;
        let places = places + percent;
        if digits == 0 || places > 38 || u128::from(digits) > 10u128.pow(places) {
            return Err(wrong());
        }
        let (mut digits, mut places) = (digits, places);
        while places > 0 && digits % 10 == 0 {
            (digits, places) = (digits / 10, places - 1);
        }
        Ok(Share { digits, places })
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.places {
            0 => write!(f, "{}", self.digits),
            places => write!(f, "0.{:0width$}", self.digits, width = places as usize),
        }
    }
}

/// A share above 0 and below 1, such as a confidence level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PartialShare(pub f64);

impl FromStr for PartialShare {
    type Err = String;
    fn from_str(text: &str) -> Result<PartialShare, String> {
        let share = text.parse::<Share>().ok().filter(|share| *share < Share::ALL);
        share.map(|share| PartialShare(share.as_f64())).ok_or_else(|| {
            format!("got '{text}', expected a share above 0 and below 1, e.g. 0.95 or 95%")
        })
    }
}

impl Ord for Share {
    fn cmp(&self, other: &Share) -> std::cmp::Ordering {
        let scaled =
            |one: &Share, by: &Share| u128::from(one.digits) * 10u128.pow(by.places.min(20));
        scaled(self, other).cmp(&scaled(other, self))
    }
}

impl PartialOrd for Share {
    fn partial_cmp(&self, other: &Share) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact_and_have_units() {
        let read = |text: &str| duration(text).map(|time| time.0);
        assert_eq!(read("10ms"), Ok(10_000_000));
        assert_eq!(read(" 0.5 ms"), Ok(500_000));
        assert_eq!(read("1.5min"), Ok(90_000_000_000));
        assert_eq!(read("2d"), Ok(172_800_000_000_000));
        assert_eq!(read("250 µs"), Ok(250_000));
        assert_eq!((read("0s"), positive_duration("0s").is_err()), (Ok(0), true));
        for text in
            ["", "5", "ms", "-5ms", "1e3ms", "5 parsecs", "nans", "0.0000001ms", "600000000h"]
        {
            assert!(duration(text).unwrap_err().contains("expected"), "{text}");
        }
    }

    #[test]
    fn sizes_are_binary_unless_they_say_otherwise() {
        let read = |text: &str| text.parse::<Size>().map(|size| size.bytes);
        assert_eq!(
            [read("4096"), read("4KiB"), read("4 k"), read("4kib")],
            [const { Ok(4096) }; 4]
        );
        assert_eq!((read("64G"), read("64 GiB")), (Ok(64 << 30), Ok(64 << 30)));
        assert_eq!((read("1.5GB"), read("2TB")), (Ok(1_500_000_000), Ok(2_000_000_000_000)));
        assert_eq!(read("16E"), Err("got '16E', expected whole bytes, less than 16 EiB".into()));
        for text in ["", "G", "-1", "1.0001", "1 fortnight", "1e9", "0x10"] {
            assert!(read(text).unwrap_err().contains("expected"), "{text}");
        }
    }

    #[test]
    fn shares_keep_their_digits() {
        let read = |text: &str| text.parse::<Share>().unwrap();
        assert_eq!((read("99.9%"), read("0.95")), (read("0.999"), read("95 %")));
        assert_eq!(read("0.9995").of(10_001), 9996);
        assert_eq!(read("1%").to_string(), "0.01");
        assert_eq!(read("100%"), Share::ALL);
        assert!(read("99%") < read("0.995") && read("5%") < read("0.5"));
        for text in
            ["0", "0%", "101%", "1.01", "-0.5", "", "%", "nan", "1e-3", "0.1234567890123456789"]
        {
            assert!(text.parse::<Share>().unwrap_err().contains("above 0"), "{text}");
        }
    }
}
