//! The line on flash on the first screen. It answers whether flash would help even if the disk is
//! idle.

use forebay_ask::named;

use super::first::flash;
use crate::advise::trial::PARTIAL_THAT_MATTERS;
use crate::advise::{Advice, Remedy, RemedyKind, Verdict};
use crate::quantities::{bytes, percent, seconds};

/// If less than this share of the used blocks is written, a larger cache cannot absorb more writes.
const WRITTEN_THAT_MATTERS: f64 = 0.05;

/// Returns whether flash would help, in one line; `None` if the trace does not show that, or if the
/// headline states it.
pub(super) fn flash_line(advice: &Advice) -> Option<String> {
    // Flash in front of flash is not tried.
    if advice.pictures.cylinders == 0 {
        return None;
    }
    if let Some(remedy) = flash(advice) {
        return Some(flash_use(advice, remedy));
    }
    if matches!(advice.verdict, Verdict::TooShort | Verdict::NoTimes) || advice.enough.is_some() {
        return None;
    }
    let cache = advice.remedies.iter().find(|one| one.kind == RemedyKind::Caching)?;
    match &cache.against {
        Some(against) if against.is_needless => {
            let shows = named("flash_size=1G");
            Some(format!("not needed: {} ({shows} shows what it would gain)", against.in_short))
        }
        Some(against) => Some(format!("not recommended: {}", against.in_short)),
        None => Some(untried(cache)),
    }
}

/// Formats why flash was not tried.
fn untried(remedy: &Remedy) -> String {
    let reason = remedy.reason.trim_start_matches("Not tried: ").trim_end_matches('.');
    format!("not tried: {reason}")
}

/// Describes how flash is used, whether it is worth its price, and how much time each GiB saves.
fn flash_use(advice: &Advice, remedy: &Remedy) -> String {
    let how = match remedy.kind {
        RemedyKind::Caching => "as a write-back cache",
        _ => "for offloaded writes (in the kernel only)",
    };
    if remedy.total_s.is_none() {
        return untried(remedy);
    }
    let size = bytes(remedy.flash_bytes as f64);
    let keeps_up = advice.enough.and_then(|enough| enough.flash_bytes);
    let partial = partial_share(remedy).filter(|share| *share >= PARTIAL_THAT_MATTERS);
    let partial = partial.map_or(String::new(), |share| {
        format!("; {} of the written blocks are partial and go to the disk", percent(share))
    });
    if !remedy.recommended {
        let but = match (keeps_up == Some(remedy.flash_bytes), &remedy.against) {
            (true, _) => {
                "keeps up, but may not be better in every figure; see the report for the reason"
            }
            (false, Some(against)) => {
                return format!("{size} {how} is not recommended: {}{partial}", against.in_short);
            }
            (false, None) => "may not be worth it; see the report for the reason",
        };
        return format!("{size} {how} {but}");
    }
    // Beyond this size, a cache finds no more blocks.
    let sizing = advice.cache_sizing.as_ref().filter(|_| remedy.kind == RemedyKind::Caching);
    let full_bytes = sizing.map(|sizing| sizing.flash_mib(sizing.full_bytes) << 20);
    let full_bytes = full_bytes.filter(|full| *full < remedy.flash_bytes);
    let mut said = format!("{size} {how}");
    if let Some(saved) = saved_time(remedy, full_bytes.is_some()) {
        said += &format!(" saves {} of {}{}", seconds(saved.time_s), advice.total_is, saved.per);
    }
    // A larger cache still absorbs longer bursts of writes.
    let only_reads = written_share(remedy).is_some_and(|share| share < WRITTEN_THAT_MATTERS);
    if let Some(full) = full_bytes.filter(|_| advice.is_flash_size_named && only_reads) {
        said += &format!("; sizes above {} do not increase the hits", bytes(full as f64));
    }
    said
}

/// Returns the share of the written blocks that are written only in part, and bypass the cache.
fn partial_share(remedy: &Remedy) -> Option<f64> {
    let figures = &remedy.run.as_deref()?.placement;
    let written = figures.get("blocks_written").copied().filter(|blocks| *blocks > 0.0)?;
    Some(figures.get("blocks_partial")? / written)
}

/// Returns the share of the blocks used that are written.
fn written_share(remedy: &Remedy) -> Option<f64> {
    let figures = &remedy.run.as_deref()?.placement;
    let (read, written) = (figures.get("blocks_read")?, figures.get("blocks_written")?);
    Some(written / (read + written).max(1.0))
}

/// The time that flash saves, per GiB or in total.
struct SavedTime {
    time_s: f64,
    per: &'static str,
}

/// Returns the time that flash saves, if it is at least 1 %: the average per GiB, or the total if
/// there is less than a GiB, or if part of it gains nothing.
fn saved_time(remedy: &Remedy, is_too_large: bool) -> Option<SavedTime> {
    const GIB: f64 = (1u64 << 30) as f64;
    let (before, after) = (remedy.before.as_ref()?.total_s, remedy.total_s?);
    let gib = remedy.flash_bytes as f64 / GIB;
    let (time_s, per) = match gib < 1.0 || is_too_large {
        true => (before - after, ""),
        false => ((before - after) / gib, " per GiB"),
    };
    (after <= before * 0.99 && gib > 0.0).then_some(SavedTime { time_s, per })
}
