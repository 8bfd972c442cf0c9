//! The result of a live run.

use std::collections::BTreeMap;

use forebay::input::Input;
use forebay::layout::Changed;
use forebay::replayed::Replay;
use forebay::statistics::Figures;
use forebay_core::contract::Figure;
use forebay_core::{Device, Nanos, WriteBack};
use forebay_live::{CpuTime, TargetKind};
use serde::Serialize;

use crate::on::LiveLanes;
use crate::watch::{Ending, PlayNews, Watched};
use crate::{Plan, verdict};

/// The reported result of a live run.
#[derive(Clone, Debug, Serialize)]
pub struct PlayResult {
    /// The verdict in sentences, with problems first.
    pub verdict: Vec<String>,
    /// Whether the host issued requests when they were due, apart from waits for the target.
    pub host_kept_up: bool,
    /// `measured` on real targets, `emulated` on device models in wall time.
    pub result: &'static str,
    /// The I/O driver: `io_uring`, `threads` or `emulated`.
    pub driver: &'static str,
    /// The policy with its parameters.
    pub policy: String,
    /// The replay mode.
    pub replay: Replay,
    /// Why the run ended before the trace: `interrupted` or `time is up`.
    pub ended_early: Option<&'static str>,
    /// The number of requests moved, shortened or omitted because the trace exceeds the target.
    #[serde(flatten)]
    pub changed: Changed,
    /// The share of requests whose latency was imputed (closed replay only).
    pub imputed_share: f64,
    /// The simulator's figures. Latencies are measured from when a request was due. Figures that
    /// require a model (seeks, energy) are 0 on real targets.
    #[serde(flatten)]
    pub figures: Figures,
    /// The median delay in issuing requests in milliseconds: the time from when a request was due
    /// until the policy had received it and the resulting I/Os were about to be submitted.
    pub lateness_p50_ms: Option<f64>,
    /// The 99th percentile of the delay in milliseconds.
    pub lateness_p99_ms: Option<f64>,
    /// The maximum delay in milliseconds.
    pub lateness_max_ms: f64,
    /// The 99th percentile of the delays caused by this host, in milliseconds. Requests that mostly
    /// waited for the target count as 0.
    pub lateness_host_p99_ms: Option<f64>,
    /// The time in seconds during which nothing could be issued because the target accepted no more
    /// I/Os.
    pub target_full_s: f64,
    /// The number of requests that were due but not issued by this host when the run ended early
    /// (open replay only).
    pub requests_overdue: u64,
    /// The request rate of the workload, including overdue requests; None in closed replay, which
    /// has no fixed rate.
    pub wanted_iops: Option<f64>,
    /// The rate of finished requests.
    pub achieved_iops: f64,
    /// The CPU time in user mode, in seconds.
    pub cpu_user_s: f64,
    /// The CPU time in the kernel, in seconds.
    pub cpu_system_s: f64,
    /// The number of requests that began or ended within a block of direct I/O, so that whole
    /// blocks had to be read, modified and written.
    pub requests_partial: u64,
    /// Failed I/Os by kind, most frequent first.
    pub errors: Vec<ErrorCount>,
    /// The targets, disks first.
    pub targets: Vec<TargetFigures>,
    /// The policy's own counters.
    pub placement: BTreeMap<&'static str, f64>,
    /// Notes about targets and driver for the user.
    pub notes: Vec<String>,
    /// Why a volume could not be flushed at the end, which means that some writes may be lost.
    pub flush_error: Option<String>,
}

/// The number of I/Os that failed with the same error.
#[derive(Clone, Debug, Serialize)]
pub struct ErrorCount {
    /// The system's name of the error, or `short` if fewer bytes were transferred than requested.
    pub error: String,
    /// The error in words.
    pub message: String,
    /// The operation that failed.
    pub op: &'static str,
    /// The number of I/Os.
    pub ios: u64,
}

/// The figures of one target or emulated device.
#[derive(Clone, Debug, Serialize)]
pub struct TargetFigures {
    /// The target's path or the device's name.
    pub target: String,
    /// `file`, `created file`, `block device` or `emulated device`.
    pub kind: &'static str,
    /// `disk`, or `flash` for the device that placement policies use in addition to disks.
    pub role: &'static str,
    /// Whether the page cache was bypassed; None for emulated devices.
    pub direct: Option<bool>,
    /// The block size of direct I/O.
    pub block_bytes: Option<u32>,
    /// The capacity in bytes.
    pub capacity_bytes: u64,
    /// The number of I/Os.
    pub ios: u64,
    /// The number of failed I/Os.
    pub ios_failed: u64,
    /// The number of bytes read from the target.
    pub read_bytes: u64,
    /// The number of bytes written to the target.
    pub written_bytes: u64,
    /// The time in seconds during which at least one I/O was in flight.
    pub busy_s: f64,
}

/// The inputs of a result.
pub(super) struct Played<'a> {
    pub(super) input: &'a Input,
    pub(super) plan: Plan<'a>,
    pub(super) lanes: &'a LiveLanes,
    /// The names of emulated devices, by lane.
    pub(super) names: Vec<String>,
    /// The number of disks; later lanes are flash.
    pub(super) disks: usize,
    pub(super) changed: Changed,
    pub(super) imputed_share: f64,
    pub(super) makespan: Nanos,
    pub(super) cpu: CpuTime,
    pub(super) placement: Vec<Figure>,
    pub(super) notes: Vec<String>,
    pub(super) flush_error: Option<String>,
}

impl Played<'_> {
    pub(super) fn result<F: FnMut(&PlayNews)>(self, watch: &Watched<'_, F>) -> PlayResult {
        let targets = self.targets(watch);
        let busy = watch.work().fold(Nanos::ZERO, |sum, (busy, _)| sum + busy);
        let models = self.lanes.models();
        let joules = models.iter().fold(0.0, |sum, model| sum + model.joules(self.makespan));
        let back: Vec<WriteBack> = models.iter().map(|model| model.write_back()).collect();
        let (work, labels) = ((busy, joules), &self.input.labels);
        let figures = watch.statistics.figures(self.makespan, work, &back, labels);
        let errors = errors(watch);
        let mut result = PlayResult {
            verdict: Vec::new(),
            host_kept_up: true,
            result: if models.is_empty() { "measured" } else { "emulated" },
            driver: self.lanes.driver(),
            policy: self.plan.policy.to_string(),
            replay: self.plan.setup.replay,
            ended_early: watch.ending.map(|ending| match ending {
                Ending::Interrupted => "interrupted",
                Ending::TimeIsUp => "time is up",
            }),
            changed: self.changed,
            imputed_share: self.imputed_share,
            lateness_p50_ms: watch.late.all.quantile_ms(0.5),
            lateness_p99_ms: watch.late.all.quantile_ms(0.99),
            lateness_max_ms: watch.late.all.max().as_millis_f64(),
            lateness_host_p99_ms: watch.late.host.quantile_ms(0.99),
            target_full_s: watch.late.held_up.as_secs_f64(),
            requests_overdue: watch.overdue,
            wanted_iops: (self.plan.setup.replay != Replay::Closed)
                .then(|| rate(watch.late.all.count() + watch.overdue, watch.wanted))
                .flatten(),
            achieved_iops: achieved(figures.requests, figures.makespan_s, watch.wanted),
            cpu_user_s: self.cpu.user.as_secs_f64(),
            cpu_system_s: self.cpu.system.as_secs_f64(),
            requests_partial: partial(&self.placement),
            errors,
            targets,
            placement: self.placement.into_iter().collect(),
            notes: self.notes,
            flush_error: self.flush_error,
            figures,
        };
        verdict::judge(&mut result);
        result
    }

    fn targets<F: FnMut(&PlayNews)>(&self, watch: &Watched<'_, F>) -> Vec<TargetFigures> {
        let (real, models) = (self.lanes.targets(), self.lanes.models());
        let lanes = watch.statistics.asked().iter().zip(watch.work());
        let figures = lanes.enumerate().map(|(lane, (asked, (busy, ios_failed)))| {
            let target = real.get(lane);
            let model = models.get(lane);
            TargetFigures {
                target: match target {
                    Some(target) => target.path().display().to_string(),
                    None => self.names.get(lane).cloned().unwrap_or_default(),
                },
                kind: match target.map(|target| target.kind()) {
                    Some(TargetKind::File) => "file",
                    Some(TargetKind::Created) => "created file",
                    Some(TargetKind::BlockDevice) => "block device",
                    None => "emulated device",
                },
                role: if lane < self.disks { "disk" } else { "flash" },
                direct: target.map(|target| target.block_bytes().is_some()),
                block_bytes: target.and_then(|target| target.block_bytes()),
                capacity_bytes: match (target, model) {
                    (Some(target), _) => target.capacity_bytes(),
                    (None, model) => model.map_or(0, |model| model.capacity()),
                },
                ios: asked.ios,
                ios_failed,
                read_bytes: asked.read_bytes,
                written_bytes: asked.written_bytes,
                busy_s: busy.as_secs_f64(),
            }
        });
        figures.collect()
    }
}

/// Returns the count of partial requests from [`forebay_core::stack::Blocks`], if it is above the
/// policy.
fn partial(placement: &[Figure]) -> u64 {
    let count = placement.iter().find(|(name, _)| *name == "partial_requests");
    count.map_or(0, |(_, count)| *count as u64)
}

fn errors<F: FnMut(&PlayNews)>(watch: &Watched<'_, F>) -> Vec<ErrorCount> {
    let mut errors: Vec<ErrorCount> = watch
        .failures
        .iter()
        .map(|(&(failure, op), &ios)| ErrorCount {
            error: failure.name(),
            message: failure.to_string(),
            op: op.name(),
            ios,
        })
        .collect();
    errors.sort_by_key(|error| std::cmp::Reverse(error.ios));
    errors
}

/// Returns the rate from the first due time to the last answer. It cannot exceed the workload's
/// rate if all requests were answered.
fn achieved(count: u64, makespan_s: f64, wanted: Option<(Nanos, Nanos)>) -> f64 {
    let first_s = wanted.map_or(0.0, |(first, _)| first.as_secs_f64());
    (count.max(2) - 1) as f64 / (makespan_s - first_s).max(1e-9) * f64::from(count > 0)
}

/// Returns the rate of `count` requests between the first and the last.
fn rate(count: u64, times: Option<(Nanos, Nanos)>) -> Option<f64> {
    let (first, last) = times.filter(|(first, last)| last > first)?;
    Some((count - 1) as f64 / (last - first).as_secs_f64())
}
