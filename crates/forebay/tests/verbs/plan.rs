//! Tests of the `plan` verbs.

use forebay::plan::buy::BuyAsk;
use forebay::plan::capacity::CapacityAsk;
use forebay::plan::consolidate::ConsolidateAsk;
use forebay::plan::power::PowerAsk;
use forebay::plan::sla::SlaAsk;
use forebay_show::page::{Block, Place};
use forebay_show::table::{Cell, RowMark, Table};
use forebay_show::terminal::{self, Extent};

use super::{Traces, answered, tables};

#[test]
fn capacity_says_what_the_last_requests_cost() {
    let traces = Traces::new();
    let trace = traces.bursty("web<1>.csv");
    let trace = ("trace", trace.to_str().unwrap());
    let found =
        answered::<CapacityAsk>(&[trace, ("within", "20ms,100ms"), ("fraction", "90%,99%,1")]);
    let rows = found.data["rows"].as_array().unwrap();
    let iops = |nth: usize| rows[nth]["capacity_iops"].as_u64().unwrap();
    // Answering a burst of thirty within 20 ms takes at least 1,500 IOPS.
    assert!(rows.len() == 6 && iops(2) >= 1500 && iops(0) < 100, "{rows:?}");
    let headline = &found.page.headline;
    let all = [2, 5].map(|nth| format!("all of them requires {}, ", iops(nth)));
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
    let rows = &tables(&found.page)[0].rows;
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
    assert!(found.page.headline.starts_with("Answering 99 % of the requests requires speed "));
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

#[test]
fn sla_prices_a_promise_of_tiers_in_three_ways() {
    let traces = Traces::new();
    let trace = traces.bursty("web<1>.csv");
    let promise = traces.file("tiers.toml", &tiers(&[(0.9, 20), (0.99, 50), (1.0, 500)]));
    let given = [("promise", promise.to_str().unwrap()), ("trace", trace.to_str().unwrap())];
    for capacity in [None, Some("1"), Some("100000")] {
        let more = capacity.map(|iops| ("capacity", iops));
        let found = answered::<SlaAsk>(&given.into_iter().chain(more).collect::<Vec<_>>());
        let least = &found.data["least"];
        let said = match capacity {
            None => format!("Provide {} IOPS on ", least["capacity_iops"]),
            Some("1") => format!("1 IOPS are not enough: provide {} IOPS", least["capacity_iops"]),
            Some(iops) => {
                format!("{iops} IOPS are enough on one server, first come, first served; ")
            }
        };
        assert!(found.page.headline.starts_with(&said), "{}", found.page.headline);
        let everything = terminal::text(&found.page, 80, Extent::Everything);
        assert!(
            !everything.contains("with Miser") && !everything.contains(" 0 IOPS"),
            "{everything}"
        );
        let none = "At 1 IOPS, none of the three methods keeps the promise. The best of them, one";
        assert_eq!(everything.contains(none), capacity == Some("1"), "{everything}");
        let tables = tables(&found.page);
        let mut rows = tables.iter().flat_map(|table| &table.rows);
        let best = rows.find(|row| matches!(row.mark, RowMark::Best(_))).unwrap();
        assert_eq!(best.cells[1], Cell::Value(least["capacity_iops"].as_f64().unwrap()));
        assert_eq!(tables.len(), 2 + usize::from(capacity.is_some()));
        let tiers = tables.iter().find(|table| table.rows.len() == 3 && table.columns.len() == 5);
        let is_broken = tiers.unwrap().rows.iter().any(|row| row.cells[3] == "no".into());
        assert_eq!(is_broken, capacity == Some("1"));
        assert!(found.data["floor_iops"].as_u64() <= least["capacity_iops"].as_u64());
    }
}

#[test]
fn sla_has_room_for_as_many_tiers_as_there_may_be() {
    let traces = Traces::new();
    let all: Vec<(f64, u64)> = (1..=8).map(|n| (n as f64 / 8.0, 20 * n)).collect();
    let promise = traces.file("tiers.toml", &tiers(&all));
    let length = |n: u64| if n.is_multiple_of(40) { 1 << 20 } else { 4096 };
    let trace = traces.csv("t.csv", (0..400).map(|n| (n * 5, length(n))));
    let given = [("promise", promise.to_str().unwrap()), ("trace", trace.to_str().unwrap())];
    let found = answered::<SlaAsk>(&given);
    assert!(found.data["cautions"][0].as_str().unwrap().ends_with("--cost-us counts bytes too."));
    let found = answered::<SlaAsk>(&[&given[..], &[("capacity", "2")]].concat());
    assert_eq!(found.page.verdict.words, "The promise is broken");
    let found = answered::<SlaAsk>(&[&given[..], &[("cost_us", "100+20/KiB")]].concat());
    let said = format!("Provide speed {} on one server", found.data["fcfs_speed"]);
    assert!(found.page.headline.starts_with(&said), "{}", found.page.headline);
    assert_eq!(tables(&found.page)[0].rows.len(), 8);
}

#[test]
fn consolidate_says_what_sharing_saves_and_who_gets_least() {
    let traces = Traces::new();
    let trace = traces.bursty("web<1>.csv");
    let trace = ("traces", trace.to_str().unwrap());
    let found = answered::<ConsolidateAsk>(&[trace]);
    let row = &found.data["rows"][0];
    let [each, alone] = ["every_client_iops", "sum_iops"].map(|key| row[key].to_string());
    assert_eq!(
        found.page.headline,
        format!(
            "Share one server of {each} IOPS: each of 2 clients gets 100 % within 10 ms, 1 s apart; separate servers \
             need {alone}."
        )
    );
    assert_eq!(found.page.verdict.words, "Sharing saves capacity");
    // The table has three promised shares at two shifts each.
    assert_eq!(tables(&found.page)[0].rows.len(), 6);
    let given = [("clients", "12"), ("shift", "0s"), ("within", "20ms"), ("fraction", "0.9")];
    let found = answered::<ConsolidateAsk>(&[&[trace][..], &given].concat());
    // Without a shift all bursts coincide, so a shared server needs the sum of the clients' needs.
    assert_eq!(found.page.verdict.words, "Sharing saves nothing");
    assert_eq!(tables(&found.page)[2].rows.len(), 12);
    let given = [("confidence", "0.9"), ("within", "20ms"), ("fraction", "0.9")];
    let found = answered::<ConsolidateAsk>(&[&[trace][..], &given].concat());
    let cells = &tables(&found.page)[0].rows[0].cells;
    assert!(cells.iter().any(|cell| matches!(cell, Cell::Interval { .. })), "{cells:?}");
}

/// The requests of a steady client crowd out those of a client with bursts, which the share of all
/// requests does not show.
#[test]
fn consolidate_leads_with_what_keeps_every_promise_and_names_who_binds() {
    let traces = Traces::new();
    let steady = traces.csv("steady.csv", (0..4000).map(|n| (n * 5, 4096)));
    let bursts = traces.csv("bursts.csv", (0..20).flat_map(|n| [(n * 1000, 4096); 20]));
    let both = format!("{},{}", steady.display(), bursts.display());
    let given = [("traces", both.as_str()), ("within", "10ms"), ("fraction", "0.9")];
    let given = [&given[..], &[("trust_times", "true")]].concat();
    let found = answered::<ConsolidateAsk>(&given);
    let row = &found.data["rows"][0];
    let iops = |key: &str| row[key].as_u64().unwrap();
    let (each, pooled) = (iops("every_client_iops"), iops("merged_iops"));
    assert!(pooled * 2 < each, "{row}");
    assert_eq!((&row["binding_client"], &row["worst_client"]), (&2.into(), &2.into()));
    assert!(row["binding_trace"].as_str().unwrap().ends_with("bursts.csv"), "{row}");
    let headline = &found.page.headline;
    assert!(headline.contains(&format!(" {each} IOPS")), "{headline}");
    assert!(!headline.contains(&format!(" {pooled} ")), "{headline}");
    assert!(headline.split_whitespace().count() <= 25, "{headline}");
    let why = &found.page.sections[0].blocks[0];
    let Block::Text(why) = why else { panic!("{why:?}") };
    assert!(why.starts_with("Client 2 (bursts.csv) determines the capacity"), "{why}");
    assert!(why.contains("but client 2 (bursts.csv) then gets only "), "{why}");
    assert!(why.ends_with(&format!("buy {each}.")), "{why}");
}

#[test]
fn capacity_says_how_fast_requests_come() {
    let traces = Traces::new();
    let trace = traces.bursty("t.csv");
    let found = answered::<CapacityAsk>(&[("trace", trace.to_str().unwrap()), ("within", "20ms")]);
    // The trace has a read every 20 ms, so its busiest second has 49 of them and a burst of thirty.
    assert_eq!(found.data["busiest_second_iops"], 79);
    let mean = found.data["mean_iops"].as_f64().unwrap();
    assert!((50.0..55.0).contains(&mean), "{mean}");
    let shown: Vec<&str> = found.page.key_figures.iter().map(|key| key.name.as_str()).collect();
    assert_eq!(shown, ["mean rate", "busiest second"]);
    // The burst of thirty takes 1,500 IOPS, far more than that second has.
    let Block::Text(why) = &found.page.sections[0].blocks[0] else { panic!("{:?}", found.page) };
    assert!(why.contains(" more than the 79 of the busiest second, because up to 30 "), "{why}");
    assert_eq!(found.data["busiest"][0]["requests"], 30);
    // A tenth of a second has no busiest second, and a slow trace has a rate all the same.
    let keys = |rows: &mut dyn Iterator<Item = (u64, u64)>| -> Vec<String> {
        let trace = traces.csv("u.csv", rows);
        let given = [("trace", trace.to_str().unwrap()), ("within", "20ms")];
        let keys = answered::<CapacityAsk>(&given).page.key_figures;
        keys.into_iter().map(|key| format!("{} {}", key.name, key.figure.text())).collect()
    };
    assert_eq!(keys(&mut (0..200).map(|n| (n / 2, 4096))).len(), 1);
    let slow = keys(&mut (0..200).map(|n| (n * 40_000, 4096)));
    assert_eq!(slow, ["mean rate 0.0251 IOPS", "busiest second 1 IOPS"]);
}

#[test]
fn consolidate_counts_lengths_where_they_cost() {
    let traces = Traces::new();
    let length = |n: u64| if n.is_multiple_of(40) { 1 << 20 } else { 4096 };
    let trace = traces.csv("t.csv", (0..400).map(|n| (n * 5, length(n))));
    let given = [("traces", trace.to_str().unwrap()), ("within", "20ms"), ("shift", "0s,1s")];
    let found = answered::<ConsolidateAsk>(&given);
    let cautions = found.data["cautions"].as_array().unwrap();
    assert!(cautions.last().unwrap().as_str().unwrap().ends_with("; --cost-us counts bytes too."));
    let row = &found.data["rows"][1];
    assert!(row["every_client_iops"].as_u64() > row["sum_iops"].as_u64(), "{row}");
    let harm = found.page.sections.iter().find(|of| of.title == "Do not let them share");
    assert!(harm.is_some(), "{:?}", found.page);
    let found = answered::<ConsolidateAsk>(&[&given[..], &[("cost_us", "100+20/KiB")]].concat());
    assert!(
        found.page.headline.starts_with("Share one server of speed "),
        "{}",
        found.page.headline
    );
    assert_eq!(tables(&found.page)[0].rows.len(), 6);
}

#[test]
fn power_recommends_a_plan_that_keeps_the_promise() {
    let traces = Traces::new();
    let trace = traces.bursty("web<1>.csv");
    let given = [("traces", trace.to_str().unwrap()), ("within", "100ms"), ("epoch", "20s")];
    let more = [("pool_disks", "1"), ("disk_iops", "100")];
    let found = answered::<PowerAsk>(&[&given[..], &more].concat());
    let of = &found.data["traces"][0];
    let rows = of["rows"].as_array().unwrap();
    let best = rows.iter().position(|row| row["plan"] == of["recommended"]).unwrap();
    assert_eq!(rows[best]["broken_epochs"], 0);
    let headline = &found.page.headline;
    let leads =
        ["Keep ", "Switch ", "Leave ", "One pool "].iter().any(|verb| headline.starts_with(verb));
    assert!(leads && headline.split_whitespace().count() <= 25, "{headline}");
    for table in tables(&found.page) {
        let marked = |row: &forebay_show::table::Row| matches!(row.mark, RowMark::Best(_));
        assert_eq!(table.rows.iter().position(marked), Some(best));
    }
    let both = format!("{0},{0}", trace.display());
    let given = [("traces", both.as_str()), ("within", "100ms"), ("epoch", "20s")];
    let found = answered::<PowerAsk>(&[&given[..], &more].concat());
    assert!(found.page.headline.ends_with(" of 2 traces."), "{}", found.page.headline);
    let hopeless = [("fraction", "1"), ("baseline_fraction", "0.5")];
    let found = answered::<PowerAsk>(&[&given[..], &more, &hopeless].concat());
    assert_eq!(found.data["traces"][1]["rows"].as_array().unwrap().len(), 4);
}

#[test]
fn power_says_that_a_single_pool_cannot_be_switched_off() {
    let traces = Traces::new();
    let trace = traces.csv("slow.csv", (0..200).map(|n| (n * 100, 4096)));
    let given = [("traces", trace.to_str().unwrap()), ("within", "100ms"), ("epoch", "1h")];
    let found = answered::<PowerAsk>(&[&given[..], &[("pool_disks", "4")]].concat());
    let begins = "One pool of 4 disks is enough, and cannot be switched off: ";
    assert!(found.page.headline.starts_with(begins), "{}", found.page.headline);
}

#[test]
fn buy_says_what_to_buy_and_how_to_set_it_up() {
    let traces = Traces::new();
    let trace = traces.csv("web<1>.csv", (0..200).map(|n| (n * 20, 4096)));
    let text = "currency = \"EUR\"\non = \"2026-11\"\n[drive.990-pro]\namount = 331.5\n";
    let prices = traces.file("prices.toml", text);
    let both = format!("{0},{0}", trace.display());
    let given = [
        ("traces", both.as_str()),
        ("device", "fixed:100,990-pro,hc550"),
        ("layout", "single,raid6"),
        ("within", "15ms"),
        ("spare", "2"),
        ("devices_max", "8"),
    ];
    let found = answered::<BuyAsk>(&given);
    let cautions = |data: &serde_json::Value| data["cautions"].to_string();
    assert!(!cautions(&found.data).contains("listed last"), "nothing has a price");
    let priced = [("prices", prices.to_str().unwrap())];
    let found = answered::<BuyAsk>(&[&given[..], &priced].concat());
    let headline = &found.page.headline;
    assert!(headline.starts_with("Buy 1 990-pro (single), 2 spare, for 994.50 EUR"), "{headline}");
    assert!(cautions(&found.data).contains("listed last: fixed:100, hc550. Specify --prices."));
    // Each row and each of its figures is in one table.
    let all = tables(&found.page);
    let heads = |table: &Table| -> Vec<String> {
        table.columns.iter().skip(1).map(|column| column.head.clone()).collect()
    };
    let rows: usize =
        all.iter().filter(|of| heads(of) == heads(all[0])).map(|of| of.rows.len()).sum();
    let detail = all.iter().find(|of| heads(of).contains(&"for bytes".to_string())).unwrap();
    assert!(heads(detail).iter().all(|head| !heads(all[0]).contains(head)), "{:?}", heads(detail));
    assert_eq!(detail.rows.len(), rows);
    assert!(found.data["said"].as_str().unwrap().starts_with(headline.as_str()));
    assert_eq!(found.page.key_figures[0].figure.text(), "994.50 EUR");
    let screen = terminal::text(&found.page, 80, Extent::FirstScreen);
    assert!(screen.contains("Sorted by price, prices as of 2026-11"), "{screen}");
    assert!(matches!(tables(&found.page)[0].rows[0].mark, RowMark::Best(_)));
    let commands = found.page.sections.iter().flat_map(|section| &section.blocks);
    let commands = commands.filter(|block| matches!(block, Block::Commands(_)));
    assert_eq!(commands.count(), 4);
}

/// Ninety requests show nothing, so nothing is simulated, and no figure looks like an answer.
#[test]
fn buy_recommends_nothing_for_too_few_requests() {
    let traces = Traces::new();
    let trace = traces.csv("t.csv", (0..90).map(|n| (n * 53, 4096)));
    let conf = trace.with_file_name("conf");
    let found = answered::<BuyAsk>(&[
        ("traces", trace.to_str().unwrap()),
        ("device", "hc550"),
        ("configure", conf.to_str().unwrap()),
    ]);
    let said = "Too few requests to decide: the trace has only 90 reads and writes, and at least 100 are needed.";
    assert_eq!((found.page.headline.as_str(), &found.data["said"]), (said, &said.into()));
    assert!(tables(&found.page).is_empty() && found.page.key_figures.is_empty());
    assert_eq!(found.data["rows"].as_array().unwrap().len(), 0);
    assert!(found.data["configuration"].is_null() && !conf.exists());
}

#[test]
fn buy_says_why_nothing_keeps_the_promise() {
    let traces = Traces::new();
    let trace = traces.csv("t.csv", (0..140).map(|n| (n * 53, 4096)));
    let conf = trace.with_file_name("conf");
    let found = answered::<BuyAsk>(&[
        ("traces", trace.to_str().unwrap()),
        ("device", "hc550"),
        ("within", "10us"),
        ("devices_max", "2"),
        ("configure", conf.to_str().unwrap()),
    ]);
    assert!(found.page.headline.starts_with("Nothing that was tried keeps 99 % within 10 µs"));
    assert!(found.data["configuration"].is_null() && !conf.exists());
    let why = found.page.sections.iter().find(|of| of.title == "What cannot keep the promise");
    let why = why.unwrap();
    assert_eq!(why.blocks.len(), found.data["refused"].as_array().unwrap().len());
    assert_eq!(why.place, Place::FirstScreen, "the only answer that there is");
}

/// Returns the text of a file that promises these tiers.
fn tiers(all: &[(f64, u64)]) -> String {
    let tier = |(fraction, within_ms): &(f64, u64)| {
        format!("[[tier]]\nfraction = {fraction:?}\nwithin_ms = {within_ms}\n")
    };
    all.iter().map(tier).collect()
}

#[test]
fn capacities_are_answered_by_export() {
    let traces = Traces::new();
    let names = ["db#1", "batch#1", "db#2"];
    let row =
        |n: u64| format!("{},read,{},4096,{}\n", n * 3_000_000, n << 20, names[n as usize % 3]);
    let rows: String = (0..900).map(row).collect();
    let trace = traces.file("asked.csv", &format!("at_ns,op,offset,len,stream\n{rows}"));
    let trace = ("trace", trace.to_str().unwrap());
    let inputs = [trace, ("by", "export"), ("within", "10ms"), ("fraction", "0.99")];
    let found = answered::<CapacityAsk>(&inputs);
    let rows = found.data["rows"].as_array().unwrap();
    let names: Vec<_> = rows.iter().filter_map(|row| row["stream"].as_str()).collect();
    assert_eq!(names, ["db", "batch"]);
}
