//! Advice for a trace without usable times: only a cache size, because that depends only on the
//! order of requests.

use super::trial::none_tried;
use super::{Advice, Remedy, RemedyKind, Setting, Sizing};
use crate::clock::Times;
use crate::{Error, Progress};

/// Builds the advice. `why` explains in full what is wrong with `times`.
pub(super) fn advice(
    setting: &Setting<'_>,
    times: Times,
    why: &str,
    progress: Progress<'_>,
) -> Result<Advice, Error> {
    let &Setting { input, flash_bytes, current: baseline, .. } = setting;
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
        headline: format!("No advice: {}.", times.why_not_in_short()),
        findings: vec![
            format!("Nothing was simulated: {why}."),
            sizing.told(input.notes.own_block_bytes.is_some()),
        ],
        cautions,
        remedies,
        cache_sizing: Some(sizing),
        ..Advice::unanswered(setting)
    })
}
