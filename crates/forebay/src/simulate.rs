//! The verb `simulate`: runs a trace through policies on device models, in virtual time.

use std::collections::BTreeMap;
use std::time::Instant;

use forebay_ask::named;
use forebay_core::catalog::{Origin, POLICIES, PolicyVisitor, with_measured};
use forebay_core::device::failing::{Failing, Failure};
use forebay_core::stack::{Rearrange, Rearranged, Served};
use forebay_core::{
    Device, DeviceModel, Lane, Nanos, Policy, Request, Workload, WriteBack, simulate,
};
use serde::Serialize;

use crate::contention::{Contention, ContentionFigures};
use crate::head::HeadTrace;
use crate::idle::{Idle, IdlePeriods};
use crate::input::{Failed, Input};
use crate::jobs::{self, Tell, side_by_side};
use crate::layout::{Changed, VolumeLayout};
use crate::progress::{Meter, Metered, Progress, Telling, untold};
use crate::replayed::{DeviceRequests, Replayed};
use crate::retrodict::Judged;
use crate::slices::Slices;
use crate::statistics::{Figures, Statistics};
use crate::{Error, OpenDevice, shingled};

mod bed;
mod devices;
mod late;
mod order_bound;
mod page;
mod rebuild;
mod ruling;
mod served;
mod stretch;
mod verb;
mod watch;

pub use crate::replayed::{
    CLOSED_REQUESTS_MAX, DEPENDENT_KNOWN_SHARE, IMPUTED_SHARE_MAX, Replay, Setup, imputed_share,
};
pub use bed::Bed;
pub use devices::DeviceFigures;
use devices::{device_figures, wear};
pub use late::LateCount;
pub use order_bound::LeastTime;
use rebuild::Beside;
pub use rebuild::Rebuild;
pub use served::{ServedDisk, ServedDrives, ServedExport, Shaped};
pub(crate) use stretch::Stretch;
pub use verb::{FailureInput, OwnPolicy, PolicyInput, SimulateAsk};
use watch::Watch;

/// The run of a policy, with all data that pages need.
pub struct Run {
    /// The figures of the run that are reported.
    pub result: RunResult,
    /// The positions of the heads during the run.
    pub head: HeadTrace,
    /// The periods in which the devices were idle.
    pub idle: IdlePeriods,
    /// The cumulative distribution of read latencies, as points (milliseconds, share).
    pub read_distribution: Vec<(f64, f64)>,
    /// The cumulative distribution of write latencies, as points (milliseconds, share).
    pub write_distribution: Vec<(f64, f64)>,
    /// The run divided into time slices, if requested.
    pub slices: Option<Slices>,
    /// The modeled latencies of requests whose recording has a latency, if requested.
    pub judged: Option<Judged>,
}

/// The figures of a policy's run that are reported.
#[derive(Clone, Debug, Serialize)]
pub struct RunResult {
    /// The spec of the policy.
    pub policy: String,
    /// The name of the device.
    pub device: String,
    /// The replay mode of the run.
    pub replay: Replay,
    /// The number of requests that were moved, cut or left out because the trace extends beyond the
    /// device.
    #[serde(flatten)]
    pub changed: Changed,
    /// The share of requests whose latency was imputed, which happens only in closed replay.
    pub imputed_share: f64,
    /// The number of requests that dependent replay issued late because too many other requests had
    /// to be read before them.
    pub found_late: u64,
    /// The figures of all devices together.
    #[serde(flatten)]
    pub figures: Figures,
    /// The number of flash pages programmed per page written; `None` if flash was not written to.
    pub write_amplification: Option<f64>,
    /// The number of blocks erased on flash devices; `None` if there is no flash.
    pub erases: Option<u64>,
    /// The highest number of erases of any flash block; `None` if there is no flash.
    pub erases_max: Option<u64>,
    /// The figures of each device, disks first.
    pub devices: Vec<DeviceFigures>,
    /// Counters that the policy itself keeps, by name.
    pub placement: BTreeMap<&'static str, f64>,
    /// How much streams slow each other down by competing for the heads.
    pub contention: ContentionFigures,
    /// The simulator's own speed in requests per second of real time, statistics included.
    pub simulated_requests_per_s: f64,
}

impl RunResult {
    /// Returns the total time in seconds, as its replay defines it: the part of the time that a
    /// scheduler can change.
    pub fn total_s(&self) -> f64 {
        match self.replay {
            Replay::Open => self.figures.busy_s,
            Replay::Closed | Replay::Dependent => self.figures.makespan_s,
        }
    }
}

/// Simulates `input` on `device` under the policy with spec `policy`.
///
/// # Errors
/// Fails if the policy spec is invalid, if the trace cannot be read again, or, in closed replay, if
/// the trace has no measured latencies.
pub fn run(input: &Input, device: &OpenDevice, policy: &str, setup: Setup) -> Result<Run, Error> {
    run_with(input, device, policy, setup, &mut untold)
}

/// Like [`run`], but reports the number of arrivals and completions so far to `progress` from time
/// to time.
pub fn run_with(
    input: &Input,
    device: &OpenDevice,
    policy: &str,
    setup: Setup,
    progress: Progress<'_>,
) -> Result<Run, Error> {
    run_on(input, Bed::of(device), policy, setup, progress)
}

/// Like [`run_with`], but on the devices of `bed`.
pub fn run_on(
    input: &Input,
    bed: Bed<'_>,
    policy: &str,
    setup: Setup,
    progress: Progress<'_>,
) -> Result<Run, Error> {
    run_stretch(input, bed, policy, setup, Stretch::of(0..u64::MAX), progress)
}

/// Like [`run_on`], but with a scheduler that is in no catalog. Results call it `name`.
pub fn run_own(
    input: &Input,
    bed: Bed<'_>,
    (name, policy): (&str, &mut impl Policy),
    setup: Setup,
    progress: Progress<'_>,
) -> Result<Run, Error> {
    // The scheduler gets the same lanes as the simplest bundled one, whatever its name.
    let mut run =
        visited(input, bed, "noop", setup, Stretch::of(0..u64::MAX), progress, |visit| {
            visit.simulate(policy)
        })?;
    run.result.policy = name.to_string();
    Ok(run)
}

/// Simulates `input` under each of `policies`, with up to `jobs` runs at a time, or fewer if memory
/// is short. The results are in the order of `policies` and do not depend on `jobs`, except for the
/// simulator's own speed.
pub fn run_all(
    input: &Input,
    bed: Bed<'_>,
    policies: &[&str],
    setup: Setup,
    jobs: usize,
    progress: Telling<'_>,
) -> Result<Vec<Run>, Error> {
    let steps = input.description.records.saturating_mul(2);
    let all = jobs::within_memory(jobs, input, setup, None);
    let work = |policy: &str, tell: Tell<'_>| run_on(input, bed, policy, setup, tell);
    // If the runs might not fit into memory in the worst case, make the first run alone: it shows
    // how much memory is really needed.
    let first = if all < jobs { 1.min(policies.len()) } else { policies.len() };
    let (alone, rest) = policies.split_at(first);
    let share = first as f64 / policies.len().max(1) as f64;
    let on_first = |part: usize, tell: Tell<'_>| work(alone[part], tell);
    let mut runs = side_by_side(alone, (all, steps), 0.0..share, on_first, progress)?;
    let waiting_max = runs.iter().map(|run| run.result.figures.outstanding_max).max();
    let jobs = jobs::within_memory(jobs, input, setup, waiting_max);
    let on_rest = |part: usize, tell: Tell<'_>| work(rest[part], tell);
    runs.extend(side_by_side(rest, (jobs, steps), share..1.0, on_rest, progress)?);
    Ok(runs)
}

/// Like [`run_on`], but for a part of the trace.
pub(crate) fn run_stretch(
    input: &Input,
    bed: Bed<'_>,
    policy: &str,
    setup: Setup,
    stretch: Stretch<'_>,
    progress: Progress<'_>,
) -> Result<Run, Error> {
    visited(input, bed, policy, setup, stretch, progress, |visit| {
        with_measured(policy, &bed.lanes_with_costs(policy), &bed.disk.model, visit)?
    })
}

/// Prepares the inputs for a run of `policy`, and calls `run` with them.
fn visited(
    input: &Input,
    bed: Bed<'_>,
    policy: &str,
    setup: Setup,
    stretch: Stretch<'_>,
    progress: Progress<'_>,
    run: impl FnOnce(Visit<'_>) -> Result<Run, Error>,
) -> Result<Run, Error> {
    bed.check_flash()?;
    shingled::check(bed.disk, input)?;
    let layout = bed.placement(input, policy, setup);
    let meter = Meter::new(progress);
    run(Visit { input, bed, layout, setup, policy, stretch, meter })
}

/// Yields the requests to the devices that `input` becomes before any policy sees them. Check the
/// second value for an error after the last request.
pub(crate) fn requests(
    input: &Input,
    bed: Bed<'_>,
    setup: Setup,
) -> Result<(impl Iterator<Item = Request>, Failed), Error> {
    let records = input.records()?;
    let failed = records.failed();
    Ok((DeviceRequests::new(records, bed.placement(input, "noop", setup), 0..u64::MAX), failed))
}

/// How long a request travels between a client and `forebay serve`, both ways together: the median
/// time of 4 KiB reads from a file in memory by an NBD client on the same machine, 17.8 µs, rounded
/// up (docs/serve-measured.md, section 2).
pub(crate) const SERVE_ROUND_TRIP: Nanos = Nanos(20_000);

/// Returns whether `policy` is a scheduler that only Forebay offers.
fn is_own(policy: &str) -> bool {
    let name = policy.split(':').next();
    POLICIES.iter().any(|it| Some(it.name) == name && it.origin == Origin::Forebay)
}

struct Visit<'a> {
    input: &'a Input,
    bed: Bed<'a>,
    layout: VolumeLayout,
    setup: Setup,
    policy: &'a str,
    stretch: Stretch<'a>,
    meter: Meter<'a>,
}

impl PolicyVisitor for Visit<'_> {
    type Out = Result<Run, Error>;

    fn visit<P: Policy + Send + 'static>(self, mut policy: P) -> Result<Run, Error> {
        let Some(map) = self.stretch.rearrangement.cloned() else {
            if self.setup.serves_own && is_own(self.policy) {
                return self.simulate(&mut Served::new(Box::new(policy), SERVE_ROUND_TRIP));
            }
            return self.simulate(&mut policy);
        };
        // The policy is boxed, so that this function is not compiled separately for each policy.
        let policy: Box<dyn Policy + Send> = Box::new(policy);
        let len_max = self.bed.disk.model.len_max();
        let lanes = policy.servers().len().max(self.bed.devices(self.policy).len()) as u16;
        let placement = match self.stretch.copied_from {
            None => Rearrange::new(map),
            Some(from) => Rearrange::moving(map, from, len_max),
        };
        self.simulate(&mut Rearranged::before(placement, policy, lanes))
    }
}

impl<'a> Visit<'a> {
    /// Runs the simulation loop, which is the only part compiled separately for each policy.
    fn simulate<P: Policy>(self, policy: &mut P) -> Result<Run, Error> {
        let (visit, mut ready) = self.ready(policy)?;
        let begun = Instant::now();
        let makespan = match visit.bed.failures {
            [] => {
                let Ready { devices, workload, watch, .. } = &mut ready;
                simulate::run(policy, devices, workload, watch)
            }
            failures => ready.run_failing(policy, failures),
        };
        visit.finish(ready, policy, makespan, begun.elapsed().as_secs_f64())
    }

    /// Prepares the devices and the statistics for a run of `policy`.
    fn ready(mut self, policy: &dyn Policy) -> Result<(Visited<'a>, Ready<'a>), Error> {
        let requests = self.stretch.requests.clone();
        let (replayed, imputed_share) =
            Replayed::new(self.input, self.layout, self.setup, requests, &mut self.meter)?;
        let opened = match policy.servers() {
            [] => self.bed.devices(self.policy),
            servers => vec![self.bed.disk; servers.len()],
        };
        let devices: Vec<DeviceModel> = match policy.servers() {
            [] => opened.iter().map(|device| device.model.clone()).collect(),
            servers => self.bed.disk.lanes(servers)?,
        };
        let unused = devices.iter().map(DeviceModel::without_content).collect();
        let statistics = match self.bed.promises {
            [] => Statistics::new(unused, policy.classes()),
            promises => Statistics::new(unused, &served::classes(promises)),
        };
        let watch = Watch {
            disks: self.bed.disks.max(policy.servers().len() as u16).max(1),
            statistics,
            contention: Contention::default(),
            head: HeadTrace::default(),
            idle: Idle::new(self.stretch.idle_needed),
            slices: self.bed.slices.then(Slices::default),
            judged: (self.bed.judged == Some(self.policy)).then(Judged::default),
            late: self.bed.late,
            promises: self.bed.promises,
        };
        let workload = Beside::new(Metered::new(replayed, self.meter), self.bed.rebuild);
        let visited =
            Visited { input: self.input, bed: self.bed, setup: self.setup, policy: self.policy };
        Ok((visited, Ready { opened, devices, workload, watch, imputed_share }))
    }
}

/// The state of a run at its start.
struct Ready<'a> {
    opened: Vec<&'a OpenDevice>,
    devices: Vec<DeviceModel>,
    workload: Beside<'a, Metered<'a, Replayed<'a>>>,
    watch: Watch<'a>,
    imputed_share: f64,
}

impl Ready<'_> {
    fn run_failing(&mut self, policy: &mut dyn Policy, failures: &[Failure]) -> Nanos {
        let failing = self.devices.drain(..).enumerate();
        let failing = failing.map(|(lane, one)| Failing::new(one, lane as Lane, failures));
        let mut failing: Vec<_> = failing.collect();
        let makespan = simulate::run(policy, &mut failing, &mut self.workload, &mut self.watch);
        self.devices.extend(failing.into_iter().map(Failing::into_device));
        makespan
    }
}

/// Everything that a run needs, except the policy.
struct Visited<'a> {
    input: &'a Input,
    bed: Bed<'a>,
    setup: Setup,
    policy: &'a str,
}

impl Visited<'_> {
    /// Computes the results of a run after its last request.
    fn finish(
        &self,
        ready: Ready<'_>,
        policy: &dyn Policy,
        makespan: Nanos,
        wall_s: f64,
    ) -> Result<Run, Error> {
        let Ready { opened, devices, workload, watch, imputed_share } = ready;
        if workload.workload.is_stopped() {
            return Err(Error::Stopped);
        }
        let workload = workload.workload.workload;
        let changed = workload.changed();
        if let Some(error) = workload.failed() {
            return Err(error.into());
        }
        if makespan == Nanos::ZERO && changed.requests_clipped > 0 && watch.statistics.is_empty() {
            return Err(self.all_beyond(changed.requests_clipped));
        }
        let labels = &self.input.labels;
        let busy = devices.iter().fold(Nanos::ZERO, |sum, device| sum + device.busy(makespan));
        let joules = devices.iter().map(|device| device.joules(makespan)).sum();
        let back: Vec<WriteBack> = devices.iter().map(Device::write_back).collect();
        let mut figures = watch.statistics.figures(makespan, (busy, joules), &back, labels);
        workload.tell_lag(&mut figures);
        let (write_amplification, erases, erases_max) = wear(&devices);
        let disks = usize::from(watch.disks);
        let each = opened.iter().copied().zip(&devices).zip(watch.statistics.asked());
        let each = each.enumerate().map(|(lane, (device, asked))| {
            let role = if lane < disks { "disk" } else { "flash" };
            device_figures(device, asked, role, makespan)
        });
        Ok(Run {
            result: RunResult {
                policy: self.policy.to_string(),
                device: self.bed.disk.name.clone(),
                replay: self.setup.replay,
                write_amplification,
                erases,
                erases_max,
                devices: each.collect(),
                placement: policy.figures().into_iter().collect(),
                changed,
                imputed_share,
                found_late: workload.found_late(),
                simulated_requests_per_s: figures.requests as f64 / wall_s.max(1e-9),
                figures,
                contention: watch.contention.figures(10, labels),
            },
            head: watch.head,
            idle: watch.idle.periods(),
            read_distribution: watch.statistics.reads().distribution(400),
            write_distribution: watch.statistics.writes().distribution(400),
            slices: watch.slices,
            judged: watch.judged,
        })
    }

    fn all_beyond(&self, requests: u64) -> Error {
        Error::Unfit(format!(
            "{}: all {requests} requests lie beyond {}; use {} or {}",
            self.input.path.display(),
            self.bed.disk.name,
            named("map=scale"),
            named("map=wrap")
        ))
    }
}
