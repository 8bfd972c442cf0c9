//! The output of `spdk_trace` with events of block devices (`-e bdev`): `0:  6026.658 (126560)
//! BDEV_IO_START  id: i7  type: 1  ctx: 0x2000  offset: 2048  len: 8`, and `BDEV_IO_DONE` with the
//! same id.
//!
//! Units: microseconds since the trace began, blocks. The size of a block is not recorded; 512
//! bytes are assumed, with a note. Epoch: the first request. The types are those of SPDK: 1 read, 2
//! write, 3 unmap, 4 flush; others are skipped. The events do not name the device. Each core is a
//! stream.

use forebay_core::{Flags, Op};

use super::clock::scaled;
use super::events::calls::{Call, CallLine, Fields, Request, number};
use super::log::words;
use crate::rows::RowError;
use crate::trace::Stream;

/// The assumed size of a block in bytes.
const BLOCK_BYTES: u64 = 512;

/// The state of reading the output.
#[derive(Default)]
pub(super) struct Spdk {
    has_requests: bool,
}

/// Splits a line into the core, the time in microseconds, and the words from the name of the event
/// on.
fn parts(line: &[u8]) -> Option<(u64, &[u8], &[u8])> {
    let (core, rest) = line.split_at(memchr::memchr(b':', line)?);
    let core = core.trim_ascii();
    let core = number(core.strip_prefix(b"[").unwrap_or(core))?;
    let time = words(rest.get(1..)?).next()?;
    let close = memchr::memchr(b')', rest)?;
    Some((core, time, rest.get(close + 1..)?.trim_ascii()))
}

impl CallLine for Spdk {
    const NAME: &'static str = "spdk";
    const LAYOUT: &'static str = "those of spdk_trace: core: us (tsc) BDEV_IO_START id: i1 type: 1 ctx: 0x0 offset: 0 len: 8";

    const SNIFFED_LINES: usize = usize::MAX;

    fn is_line(line: &[u8]) -> bool {
        parts(line).is_some_and(|(.., rest)| rest.starts_with(b"BDEV_IO_"))
    }

    const ABSOLUTE: &'static str = "run spdk_trace without -T";

    fn time(line: &[u8]) -> Option<u64> {
        scaled(parts(line)?.1, 3)
    }

    fn parse<'a>(&'a mut self, line: &'a [u8]) -> Result<Call<'a>, RowError> {
        let Some((core, time, rest)) = parts(line) else { return Ok(Call::Other) };
        let name = words(rest).next().unwrap_or_default();
        if !matches!(name, b"BDEV_IO_START" | b"BDEV_IO_DONE") {
            return Ok(Call::Other);
        }
        let at_ns = scaled(time, 3)
            .ok_or_else(|| RowError::new("time", time, "microseconds such as 6026.658"))?;
        let fields = Fields(rest, ":");
        let id = fields.value("id").unwrap_or_default();
        let digits: Vec<u8> = id.iter().copied().filter(u8::is_ascii_digit).collect();
        let id = number(&digits).ok_or_else(|| RowError::new("id", id, "an id such as i7"))?;
        if name == b"BDEV_IO_DONE" {
            return Ok(Call::End([id, 0], at_ns));
        }
        let op = match fields.number("type")? {
            1 => Op::Read,
            2 => Op::Write,
            3 => Op::Trim,
            4 => Op::Flush,
            _ => return Ok(Call::Skipped),
        };
        let bytes = |key: &'static str| Ok(fields.number(key)?.saturating_mul(BLOCK_BYTES));
        let (offset, len) =
            if op == Op::Flush { (0, 0) } else { (bytes("offset")?, bytes("len")?) };
        self.has_requests = true;
        let stream = Stream { name: format!("core {core}"), ..Stream::default() };
        let (flags, volume) = (Flags::NONE, &b"disk"[..]);
        Ok(Call::Begin([id, 0], Request { at_ns, op, offset, len, flags, volume, stream }))
    }

    fn sentences(&self) -> Vec<String> {
        let note = "the format does not give the size of its blocks: 512 bytes are assumed";
        self.has_requests.then(|| note.to_owned()).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::events::calls;
    use crate::formats::tests::{message, read};

    const TEXT: &[u8] = b"TSC Rate: 2100000000\n\
        2:     10.500 ( 22050)   BDEV_IO_START    id:    i7   type:   2  ctx:  0x2000  offset:  16  len:  8\n\
        2:     11.000 ( 23100)   NVMF_REQ_NEW     id:    r1\n\
        3:     12.000 ( 25200)   BDEV_IO_START    id:    i8   type:   1  ctx:  0x2010  offset:  0x0  len:  1\n\
        2:     90.750 (190575)   BDEV_IO_DONE     id:    i7   time:  80.250  ctx:  0x2000\n";

    #[test]
    fn records_of_one_id_are_a_request() {
        let (records, dictionary, notes) = read(calls::open::<Spdk>, TEXT);
        let seen: Vec<_> =
            records.iter().map(|r| (r.op, r.offset, r.len, r.latency.map(|l| l.0))).collect();
        assert_eq!(seen, [(Op::Write, 8192, 4096, Some(80_250)), (Op::Read, 0, 512, None)]);
        assert_eq!(records[1].at.0, 1500);
        assert_eq!(dictionary.streams[1].name, "core 3");
        assert_eq!(notes.warnings.len(), 2, "{notes:?}");
    }

    #[test]
    fn differences_between_lines_are_refused() {
        let begin =
            " 0: 20.000 ( 48000) BDEV_IO_START id: i1 type: 1 ctx: 0x2000 offset: 16 len: 8\n";
        let end = " 0: 80.000 (192000) BDEV_IO_DONE id: i1 time: 80.000 ctx: 0x2000\n";
        let text = message(calls::open::<Spdk>, [begin, end].repeat(2).concat().as_bytes());
        assert!(text.contains("spdk_trace without -T"), "{text}");
    }

    #[test]
    fn nonsense_names_line_and_column() {
        let bad = [TEXT, b"2: 99.0 (1) BDEV_IO_START id: i9 type: 1 ctx: 0x0 offset: x len: 8\n"]
            .concat();
        let text = message(calls::open::<Spdk>, &bad);
        assert!(text.contains("line 6") && text.contains("column offset"), "{text}");
        assert!(calls::sniff::<Spdk>(TEXT) && !calls::sniff::<Spdk>(b"0: 1 2\n"));
    }
}
