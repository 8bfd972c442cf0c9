//! Divides a trace into parts with equal numbers of requests. Parts can be merged, so that a
//! coarser model describes exactly the same requests as a finer one.

use crate::bytes::{ByteError, Bytes, Writer};

/// A division of a trace: into `units` stretches with equal numbers of requests, of which each
/// `joined` consecutive ones form a part. The last part may have fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    units: u64,
    joined: u64,
}

impl Default for Parts {
    fn default() -> Parts {
        Parts::new(1)
    }
}

impl Parts {
    /// Creates a division into `count` parts, or one if it is 0.
    pub(crate) fn new(count: u64) -> Parts {
        Parts { units: count.max(1), joined: 1 }
    }

    /// Returns the number of parts.
    #[inline]
    pub(crate) fn count(self) -> u64 {
        self.units.div_ceil(self.joined)
    }

    /// Returns the division with parts merged in pairs, or the same division if it has only one
    /// part.
    pub(crate) fn joined(self) -> Parts {
        if self.count() < 2 { self } else { Parts { joined: 2 * self.joined, ..self } }
    }

    /// Returns the index of the first request of a part, in a trace of `requests` requests. For the
    /// part after the last, this is `requests`.
    #[inline]
    pub(crate) fn begin(self, part: usize, requests: u64) -> u64 {
        let unit = (part as u64).saturating_mul(self.joined).min(self.units);
        (u128::from(requests) * u128::from(unit) / u128::from(self.units)) as u64
    }

    pub(crate) fn put(self, writer: &mut Writer) {
        writer.numbers([self.units, self.joined]);
    }

    /// Reads a division of at most `units_max` units.
    pub(crate) fn get(bytes: &mut Bytes, units_max: usize, what: &str) -> Result<Parts, ByteError> {
        let units = bytes.number(units_max as u64, what)?;
        // Doubling may exceed the number of units.
        let joined = bytes.number(units.next_power_of_two(), what)?;
        if joined == 0 {
            return bytes.bad(format!("{what} {units}, {joined} joined"), "at least 1 of each");
        }
        Ok(Parts { units, joined })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_division_can_be_read(units in 1u64..100, times in 0u32..10) {
            let parts = (0..times).fold(Parts::new(units), |parts, _| parts.joined());
            let mut writer = Writer::default();
            parts.put(&mut writer);
            let read = Parts::get(&mut Bytes::new(&writer.0), 100, "parts");
            prop_assert!(read.is_ok_and(|read| read == parts), "{parts:?}");
        }

        #[test]
        fn a_joined_part_is_the_two_it_was(units in 1u64..400, times in 0u32..10, requests in 1u64..100_000) {
            let fine = (0..times).fold(Parts::new(units), |parts, _| parts.joined());
            let coarse = fine.joined();
            prop_assert_eq!(coarse.count(), fine.count().div_ceil(2));
            for part in 0..coarse.count() as usize {
                prop_assert_eq!(coarse.begin(part, requests), fine.begin(2 * part, requests));
            }
            let ends = [fine, coarse].map(|parts| parts.begin(parts.count() as usize, requests));
            prop_assert_eq!(ends, [requests; 2]);
        }
    }
}
