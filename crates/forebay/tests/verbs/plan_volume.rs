//! The verb `plan volume`.

use forebay::plan::volume::VolumeAsk;
use forebay_show::page::{Block, Place};
use forebay_show::table::RowMark;
use serde_json::Value;

use super::law::refused;
use super::{Traces, answered, tables};

/// The latency of the reference figures.
const NO_LATENCY: (&str, &str) = ("base_latency", "0s");

fn rows(data: &Value) -> &Vec<Value> {
    data["rows"].as_array().unwrap()
}

/// Returns the IOPS, the MiB/s and the share in time of the first row.
fn first(data: &Value) -> (u64, u64, f64) {
    let row = &rows(data)[0];
    let whole = |key: &str| row[key].as_u64().unwrap();
    (whole("iops"), whole("mibps"), row["in_time_fraction"].as_f64().unwrap())
}

/// A hundred reads of 4 KiB at once, every second, need 9,900 IOPS to be released within 10 ms.
#[test]
fn bursts_decide_the_iops_and_lengths_the_throughput() {
    let traces = Traces::new();
    let bursts = |len: u64| (0..20).flat_map(move |s| [(s * 1000, len); 100]);
    let small = traces.csv("small.csv", bursts(4096));
    let given = |trace: &str| {
        let trace = ("trace", trace.to_string());
        let all = [("type", "gp3"), ("depth", "0s"), ("fraction", "1"), NO_LATENCY];
        let all = all.map(|(name, text)| (name, text.to_string()));
        let mut all = all.to_vec();
        all.extend([trace, ("trust_times", "true".into())]);
        all
    };
    let answer = |trace: &std::path::Path| {
        let all = given(trace.to_str().unwrap());
        let all: Vec<(&str, &str)> =
            all.iter().map(|(name, text)| (*name, text.as_str())).collect();
        answered::<VolumeAsk>(&all)
    };
    let found = answer(&small);
    assert_eq!(first(&found.data), (9900, 125, 1.0), "{}", found.data);
    let headline = &found.page.headline;
    assert_eq!(headline, "Buy ebs-gp3, 9900 IOPS and 125 MiB/s: it answers 100 % within 10 ms.");
    // One IOPS less leaves the last request of each burst late.
    let less = &rows(&found.data)[0]["cheaper"];
    assert_eq!(less[0]["iops"], 9899);
    assert_eq!(less[0]["in_time_fraction"], 0.99);
    // 64 KiB take 619 MiB/s as well, and 4 IOPS for each MiB/s.
    let large = traces.csv("large.csv", bursts(65_536));
    let (iops, mibps, share) = first(&answer(&large).data);
    assert_eq!((iops, mibps, share), (9900, 619, 1.0));
}

#[test]
fn a_deeper_volume_needs_less_and_both_ends_are_answered() {
    let traces = Traces::new();
    let trace = traces.bursty("web<1>.csv");
    let given = [("trace", trace.to_str().unwrap()), ("type", "gp3,gp2,io2,premium,ultra")];
    let found = answered::<VolumeAsk>(&given);
    let rows = rows(&found.data);
    assert_eq!(rows.len(), 10);
    let of = |kind: &str, depth_ms: f64| {
        rows.iter().find(|row| row["type"] == kind && row["depth_ms"] == depth_ms).unwrap()
    };
    for kind in ["ebs-gp3", "ebs-gp2", "ebs-io2", "azure-premium", "azure-ultra"] {
        let [shallow, deep] = [0.0, 100.0].map(|depth_ms| of(kind, depth_ms));
        assert!(shallow["keeps"] == true && deep["keeps"] == true, "{shallow} {deep}");
        for row in [shallow, deep] {
            assert!(row["in_time_fraction"].as_f64().unwrap() >= 0.99, "{row}");
            for less in row["cheaper"].as_array().unwrap() {
                assert!(less["in_time_fraction"].as_f64().unwrap() < 0.99, "{row}");
            }
        }
        let price = |row: &Value| row["price_month"].as_f64().unwrap_or(0.0);
        assert!(price(deep) <= price(shallow), "{shallow} {deep}");
    }
    assert!(of("ebs-io2", 100.0)["iops"].as_u64() < of("ebs-io2", 0.0)["iops"].as_u64());
    // Types without a price come last. Only some sizes of azure-premium have one, and P1 has none.
    let unpriced = [&rows[3], &rows[4]].map(|row| row["type"].as_str().unwrap());
    assert_eq!(unpriced, ["azure-premium", "azure-ultra"]);
    assert!(rows[3]["tier"] == "P1" && rows[3]["price_month"].is_null(), "{}", rows[3]);
    let first = &tables(&found.page)[0].rows;
    assert!(matches!(first[0].mark, RowMark::Best(_)) && first.len() == 3, "{first:?}");
    let commands = found.page.sections.iter().filter(|of| of.place == Place::FirstScreen);
    let mut commands = commands.flat_map(|section| &section.blocks);
    let is_command = |block: &&Block| matches!(block, Block::Commands(_));
    let Some(Block::Commands(lines)) = commands.find(is_command) else { panic!("no command") };
    assert!(lines[0].starts_with("aws ec2 create-volume "), "{lines:?}");
    let without = answered::<VolumeAsk>(&[given[0], ("type", "ultra"), ("depth", "0s")]);
    assert!(tables(&without.page)[0].rows.iter().all(|row| row.mark == RowMark::Plain));
}

#[test]
fn credit_lasts_once_but_not_if_the_trace_is_repeated() {
    let traces = Traces::new();
    // 1,000 a second for two minutes use up 84,000 credits more than 300 a second give back.
    let trace = traces.csv("t.csv", (0..120_000).map(|n| (n, 4096)));
    let given = [("trace", trace.to_str().unwrap()), ("type", "gp2"), ("gib", "100")];
    let gib = |credit: &str| {
        let found = answered::<VolumeAsk>(&[&given[..], &[("credit", credit)]].concat());
        rows(&found.data)[0]["gib"].as_u64().unwrap()
    };
    assert_eq!(gib("full"), 100);
    // 3 IOPS per GiB: 1,000 a second for ever.
    assert_eq!(gib("steady"), 334);
    assert!((320..=334).contains(&gib("empty")), "{}", gib("empty"));
    let found = answered::<VolumeAsk>(&[&given[..], &[("credit", "full")]].concat());
    let row = &rows(&found.data)[0];
    assert_eq!(row["burst_s"], 2000.0);
    let left = row["credit_least_share"].as_f64().unwrap();
    assert!((left - (1.0 - 84_000.0 / 5.4e6)).abs() < 1e-3, "{left}");
}

#[test]
fn what_the_users_volume_does_is_said_beside() {
    let traces = Traces::new();
    let trace = traces.bursty("t.csv");
    let given = [("trace", trace.to_str().unwrap()), ("type", "gp3"), ("current", "gp2:gib=200")];
    let found = answered::<VolumeAsk>(&given);
    let current = found.data["current"].as_array().unwrap();
    // gp2 of 200 GiB lets 3,000 a second pass while its credit lasts: 30 at once take less than 10 ms.
    assert_eq!((current.len(), &current[0]["keeps"]), (2, &true.into()));
    assert_eq!((&current[0]["price_month"], &found.data["gib"]), (&20.0.into(), &200.into()));
    let said = found.data["said"][0].as_str().unwrap();
    assert!(said.starts_with("Your ebs-gp2, 200 GiB, answers "), "{said}");
    assert!(said.ends_with("; this one costs 4.00 USD less."), "{said}");
    let wrong = |spec| refused::<VolumeAsk>(&[given[0], ("current", spec)]);
    for spec in ["gp9:gib=1", "gp2:gib=0", "iotune:total-iops-sec=100", "gp2"] {
        assert!(wrong(spec).starts_with(&format!("--current: got '{spec}': ")), "{}", wrong(spec));
    }
}

#[test]
fn what_nothing_keeps_is_said_with_what_comes_closest() {
    let traces = Traces::new();
    let trace = traces.bursty("t.csv");
    let given = [("trace", trace.to_str().unwrap()), ("type", "st1,gp3"), ("within", "500us")];
    let found = answered::<VolumeAsk>(&[&given[..], &[("trust_times", "true")]].concat());
    assert_eq!(found.page.headline, "No volume that was tried answers 99 % within 500 µs.");
    assert!(found.data["apply"].is_null());
    assert_eq!(found.page.verdict.words, "Nothing keeps the promise");
    let said = found.data["said"][0].as_str().unwrap();
    assert!(said.contains(" comes closest: with "), "{said}");
}

#[test]
fn a_promise_that_only_a_deep_volume_keeps_is_conditional() {
    let traces = Traces::new();
    let trace = traces.bursty("t.csv");
    // Nothing lets 30 at once pass within 0.1 ms one by one, but a tenth of 3,000 a second does.
    let given = [("trace", trace.to_str().unwrap()), ("type", "gp3"), ("within", "100us")];
    let found =
        answered::<VolumeAsk>(&[&given[..], &[NO_LATENCY, ("trust_times", "true")]].concat());
    let headline = &found.page.headline;
    assert!(headline.ends_with("within 100 µs, if 100 ms of the rate pass at once."), "{headline}");
    assert_eq!(found.page.verdict.words, "It depends on the depth");
    let said = found.data["said"].to_string();
    assert!(said.contains("If it is nothing, no ebs-gp3 keeps the promise."), "{said}");
}

#[test]
fn an_instance_limits_its_volumes() {
    let traces = Traces::new();
    let trace = traces.bursty("t.csv");
    let given = [("trace", trace.to_str().unwrap()), ("type", "gp3"), ("depth", "0s")];
    let limits = |iops: u64| {
        format!("baseline-iops={iops}:maximum-iops={iops}:baseline-mbps=500:maximum-mbps=500")
    };
    let with =
        |limits: &str| answered::<VolumeAsk>(&[&given[..], &[("instance", limits)]].concat());
    assert_eq!(rows(&with(&limits(50_000)).data)[0]["keeps"], true);
    // 30 at once within less than 10 ms need more.
    assert_eq!(rows(&with(&limits(1000)).data)[0]["keeps"], false);
    let said = refused::<VolumeAsk>(&[&given[..], &[("instance", "m7i.large")]].concat());
    assert!(said.starts_with("--instance: got 'm7i.large'"), "{said}");
}

#[test]
fn prices_of_the_user_replace_all_others() {
    let traces = Traces::new();
    let trace = traces.bursty("t.csv");
    let text = "currency = \"EUR\"\non = \"2026-11\"\n[volume.ebs-io2]\ngib = 0.1\niops = 0.001\n";
    let prices = traces.file("prices.toml", text);
    let given = [
        ("trace", trace.to_str().unwrap()),
        ("type", "gp3,io2"),
        ("prices", prices.to_str().unwrap()),
        ("gib", "100"),
    ];
    let found = answered::<VolumeAsk>(&given);
    let rows = rows(&found.data);
    assert_eq!((&rows[0]["type"], &rows[0]["currency"]), (&"ebs-io2".into(), &"EUR".into()));
    let iops = rows[0]["iops"].as_f64().unwrap();
    let month = rows[0]["price_month"].as_f64().unwrap();
    assert!((month - (10.0 + iops / 1000.0)).abs() < 1e-9, "{month}");
    assert!(rows[1]["price_month"].is_null(), "{}", rows[1]);
    let wrong = traces.file("wrong.toml", &text.replace("io2", "io9"));
    let given = [given[0], given[1], ("prices", wrong.to_str().unwrap())];
    let said = refused::<VolumeAsk>(&given);
    assert!(said.contains("wrong.toml: volume.ebs-io9: no type"), "{said}");
    let said = refused::<VolumeAsk>(&[given[0], ("type", "gp4")]);
    assert!(said.starts_with("--type: got 'gp4'"), "{said}");
}

/// However fast it is, a volume smaller than the data is not offered.
#[test]
fn a_volume_that_is_too_small_keeps_nothing() {
    let traces = Traces::new();
    let trace = traces.bursty("t.csv");
    let given = [("trace", trace.to_str().unwrap()), ("gib", "1000000"), ("type", "gp3,gp2")];
    let found = answered::<VolumeAsk>(&given);
    assert!(rows(&found.data).iter().all(|row| row["keeps"] == false), "{}", found.data);
    assert!(found.page.headline.starts_with("No volume"), "{}", found.page.headline);
}

/// Requests at one instant never come again, so no credit has to be earned back.
#[test]
fn one_request_needs_the_smallest_volume() {
    let traces = Traces::new();
    let trace = traces.csv("one.csv", std::iter::once((0, 4096)));
    let given = [("trace", trace.to_str().unwrap()), ("type", "gp2"), ("depth", "0s")];
    let found = answered::<VolumeAsk>(&given);
    assert_eq!(rows(&found.data)[0]["gib"], 1, "{}", found.data);
}

/// What has no price is not free, and prices in two currencies are not compared.
#[test]
fn what_is_not_priced_is_not_cheapest() {
    let traces = Traces::new();
    let trace = traces.bursty("t.csv");
    let prices = |text: &str| {
        let file = traces.file("p.toml", text);
        let given = [
            ("trace", trace.to_str().unwrap()),
            ("type", "gp3,pd-ssd"),
            ("depth", "0s"),
            ("prices", file.to_str().unwrap()),
        ];
        answered::<VolumeAsk>(&given)
    };
    let head = "currency = \"USD\"\non = \"2026-11\"\n";
    let part = prices(&format!("{head}[volume.ebs-gp3]\ngib = 0.08\n"));
    assert!(rows(&part.data).iter().all(|row| row["price_month"].is_null()), "{}", part.data);
    assert!(!part.page.headline.starts_with("Buy"), "{}", part.page.headline);
    let gp3 = "[volume.ebs-gp3]\ngib = 0.08\niops = 0.005\nmibps = 0.04\n";
    let ssd = "[volume.gcp-pd-ssd]\ncurrency = \"GBP\"\ngib = 0.0001\n";
    let both = prices(&format!("{head}{gp3}{ssd}"));
    assert_eq!(rows(&both.data)[0]["type"], "ebs-gp3", "{}", both.data);
}
