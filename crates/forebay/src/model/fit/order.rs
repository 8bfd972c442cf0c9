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
    stretches: Vec<Mix>,
}

impl Order {
    pub(super) fn new() -> Order {
        Order { each: 1, last: 0, stretches: Vec::new() }
    }

    /// A request of this state comes next.
    #[inline]
    pub(super) fn add(&mut self, state: u32) {
        if self.last == 0 {
            if self.stretches.len() == STRETCHES_MAX {
                self.stretches = halved(&self.stretches);
                self.each *= 2;
            }
            self.stretches.push(Vec::new());
        }
        let at = self.stretches.len() - 1;
        count(&mut self.stretches[at], (state, 1));
        self.last = (self.last + 1) % self.each;
    }

    /// Mixes of stretches as fine as they can be, so that all together hold at most about `numbers_max`
    /// numbers; how many requests each has.
    pub(super) fn finish(mut self, numbers_max: usize) -> (u64, Vec<Mix>) {
        loop {
            let joined = joined(&self.stretches);
            if joined.len() <= 1 || numbers(&joined) <= numbers_max {
                return (self.each, joined);
            }
            self.stretches = halved(&self.stretches);
            self.each *= 2;
        }
    }
}

#[inline]
fn count(mix: &mut Mix, (state, times): (u32, u32)) {
    match mix.iter_mut().find(|known| known.0 == state) {
        Some(known) => known.1 = known.1.saturating_add(times),
        None => mix.push((state, times)),
    }
}

/// Half as many, twice as long.
fn halved(stretches: &[Mix]) -> Vec<Mix> {
    let sum = |pair: &[Mix]| {
        let mut sum = pair[0].clone();
        pair.iter().skip(1).flatten().for_each(|&known| count(&mut sum, known));
        sum
    };
    stretches.chunks(2).map(sum).collect()
}

/// Neighbours of one and the same state become one.
fn joined(stretches: &[Mix]) -> Vec<Mix> {
    let mut joined: Vec<Mix> = Vec::new();
    for mix in stretches {
        match (joined.last_mut().map(Vec::as_mut_slice), mix.as_slice()) {
            (Some([before]), [one]) if before.0 == one.0 => {
                before.1 = before.1.saturating_add(one.1)
            }
            _ => joined.push(mix.clone()),
        }
    }
    joined
}

/// Numbers that say it all.
fn numbers(stretches: &[Mix]) -> usize {
    stretches.iter().flatten().map(|known| 1 + usize::from(known.1 > 1)).sum()
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
