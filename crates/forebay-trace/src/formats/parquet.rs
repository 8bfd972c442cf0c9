//! Parquet tables of requests: the [canonical](canonical) form and the [capture](hadoop) form.
//!
//! Both are read batch by batch and put in order of time. Integer columns may have any integer
//! type, or floating point of whole numbers, and strings any string type, dictionaries included, as
//! long as every value fits. Tables that others made are read as the canonical form, their columns
//! found by the names that people give them ([`found`]).

pub mod canonical;
mod columns;
mod found;
pub mod hadoop;

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use ::parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use ::parquet::file::metadata::KeyValue;
use arrow_array::RecordBatchReader;

use crate::error::{Place, TraceError};
use crate::formats::Input;
use crate::open::{from_pipe, is_pipe};
use crate::order::Ordered;
use crate::rows::shorten;
use crate::trace::{BATCH, Dictionary, Notes, Reader, Record};
use crate::unpack::{Consumed, Packing};
use columns::Columns;

pub(crate) fn sniff(head: &[u8]) -> bool {
    head.starts_with(b"PAR1")
}

/// Opens either form, which the columns tell apart.
pub(crate) fn open(input: Input) -> Result<Box<dyn Reader>, TraceError> {
    let splits = input.split_runs;
    either(Table::open(input)?, splits)
}

/// What the names of columns declare of a table that others made, and what it calls times, places and lengths. Our own
/// form states its units, and so does the capture form.
pub(crate) fn declared(path: &Path) -> Option<(String, [String; 3])> {
    let file = File::open(path).ok()?;
    let builder = guarded(path, || ParquetRecordBatchReaderBuilder::try_new(file)).ok()?;
    let metadata = builder.metadata().file_metadata().key_value_metadata();
    let is_ours = metadata.into_iter().flatten().any(|kv| kv.key == canonical::KEY_VERSION);
    let fields = builder.schema().fields();
    let is_capture = CAPTURE.iter().all(|name| fields.find(name).is_some());
    if is_ours || is_capture { None } else { found::declared(fields) }
}

/// Columns that only the capture form has all of.
const CAPTURE: [&str; 4] = ["time_ns", "pid", "tgid", "lba"];

/// Opens either form of a table that is no file; `path` is what messages call it.
pub(crate) fn open_table(
    path: PathBuf,
    metadata: Vec<(String, String)>,
    batches: Box<dyn RecordBatchReader + Send>,
) -> Result<Box<dyn Reader>, TraceError> {
    let columns = batches.schema().fields().iter().map(|f| f.name().clone()).collect();
    either(Table { path, columns, metadata, batches, told: None }, false)
}

fn either(table: Table, splits: bool) -> Result<Box<dyn Reader>, TraceError> {
    let has = |wanted: &str| table.columns.iter().any(|name| name == wanted);
    if CAPTURE.into_iter().all(has) {
        let rows = Rows::<hadoop::Hadoop>::new(table)?;
        return Ok(Box::new(Ordered::new(rows).splitting_runs(splits)));
    }
    let zero = canonical::zero(&table);
    let schema = table.batches.schema();
    let fields = schema.fields();
    let unsure =
        [found::open_unit(&table.columns), found::unread_latency(fields), found::unread(fields)];
    let mut rows = Rows::<canonical::Canonical>::new(table)?;
    rows.notes.warnings.extend(unsure.into_iter().flatten());
    Ok(Box::new(Ordered::by_clock(rows, zero).splitting_runs(splits)))
}

/// Opens the canonical form in the order of the file.
pub(crate) fn open_rows(input: Input) -> Result<Box<dyn Reader>, TraceError> {
    Ok(Box::new(Rows::<canonical::Canonical>::new(Table::open(input)?)?))
}

/// Opens the capture form.
pub(crate) fn open_hadoop(input: Input) -> Result<Box<dyn Reader>, TraceError> {
    let splits = input.split_runs;
    let rows = Rows::<hadoop::Hadoop>::new(Table::open(input)?)?;
    Ok(Box::new(Ordered::new(rows).splitting_runs(splits)))
}

/// A schema of requests in Parquet.
trait Schema: Send + Sized {
    /// The format's name.
    const NAME: &'static str;

    /// From the file's metadata.
    fn new(table: &Table, dictionary: &mut Dictionary) -> Result<Self, TraceError>;

    /// Appends a batch of rows as records.
    fn records(
        &mut self,
        columns: &Columns,
        dictionary: &mut Dictionary,
        batch: &mut Vec<Record>,
    ) -> Result<(), TraceError>;

    /// What a user should know of all rows, at their end.
    fn end(&mut self) -> Option<String> {
        None
    }

    /// What a user should know of the rows read so far, once.
    fn warning(&mut self) -> Option<String> {
        None
    }
}

/// An open Parquet file, or a table of the same form.
struct Table {
    path: PathBuf,
    columns: Vec<String>,
    metadata: Vec<(String, String)>,
    batches: Box<dyn RecordBatchReader + Send>,
    /// Where reading is told of, and bytes of the file for each row.
    told: Option<(Consumed, f64)>,
}

impl Table {
    /// So many rows were read.
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
                "a plain one: Parquet is read from its end; unpack it first",
            ));
        }
        let path = input.path;
        if is_pipe(&path) {
            let expected = "a file: Parquet is read from its end";
            return Err(from_pipe(&path, "Parquet from a pipe", expected));
        }
        let file =
            File::open(&path).map_err(|source| TraceError::Io { path: path.clone(), source })?;
        let bytes = file.metadata().map_or(0, |found| found.len());
        let (columns, metadata, rows, batches) = guarded(&path, || {
            let options = ArrowReaderOptions::new();
            let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(file, options)?;
            let columns = builder.schema().fields().iter().map(|f| f.name().clone()).collect();
            let metadata = builder.metadata().file_metadata().key_value_metadata().cloned();
            let rows = builder.metadata().file_metadata().num_rows();
            Ok((columns, metadata, rows, builder.with_batch_size(BATCH).build()?))
        })?;
        let said = |kv: KeyValue| Some((kv.key, kv.value?));
        let metadata = metadata.into_iter().flatten().filter_map(said).collect();
        let told = Some((input.consumed, bytes as f64 / rows.max(1) as f64));
        Ok(Table { path, columns, metadata, batches: Box::new(batches), told })
    }

    /// The value of a metadata key.
    fn metadata(&self, key: &str) -> Option<&str> {
        self.metadata.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }
}

/// Runs a piece of the Parquet crate, whose code for damaged files is not free of panics.
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
        Err(_) => "content that the Parquet decoder gave up on".into(),
    };
    Err(damaged(path, got, "a whole Parquet file: is it cut off or damaged?"))
}

/// A codec of Parquet that this build was made without.
struct MissingCodec {
    name: &'static str,
    feature: &'static str,
}

/// The codec that a message of the Parquet crate says is missing.
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
            got: format!("columns packed with {name}, which this build of Forebay cannot unpack"),
            expected: "snappy, gzip, lz4, zstd or no packing".into(),
            hint: format!(
                "write the table again with one of these, or build with --features {feature}"
            ),
        }
    }
}

/// What the Parquet crate has to say, without the words that each of its layers begins with.
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

/// A [`Reader`] of a [`Schema`], in the order of the file.
struct Rows<S> {
    table: Table,
    schema: S,
    row: u64,
    dictionary: Dictionary,
    notes: Notes,
}

impl<S: Schema> Rows<S> {
    fn new(table: Table) -> Result<Rows<S>, TraceError> {
        let mut dictionary = Dictionary::default();
        let schema = S::new(&table, &mut dictionary)?;
        let notes = Notes { format: S::NAME, ..Notes::default() };
        Ok(Rows { table, schema, row: 0, dictionary, notes })
    }
}

impl<S: Schema> Reader for Rows<S> {
    fn read(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        batch.clear();
        while batch.is_empty() {
            let next = guarded(&self.table.path, || Ok(self.table.batches.next().transpose()?))?;
            let Some(rows) = next else {
                self.notes.warnings.extend(self.schema.end());
                break;
            };
            let columns = Columns::new(&self.table.path, self.row, &rows);
            self.schema.records(&columns, &mut self.dictionary, batch)?;
            self.notes.warnings.extend(self.schema.warning());
            self.row += rows.num_rows() as u64;
            self.table.tell(self.row);
            let read = batch.len();
            batch.retain(|r| r.len > 0 || r.op == forebay_core::Op::Flush);
            self.notes.rows_skipped += (read - batch.len()) as u64;
        }
        Ok(())
    }

    fn dictionary(&self) -> &Dictionary {
        &self.dictionary
    }

    fn notes(&self) -> &Notes {
        &self.notes
    }
}

/// A name as it may be shown, for messages of the schemas.
fn shown(text: &str) -> String {
    shorten(text.as_bytes())
}
