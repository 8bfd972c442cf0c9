//! Logs in memory: records appended to a slot of a disk that are not in a segment yet.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::record::{Key, Record, Value};
use crate::segment::distinguishing_prefix;
use crate::space::Space;

/// If keys are longer than this on average, they are compared to estimate the size of their
/// segment.
const LONG_KEY_BYTES: u64 = 512;

/// All versions of all keys, with each key's newest first.
type Versions = BTreeMap<(Key, Reverse<u64>), Option<Value>>;

/// For each slot of a disk, whether it is in use.
pub(crate) type Slots = Rc<RefCell<Vec<bool>>>;

/// A log. Its slot can be reused after the log is released: the records are then in a segment, and
/// remaining readers use the copies in memory.
pub(crate) struct Log {
    pub(crate) id: u64,
    pub(crate) disk: usize,
    slot: usize,
    slots: Slots,
    /// The number of used bytes in the slot.
    pub(crate) len: Cell<u64>,
    /// The bytes of batches without gaps.
    pub(crate) batch_bytes: Cell<u64>,
    pub(crate) batches: Cell<u64>,
    /// The preceding log and its number of batches.
    pub(crate) before: Cell<(u64, u64)>,
    /// Whether another disk has recorded the log, or no other disk can.
    pub(crate) is_announced: Cell<bool>,
    /// If set, transforming the log failed with this many bytes free, and is retried once the
    /// amount of free space has changed.
    pub(crate) failed_at_free: Cell<Option<u64>>,
    is_released: Cell<bool>,
    records: RefCell<Versions>,
    /// The number of keys whose newest version is a value.
    values: Cell<u64>,
    /// The log's extents outside its slot, and the space to which they are returned.
    stretches: RefCell<Vec<(u64, u64)>>,
    space: Rc<RefCell<Space>>,
    pub(crate) record_bytes: Cell<u64>,
    /// An upper bound on the total length of the prefixes that distinguish the log's keys.
    pub(crate) prefix_bytes: Cell<u64>,
    /// The length of the longest key.
    pub(crate) key_bytes_max: Cell<u64>,
}

impl Log {
    /// Creates an empty log and marks its slot as in use.
    pub(crate) fn new(
        id: u64,
        disk: usize,
        slot: usize,
        slots: &Slots,
        space: &Rc<RefCell<Space>>,
    ) -> Log {
        slots.borrow_mut()[slot] = true;
        Log {
            id,
            disk,
            slot,
            slots: Rc::clone(slots),
            len: Cell::new(0),
            batch_bytes: Cell::new(0),
            batches: Cell::new(0),
            before: Cell::new((0, 0)),
            is_announced: Cell::new(false),
            failed_at_free: Cell::new(None),
            is_released: Cell::new(false),
            records: RefCell::default(),
            values: Cell::new(0),
            stretches: RefCell::default(),
            space: Rc::clone(space),
            record_bytes: Cell::new(0),
            prefix_bytes: Cell::new(0),
            key_bytes_max: Cell::new(0),
        }
    }

    pub(crate) fn slot(&self) -> u64 {
        self.slot as u64
    }

    /// Releases the slot and the extents outside it.
    pub(crate) fn release(&self) {
        if !self.is_released.replace(true) {
            self.slots.borrow_mut()[self.slot] = false;
            for (offset, len) in self.stretches.borrow_mut().drain(..) {
                self.space.borrow_mut().give(offset, len);
            }
        }
    }

    /// Adds an extent, which is held until the log is released.
    pub(crate) fn stretch(&self, offset: u64, len: u64) {
        self.stretches.borrow_mut().push((offset, len));
    }

    /// Keeps the extents outside the slot allocated forever.
    pub(crate) fn leave_stretches(&self) {
        self.stretches.borrow_mut().clear();
    }

    /// Inserts a record, which must be newer than all other records of its key.
    pub(crate) fn insert(&self, record: Record) {
        let had_value = matches!(self.get(&record.key, u64::MAX), Some(Some(_)));
        let is_value = record.value.is_some();
        self.values.set(self.values.get() + u64::from(is_value) - u64::from(had_value));
        self.record_bytes.set(self.record_bytes.get() + record.size() as u64);
        let key_bytes = record.key.len() as u64;
        self.prefix_bytes.set(self.prefix_bytes.get() + key_bytes);
        self.key_bytes_max.set(self.key_bytes_max.get().max(key_bytes));
        self.records.borrow_mut().insert((record.key, Reverse(record.sequence)), record.value);
    }

    /// Returns the newest version of a key before `upto`.
    pub(crate) fn get(&self, key: &Key, upto: u64) -> Option<Option<Value>> {
        self.newest(key, upto).map(|(_, value)| value)
    }

    /// Returns the newest version of a key before `upto`, with its sequence number.
    pub(crate) fn newest(&self, key: &Key, upto: u64) -> Option<(u64, Option<Value>)> {
        let records = self.records.borrow();
        let newest = (key.clone(), Reverse(upto.saturating_sub(1)));
        let (found, value) = records.range(newest..).next()?;
        (found.0 == *key).then(|| (found.1.0, value.clone()))
    }

    /// Returns the first key at or after `from` that has a version before `upto`, with the newest
    /// such version.
    pub(crate) fn first(&self, from: &Key, upto: u64) -> Option<Record> {
        let records = self.records.borrow();
        let mut later = records.range((from.clone(), Reverse(u64::MAX))..);
        let ((key, Reverse(sequence)), value) = later.find(|(found, _)| found.1.0 < upto)?;
        Some(Record { key: key.clone(), sequence: *sequence, value: value.clone() })
    }

    /// Compares neighboring keys if they are long, once the log is complete. Comparing short keys
    /// would take time and gain little.
    pub(crate) fn measure_prefixes(&self) {
        if self.prefix_bytes.get() < LONG_KEY_BYTES * self.len_records() {
            return;
        }
        let records = self.records.borrow();
        let (mut last, mut bytes): (&[u8], u64) = (&[], 0);
        for (key, _) in records.keys() {
            if **key != *last {
                bytes += distinguishing_prefix(last, key).len() as u64;
            }
            last = key;
        }
        self.prefix_bytes.set(bytes);
    }

    /// Returns the number of keys with a value.
    pub(crate) fn len_values(&self) -> u64 {
        self.values.get()
    }

    /// Drops the first record; returns whether there was one.
    pub(crate) fn forget_first(&self) -> bool {
        self.records.borrow_mut().pop_first().is_some()
    }

    /// Returns the number of records, counting versions separately.
    pub(crate) fn len_records(&self) -> u64 {
        self.records.borrow().len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_seen_as_of_a_sequence_number() {
        let slots = Slots::new(RefCell::new(vec![false; 2]));
        let space = Rc::new(RefCell::new(Space::new(0, 9)));
        let log = Log::new(1, 0, 1, &slots, &space);
        log.stretch(space.borrow_mut().take(4).unwrap(), 4);
        assert_eq!(space.borrow().free_bytes(), 5);
        let key = |key: &str| Key::from(key.as_bytes());
        let value = |value: u8| Value::from([value]);
        for (sequence, name, content) in
            [(1, "a", Some(1)), (2, "b", Some(2)), (3, "a", None), (5, "a", Some(5))]
        {
            log.insert(Record { key: key(name), sequence, value: content.map(value) });
        }
        let seen = |name, upto| log.get(&key(name), upto);
        assert_eq!(seen("a", 1), None);
        assert_eq!(seen("a", 2), Some(Some(value(1))));
        assert_eq!(seen("a", 4), Some(None));
        assert_eq!(seen("a", 6), Some(Some(value(5))));
        assert_eq!((seen("b", 2), seen("b", 3)), (None, Some(Some(value(2)))));
        assert_eq!(seen("c", 9), None);
        let first =
            |from, upto| log.first(&key(from), upto).map(|first| (first.key, first.sequence));
        assert_eq!(first("", 4), Some((key("a"), 3)));
        assert_eq!(first("", 6), Some((key("a"), 5)));
        assert_eq!(first("aa", 6), Some((key("b"), 2)));
        assert_eq!(first("c", 6), None);
        assert_eq!((log.len_values(), log.len_records()), (2, 4));
        log.insert(Record { key: key("b"), sequence: 6, value: None });
        log.insert(Record { key: key("c"), sequence: 7, value: None });
        assert_eq!((log.len_values(), log.len_records()), (1, 6));
        assert!(slots.borrow()[1]);
        log.release();
        log.release();
        assert!(!slots.borrow()[1]);
        assert_eq!(space.borrow().free_bytes(), 9);
    }
}
