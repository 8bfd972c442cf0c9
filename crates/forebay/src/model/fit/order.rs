//! In which order states come: their mix in stretches of requests that grow with the trace.

/// Stretches that are told apart while requests come.
const STRETCHES_MAX: usize = 1 << 16;

use super::super::file::Mix;

/// Collects mixes in bounded memory.
#[derive(Clone, Debug)]
pub(super) struct Order {
    /// Requests of a stretch.
    each: u64,
    /// Requests of the last one so far.
    last: u64,
    stretches: Stretches,
}

impl Order {
    pub(super) fn new() -> Order {
        Order { each: 1, last: 0, stretches: Stretches::default() }
    }

    /// A request of this state comes next.
    #[inline]
    pub(super) fn add(&mut self, state: u32) {
        if self.last == 0 {
            if self.stretches.begins.len() == STRETCHES_MAX {
                self.double();
            }
            self.stretches.begin();
        }
        self.stretches.count((state, 1));
        self.last += 1;
        if self.last == self.each {
            self.last = 0;
        }
    }

    /// Half as many, twice as long.
    fn double(&mut self) {
        let mut halved = Stretches::default();
        for (at, mix) in self.stretches.mixes().enumerate() {
            if at % 2 == 0 {
                halved.begin();
            }
            mix.iter().for_each(|&known| halved.count(known));
        }
        self.stretches = halved;
        self.each *= 2;
    }

    /// Mixes of stretches as fine as they can be, so that all together hold at most about `numbers_max`
    /// numbers; how many requests each has.
    pub(super) fn finish(mut self, numbers_max: usize) -> (u64, Vec<Mix>) {
        loop {
            let (joined, numbers) = self.stretches.joined();
            if joined <= 1 || numbers <= numbers_max {
                break;
            }
            self.double();
        }
        let mut list: Vec<Mix> = Vec::new();
        for mix in self.stretches.mixes() {
            match (list.last_mut().map(Vec::as_mut_slice), mix) {
                (Some([before]), [one]) if before.0 == one.0 => {
                    before.1 = before.1.saturating_add(one.1)
                }
                _ => list.push(mix.to_vec()),
            }
        }
        (self.each, list)
    }
}

/// Mixes one after another.
#[derive(Clone, Debug, Default)]
struct Stretches {
    counts: Vec<(u32, u32)>,
    /// Where each begins among the counts.
    begins: Vec<u32>,
    /// Where each state was counted last.
    at: Vec<u32>,
}

impl Stretches {
    #[inline]
    fn begin(&mut self) {
        self.begins.push(self.counts.len() as u32);
    }

    /// Counts a state in the last one.
    #[inline]
    fn count(&mut self, (state, times): (u32, u32)) {
        if state as usize >= self.at.len() {
            self.at.resize(state as usize + 1, 0);
        }
        let begin = self.begins.last().copied().unwrap_or(0);
        let at = &mut self.at[state as usize];
        match self.counts.get_mut(*at as usize) {
            Some(known) if *at >= begin && known.0 == state => {
                known.1 = known.1.saturating_add(times);
            }
            _ => {
                *at = self.counts.len() as u32;
                self.counts.push((state, times));
            }
        }
    }

    fn mixes(&self) -> impl Iterator<Item = &[(u32, u32)]> {
        let ends = self.begins.iter().skip(1).copied().chain([self.counts.len() as u32]);
        self.begins.iter().zip(ends).map(|(&begin, end)| &self.counts[begin as usize..end as usize])
    }

    /// How many there are once neighbours of one and the same state are one, and the numbers that then say
    /// it all.
    fn joined(&self) -> (usize, usize) {
        let (mut stretches, mut numbers) = (0, 0);
        // State of the one before if it has but one, and whether that is counted more than once.
        let mut before = None;
        for mix in self.mixes() {
            if let ([one], Some((state, is_counted))) = (mix, &mut before)
                && one.0 == *state
            {
                numbers += usize::from(!std::mem::replace(is_counted, true));
                continue;
            }
            stretches += 1;
            numbers += mix.iter().map(|known| 1 + usize::from(known.1 > 1)).sum::<usize>();
            before = match mix {
                [one] => Some((one.0, one.1 > 1)),
                _ => None,
            };
        }
        (stretches, numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(states: impl IntoIterator<Item = u32>) -> Order {
        let mut order = Order::new();
        states.into_iter().for_each(|state| order.add(state));
        order
    }

    #[test]
    fn runs_of_a_state_are_one_stretch() {
        let found = order([1, 1, 1, 2, 1]).finish(10);
        assert_eq!(found.1, [vec![(1, 3)], vec![(2, 1)], vec![(1, 1)]]);
    }

    #[test]
    fn mixes_are_coarser_where_they_would_be_many() {
        let found = order((0..64).map(|n| n % 2)).finish(32);
        assert_eq!(found, (8, vec![vec![(0, 4), (1, 4)]; 8]));
    }

    #[test]
    fn nothing_is_lost_of_a_long_trace() {
        let requests = 3 * STRETCHES_MAX + 5;
        let (each, found) = order((0..requests as u32).map(|n| n % 7)).finish(usize::MAX);
        let sum: u64 = found.iter().flatten().map(|known| u64::from(known.1)).sum();
        assert_eq!((sum, found.len(), each), (requests as u64, requests.div_ceil(4), 4));
    }
}
