//! What a client of the network block device says once it has chosen an export: whatever it is, no buffer is
//! left, memory is bounded, and the client beside it is served.
#![no_main]

use forebay_serve::hostile::{STEADY, requests};
use libfuzzer_sys::fuzz_target;

/// What two clients may have under way, one long request each beyond it, and what they receive into.
const MEMORY_MAX: u64 = 2 * ((64 + 32 + 5) << 20);

fuzz_target!(|data: &[u8]| {
    let served = requests(data);
    if data.len() >= 2 {
        assert_eq!((served.left, served.steady), (0, STEADY));
        assert!(served.peak_bytes <= MEMORY_MAX, "{served:?}");
    }
});
