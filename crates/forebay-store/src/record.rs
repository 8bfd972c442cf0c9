//! Records: a key with its value or the fact that it was deleted, as of a sequence number.
//!
//! On disks, a record consists of: length of the key (4 bytes), length of the value (4; all ones
//! for a tombstone), sequence number (8), key, value.

use std::sync::Arc;

use crate::frame::Fields;

/// The bytes of a key.
pub type Key = Arc<[u8]>;
/// The bytes of a value.
pub type Value = Arc<[u8]>;

/// The maximum length of a key in bytes.
pub const KEY_MAX: usize = 64 << 10;
/// The maximum length of a value in bytes.
pub const VALUE_MAX: usize = 64 << 20;

const TOMBSTONE: u32 = u32::MAX;
const HEAD: usize = 16;

/// A version of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) key: Key,
    /// The sequence number, greater than those of all earlier versions.
    pub(crate) sequence: u64,
    /// The value; None if the key was deleted.
    pub(crate) value: Option<Value>,
}

impl Record {
    /// Returns the length of the record on a disk.
    pub(crate) fn size(&self) -> usize {
        HEAD + self.key.len() + self.value.as_ref().map_or(0, |value| value.len())
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let value_len = self.value.as_ref().map_or(TOMBSTONE, |value| value.len() as u32);
        out.extend((self.key.len() as u32).to_le_bytes());
        out.extend(value_len.to_le_bytes());
        out.extend(self.sequence.to_le_bytes());
        out.extend_from_slice(&self.key);
        out.extend_from_slice(self.value.as_deref().unwrap_or_default());
    }

    pub(crate) fn get(fields: &mut Fields<'_>) -> Option<Record> {
        let (key_len, value_len, sequence) = (fields.u32()?, fields.u32()?, fields.u64()?);
        let key = fields.take(key_len as usize)?.into();
        let value = match value_len {
            TOMBSTONE => None,
            len => Some(fields.take(len as usize)?.into()),
        };
        Some(Record { key, sequence, value })
    }

    /// Parses `count` records, which must fill the payload.
    pub(crate) fn all(payload: &[u8], count: u32) -> Option<Vec<Record>> {
        let mut fields = Fields(payload);
        let records = (0..count).map(|_| Record::get(&mut fields)).collect::<Option<_>>()?;
        fields.0.is_empty().then_some(records)
    }
}

/// The maximum length of a key that is used as a bound. Bounds are stored in roots and batches, and
/// should be short.
pub(crate) const BOUND_BYTES: usize = 32;

/// Returns a short key that is not less than this one; None if there is no such key.
pub(crate) fn bound(key: &[u8]) -> Option<Key> {
    let Some(head) = key.get(..BOUND_BYTES) else { return Some(key.into()) };
    let mut head = head.to_vec();
    while let Some(byte) = head.pop() {
        if let Some(more) = byte.checked_add(1) {
            head.push(more);
            return Some(head.into());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_short_and_not_before_its_key() {
        let long = |byte: u8, len: usize| vec![byte; len];
        for key in [long(3, 0), long(3, BOUND_BYTES - 1), long(255, BOUND_BYTES - 1), long(7, 9000)]
        {
            let bound = bound(&key).unwrap();
            assert!(*bound >= key[..] && bound.len() <= BOUND_BYTES, "{bound:?}");
            assert!(key.len() >= BOUND_BYTES || *bound == key[..], "{bound:?}");
        }
        let carried = [&[7, 9][..], &long(255, 9000)].concat();
        assert_eq!(bound(&carried).as_deref(), Some(&[7, 10][..]));
        assert_eq!(bound(&long(255, 9000)), None);
    }

    #[test]
    fn records_are_read_as_they_were_written() {
        let record = |key: &[u8], sequence, value: Option<&[u8]>| Record {
            key: key.into(),
            sequence,
            value: value.map(Value::from),
        };
        let all =
            [record(b"", 0, Some(b"")), record(b"k", u64::MAX, None), record(b"a", 1, Some(b"v"))];
        let mut bytes = Vec::new();
        all.iter().for_each(|record| record.put(&mut bytes));
        assert_eq!(bytes.len(), all.iter().map(Record::size).sum::<usize>());
        assert_eq!(Record::all(&bytes, 3).as_deref(), Some(&all[..]));
        for len in 0..bytes.len() {
            assert_eq!(Record::all(&bytes[..len], 3), None);
        }
        assert_eq!(Record::all(&bytes, 2), None, "bytes are left over");
    }
}
