//! Builds the headline: the answer in at most 25 words, with the action to take and the strongest
//! figure in its favor.

use forebay_ask::named;
use forebay_core::{Device, DeviceModel};
use forebay_trace::describe::printable;
use forebay_words::plural::verb;

use super::{
    Case, Disturbance, Provider, RecordedSpeed, Remedy, RemedyKind, SHARE_THAT_MATTERS,
    SPAN_LEAST_S, TAIL_THAT_MATTERS, TOO_FEW, UTILISATION_THAT_MATTERS, Verdict, capitalised,
    long_tails, named_scheduler, tells_latencies,
};
use crate::RunResult;
use crate::quantities::{bytes, counted, millis, percent, seconds};
use crate::statistics::Figures;

/// The share of the positioning time spent on switching between streams, below which streams are
/// not given as the reason.
const BETWEEN_THAT_MATTERS: f64 = 0.1;
/// How much longer than the recording a run must take for the load as a whole, and not only its
/// bursts, to be more than the device can do.
pub(super) const BURST_SHARE: f64 = 0.1;
/// The share of a disk's busy time that positioning must take to be given as the reason.
const MOVING_THAT_MATTERS: f64 = 0.1;
/// The ratio of speeds between the recorded device and the model, in either direction, at or above
/// which the answer begins with it.
pub(super) const TIMES_MUCH_FASTER: f64 = 10.0;
/// The share by which a tail may rise with flash that lowers other latencies.
const TAIL_MUCH_WORSE: f64 = 0.5;
/// The maximum number of words in a headline.
const WORDS_MAX: usize = 25;

impl Case<'_> {
    /// Returns the headline.
    pub(super) fn headline(&self) -> String {
        if let Some(behind) = self.behind {
            return self.overload(behind);
        }
        let named = self.on_named_flash();
        let all: Vec<String> = match self.speed() {
            None => named.unwrap_or_else(|| self.in_short()),
            // The answer to the question about the flash comes first.
            Some(speed) => match named {
                Some(answers) => {
                    let on = match speed.times() >= TIMES_MUCH_FASTER {
                        true => self.compared(speed),
                        false => format!("Simulated on {}", self.device.name),
                    };
                    answers.into_iter().flat_map(|one| [format!("{one} {on}."), one]).collect()
                }
                None => {
                    let openings = self.on_another_device(speed);
                    let said = |text: String| openings.clone().map(|one| format!("{one}{text}"));
                    self.in_short().into_iter().flat_map(said).collect()
                }
            },
        };
        let fits = |text: &&String| text.split_whitespace().count() <= WORDS_MAX;
        all.iter().find(fits).or(all.last()).cloned().unwrap_or_default()
    }

    /// Returns possible headlines, the most complete first.
    fn in_short(&self) -> Vec<String> {
        let (free, flash) = (self.free(), self.flash_in_short());
        if matches!(self.verdict, Verdict::TooShort | Verdict::NoTimes) {
            return vec![free];
        }
        let keep = format!("Keep {}.", self.baseline.policy);
        let both = flash.as_ref().map(|flash| format!("{free} {flash}."));
        // Flash that helps is more important than the reason why nothing else does.
        let keeps = free.starts_with("Keep ");
        let short = flash.as_ref().filter(|_| keeps).map(|flash| format!("{keep} {flash}."));
        let alone = flash.as_ref().filter(|_| keeps).map(|flash| format!("{flash}."));
        let apart = self.disturbance().filter(|_| flash.is_none() && !self.is_helped());
        let apart = apart.map(|one| self.apart(one)).into_iter().flatten();
        let unsure = self.uncertain.filter(|_| keeps).map(|uncertain| {
            let (baseline, policy) = (&self.baseline.policy, &uncertain.policy);
            format!("Keep {baseline}; whether the scheduler {policy} helps is uncertain.")
        });
        let all =
            [both, short, alone, Some(free), self.set_in_short(), unsure, keeps.then_some(keep)];
        apart.chain(all.into_iter().flatten()).collect()
    }

    /// Returns headlines that advise to separate two streams, the most complete first.
    fn apart(&self, pair: &Disturbance) -> [String; 3] {
        let said = pair.said();
        let busy = match self.is_saturated() {
            true => format!("{} is busy {}; ", self.device.name, self.busy()),
            false => String::new(),
        };
        let separate = match pair.is_write_back() || pair.are_volumes {
            true => "use separate disks",
            false => "separate them",
        };
        [format!("{busy}{said}; {separate}."), format!("{said}; {separate}."), format!("{said}.")]
    }

    /// Returns whether a remedy that costs nothing is recommended.
    fn is_helped(&self) -> bool {
        let is_free = |one: &Remedy| one.recommended && one.flash_bytes == 0;
        self.verdict == Verdict::Recommended || self.remedies.iter().any(is_free)
    }

    /// Returns how much a stream would gain without the one that disturbs it most, if that matters.
    fn disturbance(&self) -> Option<&Disturbance> {
        self.disturbances.first().filter(|one| one.matters)
    }

    /// Names the scheduler to set, its greatest gain, and the tails that get worse without their
    /// figures.
    fn set_in_short(&self) -> Option<String> {
        let is_set = self.verdict == Verdict::Recommended;
        let run = self.choice.run(&self.today.filter(|_| is_set)?.policy)?;
        let but = match self.worse_tails(run).next() {
            None => String::new(),
            Some(_) => format!(", but {}", self.worse_names(run)),
        };
        Some(format!("Set {}: {}{but}.", run.policy, self.change(run, Latencies::Tails)))
    }

    /// Returns how the recorded device compares with the model, if the answer must mention it
    /// because the device was assumed or differs very much.
    fn speed(&self) -> Option<RecordedSpeed> {
        let is_ranked = !matches!(self.verdict, Verdict::TooShort | Verdict::NoTimes);
        let speed = RecordedSpeed::of(&self.input.description, self.baseline);
        let counts = |speed: &RecordedSpeed| !self.is_checked || speed.times() >= TIMES_MUCH_FASTER;
        speed.filter(|_| is_ranked).filter(counts)
    }

    /// Returns openings of the headline, the more complete one first, which state that the answer
    /// is about a device other than the recorded one.
    fn on_another_device(&self, speed: RecordedSpeed) -> [String; 2] {
        let device = &self.device.name;
        if speed.is_unexplained_tail() {
            let said = speed.unexplained();
            return [format!("{said}; check the drive for errors. "), format!("{said}. ")];
        }
        if speed.times() < TIMES_MUCH_FASTER {
            let here = if speed.was_faster() { "slower" } else { "faster" };
            let on = format!("Simulated on {device}");
            return [
                format!("{on}, which is {here} than the recorded device. "),
                format!("{on}. "),
            ];
        }
        let said = self.compared(speed);
        let name = format!("{}; name your drive with {}. ", said, named("device"));
        let plain = format!("{said}. ");
        [if self.is_checked { plain.clone() } else { name }, plain]
    }

    /// Formats the comparison with the recorded device, as in "The recorded reads were 26 times as
    /// fast as on sata250".
    fn compared(&self, speed: RecordedSpeed) -> String {
        let than = match (speed.is_ratio(), speed.was_faster()) {
            (false, _) => String::new(),
            (true, true) => format!(" as on {}", self.device.name),
            (true, false) => format!(" than on {}", self.device.name),
        };
        capitalised(&format!("{}{than}", speed.in_short()))
    }

    /// Answers whether flash of the size that the user gave would help; the most complete answer
    /// comes first.
    fn on_named_flash(&self) -> Option<Vec<String>> {
        let size = bytes(self.flash_named? as f64);
        let cache = self.remedies.iter().find(|one| one.kind == RemedyKind::Caching)?;
        if matches!(self.verdict, Verdict::TooShort | Verdict::NoTimes) {
            return None;
        }
        match self.device.model {
            DeviceModel::Ssd(_) => {
                return Some(vec![format!("No: {} is flash already.", self.device.name)]);
            }
            DeviceModel::Throttled(_) => {
                return Some(vec![
                    "No: the performance is determined by the limits of the volume, \
                                  not by its disks."
                        .into(),
                ]);
            }
            _ => {}
        }
        let cold = self.sizing.filter(|sizing| sizing.is_cold() && !cache.recommended);
        let is_needless = cache.against.as_ref().is_some_and(|against| against.is_needless);
        let run = cache.run.as_deref();
        let gains = run.is_some_and(|run| self.gains_latency(run));
        if let Some(sizing) = cold.filter(|_| !gains || !is_needless) {
            let span = seconds(self.span_s);
            return Some(vec![format!("Not in this recording ({span}): {}.", sizing.growth())]);
        }
        let Some(run) = run else {
            let reason = cache.reason.trim_start_matches("Not tried: ");
            return Some(vec![format!("No: {}.", first_clause(reason))]);
        };
        let latencies = if cache.recommended { self.latencies() } else { Latencies::All };
        let with = format!("with {size} of flash {}", self.change(run, latencies));
        let but = self.but(run);
        Some(match &cache.against {
            None if self.gains_only_writes(run) => {
                vec![
                    format!("Yes, for writes: {with}; reads gain nothing."),
                    format!("Yes: {with}."),
                ]
            }
            None => vec![format!("Yes: {with}.")],
            Some(_) if self.is_much_worse(run) => {
                let rises = but.trim_start_matches(", but ");
                vec![
                    format!("No: with {size} of flash {rises}."),
                    format!("No: with {size} of flash {}.", self.worse_names(run)),
                ]
            }
            Some(_) if !gains => {
                let no = format!("No: with {size} of flash no latency falls by much");
                vec![format!("{no}{but}."), format!("{no}.")]
            }
            Some(against) if against.is_needless => {
                let needless = format!("Not needed: {}.", against.in_short);
                let cut = self.most_changed(run, Latencies::All).map(|(what, was, is)| {
                    let [was, is] = [was, is].map(millis);
                    format!("{needless} ({size} of flash would cut {what} from {was} to {is}.)")
                });
                cut.into_iter().chain([needless]).collect()
            }
            Some(against) if but.is_empty() => {
                vec![format!("Perhaps: {with}, but {}.", against.in_short)]
            }
            Some(_) => vec![
                format!("Partly: {with}{but}."),
                format!("Partly: {with}, but {}.", self.worse_names(run)),
            ],
        })
    }

    /// Returns whether a tail is longer by half in `run`, and no tail is shorter.
    fn is_much_worse(&self, run: &RunResult) -> bool {
        let tails = self.tails(run);
        let falls = |(_, was, is): &(&str, f64, f64)| *is < was * (1.0 - SHARE_THAT_MATTERS);
        let rises = |(_, was, is): &(&str, f64, f64)| *is > was * (1.0 + TAIL_MUCH_WORSE);
        tails.iter().any(rises) && !tails.iter().any(falls)
    }

    /// Returns whether there are reads, and only latencies of writes are lower in `run` than in the
    /// baseline by a share that matters.
    fn gains_only_writes(&self, run: &RunResult) -> bool {
        let all: Vec<_> = self.tails(run).into_iter().chain(self.medians(run)).collect();
        let mut reads = all.iter().filter(|(what, ..)| what.contains("read")).peekable();
        let gains = |(_, was, is): &(&str, f64, f64)| *is < was * (1.0 - TAIL_THAT_MATTERS);
        reads.peek().is_some() && !reads.any(gains) && all.iter().any(gains)
    }

    /// Returns whether a latency in `run` is lower than the baseline's by a share that matters.
    fn gains_latency(&self, run: &RunResult) -> bool {
        let all = self.tails(run).into_iter().chain(self.medians(run));
        all.into_iter().any(|(_, was, is)| is < was * (1.0 - TAIL_THAT_MATTERS))
    }

    /// States how far the device falls behind, and which remedies would keep up.
    fn overload(&self, behind: &RunResult) -> String {
        if let Some(throttling) = self.throttling {
            return format!(
                "This volume is too small: {}. `forebay plan volume` finds one.",
                throttling.in_short()
            );
        }
        let (drive, needs_s) = (self.drive(), self.baseline.figures.makespan_s);
        let without = self.disturbance().filter(|one| one.p99_ms.is_none());
        let without =
            without.map(|one| format!("without {} it would keep up", printable(&one.beside)));
        let enough = self.enough.and_then(|enough| enough.said()).or(without);
        let would = enough.unwrap_or_else(|| "nothing that was tried keeps up".to_string());
        if needs_s > self.span_s * (1.0 + BURST_SHARE) {
            return format!(
                "This {drive} cannot keep up: it needs {} for requests that arrive in {}; {would}.",
                seconds(needs_s),
                seconds(self.span_s),
            );
        }
        format!(
            "In bursts this {drive} falls {} behind; {would}.",
            millis(behind.figures.longest_lag_ms),
        )
    }

    /// Returns the gain from flash in a few words, if flash is recommended.
    fn flash_in_short(&self) -> Option<String> {
        let remedy = self.remedies.iter().find(|one| one.recommended && one.flash_bytes > 0)?;
        let change = self.change(remedy.run.as_deref()?, self.latencies());
        Some(format!("With {} of flash {change}", bytes(remedy.flash_bytes as f64)))
    }

    /// Returns the latencies for which flash is recommended: only the tails if the disk is mostly
    /// idle.
    fn latencies(&self) -> Latencies {
        if self.need.is_only_tails() { Latencies::Tails } else { Latencies::All }
    }

    /// Returns the part of the headline about remedies that cost nothing.
    fn free(&self) -> String {
        let recommended = |kind: RemedyKind| {
            self.remedies.iter().find(|remedy| remedy.recommended && remedy.kind == kind)
        };
        if let Some(remedy) = recommended(RemedyKind::QueueSizes) {
            let run = remedy.run.as_deref().unwrap_or(self.baseline);
            let change = self.change(run, Latencies::Tails);
            return format!("Set {} and {}: {change}.", remedy.scheduler(), remedy.queues);
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

    /// Names the scheduler to set in Linux, and the gain from Forebay's own scheduler if that is
    /// better.
    fn scheduler_in_short(&self) -> String {
        let (chosen, current) = (self.chosen, &self.baseline.policy);
        let is_ours = Provider::of(&chosen.policy) == Provider::Forebay;
        let today = self.today.and_then(|today| self.choice.run(&today.policy));
        match today {
            Some(run) if !is_ours => {
                let change = self.change(run, Latencies::Tails);
                format!("Set {}: {change}{}.", run.policy, self.but(run))
            }
            Some(run) => format!(
                "Set {}: {}. `forebay serve` with {} would be better still.",
                run.policy,
                self.change(run, Latencies::Tails),
                chosen.policy
            ),
            None => format!(
                "Linux has nothing better than {current}. Served by Forebay, with {} {}.",
                chosen.policy,
                self.change(chosen, Latencies::Tails)
            ),
        }
    }

    /// Explains why the present scheduler should stay.
    fn keep(&self) -> String {
        let keep = format!("Keep {}", self.baseline.policy);
        let is_short = matches!(self.verdict, Verdict::TooShort | Verdict::NoTimes);
        if let Some(throttling) = self.throttling.filter(|_| !is_short) {
            return format!("{keep} on this volume: {}.", throttling.in_short());
        }
        match self.verdict {
            Verdict::NothingToGain | Verdict::BaselineIsBest if self.is_saturated() => format!(
                "{} is nearly saturated, busy {}; no scheduler is certain to help, and a heavier \
                 load requires a further {}.",
                self.device.name,
                self.busy(),
                self.drive()
            ),
            Verdict::LoadTooLow => format!(
                "{keep}: the {} is busy {}, and no alternative is certain to help.",
                self.drive(),
                self.busy()
            ),
            Verdict::NothingToGain if self.tails_differ() => {
                format!("{keep}: no other scheduler is certain to help.")
            }
            Verdict::NothingToGain if self.spread() < 0.0005 => {
                format!("{keep}: Linux's schedulers perform the same here.")
            }
            Verdict::NothingToGain => {
                format!("{keep}: schedulers differ by at most {}.", percent(self.spread()))
            }
            Verdict::Depends | Verdict::DependsOnDrive => {
                let said = self.uncertain.and_then(|one| Some((&one.policy, one.said()?)));
                match said {
                    Some((policy, said)) => {
                        format!("{keep}: with {}, {said}.", named_scheduler(policy))
                    }
                    None => format!("{keep}: no other scheduler is certain to help."),
                }
            }
            Verdict::TooShort | Verdict::NoTimes => {
                let requests = self.baseline.figures.requests;
                match requests >= TOO_FEW {
                    true => format!(
                        "The trace is too short for advice: {}; record at least {SPAN_LEAST_S:.0} s.",
                        seconds(self.span_s)
                    ),
                    false => format!(
                        "The trace is too short for advice: {}; at least {TOO_FEW} are needed.",
                        counted(requests, "request")
                    ),
                }
            }
            Verdict::BaselineIsBest | Verdict::Recommended => {
                format!("{keep}: no other scheduler is certain to help.")
            }
        }
    }

    /// Explains the answer in one sentence, and states how much streams disturb each other, unless
    /// `headline` does.
    pub(super) fn why(&self, headline: &str) -> String {
        let matters = self.disturbances.iter().filter(|one| one.matters);
        let said = matters.map(Disturbance::said).filter(|said| !headline.contains(said));
        std::iter::once(self.cause()).chain(said).collect::<Vec<_>>().join("; ")
    }

    /// Explains the answer by the streams that compete for the heads, or by the load on the device.
    fn cause(&self) -> String {
        let contention = &self.baseline.contention;
        let moving_s = contention.between_streams_s + contention.within_streams_s;
        let figures = &self.baseline.figures;
        let between = contention.between_streams_s / moving_s.max(1e-9);
        let moves = moving_s >= MOVING_THAT_MATTERS * figures.busy_s;
        let tells = self.has_streams() && between >= BETWEEN_THAT_MATTERS && moves;
        let seldom_meet =
            self.verdict == Verdict::LoadTooLow && self.share_busy() < UTILISATION_THAT_MATTERS;
        match contention.fights.first().filter(|_| tells) {
            _ if self.throttling.is_some() => {
                "a volume delays requests by its limits, which no order of requests changes"
                    .to_string()
            }
            _ if seldom_meet => {
                let how = match long_tails(self.baseline) == [false; 2] {
                    true => "requests rarely overlap",
                    false => "requests overlap only in bursts",
                };
                format!("{how}: the {} is busy {}", self.drive(), self.busy())
            }
            Some(pair) => {
                let (all, of_pair) = (percent(between), percent(pair.cost_s / moving_s));
                let names = [&pair.stream_a, &pair.stream_b].map(|name| printable(name));
                let names = names.join(" and ");
                let goes = format!("{all} of the positioning time goes to switching between");
                let are = if self.input.has_streams_of_volumes() { "volumes" } else { "streams" };
                match all == of_pair {
                    true => format!("{goes} {names}"),
                    false => format!("{goes} {are}; {names} alone account for {of_pair}"),
                }
            }
            None if self.device.model.cylinders() > 0 => format!(
                "the {} is busy {}, {} of that positioning (seek and rotation)",
                self.drive(),
                self.busy(),
                percent(figures.moving_share())
            ),
            None => {
                format!("the {} is busy {}, and has no heads to move", self.drive(), self.busy())
            }
        }
    }

    /// Names the tails that get worse, if any do, as in ", but read p99 rises from 60 ms to 80 ms".
    fn but(&self, run: &RunResult) -> String {
        let rises =
            |(what, was, is)| format!("{what} rises from {} to {}", millis(was), millis(is));
        let all: Vec<String> = self.worse_tails(run).map(rises).collect();
        if all.is_empty() { String::new() } else { format!(", but {}", all.join(" and ")) }
    }

    /// Names the tails that get worse without their figures, as in "read p99 and write p99 rise".
    fn worse_names(&self, run: &RunResult) -> String {
        let worse: Vec<&str> = self.worse_tails(run).map(|(what, ..)| what).collect();
        format!("{} {}", worse.join(" and "), verb(worse.len() as u64, "rises", "rise"))
    }

    /// Returns the tail latencies that are higher in `run` by a share that matters.
    fn worse_tails(&self, run: &RunResult) -> impl Iterator<Item = (&'static str, f64, f64)> {
        let tails = self.tails(run).into_iter();
        tails.filter(|(_, was, is)| *is > was * (1.0 + SHARE_THAT_MATTERS))
    }

    /// Returns the tail latencies that count, as (name, the baseline's, that of `run`).
    fn tails(&self, run: &RunResult) -> Vec<(&'static str, f64, f64)> {
        let read = self.pair("read p99", run, |of| (of.reads, of.read_p99_ms));
        let write = self.pair("write p99", run, |of| (of.writes, of.write_p99_ms));
        read.into_iter().chain(write).collect()
    }

    /// Returns whether an available scheduler has other tail latencies than the baseline.
    fn tails_differ(&self) -> bool {
        let differs = |(_, was, is): &(&str, f64, f64)| (is / was - 1.0).abs() > TAIL_THAT_MATTERS;
        let available = self.results.iter().filter(|run| Provider::of(&run.policy).is_obtainable());
        available.into_iter().any(|run| self.tails(run).iter().any(differs))
    }

    /// Returns the median latencies that count, as (name, the baseline's, that of `run`).
    fn medians(&self, run: &RunResult) -> Vec<(&'static str, f64, f64)> {
        let read = self.pair("the median read", run, |of| (of.reads, of.read_p50_ms));
        let write = self.pair("the median write", run, |of| (of.writes, of.write_p50_ms));
        read.into_iter().chain(write).collect()
    }

    /// Returns a latency in the baseline and in `run`, if there are enough requests. `of` returns a
    /// latency and the number of requests that it is based on.
    fn pair(
        &self,
        what: &'static str,
        run: &RunResult,
        of: fn(&Figures) -> (u64, Option<f64>),
    ) -> Option<(&'static str, f64, f64)> {
        let (requests, was) = of(&self.baseline.figures);
        let counts = requests >= TOO_FEW && tells_latencies(self.baseline);
        was.zip(of(&run.figures).1).filter(|_| counts).map(|(was, is)| (what, was, is))
    }

    /// Formats the change of the figure that improves most over the baseline, as in "read p99 falls
    /// from 96 ms to 58 ms".
    fn change(&self, run: &RunResult, latencies: Latencies) -> String {
        // A latency matters more than the disk's busy time, because somebody waits for a latency.
        match self.most_changed(run, latencies) {
            Some((what, was, is)) => format!("{what} falls from {} to {}", millis(was), millis(is)),
            None => {
                let (was, is) = (seconds(self.baseline.total_s()), seconds(run.total_s()));
                format!("{} falls from {was} to {is}", self.total_words())
            }
        }
    }

    /// Returns the latency that falls by the largest share, as (name, the baseline's, that of
    /// `run`).
    fn most_changed(
        &self,
        run: &RunResult,
        latencies: Latencies,
    ) -> Option<(&'static str, f64, f64)> {
        let mut all = self.tails(run);
        if latencies == Latencies::All {
            all.extend(self.medians(run));
        }
        let share = |(_, was, is): &(&str, f64, f64)| is / was.max(1e-9);
        let most = all.into_iter().min_by(|a, b| share(a).total_cmp(&share(b)));
        most.filter(|most| share(most) < 1.0 - SHARE_THAT_MATTERS)
    }
}

/// Returns the first clause of `reason`, without its figures in parentheses. A decimal point
/// does not end a clause.
fn first_clause(reason: &str) -> &str {
    let ends = [" (", "; ", ". "].map(|end| reason.find(end));
    let end = ends.into_iter().flatten().min().unwrap_or(reason.len());
    reason[..end].trim_end_matches('.')
}

/// The latencies that a sentence may mention.
#[derive(Clone, Copy, PartialEq)]
enum Latencies {
    /// Only the 99th percentiles, which decide between schedulers.
    Tails,
    /// The 99th percentiles and the medians.
    All,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: a sentence ended at a decimal point.
    #[test]
    fn a_decimal_point_ends_no_clause() {
        for (reason, clause) in [
            (
                "no cache finds more than 0.46 % of the blocks (9.23 GiB in all).",
                "no cache finds more than 0.46 % of the blocks",
            ),
            ("from 1.5 % to 10 %; record longer", "from 1.5 % to 10 %"),
            ("It takes 1.5 s. More follows.", "It takes 1.5 s"),
            ("Nothing.", "Nothing"),
        ] {
            assert_eq!(first_clause(reason), clause);
        }
    }
}
