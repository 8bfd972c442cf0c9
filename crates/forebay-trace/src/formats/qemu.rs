//! Trace events from QEMU's log backend with timestamps (`-msg timestamp=on`):
//! `4242@1767000000.000100:virtio_blk_handle_read vdev 0x5600 req 0x7f00 sector 2048 nsectors 8`.
//!
//! Units: seconds, sectors of 512 bytes, bytes. Epoch: the first request. The address of a
//! virtio-blk request identifies it until `virtio_blk_rw_complete` or `virtio_blk_req_complete`. If
//! a log has no such requests, `blk_co_preadv` and `blk_co_pwritev` are read, which have no
//! completions. Each device or backend is a volume, named by its address.

use forebay_core::{Flags, Op};

use super::events::calls::{Call, CallLine, Fields, Request, number};
use super::events::text::seconds;
use super::log::words;
use crate::Stream;
use crate::rows::RowError;

/// The events that begin a request, with the names of its volume, offset and length, and their unit
/// in bytes.
const BEGINNINGS: [(&str, Op, [&str; 3], u64); 4] = [
    ("virtio_blk_handle_read", Op::Read, ["vdev", "sector", "nsectors"], 512),
    ("virtio_blk_handle_write", Op::Write, ["vdev", "sector", "nsectors"], 512),
    ("blk_co_preadv", Op::Read, ["blk", "offset", "bytes"], 1),
    ("blk_co_pwritev", Op::Write, ["blk", "offset", "bytes"], 1),
];
/// The events that end a request. Reads and writes have both.
const ENDS: [&str; 2] = ["virtio_blk_rw_complete", "virtio_blk_req_complete"];

/// The state of reading a log.
#[derive(Default)]
pub(super) struct Qemu {
    /// Whether there was any virtio-blk request.
    has_virtio: bool,
}

/// Splits a line into its time and its event.
fn parts(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = line.trim_ascii();
    let (process, rest) = line.split_at(memchr::memchr(b'@', line)?);
    number(process)?;
    let (time, event) = rest.get(1..)?.split_at(memchr::memchr(b':', rest)?.checked_sub(1)?);
    Some((time, event.get(1..)?))
}

/// Returns whether an event begins a request.
fn begins(event: &[u8]) -> bool {
    BEGINNINGS.iter().any(|(name, ..)| event == name.as_bytes())
}

impl CallLine for Qemu {
    const NAME: &'static str = "qemu";
    const LAYOUT: &'static str = "QEMU's trace events with timestamps (-msg timestamp=on): \
        PID@SECONDS:virtio_blk_handle_read vdev ADDRESS req ADDRESS sector N nsectors N";

    const SNIFFED_LINES: usize = usize::MAX;

    fn is_line(line: &[u8]) -> bool {
        let event = parts(line).map_or(line, |(_, event)| event);
        begins(words(event).next().unwrap_or_default())
    }

    fn parse<'a>(&'a mut self, line: &'a [u8]) -> Result<Call<'a>, RowError> {
        let event_of = |line: &'a [u8]| words(line).next().unwrap_or_default();
        let Some((time, event)) = parts(line) else {
            return match begins(event_of(line)) {
                true => Err(RowError::new("time", line, "PID@SECONDS: before the event")),
                false => Ok(Call::Other),
            };
        };
        let at_ns = seconds(time).ok_or_else(|| RowError::new("time", time, "seconds"))?;
        let name = event_of(event);
        let fields = Fields(event, "");
        let request = fields.value("req").and_then(number).unwrap_or(0);
        if ENDS.iter().any(|end| name == end.as_bytes()) {
            let has_failed = fields.value("ret").is_some_and(|ret| ret.starts_with(b"-"));
            return Ok(match has_failed {
                true => Call::Fail([request, 0]),
                false => Call::AlsoEnd([request, 0], at_ns),
            });
        }
        let begun = BEGINNINGS.iter().find(|(begin, ..)| name == begin.as_bytes());
        let Some((_, op, [volume, offset, len], unit)) = begun else { return Ok(Call::Other) };
        let is_virtio = *unit == 512;
        // The block layer's own events repeat the requests of virtio-blk.
        if !is_virtio && self.has_virtio {
            return Ok(Call::Other);
        }
        self.has_virtio |= is_virtio;
        let bytes = |name: &'static str| Ok(fields.number(name)?.saturating_mul(*unit));
        let (offset, len) = (bytes(offset)?, bytes(len)?);
        let volume = fields.value(volume).unwrap_or(b"disk");
        let (flags, stream) = (Flags::NONE, Stream::default());
        let made = Request { at_ns, op: *op, offset, len, flags, volume, stream };
        if !is_virtio {
            return Ok(Call::Whole(made, None));
        }
        Ok(Call::Begin([request, 0], made))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::events::calls;
    use crate::formats::tests::{message, read};

    const TEXT: &[u8] =
        b"77@1767000000.000100:virtio_blk_handle_read vdev 0x56 req 0x7f sector 16 nsectors 8\n\
        77@1767000000.000110:blk_co_preadv blk 0x1 bs 0x2 offset 8192 bytes 4096 flags 0x0\n\
        77@1767000000.000150:virtio_blk_handle_write vdev 0x56 req 0x80 sector 0 nsectors 1\n\
        77@1767000000.000400:virtio_blk_rw_complete vdev 0x56 req 0x7f ret 0\n\
        77@1767000000.000401:virtio_blk_req_complete vdev 0x56 req 0x7f status 0\n\
        77@1767000000.000500:virtio_blk_rw_complete vdev 0x56 req 0x80 ret 0\n";

    #[test]
    fn requests_of_virtio_end_with_their_completion() {
        let (records, dictionary, notes) = read(calls::open::<Qemu>, TEXT);
        let seen: Vec<_> =
            records.iter().map(|r| (r.offset, r.len, r.latency.unwrap().0)).collect();
        assert_eq!(seen, [(8192, 4096, 300_000), (0, 512, 350_000)]);
        assert_eq!((records[0].op, records[1].op), (Op::Read, Op::Write));
        assert_eq!(dictionary.volumes, ["0x56"]);
        assert_eq!((notes.rows_skipped, notes.warnings.len()), (0, 0), "{notes:?}");
    }

    #[test]
    fn requests_of_virtio_take_the_place_of_those_of_the_block_layer() {
        let probe =
            b"77@1767000000.000001:blk_co_preadv blk 0x1 bs 0x2 offset 0 bytes 512 flags 0x0\n";
        let (records, ..) = read(calls::open::<Qemu>, &[probe, TEXT].concat());
        assert_eq!(records.len(), 3);
    }

    #[test]
    fn events_of_the_block_layer_have_no_completions() {
        let text = TEXT.split_inclusive(|&b| b == b'\n').nth(1).unwrap();
        let (records, ..) = read(calls::open::<Qemu>, text);
        assert_eq!((records[0].offset, records[0].len, records[0].latency), (8192, 4096, None));
        let text = message(calls::open::<Qemu>, &text[b"77@1767000000.000110:".len()..]);
        assert!(text.contains("-msg timestamp=on") && text.contains("column time"), "{text}");
    }
}
