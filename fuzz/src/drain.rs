//! Reads a trace to its end and checks what every reader guarantees.

use std::cell::RefCell;
use std::io::{Cursor, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use forebay_core::{Nanos, Op};
use forebay_trace::formats::{Format, Input};
use forebay_trace::unpack::Packing;
use forebay_trace::{Notes, Reader, TraceError};
use tempfile::NamedTempFile;

/// The maximum length of an input in bytes.
pub(crate) const INPUT_BYTES_MAX: usize = 1 << 16;

/// Opens `bytes` in the format `format`, without a file.
pub(crate) fn reader(format: &str, bytes: &[u8]) -> Result<Box<dyn Reader>, TraceError> {
    read_at(format, PathBuf::from("input"), bytes)
}

/// Opens `bytes`, which are also the content of the file `path`, in the format `format`.
pub(crate) fn read_at(
    format: &str,
    path: PathBuf,
    bytes: &[u8],
) -> Result<Box<dyn Reader>, TraceError> {
    let listed = Format::named(format).expect("a listed format");
    let content = Box::new(Cursor::new(bytes.to_vec()));
    listed.open(Input::new(path, Packing::Plain, content))
}

/// The result of reading a trace to its end.
pub(crate) struct Whole {
    /// The number of records returned.
    pub(crate) records: u64,
    /// The reader's notes at the end.
    pub(crate) notes: Notes,
}

/// Reads to the end or to the first error, and checks every record. Returns `None` after an error.
pub(crate) fn drain(opened: Result<Box<dyn Reader>, TraceError>) -> Option<Whole> {
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

/// Checks that an error has a nonempty message on one line.
fn complain(error: &TraceError) -> Option<Whole> {
    let message = error.to_string();
    assert!(!message.trim().is_empty());
    assert!(message.len() < 4096, "an endless message: {message}");
    assert!(!message.contains('\n'), "a message of several lines: {message:?}");
    None
}

/// Counts lines that contain more than whitespace.
pub(crate) fn lines(bytes: &[u8]) -> u64 {
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    text.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).count() as u64
}

/// Counts lines that look like comments. Some of them may also be valid rows.
pub(crate) fn comments(bytes: &[u8]) -> u64 {
    let lines = bytes.split(|&byte| byte == b'\n');
    lines.filter(|line| line.trim_ascii_start().starts_with(b"#")).count() as u64
}

thread_local! {
    static SCRATCH: RefCell<NamedTempFile> =
        RefCell::new(NamedTempFile::new().expect("a temporary file"));
}

/// Calls `act` with the path of a file that contains `bytes`.
pub(crate) fn in_file(bytes: &[u8], act: impl FnOnce(&Path)) {
    SCRATCH.with_borrow_mut(|scratch| {
        let file = scratch.as_file_mut();
        file.set_len(0).expect("an emptied file");
        file.seek(SeekFrom::Start(0)).expect("the file's start");
        file.write_all(bytes).expect("a written file");
        act(scratch.path());
    });
}
