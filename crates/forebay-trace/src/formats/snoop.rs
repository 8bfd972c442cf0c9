//! The output of bcc's `biosnoop` and perf-tools' `iosnoop`: a header line, then a line a request.
//!
//! The header says which columns there are, in any of the forms the options give:
//!
//! - biosnoop: `TIME(s) COMM PID DISK T SECTOR BYTES [QUE(ms)] LAT(ms)`
//! - iosnoop: `[STARTs] [ENDs] COMM PID TYPE DEV BLOCK BYTES LATms`
//!
//! Units: seconds, milliseconds, bytes, sectors of 512 bytes. Epoch: the first request. `TIME(s)`
//! and `ENDs` are times of completion; a request arrived its latency before, and its time in the
//! queue (`-Q`) belongs to its latency. With both times, the latency is their difference, which is
//! finer than `LATms`. biosnoop's PID is that of the process, iosnoop's that of the thread; names
//! may hold blanks. Without any time (iosnoop without `-s` and `-t`) requests stand one behind the
//! other, each arriving when the one before has completed, and a warning says so.
//!
//! `T` and `TYPE` hold the letters of the kernel's RWBS or just R and W. Rows without sectors that
//! are no flush, and rows whose disk is missing, are skipped and counted.

mod columns;

use crate::plural::{counted, verb};
use forebay_core::Nanos;

use super::blkparse::rwbs;
use super::blktrace::{SECTOR_BYTES, Span};
use super::clock::{arrival, scaled};
use super::log::{Line, Log, LogReader, first_lines};
use super::numbering::Numbering;
use crate::error::TraceError;
use crate::fields::digits;
use crate::formats::Input;
use crate::order::Ordered;
use crate::rows::{self, Wrong};
use crate::trace::{Dictionary, Reader, Stream};
use columns::{Cells, Column, Layout, Tool};

/// What has been read so far.
#[derive(Default)]
struct Snoop {
    layout: Option<Layout>,
    who: Numbering,
    /// When the next request arrives, where the lines have no times.
    next_ns: u64,
    untimed: u64,
    /// Lines that say that events were lost.
    losses: u64,
}

impl Snoop {
    /// A line that is no request: the header, or what the tools say besides.
    fn remark(&mut self, line: &[u8]) -> Option<Line> {
        if let Some(layout) = Layout::of(line) {
            self.layout = Some(layout);
            return Some(Line::Other);
        }
        let line = line.trim_ascii();
        if line.starts_with(b"WARNING:") || line.starts_with(b"lost ") || line.starts_with(b"Lost ")
        {
            self.losses += 1;
            return Some(Line::Other);
        }
        let known = [&b"#"[..], b"Tracing block I/O", b"Ending tracing", b"^C"];
        known.iter().any(|begin| line.starts_with(begin)).then_some(Line::Other)
    }

    fn request(&mut self, cells: &Cells, dictionary: &mut Dictionary) -> Result<Line, Wrong> {
        let bytes = number(cells, Column::Bytes)?;
        let sector = number(cells, Column::Sector)?;
        let kind = cells.get(Column::Kind);
        let category = rwbs::category(kind)
            .ok_or_else(|| Wrong::new("T", kind, "RWBS letters such as R, W, WS or D"))?;
        let bytes = u32::try_from(bytes)
            .map_err(|_| Wrong::new("BYTES", cells.get(Column::Bytes), "less than 4 GiB"))?;
        let span = Span { sector, bytes, device: 0, category };
        let (at_ns, latency_ns) = self.times(cells)?;
        let Some(op) = span.op() else { return Ok(Line::Skipped) };
        if let Some((got, expected)) = span.fault() {
            return Err(Wrong::new("SECTOR", got.as_bytes(), expected));
        }
        let offset = if bytes == 0 { 0 } else { sector.saturating_mul(SECTOR_BYTES) };
        let stream = stream(cells)?;
        // The limit on a length is that of the span: trims may be longer than other requests.
        let mut record = rows::record(at_ns, op, offset, 0)?;
        record.len = bytes;
        record.latency = Some(Nanos(latency_ns));
        record.flags = span.flags();
        record.volume = self.who.volume(cells.get(Column::Disk), dictionary)?;
        record.stream = self.who.stream(stream, dictionary)?;
        Ok(Line::Request(record))
    }

    /// Arrival and latency, in nanoseconds.
    fn times(&mut self, cells: &Cells) -> Result<(u64, u64), Wrong> {
        const LATENCY: &str = "milliseconds such as 0.74";
        let ms = |column| {
            let cell = cells.get(column);
            scaled(cell, 6).ok_or_else(|| Wrong::new("latency", cell, LATENCY))
        };
        let seconds = |column| {
            let Some(cell) = cells.find(column) else { return Ok(None) };
            let ns = scaled(cell, 9);
            ns.map(Some).ok_or_else(|| Wrong::new("time", cell, "seconds such as 12.000345"))
        };
        let mut latency_ns = ms(Column::Latency)?;
        // libbpf's biosnoop prints -1 for a request that never was in the queue.
        if let Some(queued) = cells.find(Column::Queued).filter(|cell| !cell.starts_with(b"-")) {
            let queued = scaled(queued, 6).ok_or_else(|| Wrong::new("QUE(ms)", queued, LATENCY))?;
            latency_ns = latency_ns.saturating_add(queued);
        }
        let (start, end) = (seconds(Column::Start)?, seconds(Column::End)?);
        if let (Some(start), Some(end)) = (start, end) {
            latency_ns = end.saturating_sub(start);
        }
        let at = match (start, end) {
            (Some(start), _) => arrival(start, 0),
            (None, Some(end)) => arrival(end, latency_ns),
            (None, None) => {
                self.untimed += 1;
                let at = self.next_ns;
                self.next_ns = at.saturating_add(latency_ns);
                arrival(at, 0)
            }
        };
        let late = || Wrong::new("time", cells.line(), "times that fit in 100 years");
        Ok((at.ok_or_else(late)?.0, latency_ns))
    }
}

fn number(cells: &Cells, column: Column) -> Result<u64, Wrong> {
    let cell = cells.get(column);
    digits(cell).ok_or_else(|| Wrong::new(column.name(), cell, "a whole number without a sign"))
}

/// Numbering submitted a request.
fn stream(cells: &Cells) -> Result<Stream, Wrong> {
    let id = number(cells, Column::Pid)?;
    let id = u32::try_from(id)
        .map_err(|_| Wrong::new("PID", cells.get(Column::Pid), "a process id below 2^32"))?;
    let name = String::from_utf8_lossy(cells.get(Column::Name)).into_owned();
    Ok(match cells.tool() {
        Tool::Biosnoop => Stream { thread: None, process: Some(id), name },
        Tool::Iosnoop => Stream { thread: Some(id), process: None, name },
    })
}

impl Log for Snoop {
    const NAME: &'static str = "snoop";
    const LINES: &'static str = "those of biosnoop or iosnoop, their header line first";

    fn line(&mut self, line: &[u8], dictionary: &mut Dictionary) -> Result<Line, Wrong> {
        if let Some(remark) = self.remark(line) {
            return Ok(remark);
        }
        let Some(layout) = &self.layout else {
            let expected = "a header line with COMM, PID, BYTES and LAT(ms) or LATms";
            return Err(Wrong::new("first line", line.trim_ascii(), expected));
        };
        match layout.cells(line)? {
            Some(cells) => self.request(&cells, dictionary),
            None => Ok(Line::Skipped),
        }
    }

    fn end(&mut self) -> Vec<String> {
        let mut sentences = Vec::new();
        if self.untimed > 0 {
            sentences.push(
                "the rows have no times: each request arrives when the one before has completed; \
                 record with iosnoop -ts to keep arrivals"
                    .into(),
            );
        }
        if self.losses > 0 {
            let (lines, say) = (counted(self.losses, "line"), verb(self.losses, "says", "say"));
            let sentence = format!("{lines} {say} that the tracer lost events");
            sentences.push(sentence);
        }
        sentences
    }
}

pub(crate) fn sniff(head: &[u8]) -> bool {
    first_lines(head).any(|line| Layout::of(line).is_some())
}

pub(crate) fn open(input: Input) -> Result<Box<dyn Reader>, TraceError> {
    let (log, dictionary) = (Snoop::default(), Dictionary::default());
    let splits = input.split_runs;
    Ok(Box::new(Ordered::new(LogReader::new(&input.path, input.content, log, dictionary)).splitting_runs(splits)))
}

#[cfg(test)]
mod tests;
