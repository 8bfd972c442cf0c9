//! Steps back of the clock of a source of events, in the order of the source.

use crate::order::clock::long;

/// Least step back that is told of, in nanoseconds; processors' logs differ by less.
const STEP_NS: u64 = 900_000_000;

/// What went back.
#[derive(Default)]
pub(crate) struct Back {
    last_ns: u64,
    /// Where the first step is, and how far it goes.
    first: Option<(u64, u64)>,
    steps: u64,
}

impl Back {
    /// Whether the clock of the event went back by so much that another run must have begun.
    pub(crate) fn follow(&mut self, place: u64, time_ns: u64) {
        if time_ns.saturating_add(STEP_NS) <= self.last_ns {
            self.steps += 1;
            self.first.get_or_insert((place, self.last_ns - time_ns));
        }
        self.last_ns = time_ns;
    }

    /// What is said of it where places are of such a kind, and the place of the first step.
    pub(crate) fn sentence(&self, kind: &str) -> Option<(String, u64)> {
        let (place, back_ns) = self.first?;
        let times = if self.steps == 1 { String::new() } else { format!(" {} times", self.steps) };
        let back = long(back_ns);
        let sentence = format!(
            "the clock goes back{times}, by {back} at {kind} {place}, and the events behind are laid over those \
             before"
        );
        Some((sentence, place))
    }
}
