//! Retrodiction: a model simulates the system that made a recording, and its latencies are held against the recorded
//! ones.
//!
//! Judged are reads and writes whose latency was recorded, the same requests on both sides. A latency of the model runs
//! from when the request is submitted until it is answered, as in every other figure of a run. Nothing here says whether the
//! device of the recording is the one that is modelled: whoever asks has to know that.

use forebay_core::{Done, Flags, Nanos, Op, Request};
use forebay_trace::TraceError;
use serde::Serialize;

use crate::error::Error;
use crate::input::Input;
use crate::layout::VolumeLayout;
use crate::progress::{Meter, Progress};
use crate::replayed::DeviceRequests;
use crate::simulate::{Bed, Replay, Run, Setup, Stretch, run_stretch};
use crate::statistics::Latencies;

mod outstanding;
mod page;
mod verb;

use outstanding::Outstanding;
pub use outstanding::OutstandingAnswer;
pub use verb::RetrodictAsk;

/// Latencies of the requests that are judged, on one side.
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
    /// Takes a request of a run that is answered `now`.
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

/// What was recorded of a trace, or of a part of it.
pub(crate) struct Recording {
    judged: Judged,
    /// Reads and writes without a latency.
    unmeasured: u64,
}

impl Recording {
    /// Of the requests numbered `wanted`, as `layout` lets them through.
    ///
    /// # Errors
    /// A trace that cannot be read again.
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

    /// Holds `run` against it; none of a run that was not asked to be judged.
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

/// How near a model comes to a recording.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Retrodiction {
    /// The device that was modelled.
    pub device: String,
    /// The scheduler before it.
    pub policy: String,
    /// How requests arrived.
    pub replay: Replay,
    /// Reads and writes that are judged: those with a recorded latency.
    pub requests: u64,
    /// Reads and writes without a recorded latency.
    pub requests_unmeasured: u64,
    /// Whether the model cannot keep up with the recording, so that its times are the length of a backlog.
    pub is_overloaded: bool,
    /// Reads; none where none is judged.
    pub reads: Option<DirectionAnswer>,
    /// Writes; none where none is judged.
    pub writes: Option<DirectionAnswer>,
    /// Requests outstanding in each second; none where nothing is judged.
    pub outstanding: Option<OutstandingAnswer>,
}

/// Latencies of reads or of writes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DirectionAnswer {
    /// Requests that are judged.
    pub requests: u64,
    /// Median, as recorded.
    pub recorded_p50_ms: f64,
    /// Median in the model.
    pub modelled_p50_ms: f64,
    /// The model's median over the recorded one, less 1: above 0 where the model is slower; none where that was 0.
    pub p50_error_share: Option<f64>,
    /// What 99 % did not exceed, as recorded.
    pub recorded_p99_ms: f64,
    /// What 99 % do not exceed in the model.
    pub modelled_p99_ms: f64,
    /// The error of the latter, likewise.
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

/// Simulates `policy` on `bed` as the system that recorded `input`, and holds what comes of it against the recording.
///
/// # Errors
/// A trace without recorded latencies, another speed than the recorded one, and what [`crate::simulate::run`] refuses.
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

/// As [`retrodict`], of the requests numbered `wanted`.
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
            "{}: got no recorded latencies, expected some to hold the model against; record \
             completions too (blktrace, `forebay capture`)",
            input.path.display()
        )));
    }
    if setup.intensity.times() != 1.0 {
        return Err(Error::Unfit(format!(
            "got an intensity of {}, expected 1: a recording is judged at its own speed",
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
