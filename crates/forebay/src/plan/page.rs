//! Elements that the report pages of several plans share.

use forebay_show::figure::{Figure, Unit};
use forebay_show::page::KeyFigure;
use forebay_show::plural::counted;

/// Returns the trace and its load, for the head of a page.
pub(super) fn about_load(trace: &str, requests: u64, duration_s: f64) -> Vec<(String, String)> {
    let duration = Figure::new(duration_s, Unit::Seconds).text();
    vec![
        ("Trace".into(), trace.into()),
        ("Load".into(), format!("{} in {duration}", counted(requests, "request"))),
    ]
}

/// Returns the mean request rate; `None` if all requests arrive at the same time.
pub(super) fn mean_iops(requests: u64, duration_s: f64) -> Option<f64> {
    (duration_s > 0.0).then(|| requests as f64 / duration_s)
}

/// Builds the key figure for the mean request rate.
pub(super) fn mean_rate(mean_iops: Option<f64>) -> KeyFigure {
    key("mean rate", mean_iops.unwrap_or(f64::NAN), Unit::Iops)
}

/// Builds a key figure.
pub(super) fn key(name: &str, value: f64, unit: Unit) -> KeyFigure {
    KeyFigure { name: name.into(), before: None, figure: Figure::new(value, unit) }
}
