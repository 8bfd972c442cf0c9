//! What a client of the network block device says before it has chosen an export: whatever it is, no more is
//! told than it asks for.
#![no_main]

use forebay_serve::hostile::handshake;
use libfuzzer_sys::fuzz_target;

/// A listing's replies, or those of INFO, for an option of 16 bytes.
const TOLD_PER_OPTION_MAX: usize = 160;

fuzz_target!(|data: &[u8]| {
    let (_, told_bytes) = handshake(data);
    assert!(told_bytes <= 18 + 134 + (data.len() / 16 + 1) * TOLD_PER_OPTION_MAX);
});
