//! A row group while it is filled: its columns encoded and compressed on two threads.

use std::panic;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use arrow_array::RecordBatch;
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowColumnWriter, compute_leaves};
use parquet::errors::ParquetError;

/// Batches that may wait for the other thread.
const WAITING_MAX: usize = 4;

/// Columns that are encoded on the other thread: with these, both have about as much to do.
const THERE: [&str; 3] = ["offset", "len", "latency_ns"];

type Chunks = Vec<(usize, ArrowColumnChunk)>;

/// Columns and their places in a row.
struct Columns(Vec<(usize, ArrowColumnWriter)>);

impl Columns {
    fn write(&mut self, rows: &RecordBatch) -> Result<(), ParquetError> {
        for (place, column) in &mut self.0 {
            // No column has parts of its own, so that each has one leaf.
            for leaf in compute_leaves(rows.schema_ref().field(*place), rows.column(*place))? {
                column.write(&leaf)?;
            }
        }
        Ok(())
    }

    fn close(self) -> Result<Chunks, ParquetError> {
        self.0.into_iter().map(|(place, column)| Ok((place, column.close()?))).collect()
    }
}

/// A group that takes rows.
pub(super) struct Group {
    here: Columns,
    /// To the other thread; dropped to end it.
    batches: SyncSender<RecordBatch>,
    there: JoinHandle<Result<Chunks, ParquetError>>,
    /// Rows so far.
    pub(super) rows: usize,
}

impl Group {
    /// Of these columns, one each of the schema.
    pub(super) fn new(columns: Vec<ArrowColumnWriter>, names: &[&str]) -> Group {
        let columns = columns.into_iter().enumerate();
        let (there, here) =
            columns.partition(|(place, _)| names.get(*place).is_some_and(|n| THERE.contains(n)));
        let (here, mut there) = (Columns(here), Columns(there));
        let (batches, given) = sync_channel::<RecordBatch>(WAITING_MAX);
        let work = move || {
            given.iter().try_for_each(|rows| there.write(&rows))?;
            there.close()
        };
        Group { here, batches, there: thread::spawn(work), rows: 0 }
    }

    /// Appends rows. An error of the other thread comes with [`Group::close`].
    pub(super) fn write(&mut self, rows: RecordBatch) -> Result<(), ParquetError> {
        self.rows += rows.num_rows();
        // Where nobody takes it, the thread has ended with an error.
        let _ = self.batches.send(rows.clone());
        self.here.write(&rows)
    }

    /// The finished columns in their order.
    pub(super) fn close(self) -> Result<Vec<ArrowColumnChunk>, ParquetError> {
        drop(self.batches);
        let mut chunks = self.here.close()?;
        chunks.extend(self.there.join().unwrap_or_else(|cause| panic::resume_unwind(cause))?);
        chunks.sort_by_key(|(place, _)| *place);
        Ok(chunks.into_iter().map(|(_, chunk)| chunk).collect())
    }
}
