//! Sets a device's scheduler in the kernel to `none`, so that only the served policy decides.

// This module starts a process.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::fs;
use std::io;
use std::process::{Command, Stdio};

/// Sets the scheduler of the device called `name`, as in `ublkb0`, unless it is `none` already.
///
/// Another process does that: the kernel lets it wait for all outstanding requests, and nothing can interrupt it then. If
/// this process waited, and were killed together with the thread that answers the requests, it could never end, and no
/// other server could answer them.
///
/// # Errors
/// The kernel refuses.
pub(crate) fn disable(name: &str) -> io::Result<()> {
    let path = format!("/sys/block/{name}/queue/scheduler");
    if is_none(&fs::read_to_string(&path)?) {
        return Ok(());
    }
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "echo none >\"$0\"", &path]).stdin(Stdio::null()).stdout(Stdio::null());
    let status = shell.stderr(Stdio::null()).status()?;
    match status.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!("{path} cannot be written"))),
    }
}

/// Returns whether no scheduler is in use, according to the kernel's list.
fn is_none(schedulers: &str) -> bool {
    schedulers.contains("[none]") || schedulers.trim() == "none"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheduler_in_use_is_the_one_in_brackets() {
        assert!(is_none("[none] mq-deadline\n") && is_none("none\n"));
        assert!(!is_none("none [mq-deadline] kyber\n"));
    }
}
