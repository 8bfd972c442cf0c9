//! Simulates remedies other than choosing a scheduler, on the requests and devices of one advice.
//!
//! Flash costs money and moving data costs time, so these remedies are recommended only if they are
//! better than the recommended scheduler as well as better than the baseline.

use std::ops::Range;

use forebay_ask::named;
use forebay_core::{Device, Spec};

use super::{
    Before, Choice, Drives, LARGE_REQUESTS, Need, Objection, Prefer, Remedy, RemedyKind, Sizing,
    TAIL_THAT_MATTERS, TOO_FEW, Tryout, choose_flash, is_at_ease, resampled, tells_latencies,
};
use crate::cache_curve::FOUND_THAT_MATTERS;
use crate::defragment::{Defragmentation, elsewhere, study};
use crate::jobs::{Tell, side_by_side};
use crate::quantities::{bytes, counted, percent};
use crate::simulate::{Bed, Run, RunResult, Setup, Stretch, run_on, run_stretch};
use crate::slices::Slices;
use crate::{Error, Input, OpenDevice, Progress, Telling};

/// If at least this share of the writes to blocks bypasses a cache, the answer mentions it.
pub(super) const PARTIAL_THAT_MATTERS: f64 = 0.02;

/// The smallest size in MiB of a cache that is recommended.
const FLASH_LEAST_MIB: u64 = 16;

/// The maximum size in MiB of a cache that is tried because it holds everything.
const ALL_MIB_MAX: u64 = 64 << 10;

/// The runs with which remedies are compared, and the devices on which they are simulated.
pub(super) struct Trial<'a> {
    pub(super) input: &'a Input,
    pub(super) device: &'a OpenDevice,
    pub(super) flash: &'a OpenDevice,
    /// The size of the cache that the user named.
    pub(super) flash_bytes: Option<u64>,
    /// The other drives that the device may stand for.
    pub(super) drives: &'a Drives<'a>,
    pub(super) setup: Setup,
    pub(super) baseline: &'a RunResult,
    /// The run of the recommended scheduler, which costs nothing.
    pub(super) free: &'a RunResult,
    /// The slices of two runs: the baseline's and the recommended scheduler's.
    pub(super) slices: [&'a Slices; 2],
    /// The runs of other available schedulers that no other scheduler beats, with their slices.
    pub(super) rivals: Vec<(&'a RunResult, &'a Slices)>,
    /// The run of the best Linux scheduler, with its slices.
    pub(super) today: Option<(&'a RunResult, &'a Slices)>,
    /// All schedulers' runs in the other replay, in which a recommendation also has to hold.
    pub(super) other: Option<&'a Tryout>,
    pub(super) prefer: Prefer,
    /// The time from the first arrival to the last, in seconds.
    pub(super) span_s: f64,
    /// What the trace needs on this device.
    pub(super) need: &'a Need,
}

/// All remedies, those that cost nothing first, with the details of cache sizing and
/// defragmentation if these were simulated.
pub(super) struct Tried {
    pub(super) remedies: Vec<Remedy>,
    pub(super) sizing: Option<Sizing>,
    pub(super) defragmentation: Option<Defragmentation>,
    /// The runs with flash, by policy spec.
    pub(super) with_flash: Vec<(String, Run)>,
}

/// The result of simulating one remedy.
struct Part {
    remedy: Remedy,
    run: Option<Run>,
    sizing: Option<Sizing>,
    defragmentation: Option<Defragmentation>,
}

impl Trial<'_> {
    /// Simulates all remedies, with up to `jobs` parallel runs.
    pub(super) fn all(
        &self,
        jobs: usize,
        share: Range<f64>,
        progress: Telling<'_>,
    ) -> Result<Tried, Error> {
        let scheduling = self.scheduling();
        if let Some(why) = self.why_none() {
            let none = none_tried(&self.baseline.policy, &why);
            let remedies = std::iter::once(scheduling).chain(none).collect();
            return Ok(Tried {
                remedies,
                sizing: None,
                defragmentation: None,
                with_flash: Vec::new(),
            });
        }
        let steps = self.input.description.records.saturating_mul(2);
        let parts = side_by_side(
            &["queue sizes", "defragmentation", "offloading", "caching"],
            (jobs, steps),
            share,
            |part, tell| self.part(part, tell),
            progress,
        )?;
        let mut tried = Tried {
            remedies: vec![scheduling],
            sizing: None,
            defragmentation: None,
            with_flash: Vec::new(),
        };
        let mut runs = Vec::new();
        for Part { remedy, run, sizing, defragmentation } in parts {
            tried.remedies.push(remedy);
            runs.extend(run);
            tried.sizing = tried.sizing.or(sizing);
            tried.defragmentation = tried.defragmentation.or(defragmentation);
        }
        choose_flash(&mut tried.remedies, |more, less| {
            let of = |remedy: &Remedy| runs.iter().find(|run| run.result.policy == remedy.policy);
            of(more).zip(of(less)).is_some_and(|(more, less)| self.is_worth_more_flash(more, less))
        });
        let named = |run: Run| (run.result.policy.clone(), run);
        tried.with_flash = runs.into_iter().map(named).collect();
        Ok(tried)
    }

    /// Simulates one of the remedies that have a cost.
    fn part(&self, part: usize, tell: Tell<'_>) -> Result<Part, Error> {
        Ok(match part {
            0 => Part {
                remedy: self.queue_sizes(tell)?,
                run: None,
                sizing: None,
                defragmentation: None,
            },
            1 => {
                let (bed, policy) = (Bed::of(self.device), &self.free.policy);
                let studied = study(self.input, bed, policy, self.setup, &mut *tell)?;
                let remedy = self.defragmented(&studied, tell)?;
                Part { remedy, run: None, sizing: None, defragmentation: Some(studied) }
            }
            2 => {
                let (remedy, run) = self.offloading(tell)?;
                Part { remedy, run, sizing: None, defragmentation: None }
            }
            _ => {
                let sizing = Sizing::of(self.input, self.flash_bytes, &mut *tell)?;
                let (remedy, run) = self.caching(&sizing, tell)?;
                Part { remedy, run, sizing: Some(sizing), defragmentation: None }
            }
        })
    }

    /// Returns why no remedies except schedulers are simulated; `None` if they are.
    fn why_none(&self) -> Option<String> {
        let requests = self.baseline.figures.requests;
        if requests < TOO_FEW {
            let few = counted(requests, "request");
            return Some(format!(
                "Not tried: {few} would not allow a conclusion; at least {TOO_FEW} are needed."
            ));
        }
        (self.device.model.cylinders() == 0).then(|| {
            "Not tried: this device has no heads, so neither moving blocks nor keeping requests \
             away from it saves head movement."
                .to_string()
        })
    }

    fn scheduling(&self) -> Remedy {
        let (free, baseline) = (self.free, self.baseline);
        if baseline.figures.requests < TOO_FEW {
            let why = "Schedulers are shown but not ranked, because there are too few requests.";
            return Remedy::untried(RemedyKind::Scheduling, &baseline.policy, why.to_string());
        }
        let recommended = free.policy != baseline.policy;
        let reason = match recommended {
            true => format!(
                "{} is the best available scheduler, by {}.",
                free.policy,
                named(&format!("prefer={}", self.prefer.name()))
            ),
            false => format!("No scheduler is recommended over {}.", baseline.policy),
        };
        Remedy { recommended, reason, ..Remedy::outcome(RemedyKind::Scheduling, free, baseline) }
    }

    fn bed(&self) -> Bed<'_> {
        Bed { flash: Some(self.flash), slices: true, ..Bed::of(self.device) }
    }

    /// Returns whether the run `more` is enough of an improvement over `less` to justify its larger
    /// flash.
    fn is_worth_more_flash(&self, more: &Run, less: &Run) -> bool {
        let slices = more.slices.iter().chain(&less.slices).chain(self.slices.first().copied());
        let slices: Vec<&Slices> = slices.collect();
        let runs = [more.result.clone(), less.result.clone(), self.baseline.clone()];
        let resampled = resampled(&slices);
        Choice::new(&runs, &self.baseline.policy, &resampled, self.prefer).is_worth_more_flash()
    }

    /// Simulates offloading. Returns the remedy, and its run if it was simulated.
    fn offloading(&self, progress: Progress<'_>) -> Result<(Remedy, Option<Run>), Error> {
        let (kind, policy) = (RemedyKind::Offloading, "bid-hybrid");
        if self.baseline.figures.writes == 0 {
            let why =
                "Not tried: the trace writes nothing, and BID-Hybrid moves only writes to flash.";
            return Ok((Remedy::untried(kind, policy, why.to_string()), None));
        }
        let ran = run_on(self.input, self.bed(), policy, self.setup, progress)?;
        let run = &ran.result;
        let figure = |name: &str| run.placement.get(name).copied().unwrap_or(0.0);
        let needed = figure("flash_used_bytes_max");
        let mut evidence = format!(
            "{} of {} went to flash, with at most {} of data there at a time",
            counted((figure("offloaded_requests") + figure("flash_updates")) as u64, "piece"),
            counted(run.figures.writes, "write"),
            bytes(needed)
        );
        if figure("exhausted_requests") > 0.0 {
            evidence += &format!(
                "; the flash was full for {} more ({})",
                figure("exhausted_requests"),
                bytes(figure("exhausted_bytes"))
            );
        }
        let why = match needed == 0.0 {
            true => Objection::new("It moved nothing to flash", "it moved nothing to flash"),
            false => Objection::new(
                "In the kernel only: it works per process, and Forebay's server does not know the \
                 processes",
                "it works only in the kernel",
            ),
        };
        let why = Some(why);
        Ok((self.with_flash(kind, &ran, needed as u64, &evidence, why), Some(ran)))
    }

    /// Simulates caching, with a cache of the size that the user specified, or else with the
    /// smallest cache that has most of the hits, with one that has nearly all of them, and, if
    /// neither is worthwhile, with one that holds everything. Returns the best remedy, and its run
    /// if it was simulated.
    fn caching(
        &self,
        sizing: &Sizing,
        progress: Progress<'_>,
    ) -> Result<(Remedy, Option<Run>), Error> {
        if sizing.hit_share_max < FOUND_THAT_MATTERS {
            let why = format!("Not tried: {}.", sizing.too_few());
            return Ok((Remedy::untried(RemedyKind::Caching, "cache", why), None));
        }
        let full_mib = sizing.flash_mib(sizing.full_bytes);
        let (least_mib, hits) = match self.flash_bytes {
            Some(_) => (sizing.size_mib, sizing.hit_share),
            // Flash of less than this size is not sold.
            None if full_mib <= FLASH_LEAST_MIB => (FLASH_LEAST_MIB, sizing.hit_share_full),
            None => (sizing.size_mib.max(FLASH_LEAST_MIB), sizing.hit_share),
        };
        let least = self.cached(sizing, (least_mib, hits), &mut *progress)?;
        let is_large = self.input.description.records > LARGE_REQUESTS;
        if self.flash_bytes.is_some() || is_large || self.need.against_flash().is_some() {
            return Ok((least.0, Some(least.1)));
        }
        let mut best = least;
        if full_mib >= 2 * least_mib {
            let full = self.cached(sizing, (full_mib, sizing.hit_share_full), &mut *progress)?;
            let is_full = match (best.0.recommended, full.0.recommended) {
                (true, true) => self.is_worth_more_flash(&full.1, &best.1),
                (is_least, _) => !is_least,
            };
            best = if is_full { full } else { best };
        }
        // A cache that holds everything absorbs all writes until the disk accepts them.
        let all_mib = sizing.flash_mib(sizing.footprint_bytes).max(FLASH_LEAST_MIB);
        if !best.0.recommended && (2 * least_mib..=ALL_MIB_MAX).contains(&all_mib) {
            let all = self.cached(sizing, (all_mib, sizing.hit_share_max), progress)?;
            best = if all.0.recommended { all } else { best };
        }
        Ok((best.0, Some(best.1)))
    }

    /// Simulates a cache of `size_mib` MiB, in which a share of `hits` of the blocks used would be
    /// found by the miss-ratio curve.
    fn cached(
        &self,
        sizing: &Sizing,
        (size_mib, hits): (u64, f64),
        progress: Progress<'_>,
    ) -> Result<(Remedy, Run), Error> {
        let size_mib = size_mib.min(self.flash.model.capacity() >> 20);
        // The disk behind the cache uses the recommended scheduler, so that the gain is due only to
        // the cache.
        let policy = format!(
            "cache:size-mib={size_mib}:block-kib={}:disk={}",
            // Objects may be blocks of half a KiB.
            (sizing.block_bytes >> 10).max(1),
            Spec::nested(&self.free.policy)
        );
        let ran = run_on(self.input, self.bed(), &policy, self.setup, &mut *progress)?;
        let run = &ran.result;
        let figure = |name: &str| run.placement.get(name).copied().unwrap_or(0.0);
        let mut why = self.need.against_flash();
        let mut evidence = format!(
            "Of the blocks of {} used, a cache of all {} would find {}, one of {} {} (LRU, from the miss-ratio \
             curve)",
            bytes(sizing.block_bytes.into()),
            bytes(sizing.footprint_bytes as f64),
            percent(sizing.hit_share_max),
            bytes((size_mib << 20) as f64),
            percent(hits)
        );
        if run.figures.reads >= TOO_FEW {
            let share = figure("hit_share");
            let taken_in = figure("blocks_written") - figure("blocks_partial");
            let all = figure("blocks_read") + figure("blocks_written");
            let is_lost = figure("blocks_hit") + taken_in < FOUND_THAT_MATTERS * all;
            evidence += &format!(
                "; in the run it found {} of the blocks read (the curve counts those written too)",
                percent(share)
            );
            why = why.or_else(|| {
                let lost = "it finds next to nothing";
                is_lost.then(|| Objection::new(format!("Not offered: {lost}"), lost))
            });
        } else if run.figures.reads > 0 {
            evidence += &format!(
                "; the trace has only {}, so the cache only absorbs writes",
                counted(run.figures.reads, "read")
            );
        } else {
            evidence += "; the trace contains only writes, so the cache only absorbs writes";
        }
        let partial_share = figure("blocks_partial") / figure("blocks_written").max(1.0);
        if partial_share >= PARTIAL_THAT_MATTERS {
            evidence += &format!(
                "; {} of the writes to blocks went to the disk, because they cover only part of a \
                 block",
                percent(partial_share)
            );
        }
        let why = match why {
            None => self.against_flash_anywhere(&ran, &policy, progress)?,
            why => why,
        };
        Ok((self.with_flash(RemedyKind::Caching, &ran, size_mib << 20, &evidence, why), ran))
    }

    /// Builds the remedy from a run with flash. It is not recommended if `against` gives a reason.
    fn with_flash(
        &self,
        kind: RemedyKind,
        ran: &Run,
        needed: u64,
        evidence: &str,
        against: Option<Objection>,
    ) -> Remedy {
        let (free, baseline) = (self.free, self.baseline);
        let run = &ran.result;
        let why = against.as_ref().map_or(String::new(), |one| format!(" {}.", one.why));
        let (reason, is_worth_it) = (format!("{evidence}.{why}"), against.is_none());
        Remedy {
            flash_bytes: needed,
            against,
            gain_over_free_share: Some(1.0 - run.total_s() / free.total_s().max(1e-9) + 0.0),
            recommended: is_worth_it,
            reason,
            run: Some(Box::new(run.clone())),
            ..Remedy::outcome(kind, run, baseline)
        }
    }

    /// Returns why flash is not worth its price; `None` if it is worth it.
    fn against_flash(&self, ran: &Run) -> Option<Objection> {
        let why = self.need.against_flash();
        if let Some(why) = why.or_else(|| self.need.not_met(&ran.result, self.baseline)) {
            return Some(why);
        }
        let [baseline, free] = self.slices;
        let rivals = self.rivals.iter().copied();
        let others = [(self.baseline, baseline), (self.free, free)].into_iter().chain(rivals);
        let (runs, slices): (Vec<&RunResult>, Vec<&Slices>) = others.unzip();
        let runs: Vec<RunResult> = std::iter::once(&ran.result).chain(runs).cloned().collect();
        let slices: Vec<&Slices> = ran.slices.iter().chain(slices).collect();
        let resampled = resampled(&slices);
        Choice::new(&runs, &self.baseline.policy, &resampled, self.prefer).against_flash(2)
    }

    /// Returns why `ran` is not worth its flash in one of the replays, or on a drive that the
    /// device may stand for; `None` if it always is.
    fn against_flash_anywhere(
        &self,
        ran: &Run,
        policy: &str,
        progress: Progress<'_>,
    ) -> Result<Option<Objection>, Error> {
        if let Some(why) = self.against_flash(ran) {
            return Ok(Some(why));
        }
        match self.against_elsewhere(policy, progress)? {
            None => self.flash_on_every_drive(policy, progress),
            why => Ok(why),
        }
    }

    /// Returns the setups in which a recommendation must hold: that of the leading replay, followed
    /// by that of the other replay if there is one.
    pub(super) fn setups(&self) -> impl Iterator<Item = (Setup, String)> {
        let other = self.other.map(|other| other.setup);
        let other = other.map(|setup| (setup, format!(", {}", setup.replay.as_told())));
        std::iter::once((self.setup, String::new())).chain(other)
    }

    /// Returns why `policy` is not worth its flash on some drive that the device may stand for;
    /// `None` if it is worth it on all of them.
    fn flash_on_every_drive(
        &self,
        policy: &str,
        progress: Progress<'_>,
    ) -> Result<Option<Objection>, Error> {
        let (baseline, free) = (&self.baseline.policy[..], &self.free.policy[..]);
        for (setup, how) in self.setups() {
            for (at, varied) in self.drives.at_margins().iter().enumerate() {
                let mut runs = Vec::new();
                for policy in [policy, baseline, free] {
                    runs.push(self.drives.run(at, policy, setup, progress)?);
                }
                let resampled = resampled(&[]);
                let choice = Choice::new(&runs, baseline, &resampled, self.prefer);
                if let Some(one) = choice.against_first() {
                    let with = &varied.with;
                    let why = format!("Flash may not be worth it: with {with}, {}{how}", one.why);
                    return Ok(Some(Objection { why, ..one }));
                }
            }
        }
        Ok(None)
    }

    /// Returns why `policy`, which is worth its flash in the leading replay, is not worth it in the
    /// other replay; `None` if it is.
    fn against_elsewhere(
        &self,
        policy: &str,
        progress: Progress<'_>,
    ) -> Result<Option<Objection>, Error> {
        let rivals = |other: &'_ Tryout| {
            let names = [&self.baseline.policy, &self.free.policy];
            let runs =
                names.map(|name| other.run(name).map(|(run, own)| (run.clone(), own.clone())));
            runs.into_iter().collect::<Option<Vec<_>>>()
        };
        let Some((other, rivals)) = self.other.and_then(|other| Some((other, rivals(other)?)))
        else {
            return Ok(None);
        };
        let ran = run_on(self.input, self.bed(), policy, other.setup, progress)?;
        let Some(own) = ran.slices else { return Ok(None) };
        let all = std::iter::once((ran.result, own)).chain(rivals);
        let (runs, slices): (Vec<RunResult>, Vec<Slices>) = all.unzip();
        let resampled = resampled(&slices.iter().collect::<Vec<_>>());
        let choice = Choice::new(&runs, &self.baseline.policy, &resampled, self.prefer);
        let how = other.setup.replay.as_told();
        let with_replay = |one: Objection| Objection {
            why: format!("{}, {how}", one.why),
            in_short: format!("{} {how}", one.in_short),
            ..one
        };
        Ok(choice.against_flash(2).map(with_replay))
    }

    /// Builds the remedy from a study of defragmentation, with the baseline's figures for the same
    /// requests.
    fn defragmented(
        &self,
        studied: &Defragmentation,
        progress: Progress<'_>,
    ) -> Result<Remedy, Error> {
        let (scheduler, told) = (&self.free.policy, studied.told().join(" "));
        let untried = Remedy::untried(RemedyKind::Defragmentation, scheduler, told);
        let Some(effect) = &studied.held_out else { return Ok(untried) };
        let before = match *scheduler == self.baseline.policy {
            true => Before {
                total_s: effect.total_before_s,
                read_p99_ms: effect.read_p99_before_ms.filter(|_| tells_latencies(self.baseline)),
                write_p99_ms: effect.write_p99_before_ms.filter(|_| tells_latencies(self.baseline)),
            },
            false => {
                let rest = Stretch::of(studied.learnt_requests..u64::MAX);
                let (bed, policy) = (Bed::of(self.device), &self.baseline.policy);
                let run = run_stretch(self.input, bed, policy, self.setup, rest, progress)?;
                Before::of(&run.result)
            }
        };
        let worth_while = studied.is_worth_while();
        // Defragmentation costs only some copying, so a better tail justifies it even on an idle
        // disk.
        let calmer = effect.read_p99_after_ms.zip(before.read_p99_ms);
        let calmer = calmer.is_some_and(|(is, was)| is <= was * (1.0 - TAIL_THAT_MATTERS));
        let at_ease = worth_while && is_at_ease(self.baseline, self.span_s) && !calmer;
        let against = match worth_while && !at_ease {
            true => self.defragmentation_on_every_drive(progress)?,
            false => None,
        };
        let but = match (at_ease, &against) {
            (true, _) => {
                " There is still nothing to gain from it: the disk is mostly idle and answers quickly."
                    .to_string()
            }
            (_, Some(why)) => format!(" A gain is still not certain: {why}."),
            _ => String::new(),
        };
        Ok(Remedy {
            moved_bytes: studied.moved_bytes,
            requests: effect.requests,
            before: Some(before),
            total_s: Some(effect.total_after_s),
            gain_share: Some(1.0 - effect.total_after_s / before.total_s.max(1e-9) + 0.0),
            gain_over_free_share: Some(effect.gain_share),
            read_p99_ms: effect.read_p99_after_ms.filter(|_| tells_latencies(self.baseline)),
            write_p99_ms: effect.write_p99_after_ms.filter(|_| tells_latencies(self.baseline)),
            recommended: worth_while && !at_ease && against.is_none(),
            reason: format!("{}{but}", untried.reason),
            ..untried
        })
    }
}

impl Trial<'_> {
    /// Returns why defragmentation, which gains in the leading replay, should nevertheless not be
    /// recommended: it does not gain in the other replay, or on some drive that the device may
    /// stand for. Returns `None` if it gains everywhere.
    fn defragmentation_on_every_drive(
        &self,
        progress: Progress<'_>,
    ) -> Result<Option<String>, Error> {
        let mut all = Vec::new();
        for (setup, how) in self.setups() {
            if !how.is_empty() {
                all.push((self.device, setup, String::new(), how.clone()));
            }
            for varied in self.drives.at_margins() {
                all.push((&varied.device, setup, format!("with {}", varied.with), how.clone()));
            }
        }
        let beds: Vec<_> =
            all.iter().map(|(device, setup, ..)| (Bed::of(device), *setup)).collect();
        let effects = elsewhere(self.input, &self.free.policy, &beds, progress)?;
        let fails = effects.iter().zip(&all).find(|(effect, _)| !effect.is_gain());
        Ok(fails.map(|(effect, (_, _, with, how))| {
            let under = format!("{with}{how}");
            format!("{}, {}", under.trim_start_matches(", "), effect.told())
        }))
    }
}

/// Returns all remedies except schedulers, marked as not tried for the reason `why`.
pub(super) fn none_tried(scheduler: &str, why: &str) -> [Remedy; 4] {
    [
        (RemedyKind::QueueSizes, scheduler),
        (RemedyKind::Defragmentation, scheduler),
        (RemedyKind::Offloading, "bid-hybrid"),
        (RemedyKind::Caching, "cache"),
    ]
    .map(|(kind, policy)| Remedy::untried(kind, policy, why.to_string()))
}
