//! What clients send.

use forebay_serve::hostile::{STEADY, handshake, requests};
use forebay_store::hostile::{command, request};

/// A listing's replies, or those of INFO, for an option of 16 bytes.
const TOLD_PER_OPTION_MAX: usize = 160;
/// What two clients may have under way, one long request each beyond it, and what they receive into.
const MEMORY_MAX: u64 = 2 * ((64 + 32 + 5) << 20);

/// What a client of the network block device says before it has chosen an export: it is told no more than it asks for.
pub(crate) fn nbd_handshake(data: &[u8]) {
    let (_, told_bytes) = handshake(data);
    assert!(told_bytes <= 18 + 134 + (data.len() / 16 + 1) * TOLD_PER_OPTION_MAX);
}

/// What it says after that: no buffer is left, memory is bounded, and the client beside it is served.
pub(crate) fn nbd_requests(data: &[u8]) {
    let served = requests(data);
    if data.len() >= 2 {
        assert_eq!((served.left, served.steady), (0, STEADY));
        assert!(served.peak_bytes <= MEMORY_MAX, "{served:?}");
    }
}

/// What clients of the store send: a command has no more bytes than came.
pub(crate) fn resp(data: &[u8]) {
    match command(data) {
        Ok(Some((words, used))) => {
            assert!(used > 0 && used <= data.len());
            assert!(words.iter().map(Vec::len).sum::<usize>() <= used);
        }
        Ok(None) => {}
        Err(what) => assert!(!what.is_empty()),
    }
}

/// What somebody sends who asks the store's server for metrics: it always has an answer.
pub(crate) fn metrics(data: &[u8]) {
    match request(data) {
        Ok(true) => assert!(data.starts_with(b"GET /metrics")),
        // More has to come, but not without end.
        Ok(false) => assert!(data.len() <= 8192),
        Err(status) => {
            assert!(status[..3].parse::<u16>().is_ok_and(|code| (400..500).contains(&code)));
        }
    }
}
