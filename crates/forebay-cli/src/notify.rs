//! Reports the state of a server to systemd (sd_notify(3)), if systemd started it, and the severity
//! of its messages (sd-daemon(3)).

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends a state such as `READY=1`. Does nothing if the server was not started by systemd.
pub(crate) fn notify(state: &str) {
    if let Some(socket) = env::var_os("NOTIFY_SOCKET") {
        // Ignore errors: it does not matter to the server if nobody listens any longer.
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

/// Returns whether standard error goes to the systemd journal.
pub(crate) fn is_journal() -> bool {
    let journal = env::var("JOURNAL_STREAM");
    let stderr = std::fs::metadata("/proc/self/fd/2");
    let stderr = stderr.map(|found| format!("{}:{}", found.dev(), found.ino()));
    journal.is_ok_and(|journal| stderr.is_ok_and(|stderr| journal == stderr))
}

/// Returns the prefix from which the journal learns the severity of a message.
pub(crate) fn severity(line: &str) -> &'static str {
    // The severity is at the beginning, or after the quoted name of a disk.
    let word = |word: &str| line.starts_with(word) || line.contains(&format!("': {word}"));
    match () {
        () if word("error: ") => "<3>",
        () if word("warning: ") => "<4>",
        () => "<6>",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_sent_with_their_stated_severity() {
        for (line, expected) in [
            ("error: 'data': the disk is gone; it is no longer served", "<3>"),
            ("'data': error: /dev/sdb: a write of 4096 bytes at 0 failed: no space left", "<3>"),
            ("'safe': warning: drive /dev/sdd is lost: 5 of its 6 drives are left", "<4>"),
            ("'safe': the check ends: nothing was wrong", "<6>"),
        ] {
            assert_eq!(severity(line), expected, "{line}");
        }
    }
}
