//! The output of bcc's `biosnoop` and perf-tools' `iosnoop`: a header line, then a line for each
//! request.
//!
//! The header lists the columns, in any of the forms that the options of the tools produce:
//!
//! - biosnoop: `TIME(s) COMM PID [TID] DISK T SECTOR BYTES [QUE(ms)] LAT(ms)`, or `LAT(us)`. That
//!   of libbpf-tools may begin with `TIMESTAMP` instead, with times of day such as `23:59:59.987`.
//! - iosnoop: `[STARTs] [ENDs] COMM PID TYPE DEV BLOCK BYTES LATms`.
//! - `ext4slower`, `xfsslower` and the like: `TIME COMM PID T BYTES OFF_KB LAT(ms) FILENAME`, with
//!   each file as a volume. Also their CSV (`-j`), with offsets in bytes and times in microseconds.
//!
//! Units: seconds, milliseconds, bytes, sectors of 512 bytes. Epoch: the first request. `TIME(s)`
//! and `ENDs` are times of completion. A request arrived earlier by its latency, which includes its
//! time in the queue (`-Q`). If both times are present, the latency is their difference, which is
//! more precise than `LATms`. biosnoop's PID is that of the process, iosnoop's that of the thread;
//! names may contain spaces. Without any times (iosnoop without `-s` and `-t`), each request
//! arrives when the previous one has completed, with a warning. If a time of day goes back by more
//! than half a day, it belongs to the next day. A header with an unknown heading in place of the
//! times is rejected; other unknown columns are listed in a note.
//!
//! A latency may be negative because of different CPU clocks. It is printed as a negative number or
//! as nearly 2^64 ns. Such a request has no latency, and arrives when it completed. The same is
//! true if a word such as `-` or `nan` says that the latency is unknown.
//!
//! `T` and `TYPE` contain RWBS letters of the kernel, or only R and W. Rows without sectors that
//! are not flushes, and rows without a disk, are skipped and counted.

mod columns;

use forebay_ask::named;
use forebay_core::Nanos;
use forebay_words::plural::{counted, verb};

use super::{
    Category, DayClock, Line, Log, Numbering, SECTOR_BYTES, Span, arrival, first_lines, ordered,
    rwbs, scaled, words,
};
use crate::columns::notation::is_unknown;
use crate::fields::digits;
use crate::formats::Input;
use crate::rows::{self, LATENCY_NS_MAX, RowError, is_wrapped, wrapped_sentence};
use crate::{Dictionary, Reader, Stream, TraceError};
use columns::{Cells, Column, Layout, Tool};

/// The state of reading the output.
#[derive(Default)]
struct Snoop {
    layout: Option<Layout>,
    who: Numbering,
    /// When the next request arrives, if lines contain no times.
    next_ns: u64,
    untimed: u64,
    /// The number of lines that report lost events, and the number of events that they report.
    losses: u64,
    lost: u64,
    /// The number of negative latencies.
    wrapped: u64,
    /// Whether times or latencies have decimal commas.
    has_commas: bool,
    day: DayClock,
}

/// The maximum number of ignored columns listed in a note.
const UNREAD_SHOWN: usize = 5;

/// Returns how many events were lost according to a line such as `Possibly lost 12 samples` or
/// `lost 5 events`.
fn lost(line: &[u8]) -> Option<u64> {
    let line = line.to_ascii_lowercase();
    let has = |word: &str| memchr::memmem::find(&line, word.as_bytes()).is_some();
    if !has("lost") || !["sample", "event", "record"].into_iter().any(has) {
        return None;
    }
    Some(words(&line).find_map(digits).unwrap_or(0))
}

/// Parses a latency in units of 10^`decimals` ns. The inner value is `None` if the latency is
/// unknown or negative, printed as such or wrapped around.
fn latency_ns(word: &[u8], decimals: u32) -> Option<Option<u64>> {
    if is_unknown(word) {
        return Some(None);
    }
    match word.strip_prefix(b"-") {
        Some(rest) => scaled(rest, decimals).map(|_| None),
        None => {
            let whole = word.split(|&byte| matches!(byte, b'.' | b',')).next().unwrap_or_default();
            let is_long = whole.len() > 11 && whole.iter().all(u8::is_ascii_digit);
            let ns = if is_long { u64::MAX } else { scaled(word, decimals)? };
            Some(Some(ns).filter(|&ns| !is_wrapped(ns, 10u64.pow(decimals))))
        }
    }
}

impl Snoop {
    /// Processes a line that is not a request: the header, or other output of the tools.
    fn remark(&mut self, line: &[u8]) -> Result<Option<Line>, RowError> {
        if let Some(layout) = Layout::of(line) {
            if layout.may_have_time() {
                let expected = format!(
                    "TIME(s), TIMESTAMP, STARTs or ENDs as the heading of the times; if another \
                     column has them, {}, with ns, us, ms, s or date for UNIT",
                    named(&format!("columns={}", layout.declaration()))
                );
                let got: Vec<&str> = layout.unread().collect();
                let got = format!("the headings {}", got.join(", "));
                return Err(RowError { column: "header".into(), got, expected: expected.into() });
            }
            self.layout = Some(layout);
            return Ok(Some(Line::Header));
        }
        let line = line.trim_ascii();
        let begins = |known: &[&[u8]]| known.iter().any(|begin| line.starts_with(begin));
        if begins(&[b"WARNING:", b"lost ", b"Lost ", b"Possibly lost "]) {
            self.losses += 1;
            self.lost += lost(line).unwrap_or(0);
            return Ok(Some(Line::Other));
        }
        // A message of Python may follow the sign for Ctrl-C.
        let is_interrupt = begins(&[b"^C"]) && !begins(&[b"^CTraceback"]);
        let is_known = is_interrupt || begins(&[b"#", b"Tracing ", b"Ending tracing"]);
        Ok(is_known.then_some(Line::Other))
    }

    /// Parses a row, unless it reports lost events.
    fn row(&mut self, line: &[u8], dictionary: &mut Dictionary) -> Result<Line, RowError> {
        let Some(layout) = &self.layout else {
            let expected = "a header line with COMM, PID, BYTES and LAT(ms) or LATms";
            return Err(RowError::new("first line", line.trim_ascii(), expected));
        };
        match layout.cells(line)? {
            Some(cells) => self.request(&cells, dictionary),
            None => Ok(Line::Skipped),
        }
    }

    fn request(&mut self, cells: &Cells, dictionary: &mut Dictionary) -> Result<Line, RowError> {
        let bytes = number(cells, Column::Bytes)?;
        let sector = number(cells, Column::Sector)?;
        let kind = cells.get(Column::Kind);
        let is_file = cells.tool() == Tool::Fsslower;
        let category = if is_file { of_file(kind) } else { rwbs::category(kind) };
        let category = category
            .ok_or_else(|| RowError::new("T", kind, "RWBS letters such as R, W, WS or D"))?;
        // File offsets are in KiB. A sync has neither an offset nor a length.
        let (sector, bytes) = match is_file {
            true if category == Category::FLUSH => (0, 0),
            true if cells.is_csv() => (sector / SECTOR_BYTES, bytes),
            true => (sector.saturating_mul(1024 / SECTOR_BYTES), bytes),
            false => (sector, bytes),
        };
        let bytes = u32::try_from(bytes)
            .map_err(|_| RowError::new("BYTES", cells.get(Column::Bytes), "less than 4 GiB"))?;
        let span = Span { sector, bytes, device: 0, category };
        let (at_ns, latency_ns) = self.times(cells)?;
        let Some(op) = span.op() else { return Ok(Line::Skipped) };
        if let Some((got, expected)) = span.impossible_value() {
            return Err(RowError::new("SECTOR", got.as_bytes(), expected));
        }
        let offset = match bytes {
            0 => 0,
            _ if cells.is_csv() => number(cells, Column::Sector)?,
            _ => sector.saturating_mul(SECTOR_BYTES),
        };
        let stream = stream(cells)?;
        // The length was already checked in the span, because trims may be longer than other
        // requests.
        let mut record = rows::record(at_ns, op, offset, 0)?;
        record.len = bytes;
        record.latency = latency_ns.map(Nanos);
        record.flags = span.flags();
        record.volume = self.who.volume(cells.get(Column::Disk), dictionary)?;
        record.stream = self.who.stream(stream, dictionary)?;
        Ok(Line::Request(record))
    }

    /// Returns the arrival and the latency in nanoseconds.
    fn times(&mut self, cells: &Cells) -> Result<(u64, Option<u64>), RowError> {
        let numbers = [Column::Start, Column::End, Column::Latency];
        self.has_commas |=
            numbers.into_iter().filter_map(|one| cells.find(one)).any(|cell| cell.contains(&b','));
        let latency_ns = self.latency(cells)?;
        let seconds = |column| {
            let Some(cell) = cells.find(column) else { return Ok(None) };
            let ns = scaled(cell, if cells.is_csv() { 3 } else { 9 });
            ns.map(Some).ok_or_else(|| RowError::new("time", cell, "seconds such as 12.000345"))
        };
        let (start, end) = (seconds(Column::Start)?, seconds(Column::End)?);
        let end = match cells.find(Column::Clock) {
            Some(cell) if end.is_none() && cell.contains(&b':') => Some(self.day.ns(cell)?),
            Some(_) if end.is_none() => seconds(Column::Clock)?,
            _ => end,
        };
        let late = || RowError::new("time", cells.line(), "times that fit in 100 years");
        if let (Some(start), Some(end)) = (start, end) {
            let latency_ns = end.checked_sub(start).filter(|&ns| ns <= LATENCY_NS_MAX);
            self.wrapped += u64::from(latency_ns.is_none());
            return Ok((arrival(start, 0).ok_or_else(late)?.0, latency_ns));
        }
        let is_known = [Column::Latency, Column::Queued]
            .into_iter()
            .all(|column| !cells.find(column).is_some_and(is_unknown));
        self.wrapped += u64::from(latency_ns.is_none() && is_known);
        let at = match (start, end) {
            (Some(start), _) => arrival(start, 0),
            (None, Some(end)) => arrival(end, latency_ns.unwrap_or(0)),
            (None, None) => {
                self.untimed += 1;
                let at = self.next_ns;
                self.next_ns = at.saturating_add(latency_ns.unwrap_or(0));
                arrival(at, 0)
            }
        };
        Ok((at.ok_or_else(late)?.0, latency_ns))
    }

    /// Returns the latency in nanoseconds, including the time in the queue, or `None` if it is
    /// unknown or negative.
    fn latency(&self, cells: &Cells) -> Result<Option<u64>, RowError> {
        const EXPECTED: &str = "a latency such as 0.74";
        let (cell, decimals) = (cells.get(Column::Latency), cells.decimals());
        let latency =
            latency_ns(cell, decimals).ok_or_else(|| RowError::new("latency", cell, EXPECTED))?;
        // libbpf's biosnoop prints -1 for a request that was never in the queue.
        let queued = match cells.find(Column::Queued).filter(|cell| !cell.starts_with(b"-")) {
            Some(cell) => latency_ns(cell, decimals)
                .ok_or_else(|| RowError::new(Column::Queued.name(), cell, EXPECTED))?,
            None => Some(0),
        };
        Ok(latency.zip(queued).map(|(latency, queued)| latency + queued))
    }
}

fn number(cells: &Cells, column: Column) -> Result<u64, RowError> {
    let cell = cells.get(column);
    digits(cell).ok_or_else(|| RowError::new(column.name(), cell, "a whole number without a sign"))
}

/// Returns the category of an operation on a file, or None for opening it, which is not a request.
fn of_file(kind: &[u8]) -> Option<Category> {
    match kind {
        b"R" => Some(Category::READ),
        b"W" => Some(Category::WRITE),
        b"S" | b"F" => Some(Category::FLUSH),
        b"O" => Some(Category::default()),
        _ => None,
    }
}

/// Returns the submitter of a request.
fn stream(cells: &Cells) -> Result<Stream, RowError> {
    let id = number(cells, Column::Pid)?;
    let id = u32::try_from(id)
        .map_err(|_| RowError::new("PID", cells.get(Column::Pid), "a process id below 2^32"))?;
    let name = String::from_utf8_lossy(cells.get(Column::Name)).into_owned();
    Ok(match cells.tool() {
        Tool::Biosnoop | Tool::Fsslower => {
            let thread = cells.find(Column::Tid).and_then(digits);
            let thread = thread.and_then(|id| u32::try_from(id).ok());
            Stream { thread, process: Some(id), name }
        }
        Tool::Iosnoop => Stream { thread: Some(id), process: None, name },
    })
}

impl Log for Snoop {
    const NAME: &'static str = "snoop";
    const LINES: &'static str = "those of biosnoop or iosnoop, their header line first";

    fn line(&mut self, line: &[u8], dictionary: &mut Dictionary) -> Result<Line, RowError> {
        if let Some(remark) = self.remark(line)? {
            return Ok(remark);
        }
        self.row(line, dictionary).or_else(|wrong| {
            let lost = lost(line).filter(|_| self.layout.is_some()).ok_or(wrong)?;
            self.losses += 1;
            self.lost = self.lost.saturating_add(lost);
            Ok(Line::Other)
        })
    }

    fn negative_latencies(&self) -> u64 {
        self.wrapped
    }

    fn ends_with_latency(&self) -> bool {
        self.layout.as_ref().is_some_and(Layout::ends_with_latency)
    }

    fn end(&mut self) -> Vec<String> {
        let mut sentences = Vec::new();
        if self.untimed > 0 {
            sentences.push(
                "the rows have no times, so each request arrives when the previous one \
                 has completed; record with iosnoop -ts to keep arrival times"
                    .into(),
            );
        }
        if self.losses > 0 {
            let (lines, say) = (counted(self.losses, "line"), verb(self.losses, "says", "say"));
            let count = match self.lost {
                0 => "events".into(),
                lost => counted(lost, "event"),
            };
            sentences.push(format!("{lines} {say} that the tracer lost {count}"));
        }
        sentences.extend(wrapped_sentence(self.wrapped));
        sentences.extend(self.has_commas.then(|| "numbers are read with decimal commas".into()));
        let unread: Vec<&str> = self.layout.iter().flat_map(Layout::unread).collect();
        if !unread.is_empty() {
            let shown = unread.get(..UNREAD_SHOWN).unwrap_or(&unread).join(", ");
            let are = verb(unread.len() as u64, "column is", "columns are");
            sentences.push(format!("{} {are} ignored: {shown}", unread.len()));
        }
        sentences.extend(self.day.sentence());
        sentences
    }
}

pub(crate) fn sniff(head: &[u8]) -> bool {
    first_lines(head).any(|line| Layout::of(line).is_some())
}

/// Returns the header of a tool that resembles biosnoop but records neither positions nor lengths,
/// such as bpftrace's `biosnoop.bt`.
pub(crate) fn placeless_header(head: &[u8]) -> Option<&[u8]> {
    first_lines(head).find(|line| {
        let has = |heading: &[u8]| words(line).any(|word| word == heading);
        let has_latency = words(line).any(|word| word.starts_with(b"LAT"));
        has_latency
            && has(b"COMM")
            && has(b"PID")
            && ![&b"SECTOR"[..], b"BLOCK", b"OFF_KB"].into_iter().any(has)
    })
}

pub(crate) fn open(input: Input) -> Result<Box<dyn Reader>, TraceError> {
    Ok(ordered(input, Snoop::default(), Dictionary::default()))
}

#[cfg(test)]
mod tests;
