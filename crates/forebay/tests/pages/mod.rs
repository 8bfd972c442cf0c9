//! Every page that a verb writes, held to what [`walk`] asks of each.

mod figures;
pub(crate) mod walk;

use std::path::PathBuf;

use forebay::advise::{Asked, advise, default_flash};
use forebay::devices;
use forebay::input::Input;
use forebay::plan::amount::Fraction;
use forebay::plan::arrival_times::ArrivalTimes;
use forebay::plan::buy;
use forebay::plan::capacity::Promises;
use forebay::plan::confidence::Bootstrap;
use forebay::plan::consolidate::{Begin, Consolidation, consolidate};
use forebay::plan::costed::{self, Costs, Load};
use forebay::plan::power::{Disk, Question, power};
use forebay::plan::sla::{Sla, price};
use forebay::progress::unheard;
use forebay::report::{self, ConsolidatePage, PowerPage, SlaPage};
use forebay::simulate::Setup;
use forebay_core::{Flags, Nanos, Op};
use forebay_trace::Record;

use self::figures::{number, parse, shows, table, text_of};
use self::walk::walk;

/// Of three streams, two of which fight, with bursts.
fn input() -> Input {
    let record = |n: u64| Record {
        at: Nanos::from_millis(n * 7 + (n / 100) * 300),
        offset: (n % 3) * (200 << 30) + (n.wrapping_mul(0x9E37_79B9) % 4096) * 65_536,
        latency: Some(Nanos::from_millis(3)),
        len: [4096, 16_384, 65_536][n as usize % 3],
        stream: (n % 3) as u32,
        volume: 0,
        op: if n.is_multiple_of(4) { Op::Write } else { Op::Read },
        flags: Flags::NONE,
    };
    let labels = ["<reader>", "writer & co", "\"third\""].map(String::from).to_vec();
    Input::from_records((0..1200).map(record).collect(), labels)
}

fn arrivals(name: &str, times: impl Iterator<Item = u64>) -> ArrivalTimes {
    ArrivalTimes {
        lengths: (4096, 65_536),
        path: PathBuf::from(name),
        whole: times.map(Nanos::from_millis).collect(),
        volumes: Vec::new(),
        notes: forebay_trace::Notes::default(),
    }
}

/// A request every 20 ms and, every 10 s, thirty at once.
fn bursty(name: &str) -> ArrivalTimes {
    let times =
        (0..3000u64).flat_map(|n| std::iter::repeat_n(n * 20, if n % 500 == 250 { 30 } else { 1 }));
    arrivals(name, times)
}

fn promises() -> Promises {
    let fractions = ["0.9", "0.99", "1"].map(|text| text.parse::<Fraction>().unwrap()).to_vec();
    Promises::new(vec![Nanos::from_millis(20), Nanos::from_millis(100)], fractions)
}

#[test]
fn advise_s_page_is_sound() {
    let (input, device) = (input(), devices::open("st1000nm0011").unwrap());
    let flash = default_flash().unwrap();
    let reason = "for the test".to_string();
    let advice =
        advise(&input, &device, reason, &flash, Setup::default(), Asked::default(), &mut unheard);
    walk("advise", &report::html(&advice.unwrap()));
}

#[test]
fn plan_consolidate_s_page_is_sound() {
    let all: Vec<ArrivalTimes> = (0..12).map(|k| bursty(&format!("folder/<{k}>"))).collect();
    let clients: Vec<&ArrivalTimes> = all.iter().collect();
    for (clients, shifts) in [
        (&clients[..2], vec![Nanos::ZERO]),
        (&clients[..], vec![Nanos::from_secs(1), Nanos::from_secs(5)]),
    ] {
        let begin = Begin::Together;
        let doubt = (clients.len() == 2).then_some(Bootstrap { level: 0.9, seed: 1 });
        let found = consolidate(clients, begin, &shifts, &promises(), doubt, &mut unheard).unwrap();
        let page = ConsolidatePage { clients, begin, shifts: &shifts, found: &found };
        let page = report::consolidate_html(&page);
        walk("plan consolidate", &page);
        for row in &found.rows {
            let figure = format!("<td>{}", row.merged_iops);
            assert!(page.replace('\u{202f}', "").contains(&figure), "{figure}");
        }
        assert_eq!(page.matches("id=\"bursts-").count(), 2 * shifts.len());
    }
}

#[test]
fn what_clients_need_together_stands_under_its_heading() {
    let all: Vec<ArrivalTimes> = (0..3).map(|_| bursty("t")).collect();
    let clients: Vec<&ArrivalTimes> = all.iter().collect();
    let (begin, shifts) = (Begin::Together, [Nanos::ZERO]);
    let mut found = consolidate(&clients, begin, &shifts, &promises(), None, &mut unheard).unwrap();
    let row = &mut found.rows[0];
    (row.sum_iops, row.merged_iops, row.ratio) = (4000, 1000, 0.25);
    (row.shaped_iops, row.every_client_iops) = (2000, 3000);
    (row.worst_client, row.client_fractions) = (2, vec![0.95, 0.5, 0.6]);
    fn page(clients: &[&ArrivalTimes], found: &Consolidation) -> String {
        let (begin, shifts) = (Begin::Together, &[Nanos::ZERO]);
        report::consolidate_html(&ConsolidatePage { clients, begin, shifts, found })
    }
    let text = page(&clients, &found);
    let together = table(&text, "each kept");
    let figures: Vec<f64> = together.rows[0][1..].iter().map(|cell| number(cell)).collect();
    assert_eq!(figures, [4000.0, 1000.0, 0.25, 2000.0, 3000.0], "{:?}", together.heads);
    let document = parse(&text);
    let short: Vec<String> = document
        .descendants()
        .filter(|node| node.attribute("class") == Some("loss"))
        .map(text_of)
        .collect();
    assert_eq!(short[0], "50.0\u{a0}%", "who gets least is marked");
    assert!(text.contains("Sharing saves capacity"));
    for row in &mut found.rows {
        row.every_client_iops = row.sum_iops;
    }
    assert!(page(&clients, &found).contains("Sharing saves nothing"));
}

#[test]
fn pages_of_costs_by_length_are_sound_and_have_every_speed() {
    let request =
        |n: u64| (Nanos::from_millis(n * 5), if n.is_multiple_of(40) { 1 << 20 } else { 4096 });
    let load = Load::of("<t>", (0..400).map(request).collect());
    let costs = Costs::named("100+20/KiB").unwrap();
    let has = |page: &str, speeds: &[f64]| {
        walk("costed", page);
        let shown: Vec<&str> =
            page.split("<td>").skip(1).map(|cell| &cell[..cell.find('<').unwrap()]).collect();
        for speed in speeds {
            assert!(shown.iter().any(|cell| near(cell, *speed)), "{speed} in {shown:?}");
        }
    };
    let sla = Sla::new(&[(0.9, 20.0), (1.0, 100.0)]).unwrap();
    let found = costed::sla::price(&load, costs.cost, &sla).unwrap();
    let page = report::costed_sla_html(&found, &costs);
    has(&page, &[found.tiers[0].alone_speed, found.tiers[1].alone_speed]);
    assert!(page.contains(&format!("Speed {} keeps the promise", found.fcfs_speed)));
    let shifts = [Nanos::ZERO, Nanos::from_secs(1)];
    let found = costed::consolidate::consolidate(
        &[&load, &load],
        Begin::Together,
        &shifts,
        &promises(),
        costs.cost,
    );
    let found = found.unwrap();
    let each = found
        .rows
        .iter()
        .flat_map(|row| [row.sum_speed, row.merged_speed, row.ratio, row.shaped_speed]);
    has(&report::costed_consolidate_html(&found, &costs), &each.collect::<Vec<_>>());
}

/// Whether a cell shows `figure`, to three digits.
fn near(cell: &str, figure: f64) -> bool {
    let shown: String = cell.chars().filter(|c| c.is_ascii_digit() || *c == '.').collect();
    shown.parse::<f64>().is_ok_and(|shown| (shown - figure).abs() <= figure * 0.005)
}

#[test]
fn plan_sla_s_page_is_sound() {
    let arrivals = bursty("<t>");
    let sla = Sla::new(&[(0.9, 20.0), (0.99, 50.0), (1.0, 500.0)]).unwrap();
    for capacity in [None, Some(1), Some(100_000)] {
        let price = price(&arrivals, &sla, capacity).unwrap();
        let page = report::sla_html(&SlaPage { arrivals: &arrivals, price: &price });
        walk("plan sla", &page);
        let best = page.split("class=\"best\"").nth(1).unwrap().split("</tr>").next().unwrap();
        assert!(best.contains(&format!("<td>{}</td>", price.least.capacity_iops)), "{best}");
        assert_eq!(page.contains("IOPS asked for"), capacity.is_some());
        assert_eq!(page.contains("<span class=\"loss\">no</span>"), capacity == Some(1));
        let (ways, fcfs) = (table(&page, "way"), price.fcfs_iops.unwrap() as f64);
        let (name, against) = ("separate servers", "against first come first served");
        shows(ways.cell(name, "IOPS"), price.separate_iops as f64);
        let less = 1.0 - price.separate_iops as f64 / fcfs;
        assert!(less.abs() > 0.01, "{price:?}");
        shows(ways.cell(name, against), less.abs());
        assert!(ways.cell(name, against).ends_with(if less > 0.0 { "less" } else { "more" }));
        assert_eq!(ways.cell("one server, first", against), "baseline");
        // Never more than it is, so that it can be held against the promise.
        for (row, tier) in table(&page, "promised").rows.iter().zip(&price.least.tiers) {
            let less = tier.achieved_fraction - number(&row[2]);
            assert!((-1e-9..1e-4).contains(&less), "{row:?} {tier:?}");
        }
        // The badge answers what was asked.
        let said = match capacity {
            None => "verdict good\">What the promise costs",
            Some(1) => {
                "verdict bad\">It does not keep the promise</p><h1 class=\"sentence\">1\u{a0}IOPS do not keep"
            }
            Some(_) => {
                "verdict good\">It keeps the promise</p><h1 class=\"sentence\">100000\u{a0}IOPS keep"
            }
        };
        assert!(page.contains(said), "{page}");
    }
}

#[test]
fn plan_power_s_page_is_sound() {
    let question = Question {
        within: Nanos::from_millis(100),
        fraction: "0.99".parse().unwrap(),
        baseline: Fraction::ALL,
        epoch: Nanos::from_secs(20),
        history: 1,
        pool_disks: 1,
        disk: Disk {
            name: "<disk>".into(),
            iops: 100,
            idle_w: 10.0,
            active_w: 13.0,
            standby_w: 1.0,
            spin_up_j: 150.0,
            spin_up: Nanos::from_secs(10),
        },
    };
    let arrivals = bursty("<t>");
    let found = power(&arrivals, &question).unwrap();
    let mut other = found.clone();
    (other.rows[1].broken_epochs, other.rows[1].energy_j) = (0, 1.0);
    assert_eq!(other.recommended().unwrap().plan, "static");
    for traces in [&[("<t>", &found)][..], &[("<t>", &found), ("&", &found)], &[("<t>", &other)]] {
        let page = report::power_html(&PowerPage { question: &question, traces });
        walk("plan power", &page);
        let best = traces[0].1.recommended().unwrap().plan;
        let marked = page
            .matches(&format!("class=\"best\"><th scope=\"row\" class=\"words\">{best} "))
            .count();
        assert_eq!(marked, 2 * traces.len(), "{page}");
        let found = traces[0].1;
        let drawn = table(&page, "mean power");
        for row in &found.rows {
            shows(drawn.cell(row.plan, "mean power"), row.mean_power_w);
            shows(drawn.cell(row.plan, "energy"), row.energy_j);
            shows(drawn.cell(row.plan, "mean pools"), row.mean_pools);
            shows(drawn.cell(row.plan, "late requests"), row.late_requests as f64);
            let saved = number(drawn.cell(row.plan, "less than all on"));
            assert!((saved - (1.0 - 1.0 / row.saving_ratio)).abs() < 6e-3, "{}", row.plan);
        }
        let document = parse(&page);
        let tile = document
            .descendants()
            .find(|node| node.has_tag_name("dt") && text_of(*node) == "of the requests are late");
        let late = found.recommended().unwrap().late_requests as f64 / arrivals.whole.len() as f64;
        let tile = text_of(tile.unwrap().next_sibling_element().unwrap());
        assert!((number(&tile) - late).abs() < 6e-3, "{tile}: {late}");
        let chosen: Vec<String> = document
            .descendants()
            .filter(|node| node.attribute("class") == Some("chosen"))
            .map(text_of)
            .collect();
        // Each is drawn wide and narrow.
        assert_eq!(chosen.len(), 2 * traces.len());
        assert!(chosen[0].starts_with(&format!("{best}: ")), "{chosen:?}");
    }
}

#[test]
fn plan_buy_s_page_is_sound() {
    let open = |name: &str| buy::Candidate::open(name).unwrap();
    let drives = [open("fixed:100"), open("990-pro"), open("hc550")];
    let question = buy::Question {
        promise: buy::Promise { within: Nanos::from_millis(12), fraction: "0.99".parse().unwrap() },
        own: &[],
        by: buy::By::Trace,
        begin: Begin::Together,
        trust_times: true,
        growth: 1.0,
        spare: 0,
        survives: 0,
        drives: &drives,
        layouts: &[buy::Layout::Single],
        flash: &open("d7-p5520"),
        scheduler: "mq-deadline",
        drives_max: 4,
        sharings: &[buy::Sharing::Shared],
        prices: &buy::Prices::default(),
    };
    let answer = buy::answer(&[input()], &question, &mut unheard).unwrap();
    walk("plan buy", &report::buy_html(&answer));
}

/// What Python makes pages of: fleets, sweeps, claims.
#[test]
fn a_page_put_together_elsewhere_is_sound() {
    let line = |name: &str| serde_json::json!({ "name": name, "points": [[1, 2], [2, 4.5]] });
    let told = serde_json::json!({
        "title": "<t>", "verdict": "<v>", "headline": "<h>", "findings": ["<f>"], "cautions": ["<c>"],
        "tables": [{
            "title": "<table>", "told": "above", "heads": ["name", "requests", "message", "share"],
            "rows": [["a", 12, { "said": "x".repeat(300) }, 0.5], ["b", null, "c", -1]],
        }],
        "curve": { "title": "<curve>", "along": "x", "up": "y", "points": [], "lines": [line("<a>"), line("b")] },
        "bars": { "title": "<bars>", "told": "told", "bars": [{ "name": "<a>", "size": 3 }] },
        "claims": [{
            "title": "<paper>", "told": "told",
            "claims": [{
                "verdict": "in part", "says": "<says>", "source": "p. 1", "claimed": "1", "found": "2", "reason": "why",
                "figures": [["a", "1", "2"], ["b", "3", "4"]],
            }],
        }],
    });
    walk("plain", &report::plain_html(&serde_json::from_value(told).unwrap()));
}
