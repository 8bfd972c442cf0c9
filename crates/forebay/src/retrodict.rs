//! Retrodiction: simulates the system that made a recording, and compares the model's latencies
//! with the recorded ones.
//!
//! Only reads and writes with a recorded latency are compared, and they are the same on both sides.
//! A latency of the model is from a request's submission to its completion, as in all other figures
//! of a run. Nothing here verifies that the recorded device is the modeled one; the user has to
//! know that.

use forebay_core::{Done, Flags, Nanos, Op, Request};
use forebay_trace::TraceError;
use serde::Serialize;

use crate::layout::VolumeLayout;
use crate::progress::{Meter, Progress};
use crate::replayed::DeviceRequests;
use crate::simulate::{Bed, Replay, Run, Setup, Stretch, run_stretch};
use crate::statistics::Latencies;
use crate::{Error, Input};

mod outstanding;
mod page;
mod verb;

use outstanding::Outstanding;
pub use outstanding::OutstandingAnswer;
pub use verb::RetrodictAsk;

/// The recorded or the modeled latencies of the requests that are compared.
pub struct Judged {
    reads: Latencies,
    writes: Latencies,
    outstanding: Outstanding,
}

impl Default for Judged {
    fn default() -> Judged {
        let (reads, writes) = (Latencies::new(3), Latencies::new(3));
        Judged { reads, writes, outstanding: Outstanding::default() }
    }
}

impl Judged {
    /// Adds a request of the run that completes at the time `now`.
    #[inline]
    pub(crate) fn finished(&mut self, now: Nanos, done: &Done) {
        if done.request.flags.has(Flags::MEASURED) && done.outcome.is_ok() {
            self.add(done.request.op, now - done.latency(now), now);
        }
    }

    #[inline]
    fn add(&mut self, op: Op, from: Nanos, to: Nanos) {
        match op {
            Op::Read => self.reads.record(to - from),
            Op::Write => self.writes.record(to - from),
            _ => return,
        }
        self.outstanding.add(from, to);
    }
}

/// The recorded latencies of a trace, or of a part of a trace.
pub(crate) struct Recording {
    judged: Judged,
    /// The number of reads and writes without a recorded latency.
    unmeasured: u64,
}

impl Recording {
    /// Collects the recorded latencies of the requests with numbers in `wanted`, except those that
    /// `layout` leaves out.
    ///
    /// # Errors
    /// Fails if the trace cannot be read again.
    pub(crate) fn of(
        input: &Input,
        layout: VolumeLayout,
        wanted: std::ops::Range<u64>,
        meter: &mut Meter<'_>,
    ) -> Result<Recording, Error> {
        let records = input.records()?;
        let failed = records.failed();
        let mut requests = DeviceRequests::new(records, layout, wanted);
        let (mut judged, mut unmeasured) = (Judged::default(), 0);
        while let Some((request, latency)) = requests.next_with_latency() {
            if meter.stops_after(1) {
                return Err(Error::Stopped);
            }
            let Request { at, op, .. } = request;
            match latency {
                Some(latency) => judged.add(op, at, at + latency),
                None => unmeasured += u64::from(op.moves_data()),
            }
        }
        let error: Option<TraceError> = failed.take();
        error.map_or(Ok(Recording { judged, unmeasured }), |error| Err(error.into()))
    }

    /// Compares `run` with the recording; `None` if the run has no latencies to compare.
    pub(crate) fn against(&self, run: &Run) -> Option<Retrodiction> {
        let modelled = run.judged.as_ref()?;
        let recorded = &self.judged;
        let result = &run.result;
        Some(Retrodiction {
            device: result.device.clone(),
            policy: result.policy.clone(),
            replay: result.replay,
            requests: modelled.reads.count() + modelled.writes.count(),
            requests_unmeasured: self.unmeasured,
            is_overloaded: result.figures.is_overloaded(),
            reads: DirectionAnswer::of(&recorded.reads, &modelled.reads),
            writes: DirectionAnswer::of(&recorded.writes, &modelled.writes),
            outstanding: OutstandingAnswer::of(&recorded.outstanding, &modelled.outstanding),
        })
    }
}

/// The result of comparing a model's latencies with the recorded ones.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Retrodiction {
    /// The name of the modeled device.
    pub device: String,
    /// The scheduler in front of the modeled device.
    pub policy: String,
    /// The replay mode of the simulation.
    pub replay: Replay,
    /// The number of reads and writes that are compared: those with a recorded latency.
    pub requests: u64,
    /// The number of reads and writes without a recorded latency.
    pub requests_unmeasured: u64,
    /// Whether the model cannot keep up with the recording. If so, its latencies measure the length
    /// of a backlog.
    pub is_overloaded: bool,
    /// The latencies of reads; `None` if no reads are compared.
    pub reads: Option<DirectionAnswer>,
    /// The latencies of writes; `None` if no writes are compared.
    pub writes: Option<DirectionAnswer>,
    /// The number of outstanding requests in each second; `None` if no requests are compared.
    pub outstanding: Option<OutstandingAnswer>,
}

/// The recorded and the modeled latencies of reads or of writes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DirectionAnswer {
    /// The number of requests that are compared.
    pub requests: u64,
    /// The median of the recorded latencies.
    pub recorded_p50_ms: f64,
    /// The median of the modeled latencies.
    pub modelled_p50_ms: f64,
    /// The relative error of the modeled median, positive if the model is slower; `None` if the
    /// recorded median is 0.
    pub p50_error_share: Option<f64>,
    /// The 99th percentile of the recorded latencies.
    pub recorded_p99_ms: f64,
    /// The 99th percentile of the modeled latencies.
    pub modelled_p99_ms: f64,
    /// The relative error of the modeled 99th percentile; `None` if the recorded one is 0.
    pub p99_error_share: Option<f64>,
}

impl DirectionAnswer {
    fn of(recorded: &Latencies, modelled: &Latencies) -> Option<DirectionAnswer> {
        let quantiles = |of: &Latencies| Some((of.quantile_ms(0.5)?, of.quantile_ms(0.99)?));
        let (recorded_p50_ms, recorded_p99_ms) = quantiles(recorded)?;
        let (modelled_p50_ms, modelled_p99_ms) = quantiles(modelled)?;
        let error = |is: f64, was: f64| (was > 0.0).then(|| is / was - 1.0);
        Some(DirectionAnswer {
            requests: modelled.count(),
            recorded_p50_ms,
            modelled_p50_ms,
            p50_error_share: error(modelled_p50_ms, recorded_p50_ms),
            recorded_p99_ms,
            modelled_p99_ms,
            p99_error_share: error(modelled_p99_ms, recorded_p99_ms),
        })
    }
}

/// Simulates `policy` on `bed` as if this were the system that recorded `input`, and compares the
/// latencies with the recorded ones.
///
/// # Errors
/// Fails if the trace has no recorded latencies, if the replay speed differs from the recorded one,
/// or if [`crate::simulate::run`] fails.
pub fn retrodict(
    input: &Input,
    bed: Bed<'_>,
    policy: &str,
    setup: Setup,
    progress: Progress<'_>,
) -> Result<Retrodiction, Error> {
    let whole = 0..u64::MAX;
    retrodict_part(input, bed, policy, setup, whole, progress)
}

/// Like [`retrodict`], but only for the requests with numbers in `wanted`.
pub(crate) fn retrodict_part(
    input: &Input,
    bed: Bed<'_>,
    policy: &str,
    setup: Setup,
    wanted: std::ops::Range<u64>,
    progress: Progress<'_>,
) -> Result<Retrodiction, Error> {
    if input.known_latency_share() == 0.0 {
        return Err(Error::Unfit(format!(
            "{}: the trace records no latencies to compare the model with; record \
             completions too (blktrace, `forebay capture`)",
            input.path.display()
        )));
    }
    if setup.intensity.times() != 1.0 {
        return Err(Error::Unfit(format!(
            "got an intensity of {}, expected 1: a recording must be replayed at its own speed",
            setup.intensity.times()
        )));
    }
    let layout = bed.placement(input, policy, setup);
    let recording = Recording::of(input, layout, wanted.clone(), &mut Meter::new(progress))?;
    let bed = Bed { judged: Some(policy), ..bed };
    let run = run_stretch(input, bed, policy, setup, Stretch::of(wanted), progress)?;
    recording.against(&run).ok_or_else(|| Error::Unfit("the run was not judged".to_string()))
}

#[cfg(test)]
pub(crate) mod tests;
