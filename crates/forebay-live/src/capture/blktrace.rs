//! Runs blktrace(8), which reads the records from debugfs.
//!
//! blktrace writes the records of all CPUs to its standard output (`-o -`), with sequence numbers
//! and names. On a locked-down kernel, it reports on standard error that it cannot open the files,
//! and then hangs; that message counts as a refusal. The number of lost events is the kernel's
//! counter in `block/NAME/dropped`.

use std::fs;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process};

use super::{CaptureError, Device, Look, NAP, Source, TracingPaths};

/// The time within which blktrace reports if it cannot work.
const START: Duration = Duration::from_millis(500);
/// The time within which blktrace must end after it was told to stop.
const END: Duration = Duration::from_secs(5);
/// Parts of blktrace's messages if it cannot work.
const FAILURES: [&str; 3] = ["FAILED", "failed", "Invalid debug"];

/// A running blktrace.
pub(crate) struct Blktrace {
    child: Child,
    records: ChildStdout,
    messages: ChildStderr,
    said: String,
    dropped: PathBuf,
    lost: std::cell::Cell<u64>,
}

impl Blktrace {
    /// Starts blktrace on `device`, and checks that it works.
    pub(crate) fn start(device: &Device, places: &TracingPaths) -> Result<Blktrace, CaptureError> {
        let Some(debugfs) = &places.debugfs else {
            let mount = "mount -t debugfs nodev /sys/kernel/debug";
            return Err(CaptureError::not_mounted("debugfs", mount));
        };
        let mut child = Command::new(&places.blktrace)
            .arg("-d")
            .arg(&device.path)
            .arg("-r")
            .arg(debugfs)
            .args(["-o", "-"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // In its own process group, blktrace is not interrupted by Ctrl-C; this process stops
            // it.
            .process_group(0)
            .spawn()
            .map_err(|error| not_run(&places.blktrace, &error))?;
        let (Some(records), Some(messages)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(CaptureError::Refused("blktrace(8) has no output".into()));
        };
        let dropped = debugfs.join("block").join(device.name()).join("dropped");
        let (said, lost) = (String::new(), 0.into());
        let mut started = Blktrace { child, records, messages, said, dropped, lost };
        unblock(&started.records).and_then(|()| unblock(&started.messages)).map_err(refused)?;
        started.confirm()?;
        Ok(started)
    }

    fn confirm(&mut self) -> Result<(), CaptureError> {
        let begun = Instant::now();
        while begun.elapsed() < START {
            self.listen();
            let ended = self.child.try_wait().map_err(refused)?.is_some();
            if ended || FAILURES.iter().any(|failure| self.said.contains(failure)) {
                self.listen();
                let first = self.said.lines().find(|line| !line.trim().is_empty());
                let why = first.unwrap_or("it ended at once").trim();
                return Err(CaptureError::Refused(format!("it says \"{why}\"")));
            }
            std::thread::sleep(NAP);
        }
        Ok(())
    }

    /// Collects blktrace's messages on standard error.
    fn listen(&mut self) {
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = self.messages.read(&mut buffer) {
            self.said.push_str(&String::from_utf8_lossy(&buffer[..n]));
            if self.said.len() > 1 << 16 {
                self.said.clear();
            }
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // Ignore errors, because blktrace may have ended by itself.
            let _ = kill_process(pid, signal);
        }
    }

    fn end(&mut self) {
        let begun = Instant::now();
        self.signal(Signal::INT);
        while matches!(self.child.try_wait(), Ok(None)) {
            if begun.elapsed() > END {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            // Empties blktrace's pipe, because blktrace cannot end while the pipe is full.
            let mut rest = [0; 4096];
            let _ = self.records.read(&mut rest);
            self.listen();
            std::thread::sleep(NAP);
        }
    }
}

fn unblock(pipe: &impl AsFd) -> io::Result<()> {
    let flags = fcntl_getfl(pipe)?;
    Ok(fcntl_setfl(pipe, flags | OFlags::NONBLOCK)?)
}

fn refused(error: io::Error) -> CaptureError {
    CaptureError::Refused(format!("blktrace(8): {error}"))
}

fn not_run(program: &std::path::Path, error: &io::Error) -> CaptureError {
    let hint = match error.kind() {
        io::ErrorKind::NotFound => "; install the package blktrace",
        _ => "",
    };
    CaptureError::Refused(format!("cannot run {}: {error}{hint}", program.display()))
}

impl Source for Blktrace {
    fn name(&self) -> &'static str {
        "blktrace(8)"
    }

    fn look(&mut self, buffer: &mut [u8]) -> Result<Look, CaptureError> {
        self.listen();
        Look::of(self.records.read(buffer), Look::End)
            .map_err(|source| CaptureError::Io { path: "blktrace".into(), source })
    }

    fn lost(&self) -> u64 {
        // The file disappears when tracing ends, so its last known content counts.
        let dropped = fs::read_to_string(&self.dropped).ok();
        if let Some(dropped) = dropped.and_then(|dropped| dropped.trim().parse().ok()) {
            self.lost.set(dropped);
        }
        self.lost.get()
    }

    fn stop(&mut self) -> Result<(), CaptureError> {
        self.lost();
        self.signal(Signal::INT);
        Ok(())
    }

    fn empty_looks(&self) -> u32 {
        // The end of blktrace's output is reliable, so this is only a limit.
        (END.as_millis() / NAP.as_millis()) as u32
    }

    fn restore(&mut self) -> Vec<String> {
        self.end();
        self.listen();
        Vec::new()
    }
}

impl Drop for Blktrace {
    fn drop(&mut self) {
        self.end();
    }
}
