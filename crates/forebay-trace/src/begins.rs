//! Counts how many requests begin at which addresses of a volume, in bounded memory.
//!
//! Requests are counted by stretches of addresses, which are as short as possible. If there are too
//! many stretches, the two neighbors whose combination is shortest are merged. A single distant
//! request therefore costs one stretch and does not reduce the resolution for all others.

/// A stretch of addresses and the number of requests that begin in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StretchCount {
    /// The first byte at which a request begins.
    pub first: u64,
    /// The last byte at which a request begins.
    pub last: u64,
    /// The number of requests.
    pub requests: u64,
}

/// The number of requests in each stretch.
#[derive(Clone, Debug)]
pub struct BeginCounts {
    stretches: Vec<StretchCount>,
    most: usize,
    latest: usize,
}

impl BeginCounts {
    /// Creates an empty counter with at most `most` stretches.
    pub fn new(most: usize) -> BeginCounts {
        BeginCounts { stretches: Vec::new(), most, latest: 0 }
    }

    /// Counts a request that begins at `offset`.
    #[inline]
    pub fn add(&mut self, offset: u64) {
        if let Some(latest) = self.stretches.get_mut(self.latest)
            && (latest.first..=latest.last).contains(&offset)
        {
            latest.requests += 1;
            return;
        }
        let after = self.stretches.partition_point(|stretch| stretch.first <= offset);
        self.latest = after.saturating_sub(1);
        match self.stretches[..after].last_mut() {
            Some(stretch) if offset <= stretch.last => stretch.requests += 1,
            _ => self.insert(after, offset),
        }
    }

    #[cold]
    fn insert(&mut self, at: usize, offset: u64) {
        self.stretches.insert(at, StretchCount { first: offset, last: offset, requests: 1 });
        self.latest = at;
        if self.stretches.len() <= self.most {
            return;
        }
        let reach = |pair: &[StretchCount]| pair[1].last - pair[0].first;
        let pairs = self.stretches.windows(2).enumerate();
        let Some((number, _)) = pairs.min_by_key(|(_, pair)| reach(pair)) else { return };
        let next = self.stretches.remove(number + 1);
        self.stretches[number].last = next.last;
        self.stretches[number].requests += next.requests;
        self.latest = number;
    }

    /// Returns all stretches in order of their addresses.
    pub fn stretches(&self) -> &[StretchCount] {
        &self.stretches
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_distant_request_takes_one_stretch() {
        for far in [1u64 << 40, 1 << 50, u64::MAX] {
            let mut begins = BeginCounts::new(128);
            (0..10_000u64).for_each(|n| begins.add((n * 7919 % 10_000) << 20));
            begins.add(far);
            let stretches = begins.stretches();
            let is_far = |one: &&StretchCount| one.last == far;
            assert_eq!(stretches.iter().find(is_far).unwrap().first, far);
            let longest = stretches.iter().map(|one| one.last - one.first).max().unwrap();
            assert!(longest <= 10_000 << 20 >> 6, "{far}: {longest}");
        }
    }

    proptest! {
        #[test]
        fn every_request_is_counted_in_a_stretch_of_its_own_or_a_shared_one(
            offsets in proptest::collection::vec((any::<u64>(), 0u32..64), 1..300),
            most in 1usize..40,
        ) {
            let offsets: Vec<u64> = offsets.iter().map(|(at, shift)| at >> shift).collect();
            let mut begins = BeginCounts::new(most);
            offsets.iter().for_each(|&offset| begins.add(offset));
            let stretches = begins.stretches();
            prop_assert!(stretches.len() <= most);
            prop_assert!(stretches.windows(2).all(|two| two[0].last < two[1].first));
            for one in stretches {
                let within = offsets.iter().filter(|at| (one.first..=one.last).contains(at));
                prop_assert_eq!(within.count() as u64, one.requests);
            }
            prop_assert_eq!(stretches.iter().map(|one| one.requests).sum::<u64>(), offsets.len() as u64);
        }
    }
}
