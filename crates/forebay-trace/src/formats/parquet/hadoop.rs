//! Captures of queued requests in Parquet, as written by the capture kit of our Hadoop traces.
//!
//! The columns read are: `time_ns` (from the first event), `pid` (the thread), `tgid` (the
//! process), `process` (the thread's name), `op` (read, write, discard, flush), `lba` and `sectors`
//! of 512 bytes, `flags` (letters of `PFASM`), and `latency_ns`. A stream is a combination of
//! thread, process and name, so a thread that changes its name becomes another stream. There is one
//! volume.

use std::collections::BTreeMap;

use forebay_core::{Nanos, Op};

use super::{Schema, Table};
use crate::formats::parquet::columns::Columns;
use crate::naming::NameBudget;
use crate::op_flags::{FLAGS_EXPECTED, flags_of, op_of};
use crate::rows::{self, RowError};
use crate::table::Field;
use crate::{Dictionary, Record, Stream, TraceError};

/// The size of a sector.
const SECTOR_BYTES: u64 = 512;

/// The columns that are read.
const COLUMNS: [&str; 9] =
    ["time_ns", "pid", "tgid", "process", "op", "lba", "sectors", "flags", "latency_ns"];

/// The capture form of a table.
pub(super) struct Hadoop {
    streams: BTreeMap<Stream, u32>,
    room: NameBudget,
}

impl Schema for Hadoop {
    const NAME: &'static str = "hadoop-parquet";

    fn new(_: &Table, dictionary: &mut Dictionary) -> Result<Hadoop, TraceError> {
        dictionary.volumes.push("disk".into());
        Ok(Hadoop { streams: BTreeMap::new(), room: NameBudget::default() })
    }

    fn wanted(_: &[Field]) -> Vec<&str> {
        COLUMNS.to_vec()
    }

    fn records(
        &mut self,
        columns: &Columns,
        dictionary: &mut Dictionary,
        batch: &mut Vec<Record>,
    ) -> Result<(), TraceError> {
        let at = columns.numbers("time_ns", false)?;
        let thread = columns.numbers("pid", false)?;
        let process = columns.numbers("tgid", false)?;
        let names = columns.meanings("process", "a name", None, |text| Some(text.to_string()))?;
        let ops =
            columns.meanings("op", "read, write, discard or flush", None, |text| match text {
                "discard" => Some(Op::Trim),
                other => op_of(other.as_bytes()),
            })?;
        let lba = columns.numbers("lba", false)?;
        let sectors = columns.numbers("sectors", false)?;
        let flags = columns.meanings("flags", FLAGS_EXPECTED, None, |t| flags_of(t.as_bytes()))?;
        let latency = columns.numbers("latency_ns", true)?;
        for (row, ((op, flags), name)) in ops.into_iter().zip(flags).zip(names).enumerate() {
            let bytes = |value: u64| value.saturating_mul(SECTOR_BYTES);
            let mut record = rows::record(
                columns.unsigned(&at, row, "time_ns")?,
                op,
                bytes(columns.unsigned(&lba, row, "lba")?),
                bytes(columns.unsigned(&sectors, row, "sectors")?),
            )
            .map_err(|wrong| columns.row_error(row, wrong))?;
            record.flags = flags;
            record.latency = columns.optional(&latency, row, "latency_ns")?.map(Nanos);
            let id = |numbers, column| {
                let value = columns.unsigned(numbers, row, column)?;
                u32::try_from(value).map(Some).map_err(|_| {
                    let got = value.to_string();
                    columns
                        .row_error(row, RowError::new(column, got.as_bytes(), "an id below 2^32"))
                })
            };
            let stream =
                Stream { thread: id(&thread, "pid")?, process: id(&process, "tgid")?, name };
            record.stream = match self.streams.get(&stream) {
                Some(&known) => known,
                None => {
                    (self.room.take("name", stream.name.as_bytes()))
                        .map_err(|wrong| columns.row_error(row, wrong))?;
                    dictionary.streams.push(stream.clone());
                    let index = (dictionary.streams.len() - 1) as u32;
                    self.streams.insert(stream, index);
                    index
                }
            };
            batch.push(record);
        }
        Ok(())
    }
}
