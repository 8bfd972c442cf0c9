//! Tests of `plan volume`.

use forebay::plan::volume::VolumeAsk;
use forebay_ask::{Given, Spelling, read, spelled};
use forebay_show::page::{Block, Page, Place};
use forebay_show::table::RowMark;
use forebay_show::terminal::{self, Extent};
use serde_json::Value;

use super::law::refused;
use super::{Traces, answered, sample, tables};

/// The reference figures assume no latency after the release of a request.
const NO_LATENCY: (&str, &str) = ("base_latency", "0s");

fn rows(data: &Value) -> &Vec<Value> {
    data["rows"].as_array().unwrap()
}

/// Returns the IOPS, the MiB/s and the share answered in time of the first row.
fn first(data: &Value) -> (u64, u64, f64) {
    let row = &rows(data)[0];
    let whole = |key: &str| row[key].as_u64().unwrap();
    (whole("iops"), whole("mibps"), row["in_time_fraction"].as_f64().unwrap())
}

/// Returns the lines of the commands on the first screen.
fn commands(page: &Page) -> Vec<String> {
    let first = page.sections.iter().filter(|of| of.place == Place::FirstScreen);
    let lines = first.flat_map(|section| &section.blocks).filter_map(|block| match block {
        Block::Commands(lines) => Some(lines.clone()),
        _ => None,
    });
    lines.flatten().collect()
}

/// A hundred reads of 4 KiB arrive at once every second. Releasing them within 10 ms takes 9,900
/// IOPS.
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
    // With one IOPS less, the last request of each burst is late.
    let less = &rows(&found.data)[0]["cheaper"];
    assert_eq!(less[0]["iops"], 9899);
    assert_eq!(less[0]["in_time_fraction"], 0.99);
    // Reads of 64 KiB also need 619 MiB/s, and each MiB/s requires 4 IOPS.
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
    // Types without a price come last. Only some sizes of azure-premium have a price, and P1 has
    // none.
    let unpriced = [&rows[3], &rows[4]].map(|row| row["type"].as_str().unwrap());
    assert_eq!(unpriced, ["azure-premium", "azure-ultra"]);
    assert!(rows[3]["tier"] == "P1" && rows[3]["price_month"].is_null(), "{}", rows[3]);
    let first = &tables(&found.page)[0].rows;
    assert!(matches!(first[0].mark, RowMark::Best(_)) && first.len() == 3, "{first:?}");
    let lines = commands(&found.page);
    assert!(lines[0].starts_with("aws ec2 create-volume "), "{lines:?}");
    let without = answered::<VolumeAsk>(&[given[0], ("type", "ultra"), ("depth", "0s")]);
    assert!(tables(&without.page)[0].rows.iter().all(|row| row.mark == RowMark::Plain));
}

#[test]
fn credit_lasts_once_but_not_if_the_trace_is_repeated() {
    let traces = Traces::new();
    // Two minutes of 1,000 requests per second use 84,000 credits more than a rate of 300 per
    // second earns back.
    let trace = traces.csv("t.csv", (0..120_000).map(|n| (n, 4096)));
    let given = [("trace", trace.to_str().unwrap()), ("type", "gp2"), ("gib", "100")];
    let gib = |credit: &str| {
        let found = answered::<VolumeAsk>(&[&given[..], &[("credit", credit)]].concat());
        rows(&found.data)[0]["gib"].as_u64().unwrap()
    };
    assert_eq!(gib("full"), 100);
    // To sustain 1,000 requests per second at 3 IOPS per GiB takes 334 GiB.
    assert_eq!(gib("steady"), 334);
    // A rate of 999 per second is too low in the long run, however long the credit lasts.
    let steady = answered::<VolumeAsk>(&given);
    let less = &rows(&steady.data)[0]["cheaper"][0];
    assert_eq!((&less["gib"], &less["uses_up_credit"]), (&333.into(), &true.into()));
    assert_eq!(less["in_time_fraction"], 0.0);
    let said = steady.data["said"].to_string();
    assert!(said.contains("333 GiB answer 0.00 % in time once its credit is used up"), "{said}");
    assert!((320..=334).contains(&gib("empty")), "{}", gib("empty"));
    let found = answered::<VolumeAsk>(&[&given[..], &[("credit", "full")]].concat());
    let row = &rows(&found.data)[0];
    assert_eq!(row["burst_s"], 2000.0);
    let left = row["credit_least_share"].as_f64().unwrap();
    assert!((left - (1.0 - 84_000.0 / 5.4e6)).abs() < 1e-3, "{left}");
}

#[test]
fn the_users_volume_is_shown_for_comparison() {
    let traces = Traces::new();
    let trace = traces.bursty("t.csv");
    let given = [("trace", trace.to_str().unwrap()), ("type", "gp3"), ("current", "gp2:gib=200")];
    let found = answered::<VolumeAsk>(&given);
    let current = found.data["current"].as_array().unwrap();
    // A gp2 volume of 200 GiB serves 3,000 requests per second while it has credit, so 30 at once
    // take less than 10 ms.
    assert_eq!((current.len(), &current[0]["keeps"]), (2, &true.into()));
    assert_eq!((&current[0]["price_month"], &found.data["gib"]), (&20.0.into(), &200.into()));
    let said = found.data["said"][0].as_str().unwrap();
    assert!(said.starts_with("Your ebs-gp2, 200 GiB, answers "), "{said}");
    assert!(said.ends_with("; ebs-gp3 costs 4.00 USD less."), "{said}");
    assert!(commands(&found.page)[0].starts_with("aws ec2 modify-volume "));
    let other = [given[0], ("type", "pd-ssd"), given[2]];
    let other = answered::<VolumeAsk>(&other);
    assert!(commands(&other.page)[0].starts_with("gcloud compute disks create "));
    let wrong = |spec| refused::<VolumeAsk>(&[given[0], ("current", spec)]);
    let instance = "ebs-instance:baseline-iops=9:maximum-iops=9:baseline-mbps=9:maximum-mbps=9";
    for spec in ["gp9:gib=1", "gp2:gib=0", "iotune:total-iops-sec=100", "gp2", instance] {
        assert!(wrong(spec).starts_with(&format!("--current: got '{spec}': ")), "{}", wrong(spec));
    }
    // Only volumes are named, not drives.
    let text = wrong("gp9:gib=1");
    assert!(
        text.contains("no volume type 'gp9' (did you mean gp3?); `forebay devices` lists all"),
        "{text}"
    );
    assert!(!text.contains("hc550"), "{text}");
}

/// A customer of one provider is not told to move to another for a lower price.
#[test]
fn customers_stay_with_their_provider() {
    let traces = Traces::new();
    let trace = traces.bursty("t.csv");
    let text = "currency = \"USD\"\non = \"2026-11\"\n[volume.ebs-gp3]\ngib = 1\niops = [[80000, 0]]\n\
                mibps = [[2000, 0]]\n[volume.ebs-gp2]\ngib = 2\n[volume.gcp-pd-ssd]\ngib = 0.0001\n";
    let prices = traces.file("prices.toml", text);
    let given = [
        ("trace", trace.to_str().unwrap()),
        ("type", "gp3,gp2,pd-ssd"),
        ("prices", prices.to_str().unwrap()),
    ];
    let answer = |more: &[(&str, &str)]| answered::<VolumeAsk>(&[&given[..], more].concat());
    assert!(answer(&[]).page.headline.starts_with("Buy gcp-pd-ssd, "));
    for (option, value) in [("current", "gp3:gib=100"), ("instance", "m7i.large")] {
        let found = answer(&[(option, value)]);
        let headline = &found.page.headline;
        assert!(headline.contains(" ebs-gp3") && !headline.contains("gcp"), "{headline}");
        let begin = if option == "current" { "Keep ebs-gp3, " } else { "Buy ebs-gp3, " };
        assert!(headline.starts_with(begin), "{headline}");
        let said = found.data["said"].to_string();
        assert!(said.contains("\"Elsewhere: gcp-pd-ssd, "), "{said}");
        let table = &tables(&found.page)[0];
        assert_eq!(table.rows.len(), 2, "{table:?}");
        assert_eq!(table.rows[0].mark, RowMark::Best("cheapest ebs-*".into()));
        assert!(commands(&found.page).iter().all(|line| !line.contains("gcloud")));
    }
    assert_eq!(rows(&answer(&[("current", "gp3:gib=100")]).data)[2]["type"], "gcp-pd-ssd");
    // Another setting of the same type is not another volume.
    let found = answer(&[("current", "gp3:gib=100:mibps=700")]);
    let headline = &found.page.headline;
    assert!(headline.starts_with("Change your ebs-gp3 to "), "{headline}");
    let said = found.data["said"].to_string();
    assert!(said.contains(" MiB/s cost ") && !said.contains("; ebs-gp3 costs"), "{said}");
    // Google's customers stay as well, and a provider without a suitable volume is named.
    let found = answer(&[("current", "pd-ssd:gib=100")]);
    assert!(!found.data["said"].to_string().contains("Elsewhere"), "{}", found.data["said"]);
    let given = [given[0], ("type", "pd-ssd"), ("current", "gp3:gib=100")];
    let said = answered::<VolumeAsk>(&given).data["said"].to_string();
    assert!(said.contains("No volume of your provider (ebs-*) keeps the promise."), "{said}");
}

/// The column of prices at another bucket depth is explained on the same screen.
#[test]
fn the_unknown_depth_is_explained_on_the_first_screen() {
    let traces = Traces::new();
    let trace = traces.bursty("t.csv");
    for more in [&[][..], &[("current", "gp2:gib=200")], &[("type", "gp2,premium")]] {
        let given = [&[("trace", trace.to_str().unwrap())], more].concat();
        let found = answered::<VolumeAsk>(&given);
        let screen = terminal::text(&found.page, 80, Extent::FirstScreen);
        assert!(screen.contains("may burst"), "{screen}");
        assert!(screen.contains("Providers do not document how large a burst"), "{screen}");
        assert!(screen.lines().count() <= 24, "{screen}");
    }
}

#[test]
fn unkeepable_promises_are_reported_with_the_reason() {
    let traces = Traces::new();
    let trace = traces.bursty("t.csv");
    let given = [("trace", trace.to_str().unwrap()), ("type", "st1,gp3"), ("within", "500us")];
    let found = answered::<VolumeAsk>(&[&given[..], &[("trust_times", "true")]].concat());
    assert_eq!(found.page.headline, "No volume that was tried answers 99 % within 500 µs.");
    assert!(found.data["apply"].is_null());
    assert_eq!(found.page.verdict.words, "Nothing keeps the promise");
    let said = found.data["said"][0].as_str().unwrap();
    let too_soon = "No volume answers even a single request in time: the fastest one takes 700";
    assert!(said.contains(too_soon), "{said}");
}

/// Where a type's speed follows from its size, most of the volume may be empty.
#[test]
fn a_volume_that_is_bought_for_its_speed_says_so() {
    let traces = Traces::new();
    let trace = traces.bursty("t.csv");
    let given = [("trace", trace.to_str().unwrap()), ("type", "pd-ssd"), ("depth", "0s")];
    let said = |more: &[(&str, &str)]| -> Vec<String> {
        let found = answered::<VolumeAsk>(&[&given[..], more].concat());
        serde_json::from_value(found.data["said"].clone()).unwrap()
    };
    let small = said(&[]);
    let (data, rest) = small[0].split_once(" GiB; the rest of the ").unwrap();
    assert_eq!(data, "The data need only 1");
    assert!(rest.contains(" GiB is bought for its speed.") && rest.contains("(--gib "), "{rest}");
    let large = said(&[("gib", "900")]);
    assert!(!large[0].contains("bought for its speed"), "{large:?}");
    // A promise of twice the assumed base latency rests on it.
    let tight = said(&[("base_latency", "6ms")]).join(" ");
    assert!(tight.contains("This relies on a base latency that is assumed"), "{tight}");
    assert!(!small.join(" ").contains("This relies on"), "{small:?}");
}

/// A few requests at a high address do not make the volume so large without a word.
#[test]
fn a_size_of_mostly_unused_addresses_is_said_to_be_one() {
    let traces = Traces::new();
    let row = |n: u64| format!("{},read,{},4096\n", n * 20, n % 50 * 65_536 + n % 2 * (4000 << 30));
    let text = "time_ms,op,offset,len\n".to_string();
    let trace = traces.file("far.csv", &(0..400).map(row).fold(text, |all, row| all + &row));
    let given = [("trace", trace.to_str().unwrap()), ("type", "gp2,gp3"), ("depth", "0s")];
    let found = answered::<VolumeAsk>(&given);
    let said = found.data["said"][0].as_str().unwrap().to_string();
    let begins =
        "The 4001 GiB are the highest address of the trace. Without long unused gaps it is ";
    assert!(said.starts_with(begins), "{said}");
    assert!(said.contains(", of which requests touch 200 KiB."), "{said}");
    assert!(said.ends_with("specify its size (--gib 1)."), "{said}");
    let screen = terminal::text(&found.page, 80, Extent::FirstScreen);
    assert!(screen.contains("(--gib 1)"), "{screen}");
    let named = answered::<VolumeAsk>(&[&given[..], &[("gib", "1")]].concat());
    assert!(!named.data["said"].to_string().contains("highest address"), "{}", named.data["said"]);
}

#[test]
fn a_promise_that_only_a_deep_volume_keeps_is_conditional() {
    let traces = Traces::new();
    let trace = traces.bursty("t.csv");
    // Released one by one, 30 requests cannot pass within 0.1 ms on any volume, but they can if a
    // tenth of 3,000 may pass at once.
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
    // To release 30 at once within less than 10 ms takes more than the instance's 1,000 IOPS.
    assert_eq!(rows(&with(&limits(1000)).data)[0]["keeps"], false);
    let named = with("m7i.large").data["cautions"].to_string();
    assert!(named.contains("The limits of m7i.large are those of: Amazon EC2"), "{named}");
    let said = refused::<VolumeAsk>(&[&given[..], &[("instance", "m7i.larg")]].concat());
    assert!(said.contains("'m7i.larg': no known EC2 instance (did you mean m7i.large?)"), "{said}");
    let said = refused::<VolumeAsk>(&[&given[..], &[("instance", "baseline-iops=9")]].concat());
    assert!(said.starts_with("--instance: got 'baseline-iops=9': "), "{said}");
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

/// A volume that is smaller than the data is not offered, however fast it is.
#[test]
fn a_volume_that_is_too_small_keeps_nothing() {
    let traces = Traces::new();
    let trace = traces.bursty("t.csv");
    let given = [("trace", trace.to_str().unwrap()), ("gib", "1000000"), ("type", "gp3,gp2")];
    let found = answered::<VolumeAsk>(&given);
    assert!(rows(&found.data).iter().all(|row| row["keeps"] == false), "{}", found.data);
    assert!(found.page.headline.starts_with("No volume"), "{}", found.page.headline);
}

/// Requests that all arrive at the same time never repeat, so no credit has to be earned back.
#[test]
fn one_request_needs_the_smallest_volume() {
    let traces = Traces::new();
    let trace = traces.csv("one.csv", std::iter::once((0, 4096)));
    let given = [("trace", trace.to_str().unwrap()), ("type", "gp2"), ("depth", "0s")];
    let found = answered::<VolumeAsk>(&given);
    assert_eq!(rows(&found.data)[0]["gib"], 1, "{}", found.data);
    // One request decides nothing, so there is no command to buy a volume.
    let headline = &found.page.headline;
    assert!(headline.starts_with("Too few requests to decide: "), "{headline}");
    assert!(commands(&found.page).is_empty() && found.data["apply"].is_null());
    // Figures of so few requests are only details.
    let screen = terminal::text(&found.page, 80, Extent::FirstScreen);
    assert!(found.page.key_figures.is_empty() && !screen.contains("ebs-gp2"), "{screen}");
}

/// A volume without a price does not count as free, and prices in different currencies are not
/// compared.
#[test]
fn unpriced_volumes_are_never_the_cheapest() {
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

/// The depth, latency, credit and merging of the user's volume are those in its spec.
#[test]
fn the_users_volume_is_taken_as_it_is_described() {
    let traces = Traces::new();
    // Every second, forty sequential reads of 64 KiB arrive at once; if the volume merges them,
    // they count as ten units.
    let trace = traces.csv("t.csv", (0..60).flat_map(|s| [(s * 1000, 65_536); 40]));
    let current = |spec: &str| {
        let given = [("trace", trace.to_str().unwrap()), ("type", "gp3"), ("current", spec)];
        answered::<VolumeAsk>(&[&given[..], &[("trust_times", "true")]].concat()).data["current"]
            .clone()
    };
    let share = |row: &Value| row["in_time_fraction"].as_f64().unwrap();
    let plain = current("gp3:gib=100:mibps=700");
    assert_eq!(plain.as_array().unwrap().len(), 2);
    let merged = current("gp3:gib=100:mibps=700:merge=on");
    assert!(share(&merged[0]) > share(&plain[0]), "{merged} {plain}");
    let deep = current("gp3:gib=100:mibps=700:depth-ms=1000:latency-us=20000");
    assert_eq!(deep.as_array().unwrap().len(), 1);
    assert_eq!((&deep[0]["depth_ms"], &deep[0]["base_read_ms"]), (&1000.0.into(), &20.0.into()));
    assert_eq!(share(&deep[0]), 0.0);
    let empty = current("gp2:gib=100:start=0");
    assert!(share(&empty[0]) < share(&current("gp2:gib=100")[0]), "{empty}");
}

#[test]
fn a_volume_that_needs_no_change_is_kept() {
    let traces = Traces::new();
    let trace = traces.csv("t.csv", (0..100).map(|n| (n * 50, 4096)));
    let given = [("trace", trace.to_str().unwrap()), ("type", "gp3"), ("current", "gp3:gib=9")];
    let found = answered::<VolumeAsk>(&[&given[..], &[("trust_times", "true")]].concat());
    assert!(found.page.headline.starts_with("Keep ebs-gp3, 3000 IOPS"), "{}", found.page.headline);
    assert_eq!(commands(&found.page), Vec::<String>::new());
    let said = found.data["said"][0].as_str().unwrap();
    assert!(said.ends_with("(0.72 USD a month); keep it."), "{said}");
}

#[test]
fn sizes_beyond_a_price_list_have_no_price() {
    let traces = Traces::new();
    // A burst of 200 requests needs 19,900 IOPS.
    let trace = traces.csv("t.csv", (0..20).flat_map(|s| [(s * 1000, 4096); 200]));
    let text = "currency = \"USD\"\non = \"2026-11\"\n[volume.ebs-gp3]\ngib = 0.08\n\
                iops = [[3000, 0], [16000, 0.005]]\nmibps = [[125, 0], [1000, 0.04]]\n";
    let prices = traces.file("p.toml", text);
    let given = [
        ("trace", trace.to_str().unwrap()),
        ("type", "gp3"),
        ("depth", "0s"),
        ("fraction", "1"),
        ("prices", prices.to_str().unwrap()),
        ("trust_times", "true"),
        NO_LATENCY,
    ];
    let found = answered::<VolumeAsk>(&given);
    assert_eq!(first(&found.data), (19_900, 125, 1.0), "{}", found.data);
    assert!(rows(&found.data)[0]["price_month"].is_null());
    let cautions = found.data["cautions"].to_string();
    assert!(
        cautions
            .contains("The prices of the following are unknown, so they are not ranked: ebs-gp3"),
        "{cautions}"
    );
}

#[test]
fn the_cheapest_type_at_the_other_depth_is_said_if_it_is_another() {
    let traces = Traces::new();
    // Released one by one, 40 requests at once need more than the 3,000 IOPS of a small gp2 volume.
    let burst = |n: u64| if n % 50 == 25 { 40 } else { 1 };
    let rows = (0..300).flat_map(|n| std::iter::repeat_n((n * 200, 4096), burst(n)));
    let trace = traces.csv("t.csv", rows);
    let text = "currency = \"USD\"\non = \"2026-11\"\n[volume.ebs-gp2]\ngib = 0.05\n\
                [volume.ebs-gp3]\ngib = 0.08\niops = [[3000, 0], [80000, 0.005]]\nmibps = 0\n";
    let prices = traces.file("p.toml", text);
    let given = [
        ("trace", trace.to_str().unwrap()),
        ("type", "gp2,gp3"),
        ("prices", prices.to_str().unwrap()),
    ];
    let found = answered::<VolumeAsk>(&given);
    assert!(found.page.headline.starts_with("Buy ebs-gp3, "), "{}", found.page.headline);
    let said = found.data["said"].to_string();
    let other = "If it is 100 ms of the rate, ebs-gp2, 1 GiB (0.05 USD a month), is the cheapest.";
    assert!(said.contains(other), "{said}");
    let screen = terminal::text(&found.page, 80, Extent::FirstScreen);
    let words: Vec<&str> = screen.split_whitespace().collect();
    assert!(words.join(" ").contains("is the cheapest."), "{screen}");
}

/// The volume's file has no knobs, like one that `device probe` wrote.
#[test]
fn a_measured_volume_is_asked_whether_it_keeps_the_promise() {
    let traces = Traces::new();
    let trace = traces.bursty("t.csv");
    let answer = |rate: u64, more: &[(&str, &str)]| {
        let text = format!(
            "kind = \"volume\"\nname = \"mine\"\ndescription = \"measured\"\n\
             capacity_bytes = 107374182400\n[[bucket]]\nof = \"ops\"\nrate = {rate}\ndepth = 2\n\
             [latency]\nread_us = 200\nwrite_us = 200\n[evidence]\nbasis = \"measured\"\n"
        );
        let file = traces.file("mine.toml", &text);
        let given = [("trace", trace.to_str().unwrap()), ("type", file.to_str().unwrap())];
        answered::<VolumeAsk>(&[&given[..], more].concat())
    };
    let fast = answer(5000, &[]);
    assert_eq!(fast.page.headline, "Keep mine, as it is: it answers 99 % within 10 ms.");
    assert_eq!(
        (&rows(&fast.data)[0]["gib"], &fast.data["apply"]["create"]),
        (&100.into(), &Value::Null)
    );
    let slow = answer(500, &[]);
    assert_eq!(rows(&slow.data)[0]["keeps"], false);
    let said = slow.data["said"][0].as_str().unwrap();
    assert!(said.starts_with("mine, as it is, comes closest: it answers "), "{said}");
    assert_eq!(rows(&answer(5000, &[("gib", "101")]).data)[0]["keeps"], false);
    let text = "currency = \"EUR\"\non = \"2026-11\"\n[volume.mine]\nmonth = 25\n";
    let prices = traces.file("p.toml", text);
    let priced = answer(5000, &[("prices", prices.to_str().unwrap())]);
    assert_eq!(rows(&priced.data)[0]["price_month"], 25.0);
}

#[test]
fn types_that_are_not_sold_are_not_offered() {
    let traces = Traces::new();
    let trace = traces.bursty("t.csv");
    for wrong in ["iotune", "gp4", "ebs-instance"] {
        let said = refused::<VolumeAsk>(&[("trace", trace.to_str().unwrap()), ("type", wrong)]);
        assert!(said.contains("`forebay devices` lists"), "{said}");
        let is_named = |name| said.contains(&format!("mean {name}?"));
        assert!(!["iotune", "iomax", "ebs-instance"].into_iter().any(is_named), "{said}");
    }
}

/// If throughput requires IOPS, the setting is still a corner: one step less in either is not
/// enough.
#[test]
fn one_step_less_is_never_enough() {
    let traces = Traces::new();
    for (number, len) in [(12, 262_144), (25, 1 << 20), (7, 700_000), (40, 131_072)] {
        let bursts = (0..20).flat_map(|s| std::iter::repeat_n((s * 1000, len), number));
        let trace = traces.csv("t.csv", bursts.chain((20_000..20_200).map(|ms| (ms, 4096))));
        let given = [("trace", trace.to_str().unwrap()), ("trust_times", "true")];
        let found = answered::<VolumeAsk>(&given);
        for row in rows(&found.data).iter().filter(|row| row["keeps"] == true) {
            for less in row["cheaper"].as_array().unwrap() {
                assert!(less["in_time_fraction"].as_f64() < Some(0.99), "{row}");
            }
        }
    }
}

/// Counters of a trace never need more than the trace itself, and the answer says that it is a
/// lower bound.
#[test]
fn counters_give_a_lower_bound() {
    let traces = Traces::new();
    // There is a read every 20 ms, thirty at once every 10 s, and 6,000 in the last second.
    let trace = {
        let burst = |n: u64| if n % 500 == 250 { 30 } else { 1 };
        let calm = (0..3000).flat_map(|n| std::iter::repeat_n((n * 20, 4096), burst(n)));
        traces.csv("t.csv", calm.chain((0..6000).map(|n| (60_000 + n / 6, 4096))))
    };
    let mut text = "time,read_ops,write_ops,read_bytes,write_bytes\n".to_string();
    for second in 0..60 {
        let ops = if second % 10 == 5 { 79 } else { 50 };
        text += &format!("{},{ops},0,{},0\n", second + 1, ops * 4096);
    }
    text += "61,6000,0,24576000,0\n62,what\n";
    let counters = traces.file("c.csv", &text);
    let given = [("type", "gp3"), ("depth", "0s"), ("fraction", "1"), NO_LATENCY];
    let with = |source: (&str, &str)| answered::<VolumeAsk>(&[&given[..], &[source]].concat());
    let bound = with(("from_counters", counters.to_str().unwrap()));
    let exact = answered::<VolumeAsk>(
        &[&given[..], &[("trace", trace.to_str().unwrap()), ("trust_times", "true")]].concat(),
    );
    // The lower bound is the rate at which the 6,000 requests of the last second pass within 1.01
    // s.
    let (iops, _, share) = first(&bound.data);
    assert_eq!((iops, share), (5940, 1.0));
    assert!(first(&exact.data).0 >= iops, "{}", exact.data);
    let less = &rows(&bound.data)[0]["cheaper"][0];
    assert!(less["iops"] == 5939 && less["in_time_fraction"].as_f64() < Some(1.0), "{less}");
    assert_eq!(
        (&bound.data["counters"]["intervals"], &bound.data["counters"]["bad_rows"]),
        (&61.into(), &1.into())
    );
    let headline = &bound.page.headline;
    let expected =
        "At least ebs-gp3, 5940 IOPS and 125 MiB/s: less cannot answer 100 % within 10 ms.";
    assert_eq!((headline.as_str(), bound.page.verdict.words.as_str()), (expected, "A lower bound"));
    let said = bound.data["said"][0].as_str().unwrap();
    assert!(said.starts_with("This is a lower bound: the counters do not show"), "{said}");
    let cautions = bound.data["cautions"].to_string();
    assert!(cautions.contains("1 row could not be read and is left out (line 63: "), "{cautions}");
    assert!(cautions.contains("Counters record no size: 1 GiB is assumed ("), "{cautions}");
    // No command is shown, because it would create a volume that may be too small.
    assert_eq!(commands(&bound.page), Vec::<String>::new());
    let all = [("type", "gp2,io2,premium,ultra,st1,pd-standard"), ("growth", "2")];
    let file = ("from_counters", counters.to_str().unwrap());
    let every = answered::<VolumeAsk>(&[&all[..], &[file, ("current", "gp2:gib=10")]].concat());
    assert!(rows(&every.data).iter().any(|row| row["keeps"] == true), "{}", every.data);
    assert!(every.data["current"][0]["in_time_fraction"].as_f64() < Some(1.0));
}

#[test]
fn counters_and_a_trace_exclude_each_other() {
    let traces = Traces::new();
    let trace = traces.bursty("t.csv");
    let file = ("from_counters", trace.to_str().unwrap());
    let unread = |more: (&str, &str), given: (&str, &str)| {
        let mut all = Given::default();
        for (name, text) in [more, given] {
            all.text(name, text);
        }
        let wrong = read::<VolumeAsk>(&all).map(drop).unwrap_err();
        (wrong.input, spelled(&wrong.message, Spelling::Command))
    };
    let (input, said) = unread(file, ("trace", "t.csv"));
    assert_eq!(input, "from_counters");
    assert_eq!(said, "cannot be combined with --trace; leave one of them out");
    let (_, said) = unread(("trace", "t.csv"), ("disk", "vda"));
    assert_eq!(said, "has an effect only with --from-counters; add it");
    let none = refused::<VolumeAsk>(&[]);
    assert_eq!(none, "--trace: missing; expected a trace, or --from-counters");
    let other = refused::<VolumeAsk>(&[file]);
    assert!(
        other.contains("t.csv: line 1: got 'time_ms,op,offset,len', expected the columns"),
        "{other}"
    );
}

#[test]
fn a_price_has_an_interval_that_contains_it() {
    let traces = Traces::new();
    // Bursts have 31 to 90 requests, so some resamples contain more of the large ones.
    let burst = |n: u64| if n % 10 == 5 { 31 + n as usize % 60 } else { 1 };
    let rows = (0..2000).flat_map(|n| std::iter::repeat_n((n * 37, 4096), burst(n)));
    let trace = traces.csv("t.csv", rows);
    let given = [("trace", trace.to_str().unwrap()), ("type", "gp3"), ("trust_times", "true")];
    let of = |more: &[(&str, &str)]| {
        let found = answered::<VolumeAsk>(&[&given[..], more].concat());
        let row = self::rows(&found.data)[0].clone();
        let figure = |key: &str| row[key].as_f64();
        (figure("price_low_month"), figure("price_month"), figure("price_high_month"))
    };
    let (low, month, high) = of(&[("confidence", "0.95")]);
    assert!(low <= month && month <= high && low < high, "{low:?} {month:?} {high:?}");
    assert!(high > Some(0.08), "{high:?}");
    let (narrow_low, _, narrow_high) = of(&[("confidence", "0.5")]);
    assert!(narrow_low >= low && narrow_high <= high);
    let all = of(&[("confidence", "0.95"), ("fraction", "1")]);
    assert!(all.2 == all.1, "no resample needs more than the trace: {all:?}");
    assert_eq!(of(&[]).0, None);
}

#[test]
fn every_row_on_the_first_screen_is_replayed_both_ways() {
    let sample = sample();
    let given = [("trace", sample.as_str()), ("within", "50ms")];
    let found = answered::<VolumeAsk>(&given);
    let shown = tables(&found.page)[0].rows.len();
    for row in &rows(&found.data)[..shown] {
        assert!(row["dependent_in_time_fraction"].as_f64() > Some(0.9), "{row}");
    }
}
