//! Compares pairs of traces whose similarity is known.

use forebay_core::cache::{Cache, Lru};
use forebay_core::{Flags, Nanos, Op};
use forebay_trace::Record;

use super::*;
use crate::plan::confidence::Random;

const MS: u64 = 1_000_000;
const PAGE: u64 = 4096;

fn record(at: u64, offset: u64, len: u32, op: Op) -> Record {
    let (at, flags) = (Nanos(at), Flags::NONE);
    Record { at, offset, latency: None, len, stream: 0, volume: 0, op, flags }
}

/// Returns bursts of requests to a hot area of the disk that moves over time.
fn bursty(seed: u64) -> Vec<Record> {
    let (mut random, mut now) = (Random(seed), 0);
    (0..20_000u64)
        .map(|number| {
            now += if number % 100 == 0 { 900 * MS } else { random.below(2 * MS as usize) as u64 };
            let hot = number / 500 * 300 + random.below(200) as u64;
            let len = if random.below(4) == 0 { 16_384 } else { 4096 };
            let op = if random.below(3) == 0 { Op::Write } else { Op::Read };
            record(now, hot * PAGE, len, op)
        })
        .collect()
}

fn input(records: &[Record]) -> Input {
    Input::from_records(records.to_vec(), vec!["one".into()])
}

/// Returns whether the second trace's figure is within the interval of a second recording.
fn is_within_interval(quantity: &Quantity) -> bool {
    quantity.a_low <= quantity.b && quantity.b <= quantity.a_high
}

fn layout(a: &Input, b: &Input) -> Layout {
    Layout::of(a, b, RANGES, &mut || std::ops::ControlFlow::Continue(())).unwrap()
}

fn options(devices: &[&str]) -> Options {
    let names: Vec<String> = devices.iter().map(|name| name.to_string()).collect();
    Options::new(&names, None, 1.0, 7).unwrap()
}

fn card_of(a: &[Record], b: &[Record]) -> Card {
    compare(&input(a), &input(b), &options(&["990-pro"]), &mut crate::progress::unheard).unwrap()
}

fn aspect<'a>(card: &'a Card, of: &str) -> &'a Aspect {
    card.verdict.aspects.iter().find(|aspect| aspect.aspect == of).unwrap()
}

/// Shuffles the records, keeping the arrival times.
fn reordered(records: &[Record], random: &mut Random) -> Vec<Record> {
    let mut order: Vec<usize> = (0..records.len()).collect();
    for left in (1..order.len()).rev() {
        order.swap(left, random.below(left + 1));
    }
    let at = |(to, from): (&Record, usize)| Record { at: to.at, ..records[from] };
    records.iter().zip(order).map(at).collect()
}

#[test]
fn a_trace_is_its_own_twin() {
    let card = compare(
        &input(&bursty(1)),
        &input(&bursty(1)),
        &options(&[]),
        &mut crate::progress::unheard,
    )
    .unwrap();
    assert!(card.verdict.faithful, "{}", card.verdict.text);
    assert_eq!((card.verdict.aspects.len(), card.responses.len()), (8, DEVICES.len()));
    assert!(card.features.iter().all(|feature| feature.quantity.deviation == Some(0.0)));
    assert!(card.features.iter().all(|feature| is_within_interval(&feature.quantity)));
    assert!(
        card.distances.iter().all(|d| d.ks == 0.0 && d.wasserstein == 0.0 && d.ks_itself > 0.0)
    );
    assert_eq!((card.mrc_mean_error, card.heat.total_variation), (0.0, 0.0));
    assert_eq!(card.dispersion.len(), 5);
    for response in &card.responses {
        let figures = response.quantities();
        assert!(figures.iter().all(|(_, q, _)| q.a > 0.0 && q.deviation == Some(0.0)));
        assert!(figures.windows(2).skip(1).all(|pair| pair[0].1.a <= pair[1].1.a));
    }
    assert!(card.left_out.is_empty() && card.cautions.is_empty());
}

#[test]
fn very_many_blocks_are_sampled_and_the_card_says_so() {
    // Ten requests of 1 GiB, each made twice, touch 2.6 million blocks of 4 KiB.
    let whole: Vec<Record> =
        (0..20).map(|n| record(n * 1000 * MS, (n % 10) << 30, 1 << 30, Op::Read)).collect();
    let card = compare(
        &input(&whole),
        &input(&whole[..11]),
        &options(&["fixed:10"]),
        &mut crate::progress::unheard,
    );
    let card = card.unwrap();
    assert_eq!((card.a.sampled_one_in, card.b.sampled_one_in), (2, 2));
    assert!(card.a.footprint_blocks.abs_diff(10 << 18) < 10 << 12);
    let (first, last) = (card.mrc[0], card.mrc.last().unwrap());
    assert!(first.a > 0.99 && (last.a - 0.5).abs() < 0.01, "{first:?} {last:?}");
    assert!((last.b - 10.0 / 11.0).abs() < 0.01, "{last:?}");
    let sampled = |text: &&String| text.contains("estimated from one in 2 of its blocks");
    // Both traces have the same name, so the caution about them appears only once.
    assert_eq!(card.cautions.iter().filter(sampled).count(), 1);
}

#[test]
fn gaps_in_another_order_are_no_burst() {
    let a = bursty(1);
    let mut gaps: Vec<u64> = a.windows(2).map(|pair| pair[1].at.0 - pair[0].at.0).collect();
    let mut random = Random(3);
    for left in (1..gaps.len()).rev() {
        gaps.swap(left, random.below(left + 1));
    }
    let mut now = a[0].at.0;
    let times = std::iter::once(now).chain(gaps.iter().map(|gap| {
        now += gap;
        now
    }));
    let b: Vec<Record> =
        a.iter().zip(times).map(|(r, at)| Record { at: Nanos(at), ..*r }).collect();
    let card = card_of(&a, &b);
    assert!(!aspect(&card, "burstiness").holds);
    for same in ["the distribution of sizes", "the distribution of inter-arrival times", "caching"]
    {
        assert!(aspect(&card, same).holds, "{same}");
    }
    assert_eq!(card.distances.iter().map(|d| d.ks).fold(0.0, f64::max), 0.0);
    assert!(!card.verdict.faithful && card.verdict.text.contains("but not for burstiness"));
}

#[test]
fn requests_in_another_order_are_cached_otherwise() {
    let a = bursty(1);
    let card = card_of(&a, &reordered(&a, &mut Random(5)));
    assert!(!aspect(&card, "caching").holds && card.mrc_mean_error > 0.1);
    for same in ["the distribution of sizes", "burstiness", "where requests fall on the disk"] {
        assert!(aspect(&card, same).holds, "{same}");
    }
}

#[test]
fn a_twin_without_locality_has_the_means_and_not_the_misses() {
    let (a, mut random) = (bursty(1), Random(9));
    let end = a.iter().map(|record| record.offset / PAGE).max().unwrap() as usize;
    let b: Vec<Record> =
        a.iter().map(|r| Record { offset: random.below(end) as u64 * PAGE, ..*r }).collect();
    let card = card_of(&a, &b);
    assert!(!aspect(&card, "caching").holds && card.mrc_mean_error > 0.1);
    let means = card.features.iter().filter(|feature| !feature.name.starts_with("state"));
    for feature in means.filter(|feature| !feature.name.starts_with("sequential")) {
        assert_eq!(feature.quantity.deviation, Some(0.0), "{}", feature.name);
    }
}

#[test]
fn another_draw_of_the_same_load_lies_in_the_intervals() {
    let card = card_of(&bursty(1), &bursty(2));
    let inside = card.features.iter().filter(|f| is_within_interval(&f.quantity)).count();
    assert!(inside * 10 >= card.features.len() * 8, "{inside} of {}", card.features.len());
    assert!(card.distances.iter().all(|d| d.ks <= d.ks_itself.max(0.02)));
    // The same load at twice the rate exceeds the bounds.
    let faster: Vec<Record> =
        bursty(2).iter().map(|r| Record { at: Nanos(r.at.0 / 2), ..*r }).collect();
    let card = card_of(&bursty(1), &faster);
    let gap = card.features.iter().find(|f| f.name == "mean_inter_arrival_ms").unwrap();
    assert!(!is_within_interval(&gap.quantity) && !aspect(&card, "request features").holds);
}

/// Returns `count` random reads and writes of a Poisson process over `pages` pages.
fn poisson(seed: u64, count: u64, pages: usize) -> Vec<Record> {
    let (mut random, mut now) = (Random(seed), 0.0);
    let mut one = |_| {
        let draw = (random.below(1 << 30) + 1) as f64 / (1u64 << 30) as f64;
        now -= draw.ln() * 10.0 * MS as f64;
        let op = if random.below(10) < 7 { Op::Read } else { Op::Write };
        record(now as u64, random.below(pages) as u64 * PAGE, 4096, op)
    };
    (0..count).map(&mut one).collect()
}

/// Regression test: second recordings of the same process were always rejected, because the bound
/// covered the noise of one recording only.
#[test]
fn a_second_recording_of_the_same_process_is_a_twin() {
    for (count, pages) in [(20_000, 1_000_000), (3000, 1_000_000)] {
        let both =
            |seed: u64| card_of(&poisson(seed, count, pages), &poisson(seed + 50, count, pages));
        let fails = |card: &Card| -> Vec<String> {
            let failed = card.verdict.aspects.iter().filter(|aspect| !aspect.holds);
            failed.map(|a| format!("{}: {}, allowed {}", a.aspect, a.worst, a.bound)).collect()
        };
        let failed: Vec<_> = (1..=10).map(both).map(|card| fails(&card)).collect();
        let passed = failed.iter().filter(|fails| fails.is_empty()).count();
        assert!(passed >= 9, "{count}: {failed:?}");
    }
}

#[test]
fn a_stated_effect_is_no_chance() {
    let a = poisson(1, 20_000, 1_000_000);
    let b = poisson(2, 20_000, 1_000_000);
    // A tenth of the requests moves to a tenth of the addresses.
    let moved: Vec<Record> = (0..)
        .zip(&b)
        .map(|(n, r)| if n % 10 == 0 { Record { offset: r.offset / 10, ..*r } } else { *r })
        .collect();
    assert!(!aspect(&card_of(&a, &moved), ELSEWHERE).holds);
    let faster: Vec<Record> =
        b.iter().map(|r| Record { at: Nanos(r.at.0 / 10 * 9), ..*r }).collect();
    assert!(!card_of(&a, &faster).verdict.faithful);
}

#[test]
fn miss_ratios_are_those_of_caches() {
    let (a, layout) = (input(&bursty(1)), layout(&input(&bursty(1)), &input(&bursty(1))));
    let asked = ProfileOptions { block_bytes: PAGE, edges: &layout.edges, timed: true };
    let profile = Profile::of(&a, &layout.sides[0], asked, &mut crate::progress::untold).unwrap();
    let sizes = profile::cache_sizes();
    assert!(sizes.is_sorted_by(|a, b| a < b) && sizes[..4] == [1, 2, 3, 4]);
    let ratios = profile.weigh(&tally::whole()).miss_ratios(sizes.len());
    for (index, &size) in sizes.iter().enumerate().filter(|(_, size)| **size < 20_000).step_by(7) {
        let (mut cache, mut missed, mut all) = (Lru::new(size as u32), 0u32, 0u32);
        for key in bursty(1).iter().flat_map(|record| crate::cache_curve::keys(record, PAGE)) {
            all += 1;
            missed += u32::from(!cache.access(key));
        }
        assert!((ratios[index] - f64::from(missed) / f64::from(all)).abs() < 1e-12, "{size}");
    }
}

#[test]
fn without_times_time_dependent_figures_are_left_out() {
    let mut timeless = input(&bursty(1));
    timeless.notes.is_timeless = true;
    let card = compare(&timeless, &input(&bursty(1)), &options(&[]), &mut crate::progress::unheard)
        .unwrap();
    assert!(card.responses.is_empty() && card.dispersion.is_empty() && card.left_out.len() == 1);
    assert!(card.features.iter().all(|feature| feature.name != "mean_inter_arrival_ms"));
    assert_eq!((card.distances.len(), card.verdict.faithful), (1, true));
    // If all requests arrive at once, the trace has no usable times either.
    let at_once: Vec<Record> = bursty(1).iter().map(|r| Record { at: Nanos::ZERO, ..*r }).collect();
    assert!(card_of(&at_once, &at_once).responses.is_empty());
}

#[test]
fn traces_without_data_requests_are_rejected() {
    let flush = [record(0, 0, 0, Op::Flush)];
    let refused =
        compare(&input(&bursty(1)), &input(&flush), &options(&[]), &mut crate::progress::unheard);
    assert!(refused.unwrap_err().to_string().contains("no reads and writes"));
    for wrong in [0.0, f64::NAN, -1.0] {
        assert!(Options::new(&[], None, wrong, 1).is_err());
    }
}

#[test]
fn one_request_decides_nothing() {
    let one = [record(5, 4096, 512, Op::Write)];
    let card = card_of(&one, &one);
    assert!(card.verdict.aspects.iter().all(|aspect| aspect.holds));
    assert!(!card.verdict.faithful);
    let begins = "Too few requests to compare: ";
    assert!(card.verdict.text.starts_with(begins), "{}", card.verdict.text);
    assert!(!card_of(&bursty(1), &one).verdict.faithful);
    assert!(!card_of(&one, &bursty(1)).verdict.faithful);
}

#[test]
fn an_overloaded_device_is_reported() {
    let a = input(&bursty(1));
    let slow = options(&["fixed:10"]);
    let card = compare(&a, &a, &slow, &mut crate::progress::unheard).unwrap();
    assert!(card.responses[0].a_overloaded && card.cautions[0].contains("backlog"));
    // At a fiftieth of the recorded speed, the device keeps up.
    let calm = Options { intensity: 0.02, ..slow };
    let card = compare(&a, &a, &calm, &mut crate::progress::unheard).unwrap();
    assert!(!card.responses[0].a_overloaded, "busy {}", card.responses[0].a_busy_share);
    let mean = card.responses[0].mean_ms;
    assert!(mean.a_low < mean.a && mean.a < mean.a_high, "{mean:?}");
}

#[test]
fn the_same_seed_gives_the_same_card() {
    let (a, b) = (input(&bursty(1)), input(&bursty(2)));
    let with = |seed| {
        let options = Options { seed, ..options(&["990-pro"]) };
        format!("{:?}", compare(&a, &b, &options, &mut crate::progress::unheard).unwrap().features)
    };
    assert_eq!(with(4), with(4));
    assert_ne!(with(4), with(5));
}

#[test]
fn volumes_of_the_same_name_lie_at_the_same_place() {
    let of = |names: [&str; 2]| {
        let mut rows = String::from("at_ns,op,offset,len,volume\n");
        for number in 0..200u64 {
            // The second volume is the longer one.
            let wide = number % 2;
            let volume = names[wide as usize];
            rows += &format!("{},R,{},4096,{volume}\n", number * MS, (number << (12 + 6 * wide)));
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.csv");
        std::fs::write(&path, rows).unwrap();
        let from = "columns:at:ns,op,offset,len,volume,skip=1";
        Input::read(&path, Some(from), Default::default(), &mut crate::progress::untold).unwrap()
    };
    let (a, swapped) = (of(["x", "y"]), of(["y", "x"]));
    let same = layout(&a, &of(["x", "y"]));
    assert_eq!(same.sides[0].extents, a.extents);
    let layout = layout(&a, &swapped);
    // In the second trace, "y" comes first and is the shorter volume. Each position gets the length
    // of the longer of its two volumes.
    assert_eq!(layout.sides[0].extents, layout.sides[1].extents);
    assert_eq!(layout.sides[1].extents, [a.extents[1]; 2]);
    let first = Record { volume: 0, ..record(0, 0, 512, Op::Read) };
    assert_eq!(
        (layout.sides[0].renamed(first).volume, layout.sides[1].renamed(first).volume),
        (0, 1)
    );
}

#[test]
fn whoever_is_told_of_progress_can_stop() {
    let many: Vec<Record> =
        (0..100_000).map(|n| record(n * MS, n * PAGE, 4096, Op::Read)).collect();
    let mut stop = |_: &ProgressReport| std::ops::ControlFlow::Break(());
    let stopped = compare(&input(&many), &input(&many), &options(&[]), &mut stop);
    assert!(matches!(stopped, Err(Error::Stopped)));
    let mut shares = Vec::new();
    let mut told = |told: &ProgressReport| {
        shares.push(told.done_share);
        std::ops::ControlFlow::Continue(())
    };
    compare(&input(&many), &input(&many), &options(&["fixed:1000", "fixed:2000"]), &mut told)
        .unwrap();
    assert!(shares.is_sorted() && shares[0] < 0.2, "{shares:?}");
    assert!(shares.iter().all(|share| *share <= 1.0), "{shares:?}");
    assert!(shares.iter().any(|share| (0.3..0.6).contains(share)), "{shares:?}");
    assert!(*shares.last().unwrap() > 0.9, "{shares:?}");
}

/// Returns 20 requests per second to areas spread over 8 GiB, each of which is hot for a while.
fn spots(seed: u64) -> Vec<Record> {
    let mut random = Random(seed);
    (0..6_000u64)
        .map(|n| {
            let spot = n / 500 % 4 * (2 << 30) + random.below(1000) as u64 * PAGE;
            record(n * 50 * MS, spot, 4096, Op::Read)
        })
        .collect()
}

/// Adds a request at address `far`, far away from all others.
fn with_one_at(records: &[Record], far: u64) -> Vec<Record> {
    let mut records = records.to_vec();
    records.insert(3000, Record { offset: far, ..records[3000] });
    records
}

const ELSEWHERE: &str = "where requests fall on the disk";

/// A single distant request in either trace does not change the verdict on a good or a bad twin.
#[test]
fn a_distant_request_decides_nothing() {
    let good = spots(2);
    let mut bad = spots(3);
    // The bad twin sends all requests to one of the four areas.
    bad.iter_mut().for_each(|record| record.offset %= 2 << 30);
    for far in [1 << 41, 1 << 50, 1 << 63, u64::MAX - 8191] {
        for (in_a, in_b) in [(true, false), (false, true), (true, true)] {
            let of = |records: &[Record], far_away: bool| match far_away {
                true => with_one_at(records, far),
                false => records.to_vec(),
            };
            let a = of(&spots(1), in_a);
            let [good, bad] = [&good, &bad].map(|b| card_of(&a, &of(b, in_b)));
            let which = format!("{far}, {in_a}, {in_b}");
            assert!(aspect(&good, ELSEWHERE).holds, "{which}: {:?}", aspect(&good, ELSEWHERE));
            assert!(!aspect(&bad, ELSEWHERE).holds, "{which}: {:?}", aspect(&bad, ELSEWHERE));
            // Three quarters of the bad twin's requests are in the wrong area.
            assert!((bad.heat.total_variation - 0.75).abs() < 0.02, "{which}");
            assert!(good.features.iter().any(|feature| feature.name == "state_weight:2/4"));
        }
    }
}

/// On a disk too small for the distant request, the other requests keep their distances from one
/// another.
#[test]
fn a_distant_request_does_not_press_all_others_together_on_a_smaller_disk() {
    let near = |records: &[Record]| -> Vec<Record> {
        let near = |record: &Record| Record { offset: record.offset % (2 << 30), ..*record };
        records.iter().map(near).collect()
    };
    let mut random = Random(5);
    let scattered: Vec<Record> = spots(1)
        .iter()
        .map(|r| Record { offset: random.below(1 << 26) as u64 * PAGE, ..*r })
        .collect();
    let asked = options(&["st1000nm0011:plain"]);
    let card = |a: &[Record], b: &[Record]| {
        compare(&input(a), &input(b), &asked, &mut crate::progress::unheard).unwrap()
    };
    let plain = card(&near(&spots(1)), &scattered);
    let far = card(&with_one_at(&near(&spots(1)), 1 << 50), &scattered);
    for card in [&plain, &far] {
        assert!(!aspect(card, "mean responses").holds, "{:?}", card.responses[0].mean_ms);
    }
    let [plain, far] = [&plain, &far].map(|card| card.responses[0].mean_ms);
    assert!((far.a / plain.a - 1.0).abs() < 0.02 && (far.b / plain.b - 1.0).abs() < 0.02);
}
