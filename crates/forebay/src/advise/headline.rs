//! The answer in at most 25 words: what to do, with the figure that speaks for it most.

use forebay_core::Device;
use forebay_trace::describe::printable;

use super::findings::Case;
use super::judge::{SHARE_THAT_MATTERS, TOO_FEW};
use super::{From, RemedyKind, Verdict};
use crate::quantities::{bytes, counted, millis, percent, seconds};
use crate::simulate::RunResult;

/// A total time in seconds, and the 99th percentiles of reads and of writes in milliseconds.
type Times = (f64, [Option<f64>; 2]);

/// The times of a run.
fn times(run: &RunResult) -> Times {
    (run.total_s(), [run.figures.read_p99_ms, run.figures.write_p99_ms])
}

impl Case<'_> {
    /// The answer.
    pub(super) fn headline(&self) -> String {
        let free = self.free();
        let Some(behind) = self.behind_in_short() else {
            return match self.flash_in_short() {
                Some(flash) => format!("{flash}. {free}"),
                None => free,
            };
        };
        match self.enough.and_then(|enough| enough.said()) {
            Some(would) => format!("{behind}; {would}."),
            None => format!("{behind}. {free}"),
        }
    }

    /// That the device cannot keep up, where it cannot.
    fn behind_in_short(&self) -> Option<String> {
        self.behind?;
        Some(format!(
            "This {} cannot keep up: it needs {} for what was recorded in {}",
            self.drive(),
            seconds(self.baseline.figures.makespan_s),
            seconds(self.span_s)
        ))
    }

    /// What flash would bring, where it is recommended.
    fn flash_in_short(&self) -> Option<String> {
        let remedy = self.remedies.iter().find(|one| one.recommended && one.flash_bytes > 0)?;
        let now = (remedy.total_s?, [remedy.read_p99_ms, remedy.write_p99_ms]);
        let change = self.change(now);
        Some(format!("With {} of flash {change}", bytes(remedy.flash_bytes as f64)))
    }

    /// What costs no money.
    fn free(&self) -> String {
        let recommended = |kind: RemedyKind| {
            self.remedies.iter().find(|remedy| remedy.recommended && remedy.kind == kind)
        };
        if let Some(remedy) = recommended(RemedyKind::QueueSizes) {
            let now = (remedy.total_s.unwrap_or(0.0), [remedy.read_p99_ms, remedy.write_p99_ms]);
            return format!(
                "Set {} and {}: {}.",
                remedy.scheduler(),
                remedy.queues,
                self.change(now)
            );
        }
        if self.verdict == Verdict::Recommended {
            return self.scheduler_in_short();
        }
        if let Some(remedy) = recommended(RemedyKind::Defragmentation) {
            return format!(
                "Defragment: moving {} once saves {} of the time.",
                bytes(remedy.moved_bytes as f64),
                percent(remedy.gain_over_free_share.unwrap_or(0.0))
            );
        }
        self.keep()
    }

    /// The scheduler to set today, and what Forebay's own would bring.
    fn scheduler_in_short(&self) -> String {
        let (chosen, current) = (self.chosen, &self.baseline.policy);
        let is_ours = From::of(&chosen.policy) == From::Forebay;
        let today = self.today.and_then(|today| self.choice.run(&today.policy));
        match today {
            Some(run) if !is_ours => format!("Set {}: {}.", run.policy, self.change(times(run))),
            Some(run) => format!(
                "Set {}: {}. Served by Forebay, {} would do better.",
                run.policy,
                self.change(times(run)),
                chosen.policy
            ),
            None => format!(
                "Linux has nothing better than {current}. Served by Forebay, with {} {}.",
                chosen.policy,
                self.change(times(chosen))
            ),
        }
    }

    /// Why the scheduler stays as it is.
    fn keep(&self) -> String {
        let keep = format!("Keep {}", self.baseline.policy);
        match self.verdict {
            Verdict::LoadTooLow => format!(
                "{keep}: the {} is busy {} of the time, and nothing is sure to help.",
                self.drive(),
                percent(self.share_busy())
            ),
            Verdict::NothingToGain => {
                format!("{keep}: schedulers differ by at most {}.", percent(self.spread()))
            }
            Verdict::Depends => format!(
                "{keep}: whether another scheduler helps depends on whether requests wait for one another."
            ),
            Verdict::DependsOnDrive => format!(
                "{keep}: whether another scheduler helps depends on figures of the drive that nobody publishes."
            ),
            Verdict::TooShort | Verdict::NoTimes => {
                let requests = self.baseline.figures.requests;
                format!(
                    "Too short to advise: {}, of at least {TOO_FEW}.",
                    counted(requests, "request")
                )
            }
            Verdict::BaselineIsBest | Verdict::Recommended => {
                format!("{keep}: no other scheduler is sure to help.")
            }
        }
    }

    /// Why, in a sentence: who fights whom for the heads, or what the heads do.
    pub(super) fn why(&self) -> String {
        let contention = &self.baseline.contention;
        let moving_s = contention.between_streams_s + contention.within_streams_s;
        let figures = &self.baseline.figures;
        let pair =
            contention.fights.first().filter(|_| self.input.names_submitters && moving_s > 0.0);
        match pair {
            Some(pair) => format!(
                "{} of the heads' travel is between streams, most of it between {} and {}",
                percent(contention.between_streams_s / moving_s),
                printable(&pair.stream_a),
                printable(&pair.stream_b)
            ),
            None if self.device.model.cylinders() > 0 => format!(
                "the {} is busy {} of the time, {} of that moving heads",
                self.drive(),
                percent(self.share_busy()),
                percent(figures.moving_share())
            ),
            None => format!(
                "the {} is busy {} of the time, and has no heads to move",
                self.drive(),
                percent(self.share_busy())
            ),
        }
    }

    /// How the time that improves most changes against the baseline: "read p99 falls from 96 ms to 58 ms".
    fn change(&self, (total_s, tails_ms): Times) -> String {
        let before = times(self.baseline);
        let tails = self.told_tails(tails_ms).into_iter().zip(self.told_tails(before.1));
        let tails = tails.map(|((kind, is), (_, was))| {
            (format!("{} p99", kind.trim_end_matches('s')), is / was, millis(was), millis(is))
        });
        let total = (
            self.total_words().to_string(),
            total_s / before.0,
            seconds(before.0),
            seconds(total_s),
        );
        let tail = tails.min_by(|a, b| a.1.total_cmp(&b.1));
        // A tail says more than the time that a disk works, which is nobody's wait.
        let (what, _, was, is) = match tail {
            Some(tail) if tail.1 < 1.0 - SHARE_THAT_MATTERS => tail,
            _ => total,
        };
        format!("{what} falls from {was} to {is}")
    }
}
