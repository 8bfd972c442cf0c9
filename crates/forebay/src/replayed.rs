//! Traces as workloads: an input's requests on the devices, arriving as a replay mode has them.

use std::ops::Range;
use std::str::FromStr;

use forebay_ask::named;
use forebay_core::replay::{Closed, Dependent, Intensity, Open};
use forebay_core::{Done, Flags, Nanos, Op, Request, Slots, Workload};
use forebay_trace::TraceError;
use serde::Serialize;

use crate::error::Error;
use crate::input::{Failed, Input, Records};
use crate::layout::{Changed, Imputed, Map, VolumeLayout};
use crate::progress::Meter;
use crate::statistics::Figures;

/// How recorded requests become arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Replay {
    /// At their recorded times.
    Open,
    /// Their recorded think time after their predecessor's completion in this run.
    Closed,
    /// Their recorded think time after the answer, in this run, that their task can have waited for.
    Dependent,
}

impl Replay {
    /// Its name: `open`, `closed` or `dependent`.
    pub fn name(self) -> &'static str {
        match self {
            Replay::Open => "open",
            Replay::Closed => "closed",
            Replay::Dependent => "dependent",
        }
    }

    /// What a run's total time is called: below saturation open replay has no time of completion that order could change, so
    /// it is the time that devices work.
    pub fn total_name(self) -> &'static str {
        match self {
            Replay::Open => "busy time",
            Replay::Closed | Replay::Dependent => "total time",
        }
    }

    /// The case it stands for, in a sentence.
    pub(crate) fn as_told(self) -> &'static str {
        match self {
            Replay::Open => "if requests come as recorded",
            Replay::Closed | Replay::Dependent => "if requests wait for answers",
        }
    }

    /// What it replays.
    pub(crate) fn told(self) -> &'static str {
        match self {
            Replay::Open => "open: recorded arrival times",
            Replay::Closed => "closed: recorded think times after each completion",
            Replay::Dependent => {
                "dependent: recorded think times after the answer that a request can have waited for"
            }
        }
    }
}

impl FromStr for Replay {
    type Err = String;
    fn from_str(text: &str) -> Result<Replay, String> {
        match text {
            "open" => Ok(Replay::Open),
            "closed" => Ok(Replay::Closed),
            "dependent" => Ok(Replay::Dependent),
            other => Err(format!("got '{other}', expected open, closed or dependent")),
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

/// Requests that closed replay takes: it holds all of them, in about 150 bytes each at its peak.
pub const CLOSED_REQUESTS_MAX: u64 = 16 << 20;

/// With latencies of less than this share of its requests a recording says only roughly what waits for what.
pub const DEPENDENT_KNOWN_SHARE: f64 = 0.8;

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
         at most {requests_max}; use {}, or a part of the trace",
        input.path.display(),
        named("replay=open")
    )))
}

/// Records as requests on the device.
pub(crate) struct DeviceRequests<'a> {
    records: Records<'a>,
    layout: VolumeLayout,
    /// What was changed before the last request that was read.
    before: Changed,
    next: u64,
    wanted: Range<u64>,
    /// When the first wanted one arrives; the others' times run from there.
    begins: Option<Nanos>,
}

impl<'a> DeviceRequests<'a> {
    pub(crate) fn new(
        records: Records<'a>,
        layout: VolumeLayout,
        wanted: Range<u64>,
    ) -> DeviceRequests<'a> {
        // The whole trace keeps its own beginning.
        let begins = (wanted.start == 0).then_some(Nanos::ZERO);
        DeviceRequests { records, layout, before: Changed::default(), next: 0, wanted, begins }
    }

    /// The next request, and the latency it had if that was recorded.
    #[inline]
    pub(crate) fn next_with_latency(&mut self) -> Option<(Request, Option<Nanos>)> {
        while self.next < self.wanted.end {
            let record = self.records.next()?;
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
    kind: Kind<'a>,
    failed: Failed,
}

// One value a run: its size does not matter.
#[allow(clippy::large_enum_variant)]
enum Kind<'a> {
    Open(Open<DeviceRequests<'a>>),
    Closed(Box<Closed>, Changed),
    Dependent(Box<Dependent<WithLatency<'a>>>),
}

/// Requests with the latencies they had.
struct WithLatency<'a>(DeviceRequests<'a>);

impl Iterator for WithLatency<'_> {
    type Item = (Request, Option<Nanos>);
    #[inline]
    fn next(&mut self) -> Option<(Request, Option<Nanos>)> {
        self.0.next_with_latency()
    }
}

impl<'a> Replayed<'a> {
    /// The requests numbered `wanted` of `input`, where `layout` puts them, and the share of their
    /// latencies that had to be imputed. `meter` is told of what is read beforehand.
    ///
    /// # Errors
    /// A trace that cannot be read again, or too long for closed replay.
    pub fn new(
        input: &'a Input,
        layout: VolumeLayout,
        setup: Setup,
        wanted: Range<u64>,
        meter: &mut Meter<'_>,
    ) -> Result<(Replayed<'a>, f64), Error> {
        let records = input.records()?;
        let failed = records.failed();
        let placed = DeviceRequests::new(records, layout, wanted);
        let (kind, share) = match setup.replay {
            Replay::Open => (Kind::Open(Open::new(placed, setup.intensity)), 0.0),
            Replay::Closed => closed(input, placed, setup, meter)?,
            Replay::Dependent => {
                let dependent = Dependent::new(WithLatency(placed), setup.intensity);
                (Kind::Dependent(Box::new(dependent)), 0.0)
            }
        };
        Ok((Replayed { kind, failed }, share))
    }

    /// What was done so far to requests that did not fit.
    pub fn changed(&self) -> Changed {
        match &self.kind {
            // One is read ahead, which a run that ends early never takes.
            Kind::Open(open) if open.peek().is_some() => open.source().before,
            Kind::Open(open) => open.source().layout.changed(),
            Kind::Closed(_, changed) => *changed,
            Kind::Dependent(dependent) => dependent.source().0.layout.changed(),
        }
    }

    /// Puts into `figures` how far the run is behind its recording, where requests wait for others; else that shows in
    /// their own times.
    pub fn tell_lag(&self, figures: &mut Figures) {
        if let Kind::Dependent(dependent) = &self.kind {
            figures.set_lags(dependent.lag(), |stream| dependent.lag_of(stream));
        }
    }

    /// Requests that dependent replay issued late, because too many others had to be read before them.
    pub fn found_late(&self) -> u64 {
        match &self.kind {
            Kind::Dependent(dependent) => dependent.found_late(),
            Kind::Open(_) | Kind::Closed(..) => 0,
        }
    }

    /// Why the trace could not be read to its end.
    pub fn failed(&self) -> Option<TraceError> {
        self.failed.take()
    }
}

/// Closed replay, and the share of latencies that had to be imputed.
fn closed<'a>(
    input: &Input,
    mut placed: DeviceRequests<'a>,
    setup: Setup,
    meter: &mut Meter<'_>,
) -> Result<(Kind<'a>, f64), Error> {
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
    Ok((Kind::Closed(Box::new(closed), placed.layout.changed()), share))
}

/// The mean measured latency of each direction, for requests that have none.
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
            "{}: closed replay needs latencies and the trace has none; use {}",
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
            Kind::Open(open) => open.peek(),
            Kind::Closed(closed, _) => closed.peek(),
            Kind::Dependent(dependent) => dependent.peek(),
        }
    }

    #[inline]
    fn take(&mut self) -> Request {
        match &mut self.kind {
            Kind::Open(open) => open.take(),
            Kind::Closed(closed, _) => closed.take(),
            Kind::Dependent(dependent) => dependent.take(),
        }
    }

    #[inline]
    fn finished(&mut self, now: Nanos, done: &Done, slots: &mut dyn Slots) {
        match &mut self.kind {
            Kind::Open(_) => {}
            Kind::Closed(closed, _) => closed.finished(now, done, slots),
            Kind::Dependent(dependent) => dependent.finished(now, done, slots),
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
