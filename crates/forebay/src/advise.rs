//! The verb `advise`, the main job: describe a trace, try every scheduler on a disk, rank them by
//! total time with the tail beside it; try defragmentation, and flash for offloading and caching;
//! explain, and recommend, or say that nothing is to be gained.
//!
//! Where the trace has no usable times nothing is simulated; where it is short nothing is ranked.
//!
//! *Total time* is the time the disk works under open replay (arrivals are given, so that is what a
//! scheduler can save), which is then called busy time, and the time to the last completion under closed replay.

use forebay_ask::{named, nearest};
use forebay_core::Device;
use forebay_core::catalog::POLICIES;
use forebay_trace::describe::Description;
use serde::Serialize;

use crate::clock::Times;
use crate::defragment::Defragmentation;
use crate::devices::OpenDevice;
use crate::error::Error;
use crate::input::Input;
use crate::jobs;
use crate::progress::{Progress, Telling, Told, untold};
use crate::simulate::{Bed, Replay, Run, RunResult, Setup};
use crate::slices::{Resampled, Slices};

mod available;
mod capacity;
mod cautions;
mod choice;
mod default_device;
mod drives;
mod findings;
mod fit;
mod headline;
mod judge;
mod local_disk;
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
mod trial;
mod trust;
#[cfg(test)]
mod trust_tests;
pub mod verb;

pub use available::{From, Today};
pub use capacity::Enough;
use choice::Choice;
pub use choice::{PassedOver, Prefer};
pub use default_device::{default_device, default_flash};
use drives::Drives;
pub use fit::DeviceFit;
pub use plain::{OnBoth, Plain};
pub use queues::QueueSizes;
pub use ranking::Ranked;
pub use redundancy::{Redundancy, Redundant, redundancy};
pub use remedies::{Before, Remedy, RemedyKind};
pub use replays::OtherReplay;
use replays::Tryouts;
pub use sensitivity::Sensitivity;
pub use sizing::Sizing;
use trial::{Trial, Tried, none_tried};
pub use trust::Trust;

/// Draws the resamples.
const SEED: u64 = 1;

/// Figures of runs as chance may have them, drawn alike each time.
fn resampled(slices: &[&Slices]) -> Resampled {
    Resampled::of(slices, SEED)
}

/// The scheduler that Linux sets by default for a device of this kind. Some distributions set bfq for disks.
pub fn linux_default(device: &OpenDevice) -> &'static str {
    if device.model.cylinders() > 0 { "mq-deadline" } else { "none" }
}

/// What kind of answer it is, as far as schedulers go; other remedies say it each for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// A scheduler saves time or tail.
    Recommended,
    /// The present scheduler is best, and others do worse.
    BaselineIsBest,
    /// The trace does not load the disk enough for scheduling to matter.
    LoadTooLow,
    /// Every scheduler comes to the same.
    NothingToGain,
    /// It depends on whether requests wait for one another: open and dependent replay do not agree.
    Depends,
    /// It depends on figures of the drive that nobody tells: what is better at one end of their range is not at the other.
    DependsOnDrive,
    /// There are too few requests to tell.
    TooShort,
    /// The trace does not say when requests came.
    NoTimes,
}

/// What is to be done with a remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is recommended.
    Recommended,
    /// It is what Linux has, until what is recommended can be had.
    ForToday,
    /// Nothing.
    PassedOver,
}

/// The answer.
#[derive(Serialize)]
pub struct Advice {
    /// The trace.
    pub trace: String,
    /// The device everything was tried on.
    pub device: String,
    /// Why this one.
    pub device_reason: String,
    /// How requests arrived.
    pub replay: Replay,
    /// How much faster than recorded.
    pub intensity: f64,
    /// What total times are: "busy time" of the devices, or "total time" until all is done.
    pub total_is: &'static str,
    /// The kind of answer.
    pub verdict: Verdict,
    /// The scheduler to use; none where nothing can be said of schedulers.
    pub recommended: Option<String>,
    /// The scheduler that the disk has now, or is assumed to have: gains are measured against it.
    pub baseline: String,
    /// Whether the user named it.
    pub is_baseline_known: bool,
    /// Whether the device is a stand-in for a disk of this machine, as `device_reason` says.
    #[serde(skip)]
    pub stands_in: bool,
    /// What would keep up; none where the device does.
    pub enough: Option<Enough>,
    /// What is preferred among schedulers that nothing beats.
    pub prefer: Prefer,
    /// The one to use of those that Linux has, and how; none where nothing need be changed.
    pub today: Option<Today>,
    /// The answer in at most 25 words.
    pub headline: String,
    /// Why, in a sentence; none where nothing was simulated.
    pub why: Option<String>,
    /// The answer in full and why, one thing a paragraph; in it, lines to be copied stand alone, indented by four blanks.
    pub findings: Vec<String>,
    /// What to keep in mind when believing it.
    pub cautions: Vec<String>,
    /// How far the model is off what the recorded device did.
    pub trust: Trust,
    /// Every scheduler, that with the least total time first; as they are listed where there are too few requests to compare.
    pub ranking: Vec<Ranked>,
    /// The same under the other replay, where there is one.
    pub other_replay: Option<OtherReplay>,
    /// The flash that was tried beside the device.
    pub flash_device: String,
    /// Every kind of remedy, those that are free first.
    pub remedies: Vec<Remedy>,
    /// How large a cache has to be; none where it was not asked.
    pub cache_sizing: Option<Sizing>,
    /// What defragmentation does; none where it was not tried.
    pub defragmentation: Option<Defragmentation>,
    /// The same disk without its controller, as papers model disks; none of a device without such a form.
    pub plain: Option<Plain>,
    /// What the recommended scheduler saves where what is assumed of the drive is halved and doubled.
    pub sensitivity: Vec<Sensitivity>,
    /// Which redundancy pays on an array; none where it was not asked.
    pub redundancy: Option<Redundancy>,
    /// What the trace is like.
    pub description: Description,
    /// The runs in full, in the order schedulers are listed.
    pub runs: Vec<RunResult>,
    /// What is drawn.
    #[serde(skip)]
    pub pictures: Pictures,
}

/// Material for the report's pictures.
pub struct Pictures {
    /// (seconds, requests per second) of the trace's arrivals.
    pub arrivals: Vec<(f64, f64)>,
    /// Each run by policy name: heads and distributions.
    /// Those with flash last.
    pub runs: Vec<(String, Run)>,
    /// What the streams are called.
    pub streams: Vec<String>,
    /// Cylinders of the disk; 0 for a device without heads.
    pub cylinders: u32,
}

/// What the user chose.
#[derive(Clone, Debug)]
pub struct AdviceOptions {
    /// The scheduler that the disk has now; none if that is not known.
    pub current: Option<String>,
    /// What is preferred among schedulers that nothing beats.
    pub prefer: Prefer,
    /// The most runs at a time; fewer where what waits in them might not fit a gigabyte.
    pub jobs: usize,
    /// Whether schedulers are tried both in open and in dependent replay, where open replay is asked for and the trace
    /// has latencies.
    pub both_replays: bool,
    /// Whether the user named the device: then it is taken for the one that the trace was recorded on, and the model is
    /// compared with the recording.
    pub device_named: bool,
    /// Whether the device is fitted to the first half of the trace, and judged on the second.
    pub fit_device: bool,
}

impl Default for AdviceOptions {
    fn default() -> AdviceOptions {
        AdviceOptions {
            current: None,
            prefer: Prefer::default(),
            jobs: jobs::all(),
            both_replays: true,
            device_named: false,
            fit_device: false,
        }
    }
}

/// Shares of the work that are done when all schedulers have run, when some have on the plain disk, and
/// on drives that differ in what is assumed; then come all other remedies.
const SCHEDULERS_SHARE: f64 = 0.5;
const PLAIN_SHARE: f64 = 0.55;
const ASSUMED_SHARE: f64 = 0.7;

/// Tries every listed scheduler for `input` on `device`, and the other remedies, with `flash` for
/// those that need it, some at a time; tells `progress` now and then what is under way.
pub fn advise(
    input: &Input,
    device: &OpenDevice,
    device_reason: String,
    flash: &OpenDevice,
    setup: Setup,
    options: AdviceOptions,
    progress: Telling<'_>,
) -> Result<Advice, Error> {
    Bed { flash: Some(flash), ..Bed::of(device) }.check_flash()?;
    let current = options.current.as_deref().unwrap_or(linux_default(device));
    check_current(current)?;
    Bed::of(device).check(current)?;
    let times = Times::of(input)?;
    let setting = Setting { input, device, flash, setup, current };
    if let Some(why) = times.why_not() {
        if options.fit_device {
            let fit = named("fit_device");
            return Err(Error::Unfit(format!("{fit}: {why}; leave it out")));
        }
        let told = Told { doing: "caches of every size".to_string(), done_share: 0.0 };
        return untimed(setting, &why, &mut |_| progress(&told));
    }
    let AdviceOptions { prefer, jobs, both_replays, device_named, fit_device, .. } = options;
    let fit = fit_device.then(|| fit::fit(&setting, jobs, progress)).transpose()?;
    let (fit, fitted) = fit.map_or((None, None), |(fit, fitted)| (Some(fit), fitted));
    let device = fitted.as_ref().unwrap_or(device);
    let setting = Setting { device, ..setting };
    let unchecked = trust::why_not(&setting, device_named || fit_device);
    let judged = unchecked.is_none().then_some(current);
    let bed = Bed { slices: true, judged, ..Bed::of(device) };
    let schedulers = replays::Schedulers { current, jobs, both_replays };
    let tried = Tryouts::of(input, bed, setup, schedulers, &mut |told: &Told| {
        progress(&Told { done_share: told.done_share * SCHEDULERS_SHARE, ..told.clone() })
    })?;
    let trust = match &unchecked {
        Some(why) => Trust::unchecked(why),
        None => Trust::of(&setting, &tried, fit, &mut untold)?,
    };
    let Tryouts { leading, other } = &tried;
    let (setup, runs, results) = (leading.setup, &leading.runs, &leading.results);
    let waiting_max = results.iter().map(|run| run.figures.outstanding_max).max();
    let jobs = jobs::within_memory(jobs, input, setup, waiting_max);
    let slices: Vec<&Slices> = runs.iter().filter_map(|(_, run)| run.slices.as_ref()).collect();
    let span_s = input.description.duration_s / setup.intensity.times();
    let of_other = other.as_ref().map(|other| other.choice(prefer));
    let choice = match &of_other {
        Some(other) => leading.choice(prefer).agreeing(other),
        None => leading.choice(prefer),
    };
    let drives = Drives::of(input, device, flash);
    let elsewhere = of_other.as_ref().zip(other.as_ref().map(|other| other.setup));
    let (choice, unsure) = sensitivity::on_every_drive(
        &drives,
        choice,
        setup,
        elsewhere,
        jobs,
        &mut |told: &Told| progress(&Told { done_share: SCHEDULERS_SHARE, ..told.clone() }),
    )?;
    let (verdict, recommended) = judge::scheduler(&choice, span_s);
    let today = today(device, verdict, &choice).filter(|today| today.policy != current);
    let today = today.filter(|_| verdict == Verdict::Recommended);
    let ranking = leading.ranking(&choice, recommended.as_deref());
    let other_replay = other.as_ref().map(|other| OtherReplay::of(other, &choice, prefer));
    let baseline = choice.baseline();
    let free = results.iter().find(|result| Some(&result.policy) == recommended.as_ref());
    let free = free.unwrap_or(baseline);
    let again = worth_telling(results, &ranking, baseline, free, today.as_ref());
    let plain = Plain::of(input, device, &again, setup, jobs, &mut |told: &Told| {
        let share = PLAIN_SHARE - SCHEDULERS_SHARE;
        progress(&Told { done_share: SCHEDULERS_SHARE + told.done_share * share, ..told.clone() })
    })?;
    let sensitivity = sensitivity::sensitivity(
        &drives,
        drives.all().len(),
        [baseline, free],
        setup,
        jobs,
        &mut |told: &Told| {
            let share = ASSUMED_SHARE - PLAIN_SHARE;
            progress(&Told { done_share: PLAIN_SHARE + told.done_share * share, ..told.clone() })
        },
    )?;
    let in_slices = |run: &RunResult| {
        let at = results.iter().position(|result| result.policy == run.policy);
        at.map_or(slices[0], |at| slices[at])
    };
    let slices_of_both = [in_slices(baseline), in_slices(free)];
    let unbeaten = choice.unbeaten().into_iter();
    let rivals = unbeaten.filter(|run| ![&baseline.policy, &free.policy].contains(&&run.policy));
    let set_today =
        results.iter().find(|run| Some(&run.policy) == today.as_ref().map(|it| &it.policy));
    let trial = Trial {
        input,
        device,
        flash,
        drives: &drives,
        setup,
        baseline,
        free,
        slices: slices_of_both,
        rivals: rivals.map(|run| (run, in_slices(run))).collect(),
        today: set_today.map(|run| (run, in_slices(run))),
        other: other.as_ref(),
        prefer,
        span_s,
    };
    let Tried { remedies, sizing, defragmentation, with_flash } =
        trial.all(jobs, ASSUMED_SHARE..1.0, progress)?;
    let behind = tried.behind();
    let enough = match behind {
        Some(_) => Some(Enough::of(&setting, &remedies, span_s, progress)?),
        None => None,
    };
    let resized = remedies.iter().find(|it| it.recommended && it.kind == RemedyKind::QueueSizes);
    let rotates = device.model.cylinders() > 0;
    let today = match resized {
        Some(it) => Some(Today::of(it.scheduler(), rotates).with_queues(it.queues)),
        None => today,
    };
    let case = findings::Case {
        remedies: &remedies,
        flash,
        input,
        device,
        setup,
        results,
        other: other_replay.as_ref(),
        baseline,
        ranking: &ranking,
        verdict,
        chosen: free,
        today: today.as_ref(),
        choice: &choice,
        plain: plain.as_ref(),
        sensitivity: &sensitivity,
        unsure: &unsure,
        span_s,
        behind,
        enough: enough.as_ref(),
    };
    let (headline, why, findings) = (case.headline(), case.why(), case.findings());
    let cautions = case.cautions().into_iter().chain(times.caution()).collect();
    Ok(Advice {
        trace: input.path.display().to_string(),
        device: device.name.clone(),
        device_reason,
        replay: setup.replay,
        intensity: setup.intensity.times(),
        total_is: setup.replay.total_name(),
        verdict,
        headline,
        why: Some(why),
        findings,
        cautions,
        trust,
        flash_device: flash.name.clone(),
        cache_sizing: sizing,
        defragmentation,
        plain,
        sensitivity,
        redundancy: None,
        remedies,
        baseline: baseline.policy.clone(),
        is_baseline_known: options.current.is_some(),
        stands_in: false,
        enough,
        recommended,
        prefer,
        today,
        ranking,
        other_replay,
        description: input.description.clone(),
        pictures: Pictures {
            arrivals: input.arrival_rates(setup.intensity.times())?,
            streams: input.labels.clone(),
            cylinders: device.model.cylinders(),
            runs: tried.leading.runs.into_iter().chain(with_flash).collect(),
        },
        runs: tried.leading.results,
    })
}

impl Advice {
    /// Names the disk in commands: `node` is its kernel name, such as sdb.
    fn name_disk(&mut self, node: &str) {
        let named = |text: &mut String| *text = text.replace("nvmeXn1", node).replace("sdX", node);
        self.today.iter_mut().for_each(|today| named(&mut today.now));
        self.findings.iter_mut().for_each(named);
    }

    /// Whether `policy` is what to set today, where what is recommended is not Linux's.
    pub fn is_for_today(&self, policy: &str) -> bool {
        let is_best = |best: &str| best == policy || From::of(best) == From::Linux;
        !self.recommended.as_deref().is_some_and(is_best)
            && self.today.as_ref().is_some_and(|today| today.policy == policy)
    }

    /// What is to be done with a remedy: one of what is free, and one of what needs flash.
    pub fn standing(&self, remedy: &Remedy) -> Standing {
        let is_ours =
            self.recommended.as_deref().is_some_and(|policy| From::of(policy) == From::Forebay);
        let is_queues = |one: &Remedy| one.kind == RemedyKind::QueueSizes && one.recommended;
        match remedy.kind {
            _ if !remedy.recommended => Standing::PassedOver,
            RemedyKind::QueueSizes if is_ours => Standing::ForToday,
            // Other queues are recommended over every scheduler of Linux's.
            RemedyKind::Scheduling if !is_ours && self.remedies.iter().any(is_queues) => {
                Standing::PassedOver
            }
            _ => Standing::Recommended,
        }
    }

    /// Why each remedy is recommended, or not, or was not tried; those with one reason together.
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

/// Refuses a current scheduler that is none.
fn check_current(current: &str) -> Result<(), Error> {
    let name = current.split(':').next().unwrap_or_default();
    let known: Vec<&str> = POLICIES.iter().map(|listed| listed.name).collect();
    if !known.contains(&name) {
        let near =
            nearest(name, &known).map_or(String::new(), |near| format!("; did you mean {near}?"));
        return Err(Error::Unfit(format!(
            "{}: got '{current}', expected a scheduler, one of {}{near}",
            named("current"),
            known.join(", ")
        )));
    }
    Ok(())
}

/// What an advice is about, before anything is tried.
struct Setting<'a> {
    input: &'a Input,
    device: &'a OpenDevice,
    flash: &'a OpenDevice,
    setup: Setup,
    /// The scheduler that the disk has now.
    current: &'a str,
}

/// The advice on a trace whose times say nothing, for the reason `why`: what order alone tells.
fn untimed(setting: Setting<'_>, why: &str, progress: Progress<'_>) -> Result<Advice, Error> {
    let Setting { input, device, flash, setup, current: baseline } = setting;
    let sizing = Sizing::of(input, progress)?;
    let not_tried = "Not tried: there are no usable times.".to_string();
    let mut remedies = vec![Remedy::untried(RemedyKind::Scheduling, baseline, not_tried.clone())];
    remedies.extend(none_tried(baseline, &not_tried));
    let mut cautions = input.notes.warnings.clone();
    cautions.push(
        "A trace of the same system with arrival times (blktrace, `forebay capture`) would allow \
         an answer."
            .to_string(),
    );
    Ok(Advice {
        trace: input.path.display().to_string(),
        device: device.name.clone(),
        device_reason: "nothing was simulated on it".to_string(),
        replay: setup.replay,
        intensity: setup.intensity.times(),
        total_is: setup.replay.total_name(),
        verdict: Verdict::NoTimes,
        recommended: None,
        baseline: baseline.to_string(),
        is_baseline_known: false,
        stands_in: false,
        enough: None,
        prefer: Prefer::default(),
        today: None,
        headline: "No advice: the trace does not say when its requests came.".to_string(),
        why: None,
        findings: vec![
            format!("Nothing was simulated: {why}."),
            sizing.told(input.notes.own_block_bytes.is_some()),
        ],
        cautions,
        trust: Trust::unchecked("the trace does not tell when its requests came"),
        ranking: Vec::new(),
        other_replay: None,
        flash_device: flash.name.clone(),
        remedies,
        cache_sizing: Some(sizing),
        defragmentation: None,
        plain: None,
        sensitivity: Vec::new(),
        redundancy: None,
        description: input.description.clone(),
        runs: Vec::new(),
        pictures: Pictures {
            arrivals: Vec::new(),
            runs: Vec::new(),
            streams: Vec::new(),
            cylinders: 0,
        },
    })
}

/// The baseline, the recommended, what can be set today, and of what can be had that with the least total time: each
/// once.
fn worth_telling<'a>(
    results: &'a [RunResult],
    ranking: &[Ranked],
    baseline: &'a RunResult,
    free: &'a RunResult,
    today: Option<&Today>,
) -> Vec<&'a RunResult> {
    let named = |policy: &str| results.iter().find(|run| run.policy == policy);
    let today = today.and_then(|today| named(&today.policy));
    let fastest = ranking.iter().find(|ranked| ranked.from.is_to_be_had());
    let fastest = fastest.and_then(|ranked| named(&ranked.policy));
    let mut told: Vec<&RunResult> = Vec::new();
    for run in [Some(baseline), Some(free), today, fastest].into_iter().flatten() {
        if !told.iter().any(|other| other.policy == run.policy) {
            told.push(run);
        }
    }
    told
}

/// What to set on Linux: nothing where all that it has comes to the same.
fn today(device: &OpenDevice, verdict: Verdict, choice: &Choice<'_>) -> Option<Today> {
    let rotates = device.model.cylinders() > 0;
    let policy = match verdict {
        Verdict::Recommended | Verdict::BaselineIsBest => choice.today(),
        // Flash may have another set: then the baseline is as good and takes less of the processor.
        Verdict::LoadTooLow
        | Verdict::NothingToGain
        | Verdict::Depends
        | Verdict::DependsOnDrive => choice.today().filter(|_| !rotates || choice.differs_today()),
        Verdict::TooShort | Verdict::NoTimes => None,
    };
    policy.map(|policy| Today::of(policy, rotates))
}
