//! Puts the findings of `advise` into words. Every finding is derived from the runs.

use forebay_ask::named;
use forebay_core::Device;
use forebay_words::plural::{listed, verb};

mod load;

use super::sensitivity::{self, Sensitivity, Unsure};
use super::{
    BURST_SHARE, Choice, DependsOn, Disturbance, EQUAL_SLOTS, Enough, Need, OtherReplay,
    PassedOver, Plain, Prefer, Provider, Ranked, Remedy, RemedyKind, SHARE_THAT_MATTERS,
    SPAN_LEAST_S, Sizing, TOO_FEW, Tail, Today, Uncertain, Verdict, keeps_up, served, share_busy,
    tells_latencies,
};
use crate::quantities::{bound, bytes, counted, millis, percent, seconds};
use crate::simulate::{Replay, RunResult, SERVE_ROUND_TRIP, Setup};
use crate::throttling::Throttling;
use crate::{Input, OpenDevice};

/// At or above this utilization, a device counts as nearly saturated, although it keeps up.
pub(super) const SATURATED_SHARE: f64 = 0.85;
/// The length of a trace, in seconds, below which its load may be that of a single burst.
pub(super) const SHORT_S: f64 = 30.0;

/// The results that the findings are derived from.
pub(super) struct Case<'a> {
    pub(super) remedies: &'a [Remedy],
    pub(super) flash: &'a OpenDevice,
    pub(super) input: &'a Input,
    pub(super) device: &'a OpenDevice,
    pub(super) setup: Setup,
    pub(super) results: &'a [RunResult],
    pub(super) other: Option<&'a OtherReplay>,
    /// The baseline, the run against which gains are measured.
    pub(super) baseline: &'a RunResult,
    pub(super) ranking: &'a [Ranked],
    pub(super) verdict: Verdict,
    /// The run of the recommended scheduler; the baseline's run if none is recommended.
    pub(super) chosen: &'a RunResult,
    pub(super) today: Option<&'a Today>,
    pub(super) choice: &'a Choice<'a>,
    pub(super) plain: Option<&'a Plain>,
    pub(super) sensitivity: &'a [Sensitivity],
    pub(super) unsure: &'a [Unsure],
    /// The scheduler that may be better, but with uncertainty.
    pub(super) uncertain: Option<&'a Uncertain>,
    /// The time from the first arrival to the last, in seconds.
    pub(super) span_s: f64,
    /// The baseline's run with the recorded arrivals, if the device cannot keep up with them.
    pub(super) behind: Option<&'a RunResult>,
    /// The number of disks, or the size of flash, that would keep up.
    pub(super) enough: Option<&'a Enough>,
    /// How the limits of a cloud volume delay the requests, if the device is such a volume.
    pub(super) throttling: Option<&'a Throttling>,
    /// Whether the model was compared with the recording.
    pub(super) is_checked: bool,
    /// What the trace needs on the device.
    pub(super) need: &'a Need,
    /// How much the two streams that disturb each other most would gain without each other.
    pub(super) disturbances: &'a [Disturbance],
    /// The hits of caches; `None` if none was simulated.
    pub(super) sizing: Option<&'a Sizing>,
    /// The size of the flash that the user asked about.
    pub(super) flash_named: Option<u64>,
}

impl Case<'_> {
    pub(super) fn baseline(&self) -> &RunResult {
        self.baseline
    }

    pub(super) fn total_words(&self) -> &'static str {
        match self.setup.replay {
            Replay::Open if self.device.model.cylinders() == 0 => "device busy time",
            Replay::Open => "disk busy time",
            Replay::Closed | Replay::Dependent => "the time until all requests are done",
        }
    }

    /// Returns the device's utilization, as a share of the time.
    pub(super) fn share_busy(&self) -> f64 {
        share_busy(self.baseline(), self.span_s)
    }

    /// Returns which tail latency to report: that of reads or of writes.
    fn tail(&self) -> Tail {
        Tail::of(self.baseline)
    }

    /// Formats the complete recommendation: first what costs nothing, then separately what needs
    /// flash.
    fn in_full(&self) -> String {
        format!("{}{}", self.behind_in_full(), self.remedied())
    }

    /// Explains that the device cannot keep up; returns an empty string if it can.
    fn behind_in_full(&self) -> String {
        let Some(run) = self.behind else { return String::new() };
        if run.figures.makespan_s <= self.span_s * (1.0 + BURST_SHARE) {
            return format!(
                "In bursts this {} falls up to {} behind the recorded arrivals {}, but catches up. ",
                self.drive(),
                millis(run.figures.longest_lag_ms),
                under(&run.policy)
            );
        }
        format!(
            "This {} cannot keep up with the recording: {} it falls up to {} behind the recorded \
             arrivals and finishes after {} instead of {}. ",
            self.drive(),
            under(&run.policy),
            millis(run.figures.longest_lag_ms),
            seconds(run.figures.makespan_s),
            seconds(self.span_s),
        )
    }

    /// Formats the recommendation of the free remedy, or of the scheduler.
    fn remedied(&self) -> String {
        let mut free = self.scheduler();
        let recommended = || self.remedies.iter().filter(|remedy| remedy.recommended);
        if let Some(remedy) = recommended().find(|one| one.kind == RemedyKind::QueueSizes) {
            free = self.queues(remedy);
        }
        for remedy in recommended().filter(|one| one.kind == RemedyKind::Defragmentation) {
            free += &format!(
                " Defragment: {} moved once save {} of the time under {}, on requests that were not \
                 used to choose the blocks.",
                bytes(remedy.moved_bytes as f64),
                percent(remedy.gain_over_free_share.unwrap_or(0.0)),
                remedy.policy,
            );
        }
        let Some(remedy) = recommended().find(|remedy| remedy.flash_bytes > 0) else { return free };
        let first = free.chars().next().map(|first| first.to_ascii_lowercase());
        let free: String = first.into_iter().chain(free.chars().skip(1)).collect();
        let tails = self.told_tails([remedy.read_p99_ms, remedy.write_p99_ms]).into_iter();
        let tails = tails.map(|(kind, ms)| format!("{kind} within {}", millis(ms)));
        let tails = match tails.collect::<Vec<_>>().join(" and of ") {
            tails if tails.is_empty() => tails,
            tails => format!(", and answers 99 % of {tails}"),
        };
        let (baseline, chosen) = (self.baseline(), self.chosen);
        let over_free = match chosen.policy == baseline.policy {
            true => String::new(),
            false => format!(
                "{} than {}, ",
                difference(remedy.gain_over_free_share.unwrap_or(0.0)),
                chosen.policy
            ),
        };
        format!(
            "Free: {free} With {} of flash: {} brings {} to {} ({over_free}{} than {}){tails}.",
            bytes(remedy.flash_bytes as f64),
            match remedy.kind {
                RemedyKind::Caching => "a write-back cache",
                _ => "offloading by BID-Hybrid",
            },
            self.total_words(),
            seconds(remedy.total_s.unwrap_or(0.0)),
            difference(remedy.gain_share.unwrap_or(0.0)),
            baseline.policy,
        )
    }

    /// Formats the recommendation of a scheduler.
    fn scheduler(&self) -> String {
        let baseline = self.baseline();
        match self.verdict {
            Verdict::Recommended => self.today_and_best(),
            Verdict::BaselineIsBest => {
                format!("{} {}", self.stay(), self.worst()).trim_end().to_string()
            }
            Verdict::LoadTooLow => self.mostly_idle(),
            Verdict::Depends => self.disputed(),
            Verdict::DependsOnDrive => self.unsure(),
            Verdict::TooShort | Verdict::NoTimes => {
                let (requests, span_s) = (baseline.figures.requests, self.span_s);
                let least = match requests >= TOO_FEW {
                    true => bound(SPAN_LEAST_S * 1e3),
                    false => TOO_FEW.to_string(),
                };
                format!(
                    "The trace is too short for advice: {} in {} {} nothing about schedulers or other remedies; at \
                     least {least} are needed.",
                    counted(requests, "request"),
                    seconds(span_s),
                    verb(requests, "says", "say"),
                )
            }
            Verdict::NothingToGain => format!(
                "Nothing to gain from scheduling: {} differs by at most {} among all available schedulers. {}",
                self.total_words(),
                percent(self.spread()),
                self.stay(),
            ),
        }
    }

    /// Formats what would be recommended if the assumed parameters of the drive were certain.
    fn unsure(&self) -> String {
        let told = self.unsure.first().map(|Unsure { policy, drives, how }| {
            let assumed = self.results.iter().find(|run| run.policy == *policy);
            let on =
                |one: &Sensitivity| format!("{} with {}", one.saved(self.total_words()), one.with);
            let on: Vec<String> = drives.iter().map(on).collect();
            let assumed = assumed.map_or(String::new(), |run| self.falls(run));
            let how = how.map_or(String::new(), |how| format!("{how}, "));
            format!("{policy}: as assumed, {assumed}; {how}it saves {}.", on.join("; "))
        });
        format!(
            "{} {} {} To be sure, measure the drive: docs/measure-a-drive.md.",
            self.on_what(),
            told.unwrap_or_default(),
            self.stay()
        )
    }

    /// States which figures decide whether a scheduler is better.
    pub(super) fn on_what(&self) -> &'static str {
        match self.uncertain.and_then(|uncertain| uncertain.depends_on) {
            Some(DependsOn::Replay) => "It depends on whether requests wait for one another.",
            Some(DependsOn::Drive) => {
                "It depends on how the drive chooses among its commands, which its data sheet \
                 does not specify."
            }
            None => "No gain is certain.",
        }
    }

    /// Returns the tail latency of a scheduler, for reads or writes as [`Case::tail`] selects.
    fn tail_ms(&self, ranked: &Ranked) -> f64 {
        let ms = if self.tail() == Tail::Reads { ranked.read_p99_ms } else { ranked.write_p99_ms };
        ms.unwrap_or(f64::MAX)
    }

    /// Returns the noun for the device, such as "disk".
    pub(super) fn drive(&self) -> &'static str {
        match self.throttling {
            Some(_) => "volume",
            None if self.device.model.cylinders() > 0 => "disk",
            None => "device",
        }
    }

    /// Formats the device's utilization, as in "17 % of the time" or, for a short trace, "90 % of
    /// 1.2 s".
    pub(super) fn busy(&self) -> String {
        let share = match self.share_busy() {
            share if share < 0.001 => "less than 0.1 %".to_string(),
            share => percent(share),
        };
        match self.is_short() {
            true => format!("{share} of {}", seconds(self.span_s)),
            false => format!("{share} of the time"),
        }
    }

    /// Returns whether the trace is so short that it may be a single burst.
    fn is_short(&self) -> bool {
        self.span_s < SHORT_S
    }

    /// Returns whether the device keeps up, but is busy nearly all the time.
    pub(super) fn is_saturated(&self) -> bool {
        self.behind.is_none() && self.share_busy() >= SATURATED_SHARE && !self.is_short()
    }

    /// Formats the recommendation to keep the present scheduler, because none is better.
    pub(super) fn stay(&self) -> String {
        match self.today {
            None => format!("Keep {}.", self.baseline.policy),
            Some(today) => format!("Set {}: no alternative is measurably better.", today.policy),
        }
    }

    /// Returns the available schedulers, in the order of the ranking.
    fn to_be_had(&self) -> impl Iterator<Item = &Ranked> {
        self.ranking.iter().filter(|ranked| ranked.from.is_obtainable())
    }

    /// Formats how much longer the worst scheduler takes; empty if none takes longer, or if no
    /// request waits for the disk.
    fn worst(&self) -> String {
        if keeps_up(self.baseline()) {
            return String::new();
        }
        let Some(worst) = self.to_be_had().last() else { return String::new() };
        // Say nothing if the loss may be chance.
        if worst.gain_high_share.is_none_or(|gain| gain >= 0.0) {
            return String::new();
        }
        match -worst.gain_share.unwrap_or(0.0) {
            loss if loss < 0.005 => String::new(),
            loss => {
                let (policy, loss) = (&worst.policy, percent(loss));
                match self.setup.replay {
                    Replay::Closed | Replay::Dependent => {
                        format!("The worst scheduler, {policy}, takes {loss} longer.")
                    }
                    _ => format!(
                        "The worst scheduler, {policy}, costs {loss} more {}.",
                        self.total_words()
                    ),
                }
            }
        }
    }

    /// Formats the gain from changing the queue sizes in Linux, and the scheduler that is best
    /// overall.
    fn queues(&self, remedy: &Remedy) -> String {
        let set = format!(
            "Set {} and {}: {}.",
            remedy.scheduler(),
            remedy.queues,
            self.falls_to(remedy.total_s.unwrap_or(0.0), [remedy.read_p99_ms, remedy.write_p99_ms])
        );
        let chosen = self.chosen;
        if Provider::of(&chosen.policy) != Provider::Forebay
            || chosen.policy == self.baseline.policy
        {
            return set;
        }
        format!(
            "{set} Forebay's {} scheduler brings it to {}.",
            chosen.policy,
            self.comes_to(chosen)
        )
    }

    /// Formats the settings for Linux, followed by those that only Forebay offers.
    fn today_and_best(&self) -> String {
        let chosen = self.chosen;
        let run = |policy: &str| self.results.iter().find(|run| run.policy == policy);
        let today = self.today.and_then(|today| run(&today.policy));
        let from = Provider::of(&chosen.policy);
        let named = match from {
            Provider::Linux => chosen.policy.clone(),
            Provider::Forebay => format!("Forebay's {} scheduler", chosen.policy),
            _ => format!("{} ({})", chosen.policy, from.name()),
        };
        match today {
            Some(today) if today.policy == chosen.policy => {
                format!("Set {}: {}.", today.policy, self.falls(today))
            }
            Some(today) if today.policy == self.baseline.policy => format!(
                "No Linux scheduler is better here than {}; with {named}, {}.",
                today.policy,
                self.falls(chosen)
            ),
            Some(today) => format!(
                "Set {} today: {}. {named} brings it to {}.",
                today.policy,
                self.falls(today),
                self.comes_to(chosen)
            ),
            None => format!("With {named} {}.", self.falls(chosen)),
        }
    }

    /// Formats how a run's figures change from the baseline.
    pub(super) fn falls(&self, run: &RunResult) -> String {
        self.falls_to(run.total_s(), [run.figures.read_p99_ms, run.figures.write_p99_ms])
    }

    /// Formats how the total time and the 99th percentiles of reads and of writes change from the
    /// baseline.
    fn falls_to(&self, now: f64, tails_ms: [Option<f64>; 2]) -> String {
        let figures = &self.baseline.figures;
        let total = self.total_change(self.total_words(), self.baseline().total_s(), now);
        self.with_tails(total, tails_ms, [figures.read_p99_ms, figures.write_p99_ms])
    }

    pub(super) fn total_change(&self, what: &str, before: f64, now: f64) -> String {
        match 1.0 - now / before.max(1e-9) {
            gain if gain.abs() < 0.005 => format!("{what} stays the same ({})", seconds(now)),
            gain => format!(
                "{what} {} from {} to {} ({})",
                if gain > 0.0 { "falls" } else { "rises" },
                seconds(before),
                seconds(now),
                difference(gain)
            ),
        }
    }

    /// Appends the changes of the 99th percentiles of reads and of writes to the description of a
    /// change.
    pub(super) fn with_tails(
        &self,
        total: String,
        now: [Option<f64>; 2],
        before: [Option<f64>; 2],
    ) -> String {
        let tails = self.tail_changes(now, before);
        if tails.is_empty() { total } else { format!("{total}; 99 % of {}", tails.join(", of ")) }
    }

    /// Formats a run's total time and tail latencies.
    fn comes_to(&self, run: &RunResult) -> String {
        let tails = [run.figures.read_p99_ms, run.figures.write_p99_ms];
        let told = |(name, ms): (&str, f64)| format!("{name} within {}", millis(ms));
        let tails: Vec<String> = self.told_tails(tails).into_iter().map(told).collect();
        let total = seconds(run.total_s());
        if tails.is_empty() { total } else { format!("{total}, 99 % of {}", tails.join(", of ")) }
    }

    /// Returns those of the 99th percentiles of reads and of writes that are based on enough
    /// requests to be reported.
    pub(super) fn told_tails(&self, [reads, writes]: [Option<f64>; 2]) -> Vec<(&'static str, f64)> {
        let counts = &self.baseline.figures;
        if !tells_latencies(self.baseline) {
            return Vec::new();
        }
        let reads = reads.filter(|_| counts.reads >= TOO_FEW).map(|ms| ("reads", ms));
        let writes = writes.filter(|_| counts.writes >= TOO_FEW).map(|ms| ("writes", ms));
        reads.into_iter().chain(writes).collect()
    }

    /// Names the best scheduler in each figure; `None` if one scheduler is best in all.
    fn trade(&self) -> Option<String> {
        let best = self.choice.extremes(&self.chosen.policy);
        let (_, first, _) = best.first()?;
        if best.iter().all(|(_, policy, _)| policy == first) {
            return None;
        }
        let one = |(prefer, policy, figure): &(Prefer, &str, Option<String>)| {
            let what = match prefer {
                Prefer::Total => format!("least {}", self.total_words()),
                Prefer::Reads => "best read tail".to_string(),
                Prefer::Writes => "best write tail".to_string(),
                Prefer::Balance => "best balance".to_string(),
            };
            let figure = figure.as_ref().map_or(String::new(), |figure| format!(" ({figure})"));
            format!("{what} {policy}{figure}")
        };
        let all: Vec<String> = best.iter().map(one).collect();
        let names: Vec<&str> = best.iter().map(|(prefer, _, _)| prefer.name()).collect();
        Some(format!(
            "No available scheduler is best in every figure: {}. {} chooses by one of them, among the schedulers that no other beats.",
            all.join(", "),
            named(&format!("prefer={}", names.join("|")))
        ))
    }

    /// Returns the difference in total time between the best and the worst available scheduler, as
    /// a share.
    pub(super) fn spread(&self) -> f64 {
        let longest_s = self.to_be_had().map(|ranked| ranked.total_s).fold(0.0, f64::max);
        let least_s = self.to_be_had().map(|ranked| ranked.total_s).fold(f64::MAX, f64::min);
        longest_s / least_s.max(1e-9) - 1.0
    }

    /// Formats the changes of tail latencies, as in "reads within 58 ms instead of 96 ms".
    fn tail_changes(&self, tails_ms: [Option<f64>; 2], before: [Option<f64>; 2]) -> Vec<String> {
        let before = self.told_tails(before);
        let changes = self.told_tails(tails_ms).into_iter().zip(before);
        let told = |((name, now), (_, before))| match (millis(now), millis(before)) {
            (now, before) if now == before => format!("{name} still within {now}"),
            (now, before) => format!("{name} within {now} instead of {before}"),
        };
        changes.map(told).collect()
    }

    pub(super) fn findings(&self) -> Vec<String> {
        if self.verdict == Verdict::TooShort {
            let first = [self.in_full(), self.load()];
            return first.into_iter().chain(self.one_sided()).collect();
        }
        let mut findings = vec![self.in_full()];
        findings.extend(self.throttling.map(Throttling::told));
        findings.extend(self.price());
        findings.extend(self.under_other());
        findings.extend([self.load(), self.head_movement()]);
        findings.extend(self.fights());
        findings.extend(self.disturbed());
        findings.extend(self.today.map(Today::told));
        let chosen = &self.chosen.policy;
        let is_ours =
            Provider::of(chosen) == Provider::Forebay && *chosen != self.baseline().policy;
        findings.extend(is_ours.then(|| served(chosen)));
        findings.extend(is_ours.then(|| self.by_places_alone()).flatten());
        findings.extend(self.trade());
        findings.extend(self.others());
        findings.extend(self.plain.and_then(|plain| plain.told(self.total_words())));
        let runs = [self.baseline, self.chosen];
        findings.extend(sensitivity::told(self.sensitivity, runs, self.total_words()));
        findings.extend(self.one_sided());
        findings
    }

    /// Formats the losses of the chosen scheduler in mean and median latency, which the rule for
    /// choosing ignores.
    fn price(&self) -> Option<String> {
        if !tells_latencies(self.baseline) {
            return None;
        }
        let (was, is) = (&self.baseline().figures, &self.chosen.figures);
        let pairs = [
            ("mean read", was.reads, was.read_mean_ms, is.read_mean_ms),
            ("median read", was.reads, was.read_p50_ms, is.read_p50_ms),
            ("mean write", was.writes, was.write_mean_ms, is.write_mean_ms),
            ("median write", was.writes, was.write_p50_ms, is.write_p50_ms),
        ];
        let worse = pairs.into_iter().filter_map(|(what, requests, was, is)| {
            let (was, is) = (was?, is?);
            let is_worse = requests >= TOO_FEW && is > was * (1.0 + SHARE_THAT_MATTERS);
            is_worse.then(|| format!("the {what} takes {} instead of {}", millis(is), millis(was)))
        });
        let worse: Vec<String> = worse.collect();
        (!worse.is_empty()).then(|| {
            let (chosen, baseline) = (&self.chosen.policy, &self.baseline().policy);
            format!("The price of {chosen}, against {baseline}: {}.", listed(&worse))
        })
    }

    /// Formats the gain from more request slots alone, which is not due to the order of requests.
    fn by_places_alone(&self) -> Option<String> {
        let run = self.results.iter().find(|run| run.policy == EQUAL_SLOTS)?;
        Some(format!(
            "{} is simulated as `forebay serve` runs it: all requests in one stream, {} each on \
             the way to the server and back, and a queue of 128 requests, as Linux has for a \
             served device. With this queue, mq-deadline takes {}: only the additional savings of \
             {} are due to its order.",
            self.chosen.policy,
            bound(SERVE_ROUND_TRIP.as_millis_f64()),
            self.comes_to(run),
            self.chosen.policy
        ))
    }

    /// Explains why the other schedulers are not recommended.
    fn others(&self) -> Option<String> {
        let why = self.ranking.iter().map(|ranked| (&ranked.policy, &ranked.passed_over));
        let why = why.filter_map(|(policy, why)| Some((policy.as_str(), why.as_ref()?)));
        PassedOver::all_told(&why.collect::<Vec<_>>())
    }
}

/// Formats "bfq", or "the scheduler none", because "none" alone would be misread.
pub(super) fn named_scheduler(policy: &str) -> String {
    match policy {
        "none" => "the scheduler none".to_string(),
        _ => policy.to_string(),
    }
}

/// Formats the name with "under", as in "under bfq". The scheduler called `none` is worded
/// differently, because "under none" would be misread.
fn under(policy: &str) -> String {
    match policy {
        "none" => "without a scheduler (none)".to_string(),
        _ => format!("under {policy}"),
    }
}

pub(super) fn capitalised(sentence: &str) -> String {
    let (first, rest) = sentence.split_at(sentence.chars().next().map_or(0, char::len_utf8));
    first.to_uppercase() + rest
}

/// Formats a difference in time, as in "12 % less" or "3.4 % more".
fn difference(gain_share: f64) -> String {
    format!("{} {}", percent(gain_share.abs()), if gain_share < 0.0 { "more" } else { "less" })
}
