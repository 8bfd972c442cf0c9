//! blkparse events as WiscSee rewrites them.
#![no_main]

use forebay_fuzz::{drain, lines, reader};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Some(whole) = drain(reader("ftlsim", data)) {
        let kept = whole.records + whole.notes.rows_skipped;
        assert!(kept <= lines(data), "{kept} requests of {} lines", lines(data));
    }
});
