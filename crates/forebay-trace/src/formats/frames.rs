//! Reads the binary records of a file one after another.

use std::io::{BufRead, ErrorKind, Read};
use std::path::{Path, PathBuf};

use crate::rows::RowError;
use crate::{Place, TraceError};

/// A file of binary records.
pub(super) struct Frames {
    path: PathBuf,
    source: Box<dyn BufRead + Send>,
    /// The position of the last piece that was returned, and that of the next.
    begin: u64,
    next: u64,
    /// The position at which the file ends, if that is within a piece.
    cut: Option<u64>,
}

impl Frames {
    pub(super) fn new(path: &Path, source: Box<dyn BufRead + Send>) -> Frames {
        Frames { path: path.to_path_buf(), source, begin: 0, next: 0, cut: None }
    }

    /// Fills `piece`. Returns false at the end of the file, even if that is within the piece.
    pub(super) fn fill(&mut self, piece: &mut [u8]) -> Result<bool, TraceError> {
        self.begin = self.next;
        let mut filled = 0;
        while let Some(rest) = piece.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.source.read(rest) {
                Ok(0) => {
                    self.cut = (filled > 0).then_some(self.begin).or(self.cut);
                    return Ok(false);
                }
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => return Err(TraceError::Io { path: self.path.clone(), source }),
            }
        }
        self.next += filled as u64;
        Ok(true)
    }

    /// Reads up to the byte `end`, which is consumed but not returned. Fails if it does not occur
    /// within `longest` bytes.
    pub(super) fn until(&mut self, end: u8, longest: u64) -> Result<Vec<u8>, TraceError> {
        self.begin = self.next;
        let mut piece = Vec::new();
        let read = self.source.by_ref().take(longest).read_until(end, &mut piece);
        read.map_err(|source| TraceError::Io { path: self.path.clone(), source })?;
        self.next += piece.len() as u64;
        if piece.pop() != Some(end) {
            let got = format!("no byte 0x{end:02x} in the first {} bytes", self.next);
            return Err(self.malformed(got, "a header that ends with this byte", ""));
        }
        Ok(piece)
    }

    /// Creates the error that the last piece is malformed.
    #[cold]
    pub(super) fn malformed(&self, got: String, expected: &str, hint: &str) -> TraceError {
        TraceError::Malformed {
            path: self.path.clone(),
            place: Place::Byte(self.begin),
            got,
            expected: expected.into(),
            hint: hint.into(),
        }
    }

    /// Creates the error that a field of the last piece is invalid.
    #[cold]
    pub(super) fn row_error(&self, wrong: RowError) -> TraceError {
        wrong.at(&self.path, Place::Byte(self.begin), "")
    }

    /// Records that the file ends within a record.
    pub(super) fn mark_cut(&mut self) {
        self.cut = Some(self.begin);
    }

    /// Returns a note if the file ends within a record.
    pub(super) fn cut_sentence(&self) -> Option<String> {
        let at = self.cut?;
        Some(format!("the last record, at byte {at}, is truncated and left out"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufReader, Cursor};

    #[test]
    fn records_may_span_reads_and_a_truncated_one_is_reported() {
        let bytes = b"head\x0cabcdefgh".to_vec();
        let source = Box::new(BufReader::with_capacity(2, Cursor::new(bytes)));
        let mut frames = Frames::new(Path::new("t"), source);
        assert_eq!(frames.until(0x0c, 100).unwrap(), b"head");
        let mut piece = [0; 5];
        assert!(frames.fill(&mut piece).unwrap());
        assert_eq!(&piece, b"abcde");
        assert!(frames.malformed("x".into(), "y", "").to_string().contains("byte 5"));
        assert!(!frames.fill(&mut piece).unwrap());
        assert!(frames.cut_sentence().unwrap().contains("byte 10"));
        assert!(frames.until(0, 4).is_err());
    }
}
