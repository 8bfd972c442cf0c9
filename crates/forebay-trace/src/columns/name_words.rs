//! Reads rows of words in which a name consists of several words, as in `4892 rs:main Q 904265560`.
//! Such a row has too many words, so the words after the name are counted from the end of the row.

use crate::columns::cursor::Separator;
use crate::columns::spec::{Columns, Role};

/// The maximum number of words in a name. Linux limits names of threads to 15 bytes.
const WORDS_MAX: usize = 8;

/// Returns the ways to read a row so that its name takes up the additional words: the row with
/// quotes around the name. There are none unless the row has more words than columns.
pub(crate) fn quoted(line: &[u8], columns: &Columns, separator: Separator) -> Vec<Vec<u8>> {
    let place = columns.roles.iter().position(|role| matches!(role, Role::Name));
    let (Some(place), Separator::Blanks) = (place, separator) else { return Vec::new() };
    let words: Vec<&[u8]> =
        line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
    let least = columns.roles.len();
    let counts = least..=columns.titles.len().max(least);
    let named = counts.rev().filter_map(|count| (words.len() + 1).checked_sub(count));
    named.filter_map(|named| with_quotes(&words, place, named)).collect()
}

/// Joins the words of a row, with quotes around the `named` words starting at `place`.
fn with_quotes(words: &[&[u8]], place: usize, named: usize) -> Option<Vec<u8>> {
    let name = words.get(place..place + named).filter(|_| (2..=WORDS_MAX).contains(&named))?;
    let name = name.join(&b' ');
    if memchr::memchr(b'"', &name).is_some() {
        return None;
    }
    let name = [b"\"", &name[..], b"\""].concat();
    let mut row = [&words[..place], &[&name[..]], words.get(place + named..)?].concat().join(&b' ');
    row.push(b'\n');
    Some(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_after_a_name_are_counted_from_the_end() {
        let columns: Columns = "at:ns,name,offset,len,op,sep=blank".parse().unwrap();
        let rows = |line: &[u8], columns: &Columns| {
            let rows = quoted(line, columns, Separator::Blanks).into_iter();
            rows.map(|row| String::from_utf8(row).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(rows(b"5 rs:main  Q 8 512 R", &columns), ["5 \"rs:main Q\" 8 512 R\n"]);
        let longer = columns.clone().titled("a,b,c,d,e,f");
        let both = ["5 \"a b\" 8 512 R x\n", "5 \"a b 8\" 512 R x\n"];
        assert_eq!(rows(b"5 a b 8 512 R x", &longer), both);
        for line in
            [&b"5 a 8 512 R"[..], b"5 a", b"", b"5 \"a b\" 8 512 R", b"1 2 3 4 5 6 7 8 9 8 7 6 5"]
        {
            assert_eq!(rows(line, &columns), [""; 0]);
        }
        assert!(quoted(b"5 a b 8 512 R", &columns, Separator::Byte(b' ')).is_empty());
    }
}
