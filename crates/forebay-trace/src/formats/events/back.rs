//! Detects steps back of the clock in a source of events, in the order of the source.

use crate::order::clock::{APART_NS, long};
use forebay_ask::named;
use forebay_show::quantities;

/// The minimum step back that is reported, in nanoseconds. The logs of different CPUs differ by
/// less.
const STEP_NS: u64 = 900_000_000;
/// After this many events, a smaller step is reported too, if the clock goes back by most of the
/// time since the run began and the event numbers of the CPU restart at 1.
const RUN_EVENTS: u64 = 16;
const RUN_NS: u64 = 10_000_000;
const SEQUENCE_MAX: u32 = 16;

/// The steps back of a clock.
#[derive(Default)]
pub(crate) struct Back {
    /// Whether the events after a step are placed after those before it.
    splits: bool,
    shift_ns: u64,
    last_ns: u64,
    newest_ns: u64,
    /// The number of events in this run, when it began, and its newest time.
    events: u64,
    begun_ns: u64,
    /// The place and the size of the first step back.
    first: Option<(u64, u64)>,
    steps: u64,
}

impl Back {
    /// Creates a detector. If `is_wanted`, events after a step are placed after those before it.
    pub(crate) fn splitting(is_wanted: bool) -> Back {
        Back { splits: is_wanted, ..Back::default() }
    }

    /// Processes the next event. Returns its time, and whether a new run begins with it.
    pub(crate) fn follow(&mut self, place: u64, time_ns: u64, sequence: u32) -> (u64, bool) {
        let mut time_ns = time_ns.saturating_add(self.shift_ns);
        let is_step = self.is_step(time_ns, sequence);
        if is_step {
            self.steps += 1;
            self.first.get_or_insert((place, self.last_ns - time_ns));
            if self.splits {
                let begins_ns = self.newest_ns.saturating_add(APART_NS);
                self.shift_ns = self.shift_ns.saturating_add(begins_ns - time_ns);
                time_ns = begins_ns;
            }
            self.events = 0;
        }
        if self.events == 0 {
            (self.begun_ns, self.newest_ns) = (time_ns, time_ns);
        }
        // If the first event of a run overtook others of the run, these stay in it.
        let time_ns = if self.splits { time_ns.max(self.begun_ns) } else { time_ns };
        self.events += 1;
        (self.last_ns, self.newest_ns) = (time_ns, self.newest_ns.max(time_ns));
        (time_ns, is_step && self.splits)
    }

    fn is_step(&self, time_ns: u64, sequence: u32) -> bool {
        if time_ns.saturating_add(STEP_NS) <= self.last_ns {
            return true;
        }
        let run_ns = self.newest_ns.saturating_sub(self.begun_ns);
        self.events >= RUN_EVENTS
            && run_ns >= RUN_NS
            && sequence <= SEQUENCE_MAX
            && time_ns.saturating_sub(self.begun_ns) < run_ns / 10
            && time_ns < self.last_ns
    }

    /// Returns the advice to split runs, if that is possible.
    pub(crate) fn hint(&self) -> String {
        match self.splits {
            true => String::new(),
            false => format!(
                ": if another recording begins there, {} appends it instead",
                named("split_runs=true")
            ),
        }
    }

    /// Returns a sentence about the steps back. `kind` is what places are called.
    pub(crate) fn sentence(&self, kind: &str) -> Option<String> {
        let (place, back_ns) = self.first?;
        if self.splits {
            return Some(format!(
                "the file holds {} runs: each starts {} after the previous one",
                self.steps + 1,
                quantities::seconds(APART_NS as f64 / 1e9)
            ));
        }
        let times = if self.steps == 1 { String::new() } else { format!(" {} times", self.steps) };
        let back = long(back_ns);
        let sentence = format!(
            "the clock goes back{times}, by {back} at {kind} {place}, so later events overlap \
             earlier ones"
        );
        Some(sentence)
    }
}
