//! What somebody sends who asks the store's server for metrics: whatever it is, it has an answer.
#![no_main]

use forebay_store::hostile::request;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    match request(data) {
        Ok(true) => assert!(data.starts_with(b"GET /metrics")),
        // More has to come, but not without end.
        Ok(false) => assert!(data.len() <= 8192),
        Err(status) => {
            assert!(status[..3].parse::<u16>().is_ok_and(|code| (400..500).contains(&code)));
        }
    }
});
