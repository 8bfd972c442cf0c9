//! Determines what the kernel's flusher writes, from the kernel's trace of bios (tracefs,
//! `block:block_bio_queue`).
//!
//! A task that writes through the page cache sends no requests to the disk; a kernel thread does so
//! later. The simulator has no page cache, so it replays what that thread wrote, in the same order.
//! All these writes are due at the time of the first, because only a lack of free requests makes
//! the flusher wait.

use std::fs;
use std::io;

use forebay_core::{Nanos, Op};

use crate::outcome::Times;
use crate::script::{Io, Pace, Script, Task};

const TRACEFS: &str = "/sys/kernel/tracing";
const EVENT: &str = "events/block/block_bio_queue/enable";
const MARK: &str = "forebay-guest begins ";
/// The number of bios that the flusher submits together (`BLK_MAX_REQUEST_COUNT`).
const PLUGGED: u32 = 32;
/// The name of the task that represents the flusher.
pub(crate) const NAME: &str = "flusher";
/// The kernel's counters of dirty pages are imprecise, so the flusher leaves some pages. Our main
/// thread syncs them at the end.
const LAST: &str = "[forebay-guest]";
/// Settings with which dirty pages are written back at once and writers are not throttled.
const SYSCTL: [(&str, &str); 2] =
    [("dirty_background_bytes", "4096"), ("dirty_bytes", "1073741824")];

fn set(path: &str, value: &str) -> io::Result<()> {
    let path = format!("{TRACEFS}/{path}");
    fs::write(&path, value)
        .map_err(|error| io::Error::new(error.kind(), format!("{path}: {error}")))
}

/// Starts tracing. `machine_ns` returns the current time of the machine's clock.
pub(crate) fn begin(machine_ns: impl FnOnce() -> u64) -> io::Result<()> {
    for (key, value) in SYSCTL {
        fs::write(format!("/proc/sys/vm/{key}"), value)?;
    }
    for (path, value) in
        [("trace_clock", "mono"), ("buffer_size_kb", "16384"), (EVENT, "1"), ("tracing_on", "1")]
    {
        set(path, value)?;
    }
    set("trace_marker", &format!("{MARK}{}", machine_ns()))
}

/// Stops tracing. Returns the writes that none of our tasks submitted, with their times on the
/// machine's clock.
pub(crate) fn end(sectors: u64) -> io::Result<Vec<(u64, Io)>> {
    set(EVENT, "0")?;
    let trace = fs::read_to_string(format!("{TRACEFS}/trace"))?;
    fs::write(format!("{TRACEFS}/trace"), "")?;
    Ok(writes(&trace, sectors))
}

/// Returns the writes in the text of a trace that no task of the script submitted. The disk has
/// `sectors` sectors.
fn writes(trace: &str, sectors: u64) -> Vec<(u64, Io)> {
    let (mut mark, mut out) = (None, Vec::new());
    for line in trace.lines().filter(|line| !line.starts_with('#')) {
        if let Some((head, ns)) = line.split_once(MARK) {
            mark = time_ns(head).zip(ns.trim().parse::<u64>().ok());
        }
        let Some((head, event)) = line.split_once("block_bio_queue: ") else { continue };
        let words: Vec<&str> = event.split_whitespace().collect();
        // For example: 259,0 W 2048 + 8 [kworker/u4:1]
        let &[_, kind, sector, "+", count, task, ..] = words.as_slice() else { continue };
        let (Some(at), Some((mark_at, mark_ns))) = (time_ns(head), mark) else { continue };
        let (Ok(sector), Ok(count)) = (sector.parse::<u64>(), count.parse::<u32>()) else {
            continue;
        };
        let is_flusher = task.starts_with("[kworker/") || task.starts_with(LAST);
        if !kind.starts_with('W') || !is_flusher || sector >= sectors {
            continue;
        }
        let (offset, len) = (sector * 512, count * 512);
        let io = Io { op: Op::Write, offset, len, time: Nanos::ZERO };
        out.push(((mark_ns + at).saturating_sub(mark_at), io));
    }
    out
}

/// Returns the time of a line. `head` is the line up to the event and ends in `SECONDS.MICROS:
/// event: `.
fn time_ns(head: &str) -> Option<u64> {
    let word = head.split_whitespace().rev().find_map(|word| {
        let word = word.strip_suffix(':')?;
        word.split_once('.').filter(|(s, _)| s.bytes().all(|byte| byte.is_ascii_digit()))
    })?;
    let (s, us) = (word.0.parse::<u64>().ok()?, word.1.parse::<u64>().ok()?);
    Some(s * 1_000_000_000 + us * 1000)
}

/// Returns a task that represents the flusher, and the times of its writes. The given times are
/// relative to the start of the run.
pub(crate) fn task(writes: &[(Nanos, Io)]) -> (Task, Vec<Times>) {
    let start = writes.first().map_or(Nanos::ZERO, |(at, _)| *at);
    let times = |(at, _): &(Nanos, Io)| Times { due: start, submitted: *at, done: Nanos::ZERO };
    let task = Task {
        name: NAME.into(),
        pace: Pace::Flushed,
        depth: 1,
        batch: PLUGGED,
        start,
        ios: writes.iter().map(|(_, io)| *io).collect(),
    };
    (task, writes.iter().map(times).collect())
}

/// Replaces the page-cache writes in `script` with the flusher's writes in the text of an outcome.
pub(crate) fn replaced(script: Script, outcome: &str) -> Script {
    let mut writes = Vec::new();
    for line in outcome.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let &["req", NAME, _, _, offset, len, due, ..] = words.as_slice() else { continue };
        let (Ok(offset), Ok(len), Ok(due)) = (offset.parse(), len.parse(), due.parse()) else {
            continue;
        };
        writes.push((Nanos(due), Io { op: Op::Write, offset, len, time: Nanos::ZERO }));
    }
    let mut script = script;
    script.tasks.retain(|task| task.pace != Pace::Buffered);
    script.tasks.push(task(&writes).0);
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_of_the_flusher_are_distinguished_from_others() {
        let trace = "# tracer: nop\n\
            forebay-guest-93  [000] .....    10.000005: tracing_mark_write: forebay-guest begins 7000\n\
            reader-95  [000] .....    10.000105: block_bio_queue: 259,0 R 8 + 8 [reader]\n\
            kworker/u2:1-35  [000] .....    10.001005: block_bio_queue: 259,0 W 2048 + 16 [kworker/u2:1]\n\
            kworker/u2:1-35  [000] .....    10.001006: block_bio_queue: 259,0 FF 0 + 0 [kworker/u2:1]\n";
        let io = Io { op: Op::Write, offset: 1 << 20, len: 8192, time: Nanos::ZERO };
        assert_eq!(writes(trace, 1 << 30), [(7000 + 1_000_000, io)]);
        assert!(writes(trace, 2048).is_empty());
    }
}
