//! Stores records in a single file, separated by volume: they are buffered in memory and appended
//! in runs.
//!
//! A run consists of a header of 12 bytes (the start of the volume's previous run, and the number
//! of records) and its records of 34 bytes each, all little-endian. Memory is bounded by
//! [`HELD_MAX`] records and a few words per volume, regardless of the length of the trace. The file
//! is read only by the program that wrote it. Nevertheless, invalid content is an error and never
//! causes a panic.

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};

use forebay_core::{Flags, Nanos, Op};
use serde::{Deserialize, Serialize};

use crate::Record;

/// The maximum number of records in memory, which take 48 bytes each.
const HELD_MAX: usize = 1 << 20;
/// The maximum number of records in a run.
const RUN_MAX: usize = 1 << 16;
/// Stands for the missing previous run in the first run of a volume.
const NONE: u64 = u64::MAX;
const HEAD_BYTES: usize = 12;
const RECORD_BYTES: usize = 34;

/// What the file contains for a volume.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Extent {
    /// The start of the volume's last run.
    last_run: u64,
    /// The number of records.
    pub(super) requests: u64,
    /// The time of the first record.
    pub(super) first_ns: u64,
    /// The time of the last record.
    pub(super) last_ns: u64,
}

/// The file while it is being written.
pub(super) struct Spool {
    file: BufWriter<File>,
    length: u64,
    volumes: Vec<(Extent, Vec<Record>)>,
    held: usize,
}

impl Spool {
    pub(super) fn new(file: File) -> Spool {
        let file = BufWriter::with_capacity(1 << 18, file);
        Spool { file, length: 0, volumes: Vec::new(), held: 0 }
    }

    /// Adds records. They must be in order of time.
    pub(super) fn add(&mut self, batch: &[Record]) -> io::Result<()> {
        for record in batch {
            let index = record.volume as usize;
            if index >= self.volumes.len() {
                let empty = Extent { last_run: NONE, requests: 0, first_ns: 0, last_ns: 0 };
                self.volumes.resize(index + 1, (empty, Vec::new()));
            }
            let (extent, held) = &mut self.volumes[index];
            if extent.requests == 0 {
                extent.first_ns = record.at.0;
            }
            extent.last_ns = record.at.0;
            extent.requests += 1;
            held.push(*record);
            self.held += 1;
        }
        if self.held > HELD_MAX { self.spill() } else { Ok(()) }
    }

    /// Appends all records in memory to the file.
    fn spill(&mut self) -> io::Result<()> {
        for (extent, held) in &mut self.volumes {
            for run in held.chunks(RUN_MAX) {
                self.file.write_all(&extent.last_run.to_le_bytes())?;
                self.file.write_all(&(run.len() as u32).to_le_bytes())?;
                for record in run {
                    self.file.write_all(&packed(record))?;
                }
                extent.last_run = self.length;
                self.length += (HEAD_BYTES + run.len() * RECORD_BYTES) as u64;
            }
            // Free the memory, because another volume may need it next.
            *held = Vec::new();
        }
        self.held = 0;
        Ok(())
    }

    /// Writes everything to disk and returns the extents of all volumes.
    pub(super) fn seal(mut self) -> io::Result<Vec<Extent>> {
        self.spill()?;
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        Ok(self.volumes.into_iter().map(|(extent, _)| extent).collect())
    }
}

/// Reads the records of a volume, run by run.
pub(super) struct Runs<'a> {
    file: &'a mut File,
    /// The starts of the remaining runs. The earliest is the last element.
    ahead: Vec<u64>,
    bytes: Vec<u8>,
}

impl<'a> Runs<'a> {
    pub(super) fn new(file: &'a mut File, extent: &Extent) -> io::Result<Runs<'a>> {
        let mut ahead = Vec::new();
        let mut at = extent.last_run;
        while at != NONE {
            // Each run refers to an earlier one. Checking this ensures that the loop ends.
            if ahead.last().is_some_and(|&later| at >= later) {
                return Err(damaged());
            }
            ahead.push(at);
            file.seek(SeekFrom::Start(at))?;
            let mut before = [0; 8];
            file.read_exact(&mut before)?;
            at = u64::from_le_bytes(before);
        }
        Ok(Runs { file, ahead, bytes: Vec::new() })
    }

    /// Replaces the content of `batch` with the next run. After the last run, `batch` is empty.
    pub(super) fn next(&mut self, batch: &mut Vec<Record>) -> io::Result<()> {
        batch.clear();
        let Some(at) = self.ahead.pop() else { return Ok(()) };
        self.file.seek(SeekFrom::Start(at + 8))?;
        let mut count = [0; 4];
        self.file.read_exact(&mut count)?;
        let count = u32::from_le_bytes(count) as usize;
        if count == 0 || count > RUN_MAX {
            return Err(damaged());
        }
        self.bytes.resize(count * RECORD_BYTES, 0);
        self.file.read_exact(&mut self.bytes)?;
        let records = self.bytes.as_chunks::<RECORD_BYTES>().0;
        for bytes in records {
            batch.push(unpacked(bytes).ok_or_else(damaged)?);
        }
        Ok(())
    }
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the spool is damaged; remove the folder")
}

fn packed(r: &Record) -> [u8; RECORD_BYTES] {
    let mut bytes = [0; RECORD_BYTES];
    bytes[..8].copy_from_slice(&r.at.0.to_le_bytes());
    bytes[8..16].copy_from_slice(&r.offset.to_le_bytes());
    // An unknown latency is stored as the maximum value.
    bytes[16..24].copy_from_slice(&r.latency.unwrap_or(Nanos::MAX).0.to_le_bytes());
    bytes[24..28].copy_from_slice(&r.len.to_le_bytes());
    bytes[28..32].copy_from_slice(&r.stream.to_le_bytes());
    (bytes[32], bytes[33]) = (r.op as u8, r.flags.0 as u8);
    bytes
}

/// Decodes a record. Its volume is 0.
fn unpacked(bytes: &[u8; RECORD_BYTES]) -> Option<Record> {
    let u64_at = |at: usize| bytes[at..].first_chunk().map(|b| u64::from_le_bytes(*b));
    let u32_at = |at: usize| bytes[at..].first_chunk().map(|b| u32::from_le_bytes(*b));
    let ops = [Op::Read, Op::Write, Op::Flush, Op::Trim, Op::Park];
    Some(Record {
        at: Nanos(u64_at(0)?),
        offset: u64_at(8)?,
        latency: Some(Nanos(u64_at(16)?)).filter(|latency| *latency != Nanos::MAX),
        len: u32_at(24)?,
        stream: u32_at(28)?,
        volume: 0,
        op: ops.into_iter().find(|op| *op as u8 == bytes[32])?,
        flags: Flags(u16::from(bytes[33])),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(n: u64, volume: u32) -> Record {
        Record {
            at: Nanos(n),
            offset: n << 40,
            latency: (!n.is_multiple_of(3)).then_some(Nanos(n)),
            len: n as u32,
            stream: n as u32 / 7,
            volume,
            op: [Op::Read, Op::Write, Op::Flush, Op::Trim][n as usize % 4],
            flags: Flags(n as u16 % 32),
        }
    }

    #[test]
    fn each_volume_comes_back_in_order_over_many_runs() {
        let count = HELD_MAX as u64 * 2 + 5;
        let volume = |n: u64| if n.is_multiple_of(5) { (n / 5 % 100) as u32 } else { 3 };
        let mut spool = Spool::new(tempfile::tempfile().unwrap());
        let mut file = spool.file.get_ref().try_clone().unwrap();
        let all: Vec<Record> = (0..count).map(|n| record(n, volume(n))).collect();
        all.chunks(9999).for_each(|batch| spool.add(batch).unwrap());
        let extents = spool.seal().unwrap();
        assert_eq!(extents.iter().map(|extent| extent.requests).sum::<u64>(), count);
        for (number, extent) in extents.iter().enumerate().step_by(3) {
            let mut expected = all.iter().filter(|r| r.volume == number as u32);
            let (mut runs, mut batch) = (Runs::new(&mut file, extent).unwrap(), Vec::new());
            loop {
                runs.next(&mut batch).unwrap();
                if batch.is_empty() {
                    break;
                }
                for got in &batch {
                    let of_volume = Record { volume: number as u32, ..*got };
                    assert_eq!(Some(&of_volume), expected.next());
                }
            }
            assert_eq!(expected.next(), None);
        }
    }

    #[test]
    fn a_damaged_spool_is_an_error() {
        let mut spool = Spool::new(tempfile::tempfile().unwrap());
        let mut file = spool.file.get_ref().try_clone().unwrap();
        spool.add(&[record(1, 0)]).unwrap();
        let extent = spool.seal().unwrap().remove(0);
        for (at, byte) in [(0, 0), (8, 9), (HEAD_BYTES as u64 + 32, 77)] {
            file.seek(SeekFrom::Start(at)).unwrap();
            let mut old = [0];
            file.read_exact(&mut old).unwrap();
            let put = |file: &mut File, byte| {
                file.seek(SeekFrom::Start(at)).unwrap();
                file.write_all(&[byte]).unwrap();
            };
            put(&mut file, byte);
            let runs = Runs::new(&mut file, &extent);
            assert!(runs.and_then(|mut runs| runs.next(&mut Vec::new())).is_err(), "byte {at}");
            put(&mut file, old[0]);
        }
    }
}
