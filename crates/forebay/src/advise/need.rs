//! Decides whether a disk needs a remedy. One rule holds for schedulers and for flash, for reads
//! and for writes, and for devices that the user named and those that Forebay assumed:
//!
//! 1. On a disk that is busy at least half of the time, every figure counts.
//! 2. On any other disk, only long tails count: a 99th percentile of reads or of writes above
//!    50 ms, in the model and, if the latencies were recorded, in the recording. A remedy that
//!    shortens none of them by a fifth is not needed.
//! 3. If something is needed, a trace of less than 5 s is too short to say what.
//! 4. What a stream would gain without another ([`super::disturbance`]) counts if its 99th
//!    percentile falls by a fifth, by these rules, and if the model is not far slower than the
//!    recorded device.
//! 5. Flash costs money, so it takes more evidence: at least 1,000 requests if the disk is mostly
//!    idle, and a model that is less than ten times as slow as the recorded device.
//!
//! A user who prefers the shortest total time lets every figure count for schedulers.

use forebay_trace::describe::Description;

use super::{
    Objection, REQUESTS_THAT_MATTER, RecordedSpeed, SPAN_LEAST_S, TAIL_FINE_MS, TAIL_THAT_MATTERS,
    is_mostly_idle, long_tails, recorded_tails,
};
use crate::RunResult;
use crate::quantities::{counted, seconds};

/// How much longer than the recorded latencies those of the model may be, before flash is not
/// recommended on their evidence.
const TIMES_SLOWER_MAX: f64 = 10.0;

/// The latencies for which a remedy is needed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Counts {
    /// All latencies, because the disk is busy.
    All,
    /// On a mostly idle disk, the long tails of reads and of writes.
    Tails([bool; 2]),
}

/// Why nothing is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoNeed {
    /// The model answers fast.
    Fast,
    /// The model has a long tail, but the recorded requests were answered quickly.
    RecordedFast,
}

/// The latencies that matter for a trace on a device.
#[derive(Clone, Debug)]
pub(super) struct Need {
    counts: Counts,
    requests: u64,
    /// The time from the first arrival to the last, in seconds.
    span_s: f64,
    /// Whether the model has no long tail. If so, the recording's tail is ignored.
    is_model_fast: bool,
    /// Whether the recorded reads, and the recorded writes, were answered fast.
    was_fast: [bool; 2],
    /// How much slower the model is than the recorded device, if that is too much for a purchase.
    slower: Option<RecordedSpeed>,
}

impl Need {
    /// Judges the baseline's run. `recorded` describes the trace, unless its requests arrive at
    /// another speed than recorded. If the device `is_behind` the arrivals, latencies measure the
    /// backlog, and are not compared with the recorded ones.
    pub(super) fn of(
        baseline: &RunResult,
        span_s: f64,
        recorded: Option<&Description>,
        is_behind: bool,
    ) -> Need {
        let long = long_tails(baseline);
        let tails = recorded.map_or([None; 2], recorded_tails);
        let was_fast = tails.map(|p99_ms| p99_ms.is_some_and(|ms| ms <= TAIL_FINE_MS));
        let counts = match is_mostly_idle(baseline, span_s) {
            true => Counts::Tails([0, 1].map(|kind| long[kind] && !was_fast[kind])),
            false => Counts::All,
        };
        let speeds = recorded.filter(|_| !is_behind);
        let slowest = speeds.and_then(|recorded| RecordedSpeed::slowest(recorded, baseline));
        let slower = slowest.filter(|speed| speed.times() >= TIMES_SLOWER_MAX);
        let requests = baseline.figures.requests;
        let is_model_fast = long == [false; 2];
        Need { counts, requests, span_s, is_model_fast, was_fast, slower }
    }

    /// Returns why no remedy is needed; `None` if some figure counts.
    pub(super) fn none(&self) -> Option<NoNeed> {
        match (self.counts, self.is_model_fast) {
            (Counts::Tails([false, false]), true) => Some(NoNeed::Fast),
            (Counts::Tails([false, false]), false) => Some(NoNeed::RecordedFast),
            _ => None,
        }
    }

    /// Returns whether only long tails count, because the disk is mostly idle.
    pub(super) fn is_only_tails(&self) -> bool {
        self.counts != Counts::All
    }

    /// Returns whether the trace is too short to say what is needed.
    pub(super) fn is_too_short(&self) -> bool {
        self.none().is_none() && self.span_s < SPAN_LEAST_S
    }

    /// Returns whether `run` improves on the baseline in a figure that counts.
    pub(super) fn is_met_by(&self, run: &RunResult, baseline: &RunResult) -> bool {
        let Counts::Tails(counts) = self.counts else { return true };
        let tails = |of: &RunResult| [of.figures.read_p99_ms, of.figures.write_p99_ms];
        let pairs = tails(run).into_iter().zip(tails(baseline)).zip(counts);
        let is_shorter = |is: f64, was: f64| is <= was * (1.0 - TAIL_THAT_MATTERS);
        pairs.into_iter().any(|((is, was), counts)| {
            counts && is.zip(was).is_some_and(|(is, was)| is_shorter(is, was))
        })
    }

    /// Returns whether it matters that the 99th percentile of a stream's latencies falls from
    /// `was_ms` to `is_ms`.
    pub(super) fn is_met_by_stream(&self, is_reads: bool, was_ms: f64, is_ms: f64) -> bool {
        let [reads_were_fast, writes_were_fast] = self.was_fast;
        let was_fast = reads_were_fast && (is_reads || writes_were_fast);
        let counts = !self.is_only_tails() || was_ms > TAIL_FINE_MS && !was_fast;
        let is_known = self.span_s >= SPAN_LEAST_S && self.slower.is_none();
        counts && is_known && is_ms <= was_ms * (1.0 - TAIL_THAT_MATTERS)
    }

    /// Returns why no flash can be recommended, whatever its gain; `None` if it can be.
    pub(super) fn against_flash(&self) -> Option<Objection> {
        let idle = "the disk is mostly idle";
        let fast = match self.none() {
            Some(NoNeed::Fast) => Some("answers about as fast as a disk can"),
            Some(NoNeed::RecordedFast) => Some("the recorded requests were answered quickly"),
            None => None,
        };
        if let Some(fast) = fast {
            let why = format!("Nothing to gain from flash: {idle}, and {fast}");
            return Some(Objection::needless(why, idle));
        }
        if self.is_too_short() {
            let lasts = seconds(self.span_s);
            let why = format!("Too short to recommend flash: the trace lasts {lasts}");
            return Some(Objection::new(why, "the trace is too short for a conclusion"));
        }
        if self.is_only_tails() && self.requests < REQUESTS_THAT_MATTER {
            let requests = counted(self.requests, "request");
            let why = format!("Too few requests to recommend flash for an idle disk: {requests}");
            let in_short = format!("{idle}, and the trace has only {requests}");
            return Some(Objection::needless(why, in_short));
        }
        self.slower.map(|speed| {
            let said = speed.in_short();
            let why = format!("No basis for a purchase: {said}, {}", speed.figures());
            Objection::new(why, said)
        })
    }

    /// Returns why the flash in `run` is not needed; `None` if the flash shortens a latency that
    /// counts.
    pub(super) fn not_met(&self, run: &RunResult, baseline: &RunResult) -> Option<Objection> {
        (!self.is_met_by(run, baseline)).then(|| {
            let in_short =
                "the disk is mostly idle, and the cache tried shortens no long tail by a fifth";
            Objection::needless(format!("Not needed: {in_short}"), in_short)
        })
    }
}

#[cfg(test)]
mod tests;
