//! Formats the notes for the user about the clock of a source.

use forebay_ask::named;
use forebay_words::plural::{counted, verb};
use forebay_words::quantities;

use super::{APART_NS, Clock, STEP_NS, STEPS_SHOWN};
use crate::{RunEvidence, RunStart};

/// If there are more steps back than this, they do not separate runs, unless all runs cover the
/// same time.
const RUNS_MAX: u64 = 16;
/// If all rows together cover less than this many times the largest step back, the clock does not
/// advance from step to step.
const ADVANCING_STEPS: u64 = 4;
const DAY_S: f64 = 86_400.0;

impl Clock {
    /// Returns notes for the user. `late` is the number of rows that were too late to be sorted.
    pub(in crate::order) fn sentences(&self, late: u64) -> impl Iterator<Item = String> {
        let back = self.back_sentence(self.moved.saturating_sub(late));
        [self.wild_sentence(), self.split_sentence(), back].into_iter().flatten()
    }

    /// Returns the largest deviation of the wild rows that kept their times.
    pub(in crate::order) fn wild_ns(&self) -> u64 {
        if self.wild > self.placed { self.wild_ns } else { 0 }
    }

    /// Returns the first places where another recording seems to begin; none if the steps back are
    /// due to rows that are out of order.
    pub(in crate::order) fn run_starts(&self) -> Vec<RunStart> {
        let back = self.back.iter().filter(|_| !self.is_out_of_order());
        let mut starts: Vec<RunStart> = self.appended_starts.iter().chain(back).copied().collect();
        starts.sort_unstable_by_key(|start| start.request);
        starts
    }

    /// Returns whether rows are in disorder, but the clock advances: several CPUs that write to one
    /// log in turn cause many small steps.
    fn is_shuffled(&self) -> bool {
        let covered_ns = self.newest_ns.saturating_sub(self.oldest_ns);
        self.steps > RUNS_MAX && covered_ns / ADVANCING_STEPS >= self.moved_ns
    }

    fn is_out_of_order(&self) -> bool {
        self.is_shuffled() && self.moved_ns < STEP_NS
    }

    fn wild_sentence(&self) -> Option<String> {
        let effect = match self.wild > self.placed {
            true => {
                "this makes the trace appear that long, so its rates and figures over time are \
                 unreliable"
            }
            false if self.wild == 1 && self.wild_first == 1 => {
                "it is treated as if it had the time of the request after it"
            }
            false if self.wild == 1 => {
                "it is treated as if it had the time of the request before it"
            }
            false if self.wild_first == 1 => {
                "they are treated as if they had the time of the nearest other request"
            }
            false => "they are treated as if they had the time of the request before them",
        };
        (self.wild > 0).then(|| {
            format!(
                "{} {} up to {} away from those before and after (the first is request {} of the \
                 file): {effect}",
                counted(self.wild, "request"),
                verb(self.wild, "has a timestamp", "have timestamps"),
                long(self.wild_ns),
                self.wild_first
            )
        })
    }

    fn split_sentence(&self) -> Option<String> {
        (self.appended > 0).then(|| {
            format!(
                "the file holds {}: each starts {} after the previous one",
                counted(self.appended + 1, "run"),
                quantities::seconds(APART_NS as f64 / 1e9)
            )
        })
    }

    fn back_sentence(&self, moved: u64) -> Option<String> {
        if self.back.is_empty() || self.is_out_of_order() {
            return None;
        }
        let most = self.back.iter().map(|step| step.back_ns).max().unwrap_or(0);
        let places: Vec<String> = self.back.iter().map(|step| step.request.to_string()).collect();
        let places = places.join(", ");
        let back = match self.steps {
            1 => {
                let after = match self.back[0].evidence {
                    RunEvidence::Clock => "",
                    RunEvidence::Comment => ", after a comment",
                    RunEvidence::Header => ", after another header",
                };
                format!("goes back by {} at request {places} of the file{after}", long(most))
            }
            n if n as usize <= STEPS_SHOWN => {
                format!(
                    "goes back {n} times, by up to {}, at requests {places} of the file",
                    long(most)
                )
            }
            n => format!("goes back {n} times, at first at requests {places} of the file"),
        };
        let moved = match moved {
            0 => "no request was moved because of this".into(),
            _ => format!(
                "{} {} sorted before earlier rows, by up to {}",
                counted(moved, "request"),
                verb(moved, "was", "were"),
                long(self.moved_ns)
            ),
        };
        let hint = match self.is_shuffled() {
            false => format!(
                "; if another recording begins there, or a clock was set, {} appends what follows \
                 instead",
                named("split_runs=true")
            ),
            true => String::new(),
        };
        Some(format!("the clock {back}: {moved}{hint}"))
    }
}

/// Formats a duration that may be years long.
pub(crate) fn long(ns: u64) -> String {
    let s = ns as f64 / 1e9;
    match s / DAY_S {
        days @ 3.0.. => format!("{days:.0} days"),
        _ => quantities::seconds(s),
    }
}
