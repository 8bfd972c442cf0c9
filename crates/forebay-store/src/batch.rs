//! Batches: what a log is made of. A batch is the records of all puts that one write made durable.
//!
//! A log is in a slot of its disk. A batch is a frame (`a` the log, `b` its place in it) whose payload is where
//! in the log the next one begins, the log before this one and how many batches that had, whether those before it
//! were durable, and the records. It is padded to whole blocks, so that a torn sector of the next one harms none that was acknowledged.
//!
//! A put that no slot has room for *stretches* its log: its batch is among the segments, and the slot has a
//! block that says where, written once the batch is durable.

use std::ops::Range;

use crate::frame::{BLOCK, Fields, Frame, HEAD, Kind, pad};
use crate::record::Record;

/// Bytes of a batch that are not records.
pub(crate) const BATCH_HEAD: usize = HEAD + 32;

/// What a batch says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) log: u64,
    /// Its place in the log, from 0.
    pub(crate) index: u64,
    /// Where the next one begins in the log.
    pub(crate) next: u64,
    /// The log before this one, and its batches.
    pub(crate) before: (u64, u64),
    /// Those before it in the log were durable when it was written: none of them can be torn.
    pub(crate) is_synced: bool,
}

impl Batch {
    /// Its bytes, whole blocks, if it begins at `at` in its log and the next one follows after `gap` bytes
    /// and those.
    pub(crate) fn bytes(
        log: u64,
        index: u64,
        before: (u64, u64),
        (at, gap, is_synced): (u64, u64, bool),
        records: &[Record],
        store: u64,
    ) -> (Vec<u8>, Batch) {
        let size: usize = records.iter().map(Record::size).sum();
        let mut out = Vec::with_capacity((BATCH_HEAD + size).next_multiple_of(crate::frame::BLOCK));
        let from = Frame::begin(&mut out);
        let next = at + (BATCH_HEAD + size).next_multiple_of(crate::frame::BLOCK) as u64 + gap;
        out.extend(next.to_le_bytes());
        out.extend(before.0.to_le_bytes());
        out.extend(before.1.to_le_bytes());
        out.extend(u64::from(is_synced).to_le_bytes());
        records.iter().for_each(|record| record.put(&mut out));
        let count = records.len() as u32;
        Frame { kind: Kind::Batch, store, count, a: log, b: index }.end(&mut out, from);
        pad(&mut out);
        (out, Batch { log, index, next, before, is_synced })
    }

    /// The batch that begins here, whatever log it is of.
    pub(crate) fn parse(bytes: &[u8], store: u64) -> Option<(Batch, Vec<Record>)> {
        let (frame, payload) = Frame::parse(bytes, Kind::Batch, store)?;
        let mut fields = Fields(payload);
        let (next, before) = (fields.u64()?, (fields.u64()?, fields.u64()?));
        let is_synced = fields.u64()? != 0;
        let records = Record::all(fields.0, frame.count)?;
        Some((Batch { log: frame.a, index: frame.b, next, before, is_synced }, records))
    }
}

/// A batch that is not in its log's slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) batch: Batch,
    /// Where it is on the disk.
    pub(crate) offset: u64,
    /// Whole blocks.
    pub(crate) len: u64,
}

impl Stretch {
    /// The block that says so in the slot.
    pub(crate) fn bytes(&self, store: u64) -> Vec<u8> {
        let mut out = Vec::new();
        let from = Frame::begin(&mut out);
        let Batch { log, index, next, before, is_synced } = self.batch;
        for word in [next, before.0, before.1, is_synced.into(), self.offset, self.len] {
            out.extend(word.to_le_bytes());
        }
        Frame { kind: Kind::Stretch, store, count: 0, a: log, b: index }.end(&mut out, from);
        pad(&mut out);
        out
    }

    fn parse(bytes: &[u8], store: u64) -> Option<Stretch> {
        let (frame, payload) = Frame::parse(bytes, Kind::Stretch, store)?;
        let mut fields = Fields(payload);
        let (next, before) = (fields.u64()?, (fields.u64()?, fields.u64()?));
        let is_synced = fields.u64()? != 0;
        let batch = Batch { log: frame.a, index: frame.b, next, before, is_synced };
        Some(Stretch { batch, offset: fields.u64()?, len: fields.u64()? })
    }
}

/// What a place in a slot has.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Batch(Batch, Vec<Record>),
    Stretch(Stretch),
}

impl Found {
    /// What is at a place in a slot, if it is whole.
    pub(crate) fn parse(slot: &[u8], at: u64, store: u64) -> Option<Found> {
        let bytes = slot.get(usize::try_from(at).ok()?..)?;
        let batch = Batch::parse(bytes, store).map(|(batch, records)| Found::Batch(batch, records));
        batch.or_else(|| Stretch::parse(bytes, store).map(Found::Stretch))
    }

    pub(crate) fn batch(&self) -> Batch {
        match self {
            Found::Batch(batch, _) => *batch,
            Found::Stretch(stretch) => stretch.batch,
        }
    }
}

/// A log as it is found, batch by batch.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FoundLog {
    pub(crate) id: u64,
    pub(crate) batches: u64,
    /// It had more: a later one is there, which was written once those before it were durable.
    pub(crate) expected: Option<u64>,
    pub(crate) before: (u64, u64),
    /// Bytes of the slot that it uses.
    pub(crate) len: u64,
    pub(crate) records: Vec<Record>,
    pub(crate) stretches: Vec<Stretch>,
}

impl FoundLog {
    /// What comes next in its slot, if that is the log's next batch.
    pub(crate) fn next(&self, slot: &[u8], store: u64) -> Option<Found> {
        let found = Found::parse(slot, self.len, store)?;
        let Batch { log, index, next, .. } = found.batch();
        let is_its =
            if self.batches == 0 { index == 0 } else { (log, index) == (self.id, self.batches) };
        (is_its && next > self.len).then_some(found)
    }

    /// Looks behind what is not whole for a later batch of this log; of any that `may_be` there, where it has none yet.
    pub(crate) fn look_behind(&mut self, slot: &[u8], store: u64, may_be: impl Fn(u64) -> bool) {
        let is_known = self.batches > 0 || self.expected.is_some();
        let is_its = |batch: &Batch| match is_known {
            true => batch.log == self.id,
            false => may_be(batch.log),
        };
        let begin = self.len.next_multiple_of(BLOCK as u64);
        let later = (begin..slot.len() as u64)
            .step_by(BLOCK)
            .filter_map(|at| Some(Found::parse(slot, at, store)?.batch()))
            .find(|batch| batch.is_synced && batch.index > self.batches && is_its(batch));
        if let Some(Batch { log, index, before, .. }) = later {
            if !is_known {
                (self.id, self.before) = (log, before);
            }
            self.expected = Some(index + 1);
        }
    }

    /// A batch follows that was durable once, and is not what was written: nothing says where it is before it is.
    pub(crate) fn lacks(&mut self, batch: &Batch) {
        if self.batches == 0 {
            (self.id, self.before) = (batch.log, batch.before);
        }
        if batch.is_synced {
            self.expected = self.expected.max(Some(batch.index + 1));
        }
    }

    /// Where the next batch would be in its slot: as long as it says itself, or a block.
    pub(crate) fn reach(&self, slot: &[u8], store: u64) -> Range<u64> {
        let head = usize::try_from(self.len).ok().and_then(|at| slot.get(at..)).unwrap_or_default();
        let len = Frame::len(head, Kind::Batch, store).filter(|_| {
            let mut fields = Fields(&head[24..]);
            let its = [self.id, self.batches].map(Some);
            [fields.u64(), fields.u64()] == its || self.batches == 0
        });
        self.len..self.len.saturating_add(len.unwrap_or(BLOCK as u64))
    }

    /// Takes a batch that was found.
    pub(crate) fn take(&mut self, batch: Batch, records: Vec<Record>) {
        if self.batches == 0 {
            (self.id, self.before) = (batch.log, batch.before);
        }
        (self.batches, self.len) = (self.batches + 1, batch.next);
        self.records.extend(records);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The log in a slot, none of whose batches is elsewhere.
    fn parse(slot: &[u8], store: u64) -> Option<FoundLog> {
        let mut log = FoundLog::default();
        while let Some(Found::Batch(batch, records)) = log.next(slot, store) {
            log.take(batch, records);
        }
        (log.batches > 0).then_some(log)
    }

    fn record(number: u8) -> Record {
        Record {
            key: vec![number].into(),
            sequence: number.into(),
            value: Some(vec![9; 3000].into()),
        }
    }

    /// Three batches of two records.
    fn slot(log: u64, gap: u64) -> (Vec<u8>, Vec<u64>) {
        let (mut slot, mut at, mut places) = (Vec::new(), 0, Vec::new());
        for index in 0..3 {
            let records = [record(index as u8 * 2), record(index as u8 * 2 + 1)];
            let (bytes, batch) = Batch::bytes(log, index, (4, 7), (at, gap, true), &records, 3);
            slot.resize(at as usize, 0xAA);
            slot.extend(bytes);
            places.push(at);
            at = batch.next;
        }
        slot.resize(slot.len() + 8192, 0xBB);
        (slot, places)
    }

    #[test]
    fn a_log_is_found_up_to_the_first_batch_that_is_not_whole() {
        for gap in [0, 4096, 12288] {
            let (mut bytes, places) = slot(5, gap);
            let found = parse(&bytes, 3).unwrap();
            assert_eq!((found.id, found.batches, found.before), (5, 3, (4, 7)));
            assert_eq!(found.records, (0..6).map(record).collect::<Vec<_>>());
            assert_eq!(places[1], 8192 + gap);
            for lost in [2, 1] {
                bytes[places[lost] as usize + 100] ^= 1;
                let found = parse(&bytes, 3).unwrap();
                assert_eq!((found.batches, found.records.len()), (lost as u64, lost * 2));
            }
            bytes[100] ^= 1;
            assert_eq!(parse(&bytes, 3), None);
        }
    }

    #[test]
    fn a_later_batch_says_that_one_before_it_was_there() {
        let (whole, places) = slot(5, 4096);
        let behind = |bytes: &[u8], taken: bool| {
            let mut log = FoundLog::default();
            while taken && let Some(Found::Batch(batch, records)) = log.next(bytes, 3) {
                log.take(batch, records);
            }
            log.look_behind(bytes, 3, |log| log == 5);
            (log.id, log.batches, log.expected)
        };
        assert_eq!(behind(&whole, true), (5, 3, None));
        for (lost, had) in [(0, 2), (1, 3), (2, 0)] {
            let mut bytes = whole.clone();
            bytes[places[lost] as usize + 100] ^= 1;
            let expected = (had > 0).then_some(had);
            assert_eq!(behind(&bytes, true), (5, lost as u64, expected), "batch {lost}");
        }
        // Only of logs that may be there, and only where those before were durable.
        let mut log = FoundLog::default();
        log.look_behind(&whole, 3, |_| false);
        assert_eq!(log, FoundLog::default());
        let (second, _) = Batch::bytes(5, 1, (0, 0), (0, 0, false), &[record(1)], 3);
        assert_eq!(behind(&second, false), (0, 0, None));
    }

    #[test]
    fn batches_of_another_log_or_store_do_not_follow() {
        let (mut new, places) = slot(6, 0);
        new.truncate(places[1] as usize);
        new.extend(&slot(5, 0).0[places[1] as usize..]);
        assert_eq!(parse(&new, 3).unwrap().batches, 1);
        assert_eq!(parse(&slot(5, 0).0, 4), None);
        let (middle, _) = slot(5, 0);
        assert_eq!(parse(&middle[places[1] as usize..], 3), None, "not its first batch");
    }

    #[test]
    fn a_stretch_says_where_its_batch_is() {
        let batch = Batch { log: 5, index: 0, next: 4096, before: (4, 2), is_synced: true };
        let stretch = Stretch { batch, offset: 1 << 30, len: 8192 };
        let mut slot = stretch.bytes(3);
        assert_eq!(slot.len(), 4096);
        let (second, _) = Batch::bytes(5, 1, (4, 2), (4096, 0, true), &[record(1)], 3);
        slot.extend(second);
        let mut log = FoundLog::default();
        assert_eq!(log.next(&slot, 4), None);
        assert_eq!(log.next(&slot, 3), Some(Found::Stretch(stretch)));
        log.take(batch, vec![record(0)]);
        assert!(matches!(log.next(&slot, 3), Some(Found::Batch(Batch { index: 1, .. }, _))));
        slot[50] ^= 1;
        assert_eq!(FoundLog::default().next(&slot, 3), None);
    }

    #[test]
    fn a_value_that_imitates_a_batch_of_another_store_is_none() {
        let (forged, _) = Batch::bytes(5, 1, (0, 0), (8192, 0, true), &[record(1)], 4);
        let (mut bytes, first) = Batch::bytes(5, 0, (0, 0), (0, 0, true), &[record(0)], 3);
        assert_eq!(first.next as usize, bytes.len());
        bytes.extend(forged);
        assert_eq!(parse(&bytes, 3).unwrap().batches, 1);
    }
}
