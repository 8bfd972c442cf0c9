//! Every page that a verb writes, held to what [`walk`] asks of each.

pub(crate) mod walk;

use forebay::advise::{Asked, advise, default_flash};
use forebay::devices;
use forebay::input::Input;
use forebay::progress::unheard;
use forebay::report;
use forebay::simulate::Setup;
use forebay_core::{Flags, Nanos, Op};
use forebay_trace::Record;

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
