//! Writes [canonical Parquet](crate::formats::parquet::canonical), compressed with zstd, on two
//! threads.

mod columns;
mod group;

use std::sync::Arc;

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    FileMetaData, KeyValue, ParquetMetaData, ParquetMetaDataWriter, RowGroupMetaData,
};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;

use self::group::Group;
use super::{Draft, Writer, io_error};
use crate::formats::parquet::file::KEY_ARROW;
use crate::{Dictionary, Notes, Record, TraceError, table};

/// The number of rows in a group, which are in memory until they are written.
const GROUP_ROWS: usize = 1 << 18;

/// The compression level. Level 3 would take 10 % more CPU time and make the file 1.4 % smaller
/// (measured with a generated MSR trace).
const ZSTD_LEVEL: i32 = 1;

/// The approximate length of a compressed row in bytes.
const ROW_BYTES: usize = 10;

/// The footers of checkpoints take at most one in this many bytes of a file.
const FOOTER_ONE_IN: usize = 4;

/// The encoding for times, which increase in small steps.
const DELTA: Encoding = Encoding::DELTA_BINARY_PACKED;

pub(super) fn create(draft: Draft) -> Result<Box<dyn Writer>, TraceError> {
    let path = draft.path.clone();
    let fail = |error| failed(&path, error);
    let level = ZstdLevel::try_new(ZSTD_LEVEL).map_err(fail)?;
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(level));
    // Values in these columns hardly ever repeat, so a dictionary would only be built to be
    // discarded.
    let properties = ["at_ns", "offset", "latency_ns"]
        .into_iter()
        .fold(properties, |p, column| p.set_column_dictionary_enabled(column.into(), false));
    // The minimum and maximum of a few words are useless, and computing them takes a comparison per
    // row.
    let properties = ["op", "flags"].into_iter().fold(properties, |p, column| {
        p.set_column_statistics_enabled(column.into(), EnabledStatistics::None)
    });
    let properties = properties.set_column_encoding("at_ns".into(), DELTA).build();
    let schema = columns::schema().map_err(fail)?;
    let mut file = SerializedFileWriter::new(draft, schema, Arc::new(properties)).map_err(fail)?;
    let arrow = KeyValue::new(KEY_ARROW.to_string(), columns::ARROW.to_string());
    file.append_key_value_metadata(arrow);
    Ok(Box::new(Parquet { path, file, rows: Vec::new(), before: None, checkpoint: (0, 0) }))
}

struct Parquet {
    path: std::path::PathBuf,
    file: SerializedFileWriter<Draft>,
    /// The rows of the current group, so far.
    rows: Vec<Record>,
    /// The previous group, which is being encoded.
    before: Option<Group>,
    /// The position after the last footer, and the length of that footer.
    checkpoint: (usize, usize),
}

impl Parquet {
    fn add(&mut self, mut batch: &[Record]) -> Result<(), ParquetError> {
        while !batch.is_empty() {
            let (fit, rest) = batch.split_at(batch.len().min(GROUP_ROWS - self.rows.len()));
            self.rows.extend_from_slice(fit);
            if self.rows.len() == GROUP_ROWS {
                self.end_group()?;
            }
            batch = rest;
        }
        Ok(())
    }

    fn end_group(&mut self) -> Result<(), ParquetError> {
        self.append_group()?;
        let rows = std::mem::take(&mut self.rows);
        let columns = self.file.schema_descr().columns().to_vec();
        self.before = Some(Group::new(rows, columns, self.file.properties()));
        Ok(())
    }

    /// Waits for the group that is being encoded and appends it to the file.
    fn append_group(&mut self) -> Result<(), ParquetError> {
        let Some(group) = self.before.take() else { return Ok(()) };
        let mut to = self.file.next_row_group()?;
        for chunk in group.finish()? {
            to.append_column(&chunk.bytes, chunk.about)?;
        }
        to.close()?;
        Ok(())
    }

    /// Appends a footer for everything that was written so far, unless footers would take too much
    /// of the file.
    fn append_footer(
        &mut self,
        dictionary: &Dictionary,
        notes: &Notes,
    ) -> Result<(), ParquetError> {
        let (end, footer_bytes) = self.checkpoint;
        let pending = self.rows.len() * ROW_BYTES;
        if self.file.bytes_written() + pending < end + FOOTER_ONE_IN * footer_bytes {
            return Ok(());
        }
        if !self.rows.is_empty() {
            self.end_group()?;
        }
        self.append_group()?;
        let groups = self.file.flushed_row_groups().to_vec();
        let rows = groups.iter().map(RowGroupMetaData::num_rows).sum();
        let entries = table::metadata(dictionary, notes).into_iter();
        let arrow = KeyValue::new(KEY_ARROW.to_string(), columns::ARROW.to_string());
        let entries = entries.map(|(key, value)| KeyValue::new(key.to_string(), Some(value)));
        let entries = [arrow].into_iter().chain(entries).collect();
        let schema = Arc::new(self.file.schema_descr().clone());
        let about = FileMetaData::new(1, rows, None, Some(entries), schema, None);
        let mut footer = Vec::new();
        ParquetMetaDataWriter::new(&mut footer, &ParquetMetaData::new(about, groups)).finish()?;
        self.file.write_all(&footer)?;
        self.checkpoint = (self.file.bytes_written(), footer.len());
        Ok(self.file.flush()?)
    }

    fn finish(&mut self, dictionary: &Dictionary, notes: &Notes) -> Result<(), ParquetError> {
        if !self.rows.is_empty() {
            self.end_group()?;
        }
        self.append_group()?;
        for (key, value) in table::metadata(dictionary, notes) {
            self.file.append_key_value_metadata(KeyValue::new(key.to_string(), Some(value)));
        }
        Ok(())
    }
}

fn failed(path: &std::path::Path, error: ParquetError) -> TraceError {
    let source = match error {
        ParquetError::External(cause) => match cause.downcast::<std::io::Error>() {
            Ok(io) => *io,
            Err(other) => std::io::Error::other(other),
        },
        other => std::io::Error::other(other),
    };
    io_error(path, source)
}

impl Writer for Parquet {
    fn write(&mut self, batch: &[Record], _: &Dictionary) -> Result<(), TraceError> {
        self.add(batch).map_err(|error| failed(&self.path, error))
    }

    fn checkpoint(&mut self, dictionary: &Dictionary, notes: &Notes) -> Result<(), TraceError> {
        self.append_footer(dictionary, notes).map_err(|error| failed(&self.path, error))
    }

    fn finish(
        mut self: Box<Self>,
        dictionary: &Dictionary,
        notes: &Notes,
    ) -> Result<Vec<String>, TraceError> {
        Parquet::finish(&mut self, dictionary, notes).map_err(|error| failed(&self.path, error))?;
        self.file.into_inner().map_err(|error| failed(&self.path, error))?.publish()?;
        Ok(Vec::new())
    }
}
