//! Parses lines in a format that the user passed to `blkparse -f`.
//!
//! The format string contains blkparse's fields: `%a` action, `%d` RWBS, `%D` device, or `%M` and
//! `%m` for its numbers, `%T` seconds and `%t` nanoseconds, `%S` sector, `%n` sectors or `%N`
//! bytes, `%p` process id, `%C` command, `%s` sequence, `%e` error. Other fields are skipped.
//! Widths are ignored, because spaces before a field may be padding. A field ends where the text
//! after it begins.

use super::line::{event_kind, summary};
use crate::fields::digits;
use crate::formats::events::rwbs::category;
use crate::formats::events::text::{EventLine, Line, Unreadable, device, remap};
use crate::formats::events::{Category, Event, EventKind, ONLY_DEVICE, Span, UNKNOWN_THREAD};

/// A part of a format string.
enum Part {
    /// Text between fields, without spaces around it. A single space if there is nothing else.
    Text(Vec<u8>),
    Field(u8),
}

/// A parsed format string.
pub(super) struct Template(Vec<Part>);

/// The fields that a format string must contain, and their meanings.
const REQUIRED: [(&[u8], &str); 5] = [
    (b"a", "%a (action)"),
    (b"d", "%d (RWBS)"),
    (b"T", "%T (seconds, usually as %T.%t)"),
    (b"S", "%S (sector)"),
    (b"nN", "%n (sectors) or %N (bytes)"),
];

impl Template {
    /// Parses a format string. The error states which field is missing.
    pub(super) fn new(format: &str) -> Result<Template, String> {
        let format = format.replace("\\n", " ").replace("\\t", " ");
        let (mut parts, mut bytes) = (Vec::new(), format.bytes().peekable());
        while let Some(byte) = bytes.next() {
            if byte != b'%' {
                match parts.last_mut() {
                    Some(Part::Text(text)) => text.push(byte),
                    _ => parts.push(Part::Text(vec![byte])),
                }
                continue;
            }
            while bytes.next_if(|byte| byte.is_ascii_digit() || *byte == b'-').is_some() {}
            match bytes.next() {
                Some(letter) if letter.is_ascii_alphabetic() => parts.push(Part::Field(letter)),
                _ => return Err("a letter after each %".into()),
            }
        }
        let template = Template(parts);
        let lacks = |letters: &&[u8]| !letters.iter().any(|letter| template.has(*letter));
        match REQUIRED.iter().find(|(letters, _)| lacks(letters)) {
            Some((_, name)) => Err(format!("a format with {name}")),
            None => Ok(template),
        }
    }

    fn has(&self, wanted: u8) -> bool {
        self.0.iter().any(|part| matches!(part, Part::Field(letter) if *letter == wanted))
    }

    /// Splits a line into its fields, each with its letter. Returns `None` if the line does not
    /// have this format.
    fn split<'a>(&self, line: &'a [u8]) -> Option<Vec<(u8, &'a [u8])>> {
        let (mut fields, mut rest) = (Vec::with_capacity(self.0.len()), line);
        for (place, part) in self.0.iter().enumerate() {
            match part {
                Part::Text(text) => {
                    let text = text.trim_ascii();
                    rest = rest.trim_ascii_start().strip_prefix(text)?;
                }
                Part::Field(letter) => {
                    rest = rest.trim_ascii_start();
                    let end = match self.0.get(place + 1) {
                        Some(Part::Text(text)) => {
                            // A device itself contains a comma.
                            let own = rest.iter().position(|&byte| byte == b',');
                            let own = own.filter(|_| *letter == b'D').map_or(0, |at| at + 1);
                            let is_last = place + 2 == self.0.len();
                            own + end_before(text, rest.get(own..)?, is_last)?
                        }
                        Some(Part::Field(_)) => word_end(rest),
                        None => rest.len(),
                    };
                    let (field, after) = rest.split_at(end);
                    fields.push((*letter, field.trim_ascii()));
                    rest = after;
                }
            }
        }
        Some(fields)
    }
}

/// Returns where the field at the beginning of `rest` ends, given the `text` that follows it.
fn end_before(text: &[u8], rest: &[u8], is_last: bool) -> Option<usize> {
    let mark = text.trim_ascii();
    match mark.is_empty() {
        true if is_last => Some(rest.len()),
        true => Some(word_end(rest)),
        // If this text ends the line, the last occurrence ends the field, because the name before
        // it may contain the text too.
        false if is_last => memchr::memmem::rfind(rest, mark),
        false => memchr::memmem::find(rest, mark),
    }
}

fn word_end(rest: &[u8]) -> usize {
    rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len())
}

impl EventLine for Template {
    const NAME: &'static str = "blkparse";
    const LAYOUT: &'static str = "lines in the stated format of blkparse -f";

    fn parse<'a>(&mut self, line: &'a [u8]) -> Result<Line<'a>, Unreadable> {
        let Some(fields) = self.split(line) else {
            return Ok(summary(line).unwrap_or(Line::Unknown));
        };
        let find = |wanted: u8| fields.iter().find(|(letter, _)| *letter == wanted).map(|f| f.1);
        let number = |wanted: u8, reason: &'static str| match find(wanted) {
            Some(field) => digits(field).map(Some).ok_or(Unreadable::Borrowed(reason)),
            None => Ok(None),
        };
        let seconds = number(b'T', "%T is not a number")?.unwrap_or(0);
        let nanos = number(b't', "%t is not a number")?.unwrap_or(0);
        let time_ns = seconds.checked_mul(1_000_000_000).and_then(|ns| ns.checked_add(nanos));
        let time_ns = time_ns.ok_or("%T is out of range")?;
        let pid = match number(b'p', "%p is not a number")? {
            Some(pid) => u32::try_from(pid).map_err(|_| "%p is out of range")?,
            None => UNKNOWN_THREAD,
        };
        let sequence = number(b's', "%s is not a number")?.unwrap_or(0) as u32;
        let device = match (find(b'D'), find(b'M'), find(b'm')) {
            (Some(both), ..) => device(both).ok_or("%D is not a device")?,
            (_, Some(major), Some(minor)) => {
                device(&[major, b",", minor].concat()).ok_or("%M and %m are not a device")?
            }
            _ => ONLY_DEVICE,
        };
        let event = |what| Event { time_ns, sequence, pid, kind: what };
        let action = find(b'a').unwrap_or_default();
        if action == b"A" {
            let what = remap(device, line).map(|remap| EventKind::Remap(Box::new(remap)));
            return Ok(what.map_or(Line::Other, |what| Line::Event(event(what), None)));
        }
        let letters = find(b'd').unwrap_or_default();
        let nothing = Span { sector: 0, bytes: 0, device, category: Category::default() };
        if event_kind(action, nothing)?.is_none() {
            return Ok(Line::Other);
        }
        let category = category(letters).ok_or("%d is not RWBS")?;
        let sector = number(b'S', "%S is not a number")?.unwrap_or(0);
        let bytes = match number(b'N', "%N is not a number")? {
            Some(bytes) => Some(bytes),
            None => number(b'n', "%n is not a number")?.unwrap_or(0).checked_mul(512),
        };
        let bytes = bytes
            .and_then(|bytes| u32::try_from(bytes).ok())
            .ok_or("the length is out of range")?;
        let category = match action {
            b"C" => category.completed_with(find(b'e').unwrap_or_default()),
            _ => category,
        };
        let span = Span { sector, bytes, category, ..nothing };
        if span.impossible_value().is_some() {
            return Err("a request over 1 GiB, or beyond 2^64 bytes".into());
        }
        let name = find(b'C').filter(|_| !matches!(action, b"C" | b"R"));
        Ok(event_kind(action, span)?.map_or(Line::Other, |what| Line::Event(event(what), name)))
    }

    fn is_insert(&self, line: &[u8]) -> bool {
        let fields = self.split(line).unwrap_or_default();
        fields.iter().any(|(letter, field)| *letter == b'a' && *field == b"I")
    }

    fn is_whole(&self, line: &[u8]) -> bool {
        matches!(self.0.last(), Some(Part::Text(text)) if !text.trim_ascii().is_empty()
            && line.trim_ascii_end().ends_with(text.trim_ascii()))
    }
}
