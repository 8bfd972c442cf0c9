//! Implements `--fit-device`: fits the few disk parameters that data sheets do not state to the
//! first half of the trace, and evaluates the fit on the second half.
//!
//! The search is deterministic. It starts with a coarse grid over all three parameters, because a
//! slower medium and a larger margin can compensate for each other. Starting from the best grid
//! point, it then sets one parameter after another to the value with the least *misfit*: the
//! absolute logarithm of modeled over recorded latency, averaged over the p50 and p99 of reads and
//! writes.

use forebay_ask::named;
use forebay_core::{DeviceModel, Nanos};
use serde::Serialize;

use super::Setting;
use super::judge::TOO_FEW;
use super::trust::{is_far, off};
use crate::jobs::{self, side_by_side};
use crate::quantities::{counted, significant};
use crate::replayed::Replay;
use crate::retrodict::{DirectionAnswer, Retrodiction, retrodict_part};
use crate::{Bed, Error, OpenDevice, Setup, Telling};

/// The maximum number of requests per run of the search, counted from the start of the trace.
const FITTED_MOST: u64 = 20_000;
/// The maximum number of requests that the fit is evaluated on, counted from the start of the
/// second half.
const JUDGED_MOST: u64 = 200_000;
/// How many times the search refines each parameter.
const ROUNDS: usize = 2;
/// The media rates to try, relative to the rate in the device file.
const RATES: [f64; 7] = [1.0, 0.7, 0.8, 0.9, 1.1, 1.25, 1.4];
/// The catch margins to try, in revolutions. With 0, the drive counts on reaching every sector in
/// time; with the last one, it gains the least from its queue.
const MARGINS: [f64; 7] = [0.0, 0.08, 0.16, 0.25, 0.33, 0.4, 0.45];

/// A device that was fitted to the first half of a trace.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceFit {
    /// The fit in a few sentences, for the report.
    pub said: String,
    /// Whether the fitted device has its write cache on; `None` for a disk without a write cache.
    pub write_cache: Option<bool>,
    /// The fitted media rate, relative to the rate in the device file.
    pub media_rate_times: f64,
    /// The fitted catch margin: how long before a sector passes the head must arrive for the drive
    /// to count on that sector. `None` for a disk without command queueing.
    pub catch_margin_ms: Option<f64>,
    /// How many requests of the first half the device was fitted to.
    pub fitted_requests: u64,
    /// The number of runs made by the search.
    pub runs: u64,
    /// How the model from the device file compares with the second half of the recording.
    pub unfitted: Retrodiction,
    /// How the fitted model compares with the second half of the recording.
    pub fitted: Retrodiction,
    /// The misfit of the unfitted model on the second half, as the geometric mean of the relative
    /// errors of its figures.
    pub unfitted_error_share: f64,
    /// The misfit of the fitted model on the second half, as the geometric mean of the relative
    /// errors of its figures.
    pub fitted_error_share: f64,
    /// Whether `advise` uses the fitted model. It does if that model is closer to the second half
    /// than the unfitted one.
    pub is_used: bool,
}

/// One setting of the fitted parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Figures {
    /// Whether to turn off a write cache that is on in the device file.
    write_cache_off: bool,
    rate_times: f64,
    /// The catch margin in revolutions; `None` keeps the device file's margin.
    catch_margin: Option<f64>,
}

impl Figures {
    const AS_SAID: Figures =
        Figures { write_cache_off: false, rate_times: 1.0, catch_margin: None };

    /// Returns the device with these parameters; `None` if the device does not support them.
    fn of(self, device: &OpenDevice) -> Option<OpenDevice> {
        let mut device = device.clone();
        let name = device.name.clone();
        if self.write_cache_off {
            device = device.without_write_cache()?;
        }
        if self.rate_times != 1.0 {
            device = device.at_media_rate(self.rate_times)?;
        }
        if let Some(turns) = self.catch_margin {
            let margin = device.revolution()?.as_secs_f64() * turns;
            device = device.at_catch_margin(Nanos::from_secs_f64(margin))?;
        }
        device.name = format!("{name} as fitted");
        Some(device)
    }

    /// Returns the coarse grid of parameters at which the search begins.
    fn grid() -> Vec<Figures> {
        let mut grid = Vec::new();
        for write_cache_off in [false, true] {
            for rate_times in [1.0, 0.8, 1.25] {
                for catch_margin in [None, Some(0.0), Some(0.16), Some(0.33)] {
                    grid.push(Figures { write_cache_off, rate_times, catch_margin });
                }
            }
        }
        grid
    }

    /// Returns variants of these parameters that differ in one of them: the margin or the media
    /// rate, alternating with `step`.
    fn refined(self, step: usize) -> Vec<Figures> {
        if step.is_multiple_of(2) {
            return MARGINS.map(|margin| Figures { catch_margin: Some(margin), ..self }).to_vec();
        }
        RATES.map(|rate_times| Figures { rate_times, ..self }).to_vec()
    }

    /// Describes these parameters in words. The device `fitted` is `device` with these parameters.
    fn told(self, device: &OpenDevice, fitted: &OpenDevice) -> String {
        let cache = match (device.without_write_cache().is_some(), self.write_cache_off) {
            (false, _) => String::new(),
            (true, off) => format!("write cache {}, ", if off { "off" } else { "on" }),
        };
        let margin = fitted.catch_margin().map_or(String::new(), |margin| {
            format!(", catch_margin_ms = {}", significant(margin.as_millis_f64()))
        });
        format!("{cache}media rate times {}{margin}", significant(self.rate_times))
    }
}

/// The state of the search, and the recording with which models are compared.
struct Search<'a> {
    setting: &'a Setting<'a>,
    setup: Setup,
    jobs: usize,
    requests: u64,
    /// Every set of parameters that was tried, with its misfit.
    tried: Vec<(Figures, f64)>,
}

/// Fits the device to the first half of the trace. Returns the fitted device if it is closer to the
/// second half than the unfitted device.
///
/// # Errors
/// Fails if there is nothing to fit: the device is no disk, the trace has no latencies or too few
/// requests, or the replay speed differs from the recorded one.
pub(super) fn fit(
    setting: &Setting<'_>,
    jobs: usize,
    progress: Telling<'_>,
) -> Result<(DeviceFit, Option<OpenDevice>), Error> {
    refuse(setting)?;
    let Setting { input, device, setup, .. } = setting;
    let half = input.description.records / 2;
    let requests = half.min(FITTED_MOST);
    let mut search = Search { setting, setup: *setup, jobs, requests, tried: Vec::new() };
    search.choose_replay()?;
    let best = search.best(progress)?;
    let fitted = best.of(device).unwrap_or_else(|| (*device).clone());
    let judge = |device: &OpenDevice| {
        let wanted = half..half.saturating_add(JUDGED_MOST);
        let (bed, policy) = (Bed::of(device), setting.current);
        let mut quiet = crate::progress::untold;
        retrodict_part(input, bed, policy, search.setup, wanted, &mut quiet)
    };
    let judged = jobs::on_all_cores(&[*device, &fitted], |device| judge(device))?;
    let [unfitted, of_fitted] = &judged[..] else { return Err(too_few(setting)) };
    let errors = misfit(unfitted).zip(misfit(of_fitted)).ok_or_else(|| too_few(setting))?;
    let is_used = best != Figures::AS_SAID && errors.1 < errors.0;
    let [unfitted_error_share, fitted_error_share] = [errors.0, errors.1].map(|of| of.exp() - 1.0);
    let mut fit = DeviceFit {
        said: String::new(),
        write_cache: device.without_write_cache().map(|_| !best.write_cache_off),
        media_rate_times: best.rate_times,
        catch_margin_ms: fitted.catch_margin().map(Nanos::as_millis_f64),
        fitted_requests: requests,
        runs: search.tried.len() as u64,
        unfitted: unfitted.clone(),
        fitted: of_fitted.clone(),
        unfitted_error_share,
        fitted_error_share,
        is_used,
    };
    fit.said = fit.told(device, &best.told(device, &fitted));
    Ok((fit, is_used.then_some(fitted)))
}

impl DeviceFit {
    fn told(&self, device: &OpenDevice, figures: &str) -> String {
        let of = |one: &Retrodiction| off(one).unwrap_or_default();
        let (used, name, unused, other) = match self.is_used {
            true => (&self.fitted, "fitted", &self.unfitted, "unfitted"),
            false => (&self.unfitted, "unfitted", &self.fitted, "fitted"),
        };
        let little = if is_far(used) { "Little: " } else { "" };
        let on = if little.is_empty() { "On" } else { "on" };
        let why = match self.is_used {
            true => "",
            false => "The fitted model is no closer there, so the answer uses the unfitted one. ",
        };
        format!(
            "{little}{on} the second half of the trace, which the fit has not seen, the {name} {}. \
             There the {other} {}. {why}The typical error is a factor of {} without fitting, and \
             of {} after fitting to {} of the first half: {figures}. This assumes that your disk \
             is {} under {}, in {} replay.",
            of(used),
            of(unused),
            significant(1.0 + self.unfitted_error_share),
            significant(1.0 + self.fitted_error_share),
            counted(self.fitted_requests, "request"),
            device.name,
            self.fitted.policy,
            self.fitted.replay.name(),
        )
    }
}

impl Search<'_> {
    /// Chooses the replay for the fit: the one that the user named; otherwise open replay, or
    /// dependent replay if the unfitted model cannot keep up in open replay.
    fn choose_replay(&mut self) -> Result<(), Error> {
        let first = self.run(self.setting.device)?;
        if first.is_overloaded && self.setup.replay == Replay::Open {
            self.setup.replay = Replay::Dependent;
        }
        Ok(())
    }

    fn run(&self, device: &OpenDevice) -> Result<Retrodiction, Error> {
        let (bed, policy) = (Bed::of(device), self.setting.current);
        let mut quiet = crate::progress::untold;
        let wanted = 0..self.requests;
        retrodict_part(self.setting.input, bed, policy, self.setup, wanted, &mut quiet)
    }

    /// Searches for the parameters with the least misfit.
    fn best(&mut self, progress: Telling<'_>) -> Result<Figures, Error> {
        let mut best = Figures::AS_SAID;
        let steps = std::iter::once(None).chain((0..2 * ROUNDS).map(Some));
        for step in steps {
            let candidates = step.map_or_else(Figures::grid, |step| best.refined(step));
            self.tries(&candidates, progress)?;
            // The current parameters win if others have the same misfit.
            let of = |figures: Figures| {
                let found = self.tried.iter().find(|(tried, _)| *tried == figures);
                found.map_or(f64::MAX, |(_, misfit)| *misfit)
            };
            for candidate in candidates {
                best = if of(candidate) < of(best) { candidate } else { best };
            }
        }
        match self.tried.iter().any(|(_, misfit)| *misfit < f64::MAX) {
            true => Ok(best),
            false => Err(too_few(self.setting)),
        }
    }

    /// Simulates those `candidates` that have not been tried yet.
    fn tries(&mut self, candidates: &[Figures], progress: Telling<'_>) -> Result<(), Error> {
        let is_new = |one: &&Figures| !self.tried.iter().any(|(tried, _)| tried == *one);
        let devices: Vec<(Figures, OpenDevice)> = candidates
            .iter()
            .filter(is_new)
            .filter_map(|figures| Some((*figures, figures.of(self.setting.device)?)))
            .collect();
        let names = vec!["fitting the device"; devices.len()];
        let misfits = side_by_side(
            &names,
            (self.jobs, 1),
            0.0..0.0,
            |part, _| Ok(misfit(&self.run(&devices[part].1)?).unwrap_or(f64::MAX)),
            progress,
        )?;
        self.tried.extend(devices.into_iter().map(|(figures, _)| figures).zip(misfits));
        Ok(())
    }
}

/// Returns the misfit of a model; `None` if there are too few requests to compare.
fn misfit(of: &Retrodiction) -> Option<f64> {
    let judged = [&of.reads, &of.writes].into_iter().flatten();
    let judged = judged.filter(|one| one.requests >= TOO_FEW);
    let logs = |one: &DirectionAnswer| {
        let pairs = [
            (one.modelled_p50_ms, one.recorded_p50_ms),
            (one.modelled_p99_ms, one.recorded_p99_ms),
        ];
        pairs.into_iter().filter(|(_, was)| *was > 0.0).map(|(is, was)| (is.max(1e-6) / was).ln())
    };
    let logs: Vec<f64> = judged.flat_map(logs).map(f64::abs).collect();
    (!logs.is_empty()).then(|| logs.iter().sum::<f64>() / logs.len() as f64)
}

/// Fails if the trace or the device does not allow a fit.
fn refuse(setting: &Setting<'_>) -> Result<(), Error> {
    let Setting { input, device, setup, .. } = setting;
    let trace = input.path.display();
    if !matches!(device.model, DeviceModel::Drive(_) | DeviceModel::Hdd(_)) {
        return Err(Error::Unfit(format!(
            "{} on {}: got a device without moving parts, expected the disk that the trace was recorded on, as in {}",
            named("fit_device"),
            device.name,
            named("device=st1000nm0011")
        )));
    }
    if input.known_latency_share() == 0.0 {
        return Err(Error::Unfit(format!(
            "{}: {trace} records no latencies, so there is nothing to fit to; record completions too (blktrace, \
             `forebay capture`), or leave it out",
            named("fit_device")
        )));
    }
    if setup.intensity.times() != 1.0 {
        return Err(Error::Unfit(format!(
            "{}: got an intensity of {}, expected 1: a device is fitted to the recording at its own speed",
            named("fit_device"),
            setup.intensity.times()
        )));
    }
    refuse_what_is_known(device)
}

/// Fails if the device has none of the three fitted parameters, because all candidates would then
/// be the same disk.
fn refuse_what_is_known(device: &OpenDevice) -> Result<(), Error> {
    let is_margin = device.catch_margin().is_some();
    let is_rate = RATES.iter().any(|&times| times != 1.0 && device.at_media_rate(times).is_some());
    if is_margin || is_rate || device.without_write_cache().is_some() {
        return Ok(());
    }
    Err(Error::Unfit(format!(
        "{} on {}: got a device without any of the figures that can be fitted: no queue of more than one command \
         ([queue] depth, for the catch margin), no write cache that is on ([write_cache]), and tracks or seek times given \
         one by one ([format], or a seek curve), so no media rate to vary; add [queue] or [write_cache] to the file, name \
         a data sheet's disk of the same kind (`forebay devices` lists them), or leave it out",
        named("fit_device"),
        device.name
    )))
}

fn too_few(setting: &Setting<'_>) -> Error {
    Error::Unfit(format!(
        "{}: in a half of {} fewer than {TOO_FEW} reads, and fewer than {TOO_FEW} writes, have a recorded latency: too \
         few to fit to; leave it out",
        named("fit_device"),
        setting.input.path.display()
    ))
}
