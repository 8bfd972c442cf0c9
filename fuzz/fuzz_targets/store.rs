//! What is on a store's disks: whatever it is, reading it does not panic.
#![no_main]

use forebay_store::hostile::disk;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    disk(data);
});
