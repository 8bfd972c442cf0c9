//! Compares redundancy schemes for a trace on an array of several drives: RAID 6, three copies, and
//! units that switch between the two. Schemes with less redundancy are included for comparison.
//!
//! All data that the trace accesses exists before the trace begins, because reads of unwritten data
//! would cost nothing. Arrays write to fresh cells, as volumes do.
//!
//! Schemes with redundancy are simulated twice more: with a drive missing, and while that drive is
//! rebuilt. An array with more drives than a unit spans restores the data of the trace on the other
//! drives meanwhile, as a volume does.

use forebay_ask::shell_word;
use forebay_core::catalog::volume_bytes;
use forebay_core::device::failing::{Failure, When};
use forebay_core::{Device, Nanos, Spec};
use serde::Serialize;

use super::judge::{SHARE_THAT_MATTERS, TAIL_THAT_MATTERS};
use crate::plan::buy::Reliability;
use crate::quantities::{bytes, millis, percent, seconds};
use crate::simulate::{Bed, Rebuild, RunResult, Setup, run_on};
use crate::{Error, Input, OpenDevice, ProgressReport, Telling};

/// The rule of adaptation that loses least on recorded traces (papers/raid/traces.md).
const RULE: &str = "work-function";

/// The number of rebuilt chunks from which the duration of a rebuild can be estimated.
const REBUILT_LEAST: u64 = 100;

/// A redundancy scheme to try.
struct Scheme {
    name: &'static str,
    /// The parameters of the array.
    array: &'static str,
    /// The number of drives that may fail without data loss.
    survives: usize,
    /// The number of data chunks that share their redundancy.
    chunks: u32,
}

const fn scheme(name: &'static str, array: &'static str, survives: usize, chunks: u32) -> Scheme {
    Scheme { name, array, survives, chunks }
}

const TRIED: [Scheme; 6] = [
    scheme("RAID 6", "level=raid6", 2, 4),
    scheme("adaptive", "adapt=work-function", 2, 4),
    scheme("three copies", "level=raid10x3", 2, 1),
    scheme("RAID 5", "level=raid5", 1, 4),
    scheme("two copies", "level=raid10", 1, 1),
    scheme("striping", "level=raid0", 0, 1),
];

/// The chunk size of the arrays, which is the default of volumes.
const CHUNK_BYTES: u32 = 64 << 10;

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
    /// Latencies with a drive missing; `None` without redundancy.
    pub degraded: Option<Latencies>,
    /// Latencies while a drive is rebuilt; `None` without redundancy.
    pub rebuilding: Option<Latencies>,
    /// The time to rebuild a full drive while serving the requests of the trace; `None` without
    /// redundancy, and if the trace is too short for a conclusion.
    pub rebuild_s: Option<f64>,
    /// The expected number of bytes lost per year if the array is full, because too many drives
    /// fail or because sectors are unreadable when they are needed.
    pub lost_per_year_bytes: f64,
}

/// The latencies of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Latencies {
    /// The mean read latency.
    pub read_mean_ms: Option<f64>,
    /// The 99th percentile of read latencies.
    pub read_p99_ms: Option<f64>,
    /// The mean write latency.
    pub write_mean_ms: Option<f64>,
    /// The 99th percentile of write latencies.
    pub write_p99_ms: Option<f64>,
}

impl Latencies {
    fn of(run: &RunResult) -> Latencies {
        Latencies {
            read_mean_ms: run.figures.read_mean_ms,
            read_p99_ms: run.figures.read_p99_ms,
            write_mean_ms: run.figures.write_mean_ms,
            write_p99_ms: run.figures.write_p99_ms,
        }
    }
}

/// The comparison of redundancy schemes, and the recommendation.
#[derive(Clone, Debug, Serialize)]
pub struct Redundancy {
    /// The number of drives in the array.
    pub drives: u16,
    /// The recommended scheme among those that survive any two failures.
    pub recommended: &'static str,
    /// The rule by which units change their level in the adaptive scheme.
    pub rule: &'static str,
    /// The recommendation and its reason in words.
    pub said: String,
    /// The consequences of drive failures for the recommended scheme, in words.
    pub failures: String,
    /// The commands that create and serve the recommended volume. `DRIVES` stands for a folder of
    /// drives.
    pub commands: Vec<String>,
    /// All schemes that were simulated.
    pub tried: Vec<Redundant>,
}

/// The drives of the array, and the assumptions about them.
#[derive(Clone, Copy)]
pub struct Drives<'a> {
    /// The model of each drive.
    pub device: &'a OpenDevice,
    /// The name by which the user can request the model.
    pub asked: &'a str,
    /// The number of drives.
    pub count: u16,
    /// The scheduler of each drive.
    pub scheduler: &'a str,
    /// How often drives fail, and how fast they are rebuilt at most.
    pub reliability: Reliability,
}

/// Simulates all schemes on `drives`.
///
/// # Errors
/// Fails if this number of drives cannot form an array, or if the trace cannot be read again.
pub fn redundancy(
    input: &Input,
    drives: Drives<'_>,
    setup: Setup,
    progress: Telling<'_>,
) -> Result<Redundancy, Error> {
    let mut tried = Vec::new();
    for (nth, scheme) in TRIED.iter().enumerate() {
        let steps = input.description.records.max(1) as f64 * 2.0;
        let doing = format!("trying {} on {} drives", scheme.name, drives.count);
        let mut told = ProgressReport { doing, done_share: 0.0 };
        // Each scheme is simulated three times.
        let mut tell = |done: u64, run: usize| {
            let share = (done as f64 / steps).min(1.0);
            told.done_share = (nth as f64 + (run as f64 + share) / 3.0) / TRIED.len() as f64;
            progress(&told)
        };
        tried.push(simulated(input, drives, scheme, setup, &mut tell)?);
    }
    let (recommended, why) = judged(&tried, setup.replay.total_name());
    let said = format!("On {} drives like {} {why}", drives.count, drives.device.name);
    let chosen = tried.iter().find(|one| one.name == recommended);
    Ok(Redundancy {
        drives: drives.count,
        recommended,
        rule: RULE,
        said,
        failures: chosen.map(failures).unwrap_or_default(),
        commands: commands(recommended, drives),
        tried,
    })
}

/// Returns the commands that create and serve the recommended volume.
fn commands(recommended: &str, Drives { asked, scheduler, .. }: Drives<'_>) -> Vec<String> {
    let policy = match TRIED.iter().find(|scheme| scheme.name == recommended) {
        Some(Scheme { array, .. }) if array.starts_with("adapt=") => {
            format!("array:{array}:disk={}", Spec::nested(scheduler))
        }
        _ => scheduler.to_string(),
    };
    let (asked, policy) = (shell_word(asked), shell_word(&policy));
    vec![
        format!("forebay volume create DRIVES --device {asked}"),
        format!("forebay serve DRIVES --socket volume.sock --policy {policy}"),
    ]
}

/// Simulates a scheme on drives that all work, with one drive missing, and while that drive is
/// rebuilt. `tell` receives the number of requests so far and the number of the run.
fn simulated(
    input: &Input,
    drives: Drives<'_>,
    scheme: &Scheme,
    setup: Setup,
    tell: &mut dyn FnMut(u64, usize) -> std::ops::ControlFlow<()>,
) -> Result<Redundant, Error> {
    let Drives { device, count, scheduler, reliability, .. } = drives;
    let whole = Bed { disks: count, ..Bed::of(device) };
    let filled = with_data(input, whole, scheme.array, scheduler, setup)?;
    let mut run = |bed: Bed<'_>, nth: usize| -> Result<RunResult, Error> {
        Ok(run_on(input, bed, &filled.policy, setup, &mut |done| tell(done, nth))?.result)
    };
    let mut found = redundant(scheme, filled.usable_bytes, &run(whole, 0)?);
    let mut rebuild_bytes_per_s = reliability.rebuild_bytes_per_s;
    let capacity_bytes = device.model.capacity();
    if scheme.survives > 0 {
        let missing = [Failure { lane: Some(0), when: When::From(Nanos::ZERO) }];
        let at = |bytes_per_s: f64| {
            Rebuild::new(CHUNK_BYTES, scheme.chunks, bytes_per_s, filled.data_bytes)
        };
        let (none, rebuild) = (at(0.0), at(rebuild_bytes_per_s));
        // After a failure, an array rewrites its whole table, which takes long if the table is
        // large.
        let disk_bytes_max = filled.data_bytes.saturating_mul(2).saturating_add(1 << 30);
        let rebuild_none = Some(&none);
        let degraded = Bed { failures: &missing, rebuild: rebuild_none, disk_bytes_max, ..whole };
        found.degraded = Some(Latencies::of(&run(degraded, 1)?));
        let rebuilding = run(Bed { rebuild: Some(&rebuild), ..degraded }, 2)?;
        found.rebuilding = Some(Latencies::of(&rebuilding));
        if rebuild.chunks() >= REBUILT_LEAST {
            let rebuilt = rebuild.chunks() as f64 * f64::from(CHUNK_BYTES);
            rebuild_bytes_per_s = rebuilt / rebuilding.figures.makespan_s.max(1e-9);
            found.rebuild_s = Some(capacity_bytes as f64 / rebuild_bytes_per_s);
        }
    }
    let reliability = Reliability { rebuild_bytes_per_s, ..reliability };
    let units = (scheme.survives, scheme.chunks.into());
    found.lost_per_year_bytes =
        reliability.lost_per_year(units, capacity_bytes, filled.usable_bytes);
    Ok(found)
}

/// An array that contains the data of a trace.
pub(super) struct FilledArray {
    /// The policy spec of the array.
    pub(super) policy: String,
    /// How much the array holds, and how much of that is data.
    pub(super) usable_bytes: u64,
    data_bytes: u64,
}

/// Returns the policy spec of the array `what`, already filled with the trace's data because reads
/// of unwritten data would cost nothing.
pub(super) fn with_data(
    input: &Input,
    bed: Bed<'_>,
    what: &str,
    scheduler: &str,
    setup: Setup,
) -> Result<FilledArray, Error> {
    let disk = Spec::nested(scheduler);
    let bare = format!("array:{what}:disk={disk}");
    let usable_bytes = volume_bytes(&bare, &bed.lanes())?.unwrap_or(0);
    let layout = bed.placement(input, &bare, setup);
    let filled = if layout.moves() { input.used_bytes() } else { layout.span() };
    // The amount is limited by the array's capacity and by the range of the parameter.
    let filled_mib = filled.div_ceil(1 << 20).min(usable_bytes >> 20).min(u32::MAX.into());
    let policy = format!("array:{what}:filled-mib={filled_mib}:disk={disk}");
    Ok(FilledArray { policy, usable_bytes, data_bytes: filled_mib << 20 })
}

fn redundant(scheme: &Scheme, usable_bytes: u64, run: &RunResult) -> Redundant {
    Redundant {
        name: scheme.name,
        policy: run.policy.clone(),
        failures_survived: scheme.survives,
        usable_bytes,
        total_s: run.total_s(),
        read_mean_ms: run.figures.read_mean_ms,
        read_p99_ms: run.figures.read_p99_ms,
        write_mean_ms: run.figures.write_mean_ms,
        write_p99_ms: run.figures.write_p99_ms,
        switches: run.placement.get("switches").copied().unwrap_or(0.0) as u64,
        regret_percent: run.placement.get("regret_percent").copied(),
        degraded: None,
        rebuilding: None,
        rebuild_s: None,
        lost_per_year_bytes: 0.0,
    }
}

/// Describes the consequences of drive failures for a scheme.
fn failures(one: &Redundant) -> String {
    let tail_of = |run: &Option<Latencies>| {
        run.as_ref().and_then(|of| of.read_p99_ms.or(of.write_p99_ms)).map(millis)
    };
    let (degraded, rebuilding) = (tail_of(&one.degraded), tail_of(&one.rebuilding));
    let (Some(degraded), Some(rebuilding)) = (degraded, rebuilding) else { return String::new() };
    let takes = one.rebuild_s.map(|took_s| format!(", which takes {}", seconds(took_s)));
    format!(
        "With a drive missing, 99 % of {} take up to {degraded}, and {rebuilding} during its rebuild{}. \
         A full array loses {} a year on average.",
        whose(one),
        takes.unwrap_or_default(),
        bytes(one.lost_per_year_bytes)
    )
}

fn tail(of: &Redundant) -> f64 {
    of.read_p99_ms.or(of.write_p99_ms).unwrap_or(0.0)
}

/// Returns the requests whose tail latency represents the scheme: "reads" or "writes".
fn whose(of: &Redundant) -> &'static str {
    if of.read_p99_ms.is_some() { "reads" } else { "writes" }
}

impl Redundancy {
    /// Returns the recommendation without its reason, as a sentence.
    pub(super) fn in_short(&self) -> String {
        format!("{}.", self.parts().0.trim_end_matches('.'))
    }

    /// Returns the reason as complete sentences.
    pub(super) fn reason(&self) -> String {
        let mut chars = self.parts().1.chars();
        chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
    }

    fn parts(&self) -> (&str, &str) {
        self.said.split_once(": ").unwrap_or((&self.said, ""))
    }
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
        let (time, late) =
            (one.total_s / raid6.total_s.max(1e-9), tail(one) / tail(raid6).max(1e-9));
        let which = |ratio: f64, less, more| if ratio <= 1.0 { less } else { more };
        format!(
            "{} {} {total_is} and a {} {} {} p99 than RAID 6",
            percent((time - 1.0).abs()),
            which(time, "less", "more"),
            percent((late - 1.0).abs()),
            which(late, "lower", "higher"),
            whose(raid6).trim_end_matches('s')
        )
    };
    let chosen = if is_better(adaptive, raid6) { adaptive } else { raid6 };
    let first = match chosen.name == raid6.name {
        true => format!(
            "use RAID 6: it holds {}, answers 99 % of {} within {}, and takes {} of all drives \
             together. Levels that adapt to the workload (rule {RULE}) are not worthwhile: {}.",
            bytes(raid6.usable_bytes as f64),
            whose(raid6),
            millis(tail(raid6)),
            seconds(raid6.total_s),
            against(adaptive)
        ),
        false => format!(
            "use adaptive redundancy: blocks switch between RAID 6 and three copies by the rule {RULE} ({} \
             changes). That takes {}. Its capacity is still {}.",
            adaptive.switches,
            against(adaptive),
            bytes(adaptive.usable_bytes as f64)
        ),
    };
    let then = match is_better(copies, chosen) {
        true => format!(
            " Three copies of everything ({}) hold only {}.",
            against(copies),
            bytes(copies.usable_bytes as f64)
        ),
        false => format!(
            " Three copies of everything would hold {} of it and perform no better.",
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
            degraded: None,
            rebuilding: None,
            rebuild_s: None,
            lost_per_year_bytes: 0.0,
        }
    }

    #[test]
    fn a_layout_better_in_time_or_tail_and_worse_in_neither_is_chosen() {
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
        assert!(said.contains("than RAID 6) hold only 2 GiB"), "{said}");
        assert!(chosen((60.0, 50.0)).1.contains("perform no better"));
    }
}
