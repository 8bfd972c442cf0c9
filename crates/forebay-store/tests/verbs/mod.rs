//! Tests the verbs of the store, including against the laws of all verbs.

#[path = "../../../forebay/tests/verbs/law.rs"]
mod law;
#[path = "../../../forebay/tests/pages/walk.rs"]
mod walk_page;

use forebay_ask::{Given, Spelling, read, spelled};
use forebay_store::StoreSimulateAsk;

use law::answered;
use walk_page::walk;

#[test]
fn sorting_costs_nothing_but_on_raid0() {
    let found = answered::<StoreSimulateAsk>(&[("total_mb", "60")]);
    let headline = &found.page.headline;
    assert!(headline.starts_with("Sorting slows puts down by "), "{headline}");
    let rows = found.data["rows"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["arrangement"].as_str().unwrap()).collect();
    assert_eq!(names, ["enhanced", "enhanced", "basic", "basic", "raid0", "raid0"]);
    let slowed = |at: usize| rows[at]["slowed_percent"].as_f64().unwrap();
    assert!(slowed(1).abs() < 2.7 && slowed(5) > 5.0, "{} and {}", slowed(1), slowed(5));
    assert!(found.data["predicted"]["throughput_mb_per_s"].as_f64().unwrap() > 1.0);
    assert_eq!(found.data["parking"]["break_even_s"].as_f64().unwrap().round(), 47.0);
}

#[test]
fn a_server_has_no_platters_to_park() {
    let given = [("device", "fixed:1000"), ("total_mb", "2"), ("arrangement", "basic")];
    let found = answered::<StoreSimulateAsk>(&given);
    assert!(found.data["parking"].is_null() && found.data["rows"].as_array().unwrap().len() == 2);
}

#[test]
fn inputs_that_have_no_effect_are_refused() {
    let refused = |given: &[(&str, &str)]| {
        let mut all = Given::default();
        for (name, text) in given {
            all.text(name, *text);
        }
        spelled(&read::<StoreSimulateAsk>(&all).unwrap_err().to_string(), Spelling::Python)
    };
    let depth = refused(&[("tree_depth", "4")]);
    assert_eq!(depth, "tree_depth: has an effect only with tree; add it");
    let page = refused(&[("tree", "in-place"), ("page_kib", "6")]);
    assert_eq!(page, "page_kib: got '6', expected a multiple of 4 from 4 to 16384");
    let flush = refused(&[("flush", "true"), ("to_cache", "true")]);
    assert!(flush.starts_with("flush: cannot be combined with to_cache"), "{flush}");
}
