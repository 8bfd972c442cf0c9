//! Measures how much two streams disturb each other: simulates the recording without one of them,
//! and compares the latencies of the other. Only the pair whose switches cost most is measured.

use std::ops::Range;

use forebay_trace::describe::printable;
use forebay_trace::streams::WRITE_BACK;
use serde::Serialize;

use super::{Need, SHARE_THAT_MATTERS, Setting, TOO_FEW, tells_latencies};
use crate::jobs::{Tell, side_by_side};
use crate::quantities::millis;
use crate::simulate::{Bed, RunResult, Setup, run_on};
use crate::statistics::StreamShare;
use crate::{Error, Telling};

/// A stream whose requests take longer because of another stream.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Disturbance {
    /// The name of the stream that is disturbed.
    pub stream: String,
    /// The number of the stream's requests.
    pub requests: u64,
    /// Whether all of the stream's requests are reads.
    pub is_reads: bool,
    /// The name of the other stream, which causes the disturbance.
    pub beside: String,
    /// The 99th percentile of the stream's latencies; `None` if it only measures a backlog.
    pub p99_ms: Option<f64>,
    /// The 99th percentile of the stream's latencies in a simulation without the other stream.
    pub p99_without_ms: f64,
    /// Whether the streams are volumes, because the trace does not name submitters.
    pub are_volumes: bool,
    /// Whether the difference matters, by the rule for remedies (docs/advise.md).
    pub matters: bool,
}

impl Disturbance {
    /// Measures the pair of streams that disturb each other most under `baseline`, the run of the
    /// present scheduler. Returns a result for each of the two streams; none if the trace does not
    /// distinguish streams, or if no difference could matter.
    pub(super) fn measured(
        setting: &Setting<'_>,
        baseline: &RunResult,
        setup: Setup,
        need: &Need,
        (jobs, share): (usize, Range<f64>),
        progress: Telling<'_>,
    ) -> Result<Vec<Disturbance>, Error> {
        let Some(pair) = pair(setting, baseline, need) else { return Ok(Vec::new()) };
        let short = |name: &str| printable(name).chars().take(16).collect::<String>();
        let names = pair.map(|left_out| format!("without {}", short(&left_out.stream)));
        let names = names.each_ref().map(String::as_str);
        let run = |at: usize, tell: Tell<'_>| {
            let setup = Setup { without: Some(pair[at].number), ..setup };
            run_on(setting.input, Bed::of(setting.device), &baseline.policy, setup, tell)
        };
        let steps = setting.input.description.records.saturating_mul(2);
        let runs = side_by_side(&names, (jobs, steps), share, run, progress)?;
        let [first, second] = pair;
        let mut each = vec![(second, first, &runs[0].result), (first, second, &runs[1].result)];
        // Readers wait for their requests, and streams that read or write little at a time wait for
        // each request.
        each.sort_by(|(a, ..), (b, ..)| {
            b.is_reads.cmp(&a.is_reads).then(a.mean_bytes.total_cmp(&b.mean_bytes))
        });
        let are_volumes = setting.input.has_streams_of_volumes();
        let each = each.into_iter().filter_map(|(stream, beside, run)| {
            let one = disturbance([stream, beside], baseline, run, need)?;
            Some(Disturbance { are_volumes, ..one })
        });
        let mut all: Vec<Disturbance> = each.collect();
        all.sort_by_key(|one| !one.matters);
        Ok(all)
    }

    /// Returns whether one of the streams is the page cache's, which no user can schedule.
    pub(super) fn is_write_back(&self) -> bool {
        self.stream == WRITE_BACK || self.beside == WRITE_BACK
    }

    /// Formats the figures, as in "db/7 reads: p99 48 ms together with backup/9, 12 ms without it".
    pub(super) fn said(&self) -> String {
        let kind = if self.is_reads { " reads" } else { "" };
        let (stream, beside) = (printable(&self.stream), printable(&self.beside));
        let without = millis(self.p99_without_ms);
        match self.p99_ms {
            Some(ms) => {
                let p99 = millis(ms);
                format!("{stream}{kind}: p99 {p99} together with {beside}, {without} without it")
            }
            None => format!(
                "without {beside} nothing falls behind, and p99 of {stream}{kind} is {without}"
            ),
        }
    }
}

/// Returns the pair of streams whose switches cost most, unless no difference could matter.
fn pair<'a>(
    setting: &Setting<'_>,
    baseline: &'a RunResult,
    need: &Need,
) -> Option<[&'a StreamShare; 2]> {
    let input = setting.input;
    let (first, second) = baseline.contention.fights.first()?.numbers;
    let share = |number| baseline.figures.streams.iter().find(|share| share.number == number);
    let pair = [share(first)?, share(second)?];
    let is_told = input.names_submitters || input.has_streams_of_volumes();
    let could = |one: &StreamShare| {
        let is_long = one.p99_ms.is_some_and(|ms| need.is_met_by_stream(one.is_reads, ms, 0.0));
        one.requests >= TOO_FEW && is_long
    };
    (is_told && pair.into_iter().any(could)).then_some(pair)
}

/// Compares the first stream of `pair` in `baseline` with `run`, which omits the second stream.
/// Returns `None` if the stream has too few requests, or if both runs only measure a backlog.
fn disturbance(
    [stream, beside]: [&StreamShare; 2],
    baseline: &RunResult,
    run: &RunResult,
    need: &Need,
) -> Option<Disturbance> {
    let alone = run.figures.streams.iter().find(|share| share.number == stream.number)?;
    let without_ms = alone.p99_ms.filter(|_| tells_latencies(run) && stream.requests >= TOO_FEW)?;
    let p99_ms = stream.p99_ms.filter(|_| tells_latencies(baseline));
    // A tail that gets shorter while the median gets longer is no gain.
    let medians = alone.p50_ms.zip(stream.p50_ms);
    let is_gain = medians.is_some_and(|(is, was)| is <= was * (1.0 + SHARE_THAT_MATTERS));
    let falls = |ms| need.is_met_by_stream(stream.is_reads, ms, without_ms) && is_gain;
    let matters = p99_ms.map_or(!run.figures.is_overloaded(), falls);
    Some(Disturbance {
        stream: stream.stream.clone(),
        requests: stream.requests,
        is_reads: stream.is_reads,
        are_volumes: false,
        beside: beside.stream.clone(),
        p99_ms,
        p99_without_ms: without_ms,
        matters,
    })
}
