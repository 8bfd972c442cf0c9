//! An invented advice for tests of pages: a saturated disk under four schedulers.

use super::{
    Advice, Before, Pictures, Prefer, Provider, QueueSizes, Ranked, Remedy, RemedyKind, Verdict,
};
use crate::contention::{ContentionFigures, Fight};
use crate::head::{HeadPoint, HeadTrace};
use crate::statistics::{Figures, StreamShare};
use crate::{Replay, Run, RunResult};
use forebay_core::{Flags, Nanos, Op};
use forebay_trace::describe::{Describer, Description, Options};
use forebay_trace::{Dictionary, Notes, Record};

const CYLINDERS: u32 = 100_000;

/// Returns a pseudorandom value that depends only on `index`.
fn scattered(index: u64) -> f64 {
    (index.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 11) as f64 / (1u64 << 53) as f64
}

fn description() -> Description {
    let record = |index: u64| Record {
        at: Nanos(index * 40_000_000),
        offset: (scattered(index) * 1e12) as u64 / 512 * 512,
        latency: Some(Nanos(5_000_000)),
        len: 65_536,
        stream: 0,
        volume: 0,
        op: if index.is_multiple_of(3) { Op::Write } else { Op::Read },
        flags: Flags::NONE,
    };
    let records: Vec<Record> = (0..4000).map(record).collect();
    let mut dictionary = Dictionary { volumes: vec!["sda".to_string()], ..Default::default() };
    dictionary.streams.push(forebay_trace::Stream {
        thread: Some(1),
        process: None,
        name: "java".to_string(),
    });
    let mut describer = Describer::new(Options::default());
    describer.add(&records, &dictionary);
    describer.finish(&dictionary, &Notes { format: "blktrace", ..Notes::default() })
}

fn figures(busy_s: f64, tail_ms: f64) -> Figures {
    let lost_s = busy_s - 280.0;
    let stream = |index: u64| StreamShare {
        stream: format!("java/{}", 4000 + index),
        requests: 40_000 / (index + 1),
        busy_share: 0.3 / (index + 1) as f64,
        p50_ms: Some(tail_ms / 9.0),
        p99_ms: Some(tail_ms * (1.0 + scattered(index))),
        done_s: 160.0 + busy_s / 100.0,
        longest_lag_ms: tail_ms,
        number: index as u32,
        is_reads: false,
        mean_bytes: 65_536.0,
    };
    Figures {
        requests: 137_309,
        reads: 70_000,
        writes: 67_000,
        flushes: 309,
        trims: 0,
        unfinished: 0,
        failed: 0,
        ios_failed: 0,
        ios: 91_204,
        makespan_s: busy_s + 1.5,
        busy_s,
        transfer_bound_s: 270.0,
        seek_s: lost_s * 0.6,
        rotation_s: lost_s * 0.38,
        transfer_s: 276.0,
        write_back_s: 0.0,
        head_movements: (lost_s * 120.0) as u64,
        seek_sweeps: lost_s * 21.3,
        avg_seek_tracks: lost_s * 31.7,
        seek_stddev_tracks: lost_s * 44.2,
        read_mean_ms: Some(tail_ms / 5.0),
        read_p50_ms: Some(tail_ms / 9.0),
        read_p99_ms: Some(tail_ms),
        read_p999_ms: Some(tail_ms * 1.1),
        read_max_ms: Some(tail_ms * 1.2),
        write_mean_ms: Some(tail_ms / 4.0),
        write_p50_ms: Some(tail_ms / 7.0),
        write_p99_ms: Some(tail_ms * 1.3),
        write_p999_ms: Some(tail_ms * 1.4),
        write_max_ms: Some(tail_ms * 1.5),
        wait_mean_ms: Some(480.0),
        wait_p99_ms: Some(2345.6),
        longest_wait_ms: tail_ms / 20.0,
        held_mean_ms: Some(tail_ms / 3.0),
        longest_held_ms: tail_ms * 2.0,
        lag_mean_ms: Some(tail_ms / 3.0),
        longest_lag_ms: tail_ms * 2.0,
        lagging_share: 0.0,
        service_mean_ms: Some(busy_s / 91.2),
        outstanding_max: 60_000,
        energy_j: busy_s * 8.4,
        streams_total: 34,
        streams: (0..34).map(stream).collect(),
        classes: Vec::new(),
    }
}

/// Builds a run. A lower `busy_s` sorts more requests into sweeps, so that the heads move in a more
/// orderly way.
fn run(policy: &str, busy_s: f64, tail_ms: f64) -> Run {
    let order = ((733.0 - busy_s) / 400.0).clamp(0.0, 0.95);
    let point = |index: u64| {
        let sweep = (index as f64 / 150.0).fract();
        let place = order * sweep + (1.0 - order) * scattered(index);
        let started = Nanos((busy_s * index as f64 / 40_000.0 * 1e9) as u64);
        HeadPoint {
            started,
            done: started + Nanos::from_micros(8_200),
            cylinder: (place * f64::from(CYLINDERS) * 0.8) as u32,
            len: 65_536,
            stream: (index % 34) as u32,
            op: if index.is_multiple_of(3) { Op::Write } else { Op::Read },
        }
    };
    let mut head = HeadTrace::default();
    head.points = (0..40_000).map(point).collect();
    let distribution = |tail_ms: f64| -> Vec<(f64, f64)> {
        let share = |index: u64| index as f64 / 400.0;
        (0..=400).map(|i| (tail_ms * share(i).powf(3.0) + 4.0 + 9.0 * share(i), share(i))).collect()
    };
    let fight = |index: u64| Fight {
        stream_a: format!("java/{}", 4000 + index),
        stream_b: "write-back".to_string(),
        switches: 9000 / (index + 1),
        cost_s: (busy_s - 280.0) / 6.0 / (index + 1) as f64,
        numbers: (index as u32, 34),
    };
    Run {
        result: RunResult {
            policy: policy.to_string(),
            device: "st1000nm0011".to_string(),
            replay: Replay::Open,
            changed: Default::default(),
            write_amplification: None,
            erases: None,
            erases_max: None,
            devices: Vec::new(),
            placement: Default::default(),
            imputed_share: 0.0,
            found_late: 0,
            figures: figures(busy_s, tail_ms),
            contention: ContentionFigures {
                between_streams_s: (busy_s - 280.0) * 0.8,
                within_streams_s: (busy_s - 280.0) * 0.18,
                fights: (0..10).map(fight).collect(),
            },
            simulated_requests_per_s: 2_345_678.0,
        },
        head,
        idle: Default::default(),
        slices: None,
        judged: None,
        read_distribution: distribution(tail_ms),
        write_distribution: distribution(tail_ms * 1.3),
    }
}

fn remedy(kind: RemedyKind, policy: &str, flash_bytes: u64, total_s: Option<f64>) -> Remedy {
    Remedy {
        against: None,
        kind,
        policy: policy.to_string(),
        flash_bytes,
        queues: QueueSizes::default(),
        moved_bytes: 0,
        requests: 4000,
        before: total_s.map(|_| Before {
            total_s: 733.0,
            read_p99_ms: Some(5.6e5),
            write_p99_ms: None,
        }),
        total_s,
        gain_share: total_s.map(|total_s| 1.0 - total_s / 733.0),
        gain_over_free_share: None,
        read_p99_ms: total_s.map(|total_s| total_s * 400.0),
        write_p99_ms: None,
        recommended: total_s.is_some(),
        reason: "It is so.".to_string(),
        run: None,
    }
}

fn ranked(result: &RunResult) -> Ranked {
    Ranked {
        policy: result.policy.clone(),
        total_s: result.figures.busy_s,
        gain_share: Some(1.0 - result.figures.busy_s / 733.0),
        read_p99_ms: result.figures.read_p99_ms,
        write_p99_ms: result.figures.write_p99_ms,
        longest_ms: result.figures.longest_ms(),
        from: Provider::of(&result.policy),
        gain_low_share: Some(0.01),
        gain_high_share: Some(0.42),
        read_p99_gain_low_share: None,
        read_p99_gain_high_share: None,
        write_p99_gain_low_share: None,
        write_p99_gain_high_share: None,
        total_low_s: None,
        total_high_s: None,
        read_p99_low_ms: Some(1.0),
        read_p99_high_ms: Some(2e6),
        write_p99_low_ms: None,
        write_p99_high_ms: None,
        passed_over: (result.policy != "deadline")
            .then(|| super::PassedOver::Alike { to: "deadline".to_string() }),
    }
}

/// Returns the invented advice.
pub(crate) fn advice() -> Advice {
    let policies = [
        ("noop", 733.0, 5.6e5),
        ("deadline", 344.6, 1.7e5),
        ("cfq", 568.0, 4.1e5),
        ("bid", 539.0, 3.8e5),
    ];
    let runs: Vec<_> = policies.map(|(p, busy, tail)| (p.to_string(), run(p, busy, tail))).into();
    let results: Vec<RunResult> = runs.iter().map(|(_, run)| run.result.clone()).collect();
    let mut ranking: Vec<Ranked> = results.iter().map(ranked).collect();
    ranking.sort_by(|a, b| a.total_s.total_cmp(&b.total_s));
    Advice {
        is_flash_size_named: false,
        plain: None,
        sensitivity: Vec::new(),
        throttling: None,
        redundancy: None,
        disturbances: Vec::new(),
        trace: "hadoop-eternity10.sdb".to_string(),
        device: "st1000nm0011".to_string(),
        device_reason: "the smallest bundled drive that holds the trace".to_string(),
        replay: Replay::Open,
        intensity: 1.0,
        total_is: "busy time",
        verdict: Verdict::Recommended,
        recommended: Some("deadline".to_string()),
        baseline: "noop".to_string(),
        is_baseline_known: false,
        stands_in: false,
        is_device_default: false,
        is_other_device: false,
        is_saturated: false,
        enough: None,
        uncertain: None,
        why: Some("62 % of the heads' travel is between streams".to_string()),
        prefer: Prefer::Balance,
        today: None,
        headline: "Use deadline: the disk works 345 s instead of 733 s with noop (53 % less), and \
                   99 % of reads are answered within 170 s instead of 560 s."
            .to_string(),
        findings: vec![
            "The disk cannot keep up: the requests of 160 s keep it busy for 733 s under noop, so \
             they queue and latencies are mostly queueing."
                .to_string(),
            "Under noop the disk spends 62 % of its busy time moving heads.".to_string(),
        ],
        trust: crate::advise::Trust {
            said: "On this trace the model's read p50 is 8 % too high and its p99 22 % too low"
                .to_string(),
            is_checked: true,
            ..crate::advise::Trust::unchecked("")
        },
        cautions: vec!["1 of 40 CPU files is missing.".to_string()],
        ranking,
        other_replay: None,
        flash_device: "d7-p5520".to_string(),
        remedies: vec![
            remedy(RemedyKind::Scheduling, "deadline", 0, Some(344.6)),
            remedy(RemedyKind::Defragmentation, "noop", 0, None),
            remedy(RemedyKind::Caching, "cache:size-mib=900", 900 << 20, Some(201.0)),
        ],
        cache_sizing: None,
        defragmentation: None,
        description: description(),
        runs: results,
        pictures: pictures(runs),
    }
}

fn pictures(runs: Vec<(String, Run)>) -> Pictures {
    Pictures {
        streams: (0..34).map(|index| format!("java/{}", 4000 + index)).collect(),
        arrivals: (0..600)
            .map(|i| (i as f64 * 0.28, 300.0 + 1500.0 * scattered(i).powi(3)))
            .collect(),
        runs,
        cylinders: CYLINDERS,
    }
}
