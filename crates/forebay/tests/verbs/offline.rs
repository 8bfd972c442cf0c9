//! Tests of `offline`.

use forebay::offline::OfflineAsk;

use super::{answered, sample};

#[test]
fn no_scheduler_beats_the_best_order() {
    let trace = sample();
    let given = [
        ("trace", &*trace),
        ("device", "sata250:plain"),
        ("policy", "noop,forebay"),
        ("windows", "4"),
        ("ios", "6"),
    ];
    let data = answered::<OfflineAsk>(&given).data;
    let rows = data["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    for row in rows {
        let [bound, best] = ["transfer_bound_s", "best_s"].map(|key| row[key].as_f64().unwrap());
        let times = row["makespan_s"].as_array().unwrap().iter();
        assert!(bound < best && times.clone().count() == 2);
        assert!(times.map(|time| time.as_f64().unwrap()).all(|time| best <= time), "{row}");
    }
    let ratios = data["policies"].as_array().unwrap().iter().map(|of| &of["over_best_ratio"]);
    assert!(ratios.map(|ratio| ratio.as_f64().unwrap()).all(|ratio| ratio >= 1.0), "{data}");
}
