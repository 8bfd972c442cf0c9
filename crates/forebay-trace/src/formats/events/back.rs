//! Detects steps back of the clock in a source of events, in the order of the source.

use crate::order::clock::{APART_NS, long};
use forebay_ask::named;
use forebay_words::plural::{counted, verb};
use forebay_words::quantities;

/// The minimum step back that is reported, in nanoseconds. The logs of different CPUs differ by
/// less.
const STEP_NS: u64 = 900_000_000;
/// After this many events, a smaller step is reported too, if the clock goes back by most of the
/// time since the run began and the event numbers of the CPU restart at 1.
const RUN_EVENTS: u64 = 16;
const RUN_NS: u64 = 10_000_000;
const SEQUENCE_MAX: u32 = 16;
/// An event whose time is at least this far from the events before and after it is *wild*: it does
/// not begin a run.
const WILD_NS: u64 = 10_000_000_000;
/// The maximum number of consecutive wild events that are earlier than the surrounding ones.
const WILD_EVENTS: u64 = 16;
/// The maximum number of wild events at the end.
const WILD_LAST_EVENTS: u64 = 2;

/// The steps back of a clock.
#[derive(Clone, Default)]
pub(crate) struct BackSteps {
    run: Run,
    doubt: Option<Doubt>,
    /// The number of wild events, the place of the first, and the largest distance.
    wild: u64,
    wild_first: u64,
    wild_ns: u64,
}

/// Events whose times may be wrong.
#[derive(Clone, Copy)]
struct Doubt {
    /// The place of the first such event, its distance from the previous event, and the number of
    /// such events.
    place: u64,
    ns: u64,
    events: u64,
    /// The state before the first such event.
    before: Run,
}

/// The state of the run that is being read.
#[derive(Clone, Copy, Default)]
struct Run {
    /// Whether the events after a step are placed after those before it.
    splits: bool,
    shift_ns: u64,
    last_ns: u64,
    newest_ns: u64,
    /// The time of the last event in the recording.
    recorded_ns: u64,
    /// The number of events in this run, when it began, and its newest time.
    events: u64,
    begun_ns: u64,
    /// The place and the size of the first step back.
    first: Option<(u64, u64)>,
    steps: u64,
}

impl BackSteps {
    /// Creates a detector. If `is_wanted` is set, events after a step back are placed after those
    /// before it.
    pub(crate) fn splitting(is_wanted: bool) -> BackSteps {
        BackSteps { run: Run { splits: is_wanted, ..Run::default() }, ..BackSteps::default() }
    }

    /// Processes the next event. Returns its time, and whether a new run begins with it.
    pub(crate) fn follow(&mut self, place: u64, time_ns: u64, sequence: u32) -> (u64, bool) {
        if let Some(doubt) = self.doubt.take() {
            if self.run.ends(&doubt, time_ns) {
                self.count_wild(&doubt);
            } else if doubt.is_back(self.run.recorded_ns) && doubt.events < WILD_EVENTS {
                self.doubt = Some(Doubt { events: doubt.events + 1, ..doubt });
            }
        }
        let before = self.run;
        let followed = self.run.follow(place, time_ns, sequence);
        let ns = time_ns.abs_diff(before.recorded_ns);
        if self.doubt.is_none() && before.events > 0 && ns >= WILD_NS {
            self.doubt = Some(Doubt { place, ns, events: 1, before });
        }
        followed
    }

    fn count_wild(&mut self, doubt: &Doubt) {
        self.wild_first = if self.wild == 0 { doubt.place } else { self.wild_first };
        self.wild += doubt.events;
        self.wild_ns = self.wild_ns.max(doubt.ns);
        self.run = doubt.before;
    }

    /// Returns the state after the last event. A few events that are earlier than the preceding
    /// ones are wild even if no events follow.
    fn at_end(&self) -> BackSteps {
        let mut back = self.clone();
        let last = back.doubt.take().filter(|doubt| {
            doubt.is_back(self.run.recorded_ns)
                && doubt.before.events >= RUN_EVENTS
                && doubt.events <= WILD_LAST_EVENTS
        });
        last.iter().for_each(|doubt| back.count_wild(doubt));
        back
    }

    /// Returns the advice to split runs, if that is possible.
    pub(crate) fn hint(&self) -> String {
        match self.run.splits {
            true => String::new(),
            false => format!(
                ": if another recording begins there, {} appends it instead",
                named("split_runs=true")
            ),
        }
    }

    /// Returns a sentence about wild events. `kind` is the noun for a position in the trace, such
    /// as "line".
    pub(crate) fn wild_sentence(&self, kind: &str) -> Option<String> {
        let BackSteps { wild, wild_first, wild_ns, .. } = self.at_end();
        (wild > 0).then(|| {
            format!(
                "{} {} up to {} away from those before and after (the first is at {kind} {wild_first})",
                counted(wild, "event"),
                verb(wild, "has a timestamp", "have timestamps"),
                long(wild_ns),
            )
        })
    }

    /// Returns a sentence about the steps back. `kind` is the noun for a position in the trace,
    /// such as "line".
    pub(crate) fn sentence(&self, kind: &str) -> Option<String> {
        self.at_end().run.sentence(kind)
    }
}

impl Doubt {
    /// Returns whether events up to one that was recorded at this time are earlier than those
    /// before them.
    fn is_back(&self, recorded_ns: u64) -> bool {
        recorded_ns < self.before.recorded_ns
    }
}

impl Run {
    /// Returns whether an event at `next_ns` shows that the doubtful events were wild: the clock
    /// returns to where it was before them.
    fn ends(&self, doubt: &Doubt, next_ns: u64) -> bool {
        next_ns.abs_diff(doubt.before.recorded_ns) < doubt.ns / 2
            && next_ns.abs_diff(self.recorded_ns) >= doubt.ns / 2
    }

    fn follow(&mut self, place: u64, time_ns: u64, sequence: u32) -> (u64, bool) {
        self.recorded_ns = time_ns;
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
        // If the first event of a run overtook others of the run, these stay in the run.
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

    /// Returns a sentence about the steps back. `kind` is the noun for a position in the trace,
    /// such as "line".
    fn sentence(&self, kind: &str) -> Option<String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// Returns the times of events 10 ms apart, of which event 50 has the time `wild_ns`, and the
    /// sentences about wild events and steps back.
    fn followed(wild_ns: u64, splits: bool) -> (Vec<u64>, [Option<String>; 2]) {
        let mut back = BackSteps::splitting(splits);
        let at = |n: u64| if n == 50 { wild_ns } else { 1000 * S + n * S / 100 };
        let times = (0..100).map(|n| back.follow(n + 1, at(n), 40).0).collect();
        (times, [back.wild_sentence("line"), back.sentence("line")])
    }

    #[test]
    fn a_wild_event_begins_no_run() {
        for splits in [false, true] {
            for wild_ns in [1030 * S, 100_000_000 * S, 900 * S, 0] {
                let (times, [wild, _]) = followed(wild_ns, splits);
                let wild = wild.unwrap();
                assert!(wild.starts_with("1 event has a timestamp up to "), "{wild}");
                assert!(wild.ends_with("(the first is at line 51)"), "{wild}");
                assert_eq!(times[51], 1000 * S + 51 * S / 100, "{wild_ns} {splits}");
                assert_eq!(times[99], 1000 * S + 99 * S / 100);
            }
            // A pause is not wild, and neither is a second run.
            for (first, count) in [(50, 2), (50, 16), (98, 2), (99, 1)] {
                let mut back = BackSteps::splitting(splits);
                let is_wild = |n: u64| (first..first + count).contains(&n);
                let at = |n: u64| if is_wild(n) { n % 2 } else { 1000 * S + n * S / 100 };
                let times: Vec<u64> = (0..100).map(|n| back.follow(n + 1, at(n), 40).0).collect();
                let told = format!("{} event", count);
                assert!(back.wild_sentence("line").unwrap().starts_with(&told), "{first} {count}");
                assert_eq!(back.sentence("line"), None, "{first} {count}");
                assert!(is_wild(99) || times[99] == 1000 * S + 99 * S / 100);
            }
            let mut back = BackSteps::splitting(splits);
            for at in [S, 2 * S, 40 * S, 41 * S, S, 2 * S, 3 * S] {
                back.follow(1, at, 40);
            }
            assert_eq!(back.wild_sentence("line"), None);
            assert!(back.sentence("line").is_some());
        }
        // Only a step that remains is reported.
        assert_eq!(followed(0, false).1[1], None);
    }
}
