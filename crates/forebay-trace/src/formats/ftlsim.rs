//! blkparse events as rewritten by the preprocessing of WiscSee: `pid action operation offset size
//! time gap sync`.
//!
//! Units: offset and size in bytes, time and gap in seconds. The gap, which is the time since the
//! previous event, is ignored. Epoch: the first request. Action `D` is an issue, and `C` a
//! completion (mostly of pid 0). The operation is `read`, `write` or `discard`; sync is `True` or
//! `False`. The events are those of blkparse, so latencies are derived in the same way. There is
//! one volume; the names of processes are not recorded.

use crate::fields::digits;
use crate::formats::Input;
use crate::formats::clock::scaled;
use crate::formats::events::text::{self, EventLine, Line, Unreadable};
use crate::formats::events::{Category, Event, EventKind, ONLY_DEVICE, SECTOR_BYTES, Span};
use crate::formats::log::words;
use crate::rows::RowError;
use crate::{Reader, TraceError};

/// Parses the event in a line.
fn parse(line: &[u8]) -> Result<Event, RowError> {
    let mut words = words(line);
    let mut word = || words.next().unwrap_or_default();
    let number = |column, word| {
        digits(word).ok_or_else(|| RowError::new(column, word, "a whole number without a sign"))
    };
    let pid = word();
    let pid = number("pid", pid).and_then(|n| {
        u32::try_from(n).map_err(|_| RowError::new("pid", pid, "an id below 2^32"))
    })?;
    let action = word();
    let category = match word() {
        b"read" => Category::READ,
        b"write" => Category::WRITE,
        b"discard" => Category::DISCARD.with(Category::WRITE),
        other => return Err(RowError::new("operation", other, "read, write or discard")),
    };
    let (offset, size, time) = (word(), word(), word());
    let _gap = word();
    let category = match word() {
        b"True" => category.with(Category::SYNC),
        b"False" => category,
        other => return Err(RowError::new("sync", other, "True or False")),
    };
    let start = number("offset", offset)?;
    if !start.is_multiple_of(SECTOR_BYTES) {
        return Err(RowError::new("offset", offset, "a multiple of 512 bytes"));
    }
    let bytes = u32::try_from(number("size", size)?)
        .map_err(|_| RowError::new("size", size, "less than 4 GiB"))?;
    let span = Span { sector: start / SECTOR_BYTES, bytes, device: ONLY_DEVICE, category };
    if let Some((got, expected)) = span.impossible_value() {
        return Err(RowError::new("size", got.as_bytes(), expected));
    }
    let time_ns = scaled(time, 9)
        .ok_or_else(|| RowError::new("time", time, "seconds such as 0.000122793"))?;
    let what = match action {
        b"D" => EventKind::Issue(span),
        b"C" => EventKind::Complete(span),
        other => return Err(RowError::new("action", other, "D or C")),
    };
    Ok(Event { time_ns, sequence: 0, pid, kind: what })
}

/// The ftlsim format.
struct Ftlsim;

impl EventLine for Ftlsim {
    const NAME: &'static str = "ftlsim";
    const LAYOUT: &'static str =
        "pid D|C read|write|discard offset-bytes size-bytes time-s gap-s True|False";

    fn parse<'a>(&mut self, line: &'a [u8]) -> Result<Line<'a>, Unreadable> {
        parse(line).map(|event| Line::Event(event, None)).map_err(|wrong| wrong.to_string().into())
    }

    fn is_whole(&self, line: &[u8]) -> bool {
        line.trim_ascii_end().ends_with(b"e")
    }
}

pub(crate) fn sniff(head: &[u8]) -> bool {
    text::sniff(Ftlsim, head)
}

pub(crate) fn open(input: Input) -> Result<Box<dyn Reader>, TraceError> {
    Ok(text::open(Ftlsim, input))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::tests::{leniently, message, read};
    use forebay_core::{Flags, Nanos, Op};

    const TEXT: &[u8] = b"7 D write 4096 1024 1.000000000 0 True\n\
        8 D discard 0 4194304 1.000000500 5e-07 False\r\n\n\
        0 C write 4096 1024 1.000001 4e-07 True\n";

    #[test]
    fn issues_are_requests_and_completions_their_ends() {
        let (records, dictionary, notes) = read(open, TEXT);
        assert_eq!(records.len(), 2);
        let write = records[0];
        assert_eq!((write.op, write.offset, write.len), (Op::Write, 4096, 1024));
        assert_eq!((write.latency, write.flags), (Some(Nanos(1000)), Flags::SYNC));
        let trim = records[1];
        assert_eq!((trim.at.0, trim.op, trim.len, trim.latency), (500, Op::Trim, 4 << 20, None));
        let threads: Vec<_> = dictionary.streams.iter().map(|s| s.thread).collect();
        assert_eq!((threads, notes.format), (vec![Some(7), Some(8)], "ftlsim"));
        assert_eq!(dictionary.volumes, ["disk"]);
    }

    #[test]
    fn nonsense_names_line_and_column() {
        for (bad, part) in [
            ("x D read 0 512 1 0 True", "column pid"),
            ("4294967296 D read 0 512 1 0 True", "2^32"),
            ("7 Q read 0 512 1 0 True", "D or C"),
            ("7 D erase 0 512 1 0 True", "column operation"),
            ("7 D read 5 512 1 0 True", "multiple of 512"),
            ("7 D read 0 2147483648 1 0 True", "1 GiB"),
            ("7 D read 0 4294967296 1 0 True", "4 GiB"),
            ("7 D read 0 512 1e-5 0 True", "column time"),
            ("7 D read 0 512 1 0", "column sync"),
        ] {
            let (records, _, notes) =
                read(leniently(open), &[TEXT, bad.as_bytes(), b"\n"].concat());
            let text = notes.warnings.join("; ");
            assert!(
                records.len() == 2 && text.contains("line 5 (got") && text.contains(part),
                "{bad}: {text}"
            );
            let bytes = [TEXT, bad.as_bytes(), b"\n", bad.as_bytes(), b"\n"].concat();
            assert!(
                message(leniently(open), &bytes).contains("2 of the first 5 rows cannot be read"),
                "{bad}"
            );
        }
        assert!(sniff(TEXT) && !sniff(b"8,16 0 1 0.5 7 Q R 1 + 1 [x]\n"));
    }
}
