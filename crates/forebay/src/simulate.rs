//! The verb `simulate`: a trace through a policy on a device model, in virtual time.

use std::collections::BTreeMap;
use std::ops::Range;
use std::str::FromStr;
use std::time::Instant;

use forebay_core::policy::{PolicyVisitor, Rearranged, with_placed};
use forebay_core::replay::{Closed, Intensity, Open};
use forebay_core::{
    Completion, Device, Done, Nanos, Observer, Op, Policy, Request, Workload, simulate,
};
use serde::Serialize;

use crate::contention::{Contention, ContentionFigures};
use crate::devices::OpenDevice;
use crate::error::Error;
use crate::head::HeadTrace;
use crate::idle::{Idle, IdlePeriods};
use crate::input::{Failed, Input, Records};
use crate::place::{Changed, Imputed, Map, Placement};
use crate::progress::{GoOn, Meter, Metered};
use crate::statistics::{Figures, Statistics};
use forebay_core::device::list::DeviceModel;

mod bed;
mod devices;
mod stretch;

pub use bed::Bed;
pub use devices::DeviceFigures;
use devices::{device_figures, wear};
pub(crate) use stretch::Stretch;

/// How recorded requests become arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Replay {
    /// At their recorded times.
    Open,
    /// Their recorded think time after their predecessor's completion in this run.
    Closed,
}

impl FromStr for Replay {
    type Err = String;
    fn from_str(text: &str) -> Result<Replay, String> {
        match text {
            "open" => Ok(Replay::Open),
            "closed" => Ok(Replay::Closed),
            other => Err(format!("got '{other}', expected open or closed")),
        }
    }
}

/// Everything about a run but the policy.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// How requests arrive.
    pub replay: Replay,
    /// How much faster than recorded.
    pub intensity: Intensity,
    /// What to do with addresses beyond the device.
    pub map: Map,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup { replay: Replay::Open, intensity: Intensity::RECORDED, map: Map::Scale }
    }
}

/// A policy's run.
pub struct Run {
    /// What is reported.
    pub result: RunResult,
    /// Where the heads were.
    pub head: HeadTrace,
    /// When nothing was under way.
    pub idle: IdlePeriods,
    /// Latency distributions: (milliseconds, share) of reads.
    pub read_distribution: Vec<(f64, f64)>,
    /// The same of writes.
    pub write_distribution: Vec<(f64, f64)>,
}

/// A policy's run as it is reported.
#[derive(Clone, Debug, Serialize)]
pub struct RunResult {
    /// The policy with its parameters.
    pub policy: String,
    /// The device.
    pub device: String,
    /// The replay mode.
    pub replay: Replay,
    /// Requests moved, cut or left out because the trace reaches beyond the device.
    #[serde(flatten)]
    pub changed: Changed,
    /// Share of requests whose latency was imputed (closed replay).
    pub imputed_share: f64,
    /// The figures, of all devices together.
    #[serde(flatten)]
    pub figures: Figures,
    /// Flash pages programmed for each page written to flash devices; none without such writes.
    pub write_amplification: Option<f64>,
    /// Blocks erased on flash devices; none without such devices.
    pub erases: Option<u64>,
    /// Most erases of one block.
    pub erases_max: Option<u64>,
    /// Each device, disks first.
    pub devices: Vec<DeviceFigures>,
    /// What the policy counted for itself.
    pub placement: BTreeMap<&'static str, f64>,
    /// Who fought whom.
    pub contention: ContentionFigures,
    /// The simulator's own speed, statistics included.
    pub simulated_requests_per_s: f64,
}

/// Requests that closed replay takes: it holds all of them, in about 150 bytes each at its peak.
pub const CLOSED_REQUESTS_MAX: u64 = 16 << 20;

/// Above this share of requests without a measured latency, closed replay says little.
pub const IMPUTED_SHARE_MAX: f64 = 0.1;

/// Share of `input`'s requests that have no measured latency.
pub fn imputed_share(input: &Input) -> Result<f64, Error> {
    let (mut missing, mut all) = (0u64, 0u64);
    for record in input.records()? {
        all += 1;
        missing += u64::from(record.latency.is_none());
    }
    Ok(missing as f64 / all.max(1) as f64)
}

/// Fails where closed replay would have to hold more than `requests_max`.
fn refuse_long(input: &Input, requests_max: u64) -> Result<(), Error> {
    let requests = input.description.records;
    if requests <= requests_max {
        return Ok(());
    }
    Err(Error::Unfit(format!(
        "{}: got {requests} requests in closed replay, which holds all of them in memory, expected \
         at most {requests_max}; use --replay open, or a part of the trace",
        input.path.display()
    )))
}

/// Runs `input` through the policy that `policy` names on `device`.
///
/// # Errors
/// A wrong policy spec, a trace that cannot be read again, or a trace without any measured latency
/// in closed replay.
pub fn run(input: &Input, device: &OpenDevice, policy: &str, setup: Setup) -> Result<Run, Error> {
    run_with(input, device, policy, setup, |_| ())
}

/// As [`run`], telling `progress` now and then how many arrivals and completions there have been.
pub fn run_with<P: GoOn>(
    input: &Input,
    device: &OpenDevice,
    policy: &str,
    setup: Setup,
    progress: impl FnMut(u64) -> P,
) -> Result<Run, Error> {
    run_on(input, Bed::of(device), policy, setup, progress)
}

/// As [`run_with`], on several devices.
pub fn run_on<P: GoOn>(
    input: &Input,
    bed: Bed<'_>,
    policy: &str,
    setup: Setup,
    progress: impl FnMut(u64) -> P,
) -> Result<Run, Error> {
    run_stretch(input, bed, policy, setup, Stretch::of(0..u64::MAX), progress)
}

/// As [`run_on`], of a part of the trace.
pub(crate) fn run_stretch<P: GoOn>(
    input: &Input,
    bed: Bed<'_>,
    policy: &str,
    setup: Setup,
    stretch: Stretch<'_>,
    progress: impl FnMut(u64) -> P,
) -> Result<Run, Error> {
    bed.check_flash()?;
    let placement = bed.placement(input, setup);
    let meter = Meter::new(progress);
    let visit = Visit { input, bed, placement, setup, policy, stretch, meter };
    with_placed(policy, &bed.lanes(), visit)?
}

/// The requests that `input` becomes on the devices, before any policy. After the last one, ask
/// the second value.
pub(crate) fn requests(
    input: &Input,
    bed: Bed<'_>,
    setup: Setup,
) -> Result<(impl Iterator<Item = Request>, Failed), Error> {
    let records = input.records()?;
    let failed = records.failed();
    Ok((Placed::new(records, bed.placement(input, setup), 0..u64::MAX), failed))
}

struct Visit<'a, F> {
    input: &'a Input,
    bed: Bed<'a>,
    placement: Placement,
    setup: Setup,
    policy: &'a str,
    stretch: Stretch<'a>,
    meter: Meter<F>,
}

impl<T: GoOn, F: FnMut(u64) -> T> PolicyVisitor for Visit<'_, F> {
    type Out = Result<Run, Error>;

    fn visit<P: Policy + Send + 'static>(self, policy: P) -> Result<Run, Error> {
        let Some(map) = self.stretch.rearrangement.cloned() else { return self.simulate(policy) };
        // Boxed, so that the loop is not compiled once more for each policy.
        let policy: Box<dyn Policy + Send> = Box::new(policy);
        let len_max = self.bed.disk.model.len_max();
        let policy = match self.stretch.copied_from {
            None => Rearranged::new(policy, map),
            Some(from) => Rearranged::moving(policy, map, from, len_max),
        };
        self.simulate(policy)
    }
}

impl<T: GoOn, F: FnMut(u64) -> T> Visit<'_, F> {
    fn simulate<P: Policy>(mut self, mut policy: P) -> Result<Run, Error> {
        let (replayed, imputed_share) = self.workload()?;
        let mut workload = Metered::new(replayed, self.meter);
        let opened = match policy.servers() {
            [] => self.bed.devices(self.policy),
            servers => vec![self.bed.disk; servers.len()],
        };
        let mut devices: Vec<DeviceModel> = match policy.servers() {
            [] => opened.iter().map(|device| device.model.clone()).collect(),
            servers => self.bed.disk.lanes(servers)?,
        };
        let unused = devices.iter().map(DeviceModel::without_content).collect();
        let mut watch = Watch {
            disks: self.bed.disks.max(policy.servers().len() as u16).max(1),
            statistics: Statistics::new(unused, policy.classes()),
            contention: Contention::default(),
            head: HeadTrace::default(),
            idle: Idle::new(self.stretch.idle_needed),
        };
        let begun = Instant::now();
        let makespan = simulate::run(&mut policy, &mut devices, &mut workload, &mut watch);
        let wall_s = begun.elapsed().as_secs_f64();
        if workload.is_stopped() {
            return Err(Error::Stopped);
        }
        let workload = workload.workload;
        let changed = workload.changed();
        if let Some(error) = workload.failed.take() {
            return Err(error.into());
        }
        if makespan == Nanos::ZERO && changed.requests_clipped > 0 && watch.statistics.is_empty() {
            return Err(Error::Unfit(format!(
                "{}: all {} requests lie beyond {}; use --map scale or wrap",
                self.input.path.display(),
                changed.requests_clipped,
                self.bed.disk.name
            )));
        }
        let labels = &self.input.labels;
        let busy = devices.iter().fold(Nanos::ZERO, |sum, device| sum + device.busy(makespan));
        let joules = devices.iter().map(|device| device.joules(makespan)).sum();
        let figures = watch.statistics.figures(makespan, busy, joules, labels);
        let (write_amplification, erases, erases_max) = wear(&devices);
        let disks = usize::from(watch.disks);
        let each = opened.iter().copied().zip(&devices).zip(watch.statistics.asked());
        Ok(Run {
            result: RunResult {
                policy: self.policy.to_string(),
                device: self.bed.disk.name.clone(),
                replay: self.setup.replay,
                write_amplification,
                erases,
                erases_max,
                devices: each
                    .enumerate()
                    .map(|(lane, (device, asked))| {
                        let role = if lane < disks { "disk" } else { "flash" };
                        device_figures(device, asked, role, makespan)
                    })
                    .collect(),
                placement: policy.figures().into_iter().collect(),
                changed,
                imputed_share,
                simulated_requests_per_s: figures.requests as f64 / wall_s.max(1e-9),
                figures,
                contention: watch.contention.figures(10, labels),
            },
            head: watch.head,
            idle: watch.idle.periods(),
            read_distribution: watch.statistics.reads().distribution(400),
            write_distribution: watch.statistics.writes().distribution(400),
        })
    }
}

impl<'a, T: GoOn, F: FnMut(u64) -> T> Visit<'a, F> {
    fn workload(&mut self) -> Result<(Replayed<'a>, f64), Error> {
        let records = self.input.records()?;
        let failed = records.failed();
        let placed = Placed::new(records, self.placement.clone(), self.stretch.requests.clone());
        match self.setup.replay {
            Replay::Open => {
                let open = Open::new(placed, self.setup.intensity);
                Ok((Replayed { kind: Kind::Open(open), failed }, 0.0))
            }
            Replay::Closed => self.closed(placed, failed),
        }
    }

    fn closed(
        &mut self,
        mut placed: Placed<'a>,
        failed: Failed,
    ) -> Result<(Replayed<'a>, f64), Error> {
        refuse_long(self.input, CLOSED_REQUESTS_MAX)?;
        let imputed = self.imputed()?;
        let (mut all, mut missing) = (0u64, 0u64);
        let mut recorded = Vec::new();
        while let Some((request, latency)) = placed.next_with_latency() {
            if self.meter.stops_after(1) {
                return Err(Error::Stopped);
            }
            all += 1;
            missing += u64::from(latency.is_none());
            let of_op = if request.op == Op::Write { imputed.write } else { imputed.read };
            recorded.push((request, latency.unwrap_or(of_op)));
        }
        let share = missing as f64 / all.max(1) as f64;
        let closed = Closed::new(recorded, self.setup.intensity);
        let kind = Kind::Closed(Box::new(closed), placed.placement.changed());
        Ok((Replayed { kind, failed }, share))
    }

    /// The mean measured latency of each direction, for requests that have none.
    fn imputed(&mut self) -> Result<Imputed, Error> {
        let mut sums = [(0u128, 0u64); 2];
        for record in self.input.records()? {
            if self.meter.stops_after(1) {
                return Err(Error::Stopped);
            }
            if let Some(latency) = record.latency {
                let sum = &mut sums[usize::from(record.op == Op::Write)];
                *sum = (sum.0 + u128::from(latency.0), sum.1 + 1);
            }
        }
        if sums[0].1 + sums[1].1 == 0 {
            return Err(Error::Unfit(format!(
                "{}: closed replay needs latencies and the trace has none; use --replay open",
                self.input.path.display()
            )));
        }
        let mean = |side: usize| {
            let (sum, count) = if sums[side].1 > 0 { sums[side] } else { sums[1 - side] };
            Nanos((sum / u128::from(count.max(1))) as u64)
        };
        Ok(Imputed { read: mean(0), write: mean(1) })
    }
}

/// Records as requests on the device.
struct Placed<'a> {
    records: Records<'a>,
    placement: Placement,
    next: u64,
    wanted: Range<u64>,
    /// When the first wanted one arrives; the others' times run from there.
    begins: Option<Nanos>,
}

impl<'a> Placed<'a> {
    fn new(records: Records<'a>, placement: Placement, wanted: Range<u64>) -> Placed<'a> {
        // The whole trace keeps its own beginning.
        let begins = (wanted.start == 0).then_some(Nanos::ZERO);
        Placed { records, placement, next: 0, wanted, begins }
    }

    #[inline]
    fn next_with_latency(&mut self) -> Option<(Request, Option<Nanos>)> {
        while self.next < self.wanted.end {
            let record = self.records.next()?;
            let Some(mut request) = self.placement.place(&record, self.next) else { continue };
            self.next += 1;
            if self.next > self.wanted.start {
                request.at = request.at - *self.begins.get_or_insert(request.at);
                return Some((request, record.latency));
            }
        }
        None
    }
}

impl Iterator for Placed<'_> {
    type Item = Request;
    #[inline]
    fn next(&mut self) -> Option<Request> {
        self.next_with_latency().map(|(request, _)| request)
    }
}

/// A trace as a workload.
struct Replayed<'a> {
    kind: Kind<'a>,
    failed: Failed,
}

// One value a run: its size does not matter.
#[allow(clippy::large_enum_variant)]
enum Kind<'a> {
    Open(Open<Placed<'a>>),
    Closed(Box<Closed>, Changed),
}

impl Replayed<'_> {
    fn changed(&self) -> Changed {
        match &self.kind {
            Kind::Open(open) => open.source().placement.changed(),
            Kind::Closed(_, changed) => *changed,
        }
    }
}

impl Workload for Replayed<'_> {
    #[inline]
    fn peek(&self) -> Option<Nanos> {
        match &self.kind {
            Kind::Open(open) => open.peek(),
            Kind::Closed(closed, _) => closed.peek(),
        }
    }

    #[inline]
    fn take(&mut self) -> Request {
        match &mut self.kind {
            Kind::Open(open) => open.take(),
            Kind::Closed(closed, _) => closed.take(),
        }
    }

    #[inline]
    fn finished(&mut self, now: Nanos, done: &Done) {
        if let Kind::Closed(closed, _) = &mut self.kind {
            closed.finished(now, done);
        }
    }
}

/// Everything that watches a run.
struct Watch {
    disks: u16,
    statistics: Statistics<DeviceModel>,
    contention: Contention,
    head: HeadTrace,
    idle: Idle,
}

impl Observer for Watch {
    #[inline]
    fn arrived(&mut self, request: &Request) {
        self.statistics.arrived(request);
        self.idle.arrived(request.at);
    }

    #[inline]
    fn io(&mut self, completion: &Completion) {
        self.statistics.io(completion);
        if completion.io.lane < self.disks {
            self.contention.io(completion);
        }
        if completion.io.lane == 0 {
            self.head.io(completion);
        }
    }

    #[inline]
    fn finished(&mut self, now: Nanos, done: &Done) {
        self.statistics.finished(now, done);
        self.idle.finished(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_replay_refuses_what_it_cannot_hold() {
        let record = forebay_trace::Record {
            at: Nanos::ZERO,
            offset: 0,
            latency: None,
            len: 4096,
            stream: 0,
            volume: 0,
            op: Op::Read,
            flags: forebay_core::Flags::NONE,
        };
        let input = Input::from_records(vec![record; 3], vec!["a".into()]);
        assert!(refuse_long(&input, 3).is_ok());
        let text = refuse_long(&input, 2).unwrap_err().to_string();
        assert!(text.contains("got 3 requests") && text.contains("--replay open"), "{text}");
    }
}
