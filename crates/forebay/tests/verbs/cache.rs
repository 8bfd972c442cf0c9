//! Tests of `cache`.

use forebay::cache_curve::CacheAsk;
use forebay_show::table::RowMark;

use super::{Traces, answered, first_table, sample};

#[test]
fn a_cache_has_one_size_and_a_handful_of_others() {
    let found = answered::<CacheAsk>(&[("trace", &sample()), ("block_kib", "64")]);
    let data = &found.data;
    let size = data["recommended"]["size_blocks"].as_u64().unwrap();
    assert!(found.page.headline.starts_with("A cache of "), "{}", found.page.headline);
    let rows = first_table(&found.page).rows.len();
    assert!((3..=7).contains(&rows), "{rows}");
    let last = data["points"].as_array().unwrap().last().unwrap();
    assert!(last["size_blocks"].as_u64().unwrap() >= size);
    assert_eq!(last["lru_findable_share"], 1.0);
}

/// Nobody buys a cache of some KiB, and a few more of them find nearly all that can be found.
#[test]
fn a_small_cache_finds_nearly_all() {
    let traces = Traces::new();
    // Nine of ten requests use 100 blocks, the others 2000 blocks.
    let block = |n: u64| match n % 10 {
        0 => 100 + n / 10 % 2000,
        _ => n * 7 % 100,
    };
    let rows = (0..60_000).map(|n| format!("{n},R,{},4096\n", block(n) * 4096));
    let text = "time_ms,op,offset,len\n".to_owned() + &rows.collect::<String>();
    let trace = traces.file("small.csv", &text);
    let found = answered::<CacheAsk>(&[("trace", trace.to_str().unwrap())]);
    let size = found.data["recommended"]["size_blocks"].as_u64().unwrap();
    assert!(size > 1000, "{}", found.data["recommended"]);
    assert!(!found.page.headline.contains("nearly reached"), "{}", found.page.headline);
}

/// What is recommended is worth having, in every form of the answer.
#[test]
fn a_cache_that_finds_next_to_nothing_is_not_recommended() {
    let traces = Traces::new();
    let rows = (0..5000).map(|n: u64| format!("{n},R,{},4096\n", n.saturating_sub(n / 100) * 4096));
    let text = "time_ms,op,offset,len\n".to_owned() + &rows.collect::<String>();
    let trace = traces.file("little.csv", &text);
    let found = answered::<CacheAsk>(&[("trace", trace.to_str().unwrap())]);
    assert!(found.page.headline.starts_with("No cache is worthwhile: "), "{}", found.page.headline);
    assert!(found.data["recommended"].is_null() && found.page.key_figures.is_empty());
    let rows = &first_table(&found.page).rows;
    assert!(rows.iter().all(|row| row.mark == RowMark::Plain), "{rows:?}");
}

#[test]
fn sizes_that_are_asked_for_are_shown_and_simulated() {
    let trace = sample();
    let asked =
        [("trace", &*trace), ("block_kib", "64"), ("sizes_mib", "64,1"), ("sizes_blocks", "100")];
    let found = answered::<CacheAsk>(&asked);
    let table = first_table(&found.page);
    assert_eq!((table.rows.len(), table.columns.len()), (3, 5));
    let points = found.data["points"].as_array().unwrap();
    assert_eq!(points.iter().filter(|point| !point["s3fifo_hit_ratio"].is_null()).count(), 3);
}

#[test]
fn data_used_once_need_no_cache() {
    let traces = Traces::new();
    let trace = traces.csv("once.csv", (0..500).map(|n| (n, 4096)));
    let found = answered::<CacheAsk>(&[("trace", trace.to_str().unwrap())]);
    assert!(found.page.headline.starts_with("No cache helps"), "{}", found.page.headline);
}
