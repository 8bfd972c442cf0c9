//! Tests with recordings made by a model, so that the recorded device is known.

use forebay_core::catalog::build_measured;
use forebay_core::{Completion, Device, Observer, simulate};
use forebay_trace::Record;

use super::*;
use crate::devices::{self, OpenDevice};
use crate::progress::untold;

/// An observer that stores the latency of each request.
struct Took(Vec<Option<Nanos>>);

impl Observer for Took {
    fn arrived(&mut self, _: &Request) {}
    fn io(&mut self, _: &Completion) {}
    fn finished(&mut self, now: Nanos, done: &Done) {
        self.0[done.request.id as usize] = Some(done.latency(now));
    }
}

/// Returns `count` requests, one every `gap_us` on average, with three reads per write, spread over
/// 100 GB.
pub(crate) fn records(count: u64, gap_us: u64) -> Vec<Record> {
    let mut state = 7u64;
    let mut draw = |below: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % below
    };
    let mut at = Nanos::ZERO;
    let one = |_| {
        at += Nanos::from_micros(draw(2 * gap_us));
        let op = if draw(4) == 0 { Op::Write } else { Op::Read };
        Record {
            at,
            offset: draw(100 << 18) << 12,
            latency: None,
            len: 4096 << draw(5),
            stream: draw(8) as u32,
            volume: 0,
            op,
            flags: Flags::SYNC,
        }
    };
    (0..count).map(one).collect()
}

pub(crate) fn input_of(records: Vec<Record>) -> Input {
    Input::from_records(records, (0..8).map(|stream| format!("task {stream}")).collect())
}

/// Simulates `records` on `device` under `policy`, and returns them with the resulting latencies.
pub(crate) fn recorded(records: Vec<Record>, device: &OpenDevice, policy: &str) -> Input {
    let input = input_of(records.clone());
    let (bed, setup) = (Bed::of(device), Setup::default());
    let (requests, _) = crate::simulate::requests(&input, bed, setup).unwrap();
    let mut took = Took(vec![None; records.len()]);
    let mut workload = forebay_core::replay::Open::new(requests, setup.intensity);
    let mut policy = build_measured(policy, &bed.lanes(), &device.model).unwrap();
    let mut devices = [device.model.clone()];
    simulate::run(&mut *policy, &mut devices, &mut workload, &mut took);
    assert!(devices[0].next().is_none());
    let with = |(record, latency): (Record, Option<Nanos>)| Record { latency, ..record };
    input_of(records.into_iter().zip(took.0).map(with).collect())
}

fn judged(input: &Input, device: &OpenDevice, policy: &str, replay: Replay) -> Retrodiction {
    let setup = Setup { replay, ..Setup::default() };
    retrodict(input, Bed::of(device), policy, setup, &mut untold).unwrap()
}

fn errors(of: &Option<DirectionAnswer>) -> [f64; 2] {
    let of = of.as_ref().unwrap();
    [of.p50_error_share.unwrap(), of.p99_error_share.unwrap()]
}

#[test]
fn the_device_that_made_the_recording_retrodicts_it() {
    for (name, policy, gap_us) in [
        ("st1000nm0011", "mq-deadline", 9_000),
        ("travelstar-5k320", "bfq", 20_000),
        ("samsung-830", "none", 2_000),
    ] {
        let device = devices::open(name).unwrap();
        let input = recorded(records(3000, gap_us), &device, policy);
        let answer = judged(&input, &device, policy, Replay::Open);
        assert_eq!((answer.requests, answer.requests_unmeasured), (3000, 0), "{name}");
        assert_eq!([errors(&answer.reads), errors(&answer.writes)], [[0.0; 2]; 2], "{name}");
        let outstanding = answer.outstanding.unwrap();
        assert!(outstanding.recorded_mean > 0.0 && outstanding.mean_absolute_error == 0.0);
        assert!(outstanding.correlation.unwrap() > 0.999_999, "{name}: {outstanding:?}");
        assert!(!answer.is_overloaded, "{name}");
    }
}

#[test]
fn a_device_twice_as_slow_is_wrong_by_as_much_and_says_so() {
    let [fast, slow] = ["fixed:1000", "fixed:500"].map(|name| devices::open(name).unwrap());
    // Requests hardly ever overlap, so each takes the server's service time.
    let input = recorded(records(2000, 100_000), &fast, "none");
    let answer = judged(&input, &slow, "none", Replay::Open);
    let [p50, p99] = errors(&answer.reads);
    assert!((p50 - 1.0).abs() < 0.01 && (0.5..=1.6).contains(&p99), "{p50} {p99}");
    let outstanding = answer.outstanding.unwrap();
    let ratio = outstanding.modelled_mean / outstanding.recorded_mean;
    assert!((1.9..2.2).contains(&ratio), "{outstanding:?}");
    let input = recorded(records(2000, 100_000), &slow, "none");
    let [p50, _] = errors(&judged(&input, &fast, "none", Replay::Open).writes);
    assert!((p50 + 0.5).abs() < 0.01, "{p50}");
}

#[test]
fn a_model_that_cannot_keep_up_says_so_and_dependent_replay_does_without_the_backlog() {
    let [fast, slow] = ["fixed:1000", "fixed:500"].map(|name| devices::open(name).unwrap());
    let input = recorded(records(20_000, 1_200), &fast, "none");
    let open = judged(&input, &slow, "none", Replay::Open);
    assert!(open.is_overloaded && errors(&open.reads)[0] > 10.0, "{open:?}");
    let dependent = judged(&input, &slow, "none", Replay::Dependent);
    assert_eq!(dependent.requests, 20_000);
    let [dependent, open] = [&dependent, &open].map(|answer| errors(&answer.reads)[0]);
    assert!(dependent > 0.0 && dependent < open / 4.0, "{dependent} {open}");
}

#[test]
fn only_what_was_measured_is_judged() {
    let device = devices::open("st1000nm0011").unwrap();
    let mut all = Vec::new();
    let full = recorded(records(3000, 9_000), &device, "mq-deadline");
    for (index, mut record) in full.records().unwrap().enumerate() {
        record.flags = Flags::SYNC;
        // The latencies that are removed here would have differed greatly from the model's.
        record.latency = record.latency.filter(|_| index % 3 > 0);
        all.push(record);
    }
    for replay in [Replay::Open, Replay::Dependent] {
        let answer = judged(&input_of(all.clone()), &device, "mq-deadline", replay);
        assert_eq!((answer.requests, answer.requests_unmeasured), (2000, 1000), "{replay:?}");
        let [p50, p99] = errors(&answer.reads);
        assert!(p50.abs() < 0.03 && p99.abs() < 0.1, "{replay:?}: {p50} {p99}");
        let outstanding = answer.outstanding.unwrap();
        assert!(outstanding.mean_absolute_error < 0.2 * outstanding.recorded_mean);
    }
    let answer = judged(&input_of(all), &device, "mq-deadline", Replay::Open);
    assert_eq!([errors(&answer.reads), errors(&answer.writes)], [[0.0; 2]; 2]);
}

#[test]
fn a_part_is_judged_by_its_own_requests() {
    let device = devices::open("fixed:1000").unwrap();
    let input = recorded(records(2000, 5_000), &device, "none");
    let setup = Setup::default();
    let part = |wanted| {
        retrodict_part(&input, Bed::of(&device), "none", setup, wanted, &mut untold).unwrap()
    };
    assert_eq!(part(0..500).requests, 500);
    let rest = part(500..u64::MAX);
    assert_eq!(rest.requests, 1500);
    assert!(errors(&rest.reads)[0].abs() < 0.01);
}

#[test]
fn traces_that_cannot_be_judged_are_rejected() {
    let device = devices::open("fixed:1000").unwrap();
    let said = |input: &Input, setup| {
        retrodict(input, Bed::of(&device), "none", setup, &mut untold).unwrap_err().to_string()
    };
    let none = said(&input_of(records(10, 10)), Setup::default());
    assert!(none.contains("the trace records no latencies"), "{none}");
    let input = recorded(records(10, 10), &device, "none");
    let intensity = forebay_core::replay::Intensity::new(2.0).unwrap();
    let fast = said(&input, Setup { intensity, ..Setup::default() });
    assert!(fast.contains("got an intensity of 2, expected 1"), "{fast}");
}
