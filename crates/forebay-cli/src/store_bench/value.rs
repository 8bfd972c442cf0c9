//! Values that say what they are: whose, of which run, which version, and then bytes that follow from that. So a
//! value that was never written, or belongs to another key, is found wherever it is read.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::workload::mix;

/// Bytes of what a value says of itself, and eight that follow from it: the shortest value.
pub(super) const VALUE_MIN: usize = HEAD + 8;
const HEAD: usize = 24;
/// What every key begins with, and no other program's does: what a store holds besides is neither replaced nor read.
pub(super) const SPACE: &str = "forebay-bench:";
/// The shortest key: what all have in common, and digits that tell records apart.
pub(super) const KEY_MIN: usize = SPACE.len() + 16;

/// What a value says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) record: u64,
    /// Which run of the benchmark wrote it.
    pub(super) run: u64,
    /// Greater than those written before to this record in that run.
    pub(super) version: u64,
}

impl Stamp {
    /// Makes `value` the one of so many bytes that says this.
    pub(super) fn put(self, value: &mut Vec<u8>, len: usize) {
        value.clear();
        for number in [self.record, self.run, self.version] {
            value.extend(number.to_le_bytes());
        }
        value.resize(len, 0);
        let seed = mix(self.record ^ mix(self.run ^ mix(self.version)));
        Xoshiro256PlusPlus::seed_from_u64(seed).fill_bytes(&mut value[HEAD..]);
    }

    /// What a value says, if it is as it was written. `scratch` is written over.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn of(value: &[u8], len: usize, scratch: &mut Vec<u8>) -> Result<Stamp, String> {
        if value.len() != len || len < VALUE_MIN {
            let expected = len.max(VALUE_MIN);
            return Err(format!("got a value of {} bytes, expected {expected}", value.len()));
        }
        let number = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&value[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        let stamp = Stamp { record: number(0), run: number(8), version: number(16) };
        stamp.put(scratch, len);
        match scratch == value {
            true => Ok(stamp),
            false => Err("got a value that was never written".into()),
        }
    }
}

/// Makes `key` a record's: behind what all keys have in common 16 hexadecimal digits in an order that looks random,
/// then dots.
pub(super) fn key(record: u64, len: usize, key: &mut Vec<u8>) {
    key.clear();
    // Away from 0, which stays where it is.
    let digits = mix(record.wrapping_add(0x9E37_79B9_7F4A_7C15));
    key.extend(format!("{SPACE}{digits:016x}").into_bytes());
    key.resize(len, b'.');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_told_from_any_other() {
        let (mut value, mut scratch) = (Vec::new(), Vec::new());
        let stamp = Stamp { record: 3, run: 1 << 60, version: 9 };
        for len in [VALUE_MIN, 100] {
            stamp.put(&mut value, len);
            assert_eq!(Stamp::of(&value, len, &mut scratch), Ok(stamp));
            for at in 0..len {
                value[at] ^= 1;
                assert!(Stamp::of(&value, len, &mut scratch).is_err(), "byte {at} of {len}");
                value[at] ^= 1;
            }
            assert!(Stamp::of(&value[1..], len, &mut scratch).is_err());
            assert!(Stamp::of(&value[1..], len - 1, &mut scratch).is_err());
        }
    }

    #[test]
    fn keys_differ_and_have_their_length() {
        let keys: std::collections::BTreeSet<Vec<u8>> = (0..10_000)
            .map(|record| {
                let mut bytes = Vec::new();
                key(record, KEY_MIN + 4, &mut bytes);
                assert_eq!(bytes.len(), KEY_MIN + 4);
                bytes
            })
            .collect();
        assert_eq!(keys.len(), 10_000);
    }
}
