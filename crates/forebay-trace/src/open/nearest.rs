//! Finds the formats that are most similar to an unknown name, or to text that none of them reads.

use crate::formats::FORMATS;
use crate::formats::first_lines;

/// The number of formats to suggest.
const NAMED: usize = 3;
/// The maximum number of tokens in a line that are compared.
const TOKENS_MAX: usize = 40;

/// Returns the formats with the most similar names.
pub(super) fn by_name(name: &str) -> Vec<&'static str> {
    let name = name.to_ascii_lowercase();
    nearest(|format| Some(distance(name.as_bytes(), format.name.as_bytes())))
}

/// Returns the formats whose example is most similar to the text, by the kinds of words and their
/// separators. Returns nothing if the content is not text.
pub(super) fn by_shape(head: &[u8]) -> Vec<&'static str> {
    if memchr::memchr(0, head).is_some() {
        return Vec::new();
    }
    let lines: Vec<Vec<u8>> = first_lines(head).map(shape).collect();
    let Some(line) = lines.last() else { return Vec::new() };
    nearest(|format| {
        let example = format.example.trim_end().lines().last().filter(|_| format.is_text())?;
        Some(distance(line, &shape(example.as_bytes())))
    })
}

fn nearest(distance: impl Fn(&crate::formats::Format) -> Option<usize>) -> Vec<&'static str> {
    let distances = FORMATS.iter().filter_map(|format| Some((distance(format)?, format.name)));
    let mut distances: Vec<(usize, &str)> = distances.collect();
    distances.sort_by_key(|(distance, _)| *distance);
    distances.into_iter().take(NAMED).map(|(_, name)| name).collect()
}

/// Returns the kinds of words in a line, and the characters between them.
fn shape(line: &[u8]) -> Vec<u8> {
    let mut shape = Vec::new();
    for word in line.split_inclusive(|byte| b" \t,;|".contains(byte)) {
        let (word, sign) = match word.split_last() {
            Some((sign, word)) if b" \t,;|".contains(sign) => (word, Some(*sign)),
            _ => (word, None),
        };
        match word {
            [] => {}
            word if word.iter().all(u8::is_ascii_digit) => shape.push(b'0'),
            word if word.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.') => {
                shape.push(b'.')
            }
            word if word.len() < 3 => shape.push(b'a'),
            _ => shape.push(b'w'),
        }
        // Several spaces in a row count as one.
        shape.extend(sign.filter(|sign| *sign != b' ' || shape.last() != Some(&b' ')));
    }
    shape.truncate(TOKENS_MAX);
    shape
}

/// Returns the number of bytes that must be inserted, removed or replaced to convert `a` to `b`.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (n, one) in a.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], n + 1);
        for (m, other) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(one != other);
            diagonal = row[m + 1];
            row[m + 1] = replaced.min(diagonal + 1).min(row[m] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names_and_rows_are_found() {
        assert_eq!(by_name("blk-parse")[0], "blkparse");
        assert_eq!(by_name("MSR")[0], "msr");
        assert_eq!(by_shape(b"128166372003061629,usr,x,Read,7014609920,24576,41286\n")[0], "msr");
        assert!(by_shape(b"0.5 1 20941264 16 R\n").contains(&"disksim-ascii"));
        assert!(by_shape(b"\0\x01\x02").is_empty());
    }
}
