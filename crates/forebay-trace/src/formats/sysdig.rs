//! The output of sysdig in its default format, as a trace of files: each file is a volume.
//!
//! A line is `number time cpu process (thread) direction type arguments`: `579 14:41:22.852370475 1
//! cat (1425) > pread fd=3(<f>/etc/passwd) size=784 pos=64` when a call begins, and with `<` and
//! `res=784` when it returns. Times are times of day, or seconds (`-t a`, `-t r`).
//!
//! Units: bytes. Epoch: the first call. The positions of `read` and `write` are derived from
//! `lseek` and earlier calls. Calls that fail, transfer nothing, or are not for files (`<f>`) are
//! skipped.

use std::collections::HashMap;

use forebay_core::{Flags, Op};

use super::events::calls::{Call, CallLine, Request};
use super::{DayClock, scaled, words};
use crate::Stream;
use crate::fields::digits;
use crate::rows::RowError;

/// The maximum number of calls that wait for their return, and of positions that are tracked.
const HELD_MAX: usize = 1 << 16;

/// A call that has begun but not returned.
struct Begun {
    at_ns: u64,
    descriptor: Vec<u8>,
    position: Option<u64>,
}

/// The state of reading the output.
#[derive(Default)]
pub(super) struct Sysdig {
    clock: DayClock,
    /// The last call of each thread.
    begun: HashMap<u32, Begun>,
    /// The positions of descriptors, by process and by descriptor together with its file.
    positions: HashMap<(Vec<u8>, Vec<u8>), u64>,
    /// The name of the current call's file.
    file: Vec<u8>,
}

/// The parts of a line.
struct Parts<'a> {
    time: &'a [u8],
    process: &'a [u8],
    thread: &'a [u8],
    begins: bool,
    call: &'a [u8],
    arguments: &'a [u8],
}

/// Splits a line. Returns `None` if it is not an event.
fn parts(line: &[u8]) -> Option<Parts<'_>> {
    let begins = memchr::memmem::find(line, b") > ");
    let ends = memchr::memmem::find(line, b") < ");
    let close = begins.into_iter().chain(ends).min()?;
    let open = memchr::memrchr(b'(', line.get(..close)?)?;
    let mut before = words(line.get(..open)?);
    digits(before.next()?)?;
    let time = before.next()?;
    digits(before.next()?)?;
    let process = before.next()?;
    let thread = line.get(open + 1..close)?.split(|&byte| byte == b'.').next_back()?;
    let rest = line.get(close + 4..)?.trim_ascii_start();
    let call = words(rest).next()?;
    let begins = line.get(close + 2) == Some(&b'>');
    Some(Parts { time, process, thread, begins, call, arguments: rest.get(call.len()..)? })
}

/// Returns the value of `key=value`. Names of files may contain spaces, so such a value ends with a
/// parenthesis.
fn value<'a>(arguments: &'a [u8], key: &str) -> Option<&'a [u8]> {
    let start = words(arguments).find_map(|word| {
        let rest = word.strip_prefix(key.as_bytes())?.strip_prefix(b"=")?;
        Some(rest.as_ptr() as usize - arguments.as_ptr() as usize)
    })?;
    let rest = arguments.get(start..)?;
    let end = match memchr::memchr(
        b'(',
        rest.get(..rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len()))?,
    ) {
        Some(_) => {
            memchr::memmem::find(rest, b") ").map_or(rest.trim_ascii_end().len(), |at| at + 1)
        }
        None => rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len()),
    };
    rest.get(..end)
}

/// Returns the path of a descriptor such as `3(<f>/etc/passwd)`, or `None` if it is not a file.
fn file(descriptor: &[u8]) -> Option<&[u8]> {
    let inside = descriptor.get(memchr::memchr(b'(', descriptor)? + 1..)?.strip_suffix(b")")?;
    inside.strip_prefix(b"<f>").filter(|path| !path.is_empty())
}

impl CallLine for Sysdig {
    const NAME: &'static str = "sysdig";
    const LAYOUT: &'static str = "those of sysdig in its default format, such as \
        NUMBER TIME CPU PROCESS (THREAD) > pread fd=3(<f>/FILE) size=4096 pos=0";

    fn is_line(line: &[u8]) -> bool {
        parts(line).is_some()
    }

    const ABSOLUTE: &'static str = "print the trace with sysdig -t a";

    fn time(line: &[u8]) -> Option<u64> {
        scaled(parts(line)?.time, 9)
    }

    fn parse<'a>(&'a mut self, line: &'a [u8]) -> Result<Call<'a>, RowError> {
        let Some(parts) = parts(line) else { return Ok(Call::Other) };
        let at_ns = match parts.time.contains(&b':') {
            true => self.clock.ns(parts.time)?,
            false => scaled(parts.time, 9)
                .ok_or_else(|| RowError::new("time", parts.time, "a time of day or seconds"))?,
        };
        let thread = digits(parts.thread).and_then(|id| u32::try_from(id).ok());
        let thread = thread.ok_or_else(|| RowError::new("thread", parts.thread, "an id"))?;
        if !parts.begins {
            return Ok(self.end(&parts, thread, at_ns));
        }
        if self.begun.len() >= HELD_MAX {
            self.begun.clear();
        }
        let descriptor = value(parts.arguments, "fd").unwrap_or_default().to_vec();
        let position = value(parts.arguments, "pos").and_then(digits);
        if parts.call == b"close" {
            self.positions.remove(&(parts.process.to_vec(), descriptor.clone()));
        }
        self.begun.insert(thread, Begun { at_ns, descriptor, position });
        Ok(Call::Other)
    }

    fn sentences(&self) -> Vec<String> {
        self.clock.sentence().into_iter().collect()
    }
}

impl Sysdig {
    /// Processes the return of a call. Newer versions of sysdig repeat the arguments there.
    fn end<'a>(&'a mut self, parts: &Parts<'a>, thread: u32, end_ns: u64) -> Call<'a> {
        let begun = self.begun.remove(&thread);
        let own = value(parts.arguments, "fd").map(<[u8]>::to_vec);
        let Some(descriptor) = own.or(begun.as_ref().map(|begun| begun.descriptor.clone())) else {
            return Call::Other;
        };
        let result = value(parts.arguments, "res").unwrap_or_default();
        let key = (parts.process.to_vec(), descriptor);
        if parts.call == b"lseek" {
            if let Some(position) = digits(result) {
                self.set_position(key, position);
            }
            return Call::Other;
        }
        let op = match parts.call {
            b"read" | b"readv" | b"pread" | b"preadv" => Op::Read,
            b"write" | b"writev" | b"pwrite" | b"pwritev" => Op::Write,
            b"fsync" | b"fdatasync" => Op::Flush,
            _ => return Call::Other,
        };
        let Some(path) = file(&key.1) else { return Call::Skipped };
        let Some(len) = digits(result).filter(|&len| len > 0 || op == Op::Flush) else {
            return Call::Skipped;
        };
        self.file = path.to_vec();
        let stated = value(parts.arguments, "pos").and_then(digits);
        let stated = stated.or(begun.as_ref().and_then(|begun| begun.position));
        let (offset, len) = match (op, stated) {
            (Op::Flush, _) => (0, 0),
            (_, Some(offset)) => (offset, len),
            (_, None) => {
                let offset = self.positions.get(&key).copied().unwrap_or(0);
                self.set_position(key, offset.saturating_add(len));
                (offset, len)
            }
        };
        let at_ns = begun.as_ref().map_or(end_ns, |begun| begun.at_ns);
        let latency_ns = begun.and_then(|begun| end_ns.checked_sub(begun.at_ns));
        let name = String::from_utf8_lossy(parts.process).into_owned();
        let stream = Stream { thread: Some(thread), process: None, name };
        let (flags, volume) = (Flags::NONE, &self.file[..]);
        Call::Whole(Request { at_ns, op, offset, len, flags, volume, stream }, latency_ns)
    }

    fn set_position(&mut self, key: (Vec<u8>, Vec<u8>), position: u64) {
        if self.positions.len() >= HELD_MAX {
            self.positions.clear();
        }
        self.positions.insert(key, position);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::events::calls;
    use crate::formats::tests::{message, read};

    const TEXT: &[u8] =
        b"7 09:00:00.000001000 1 db (50) > pread fd=3(<f>/srv/my file) size=784 pos=64 \n\
        8 09:00:00.000002500 1 db (50.51) > read fd=4(<f>/srv/log) size=100\n\
        9 09:00:00.000003000 1 db (50) < pread res=784 data=.ELF.........\n\
        10 09:00:00.000004500 1 db (50.51) < read res=100 data=a) < b\n\
        11 09:00:00.000005000 0 db (50) > read fd=4(<f>/srv/log) size=100\n\
        12 09:00:00.000006000 0 db (50) < read res=30 data=..\n\
        13 09:00:00.000007000 0 db (50) > read fd=5(<4t>127.0.0.1:1->127.0.0.1:2) size=100\n\
        14 09:00:00.000008000 0 db (50) < read res=30 data=..\n\
        15 09:00:00.000009000 0 db (50) < switch next=0\n\
        16 09:00:00.000010000 0 db (50) < write res=10 data=.. fd=4(<f>/srv/log) size=10\n";

    #[test]
    fn calls_end_with_their_return_and_positions_are_followed() {
        let (records, dictionary, notes) = read(calls::open::<Sysdig>, TEXT);
        let seen: Vec<_> =
            records.iter().map(|r| (r.op, r.offset, r.len, r.latency.map(|l| l.0))).collect();
        assert_eq!(
            seen,
            [
                (Op::Read, 64, 784, Some(2_000)),
                (Op::Read, 0, 100, Some(2_000)),
                (Op::Read, 100, 30, Some(1_000)),
                (Op::Write, 130, 10, None),
            ]
        );
        assert_eq!(dictionary.volumes, ["/srv/my file", "/srv/log"]);
        assert_eq!((notes.rows_skipped, notes.warnings.len()), (1, 1), "{notes:?}");
    }

    #[test]
    fn differences_between_lines_are_refused() {
        let text = b"1 0.010000000 0 dd (4) > pread fd=3(<f>/a) size=4096 pos=0\n\
            2 0.000100000 0 dd (4) < pread res=4096 data=.\n\
            3 0.010000000 0 dd (4) > pread fd=3(<f>/a) size=4096 pos=4096\n\
            4 0.000100000 0 dd (4) < pread res=4096 data=.\n";
        let text = message(calls::open::<Sysdig>, text);
        assert!(text.contains("go back 2 times") && text.contains("sysdig -t a"), "{text}");
    }

    #[test]
    fn nonsense_names_line_and_column() {
        let bad = [TEXT, b"17 9:0x 0 db (50) > read fd=4(<f>/srv/log) size=1\n"].concat();
        let text = message(calls::open::<Sysdig>, &bad);
        assert!(text.contains("line 11") && text.contains("column time"), "{text}");
        assert!(calls::sniff::<Sysdig>(TEXT) && !calls::sniff::<Sysdig>(b"7 8 9 (x) > y\n"));
    }
}
