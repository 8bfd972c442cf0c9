//! Tests of `describe`.

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
    let screen = terminal::text(&found.page, 80, Extent::FirstScreen);
    assert!(screen.lines().count() <= 24, "{screen}");
    assert!(screen.contains("\n busiest ") && screen.contains("Streams interrupt one another"));
    let everything = terminal::text(&found.page, 80, Extent::Everything);
    for said in ["variance / mean", "written bytes from write-back", "median jump"] {
        assert!(everything.contains(said), "{said}: {everything}");
    }
}

/// Up to three unusual properties of a trace are reported on the first screen.
#[test]
fn anomalies_are_on_the_first_screen() {
    let traces = Traces::new();
    let screen = |name: &str, rows: String| {
        let path = traces.0.path().join(name);
        std::fs::write(&path, rows).unwrap();
        let columns = ("columns", "at:ms,op,offset,len,name,latency:ms");
        let found = answered::<DescribeAsk>(&[("trace", path.to_str().unwrap()), columns]);
        terminal::text(&found.page, 80, Extent::FirstScreen).replace("\n  ", " ")
    };
    let row =
        |at_ms: u64, latency: &str| format!("{at_ms},read,{},4096,x,{latency}\n", at_ms << 20);
    let even: String = (0..200).map(|n| row(n * 100, "1")).collect();
    let plain = screen("even.csv", even.clone());
    assert!(!plain.contains('!') && !plain.contains("busiest"), "{plain}");
    let burst: String = (0..800).map(|n| row(20_000 + n, "")).collect();
    let odd = screen("odd.csv", even + &burst);
    for said in
        ["! 80.0 % of the requests have no recorded latency", "! Bursts: the busiest second has "]
    {
        assert!(odd.contains(said), "{odd}");
    }
    let slow = |n: u64| row(n * 100, if n.is_multiple_of(50) { "90" } else { "1" });
    let tail = screen("tail.csv", (0..200).map(slow).collect());
    assert!(
        tail.contains("! Long tail: the p99 of reads is 90.0 ms, their median 1.00 ms."),
        "{tail}"
    );
}

/// A fleet's trace with times in whole seconds has one stream, many volumes, and no known rates
/// below a second.
#[test]
fn volumes_are_listed_where_streams_do_not_differ_and_shared_times_are_reported() {
    let traces = Traces::new();
    let path = traces.0.path().join("fleet.csv");
    let row = |n: u64| format!("{},read,{},4096,v{}\n", n / 100, n << 20, n % 3 % 2);
    std::fs::write(&path, (0..600).map(row).collect::<String>()).unwrap();
    let columns = ("columns", "at:s,op,offset,len,volume");
    let found = answered::<DescribeAsk>(&[("trace", path.to_str().unwrap()), columns]);
    let screen = terminal::text(&found.page, 80, Extent::FirstScreen).replace("\n  ", " ");
    assert!(screen.contains("volumes 2") && screen.contains("\n busiest "), "{screen}");
    let busiest = screen.lines().find(|line| line.starts_with(" v0 ")).expect("a row of v0");
    assert!(busiest.contains("66.7 %"), "{screen}");
    assert!(screen.contains("! Most requests have the same time as the one before"), "{screen}");
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
