//! In which order states and their places come: as it is, or their mix in stretches of requests that grow
//! with the trace.

use super::super::file::{self, Mix, WRITTEN_MAX, written_len};

/// Stretches that are told apart while requests come.
const STRETCHES_MAX: usize = 1 << 18;
/// Counts of all stretches together, unless one alone has more.
const COUNTS_MAX: usize = 1 << 21;
/// How many times shorter phrases may make an order that it is tried.
const SHORTER_MAX: usize = 5;

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
            if self.stretches.is_full() {
                *self = self.halved();
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
    fn halved(&self) -> Order {
        let mut stretches = Stretches::default();
        for (at, mix) in self.stretches.mixes().enumerate() {
            if at % 2 == 0 {
                stretches.begin();
            }
            mix.iter().for_each(|&known| stretches.count(known));
        }
        Order { each: 2 * self.each, last: 0, stretches }
    }

    /// With other numbers.
    fn renumbered(&self, numbers: &[u32]) -> Order {
        let mut stretches = Stretches::default();
        for mix in self.stretches.mixes() {
            stretches.begin();
            mix.iter().for_each(|&(old, times)| stretches.count((numbers[old as usize], times)));
        }
        Order { stretches, ..*self }
    }

    /// The order as it is kept, as close as at most about `numbers_max` numbers can tell it: what was
    /// counted has new numbers among all `places`, and among all `states`.
    pub(super) fn finish(
        &self,
        (of_places, places): (&[u32], usize),
        (of_states, states): (&[u32], usize),
        numbers_max: usize,
    ) -> file::Order {
        if self.each == 1 {
            let told = self.renumbered(of_places).told(true, places, numbers_max);
            if let Some(order) = told {
                return order;
            }
        }
        let mut order = self.renumbered(of_states);
        loop {
            let numbers_max =
                if order.stretches.begins.len() > 1 { numbers_max } else { usize::MAX };
            if let Some(told) = order.told(false, states, numbers_max) {
                return told;
            }
            order = order.halved();
        }
    }

    /// As it is kept, if so many numbers can tell it.
    fn told(&self, of_places: bool, states: usize, numbers_max: usize) -> Option<file::Order> {
        let stretches = joined(self.stretches.mixes());
        let len = written_len(&stretches);
        if len > WRITTEN_MAX.min(numbers_max.saturating_mul(SHORTER_MAX)) {
            return None;
        }
        let order = file::Order::new(self.each, of_places, &stretches, states);
        (order.numbers() <= numbers_max).then_some(order)
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
    fn is_full(&self) -> bool {
        let stretches = self.begins.len();
        stretches == STRETCHES_MAX || (stretches > 1 && self.counts.len() >= COUNTS_MAX)
    }

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
}

/// Neighbours of one and the same state become one.
fn joined<'a>(stretches: impl Iterator<Item = &'a [(u32, u32)]>) -> Vec<Mix> {
    let mut joined: Vec<Mix> = Vec::new();
    for mix in stretches {
        match (joined.last_mut().map(Vec::as_mut_slice), mix) {
            (Some([before]), [one]) if before.0 == one.0 => {
                before.1 = before.1.saturating_add(one.1);
            }
            _ => {
                let mut mix = mix.to_vec();
                mix.sort_unstable();
                joined.push(mix);
            }
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(states: impl IntoIterator<Item = u32>, numbers_max: usize) -> (u64, bool, Vec<Mix>) {
        let mut order = Order::new();
        states.into_iter().for_each(|state| order.add(state));
        // Two places of each state.
        let of_places: Vec<u32> = (0..20).collect();
        let of_states: Vec<u32> = (0..20).map(|place| place / 2).collect();
        let kept = order.finish((&of_places, 20), (&of_states, 10), numbers_max);
        let stretches = kept.stretches(if kept.of_places { 20 } else { 10 }).unwrap();
        (kept.each, kept.of_places, stretches)
    }

    #[test]
    fn runs_of_a_place_are_one_stretch() {
        let found = kept([1, 1, 1, 2, 1], 10);
        assert_eq!(found, (1, true, vec![vec![(1, 3)], vec![(2, 1)], vec![(1, 1)]]));
    }

    #[test]
    fn states_are_kept_where_places_are_too_many() {
        let found = kept([1, 0, 1, 2, 3, 1], 5);
        assert_eq!(found, (1, false, vec![vec![(0, 3)], vec![(1, 2)], vec![(0, 1)]]));
    }

    /// Numbers without any repetition.
    fn noise(len: u32) -> impl Iterator<Item = u32> {
        (0..len).map(|n| n.wrapping_mul(2_654_435_761).rotate_left(9).wrapping_mul(n | 1) >> 8 & 3)
    }

    #[test]
    fn mixes_are_coarser_where_they_would_be_many() {
        let (each, of_places, found) = kept(noise(4096), 300);
        assert!(each > 8 && !of_places && found.len() > 10, "{each} {}", found.len());
        let counts =
            |state| found.iter().flatten().filter(|k| k.0 == state).map(|k| k.1).sum::<u32>();
        let low = noise(4096).filter(|&place| place < 2).count() as u32;
        assert_eq!([0, 1].map(counts), [low, 4096 - low]);
    }

    #[test]
    fn stretches_of_many_states_are_fewer() {
        let mut order = Order::new();
        // Few repeat within a stretch, so that each has nearly as many counts as requests.
        let states = 5_000u32;
        let requests = 2 * COUNTS_MAX as u64;
        (0..requests).for_each(|n| order.add((n as u32).wrapping_mul(2_654_435_761) % states));
        let counts = &order.stretches.counts;
        assert!(counts.len() <= COUNTS_MAX + order.each as usize, "{}", counts.len());
        assert_eq!(counts.iter().map(|count| u64::from(count.1)).sum::<u64>(), requests);
        assert!(order.each > 16, "{}", order.each);
    }

    #[test]
    fn nothing_is_lost_of_a_long_trace() {
        let requests = 3 * STRETCHES_MAX + 5;
        let (each, _, found) = kept((0..requests as u32).map(|n| n % 7), 1 << 20);
        let sum: u64 = found.iter().flatten().map(|known| u64::from(known.1)).sum();
        assert_eq!((sum, each), (requests as u64, 4));
    }
}
