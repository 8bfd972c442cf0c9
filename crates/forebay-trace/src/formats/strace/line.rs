//! Splits a line of strace's output.

use crate::fields::digits;
use crate::formats::clock::{DayClock, scaled};
use crate::rows::RowError;

/// What a line contains: the id of the thread (0 if there is none), the time of the call, and its
/// text.
pub(super) enum Line<'a> {
    Whole(u32, u64, &'a [u8]),
    /// The first part of an interrupted call.
    Unfinished(u32, u64, &'a [u8]),
    /// The second part of an interrupted call: its name, and what follows the first part.
    Resumed(u32, &'a [u8], &'a [u8]),
    /// A signal, the end of a process, or other output.
    Other,
}

/// A call that has returned.
pub(super) struct Whole<'a> {
    pub(super) name: &'a [u8],
    pub(super) arguments: Vec<&'a [u8]>,
    /// The first word of the result, or `None` if the call failed or never returned.
    pub(super) result: Option<&'a [u8]>,
    pub(super) latency_ns: Option<u64>,
}

/// The clock of the times. They may be times of day, or relative to the previous line (`-r`).
#[derive(Default)]
pub(super) struct Times {
    pub(super) day: DayClock,
    /// If times are relative to the previous line, their sum up to the last line. The first line is
    /// at zero.
    sum_ns: Option<u64>,
    is_begun: bool,
}

impl Times {
    fn ns(&mut self, time: &[u8]) -> Result<u64, RowError> {
        if time.contains(&b':') {
            return self.day.ns(time);
        }
        let ns = scaled(time, 9)
            .ok_or_else(|| RowError::new("time", time, "seconds such as 1767000000.000100"))?;
        if !std::mem::replace(&mut self.is_begun, true) && ns == 0 {
            self.sum_ns = Some(0);
        }
        Ok(self.sum_ns.as_mut().map_or(ns, |sum_ns| {
            *sum_ns = sum_ns.saturating_add(ns);
            *sum_ns
        }))
    }
}

const UNFINISHED: &[u8] = b"<unfinished ...>";
/// The expected content if a call has no time.
pub(super) const TIME_EXPECTED: &str = "a time before the call (strace -ttt)";

/// Splits a line.
pub(super) fn parse<'a>(line: &'a [u8], times: &mut Times) -> Result<Line<'a>, RowError> {
    let mut rest = line.trim_ascii();
    let mut thread = 0;
    if let Some(inside) = rest.strip_prefix(b"[pid ") {
        let Some(end) = memchr::memchr(b']', inside) else { return Ok(Line::Other) };
        thread = id(inside.get(..end).unwrap_or_default())?;
        rest = inside.get(end + 1..).unwrap_or_default().trim_ascii_start();
    } else if let Some((word, after)) = word(rest).filter(|(word, _)| digits(word).is_some()) {
        thread = id(word)?;
        rest = after;
    }
    let Some((time, rest)) = word(rest) else { return Ok(Line::Other) };
    if !time.contains(&b'.') && !time.contains(&b':') || rest.is_empty() {
        return untimed(time, rest);
    }
    let at_ns = times.ns(time)?;
    if rest.starts_with(b"+++") || rest.starts_with(b"---") {
        return Ok(Line::Other);
    }
    if let Some(rest) = rest.strip_prefix(b"<... ") {
        let resumed = memchr::memmem::find(rest, b" resumed>");
        let split =
            resumed.and_then(|at| Some((&rest[..at], rest.get(at + b" resumed>".len()..)?)));
        return Ok(split.map_or(Line::Other, |(name, after)| Line::Resumed(thread, name, after)));
    }
    Ok(match rest.strip_suffix(UNFINISHED) {
        Some(begun) => Line::Unfinished(thread, at_ns, begun),
        None => Line::Whole(thread, at_ns, rest),
    })
}

/// Handles a line without a time, which is an error if it contains a call.
fn untimed<'a>(first: &[u8], rest: &[u8]) -> Result<Line<'a>, RowError> {
    let is_call = memchr::memchr(b'(', first).is_some_and(|open| {
        open > 0
            && first.iter().take(open).all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
    });
    match is_call && memchr::memmem::find(rest, b" = ").is_some() {
        true => Err(RowError::new("time", first, TIME_EXPECTED)),
        false => Ok(Line::Other),
    }
}

fn id(word: &[u8]) -> Result<u32, RowError> {
    let id = digits(word.trim_ascii()).and_then(|id| u32::try_from(id).ok());
    id.ok_or_else(|| RowError::new("pid", word, "an id below 2^32"))
}

fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text.iter().position(u8::is_ascii_whitespace)?;
    Some((text.get(..end)?, text.get(end..)?.trim_ascii_start()))
}

/// Splits a call: `name(arguments) = result <duration>`.
pub(super) fn call(text: &[u8]) -> Option<Whole<'_>> {
    let open = memchr::memchr(b'(', text)?;
    let name = text.get(..open)?;
    if name.is_empty() || !name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_') {
        return None;
    }
    let (arguments, end) = arguments(text.get(open + 1..)?)?;
    let rest = text.get(open + 1 + end..)?.trim_ascii().strip_prefix(b"=")?.trim_ascii();
    let result = word(rest).map_or(rest, |(result, _)| result);
    let result = Some(result).filter(|result| !result.starts_with(b"-") && *result != b"?");
    let latency = rest.strip_suffix(b">").and_then(|rest| {
        let at = memchr::memrchr(b'<', rest)?;
        scaled(rest.get(at + 1..)?, 9)
    });
    Some(Whole { name, arguments, result, latency_ns: latency })
}

/// Splits arguments at the commas outside of strings and brackets, up to the closing parenthesis.
/// Returns the arguments and the position after the parenthesis.
fn arguments(text: &[u8]) -> Option<(Vec<&[u8]>, usize)> {
    let (mut all, mut from, mut depth, mut at) = (Vec::new(), 0, 0u32, 0);
    loop {
        match *text.get(at)? {
            b'"' => at = string_end(text, at + 1)?,
            b'(' | b'[' | b'{' => depth += 1,
            b')' if depth == 0 => {
                all.push(text.get(from..at)?.trim_ascii());
                return Some((all, at + 1));
            }
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            // The file of a descriptor (strace -y). Its path may contain anything except `>`.
            b'<' if text.get(at + 1) == Some(&b'/') => at += memchr::memchr(b'>', &text[at..])?,
            b',' if depth == 0 => {
                all.push(text.get(from..at)?.trim_ascii());
                from = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
}

/// Returns the position of the quote that ends a string.
fn string_end(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *text.get(at)? {
            b'"' => return Some(at),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}
