//! How late requests were issued, and whose fault it was.
//!
//! Where a device has no room for another I/O, Linux has whoever hands it over wait, and so whatever is wanted meanwhile
//! is issued late. A request that was held up for most of the time that it was late is the target's, not the host's.

use std::collections::VecDeque;

use forebay::statistics::Latencies;
use forebay_core::Nanos;

/// Spells that are remembered; with more than that between a request's time and its issue, the host is blamed.
const SPELLS_MAX: usize = 1 << 16;

/// A span in which the target took nothing, and the sum of those before.
#[derive(Clone, Copy, Debug)]
struct Spell {
    from: Nanos,
    to: Nanos,
    before: Nanos,
}

/// Lateness of requests.
pub(super) struct Late {
    /// Of each request.
    pub(super) all: Latencies,
    /// The same, but 0 where the target is to blame.
    pub(super) host: Latencies,
    /// For how long the target took nothing, in all.
    pub(super) held_up: Nanos,
    /// Those spells that requests to come may have waited for.
    spells: VecDeque<Spell>,
}

impl Late {
    pub(super) fn new() -> Late {
        Late {
            all: Latencies::new(3),
            host: Latencies::new(3),
            held_up: Nanos::ZERO,
            spells: VecDeque::new(),
        }
    }

    /// The target took nothing in this span, which ended after all that were told before.
    pub(super) fn held_up(&mut self, from: Nanos, to: Nanos) {
        if self.spells.len() == SPELLS_MAX {
            self.spells.pop_front();
        }
        self.spells.push_back(Spell { from, to, before: self.held_up });
        self.held_up += to - from;
    }

    /// A request that was wanted at `wanted`, not before those told before, was issued at `at`.
    pub(super) fn issued(&mut self, wanted: Nanos, at: Nanos) {
        while self.spells.front().is_some_and(|spell| spell.to <= wanted) {
            self.spells.pop_front();
        }
        let late = at - wanted;
        let waited = self
            .spells
            .front()
            .map_or(Nanos::ZERO, |first| self.held_up - first.before - (wanted - first.from));
        self.all.record(late);
        self.host.record(if waited + waited > late { Nanos::ZERO } else { late });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_mostly_waited_for_the_target_is_the_targets() {
        let ms = Nanos::from_millis;
        let mut late = Late::new();
        let mut issued = |spells: &[(u64, u64)], wanted, at| {
            spells.iter().for_each(|&(from, to)| late.held_up(ms(from), ms(to)));
            let before = late.host.count();
            late.issued(ms(wanted), ms(at));
            assert_eq!(late.host.count(), before + 1);
            late.host.max()
        };
        // 30 of 40 ms in two spells, the first of which began before it was wanted.
        assert_eq!(issued(&[(0, 20), (30, 50)], 10, 50), Nanos::ZERO);
        // Wanted after them, 3 ms late by itself.
        assert_eq!(issued(&[], 50, 53), ms(3));
        // 4 of 9 ms are not most.
        assert_eq!(issued(&[(60, 64)], 58, 67), ms(9));
        // A spell that ended before does not count again: 10 ms late though 20 were lost before.
        assert_eq!(issued(&[(70, 90)], 90, 100), ms(10));
        assert_eq!((late.held_up, late.all.max(), late.all.count()), (ms(64), ms(40), 4));
    }
}
