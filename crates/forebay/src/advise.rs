//! The `advise` command. It describes a trace, simulates every scheduler on a disk, and ranks the
//! schedulers by total time, next to their tail latencies. It also tries defragmentation and flash
//! (for offloading and for caching). It then explains the results and recommends a change, or
//! reports that no change would help.
//!
//! Nothing is simulated if the trace has no usable timestamps, and nothing is ranked if the trace
//! is too short.
//!
//! *Total time* depends on the replay. In open replay, arrivals are fixed, so a scheduler can only
//! save device work: total time is the time the disk works, and is called busy time. In closed
//! replay, total time is the time until the last completion.

use forebay_ask::{named, suggestion};
use forebay_core::Device;
use forebay_core::catalog::POLICIES;
use forebay_trace::describe::Description;
use serde::Serialize;

use crate::defragment::Defragmentation;
use crate::quantities::bytes;
use crate::slices::{Resampled, Slices};
use crate::throttling::Throttling;
use crate::{Error, Input, OpenDevice, Replay, Run, RunResult, Setup, jobs};

mod available;
mod capacity;
mod cautions;
pub(crate) mod choice;
mod default_device;
mod disturbance;
mod drives;
mod findings;
mod fit;
mod headline;
pub(crate) mod judge;
mod local_disk;
mod need;
mod page;
mod plain;
mod queues;
mod ranking;
mod redundancy;
mod remedies;
mod replays;
#[cfg(test)]
pub(crate) mod sample;
mod sensitivity;
mod sizing;
mod source;
mod stages;
mod trial;
mod trust;
#[cfg(test)]
mod trust_tests;
mod uncertain;
mod untimed;
pub mod verb;

use available::{EQUAL_SLOTS, EQUAL_SLOTS_SPEC, served};
pub use available::{Provider, Today};
pub use capacity::Enough;
use choice::{Choice, total_scale};
pub use choice::{PassedOver, Prefer};
pub use default_device::{default_device, default_flash};
pub use disturbance::Disturbance;
use drives::Drives;
use findings::{Case, SATURATED_SHARE, SHORT_S, capitalised, named_scheduler};
pub use fit::DeviceFit;
use headline::BURST_SHARE;
use judge::{
    REQUESTS_THAT_MATTER, SHARE_THAT_MATTERS, SPAN_LEAST_S, TAIL_FINE_MS, TAIL_THAT_MATTERS,
    TOO_FEW, Tail, UTILISATION_THAT_MATTERS, is_at_ease, is_backlog, is_mostly_idle, keeps_up,
    long_tails, share_busy, shows_overload, tells_latencies,
};
use local_disk::LocalDisk;
pub use local_disk::{known_model, stand_in};
use need::Need;
pub use plain::{OnBoth, Plain};
pub use queues::QueueSizes;
pub use ranking::Ranked;
use ranking::rank;
use redundancy::with_data;
pub use redundancy::{Drives as ArrayDrives, Latencies, Redundancy, Redundant, redundancy};
use remedies::choose_flash;
pub use remedies::{Before, Objection, Remedy, RemedyKind};
pub use replays::OtherReplay;
use replays::{LARGE_REQUESTS, Tryout, Tryouts, left_out_caution, rough_caution};
pub use sensitivity::Sensitivity;
use sensitivity::Unsure;
pub use sizing::Sizing;
use source::{RecordedOn, RecordedSpeed, recorded_tails};
pub use stages::advise;
use trial::{Trial, Tried, none_tried};
pub use trust::Trust;
use trust::{is_far, off};
pub use uncertain::{DependsOn, GainRange, Uncertain};

/// The seed for drawing the bootstrap's resamples.
const SEED: u64 = 1;

/// Draws resamples of the runs' figures, to estimate how much they vary by chance. Uses a fixed
/// seed, so the same resamples are drawn every time.
pub(crate) fn resampled(slices: &[&Slices]) -> Resampled {
    Resampled::of(slices, SEED)
}

/// Returns the scheduler that Linux sets by default for this kind of device. Some distributions use
/// bfq for disks.
pub fn linux_default(device: &OpenDevice) -> &'static str {
    if device.model.cylinders() > 0 { "mq-deadline" } else { "none" }
}

/// The overall conclusion about schedulers. Other remedies carry their own results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// A scheduler saves time or improves tail latency.
    Recommended,
    /// No available scheduler is better than the present one, and some are worse.
    BaselineIsBest,
    /// The trace does not load the disk enough for scheduling to matter.
    LoadTooLow,
    /// All schedulers give the same results, so changing the scheduler gains nothing.
    NothingToGain,
    /// A scheduler is better in one replay but not in the other: in open replay, with requests as
    /// recorded, or in dependent replay, where requests wait for one another.
    Depends,
    /// A scheduler is better on one of the drives that the device may stand for, but not on all: at
    /// one end of the range of a parameter that is not published, but not at the other end.
    DependsOnDrive,
    /// There are too few requests to draw a conclusion.
    TooShort,
    /// The trace does not record when requests arrived.
    NoTimes,
}

/// What the report says about a remedy: apply it, apply it for now, or leave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemedyStanding {
    /// The remedy is recommended.
    Recommended,
    /// The remedy is the best that Linux offers. Use it until the recommended remedy can be
    /// applied.
    ForToday,
    /// The remedy is not recommended.
    PassedOver,
}

/// The complete answer of `advise`.
#[derive(Serialize)]
pub struct Advice {
    /// The trace's name.
    pub trace: String,
    /// The name of the device on which everything was simulated.
    pub device: String,
    /// Why that device was simulated.
    pub device_reason: String,
    /// How requests arrive in the simulation: open, dependent or closed.
    pub replay: Replay,
    /// The replay speed, relative to the recording.
    pub intensity: f64,
    /// What `total time` measures: "busy time" of the devices, or "total time" until the last
    /// completion.
    pub total_is: &'static str,
    /// The overall conclusion about schedulers.
    pub verdict: Verdict,
    /// The scheduler to use; `None` if the schedulers could not be compared.
    pub recommended: Option<String>,
    /// The scheduler that the disk uses now, or is assumed to use. Gains are measured against it.
    pub baseline: String,
    /// Whether the user named the present scheduler.
    pub is_baseline_known: bool,
    /// Whether the simulated device stands in for a disk of this machine, as `device_reason`
    /// explains.
    #[serde(skip)]
    pub stands_in: bool,
    /// Whether Forebay chose the simulated device, because the user named none.
    #[serde(skip)]
    pub is_device_default: bool,
    /// Whether the user named the size of the flash.
    #[serde(skip)]
    pub is_flash_size_named: bool,
    /// Whether the recorded device was clearly faster or slower than the simulated one: by a factor
    /// of two if that was assumed, of ten if the user named it.
    #[serde(skip)]
    pub is_other_device: bool,
    /// Whether the device keeps up with the trace, but is busy at least 85 % of the time.
    pub is_saturated: bool,
    /// The number of disks, or the size of flash, that would keep up with the trace; `None` if the
    /// device keeps up.
    pub enough: Option<Enough>,
    /// The scheduler that may be better, if the verdict is `depends` or `depends_on_drive`.
    pub uncertain: Option<Uncertain>,
    /// The figure that decides among schedulers that no other scheduler beats.
    pub prefer: Prefer,
    /// The Linux scheduler to set, and the commands that set it; `None` if nothing needs to change.
    pub today: Option<Today>,
    /// The headline: the answer in at most 25 words.
    pub headline: String,
    /// The reason for the answer, in one sentence; `None` if nothing was simulated.
    pub why: Option<String>,
    /// The full answer with its reasons, one topic per paragraph. Lines meant for copying are a
    /// paragraph of their own, indented by four spaces.
    pub findings: Vec<String>,
    /// Reasons why the answer may not hold, one sentence each.
    pub cautions: Vec<String>,
    /// How far the model's latencies deviate from the recorded ones.
    pub trust: Trust,
    /// How much the two streams that disturb each other most would gain if each ran without the
    /// other, the more disturbed one first; empty if the trace does not distinguish streams, or if
    /// no difference could matter.
    pub disturbances: Vec<Disturbance>,
    /// Every scheduler, by increasing total time, or in catalog order if there are too few requests
    /// to rank them.
    pub ranking: Vec<Ranked>,
    /// The ranking in the other replay (open or dependent), if both were simulated.
    pub other_replay: Option<OtherReplay>,
    /// The name of the flash device that was tried together with the disk.
    pub flash_device: String,
    /// Every kind of remedy, those that cost nothing first.
    pub remedies: Vec<Remedy>,
    /// The required cache size; `None` if it was not requested.
    pub cache_sizing: Option<Sizing>,
    /// The effect of defragmenting the files; `None` if it was not simulated.
    pub defragmentation: Option<Defragmentation>,
    /// The results for the same disk without its controller, as papers model disks; `None` if the
    /// device has no such form.
    pub plain: Option<Plain>,
    /// What the recommended scheduler saves when each assumed drive parameter is halved or doubled.
    pub sensitivity: Vec<Sensitivity>,
    /// How the limits of a cloud volume delay the requests; `None` for any other device.
    pub throttling: Option<Throttling>,
    /// The redundancy scheme that pays off on an array; `None` if it was not requested.
    pub redundancy: Option<Redundancy>,
    /// The statistics of the trace, as `describe` reports them.
    pub description: Description,
    /// The complete result of every run, in the order of the scheduler catalog.
    pub runs: Vec<RunResult>,
    /// The data for the charts of the report.
    #[serde(skip)]
    pub pictures: Pictures,
}

/// The data for the charts of the report.
#[derive(Default)]
pub struct Pictures {
    /// The trace's arrivals over time, as (seconds, requests per second).
    pub arrivals: Vec<(f64, f64)>,
    /// Each run with the name of its policy, for the charts of head positions and of latencies.
    /// Runs with flash come last.
    pub runs: Vec<(String, Run)>,
    /// The names of the streams, by number.
    pub streams: Vec<String>,
    /// The number of cylinders of the disk; 0 for a device without heads.
    pub cylinders: u32,
}

/// The options of `advise`.
#[derive(Clone, Debug)]
pub struct AdviceOptions {
    /// The scheduler that the disk uses now; `None` if unknown.
    pub current: Option<String>,
    /// The size of the flash to try caching with; `None` for the size that suffices.
    pub flash_bytes: Option<u64>,
    /// The figure that decides among schedulers that no other scheduler beats.
    pub prefer: Prefer,
    /// The maximum number of parallel runs. Fewer run at a time if their pending requests might not
    /// fit into a quarter of the memory.
    pub jobs: usize,
    /// Whether to simulate the schedulers in both open and dependent replay, if open replay was
    /// requested and the trace records latencies.
    pub both_replays: bool,
    /// Whether the user named the device. If so, that device is assumed to be the recorded one, and
    /// the model is compared with the recording.
    pub device_named: bool,
    /// Whether to fit the device to the first half of the trace and evaluate it on the second half.
    pub fit_device: bool,
}

impl Default for AdviceOptions {
    fn default() -> AdviceOptions {
        AdviceOptions {
            current: None,
            flash_bytes: None,
            prefer: Prefer::default(),
            jobs: jobs::all(),
            both_replays: true,
            device_named: false,
            fit_device: false,
        }
    }
}

impl Advice {
    /// Replaces the placeholder in the commands by the disk's kernel name (`node`, such as sdb).
    fn name_disk(&mut self, node: &str) {
        let named = |text: &mut String| *text = text.replace("nvmeXn1", node).replace("sdX", node);
        self.today.iter_mut().for_each(|today| named(&mut today.now));
        self.findings.iter_mut().for_each(named);
    }

    /// Returns the disturbance with which the answer begins, because nothing else helps.
    pub(crate) fn leading_disturbance(&self) -> Option<&Disturbance> {
        let first = self.disturbances.first().filter(|one| one.matters)?;
        self.headline.contains(&first.said()).then_some(first)
    }

    /// Returns whether the device falls behind only in bursts: `now` ends soon after the recording.
    pub(crate) fn is_behind_in_bursts(&self, now: &RunResult) -> bool {
        let span_s = self.description.duration_s / self.intensity;
        now.figures.makespan_s <= span_s * (1.0 + headline::BURST_SHARE)
    }

    /// Returns whether `policy` is the scheduler to set for now, because the recommended one is not
    /// part of Linux.
    pub fn is_for_today(&self, policy: &str) -> bool {
        let is_best = |best: &str| best == policy || Provider::of(best) == Provider::Linux;
        !self.recommended.as_deref().is_some_and(is_best)
            && self.today.as_ref().is_some_and(|today| today.policy == policy)
    }

    /// Returns the report's statement on a remedy. At most one remedy that is free and one that
    /// needs flash are recommended.
    pub fn standing(&self, remedy: &Remedy) -> RemedyStanding {
        let is_ours = self
            .recommended
            .as_deref()
            .is_some_and(|policy| Provider::of(policy) == Provider::Forebay);
        let is_queues = |one: &Remedy| one.kind == RemedyKind::QueueSizes && one.recommended;
        match remedy.kind {
            _ if !remedy.recommended => RemedyStanding::PassedOver,
            RemedyKind::QueueSizes if is_ours => RemedyStanding::ForToday,
            // Changed queue sizes are recommended only if they beat every scheduler in Linux.
            RemedyKind::Scheduling if !is_ours && self.remedies.iter().any(is_queues) => {
                RemedyStanding::PassedOver
            }
            _ => RemedyStanding::Recommended,
        }
    }

    /// Returns for each remedy why it is recommended, is not recommended, or was not tried.
    /// Consecutive remedies with the same reason share an entry.
    pub fn reasons(&self) -> Vec<(String, &str)> {
        let mut reasons: Vec<(String, &str)> = Vec::new();
        for remedy in &self.remedies {
            match reasons.last_mut().filter(|(_, reason)| *reason == remedy.reason) {
                Some((kinds, _)) => *kinds += &format!(", {}", remedy.kind.name()),
                None => reasons.push((remedy.kind.name().to_string(), &remedy.reason)),
            }
        }
        reasons
    }
}

/// Returns an error if `current` is not a known scheduler.
fn check_current(current: &str) -> Result<(), Error> {
    let name = current.split(':').next().unwrap_or_default();
    let known: Vec<&str> = POLICIES.iter().map(|listed| listed.name).collect();
    if !known.contains(&name) {
        let near = suggestion(name, &known);
        let expected = match near.is_empty() {
            true => format!(", expected a scheduler, one of {}", known.join(", ")),
            false => format!("{near}; `forebay policies` lists all"),
        };
        return Err(Error::Unfit(format!("{}: got '{current}'{expected}", named("current"))));
    }
    Ok(())
}

/// Returns an error if the flash does not have `flash_bytes`.
fn check_flash_size(flash: &OpenDevice, flash_bytes: Option<u64>) -> Result<(), Error> {
    let capacity = flash.model.capacity();
    match flash_bytes.filter(|&of| of > capacity || of < FLASH_LEAST_BYTES) {
        None => Ok(()),
        Some(of) => Err(Error::Unfit(format!(
            "{}: got {}, expected from {} to the {} of {}",
            named("flash_size"),
            bytes(of as f64),
            bytes(FLASH_LEAST_BYTES as f64),
            bytes(capacity as f64),
            flash.name
        ))),
    }
}

/// The smallest size of a flash that users may name.
const FLASH_LEAST_BYTES: u64 = 1 << 20;

/// What `advise` was asked about: the trace, the devices and the options.
struct Setting<'a> {
    input: &'a Input,
    device: &'a OpenDevice,
    flash: &'a OpenDevice,
    /// The size of the flash that the user named.
    flash_bytes: Option<u64>,
    setup: Setup,
    /// The scheduler that the disk uses now.
    current: &'a str,
}

/// Returns the runs to report in detail, without duplicates: those of the baseline, of the
/// recommended scheduler, of the scheduler to set in Linux, and of the available scheduler with the
/// shortest total time.
fn worth_telling<'a>(
    results: &'a [RunResult],
    ranking: &[Ranked],
    baseline: &'a RunResult,
    free: &'a RunResult,
    today: Option<&Today>,
) -> Vec<&'a RunResult> {
    let named = |policy: &str| results.iter().find(|run| run.policy == policy);
    let today = today.and_then(|today| named(&today.policy));
    let fastest = ranking.iter().find(|ranked| ranked.from.is_obtainable());
    let fastest = fastest.and_then(|ranked| named(&ranked.policy));
    let mut told: Vec<&RunResult> = Vec::new();
    for run in [Some(baseline), Some(free), today, fastest].into_iter().flatten() {
        if !told.iter().any(|other| other.policy == run.policy) {
            told.push(run);
        }
    }
    told
}

/// Returns the scheduler to set in Linux; `None` if all Linux schedulers give the same results.
fn today(device: &OpenDevice, verdict: Verdict, choice: &Choice<'_>) -> Option<Today> {
    let rotates = device.model.cylinders() > 0;
    let policy = match verdict {
        Verdict::Recommended | Verdict::BaselineIsBest => choice.today(),
        // On flash, name a scheduler even if all give the same results: the present one may use
        // more CPU.
        Verdict::LoadTooLow
        | Verdict::NothingToGain
        | Verdict::Depends
        | Verdict::DependsOnDrive => choice.today().filter(|_| !rotates || choice.differs_today()),
        Verdict::TooShort | Verdict::NoTimes => None,
    };
    policy.map(|policy| Today::of(policy, rotates))
}
