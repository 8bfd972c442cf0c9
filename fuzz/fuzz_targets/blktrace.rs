//! blktrace binary: one file of a set, or two where the first byte says so.
#![no_main]

use forebay_fuzz::drain;
use forebay_trace::Reader;
use forebay_trace::formats::blktrace::Blktrace;
use libfuzzer_sys::fuzz_target;
use std::io::{Cursor, Read};
use std::path::PathBuf;

/// Bytes of a record without its payload.
const RECORD_BYTES: u64 = 48;

// The first byte is how many 256ths of the rest belong to CPU 0; zero leaves no second file.
fuzz_target!(|data: &[u8]| {
    let Some((&share, rest)) = data.split_first() else { return };
    let parts = match usize::from(share) {
        0 => vec![rest],
        share => {
            let (first, second) = rest.split_at(rest.len() * share / 256);
            vec![first, second]
        }
    };
    let files = parts.into_iter().enumerate().map(|(cpu, bytes)| {
        let input: Box<dyn Read + Send> = Box::new(Cursor::new(bytes.to_vec()));
        (PathBuf::from(format!("sdb.blktrace.{cpu}")), input)
    });
    let opened = Blktrace::from_readers(files.collect());
    let whole = drain(opened.map(|reader| Box::new(reader) as Box<dyn Reader>));
    if let Some(whole) = whole {
        let kept = whole.records + whole.notes.rows_skipped;
        assert!(kept <= rest.len() as u64 / RECORD_BYTES, "{kept} requests from nowhere");
    }
});
