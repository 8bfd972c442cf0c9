//! Sets the kernel's scheduler of a device to `none`, so that only the served policy determines the
//! order of I/Os.

// Allowed because this module starts a process.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::fs;
use std::io;
use std::process::{Command, Stdio};

/// Sets the scheduler of the device called `name` (such as `ublkb0`) to `none`, unless it is `none`
/// already.
///
/// A separate process does this, because the kernel makes it wait, uninterruptibly, for all
/// outstanding requests. If this process waited and were killed together with the thread that
/// answers the requests, it could never end, and no other server could answer them.
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

/// Returns whether no scheduler is in use, given the content of the kernel's file.
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
