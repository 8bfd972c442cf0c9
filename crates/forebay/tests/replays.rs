//! Tests `advise` in open and in dependent replay. Recommendations must hold in both.

use forebay::advise::{Advice, AdviceOptions, Verdict, advise, default_flash};
use forebay::devices;
use forebay::input::Input;
use forebay::progress::unheard;
use forebay::simulate::{Replay, Setup, run};
use forebay_core::{Flags, Nanos, Op};
use forebay_trace::Record;

const GIB: u64 = 1 << 30;

/// Returns a scattered read of 4 KiB that took 1 ms in the recording.
fn read(at_us: u64, stream: u32, index: u64) -> Record {
    Record {
        at: Nanos::from_micros(at_us),
        offset: index.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (800 * GIB) / 4096 * 4096,
        latency: Some(Nanos::from_millis(1)),
        len: 4096,
        stream,
        volume: 0,
        op: Op::Read,
        flags: Flags::NONE,
    }
}

/// Returns the reads of `readers` tasks that take turns, each with one read at a time, recorded 3
/// ms apart.
fn synchronous(readers: u64) -> Vec<Record> {
    let reads = (0..3000).flat_map(|n| (0..readers).map(move |reader| (n, reader)));
    reads.map(|(n, reader)| read(n * 3000 + reader, reader as u32, n * readers + reader)).collect()
}

fn advised(records: Vec<Record>, both_replays: bool) -> Advice {
    advised_on("st1000nm0011:plain", records, both_replays)
}

fn advised_on(device: &str, records: Vec<Record>, both_replays: bool) -> Advice {
    let streams = records.iter().map(|record| record.stream).max().unwrap() + 1;
    let labels = (0..streams).map(|stream| format!("reader-{stream}")).collect();
    let input = Input::from_records(records, labels);
    let device = devices::open(device).unwrap();
    let flash = default_flash().unwrap();
    let asked =
        AdviceOptions { both_replays, current: Some("none".into()), ..AdviceOptions::default() };
    advise(&input, &device, String::new(), &flash, Setup::default(), asked, &mut unheard).unwrap()
}

/// A single reader waits for each completion. In open replay it causes a backlog that could be
/// sorted, but in reality there is none.
#[test]
fn a_gain_only_in_open_replay_is_not_recommended() {
    let open = advised(synchronous(1), false);
    assert_eq!((open.verdict, open.replay), (Verdict::Recommended, Replay::Open));
    assert!(open.other_replay.is_none());
    let both = advised(synchronous(1), true);
    assert_eq!((both.verdict, both.replay), (Verdict::Depends, Replay::Dependent));
    assert_eq!(both.recommended.as_deref(), Some("none"));
    assert!(both.today.is_none());
    let told = &both.findings[0];
    assert!(told.contains("No gain is certain."), "no figure gets worse in either replay: {told}");
    let disputed = both.other_replay.as_ref().unwrap().disputed.clone().unwrap();
    for said in
        [&disputed[..], "if requests wait for one another, ", "if requests arrive as recorded, "]
    {
        assert!(told.contains(said), "{told}");
    }
    assert!(
        told.starts_with("This disk cannot keep up with the recording: without a scheduler (none)"),
        "{told}"
    );
    let uncertain = both.uncertain.unwrap();
    assert_eq!((&uncertain.policy[..], uncertain.depends_on), (&disputed[..], None));
    let other = both.other_replay.unwrap();
    assert_eq!((other.replay, other.total_is), (Replay::Open, "busy time"));
    assert_eq!(other.ranking.len(), both.ranking.len());
}

/// Many readers wait for one completion each, so the scheduler always has as many requests to
/// choose from.
#[test]
fn a_gain_in_both_replays_is_recommended() {
    let advice = advised(synchronous(24), true);
    assert_eq!(advice.verdict, Verdict::Recommended, "{}", advice.headline);
    let best = advice.recommended.as_deref().unwrap();
    let gains = |ranking: &[forebay::advise::Ranked]| {
        let ranked = ranking.iter().find(|ranked| ranked.policy == best).unwrap();
        ranked.gain_share.unwrap()
    };
    let other = advice.other_replay.as_ref().unwrap();
    assert!(gains(&advice.ranking) > 0.03 && gains(&other.ranking) > 0.03);
    assert_eq!(other.disputed, None);
    let said = format!("{best} is also better if requests arrive as recorded: ");
    assert!(advice.findings.iter().any(|it| it.starts_with(&said)), "{:?}", advice.findings);
}

#[test]
fn few_latencies_make_it_rough_and_none_leave_open_replay_alone() {
    let with = |share: usize| {
        let mut records = synchronous(2);
        for (at, record) in records.iter_mut().enumerate() {
            record.latency = record.latency.filter(|_| at % 10 < share);
        }
        let advice = advised(records, true);
        let rough = advice.cautions.iter().any(|it| it.starts_with("Dependent replay is rough"));
        (advice.other_replay.is_some(), rough)
    };
    assert_eq!([0, 7, 8].map(with), [(false, false), (true, true), (true, false)]);
}

/// If a drive's internal scheduling is unknown, a recommendation must be better at both ends of the
/// possible range.
#[test]
fn recommendations_hold_for_every_command_order_of_the_drive() {
    let advice = advised_on("st1000nm0011", synchronous(24), true);
    let margins: Vec<_> =
        advice.sensitivity.iter().filter(|one| one.part == "catch margin").collect();
    match advice.verdict {
        Verdict::Recommended => {
            assert_eq!(margins.len(), 2, "{}", advice.headline);
            assert!(margins.iter().all(|one| one.gain_share > 0.0), "{margins:?}");
        }
        _ => assert!(margins.is_empty(), "{}", advice.headline),
    }
}

fn with_latency(mut records: Vec<Record>, latency: Option<Nanos>) -> Vec<Record> {
    records.iter_mut().for_each(|record| record.latency = latency);
    records
}

/// In open replay on a disk that cannot keep up, latency only measures the length of the backlog.
#[test]
fn the_length_of_a_backlog_is_not_shown_as_a_latency() {
    let said = |advice: &Advice| {
        let all = [std::slice::from_ref(&advice.headline), &advice.findings, &advice.cautions];
        all.concat().join(" ")
    };
    let open = advised(with_latency(synchronous(2), None), true);
    assert!(open.headline.starts_with("This disk cannot keep up"), "{}", open.headline);
    assert!(open.other_replay.is_none() && open.ranking.iter().all(|one| one.total_s > 0.0));
    let both = advised(synchronous(2), true);
    let other = both.other_replay.as_ref().unwrap();
    for ranking in [&open.ranking, &other.ranking] {
        assert!(ranking.iter().all(|one| one.read_p99_ms.is_none() && one.longest_ms.is_none()));
    }
    for p99 in ["99 %", "p99", "mean read", "median read"] {
        assert!(!said(&open).contains(p99), "{}", said(&open));
    }
    assert!(both.ranking.iter().all(|one| one.read_p99_ms.is_some()));
}

#[test]
fn a_column_of_zeros_is_no_latency() {
    let advice = advised(with_latency(synchronous(2), Some(Nanos::ZERO)), true);
    assert!(advice.other_replay.is_none(), "{}", advice.headline);
}

/// A stream that reads continuously falls behind; a stream with three reads, far apart, does not.
#[test]
fn each_stream_has_its_own_lag() {
    let busy = (0..2000).map(|n| read(n * 3000, 0, n));
    let calm = (0..3).map(|n| read(n * 2_900_000 + 1, 1, 9000 + n));
    let mut records: Vec<Record> = busy.chain(calm).collect();
    records.sort_by_key(|record| record.at);
    let input = Input::from_records(records, vec!["busy".into(), "calm".into()]);
    let device = devices::open("st1000nm0011:plain").unwrap();
    let setup = Setup { replay: Replay::Dependent, ..Setup::default() };
    let figures = run(&input, &device, "noop", setup).unwrap().result.figures;
    let [busy, calm] = ["busy", "calm"]
        .map(|name| figures.streams.iter().find(|stream| stream.stream == name).unwrap());
    assert_eq!(busy.longest_lag_ms, figures.longest_lag_ms);
    assert!(busy.longest_lag_ms > 10_000.0 && calm.longest_lag_ms < 100.0, "{calm:?}");
    assert!((busy.done_s - figures.makespan_s).abs() < 1e-6);
    assert!((5.8..6.0).contains(&calm.done_s), "{calm:?}");
}
