//! Holes: acknowledged batches of a log that cannot be read.
//!
//! If later batches contain a summary of a hole ([`crate::summary`]), its keys are known, and it
//! may affect only these. Otherwise, it may affect any key.

use std::collections::{BTreeMap, BTreeSet};

use crate::batch::{FoundLog, Gap};
use crate::root::Change;
use crate::summary::{BatchSummary, KeySet};
use crate::{Key, Loss, OperationError, PutSpan, filter};

use super::{Engine, PUT_MAX};

/// The bytes of a record other than key and value.
const RECORD_HEAD: u64 = 16;

/// Summaries of batches, by log and index.
pub(super) type BatchSummaries = BTreeMap<(u64, u64), BatchSummary>;

/// A hole in a log.
pub(crate) struct Hole {
    /// Records of the log with this sequence number or a greater one are newer than the hole.
    sequence: u64,
    /// The lower bound of the hole's keys.
    from: Key,
    /// The upper bound of the hole's keys.
    upto: Option<Key>,
    /// The sets of the hole's keys; None if unknown.
    keys: Option<Vec<KeySet>>,
    records: u64,
    /// Whether the number of records is only an upper bound.
    is_bound: bool,
    put: PutSpan,
    pub(crate) failure: OperationError,
}

impl Hole {
    /// Creates a hole for a log of which nothing was found; it may affect any key.
    pub(super) fn of_whole_log(
        failure: OperationError,
        records_max: u64,
        put_from: Option<u64>,
    ) -> Hole {
        Hole {
            sequence: u64::MAX,
            from: Key::from([]),
            upto: None,
            keys: None,
            records: records_max,
            is_bound: true,
            put: PutSpan { from: put_from, upto: None },
            failure,
        }
    }

    fn new(
        gap: &Gap,
        said: Option<Vec<&BatchSummary>>,
        bound: u64,
        failure: OperationError,
    ) -> Hole {
        let sequence = gap.upto.unwrap_or(u64::MAX);
        let Some(said) = said else {
            let put = PutSpan { from: gap.put.0, upto: gap.put.1 };
            return Hole { sequence, put, ..Hole::of_whole_log(failure, bound, None) };
        };
        let times = || said.iter().map(|of| of.put_at).filter(|at| *at > 0);
        let upto = said.iter().map(|of| of.upto.clone()).collect::<Option<Vec<Key>>>();
        Hole {
            sequence,
            from: said.iter().map(|of| of.from.clone()).min().unwrap_or_else(|| Key::from([])),
            upto: upto.and_then(|upto| upto.into_iter().max()),
            keys: Some(said.iter().map(|of| of.keys.clone()).collect()),
            records: said.iter().map(|of| of.records).sum(),
            is_bound: false,
            put: PutSpan { from: times().min(), upto: times().max() },
            failure,
        }
    }

    /// Returns whether the hole may affect a key. `version` is the sequence number of the key's
    /// version in the log, if any.
    pub(crate) fn may_decide(&self, key: &[u8], hash: u64, version: Option<u64>) -> bool {
        let is_newer = version.is_none_or(|sequence| sequence < self.sequence);
        is_newer && self.meets(key, key) && self.may_hold(hash)
    }

    fn may_hold(&self, hash: u64) -> bool {
        self.keys.as_ref().is_none_or(|sets| sets.iter().any(|set| set.may_hold(hash)))
    }

    /// Returns whether the hole may contain a key in a range.
    pub(crate) fn may_have(&self, from: &[u8], upto: &[u8]) -> bool {
        let is_empty = self.keys.as_ref().is_some_and(|sets| sets.iter().all(KeySet::is_empty));
        !is_empty && self.meets(from, upto)
    }

    fn meets(&self, from: &[u8], upto: &[u8]) -> bool {
        *self.from <= *upto && self.upto.as_deref().is_none_or(|end| from <= end)
    }

    /// Returns whether the hole may contain a key at or after `from`.
    pub(crate) fn goes_beyond(&self, from: &[u8]) -> bool {
        self.may_have(from, self.upto.as_deref().unwrap_or(from).max(&self.from).max(from))
    }

    /// Removes the keys that later batches overwrote.
    fn forget(&mut self, later: &BTreeSet<u64>) {
        let sets = self.keys.iter_mut().flatten();
        sets.for_each(|set| set.remove(|hash| later.contains(&hash)));
    }

    pub(crate) fn loss(&self) -> Loss {
        Loss {
            from: Some(self.from.clone()).filter(|from| !from.is_empty()),
            after: None,
            upto: self.upto.clone(),
            records: self.records,
            bytes: 0,
            is_bound: self.is_bound,
            put: self.put,
            failure: self.failure.clone(),
        }
    }
}

impl Engine {
    /// Returns the summaries of lost batches that are stored in roots.
    pub(super) fn lost_batch_summaries(&self) -> BatchSummaries {
        let state = self.state.borrow();
        let lost = state.roots.iter().flat_map(|root| &root.lost);
        lost.map(|summary| ((summary.log, summary.index), summary.clone())).collect()
    }

    /// Keeps the summaries of lost batches that must be preserved.
    pub(super) fn note_lost(&self, said: BatchSummaries) {
        let mut state = self.state.borrow_mut();
        let version = std::rc::Rc::clone(&state.version);
        let is_lost = |log: u64, index: u64| {
            let mut holes = version.segments().flat_map(|segment| &segment.holes);
            holes.any(|hole| match hole.failure {
                OperationError::Lost { log: of, first, upto, .. } => {
                    of == log && (first..upto).contains(&index)
                }
                _ => false,
            })
        };
        let lost = said.into_values().filter(|summary| is_lost(summary.log, summary.index));
        state.lost_batches = lost.collect();
    }

    /// Writes the summaries of lost batches to a root, because their current source may be
    /// converted to a segment before the next opening.
    pub(super) async fn keep_lost(&self) {
        let known = self.lost_batch_summaries();
        let mut lost = self.state.borrow().lost_batches.clone();
        lost.retain(|summary| !known.contains_key(&(summary.log, summary.index)));
        let Some(disk) = self.neighbour(self.disks.len()).filter(|_| !lost.is_empty()) else {
            return;
        };
        // If this fails, more keys are unknown at the next opening, but no loss is hidden.
        let _ = self.change_root(disk, Change { lost, ..Change::default() }).await;
    }

    /// Returns the holes of a log with missing batches; `later` are the logs after it.
    pub(super) fn holes(
        &self,
        disk: usize,
        log: &FoundLog,
        said: &BatchSummaries,
        later: &[&FoundLog],
    ) -> Vec<Hole> {
        let all = || log.read.iter().flat_map(|read| &read.records);
        let mut behind: BTreeSet<u64> = later
            .iter()
            .flat_map(|log| &log.read)
            .flat_map(|read| &read.records)
            .map(|record| filter::hash(&record.key))
            .collect();
        let mut holes = Vec::with_capacity(log.gaps.len());
        for gap in log.gaps.iter().rev() {
            let of_log =
                all().filter(|record| gap.upto.is_some_and(|upto| record.sequence >= upto));
            behind.extend(of_log.map(|record| filter::hash(&record.key)));
            let (first, upto) = (gap.batches.start, gap.batches.end);
            let failure = OperationError::Lost { log: log.id, first, upto, expected: log.batches };
            let known = gap.batches.clone().map(|index| said.get(&(log.id, index)));
            let bound = self.records_between(log.id, gap, later);
            let bound = bound.unwrap_or_else(|| self.log_records_max(disk));
            let mut hole = Hole::new(gap, known.collect(), bound, failure);
            hole.forget(&behind);
            holes.push(hole);
        }
        holes.reverse();
        holes
    }

    /// Returns an upper bound on the number of records in a gap, from the sequence numbers around
    /// it.
    fn records_between(&self, log: u64, gap: &Gap, later: &[&FoundLog]) -> Option<u64> {
        let records = later.iter().flat_map(|log| &log.read).flat_map(|read| &read.records);
        let upto = gap.upto.or_else(|| records.map(|record| record.sequence).min())?;
        let version = std::rc::Rc::clone(&self.state.borrow().version);
        let older = version.segments().filter(|segment| segment.described.ages.1 < log);
        let older = older.map(|segment| segment.described.shape.sequence_max + 1).max();
        upto.checked_sub(gap.after.max(older.unwrap_or(1)))
    }

    /// Returns the maximum number of records in a log: what fits into its slot, plus one put that
    /// is too long for any slot.
    pub(super) fn log_records_max(&self, disk: usize) -> u64 {
        let slot_bytes = self.disks.get(disk).map_or(0, |disk| disk.layout.slot_bytes);
        (slot_bytes + PUT_MAX as u64) / RECORD_HEAD
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;

    fn record(key: &str) -> Record {
        Record { key: key.as_bytes().into(), sequence: 1, value: None }
    }

    fn hole(batches: &[&[&str]]) -> Hole {
        let summary = |(index, keys): (u64, &&[&str])| {
            let records: Vec<_> = keys.iter().map(|key| record(key)).collect();
            BatchSummary::of((1, index), 10 + index, &records).unwrap()
        };
        let said: Vec<_> = (0..).zip(batches).map(summary).collect();
        let (batches, put) = (0..batches.len() as u64, (None, Some(99)));
        let gap = Gap { batches, after: 0, upto: Some(7), put };
        Hole::new(&gap, Some(said.iter().collect()), 5, OperationError::Closed)
    }

    #[test]
    fn a_hole_affects_its_keys_unless_newer_values_exist() {
        let hole = hole(&[&["b", "d"], &["c"]]);
        let decides = |key: &str, version| {
            hole.may_decide(key.as_bytes(), filter::hash(key.as_bytes()), version)
        };
        assert_eq!(
            ["a", "b", "bb", "c", "d", "e"].map(|key| decides(key, None)),
            [false, true, false, true, true, false]
        );
        assert_eq!([6, 7, 8].map(|sequence| decides("c", Some(sequence))), [true, false, false]);
        let ranges = [("", "a"), ("a", "b"), ("bb", "bc"), ("d", "z"), ("e", "z")];
        let may_have = ranges.map(|(from, upto)| hole.may_have(from.as_bytes(), upto.as_bytes()));
        assert_eq!(may_have, [false, true, true, true, false]);
        assert_eq!(
            ["", "c", "d", "dd"].map(|from| hole.goes_beyond(from.as_bytes())),
            [true, true, true, false]
        );
        let loss = hole.loss();
        assert_eq!(
            (loss.from.as_deref(), loss.upto.as_deref()),
            (Some(&b"b"[..]), Some(&b"d"[..]))
        );
        assert_eq!((loss.records, loss.is_bound), (3, false));
        assert_eq!(loss.put, PutSpan { from: Some(10), upto: Some(11) });
    }

    #[test]
    fn a_hole_of_unknown_content_may_affect_every_key() {
        let gap = Gap { batches: 3..5, after: 4, upto: None, put: (Some(5), Some(9)) };
        let hole = Hole::new(&gap, None, 12, OperationError::Closed);
        assert!(hole.may_decide(b"", filter::hash(b""), Some(1 << 40)) && hole.goes_beyond(b"zz"));
        assert!(hole.may_have(b"", b"") && hole.loss().is_bound && hole.loss().records == 12);
        assert_eq!(hole.loss().put, PutSpan { from: Some(5), upto: Some(9) });
    }

    #[test]
    fn later_puts_are_not_affected_by_a_hole() {
        let mut hole = hole(&[&["b", "d"]]);
        hole.forget(&BTreeSet::from([filter::hash(b"b")]));
        let decides = |hole: &Hole, key: &[u8]| hole.may_decide(key, filter::hash(key), None);
        assert!(!decides(&hole, b"b") && decides(&hole, b"d") && hole.may_have(b"", b"z"));
        hole.forget(&BTreeSet::from([filter::hash(b"d")]));
        assert!(!decides(&hole, b"d") && !hole.may_have(b"", b"z") && !hole.goes_beyond(b""));
    }
}
