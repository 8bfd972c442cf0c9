//! Parquet tables of requests, in the [canonical](canonical) form or in the form of
//! [captures](hadoop).
//!
//! Both forms are read in batches and sorted by time. Integer columns may have any integer type, or
//! a floating-point type with integral values, and string columns any string type, including
//! dictionaries, provided that every value fits. Tables from other tools are read as the canonical
//! form; their columns are found by the usual names ([`found`]).

mod arrow_schema;
pub mod canonical;
mod chunk;
mod columns;
pub(crate) mod file;
mod found;
pub mod hadoop;
mod kinds;
mod pages;
mod prefix;

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use crate::columns::meaning;
use crate::formats::Input;
use crate::open::{from_pipe, is_pipe};
use crate::order::Ordered;
use crate::rows::shorten;
use crate::table::{Field, Source};
use crate::unpack::{Consumed, Packing};
use crate::{Dictionary, Notes, Place, Reader, Record, TraceError};
use columns::Columns;
use file::ParquetFile;

pub(crate) fn sniff(head: &[u8]) -> bool {
    head.starts_with(b"PAR1")
}

/// Opens a table in either form, which is determined by its columns.
pub(crate) fn open(input: Input) -> Result<Box<dyn Reader>, TraceError> {
    let splits = input.split_runs;
    either(Table::open(input)?, splits)
}

/// Returns the declaration implied by the column names of a table from another tool, and its names
/// for times, offsets and lengths. (Our own forms define their units.)
pub(crate) fn declared(path: &Path) -> Option<(String, [String; 3])> {
    let file = ParquetFile::open(path, File::open(path).ok()?).ok()?;
    let is_ours = file.metadata().iter().any(|(key, _)| key == canonical::KEY_VERSION);
    if is_ours || is_capture(file.fields()) { None } else { found::declared(file.fields()) }
}

/// The columns that identify the capture form; no other form contains all of them.
const CAPTURE: [&str; 4] = ["time_ns", "pid", "tgid", "lba"];

fn is_capture(fields: &[Field]) -> bool {
    CAPTURE.iter().all(|wanted| fields.iter().any(|field| field.name == *wanted))
}

/// Opens a table that is not a file, in either form. Its name in messages is `path`.
pub(crate) fn open_table(
    path: PathBuf,
    metadata: Vec<(String, String)>,
    source: Box<dyn Source>,
) -> Result<Box<dyn Reader>, TraceError> {
    let fields = source.fields().to_vec();
    either(Table { path, fields, metadata, source, note: None, told: None }, false)
}

fn either(table: Table, splits: bool) -> Result<Box<dyn Reader>, TraceError> {
    if is_capture(&table.fields) {
        let rows = Rows::<hadoop::Hadoop>::new(table)?;
        return Ok(Box::new(Ordered::new(rows).splitting_runs(splits)));
    }
    let zero = canonical::zero(&table);
    let fields = &table.fields;
    let is_ours = table.metadata(canonical::KEY_VERSION).is_some();
    let columns = if is_ours { meaning::of_format("parquet") } else { found::meanings(fields) };
    let unsure = [found::open_unit(fields), found::unread_latency(fields), found::unread(fields)];
    let mut rows = Rows::<canonical::Canonical>::new(table)?;
    rows.notes.warnings.extend(unsure.into_iter().flatten());
    rows.notes.columns = columns;
    Ok(Box::new(Ordered::by_clock(rows, zero).splitting_runs(splits)))
}

/// Opens a table in the canonical form, in the order of the file.
pub(crate) fn open_rows(input: Input) -> Result<Box<dyn Reader>, TraceError> {
    Ok(Box::new(Rows::<canonical::Canonical>::new(Table::open(input)?)?))
}

/// Opens a table in the capture form.
pub(crate) fn open_hadoop(input: Input) -> Result<Box<dyn Reader>, TraceError> {
    let splits = input.split_runs;
    let rows = Rows::<hadoop::Hadoop>::new(Table::open(input)?)?;
    Ok(Box::new(Ordered::new(rows).splitting_runs(splits)))
}

/// A form of Parquet tables that contain requests.
trait Schema: Send + Sized {
    /// The name of the format.
    const NAME: &'static str;

    /// Creates the schema for a table from its metadata.
    fn new(table: &Table, dictionary: &mut Dictionary) -> Result<Self, TraceError>;

    /// Returns the names of those existing columns that are to be read.
    fn wanted(fields: &[Field]) -> Vec<&str>;

    /// Converts a batch of rows to records and appends them.
    fn records(
        &mut self,
        columns: &Columns,
        dictionary: &mut Dictionary,
        batch: &mut Vec<Record>,
    ) -> Result<(), TraceError>;

    /// Returns a note for the user about all rows. Called at the end.
    fn end(&mut self) -> Option<String> {
        None
    }

    /// Returns a note for the user about the rows read so far, only once.
    fn warning(&mut self) -> Option<String> {
        None
    }
}

/// An open Parquet file, or another table in one of the forms.
struct Table {
    path: PathBuf,
    fields: Vec<Field>,
    metadata: Vec<(String, String)>,
    source: Box<dyn Source>,
    /// A note about the file.
    note: Option<String>,
    /// The progress counter, and the number of bytes of the file per row.
    told: Option<(Consumed, f64)>,
}

impl Table {
    /// Adds `rows` rows to the progress.
    fn tell(&self, rows: u64) {
        if let Some((consumed, row_bytes)) = &self.told {
            consumed.store((rows as f64 * row_bytes) as u64, Ordering::Relaxed);
        }
    }

    fn open(input: Input) -> Result<Table, TraceError> {
        if input.packing != Packing::Plain {
            return Err(damaged(
                &input.path,
                "a packed Parquet file".into(),
                "an uncompressed file, because Parquet is read from its end; decompress it first",
            ));
        }
        let path = input.path;
        if is_pipe(&path) {
            let expected = "a file, because Parquet is read from its end";
            return Err(from_pipe(&path, "Parquet from a pipe", expected));
        }
        let file =
            File::open(&path).map_err(|source| TraceError::Io { path: path.clone(), source })?;
        let bytes = file.metadata().map_or(0, |found| found.len());
        let file = ParquetFile::open(&path, file)?;
        let told = Some((input.consumed, bytes as f64 / file.rows().max(1) as f64));
        let (fields, metadata, note) = (file.fields().to_vec(), file.metadata(), file.note());
        Ok(Table { path, fields, metadata, source: Box::new(file), note, told })
    }

    /// Returns the value of a metadata key.
    fn metadata(&self, key: &str) -> Option<&str> {
        self.metadata.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }
}

/// Runs code of the Parquet crate and catches its panics, which damaged files may cause.
fn guarded<T>(
    path: &Path,
    run: impl FnOnce() -> Result<T, ::parquet::errors::ParquetError>,
) -> Result<T, TraceError> {
    let got = match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(error)) => match missing_codec(&error.to_string()) {
            Some(missing) => return Err(missing.at(path)),
            None => shorten_message(&error.to_string()),
        },
        Err(_) => "content that the Parquet decoder cannot read".into(),
    };
    Err(damaged(path, got, "an intact Parquet file: is it truncated or damaged?"))
}

/// A Parquet codec that this build does not support.
struct MissingCodec {
    name: &'static str,
    feature: &'static str,
}

/// Parses an error message of the Parquet crate about a missing codec.
fn missing_codec(message: &str) -> Option<MissingCodec> {
    let is_named = message.contains("Disabled feature at compile time: brotli");
    is_named.then_some(MissingCodec { name: "Brotli", feature: "brotli" })
}

impl MissingCodec {
    fn at(&self, path: &Path) -> TraceError {
        let MissingCodec { name, feature } = self;
        TraceError::Malformed {
            path: path.to_path_buf(),
            place: Place::File,
            got: format!(
                "columns compressed with {name}, which this build of Forebay does not \
                support"
            ),
            expected: "snappy, gzip, lz4, zstd or no compression".into(),
            hint: format!(
                "write the table again with one of these, or build with --features {feature}"
            ),
        }
    }
}

/// Removes the prefixes that the layers of the Parquet crate add to an error message.
fn shorten_message(message: &str) -> String {
    const LAYERS: [&str; 4] =
        ["Parquet error: ", "Parquet argument error: ", "External: ", "EOF: "];
    let mut said = message;
    while let Some(rest) = LAYERS.iter().find_map(|layer| said.strip_prefix(layer)) {
        said = rest;
    }
    let plain: String = said.chars().filter(|c| !c.is_control()).take(120).collect();
    format!("a Parquet error ({plain})")
}

fn damaged(path: &Path, got: String, expected: &str) -> TraceError {
    TraceError::Malformed {
        path: path.to_path_buf(),
        place: Place::File,
        got,
        expected: expected.into(),
        hint: String::new(),
    }
}

/// A [`Reader`] of tables with a [`Schema`], in the order of the file.
struct Rows<S> {
    table: Table,
    /// The indices of the columns to read.
    wanted: Vec<usize>,
    schema: S,
    row: u64,
    dictionary: Dictionary,
    notes: Notes,
}

impl<S: Schema> Rows<S> {
    fn new(mut table: Table) -> Result<Rows<S>, TraceError> {
        let mut dictionary = Dictionary::default();
        let schema = S::new(&table, &mut dictionary)?;
        let warnings = table.note.take().into_iter().collect();
        let columns = meaning::of_format(S::NAME);
        let notes = Notes { format: S::NAME, columns, warnings, ..Notes::default() };
        let wanted = S::wanted(&table.fields);
        let place = |name: &&str| table.fields.iter().position(|field| field.name == *name);
        let mut wanted: Vec<usize> = wanted.iter().filter_map(place).collect();
        wanted.sort_unstable();
        wanted.dedup();
        Ok(Rows { table, wanted, schema, row: 0, dictionary, notes })
    }
}

impl<S: Schema> Reader for Rows<S> {
    fn read(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        batch.clear();
        while batch.is_empty() {
            let Some(rows) = self.table.source.next(&self.wanted)? else {
                self.notes.warnings.extend(self.schema.end());
                break;
            };
            let columns = Columns::new(&self.table.path, self.row, &self.table.fields, rows);
            self.schema.records(&columns, &mut self.dictionary, batch)?;
            self.notes.warnings.extend(self.schema.warning());
            self.row += rows.rows as u64;
            self.table.tell(self.row);
            let read = batch.len();
            batch.retain(|r| r.len > 0 || r.op == forebay_core::Op::Flush);
            self.notes.rows_skipped += (read - batch.len()) as u64;
        }
        Ok(())
    }

    fn found(&self) -> (&Dictionary, &Notes) {
        (&self.dictionary, &self.notes)
    }
}

/// Makes a name printable, for messages.
fn shown(text: &str) -> String {
    shorten(text.as_bytes())
}
