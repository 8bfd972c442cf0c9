//! A rearrangement that survives restarts: a record on the disk states that the new positions are
//! valid.
//!
//! The record is written once, when everything has been copied (docs/placement-log.md). First the
//! disk is flushed. Then a copy of the head is written to a second location, where it is found even
//! if the disk's length has changed. Then the rows are written, which describe the positions, and
//! finally the head that refers to them; each with FUA. The old positions are valid until the head
//! is durable, and the new ones from then on. Clients' writes wait meanwhile. A head is within one
//! sector, so a power cut cannot leave it incomplete.
//!
//! * Data that a flush covered survives a power cut in either case, because the copies are flushed
//!   before the head is written.
//! * If a flush for the copying fails, the next flush of a client reports the fault, and the
//!   copying is abandoned.
//! * A head that the disk refuses repeatedly may have been written after all. From then on, flushes
//!   and FUA writes fail, so nothing becomes durable that a restart would not find.

use super::{KEPT, Rearrange};
use crate::contract::{Buf, Bytes, Fault, Flags, Op, Outcome, Request, Slots, worst};
use crate::rearrangement::Rearrangement;
use crate::stack::placed::{Owner, Plan, Planned};

/// The first word of a head after the checksum, and the version of the format.
const MARK: u64 = u64::from_le_bytes(*b"forebayR");
const VERSION: u64 = 1;
/// The size of a head in bytes. The size of the rows is a multiple of it.
pub const HEAD_BYTES: u64 = 4096;
const BLOCK: u32 = HEAD_BYTES as u32;
/// The size of a row in bytes: the first byte of the old position, and the length.
const ROW: u32 = 16;
/// How often the head is written if the disk refuses it.
const TRIES_MAX: u32 = 4;

/// The size of a record in bytes.
pub const RECORD_BYTES: u64 = 1 << 20;
/// The maximum number of rows in a record.
pub const ROWS_MAX: usize = ((RECORD_BYTES - HEAD_BYTES) / ROW as u64) as usize;

/// Returns the offset of the record on a disk of this size: in its last blocks. `None` if the disk
/// is too small.
pub fn record_at(disk_bytes: u64) -> Option<u64> {
    let end = disk_bytes / HEAD_BYTES * HEAD_BYTES;
    end.checked_sub(RECORD_BYTES).filter(|at| *at > 0)
}

/// The information in the first bytes of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadRecord {
    /// The offset of the record.
    pub at: u64,
    /// The offset of the new positions.
    pub to: u64,
}

/// Returns the information in the first 64 bytes of a head; `None` if there is no head. Whether the
/// record is intact is checked when it is opened.
pub fn found(head: &[u8; 64]) -> Option<HeadRecord> {
    let word =
        |nth: usize| head[8 * nth..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    (word(1) == MARK).then(|| HeadRecord { at: word(6), to: word(4) })
}

/// The locations of the two heads of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The offset of the record: its head, followed by the rows.
    pub at: u64,
    /// The offset of the copy, which is used only to locate the record.
    pub marker: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Closed,
    ReadsHead,
    ReadsRows {
        count: u32,
        to: u64,
        sum: u64,
    },
    /// Flushing, because data found after a kill need not be durable.
    Settles,
    Open,
    /// Flushing after everything has been copied.
    Flushes,
    WritesMarker,
    WritesRows,
    WritesHead {
        tries: u32,
    },
    Failed(Fault),
}

/// The location of the record, and the progress of writing it.
#[derive(Clone, Debug)]
pub(super) struct RecordKeeper {
    place: Record,
    /// Whether to begin a rearrangement if there is no record.
    begins: bool,
    phase: Phase,
    /// The data being written: the head, then the rows.
    buf: Buf,
    /// Requests that arrived before the positions of data were known.
    early: Vec<(u32, Request, Bytes)>,
    /// The fault of a flush for which no client waited.
    untold: Option<Fault>,
}

impl RecordKeeper {
    pub(super) fn new(place: Record, begins: bool) -> RecordKeeper {
        RecordKeeper {
            place,
            begins,
            phase: Phase::Closed,
            buf: 0,
            early: Vec::new(),
            untold: None,
        }
    }

    /// Opens as if there were no record, without reading its location.
    #[cfg(test)]
    pub(super) fn open_blank(&mut self) {
        self.phase = Phase::Open;
    }

    /// Returns whether the positions of data are known.
    pub(super) fn is_open(&self) -> bool {
        use Phase::{Closed, ReadsHead, ReadsRows, Settles};
        !matches!(self.phase, Closed | ReadsHead | ReadsRows { .. } | Settles)
    }

    /// Returns whether clients' writes must wait.
    pub(super) fn is_recording(&self) -> bool {
        use Phase::{Flushes, WritesHead, WritesMarker, WritesRows};
        matches!(self.phase, Flushes | WritesMarker | WritesRows | WritesHead { .. })
    }

    fn io(&self, op: Op, skip: u32, len: u32) -> Planned {
        let moves = op.moves_data();
        Planned {
            owner: Owner::Background,
            lane: 0,
            op,
            offset: if moves { self.place.at + u64::from(skip) } else { 0 },
            len,
            bytes: if moves { Bytes::of(self.buf).on(skip) } else { Bytes::NONE },
            // Policies know only clients' streams.
            stream: 0,
            flags: if op == Op::Write { Flags::FUA } else { Flags::NONE },
            token: KEPT,
        }
    }

    fn read(&mut self, skip: u32, len: u32, plan: &mut Plan<'_>) {
        let buf = plan.slots.take(len);
        plan.io(Planned { bytes: Bytes::of(buf), ..self.io(Op::Read, skip, len) });
        plan.slots.free(buf);
    }
}

/// The contents of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Head {
    Blank,
    /// A head with the number of rows, the offset of the new positions, and the checksum of the
    /// rows.
    Of {
        count: u32,
        to: u64,
        sum: u64,
    },
}

/// Returns the head at `from`.
fn head(from: Bytes, at: u64, slots: &dyn Slots) -> Result<Head, Fault> {
    let mut bytes = [0; BLOCK as usize];
    if !slots.get(from.len(BLOCK), &mut bytes) {
        return Err(Fault::Media);
    }
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(Head::Blank);
    }
    let word = |nth: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[8 * nth..][..8]);
        u64::from_le_bytes(word)
    };
    if (word(1), word(2), word(6)) != (MARK, VERSION, at) {
        return Err(Fault::Refused);
    }
    let count = u32::try_from(word(3)).ok().filter(|count| (1..=ROWS_MAX as u32).contains(count));
    let is_whole = slots.checksum(from.on(8).len(BLOCK - 8)) == Some(word(0));
    let count = count.filter(|_| is_whole).ok_or(Fault::Media)?;
    Ok(Head::Of { count, to: word(4), sum: word(5) })
}

/// Returns the size of `count` rows in bytes.
fn rows_len(count: u32) -> u32 {
    (count * ROW).next_multiple_of(BLOCK)
}

/// Writes the record of a rearrangement to `to`: the head, then the rows.
fn put(map: &Rearrangement, at: u64, to: Bytes, slots: &mut dyn Slots) {
    let moves = map.moves();
    let len = rows_len(moves.len() as u32);
    slots.zero(to.len(BLOCK + len));
    let rows: Vec<u8> =
        moves.iter().flat_map(|row| [row.from, row.len]).flat_map(u64::to_le_bytes).collect();
    slots.put(to.on(BLOCK).len(rows.len() as u32), &rows);
    let sum = slots.checksum(to.on(BLOCK).len(len)).unwrap_or(0);
    let first = moves.first().map_or(0, |row| row.to);
    let words = [MARK, VERSION, moves.len() as u64, first, sum, at];
    let words: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
    slots.put(to.on(8).len(words.len() as u32), &words);
    let sum = slots.checksum(to.on(8).len(BLOCK - 8)).unwrap_or(0);
    slots.put(to.len(8), &sum.to_le_bytes());
}

/// Returns the rearrangement described by the rows at `from`; all of it must lie before the record
/// at `end`.
fn map_of(
    (count, to, sum): (u32, u64, u64),
    from: Bytes,
    end: u64,
    slots: &dyn Slots,
) -> Option<Rearrangement> {
    let len = rows_len(count);
    let mut bytes = vec![0; len as usize];
    let is_whole =
        slots.get(from.len(len), &mut bytes) && slots.checksum(from.len(len)) == Some(sum);
    is_whole.then_some(())?;
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    let rows: Vec<(u64, u64)> = bytes[..(count * ROW) as usize]
        .chunks_exact(ROW as usize)
        .map(|row| (word(&row[..8]), word(&row[8..])))
        .collect();
    let map = Rearrangement::laid(&rows, to)?;
    let last = map.moves().last()?;
    let is_before = last.to + last.len <= end && rows.iter().all(|(from, len)| from + len <= to);
    is_before.then_some(map)
}

impl Rearrange {
    /// Makes a request wait if the positions of data are not known yet. Returns whether it must
    /// wait.
    pub(super) fn waits(
        &mut self,
        client: u32,
        request: &Request,
        bytes: Bytes,
        plan: &mut Plan<'_>,
    ) -> bool {
        let Some(kept) = &mut self.kept else { return false };
        match kept.phase {
            Phase::Closed => {
                kept.phase = Phase::ReadsHead;
                kept.read(0, BLOCK, plan);
            }
            _ if kept.is_open() => return false,
            _ => {}
        }
        plan.hold(client);
        kept.early.push((client, *request, bytes));
        true
    }

    /// Returns the fault if a request cannot be made durable.
    pub(super) fn refuses(&self, request: &Request) -> Option<Fault> {
        let is_durable = request.op == Op::Flush || request.flags.has(Flags::FUA);
        match self.kept.as_ref()?.phase {
            Phase::Failed(fault) if is_durable => Some(fault),
            _ => None,
        }
    }

    /// Returns the outcome of a client's flush, including the fault of an earlier flush that was
    /// not reported.
    pub(super) fn told(&mut self, io: &Planned, outcome: Outcome) -> Outcome {
        let untold = match &mut self.kept {
            Some(kept) if io.op == Op::Flush => kept.untold.take(),
            _ => None,
        };
        worst(outcome, untold.map_or(Ok(()), Err))
    }

    /// Starts to write the record, once everything has been copied and no I/O is outstanding.
    pub(super) fn record(&mut self, plan: &mut Plan<'_>) {
        if let Some(kept) = &mut self.kept {
            kept.phase = Phase::Flushes;
            plan.io(kept.io(Op::Flush, 0, 0));
        }
    }

    /// Handles the completion of an I/O for the record.
    pub(super) fn recorded_or_read(&mut self, io: &Planned, outcome: Outcome, plan: &mut Plan<'_>) {
        let Some(kept) = &mut self.kept else { return };
        let rows = rows_len(self.map.moves().len() as u32);
        match (kept.phase, outcome) {
            (Phase::ReadsHead | Phase::ReadsRows { .. } | Phase::Settles, Err(fault)) => {
                self.opened(Err(fault), plan);
            }
            (Phase::ReadsHead, Ok(())) => match head(io.bytes, kept.place.at, plan.slots) {
                Ok(Head::Blank) if kept.begins => self.opened(Ok(()), plan),
                Ok(Head::Blank) => self.opened(Err(Fault::Refused), plan),
                Ok(Head::Of { count, to, sum }) => {
                    kept.phase = Phase::ReadsRows { count, to, sum };
                    kept.read(BLOCK, rows_len(count), plan);
                }
                Err(fault) => self.opened(Err(fault), plan),
            },
            (Phase::ReadsRows { count, to, sum }, Ok(())) => {
                match map_of((count, to, sum), io.bytes, kept.place.at, plan.slots) {
                    None => self.opened(Err(Fault::Media), plan),
                    Some(map) => {
                        kept.phase = Phase::Settles;
                        plan.io(kept.io(Op::Flush, 0, 0));
                        (self.map, self.copying, self.holds) = (map, None, true);
                    }
                }
            }
            (Phase::Settles, Ok(())) => self.opened(Ok(()), plan),
            (Phase::Flushes, Ok(())) => {
                kept.phase = Phase::WritesMarker;
                kept.buf = plan.slots.take(BLOCK + rows);
                put(&self.map, kept.place.at, Bytes::of(kept.buf), plan.slots);
                let io = kept.io(Op::Write, 0, BLOCK);
                plan.io(Planned { offset: kept.place.marker, ..io });
            }
            (Phase::WritesMarker, Ok(())) => {
                kept.phase = Phase::WritesRows;
                plan.io(kept.io(Op::Write, BLOCK, rows));
            }
            (Phase::WritesRows, Ok(())) => {
                kept.phase = Phase::WritesHead { tries: 1 };
                plan.io(kept.io(Op::Write, 0, BLOCK));
            }
            (Phase::WritesHead { .. }, Ok(())) => {
                self.holds = true;
                self.recorded(Phase::Open, plan);
            }
            (Phase::WritesHead { tries }, Err(Fault::Media)) if tries < TRIES_MAX => {
                kept.phase = Phase::WritesHead { tries: tries + 1 };
                plan.io(kept.io(Op::Write, 0, BLOCK));
            }
            (Phase::WritesHead { .. }, Err(fault)) => self.recorded(Phase::Failed(fault), plan),
            (Phase::Flushes, Err(fault)) => {
                kept.untold = Some(fault);
                self.recorded(Phase::Open, plan);
            }
            // Rows or a copy of the head have no effect without the head.
            (Phase::WritesMarker | Phase::WritesRows, Err(_)) => self.recorded(Phase::Open, plan),
            (Phase::Closed | Phase::Open | Phase::Failed(_), _) => {}
        }
    }

    /// Resumes the waiting requests once the positions of data are known. If they cannot be read,
    /// refuses the requests; the next request tries again.
    fn opened(&mut self, outcome: Outcome, plan: &mut Plan<'_>) {
        let Some(kept) = &mut self.kept else { return };
        kept.phase = if outcome.is_ok() { Phase::Open } else { Phase::Closed };
        for (client, request, bytes) in std::mem::take(&mut kept.early) {
            if outcome.is_ok() {
                self.place_known(client, &request, bytes, plan);
            }
            plan.release(client, outcome);
        }
    }

    /// Resumes the waiting writes after the record was written or failed.
    fn recorded(&mut self, phase: Phase, plan: &mut Plan<'_>) {
        if let Some(kept) = &mut self.kept {
            kept.phase = phase;
            plan.slots.free(std::mem::take(&mut kept.buf));
        }
        self.copying = None;
        self.go_on(plan);
    }
}
