//! `plan` by its questions.

use forebay::plan::capacity::CapacityAsk;
use forebay_show::page::Block;
use forebay_show::table::Cell;

use super::{Traces, answered};

#[test]
fn capacity_says_what_the_last_requests_cost() {
    let traces = Traces::new();
    let trace = traces.bursty("web<1>.csv");
    let trace = ("trace", trace.to_str().unwrap());
    let found =
        answered::<CapacityAsk>(&[trace, ("within", "20ms,100ms"), ("fraction", "90%,99%,1")]);
    let rows = found.data["rows"].as_array().unwrap();
    let iops = |nth: usize| rows[nth]["capacity_iops"].as_u64().unwrap();
    // A burst of thirty within 20 ms takes at least 1,500 a second.
    assert!(rows.len() == 6 && iops(2) >= 1500 && iops(0) < 100, "{rows:?}");
    let headline = &found.page.headline;
    let all = [2, 5].map(|nth| format!("all of them takes {}, ", iops(nth)));
    assert!(all.iter().any(|said| headline.contains(said)), "{headline}");
    assert!(!headline.contains("--"), "{headline}");
    for only in [&["0.9"][..], &["0.95", "0.9"]] {
        let only = only.join(",");
        let found = answered::<CapacityAsk>(&[trace, ("within", "20ms"), ("fraction", &only)]);
        assert!(found.page.headline.starts_with("Answering 9"), "{}", found.page.headline);
    }
}

#[test]
fn capacity_has_intervals_and_checks_where_they_are_asked_for() {
    let traces = Traces::new();
    let trace = traces.bursty("t.csv");
    let found = answered::<CapacityAsk>(&[
        ("trace", trace.to_str().unwrap()),
        ("within", "20ms"),
        ("fraction", "0.99"),
        ("confidence", "0.9"),
        ("hold_out", "0.3"),
    ]);
    let table = found.page.sections[0].blocks.iter().find_map(|block| match block {
        Block::Table(table) => Some(table),
        _ => None,
    });
    let rows = &table.unwrap().rows;
    assert!(matches!(rows[0].cells[1], Cell::Interval { .. }), "{rows:?}");
    assert_eq!(rows.len(), 4);
    assert!(found.data["rows"][0]["held_out_kept"].is_boolean());
}

#[test]
fn capacity_counts_lengths_where_they_cost() {
    let traces = Traces::new();
    let length = |n: u64| if n.is_multiple_of(40) { 1 << 20 } else { 4096 };
    let trace = traces.csv("t.csv", (0..400).map(|n| (n * 5, length(n))));
    let trace = ("trace", trace.to_str().unwrap());
    let found =
        answered::<CapacityAsk>(&[trace, ("cost_us", "100+20/KiB"), ("within", "20ms,50ms")]);
    assert!(found.page.headline.starts_with("Answering 99 % of the requests takes speed "));
    let found = answered::<CapacityAsk>(&[trace, ("within", "20ms")]);
    let data = found.data.to_string();
    assert!(data.contains("each counts as one"), "{data}");
}

#[test]
fn capacity_counts_devices() {
    let traces = Traces::new();
    let trace = traces.bursty("t.csv");
    let trace = ("trace", trace.to_str().unwrap());
    let fixed = [("device", "fixed:300"), ("within", "50ms,100ms"), ("fraction", "0.9,1")];
    let found = answered::<CapacityAsk>(&[&[trace][..], &fixed].concat());
    let devices = found.data["rows"][0]["devices"].as_u64().unwrap();
    assert!(devices >= 1 && found.page.headline.contains("fixed:300"), "{}", found.page.headline);
    let few = [("device", "fixed:300"), ("within", "1ms"), ("fraction", "1"), ("devices_max", "1")];
    let found = answered::<CapacityAsk>(&[&[trace][..], &few].concat());
    assert!(found.page.headline.starts_with("No number of"), "{}", found.page.headline);
}
