//! Batches: the units of a log. A batch contains the records of all puts that one write made
//! durable.
//!
//! A log occupies a slot of its disk. A batch is a frame (`a` is the log, `b` the index in the
//! log). Its payload is the position of the next batch in the log, the preceding log and its number
//! of batches, whether the earlier batches of the log were durable, the time of the put, summaries
//! of earlier batches ([`crate::summary`]), and the records. It is padded to whole blocks, so that
//! a torn sector of the next batch cannot damage an acknowledged one.
//!
//! A put that is too long for any slot *stretches* its log: its batch is stored among the segments,
//! and the slot contains a block with its location, written once the batch is durable.
//!
//! Batches of format 4 have neither times nor summaries.

use std::ops::Range;

use crate::frame::{BLOCK, Fields, Frame, FrameKind, HEAD, pad, put_bytes};
use crate::record::Record;
use crate::summary::BatchSummary;

/// The bytes of a batch other than summaries and records.
pub(crate) const BATCH_HEAD: usize = HEAD + 44;

/// The header of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) log: u64,
    /// The index in the log, from 0.
    pub(crate) index: u64,
    /// The position of the next batch in the log.
    pub(crate) next: u64,
    /// The preceding log and its number of batches.
    pub(crate) before: (u64, u64),
    /// Whether the earlier batches of the log were durable when this one was written, so that none
    /// of them can be torn.
    pub(crate) is_synced: bool,
    /// When the batch was put, in nanoseconds since the Unix epoch; 0 if unknown.
    pub(crate) put_at: u64,
}

impl Batch {
    /// Encodes the batch as whole blocks for the position in `next`; returns it with its header, in
    /// which `next` is the position after the batch and a gap of `gap` bytes.
    pub(crate) fn bytes(
        mut self,
        gap: u64,
        summaries: &[u8],
        records: &[Record],
        store: u64,
    ) -> (Vec<u8>, Batch) {
        let size = summaries.len() + records.iter().map(Record::size).sum::<usize>();
        let len = (BATCH_HEAD + size).next_multiple_of(BLOCK);
        let mut out = Vec::with_capacity(len);
        let from = Frame::begin(&mut out);
        self.next += len as u64 + gap;
        self.put_head(summaries, &mut out);
        records.iter().for_each(|record| record.put(&mut out));
        let count = records.len() as u32;
        let (a, b) = (self.log, self.index);
        Frame { kind: FrameKind::Batch, store, count, a, b }.end(&mut out, from);
        pad(&mut out);
        (out, self)
    }

    fn put_head(&self, summaries: &[u8], out: &mut Vec<u8>) {
        let Batch { next, before, is_synced, put_at, .. } = *self;
        for word in [next, before.0, before.1, is_synced.into(), put_at] {
            out.extend(word.to_le_bytes());
        }
        put_bytes(out, summaries);
    }

    /// Returns the log and index in the header of a batch or stretch if the header claims that the
    /// earlier batches were durable. The checksum is not verified.
    fn legible(bytes: &[u8], store: u64) -> Option<(u64, u64)> {
        [FrameKind::Batch, FrameKind::Stretch]
            .into_iter()
            .find_map(|kind| Frame::len(bytes, kind, store))?;
        let mut fields = Fields(bytes.get(24..HEAD + 32)?);
        let (log, index) = (fields.u64()?, fields.u64()?);
        fields.take(HEAD - 40 + 24)?;
        (fields.u64()? == 1).then_some((log, index))
    }

    /// Parses the header of a batch or a stretch.
    fn get_head(frame: &Frame, fields: &mut Fields<'_>) -> Option<(Batch, Vec<BatchSummary>)> {
        let (next, before) = (fields.u64()?, (fields.u64()?, fields.u64()?));
        let is_synced = fields.u64()? != 0;
        let is_old = matches!(frame.kind, FrameKind::BatchOf4 | FrameKind::StretchOf4);
        let (put_at, summaries) = match is_old {
            true => (0, Vec::new()),
            false => (fields.u64()?, BatchSummary::all(fields.bytes()?)?),
        };
        Some((Batch { log: frame.a, index: frame.b, next, before, is_synced, put_at }, summaries))
    }
}

/// A batch stored outside its log's slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) batch: Batch,
    /// The offset of the batch on the disk.
    pub(crate) offset: u64,
    /// The length in whole blocks.
    pub(crate) len: u64,
}

/// The bytes of a stretch's block other than summaries.
pub(crate) const STRETCH_HEAD: usize = BATCH_HEAD + 16;

impl Stretch {
    /// Encodes the block in the slot that refers to the batch.
    pub(crate) fn bytes(&self, summaries: &[u8], store: u64) -> Vec<u8> {
        let mut out = Vec::new();
        let from = Frame::begin(&mut out);
        self.batch.put_head(summaries, &mut out);
        out.extend(self.offset.to_le_bytes());
        out.extend(self.len.to_le_bytes());
        let (a, b) = (self.batch.log, self.batch.index);
        Frame { kind: FrameKind::Stretch, store, count: 0, a, b }.end(&mut out, from);
        pad(&mut out);
        out
    }
}

/// A batch's records, or the location of a batch stored outside the slot.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Records(Vec<Record>),
    Stretch(Stretch),
}

/// A batch or stretch found in a slot.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FoundBatch {
    pub(crate) batch: Batch,
    /// The summaries of earlier batches, and for a stretch also its own.
    pub(crate) summaries: Vec<BatchSummary>,
    pub(crate) content: Content,
}

impl FoundBatch {
    /// Parses the batch or stretch at the start of `bytes`, whichever log it belongs to; returns
    /// None if it is damaged.
    pub(crate) fn parse(bytes: &[u8], store: u64) -> Option<FoundBatch> {
        let kinds =
            [FrameKind::Batch, FrameKind::Stretch, FrameKind::BatchOf4, FrameKind::StretchOf4];
        let kind = kinds.into_iter().find(|kind| Frame::len(bytes, *kind, store).is_some())?;
        let (frame, payload) = Frame::parse(bytes, kind, store)?;
        let mut fields = Fields(payload);
        let (batch, summaries) = Batch::get_head(&frame, &mut fields)?;
        let content = match kind {
            FrameKind::Batch | FrameKind::BatchOf4 => {
                Content::Records(Record::all(fields.0, frame.count)?)
            }
            _ => {
                let (offset, len) = (fields.u64()?, fields.u64()?);
                Content::Stretch(Stretch { batch, offset, len })
            }
        };
        Some(FoundBatch { batch, summaries, content })
    }

    /// Parses the records of the batch at the start of `bytes`.
    pub(crate) fn records(bytes: &[u8], store: u64) -> Option<(Batch, Vec<Record>)> {
        let found = FoundBatch::parse(bytes, store)?;
        match found.content {
            Content::Records(records) => Some((found.batch, records)),
            Content::Stretch(_) => None,
        }
    }

    /// Parses the content at a position in a slot.
    fn at(slot: &[u8], at: u64, store: u64) -> Option<FoundBatch> {
        FoundBatch::parse(slot.get(usize::try_from(at).ok()?..)?, store)
    }
}

/// Missing batches of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    /// The range of indices in the log.
    pub(crate) batches: Range<u64>,
    /// A lower bound on the sequence numbers in the gap, derived from the batches before it; 0 if
    /// there are none.
    pub(crate) after: u64,
    /// An upper bound on the sequence numbers in the gap, derived from the batches after it; None
    /// if there are none.
    pub(crate) upto: Option<u64>,
    /// When the batches before and after the gap were put.
    pub(crate) put: (Option<u64>, Option<u64>),
}

/// A batch that was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ReadBatch {
    pub(crate) batch: Batch,
    pub(crate) records: Vec<Record>,
    pub(crate) stretch: Option<Stretch>,
}

/// A log as found on a disk.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FoundLog {
    pub(crate) id: u64,
    /// The number of batches, including missing ones before the last.
    pub(crate) batches: u64,
    /// The number of batches known to have existed, because a later batch records that they were
    /// durable.
    pub(crate) expected: Option<u64>,
    pub(crate) before: (u64, u64),
    /// The number of used bytes of the slot.
    pub(crate) len: u64,
    pub(crate) read: Vec<ReadBatch>,
    pub(crate) gaps: Vec<Gap>,
    /// Intact batches after a damaged one. They are used only if the log is known to have had that
    /// many batches.
    later: Vec<ReadBatch>,
    /// The summaries of other batches that the log's batches contain.
    pub(crate) summaries: Vec<BatchSummary>,
}

impl FoundLog {
    /// Creates a log that had `batches` batches, none of which has been found yet.
    pub(crate) fn lost(id: u64, batches: u64) -> FoundLog {
        let mut log = FoundLog { id, ..FoundLog::default() };
        log.settle(batches);
        log
    }

    /// Returns whether any part of the log was found.
    pub(crate) fn is_known(&self) -> bool {
        self.batches > 0 || !self.later.is_empty() || self.expected.is_some()
    }

    /// Returns the index of the next batch in the log.
    fn next_index(&self) -> u64 {
        self.later.last().map_or(self.batches, |last| last.batch.index + 1)
    }

    /// Parses the next batch in the slot if it belongs to the log and is its next batch, or a later
    /// one after a damaged batch.
    pub(crate) fn next(&self, slot: &[u8], store: u64) -> Option<FoundBatch> {
        let found = FoundBatch::at(slot, self.len, store)?;
        let Batch { log, index, next, .. } = found.batch;
        let is_its = match self.is_known() {
            false => index == 0,
            true => log == self.id && index == self.next_index(),
        };
        (is_its && next > self.len).then_some(found)
    }

    /// Searches the data behind a damaged batch for a later batch of this log or, if no batch has
    /// been found yet, of the latest log for which `may_be` allows this slot.
    pub(crate) fn find_behind(
        &mut self,
        slot: &[u8],
        store: u64,
        may_be: impl Fn(u64) -> bool,
    ) -> Option<FoundBatch> {
        let begin = self.len.next_multiple_of(BLOCK as u64);
        let places = || (begin..slot.len() as u64).step_by(BLOCK);
        if !self.is_known() {
            let batches = places().filter_map(|at| Some(FoundBatch::at(slot, at, store)?.batch));
            let latest = batches.filter(|batch| batch.index > 0 && may_be(batch.log));
            let latest = latest.max_by_key(|batch| batch.log)?;
            (self.id, self.before) = (latest.log, latest.before);
        }
        let is_its = |found: &FoundBatch| {
            found.batch.log == self.id && found.batch.index > self.next_index()
        };
        let (at, found) = places().find_map(|at| {
            let found = FoundBatch::at(slot, at, store).filter(is_its)?;
            (found.batch.next > at).then_some((at, found))
        })?;
        self.len = at;
        Some(found)
    }

    /// Registers that a batch is missing: it was once durable, but its content has changed since.
    pub(crate) fn lacks(&mut self, batch: &Batch, summaries: Vec<BatchSummary>) {
        if !self.is_known() {
            (self.id, self.before) = (batch.log, batch.before);
        }
        self.len = batch.next;
        self.summaries.extend(summaries);
        if batch.is_synced {
            self.expected = self.expected.max(Some(batch.index + 1));
        }
    }

    /// Returns the range of the next batch in the slot: the length in its header, or one block.
    pub(crate) fn reach(&self, slot: &[u8], store: u64) -> Range<u64> {
        let head = usize::try_from(self.len).ok().and_then(|at| slot.get(at..)).unwrap_or_default();
        let len = [FrameKind::Batch, FrameKind::BatchOf4]
            .into_iter()
            .find_map(|kind| Frame::len(head, kind, store))
            .filter(|_| {
                let mut fields = Fields(&head[24..]);
                let its = [self.id, self.next_index()].map(Some);
                [fields.u64(), fields.u64()] == its || !self.is_known()
            });
        self.len..self.len.saturating_add(len.unwrap_or(BLOCK as u64))
    }

    /// Registers that the next batch is unreadable. It may have been intact and acknowledged.
    pub(crate) fn may_lack_next(&mut self) {
        if self.is_known() {
            self.expected = self.expected.max(Some(self.next_index() + 1));
        }
    }

    /// Examines damaged batches after the end of the log whose headers are readable. If a header
    /// says that the earlier batches were durable, those batches existed and are damaged now.
    pub(crate) fn heed_damaged(&mut self, slot: &[u8], store: u64) {
        if !self.is_known() {
            return;
        }
        let begin = self.len.next_multiple_of(BLOCK as u64);
        let (next, places) = (self.next_index(), (begin..slot.len() as u64).step_by(BLOCK));
        // Each batch occupies at least one block, so a larger index must itself be damaged.
        for (most, at) in (next + 1..).zip(places) {
            let index = Batch::legible(&slot[at as usize..], store)
                .filter(|(log, index)| *log == self.id && (next + 1..most).contains(index))
                .map(|(_, index)| index);
            self.expected = self.expected.max(index);
        }
    }

    /// Adds a batch that was found.
    pub(crate) fn take(&mut self, read: ReadBatch, summaries: Vec<BatchSummary>) {
        let batch = read.batch;
        if !self.is_known() {
            (self.id, self.before) = (batch.log, batch.before);
        }
        self.len = batch.next;
        self.summaries.extend(summaries);
        let is_next = self.later.is_empty() && self.expected.is_none();
        if is_next && batch.index == self.batches {
            self.batches += 1;
            self.read.push(read);
            return;
        }
        if batch.is_synced {
            self.expected = self.expected.max(Some(batch.index + 1));
        }
        self.later.push(read);
    }

    /// Sets the number of batches that the log had. Batches up to this number that were not found
    /// count as missing. Returns the later batches, for which it is unknown whether all earlier
    /// batches were acknowledged.
    pub(crate) fn settle(&mut self, expected: u64) -> Vec<ReadBatch> {
        let mut rest = Vec::new();
        for read in std::mem::take(&mut self.later) {
            let index = read.batch.index;
            if index >= expected {
                rest.push(read);
                continue;
            }
            self.lack_upto(index, Some(&read));
            self.batches = index + 1;
            self.read.push(read);
        }
        self.lack_upto(expected, None);
        rest
    }

    fn lack_upto(&mut self, index: u64, next: Option<&ReadBatch>) {
        if index <= self.batches {
            return;
        }
        let sequences = |read: &ReadBatch| {
            let sequences = read.records.iter().map(|record| record.sequence);
            (sequences.clone().min(), sequences.max())
        };
        let last = self.read.last();
        let put_at = |read: &ReadBatch| Some(read.batch.put_at).filter(|at| *at > 0);
        self.gaps.push(Gap {
            batches: self.batches..index,
            after: last.and_then(|last| sequences(last).1).map_or(0, |last| last + 1),
            upto: next.and_then(|next| sequences(next).0),
            put: (last.and_then(put_at), next.and_then(put_at)),
        });
        self.batches = index;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u64 = u64::MAX;

    /// Reads as much as possible of the log in a slot, assuming that no batch is stored elsewhere.
    fn found(slot: &[u8], store: u64) -> FoundLog {
        let mut log = FoundLog::default();
        loop {
            let next = log.next(slot, store);
            let next = next.or_else(|| log.find_behind(slot, store, |log| log == 5));
            let Some(FoundBatch { batch, summaries, content: Content::Records(records) }) = next
            else {
                return log;
            };
            log.take(ReadBatch { batch, records, stretch: None }, summaries);
        }
    }

    /// Reads the log in a slot, given its number of batches; with `ALL`, the number is taken from
    /// the log itself.
    fn settled(slot: &[u8], expected: u64) -> FoundLog {
        let mut log = found(slot, 3);
        let expected = if expected == ALL { log.expected.unwrap_or(0) } else { expected };
        log.settle(expected);
        log
    }

    fn keys(log: &FoundLog) -> Vec<u8> {
        log.read.iter().flat_map(|read| &read.records).map(|record| record.key[0]).collect()
    }

    fn record(number: u8) -> Record {
        Record {
            key: vec![number].into(),
            sequence: number.into(),
            value: Some(vec![9; 3000].into()),
        }
    }

    fn batch(log: u64, index: u64, at: u64, is_synced: bool) -> Batch {
        Batch { log, index, next: at, before: (4, 7), is_synced, put_at: 100 + index }
    }

    /// Creates a slot with `count` batches of two records each.
    fn slot_of(count: u8, log: u64, gap: u64, is_synced: bool) -> (Vec<u8>, Vec<u64>) {
        let (mut slot, mut at, mut places) = (Vec::new(), 0, Vec::new());
        for index in 0..count {
            let records = [record(index * 2), record(index * 2 + 1)];
            let (bytes, batch) =
                batch(log, index.into(), at, is_synced).bytes(gap, &[], &records, 3);
            slot.resize(at as usize, 0xAA);
            slot.extend(bytes);
            places.push(at);
            at = batch.next;
        }
        slot.resize(slot.len() + 8192, 0xBB);
        (slot, places)
    }

    fn slot(log: u64, gap: u64) -> (Vec<u8>, Vec<u64>) {
        slot_of(3, log, gap, true)
    }

    #[test]
    fn a_log_is_found_whatever_the_state_of_one_batch() {
        for gap in [0, 4096, 12288] {
            let (whole, places) = slot(5, gap);
            let log = settled(&whole, ALL);
            assert_eq!((log.id, log.batches, log.before), (5, 3, (4, 7)));
            assert_eq!((keys(&log), log.gaps.len()), ((0..6).collect(), 0));
            assert_eq!(places[1], 8192 + gap);
            // Damages the checksum, the length, the position of the next batch, and the content.
            for (lost, at) in [0, 1, 2]
                .into_iter()
                .flat_map(|lost| [(lost, 0), (lost, 41), (lost, 48), (lost, 100)])
            {
                let mut bytes = whole.clone();
                bytes[places[lost] as usize + at] ^= 1;
                let log = settled(&bytes, ALL);
                let left: Vec<u8> = (0..6).filter(|key| usize::from(*key) / 2 != lost).collect();
                assert_eq!(keys(&log), left, "batch {lost}, byte {at}");
                // Nothing proves that the last batch existed.
                let lost = lost as u64;
                assert_eq!(log.batches, if lost == 2 { 2 } else { 3 });
                let gaps: Vec<_> = log.gaps.iter().map(|gap| gap.batches.clone()).collect();
                let hole = lost..lost + 1;
                assert!(gaps.iter().eq([&hole].into_iter().filter(|_| lost != 2)), "{gaps:?}");
                // The last batch counts if the log is known to have had that many batches.
                let log = settled(&bytes, 3);
                assert_eq!((log.batches, log.gaps.len()), (3, 1));
                let gap = &log.gaps[0];
                assert_eq!(gap.after, if lost == 0 { 0 } else { lost * 2 });
                assert_eq!(gap.upto, (lost < 2).then_some(lost * 2 + 2));
                let put = ((lost > 0).then(|| 99 + lost), (lost < 2).then(|| 101 + lost));
                assert_eq!(gap.put, put);
            }
        }
    }

    #[test]
    fn gaps_of_any_number_and_length_are_reported() {
        let (whole, places) = slot_of(7, 5, 4096, true);
        for damaged in 0_u32..1 << 7 {
            let mut bytes = whole.clone();
            let is_damaged = |index: usize| damaged >> index & 1 == 1;
            for index in (0..7).filter(|index| is_damaged(*index)) {
                bytes[places[index] as usize + 60] ^= 4;
            }
            let log = settled(&bytes, ALL);
            let left: Vec<u8> = (0..14).filter(|key| !is_damaged(usize::from(*key) / 2)).collect();
            assert_eq!(keys(&log), left, "{damaged:b}");
            let lacks: Vec<u64> = log.gaps.iter().flat_map(|gap| gap.batches.clone()).collect();
            let last = (0..7).rfind(|index| !is_damaged(*index));
            let expected =
                (0..7).filter(|at| is_damaged(*at) && last.is_some_and(|last| *at < last));
            assert_eq!(lacks, expected.map(|at| at as u64).collect::<Vec<_>>(), "{damaged:b}");
        }
    }

    #[test]
    fn behind_a_gap_batches_that_were_not_durable_count_only_as_far_as_others_say() {
        let (mut bytes, places) = slot_of(5, 5, 0, false);
        bytes[places[1] as usize + 100] ^= 1;
        assert_eq!(keys(&settled(&bytes, ALL)), [0, 1]);
        assert_eq!(keys(&settled(&bytes, 4)), [0, 1, 4, 5, 6, 7]);
        assert_eq!(found(&bytes, 3).settle(4).len(), 1);
        // A batch of a log that cannot be in this slot does not count.
        let (mut of_another, _) = slot(6, 0);
        of_another[100] ^= 1;
        assert_eq!(found(&of_another, 3), FoundLog::default());
    }

    #[test]
    fn batches_of_another_log_or_store_do_not_follow() {
        let (mut new, places) = slot(6, 0);
        new.truncate(places[1] as usize);
        new.extend(&slot(5, 0).0[places[1] as usize..]);
        assert_eq!(settled(&new, ALL).batches, 1);
        assert_eq!(found(&slot(5, 0).0, 4), FoundLog::default());
        // Of two logs that may be in the slot, the later one overwrote the earlier one.
        new[100] ^= 1;
        let log = settled(&new, ALL);
        assert_eq!((log.id, keys(&log)), (5, vec![2, 3, 4, 5]));
    }

    #[test]
    fn a_stretch_says_where_its_batch_is() {
        let first = Batch { next: 4096, ..batch(5, 0, 0, true) };
        let stretch = Stretch { batch: first, offset: 1 << 30, len: 8192 };
        let mut slot = stretch.bytes(&[], 3);
        assert_eq!(slot.len(), 4096);
        slot.extend(batch(5, 1, 4096, true).bytes(0, &[], &[record(1)], 3).0);
        let mut log = FoundLog::default();
        assert_eq!(log.next(&slot, 4), None);
        let next = log.next(&slot, 3).unwrap();
        assert_eq!((next.batch, next.content), (first, Content::Stretch(stretch)));
        // The stretch's batch is damaged, but later ones are still found.
        log.lacks(&first, Vec::new());
        let next = log.find_behind(&slot, 3, |_| false).unwrap();
        assert_eq!(next.batch.index, 1);
        let read = |batch| ReadBatch { batch, records: vec![record(0)], stretch: Some(stretch) };
        log = FoundLog::default();
        log.take(read(first), Vec::new());
        assert_eq!(log.next(&slot, 3).unwrap().batch.index, 1);
        slot[50] ^= 1;
        assert_eq!(FoundLog::default().next(&slot, 3), None);
    }

    #[test]
    fn batches_say_what_those_before_them_had() {
        let summary = BatchSummary::of((5, 0), 100, &[record(0)]).unwrap();
        let mut summaries = Vec::new();
        summary.put(&mut summaries);
        let (bytes, second) = batch(5, 1, 0, true).bytes(0, &summaries, &[record(1)], 3);
        let found = FoundBatch::parse(&bytes, 3).unwrap();
        assert_eq!((found.batch, &found.summaries), (second, &vec![summary.clone()]));
        let stretch = Stretch { batch: second, offset: 1 << 30, len: 8192 };
        assert_eq!(
            FoundBatch::parse(&stretch.bytes(&summaries, 3), 3).unwrap().summaries,
            [summary]
        );
    }

    #[test]
    fn a_value_that_imitates_a_foreign_batch_is_not_accepted_as_a_batch() {
        let forged = batch(5, 1, 8192, true).bytes(0, &[], &[record(1)], 4).0;
        let (mut bytes, first) = batch(5, 0, 0, true).bytes(0, &[], &[record(0)], 3);
        assert_eq!(first.next as usize, bytes.len());
        bytes.extend(forged);
        assert_eq!(settled(&bytes, ALL).batches, 1);
    }
}
