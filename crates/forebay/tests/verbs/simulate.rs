//! Tests of `simulate`.

use std::path::PathBuf;

use forebay::simulate::SimulateAsk;
use forebay_ask::{Given, read};
use forebay_show::html;
use forebay_show::page::{Place, Tone};
use forebay_show::table::{Cell, RowMark};
use forebay_show::terminal::{self, Extent};

use super::law::refused;
use super::{Traces, answered, first_table};

/// Writes a trace of three streams with bursts; two of the streams compete for the heads.
fn fighting(traces: &Traces) -> PathBuf {
    let row = |n: u64| {
        let at_ms = n * 7 + n / 100 * 300;
        let offset = n % 3 * (20 << 30) + n.wrapping_mul(0x9E37_79B9) % 4096 * 65_536;
        let op = if n.is_multiple_of(4) { "write" } else { "read" };
        let len = [4096, 16_384, 65_536][n as usize % 3];
        format!(
            "{at_ms},{op},{offset},{len},{},3\n",
            ["<reader>", "writer", "third"][n as usize % 3]
        )
    };
    let rows: String = (0..1200).map(row).collect();
    let path = traces.0.path().join("t.txt");
    std::fs::write(&path, rows).unwrap();
    path
}

const COLUMNS: (&str, &str) = ("columns", "at:ms,op,offset,len,name,latency:ms");

#[test]
fn policies_stand_side_by_side() {
    let traces = Traces::new();
    let trace = fighting(&traces);
    let trace = ("trace", trace.to_str().unwrap());
    let disk = [trace, COLUMNS, ("device", "sata250:plain"), ("policy", "noop,cfq")];
    let found = answered::<SimulateAsk>(&[&disk[..], &[("least_time", "true")]].concat());
    let page = &found.page;
    assert_eq!(found.beyond.len(), 2);
    assert!(found.data["least_time"]["busy_s"].is_f64());
    let table = first_table(page);
    let heads: Vec<&str> = table.columns.iter().map(|of| &*of.head).collect();
    assert_eq!(heads[..3], ["policy", "against noop", "busy time"]);
    assert_eq!(table.rows.len(), 2);
    let everything = terminal::text(page, 100, Extent::Everything);
    for said in ["No order of these requests has a busy time below", "lost between streams", "↔"]
    {
        assert!(everything.contains(said), "{said}: {everything}");
    }
    let html = html::document(page);
    for id in ["heads-0", "heads-1", "reads", "writes", "arrivals", "spent"] {
        assert!(html.contains(&format!("id=\"{id}-t\"")), "{id}");
    }
    assert!(html.contains("by writer at cylinder"));
    assert!(html.contains("</figure></div>"), "pictures of heads stand beside each other");
}

#[test]
fn a_device_without_an_arm_has_no_figures_of_one() {
    let traces = Traces::new();
    let trace = fighting(&traces);
    let trace = ("trace", trace.to_str().unwrap());
    let given = [trace, COLUMNS, ("device", "990-pro"), ("policy", "none")];
    let found = answered::<SimulateAsk>(&given);
    assert!(found.page.headline.starts_with("Under none the busy time is "));
    let everything = terminal::text(&found.page, 100, Extent::Everything);
    assert!(!everything.contains("head movements") && !everything.contains("seeking"));
    assert!(found.data["least_time"].is_null() && found.data.get("defragmentation").is_none());
}

#[test]
fn many_policies_are_ranked_with_one_unit_a_column() {
    let traces = Traces::new();
    let trace = fighting(&traces);
    let trace = ("trace", trace.to_str().unwrap());
    let policies = "noop,clook,deadline,mq-deadline,cfq,bfq";
    let given = [trace, COLUMNS, ("device", "sata250"), ("policy", policies), ("jobs", "1")];
    let found = answered::<SimulateAsk>(&given);
    assert_eq!(first_table(&found.page).rows.len(), 6);
}

/// Regression test: on an idle disk, a policy with slightly less busy time was once called the
/// best.
#[test]
fn a_difference_that_does_not_matter_names_no_winner() {
    let traces = Traces::new();
    let idle = traces.csv("idle.csv", (0..400).map(|n| (n * 100 + n % 7, 4096)));
    let given = [("trace", idle.to_str().unwrap()), ("device", "sata250"), ("policy", "noop,cfq")];
    let found = answered::<SimulateAsk>(&given);
    let headline = &found.page.headline;
    assert!(headline.starts_with("No policy is measurably better than noop"), "{headline}");
    let table = first_table(&found.page);
    assert!(table.rows.iter().all(|row| row.mark == RowMark::Plain));
    assert_eq!(table.rows[1].cells[1], Cell::Words("no difference".into()));
    // If there are few requests, policies are not compared.
    let few = traces.csv("few.csv", (0..20).map(|n| (n * 100, 4096)));
    let given = [("trace", few.to_str().unwrap()), given[1], given[2]];
    let found = answered::<SimulateAsk>(&given);
    assert_eq!(found.page.headline, "Too few requests to compare policies: 20 requests.");
}

#[test]
fn additional_requested_results_are_on_the_first_screen() {
    let traces = Traces::new();
    let trace = fighting(&traces);
    let trace = ("trace", trace.to_str().unwrap());
    let shaped =
        [trace, COLUMNS, ("device", "fixed:500"), ("policy", "miser:cmin=400:delta-ms=50")];
    let found = answered::<SimulateAsk>(&shaped);
    let is_first = |title: &str| {
        let mut sections = found.page.sections.iter();
        sections.any(|section| section.title == title && section.place == Place::FirstScreen)
    };
    assert!(is_first("Classes of service"));
    let moved =
        [trace, COLUMNS, ("device", "sata250:plain"), ("policy", "noop"), ("defragment", "true")];
    let found = answered::<SimulateAsk>(&moved);
    assert_eq!(found.data["defragmentation"][0]["policy"], "noop");
}

#[test]
fn a_disk_that_cannot_keep_up_is_reported() {
    let traces = Traces::new();
    let slow = traces.csv("slow.csv", (0..3000).map(|n| (n, 4096)));
    let given = [("trace", slow.to_str().unwrap()), ("device", "fixed:100"), ("policy", "noop")];
    let found = answered::<SimulateAsk>(&given);
    assert_eq!(found.page.verdict.tone, Tone::Warning);
    assert!(found.page.headline.starts_with("The disk cannot keep up under noop: "));
    let screen = terminal::text(&found.page, 80, Extent::FirstScreen);
    assert!(screen.contains("--replay dependent"), "{screen}");
}

#[test]
fn a_policy_is_needed_and_neighbors_are_suggested() {
    let mut given = Given::default();
    given.text("trace", "t").text("device", "sata250");
    let none = refused::<SimulateAsk>(&[("trace", "t"), ("device", "sata250")]);
    assert!(none.contains("at least one"), "{none}");
    given.text("policy", "noop").text("disks", "0");
    assert!(read::<SimulateAsk>(&given).unwrap_err().message.contains("from 1 to 256"));
}

#[test]
fn without_a_device_or_a_policy_nothing_is_simulated() {
    let traces = Traces::new();
    let trace = traces.bursty("t.csv");
    let trace = ("trace", trace.to_str().unwrap());
    let none = refused::<SimulateAsk>(&[trace, ("policy", "noop")]);
    assert!(none.contains("got none, expected a device"), "{none}");
    let none = refused::<SimulateAsk>(&[trace, ("device", "sata250")]);
    assert!(none.contains("got none, expected at least one"), "{none}");
}
