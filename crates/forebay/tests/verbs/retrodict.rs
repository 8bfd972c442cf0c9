//! Tests of `retrodict`.

use forebay::advise::verb::AdviseAsk;
use forebay::retrodict::RetrodictAsk;
use forebay::verb::{Verb, answer};
use forebay_ask::{Given, Spelling, read};
use forebay_show::page::Tone;

use super::{Quiet, Traces, answered, first_table};

/// Returns a trace of reads that never overlap, one every 20 ms, each with a recorded latency of
/// `latency_ms`.
fn recorded(count: u64, latency_ms: &str) -> String {
    let row = |n: u64| format!("{},read,{},4096,{latency_ms}\n", n * 20, n * 7919 % 4096 * 4096);
    (0..count).map(row).collect()
}

const COLUMNS: (&str, &str) = ("columns", "at:ms,op,offset,len,latency:ms");
/// The modeled device is a server that takes 10 ms for each request.
const DEVICE: [(&str, &str); 2] = [("device", "fixed:100"), ("policy", "none")];

#[test]
fn a_model_twice_as_slow_is_far_off() {
    let traces = Traces::new();
    let trace = traces.file("t.txt", &recorded(300, "5"));
    let given = [&[("trace", trace.to_str().unwrap()), COLUMNS][..], &DEVICE].concat();
    let found = answered::<RetrodictAsk>(&given);
    assert_eq!(found.page.verdict.tone, Tone::Warning);
    assert!(
        found.page.headline.contains("10.0 ms instead of the recorded 5.00 ms"),
        "{}",
        found.page.headline
    );
    assert_eq!(first_table(&found.page).rows.len(), 2, "no writes");
    assert_eq!((&found.data["requests"], &found.data["writes"]), (&300.into(), &().into()));
}

#[test]
fn the_right_model_is_near() {
    let traces = Traces::new();
    let trace = traces.file("t.txt", &recorded(300, "10"));
    let given = [&[("trace", trace.to_str().unwrap()), COLUMNS][..], &DEVICE].concat();
    assert_eq!(answered::<RetrodictAsk>(&given).page.verdict.tone, Tone::Good);
}

#[test]
fn few_requests_are_not_judged() {
    let traces = Traces::new();
    let trace = traces.file("t.txt", &recorded(99, "5"));
    let given = [&[("trace", trace.to_str().unwrap()), COLUMNS][..], &DEVICE].concat();
    let found = answered::<RetrodictAsk>(&given);
    assert!(found.page.headline.starts_with("Fewer than 100 reads"), "{}", found.page.headline);
    assert_eq!(found.page.verdict.tone, Tone::Calm);
}

#[test]
fn a_trace_without_latencies_is_refused() {
    let traces = Traces::new();
    let trace = traces.bursty("t.csv");
    let mut given = Given::default();
    given.text("trace", trace.to_str().unwrap()).text("device", "fixed:100");
    let ask = read::<RetrodictAsk>(&given).unwrap();
    let said = answer(ask, &mut Quiet::default(), Spelling::Command).unwrap_err().to_string();
    assert!(said.contains("t.csv: the trace records no latencies"), "{said}");
}

/// Runs a verb with these options and returns its warnings.
fn warnings<V: Verb>(given: &[(&str, &str)]) -> String {
    let mut all = Given::default();
    for (name, text) in given {
        all.text(name, *text);
    }
    let mut session = Quiet::default();
    answer(read::<V>(&all).unwrap(), &mut session, Spelling::Command).unwrap();
    session.0.join("\n")
}

#[test]
fn a_model_that_misses_its_own_measurements_has_a_warning() {
    let traces = Traces::new();
    let trace = traces.file("t.txt", &recorded(300, "10"));
    let disk = include_str!("../../../forebay-devices/devices/sata250.toml");
    let evidence = "\n[evidence]\nbasis = \"fitted\"\nrate_error_percent = 97.4\n";
    let poor = traces.file("poor.toml", &format!("{disk}{evidence}"));
    let given = |device| [("trace", trace.to_str().unwrap()), COLUMNS, ("device", device)];
    let said = "sata250: the model misses its own measurements: rates by up to 97 %";
    let poor = given(poor.to_str().unwrap());
    assert!(warnings::<RetrodictAsk>(&poor).contains(said));
    assert!(warnings::<AdviseAsk>(&poor).contains(said));
    assert!(!warnings::<AdviseAsk>(&given("sata250")).contains("misses"));
}
