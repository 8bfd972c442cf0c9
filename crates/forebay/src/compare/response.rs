//! Responses on device models: open replay, times from arrival to completion by block of arrival.

use forebay_core::catalog::{DeviceSet, build_placed};
use forebay_core::device::list::DeviceModel;
use forebay_core::replay::{Intensity, Open};
use forebay_core::{Device, Done, Nanos, Observer, Request, Workload, simulate};

use super::card::{Quantity, Response};
use super::layout::Side;
use super::measure::relative;
use super::profile::TIME_DIGITS;
use super::run_clock;
use super::tally::{Clock, Tally, bucket, interval, whole};
use crate::devices::OpenDevice;
use crate::error::Error;
use crate::input::Input;
use crate::progress::{Meter, Metered, Progress};

/// Busy for this share of the run, or draining for [`DRAIN_SHARE`] of it, a device is overloaded.
const BUSY_SHARE: f64 = 0.97;
/// Share of the run after the last arrival.
const DRAIN_SHARE: f64 = 0.02;
/// Draining shorter than this is no overload: so do traces of a second.
const DRAIN_MIN_S: f64 = 0.5;

/// One trace's responses on one device.
#[derive(Debug)]
pub(super) struct Responses {
    /// Nanoseconds in buckets.
    pub(super) times: Tally,
    /// Column 0: requests; 1: nanoseconds.
    pub(super) sums: Tally,
    /// Share of the run in which the device was at work.
    pub(super) busy_share: f64,
    pub(super) overloaded: bool,
    /// Whether the traces reach beyond the device.
    pub(super) moved: bool,
}

/// The scheduler that a device is tried with: those that change the order least.
pub(super) fn scheduler(device: &OpenDevice) -> &'static str {
    match device.model {
        DeviceModel::Ssd(_) => "none",
        _ => "noop",
    }
}

/// Replays `input` on `device`; `clock` is that of its recording.
pub(super) fn responses(
    (input, side, clock): (&Input, &Side, Clock),
    device: &OpenDevice,
    intensity: f64,
    progress: Progress<'_>,
) -> Result<Responses, Error> {
    let clock = run_clock(clock, intensity);
    let intensity = Intensity::new(intensity).unwrap_or(Intensity::RECORDED);
    let model = &device.model;
    let lanes = DeviceSet {
        disks: 1,
        disk_len_max: model.len_max(),
        disk_bytes: 1 << 40,
        flash: None,
        restarts: false,
    };
    let mut policy = build_placed(scheduler(device), &lanes)?;
    let mut devices = [model.clone()];
    let records = input.records()?;
    let failed = records.failed();
    let mut layout = side.on(model.capacity());
    let (mut id, mut first) = (0u64, None);
    let requests = records.filter_map(|record| {
        id += 1;
        let mut request = layout.place(&side.renamed(record), id)?;
        request.at = request.at - *first.get_or_insert(request.at);
        Some(request)
    });
    let mut workload = Metered::new(Open::new(requests, intensity), Meter::new(progress));
    let (times, sums) = (Tally::default(), Tally::default());
    let mut watch = Watch { clock, times, sums, last: Nanos::ZERO };
    let makespan = simulate::run(&mut policy, &mut devices, &mut workload, &mut watch);
    if workload.is_stopped() {
        return Err(Error::Stopped);
    }
    drop(workload);
    if let Some(error) = failed.take() {
        return Err(error.into());
    }
    let busy_share = devices[0].busy(makespan).as_secs_f64() / makespan.as_secs_f64().max(1e-9);
    let drain_s = (makespan - watch.last).as_secs_f64();
    let drains = drain_s > DRAIN_MIN_S && drain_s > DRAIN_SHARE * makespan.as_secs_f64();
    watch.times.compact();
    Ok(Responses {
        times: watch.times,
        sums: watch.sums,
        busy_share,
        overloaded: drains || busy_share > BUSY_SHARE,
        moved: layout.moves(),
    })
}

struct Watch {
    clock: Clock,
    times: Tally,
    sums: Tally,
    last: Nanos,
}

impl Observer for Watch {
    fn arrived(&mut self, request: &Request) {
        self.last = self.last.max(request.at);
    }

    #[inline]
    fn finished(&mut self, now: Nanos, done: &Done) {
        if !done.request.op.moves_data() {
            return;
        }
        let (arrived, response) = (done.request.at, done.latency(now));
        let block = self.clock.block(arrived, done.request.id);
        self.times.add(block, bucket(response.0, TIME_DIGITS), 1);
        self.sums.add(block, 0, 1);
        self.sums.add(block, 1, response.0);
    }
}

const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

/// Mean and quantiles in milliseconds.
fn response_figures(of: &Responses, weights: &[u64]) -> [Option<f64>; 5] {
    let (sums, times) = (of.sums.weigh(weights), of.times.weigh(weights));
    let mean = (sums.of(0) > 0).then(|| sums.of(1) as f64 / sums.of(0) as f64 / 1e6);
    let [p50, p90, p99, p999] =
        QUANTILES.map(|q| times.quantile(q, TIME_DIGITS).map(|ns| ns / 1e6));
    [mean, p50, p90, p99, p999]
}

/// Both traces' responses on `device`.
pub(super) fn compared(
    device: &OpenDevice,
    [a, b]: &[Responses; 2],
    weights: &[Vec<u64>],
    level: f64,
) -> Response {
    let drawn: Vec<_> = weights.iter().map(|weights| response_figures(a, weights)).collect();
    let (found_a, found_b) = (response_figures(a, &whole()), response_figures(b, &whole()));
    let quantity = |index: usize| {
        let (a, b) = (found_a[index].unwrap_or(0.0), found_b[index].unwrap_or(0.0));
        let (a_low, a_high) =
            interval(drawn.iter().filter_map(|drawn| drawn[index]).collect(), level)
                .unwrap_or((a, a));
        Quantity { a, b, deviation: relative(a, b), a_low, a_high }
    };
    Response {
        device: device.name.clone(),
        policy: scheduler(device),
        a_busy_share: a.busy_share,
        b_busy_share: b.busy_share,
        a_overloaded: a.overloaded,
        b_overloaded: b.overloaded,
        mean_ms: quantity(0),
        p50_ms: quantity(1),
        p90_ms: quantity(2),
        p99_ms: quantity(3),
        p999_ms: quantity(4),
    }
}
