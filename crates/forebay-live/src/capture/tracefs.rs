//! Runs the kernel's `blk` tracer through tracefs.
//!
//! Pitfalls: its clock must be set to `mono` to match blktrace; a tracer cannot be changed while
//! `trace_pipe` is open, so the pipe is opened last and closed first; `bin` without `context-info`
//! gives bare records; their sequence numbers are 0 and threads have no names (see
//! [`super::spool`]). The machine has only one tracer: if it is already in use, it is left alone.

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::settings::{self, Settings};
use super::{CaptureError, Device, Look, Source, TracingPaths};

/// The total size of the buffers of all CPUs, and the limits for one of them.
const BUFFERS_KB: u64 = 256 << 10;
const BUFFER_KB: std::ops::RangeInclusive<u64> = 1 << 10..=16 << 10;
/// The number of threads whose names the tracer remembers.
const NAMES: &str = "16384";

/// The running tracer.
pub(crate) struct Tracefs {
    root: PathBuf,
    /// This field is declared before the settings, so that the pipe is closed before the settings
    /// are restored.
    pipe: Option<File>,
    settings: Settings,
    switch: PathBuf,
    lost_before: u64,
}

impl Tracefs {
    /// Sets up the tracer and turns it on for `device`.
    pub(crate) fn start(device: &Device, places: &TracingPaths) -> Result<Tracefs, CaptureError> {
        let Some(root) = places.tracefs.clone() else {
            let mount = "mount -t tracefs nodev /sys/kernel/tracing";
            return Err(CaptureError::not_mounted("tracefs", mount));
        };
        let switch = device.switch();
        check(&root, &switch)?;
        let mut settings = Settings::default();
        for (file, value) in [
            ("trace_clock", "mono".to_owned()),
            ("buffer_size_kb", buffer_kb(cpus(&root).len() as u64).to_string()),
            ("saved_cmdlines_size", NAMES.to_owned()),
            ("options/record-cmd", "1".to_owned()),
            ("options/bin", "1".to_owned()),
            ("options/context-info", "0".to_owned()),
            ("current_tracer", "blk".to_owned()),
            ("tracing_on", "1".to_owned()),
        ] {
            settings.set(&root.join(file), &value)?;
        }
        // Writing to this file empties the buffers.
        settings::write(&root.join("trace"), "")?;
        let pipe = root.join("trace_pipe");
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits() as i32)
            .open(&pipe)
            .map_err(|error| CaptureError::denied(&pipe, "open", &error))?;
        let lost_before = lost(&root);
        settings.set(&switch, "1")?;
        Ok(Tracefs { root, pipe: Some(opened), settings, switch, lost_before })
    }
}

/// Checks that the tracer exists and is not in use.
fn check(root: &Path, switch: &Path) -> Result<(), CaptureError> {
    let tracers = root.join("available_tracers");
    if !settings::read(&tracers)?.split_whitespace().any(|tracer| tracer == "blk") {
        return Err(CaptureError::Refused(format!(
            "{} lists no `blk`: the kernel is built without CONFIG_BLK_DEV_IO_TRACE",
            tracers.display()
        )));
    }
    for (path, idle) in [(root.join("current_tracer"), "nop"), (switch.to_path_buf(), "0")] {
        let now = settings::read(&path)?;
        if now != idle {
            return Err(CaptureError::Refused(format!(
                "{} contains {now}: another tracer is active; when it has finished, or to stop \
                 it: echo {idle} > {}",
                path.display(),
                path.display()
            )));
        }
    }
    Ok(())
}

/// Returns the size of each CPU's buffer in KiB, for this many CPUs.
fn buffer_kb(cpus: u64) -> u64 {
    (BUFFERS_KB / cpus.max(1)).clamp(*BUFFER_KB.start(), *BUFFER_KB.end())
}

/// Returns the folders of all CPUs in tracefs.
fn cpus(root: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root.join("per_cpu")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Returns the number of events that all CPUs have lost since their buffers were created.
fn lost(root: &Path) -> u64 {
    let stats = cpus(root).into_iter().map(|cpu| fs::read_to_string(cpu.join("stats")));
    stats.flatten().map(|stats| lost_of(&stats)).sum()
}

fn lost_of(stats: &str) -> u64 {
    let fields = stats.lines().filter_map(|line| line.split_once(':'));
    let counts =
        fields.filter(|(key, _)| matches!(*key, "overrun" | "commit overrun" | "dropped events"));
    counts.filter_map(|(_, count)| count.trim().parse::<u64>().ok()).sum()
}

impl Source for Tracefs {
    fn name(&self) -> &'static str {
        "the blk tracer in tracefs"
    }

    fn look(&mut self, buffer: &mut [u8]) -> Result<Look, CaptureError> {
        let Some(pipe) = &mut self.pipe else { return Ok(Look::End) };
        // The pipe reports its end whenever it is empty and the tracer is off.
        Look::of(pipe.read(buffer), Look::Nothing)
            .map_err(|source| CaptureError::Io { path: self.root.join("trace_pipe"), source })
    }

    fn lost(&self) -> u64 {
        lost(&self.root).saturating_sub(self.lost_before)
    }

    fn stop(&mut self) -> Result<(), CaptureError> {
        settings::write(&self.switch, "0")
    }

    fn empty_looks(&self) -> u32 {
        10
    }

    fn restore(&mut self) -> Vec<String> {
        self.pipe = None;
        self.settings.restore()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_lost_are_counted_whatever_the_reason() {
        let stats = "entries: 4\noverrun: 3\ncommit overrun: 2\nbytes: 9\noldest event ts: 1.5\n\
                     dropped events: 1\nread events: 7\n";
        assert_eq!(lost_of(stats), 6);
    }

    #[test]
    fn buffers_shrink_with_many_cpus() {
        assert_eq!([2, 64, 1024].map(buffer_kb), [16384, 4096, 1024]);
    }
}
