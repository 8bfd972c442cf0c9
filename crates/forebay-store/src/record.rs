//! Records: a key, and its value or that it has none any more, as of a sequence number.
//!
//! On disks: length of the key (4 bytes), of the value (4; all ones for a tombstone), the sequence
//! number (8), the key, the value.

use std::sync::Arc;

use crate::frame::Fields;

/// A key's bytes.
pub type Key = Arc<[u8]>;
/// A value's bytes.
pub type Value = Arc<[u8]>;

/// The longest key.
pub const KEY_MAX: usize = 64 << 10;
/// The longest value.
pub const VALUE_MAX: usize = 64 << 20;

const TOMBSTONE: u32 = u32::MAX;
const HEAD: usize = 16;

/// A version of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) key: Key,
    /// Greater than those of all earlier versions.
    pub(crate) sequence: u64,
    /// None: the key was deleted.
    pub(crate) value: Option<Value>,
}

impl Record {
    /// Bytes on a disk.
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

    /// The `count` records that these bytes are.
    pub(crate) fn all(payload: &[u8], count: u32) -> Option<Vec<Record>> {
        let mut fields = Fields(payload);
        let records = (0..count).map(|_| Record::get(&mut fields)).collect::<Option<_>>()?;
        fields.0.is_empty().then_some(records)
    }
}

/// A key that bounds others is no longer than this: roots and batches hold it.
pub(crate) const BOUND_BYTES: usize = 32;

/// A short key that is not before this one, if there is one.
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
