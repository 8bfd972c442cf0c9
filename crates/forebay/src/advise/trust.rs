//! Determines how far to trust an answer, by comparing the model's latencies for the recorded
//! requests with the latencies that the user's disk had.
//!
//! The comparison needs no extra run: it uses the run of the current scheduler, in the replays that
//! `advise` simulates anyway. The current scheduler was probably also active during the recording.
//! If the user did not name the device, nothing is compared, because the device may not be the
//! recorded one.

use forebay_ask::named;
use forebay_core::Nanos;
use forebay_trace::RunEvidence;
use forebay_trace::describe::Description;
use serde::Serialize;

use super::{DeviceFit, RecordedSpeed, Setting, TOO_FEW, Tryouts, is_backlog};
use crate::clock::{self, Times};
use crate::progress::{Meter, Progress};
use crate::quantities::{counted, millis, percent, significant};
use crate::retrodict::{DirectionAnswer, Recording, Retrodiction};
use crate::{Bed, Error};

/// If the clock goes back by at least this share of the trace's duration, much of the trace
/// overlaps itself.
const OVERLAID_THAT_MATTERS: f64 = 0.1;

/// A statement on how far to trust the answer, with its evidence.
#[derive(Clone, Debug, Serialize)]
pub struct Trust {
    /// How far the model's latencies deviate from the recorded ones, or why they were not compared.
    pub said: String,
    /// Whether the model was compared with the recording.
    pub is_checked: bool,
    /// How the model compares with the recording in the leading replay.
    pub retrodiction: Option<Retrodiction>,
    /// How the model compares with the recording in the other replay, if both were simulated.
    pub other_replay: Option<Retrodiction>,
    /// The result of fitting the device to the first half of the trace; `None` if no fit was
    /// requested.
    pub fit: Option<DeviceFit>,
}

/// Returns why the model cannot be compared with the recording; `None` if it can be.
pub(super) fn why_not(setting: &Setting<'_>, is_named: bool) -> Option<String> {
    if setting.input.known_latency_share() == 0.0 {
        return Some("the trace records no latencies".to_string());
    }
    if !is_named {
        return Some(format!(
            "the recording's device is unknown; if you know it, specify it with {}",
            named("device")
        ));
    }
    let times = setting.setup.intensity.times();
    (times != 1.0)
        .then(|| format!("requests arrive {} times as fast as recorded", significant(times)))
}

impl Trust {
    /// Builds the statement for a model that was not compared with the recording, for the reason
    /// `why`.
    pub(super) fn unchecked(why: &str) -> Trust {
        Trust {
            said: format!("The model is not checked: {why}."),
            is_checked: false,
            retrodiction: None,
            other_replay: None,
            fit: None,
        }
    }

    /// Adds the step of the trace's clock, if it is coarse, to the first sentence.
    pub(super) fn with_clock(self, times: Times) -> Trust {
        let step = times.step();
        if step == Nanos::ZERO {
            return self;
        }
        let (first, rest) = self.said.split_once(". ").unwrap_or((&self.said, ""));
        let first = first.trim_end_matches('.');
        let clock = format!("the trace's clock has steps of {}", clock::length(step));
        let said = format!("{first}; {clock}. {rest}").trim_end().to_string();
        Trust { said, ..self }
    }

    /// States that two recordings seem to overlap in time, if a comment between them shows this, or
    /// if they cover much of the same time.
    pub(super) fn with_runs(self, description: &Description) -> Trust {
        let overlaid = description.run_starts.iter().find(|start| {
            let share = start.back_ns as f64 / 1e9 / description.duration_s.max(1e-9);
            let is_evident = match start.evidence {
                RunEvidence::Comment => true,
                RunEvidence::Clock => share >= OVERLAID_THAT_MATTERS,
                // Recordings of several volumes may have been made at the same time.
                RunEvidence::Header => false,
            };
            is_evident && !start.is_appended
        });
        let Some(start) = overlaid else { return self };
        let after = match start.evidence {
            RunEvidence::Comment => " after a comment",
            _ => "",
        };
        let said = format!(
            "Little: the clock goes back at request {} of the file{after}, as if another recording began there; {} \
             appends it. {}",
            start.request,
            named("split_runs=true"),
            self.said
        );
        Trust { said, ..self }
    }

    /// States how much faster or slower the recorded device was than the model, if the model was
    /// not compared with the recording and represents another device.
    pub(super) fn with_recorded(self, setting: &Setting<'_>, tried: &Tryouts) -> Trust {
        let (description, policy) = (&setting.input.description, setting.current);
        let run = tried.leading.results.iter().find(|run| run.policy == policy);
        let speed = run.and_then(|run| RecordedSpeed::of(description, run));
        match speed.filter(|_| !self.is_checked) {
            None => self,
            Some(speed) => {
                let said = format!(
                    "Little, because the recorded device was {}: {}. {}",
                    speed.how(),
                    speed.figures(),
                    self.said
                );
                Trust { said, ..self }
            }
        }
    }

    /// Builds the statement from the runs in `tried`, comparing the run of the current scheduler
    /// with the recording.
    pub(super) fn of(
        setting: &Setting<'_>,
        tried: &Tryouts,
        fit: Option<DeviceFit>,
        progress: Progress<'_>,
    ) -> Result<Trust, Error> {
        let Setting { input, device, setup, current: policy, .. } = *setting;
        let layout = Bed::of(device).placement(input, policy, setup);
        let recording = Recording::of(input, layout, 0..u64::MAX, &mut Meter::new(progress))?;
        let of = |runs: &super::replays::Tryout| {
            let run = runs.runs.iter().find(|(name, _)| name == policy);
            run.and_then(|(_, run)| recording.against(run))
        };
        let retrodiction = of(&tried.leading);
        let told = retrodiction.as_ref().and_then(told);
        let few = "fewer than 100 reads, and fewer than 100 writes, have a recorded latency";
        let trust = match told {
            None => Trust::unchecked(few),
            Some(said) => Trust { said, is_checked: true, ..Trust::unchecked("") },
        };
        let said = fit.as_ref().map_or(trust.said, |fit| fit.said.clone());
        let other_replay = tried.other.as_ref().and_then(of);
        Ok(Trust { said, retrodiction, other_replay, fit, ..trust })
    }
}

/// Formats how far the model deviates from the recording; `None` if there are too few requests to
/// compare.
pub(super) fn told(of: &Retrodiction) -> Option<String> {
    let off = off(of)?;
    let unmeasured = match of.requests_unmeasured {
        0 => String::new(),
        requests => format!(", {requests} without a latency left out"),
    };
    let on = match (has_backlog(of), is_far(of)) {
        (true, _) => {
            "Little: the model cannot keep up with the recording, so its latencies only reflect a \
             backlog. On"
        }
        (false, true) => "Little: on",
        (false, false) => "On",
    };
    Some(format!(
        "{on} this trace the {off}. That assumes that your disk is {} under {}, in {} replay, by \
         {}{unmeasured}.",
        of.device,
        of.policy,
        of.replay.name(),
        counted(of.requests, "request"),
    ))
}

/// Returns whether the modeled latencies measure the length of a backlog, by the rule of
/// [`tells_latencies`](super::judge::tells_latencies).
fn has_backlog(of: &Retrodiction) -> bool {
    let modelled = [&of.reads, &of.writes].into_iter().flatten();
    is_backlog(of.is_overloaded, of.replay, modelled.map(|one| one.modelled_p99_ms))
}

/// Formats the deviation of each latency, as in "model's read p50 is 8 % too high and its p99 3
/// times too low". Returns `None` if there are too few requests to compare.
pub(super) fn off(of: &Retrodiction) -> Option<String> {
    let judged = [("read", &of.reads), ("write", &of.writes)];
    let judged = judged.into_iter().filter_map(|(name, one)| Some((name, one.as_ref()?)));
    let parts: Vec<String> = judged.filter_map(|(name, one)| direction(name, one)).collect();
    let (first, rest) = parts.split_first()?;
    let rest: String = rest.iter().map(|part| format!(", and its {part}")).collect();
    Some(format!("model's {first}{rest}"))
}

/// Returns whether any latency of the model differs from the recorded one by more than a factor of
/// two, for reads or writes that are numerous enough to compare.
pub(super) fn is_far(of: &Retrodiction) -> bool {
    let all = [&of.reads, &of.writes].into_iter().flatten();
    all.filter(|one| one.requests >= TOO_FEW).any(|one: &DirectionAnswer| {
        [one.p50_error_share, one.p99_error_share].into_iter().flatten().any(is_far_off)
    })
}

/// Returns whether a latency of the model differs from the recorded one by more than a factor of
/// two.
fn is_far_off(error_share: f64) -> bool {
    !(-0.5..=1.0).contains(&error_share)
}

/// Formats a deviation, as in "8 % too low" or, above a factor of two, "3 times too high".
fn deviation(error_share: f64) -> String {
    let ratio = 1.0 + error_share;
    let which = if error_share < 0.0 { "low" } else { "high" };
    match is_far_off(error_share) {
        true => format!("{} times too {which}", significant(ratio.max(1.0 / ratio.max(1e-9)))),
        false => match (error_share.abs() * 100.0).round() / 100.0 {
            0.0 => "0 % off".to_string(),
            share => format!("{} too {which}", percent(share)),
        },
    }
}

fn direction(name: &str, of: &DirectionAnswer) -> Option<String> {
    let (p50, p99) = (deviation(of.p50_error_share?), deviation(of.p99_error_share?));
    (of.requests >= TOO_FEW).then(|| {
        format!(
            "{name} p50 is {p50} and its p99 {p99} ({} for {}, {} for {})",
            millis(of.modelled_p50_ms),
            millis(of.recorded_p50_ms),
            millis(of.modelled_p99_ms),
            millis(of.recorded_p99_ms),
        )
    })
}
