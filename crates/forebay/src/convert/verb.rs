//! The verb `convert`: converts a trace to another format, anonymizes it, or splits it into one
//! file per volume.

use std::path::{Path, PathBuf};

use forebay_ask::{AskError, Value, duration};
use forebay_core::Nanos;
use forebay_show::{Block, Cell, Column, Page, Place, Row, Table, Tone, Verdict};
use forebay_trace::ColumnMeaning;
use forebay_trace::Reader;
use forebay_trace::anonymize::{Anonymized, CELL_BYTES, Key};
use forebay_trace::between::Between;
use forebay_trace::unpack::Consumed;
use forebay_trace::write;
use forebay_words::plural::counted;
use serde::Serialize;

use super::{Converted, convert, extents, read_key};
use crate::model::open::expect_trace;
use crate::partition::{ExistingOutput, Step, part};
use crate::verb::{
    Answered, ByVolume, Session, SourceAsk, TraceInput, Verb, in_place_of, warn_all, warn_notes,
};
use crate::{Error, ProgressReport};

forebay_ask::ask! {
    /// Convert a trace to Parquet, CSV, a fio iolog, DiskSim ASCII or binary blktrace
    pub struct ConvertAsk("convert") {
        /// The trace; - is standard input
        trace: TraceInput [.positional()],
        /// The file to write. Its extension selects the format unless a format is given
        output: PathBuf [.positional().short('o')],
        /// The format to write: parquet, csv, fio, disksim or blktrace
        to: Option<String> [.word("FORMAT").excludes(&["partition_by"])],
        /// Write a folder of Parquet files, one per volume. Running it again resumes an interrupted
        /// conversion
        partition_by: Option<ByVolume> [.excludes(&["anonymize"])],
        /// Convert only the requests that arrive in this span of time since the beginning of the
        /// trace, as in 0s..60s, ..60s or 1h..
        between: Option<TimeSpan> [.excludes(&["partition_by"])],
        /// Remove names and dates, renumber threads, and shuffle the cells of each volume
        anonymize: bool,
        /// A file with the secret key that determines the new names and locations. Without it, a
        /// secret is generated and discarded
        key: Option<PathBuf> [.requires("anonymize")],
        /// Size of a cell in MiB. Addresses within a cell keep their order
        cell_mib: u64 = "64" [.word("MIB").between(1.0, 1_048_576.0).requires("anonymize")],
        source: SourceAsk,
    }
}

/// The answer of `convert`.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct ConvertAnswer {
    output: String,
    requests: u64,
    /// The number of volumes, if each was written to its own file.
    #[serde(skip_serializing_if = "Option::is_none")]
    volumes: Option<u64>,
    /// The information that the written format could not represent, one sentence each.
    lost: Vec<String>,
    /// How the columns of a text file were interpreted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    columns: Vec<ReadColumn>,
}

/// How one column of a text file was interpreted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ReadColumn {
    column: String,
    /// The column's role and unit, in the syntax of `--columns`.
    read_as: String,
    because: String,
}

impl ReadColumn {
    fn of(meaning: &ColumnMeaning) -> ReadColumn {
        let ColumnMeaning { column, read_as, because } = meaning.clone();
        ReadColumn { column, read_as, because }
    }
}

/// Builds the table that shows how the columns were interpreted.
fn columns_table(columns: &[ReadColumn]) -> Table {
    let mut table = Table::new(["column", "read as", "because of"].map(Column::words));
    let row =
        |of: &ReadColumn| Row::new([of.column.as_str(), &of.read_as, &of.because].map(Cell::from));
    table.rows = columns.iter().map(row).collect();
    table
}

/// A span of time within a trace: `10s..70s`, `..1min` or `1h..`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeSpan {
    from: Nanos,
    to: Nanos,
}

impl Value for TimeSpan {
    const WORD: &'static str = "FROM..TO";

    fn parse(text: &str) -> Result<TimeSpan, String> {
        let expected = || format!("got '{text}', expected a span of time, as in 10s..70s");
        let (from, to) = text.split_once("..").ok_or_else(expected)?;
        let time = |text: &str, open| match text.trim() {
            "" => Ok(open),
            text => duration(text),
        };
        let span = TimeSpan { from: time(from, Nanos::ZERO)?, to: time(to, Nanos::MAX)? };
        match span.from < span.to {
            true => Ok(span),
            false => Err(format!("got '{text}', expected an end after the start, as in 10s..70s")),
        }
    }
}

impl Verb for ConvertAsk {
    type Beyond = ();

    fn traces(&self) -> Vec<&TraceInput> {
        vec![&self.trace]
    }

    fn run(self, session: &mut dyn Session) -> Result<Answered, Error> {
        if self.source.from().is_none() && self.trace.is_file() {
            expect_trace(self.trace.name())?;
        }
        match self.partition_by {
            Some(ByVolume::Volume) => self.partition(session),
            None => self.convert(session),
        }
    }
}

impl ConvertAsk {
    /// Opens the trace, limited to the requested time span.
    fn open(&self, consumed: Consumed) -> Result<Box<dyn Reader>, Error> {
        let reader = self.source.open(&self.trace, consumed)?;
        Ok(match self.between {
            Some(TimeSpan { from, to }) => Box::new(Between::new(reader, from, to)),
            None => reader,
        })
    }

    fn convert(&self, session: &mut dyn Session) -> Result<Answered, Error> {
        let (name, cell_bytes) = (self.trace.name(), self.cell_mib << 20);
        let hidden = match self.anonymize {
            true => {
                let key = match &self.key {
                    Some(file) => read_key(file)?,
                    None => Key::random().map_err(|error| Error::Unfit(error.to_string()))?,
                };
                let consumed = session.begin("measuring", Some(name));
                let mut reader = self.open(consumed)?;
                Some((key, extents(&mut *reader, cell_bytes, &mut |n| session.read(name, n))?))
            }
            false => None,
        };
        let consumed = session.begin("converting", Some(name));
        let mut reader = self.open(consumed)?;
        let mut kept = self.trace.kept();
        if let Some(key) = &self.key {
            kept = kept.and_file(key);
        }
        let replaces = in_place_of(&self.output);
        let writer =
            write::create(&self.output, self.to.as_deref(), &kept).map_err(Error::output)?;
        let go_on = &mut |requests| session.read(name, requests);
        let Converted { records, lost } = match hidden {
            None => convert(name, &mut *reader, writer, go_on)?,
            Some((key, extents)) => {
                let mut hidden = Anonymized::new(&mut *reader, name, key, extents);
                convert(name, &mut hidden, writer, go_on)?
            }
        };
        warn_notes(session, name, reader.notes());
        let columns = reader.notes().columns.iter().map(ReadColumn::of).collect();
        written(&self.output, records, None, (lost, columns), replaces, session)
    }

    /// Writes one file per volume.
    fn partition(&self, session: &mut dyn Session) -> Result<Answered, Error> {
        if !self.trace.is_file() {
            let text = "got a table, expected a file, by which an interrupted conversion recognizes its trace; convert the \
                        table to a file first";
            return Err(AskError::new("partition_by", text).into());
        }
        let (trace, from) = (self.trace.name(), self.source.from());
        let consumed = session.begin("reading", Some(trace));
        let open = || self.source.open(&self.trace, consumed.clone());
        let parted =
            part(trace, from.as_deref(), &self.output, open, &mut |step, requests| match step {
                Step::Reading => session.read(trace, requests),
                Step::Writing { of } => {
                    let doing = format!("writing volumes: {requests} of {of} requests");
                    let done_share = requests as f64 / (of as f64).max(1.0);
                    session.progress(&ProgressReport { doing, done_share })
                }
            })?;
        if let Some(notes) = &parted.notes {
            warn_notes(session, trace, notes);
        }
        let resumed = match parted.found {
            ExistingOutput::Whole => "; it was complete already",
            ExistingOutput::Part => "; the interrupted conversion was resumed",
            ExistingOutput::Nothing => "",
        };
        let volumes = parted.manifest.parts.len() as u64;
        written(
            &self.output,
            parted.requests(),
            Some(volumes),
            Default::default(),
            resumed,
            session,
        )
    }
}

/// Builds the answer, and warns about what the format could not represent.
pub(crate) fn written(
    output: &Path,
    requests: u64,
    volumes: Option<u64>,
    (lost, columns): (Vec<String>, Vec<ReadColumn>),
    how: &str,
    session: &mut dyn Session,
) -> Result<Answered, Error> {
    warn_all(session, output, &lost);
    let of = volumes.map_or(String::new(), |count| format!(" of {}", counted(count, "volume")));
    let output = output.display().to_string();
    let headline = format!("{output}: {}{of} written{how}.", counted(requests, "request"));
    let mut page = Page {
        title: output.clone(),
        verdict: Verdict::new(Tone::Good, "Written"),
        headline,
        ..Page::default()
    };
    page.add_notes("Lost", Place::Detail, lost.clone());
    if !columns.is_empty() {
        let table = Block::Table(columns_table(&columns));
        page.add("How the columns were read", Place::Detail, vec![table]);
    }
    Answered::new(&ConvertAnswer { output, requests, volumes, lost, columns }, page)
}

/// The default of the option `cell_mib` must equal the library's default.
const _: () = assert!(CELL_BYTES == 64 << 20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_of_time_may_begin_at_0() {
        let span = |text: &str| TimeSpan::parse(text).map(|span| (span.from, span.to));
        let to_10s = (Nanos::ZERO, Nanos::from_secs(10));
        assert_eq!([span("0s..10s"), span("..10s")], [Ok(to_10s), Ok(to_10s)]);
        assert_eq!(span("0s.."), Ok((Nanos::ZERO, Nanos::MAX)));
        for wrong in ["10s..0s", "0s..0s", "..0s", "10s", "0..10s"] {
            assert!(span(wrong).is_err(), "{wrong}");
        }
    }
}
