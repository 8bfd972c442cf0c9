//! The limits for requests in all formats, and the errors about requests that exceed them.

use std::borrow::Cow;
use std::path::Path;

use forebay_core::{Flags, Nanos, Op};

use crate::{Place, Record, TraceError};
use forebay_words::plural::{counted, verb};

/// The maximum plausible length of a request in bytes.
pub(crate) const LEN_BYTES_MAX: u64 = 1 << 30;

/// Requests must end before this byte.
pub(crate) const END_BYTES_MAX: u64 = 1 << 63;

/// The maximum plausible latency: a day in nanoseconds. Tracers subtract unsigned numbers, so a
/// completion that seems to precede its arrival gives a latency near 2^64.
pub(crate) const LATENCY_NS_MAX: u64 = 86_400_000_000_000;

const US_NS: u64 = 1_000;

/// Returns whether a latency, recorded in units of `unit_ns`, is a negative difference that wrapped
/// around in 64 or 32 bits. With 32 bits, only differences of up to 2^20 units are recognized.
/// Tracers that print ms or s with decimals count in us.
#[inline(always)]
pub(crate) fn is_wrapped(latency_ns: u64, unit_ns: u64) -> bool {
    let wraps = |unit_ns: u64| {
        let below = (unit_ns << 32).wrapping_sub(latency_ns).wrapping_sub(1);
        below < unit_ns << 20
    };
    latency_ns > LATENCY_NS_MAX || wraps(unit_ns) || unit_ns > US_NS && wraps(US_NS)
}

/// Returns the note about `count` latencies that count as unknown, or None if there are none.
pub(crate) fn wrapped_sentence(count: u64) -> Option<String> {
    (count > 0).then(|| {
        format!(
            "{} {} a day; {} treated as unknown",
            counted(count, "latency"),
            verb(count, "is negative or exceeds", "are negative or exceed"),
            verb(count, "it is", "they are")
        )
    })
}

/// Up to this many negative latencies are always accepted as unknown.
const BACKWARDS_LEAST: u64 = 100;

/// Returns an error if at least half of the latencies in the rows read so far are negative.
pub(crate) fn refuse_backwards(
    wrapped: u64,
    rows: u64,
    path: &Path,
    line: u64,
    hint: &str,
) -> Result<(), TraceError> {
    if wrapped < BACKWARDS_LEAST || wrapped * 2 < rows {
        return Ok(());
    }
    Err(TraceError::Malformed {
        path: path.to_path_buf(),
        place: Place::Line(line),
        got: format!(
            "{wrapped} of about {rows} requests so far with a latency that is negative or exceeds a day"
        ),
        expected: "few of them".into(),
        hint: hint.into(),
    })
}

/// The length of the pieces into which long trims are split. It is aligned and below the maximum
/// length of a record.
const PIECE_BYTES: u64 = 1 << 31;
/// The maximum length of a trim that is split: 64 TiB, which exceeds any drive.
const TRIM_BYTES_MAX: u64 = 1 << 46;
/// The maximum length of a read or write that is split: 4 GiB, the most that a program can request
/// in one call.
const DATA_BYTES_MAX: u64 = 1 << 32;
/// A read or write that is shorter than [`DATA_BYTES_MAX`] by less than this has a negative length
/// that wrapped around in 32 bits.
const WRAPPED_BYTES: u64 = 1 << 20;

/// Splits requests that are too long for one record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LongRequests {
    /// The number of trims that were split, and that of their parts.
    trims: [u64; 2],
    /// The same for reads and writes.
    data: [u64; 2],
}

impl LongRequests {
    /// Returns whether a request of this length must and can be split.
    pub(crate) fn may_split(op: Op, len: u64) -> bool {
        match op {
            Op::Trim => len > u64::from(u32::MAX) && len <= TRIM_BYTES_MAX,
            Op::Flush => false,
            _ => {
                let is_wrapped = len < DATA_BYTES_MAX && len > DATA_BYTES_MAX - WRAPPED_BYTES;
                len > LEN_BYTES_MAX && len <= DATA_BYTES_MAX && !is_wrapped
            }
        }
    }

    /// Returns the number of records beyond one for each request that was split.
    pub(crate) fn added(self) -> u64 {
        let [[trims, trim_parts], [data, data_parts]] = [self.trims, self.data];
        trim_parts + data_parts - trims - data
    }

    /// Splits a request of `len` bytes into records and appends them to `batch`. `record` contains
    /// everything but the length.
    pub(crate) fn split(&mut self, record: Record, len: u64, batch: &mut Vec<Record>) {
        let (piece, counts) = match record.op {
            Op::Trim => (PIECE_BYTES, &mut self.trims),
            _ => (LEN_BYTES_MAX, &mut self.data),
        };
        counts[0] += 1;
        counts[1] += len.div_ceil(piece);
        let begins = (0..len).step_by(piece as usize);
        batch.extend(begins.map(|begin| Record {
            offset: record.offset + begin,
            len: piece.min(len - begin) as u32,
            ..record
        }));
    }

    /// Returns the notes about requests that were split.
    pub(crate) fn sentences(self) -> impl Iterator<Item = String> {
        let split = |[count, parts]: [u64; 2], what: &str, piece: &str| {
            (count > 0).then(|| {
                let are = verb(count, "is", "are");
                let parts = counted(parts, "request");
                format!("{count} {what} {are} split into {parts} of at most {piece}")
            })
        };
        let one_or_more = |[count, _]: [u64; 2], one, more| verb(count, one, more);
        let trims = one_or_more(self.trims, "trim of 4 GiB or more", "trims of 4 GiB or more");
        let trims = split(self.trims, trims, "2 GiB");
        let data = one_or_more(
            self.data,
            "read or write of more than 1 GiB",
            "reads or writes of more than 1 GiB",
        );
        let data = split(self.data, data, "1 GiB");
        trims.into_iter().chain(data)
    }
}

/// Returns the note about `count` lines that repeat the column names, or None if there are none.
pub(crate) fn names_again_sentence(count: usize) -> Option<String> {
    (count > 0).then(|| {
        format!(
            "{} {} in the middle of the file, as if the output of another run began there",
            counted(count as u64, "header line"),
            verb(count as u64, "is", "are")
        )
    })
}

/// An error in a row.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RowError {
    pub(crate) column: Cow<'static, str>,
    pub(crate) got: String,
    pub(crate) expected: Cow<'static, str>,
}

impl RowError {
    #[cold]
    pub(crate) fn new(
        column: impl Into<Cow<'static, str>>,
        got: &[u8],
        expected: impl Into<Cow<'static, str>>,
    ) -> RowError {
        RowError { column: column.into(), got: shorten(got), expected: expected.into() }
    }

    /// Converts the row's error to one about a file.
    pub(crate) fn at(self, path: &Path, place: Place, hint: &str) -> TraceError {
        TraceError::Malformed {
            path: path.to_path_buf(),
            place,
            got: format!("{} in column {}", self.got, self.column),
            expected: self.expected.into(),
            hint: hint.into(),
        }
    }
}

impl std::fmt::Display for RowError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} in column {}, expected {}", self.got, self.column, self.expected)
    }
}

/// The minimum number of zero bytes in a row that are a hole, as file systems leave after a crash.
pub(crate) const HOLE_BYTES: usize = 8;

/// Shortens bytes from a file for a message.
pub(crate) fn shorten(bytes: &[u8]) -> String {
    const SHOWN: usize = 60;
    let nuls = bytes.iter().take_while(|&&byte| byte == 0).count();
    if nuls >= HOLE_BYTES {
        let rest = bytes.get(nuls..).filter(|rest| !rest.is_empty());
        let rest = rest.map_or(String::new(), |rest| format!(" before {}", shorten(rest)));
        return format!("a hole of {nuls} NUL bytes{rest}");
    }
    let shown = bytes.get(..SHOWN).unwrap_or(bytes);
    let dots = if bytes.len() > SHOWN { "…" } else { "" };
    if bytes.is_empty() {
        return "nothing".into();
    }
    // Show letters of other alphabets, but nothing that could confuse a terminal.
    let escaped = match std::str::from_utf8(shown) {
        Ok(text) if !text.is_ascii() => text.escape_debug().to_string(),
        _ => shown.escape_ascii().to_string(),
    };
    format!("\"{escaped}{dots}\"")
}

/// Returns whether a request has no position, which is the case for an empty flush.
#[inline]
pub(crate) fn is_placeless(op: Op, len: u64) -> bool {
    op == Op::Flush && len == 0
}

/// Checks the limits of a request of `len` bytes that will be split, and returns its record.
pub(crate) fn long_request(at: u64, op: Op, offset: u64, len: u64) -> Result<Record, RowError> {
    record(at, op, offset.saturating_add(len).saturating_sub(1), 1)?;
    record(at, op, offset, 1)
}

/// Checks the limits of a request that moves data, and returns its record on a single unnamed
/// stream. Errors call the columns `offset` and `len`, as our own formats do.
#[inline]
pub(crate) fn record(at: u64, op: Op, offset: u64, len: u64) -> Result<Record, RowError> {
    let (len_max, expected) = match op {
        Op::Trim => (u64::from(u32::MAX), "less than 4 GiB per trim"),
        _ => (LEN_BYTES_MAX, "at most 1 GiB per request"),
    };
    if len > len_max {
        return Err(RowError::new("len", len.to_string().as_bytes(), expected));
    }
    // The offset of an empty flush has no meaning; tracers set all its bits.
    let offset = if is_placeless(op, len) && offset >= END_BYTES_MAX { 0 } else { offset };
    if offset >= END_BYTES_MAX - len {
        let got = offset.to_string();
        return Err(RowError::new(
            "offset",
            got.as_bytes(),
            "a request that ends below 2^63 bytes",
        ));
    }
    Ok(Record {
        at: Nanos(at),
        offset,
        latency: None,
        len: len as u32,
        stream: 0,
        volume: 0,
        op,
        flags: Flags::NONE,
    })
}
