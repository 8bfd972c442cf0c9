//! Reports the state of a server to systemd (sd_notify(3)), if systemd started it.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends a state such as `READY=1`. Does nothing if the server was not started by systemd.
pub(crate) fn notify(state: &str) {
    if let Some(socket) = env::var_os("NOTIFY_SOCKET") {
        // Ignore errors: it does not matter to the server if nobody listens any more.
        let _ = send(&socket, state);
    }
}

fn send(to: &OsStr, state: &str) -> io::Result<usize> {
    let address = match to.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(to)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)
}
