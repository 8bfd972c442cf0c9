//! The workload model as a whole: a known source comes back, what is drawn keeps to the model, and
//! the file stays small and tells no offset.
#![allow(clippy::unwrap_used)]

#[path = "model/damaged.rs"]
mod damaged;
#[path = "model/kept.rs"]
mod kept;
#[path = "model/nearby.rs"]
mod nearby;
#[path = "model/seeds.rs"]
mod seeds;

use std::collections::BTreeMap;
use std::path::Path;

use forebay::model::check;
use forebay::model::file::Model;
use forebay::model::fit::{FitOptions, Fitter, Survey};
use forebay::model::generate::{GenerateOptions, Generator};
use forebay::model::state::Range;
use forebay_core::{Flags, Nanos, Op};
use forebay_trace::Record;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

const EXTENT: u64 = 64 << 30;

fn fitted(records: &[Record], set: impl Fn(&mut FitOptions)) -> Model {
    let mut survey = Survey::default();
    records.iter().for_each(|record| survey.add(record));
    let mut options = FitOptions { level: Some(1), ..FitOptions::default() };
    set(&mut options);
    let mut fitter = Fitter::new(survey, options);
    records.iter().for_each(|record| fitter.add(record));
    fitter.finish()
}

fn fit(records: &[Record], level: u8) -> Model {
    fitted(records, |options| options.level = Some(level))
}

fn fit_periods(records: &[Record], period: Nanos) -> Model {
    fitted(records, |options| options.period = Some(period))
}

fn by_period(records: &[Record], period: Nanos) -> Vec<u64> {
    let mut counts = vec![0; (records[records.len() - 1].at.0 / period.0) as usize + 1];
    records.iter().for_each(|record| counts[(record.at.0 / period.0) as usize] += 1);
    counts
}

fn draw(model: &Model, seed: u64) -> Vec<Record> {
    Generator::new(model, GenerateOptions { seed, ..GenerateOptions::default() }).collect()
}

/// A chain over quarters: it stays with probability 0.7 and goes on to the next with 0.3; reads of
/// 4 KiB in the even ones, writes of 64 KiB in the odd ones, exponential gaps of 1 ms.
fn chain(requests: usize) -> Vec<Record> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
    let mut unit = move || (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    let (mut at, mut quarter) = (0.0, 0u64);
    let mut records = vec![record(0, EXTENT - 4096, Op::Read, 4096)];
    for _ in 1..requests {
        at += -(1.0 - unit()).ln() * 1e6;
        if unit() < 0.3 {
            quarter = (quarter + 1) % 4;
        }
        let place = (unit() * (EXTENT / 4 - 65_536) as f64) as u64 / 4096 * 4096;
        let (op, len) = if quarter % 2 == 0 { (Op::Read, 4096) } else { (Op::Write, 65_536) };
        records.push(record(at as u64, quarter * (EXTENT / 4) + place, op, len));
    }
    records
}

fn record(at_ns: u64, offset: u64, op: Op, len: u32) -> Record {
    Record {
        at: Nanos(at_ns),
        offset,
        latency: None,
        len,
        stream: 0,
        volume: 0,
        op,
        flags: Flags::NONE,
    }
}

#[test]
fn a_known_chain_comes_back() {
    let model = fit(&chain(40_000), 1);
    let out: BTreeMap<(&str, &str), f64> = model.parts[0]
        .transitions
        .iter()
        .map(|transition| ((&*transition.from, &*transition.to), transition.share))
        .collect();
    for from in 0..4u32 {
        let path = |state: u32| Range::new(1, state % 4).path();
        let share = |to: u32| out.get(&(&*path(from), &*path(to))).copied().unwrap_or(0.0);
        let all: f64 = (0..4).map(share).sum();
        assert!((share(from) / all - 0.7).abs() < 0.02, "{from} stays {}", share(from) / all);
        assert!((share(from + 1) / all - 0.3).abs() < 0.02 && share(from + 2) < 1e-3);
    }
    let families = model.parts[0].transitions.iter().filter(|t| t.share > 0.01);
    for transition in families {
        let gaps = &transition.inter_arrival;
        assert_eq!(format!("{:?}", gaps.family), "Exponential", "{gaps:?}");
        assert!((gaps.mean_us / 1000.0 - 1.0).abs() < 0.1, "{gaps:?}");
    }
}

#[test]
fn the_weights_of_what_is_drawn_are_the_model_s() {
    let records = chain(40_000);
    let model = fit(&records, 2);
    let weights = |records: &[Record]| {
        let mut counts: BTreeMap<(u64, bool, u32), f64> = BTreeMap::new();
        for r in records {
            let of = (r.offset / (EXTENT / 16), r.op == Op::Write, r.len);
            *counts.entry(of).or_default() += 1.0 / records.len() as f64;
        }
        counts
    };
    let (model_s, drawn) = (weights(&records), weights(&draw(&model, 1)));
    for (of, weight) in &model_s {
        let other = drawn.get(of).copied().unwrap_or(0.0);
        assert!((weight - other).abs() <= 5e-4, "{of:?}: {weight} against {other}");
    }
    assert!(drawn.keys().all(|of| model_s.contains_key(of)));
}

#[test]
fn drawn_requests_keep_to_extent_sizes_and_time() {
    let records = chain(20_000);
    for (level, seed) in [(1, 1), (3, 2), (8, 3)] {
        let drawn = draw(&fit(&records, level), seed);
        assert_eq!(drawn.len(), records.len());
        assert!(drawn.is_sorted_by_key(|record| record.at));
        for r in &drawn {
            assert!(r.offset + u64::from(r.len) <= EXTENT && [4096, 65_536].contains(&r.len));
        }
        let (theirs, ours) = (records[records.len() - 1].at.0, drawn[drawn.len() - 1].at.0);
        assert!(theirs.abs_diff(ours) < theirs / 1000, "{theirs} {ours}");
    }
}

#[test]
fn the_same_seed_draws_the_same_and_another_does_not() {
    let model = fit(&chain(5000), 2);
    assert!(draw(&model, 7) == draw(&model, 7));
    assert!(draw(&model, 7) != draw(&model, 8));
}

#[test]
fn a_longer_trace_makes_no_larger_model_and_no_offset_is_told() {
    let records = chain(120_000);
    let (half, whole) = (fit(&records[..60_000], 2).json(), fit(&records, 2).json());
    assert!(whole.len() < half.len() * 12 / 10, "{} against {}", whole.len(), half.len());
    assert!(whole.len() < 256 << 10, "{}", whole.len());
    // Lists do not grow, only some counts have a digit more.
    let told = |n: u64| whole.contains(&n.to_string());
    assert!(!records.iter().take(2000).any(|r| r.offset > 1 << 30 && told(r.offset)));
    assert!(!records.iter().take(2000).any(|r| r.offset > 1 << 40 && told(r.offset / 512)));
}

#[test]
fn a_model_comes_back_from_its_file() {
    let model = fit(&chain(3000), 2);
    let back = check::parse(Path::new("m.json"), model.json().as_bytes()).unwrap();
    assert!(back == model);
}

#[test]
fn every_stream_can_have_its_own() {
    let mut records = chain(9000);
    records.iter_mut().zip(0u32..).for_each(|(record, n)| record.stream = n % 12);
    let model = fitted(&records, |options| options.by_stream = true);
    assert_eq!(model.parts.len(), 8);
    assert!(check::parse(Path::new("m.json"), model.json().as_bytes()).is_ok());
    let drawn = draw(&model, 1);
    assert!(drawn.len() == records.len() && drawn.is_sorted_by_key(|record| record.at));
    let mut counts = [0u32; 12];
    drawn.iter().for_each(|record| counts[record.stream as usize] += 1);
    assert_eq!(counts, [750; 12]);
}

#[test]
fn parts_begin_again_together() {
    // A stream that is there all the time, one for a moment only, and one with a single request.
    let mut records = chain(4000);
    for (record, n) in records.iter_mut().zip(0..) {
        record.stream = if n == 2500 { 2 } else { u32::from((1000..1100).contains(&n)) };
    }
    let last = records[3999].at.0;
    for period in [None, Some(Nanos(1_000_000_000))] {
        let set = |options: &mut FitOptions| (options.by_stream, options.period) = (true, period);
        let model = fitted(&records, set);
        let drawn = |requests, until| {
            let options = GenerateOptions { requests, until, ..GenerateOptions::default() };
            assert!(options.expect_end(Path::new("m"), &model).is_ok());
            let drawn: Vec<Record> = Generator::new(&model, options).collect();
            assert!(drawn.is_sorted_by_key(|record| record.at));
            let of = |stream| drawn.iter().filter(|record| record.stream == stream).count();
            ([0, 1, 2].map(of), drawn[drawn.len() - 1].at.0)
        };
        let (counts, end) = drawn(Some(4000), None);
        assert!(counts == [3899, 100, 1] && end.abs_diff(last) < last / 1000, "{counts:?} {end}");
        let (counts, end) = drawn(Some(20_000), None);
        assert!(counts == [19_495, 500, 5] && end.abs_diff(5 * last) < last / 100, "{counts:?}");
        let (counts, _) = drawn(Some(900), None);
        assert_eq!(counts, [900, 0, 0]);
        let (counts, end) = drawn(None, Some(Nanos(3 * last - 1_000_000)));
        assert!(counts[1..] == [300, 3] && end < 3 * last, "{counts:?} {end}");
    }
}

#[test]
fn what_lasts_no_time_has_no_length_to_be_drawn_for() {
    let records: Vec<Record> = (0..9).map(|n| record(5, n << 20, Op::Read, 4096)).collect();
    let for_1_s =
        GenerateOptions { until: Some(Nanos(1_000_000_000)), ..GenerateOptions::default() };
    for model in [fit(&records, 1), fit_periods(&records, Nanos(1_000_000_000))] {
        let said = for_1_s.expect_end(Path::new("m"), &model).unwrap_err().to_string();
        assert!(said.starts_with("m: got a length of time") && said.contains("requests"), "{said}");
        let twice = GenerateOptions { requests: Some(18), ..for_1_s };
        assert!(twice.expect_end(Path::new("m"), &model).is_ok());
        assert_eq!(Generator::new(&model, twice).count(), 18);
    }
}

#[test]
fn periods_keep_their_requests_and_transitions_their_family() {
    let records = chain(40_000);
    let period = Nanos(7_000_000_000);
    let model = fit_periods(&records, period);
    let json = model.json();
    assert!(check::parse(Path::new("m.json"), json.as_bytes()).unwrap() == model);
    let drawn = draw(&model, 1);
    assert!(drawn.is_sorted_by_key(|record| record.at) && drawn == draw(&model, 1));
    assert_eq!(by_period(&drawn, period), by_period(&records, period));
    let mut gaps: Vec<f64> =
        drawn.windows(2).map(|pair| (pair[1].at.0 - pair[0].at.0) as f64 / 1e6).collect();
    gaps.sort_by(f64::total_cmp);
    let count = gaps.len() as f64;
    let off = |(n, gap): (usize, &f64)| ((n as f64 + 0.5) / count - (1.0 - (-gap).exp())).abs();
    let distance = gaps.iter().enumerate().map(off).fold(0.0, f64::max);
    assert!(distance < 0.02, "{distance}");
}

#[test]
fn a_slow_and_a_fast_half_keep_their_intensity() {
    let mut records = chain(20_000);
    // Half as many gaps, ten times as long, then the rest as they are.
    let turn = records[10_000].at.0;
    for record in &mut records {
        let at = record.at.0;
        record.at = Nanos(if at <= turn { at * 10 } else { turn * 9 + at });
    }
    let period = Nanos(5_000_000_000);
    let model = fit_periods(&records, period);
    for seed in [1, 2] {
        let drawn = draw(&model, seed);
        assert_eq!(by_period(&drawn, period), by_period(&records, period));
        // Within a period as well: no crowd at either end.
        let tenths = by_period(&drawn, Nanos(period.0 / 10));
        let slow = &tenths[..190];
        let of = |tenth: usize| slow.iter().skip(tenth).step_by(10).sum::<u64>() as f64;
        let mean = slow.iter().sum::<u64>() as f64 / 10.0;
        for tenth in 0..10 {
            assert!((of(tenth) / mean - 1.0).abs() < 0.25, "{tenth}: {} of {mean}", of(tenth));
        }
    }
    let cycles = GenerateOptions { requests: Some(50_000), ..GenerateOptions::default() };
    let long: Vec<Record> = Generator::new(&model, cycles).collect();
    assert!(long.len() == 50_000 && long.is_sorted_by_key(|record| record.at));
}
