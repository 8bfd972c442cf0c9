//! Parses a line in blkparse's default format.

use std::borrow::Cow;

use crate::formats::events::rwbs::category;
use crate::formats::events::text::{Line, Unreadable, Words, device, remap, seconds};
use crate::formats::events::{Category, Event, EventKind, Span};

/// The beginnings of blkparse's output lines that are not events, such as those of the summary.
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

/// Actions that do not concern requests: `m` is a message, and `UT` is an unplug caused by a timer.
const OTHERS: [&[u8]; 14] =
    [b"G", b"M", b"F", b"P", b"U", b"UT", b"T", b"S", b"X", b"B", b"W", b"m", b"UI", b"?"];

/// Parses a line that is a comment or part of the summary. Returns None for any other line.
pub(super) fn summary(line: &[u8]) -> Option<Line<'static>> {
    let line = line.trim_ascii();
    if !SUMMARY.iter().any(|begin| line.starts_with(begin)) {
        return None;
    }
    // This line states how many events blktrace dropped.
    let skips = line.strip_prefix(b"Skips:").and_then(|rest| Words(rest).number("").ok());
    Some(match skips {
        Some(count) if count > 0 => Line::Lost(Some(count)),
        _ => Line::Summary,
    })
}

/// Returns the event with this action, or None if it does not concern a request. Fails if the
/// action is unknown.
pub(super) fn event_kind(action: &[u8], span: Span) -> Result<Option<EventKind>, Unreadable> {
    Ok(Some(match action {
        b"Q" => EventKind::Queue(span),
        b"I" => EventKind::Insert(span),
        b"D" => EventKind::Issue(span),
        b"R" => EventKind::Requeue(span),
        b"C" => EventKind::Complete(span),
        _ if OTHERS.contains(&action) => return Ok(None),
        _ => return Err("unknown action".into()),
    }))
}

/// Parses a line. The error states which part of an event is invalid.
pub(super) fn parse(line: &[u8]) -> Result<Line<'_>, Unreadable> {
    let mut words = Words(line);
    let Some(first) = words.next().filter(|first| first.contains(&b',')) else {
        return Ok(summary(line).unwrap_or(Line::Unknown));
    };
    let is_pair = first.iter().all(|byte| byte.is_ascii_digit() || *byte == b',');
    let device = match device(first) {
        Some(device) => device,
        None if is_pair => return Err("device number out of range".into()),
        None => return Ok(summary(line).unwrap_or(Line::Unknown)),
    };
    words.number("the CPU is not a number")?;
    let sequence = words.number("the sequence is not a number")?;
    let time_ns = words.next().and_then(seconds).ok_or("the time is not in seconds")?;
    let pid = words.number("the process id is not a number")?;
    let pid = u32::try_from(pid).map_err(|_| "the process id is out of range")?;
    let made = |what| Event { time_ns, sequence: sequence as u32, pid, kind: what };
    Ok(event(device, words)?.map_or(Line::Other, |(what, name)| Line::Event(made(what), name)))
}

/// An event, and the name of its process if the line contains one.
type NamedWhat<'a> = (EventKind, Option<&'a [u8]>);

/// Parses an event, starting with its action: `Q WS 800 + 8 [process]`. Returns the event and the
/// name of its process, or None if it does not concern a request.
pub(in crate::formats) fn event<'a>(
    device: u32,
    mut words: Words<'a>,
) -> Result<Option<NamedWhat<'a>>, Unreadable> {
    let action = words.next().ok_or("no action")?;
    if action == b"A" {
        let remap = remap(device, words.rest());
        return Ok(remap.map(|remap| (EventKind::Remap(Box::new(remap)), None)));
    }
    let nothing = Span { sector: 0, bytes: 0, device, category: Category::default() };
    if event_kind(action, nothing)?.is_none() {
        return Ok(None);
    }
    let category = words.next().and_then(category).ok_or("unknown RWBS")?;
    let (mut span, rest) = span(Span { category, ..nothing }, words)?;
    if span.impossible_value().is_some() {
        return Err("a request over 1 GiB, or beyond 2^64 bytes".into());
    }
    let name = match action {
        b"C" => {
            span.category = span.category.completed_with(process(rest).unwrap_or_default());
            None
        }
        b"R" => None,
        _ => Some(process(rest)?),
    };
    Ok(event_kind(action, span)?.map(|what| (what, name)))
}

/// Parses the sectors of an event: `sector + count`, only `sector` if it transfers no data, or a
/// number of bytes and a command in parentheses for a passed-through command.
fn span(mut span: Span, mut words: Words<'_>) -> Result<(Span, &[u8]), Unreadable> {
    let rest = words.rest();
    if rest.is_empty() {
        return Err("no sector and no process".into());
    }
    if matches!(rest[0], b'[' | b'(') {
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

/// Returns whether parentheses contain a right-aligned time (`-t`) rather than a hexadecimal
/// command.
fn elapsed(rest: &[u8]) -> bool {
    let inside = rest[1..].split(|&byte| byte == b')').next().unwrap_or_default().trim_ascii();
    !inside.is_empty() && inside.iter().all(u8::is_ascii_digit)
}

/// Returns the name in the last brackets, which is empty if blkparse did not know it.
fn process(rest: &[u8]) -> Result<&[u8], Unreadable> {
    let open = match rest.first() {
        Some(b'(') => rest.windows(3).position(|three| three == b") [").map(|at| at + 2),
        _ => Some(0),
    };
    let name = open.and_then(|at| rest.get(at..));
    let name = name.and_then(|name| name.strip_prefix(b"[")?.strip_suffix(b"]"));
    let name = name.ok_or(Cow::Borrowed("no [process] at the end"))?;
    Ok(if name == b"(null)" { b"" } else { name })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::events::Remap;

    fn parsed(line: &str) -> (Event, Option<&[u8]>) {
        match parse(line.as_bytes()).unwrap() {
            Line::Event(event, name) => (event, name),
            _ => panic!("{line}"),
        }
    }

    #[test]
    fn a_queue_event_has_all_its_parts() {
        let parsed = parsed("  7,6    1   258     5.2422 23264  Q FWFSM 42456536 + 8 [jbd2 [x] 8]");
        assert_eq!(parsed.1, Some(&b"jbd2 [x] 8"[..]));
        assert_eq!((parsed.0.time_ns, parsed.0.pid), (5_242_200_000, 23264));
        let EventKind::Queue(span) = parsed.0.kind else { panic!() };
        assert_eq!((span.sector, span.bytes, span.device), (42456536, 4096, 7 << 20 | 6));
        assert_eq!(span.category.0, 0x901e & !0x10);
    }

    #[test]
    fn the_forms_without_data_are_distinguished() {
        let span = |line| *parsed(line).0.kind.span().unwrap();
        assert_eq!(span("8,0 1 1 0.0 5 Q FWS [x]").op(), Some(forebay_core::Op::Flush));
        assert_eq!(span("8,0 1 1 0.0 0 C WFS 575480360 [0]").sector, 575480360);
        assert_eq!(span("8,0 1 1 0.0 5 D N 0 (00 ..) [x y]").op(), None);
        assert_eq!(span("8,0 1 1 0.0 5 D R 36 (12 01 00) [x]").op(), None);
        assert_eq!(span("8,0 1 1 0.0 5 D R 800 + 8 (  1234) [x]").bytes, 4096);
        assert_eq!(parsed("8,0 1 1 0.0 5 D R 800 + 8 (  1234) [x]").1, Some(&b"x"[..]));
    }

    #[test]
    fn a_remap_has_both_places() {
        let EventKind::Remap(remap) = parsed("8,0 1 7 0.5 5 A WS 2056 + 8 <- (253,1) 8").0.kind
        else {
            panic!()
        };
        let (to, from) = (8 << 20, 253 << 20 | 1);
        assert_eq!(*remap, Remap { to, sector: 2056, from, from_sector: 8, bytes: 4096 });
        assert!(matches!(parse(b"8,0 1 7 0.5 5 A WS 2056 + 8"), Ok(Line::Other)));
    }

    #[test]
    fn broken_events_say_what_is_broken() {
        let fault = |line: &str| parse(line.as_bytes()).err();
        assert!(fault("8,0 1 1 0.0 5 Q R 800 + 99999999 [x]").is_some());
        assert!(fault("8,0 1 1 0.0 5 Q R 36028797018963967 + 16 [x]").is_some());
        assert!(fault("8,0 1 1 0.0 5 Q Y 800 + 8 [x]").is_some());
        assert!(fault("8,0 1 1 0.0 5 Q R 800 + 8 [x").is_some());
        for sector in ["-8", "x8", "0x8"] {
            let told = fault(&format!("8,0 1 1 0.0 5 Q R {sector} + 8 [x]")).unwrap();
            assert_eq!(told, "the sector is not a number");
        }
        assert!(fault("8,0 1 1 12 5 Q R 800 + 8 [x]").is_some());
        assert!(fault("8,0 1 1 0.0 5 Y R 800 + 8 [x]").is_some());
        assert!(fault("8,0 1 1 0.0000000001 5 Q R 800 + 8 [x]").is_some());
    }
}
