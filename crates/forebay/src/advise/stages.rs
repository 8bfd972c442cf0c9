//! The stages of `advise`: simulates the schedulers, compares them, simulates what else might help,
//! and puts the results into words.

use std::ops::{ControlFlow, Range};

use forebay_ask::named;
use forebay_core::Device;

use super::replays::{self, Tryouts};
use super::sensitivity::{self, Unsure};
use super::{
    Advice, AdviceOptions, Case, Choice, DeviceFit, Disturbance, Drives, Enough, Need, OtherReplay,
    Pictures, Plain, Ranked, RecordedSpeed, Remedy, RemedyKind, Sensitivity, Setting, Today, Trial,
    Tried, Trust, Uncertain, Verdict, check_flash_size, fit, headline, judge, linux_default, today,
    trust, untimed, worth_telling,
};
use crate::clock::Times;
use crate::progress::{ProgressReport, Telling, untold};
use crate::slices::Slices;
use crate::throttling::Throttling;
use crate::{Bed, Error, Input, OpenDevice, RunResult, Setup, jobs};

/// The progress bar's position, as a share of all work, when the schedulers' runs are complete; then
/// those on drives with other catch margins, on the plain disk, on drives with other assumed
/// parameters, with the remaining remedies, and without one of two streams that disturb each other.
/// The search for a configuration that keeps up follows.
const SCHEDULERS_SHARE: f64 = 0.4;
const MARGINS_SHARE: f64 = 0.52;
const PLAIN_SHARE: f64 = 0.56;
const ASSUMED_SHARE: f64 = 0.7;
const REMEDIES_SHARE: f64 = 0.87;
const STREAMS_SHARE: f64 = 0.92;

/// Returns a progress callback for the part of the work between two positions of the bar.
fn part(
    share: Range<f64>,
    progress: Telling<'_>,
) -> impl FnMut(&ProgressReport) -> ControlFlow<()> {
    move |told: &ProgressReport| {
        let done_share = share.start + told.done_share * (share.end - share.start);
        progress(&ProgressReport { done_share, ..told.clone() })
    }
}

/// Simulates every listed scheduler for `input` on `device`, then the other remedies, adding
/// `flash` where a remedy needs flash. Makes several runs in parallel, and reports its activity to
/// `progress`.
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
    super::check_current(current)?;
    Bed::of(device).check(current)?;
    let times = Times::of(input)?;
    let flash_bytes = options.flash_bytes;
    check_flash_size(flash, flash_bytes)?;
    let setting = Setting { input, device, flash, flash_bytes, setup, current };
    if let Some(why) = times.why_not() {
        if options.fit_device {
            let fit = named("fit_device");
            return Err(Error::Unfit(format!("{fit}: {why}; leave it out")));
        }
        let told = ProgressReport { doing: "caches of every size".to_string(), done_share: 0.0 };
        return untimed::advice(&setting, times, &why, &mut |_| progress(&told));
    }
    let fit = options.fit_device.then(|| fit::fit(&setting, options.jobs, progress)).transpose()?;
    let (fit, fitted) = fit.map_or((None, None), |(fit, fitted)| (Some(fit), fitted));
    let setting = Setting { device: fitted.as_ref().unwrap_or(device), ..setting };
    let (tried, trust) = try_schedulers(&setting, times, fit, &options, progress)?;
    let compared = Comparison::of(&setting, &tried, &options, progress)?;
    let others = Others::of(&setting, &tried, &compared, &options, progress)?;
    let mut advice = in_words(&setting, &tried, compared, others, trust, &options)?;
    advice.device_reason = device_reason;
    advice.cautions.extend(times.caution());
    advice.pictures.runs.splice(0..0, tried.leading.runs);
    advice.runs = tried.leading.results;
    Ok(advice)
}

/// Simulates the schedulers, and compares the model with the recording.
fn try_schedulers(
    setting: &Setting<'_>,
    times: Times,
    fit: Option<DeviceFit>,
    options: &AdviceOptions,
    progress: Telling<'_>,
) -> Result<(Tryouts, Trust), Error> {
    let Setting { input, device, setup, current, .. } = *setting;
    let unchecked = trust::why_not(setting, options.device_named || options.fit_device);
    let judged = unchecked.is_none().then_some(current);
    let bed = Bed { slices: true, judged, ..Bed::of(device) };
    let schedulers = replays::Schedulers {
        current,
        jobs: options.jobs,
        both_replays: options.both_replays,
        clock_step_ms: times.step().as_millis_f64() / setup.intensity.times(),
    };
    let share = 0.0..SCHEDULERS_SHARE;
    let tried = Tryouts::of(input, bed, setup, schedulers, &mut part(share, progress))?;
    let trust = match &unchecked {
        Some(why) => Trust::unchecked(why),
        None => Trust::of(setting, &tried, fit, &mut untold)?,
    };
    let trust = trust.with_recorded(setting, &tried).with_clock(times);
    let trust = trust.with_runs(&input.description);
    Ok((tried, trust))
}

/// The schedulers compared, and which of them is recommended.
struct Comparison<'a> {
    /// The leading replay.
    setup: Setup,
    /// The maximum number of parallel runs that fit into memory.
    jobs: usize,
    /// The other drives that the device might be.
    drives: Drives<'a>,
    choice: Choice<'a>,
    unsure: Vec<Unsure>,
    /// The time from the first arrival to the last, in seconds.
    span_s: f64,
    /// The baseline's run with the recorded arrivals, if the device cannot keep up with them.
    behind: Option<&'a RunResult>,
    need: Need,
    verdict: Verdict,
    recommended: Option<String>,
    baseline: &'a RunResult,
    /// The run of the recommended scheduler; the baseline's run if none is recommended.
    free: &'a RunResult,
    today: Option<Today>,
    ranking: Vec<Ranked>,
    other_replay: Option<OtherReplay>,
    uncertain: Option<Uncertain>,
}

impl<'a> Comparison<'a> {
    fn of(
        setting: &Setting<'a>,
        tried: &'a Tryouts,
        options: &AdviceOptions,
        progress: Telling<'_>,
    ) -> Result<Comparison<'a>, Error> {
        let Setting { input, device, flash, current, .. } = *setting;
        let (prefer, Tryouts { leading, other }) = (options.prefer, tried);
        let (setup, results) = (leading.setup, &leading.results);
        let waiting_max = results.iter().map(|run| run.figures.outstanding_max).max();
        let jobs = jobs::within_memory(options.jobs, input, setup, waiting_max);
        let span_s = input.description.duration_s / setup.intensity.times();
        let of_other = other.as_ref().map(|other| other.choice(prefer));
        let choice = match &of_other {
            Some(other) => leading.choice(prefer).agreeing(other),
            None => leading.choice(prefer),
        };
        let drives = Drives::of(input, device, flash);
        let elsewhere = of_other.as_ref().zip(other.as_ref().map(|other| other.setup));
        let mut tell = part(SCHEDULERS_SHARE..MARGINS_SHARE, progress);
        let (choice, unsure) =
            sensitivity::on_every_drive(&drives, choice, setup, elsewhere, jobs, &mut tell)?;
        let behind = tried.behind().filter(|_| judge::shows_overload(span_s));
        let recorded = Some(&input.description).filter(|_| setup.intensity.times() == 1.0);
        let baseline = choice.baseline();
        let need = Need::of(baseline, span_s, recorded, behind.is_some());
        let (verdict, recommended) = judge::scheduler(&choice, span_s, &need);
        let today = today(device, verdict, &choice).filter(|today| today.policy != current);
        let other_replay = other.as_ref().map(|other| OtherReplay::of(other, &choice, prefer));
        let uncertain = Uncertain::of(verdict, &choice, other_replay.as_ref(), &unsure);
        let free = results.iter().find(|result| Some(&result.policy) == recommended.as_ref());
        Ok(Comparison {
            today: today.filter(|_| verdict == Verdict::Recommended),
            ranking: leading.ranking(&choice, recommended.as_deref()),
            free: free.unwrap_or(baseline),
            setup,
            jobs,
            drives,
            choice,
            unsure,
            span_s,
            behind,
            need,
            verdict,
            recommended,
            baseline,
            other_replay,
            uncertain,
        })
    }

    /// Returns what the other remedies are compared with.
    fn trial<'b>(
        &'b self,
        setting: &Setting<'b>,
        tried: &'b Tryouts,
        options: &AdviceOptions,
    ) -> Trial<'b> {
        let (leading, [baseline, free]) = (&tried.leading, [self.baseline, self.free]);
        let slices: Vec<&Slices> =
            leading.runs.iter().filter_map(|(_, run)| run.slices.as_ref()).collect();
        let in_slices =
            |run: &RunResult| leading.run(&run.policy).map_or(slices[0], |(_, own)| own);
        let unbeaten = self.choice.unbeaten().into_iter();
        let rivals =
            unbeaten.filter(|run| ![&baseline.policy, &free.policy].contains(&&run.policy));
        Trial {
            input: setting.input,
            device: setting.device,
            flash: setting.flash,
            flash_bytes: setting.flash_bytes,
            drives: &self.drives,
            setup: self.setup,
            baseline,
            free,
            slices: [in_slices(baseline), in_slices(free)],
            rivals: rivals.map(|run| (run, in_slices(run))).collect(),
            today: self.today.as_ref().and_then(|today| leading.run(&today.policy)),
            other: tried.other.as_ref(),
            prefer: options.prefer,
            span_s: self.span_s,
            need: &self.need,
        }
    }
}

/// What was simulated beside the schedulers.
struct Others {
    plain: Option<Plain>,
    sensitivity: Vec<Sensitivity>,
    tried: Tried,
    disturbances: Vec<Disturbance>,
    enough: Option<Enough>,
    throttling: Option<Throttling>,
}

impl Others {
    fn of(
        setting: &Setting<'_>,
        tried: &Tryouts,
        compared: &Comparison<'_>,
        options: &AdviceOptions,
        progress: Telling<'_>,
    ) -> Result<Others, Error> {
        let Setting { input, device, .. } = *setting;
        let &Comparison { setup, jobs, ref drives, span_s, ref need, baseline, free, .. } =
            compared;
        let today = compared.today.as_ref();
        let again = worth_telling(&tried.leading.results, &compared.ranking, baseline, free, today);
        let share = MARGINS_SHARE..PLAIN_SHARE;
        let plain = Plain::of(input, device, &again, setup, jobs, &mut part(share, progress))?;
        let is_large = input.description.records > replays::LARGE_REQUESTS;
        let varied = if is_large { drives.at_margins() } else { drives.all() };
        let runs = [baseline, free];
        let mut tell = part(PLAIN_SHARE..ASSUMED_SHARE, progress);
        let sensitivity =
            sensitivity::sensitivity(drives, varied.len(), runs, setup, jobs, &mut tell)?;
        drop(tell);
        let trial = compared.trial(setting, tried, options);
        let found = trial.all(jobs, ASSUMED_SHARE..REMEDIES_SHARE, progress)?;
        let disturbances = match compared.verdict {
            Verdict::TooShort => Vec::new(),
            _ => {
                let parts = (jobs, REMEDIES_SHARE..STREAMS_SHARE);
                Disturbance::measured(setting, baseline, setup, need, parts, progress)?
            }
        };
        let mut tell = part(STREAMS_SHARE..1.0, progress);
        let enough =
            compared.behind.map(|_| Enough::of(setting, &found.remedies, span_s, &mut tell));
        let throttling = Throttling::of(input, device, setup.intensity.times())?;
        let enough = enough.transpose()?;
        Ok(Others { plain, sensitivity, tried: found, disturbances, enough, throttling })
    }
}

/// Collects the results for putting them into words.
fn case<'a>(
    setting: &Setting<'a>,
    tried: &'a Tryouts,
    compared: &'a Comparison<'_>,
    others: &'a Others,
    today: Option<&'a Today>,
    is_checked: bool,
) -> Case<'a> {
    Case {
        throttling: others.throttling.as_ref(),
        remedies: &others.tried.remedies,
        flash: setting.flash,
        input: setting.input,
        device: setting.device,
        setup: compared.setup,
        results: &tried.leading.results,
        other: compared.other_replay.as_ref(),
        baseline: compared.baseline,
        ranking: &compared.ranking,
        verdict: compared.verdict,
        chosen: compared.free,
        today,
        choice: &compared.choice,
        plain: others.plain.as_ref(),
        sensitivity: &others.sensitivity,
        unsure: &compared.unsure,
        uncertain: compared.uncertain.as_ref(),
        span_s: compared.span_s,
        behind: compared.behind,
        enough: others.enough.as_ref(),
        is_checked,
        need: &compared.need,
        disturbances: &others.disturbances,
        sizing: others.tried.sizing.as_ref(),
        flash_named: setting.flash_bytes,
    }
}

/// Builds the advice, without the schedulers' runs and the reason for the device.
fn in_words(
    setting: &Setting<'_>,
    tried: &Tryouts,
    compared: Comparison<'_>,
    others: Others,
    trust: Trust,
    options: &AdviceOptions,
) -> Result<Advice, Error> {
    let Setting { input, device, flash, flash_bytes, current: _, setup: _ } = *setting;
    let resizes = |it: &&Remedy| it.recommended && it.kind == RemedyKind::QueueSizes;
    let resized = others.tried.remedies.iter().find(resizes);
    let rotates = device.model.cylinders() > 0;
    let today = match resized {
        Some(it) => Some(Today::of(it.scheduler(), rotates).with_queues(it.queues)),
        None => compared.today.clone(),
    };
    let case = case(setting, tried, &compared, &others, today.as_ref(), trust.is_checked);
    let headline = case.headline();
    let (why, findings, cautions) = (Some(case.why(&headline)), case.findings(), case.cautions());
    let (is_saturated, setup) = (case.is_saturated(), compared.setup);
    let speed = RecordedSpeed::of(&input.description, compared.baseline);
    let is_far = |speed: RecordedSpeed| speed.times() >= headline::TIMES_MUCH_FASTER;
    let Tried { remedies, sizing, defragmentation, with_flash } = others.tried;
    Ok(Advice {
        trace: input.path.display().to_string(),
        device: device.name.clone(),
        device_reason: String::new(),
        replay: setup.replay,
        intensity: setup.intensity.times(),
        total_is: setup.replay.total_name(),
        verdict: compared.verdict,
        recommended: compared.recommended,
        baseline: compared.baseline.policy.clone(),
        is_baseline_known: options.current.is_some(),
        stands_in: false,
        is_device_default: false,
        is_flash_size_named: flash_bytes.is_some(),
        is_other_device: speed.is_some_and(|speed| !trust.is_checked || is_far(speed)),
        is_saturated,
        enough: others.enough,
        uncertain: compared.uncertain,
        prefer: options.prefer,
        today,
        headline,
        why,
        findings,
        cautions,
        trust,
        disturbances: others.disturbances,
        ranking: compared.ranking,
        other_replay: compared.other_replay,
        flash_device: flash.name.clone(),
        remedies,
        cache_sizing: sizing,
        defragmentation,
        plain: others.plain,
        sensitivity: others.sensitivity,
        throttling: others.throttling,
        redundancy: None,
        description: input.description.clone(),
        runs: Vec::new(),
        pictures: Pictures {
            arrivals: input.arrival_rates(setup.intensity.times())?,
            streams: input.labels.clone(),
            cylinders: device.model.cylinders(),
            runs: with_flash,
        },
    })
}
