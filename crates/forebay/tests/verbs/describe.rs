//! `describe`.

use forebay::describe::DescribeAsk;
use forebay_show::page::Place;
use forebay_show::terminal::{self, Extent};

use super::{Traces, answered, first_table, sample};

#[test]
fn a_description_says_how_much_and_in_which_order() {
    let found = answered::<DescribeAsk>(&[("trace", &sample())]);
    let headline = &found.page.headline;
    assert!(headline.starts_with("193 requests per second for 393 s, 59.3 MB/s; "), "{headline}");
    assert!(headline.contains("44.4 % sequential on the disk"), "{headline}");
    assert_eq!(first_table(&found.page).rows.len(), 2);
    let everything = terminal::text(&found.page, 80, Extent::Everything);
    for said in ["variance / mean", "written bytes from write-back", "rows skipped: 0"] {
        assert!(everything.contains(said), "{said}: {everything}");
    }
}

#[test]
fn a_trace_without_times_or_order_is_described_too() {
    let traces = Traces::new();
    let once = traces.csv("once.csv", [(7, 4096)].into_iter());
    let found = answered::<DescribeAsk>(&[("trace", once.to_str().unwrap())]);
    assert_eq!(found.page.headline, "1 request of 4 KiB; 100 % reads.");
}

#[test]
fn threads_have_the_first_screen_where_they_are_asked_for() {
    let trace = sample();
    let found = answered::<DescribeAsk>(&[("trace", &trace), ("threads", "true"), ("limit", "3")]);
    let first = &found.page.sections[0];
    assert_eq!((&*first.title, first.place), ("Types of threads", Place::FirstScreen));
    let everything = terminal::text(&found.page, 80, Extent::Everything);
    let at = |text: &str| everything.find(text).unwrap_or_else(|| panic!("{text}: {everything}"));
    assert!(at("all 1") < at("Data #0: ") && at("Data #0: ") < at("Threads one by one"));
    let rows = found.data["by_thread"]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 3);
    assert!(everything.contains("Without a row of their own: "), "{everything}");
}
