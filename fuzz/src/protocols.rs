//! Fuzz targets for data sent by clients.

use forebay_serve::hostile::{STEADY, handshake, requests};
use forebay_store::hostile::{command, request};

/// The maximum number of bytes in the replies to LIST or INFO, per option of 16 bytes.
const TOLD_PER_OPTION_MAX: usize = 160;
/// The maximum memory for two clients: their outstanding requests, one more long request each, and
/// their receive buffers.
const MEMORY_MAX: u64 = 2 * ((64 + 32 + 5) << 20);

/// The input is what an NBD client sends before it has chosen an export. The replies must not be
/// longer than its requests justify.
pub(crate) fn nbd_handshake(data: &[u8]) {
    let (_, told_bytes) = handshake(data);
    assert!(told_bytes <= 18 + 134 + (data.len() / 16 + 1) * TOLD_PER_OPTION_MAX);
}

/// The input is what an NBD client sends after the handshake. No buffer may be leaked, memory must
/// be bounded, and another client must still be served.
pub(crate) fn nbd_requests(data: &[u8]) {
    let served = requests(data);
    if data.len() >= 2 {
        assert_eq!((served.left, served.steady), (0, STEADY));
        assert!(served.peak_bytes <= MEMORY_MAX, "{served:?}");
    }
}

/// The input is what a store's client sends. A command must not be longer than the bytes received.
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

/// The input is an HTTP request for the store's metrics. There must always be an answer.
pub(crate) fn metrics(data: &[u8]) {
    match request(data) {
        Ok(true) => assert!(data.starts_with(b"GET /metrics")),
        // The request is incomplete, but its length is limited.
        Ok(false) => assert!(data.len() <= 8192),
        Err(status) => {
            assert!(status[..3].parse::<u16>().is_ok_and(|code| (400..500).contains(&code)));
        }
    }
}
