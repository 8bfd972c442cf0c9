//! Advice for a trace without usable times: only a cache size, because that depends only on the
//! order of requests.

use super::{
    Advice, Pictures, Prefer, Remedy, RemedyKind, Setting, Sizing, Trust, Verdict, none_tried,
};
use crate::clock::Times;
use crate::{Error, Progress};

/// Builds the advice. `why` explains in full what is wrong with `times`.
pub(super) fn advice(
    setting: &Setting<'_>,
    times: Times,
    why: &str,
    progress: Progress<'_>,
) -> Result<Advice, Error> {
    let &Setting { input, device, flash, flash_bytes, setup, current: baseline } = setting;
    let sizing = Sizing::of(input, flash_bytes, progress)?;
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
        is_device_default: false,
        is_flash_size_named: flash_bytes.is_some(),
        is_other_device: false,
        is_saturated: false,
        enough: None,
        uncertain: None,
        prefer: Prefer::default(),
        today: None,
        headline: format!("No advice: {}.", times.why_not_in_short()),
        why: None,
        findings: vec![
            format!("Nothing was simulated: {why}."),
            sizing.told(input.notes.own_block_bytes.is_some()),
        ],
        cautions,
        trust: Trust::unchecked("nothing was simulated"),
        disturbances: Vec::new(),
        ranking: Vec::new(),
        other_replay: None,
        flash_device: flash.name.clone(),
        remedies,
        cache_sizing: Some(sizing),
        defragmentation: None,
        plain: None,
        sensitivity: Vec::new(),
        throttling: None,
        redundancy: None,
        description: input.description.clone(),
        runs: Vec::new(),
        pictures: Pictures::default(),
    })
}
