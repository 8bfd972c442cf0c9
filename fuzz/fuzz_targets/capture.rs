//! The records that `capture` cuts out of the kernel's stream: alike in whatever pieces it comes.
#![no_main]

use libfuzzer_sys::fuzz_target;

// The cutter is no part of any crate's interface, and needs none of them.
#[allow(dead_code)]
#[path = "../../crates/forebay-live/src/capture/records.rs"]
mod records;

use records::{HEAD, Records};

/// The records of a stream that comes in such pieces, and how many bytes were none and are left.
fn cut(stream: &[u8], piece: usize) -> (Vec<Vec<u8>>, u64, usize) {
    let (mut records, mut found) = (Records::default(), Vec::new());
    for bytes in stream.chunks(piece) {
        let added: Result<(), ()> = records.add(bytes, |mut record| {
            assert!(record.bytes().len() >= HEAD);
            let _ = (record.kind(), record.pid(), record.len_bytes());
            let named = record.naming("name");
            assert_eq!(named[..4], record.bytes()[..4]);
            record.number(7);
            found.push(record.bytes().to_vec());
            Ok(())
        });
        added.expect("nothing here fails");
    }
    (found, records.foreign_bytes, records.pending_bytes())
}

fuzz_target!(|data: &[u8]| {
    let Some((&piece, stream)) = data.split_first() else { return };
    let whole = cut(stream, stream.len().max(1));
    let in_records: usize = whole.0.iter().map(Vec::len).sum();
    assert!(in_records as u64 + whole.1 + whole.2 as u64 <= stream.len() as u64);
    assert_eq!(cut(stream, usize::from(piece) + 1), whole);
});
