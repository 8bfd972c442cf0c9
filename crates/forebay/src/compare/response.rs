//! Response times (from arrival to completion) on device models in open replay, by the block of
//! time in which a request arrives.

use forebay_core::catalog::{DeviceSet, build_placed};
use forebay_core::replay::{Intensity, Lag, Open};
use forebay_core::{Device, DeviceModel, Done, Nanos, Observer, Workload, simulate};

use super::card::{Quantity, Response};
use super::layout::Side;
use super::measure::relative;
use super::profile::TIME_DIGITS;
use super::run_clock;
use super::tally::{Clock, Tally, bucket, interval, spread, whole};
use crate::progress::{Meter, Metered, Progress};
use crate::{Error, Input, OpenDevice};

/// The response times of one trace on one device.
#[derive(Debug)]
pub(super) struct Responses {
    /// The number of requests in each bucket of response times in nanoseconds.
    pub(super) times: Tally,
    /// Column 0 is the number of requests, column 1 the sum of their response times in nanoseconds.
    pub(super) sums: Tally,
    /// The share of the run in which the device was busy.
    pub(super) busy_share: f64,
    pub(super) overloaded: bool,
    /// Whether the trace extends beyond the device, so that requests had to be moved.
    pub(super) moved: bool,
}

/// Returns the scheduler that reorders requests least on this kind of device.
pub(super) fn scheduler(device: &OpenDevice) -> &'static str {
    match device.model {
        DeviceModel::Ssd(_) => "none",
        _ => "noop",
    }
}

/// Replays `input` on `device`; `clock` divides the recording into blocks.
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
        costs: [None; 2],
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
    let mut watch = Watch { clock, times, sums, lag: Lag::default() };
    let makespan = simulate::run(&mut policy, &mut devices, &mut workload, &mut watch);
    if workload.is_stopped() {
        return Err(Error::Stopped);
    }
    drop(workload);
    if let Some(error) = failed.take() {
        return Err(error.into());
    }
    let busy_share = devices[0].busy(makespan).as_secs_f64() / makespan.as_secs_f64().max(1e-9);
    watch.times.compact();
    Ok(Responses {
        times: watch.times,
        sums: watch.sums,
        busy_share,
        overloaded: watch.lag.is_overload(),
        moved: layout.moves(),
    })
}

struct Watch {
    clock: Clock,
    times: Tally,
    sums: Tally,
    lag: Lag,
}

impl Observer for Watch {
    #[inline]
    fn finished(&mut self, now: Nanos, done: &Done) {
        if !done.request.op.moves_data() {
            return;
        }
        self.lag.record(now - done.request.at - done.wait);
        let (arrived, response) = (done.request.at, done.latency(now));
        let block = self.clock.block(arrived, done.request.id);
        self.times.add(block, bucket(response.0, TIME_DIGITS), 1);
        self.sums.add(block, 0, 1);
        self.sums.add(block, 1, response.0);
    }
}

const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

/// Returns the mean and the quantiles of response times, in milliseconds.
fn response_figures(of: &Responses, weights: &[u64]) -> [Option<f64>; 5] {
    let (sums, times) = (of.sums.weigh(weights), of.times.weigh(weights));
    let mean = (sums.of(0) > 0).then(|| sums.of(1) as f64 / sums.of(0) as f64 / 1e6);
    let [p50, p90, p99, p999] =
        QUANTILES.map(|q| times.quantile(q, TIME_DIGITS).map(|ns| ns / 1e6));
    [mean, p50, p90, p99, p999]
}

/// Compares both traces' response times on `device`.
pub(super) fn compared(
    device: &OpenDevice,
    [a, b]: &[Responses; 2],
    weights: &[Vec<u64>],
    (level, two_samples): (f64, f64),
) -> Response {
    let drawn: Vec<_> = weights.iter().map(|weights| response_figures(a, weights)).collect();
    let (found_a, found_b) = (response_figures(a, &whole()), response_figures(b, &whole()));
    let quantity = |index: usize| {
        let (a, b) = (found_a[index].unwrap_or(0.0), found_b[index].unwrap_or(0.0));
        let (a_low, a_high) =
            interval(drawn.iter().filter_map(|drawn| drawn[index]).collect(), level)
                .map_or((a, a), |drawn| spread(drawn, a, two_samples));
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
