//! Checks every kind of report page with [`walk`].

pub(crate) mod walk;

use forebay::report;

use self::walk::walk;

/// Pages that Python assembles: fleets, sweeps and claims.
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
