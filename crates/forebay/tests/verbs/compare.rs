//! Tests of `compare`.

use forebay::compare::CompareAsk;
use forebay_show::html;
use forebay_show::page::Tone;
use forebay_show::table::Cell;
use forebay_show::terminal::{self, Extent};

use super::{Traces, answered, first_table, sample};

#[test]
fn a_trace_is_its_own_twin() {
    let trace = sample();
    let given = [("a", &*trace), ("b", &trace), ("device", "990-pro")];
    let found = answered::<CompareAsk>(&given);
    let page = &found.page;
    assert_eq!((page.verdict.tone, &*page.verdict.words), (Tone::Good, "A faithful twin"));
    assert_eq!(found.data["latencies"]["text"], page.headline);
    assert_eq!(found.data["latencies"]["change"], "same");
    let html = html::document(page);
    for id in ["sizes", "gaps", "mrc", "dispersion", "heat", "response-0"] {
        assert!(html.contains(&format!("id=\"{id}-t\"")), "{id}");
    }
    // Every feature and every response time has a name in words.
    let everything = terminal::text(page, 100, Extent::Everything);
    for said in
        ["requests in first sixteenth", "p99.9", "Kolmogorov-Smirnov, size", "deviation, points"]
    {
        assert!(everything.contains(said), "{said}: {everything}");
    }
    for key in ["_bytes", "_ms", "_share", "state_weight", "stream_weight"] {
        assert!(!everything.contains(key), "{key}: {everything}");
    }
}

#[test]
fn another_trace_is_a_twin_in_some_aspects_or_too_short() {
    let traces = Traces::new();
    let even = traces.csv("even.csv", (0..600).map(|n| (n * 20, 4096)));
    let bursts = (0..600).map(|n| (n / 10 * 200, 4096));
    let bursts = traces.csv("bursts.csv", bursts);
    let odd = traces.csv("odd.csv", [(0, 512), (9000, 512)].into_iter());
    let [even, bursts, odd] = [&even, &bursts, &odd].map(|path| path.to_str().unwrap());
    let found = answered::<CompareAsk>(&[("a", even), ("b", bursts), ("device", "fixed:300")]);
    assert!(
        found.page.headline.contains(" may stand in for even.csv in "),
        "{:?}",
        found.page.headline
    );
    let judged = |holds: bool| {
        let rows = &first_table(&found.page).rows;
        let is = |cell: &Cell| matches!(cell, Cell::Judged { is_good, .. } if *is_good == holds);
        rows.iter().filter(|row| row.cells.iter().any(is)).count()
    };
    assert!(judged(true) > 0 && judged(false) > 0);
    let found = answered::<CompareAsk>(&[("a", &*sample()), ("b", odd), ("device", "fixed:300")]);
    assert!(found.page.headline.starts_with("Too few requests to compare: terasort.parquet has "));
    assert_eq!(found.page.verdict.words, "Too few requests");
}
