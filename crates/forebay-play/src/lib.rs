//! The verbs that use the machine itself: `play`, which plays a trace through a policy in wall
//! time, on real files and devices or on an emulated device; [`capture`](mod@capture); and the
//! verbs that manage a [`volume`]. It also reads a server's configuration for a simulation
//! ([`served`]), because the library knows no driver.
//!
//! The policy, the workload and the statistics are those of the simulator; only the driver differs
//! ([`forebay_live::run`]). All results are measured; they include the target, the driver, and how
//! late requests were issued.

#![forbid(unsafe_code)]

pub mod capture;
mod error;
mod late;
mod on;
mod page;
mod play_target;
pub mod probe;
mod result;
pub mod served;
mod served_array;
mod targets;
mod verb;
mod verdict;
pub mod volume;
mod watch;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use forebay_ask::named;
use forebay_core::catalog::{build_placed, is_array, is_placement};
use forebay_core::stack::Blocks;
use forebay_core::stack::placed::Placed;
use forebay_core::{Lane, Nanos, Policy};
use forebay_live::{CpuTime, Lanes, Patterned, Punctual, run};

use forebay::input::Input;
use forebay::progress::Meter;
use forebay::replayed::{Replay, Replayed, Setup};
use forebay_words::quantities::seconds;

pub use error::Error;
pub use forebay_live::Driver;
pub use on::{On, OnVolume, Real};
use result::Played;
pub use result::{ErrorCount, PlayResult, TargetFigures};
pub use verb::{PlayAsk, VolumeTarget};
pub use watch::PlayNews;

use error::unfit;
use on::{LiveLanes, Prepared};
use watch::{Limits, Watched};

/// The policy that leaves requests unchanged: first in, first out, without merging.
pub const AS_RECORDED: &str =
    "noop:merge=no:reads-max=1024:writes-max=1024:request-max-kib=1024:bio-max-kib=1024";

/// The default policy of a volume's drives. It merges neighboring requests, so that a chunk and its
/// checksums become one write.
pub const OF_DRIVES: &str = "noop";

/// The parameters of a run other than the trace.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// The policy spec.
    pub policy: &'a str,
    /// How requests arrive, and how volumes are mapped.
    pub setup: Setup,
    /// The maximum duration.
    pub length: Option<Nanos>,
    /// Whether the driver runs with real-time priority on its CPU; this requires root privileges.
    pub realtime: bool,
}

/// Plays `input` on `on`. Ends early, with the results so far, once `stop` is set; `tell` is called
/// twice per second with the progress.
///
/// # Errors
/// The policy spec is invalid, a target cannot be used, the trace cannot be reread, or the driver
/// fails. Failed I/Os are counted in the result and are not errors.
pub fn play(
    input: &Input,
    on: On<'_>,
    plan: Plan<'_>,
    stop: &AtomicBool,
    tell: impl FnMut(&PlayNews),
) -> Result<PlayResult, Error> {
    // Checks the permission before anything is created. Reading the trace does not need the
    // priority.
    drop(punctual(plan)?);
    let prepared = on.prepare(input, plan)?;
    played(input, prepared, plan, stop, tell)
}

/// Gives this thread real-time priority if `plan` requests it.
fn punctual(plan: Plan<'_>) -> Result<Punctual, Error> {
    Punctual::thread(plan.realtime).map_err(|error| {
        unfit(format!(
            "got {}, but the operating system refuses it: {error}; it needs root (CAP_SYS_NICE)",
            named("realtime=true")
        ))
    })
}

/// Checks that `policy` can be built, before anything is read or created.
pub fn check(on: On<'_>, policy: &str) -> Result<(), Error> {
    let lanes = on.lanes_before();
    if let On::Emulated(bed) = on {
        bed.check_failures(policy)?;
    }
    if matches!(on, On::Volume(_)) && is_array(policy) {
        // The drives determine which policies are possible, so the check comes later.
        return Ok(());
    }
    refuse_servers(&*build_placed(policy, &lanes)?, policy, on)
}

/// Rejects servers of constant rate on real targets, because they can only be emulated.
fn refuse_servers(policy: &dyn Policy, name: &str, on: On<'_>) -> Result<(), Error> {
    if policy.servers().is_empty() || matches!(on, On::Emulated(_)) {
        return Ok(());
    }
    Err(unfit(format!(
        "'{name}': got a shaper that needs several servers with their own rates, expected one that \
         shares one target; use another, or emulate a device ({})",
        named("emulate")
    )))
}

/// Flushes a volume's memory to its drives; returns how long that took, or why it failed.
fn flushed(policy: &mut dyn Policy, lanes: &mut LiveLanes) -> Result<String, String> {
    let began = Instant::now();
    match forebay_volume::flush(policy, lanes) {
        Ok(()) => Ok(format!(
            "The volume was flushed at the end, in {}: all writes are durable.",
            seconds(began.elapsed().as_secs_f64())
        )),
        Err(error) => Err(format!("some writes may be lost: {error}")),
    }
}

/// Plays on prepared targets.
fn played(
    input: &Input,
    prepared: Prepared<'_>,
    plan: Plan<'_>,
    stop: &AtomicBool,
    tell: impl FnMut(&PlayNews),
) -> Result<PlayResult, Error> {
    let mut policy = prepared.policy(plan.policy)?;
    let is_volume = prepared.is_volume();
    let mut going = |_| match stop.load(Ordering::Relaxed) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    let mut reading = Meter::new(&mut going);
    let placement = prepared.placement.clone();
    let (workload, imputed_share) =
        Replayed::new(input, placement, plan.setup, 0..u64::MAX, &mut reading)?;
    let (disks, names) = (prepared.disks(&*policy), prepared.names(plan.policy));
    let mut notes = prepared.notes();
    let _punctual = punctual(plan)?;
    // The clock starts when the lanes are created.
    let mut lanes = prepared.lanes(&*policy, plan.policy, &mut notes)?;
    let mut workload = Patterned::new(workload, lanes.pattern(), is_placement(plan.policy));
    if let Some(block) = lanes.block_bytes().filter(|_| !is_volume) {
        policy = Box::new(Placed::new(Blocks::new(block), [(policy, lanes.count() as Lane)]));
    }
    let before = CpuTime::used();
    let limits = Limits { stop, length: plan.length };
    let mut watch = Watched::new(lanes.known(), policy.classes(), limits, tell);
    let driver = lanes.driver();
    let makespan = run(&mut *policy, &mut lanes, &mut workload, &mut watch)
        .map_err(|source| Error::Driver { driver, source })?;
    let cpu = CpuTime::used().since(before);
    let flush_error = match is_volume.then(|| flushed(&mut *policy, &mut lanes)) {
        Some(Ok(note)) => {
            notes.push(note);
            None
        }
        Some(Err(error)) => Some(error),
        None => None,
    };
    let mut workload = workload.workload;
    if let Some(error) = workload.failed() {
        return Err(forebay::Error::from(error).into());
    }
    let changed = workload.changed();
    if plan.setup.replay == Replay::Open {
        watch.count_overdue(&mut workload);
    }
    if changed.requests_clipped > 0 && watch.statistics.is_empty() {
        return Err(unfit(format!(
            "{}: all {} requests lie beyond the target; use {} or wrap",
            input.path.display(),
            changed.requests_clipped,
            named("map=scale")
        )));
    }
    let (lanes, placement) = (&lanes, policy.figures());
    drop(policy);
    let gone = lanes.targets().into_iter().filter(|target| !target.is_in_place());
    notes.extend(gone.map(|target| {
        let path = target.path().display();
        format!("{path}: moved or removed during the run, which continued on the open file")
    }));
    let played = Played {
        input,
        plan,
        lanes,
        names,
        disks,
        changed,
        imputed_share,
        makespan,
        cpu,
        placement,
        notes,
        flush_error,
    };
    let mut result = played.result(&watch);
    workload.tell_lag(&mut result.figures);
    Ok(result)
}
