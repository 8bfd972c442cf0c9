//! The block tracepoints of the Linux kernel as text: ftrace's `trace` and `trace_pipe`, `perf
//! script`, `trace-cmd report`.
//!
//! A line contains a task, a CPU, a time and an event: `appd-3001 [002] ..... 9904.831159:
//! block_rq_issue: 259,0 WS 4096 () 498455480 + 8 [appd]`. perf separates the thread id by a space
//! and puts `block:` before the event. `trace-cmd report -l` prints the CPU with flags (`2d..1.`)
//! instead of in brackets, and `trace-cmd report -R` prints fields (`dev=0x800000 sector=800 ...`).
//! Newer kernels have an I/O priority (`none,0,0`) before the name. ftrace's tracer `blk` prints
//! the events of blkparse instead: `9904.831159: 259,0 D WS 498455480 + 8 [appd]`.
//!
//! Units: seconds of the tracer's clock, sectors of 512 bytes. Epoch: the first request. Requests
//! are `block_bio_queue` events or, if there are none, `block_rq_issue` events. As in blktrace,
//! they end with `block_rq_complete` or `block_bio_complete`. Other events are skipped.

use std::borrow::Cow;

use super::events::calls::number;
use super::events::rwbs::category;
use super::events::text::{self, EventLine, Line, Unreadable, Words, device, remap, seconds};
use super::{Category, Event, EventKind, Input, Span, UNKNOWN_THREAD, blkparse};
use crate::fields::digits;
use crate::{Reader, TraceError};

/// Returns the event that a tracepoint in [`TRACEPOINTS`] reports.
fn event_kind(tracepoint: &[u8], span: Span) -> EventKind {
    match tracepoint {
        b"block_bio_queue" => EventKind::Queue(span),
        b"block_rq_insert" | b"block_io_start" => EventKind::Insert(span),
        b"block_rq_issue" => EventKind::Issue(span),
        b"block_rq_requeue" => EventKind::Requeue(span),
        _ => EventKind::Complete(span),
    }
}

/// The tracepoints that concern requests.
const TRACEPOINTS: [&[u8]; 9] = [
    b"block_bio_queue",
    b"block_rq_insert",
    b"block_io_start",
    b"block_rq_issue",
    b"block_rq_requeue",
    b"block_rq_complete",
    b"block_rq_error",
    b"block_bio_complete",
    b"block_io_done",
];

/// The events that end with an error number in brackets instead of a name.
const COMPLETIONS: [&[u8]; 3] = [b"block_rq_complete", b"block_rq_error", b"block_bio_complete"];

/// The ftrace format.
struct Ftrace;

impl EventLine for Ftrace {
    const NAME: &'static str = "ftrace";
    const LAYOUT: &'static str = "lines of ftrace, perf script or trace-cmd report such as \
        task-pid [cpu] seconds: block_rq_issue: 8,0 R 4096 () 800 + 8 [task]";
    const DISKS_COMPLETE: bool = true;

    fn parse<'a>(&mut self, line: &'a [u8]) -> Result<Line<'a>, Unreadable> {
        if let Some(remark) = remark(line) {
            return Ok(remark);
        }
        let Some(Parts { task, time, event, rest }) = parts(line) else {
            return Ok(if is_address(line) { Line::Summary } else { Line::Unknown });
        };
        let time_ns = seconds(time).ok_or("the time is not in seconds with decimals")?;
        let (pid, name) = match task {
            b"" => (UNKNOWN_THREAD, &b"<...>"[..]),
            task => thread(task).ok_or("the task has no id")?,
        };
        let made = |what| Event { time_ns, sequence: 0, pid, kind: what };
        if let Some(device) = device(event) {
            let event = blkparse::event(device, Words(rest))?;
            return Ok(event.map_or(Line::Other, |(what, name)| Line::Event(made(what), name)));
        }
        if matches!(event, b"block_bio_remap" | b"block_rq_remap") {
            let mut words = Words(rest);
            let to = words.next().and_then(device).ok_or("no device such as 8,0")?;
            let remap = remap(to, words.rest()).ok_or("no device after <-")?;
            let what = EventKind::Remap(Box::new(remap));
            return Ok(Line::Event(made(what), None));
        }
        if !TRACEPOINTS.contains(&event) {
            return Ok(Line::Other);
        }
        let (mut span, comm) = span(rest)?;
        if COMPLETIONS.contains(&event) {
            span.category = span.category.completed_with(comm);
        }
        // Completed requests may have no sectors left.
        if event == b"block_io_done" && span.bytes == 0 {
            return Ok(Line::Other);
        }
        let what = event_kind(event, span);
        let is_end = matches!(what, EventKind::Complete(_) | EventKind::Requeue(_));
        let name = if matches!(name, b"<...>") { comm } else { name };
        Ok(Line::Event(made(what), Some(name).filter(|_| !is_end)))
    }

    fn is_insert(&self, line: &[u8]) -> bool {
        parts(line).is_some_and(|Parts { event, rest, .. }| {
            matches!(event, b"block_rq_insert" | b"block_io_start")
                || device(event).is_some() && Words(rest).next() == Some(&b"I"[..])
        })
    }
}

/// Recognizes comments and reports about lost events: `CPU:3 [LOST 25 EVENTS]`, `PERF_RECORD_LOST
/// lost 25`, and ftrace's statement of how many entries are in its buffer and how many were
/// written.
fn remark(line: &[u8]) -> Option<Line<'static>> {
    let line = line.trim_ascii();
    let after = |word: &[u8]| line.get(memchr::memmem::find(line, word)? + word.len()..);
    let count = |rest: &[u8]| Line::Lost(Words(rest).find_map(digits));
    if let Some(rest) = after(b"PERF_RECORD_LOST lost ") {
        return Some(count(rest));
    }
    if let Some(rest) = after(b"# entries-in-buffer/entries-written: ") {
        let mut counts = Words(rest).next()?.split(|&byte| byte == b'/').map(digits);
        let (stored, written) = (counts.next()??, counts.next()??);
        return Some(match written.checked_sub(stored) {
            Some(lost) if lost > 0 => Line::Lost(Some(lost)),
            _ => Line::Summary,
        });
    }
    let begins = [&b"#"[..], b"cpus=", b"version =", b"CPU ", b"CPU:"];
    if !begins.iter().any(|begin| line.starts_with(begin)) {
        return None;
    }
    let lost = after(b"[LOST").map(count).or(after(b"DROPPED").map(|_| Line::Lost(None)));
    Some(lost.unwrap_or(Line::Summary))
}

/// Returns whether a line is an address in a call chain (`perf record -g`).
fn is_address(line: &[u8]) -> bool {
    let first = Words(line).next().unwrap_or_default();
    first.len() >= 6 && first.iter().all(u8::is_ascii_hexdigit)
}

/// The parts of a line.
struct Parts<'a> {
    task: &'a [u8],
    time: &'a [u8],
    event: &'a [u8],
    rest: &'a [u8],
}

/// Splits a line: `task [cpu] flags time: event: rest`. The event may follow a number of samples.
fn parts(line: &[u8]) -> Option<Parts<'_>> {
    // The time is the first word that is a decimal number followed by a colon. The event comes
    // next.
    let mut from = 0;
    loop {
        let colon = from + memchr::memmem::find(line.get(from..)?, b": ")?;
        let blank = line[..colon].iter().rposition(u8::is_ascii_whitespace);
        let start = blank.map_or(0, |blank| blank + 1);
        let time = line.get(start..colon)?;
        // A device number also contains a comma, but followed by fewer digits.
        let mark = memchr::memchr2(b'.', b',', time);
        let decimals = mark.map_or(&b""[..], |mark| &time[mark + 1..]);
        let is_mark = mark.is_some_and(|mark| time[mark] == b'.' || decimals.len() >= 6);
        if is_mark
            && time.iter().enumerate().all(|(at, byte)| byte.is_ascii_digit() || Some(at) == mark)
        {
            let mut words = Words(line.get(colon + 1..)?);
            let mut event = words.next()?;
            if digits(event).is_some() {
                event = words.next()?;
            }
            let event = match event.strip_suffix(b":") {
                Some(event) => event.rsplit(|&byte| byte == b':').next()?,
                None => device(event).map(|_| event)?,
            };
            return Some(Parts { task: task(line.get(..start)?), time, event, rest: words.rest() });
        }
        from = colon + 1;
    }
}

/// Returns the task from the text before the time: the part before the CPU in brackets, if there is
/// one.
fn task(before: &[u8]) -> &[u8] {
    let cpu = |&at: &usize| {
        let inside = before.get(at + 1..).and_then(|rest| rest.split(|&byte| byte == b']').next());
        inside.is_some_and(|inside| digits(inside).is_some())
    };
    let open = memchr::memrchr_iter(b'[', before).find(cpu);
    let task = match open {
        Some(open) => before.get(..open).unwrap_or_default().trim_ascii(),
        None => without_flags(before.trim_ascii()),
    };
    // ftrace may also record the process of the thread: `task-pid ( tgid)`.
    match memchr::memrchr(b'(', task) {
        Some(at) if task.ends_with(b")") => task.get(..at).unwrap_or_default().trim_ascii(),
        _ => task,
    }
}

/// Removes the CPU and the flags that `trace-cmd report -l` prints after a task: `dd-7  1d..2.`.
fn without_flags(task: &[u8]) -> &[u8] {
    let start = task.iter().rposition(u8::is_ascii_whitespace).map_or(0, |blank| blank + 1);
    let (before, last) = task.split_at(start);
    let flags = last.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(last.len());
    let is_flags = flags > 0
        && (4..=6).contains(&(last.len() - flags))
        && last[flags..].iter().all(|byte| byte.is_ascii_alphanumeric() || b".#".contains(byte));
    if is_flags && start > 0 { before.trim_ascii() } else { task }
}

/// Returns the thread id and the name of a task: `name-7` in ftrace, `name 7` or `name 6/7` in
/// perf.
fn thread(task: &[u8]) -> Option<(u32, &[u8])> {
    // perf writes -1 for an unknown thread.
    if task.ends_with(b" -1") {
        return Some((UNKNOWN_THREAD, b"<...>"));
    }
    let last = task.iter().rposition(|byte| !byte.is_ascii_digit() && *byte != b'/');
    let (name, ids) = task.split_at(last.map_or(0, |last| last + 1));
    let id = ids.rsplit(|&byte| byte == b'/').next().filter(|id| !id.is_empty());
    let name = name.strip_suffix(b"-").or_else(|| name.strip_suffix(b" ")).unwrap_or(name);
    let id = digits(id?).and_then(|id| u32::try_from(id).ok())?;
    Some((id, name.trim_ascii()))
}

/// Parses what follows the name of an event: `8,16 R 4096 () 800 + 8 none,0,0 [appd]`. Only events
/// of requests contain the number of bytes and a command in parentheses.
fn span(rest: &[u8]) -> Result<(Span, &[u8]), Unreadable> {
    if rest.trim_ascii().starts_with(b"dev=") {
        return span_of_fields(rest);
    }
    let mut words = Words(rest);
    let device = words.next().and_then(device).ok_or("no device such as 8,0")?;
    let category_ = words.next().and_then(category).ok_or("unknown letters of the operation")?;
    let mut span = Span { sector: 0, bytes: 0, device, category: category_ };
    let mut rest = words.rest();
    if let Some(open) = command(rest) {
        let close = open + memchr::memchr(b')', &rest[open..]).ok_or("no ) after the command")?;
        if close > open + 1 {
            span.category = span.category.with(Category::PASSTHROUGH);
        }
        rest = rest.get(close + 1..).unwrap_or_default();
    }
    let mut words = Words(rest);
    let sector = words.number("the sector is not a number")?;
    if words.next() != Some(b"+") {
        return Err("no + between sector and count".into());
    }
    let count = words.number("the count of sectors is not a number")?;
    let bytes = count.checked_mul(512).and_then(|bytes| u32::try_from(bytes).ok());
    span.bytes = bytes.ok_or("the count of sectors is out of range")?;
    // A flush has no position, and may be shown at the highest possible sector.
    span.sector = if count == 0 && sector == u64::MAX { 0 } else { sector };
    if span.impossible_value().is_some() {
        return Err("a request over 1 GiB, or beyond 2^64 bytes".into());
    }
    let rest = words.rest();
    let name = memchr::memchr(b'[', rest).and_then(|at| rest.get(at + 1..)?.strip_suffix(b"]"));
    Ok((span, name.unwrap_or_default()))
}

/// Parses the fields of an event that `trace-cmd report -R` prints: `dev=0x800000 sector=800
/// nr_sector=8 rwbs=R comm=dd`.
fn span_of_fields(rest: &[u8]) -> Result<(Span, &[u8]), Unreadable> {
    let field = |name: &str| {
        let mut words = Words(rest);
        words.find_map(|word| word.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
    };
    let wanted =
        |name, reason: &'static str| field(name).and_then(number).ok_or(Cow::Borrowed(reason));
    let device = match field("dev").unwrap_or_default() {
        pair if pair.contains(&b',') => device(pair),
        word => number(word).and_then(|number| u32::try_from(number).ok()),
    };
    let device = device.ok_or("dev is not a device")?;
    let category = field("rwbs").and_then(category).ok_or("unknown letters in rwbs")?;
    let sector = wanted("sector", "sector is not a number")?;
    let sectors = wanted("nr_sector", "nr_sector is not a number")?;
    let bytes = sectors.checked_mul(512).and_then(|bytes| u32::try_from(bytes).ok());
    let bytes = bytes.ok_or("nr_sector is out of range")?;
    let sector = if bytes == 0 && sector == u64::MAX { 0 } else { sector };
    let span = Span { sector, bytes, device, category };
    match span.impossible_value() {
        Some(_) => Err("a request over 1 GiB, or beyond 2^64 bytes".into()),
        None => Ok((span, field("error").or(field("comm")).unwrap_or_default())),
    }
}

/// Returns where the command in parentheses begins. A number of bytes may precede it.
fn command(rest: &[u8]) -> Option<usize> {
    let at = memchr::memchr(b'(', rest)?;
    let before = rest.get(..at)?.trim_ascii();
    (before.is_empty() || digits(before).is_some()).then_some(at)
}

pub(crate) fn sniff(head: &[u8]) -> bool {
    let event = |line: &[u8]| {
        let of_requests = |event: &[u8]| event.starts_with(b"block_") || device(event).is_some();
        parts(line).is_some_and(|parts| of_requests(parts.event))
    };
    head.split(|&byte| byte == b'\n').any(event)
}

pub(crate) fn open(input: Input) -> Result<Box<dyn Reader>, TraceError> {
    Ok(text::open(Ftrace, input))
}

#[cfg(test)]
mod tests;
