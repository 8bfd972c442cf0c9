//! Tests when `advise` recommends flash, how much of it, and with which blocks.

use forebay::advise::{Advice, AdviceOptions, Remedy, RemedyKind, Verdict};
use forebay::devices;
use forebay::input::Input;
use forebay_trace::Record;

use super::{GIB, KIB, advice, advice_of, of_none, read, remedy, scattered, with_options, write};

/// Returns reads of a small scattered set, repeated faster than a disk can serve them.
fn hot_set() -> Vec<Record> {
    let hot = |n: u64| n.wrapping_mul(n).wrapping_add(n / 7) % 500;
    (0..6_000).map(|n| read(n * 9_000, (n % 4) as u32, scattered(hot(n)), 4 * KIB)).collect()
}

/// The set keeps the disk busy, and fits into the smallest cache that is recommended.
#[test]
fn a_hot_set_benefits_from_a_small_cache() {
    let advice = advice(hot_set());
    let caching = remedy(&advice, RemedyKind::Caching);
    assert!(caching.recommended, "{}", caching.reason);
    let sizing = advice.cache_sizing.unwrap();
    assert!(sizing.size_mib <= 3 && sizing.hit_share > 0.7, "{sizing:?}");
    // Nobody buys less than 16 MiB.
    assert_eq!(caching.flash_bytes, 16 << 20);
    assert!(caching.gain_over_free_share.unwrap() > 0.5);
    assert!(advice.findings[0].contains(" Free: "), "{}", advice.headline);
    assert!(advice.findings[0].contains("MiB of flash: a write-back cache"), "{}", advice.headline);
}

/// The hot set of [`a_hot_set_benefits_from_a_small_cache`] on a disk that is mostly idle. A cache
/// would save nearly all of the disk's work, but without a noticeable benefit.
#[test]
fn flash_is_not_recommended_to_an_idle_disk() {
    let reads = (0..6_000u64).map(|n| {
        let hot = n.wrapping_mul(n).wrapping_add(n / 7) % 500;
        read(n * 40_000, (n % 4) as u32, scattered(hot), 4 * KIB)
    });
    let advice = advice(reads.collect());
    let caching = remedy(&advice, RemedyKind::Caching);
    assert!(caching.gain_share.unwrap() > 0.5, "{}", caching.reason);
    assert!(!caching.recommended && caching.reason.contains("Nothing to gain from flash"));
    assert!(!advice.findings[0].contains("flash"), "{}", advice.headline);
    assert_eq!(advice.verdict, Verdict::LoadTooLow, "{}", advice.headline);
}

#[test]
fn flash_is_held_against_the_baseline_too() {
    let advice = advice(hot_set());
    let caching = remedy(&advice, RemedyKind::Caching);
    let over = |gain: Option<f64>| gain.unwrap() > 0.1;
    assert!(over(caching.gain_share) && over(caching.gain_over_free_share), "{caching:?}");
    assert!(advice.findings[0].contains("less than none"), "{}", advice.headline);
    assert!(advice.cautions.iter().any(|caution| caution.contains("determine d7-p5520's times")));
}

fn with_flash(records: Vec<Record>, flash_bytes: u64) -> Advice {
    let options = AdviceOptions { flash_bytes: Some(flash_bytes), ..of_none() };
    with_options(records, "st1000nm0011:plain", options)
}

fn placed(remedy: &Remedy, figure: &str) -> f64 {
    remedy.run.as_ref().unwrap().placement[figure]
}

/// Users ask whether the flash that they have would help.
#[test]
fn the_flash_that_users_name_is_tried() {
    for flash_bytes in [1 << 20, 10 * GIB] {
        let advice = with_flash(hot_set(), flash_bytes);
        let caching = remedy(&advice, RemedyKind::Caching);
        assert_eq!(caching.flash_bytes, flash_bytes);
        assert!(placed(caching, "flash_bytes") <= flash_bytes as f64, "{}", caching.policy);
        let sizing = advice.cache_sizing.unwrap();
        let is_enough = flash_bytes == 10 * GIB;
        assert_eq!(sizing.least_bytes, flash_bytes);
        assert_eq!(sizing.hit_share == sizing.hit_share_max, is_enough, "{sizing:?}");
        assert!(caching.recommended || !is_enough, "{}", caching.reason);
        let (headline, verdict) = (&advice.headline, &advice.verdict);
        assert!(headline.starts_with("This disk cannot keep up"), "{verdict:?}: {headline}");
    }
}

/// On a disk that keeps up, the question about the flash is answered first.
#[test]
fn named_flash_is_answered_first() {
    let hot = |n: u64| n.wrapping_mul(n).wrapping_add(n / 7) % 500;
    let reads = (0..3_000).map(|n| read(n * 16_000, (n % 4) as u32, scattered(hot(n)), 4 * KIB));
    let headline = with_flash(reads.collect(), GIB).headline;
    assert!(headline.starts_with("Yes: with 1 GiB of flash"), "{headline}");
}

/// On an idle disk, flash shortens latencies that are short already; and it shortens no reads if it
/// only absorbs writes.
#[test]
fn named_flash_that_is_not_needed_or_is_only_for_writes_is_reported() {
    let hot = |n: u64| n.wrapping_mul(n).wrapping_add(n / 7) % 500;
    let idle = (0..3_000).map(|n| read(n * 60_000, (n % 4) as u32, scattered(hot(n)), 4 * KIB));
    let advice = with_flash(idle.collect(), GIB);
    let headline = &advice.headline;
    assert!(
        headline.starts_with("Not needed: the disk is mostly idle. (1 GiB of flash would cut "),
        "{headline}"
    );
    // Reads never repeat, and writes always do.
    let one = |n: u64| match n % 2 {
        0 => read(n * 7_000, 0, scattered(n), 4 * KIB),
        _ => write(n * 7_000, 1, scattered(hot(n)), 4 * KIB),
    };
    let headline = with_flash((0..6_000).map(one).collect(), GIB).headline;
    assert!(!headline.starts_with("Yes: "), "{headline}");
}

/// Regression test: a recording of less than a second got flash, which was marked as best.
#[test]
fn a_short_recording_wants_no_flash() {
    let advice = advice(hot_set().into_iter().take(400).collect());
    let caching = remedy(&advice, RemedyKind::Caching);
    assert!(!caching.recommended, "{}", caching.reason);
    assert!(caching.reason.contains("Too short to recommend flash: the trace lasts 3.59 s"));
}

/// Requests that were answered fast when they were recorded need no flash, however slow the model is.
#[test]
fn fast_recordings_need_no_flash() {
    let at_us = |n: u64| n * 400_000 + n * 7919 % 20_000;
    let burst = |n: u64| (0..8).map(move |i| write(at_us(n) + i * 31, 0, scattered(i), 4 * KIB));
    let slow: Vec<Record> = (0..200).flat_map(burst).collect();
    let latency = Some(forebay_core::Nanos::from_micros(300));
    let fast: Vec<Record> = slow.iter().map(|record| Record { latency, ..*record }).collect();
    let reason = |advice: Advice| remedy(&advice, RemedyKind::Caching).reason.clone();
    let said = "the recorded requests were answered quickly";
    assert!(!reason(advice(slow)).contains(said));
    assert!(reason(advice(fast.clone())).contains(said));
}

/// The verdict on flash does not depend on whether the user named the device that Forebay would
/// assume.
#[test]
fn a_named_device_gets_the_same_verdict_on_flash_as_an_assumed_one() {
    let hot = |n: u64| n.wrapping_mul(n).wrapping_add(n / 7) % 500;
    let reads = |gap_us: u64, latency_us: u64| -> Vec<Record> {
        let latency = Some(forebay_core::Nanos::from_micros(latency_us));
        let one = |n: u64| Record { latency, ..read(n * gap_us, 0, scattered(hot(n)), 4 * KIB) };
        (0..1_500).map(one).collect()
    };
    // Idle or busy, recorded on a disk or on something far faster.
    for (gap_us, latency_us) in [(60_000, 300), (60_000, 9_000), (14_000, 300), (14_000, 9_000)] {
        let [assumed, named] = [false, true].map(|device_named| {
            let options = AdviceOptions { device_named, ..AdviceOptions::default() };
            let advice = with_options(reads(gap_us, latency_us), "st1000nm0011", options);
            let caching = remedy(&advice, RemedyKind::Caching);
            (caching.recommended, caching.flash_bytes, caching.reason.clone())
        });
        assert_eq!(assumed, named, "{gap_us} µs, {latency_us} µs");
        assert!(!named.0 || latency_us == 9_000, "{}", named.2);
    }
}

/// A user who names flash for a device that is flash, for a trace that is too short, or with blocks
/// that a longer trace would use again, gets that answer and no other.
#[test]
fn named_flash_gets_one_answer() {
    let on = |device: &str, records: Vec<Record>| {
        let options = AdviceOptions { flash_bytes: Some(GIB), ..AdviceOptions::default() };
        with_options(records, device, options).headline
    };
    let reads = |count: u64, gap_us: u64| -> Vec<Record> {
        (0..count).map(|n| read(n * gap_us, 0, scattered(n), 4 * KIB)).collect()
    };
    assert_eq!(on("d7-p5520", reads(2_000, 5_000)), "No: d7-p5520 is flash already.");
    let short = on("st1000nm0011", hot_set().into_iter().take(400).collect());
    assert!(short.starts_with("The trace is too short for advice: 3.59 s"), "{short}");
    // Random reads of a set from which the trace reads only a part.
    let random = |n: u64| n.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29) % 30_000;
    let cold = (0..4_000).map(|n| read(n * 25_000, 0, scattered(random(n)), 4 * KIB)).collect();
    let cold = on("st1000nm0011", cold);
    assert!(cold.starts_with("Not in this recording (100 s): the hit ratio is still"), "{cold}");
}

/// No block is used twice.
#[test]
fn named_flash_that_would_find_nothing_is_declined_first() {
    let reads = (0..2_000).map(|n| read(n * 20_000, 0, scattered(n), 4 * KIB));
    let advice = with_flash(reads.collect(), GIB);
    assert_eq!(advice.headline, "No: no block is used twice, so a cache has no hits.");
}

/// Four of five hits are on one block, so a small cache has most hits. A larger one saves the disk
/// twice as much of what is left.
#[test]
fn a_larger_cache_is_recommended_if_it_is_worth_it() {
    let rest = |n: u64| 1 + n / 7 % 200;
    let block = |n: u64| if n.is_multiple_of(7) { rest(n) } else { 0 };
    let place = |n: u64| scattered(block(n));
    let reads = (0..6_000).map(|n| read(n * 9_000, (n % 4) as u32, place(n), 256 * KIB));
    let pull = |n: u64| read(n * 9_000 + 4_000, 4, scattered(1000 + n % 100), 256 * KIB);
    let pulls = (0..6_000).map(pull);
    let advice = advice(reads.chain(pulls).collect());
    let (caching, sizing) = (remedy(&advice, RemedyKind::Caching), advice.cache_sizing.unwrap());
    assert!(caching.recommended, "{}", caching.reason);
    assert!(sizing.full_bytes >= 2 * sizing.least_bytes, "{sizing:?}");
    assert_eq!(caching.flash_bytes, sizing.flash_mib(sizing.full_bytes) << 20, "{sizing:?}");
}

/// A cache stores only whole blocks.
#[test]
fn blocks_are_as_small_as_the_requests() {
    let writes = |len: u64| {
        let write = move |n: u64| write(n * 9_000, 0, scattered(n % 500) + 4 * KIB - len, len);
        with_flash((0..4_000).map(write).collect(), GIB)
    };
    for (len, block) in [(4 * KIB, "block-kib=4"), (KIB, "block-kib=1")] {
        let advice = writes(len);
        let caching = remedy(&advice, RemedyKind::Caching);
        assert!(caching.policy.contains(block), "{}", caching.policy);
        assert_eq!(placed(caching, "blocks_partial"), 0.0);
        assert!(!caching.reason.contains("only part"), "{}", caching.reason);
    }
    // Blocks of half a KiB are not supported.
    let advice = writes(KIB / 2);
    let caching = remedy(&advice, RemedyKind::Caching);
    assert_eq!(placed(caching, "blocks_partial"), 4_000.0);
    let said =
        "100 % of the writes to blocks went to the disk, because they cover only part of a block";
    assert!(caching.reason.contains(said), "{}", caching.reason);
}

/// The disk behind the cache keeps its scheduler with all parameters, here on an idle disk.
#[test]
fn a_scheduler_with_parameters_may_have_a_cache_above_it() {
    let current = "deadline:fifo-batch=32";
    let reads = hot_set().into_iter().enumerate();
    let reads = reads.map(|(n, one)| read(n as u64 * 40_000, one.stream, one.offset, 4 * KIB));
    let options = AdviceOptions { current: Some(current.to_string()), ..AdviceOptions::default() };
    let advice = with_options(reads.collect(), "st1000nm0011:plain", options);
    assert_eq!(advice.verdict, Verdict::LoadTooLow, "{}", advice.headline);
    let caching = remedy(&advice, RemedyKind::Caching);
    assert!(caching.policy.ends_with(":disk=deadline+fifo-batch=32"), "{}", caching.policy);
}

/// Objects are stored in sectors, and the blocks of a cache are at least two of these.
#[test]
fn a_trace_in_sectors_may_have_a_cache() {
    let mut input = Input::from_records(hot_set(), vec!["reader".into(); 4]);
    input.notes.own_block_bytes = Some(512);
    let device = devices::open("st1000nm0011:plain").unwrap();
    let advice = advice_of(&input, &device);
    let caching = remedy(&advice, RemedyKind::Caching);
    assert!(caching.policy.contains(":block-kib=1:"), "{}", caching.policy);
    assert!(caching.total_s.is_some(), "{}", caching.reason);
}
