//! Numbers as bytes: seven bits per byte, the lowest first. Every number read is checked against a
//! bound given by the caller, so that a damaged file cannot lead to values out of range.

use std::fmt::Display;

/// An error in the bytes, and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ByteError {
    /// The offset of the byte in the content.
    pub byte: usize,
    /// The value found.
    pub got: String,
    /// The expected content.
    pub expected: String,
}

/// Writes numbers and texts.
#[derive(Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    pub(crate) fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    pub(crate) fn numbers(&mut self, numbers: impl IntoIterator<Item = u64>) {
        numbers.into_iter().for_each(|number| self.number(number));
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }
}

/// Reads numbers and texts.
pub(crate) struct Bytes<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Bytes<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Bytes<'a> {
        Bytes { bytes, at: 0 }
    }

    pub(crate) fn bad<T>(&self, got: impl Display, expected: impl Display) -> Result<T, ByteError> {
        Err(ByteError { byte: self.at, got: got.to_string(), expected: expected.to_string() })
    }

    /// Reads a number of at most `max`. Error messages call it `what`.
    pub(crate) fn number(&mut self, max: u64, what: &str) -> Result<u64, ByteError> {
        let (begun, mut number) = (self.at, 0u64);
        for shift in (0..64).step_by(7) {
            let Some(&byte) = self.bytes.get(self.at) else {
                return self.bad("the end", what);
            };
            self.at += 1;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                if number <= max {
                    return Ok(number);
                }
                self.at = begun;
                return self.bad(format!("{what} {number}"), format!("{max} at most"));
            }
        }
        self.at = begun;
        self.bad(format!("{what} of more than 64 bits"), format!("{max} at most"))
    }

    /// Reads the length of a list. It cannot exceed the number of bytes left, because each entry
    /// takes at least one.
    pub(crate) fn length(&mut self, max: usize, what: &str) -> Result<usize, ByteError> {
        let length = self.number(max as u64, what)? as usize;
        match length <= self.bytes.len() - self.at {
            true => Ok(length),
            false => self.bad(format!("{what} {length}"), "no more than fits into the file"),
        }
    }

    /// Reads a list of `length` entries.
    pub(crate) fn list<T>(
        &mut self,
        length: usize,
        mut entry: impl FnMut(&mut Bytes<'a>) -> Result<T, ByteError>,
    ) -> Result<Vec<T>, ByteError> {
        (0..length).map(|_| entry(self)).collect()
    }

    pub(crate) fn text(&mut self, what: &str) -> Result<String, ByteError> {
        let length = self.length(1 << 16, what)?;
        let text = &self.bytes[self.at..self.at + length];
        self.at += length;
        match std::str::from_utf8(text) {
            Ok(text) => Ok(text.to_string()),
            Err(_) => self.bad(format!("{what} that is not text"), "UTF-8"),
        }
    }

    /// Checks that all bytes were read.
    pub(crate) fn end(&self) -> Result<(), ByteError> {
        match self.bytes.len() - self.at {
            0 => Ok(()),
            more => self.bad(format!("{more} bytes more"), "the end"),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_come_back(numbers: Vec<u64>, text: String) {
            let mut writer = Writer::default();
            writer.numbers(numbers.iter().copied());
            writer.text(&text);
            let mut bytes = Bytes::new(&writer.0);
            let read = bytes.list(numbers.len(), |bytes| bytes.number(u64::MAX, "n")).unwrap();
            prop_assert_eq!(read, numbers);
            prop_assert_eq!(bytes.text("text").unwrap(), text);
            prop_assert!(bytes.end().is_ok());
        }
    }

    #[test]
    fn values_out_of_bounds_are_rejected_with_their_position() {
        let bad = |bytes: &[u8], max| Bytes::new(bytes).number(max, "share").unwrap_err();
        assert_eq!(bad(&[5], 4).got, "share 5");
        assert_eq!(bad(&[5], 4).byte, 0);
        assert_eq!(bad(&[0x80], 4).got, "the end");
        assert_eq!(bad(&[0xff; 11], u64::MAX).got, "share of more than 64 bits");
        assert!(Bytes::new(&[200, 1]).length(1000, "list").is_err());
        assert!(Bytes::new(&[2, 0xc3, 0x28]).text("name").is_err());
    }
}
