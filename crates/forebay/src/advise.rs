//! The verb `advise`, the main job: describe a trace, try every scheduler on a disk, rank them by
//! total time with the tail beside it; try defragmentation, and flash for offloading and caching;
//! explain, and recommend, or say that nothing is to be gained.
//!
//! *Total time* is the time the disk works under open replay (arrivals are given, so that is what a
//! scheduler can save) and the time to the last completion under closed replay.

use forebay_core::Device;
use forebay_core::policy::POLICIES;
use forebay_trace::describe::Description;
use serde::Serialize;

use crate::defragment::Defragmentation;
use crate::devices::{self, OpenDevice};
use crate::error::Error;
use crate::input::Input;
use crate::place::Placement;
use crate::progress::GoOn;
use crate::simulate::{Replay, Run, RunResult, Setup, run_with};

mod remedies;
mod sizing;
mod words;

pub use remedies::{Remedy, RemedyKind};
use remedies::{Trial, Tried};
pub use sizing::Sizing;

/// Less than this share of the total is called no difference.
const SHARE_THAT_MATTERS: f64 = 0.03;
/// Tails this much apart (as a share) are called different.
const TAIL_THAT_MATTERS: f64 = 0.2;
/// Below this utilisation requests seldom meet.
const UTILISATION_THAT_MATTERS: f64 = 0.1;
/// Totals this close are called equal; a tail that differs decides.
const EQUAL_SHARE: f64 = 0.01;
/// With fewer requests a 99th percentile is a matter of a handful of them.
const REQUESTS_THAT_MATTER: u64 = 1000;

/// With fewer nothing is recommended.
const TOO_FEW: u64 = 100;
/// The flash that is tried unless another is named: a present-day drive for servers.
const FLASH: &str = "d7-p5520";

/// The baseline that gains are measured against.
pub const BASELINE: &str = "noop";

/// One scheduler's place.
#[derive(Clone, Debug, Serialize)]
pub struct Ranked {
    /// The scheduler.
    pub policy: String,
    /// Total time.
    pub total_s: f64,
    /// Share of the baseline's total time saved; negative when it takes longer.
    pub gain_share: f64,
    /// Read latency that 99 % do not exceed.
    pub read_p99_ms: Option<f64>,
    /// Write latency that 99 % do not exceed.
    pub write_p99_ms: Option<f64>,
    /// The longest time from admission to completion.
    pub longest_wait_ms: f64,
}

/// What kind of answer it is, as far as schedulers go; other remedies say it each for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// A scheduler saves time or tail.
    Recommended,
    /// First in, first out is best, and others do worse.
    BaselineIsBest,
    /// The trace does not load the disk enough for scheduling to matter.
    LoadTooLow,
    /// Every scheduler comes to the same.
    NothingToGain,
    /// There are too few requests to tell.
    TooShort,
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
    /// The kind of answer.
    pub verdict: Verdict,
    /// The scheduler to use.
    pub recommended: String,
    /// The answer in a sentence or two.
    pub headline: String,
    /// Why, one thing a paragraph.
    pub findings: Vec<String>,
    /// What to keep in mind when believing it.
    pub cautions: Vec<String>,
    /// Every scheduler, best first.
    pub ranking: Vec<Ranked>,
    /// The flash that was tried beside the device.
    pub flash_device: String,
    /// Every kind of remedy, those that are free first.
    pub remedies: Vec<Remedy>,
    /// How large a cache has to be; none where it was not asked.
    pub cache_sizing: Option<Sizing>,
    /// What defragmentation does; none where it was not tried.
    pub defragmentation: Option<Defragmentation>,
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
    pub runs: Vec<(String, Run)>,
    /// Cylinders of the disk; 0 for a device without heads.
    pub cylinders: u32,
}

/// Chooses the smallest of the general bundled drives ([`devices::general`]) that holds the trace,
/// with the reason.
pub fn default_device(input: &Input) -> Result<(OpenDevice, String), Error> {
    let mut chosen = None;
    for device in devices::general()? {
        let placement = Placement::new(&input.extents, device.model.capacity(), Default::default());
        let fits = !placement.is_beyond();
        let reason = if fits {
            "the smallest of the general bundled drives that holds the trace".to_string()
        } else {
            "the largest of the general bundled drives; the trace reaches beyond it (see --map)"
                .to_string()
        };
        chosen = Some((device, reason));
        if fits {
            break;
        }
    }
    chosen.ok_or_else(|| Error::Unfit("no drives are bundled".to_string()))
}

/// The flash to try where nobody names one.
pub fn default_flash() -> Result<OpenDevice, Error> {
    Ok(devices::open(FLASH)?)
}

/// Tries every listed scheduler for `input` on `device`, and the other remedies, with `flash` for
/// those that need it; tells `progress` the name of each before it is tried and now and then while it
/// is.
pub fn advise<P: GoOn>(
    input: &Input,
    device: &OpenDevice,
    device_reason: String,
    flash: &OpenDevice,
    setup: Setup,
    mut progress: impl FnMut(&str) -> P,
) -> Result<Advice, Error> {
    let mut runs = Vec::new();
    for listed in POLICIES {
        if progress(listed.name).stops() {
            return Err(Error::Stopped);
        }
        let run = run_with(input, device, listed.name, setup, |_| progress(listed.name))?;
        runs.push((listed.name.to_string(), run));
    }
    let results: Vec<RunResult> = runs.iter().map(|(_, run)| run.result.clone()).collect();
    let ranking = rank(&results);
    let (verdict, recommended) = judge(&results, &ranking);
    let free = results.iter().find(|result| result.policy == recommended);
    let baseline = baseline(&results);
    let free = free.unwrap_or(baseline);
    let trial = Trial { input, device, flash, setup, baseline, free };
    let Tried { remedies, sizing, defragmentation } = trial.all(progress)?;
    let case = words::Case {
        remedies: &remedies,
        flash,
        input,
        device,
        setup,
        results: &results,
        ranking: &ranking,
        verdict,
        recommended: &recommended,
    };
    Ok(Advice {
        trace: input.path.display().to_string(),
        device: device.name.clone(),
        device_reason,
        replay: setup.replay,
        verdict,
        headline: case.headline(),
        findings: case.findings(),
        cautions: case.cautions(),
        flash_device: flash.name.clone(),
        cache_sizing: sizing,
        defragmentation,
        remedies,
        recommended,
        ranking,
        description: input.description.clone(),
        pictures: Pictures {
            arrivals: arrivals(input)?,
            runs,
            cylinders: device.model.cylinders(),
        },
        runs: results,
    })
}

/// Total time of a run: what a scheduler can change.
pub fn total_s(result: &RunResult) -> f64 {
    match result.replay {
        Replay::Open | Replay::Dependent => result.figures.busy_s,
        Replay::Closed => result.figures.makespan_s,
    }
}

/// By total time; equal ones keep the order of the list, which is simplest first.
fn rank(results: &[RunResult]) -> Vec<Ranked> {
    let baseline = baseline(results);
    let mut ranking: Vec<Ranked> = results.iter().map(|run| ranked(run, baseline)).collect();
    ranking.sort_by(|a, b| a.total_s.total_cmp(&b.total_s));
    ranking
}

/// A run's place, its gain against `baseline`.
fn ranked(result: &RunResult, baseline: &RunResult) -> Ranked {
    Ranked {
        policy: result.policy.clone(),
        total_s: total_s(result),
        // Adding zero turns -0.0 into 0.0.
        gain_share: 1.0 - total_s(result) / total_s(baseline).max(1e-9) + 0.0,
        read_p99_ms: result.figures.read_p99_ms,
        write_p99_ms: result.figures.write_p99_ms,
        longest_wait_ms: result.figures.longest_wait_ms,
    }
}

fn baseline(results: &[RunResult]) -> &RunResult {
    results.iter().find(|result| result.policy == BASELINE).unwrap_or(&results[0])
}

/// The 99th percentile that people wait for: reads where there are any, else writes.
fn tail_ms(read_p99_ms: Option<f64>, write_p99_ms: Option<f64>) -> f64 {
    read_p99_ms.or(write_p99_ms).unwrap_or(0.0)
}

fn judge(results: &[RunResult], ranking: &[Ranked]) -> (Verdict, String) {
    let baseline = baseline(results);
    let tail = |ranked: &Ranked| tail_ms(ranked.read_p99_ms, ranked.write_p99_ms);
    let baseline_tail = tail_ms(baseline.figures.read_p99_ms, baseline.figures.write_p99_ms);
    let utilisation = baseline.figures.busy_s / baseline.figures.makespan_s.max(1e-9);
    // Where the disk keeps up, its time is worth less than people's.
    let keeps_up = baseline.replay == Replay::Open && utilisation < KEEPS_UP;
    let bearable = |one: &&Ranked| !keeps_up || tail(one) <= baseline_tail * TAIL_BEARABLE;
    let first = ranking.iter().find(bearable).unwrap_or(&ranking[0]);
    let best_tail = |share: f64| {
        let close = ranking.iter().filter(|one| one.total_s <= first.total_s * (1.0 + share));
        close.min_by(|a, b| tail(a).total_cmp(&tail(b))).unwrap_or(first)
    };
    let calmest = best_tail(SHARE_THAT_MATTERS);
    let tail_helps = tail(calmest) <= baseline_tail * (1.0 - TAIL_THAT_MATTERS)
        && baseline.figures.requests >= REQUESTS_THAT_MATTER
        && !harms(calmest, baseline);
    let stay = baseline.policy.clone();
    if baseline.figures.requests < TOO_FEW {
        return (Verdict::TooShort, stay);
    }
    if utilisation < UTILISATION_THAT_MATTERS && !tail_helps {
        return (Verdict::LoadTooLow, stay);
    }
    if first.gain_share >= SHARE_THAT_MATTERS {
        let equal = best_tail(EQUAL_SHARE);
        let calmer = tail(equal) <= tail(first) * (1.0 - TAIL_THAT_MATTERS);
        return (Verdict::Recommended, if calmer { equal } else { first }.policy.clone());
    }
    if tail_helps {
        return (Verdict::Recommended, calmest.policy.clone());
    }
    let worst = ranking.iter().map(|ranked| -ranked.gain_share).fold(0.0, f64::max);
    if worst >= SHARE_THAT_MATTERS {
        return (Verdict::BaselineIsBest, stay);
    }
    (Verdict::NothingToGain, stay)
}

/// A disk that is busy less than this share of the time keeps up with its requests.
const KEEPS_UP: f64 = 0.95;
/// On a disk that keeps up, nothing is recommended that makes the tail more than so many times longer.
const TAIL_BEARABLE: f64 = 2.0;

/// Whether a scheduler that helps one tail makes another one worse.
fn harms(ranked: &Ranked, baseline: &RunResult) -> bool {
    let worse = |now: f64, before: f64| now > before * (1.0 + TAIL_THAT_MATTERS);
    let writes = ranked.write_p99_ms.zip(baseline.figures.write_p99_ms);
    writes.is_some_and(|(now, before)| worse(now, before))
        || worse(ranked.longest_wait_ms, baseline.figures.longest_wait_ms)
}

/// Arrival rate over time, in at most 600 steps.
fn arrivals(input: &Input) -> Result<Vec<(f64, f64)>, Error> {
    const STEPS: usize = 600;
    let step_s = (input.description.duration_s / STEPS as f64).max(1e-6);
    let mut counts = vec![0u64; STEPS];
    for record in input.records()? {
        let step = (record.at.as_secs_f64() / step_s) as usize;
        counts[step.min(STEPS - 1)] += 1;
    }
    let rate = |(step, count): (usize, &u64)| (step as f64 * step_s, *count as f64 / step_s);
    Ok(counts.iter().enumerate().map(rate).collect())
}
