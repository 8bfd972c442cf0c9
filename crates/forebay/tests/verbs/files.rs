//! Tests of the verbs whose main result is a file: `convert`, `fit`, `generate`, `device fit` and
//! `device import`; and of `device validate`.

use std::path::Path;

use forebay::compare::CompareAsk;
use forebay::convert::verb::ConvertAsk;
use forebay::device::verb::{DeviceFitAsk, DeviceImportAsk, DeviceValidateAsk};
use forebay::model::fit::verb::FitAsk;
use forebay::model::generate::verb::GenerateAsk;

use super::{Traces, answered};

/// Returns the path of a file in the folder of `traces`, as text.
fn path(traces: &Traces, name: &str) -> String {
    traces.0.path().join(name).to_str().unwrap().to_string()
}

#[test]
fn traces_and_models_are_written() {
    let traces = Traces::new();
    let rows = traces.csv("rows.csv", (0..600).map(|n| (n * n % 7 + n * 20, 4096 << (n % 3))));
    let [copy, model, twin] = ["t.parquet", "t.model", "twin.csv"].map(|name| path(&traces, name));
    answered::<ConvertAsk>(&[("trace", rows.to_str().unwrap()), ("output", &copy)]);
    answered::<FitAsk>(&[("trace", &copy), ("output", &model)]);
    answered::<GenerateAsk>(&[("model", &model), ("output", &twin)]);
    assert!([copy, model, twin].iter().all(|path| Path::new(path).is_file()));
}

/// If a trace records no submitters, its volumes are streams, and so are those of its twin. The
/// twin of a trace with one thread has one.
#[test]
fn a_twin_has_submitters_if_the_trace_has() {
    let traces = Traces::new();
    let [model, twin] = ["t.model", "twin.parquet"].map(|name| path(&traces, name));
    for (heads, thread, weights) in
        [("volume", "", vec![2.0 / 3.0, 1.0 / 3.0]), ("volume,thread", ",7", vec![1.0])]
    {
        let row =
            |n: u64| format!("{},read,{},4096,{}{thread}\n", n * 20, n * n % 977 * 4096, n % 3 / 2);
        let rows: String = (0..900).map(row).collect();
        let trace = traces.file("t.csv", &format!("time_ms,op,offset,len,{heads}\n{rows}"));
        let trace = trace.to_str().unwrap();
        for names in [&[][..], &[("keep_names", "true")]] {
            for file in [&model, &twin] {
                std::fs::remove_file(file).ok();
            }
            answered::<FitAsk>(&[&[("trace", trace), ("output", &model)], names].concat());
            answered::<GenerateAsk>(&[("model", &model), ("output", &twin)]);
            let given = [("a", trace), ("b", &twin), ("device", "fixed:300")];
            let found = answered::<CompareAsk>(&given);
            let features = found.data["features"].as_array().unwrap().iter();
            let streams: Vec<_> = features
                .filter(|of| of["name"].as_str().unwrap().starts_with("stream_weight:"))
                .collect();
            assert_eq!(streams.len(), weights.len(), "{heads} {names:?}: {streams:?}");
            for (stream, weight) in streams.iter().zip(&weights) {
                for side in ["a", "b"] {
                    let of = stream[side].as_f64().unwrap();
                    assert!((of - weight).abs() < 0.05, "{heads} {names:?}: {streams:?}");
                }
            }
        }
    }
}

#[test]
fn drives_are_imported_fitted_and_compared_with_measured_times() {
    let traces = Traces::new();
    let seed = include_str!("../../../../fuzz/seeds/disksim/hplplus10");
    traces.file("d.diskspecs", seed);
    traces.file("m.trace", MEASURED);
    traces.file("fio.json", &sweep());
    let [drive, measured, results] =
        ["d.diskspecs", "m.trace", "fio.json"].map(|name| path(&traces, name));
    answered::<DeviceImportAsk>(&[("file", &drive)]);
    answered::<DeviceImportAsk>(&[("file", &drive), ("output", &path(&traces, "d.toml"))]);
    answered::<DeviceValidateAsk>(&[("device", "st1000nm0011"), ("trace", &measured)]);
    let fitted = [("measurements", &*results), ("output", &*path(&traces, "ssd.toml"))];
    answered::<DeviceFitAsk>(&fitted);
    answered::<DeviceValidateAsk>(&[("device", "samsung-830"), ("trace", &results)]);
}

/// A DiskSim validation trace.
const MEASURED: &str = "R Hit 10 4 5000.0 2000.0\nW Hit 14 4 900.0 20000.0\n";

/// Returns fio's results of random reads of an Intel D3-S4610 (fio-plot,
/// benchmark_data/SERVER/IBM_M1015).
fn sweep() -> String {
    let rows = [
        (1, 7816.3, 125.4, 110.1, 146.4),
        (4, 29526.56, 133.5, 119.3, 203.8),
        (32, 63110.33, 505.4, 505.9, 692.2),
    ];
    let job = |(depth, iops, mean, p50, p99): (u32, f64, f64, f64, f64)| {
        format!(
            r#"{{"jobname": "depth{depth}", "groupid": {depth}, "error": 0,
            "job options": {{"rw": "randread", "bs": "4k", "iodepth": "{depth}", "ioengine": "libaio"}},
            "read": {{"iops": {iops}, "clat_ns": {{"mean": {}, "max": {}, "percentile":
                {{"50.000000": {}, "99.000000": {}}}}}}},
            "write": {{"iops": 0.0, "clat_ns": {{"mean": 0.0}}}}}}"#,
            mean * 1e3,
            p99 * 3e3,
            p50 * 1e3,
            p99 * 1e3
        )
    };
    let jobs: Vec<String> = rows.map(job).into();
    format!("{{\"fio version\": \"fio-3.33\", \"jobs\": [{}]}}\n", jobs.join(","))
}
