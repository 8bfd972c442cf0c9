//! Waiting in tests. On a busy machine, any thread may have to wait half a minute for a processor.

use std::fs::File;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long a test waits for an event. The limit only keeps the test from waiting forever.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until `holds` returns true.
///
/// # Panics
/// Panics with `what` if that takes longer than [`PATIENCE`].
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until no process has locked these files. On a busy machine, the kernel takes long to
/// release the files of a killed process that used io_uring.
#[track_caller]
pub fn wait_until_free(files: &[PathBuf]) {
    let is_free = |path| File::open(path).is_ok_and(|file: File| file.try_lock().is_ok());
    wait_until("files of a killed process stay in use", || files.iter().all(is_free));
}

/// Returns whether one of a few attempts succeeds, for behavior that can be tested only in wall
/// time: a delayed thread may spoil one attempt, but rarely all of them.
pub fn one_succeeds(attempt: impl FnMut() -> bool) -> bool {
    std::iter::repeat_with(attempt).take(5).any(|is_success| is_success)
}

/// Returns whether a server's message only says that a disk did not answer for a while, which
/// happens if the disk's threads have to wait for a processor.
pub fn is_of_a_busy_machine(message: &str) -> bool {
    message.contains(" has not answered for ") || message.ends_with(" answers again")
}
