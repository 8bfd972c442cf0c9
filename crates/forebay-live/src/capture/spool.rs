//! Writes records to a file: names their threads, and numbers and counts them.

use std::fs::File;
use std::io::{BufWriter, Seek, Write};
use std::path::{Path, PathBuf};

use super::CaptureError;
use super::names::Names;
use super::records::{Record, RecordKind, Records};

/// The number of captured events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The number of queued requests that do not write.
    pub reads: u64,
    /// The number of queued requests that write, flush or trim. A bare flush counts too.
    pub writes: u64,
    /// The number of bytes in `reads`.
    pub read_bytes: u64,
    /// The number of bytes in `writes`.
    pub write_bytes: u64,
}

impl Counts {
    /// Returns the total number of requests.
    pub fn requests(&self) -> u64 {
        self.reads + self.writes
    }

    fn add(&mut self, write: bool, len_bytes: u32) {
        let (requests, bytes) = match write {
            true => (&mut self.writes, &mut self.write_bytes),
            false => (&mut self.reads, &mut self.read_bytes),
        };
        *requests += 1;
        *bytes += u64::from(len_bytes);
    }
}

/// A file to which records are written.
pub(crate) struct Spool {
    folder: PathBuf,
    stream: Records,
    out: Out,
    pub(crate) counts: Counts,
}

struct Out {
    file: BufWriter<File>,
    /// The names of threads, if the tracer provides neither names nor sequence numbers.
    names: Option<Names>,
    sequence: u32,
}

impl Spool {
    /// Creates an unlinked file in `folder`. With `names`, records are numbered and their threads
    /// are named.
    pub(crate) fn new(folder: &Path, names: Option<Names>) -> Result<Spool, CaptureError> {
        let file = tempfile::tempfile_in(folder).map_err(|source| failed(folder, source))?;
        let out = Out { file: BufWriter::with_capacity(1 << 18, file), names, sequence: 0 };
        let (stream, counts) = (Records::default(), Counts::default());
        Ok(Spool { folder: folder.to_path_buf(), stream, out, counts })
    }

    /// Appends bytes of the tracer's stream.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<(), CaptureError> {
        let (out, counts) = (&mut self.out, &mut self.counts);
        let added = self.stream.add(bytes, |mut record| out.put(&mut record, counts));
        added.map_err(|source| failed(&self.folder, source))
    }

    /// Returns the file, rewound to its start; irregularities are added to `notes`.
    pub(crate) fn finish(self, notes: &mut Vec<String>) -> Result<(File, Counts), CaptureError> {
        let foreign = self.stream.foreign_bytes + self.stream.pending_bytes() as u64;
        if foreign > 0 {
            notes.push(format!("{foreign} bytes of the tracer's stream were not complete records"));
        }
        let failed = |source| failed(&self.folder, source);
        let mut file = self.out.file.into_inner().map_err(|error| failed(error.into_error()))?;
        file.rewind().map_err(failed)?;
        Ok((file, self.counts))
    }
}

impl Out {
    fn put(&mut self, record: &mut Record<'_>, counts: &mut Counts) -> std::io::Result<()> {
        let kind = record.kind();
        if kind == RecordKind::Needless {
            return Ok(());
        }
        if let Some(names) = &mut self.names {
            self.sequence = self.sequence.wrapping_add(1);
            record.number(self.sequence);
            if let RecordKind::Queued { .. } = kind
                && let Some(name) = names.changed(record.pid())
            {
                self.file.write_all(&record.naming(name))?;
            }
        }
        if let RecordKind::Queued { write } = kind {
            counts.add(write, record.len_bytes());
        }
        self.file.write_all(record.bytes())
    }
}

fn failed(folder: &Path, source: std::io::Error) -> CaptureError {
    CaptureError::Io { path: folder.to_path_buf(), source }
}
