//! Listening sockets that the parent process opened for this one (socket activation,
//! sd_listen_fds(3)).
#![allow(unsafe_code)]

use std::env;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};

/// The first inherited descriptor.
const FIRST: RawFd = 3;

static ARE_TAKEN: AtomicBool = AtomicBool::new(false);

/// Returns the inherited sockets; later calls return none.
pub fn inherited_sockets() -> Vec<OwnedFd> {
    let number = |name: &str| env::var(name).ok()?.parse::<u32>().ok();
    let is_ours = number("LISTEN_PID") == Some(std::process::id());
    if !is_ours || ARE_TAKEN.swap(true, Ordering::SeqCst) {
        return Vec::new();
    }
    let count = number("LISTEN_FDS").unwrap_or_default().min(1024) as RawFd;
    (FIRST..FIRST + count).filter_map(taken).collect()
}

/// Takes ownership of an inherited descriptor if it is open. Programs that this process starts do
/// not inherit it.
fn taken(descriptor: RawFd) -> Option<OwnedFd> {
    // SAFETY: LISTEN_PID says that these descriptors were opened for this process alone, and each
    // is taken only once. A descriptor that is not open is forgotten without being used or closed.
    let owned = unsafe { OwnedFd::from_raw_fd(descriptor) };
    let is_open =
        fcntl_getfd(&owned).and_then(|flags| fcntl_setfd(&owned, flags | FdFlags::CLOEXEC));
    match is_open {
        Ok(()) => Some(owned),
        Err(_) => {
            std::mem::forget(owned);
            None
        }
    }
}
