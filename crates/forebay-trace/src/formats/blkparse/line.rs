//! Parses one line of blkparse's default text.

use super::super::blktrace::{Category, Event, Span, What};
use super::rwbs::category;

/// The kinds of lines.
pub(super) enum Line {
    /// An event that concerns requests.
    Event(Box<Parsed>),
    /// A remap of a request from the second device to the first.
    Remap(u32, u32),
    /// Another event (plug, merge, message …).
    Other,
    Blank,
    /// A comment, or part of the summary at the end.
    Summary,
    Unknown,
}

/// An event and the thread's name, if the line has it.
pub(super) struct Parsed {
    pub(super) event: Event,
    pub(super) name: Option<Box<str>>,
}

/// The beginnings of summary lines and of other blkparse output that is not an event.
const SUMMARY: [&[u8]; 20] = [
    b"#",
    b"CPU",
    b"Total (",
    b"Reads Queued:",
    b"Read Dispatches:",
    b"Reads Requeued:",
    b"Reads Completed:",
    b"Read Merges:",
    b"Read depth:",
    b"PC Reads Queued:",
    b"PC Read Disp.:",
    b"PC Reads Req.:",
    b"PC Reads Compl.:",
    b"IO unplugs:",
    b"Throughput (",
    b"Events (",
    b"Skips:",
    b"Input file",
    b"Device:",
    b"...",
];

/// Actions that are irrelevant for requests; `m` is a message, `UT` an unplug by timer.
const OTHERS: [&[u8]; 17] = [
    b"A", b"G", b"M", b"F", b"I", b"P", b"U", b"UT", b"T", b"S", b"R", b"X", b"B", b"W", b"m",
    b"UI", b"?",
];

/// An iterator over the words of a line that also gives access to the rest of the line.
struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    fn rest(&self) -> &'a [u8] {
        self.0.trim_ascii()
    }

    fn number(&mut self, what: &'static str) -> Result<u64, &'static str> {
        self.next().and_then(number).ok_or(what)
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let text = self.0.trim_ascii_start();
        let end = text.iter().position(|byte| byte.is_ascii_whitespace()).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        self.0 = rest;
        (!word.is_empty()).then_some(word)
    }
}

/// Parses a line. The error says which part of an event is invalid.
pub(super) fn parse(line: &[u8]) -> Result<Line, &'static str> {
    let mut words = Words(line);
    let Some(first) = words.next() else { return Ok(Line::Blank) };
    let Some((major, minor)) = device(first) else {
        let line = line.trim_ascii_start();
        let known = SUMMARY.iter().any(|begin| line.starts_with(begin));
        return Ok(if known { Line::Summary } else { Line::Unknown });
    };
    if major >= 1 << 12 || minor >= 1 << 20 {
        return Err("device number out of range");
    }
    words.number("the CPU is not a number")?;
    words.number("the sequence is not a number")?;
    let time_ns = words.next().and_then(seconds).ok_or("the time is not in seconds")?;
    let pid = words.number("the process id is not a number")?;
    let pid = u32::try_from(pid).map_err(|_| "the process id is out of range")?;
    let action = words.next().ok_or("no action")?;
    let device = (major as u32) << 20 | minor as u32;
    if OTHERS.contains(&action) {
        let from = (action == b"A").then(|| remapped_from(words.rest())).flatten();
        return Ok(from.map_or(Line::Other, |from| Line::Remap(device, from)));
    }
    let what = match action {
        b"Q" => What::Queue,
        b"D" => What::Issue,
        b"C" => What::Complete,
        _ => return Err("unknown action"),
    };
    let category = words.next().and_then(category).ok_or("unknown RWBS")?;
    let (span, rest) = span(Span { sector: 0, bytes: 0, device, category }, words)?;
    if span.fault().is_some() {
        return Err("a request over 1 GiB, or beyond 2^64 bytes");
    }
    let name = if action == b"C" { None } else { Some(process(rest)?) };
    let event = Event { time_ns, sequence: 0, pid, what: what(span) };
    Ok(Line::Event(Box::new(Parsed { event, name })))
}

/// Parses the device after the arrow of a remap: `W 2056 + 8 <- (253,0) 8`.
fn remapped_from(rest: &[u8]) -> Option<u32> {
    let arrow = memchr::memmem::find(rest, b"<- (")? + 4;
    let rest = rest.get(arrow..)?;
    let (major, minor) = device(rest.get(..memchr::memchr(b')', rest)?)?)?;
    (major < 1 << 12 && minor < 1 << 20).then_some((major as u32) << 20 | minor as u32)
}

/// Parses the sectors of the event: `sector + count`, only `sector` if it carries no data, or a
/// number of bytes and a command in parentheses if it is passed through.
fn span<'a>(mut span: Span, mut words: Words<'a>) -> Result<(Span, &'a [u8]), &'static str> {
    let rest = words.rest();
    if rest.is_empty() {
        return Err("no sector and no process");
    }
    if !rest[0].is_ascii_digit() {
        return Ok((span, rest));
    }
    span.sector = words.number("the sector is not a number")?;
    let rest = words.rest();
    if rest.first() != Some(&b'+') {
        if rest.starts_with(b"(") && !elapsed(rest) {
            span.category = span.category.with(Category::PASSTHROUGH);
        }
        return Ok((span, rest));
    }
    words.next();
    let count = words.number("the count of sectors is not a number")?;
    let bytes = count.checked_mul(512).and_then(|bytes| u32::try_from(bytes).ok());
    span.bytes = bytes.ok_or("the count of sectors is out of range")?;
    Ok((span, words.rest()))
}

/// Returns whether the parentheses hold a right-aligned time (`-t`), as opposed to a hexadecimal
/// command.
fn elapsed(rest: &[u8]) -> bool {
    let inside = rest[1..].split(|&byte| byte == b')').next().unwrap_or_default().trim_ascii();
    !inside.is_empty() && inside.iter().all(u8::is_ascii_digit)
}

/// Returns the name in the last brackets; empty if blkparse did not know it.
fn process(rest: &[u8]) -> Result<Box<str>, &'static str> {
    let open = match rest.first() {
        Some(b'(') => rest.windows(3).position(|three| three == b") [").map(|at| at + 2),
        _ => Some(0),
    };
    let name = open.and_then(|at| rest.get(at..));
    let name = name.and_then(|name| name.strip_prefix(b"[")?.strip_suffix(b"]"));
    let name = name.ok_or("no [process] at the end")?;
    Ok(if name == b"(null)" { "".into() } else { String::from_utf8_lossy(name).into() })
}

fn device(word: &[u8]) -> Option<(u64, u64)> {
    let comma = word.iter().position(|&byte| byte == b',')?;
    Some((number(&word[..comma])?, number(&word[comma + 1..])?))
}

fn number(word: &[u8]) -> Option<u64> {
    if word.is_empty() || word.len() > 20 {
        return None;
    }
    word.iter().try_fold(0u64, |sum, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}

/// Parses seconds with up to nine decimals, and returns nanoseconds.
fn seconds(word: &[u8]) -> Option<u64> {
    let dot = word.iter().position(|&byte| byte == b'.')?;
    let decimals = &word[dot + 1..];
    let scale = 9usize.checked_sub(decimals.len())?;
    let nanos = number(decimals)? * 10u64.pow(scale as u32);
    number(&word[..dot])?.checked_mul(1_000_000_000)?.checked_add(nanos)
}

/// Shortens the line for a message.
pub(super) fn shown(line: &[u8]) -> String {
    let line = String::from_utf8_lossy(line.trim_ascii()).into_owned();
    let start: String = line.chars().take(60).collect();
    if start.len() < line.len() { format!("{start:?}…") } else { format!("{start:?}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(line: &str) -> Parsed {
        match parse(line.as_bytes()).unwrap() {
            Line::Event(parsed) => *parsed,
            _ => panic!("{line}"),
        }
    }

    #[test]
    fn a_queue_event_has_all_its_parts() {
        let parsed = event("  7,6    1   258     5.2422 23264  Q FWFSM 42456536 + 8 [jbd2 [x] 8]");
        assert_eq!(parsed.name.as_deref(), Some("jbd2 [x] 8"));
        assert_eq!((parsed.event.time_ns, parsed.event.pid), (5_242_200_000, 23264));
        let What::Queue(span) = parsed.event.what else { panic!() };
        assert_eq!((span.sector, span.bytes, span.device), (42456536, 4096, 7 << 20 | 6));
        assert_eq!(span.category.0, 0x901e & !0x10);
    }

    #[test]
    fn the_forms_without_data_are_told_apart() {
        let span = |line| match event(line).event.what {
            What::Queue(span) | What::Issue(span) | What::Complete(span) => span,
            What::Name(_) | What::Run => panic!(),
        };
        assert_eq!(span("8,0 1 1 0.0 5 Q FWS [x]").op(), Some(forebay_core::Op::Flush));
        assert_eq!(span("8,0 1 1 0.0 0 C WFS 575480360 [0]").sector, 575480360);
        assert_eq!(span("8,0 1 1 0.0 5 D N 0 (00 ..) [x y]").op(), None);
        assert_eq!(span("8,0 1 1 0.0 5 D R 36 (12 01 00) [x]").op(), None);
        assert_eq!(span("8,0 1 1 0.0 5 D R 800 + 8 (  1234) [x]").bytes, 4096);
        assert_eq!(event("8,0 1 1 0.0 5 D R 800 + 8 (  1234) [x]").name.as_deref(), Some("x"));
    }

    #[test]
    fn broken_events_say_what_is_broken() {
        let fault = |line: &str| parse(line.as_bytes()).err();
        assert!(fault("8,0 1 1 0.0 5 Q R 800 + 99999999 [x]").is_some());
        assert!(fault("8,0 1 1 0.0 5 Q R 36028797018963967 + 16 [x]").is_some());
        assert!(fault("8,0 1 1 0.0 5 Q Z 800 + 8 [x]").is_some());
        assert!(fault("8,0 1 1 0.0 5 Q R 800 + 8 [x").is_some());
        assert!(fault("8,0 1 1 12 5 Q R 800 + 8 [x]").is_some());
        assert!(fault("8,0 1 1 0.0 5 Y R 800 + 8 [x]").is_some());
        assert!(fault("8,0 1 1 0.0000000001 5 Q R 800 + 8 [x]").is_some());
    }
}
