//! What every trace reader promises, checked on whatever the fuzzer makes up.
//!
//! Errors are fine; a panic, an endless loop or a broken promise is not.

use std::io::{Cursor, Seek, SeekFrom, Write};
use std::path::PathBuf;

use forebay_core::{Nanos, Op};
use forebay_trace::formats::{FORMATS, Input};
use forebay_trace::unpack::Packing;
use forebay_trace::{Notes, Reader, TraceError};
use tempfile::NamedTempFile;

/// Longest input looked at, in bytes.
pub const INPUT_BYTES_MAX: usize = 1 << 16;

/// Reads `bytes` as the format called `format`, without a file.
pub fn reader(format: &str, bytes: &[u8]) -> Result<Box<dyn Reader>, TraceError> {
    read_at(format, PathBuf::from("input"), bytes)
}

/// Reads `bytes`, which also stand in the file `path`, as the format called `format`.
pub fn read_at(format: &str, path: PathBuf, bytes: &[u8]) -> Result<Box<dyn Reader>, TraceError> {
    let listed = FORMATS.iter().find(|listed| listed.name == format).expect("a listed format");
    let content = Box::new(Cursor::new(bytes.to_vec()));
    (listed.open)(Input::new(path, Packing::Plain, content))
}

/// What a whole trace came to.
pub struct Whole {
    /// Records handed out.
    pub records: u64,
    /// How reading went.
    pub notes: Notes,
}

/// Reads to the end or to the first error and checks what came; `None` after an error.
pub fn drain(opened: Result<Box<dyn Reader>, TraceError>) -> Option<Whole> {
    let mut reader = match opened {
        Ok(reader) => reader,
        Err(error) => return complain(&error),
    };
    let (mut batch, mut last, mut records) = (Vec::new(), Nanos::ZERO, 0u64);
    loop {
        if let Err(error) = reader.read(&mut batch) {
            return complain(&error);
        }
        let dictionary = reader.dictionary();
        for record in &batch {
            assert!(record.at >= last, "time runs backwards: {record:?} after {last:?}");
            assert!(record.len > 0 || record.op == Op::Flush, "a length of zero: {record:?}");
            let end = record.offset.checked_add(u64::from(record.len));
            assert!(end.is_some(), "ends beyond all addresses: {record:?}");
            assert!((record.stream as usize) < dictionary.streams.len(), "{record:?}");
            assert!((record.volume as usize) < dictionary.volumes.len(), "{record:?}");
            last = record.at;
        }
        records += batch.len() as u64;
        if batch.is_empty() {
            let notes = reader.notes().clone();
            assert!(notes.rows_late <= records, "{notes:?}");
            return Some(Whole { records, notes });
        }
    }
}

/// Every error has one message, on one line, that says something.
fn complain(error: &TraceError) -> Option<Whole> {
    let message = error.to_string();
    assert!(!message.trim().is_empty());
    assert!(message.len() < 4096, "an endless message: {message}");
    assert!(!message.contains('\n'), "a message of several lines: {message:?}");
    None
}

/// Lines that hold more than blanks.
pub fn lines(bytes: &[u8]) -> u64 {
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    text.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).count() as u64
}

/// A file that holds each input in turn.
pub struct Scratch(NamedTempFile);

impl Scratch {
    /// A new, empty file, removed when the target ends normally.
    #[expect(clippy::new_without_default, reason = "it makes a file")]
    pub fn new() -> Scratch {
        Scratch(NamedTempFile::new().expect("a temporary file"))
    }

    /// Puts `bytes` into the file; its path.
    pub fn hold(&mut self, bytes: &[u8]) -> PathBuf {
        let file = self.0.as_file_mut();
        file.set_len(0).expect("an emptied file");
        file.seek(SeekFrom::Start(0)).expect("the file's start");
        file.write_all(bytes).expect("a written file");
        self.0.path().to_path_buf()
    }
}

/// Lets readers catch the panics of decoders that are not ours, as they do in production. The
/// fuzzer's own hook would end the run before they are caught; a panic that nobody catches ends it
/// still, when it reaches the fuzzer.
pub fn spare_caught_panics() {
    std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
}
