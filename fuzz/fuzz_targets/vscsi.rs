//! VMware vSCSI binary: every whole record is a request or counted.
#![no_main]

use forebay_fuzz::{drain, reader};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Some(whole) = drain(reader("vscsi", data)) {
        let kept = whole.records + whole.notes.rows_skipped;
        let lengths = [32, 40].map(|bytes| data.len() as u64 / bytes);
        assert!(lengths.contains(&kept), "{kept} of {lengths:?} records");
    }
});
