//! Tests the rule on small inputs.

use super::*;
use crate::advise::sample;

/// A trace on a disk: the busy time, then 99th percentiles of the model and of the recording, for
/// reads and for writes.
#[derive(Clone, Copy)]
struct Case {
    busy_s: f64,
    model_ms: [f64; 2],
    recorded_ms: Option<[f64; 2]>,
    requests: [u64; 2],
    span_s: f64,
}

/// A disk that is busy for 2 % of the time and answers fast.
const IDLE: Case = Case {
    busy_s: 2.0,
    model_ms: [12.0, 0.6],
    recorded_ms: None,
    requests: [3000, 2000],
    span_s: 100.0,
};

fn described(case: Case) -> Option<Description> {
    let mut description = sample::advice().description;
    let [reads_ms, writes_ms] = case.recorded_ms?;
    [description.reads, description.writes] = case.requests;
    let latencies = [&mut description.read_latency, &mut description.write_latency];
    for (latency, p99_ms) in latencies.into_iter().zip([reads_ms, writes_ms]) {
        latency.measured_share = Some(1.0);
        (latency.p50_ms, latency.p99_ms) = (Some(p99_ms / 4.0), Some(p99_ms));
    }
    Some(description)
}

fn run(case: Case, [reads_ms, writes_ms]: [f64; 2]) -> RunResult {
    let mut run = sample::advice().runs[0].clone();
    let figures = &mut run.figures;
    [figures.reads, figures.writes] = case.requests;
    figures.requests = case.requests.iter().sum();
    (figures.busy_s, figures.lagging_share) = (case.busy_s, 0.0);
    (figures.read_p50_ms, figures.read_p99_ms) = (Some(reads_ms / 4.0), Some(reads_ms));
    (figures.write_p50_ms, figures.write_p99_ms) = (Some(writes_ms / 4.0), Some(writes_ms));
    run
}

fn need(case: Case) -> Need {
    let recorded = described(case);
    Need::of(&run(case, case.model_ms), case.span_s, recorded.as_ref(), false)
}

/// Returns what speaks against any flash, in a few words; empty if nothing does.
fn against(case: Case) -> String {
    need(case).against_flash().map_or(String::new(), |one| one.in_short)
}

#[test]
fn a_mostly_idle_disk_needs_flash_only_for_long_tails() {
    let idle = "the disk is mostly idle";
    let slow = Case { model_ms: [12.0, 73.0], ..IDLE };
    for (case, expected) in [
        (IDLE, idle),
        // Long tails of writes count like those of reads.
        (slow, ""),
        (Case { model_ms: [73.0, 0.6], ..IDLE }, ""),
        // The recorded requests were answered fast, or not.
        (Case { recorded_ms: Some([10.5, 30.0]), ..slow }, idle),
        (Case { recorded_ms: Some([10.5, 80.0]), ..slow }, ""),
        (Case { recorded_ms: Some([80.0, 30.0]), ..slow }, idle),
        // There are too few requests to recommend a purchase.
        (
            Case { requests: [125, 225], ..slow },
            "the disk is mostly idle, and the trace has only 350 requests",
        ),
        // The tail of a few requests says nothing.
        (Case { requests: [3000, 90], ..slow }, idle),
        (Case { span_s: 4.5, ..slow }, "the trace is too short for a conclusion"),
        // A busy disk needs whatever helps.
        (Case { busy_s: 60.0, ..IDLE }, ""),
        (Case { busy_s: 60.0, requests: [200, 0], ..IDLE }, ""),
        // A model that is far slower than the recording says nothing about the recorded disk.
        (
            Case { busy_s: 60.0, recorded_ms: Some([12.0, 0.05]), ..IDLE },
            "the recorded write p99 was 50.0 µs, not 600 µs",
        ),
        (Case { busy_s: 60.0, recorded_ms: Some([12.0, 0.07]), ..IDLE }, ""),
    ] {
        assert_eq!(against(case), expected, "{:?} {:?}", case.model_ms, case.recorded_ms);
    }
}

/// A gain in the median, or of less than a fifth, is not what a mostly idle disk needs.
#[test]
fn a_mostly_idle_disk_needs_a_long_tail_to_get_a_fifth_shorter() {
    let slow = Case { model_ms: [12.0, 73.0], ..IDLE };
    let (baseline, need) = (run(slow, slow.model_ms), need(slow));
    for (with_ms, is_met) in
        [([12.0, 64.0], false), ([1.0, 73.0], false), ([12.0, 58.0], true), ([90.0, 5.0], true)]
    {
        assert_eq!(need.is_met_by(&run(slow, with_ms), &baseline), is_met, "{with_ms:?}");
        assert_eq!(need.not_met(&run(slow, with_ms), &baseline).is_none(), is_met);
    }
    let busy = Case { busy_s: 60.0, ..slow };
    let need = super::tests::need(busy);
    assert!(need.is_met_by(&run(busy, [12.0, 64.0]), &run(busy, busy.model_ms)));
}

#[test]
fn a_backlog_is_not_compared_with_the_recording() {
    let busy = Case { busy_s: 60.0, recorded_ms: Some([0.1, 0.05]), ..IDLE };
    let (baseline, recorded) = (run(busy, busy.model_ms), described(busy));
    let of = |is_behind| Need::of(&baseline, 100.0, recorded.as_ref(), is_behind).against_flash();
    assert!(of(false).is_some() && of(true).is_none());
}

/// A stream that is disturbed counts by the same rule as a remedy.
#[test]
fn a_stream_without_its_neighbor_has_to_gain_a_fifth_of_a_long_tail() {
    let busy = Case { busy_s: 60.0, ..IDLE };
    for (case, falls_ms, is_met) in [
        (busy, (20.0, 16.0), true),
        (busy, (20.0, 17.0), false),
        // On a mostly idle disk, only long tails count.
        (IDLE, (48.0, 12.0), false),
        (IDLE, (51.0, 12.0), true),
        // If the recorded requests were answered quickly, even long tails of the model do not
        // count.
        (Case { recorded_ms: Some([11.0, 0.5]), ..IDLE }, (51.0, 12.0), false),
        (Case { recorded_ms: Some([80.0, 0.5]), ..IDLE }, (51.0, 12.0), true),
        (Case { span_s: 4.5, ..busy }, (51.0, 12.0), false),
        // A model that is far slower than the recording says nothing about the recorded disk.
        (Case { recorded_ms: Some([1.0, 0.5]), ..busy }, (51.0, 12.0), false),
    ] {
        let (was_ms, is_ms) = falls_ms;
        assert_eq!(need(case).is_met_by_stream(true, was_ms, is_ms), is_met, "{falls_ms:?}");
    }
    // Other writes were recorded as slow, so the stream's writes may have been slow as well; reads
    // were fast.
    let slow_writes = need(Case { recorded_ms: Some([11.0, 90.0]), ..IDLE });
    assert!(slow_writes.is_met_by_stream(false, 51.0, 12.0));
    assert!(!slow_writes.is_met_by_stream(true, 51.0, 12.0));
}
