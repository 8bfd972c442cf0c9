//! Replays traces: turns the records of an input into requests to the devices, whose arrival times
//! depend on the replay mode.

use std::ops::Range;

use forebay_ask::named;
use forebay_core::replay::{Closed, Dependent, Intensity, Open};
use forebay_core::{Done, Flags, Nanos, Op, Request, Slots, Workload};
use forebay_trace::TraceError;
use serde::Serialize;

use crate::Error;
use crate::input::{Failed, Input, Records};
use crate::layout::{Changed, Imputed, Map, VolumeLayout};
use crate::progress::Meter;
use crate::statistics::Figures;

/// How recorded requests arrive in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Replay {
    /// Each request arrives at its recorded time.
    Open,
    /// Each request arrives when its predecessor has completed in this run, plus the recorded think
    /// time.
    Closed,
    /// Each request arrives when the request that its task may have waited for has completed in
    /// this run, plus the recorded think time.
    Dependent,
}

impl Replay {
    /// Returns the mode's name: `open`, `closed` or `dependent`.
    pub fn name(self) -> &'static str {
        match self {
            Replay::Open => "open",
            Replay::Closed => "closed",
            Replay::Dependent => "dependent",
        }
    }

    /// Returns the name of a run's total time. In open replay below saturation, the order of
    /// requests hardly affects when the last one completes, so the total is the devices' busy time.
    pub fn total_name(self) -> &'static str {
        match self {
            Replay::Open => "busy time",
            Replay::Closed | Replay::Dependent => "total time",
        }
    }

    /// Describes in a sentence which case the mode represents.
    pub(crate) fn as_told(self) -> &'static str {
        match self {
            Replay::Open => "if requests arrive as recorded",
            Replay::Closed | Replay::Dependent => "if requests wait for one another",
        }
    }

    /// Describes how requests arrive in this mode.
    pub(crate) fn told(self) -> &'static str {
        match self {
            Replay::Open => "open: recorded arrival times",
            Replay::Closed => "closed: recorded think times after each completion",
            Replay::Dependent => {
                "dependent: recorded think times after the completion that a request may have \
                 waited for"
            }
        }
    }
}

/// All parameters of a run except the policy and the devices.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// How requests arrive.
    pub replay: Replay,
    /// The speed at which requests arrive, relative to the recording.
    pub intensity: Intensity,
    /// How to treat addresses beyond the device.
    pub map: Map,
    /// Whether Forebay's own schedulers run as in `forebay serve`: behind the network path from its
    /// clients, so that all requests form one stream. Otherwise they run like schedulers in the
    /// kernel.
    pub serves_own: bool,
    /// The stream whose requests are left out, if any.
    pub without: Option<u32>,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            replay: Replay::Open,
            intensity: Intensity::RECORDED,
            map: Map::Scale,
            serves_own: false,
            without: None,
        }
    }
}

/// The maximum number of requests for closed replay, which holds all of them in memory, at a peak
/// of about 150 bytes each.
pub const CLOSED_REQUESTS_MAX: u64 = 16 << 20;

/// If fewer than this share of requests have latencies, a recording shows only roughly which
/// request waits for which.
pub const DEPENDENT_KNOWN_SHARE: f64 = 0.8;

/// The share of requests without a measured latency above which closed replay says little.
pub const IMPUTED_SHARE_MAX: f64 = 0.1;

/// Returns the share of `input`'s requests without a measured latency.
pub fn imputed_share(input: &Input) -> Result<f64, Error> {
    let (mut missing, mut all) = (0u64, 0u64);
    for record in input.records()? {
        all += 1;
        missing += u64::from(record.latency.is_none());
    }
    Ok(missing as f64 / all.max(1) as f64)
}

/// Fails if closed replay would have to hold more than `requests_max` requests.
fn refuse_long(input: &Input, requests_max: u64) -> Result<(), Error> {
    let requests = input.description.records;
    if requests <= requests_max {
        return Ok(());
    }
    Err(Error::Unfit(format!(
        "{}: got {requests} requests in closed replay, which holds all of them in memory, expected \
         at most {requests_max}; use {}, or part of the trace",
        input.path.display(),
        named("replay=open")
    )))
}

/// An iterator that converts records to requests on the device.
pub(crate) struct DeviceRequests<'a> {
    records: Records<'a>,
    layout: VolumeLayout,
    /// The changes that had been made before the last request was read.
    before: Changed,
    next: u64,
    wanted: Range<u64>,
    /// When the first wanted request arrives in the trace. Arrivals are relative to it.
    begins: Option<Nanos>,
    /// The stream whose requests are left out, if any.
    without: Option<u32>,
}

impl<'a> DeviceRequests<'a> {
    pub(crate) fn new(
        records: Records<'a>,
        layout: VolumeLayout,
        wanted: Range<u64>,
    ) -> DeviceRequests<'a> {
        // If the whole trace is replayed, arrivals keep their recorded times.
        let begins = (wanted.start == 0).then_some(Nanos::ZERO);
        let before = Changed::default();
        DeviceRequests { records, layout, before, next: 0, wanted, begins, without: None }
    }

    /// Leaves out the requests of a stream.
    fn without(self, stream: Option<u32>) -> Self {
        DeviceRequests { without: stream, ..self }
    }

    /// Returns the next request and its recorded latency, if any.
    #[inline]
    pub(crate) fn next_with_latency(&mut self) -> Option<(Request, Option<Nanos>)> {
        while self.next < self.wanted.end {
            let record = self.records.next()?;
            if self.without == Some(record.stream) {
                continue;
            }
            self.before = self.layout.changed();
            let Some(mut request) = self.layout.place(&record, self.next) else { continue };
            self.next += 1;
            if self.next > self.wanted.start {
                if record.latency.is_some() && request.op.moves_data() {
                    request.flags = request.flags.with(Flags::MEASURED);
                }
                request.at = request.at - *self.begins.get_or_insert(request.at);
                return Some((request, record.latency));
            }
        }
        None
    }
}

impl Iterator for DeviceRequests<'_> {
    type Item = Request;
    #[inline]
    fn next(&mut self) -> Option<Request> {
        self.next_with_latency().map(|(request, _)| request)
    }
}

/// A trace as a workload.
pub struct Replayed<'a> {
    kind: ReplayState<'a>,
    failed: Failed,
}

// Only one value exists per run, so its size does not matter.
#[allow(clippy::large_enum_variant)]
enum ReplayState<'a> {
    Open(Open<DeviceRequests<'a>>),
    Closed(Box<Closed>, Changed),
    Dependent(Box<Dependent<WithLatency<'a>>>),
}

/// An iterator over requests with their recorded latencies.
struct WithLatency<'a>(DeviceRequests<'a>);

impl Iterator for WithLatency<'_> {
    type Item = (Request, Option<Nanos>);
    #[inline]
    fn next(&mut self) -> Option<(Request, Option<Nanos>)> {
        self.0.next_with_latency()
    }
}

impl<'a> Replayed<'a> {
    /// Creates a workload from the requests of `input` with numbers in `wanted`, at the locations
    /// that `layout` assigns. Also returns the share of their latencies that had to be imputed.
    /// `meter` counts requests that are read in advance.
    ///
    /// # Errors
    /// Fails if the trace cannot be read again, or is too long for closed replay.
    pub fn new(
        input: &'a Input,
        layout: VolumeLayout,
        setup: Setup,
        wanted: Range<u64>,
        meter: &mut Meter<'_>,
    ) -> Result<(Replayed<'a>, f64), Error> {
        let records = input.records()?;
        let failed = records.failed();
        let placed = DeviceRequests::new(records, layout, wanted).without(setup.without);
        let (kind, share) = match setup.replay {
            Replay::Open => (ReplayState::Open(Open::new(placed, setup.intensity)), 0.0),
            Replay::Closed => closed(input, placed, setup, meter)?,
            Replay::Dependent => {
                let dependent = Dependent::new(WithLatency(placed), setup.intensity);
                (ReplayState::Dependent(Box::new(dependent)), 0.0)
            }
        };
        Ok((Replayed { kind, failed }, share))
    }

    /// Returns how many requests have been changed so far to fit on the device.
    pub fn changed(&self) -> Changed {
        match &self.kind {
            // One request is read in advance; a run that ends early never uses it.
            ReplayState::Open(open) if open.peek().is_some() => open.source().before,
            ReplayState::Open(open) => open.source().layout.changed(),
            ReplayState::Closed(_, changed) => *changed,
            ReplayState::Dependent(dependent) => dependent.source().0.layout.changed(),
        }
    }

    /// Adds to `figures` how far the run is behind the recording, if requests wait for others. In
    /// open replay, response times already show that.
    pub fn tell_lag(&self, figures: &mut Figures) {
        if let ReplayState::Dependent(dependent) = &self.kind {
            figures.set_lags(dependent.lag(), |stream| dependent.lag_of(stream));
        }
    }

    /// Returns how many requests dependent replay issued late because too many other requests had
    /// to be read before them.
    pub fn found_late(&self) -> u64 {
        match &self.kind {
            ReplayState::Dependent(dependent) => dependent.found_late(),
            ReplayState::Open(_) | ReplayState::Closed(..) => 0,
        }
    }

    /// Returns the error that ended reading the trace early, if any.
    pub fn failed(&self) -> Option<TraceError> {
        self.failed.take()
    }
}

/// Creates a closed replay, and returns the share of latencies that had to be imputed.
fn closed<'a>(
    input: &Input,
    mut placed: DeviceRequests<'a>,
    setup: Setup,
    meter: &mut Meter<'_>,
) -> Result<(ReplayState<'a>, f64), Error> {
    refuse_long(input, CLOSED_REQUESTS_MAX)?;
    let imputed = imputed(input, meter)?;
    let (mut all, mut missing) = (0u64, 0u64);
    let mut recorded = Vec::new();
    while let Some((request, latency)) = placed.next_with_latency() {
        if meter.stops_after(1) {
            return Err(Error::Stopped);
        }
        all += 1;
        missing += u64::from(latency.is_none());
        let of_op = if request.op == Op::Write { imputed.write } else { imputed.read };
        recorded.push((request, latency.unwrap_or(of_op)));
    }
    let share = missing as f64 / all.max(1) as f64;
    let closed = Closed::new(recorded, setup.intensity);
    Ok((ReplayState::Closed(Box::new(closed), placed.layout.changed()), share))
}

/// Returns the mean measured latencies of reads and of writes, to be used for requests without one.
fn imputed(input: &Input, meter: &mut Meter<'_>) -> Result<Imputed, Error> {
    let mut sums = [(0u128, 0u64); 2];
    for record in input.records()? {
        if meter.stops_after(1) {
            return Err(Error::Stopped);
        }
        if let Some(latency) = record.latency {
            let sum = &mut sums[usize::from(record.op == Op::Write)];
            *sum = (sum.0 + u128::from(latency.0), sum.1 + 1);
        }
    }
    if sums[0].1 + sums[1].1 == 0 {
        return Err(Error::Unfit(format!(
            "{}: closed replay needs latencies, but the trace has none; use {}",
            input.path.display(),
            named("replay=open")
        )));
    }
    let mean = |side: usize| {
        let (sum, count) = if sums[side].1 > 0 { sums[side] } else { sums[1 - side] };
        Nanos((sum / u128::from(count.max(1))) as u64)
    };
    Ok(Imputed { read: mean(0), write: mean(1) })
}

impl Workload for Replayed<'_> {
    #[inline]
    fn peek(&self) -> Option<Nanos> {
        match &self.kind {
            ReplayState::Open(open) => open.peek(),
            ReplayState::Closed(closed, _) => closed.peek(),
            ReplayState::Dependent(dependent) => dependent.peek(),
        }
    }

    #[inline]
    fn take(&mut self) -> Request {
        match &mut self.kind {
            ReplayState::Open(open) => open.take(),
            ReplayState::Closed(closed, _) => closed.take(),
            ReplayState::Dependent(dependent) => dependent.take(),
        }
    }

    #[inline]
    fn finished(&mut self, now: Nanos, done: &Done, slots: &mut dyn Slots) {
        match &mut self.kind {
            ReplayState::Open(_) => {}
            ReplayState::Closed(closed, _) => closed.finished(now, done, slots),
            ReplayState::Dependent(dependent) => dependent.finished(now, done, slots),
        }
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
        assert!(text.contains("got 3 requests") && text.contains("replay=open"), "{text}");
    }
}
