//! Moves over text field by field, eight bytes at a time if possible.
//!
//! The text consists of complete lines: every byte that a cursor examines is followed by a `\n`
//! somewhere. A field ends with the separator or the line; `stop` is the position of the byte that
//! ended it. A fast method that does not understand a field does not move the cursor, so that
//! [`Cursor::field`] can read the field instead.

use crate::columns::swar::{HIGHS, ONES, POWERS, eight, load};

/// The separator between fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Separator {
    /// A single byte. Two of them in a row enclose an empty field.
    Byte(u8),
    /// Any number of spaces and tabs.
    Blanks,
}

/// Sets the high bit of every byte below `limit` (at most 0x80). It may also be set in bytes after
/// the first such byte.
#[inline(always)]
fn below(word: u64, limit: u8) -> u64 {
    word.wrapping_sub(ONES * u64::from(limit)) & !word & HIGHS
}

/// Converts a word of at most seven bytes to a number that identifies it.
#[inline]
pub(crate) fn short_key(word: &[u8]) -> Option<u64> {
    if word.len() > 7 {
        return None;
    }
    let value = word.iter().rev().fold(0u64, |key, &byte| key << 8 | u64::from(byte));
    Some(value | (word.len() as u64) << 56)
}

/// The reason why a row cannot be read any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CellError {
    /// The line ends before this column.
    Ended,
    /// The field has the wrong kind of content for its column.
    Field,
    /// There is a carriage return without a line feed.
    LoneReturn,
    /// A quoted field has no end, or text after its end.
    Quotes,
    /// The request is longer than the limit.
    Length,
    /// The request ends beyond the highest address.
    Address,
    /// The completion precedes the arrival.
    Backwards,
    /// It is unclear whether a comma begins decimals or groups thousands.
    Mark,
    /// There is no space for the name.
    Name,
}

/// A position in a text.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    text: &'a [u8],
    stop: usize,
    separator: u8,
    /// Bytes below this value, which include the separator, may end a short word.
    limit: u8,
    blanks: bool,
}

/// Returns the length of a quoted field, given the text after its opening quote. Two quotes within
/// the field stand for one.
fn quoted_length(rest: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let open = rest.get(from..)?;
        let length = from + memchr::memchr2(b'"', b'\n', open)?;
        match (rest.get(length), rest.get(length + 1)) {
            (Some(b'"'), Some(b'"')) => from = length + 2,
            (Some(b'"'), _) => return Some(length),
            _ => return None,
        }
    }
}

impl<'a> Cursor<'a> {
    /// Creates a cursor at the start of the first line of `text`.
    #[inline]
    pub(crate) fn new(text: &'a [u8], separator: Separator) -> Cursor<'a> {
        match separator {
            Separator::Byte(separator) => {
                Cursor { text, stop: 0, separator, limit: b'\r' + 1, blanks: false }
            }
            Separator::Blanks => {
                Cursor { text, stop: 0, separator: b' ', limit: b' ' + 1, blanks: true }
            }
        }
    }

    /// Returns the current position.
    #[inline]
    pub(crate) fn position(&self) -> usize {
        self.stop
    }

    /// Moves to `position`, which must be the start of a line.
    #[inline]
    pub(crate) fn go(&mut self, position: usize) {
        self.stop = position;
    }

    /// Counts the remaining fields of the line, up to the first that cannot be read.
    pub(crate) fn fields(mut self) -> usize {
        let mut count = 0;
        self.first();
        while self.field().is_ok() {
            count += 1;
            if self.next().is_err() {
                break;
            }
        }
        count
    }

    /// Returns the byte at the current position, or a line feed at the end of the text.
    #[inline(always)]
    pub(crate) fn byte(&self) -> u8 {
        self.text.get(self.stop).copied().unwrap_or(b'\n')
    }

    #[inline(always)]
    fn load(&self, at: usize) -> u64 {
        load(self.text, at)
    }

    /// Moves to the first field of the line.
    #[inline(always)]
    pub(crate) fn first(&mut self) {
        if self.blanks {
            self.skip_blanks();
        }
    }

    /// Moves past the separator to the next field.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Result<(), CellError> {
        if self.blanks {
            self.skip_blanks();
            if self.ends() { Err(CellError::Ended) } else { Ok(()) }
        } else if self.byte() == self.separator {
            self.stop += 1;
            Ok(())
        } else {
            Err(CellError::Ended)
        }
    }

    #[inline]
    fn skip_blanks(&mut self) {
        while matches!(self.byte(), b' ' | b'\t') {
            self.stop += 1;
        }
    }

    /// Returns whether the cursor is at the end of the line.
    #[inline(always)]
    fn ends(&self) -> bool {
        match self.byte() {
            b'\n' => true,
            b'\r' => self.text.get(self.stop + 1).is_none_or(|&byte| byte == b'\n'),
            _ => false,
        }
    }

    /// Returns whether the byte at `at` ends a field, which may depend on the next byte.
    #[inline(always)]
    fn parts(&self, at: usize) -> bool {
        match self.text.get(at) {
            Some(&byte) if byte == self.separator => true,
            Some(b'\n') | None => true,
            Some(b'\r') => self.text.get(at + 1).is_none_or(|&byte| byte == b'\n'),
            Some(b'\t') => self.blanks,
            Some(_) => false,
        }
    }

    /// Reads up to 19 digits starting at `at`. Returns their value and the position after them.
    #[inline(always)]
    fn digits(&self, at: usize) -> Option<(u64, usize)> {
        // The next eight bytes begin at a fixed position, so that the processor need not wait for
        // the number of digits. The branch is nearly always predicted correctly.
        let (count, first) = eight(self.load(at));
        if count < 8 {
            return Some((first, at + count));
        }
        let (count, second) = eight(self.load(at + 8));
        let value = first * POWERS[count] + second;
        if count < 8 {
            return Some((value, at + 8 + count));
        }
        let (count, third) = eight(self.load(at + 16));
        (count <= 3).then(|| (value * POWERS[count] + third, at + 16 + count))
    }

    /// Reads an integer if the field contains nothing else.
    #[inline(always)]
    pub(crate) fn number(&mut self) -> Option<u64> {
        let (value, end) = self.digits(self.stop)?;
        if end == self.stop || !self.parts(end) {
            return None;
        }
        self.stop = end;
        Some(value)
    }

    /// Reads a decimal number if the field contains nothing else. Returns its integer part, and its
    /// first nine decimals as billionths.
    #[inline(always)]
    pub(crate) fn decimal(&mut self) -> Option<(u64, u64)> {
        let (whole, mut end) = self.digits(self.stop)?;
        if end == self.stop {
            return None;
        }
        let mut billionths = 0;
        if self.text.get(end) == Some(&b'.') {
            end += 1;
            let (count, fraction) = eight(self.load(end));
            end += count;
            billionths = fraction * POWERS[9 - count];
            if count == 8 {
                let last = self.text.get(end).map_or(10, |byte| byte.wrapping_sub(b'0'));
                if last <= 9 {
                    billionths += u64::from(last);
                    end += 1;
                }
            }
        }
        if !self.parts(end) {
            return None;
        }
        self.stop = end;
        Some((whole, billionths))
    }

    /// Reads a word of at most seven bytes, as converted by [`short_key`].
    #[inline(always)]
    pub(crate) fn short(&mut self) -> Option<u64> {
        let word = self.load(self.stop);
        let same = word ^ (ONES * u64::from(self.separator));
        let stops = below(word, self.limit) | below(same, 1);
        let length = (stops.trailing_zeros() / 8) as usize;
        // A space or a quote at the beginning is not part of the word.
        if length > 7 || word & 0xff <= u64::from(b'"') || !self.parts(self.stop + length) {
            return None;
        }
        self.stop += length;
        let value = word & ((1 << (8 * length)) - 1);
        Some(value | (length as u64) << 56)
    }

    /// Returns the content of any field, without surrounding spaces and quotes.
    pub(crate) fn field(&mut self) -> Result<&'a [u8], CellError> {
        if !self.blanks {
            // Skip spaces before a quote.
            let separator = self.separator;
            while matches!(self.byte(), byte @ (b' ' | b'\t') if byte != separator) {
                self.stop += 1;
            }
        }
        let quoted = self.byte() == b'"';
        let from = self.stop + usize::from(quoted);
        let rest = self.text.get(from..).unwrap_or_default();
        if quoted {
            let length = quoted_length(rest).ok_or(CellError::Quotes)?;
            self.stop = from + length + 1;
            while !self.parts(self.stop) && matches!(self.byte(), b' ' | b'\t') {
                self.stop += 1;
            }
            return if self.parts(self.stop) {
                Ok(rest.get(..length).unwrap_or_default())
            } else {
                Err(CellError::Quotes)
            };
        }
        let ends = |&byte: &u8| {
            byte == self.separator
                || byte < b' ' && matches!(byte, b'\n' | b'\r')
                || self.blanks && byte == b'\t'
        };
        let length = rest.iter().position(ends).unwrap_or(rest.len());
        self.stop = from + length;
        if self.byte() == b'\r' && self.separator != b'\r' && !self.ends() {
            return Err(CellError::LoneReturn);
        }
        Ok(rest.get(..length).unwrap_or_default().trim_ascii())
    }

    /// Skips the current line if it contains only spaces and tabs. Returns whether a line was
    /// skipped.
    #[inline(always)]
    pub(crate) fn skip_blank_line(&mut self) -> bool {
        self.byte() <= b' ' && self.skip_blanks_to_line()
    }

    fn skip_blanks_to_line(&mut self) -> bool {
        let rest = self.text.get(self.stop..).unwrap_or_default();
        let length = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let blank = rest.get(..length).unwrap_or_default().trim_ascii().is_empty();
        if blank {
            self.stop += length + 1;
        }
        blank
    }

    /// Skips a field.
    #[inline]
    pub(crate) fn skip(&mut self) -> Result<(), CellError> {
        if self.short().is_none() {
            self.field()?;
        }
        Ok(())
    }

    /// Moves to the start of the next line.
    #[inline(always)]
    pub(crate) fn end_line(&mut self) -> Result<(), CellError> {
        if self.byte() == b'\n' {
            self.stop += 1;
            return Ok(());
        }
        self.end_long_line()
    }

    fn end_long_line(&mut self) -> Result<(), CellError> {
        let rest = self.text.get(self.stop..).unwrap_or_default();
        let Some(length) = memchr::memchr2(b'\n', b'\r', rest) else {
            self.stop = self.text.len();
            return Ok(());
        };
        self.stop += length;
        if !self.ends() {
            return Err(CellError::LoneReturn);
        }
        self.stop += 1 + usize::from(self.byte() == b'\r');
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(text: &[u8]) -> Cursor<'_> {
        Cursor::new(text, Separator::Byte(b','))
    }

    #[test]
    fn every_count_of_digits() {
        for length in 1..=19 {
            let text = "9876543219876543219".get(..length).unwrap();
            for end in [",", "\n", "\r\n"] {
                let line = format!("{text}{end}........");
                let mut cursor = at(line.as_bytes());
                assert_eq!(cursor.number(), Some(text.parse().unwrap()), "{line:?}");
                assert_eq!(cursor.position(), length);
            }
        }
        for bad in ["98765432198765432198,", "-1,", ",", "1 ,", " 1,", "1\r,", "1x", "1:", "1/"] {
            let line = format!("{bad}........");
            assert_eq!(at(line.as_bytes()).number(), None, "{line:?}");
        }
    }

    #[test]
    fn quotes_and_blanks_come_off() {
        let mut cursor = at(b"\"a,b\" , c ,\"\"\n\"open\n");
        for expected in [&b"a,b"[..], b"c", b""] {
            assert_eq!(cursor.field(), Ok(expected));
            let _ = cursor.next();
        }
        assert_eq!(cursor.next(), Err(CellError::Ended));
        cursor.end_line().unwrap();
        assert_eq!(cursor.field(), Err(CellError::Quotes));
        assert_eq!(at(b"a\rb\n").field(), Err(CellError::LoneReturn));
        assert_eq!(at(b"\"a \"\"b\"\"\",c\n").field(), Ok(&b"a \"\"b\"\""[..]));
    }

    proptest! {
        #[test]
        fn fast_and_slow_agree(text in "[0-9.,a \"\r\n-]{0,30}") {
            let padded = format!("{text}\n\0\0\0\0\0\0\0\0");
            for separator in [Separator::Byte(b','), Separator::Blanks] {
                let cursor = Cursor::new(padded.as_bytes(), separator);
                let mut slow = cursor;
                let field = slow.field();
                let mut fast = cursor;
                if let Some(number) = fast.number() {
                    let field = std::str::from_utf8(field.unwrap()).unwrap();
                    prop_assert_eq!(field.parse(), Ok(number));
                    prop_assert_eq!(fast.position(), slow.position());
                }
                let mut fast = cursor;
                if let Some(key) = fast.short() {
                    prop_assert_eq!(fast.position(), slow.position());
                    if padded.as_bytes()[0] > b' ' {
                        let bytes = &padded.as_bytes()[..fast.position()];
                        prop_assert_eq!(short_key(bytes), Some(key));
                    }
                }
                let mut fast = cursor;
                if let Some((whole, billionths)) = fast.decimal() {
                    prop_assert_eq!(fast.position(), slow.position());
                    let text = std::str::from_utf8(field.unwrap()).unwrap();
                    let (left, right) = text.split_once('.').unwrap_or((text, ""));
                    prop_assert_eq!(left.parse(), Ok(whole));
                    let right = format!("{right:0<9}");
                    prop_assert_eq!(right.parse(), Ok(billionths));
                }
            }
        }
    }
}
