//! Converts text in UTF-16, as exported by Windows programs, to UTF-8.

use std::io::{self, Cursor, ErrorKind, Read};

/// The number of bytes by which UTF-16 text is recognized.
const BEGIN_BYTES: u64 = 64;
/// The number of bytes that are converted at a time.
const CHUNK_BYTES: usize = 1 << 16;

/// Returns the content of `raw`, converted to UTF-8 if it begins with the byte-order mark of UTF-16
/// and plain letters.
pub(super) fn as_utf8(mut raw: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    let mut begin = Vec::new();
    raw.by_ref().take(BEGIN_BYTES).read_to_end(&mut begin)?;
    let unit = unit_of(&begin);
    let raw = Cursor::new(begin).chain(raw);
    Ok(match unit {
        Some(unit) => Box::new(Utf16 { raw, unit, open: Vec::new(), text: Cursor::default() }),
        None => Box::new(raw),
    })
}

/// Converts two bytes to a code unit.
type Unit = fn([u8; 2]) -> u16;

/// Returns how two bytes form a code unit in content that begins with `begin`, or `None` if it is
/// not UTF-16.
fn unit_of(begin: &[u8]) -> Option<Unit> {
    let unit = match begin {
        [0xff, 0xfe, ..] => u16::from_le_bytes as Unit,
        [0xfe, 0xff, ..] => u16::from_be_bytes as Unit,
        _ => return None,
    };
    let units = begin.as_chunks::<2>().0.iter().skip(1);
    // Binary formats may begin with the same two bytes as the mark.
    let is_text = units.clone().all(|pair| unit(*pair).to_be_bytes()[0] < 4 && unit(*pair) >= 9);
    (is_text && units.count() > 0).then_some(unit)
}

/// Converts UTF-16 to UTF-8 while it is read.
struct Utf16<R> {
    raw: R,
    unit: Unit,
    /// The bytes of an incomplete character.
    open: Vec<u8>,
    text: Cursor<Vec<u8>>,
}

impl<R: Read> Utf16<R> {
    /// Converts the next bytes. At the end, there is no text.
    fn fill(&mut self) -> io::Result<()> {
        let mut bytes = std::mem::take(&mut self.open);
        self.raw.by_ref().take(CHUNK_BYTES as u64).read_to_end(&mut bytes)?;
        let is_last = bytes.len() < CHUNK_BYTES;
        let (pairs, rest) = bytes.as_chunks::<2>();
        let mut units: Vec<u16> = pairs.iter().map(|pair| (self.unit)(*pair)).collect();
        let high = units.last().filter(|unit| !is_last && (0xd800..0xdc00).contains(*unit));
        if high.is_some() {
            units.pop();
            self.open.extend(pairs.last().into_iter().flatten());
        }
        if is_last && !rest.is_empty() {
            return Err(io::Error::new(
                ErrorKind::UnexpectedEof,
                "the UTF-16 text ends within a character: copy the file again",
            ));
        }
        self.open.extend(rest);
        let text: String = char::decode_utf16(units)
            .map(|letter| letter.unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect();
        self.text = Cursor::new(text.into_bytes());
        Ok(())
    }
}

impl<R: Read> Read for Utf16<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.text.read(buffer)?;
        if read > 0 || buffer.is_empty() {
            return Ok(read);
        }
        self.fill()?;
        self.text.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        as_utf8(Cursor::new(bytes))?.read_to_end(&mut out).map(|_| out)
    }

    #[test]
    fn both_byte_orders_are_read() {
        let text = "\u{feff}time_us,op,offset,len,name\n".to_string()
            + &"0,R,0,4096,\u{1f4be}µ\n".repeat(20_000);
        let little: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        assert!(read(little.clone()).unwrap() == text.as_bytes());
        assert!(read(big).unwrap() == text.as_bytes());
        assert!(read(little[..little.len() - 1].to_vec()).is_err());
    }

    #[test]
    fn other_content_is_left_alone() {
        for other in
            [&b"\xff\xfe"[..], b"\xff\xfe\0\0\0\0", b"\xff\xfe\x12\x34\x56\x78", b"a\0b\0", b""]
        {
            assert_eq!(read(other.to_vec()).unwrap(), other);
        }
    }
}
