//! Encodes and compresses the columns of a full row group on two threads, while the next group is
//! filled.

use std::panic;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use parquet::column::writer::{ColumnCloseResult, get_column_writer};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterPropertiesPtr;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

use super::columns::write;
use crate::trace::{BATCH, Record};

/// The columns that the second thread encodes, chosen so that both threads have about the same
/// amount of work.
const SECOND: [&str; 3] = ["offset", "len", "latency_ns"];

/// An encoded column.
pub(super) struct Chunk {
    place: usize,
    /// The bytes of the column in the file.
    pub(super) bytes: Bytes,
    /// The column's entry in the file's metadata.
    pub(super) about: ColumnCloseResult,
}

type Chunks = Result<Vec<Chunk>, ParquetError>;

/// A row group that is being encoded.
pub(super) struct Group {
    threads: [JoinHandle<Chunks>; 2],
}

impl Group {
    /// Starts encoding `rows` for all columns of the file.
    pub(super) fn new(
        rows: Vec<Record>,
        columns: Vec<ColumnDescPtr>,
        properties: &WriterPropertiesPtr,
    ) -> Group {
        let rows = Arc::new(rows);
        let columns = columns.into_iter().enumerate();
        let (second, first): (Vec<_>, Vec<_>) =
            columns.partition(|(_, column)| SECOND.contains(&column.name()));
        let threads = [first, second].map(|columns| {
            let (rows, properties) = (Arc::clone(&rows), Arc::clone(properties));
            thread::spawn(move || {
                let columns = columns.into_iter();
                columns.map(|(place, column)| chunk(place, column, &rows, &properties)).collect()
            })
        });
        Group { threads }
    }

    /// Waits for the encoding and returns the columns in order.
    pub(super) fn finish(self) -> Chunks {
        let mut chunks = Vec::new();
        for thread in self.threads {
            chunks.extend(thread.join().unwrap_or_else(|cause| panic::resume_unwind(cause))?);
        }
        chunks.sort_by_key(|chunk: &Chunk| chunk.place);
        Ok(chunks)
    }
}

fn chunk(
    place: usize,
    column: ColumnDescPtr,
    rows: &[Record],
    properties: &WriterPropertiesPtr,
) -> Result<Chunk, ParquetError> {
    let mut bytes = TrackedWrite::new(Vec::new());
    let pages = Box::new(SerializedPageWriter::new(&mut bytes));
    let mut writer = get_column_writer(column, Arc::clone(properties), pages);
    for rows in rows.chunks(BATCH) {
        write(&mut writer, place, rows)?;
    }
    let about = writer.close()?;
    Ok(Chunk { place, bytes: bytes.into_inner()?.into(), about })
}
