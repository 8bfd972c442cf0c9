//! The outcome of a run as text, in the same format for the kernel and the simulator.
//!
//! ```text
//! end 1500000 busy 700000
//! io read 4096 8192 1000 5000
//! req reader 0 read 4096 8192 900 905 5000
//! ```
//!
//! `end` is when the last I/O completed, `busy` how long the disk was busy. Each `io` is an I/O as
//! the disk saw it, in the order of acceptance: operation, first byte, length in bytes, when it was
//! accepted, and when it completed. Each `req` is an I/O of a task: the task, the I/O's number
//! within it, operation, first byte, length in bytes, when it was due, when its thread submitted it
//! (later if the thread slept; in the simulator, which has no threads, when it was due), and when
//! the thread saw it complete. All times are in nanoseconds from the start of the run.

use std::fmt::Write;

use forebay_core::{Nanos, Op};

use crate::script::Script;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DiskIo {
    pub(crate) op: Op,
    pub(crate) offset: u64,
    pub(crate) len: u32,
    pub(crate) accepted: Nanos,
    pub(crate) done: Nanos,
}

/// When an I/O of a task was due, submitted and completed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) due: Nanos,
    pub(crate) submitted: Nanos,
    pub(crate) done: Nanos,
}

#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) end: Nanos,
    pub(crate) busy: Nanos,
    pub(crate) ios: Vec<DiskIo>,
    /// The times of each I/O of each task.
    pub(crate) times: Vec<Vec<Times>>,
}

impl Outcome {
    pub(crate) fn text(&self, script: &Script) -> String {
        let mut text = format!("end {} busy {}\n", self.end.0, self.busy.0);
        let mut ios = self.ios.clone();
        ios.sort_by_key(|io| io.accepted);
        for DiskIo { op, offset, len, accepted, done } in ios {
            let _ = writeln!(text, "io {} {offset} {len} {} {}", op.name(), accepted.0, done.0);
        }
        for (task, times) in script.tasks.iter().zip(&self.times) {
            for (index, (io, times)) in task.ios.iter().zip(times).enumerate() {
                let (name, op) = (&task.name, io.op.name());
                let Times { due, submitted, done } = times;
                let (offset, len) = (io.offset, io.len);
                let _ = writeln!(
                    text,
                    "req {name} {index} {op} {offset} {len} {} {} {}",
                    due.0, submitted.0, done.0
                );
            }
        }
        text
    }
}
