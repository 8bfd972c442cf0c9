//! Parses eight decimal digits at a time in the bytes of a word (SIMD within a register).

pub(crate) const ONES: u64 = 0x0101_0101_0101_0101;
pub(crate) const HIGHS: u64 = 0x8080_8080_8080_8080;

/// Returns the number of decimal digits at the beginning of eight bytes, and their value.
#[inline(always)]
pub(crate) fn eight(word: u64) -> (usize, u64) {
    let x = word ^ (ONES * 0x30);
    // A byte above 9 gets its high bit set. Its carry may corrupt later bytes, but not earlier
    // ones.
    let stops = (x.wrapping_add(ONES * 0x76) | x) & HIGHS;
    let digits = (stops.trailing_zeros() / 8) as usize;
    if digits == 0 {
        return (0, 0);
    }
    // Shift out everything after the digits. This inserts zeros before them.
    let x = x << (64 - 8 * digits);
    (digits, value(x))
}

pub(crate) const POWERS: [u64; 10] =
    [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000];

/// Loads eight bytes from position `at` of a text, padded with zeros.
#[inline(always)]
pub(crate) fn load(text: &[u8], at: usize) -> u64 {
    let bytes = text.get(at..).and_then(<[u8]>::first_chunk::<8>);
    bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Returns the value of eight digits. Each byte is from 0 to 9; the lowest byte is the first digit.
#[inline(always)]
fn value(x: u64) -> u64 {
    let pairs = x.wrapping_mul(10).wrapping_add(x >> 8);
    let low = (pairs & 0x0000_00ff_0000_00ff).wrapping_mul(100 + (1_000_000 << 32));
    let high = (pairs >> 16 & 0x0000_00ff_0000_00ff).wrapping_mul(1 + (10_000 << 32));
    low.wrapping_add(high) >> 32
}

/// Returns the value of the bytes `from..to` if they are 1 to 19 digits.
#[inline(always)]
pub(crate) fn number(text: &[u8], from: usize, to: usize) -> Option<u64> {
    let length = to.wrapping_sub(from);
    // Load 1 to 8 digits, shifting out the bytes after them.
    let first = |count: usize| (load(text, from) ^ (ONES * 0x30)) << (64 - 8 * count);
    let last = || load(text, to - 8) ^ (ONES * 0x30);
    let not = |x: u64| (x.wrapping_add(ONES * 0x76) | x) & HIGHS;
    // If bytes are not digits, the result may overflow.
    let join = |high: u64, low: u64| high.wrapping_mul(POWERS[8]).wrapping_add(value(low));
    let (value, wrong) = match length {
        1..=8 => {
            let x = first(length);
            (value(x), not(x))
        }
        9..=16 => {
            let (x, y) = (first(length - 8), last());
            (join(value(x), y), not(x) | not(y))
        }
        17..=19 => {
            let (x, z) = (first(length - 16), last());
            let y = load(text, to - 16) ^ (ONES * 0x30);
            let value = join(join(value(x), y), z);
            (value, not(x) | not(y) | not(z))
        }
        _ => return None,
    };
    (wrong == 0).then_some(value)
}

/// Returns a field of at most seven bytes, as converted by [`crate::columns::cursor::short_key`].
#[inline(always)]
pub(crate) fn key(text: &[u8], from: usize, to: usize) -> Option<u64> {
    let length = to.wrapping_sub(from);
    if length > 7 {
        return None;
    }
    let word = load(text, from) & ((1 << (8 * length)) - 1);
    Some(word | (length as u64) << 56)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::cursor::short_key;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_are_those_of_the_library(before in "[0-9]{0,9}", field in "[0-9]{1,19}") {
            let text = format!("{before}{field}1234567890");
            let (from, to) = (before.len(), before.len() + field.len());
            prop_assert_eq!(number(text.as_bytes(), from, to), field.parse().ok());
        }

        #[test]
        fn anything_but_digits_is_no_number(
            digits in "[0-9]{0,18}", bad in "[^0-9]", place: prop::sample::Index
        ) {
            let mut field = digits.clone().into_bytes();
            field.splice(..place.index(digits.len() + 1), []);
            let field = [&digits.as_bytes()[..digits.len() - field.len()], bad.as_bytes(), &field].concat();
            let text = [&field[..], &[b'1'; 8]].concat();
            prop_assert_eq!(number(&text, 0, field.len()), None);
        }

        #[test]
        fn keys_match_their_words(field in "[ -~]{0,9}") {
            let text = format!("{field}........");
            prop_assert_eq!(key(text.as_bytes(), 0, field.len()), short_key(field.as_bytes()));
        }
    }

    #[test]
    fn longer_numbers_are_left_to_the_general_reader() {
        let text = [b'1'; 40];
        assert_eq!(number(&text, 4, 4), None);
        assert_eq!(number(&text, 4, 24), None);
        assert_eq!(number(&text, 4, 3), None);
        assert_eq!(number(b"9999999999999999999,,,,,,,,", 0, 19), Some(9_999_999_999_999_999_999));
    }
}
