//! Small numbers as letters, so that long lists of them stay short: a letter for each number below
//! [`BASE`], or two.

/// Letters there are: printable ASCII from `#` on without the backslash.
pub const BASE: usize = 91;
/// Numbers that two letters can tell.
pub const PAIRS: usize = BASE * BASE;

const FIRST: u8 = b'#';
const SKIPPED: u8 = b'\\';

/// The letter of a number below [`BASE`].
#[inline]
pub fn letter(number: usize) -> char {
    let byte = FIRST + (number % BASE) as u8;
    char::from(if byte < SKIPPED { byte } else { byte + 1 })
}

/// The number of a letter.
#[inline]
pub fn number(letter: u8) -> Option<usize> {
    let known = letter != SKIPPED && (FIRST..=b'~').contains(&letter);
    known.then(|| usize::from(letter - FIRST) - usize::from(letter > SKIPPED))
}

/// Appends a number below [`PAIRS`] as two letters.
pub fn push_pair(text: &mut String, number: usize) {
    text.push(letter(number / BASE % BASE));
    text.push(letter(number));
}

/// The numbers of letters; none if there is another sign among them.
pub fn numbers(text: &str) -> Option<Vec<usize>> {
    text.bytes().map(number).collect()
}

/// The numbers of pairs of letters; none if there is another sign among them, or half a pair.
pub fn pairs(text: &str) -> Option<Vec<usize>> {
    let numbers = numbers(text)?;
    let (pairs, rest) = numbers.as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|pair| pair[0] * BASE + pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        let text: String = (0..BASE).map(letter).collect();
        assert!(!text.contains(['"', '\\']) && text.bytes().all(|byte| byte.is_ascii_graphic()));
        assert_eq!(numbers(&text), Some((0..BASE).collect()));
        let mut text = String::new();
        (0..PAIRS).for_each(|number| push_pair(&mut text, number));
        assert_eq!(pairs(&text), Some((0..PAIRS).collect()));
        for wrong in ["\"", "\\", "!", "é", "a b"] {
            assert_eq!(numbers(wrong), None);
        }
        assert_eq!(pairs("abc"), None);
    }
}
