//! A trace on a throttled device: the requests with their costs, and the replay of all requests.

use forebay_core::contract::policy::Done;
use forebay_core::device::throttled::{Meter, Throttle, Throttled};
use forebay_core::replay::Intensity;
use forebay_core::{Device, Nanos, Null, Workload};

use super::drain::Costed;
use crate::error::Error;
use crate::input::Input;
use crate::layout::{Map, VolumeLayout};
use crate::progress::{self, Meter as Progress};
use crate::replayed::{Replay, Replayed, Setup};

/// Replays `input` as `replay` says, `growth` times as fast as recorded. Volumes lie one behind the
/// other and nothing is scaled, because a throttle does not depend on addresses except where
/// requests are sequential.
fn replayed(input: &Input, replay: Replay, growth: Intensity) -> Result<Replayed<'_>, Error> {
    let layout = VolumeLayout::new(&input.extents, u64::MAX, Map::Scale);
    let setup = Setup { replay, intensity: growth, ..Setup::default() };
    let mut unheard = progress::untold;
    let (replayed, _) =
        Replayed::new(input, layout, setup, 0..u64::MAX, &mut Progress::new(&mut unheard))?;
    Ok(replayed)
}

/// Returns the requests of `input` with their costs as `throttle` counts them.
///
/// # Errors
/// If the trace cannot be read again.
pub(super) fn costed(
    input: &Input,
    throttle: &Throttle,
    growth: Intensity,
) -> Result<Costed, Error> {
    let mut meter = Meter::new(throttle);
    let mut requests = Costed::default();
    let mut open = replayed(input, Replay::Open, growth)?;
    while open.peek().is_some() {
        let request = open.take();
        requests.push(request.at, request.op, meter.cost(&request));
    }
    match open.failed() {
        Some(error) => Err(error.into()),
        None => Ok(requests),
    }
}

/// The requests of a run, and those answered in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct InTime {
    pub requests: u64,
    pub in_time: u64,
}

impl InTime {
    pub(super) fn share(self) -> f64 {
        self.in_time as f64 / self.requests.max(1) as f64
    }
}

/// Replays `input` on a device with this `throttle`. No scheduler is in between, because a device
/// that takes any number of requests never lets one choose.
///
/// # Errors
/// If the trace cannot be read again, or if the throttle is invalid.
pub(super) fn run(
    input: &Input,
    throttle: &Throttle,
    within: Nanos,
    (replay, growth): (Replay, Intensity),
) -> Result<InTime, Error> {
    let mut device = Throttled::new(throttle.clone())?;
    let mut workload = replayed(input, replay, growth)?;
    let mut count = InTime::default();
    loop {
        let (done, arrival) = (device.next(), workload.peek());
        let Some(now) = done.into_iter().chain(arrival).min() else { break };
        if done == Some(now) {
            let completion = device.finish(now);
            count.requests += 1;
            count.in_time += u64::from(now - completion.io.at <= within);
            workload.finished(now, &Done::at_once(completion.io, completion.outcome), &mut Null);
        } else {
            let request = workload.take();
            device.start(now, request);
        }
    }
    match workload.failed() {
        Some(error) => Err(error.into()),
        None => Ok(count),
    }
}
