//! CSV of an object cache.
#![no_main]

use forebay_fuzz::{drain, lines, reader};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Some(whole) = drain(reader("object-csv", data)) {
        // An object of up to 4 GiB takes up to four requests.
        let (kept, most) = (whole.records + whole.notes.rows_skipped, 4 * lines(data));
        assert!(kept <= most, "{kept} requests of {most} lines");
    }
});
