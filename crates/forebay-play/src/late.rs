//! Delays in issuing requests, attributed to the host or to the target.
//!
//! If a device accepts no more I/Os, Linux blocks the submitting thread, so that requests due in
//! the meantime are issued late. If a request was blocked for most of its delay, the delay is
//! attributed to the target and not to the host.

use std::collections::VecDeque;

use forebay::statistics::Latencies;
use forebay_core::Nanos;

/// The maximum number of blocked periods to remember. If more of them lie between the due time of a
/// request and its issue, the delay is attributed to the host.
const SPELLS_MAX: usize = 1 << 16;

/// A period in which the target accepted no I/Os, with the total duration of earlier periods.
#[derive(Clone, Copy, Debug)]
struct Spell {
    from: Nanos,
    to: Nanos,
    before: Nanos,
}

/// Collects the delays of requests.
pub(super) struct Late {
    /// The delays of all requests.
    pub(super) all: Latencies,
    /// The same delays, with 0 for those that the target caused.
    pub(super) host: Latencies,
    /// The total time during which the target accepted no I/Os.
    pub(super) held_up: Nanos,
    /// The blocked periods that may still affect future requests.
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

    /// Registers a period in which the target accepted no I/Os. Periods must be registered in order
    /// of their ends.
    pub(super) fn held_up(&mut self, from: Nanos, to: Nanos) {
        if self.spells.len() == SPELLS_MAX {
            self.spells.pop_front();
        }
        self.spells.push_back(Spell { from, to, before: self.held_up });
        self.held_up += to - from;
    }

    /// Registers that a request due at `wanted` was issued at `at`. Requests must be registered in
    /// order of their due times.
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
    fn a_request_that_mostly_waited_for_the_target_is_attributed_to_the_target() {
        let ms = Nanos::from_millis;
        let mut late = Late::new();
        let mut issued = |spells: &[(u64, u64)], wanted, at| {
            spells.iter().for_each(|&(from, to)| late.held_up(ms(from), ms(to)));
            let before = late.host.count();
            late.issued(ms(wanted), ms(at));
            assert_eq!(late.host.count(), before + 1);
            late.host.max()
        };
        // The request is blocked for 30 of 40 ms, in two periods, the first of which began before
        // the request was due.
        assert_eq!(issued(&[(0, 20), (30, 50)], 10, 50), Nanos::ZERO);
        // The request is due after both periods, and is 3 ms late without being blocked.
        assert_eq!(issued(&[], 50, 53), ms(3));
        // The request is blocked for 4 of 9 ms, which is not most of its delay.
        assert_eq!(issued(&[(60, 64)], 58, 67), ms(9));
        // A period that ended before the request was due does not count: the request is 10 ms late,
        // although 20 ms were blocked before.
        assert_eq!(issued(&[(70, 90)], 90, 100), ms(10));
        assert_eq!((late.held_up, late.all.max(), late.all.count()), (ms(64), ms(40), 4));
    }
}
