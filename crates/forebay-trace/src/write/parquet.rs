//! Writes [canonical Parquet](crate::formats::parquet::canonical), zstd-compressed.

use std::sync::Arc;

use arrow_schema::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

use super::{Draft, Writer};
use crate::error::TraceError;
use crate::table;
use crate::trace::{Dictionary, Notes, Record};

/// Rows of a group: what is held in memory until it is written.
const GROUP_ROWS: usize = 1 << 18;

/// Level 12 makes a conversion four times as slow and the file 2 % smaller (a generated MSR trace).
const ZSTD_LEVEL: i32 = 3;

/// Of times, which rise: small differences.
const DELTA: Encoding = Encoding::DELTA_BINARY_PACKED;

pub(super) fn create(draft: Draft) -> Result<Box<dyn Writer>, TraceError> {
    let schema = Arc::new(table::schema());
    let path = draft.path.clone();
    let fail = |error| failed(&path, error);
    let level = ZstdLevel::try_new(ZSTD_LEVEL).map_err(fail)?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_max_row_group_row_count(Some(GROUP_ROWS));
    // Hardly a value comes twice: a dictionary of them would be made only to be given up.
    let properties = ["at_ns", "offset", "latency_ns"]
        .into_iter()
        .fold(properties, |p, column| p.set_column_dictionary_enabled(column.into(), false));
    let properties = properties.set_column_encoding("at_ns".into(), DELTA).build();
    let table = ArrowWriter::try_new(draft, schema.clone(), Some(properties)).map_err(fail)?;
    Ok(Box::new(Parquet { path, schema, table }))
}

struct Parquet {
    path: std::path::PathBuf,
    schema: SchemaRef,
    table: ArrowWriter<Draft>,
}

fn failed(path: &std::path::Path, error: ParquetError) -> TraceError {
    let source = match error {
        ParquetError::External(cause) => match cause.downcast::<std::io::Error>() {
            Ok(io) => *io,
            Err(other) => std::io::Error::other(other),
        },
        other => std::io::Error::other(other),
    };
    TraceError::Io { path: path.to_path_buf(), source }
}

impl Writer for Parquet {
    fn write(&mut self, batch: &[Record], _: &Dictionary) -> Result<(), TraceError> {
        let rows = table::rows(&self.schema, batch).map_err(ParquetError::from);
        rows.and_then(|rows| self.table.write(&rows)).map_err(|error| failed(&self.path, error))
    }

    fn finish(
        mut self: Box<Self>,
        dictionary: &Dictionary,
        notes: &Notes,
    ) -> Result<Vec<String>, TraceError> {
        for (key, value) in table::metadata(dictionary, notes.format) {
            self.table.append_key_value_metadata(KeyValue::new(key.to_string(), Some(value)));
        }
        self.table.into_inner().map_err(|error| failed(&self.path, error))?.publish()?;
        Ok(Vec::new())
    }
}
