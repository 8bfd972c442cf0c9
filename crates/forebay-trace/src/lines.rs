//! Reads the lines of a text in large pieces and with bounded memory, one at a time or in blocks.
//!
//! A UTF-8 byte-order mark before the first line is skipped.

use std::io::{BufRead, ErrorKind, Read};
use std::path::{Path, PathBuf};

use crate::{Place, TraceError};
use forebay_ask::named;

/// The number of bytes read at a time.
const CHUNK_BYTES: usize = 1 << 18;

/// The maximum supported length of a line.
pub(crate) const LINE_BYTES_MAX: usize = 1 << 16;

/// The number of readable bytes after a block. Their content is unspecified.
pub(crate) const PADDING_BYTES: usize = 64;

/// The beginning of the error message about a last line without a line end.
pub(crate) const CUT_HINT: &str = "the last line has no newline, so the file may be truncated; ";

/// The reason why most truncated lines are skipped.
pub(crate) const UNREADABLE: &str = "cannot be read";

/// Returns the note about a last line without a line end that was read anyway.
pub(crate) fn cut_sentence(line: u64) -> String {
    format!("the last line, {line}, has no newline: it may be truncated, but is used as it is")
}

/// The UTF-8 byte-order mark, which some editors write.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Splits a text into lines that end with `\n` or `\r\n`, even in the same file. The last line may
/// end with the file.
pub(crate) struct Lines {
    path: PathBuf,
    source: Box<dyn BufRead + Send>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    begun: bool,
    ended: bool,
    /// Whether the last line has no line end.
    cut: bool,
    number: u64,
}

impl Lines {
    pub(crate) fn new(path: &Path, source: Box<dyn BufRead + Send>) -> Lines {
        Lines {
            path: path.to_path_buf(),
            source,
            buffer: vec![0; CHUNK_BYTES + LINE_BYTES_MAX + PADDING_BYTES],
            start: 0,
            end: 0,
            begun: false,
            ended: false,
            cut: false,
            number: 0,
        }
    }

    /// Returns the next line without its line end, or `None` after the last.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>, TraceError> {
        Ok(self.next_or_cut()?.map(|(line, _)| line))
    }

    /// Returns the next line without its line end, and whether it had none.
    #[inline]
    pub(crate) fn next_or_cut(&mut self) -> Result<Option<(&[u8], bool)>, TraceError> {
        let mut seen = 0;
        let length = loop {
            let open = self.buffer.get(self.start + seen..self.end).unwrap_or_default();
            if let Some(found) = memchr::memchr(b'\n', open) {
                break seen + found;
            }
            seen = self.end - self.start;
            if seen > LINE_BYTES_MAX {
                return Err(self.too_long());
            }
            if self.ended {
                if seen == 0 {
                    return Ok(None);
                }
                self.cut = true;
                break seen;
            }
            self.fill()?;
        };
        self.number += 1;
        let from = self.start;
        self.start = (from + length + 1).min(self.end);
        let line = self.buffer.get(from..from + length).unwrap_or_default();
        // The mark may be in the middle of a file that was joined from several.
        let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        Ok(Some((line.strip_suffix(b"\r").unwrap_or(line), self.cut)))
    }

    /// Returns text that begins with the lines that were not consumed yet, and the number of bytes
    /// in complete lines. Each of these ends with `\n`, which is added to the last line if it is
    /// missing. The bytes after them are unspecified. After the last line, the number is zero.
    /// Lines are consumed with [`Lines::pass`].
    #[inline]
    pub(crate) fn block(&mut self) -> Result<(&[u8], usize), TraceError> {
        let whole = loop {
            let open = self.buffer.get(self.start..self.end).unwrap_or_default();
            if let Some(last) = memchr::memrchr(b'\n', open) {
                break last + 1;
            }
            if open.len() > LINE_BYTES_MAX {
                return Err(self.too_long());
            }
            if !self.ended {
                self.fill()?;
            } else if open.is_empty() {
                break 0;
            } else if let Some(end) = self.buffer.get_mut(self.end) {
                *end = b'\n';
                self.end += 1;
                self.cut = true;
            }
        };
        let text = self.buffer.get(self.start..self.end + PADDING_BYTES).unwrap_or_default();
        Ok((text, whole))
    }

    /// Ensures that the next block contains many lines, if the text does.
    pub(crate) fn look_ahead(&mut self) -> Result<(), TraceError> {
        while !self.ended && self.end - self.start < LINE_BYTES_MAX {
            self.fill()?;
        }
        Ok(())
    }

    /// Consumes bytes and lines at the beginning of a block.
    pub(crate) fn pass(&mut self, bytes: usize, lines: u64) {
        self.start = (self.start + bytes).min(self.end);
        self.number += lines;
    }

    /// Returns whether the last line that was returned is the last line of the file and has no line
    /// end. Such a line is a separate block.
    pub(crate) fn cut(&self) -> bool {
        self.cut
    }

    /// Returns the note about a last line without a line end that was read anyway. Returns it only
    /// once.
    pub(crate) fn cut_note(&mut self) -> Option<String> {
        std::mem::take(&mut self.cut).then(|| cut_sentence(self.number))
    }

    /// Returns the note about a last line without a line end that ends with a latency. Returns it
    /// only once.
    pub(crate) fn cut_latency_note(&mut self) -> Option<String> {
        std::mem::take(&mut self.cut).then(|| {
            format!(
                "the last line, {}, has no newline: its latency may be truncated, and is treated as \
                 unknown",
                self.number
            )
        })
    }

    /// Returns the note about a last line without a line end that was skipped because of `why`.
    /// Returns it only once.
    pub(crate) fn left_out_note(&mut self, line: u64, why: &str) -> Option<String> {
        std::mem::take(&mut self.cut).then(|| {
            format!(
                "the last line, {line}, has no newline, and {why}: the file is truncated, and the \
                 line is left out"
            )
        })
    }

    /// Returns the note about a last line that was skipped because it has no line end. Returns it
    /// only once.
    pub(crate) fn truncated_note(&mut self, line: u64) -> Option<String> {
        std::mem::take(&mut self.cut)
            .then(|| format!("the last line, {line}, is truncated and left out"))
    }

    /// Reads more bytes and appends them to those that were not consumed.
    fn fill(&mut self) -> Result<(), TraceError> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let room = self.buffer.len() - PADDING_BYTES;
        let free = self.buffer.get_mut(self.end..room).unwrap_or_default();
        match self.source.read(free) {
            Ok(0) => self.ended = true,
            Ok(count) => self.end += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(source) => return Err(TraceError::Io { path: self.path.clone(), source }),
        }
        if !self.begun && self.end >= BYTE_ORDER_MARK.len() {
            self.begun = true;
            if self.buffer.starts_with(BYTE_ORDER_MARK) {
                self.start = BYTE_ORDER_MARK.len();
            }
        }
        Ok(())
    }

    fn too_long(&self) -> TraceError {
        let line = self.buffer.get(self.start..self.end).unwrap_or_default();
        let is_hole = line.iter().all(|&byte| byte == 0);
        let (what, hint) = match is_hole {
            true => ("a hole", "remove the NUL bytes, as with tr -d '\\000'".to_owned()),
            false => (
                "a line",
                format!("if this is a different format, specify it with {}", named("from")),
            ),
        };
        let nul = if is_hole { "NUL " } else { "" };
        TraceError::Malformed {
            path: self.path.clone(),
            place: Place::Line(self.number + 1),
            got: format!("{what} of more than {LINE_BYTES_MAX} {nul}bytes"),
            expected: "one request a line".into(),
            hint,
        }
    }

    /// Returns the number of the last line that was returned, counted from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufReader, Cursor};

    fn lines(text: Vec<u8>) -> Result<Vec<Vec<u8>>, TraceError> {
        // The source returns small pieces, so that lines extend across several reads.
        let source = Box::new(BufReader::with_capacity(7, Cursor::new(text)));
        let mut lines = Lines::new(Path::new("t"), source);
        let mut all = Vec::new();
        while let Some(line) = lines.next()? {
            all.push(line.to_vec());
        }
        assert_eq!(lines.number(), all.len() as u64);
        Ok(all)
    }

    fn blocks(text: Vec<u8>) -> Result<Vec<u8>, TraceError> {
        let source = Box::new(BufReader::with_capacity(7, Cursor::new(text)));
        let mut lines = Lines::new(Path::new("t"), source);
        let mut all = Vec::new();
        loop {
            let (text, whole) = lines.block()?;
            if whole == 0 {
                return Ok(all);
            }
            assert!(text.len() >= whole + PADDING_BYTES && text[whole - 1] == b'\n');
            // Consume one line of the block at a time.
            let one = text.iter().position(|&byte| byte == b'\n').unwrap() + 1;
            all.extend_from_slice(&text[..one]);
            lines.pass(one, 1);
        }
    }

    #[test]
    fn blocks_hold_what_lines_do() {
        let text: String = (0..100_000).map(|n| format!("{n}\r\n")).collect();
        assert_eq!(blocks(text.clone().into_bytes()).unwrap(), text.as_bytes());
        assert_eq!(blocks(b"\xef\xbb\xbfa\n\nb".to_vec()).unwrap(), b"a\n\nb\n");
        assert!(blocks(b"\xef\xbb\xbf".to_vec()).unwrap().is_empty());
        let message = blocks(vec![b'x'; 10 << 20]).unwrap_err().to_string();
        assert!(message.contains("line 1"), "{message}");
    }

    #[test]
    fn a_byte_order_mark_is_left_out() {
        let got = lines(b"\xef\xbb\xbfone\n\xef\xbb\xbftwo".to_vec()).unwrap();
        assert_eq!(got, [b"one", b"two"]);
    }

    #[test]
    fn mixed_ends_and_a_missing_last() {
        let got = lines(b"one\r\n\ntwo\n\r\nlast".to_vec()).unwrap();
        assert_eq!(got, [&b"one"[..], b"", b"two", b"", b"last"]);
        assert_eq!(lines(b"a\n".to_vec()).unwrap(), [b"a"]);
        assert!(lines(Vec::new()).unwrap().is_empty());
    }

    #[test]
    fn long_texts_keep_every_line() {
        let text: String = (0..100_000).map(|n| format!("{n}\n")).collect();
        let got = lines(text.into_bytes()).unwrap();
        assert_eq!(got.len(), 100_000);
        assert_eq!(got.last().unwrap(), b"99999");
    }

    #[test]
    fn endless_lines_are_refused() {
        let message = lines(vec![b'x'; 10 << 20]).unwrap_err().to_string();
        assert!(message.contains("line 1"), "{message}");
        let message = lines(vec![0; 10 << 20]).unwrap_err().to_string();
        assert!(message.contains("a hole of more than 65536 NUL bytes"), "{message}");
    }
}
