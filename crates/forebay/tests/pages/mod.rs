//! Every page that a verb writes, held to what [`walk`] asks of each.

mod figures;
pub(crate) mod walk;

use std::path::Path;

use forebay::advise::{Asked, advise, default_flash};
use forebay::cache_curve::{CurveOptions, curve};
use forebay::compare::{Options, compare};
use forebay::devices;
use forebay::input::Input;
use forebay::progress::{unheard, untold};
use forebay::report::{self, RunsPage};
use forebay::simulate::{Bed, Run, Setup, run_all};
use forebay_core::{Flags, Nanos, Op};
use forebay_trace::Record;

use self::figures::{number, shows, table};
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
fn simulate_s_page_is_sound() {
    for (device, policies) in [("st1000nm0011:plain", &["noop", "cfq"][..]), ("990-pro", &["none"])]
    {
        let (input, device) = (input(), devices::open(device).unwrap());
        let runs =
            run_all(&input, Bed::of(&device), policies, Setup::default(), 1, &mut unheard).unwrap();
        let named = |run: Run| (run.result.policy.clone(), run);
        let runs: Vec<(String, Run)> = runs.into_iter().map(named).collect();
        let cylinders = forebay_core::Device::cylinders(&device.model);
        let page = report::runs_html(&RunsPage {
            trace: "<t>",
            description: &input.description,
            device: &device.name,
            cylinders,
            streams: &input.labels,
            intensity: 1.0,
            arrivals: input.arrival_rates(1.0).unwrap(),
            runs: &runs,
            least_time: None,
            findings: &["<found>".to_string()],
            cautions: &[],
        });
        walk(&device.name, &page);
        // A device without an arm has no rows of one.
        assert_eq!(page.contains(">head movements</th>"), cylinders > 0);
        // Each I/O of a short run says whose it is.
        let named = page.matches("by writer &amp; co at cylinder").count();
        assert_eq!(named > 0, cylinders > 0);
        // The lists stand below both pictures, not beside them.
        assert_eq!(page.contains("</figure></div><div class=\"lists\">"), cylinders > 0);
    }
}

#[test]
fn compare_s_page_is_sound() {
    let input = input();
    let options = Options::new(&["990-pro".to_string()], None, 1.0, 1).unwrap();
    walk("compare", &report::card_html(&compare(&input, &input, &options, &mut unheard).unwrap()));
}

#[test]
fn cache_s_page_is_sound() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/terasort.parquet");
    for sizes_blocks in [vec![], vec![100, 10_000]] {
        let mut reader = forebay_trace::open::open(&path, None).unwrap();
        let options =
            CurveOptions { block_bytes: Some(65_536), sizes_blocks, ..CurveOptions::default() };
        let curve = curve(&path, &mut *reader, &options, &mut untold).unwrap();
        let page = report::cache_html(&curve);
        walk("cache", &page);
        let shown = table(&page, "of what can be found");
        let most = 1.0 - curve.points.last().unwrap().lru_miss_ratio;
        assert!(most < 0.9 && shown.rows.len() > 3);
        for row in &shown.rows {
            let point =
                curve.points.iter().find(|point| point.size_blocks as f64 == number(&row[1]));
            let found = 1.0 - point.unwrap().lru_miss_ratio;
            shows(&row[2], found);
            shows(&row[3], found / most);
        }
    }
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
