//! Reads the members of a gzip file one after another. The last one may be followed by zeros, which
//! are the padding of tapes, or by unexpected data.

use std::fmt;
use std::io::{self, BufRead, Read};

use flate2::bufread::GzDecoder;

/// The error that the data after the last member is not gzip.
#[derive(Debug)]
pub(super) struct Trailing {
    /// The position of the first byte that is not gzip.
    byte: u64,
}

impl fmt::Display for Trailing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let byte = self.byte;
        write!(f, "the gzip stream ends at byte {byte} and other data follows: remove that data")
    }
}

impl std::error::Error for Trailing {}

/// Decompresses all members.
pub(super) struct Members<R> {
    /// `None` only after an error.
    member: Option<GzDecoder<Counted<R>>>,
}

impl<R: BufRead> Members<R> {
    pub(super) fn new(inner: R) -> Members<R> {
        Members { member: Some(GzDecoder::new(Counted { inner, bytes: 0 })) }
    }
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let count = member.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            let Some(rest) = self.member.take().map(GzDecoder::into_inner) else { break };
            self.member = next_member(rest)?;
        }
        Ok(0)
    }
}

/// Returns the member that begins here, or `None` at the end of the file.
fn next_member<R: BufRead>(mut rest: Counted<R>) -> io::Result<Option<GzDecoder<Counted<R>>>> {
    let byte = rest.bytes;
    loop {
        let padded = rest.bytes > byte;
        let zeros = match rest.fill_buf()? {
            [] => return Ok(None),
            [0x1f, ..] if !padded => return Ok(Some(GzDecoder::new(rest))),
            padding if padding.iter().all(|&byte| byte == 0) => padding.len(),
            _ => return Err(io::Error::new(io::ErrorKind::InvalidData, Trailing { byte })),
        };
        rest.consume(zeros);
    }
}

/// A reader that counts the bytes that are read from it.
struct Counted<R> {
    inner: R,
    bytes: u64,
}

impl<R: BufRead> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.bytes += count as u64;
        Ok(count)
    }
}

impl<R: BufRead> BufRead for Counted<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.bytes += count as u64;
        self.inner.consume(count);
    }
}
