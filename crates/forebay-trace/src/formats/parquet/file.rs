//! Reads requested columns of a Parquet file in batches, row group by row group.

use std::fs::File;
use std::path::{Path, PathBuf};

use ::parquet::errors::ParquetError;
use ::parquet::file::reader::FileReader;
use ::parquet::file::serialized_reader::SerializedFileReader;

use super::chunk::Chunk;
use super::prefix::{self, Prefix};
use super::{guarded, kinds};
use crate::TraceError;
use crate::table::{Batch, Column, ColumnKind, Field, Source};
use crate::trace::BATCH;
use forebay_words::plural::counted;

type Result<T> = std::result::Result<T, ParquetError>;

/// The metadata key under which Arrow's writers store their schema.
pub(crate) const KEY_ARROW: &str = "ARROW:schema";

/// An open Parquet file.
pub(super) struct ParquetFile {
    path: PathBuf,
    reader: SerializedFileReader<Prefix>,
    /// The number of bytes after the last footer, which is not 0 if the file is truncated.
    beyond_bytes: u64,
    fields: Vec<Field>,
    /// For each field, the index of its column in the file. A nested field has a column for each of
    /// its parts.
    places: Vec<Option<usize>>,
    /// The index of the next row group.
    group: usize,
    /// The number of rows that remain in the current row group.
    left: usize,
    /// The requested columns of the current row group, and the index of each one's field.
    chunks: Vec<(usize, Chunk)>,
    batch: Batch,
}

impl ParquetFile {
    pub(super) fn open(path: &Path, file: File) -> std::result::Result<ParquetFile, TraceError> {
        guarded(path, || {
            let (reader, beyond_bytes) = prefix::open(file)?;
            let about = reader.metadata().file_metadata();
            let said = about.key_value_metadata().into_iter().flatten();
            let arrow =
                said.filter(|entry| entry.key == KEY_ARROW).find_map(|e| e.value.as_deref());
            let schema = about.schema_descr();
            let fields = kinds::fields(schema.root_schema(), arrow)?;
            let mut places = vec![None; fields.len()];
            for column in 0..schema.num_columns() {
                let root = schema.get_column_root_idx(column);
                if !matches!(fields[root].kind, ColumnKind::Other(_)) {
                    places[root] = Some(column);
                }
            }
            let columns = fields.iter().map(|field| Column::of(&field.kind)).collect();
            Ok(ParquetFile {
                path: path.to_path_buf(),
                batch: Batch { rows: 0, columns },
                reader,
                beyond_bytes,
                fields,
                places,
                group: 0,
                left: 0,
                chunks: Vec::new(),
            })
        })
    }

    /// Returns the number of rows in the file.
    pub(super) fn rows(&self) -> i64 {
        self.reader.metadata().file_metadata().num_rows()
    }

    /// Returns a note for the user if the file is truncated.
    pub(super) fn note(&self) -> Option<String> {
        (self.beyond_bytes > 0).then(|| {
            format!(
                "the file has no end, because it was being written: the last {} are not read",
                counted(self.beyond_bytes, "byte")
            )
        })
    }

    /// Returns the metadata entries that have a value.
    pub(super) fn metadata(&self) -> Vec<(String, String)> {
        let said = self.reader.metadata().file_metadata().key_value_metadata();
        let said = said.into_iter().flatten();
        said.filter_map(|entry| Some((entry.key.clone(), entry.value.clone()?))).collect()
    }

    /// Opens the requested columns of the next row group with any rows. Returns false at the end of
    /// the file.
    fn begin_group(&mut self, wanted: &[usize]) -> Result<bool> {
        while self.group < self.reader.num_row_groups() {
            let group = self.reader.get_row_group(self.group)?;
            self.group += 1;
            self.left = usize::try_from(group.metadata().num_rows()).map_err(|_| {
                ParquetError::General("a row group with a negative number of rows".into())
            })?;
            if self.left == 0 {
                continue;
            }
            self.chunks.clear();
            for &field in wanted {
                let Some(place) = self.places.get(field).copied().flatten() else { continue };
                let column = group.metadata().column(place).column_descr_ptr();
                let pages = group.get_column_page_reader(place)?;
                let chunk = Chunk::new(column, pages, self.fields[field].kind.clone())?;
                self.batch.columns[field] = Column::of(&self.fields[field].kind);
                self.chunks.push((field, chunk));
            }
            return Ok(true);
        }
        Ok(false)
    }

    fn fill(&mut self, wanted: &[usize]) -> Result<bool> {
        if self.left == 0 && !self.begin_group(wanted)? {
            return Ok(false);
        }
        self.batch.rows = self.left.min(BATCH);
        for (field, chunk) in &mut self.chunks {
            chunk.read(self.batch.rows, &mut self.batch.columns[*field])?;
        }
        self.left -= self.batch.rows;
        Ok(true)
    }
}

impl Source for ParquetFile {
    fn fields(&self) -> &[Field] {
        &self.fields
    }

    fn next(&mut self, wanted: &[usize]) -> std::result::Result<Option<&Batch>, TraceError> {
        let path = self.path.clone();
        let is_some = guarded(&path, || self.fill(wanted))?;
        Ok(is_some.then_some(&self.batch))
    }
}
