//! Values that identify themselves: they contain the key, the run and the version, followed by
//! bytes derived from these.
//!
//! Any read can thus detect a value that was never written or belongs to another key.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use forebay_core::random::mix;

/// The minimum length of a value: its header and eight derived bytes.
pub(super) const VALUE_MIN: usize = HEAD + 8;
const HEAD: usize = 24;
/// The prefix of every key. Other programs do not use it, so the benchmark neither reads nor
/// replaces their data.
pub(super) const SPACE: &str = "forebay-bench:";
/// The minimum length of a key: the prefix and the digits that identify the record.
pub(super) const KEY_MIN: usize = SPACE.len() + 16;

/// The header of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) record: u64,
    /// The benchmark run that wrote the value.
    pub(super) run: u64,
    /// The version. It is greater than all earlier versions of the same record in the same run.
    pub(super) version: u64,
}

impl Stamp {
    /// Fills `value` with `len` bytes that begin with this header.
    pub(super) fn put(self, value: &mut Vec<u8>, len: usize) {
        value.clear();
        for number in [self.record, self.run, self.version] {
            value.extend(number.to_le_bytes());
        }
        value.resize(len, 0);
        let seed = mix(self.record ^ mix(self.run ^ mix(self.version)));
        Xoshiro256PlusPlus::seed_from_u64(seed).fill_bytes(&mut value[HEAD..]);
    }

    /// Decodes a value and checks that it is intact. `scratch` is a buffer whose contents are lost.
    ///
    /// # Errors
    /// Describes the damage.
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

/// Sets `key` to the key of `record`: the prefix, 16 hexadecimal digits that look random, and dots
/// as padding.
pub(super) fn key(record: u64, len: usize, key: &mut Vec<u8>) {
    key.clear();
    // Add a constant first, because `mix` maps 0 to itself.
    let digits = mix(record.wrapping_add(0x9E37_79B9_7F4A_7C15));
    key.extend(format!("{SPACE}{digits:016x}").into_bytes());
    key.resize(len, b'.');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_distinguishable() {
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
