//! Compares the card's figures with their definitions, computed naively from the records of both
//! traces.

use std::collections::BTreeSet;

use forebay::compare::{Card, Quantity};
use forebay_core::Op;
use forebay_core::cache::{Cache, Lru};
use forebay_trace::Record;

use crate::compare::{MIB, PAGE, apart, card, close, load, record};

fn sizes(records: &[Record]) -> Vec<f64> {
    records.iter().map(|record| f64::from(record.len)).collect()
}

/// Returns the gaps between arrivals in milliseconds, rounded to their nine highest bits, as on the
/// card.
fn gaps_ms(records: &[Record]) -> Vec<f64> {
    let rounded = |gap: u64| {
        let lower = (64 - gap.leading_zeros()).saturating_sub(9);
        (gap >> lower << lower) as f64 / 1e6
    };
    records.windows(2).map(|pair| rounded(pair[1].at.0 - pair[0].at.0)).collect()
}

/// Returns the Kolmogorov-Smirnov and the Wasserstein-1 distance of the empirical distributions.
fn distances(a: &[f64], b: &[f64]) -> (f64, f64) {
    let below = |values: &[f64], x: f64| {
        values.iter().filter(|value| **value <= x).count() as f64 / values.len() as f64
    };
    let mut values = [a, b].concat();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let apart: Vec<f64> = values.iter().map(|&x| (below(a, x) - below(b, x)).abs()).collect();
    let area = values.windows(2).zip(&apart).map(|(pair, apart)| (pair[1] - pair[0]) * apart);
    (apart.iter().copied().fold(0.0, f64::max), area.sum())
}

/// Returns the variance divided by the mean of the counts in complete bins.
fn dispersion(records: &[Record], bin_ms: u64) -> f64 {
    let bin = bin_ms * 1_000_000;
    let mut counts = vec![0f64; (records[records.len() - 1].at.0 / bin) as usize];
    for record in records {
        if let Some(count) = counts.get_mut((record.at.0 / bin) as usize) {
            *count += 1.0;
        }
    }
    let mean = counts.iter().sum::<f64>() / counts.len() as f64;
    let squares = counts.iter().map(|count| (count - mean) * (count - mean));
    squares.sum::<f64>() / counts.len() as f64 / mean
}

/// Returns the share of page accesses that miss in an LRU cache of `blocks`.
fn miss_ratio(records: &[Record], blocks: u64) -> f64 {
    let (mut cache, mut missed, mut all) = (Lru::new(blocks as u32), 0, 0);
    for record in records {
        for page in record.offset / PAGE..(record.offset + u64::from(record.len)).div_ceil(PAGE) {
            all += 1;
            missed += u32::from(!cache.access(page));
        }
    }
    f64::from(missed) / f64::from(all)
}

/// Returns the number of each MiB that requests touch, in order.
fn ground(records: &[Record]) -> BTreeSet<u64> {
    let last = |record: &Record| record.offset + u64::from(record.len) - 1;
    records.iter().flat_map(|record| record.offset / MIB..=last(record) / MIB).collect()
}

/// Returns the share of requests in each of 256 equal ranges of the touched MiBs.
fn heat(records: &[Record], ground: &BTreeSet<u64>) -> Vec<f64> {
    let mut shares = vec![0.0; 256];
    for record in records {
        let before = ground.range(..record.offset / MIB).count() as u64;
        let place = before * MIB + record.offset % MIB;
        shares[(place * 256 / (ground.len() as u64 * MIB)) as usize] += 1.0 / records.len() as f64;
    }
    shares
}

#[test]
fn distances_are_those_of_the_distributions() {
    let (a, b) = (load(1, 700), load(2, 500));
    let card = card(&a, &b, &["990-pro"]);
    for (distance, (of_a, of_b)) in
        card.distances.iter().zip([(sizes(&a), sizes(&b)), (gaps_ms(&a), gaps_ms(&b))])
    {
        let (ks, wasserstein) = distances(&of_a, &of_b);
        assert!(ks > 0.0 && wasserstein > 0.0, "{}", distance.of);
        close(distance.ks, ks, distance.of);
        close(distance.wasserstein, wasserstein, distance.of);
    }
    let mean = sizes(&a).iter().sum::<f64>() / a.len() as f64;
    let over = card.distances[0].wasserstein_over_mean.unwrap();
    close(over, card.distances[0].wasserstein / mean, "over A's mean");
}

#[test]
fn dispersions_are_those_of_counts() {
    let (a, b) = (load(1, 2000), load(2, 1500));
    let card = card(&a, &b, &["990-pro"]);
    let scales: Vec<u64> = card.dispersion.iter().map(|scale| scale.bin_ms).collect();
    // Each scale has at least ten bins.
    assert_eq!(scales, [1, 10, 100]);
    for scale in &card.dispersion {
        close(scale.quantity.a, dispersion(&a, scale.bin_ms), "a");
        close(scale.quantity.b, dispersion(&b, scale.bin_ms), "b");
    }
}

#[test]
fn miss_ratios_are_those_of_caches_and_their_error_the_mean_over_all_sizes() {
    let (a, b) = (load(1, 2500), load(2, 2500));
    let card = card(&a, &b, &["990-pro"]);
    let blocks = |size_mib: f64| (size_mib * MIB as f64 / PAGE as f64).round() as u64;
    let mut error = 0.0;
    for point in &card.mrc {
        let size = blocks(point.size_mib);
        let ratios = [&a, &b].map(|records| miss_ratio(records, size));
        close(point.a, ratios[0], "a");
        close(point.b, ratios[1], "b");
        error += (ratios[0] - ratios[1]).abs();
    }
    close(card.mrc_mean_error, error / card.mrc.len() as f64, "mean error");
    // The card has cache sizes from one block up to the first one that holds either trace.
    let last = blocks(card.mrc[card.mrc.len() - 1].size_mib);
    let before = blocks(card.mrc[card.mrc.len() - 2].size_mib);
    let footprint = card.a.footprint_blocks.max(card.b.footprint_blocks);
    assert!(blocks(card.mrc[0].size_mib) == 1 && before < footprint && footprint <= last);
}

#[test]
fn heat_is_the_share_of_ranges_with_equal_shares_of_what_either_uses() {
    let (a, mut b) = (load(1, 600), load(2, 600));
    // The last request is far away from all others.
    b[599].offset = 800 * MIB - 512;
    b[599].len = 512;
    let card = card(&a, &b, &["990-pro"]);
    let ground = &ground(&a) | &ground(&b);
    let [of_a, of_b] = [heat(&a, &ground), heat(&b, &ground)];
    let apart: f64 = of_a.iter().zip(&of_b).map(|(a, b)| (a - b).abs()).sum();
    close(card.heat.total_variation, apart / 2.0, "total variation");
    assert_eq!((card.heat.a.len(), card.heat.range_bytes), (256, ground.len() as u64 * MIB / 256));
    for (found, expected) in card.heat.a.iter().zip(&of_a).chain(card.heat.b.iter().zip(&of_b)) {
        close(*found, *expected, "share");
    }
    // A feature for a sixteenth of the addresses covers 16 of the 256 ranges, one for a quarter
    // covers 64.
    for feature in card.features.iter().filter(|f| f.name.starts_with("state_weight:")) {
        let (part, parts) = feature.name["state_weight:".len()..].split_once('/').unwrap();
        let (part, parts): (usize, usize) = (part.parse().unwrap(), parts.parse().unwrap());
        let width = 256 / parts;
        let share: f64 = of_a[(part - 1) * width..part * width].iter().sum();
        close(feature.quantity.a, share, &feature.name);
    }
}

#[test]
fn features_are_means_and_shares() {
    let (a, b) = (load(1, 900), load(2, 400));
    let card = card(&a, &b, &["990-pro"]);
    let quantity = |name: &str| -> Quantity {
        card.features.iter().find(|feature| feature.name == name).unwrap().quantity
    };
    let count = |records: &[Record], of: &dyn Fn(&Record) -> bool| {
        records.iter().filter(|record| of(record)).count() as f64
    };
    let mean = |records: &[Record], of: &dyn Fn(&Record) -> bool| {
        let bytes = records.iter().filter(|record| of(record)).map(|r| f64::from(r.len));
        bytes.sum::<f64>() / count(records, of)
    };
    let (read, write) = (|r: &Record| r.op == Op::Read, |r: &Record| r.op == Op::Write);
    let four = |r: &Record| r.len == 4096;
    for (side, records) in [&a, &b].into_iter().enumerate() {
        let found = |name| [quantity(name).a, quantity(name).b][side];
        close(found("mean_size_bytes"), mean(records, &|_| true), "size");
        close(found("read_mean_size_bytes"), mean(records, &read), "reads");
        close(found("write_mean_size_bytes"), mean(records, &write), "writes");
        let all = records.len() as f64;
        close(found("read_share"), count(records, &read) / all, "read share");
        close(found("size_share:4096_bytes"), count(records, &four) / all, "4 KiB");
        let next = records
            .windows(2)
            .filter(|pair| pair[0].offset + u64::from(pair[0].len) == pair[1].offset);
        close(found("sequential_share"), next.count() as f64 / all, "sequential");
        let gap = records[records.len() - 1].at.0 as f64 / 1e6 / (all - 1.0);
        close(found("mean_inter_arrival_ms"), gap, "gap");
    }
    let size = quantity("mean_size_bytes");
    close(size.deviation.unwrap(), size.b / size.a - 1.0, "relative");
    let reads = quantity("read_share");
    close(reads.deviation.unwrap(), reads.b - reads.a, "points");
}

/// Returns the response times of a single-server queue with service time `service_ns`, for reads
/// that no scheduler merges.
fn queue(records: &[Record], service_ns: u64) -> Vec<f64> {
    let mut free = 0;
    let mut responses: Vec<f64> = records
        .iter()
        .map(|record| {
            free = free.max(record.at.0) + service_ns;
            (free - record.at.0) as f64 / 1e6
        })
        .collect();
    responses.sort_by(f64::total_cmp);
    responses
}

#[test]
fn responses_are_those_of_each_device_in_the_order_asked() {
    let (a, b) = (apart(load(1, 3000)), apart(load(2, 3000)));
    let card = card(&a, &b, &["fixed:500", "fixed:2000"]);
    for (response, service_ns) in card.responses.iter().zip([2_000_000, 500_000]) {
        let [of_a, of_b] = [queue(&a, service_ns), queue(&b, service_ns)];
        let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len() as f64;
        close(response.mean_ms.a, mean(&of_a), "mean of A");
        close(response.mean_ms.b, mean(&of_b), "mean of B");
        let ranked = |share: f64| (share * 3000.0).ceil() as usize - 1;
        for ((name, quantity, _), share) in
            response.quantities().into_iter().skip(1).zip([0.5, 0.9, 0.99, 0.999])
        {
            for (found, times) in [(quantity.a, &of_a), (quantity.b, &of_b)] {
                // The figure is the lower end of a bucket that is 0.4 % wide.
                let expected = times[ranked(share)];
                let near = found <= expected + 1e-9 && found >= expected * (1.0 - 1.0 / 256.0);
                assert!(near, "{} {name}: {found} {expected}", response.device);
            }
        }
    }
}

#[test]
fn intervals_are_those_of_the_first_trace_by_blocks_of_its_time() {
    // Requests are 4 KiB long in the first half of the time and 8 KiB in the second, and their
    // number is equal in all blocks.
    let at = |number: u64| number * 1_000_000;
    let size = |number: u64| if number < 5000 { 4096 } else { 8192 };
    let a: Vec<Record> =
        (0..10_000).map(|n| record(at(n), n * 37 % 500 * 16_384, size(n), Op::Read)).collect();
    let b: Vec<Record> = a.iter().map(|r| Record { len: 4096, ..*r }).collect();
    let of = |card: Card| {
        let share = card.features.iter().find(|f| f.name == "size_share:4096_bytes").unwrap();
        (share.quantity, card.distances[0])
    };
    // The interval of two recordings is √2 times as wide as that of draws from A. Of 50 draws from two halves, the number from one half is between 18 and 32 in 95 % of cases,
    // and |draws - 25| is at most 6 in 93 % and at most 7 in 97 % of cases.
    let (share, sizes) = of(card(&a, &b, &["990-pro"]));
    assert!((0.27..=0.36).contains(&share.a_low), "{share:?}");
    assert!((0.64..=0.73).contains(&share.a_high), "{share:?}");
    assert!((0.155..=0.215).contains(&sizes.ks_itself), "{sizes:?}");
    // The other trace never changes, so its resamples are all alike.
    let (share, sizes) = of(card(&b, &a, &["990-pro"]));
    assert_eq!((share.a_low, share.a_high, sizes.ks_itself), (1.0, 1.0, 0.0));
}
