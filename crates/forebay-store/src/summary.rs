//! Summaries of batches. A batch contains summaries of earlier batches, so that the keys of a lost
//! batch are known.
//!
//! A summary contains the log and index of the batch, when it was put, the number of its records,
//! the range of their keys, and a set of the keys: their hashes, or a Bloom filter if the hashes
//! would be large in comparison with the records.

use std::collections::VecDeque;

use crate::filter::{self, Filter};
use crate::frame::{Fields, put_bytes};
use crate::record::{BOUND_BYTES, Key, Record, bound};

/// Up to this many hashes are always permitted. More are permitted if they take at most
/// 1/`HASHES_SHARE` of the records' bytes.
const HASHES_MIN: usize = 64;
const HASHES_SHARE: usize = 16;
/// The maximum number of bytes of summaries that wait to be included in a batch, not counting the
/// last one.
const WAITING_BYTES: usize = 64 << 10;

const HASHES: u32 = 1;
const FILTER: u32 = 2;

/// A set of keys with few false positives and no false negatives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeySet {
    /// The sorted hashes of the keys.
    Hashes(Vec<u64>),
    Filter(Filter),
}

impl KeySet {
    fn of(records: &[Record]) -> KeySet {
        let mut hashes: Vec<u64> = records.iter().map(|record| filter::hash(&record.key)).collect();
        hashes.sort_unstable();
        hashes.dedup();
        let bytes: usize = records.iter().map(Record::size).sum();
        if hashes.len() <= HASHES_MIN || 8 * hashes.len() <= bytes / HASHES_SHARE {
            return KeySet::Hashes(hashes);
        }
        let mut filter = Filter::for_keys(hashes.len());
        filter.insert(&hashes);
        KeySet::Filter(filter)
    }

    /// Returns whether the set may contain a key with this hash.
    pub(crate) fn may_hold(&self, hash: u64) -> bool {
        match self {
            KeySet::Hashes(hashes) => hashes.binary_search(&hash).is_ok(),
            KeySet::Filter(filter) => filter.may_hold(hash),
        }
    }

    /// Removes keys by their hashes, unless the set is a filter.
    pub(crate) fn remove(&mut self, is_removed: impl Fn(u64) -> bool) {
        if let KeySet::Hashes(hashes) = self {
            hashes.retain(|hash| !is_removed(*hash));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, KeySet::Hashes(hashes) if hashes.is_empty())
    }

    fn put(&self, out: &mut Vec<u8>) {
        let (kind, mut bytes) =
            (if matches!(self, KeySet::Hashes(_)) { HASHES } else { FILTER }, Vec::new());
        match self {
            KeySet::Hashes(hashes) => {
                hashes.iter().for_each(|hash| bytes.extend(hash.to_le_bytes()));
            }
            KeySet::Filter(filter) => filter.put(&mut bytes),
        }
        out.extend(kind.to_le_bytes());
        put_bytes(out, &bytes);
    }

    fn get(fields: &mut Fields<'_>) -> Option<KeySet> {
        let (kind, bytes) = (fields.u32()?, fields.bytes()?);
        match kind {
            HASHES => {
                let mut fields = Fields(bytes);
                let hashes: Option<Vec<u64>> = (0..bytes.len() / 8).map(|_| fields.u64()).collect();
                let hashes = hashes.filter(|hashes| hashes.is_sorted())?;
                fields.0.is_empty().then_some(KeySet::Hashes(hashes))
            }
            FILTER => Filter::get(bytes).map(KeySet::Filter),
            _ => None,
        }
    }
}

/// A summary of a batch, available without reading the batch itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BatchSummary {
    pub(crate) log: u64,
    /// The index of the batch in its log.
    pub(crate) index: u64,
    /// When the batch was put, in nanoseconds since the Unix epoch; 0 if unknown.
    pub(crate) put_at: u64,
    pub(crate) records: u64,
    /// The lower bound of the batch's keys.
    pub(crate) from: Key,
    /// The upper bound of the batch's keys; None if there is no short bound.
    pub(crate) upto: Option<Key>,
    pub(crate) keys: KeySet,
}

impl BatchSummary {
    pub(crate) fn of(
        (log, index): (u64, u64),
        put_at: u64,
        records: &[Record],
    ) -> Option<BatchSummary> {
        let least = records.iter().map(|record| &record.key).min()?;
        let greatest = records.iter().map(|record| &record.key).max()?;
        Some(BatchSummary {
            log,
            index,
            put_at,
            records: records.len() as u64,
            from: least[..least.len().min(BOUND_BYTES)].into(),
            upto: bound(greatest),
            keys: KeySet::of(records),
        })
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        for word in [self.log, self.index, self.put_at, self.records] {
            out.extend(word.to_le_bytes());
        }
        put_bytes(out, &self.from);
        out.extend(u32::from(self.upto.is_some()).to_le_bytes());
        put_bytes(out, self.upto.as_deref().unwrap_or_default());
        self.keys.put(out);
    }

    pub(crate) fn get(fields: &mut Fields<'_>) -> Option<BatchSummary> {
        let (log, index, put_at, records) =
            (fields.u64()?, fields.u64()?, fields.u64()?, fields.u64()?);
        let from = fields.bytes()?.into();
        let (has_end, upto) = (fields.u32()?, fields.bytes()?);
        let upto = (has_end != 0).then(|| Key::from(upto));
        let keys = KeySet::get(fields)?;
        Some(BatchSummary { log, index, put_at, records, from, upto, keys })
    }

    /// Parses summaries.
    pub(crate) fn all(bytes: &[u8]) -> Option<Vec<BatchSummary>> {
        let (mut fields, mut all) = (Fields(bytes), Vec::new());
        while !fields.0.is_empty() {
            all.push(BatchSummary::get(&mut fields)?);
        }
        Some(all)
    }
}

/// Encoded summaries of the latest batches, to be included in the next ones.
#[derive(Debug, Default)]
pub(crate) struct Summaries {
    /// The summaries, the latest last.
    latest: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl Summaries {
    /// Adds the summary of a batch.
    pub(crate) fn push(&mut self, summary: &BatchSummary) {
        let mut bytes = Vec::new();
        summary.put(&mut bytes);
        self.bytes += bytes.len();
        self.latest.push_back(bytes);
        while self.bytes > WAITING_BYTES && self.latest.len() > 1 {
            self.bytes -= self.latest.pop_front().map_or(0, |oldest| oldest.len());
        }
    }

    /// Returns the latest summaries that fit between `used` bytes and the end of the last block.
    /// The very last summary is included even beyond that block, if it ends below `most`.
    pub(crate) fn within(&self, used: usize, most: usize) -> Vec<u8> {
        let mut said = Vec::new();
        let Some(last) = self.latest.back() else { return said };
        let end = (used + last.len()).next_multiple_of(crate::frame::BLOCK);
        let end = if end <= most { end } else { used.next_multiple_of(crate::frame::BLOCK) };
        for summary in self.latest.iter().rev() {
            if used + said.len() + summary.len() > end {
                break;
            }
            said.extend_from_slice(summary);
        }
        said
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Value;

    fn records(count: u32, len: usize) -> Vec<Record> {
        let record = |number: u32| Record {
            key: format!("key {number:06}").into_bytes().into(),
            sequence: number.into(),
            value: Some(Value::from(vec![7; len])),
        };
        (0..count).map(record).collect()
    }

    fn summary(index: u64, count: u32, len: usize) -> BatchSummary {
        BatchSummary::of((3, index), 99, &records(count, len)).unwrap()
    }

    #[test]
    fn a_summary_knows_its_keys_and_hardly_any_other() {
        for (count, len, is_exact) in
            [(1, 0, true), (64, 1, true), (500, 200, true), (500, 5, false)]
        {
            let summary = summary(7, count, len);
            assert_eq!(matches!(summary.keys, KeySet::Hashes(_)), is_exact, "{count} of {len}");
            let mut bytes = Vec::new();
            summary.put(&mut bytes);
            assert_eq!(BatchSummary::all(&bytes), Some(vec![summary.clone()]));
            for cut in 1..bytes.len() {
                assert_eq!(BatchSummary::all(&bytes[..cut]), None, "{cut}");
            }
            let holds = |record: &Record| summary.keys.may_hold(filter::hash(&record.key));
            assert!(records(count, len).iter().all(holds));
            let others =
                records(20_000, 0).iter().skip(count as usize).filter(|r| holds(r)).count();
            assert!(if is_exact { others == 0 } else { others < 400 }, "{others} others");
            assert_eq!(&*summary.from, b"key 000000");
            let last = format!("key {:06}", count - 1);
            assert_eq!(summary.upto.as_deref(), Some(last.as_bytes()));
        }
    }

    #[test]
    fn keys_that_were_put_again_are_taken_out() {
        let mut keys = summary(0, 3, 9).keys;
        keys.remove(|hash| hash == filter::hash(b"key 000001"));
        let holds =
            |number: u32| keys.may_hold(filter::hash(format!("key {number:06}").as_bytes()));
        assert_eq!([0, 1, 2].map(holds), [true, false, true]);
        keys.remove(|_| true);
        assert!(keys.is_empty());
        let mut some = summary(0, 500, 5).keys;
        some.remove(|_| true);
        assert!(!some.is_empty(), "a filter forgets nothing");
    }

    #[test]
    fn the_last_batch_is_always_recorded_and_others_if_free() {
        let mut waiting = Summaries::default();
        assert!(waiting.within(100, 8192).is_empty());
        (0..2000).for_each(|index| waiting.push(&summary(index, 1, 9)));
        assert!(waiting.bytes <= WAITING_BYTES);
        let said = |used, most| BatchSummary::all(&waiting.within(used, most)).unwrap();
        let indices = |said: Vec<BatchSummary>| said.iter().map(|of| of.index).collect::<Vec<_>>();
        let many = indices(said(1000, 8192));
        assert!(many.len() > 20 && many.is_sorted_by(|a, b| *a == b + 1), "{many:?}");
        assert_eq!(many[0], 1999);
        // The last summary may take another block if there is space for it.
        assert!(indices(said(4096, 8192)).len() > 30);
        assert!(said(4096, 8191).is_empty());
        // The last summary may itself be long.
        waiting.push(&summary(2000, 20_000, 400));
        let said = BatchSummary::all(&waiting.within(100, 1 << 20)).unwrap();
        assert_eq!(said[0].index, 2000);
    }
}
