//! DiskSim's validation format: as requests and as rows, which agree.
#![no_main]

use forebay_fuzz::{drain, lines, reader};
use forebay_trace::formats::disksim_valid::Rows;
use libfuzzer_sys::fuzz_target;
use std::io::Cursor;
use std::path::Path;

fuzz_target!(|data: &[u8]| {
    let whole = drain(reader("disksim-valid", data));
    let rows = Rows::new(Path::new("input"), Box::new(Cursor::new(data.to_vec())));
    let rows = rows.collect::<Result<Vec<_>, _>>();
    assert_eq!(whole.is_some(), rows.is_ok());
    if let (Some(whole), Ok(rows)) = (whole, rows) {
        assert_eq!((whole.records, rows.len() as u64), (lines(data), lines(data)));
    }
});
