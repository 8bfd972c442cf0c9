//! Tests of `cache`.

use forebay::cache_curve::CacheAsk;

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
