//! Tests that `forebay serve` works if the kernel denies io_uring, as containers do by default, and
//! says so once.

use std::process::Command;

use forebay_rig::nbd::{Client, FLUSH};

use crate::served::{Folder, Serving, have, serve, skipped};
use crate::shell;

const BYTES: u64 = 8 << 20;
/// The size of the requests, which is a multiple of every device's block size.
const LEN: usize = 300 << 10;

/// Returns `command` with io_uring denied, or `None` if the system has no seccomp filters.
fn denied(command: &Command) -> Option<Command> {
    let wrapper = shell::root().join(".ci/without-io-uring");
    let can = have(&["python3"])
        && Command::new(&wrapper).arg("true").status().is_ok_and(|status| status.success());
    if !can {
        skipped("nothing can deny io_uring here");
        return None;
    }
    let mut wrapped = Command::new(wrapper);
    wrapped.arg(command.get_program()).args(command.get_args());
    wrapped.current_dir(command.get_current_dir().unwrap());
    Some(wrapped)
}

/// Writes, flushes and reads through two connections at the same time.
fn use_it(socket: &std::path::Path, export: &str) {
    let mut clients = [(); 2].map(|()| Client::simple(socket, export));
    for (nth, client) in clients.iter_mut().enumerate() {
        let data = forebay_rig::nbd::pattern(nth as u8, LEN);
        client.write(nth as u64 * (1 << 20), &data);
        assert_eq!(client.does((FLUSH, 0), (0, 0), &[]), 0);
        assert_eq!(client.read(nth as u64 * (1 << 20), LEN as u32), data);
    }
}

#[test]
fn without_io_uring_threads_are_used_with_one_note() {
    let folder = Folder::new();
    folder.holes("disk", BYTES);
    folder.holes("flash", BYTES);
    let config = "socket = \"socket\"\n[[disk]]\nname = \"a\"\nfile = \"disk\"\n\
                  [[disk]]\nname = \"b\"\nfile = \"flash\"\nemulate = \"fixed:20000\"\n";
    std::fs::write(folder.path("serve.toml"), config).unwrap();
    let Some(mut command) = denied(&serve(&folder, &["serve.toml"])) else { return };
    let (serving, said) = Serving::of(&mut command);
    assert_eq!(said.matches("io_uring is not available").count(), 1, "{said}");
    assert!(said.contains("Operation not permitted") && said.contains("threads"), "{said}");
    for export in ["a", "b"] {
        use_it(&folder.socket(), export);
    }
    serving.stop();
}

#[test]
fn an_explicit_io_uring_setting_fails_without_io_uring() {
    let folder = Folder::new();
    folder.holes("disk", BYTES);
    let words = ["disk", "--socket", "socket", "--driver", "io_uring"];
    for more in [&[][..], &["--emulate", "fixed:20000"]] {
        let Some(mut command) = denied(&serve(&folder, &[&words[..], more].concat())) else {
            return;
        };
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("io_uring is not available"), "{said}");
    }
}
