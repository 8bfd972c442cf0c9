//! Compares redundancy schemes for a trace on an array of several drives: RAID 6, three copies, and
//! units that switch between the two. Schemes with less redundancy are included for comparison.
//!
//! All data that the trace accesses exists before the trace begins, because reads of unwritten data
//! would cost nothing. Arrays write to fresh cells, as volumes do.

use forebay_core::catalog::volume_bytes;
use serde::Serialize;

use super::judge::{SHARE_THAT_MATTERS, TAIL_THAT_MATTERS};
use crate::devices::OpenDevice;
use crate::error::Error;
use crate::input::Input;
use crate::progress::{ProgressReport, Telling};
use crate::quantities::{bytes, change, millis, percent, seconds};
use crate::simulate::{Bed, RunResult, Setup, run_on};

/// The schemes to try: name, array parameters, and how many drives may fail.
const TRIED: [(&str, &str, usize); 6] = [
    ("RAID 6", "level=raid6", 2),
    // The adaptation rule that loses least on recorded traces (papers/raid/traces.md).
    ("adaptive", "adapt=work-function", 2),
    ("three copies", "level=raid10x3", 2),
    ("RAID 5", "level=raid5", 1),
    ("two copies", "level=raid10", 1),
    ("striping", "level=raid0", 0),
];

/// A redundancy scheme and its simulated results.
#[derive(Clone, Debug, Serialize)]
pub struct Redundant {
    /// The name of the redundancy scheme.
    pub name: &'static str,
    /// The scheme's policy spec, as accepted by `simulate --policy`.
    pub policy: String,
    /// The number of drives that may fail without data loss.
    pub failures_survived: usize,
    /// The usable capacity of the array.
    pub usable_bytes: u64,
    /// The total time of all drives in seconds.
    pub total_s: f64,
    /// The mean read latency with this scheme.
    pub read_mean_ms: Option<f64>,
    /// The 99th percentile of read latencies with this scheme.
    pub read_p99_ms: Option<f64>,
    /// The mean write latency with this scheme.
    pub write_mean_ms: Option<f64>,
    /// The 99th percentile of write latencies with this scheme.
    pub write_p99_ms: Option<f64>,
    /// The number of units that changed their redundancy level.
    pub switches: u64,
    /// How much more the adaptation rule paid, in percent of its cost model, than an optimal rule
    /// that knows the whole trace; `None` if levels are fixed.
    pub regret_percent: Option<f64>,
}

/// The comparison of redundancy schemes, and the recommendation.
#[derive(Clone, Debug, Serialize)]
pub struct Redundancy {
    /// The number of drives in the array.
    pub drives: u16,
    /// The recommended scheme among those that survive any two failures.
    pub recommended: &'static str,
    /// The recommendation and its reason in words.
    pub said: String,
    /// All schemes that were simulated.
    pub tried: Vec<Redundant>,
}

/// Simulates all schemes on `drives` drives like `device`, each under `scheduler`.
///
/// # Errors
/// Fails if this number of drives cannot form an array, or if the trace cannot be read again.
pub fn redundancy(
    input: &Input,
    device: &OpenDevice,
    drives: u16,
    scheduler: &str,
    setup: Setup,
    progress: Telling<'_>,
) -> Result<Redundancy, Error> {
    let bed = Bed { disks: drives, ..Bed::of(device) };
    let mut tried = Vec::new();
    let steps = input.description.records.max(1) as f64;
    for (nth, (name, what, failures_survived)) in TRIED.into_iter().enumerate() {
        let (policy, usable_bytes) = with_data(input, bed, what, scheduler, setup)?;
        let doing = format!("trying {name} on {drives} drives");
        let mut told = ProgressReport { doing, done_share: 0.0 };
        let mut tell = |done: u64| {
            let share = (done as f64 / steps).min(1.0);
            told.done_share = (nth as f64 + share) / TRIED.len() as f64;
            progress(&told)
        };
        let run = run_on(input, bed, &policy, setup, &mut tell)?.result;
        tried.push(redundant(name, failures_survived, usable_bytes, &run));
    }
    let (recommended, why) = judged(&tried, setup.replay.total_name());
    let of = format!("{drives} drives like {}", device.name);
    Ok(Redundancy { drives, recommended, said: format!("On {of} {why}"), tried })
}

/// Returns the policy spec of the array `what`, already filled with the trace's data because reads
/// of unwritten data would cost nothing, and the array's usable bytes.
pub(super) fn with_data(
    input: &Input,
    bed: Bed<'_>,
    what: &str,
    scheduler: &str,
    setup: Setup,
) -> Result<(String, u64), Error> {
    let bare = format!("array:{what}:disk={scheduler}");
    let usable_bytes = volume_bytes(&bare, &bed.lanes())?.unwrap_or(0);
    let layout = bed.placement(input, &bare, setup);
    let filled = if layout.moves() { input.used_bytes() } else { layout.span() };
    // The amount is limited by the array's capacity and by the range of the parameter.
    let filled_mib = filled.div_ceil(1 << 20).min(usable_bytes >> 20).min(u32::MAX.into());
    Ok((format!("array:{what}:filled-mib={filled_mib}:disk={scheduler}"), usable_bytes))
}

fn redundant(
    name: &'static str,
    failures_survived: usize,
    usable_bytes: u64,
    run: &RunResult,
) -> Redundant {
    Redundant {
        name,
        policy: run.policy.clone(),
        failures_survived,
        usable_bytes,
        total_s: run.total_s(),
        read_mean_ms: run.figures.read_mean_ms,
        read_p99_ms: run.figures.read_p99_ms,
        write_mean_ms: run.figures.write_mean_ms,
        write_p99_ms: run.figures.write_p99_ms,
        switches: run.placement.get("switches").copied().unwrap_or(0.0) as u64,
        regret_percent: run.placement.get("regret_percent").copied(),
    }
}

fn tail(of: &Redundant) -> f64 {
    of.read_p99_ms.or(of.write_p99_ms).unwrap_or(0.0)
}

/// Returns the requests whose tail latency represents the scheme: "reads" or "writes".
fn whose(of: &Redundant) -> &'static str {
    if of.read_p99_ms.is_some() { "reads" } else { "writes" }
}

/// Returns whether one scheme is better than another: faster without a worse tail, or better in the
/// tail without taking longer.
fn is_better(one: &Redundant, than: &Redundant) -> bool {
    let (time, late) = (one.total_s / than.total_s.max(1e-9), tail(one) / tail(than).max(1e-9));
    let saves = time <= 1.0 - SHARE_THAT_MATTERS && late <= 1.0 + TAIL_THAT_MATTERS;
    let calms = late <= 1.0 - TAIL_THAT_MATTERS && time <= 1.0 + SHARE_THAT_MATTERS;
    saves || calms
}

/// Returns the scheme to recommend, among those that survive two failures, and the reason in words.
fn judged(tried: &[Redundant], total_is: &str) -> (&'static str, String) {
    let [raid6, adaptive, copies, ..] = tried else { return ("RAID 6", String::new()) };
    let against = |one: &Redundant| {
        let (time, late) = (change(one.total_s, raid6.total_s), change(tail(one), tail(raid6)));
        format!("{total_is} {time}, 99th percentile of {} {late}", whose(raid6))
    };
    let chosen = if is_better(adaptive, raid6) { adaptive } else { raid6 };
    let first = match chosen.name == raid6.name {
        true => format!(
            "use RAID 6: it holds {}, answers 99 % of {} within {}, and takes {} of all drives together. \
             Levels that follow the workload do not pay: {}.",
            bytes(raid6.usable_bytes as f64),
            whose(raid6),
            millis(tail(raid6)),
            seconds(raid6.total_s),
            against(adaptive)
        ),
        false => format!(
            "let data change between RAID 6 and three copies ({} changes): {} against RAID 6 alone. It \
             holds {} all the same.",
            adaptive.switches,
            against(adaptive),
            bytes(adaptive.usable_bytes as f64)
        ),
    };
    let then = match is_better(copies, chosen) {
        true => format!(
            " Three copies of everything do better ({} against RAID 6), but hold only {}.",
            against(copies),
            bytes(copies.usable_bytes as f64)
        ),
        false => format!(
            " Three copies of everything would hold {} of it and do no better.",
            percent(copies.usable_bytes as f64 / chosen.usable_bytes.max(1) as f64)
        ),
    };
    (chosen.name, first + &then)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &'static str, usable_bytes: u64, total_s: f64, p99_ms: f64) -> Redundant {
        Redundant {
            name,
            policy: String::new(),
            failures_survived: 2,
            usable_bytes,
            total_s,
            read_mean_ms: None,
            read_p99_ms: Some(p99_ms),
            write_mean_ms: None,
            write_p99_ms: Some(1e9),
            switches: 7,
            regret_percent: None,
        }
    }

    #[test]
    fn what_is_better_in_time_or_tail_and_harms_neither_is_chosen() {
        let chosen = |adaptive: (f64, f64)| {
            judged(
                &[
                    of("RAID 6", 4 << 30, 100.0, 50.0),
                    of("adaptive", 4 << 30, adaptive.0, adaptive.1),
                    of("three copies", 2 << 30, 90.0, 50.0),
                ],
                "busy time",
            )
        };
        assert_eq!(chosen((98.0, 50.0)).0, "RAID 6");
        assert_eq!(chosen((96.0, 59.0)).0, "adaptive");
        assert_eq!(chosen((96.0, 61.0)).0, "RAID 6", "the tail is harmed");
        assert_eq!(chosen((102.0, 39.0)).0, "adaptive");
        assert_eq!(chosen((104.0, 39.0)).0, "RAID 6", "time is harmed");
        let (_, said) = chosen((98.0, 50.0));
        assert!(said.contains("do better") && said.contains("hold only 2 GiB"), "{said}");
        assert!(chosen((60.0, 50.0)).1.contains("do no better"));
    }
}
