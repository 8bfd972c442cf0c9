//! CSV by its header: canonical, or in others' words.
#![no_main]

use forebay_fuzz::{drain, reader};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Some(whole) = drain(reader("csv", data)) {
        // The header is one row; rows may end with either byte.
        let ends = data.iter().filter(|&&byte| byte == b'\n' || byte == b'\r').count() as u64;
        let kept = whole.records + whole.notes.rows_skipped;
        assert!(kept <= ends, "{kept} requests of {ends} line ends");
    }
});
