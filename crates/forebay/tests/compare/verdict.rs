//! Tests the verdict of `compare`: its bounds, which trace each figure comes from, and its
//! warnings.

use forebay::compare::{Card, Options, Quantity, compare};
use forebay::input::Input;
use forebay::progress::{unheard, untold};
use forebay_core::{Nanos, Op};
use forebay_trace::Record;

use crate::compare::{PAGE, apart, card, close, input, load, record};

fn feature(card: &Card, name: &str) -> Quantity {
    card.features.iter().find(|feature| feature.name == name).unwrap().quantity
}

#[test]
fn the_bounds_are_those_of_the_manual() {
    let a = apart(load(1, 500));
    let mut card = card(&a, &a, &["990-pro"]);
    for (error, holds) in [(0.03, true), (0.0301, false)] {
        card.mrc_mean_error = error;
        assert_eq!(card.miss_ratio_check().holds(), holds, "{error}");
    }
    let off = |deviation: f64| Quantity {
        a: 1.0,
        b: 1.0 + deviation,
        deviation: Some(deviation),
        a_low: 0.0,
        a_high: 9.0,
    };
    let narrow = |deviation: f64| Quantity { a_low: 1.0, a_high: 1.0, ..off(deviation) };
    for (itself, error, holds) in [(0.05, 0.05, true), (0.05, 0.06, false), (0.9, 0.11, false)] {
        (card.mrc_mean_error_itself, card.mrc_mean_error) = (itself, error);
        assert_eq!(card.miss_ratio_check().holds(), holds, "{error} of {itself}");
    }
    card.responses[0].p90_ms = narrow(0.5);
    for (p99, holds) in [(narrow(0.1), true), (narrow(0.11), false), (off(0.11), true)] {
        card.responses[0].p99_ms = p99;
        assert_eq!(card.responses[0].p99_check().holds(), holds, "{p99:?}");
        card.responses[0].mean_ms = p99;
        assert_eq!(card.responses[0].mean_check().holds(), holds, "{p99:?}");
        card.dispersion[0].quantity = p99;
        assert_eq!(card.dispersion[0].bound_check().holds(), holds, "{p99:?}");
    }
    for (deviation, holds) in [(0.05, true), (-0.051, false)] {
        card.features[0].quantity = off(deviation);
        assert_eq!(card.features[0].bound_check().holds(), holds, "{deviation}");
    }
}

#[test]
fn when_a_trace_begins_does_not_matter() {
    let a = load(2, 2000);
    let hour_ns = 3_600_000_000_000;
    let later: Vec<Record> =
        a.iter().map(|record| Record { at: Nanos(record.at.0 + hour_ns), ..*record }).collect();
    for card in [card(&a, &later, &["990-pro"]), card(&later, &a, &["990-pro"])] {
        assert!(card.verdict.faithful, "{}", card.verdict.text);
        for (_, quantity, _) in card.responses[0].quantities() {
            assert_eq!(quantity.deviation, Some(0.0));
        }
        let scales = card.dispersion.iter().map(|scale| scale.quantity);
        for quantity in scales.chain([card.responses[0].mean_ms]) {
            assert_eq!(quantity.deviation, Some(0.0));
            assert!(quantity.a_low < quantity.a_high, "{quantity:?}");
        }
    }
}

#[test]
fn an_intensity_is_another_clock() {
    let a = apart(load(1, 800));
    let slow: Vec<Record> =
        a.iter().map(|record| Record { at: Nanos(record.at.0 * 4), ..*record }).collect();
    let calm = Options::new(&["fixed:1000".to_string()], None, 0.25, 3).unwrap();
    let found = compare(&input(&a), &input(&a), &calm, &mut unheard).unwrap();
    let expected = card(&slow, &slow, &["fixed:1000"]);
    assert_eq!(found.responses[0].mean_ms, expected.responses[0].mean_ms);
    assert_eq!(found.responses[0].p99_ms, expected.responses[0].p99_ms);
}

#[test]
fn a_response_belongs_to_the_time_in_which_its_request_came() {
    // Every other of the 50 blocks of 2 s has a burst that takes 3 s to serve, and all bursts are
    // equal.
    let burst = |number: u64| (0..200).map(move |_| record(number * 4_000_000_000, 0, 0, Op::Read));
    let mut records: Vec<Record> = (0..25).flat_map(burst).collect();
    records.push(record(100_000_000_000, 0, 0, Op::Read));
    let mean = card(&apart(records.clone()), &apart(records), &["fixed:66.6"]).responses[0].mean_ms;
    assert!(
        mean.a > 1300.0 && mean.a_low > mean.a * 0.99 && mean.a_high < mean.a * 1.01,
        "{mean:?}"
    );
}

#[test]
fn a_device_is_overloaded_where_requests_come_late() {
    let every = |gap_us: u64| (0..2000u64).map(move |n| record(n * gap_us * 1000, 0, 0, Op::Read));
    let late = (0..1000).map(|_| record(100_000_000_000, 0, 0, Op::Read));
    let backlog: Vec<Record> = every(50_000).take(10).chain(late).collect();
    for (records, overloaded) in [
        (every(20_000).collect(), false),
        (every(10_100).collect(), false),
        (every(5_000).collect(), true),
        (backlog, true),
    ] {
        let records = apart(records);
        let card = card(&records, &records, &["fixed:100"]);
        assert_eq!(card.responses[0].a_overloaded, overloaded, "{:?}", card.responses[0]);
        assert_eq!(card.cautions.iter().any(|text| text.contains("backlog")), overloaded);
    }
}

#[test]
fn sequential_within_a_stream_is_so_in_each_direction() {
    // Reads and writes of one stream alternate, and each continues where the last one of its kind
    // ended.
    let turn = |n: u64| match n % 2 {
        0 => record(n * 1000, n / 2 * PAGE, 4096, Op::Read),
        _ => record(n * 1000, (1 << 30) + n / 2 * PAGE, 4096, Op::Write),
    };
    let a: Vec<Record> = (0..400).map(turn).collect();
    let card = card(&a, &a, &["990-pro"]);
    close(feature(&card, "sequential_share").a, 0.0, "as the disk sees it");
    close(feature(&card, "sequential_share_by_stream").a, 398.0 / 400.0, "by stream");
}

#[test]
fn streams_are_held_against_their_namesakes_or_else_by_rank() {
    let split = |first: u64| -> Vec<Record> {
        let stream = |n: u64| u32::from(n % 10 >= first);
        (0..).zip(load(1, 1000)).map(|(n, r)| Record { stream: stream(n), ..r }).collect()
    };
    let named = |records: Vec<Record>, names: [&str; 2]| {
        Input::from_records(records, names.map(String::from).to_vec())
    };
    let options = Options::new(&["990-pro".to_string()], None, 1.0, 3).unwrap();
    let against =
        |b: &Input| compare(&named(split(7), ["x", "y"]), b, &options, &mut unheard).unwrap();
    let weights = |card: &Card, name: &str| {
        let weight = feature(card, name);
        (weight.a, weight.b)
    };
    let same = against(&named(split(2), ["y", "x"]));
    assert_eq!(weights(&same, "stream_weight:x"), (0.7, 0.8));
    assert_eq!(weights(&same, "stream_weight:y"), (0.3, 0.2));
    let other = against(&named(split(2), ["p", "q"]));
    assert_eq!(weights(&other, "stream_weight:#1"), (0.7, 0.8));
    assert_eq!(weights(&other, "stream_weight:#2"), (0.3, 0.2));
}

/// Returns a trace whose second volume has three of four requests and the larger extent. `names`
/// are in the order of first use; with `turned`, the busy volume is used first.
fn volumes(names: [&str; 2], turned: bool) -> Input {
    let mut rows = String::from("at_ns,op,offset,len,volume\n");
    for number in 0..400u64 {
        let busy = (number % 4 > 0) != (number == 0 && turned);
        let place = (number * 37 % 100) << if busy { 20 } else { 12 };
        rows += &format!("{},R,{place},4096,{}\n", number * 1_000_000, names[usize::from(busy)]);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    std::fs::write(&path, rows).unwrap();
    let from = "columns:at:ns,op,offset,len,volume,skip=1";
    Input::read(&path, Some(from), Default::default(), &mut untold).unwrap()
}

#[test]
fn volumes_lie_where_their_namesakes_or_those_of_their_load_do() {
    let options = Options::new(&["990-pro".to_string()], None, 1.0, 3).unwrap();
    let elsewhere = |b: &Input| {
        let card = compare(&volumes(["x", "y"], false), b, &options, &mut unheard).unwrap();
        card.heat.total_variation
    };
    assert_eq!(elsewhere(&volumes(["x", "y"], false)), 0.0);
    for names in [["x", "y"], ["0", "1"], ["1", "0"]] {
        // The only difference is the one request that makes the busy volume come first.
        let found = elsewhere(&volumes(names, true));
        assert!(found <= 2.5 / 400.0, "{names:?}: {found}");
    }
    // Volumes are matched by name, even if another volume has a more similar load.
    assert!(elsewhere(&volumes(["y", "x"], false)) > 0.4);
}
