//! Tests `advise` on small traces whose best scheduler is known: three for which it differs, and
//! two for which nothing helps, which the advice must say.

mod flash;
mod recordings;
mod streams;

use forebay::advise::{
    Advice, AdviceOptions, Prefer, Remedy, RemedyKind, Verdict, advise, default_device,
    default_flash,
};
use forebay::devices::{self, OpenDevice};
use forebay::input::Input;
use forebay::progress::{ProgressReport, unheard, untold};
use forebay::simulate::Setup;
use forebay_core::catalog::POLICIES;
use forebay_core::{Device, Flags, Nanos, Op};
use forebay_trace::Record;

const KIB: u64 = 1024;
const GIB: u64 = 1 << 30;

fn read(at_us: u64, stream: u32, offset: u64, len: u64) -> Record {
    Record {
        at: Nanos::from_micros(at_us),
        offset,
        latency: None,
        len: len as u32,
        stream,
        volume: 0,
        op: Op::Read,
        flags: Flags::NONE,
    }
}

fn advice(records: Vec<Record>) -> Advice {
    advice_on(records, Prefer::default())
}

fn advice_on(records: Vec<Record>, prefer: Prefer) -> Advice {
    preferring(records, "st1000nm0011:plain", prefer)
}

fn preferring(records: Vec<Record>, device: &str, prefer: Prefer) -> Advice {
    with_options(records, device, AdviceOptions { prefer, ..of_none() })
}

fn with_options(mut records: Vec<Record>, device: &str, options: AdviceOptions) -> Advice {
    records.sort_by_key(|record| record.at);
    let streams = records.iter().map(|record| record.stream).max().unwrap() + 1;
    let labels = (0..streams).map(|stream| format!("reader-{stream}")).collect();
    let input = Input::from_records(records, labels);
    let device = devices::open(device).unwrap();
    let (reason, flash) = ("for the test".to_string(), default_flash().unwrap());
    advise(&input, &device, reason, &flash, Setup::default(), options, &mut unheard).unwrap()
}

/// Returns options with the baseline `none`, which leaves the order of requests to the drive.
fn of_none() -> AdviceOptions {
    AdviceOptions { current: Some("none".to_string()), ..AdviceOptions::default() }
}

fn best(advice: &Advice) -> &str {
    &advice.ranking[0].policy
}

/// Returns a pseudorandom address that depends only on `index`.
fn scattered(index: u64) -> u64 {
    index.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (800 * GIB) / 4096 * 4096
}

/// Returns random reads by a database every 30 ms for a minute, and a backup that reads on from 20 s to
/// 40 s.
fn database_and_backup() -> Vec<Record> {
    let database = (0..2000).map(|n| read(n * 30_000, 0, scattered(n), 8 * KIB));
    let backup = |n: u64| read(20_000_000 + n * 20_000, 1, 600 * GIB + n * 256 * KIB, 256 * KIB);
    database.chain((0..1000).map(backup)).collect()
}

/// A disk that is busy 40 % of the time has streams that meet, although nothing is to be gained by
/// another order.
#[test]
fn the_reason_names_the_streams_that_compete() {
    let advice = advice(database_and_backup());
    let why = advice.why.unwrap();
    assert!(why.contains("reader-0 and reader-1"), "{}: {why}", advice.headline);
}

/// Less than two seconds of load may be a burst, and do not show that the disk is saturated.
#[test]
fn a_burst_saturates_no_disk() {
    let short = advice((0..150).map(|n| read(n * 9_000, 0, scattered(n), 4 * KIB)).collect());
    assert!(!short.headline.contains("saturated"), "{}", short.headline);
    assert!(short.why.as_ref().is_some_and(|why| why.contains("of 1.34 s")), "{:?}", short.why);
}

/// Bursts of reads all over the disk, each by a different process. Only sorting by address helps,
/// and it must sort across processes.
#[test]
fn scattered_bursts_benefit_from_an_elevator() {
    let burst = |n: u64| {
        (0..100).map(move |i| read(n * 2_000_000 + i, i as u32, scattered(n * 100 + i), 4 * KIB))
    };
    let advice = advice((0..20).flat_map(burst).collect());
    assert_eq!(advice.verdict, Verdict::Recommended, "{}", advice.headline);
    assert_eq!((best(&advice), advice.recommended.as_deref().unwrap()), ("clook", "clook"));
    assert!(advice.ranking[0].gain_share.unwrap() > 0.2, "{}", advice.headline);
    let today = advice.today.unwrap();
    assert_eq!(today.now, "echo mq-deadline | sudo tee /sys/block/sdX/queue/scheduler");
    let why = |policy| advice.ranking.iter().find(|one| one.policy == policy).unwrap();
    let why = |policy| why(policy).passed_over.as_ref().map_or(String::new(), ToString::to_string);
    let forebay = why("forebay");
    assert!(forebay.starts_with("apparently worse than clook: read p99"), "{forebay}");
    assert!(why("noop").starts_with("beaten by clook: "), "{}", why("noop"));
}

/// Returns the advice for scattered reads among bursts of other processes' scattered writes, on
/// `device`.
fn among_bursts(device: &str) -> Advice {
    let reads = (0..3_000u64).map(|n| read(n * 20_000 + n * 7919 % 5000, 0, scattered(n), 4 * KIB));
    let burst = |n: u64| {
        (0..300u64)
            .map(move |i| write(n * 3_000_000 + i, 1, scattered(9_000 + n * 300 + i), 4 * KIB))
    };
    preferring(reads.chain((0..20).flat_map(burst)).collect(), device, Prefer::Balance)
}

#[test]
fn queues_of_other_sizes_are_tried() {
    let tried = among_bursts("st1000nm0011:write-cache=off");
    let sizes = remedy(&tried, RemedyKind::QueueSizes);
    let reason = &sizes.reason;
    let scheduler = sizes.policy.split(':').next().unwrap();
    assert!(reason.starts_with(&format!("{scheduler} with {} against ", sizes.queues)), "{reason}");
    assert!(reason.contains(" with default queue sizes: "), "{reason}");
    assert_ne!(
        reason.contains(". Leave them unchanged: not better under"),
        sizes.recommended,
        "{reason}"
    );
    assert!(sizes.total_s.is_some() && sizes.flash_bytes == 0);
    assert_eq!(
        tried.findings[0].contains(&sizes.queues.to_string()),
        sizes.recommended,
        "{}",
        tried.findings[0]
    );
}

/// The drive takes one command at a time, so the only choice is Linux's queue, which is too small
/// for the bursts.
#[test]
fn bursts_wider_than_the_queue_benefit_from_more_requests() {
    let burst = |n: u64| {
        (0..1000u64).map(move |i| read(n * 9_000_000 + i, 0, scattered(n * 1000 + i), 4 * KIB))
    };
    let advice = preferring((0..4).flat_map(burst).collect(), "st1000nm0011:plain", Prefer::Total);
    let sizes = remedy(&advice, RemedyKind::QueueSizes);
    assert!(sizes.recommended, "{}", sizes.reason);
    assert_eq!(sizes.policy, "bfq:requests-max=1024", "{}", sizes.reason);
    assert_eq!(sizes.needs().as_deref(), Some("nr_requests 1024"));
    let today = advice.today.as_ref().unwrap();
    assert_eq!((&today.policy[..], today.queues), ("bfq", sizes.queues));
    let set = advice.findings[0].contains(" Set bfq and nr_requests 1024: disk busy time");
    assert!(set, "{}", advice.headline);
}

/// Returns the reads of two sequential readers. Each pauses for `gap_us` between its reads, and the
/// second reader is half of that time behind the first.
fn two_readers(gap_us: u64) -> Vec<Record> {
    let reader = |stream: u64| {
        (0..1500u64).map(move |n| {
            // Arrivals have a little jitter, so that they do not coincide with timers.
            let at_us = n * gap_us + stream * gap_us / 2 + n * 7919 % 500;
            read(at_us, stream as u32, stream * 400 * GIB + n * 64 * KIB, 64 * KIB)
        })
    };
    (0..2).flat_map(reader).collect()
}

/// Two readers pause for longer than CFQ and BFQ idle and than BID waits. `forebay` decides by
/// whether a wait is worthwhile.
#[test]
fn slow_sequential_readers_benefit_from_waiting() {
    let total = advice_on(two_readers(9_200), Prefer::Total);
    assert_eq!(total.verdict, Verdict::Recommended, "{}", total.headline);
    let chosen = total.recommended.as_deref().unwrap();
    assert_eq!((best(&total), chosen), ("anticipatory", "forebay"));
    assert!(!tells_the_price(&total));
    // Time slices make the other reader wait.
    let reads = advice_on(two_readers(9_200), Prefer::Reads);
    assert_eq!(reads.recommended.as_deref(), Some("mq-deadline"), "{}", reads.headline);
    tells_the_price(&reads);
}

/// Returns whether a mean or median gets longer; the rule ignores these, because it considers only
/// the total time and tails. Checks that the advice mentions exactly those that do, and mentions
/// them first.
fn tells_the_price(advice: &Advice) -> bool {
    let figures = |policy: &str| {
        let run = advice.runs.iter().find(|run| run.policy == policy).unwrap();
        let figures = &run.figures;
        let means = [("mean read", figures.read_mean_ms), ("mean write", figures.write_mean_ms)];
        let medians =
            [("median read", figures.read_p50_ms), ("median write", figures.write_p50_ms)];
        means.into_iter().chain(medians)
    };
    let (chosen, told) = (advice.recommended.as_deref().unwrap(), &advice.findings[1]);
    let mut any = false;
    for ((what, is), (_, was)) in figures(chosen).zip(figures("none")) {
        let is_longer = is.zip(was).is_some_and(|(is, was)| is > 1.03 * was);
        assert_eq!(told.contains(&format!("the {what} takes ")), is_longer, "{told}");
        any |= is_longer;
    }
    assert_eq!(told.starts_with(&format!("The price of {chosen}, against none: the ")), any);
    any
}

/// Two readers pause for less time than CFQ, BFQ and `forebay` wait, so each can read for a whole
/// turn.
#[test]
fn quick_sequential_readers_benefit_from_slices() {
    let advice = advice_on(two_readers(4_000), Prefer::Total);
    assert_eq!(advice.verdict, Verdict::Recommended, "{}", advice.headline);
    assert!(["cfq", "bfq", "forebay"].contains(&best(&advice)), "{}", advice.headline);
    // CFQ was removed from Linux, so it is not recommended.
    let chosen = advice.recommended.as_deref().unwrap();
    assert!(["bfq", "forebay"].contains(&chosen), "{}", advice.headline);
    assert!(advice.findings.iter().any(|finding| finding.contains("reader-0 and reader-1")));
}

#[test]
fn rare_reads_need_no_remedy() {
    let advice = advice((0..300).map(|n| read(n * 500_000, 0, scattered(n), 4 * KIB)).collect());
    assert_eq!(advice.verdict, Verdict::LoadTooLow, "{}", advice.headline);
    assert_eq!(advice.recommended.as_deref(), Some("none"));
    assert!(advice.findings[0].starts_with("Nothing to gain"), "{}", advice.headline);
}

/// The disk is idle except for two bursts. The advice reports their tail, and that the difference
/// may be chance.
#[test]
fn bursts_on_an_idle_disk_are_not_called_seldom_met() {
    let rare = (0..200).map(|n| read(n * 500_000, 0, scattered(n), 4 * KIB));
    let bursts = (200..260).map(|n| read((n / 30) * 9_000_000, 0, scattered(n), 4 * KIB));
    let mut all: Vec<Record> = rare.chain(bursts).collect();
    all.sort_by_key(|record| record.at);
    let advice = advice(all);
    assert_eq!(advice.verdict, Verdict::LoadTooLow, "{}", advice.headline);
    assert!(advice.findings[0].starts_with("No gain is certain"), "{}", advice.headline);
    assert!(advice.findings[0].contains("not statistically significant"), "{}", advice.headline);
}

/// Work that the disk still has to do after the last arrival does not count as busy time before it.
#[test]
fn a_disk_is_not_busy_for_more_than_all_of_the_time() {
    let advice = advice((0..100).map(|n| read(n * 7_000, 0, scattered(n), 4 * KIB)).collect());
    let told = "longer than the 693 ms in which requests arrive";
    assert!(advice.findings[1].contains(told), "{:?}", advice.findings[1]);
}

#[test]
fn one_long_sequential_read_needs_no_remedy() {
    let advice = advice((0..6000).map(|n| read(n * 1_000, 0, n * 512 * KIB, 512 * KIB)).collect());
    assert_eq!(advice.verdict, Verdict::NothingToGain, "{}", advice.headline);
    assert!(advice.findings[0].contains("Nothing to gain"), "{}", advice.headline);
}

fn remedy(advice: &Advice, kind: RemedyKind) -> &Remedy {
    advice.remedies.iter().find(|remedy| remedy.kind == kind).unwrap()
}

fn write(at_us: u64, stream: u32, offset: u64, len: u64) -> Record {
    Record { op: Op::Write, ..read(at_us, stream, offset, len) }
}

#[test]
fn free_remedies_come_first_and_every_kind_is_reported() {
    let advice = advice(two_readers(4_000));
    let kinds: Vec<RemedyKind> = advice.remedies.iter().map(|remedy| remedy.kind).collect();
    assert_eq!(
        kinds,
        [
            RemedyKind::Scheduling,
            RemedyKind::QueueSizes,
            RemedyKind::Defragmentation,
            RemedyKind::Offloading,
            RemedyKind::Caching
        ]
    );
    assert!(advice.remedies.iter().all(|remedy| !remedy.reason.is_empty()));
    assert_eq!(Some(&advice.remedies[0].policy), advice.recommended.as_ref());
    assert!(
        advice.cautions[0].contains("st1000nm0011") && advice.cautions[0].contains("open replay")
    );
}

/// Each fragment is read only once, so a cache would have no hits, and there are no writes to
/// offload.
#[test]
fn a_trace_that_only_reads_leaves_nothing_to_offload() {
    let advice = advice(two_readers(4_000));
    let offloading = remedy(&advice, RemedyKind::Offloading);
    assert!(offloading.run.is_none() && offloading.reason.contains("writes nothing"));
    let caching = remedy(&advice, RemedyKind::Caching);
    assert!(caching.run.is_none() && caching.reason.contains("no block is used twice"));
    assert!(advice.findings.iter().any(|finding| finding.contains("only reads")));
    assert!(!advice.findings[0].contains("flash"), "{}", advice.headline);
}

/// One process reads a file from end to end, while small writes of another pull the heads away.
#[test]
fn small_scattered_writes_would_want_offloading_within_the_kernel() {
    let reads = (0..4_000u64).map(|n| read(n * 5_000, 0, n * 256 * KIB, 256 * KIB));
    let writes = (0..2_000u64).map(|n| write(n * 10_000 + 2_500, 1, scattered(n), 4 * KIB));
    let advice = advice(reads.chain(writes).collect());
    let offloading = remedy(&advice, RemedyKind::Offloading);
    assert!(offloading.gain_over_free_share.unwrap() > 0.1, "{offloading:?}");
    // Only the kernel can distinguish processes.
    assert!(offloading.reason.ends_with("does not know the processes."), "{}", offloading.reason);
    assert!(!offloading.recommended);
    assert!(offloading.flash_bytes >= 4 * KIB && offloading.flash_bytes <= 2_000 * 4 * KIB);
    assert!(offloading.reason.contains("of 2000 writes"), "{}", offloading.reason);
    assert!(!advice.findings[0].contains("offloading"), "{}", advice.headline);
}

/// One file in scattered fragments is read over and over. A single stream has no contention, but
/// defragmentation helps and costs nothing.
#[test]
fn one_stream_over_fragments_wants_defragmentation() {
    let scan = |time: u64| {
        (0..200).map(move |n| read((time * 400 + n) * 15_000, 0, scattered(n), 64 * KIB))
    };
    let advice = advice((0..20).flat_map(scan).collect());
    let defragmentation = remedy(&advice, RemedyKind::Defragmentation);
    assert!(defragmentation.recommended && defragmentation.flash_bytes == 0);
    assert!(advice.findings[0].contains("MiB moved once save"), "{}", advice.headline);
    // The remedy's figures, and the baseline's for comparison, cover the second half of the trace.
    assert_eq!(defragmentation.requests, 2000);
    let (before, after) = (defragmentation.before.unwrap(), defragmentation.total_s.unwrap());
    assert!(before.total_s < 0.6 * advice.ranking[0].total_s, "the whole trace: {before:?}");
    let gain = defragmentation.gain_share.unwrap();
    assert!((gain - (1.0 - after / before.total_s)).abs() < 1e-9);
    assert!(defragmentation.needs().unwrap().ends_with("MiB moved"));
    assert!(remedy(&advice, RemedyKind::Scheduling).requests == 4000);
    assert!(advice.findings.iter().any(|finding| finding.contains("only one stream")));
    assert!(advice.defragmentation.unwrap().is_worth_while());
}

#[test]
fn a_few_requests_are_too_short_to_advise() {
    let advice = advice((0..40).map(|n| read(n * 100, 0, scattered(n), 4 * KIB)).collect());
    assert_eq!((advice.verdict, advice.recommended.as_deref()), (Verdict::TooShort, None));
    assert!(advice.findings[0].starts_with("The trace is too short for advice: 40 requests"));
    // The ranking lists plain figures, without ranks or percentages.
    assert!(advice.ranking.iter().all(|ranked| ranked.gain_share.is_none()));
    let listed = POLICIES.iter().map(|listed| listed.name);
    let listed = listed.chain(["mq-deadline, equal slots"]);
    assert!(listed.eq(advice.ranking.iter().map(|ranked| ranked.policy.as_str())));
    assert!(!advice.findings.iter().any(|finding| finding.contains("cfq")));
    assert!(advice.remedies.iter().all(|remedy| !remedy.recommended));
    assert!(remedy(&advice, RemedyKind::Caching).reason.contains("would not allow a conclusion"));
}

#[test]
fn a_device_without_heads_is_told_so() {
    let records: Vec<_> = (0..300).map(|n| read(n * 1_000, 0, scattered(n), 4 * KIB)).collect();
    let input = Input::from_records(records, vec!["reader".into()]);
    let (device, flash) = (devices::open("fixed:500").unwrap(), default_flash().unwrap());
    let advice =
        advise(&input, &device, String::new(), &flash, Setup::default(), of_none(), &mut unheard)
            .unwrap();
    assert!(advice.remedies[1..].iter().all(|remedy| remedy.reason.contains("no heads")));
}

/// Scattered reads that are faster than any disk are simulated on flash, for which Linux's
/// schedulers are good enough.
#[test]
fn a_recording_from_flash_is_tried_on_flash() {
    let recorded = |latency_us: u64| -> Vec<Record> {
        let latency = Some(Nanos::from_micros(latency_us));
        let one = |n: u64| Record { latency, ..read(n * 200, 0, scattered(n), 4 * KIB) };
        (0..2000).map(one).collect()
    };
    let input = Input::from_records(recorded(80), vec!["reader".into()]);
    let (device, reason) = default_device(&input, None, Setup::default(), &mut unheard).unwrap();
    assert_eq!(device.model.cylinders(), 0, "{}", device.name);
    let begins =
        "flash, judging by the trace: 100 % of its non-sequential reads took less than 2 ms";
    assert!(reason.starts_with(begins), "{reason}");
    let flash = default_flash().unwrap();
    let advice = advise(&input, &device, reason, &flash, Setup::default(), of_none(), &mut unheard);
    let advice = advice.unwrap();
    assert_eq!((advice.verdict, advice.baseline.as_str()), (Verdict::LoadTooLow, "none"));
    assert_eq!(advice.recommended.as_deref(), Some("none"));
    assert!(advice.today.is_none());
    assert!(advice.findings[0].ends_with("Keep none."), "{}", advice.findings[0]);
    // Schedulers with equal results are listed in one sentence.
    let same = advice
        .findings
        .iter()
        .filter(|told| told.contains("not significantly different from none"));
    assert_eq!(same.count(), 1, "{:?}", advice.findings);
    assert!(!advice.cautions.iter().any(|told| told.contains("was faster")));
    // If the user asks about a disk, the advice says that the recorded device was faster.
    let disk = devices::open("st1000nm0011").unwrap();
    let on_disk = advice_of(&input, &disk);
    let told = on_disk.cautions.iter().find(|told| told.contains("was faster")).unwrap();
    assert!(told.contains("the median of its reads was 80.0 µs"), "{told}");
    assert!(told.contains("it did 5003 requests a second where st1000nm0011 does"), "{told}");
    let input = Input::from_records(recorded(9000), vec!["reader".into()]);
    let (device, reason) = default_device(&input, None, Setup::default(), &mut unheard).unwrap();
    assert!(device.model.cylinders() > 0 && reason.contains("general bundled drives"), "{reason}");
}

fn advice_of(input: &Input, device: &OpenDevice) -> Advice {
    let (flash, setup) = (default_flash().unwrap(), Setup::default());
    advise(input, device, String::new(), &flash, setup, of_none(), &mut unheard).unwrap()
}

/// Removes the simulator's own speed, which varies between runs.
fn without_speed(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Object(object) => {
            object.remove("simulated_requests_per_s");
            object.values_mut().for_each(without_speed);
        }
        serde_json::Value::Array(array) => array.iter_mut().for_each(without_speed),
        _ => {}
    }
}

#[test]
fn the_answer_is_the_same_whatever_the_number_of_threads() {
    let record = |n: u64| match n % 3 {
        0 => write(n * 3000, 0, scattered(n), 16_384),
        stream => read(n * 3000, stream as u32, stream * (100 << 30) + n * 65_536, 65_536),
    };
    let labels = ["writer", "reader-1", "reader-2"].map(String::from).into();
    let input = Input::from_records((0..4000).map(record).collect(), labels);
    let (device, flash) = (devices::open("sata250").unwrap(), default_flash().unwrap());
    let with = |jobs: usize| {
        let mut told = Vec::new();
        let asked = AdviceOptions { jobs, ..of_none() };
        let setup = Setup::default();
        let mut keep = |now: &ProgressReport| {
            told.push(now.done_share);
            std::ops::ControlFlow::Continue(())
        };
        let advice = advise(&input, &device, String::new(), &flash, setup, asked, &mut keep);
        let advice = advice.unwrap();
        assert_eq!(told.first(), Some(&0.0));
        assert!(told.is_sorted() && told.last().is_some_and(|last| *last <= 1.0), "{told:?}");
        assert!(told.last().is_some_and(|last| *last > 0.7), "remedies are included");
        let heads: Vec<_> = advice.pictures.runs.iter().map(|(_, run)| &run.head.points).collect();
        let heads = format!("{heads:?}");
        let mut json = serde_json::to_value(&advice).unwrap();
        without_speed(&mut json);
        (json, heads)
    };
    let (one, several) = (with(1), with(3));
    assert_eq!(one.0, several.0);
    assert_eq!(one.1, several.1);
}

/// In every replay mode, a run ends at once, with requests unfinished, when the progress callback
/// stops it.
#[test]
fn a_simulation_can_be_stopped() {
    use forebay::Error;
    use forebay::simulate::{Replay, run_with};
    use std::ops::ControlFlow::Break;
    let path =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/terasort.parquet");
    let input = Input::read(&path, None, Default::default(), &mut untold).unwrap();
    let device = devices::open("st1000nm0011").unwrap();
    for replay in [Replay::Open, Replay::Closed] {
        let setup = Setup { replay, ..Setup::default() };
        let mut told = 0;
        let run = run_with(&input, &device, "bid", setup, &mut |_| {
            told += 1;
            Break(())
        });
        assert!(matches!(run, Err(Error::Stopped)) && told == 1, "{replay:?}");
    }
    let flash = default_flash().unwrap();
    let stopped =
        advise(&input, &device, String::new(), &flash, Setup::default(), of_none(), &mut |_| {
            Break(())
        });
    assert!(matches!(stopped, Err(Error::Stopped)));
}

/// The disk keeps up with these random reads. Batching them would save disk time, but delay the
/// answers.
#[test]
fn a_disk_that_keeps_up_is_not_made_to_answer_late() {
    let places = |n: u64| n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (4 * GIB) / 4096 * 4096;
    let records = (0..6000).map(|n| read(n * 4_700, 0, places(n % 300), 4 * KIB)).collect();
    let input = Input::from_records(records, vec!["reader".to_string()]);
    let device = devices::open("ultrastar-36z15").unwrap();
    let (reason, flash) = ("for the test".to_string(), default_flash().unwrap());
    let advice =
        advise(&input, &device, reason, &flash, Setup::default(), of_none(), &mut unheard).unwrap();
    let tail = |policy: &str| {
        let ranked = advice.ranking.iter().find(|ranked| ranked.policy == policy).unwrap();
        ranked.read_p99_ms.unwrap()
    };
    assert!(tail(best(&advice)) > 2.0 * tail("noop"), "{}", advice.headline);
    assert!(advice.ranking[0].gain_share.unwrap() > 0.05, "{}", advice.headline);
    assert!(
        tail(advice.recommended.as_deref().unwrap()) <= 2.0 * tail("noop"),
        "{}",
        advice.headline
    );
}

fn without_times(records: Vec<Record>, is_timeless: bool) -> Advice {
    let mut input = Input::from_records(records, vec!["reader".into()]);
    input.notes.is_timeless = is_timeless;
    let (device, flash) = (devices::open("sata250").unwrap(), default_flash().unwrap());
    advise(&input, &device, String::new(), &flash, Setup::default(), of_none(), &mut unheard)
        .unwrap()
}

#[test]
fn a_trace_without_usable_times_gets_no_advice_on_schedulers() {
    let spaced = || (0..3000).map(|n| read(n * 1000, 0, scattered(n % 200), 4 * KIB));
    let at_s = |record: &Record| Nanos::from_secs(record.at.0 / 1_000_000_000);
    let whole_seconds = spaced().map(|record| Record { at: at_s(&record), ..record });
    for (records, is_timeless, why) in [
        (spaced().collect(), true, "no arrival times"),
        (spaced().map(|r| Record { at: Nanos::ZERO, ..r }).collect(), false, "the same time"),
        (whole_seconds.collect(), false, "steps by 1 s, and 1000 requests share"),
    ] {
        let advice = without_times(records, is_timeless);
        assert_eq!((advice.verdict, &advice.recommended), (Verdict::NoTimes, &None));
        assert!(advice.findings[0].contains(why), "{}", advice.headline);
        assert!(advice.ranking.is_empty() && advice.runs.is_empty());
        assert!(advice.remedies.iter().all(|one| !one.recommended && one.total_s.is_none()));
        assert_eq!(advice.reasons().len(), 1);
        // Findings that depend only on the order of requests are still reported: 200 blocks are
        // used 15 times each.
        assert!(advice.findings[1].contains("find 93.3 %"), "{}", advice.findings[1]);
        assert!(advice.headline.starts_with("No advice: "), "{}", advice.headline);
    }
}

#[test]
fn one_request_is_one_request() {
    let advice = advice(vec![read(0, 0, 0, 4096)]);
    let mut texts = vec![advice.headline.clone()];
    texts.extend(advice.findings.iter().chain(&advice.cautions).cloned());
    texts.extend(advice.remedies.iter().map(|remedy| remedy.reason.clone()));
    assert_eq!(texts[0], "The trace is too short for advice: 1 request; at least 100 are needed.");
    assert!(texts[1].contains("1 request in"), "{}", texts[1]);
    assert!(texts.iter().all(|text| !text.contains("1 requests")), "{texts:?}");
}

#[test]
fn a_mechanical_disk_is_no_flash() {
    let input = Input::from_records(vec![read(0, 0, 0, 4096)], vec!["reader".into()]);
    let disk = devices::open("sata250").unwrap();
    let refused =
        advise(&input, &disk, String::new(), &disk, Setup::default(), of_none(), &mut unheard);
    let text = refused.err().unwrap().to_string();
    assert!(text.contains("got a mechanical disk, expected a solid-state drive"), "{text}");
}

/// One reader sends more than the drive can serve, and another then requests a whole file at once;
/// both read much of it twice. The drive is overloaded, so the completion time counts and tails do
/// not.
#[test]
fn tails_do_not_count_where_the_drive_is_behind() {
    let records = two_readers(2_000).into_iter();
    let at = |record: &Record| match record.stream {
        0 => record.at,
        _ => Nanos::from_secs(6),
    };
    let offset = |record: &Record| record.offset / 16 * 9 / 512 * 512;
    let records =
        records.map(|record| Record { at: at(&record), offset: offset(&record), ..record });
    let advice = preferring(records.collect(), "sata250:plain", Prefer::Balance);
    let run = |policy: &str| advice.runs.iter().find(|run| run.policy == policy).unwrap();
    assert!(run("none").figures.is_overloaded());
    let reason = &remedy(&advice, RemedyKind::QueueSizes).reason;
    assert!(reason.contains("busy time ") && !reason.contains("p99"), "{reason}");
    // If tails counted, a scheduler that holds back more requests would look better.
    let figures = |policy| &run(policy).figures;
    assert!(figures("mq-deadline").held_mean_ms.unwrap() > 100.0);
}

/// Neither how far away a single request is, nor where the others are, changes the choice of the
/// drive or the results.
#[test]
fn a_distant_request_changes_neither_the_drive_nor_what_it_does() {
    let near = |base: u64| -> Vec<Record> {
        (0..3_000u64)
            .map(|n| read(n * 9_000, 0, base + scattered(n) % (90 * GIB), 16 * KIB))
            .collect()
    };
    let input = |mut records: Vec<Record>, far: &[u64]| {
        for (n, offset) in (0..).zip(far) {
            records.push(read(1_000_000 * (n + 1), 0, *offset, 4 * KIB));
        }
        records.sort_by_key(|record| record.at);
        Input::from_records(records, vec!["reader".to_string()])
    };
    let busy_s = |input: &Input, device: &OpenDevice| {
        forebay::simulate::run(input, device, "noop", Setup::default()).unwrap().result.total_s()
    };
    let plain = input(near(0), &[]);
    let (smallest, reason) = default_device(&plain, None, Setup::default(), &mut unheard).unwrap();
    assert!(!reason.contains("distant"), "{reason}");
    // A drive that also holds the distant request is chosen, and the advice says why.
    let (larger, reason) =
        default_device(&input(near(0), &[3 << 40]), None, Setup::default(), &mut unheard).unwrap();
    assert!(larger.model.capacity() > smallest.model.capacity());
    assert!(reason.contains("distant") && reason.contains(&smallest.name), "{reason}");
    // Requests that are spread over a large drive do not count as distant.
    let wide = (0..3_000u64).map(|n| read(n * 9_000, 0, scattered(n) * 40, 16 * KIB)).collect();
    let (_, reason) =
        default_device(&input(wide, &[]), None, Setup::default(), &mut unheard).unwrap();
    assert!(!reason.contains("distant"), "{reason}");
    for (base, far) in [
        (0, vec![1u64 << 50]),
        (0, vec![(1 << 62) + 4096, 1 << 45]),
        (0, (1..=40).map(|n| n << 46).collect()),
        (1 << 46, vec![]),
        (1 << 46, vec![0]),
    ] {
        let with = input(near(base), &far);
        let (device, reason) = default_device(&with, None, Setup::default(), &mut unheard).unwrap();
        assert_eq!(device.name, smallest.name, "{reason}");
        assert!(reason.contains("excluding long gaps"), "{reason}");
        let (own, others) = (busy_s(&with, &device), busy_s(&plain, &smallest));
        assert!((own / others - 1.0).abs() < 0.05, "{far:?}: {own} s, {others} s");
    }
}
