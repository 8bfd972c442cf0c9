//! Bloom filters over a segment's keys (Bloom, CACM 1970, with the double hashing of Kirsch and
//! Mitzenmacher, ESA 2006). Ten bits per key and seven probes give a false-positive rate of 1 in
//! 120.

use forebay_live::checksum;

use crate::frame::Fields;

const BITS_A_KEY: usize = 10;
const PROBES: u64 = 7;

/// Hashes a key.
pub(crate) fn hash(key: &[u8]) -> u64 {
    checksum(key)
}

/// A set that may report false positives but no false negatives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter(Vec<u64>);

impl Filter {
    /// Creates an empty filter with space for `count` keys.
    pub(crate) fn for_keys(count: usize) -> Filter {
        Filter(vec![0; (count * BITS_A_KEY).div_ceil(64).max(1)])
    }

    /// Adds keys by their hashes.
    pub(crate) fn insert(&mut self, hashes: &[u64]) {
        for hash in hashes {
            for probe in 0..PROBES {
                let bit = self.bit(*hash, probe);
                self.0[bit / 64] |= 1 << (bit % 64);
            }
        }
    }

    /// Creates a filter that contains every key, for unknown content.
    pub(crate) fn all() -> Filter {
        Filter(vec![u64::MAX])
    }

    /// Returns the memory use in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.len() as u64 * 8
    }

    fn bit(&self, hash: u64, probe: u64) -> usize {
        let bits = self.0.len() as u64 * 64;
        let step = hash.rotate_left(32) | 1;
        let mixed = hash.wrapping_add(probe.wrapping_mul(step));
        ((u128::from(mixed) * u128::from(bits)) >> 64) as usize
    }

    /// Returns whether the filter may contain a key with this hash.
    pub(crate) fn may_hold(&self, hash: u64) -> bool {
        (0..PROBES).all(|probe| {
            let bit = self.bit(hash, probe);
            self.0.get(bit / 64).is_some_and(|word| word >> (bit % 64) & 1 == 1)
        })
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        self.0.iter().for_each(|word| out.extend(word.to_le_bytes()));
    }

    pub(crate) fn get(payload: &[u8]) -> Option<Filter> {
        let mut fields = Fields(payload);
        let words = (0..payload.len() / 8).map(|_| fields.u64()).collect::<Option<Vec<_>>>()?;
        (fields.0.is_empty() && !words.is_empty()).then_some(Filter(words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_contains_all_members_and_few_others() {
        let hashes = |from: u32| (from..from + 10_000).map(|key| hash(&key.to_le_bytes()));
        let mut filter = Filter::for_keys(10_000);
        filter.insert(&hashes(0).collect::<Vec<_>>());
        assert!(hashes(0).all(|hash| filter.may_hold(hash)));
        let others = hashes(10_000).filter(|hash| filter.may_hold(*hash)).count();
        assert!((40..160).contains(&others), "{others} of 10000 strangers");
        let mut bytes = Vec::new();
        filter.put(&mut bytes);
        assert_eq!(bytes.len(), (10_000 * BITS_A_KEY).div_ceil(64) * 8);
        assert_eq!(Filter::get(&bytes).as_ref(), Some(&filter));
        assert_eq!(Filter::get(&bytes[1..]), None);
        assert_eq!(Filter::get(&[]), None);
        assert!(hashes(0).all(|hash| Filter::all().may_hold(hash)));
    }
}
