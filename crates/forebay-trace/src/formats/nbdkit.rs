//! The log of nbdkit's log filter: `2026-01-31 12:00:00.123456 connection=1 Read id=1 offset=0x0
//! count=0x1000 ...`, and `connection=1 ...Read id=1 return=0` when the request ends.
//!
//! Units: bytes, in hexadecimal. Epoch: the first request; dates are in the machine's local time.
//! Each connection is a stream, and the export that it opens is its volume. Zeroing counts as a
//! trim if it may leave a hole, and otherwise as a write. Requests that fail, and those for the
//! cache or for the map of extents, are skipped.

use std::collections::HashMap;

use forebay_core::{Flags, Op};

use super::events::calls::{Call, CallLine, Fields, Request, number};
use super::log::words;
use crate::Stream;
use crate::columns::date_ns;
use crate::rows::RowError;

/// The length of a date and time with microseconds.
const DATE: usize = "2026-01-31 12:00:00.123456".len();

/// The state of reading a log, including the export of each connection.
#[derive(Default)]
pub(super) struct Nbdkit {
    exports: HashMap<u64, Vec<u8>>,
}

impl CallLine for Nbdkit {
    const NAME: &'static str = "nbdkit";
    const LAYOUT: &'static str =
        "those of nbdkit's log filter, such as DATE connection=N Read id=N offset=0x0 count=0x0";
    const ENDINGS: &'static [&'static str] = &[" ...", " return=0"];

    fn is_line(line: &[u8]) -> bool {
        let (date, rest) = line.split_at(DATE.min(line.len()));
        let marks = [&b" connection="[..], b" Ready thread_model=", b" Preconnect id="];
        date_ns(date).is_some() && marks.iter().any(|mark| rest.starts_with(mark))
    }

    fn parse<'a>(&'a mut self, line: &'a [u8]) -> Result<Call<'a>, RowError> {
        let (date, rest) = line.split_at(DATE.min(line.len()));
        let at_ns = date_ns(date).ok_or_else(|| {
            RowError::new("time", date, "a date such as 2026-01-31 12:00:00.123456")
        })?;
        let fields = Fields(rest, "=");
        let Some(connection) = fields.value("connection").and_then(number) else {
            return Ok(Call::Other);
        };
        let action = words(rest).nth(1).unwrap_or_default();
        if action == b"Connect" {
            let export = fields.value("export").unwrap_or_default();
            self.exports.insert(connection, export.trim_ascii().to_vec());
        }
        let Some(id) = fields.value("id").and_then(number) else { return Ok(Call::Other) };
        let key = [connection, id];
        let op = match (action.strip_prefix(b"...").unwrap_or(action), fields.value("trim")) {
            (b"Read", _) => Op::Read,
            (b"Trim", _) | (b"Zero", Some(b"1")) => Op::Trim,
            (b"Write" | b"Zero", _) => Op::Write,
            (b"Flush", _) => Op::Flush,
            _ => return Ok(Call::Other),
        };
        if action.starts_with(b"...") {
            let has_failed = fields.value("return").is_some_and(|word| word.starts_with(b"-"));
            return Ok(if has_failed { Call::Fail(key) } else { Call::End(key, at_ns) });
        }
        let (offset, len) = match op {
            Op::Flush => (0, 0),
            _ => (fields.number("offset")?, fields.number("count")?),
        };
        let flags = if fields.value("fua") == Some(b"1") { Flags::FUA } else { Flags::NONE };
        let export = self.exports.get(&connection).map_or(&b"\"\""[..], |name| name);
        let volume = if export == b"\"\"" { b"disk" } else { export };
        let volume = volume.strip_prefix(b"\"").unwrap_or(volume);
        let volume = volume.strip_suffix(b"\"").unwrap_or(volume);
        let name = format!("connection {connection}");
        let stream = Stream { name, ..Stream::default() };
        Ok(Call::Begin(key, Request { at_ns, op, offset, len, flags, volume, stream }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::events::calls;
    use crate::formats::tests::{message, read};

    const TEXT: &[u8] = b"2026-03-01 09:00:00.000001 Ready thread_model=3\n\
        2026-03-01 09:00:00.000100 connection=1 Connect export=\"vol\" tls=0 size=0x800000\n\
        2026-03-01 09:00:00.000200 connection=1 Write id=1 offset=0x1000 count=0x2000 fua=1 ...\n\
        2026-03-01 09:00:00.000250 connection=1 Read id=2 offset=0x0 count=0x200 ...\n\
        2026-03-01 09:00:00.000300 connection=1 ...Read id=2 return=0\n\
        2026-03-01 09:00:00.000400 connection=1 ...Write id=1 return=0\n\
        2026-03-01 09:00:00.000500 connection=1 Zero id=3 offset=0x0 count=0x1000 trim=1 fua=0 ...\n\
        2026-03-01 09:00:00.000600 connection=1 ...Zero id=3 return=-1 error=EIO\n\
        2026-03-01 09:00:00.000700 connection=1 Extents id=4 offset=0x0 count=0x1000 req_one=0 ...\n\
        2026-03-01 09:00:00.000800 connection=1 ...Extents id=4 return=0\n\
        2026-03-01 09:00:00.000900 connection=1 Flush id=5 ...\n";

    #[test]
    fn requests_end_with_their_return() {
        let (records, dictionary, notes) = read(calls::open::<Nbdkit>, TEXT);
        let seen: Vec<_> = records.iter().map(|r| (r.op, r.len, r.latency.map(|l| l.0))).collect();
        assert_eq!(
            seen,
            [(Op::Write, 8192, Some(200_000)), (Op::Read, 512, Some(50_000)), (Op::Flush, 0, None)]
        );
        assert_eq!((records[0].offset, records[0].flags), (4096, Flags::FUA));
        assert_eq!(dictionary.volumes, ["vol"]);
        assert_eq!(dictionary.streams[0].name, "connection 1");
        assert_eq!((notes.rows_skipped, notes.warnings.len()), (1, 1), "{notes:?}");
    }

    #[test]
    fn nonsense_names_line_and_column() {
        let bad =
            [TEXT, b"2026-03-01 09:00:01.000000 connection=1 Read id=9 offset=x count=0x1 ...\n"]
                .concat();
        let text = message(calls::open::<Nbdkit>, &bad);
        assert!(text.contains("line 12") && text.contains("column offset"), "{text}");
        assert!(
            calls::sniff::<Nbdkit>(TEXT)
                && !calls::sniff::<Nbdkit>(b"2026-03-01 09:00:00.000001,1,2\n")
        );
    }
}
