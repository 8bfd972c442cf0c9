//! What may be done beside choosing a scheduler: data on flash, by offloading or caching, and
//! defragmentation. Each is tried, or there is a reason why not.
//!
//! Flash costs money, so it is held against the best of what is free, not against the baseline, and
//! has to gain more than a scheduler before it is recommended.

use forebay_core::Device;
use serde::Serialize;

use super::sizing::Sizing;
use super::{
    REQUESTS_THAT_MATTER, SHARE_THAT_MATTERS, TAIL_THAT_MATTERS, TOO_FEW, UTILISATION_THAT_MATTERS,
    harms, ranked, tail_ms, total_s,
};
use crate::defragment::{Defragmentation, study};
use crate::devices::OpenDevice;
use crate::error::Error;
use crate::input::Input;
use crate::progress::GoOn;
use crate::simulate::{Bed, RunResult, Setup, run_on};
use crate::words::{bytes, change, millis, percent, seconds};

/// Flash that saves a smaller share of the total time than this is not worth its price.
const FLASH_SHARE_THAT_MATTERS: f64 = 0.1;

/// A cache that would find fewer blocks than this, however large, is not tried.
const HIT_SHARE_THAT_MATTERS: f64 = 0.05;

/// What a remedy works with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RemedyKind {
    /// Another order of requests.
    Scheduling,
    /// Blocks laid in the order they are read.
    Defragmentation,
    /// Writes of those who write little at a time on flash.
    Offloading,
    /// Blocks used again on flash.
    Caching,
}

impl RemedyKind {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            RemedyKind::Scheduling => "scheduling",
            RemedyKind::Defragmentation => "defragmentation",
            RemedyKind::Offloading => "offloading",
            RemedyKind::Caching => "caching",
        }
    }
}

/// A remedy, tried or not.
#[derive(Clone, Debug, Serialize)]
pub struct Remedy {
    /// What it works with.
    pub kind: RemedyKind,
    /// The policy, as `simulate --policy` takes it; the one that stays, of defragmentation.
    pub policy: String,
    /// Flash it needs; 0 for what is free.
    pub flash_bytes: u64,
    /// Total time; none if it was not tried. Of defragmentation, on the requests it was not learnt
    /// from.
    pub total_s: Option<f64>,
    /// Share saved of the baseline's total time on the same requests.
    pub gain_share: Option<f64>,
    /// Of what needs flash: share saved of the total time under the recommended scheduler.
    pub gain_over_free_share: Option<f64>,
    /// Read latency that 99 % do not exceed.
    pub read_p99_ms: Option<f64>,
    /// Write latency that 99 % do not exceed.
    pub write_p99_ms: Option<f64>,
    /// Whether it is recommended.
    pub recommended: bool,
    /// The evidence, or why it was not tried.
    pub reason: String,
    /// Of what needs flash: the run in full.
    pub run: Option<Box<RunResult>>,
}

impl Remedy {
    /// The flash it needs, in words; none where that is not known.
    pub fn needs(&self) -> Option<String> {
        match (self.flash_bytes, self.total_s) {
            (0, None) => None,
            (0, Some(_)) => Some("nothing".to_string()),
            (needed, _) => Some(format!("{} of flash", bytes(needed as f64))),
        }
    }

    fn untried(kind: RemedyKind, policy: &str, reason: String) -> Remedy {
        Remedy {
            kind,
            policy: policy.to_string(),
            flash_bytes: 0,
            total_s: None,
            gain_share: None,
            gain_over_free_share: None,
            read_p99_ms: None,
            write_p99_ms: None,
            recommended: false,
            reason,
            run: None,
        }
    }
}

/// What remedies are held against, and what they are tried on.
pub(super) struct Trial<'a> {
    pub(super) input: &'a Input,
    pub(super) device: &'a OpenDevice,
    pub(super) flash: &'a OpenDevice,
    pub(super) setup: Setup,
    pub(super) baseline: &'a RunResult,
    /// The run under the recommended scheduler.
    pub(super) free: &'a RunResult,
}

/// Every remedy, free ones first, and how a cache was sized and defragmentation went, where they
/// were tried.
pub(super) struct Tried {
    pub(super) remedies: Vec<Remedy>,
    pub(super) sizing: Option<Sizing>,
    pub(super) defragmentation: Option<Defragmentation>,
}

impl Trial<'_> {
    /// Tries all of them.
    pub(super) fn all<P: GoOn>(&self, mut progress: impl FnMut(&str) -> P) -> Result<Tried, Error> {
        let mut remedies = vec![self.scheduling()];
        let (mut sizing, mut defragmentation) = (None, None);
        if let Some(why) = self.why_none() {
            for (kind, policy) in [
                (RemedyKind::Defragmentation, self.baseline.policy.as_str()),
                (RemedyKind::Offloading, "bid-hybrid"),
                (RemedyKind::Caching, "cache"),
            ] {
                remedies.push(Remedy::untried(kind, policy, why.clone()));
            }
            return Ok(Tried { remedies, sizing, defragmentation });
        }
        let (bed, baseline) = (Bed::of(self.device), &self.baseline.policy);
        let studied =
            study(self.input, bed, baseline, self.setup, |_| progress("defragmentation"))?;
        remedies.push(defragmented(&studied, baseline));
        defragmentation = Some(studied);
        remedies.push(self.offloading(|_| progress("bid-hybrid"))?);
        let size = Sizing::of(self.input, |_| progress("caches of every size"))?;
        remedies.push(self.caching(&size, |_| progress("cache"))?);
        sizing = Some(size);
        choose_flash(&mut remedies);
        Ok(Tried { remedies, sizing, defragmentation })
    }

    /// Why nothing but schedulers is tried.
    fn why_none(&self) -> Option<String> {
        let requests = self.baseline.figures.requests;
        if requests < TOO_FEW {
            return Some(format!("Not tried: {requests} requests are too few to tell."));
        }
        (self.device.model.cylinders() == 0).then(|| {
            "Not tried: this device has no heads, so neither where blocks lie nor what is kept from \
             it saves head movement."
                .to_string()
        })
    }

    fn scheduling(&self) -> Remedy {
        let (free, baseline) = (self.free, self.baseline);
        let recommended = free.policy != baseline.policy;
        let reason = match recommended {
            true => format!(
                "{}, against {} with {}.",
                self.totals(free),
                self.totals(baseline),
                baseline.policy
            ),
            false => format!("No scheduler is recommended over {}.", baseline.policy),
        };
        Remedy { recommended, reason, ..self.outcome(RemedyKind::Scheduling, free) }
    }

    /// The figures of a run as a remedy that needs no flash.
    fn outcome(&self, kind: RemedyKind, run: &RunResult) -> Remedy {
        Remedy {
            total_s: Some(total_s(run)),
            // Adding zero turns -0.0 into 0.0.
            gain_share: Some(1.0 - total_s(run) / total_s(self.baseline).max(1e-9) + 0.0),
            read_p99_ms: run.figures.read_p99_ms,
            write_p99_ms: run.figures.write_p99_ms,
            ..Remedy::untried(kind, &run.policy, String::new())
        }
    }

    fn totals(&self, run: &RunResult) -> String {
        let tail = tail_ms(run.figures.read_p99_ms, run.figures.write_p99_ms);
        format!("{} and 99 % within {}", seconds(total_s(run)), millis(tail))
    }

    fn bed(&self) -> Bed<'_> {
        Bed { disk: self.device, disks: 1, flash: Some(self.flash) }
    }

    fn offloading<P: GoOn>(&self, progress: impl FnMut(u64) -> P) -> Result<Remedy, Error> {
        let (kind, policy) = (RemedyKind::Offloading, "bid-hybrid");
        if self.baseline.figures.writes == 0 {
            let why = "Not tried: the trace only reads, and BID-Hybrid moves only writes to flash.";
            return Ok(Remedy::untried(kind, policy, why.to_string()));
        }
        let run = run_on(self.input, self.bed(), policy, self.setup, progress)?.result;
        let counted = |name: &str| run.placement.get(name).copied().unwrap_or(0.0);
        let needed = counted("flash_used_bytes_max");
        let mut evidence = format!(
            "{} pieces of {} writes went to flash, {} of data at most at a time",
            counted("offloaded_requests") + counted("flash_updates"),
            run.figures.writes,
            bytes(needed)
        );
        if counted("exhausted_requests") > 0.0 {
            evidence += &format!(
                "; the flash was full for {} more ({})",
                counted("exhausted_requests"),
                bytes(counted("exhausted_bytes"))
            );
        }
        Ok(self.with_flash(kind, run, needed as u64, &evidence))
    }

    fn caching<P: GoOn>(
        &self,
        sizing: &Sizing,
        progress: impl FnMut(u64) -> P,
    ) -> Result<Remedy, Error> {
        let (kind, footprint) = (RemedyKind::Caching, bytes(sizing.footprint_bytes as f64));
        if sizing.hit_share_max < HIT_SHARE_THAT_MATTERS {
            let why = format!(
                "Not tried: even a cache that holds all {footprint} would find only {} of the blocks \
                 used; the others are used for the first time.",
                percent(sizing.hit_share_max)
            );
            return Ok(Remedy::untried(kind, "cache", why));
        }
        let size_mib = sizing.size_mib.min(self.flash.model.capacity() >> 20);
        // The disk behind it under what is recommended there, so that the gain is the cache's own.
        let policy = format!(
            "cache:size-mib={size_mib}:block-kib={}:disk={}",
            sizing.block_bytes >> 10,
            self.free.policy
        );
        let run = run_on(self.input, self.bed(), &policy, self.setup, progress)?.result;
        let mut evidence = format!(
            "of the blocks used, a cache of all {footprint} would find {}, this one {} (LRU, from \
             the miss-ratio curve)",
            percent(sizing.hit_share_max),
            percent(sizing.hit_share)
        );
        match run.placement.get("hit_share") {
            Some(&share) if run.figures.reads > 0 => {
                evidence += &format!("; in the run it found {} of the blocks read", percent(share));
            }
            _ => evidence += "; the trace only writes, so it only takes writes in",
        }
        Ok(self.with_flash(kind, run, size_mib << 20, &evidence))
    }

    /// A run with flash, judged against what is free.
    fn with_flash(&self, kind: RemedyKind, run: RunResult, needed: u64, evidence: &str) -> Remedy {
        let over_free = 1.0 - total_s(&run) / total_s(self.free).max(1e-9) + 0.0;
        let tail = |run: &RunResult| tail_ms(run.figures.read_p99_ms, run.figures.write_p99_ms);
        let (was, is) = (tail(self.free), tail(&run));
        let utilisation = self.baseline.figures.busy_s / self.baseline.figures.makespan_s.max(1e-9);
        let harmed = harms(&ranked(&run, self.free), self.free);
        let calmer = is <= was * (1.0 - TAIL_THAT_MATTERS)
            && self.baseline.figures.requests >= REQUESTS_THAT_MATTER
            && over_free >= -SHARE_THAT_MATTERS
            && !harmed;
        let shorter = over_free >= FLASH_SHARE_THAT_MATTERS
            && is <= was * (1.0 + TAIL_THAT_MATTERS)
            && utilisation >= UTILISATION_THAT_MATTERS;
        let recommended = shorter || calmer;
        let verdict = match recommended {
            true => "",
            false if needed == 0 => " It moved nothing to flash.",
            false if utilisation < UTILISATION_THAT_MATTERS => {
                " Not worth flash: the disk has little to do, and 99 % do not become much faster."
            }
            false if over_free >= FLASH_SHARE_THAT_MATTERS => {
                " Not worth flash: it saves time, but the slowest 1 % become slower."
            }
            false if is <= was * (1.0 - TAIL_THAT_MATTERS) && over_free < -SHARE_THAT_MATTERS => {
                " Not recommended: 99 % are faster, but in total it takes longer than what is free."
            }
            false if harmed => " Not worth flash: others pay for what it gains.",
            false => " Not worth flash: it saves too little beyond what is free.",
        };
        let reason = format!(
            "{}, against {} free with {} ({}): {evidence}.{verdict}",
            self.totals(&run),
            self.totals(self.free),
            self.free.policy,
            change(total_s(&run), total_s(self.free)),
        );
        Remedy {
            flash_bytes: needed,
            gain_over_free_share: Some(over_free),
            recommended: recommended && needed > 0,
            reason,
            ..self.outcome(kind, &run)
        }
        .holding(run)
    }
}

impl Remedy {
    fn holding(self, run: RunResult) -> Remedy {
        Remedy { run: Some(Box::new(run)), ..self }
    }
}

fn defragmented(studied: &Defragmentation, policy: &str) -> Remedy {
    let held_out = studied.held_out.as_ref();
    Remedy {
        total_s: held_out.map(|effect| effect.total_after_s),
        gain_share: held_out.map(|effect| effect.gain_share),
        read_p99_ms: held_out.and_then(|effect| effect.read_p99_after_ms),
        recommended: studied.is_worth_while(),
        ..Remedy::untried(RemedyKind::Defragmentation, policy, studied.told().join(" "))
    }
}

/// One use of flash is enough: the faster one, or of equal ones the one that needs less.
fn choose_flash(remedies: &mut [Remedy]) {
    let mut worthy: Vec<usize> = (0..remedies.len())
        .filter(|&index| remedies[index].recommended && remedies[index].flash_bytes > 0)
        .collect();
    let total = |index: usize| remedies[index].total_s.unwrap_or(f64::MAX);
    let Some(&fastest) = worthy.iter().min_by(|&&a, &&b| total(a).total_cmp(&total(b))) else {
        return;
    };
    let close = |index: &usize| total(*index) <= total(fastest) * (1.0 + SHARE_THAT_MATTERS);
    let chosen = worthy.iter().copied().filter(close);
    let chosen = chosen.min_by_key(|&index| remedies[index].flash_bytes).unwrap_or(fastest);
    worthy.retain(|&index| index != chosen);
    let better = remedies[chosen].kind.name();
    for index in worthy {
        remedies[index].recommended = false;
        remedies[index].reason += &format!(" It would help too; {better} does more for its flash.");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remedy(kind: RemedyKind, total_s: f64, flash_bytes: u64) -> Remedy {
        Remedy {
            total_s: Some(total_s),
            flash_bytes,
            recommended: true,
            ..Remedy::untried(kind, "", String::new())
        }
    }

    #[test]
    fn of_two_uses_of_flash_the_faster_or_the_cheaper_is_recommended() {
        let chosen = |offloading: (f64, u64), caching: (f64, u64)| {
            let mut remedies = [
                remedy(RemedyKind::Scheduling, 1.0, 0),
                remedy(RemedyKind::Offloading, offloading.0, offloading.1),
                remedy(RemedyKind::Caching, caching.0, caching.1),
            ];
            choose_flash(&mut remedies);
            remedies.map(|remedy| remedy.recommended)
        };
        assert_eq!(chosen((50.0, 10), (40.0, 90)), [true, false, true]);
        assert_eq!(chosen((40.5, 10), (40.0, 90)), [true, true, false]);
        assert_eq!(chosen((40.0, 90), (40.5, 10)), [true, false, true]);
    }
}
