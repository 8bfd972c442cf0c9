//! Determines from the kernel's trace when programs submitted their reads.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Records `io_uring_submit_req` in a separate tracing instance, which is removed on drop.
pub(crate) struct Submissions {
    mount: PathBuf,
    instance: PathBuf,
}

impl Submissions {
    /// Starts recording; returns None without root privileges or tracefs.
    pub(crate) fn new() -> Option<Submissions> {
        let name = format!("forebay-bench-{}", std::process::id());
        let mount = std::env::temp_dir().join(&name).with_extension("trace");
        fs::create_dir(&mount).ok()?;
        let mounted = Command::new("mount").args(["-t", "tracefs", "nodev"]).arg(&mount).status();
        let instance = mount.join("instances").join(name);
        let made = Submissions { mount, instance };
        if !mounted.is_ok_and(|status| status.success()) || fs::create_dir(&made.instance).is_err()
        {
            return None;
        }
        let set = |name: &str, value: &str| fs::write(made.instance.join(name), value);
        set("trace_clock", "mono").ok()?;
        set("buffer_size_kb", "32768").ok()?;
        Some(made)
    }

    /// Returns the times, in microseconds, of the reads that threads named `program` submit during
    /// `work`.
    pub(crate) fn of(&self, program: &str, work: impl FnOnce()) -> Vec<f64> {
        let set = |name: &str, value: &str| fs::write(self.instance.join(name), value).unwrap();
        set("trace", "");
        set("events/io_uring/io_uring_submit_req/enable", "1");
        work();
        set("events/io_uring/io_uring_submit_req/enable", "0");
        let text = fs::read_to_string(self.instance.join("trace")).unwrap();
        let lost = text.lines().find(|line| line.contains("LOST"));
        assert_eq!(lost, None, "the kernel dropped events");
        text.lines().filter_map(|line| time(line, program)).collect()
    }
}

/// Returns the time in a line like `fio-123 [001] ..... 12.345678: io_uring_submit_req: ... opcode
/// READ_FIXED`.
fn time(line: &str, program: &str) -> Option<f64> {
    let line = line.trim_start();
    let ours = line.starts_with(program) && line.contains("READ");
    let before = line.split_once(": io_uring_submit_req").filter(|_| ours)?.0;
    Some(before.rsplit(' ').next()?.parse::<f64>().ok()? * 1e6)
}

impl Drop for Submissions {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.instance);
        let _ = Command::new("umount").arg(&self.mount).status();
        let _ = fs::remove_dir(&self.mount);
    }
}
