//! libCacheSim's oracleGeneral: every whole record is read or counted.
#![no_main]

use forebay_fuzz::{drain, reader};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Some(whole) = drain(reader("oracle-general", data)) {
        // An object of up to 4 GiB takes up to four requests.
        let (kept, rows) = (whole.records + whole.notes.rows_skipped, data.len() as u64 / 24);
        assert!((rows..=4 * rows).contains(&kept), "{kept} of {rows} records");
    }
});
