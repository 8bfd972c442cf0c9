//! HP SRT: no more requests than records.
#![no_main]

use forebay_fuzz::{drain, reader};
use libfuzzer_sys::fuzz_target;

/// Bytes of a request.
const RECORD_BYTES: u64 = 56;

fuzz_target!(|data: &[u8]| {
    if let Some(whole) = drain(reader("hp-srt", data)) {
        let kept = whole.records + whole.notes.rows_skipped;
        assert!(kept <= data.len() as u64 / RECORD_BYTES, "{kept} requests from nowhere");
    }
});
