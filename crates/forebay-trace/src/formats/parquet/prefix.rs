//! Reads the part of a Parquet file up to its last complete footer.
//!
//! Parquet is read from the footer at its end. A trace written by a running server gets a footer at
//! each [checkpoint](crate::write::Writer::checkpoint), so if the server is killed, everything
//! before the last footer can be read.

use std::fs::File;
use std::io::{BufReader, Seek, SeekFrom};
use std::os::unix::fs::FileExt;

use ::parquet::errors::ParquetError;
use ::parquet::file::reader::{ChunkReader, Length};
use ::parquet::file::serialized_reader::SerializedFileReader;
use bytes::Bytes;
use memchr::memmem;

type Result<T> = std::result::Result<T, ParquetError>;

/// The bytes at the end of a footer.
const MAGIC: &[u8] = b"PAR1";
/// How far from the end of a file a footer is searched for, and how many bytes are read at a time.
const SEARCH_BYTES: u64 = 256 << 20;
const BLOCK_BYTES: u64 = 1 << 20;
/// The maximum number of positions to try that look like the end of a footer.
const TRIES_MAX: usize = 64;

/// The first part of a file.
pub(super) struct Prefix {
    file: File,
    bytes: u64,
}

impl Length for Prefix {
    fn len(&self) -> u64 {
        self.bytes
    }
}

impl ChunkReader for Prefix {
    type T = BufReader<File>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        let mut file = self.file.try_clone()?;
        file.seek(SeekFrom::Start(start))?;
        Ok(BufReader::new(file))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let end = start.checked_add(length as u64);
        if end.is_none_or(|end| end > self.bytes) {
            return Err(ParquetError::EOF(format!("{length} bytes at {start} are beyond the end")));
        }
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, start)?;
        Ok(Bytes::from(bytes))
    }
}

/// Opens a file up to its last complete footer. Also returns the number of bytes after it.
pub(super) fn open(file: File) -> Result<(SerializedFileReader<Prefix>, u64)> {
    let bytes = file.metadata()?.len();
    let prefix = |bytes| Ok::<_, ParquetError>(Prefix { file: file.try_clone()?, bytes });
    let error = match SerializedFileReader::new(prefix(bytes)?) {
        Ok(reader) => return Ok((reader, 0)),
        Err(error) => error,
    };
    let mut end = bytes;
    for _ in 0..TRIES_MAX {
        // A match at 0 is the beginning of the file, which contains the same bytes.
        let Some(at) = last_magic(&file, bytes, end)?.filter(|at| *at > 0) else { break };
        end = at;
        if let Ok(reader) = SerializedFileReader::new(prefix(at + MAGIC.len() as u64)?) {
            return Ok((reader, bytes - at - MAGIC.len() as u64));
        }
    }
    Err(error)
}

/// Returns the last position before `end` where a footer may end.
fn last_magic(file: &File, bytes: u64, end: u64) -> Result<Option<u64>> {
    let first = bytes.saturating_sub(SEARCH_BYTES);
    let mut to = end;
    while to > first {
        let from = to.saturating_sub(BLOCK_BYTES).max(first);
        // The end of a footer may extend across two blocks.
        let until = (to + MAGIC.len() as u64 - 1).min(bytes);
        let mut block = vec![0; (until - from) as usize];
        file.read_exact_at(&mut block, from)?;
        if let Some(at) = memmem::rfind(&block, MAGIC) {
            return Ok(Some(from + at as u64));
        }
        to = from;
    }
    Ok(None)
}
