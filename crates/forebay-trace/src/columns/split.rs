//! Finds the bounds of all fields in a plain row, sixteen bytes at a time, before any field is
//! read, so that reading a field never has to wait for the previous one.
//!
//! A *plain* row contains only its separator and ASCII characters not below `#`, so that a field is
//! simply the text between two separators. All other rows are left to [`crate::columns::cursor`].

use wide::i8x16;

/// The maximum number of columns in a plain row.
pub(crate) const COLUMNS_MAX: usize = 31;

/// The start of each field. The entry after the last field is the position where the next field
/// would start.
pub(crate) type Bounds = [usize; COLUMNS_MAX + 1];

/// The initial content of bounds.
pub(crate) const NO_BOUNDS: Bounds = [0; COLUMNS_MAX + 1];

/// The number of bytes that are examined together.
const WINDOW: usize = 64;
/// The maximum number of windows that a row may span.
const WINDOWS_MAX: usize = 8;
/// The lowest byte that is not a space, a quote or a control character.
const PLAIN_LEAST: u8 = b'#';

/// Finds the first `columns` fields of the row that begins at `start`. Returns the start of the
/// next row, or `None` if the row is not plain or has too few fields.
#[inline(always)]
pub(crate) fn split(
    text: &[u8],
    start: usize,
    separator: u8,
    columns: usize,
    bounds: &mut Bounds,
) -> Option<usize> {
    let mut found = 1;
    bounds[0] = start;
    let mut from = start;
    for _ in 0..WINDOWS_MAX {
        let window = text.get(from..).and_then(<[u8]>::first_chunk::<WINDOW>)?;
        let (mut separators, others) = marks(window, separator);
        // Keep only separators before the first other special byte, which must end the row.
        separators &= (others & others.wrapping_neg()).wrapping_sub(1);
        while separators != 0 && found <= columns {
            bounds[found % (COLUMNS_MAX + 1)] = from + separators.trailing_zeros() as usize + 1;
            found += 1;
            separators &= separators - 1;
        }
        if others != 0 {
            let end = from + others.trailing_zeros() as usize;
            if found <= columns {
                bounds[found % (COLUMNS_MAX + 1)] = end + 1;
                found += 1;
            }
            let next = match text.get(end) {
                Some(b'\n') => end + 1,
                Some(b'\r') if text.get(end + 1) == Some(&b'\n') => end + 2,
                _ => return None,
            };
            return (found > columns).then_some(next);
        }
        from += WINDOW;
    }
    None
}

/// Returns bit masks of the separators and of other bytes that plain fields do not contain.
#[inline(always)]
fn marks(window: &[u8; WINDOW], separator: u8) -> (u64, u64) {
    let wanted = i8x16::splat(separator as i8);
    // As signed numbers, bytes from 0x80 on are negative.
    let least = i8x16::splat(PLAIN_LEAST as i8);
    let (mut separators, mut others) = (0, 0);
    for (index, quarter) in window.as_chunks::<16>().0.iter().enumerate() {
        let bytes = i8x16::new(bytemuck::cast(*quarter));
        separators |= u64::from(bytes.simd_eq(wanted).to_bitmask()) << (16 * index);
        others |= u64::from(bytes.simd_lt(least).to_bitmask()) << (16 * index);
    }
    (separators, others & !separators)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fields(row: &str, separator: u8, columns: usize) -> Option<(Vec<&str>, usize)> {
        let text = [row.as_bytes(), &[b'\n'; WINDOW + 1]].concat();
        let mut bounds = NO_BOUNDS;
        let next = split(&text, 0, separator, columns, &mut bounds)?;
        let between = |n: usize| row.get(bounds[n]..bounds[n + 1] - 1).unwrap();
        Some(((0..columns).map(between).collect(), next))
    }

    #[test]
    fn plain_rows_are_split() {
        assert_eq!(fields("a,bc,,d", b',', 4), Some((vec!["a", "bc", "", "d"], 8)));
        assert_eq!(fields("a,bc,,d", b',', 2), Some((vec!["a", "bc"], 8)));
        assert_eq!(fields("a,b\r\n", b',', 2), Some((vec!["a", "b"], 5)));
        assert_eq!(fields("a\tb", b'\t', 2), Some((vec!["a", "b"], 4)));
        for odd in ["a,b", "a,\"b\",c", "a, b,c", "a,b\r,c", "a,b,\u{e9}", "a\tb,c,d", ""] {
            assert_eq!(fields(odd, b',', 3), None, "{odd:?}");
        }
        assert_eq!(fields(&"x".repeat(WINDOW * WINDOWS_MAX), b',', 1), None);
    }

    proptest! {
        #[test]
        fn rows_of_any_length_are_split_as_by_the_library(
            row in "[a-z,]{0,300}", end in "\n|\r\n", columns in 1..=COLUMNS_MAX
        ) {
            let expected: Vec<&str> = row.split(',').take(columns).collect();
            let text = format!("{row}{end}");
            match fields(&text, b',', columns) {
                Some((found, next)) => {
                    prop_assert_eq!(found, expected);
                    prop_assert_eq!(next, text.len());
                }
                None => prop_assert!(expected.len() < columns),
            }
        }

        #[test]
        fn marks_are_those_of_the_bytes(bytes in proptest::array::uniform32(any::<u8>()), sep: u8) {
            let mut window = [sep; WINDOW];
            window[16..48].copy_from_slice(&bytes);
            let bits = |is: &dyn Fn(u8) -> bool| {
                window.iter().rev().fold(0, |bits: u64, &byte| bits << 1 | u64::from(is(byte)))
            };
            let separators = bits(&|byte| byte == sep);
            let others = bits(&|byte| !(b'#'..0x80).contains(&byte) && byte != sep);
            prop_assert_eq!(marks(&window, sep), (separators, others));
        }
    }
}
