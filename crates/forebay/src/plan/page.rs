//! Elements that the pages of several plans share.

use forebay_show::figure::{Figure, Unit};
use forebay_show::page::KeyFigure;
use forebay_show::plural::counted;

/// Returns the trace and its load for the head of a page.
pub(super) fn about_load(trace: &str, requests: u64, duration_s: f64) -> Vec<(String, String)> {
    let duration = Figure::new(duration_s, Unit::Seconds).text();
    vec![
        ("Trace".into(), trace.into()),
        ("Load".into(), format!("{} in {duration}", counted(requests, "request"))),
    ]
}

/// Returns the mean request rate as a key figure.
pub(super) fn mean_rate(requests: u64, duration_s: f64) -> KeyFigure {
    let rate = if duration_s > 0.0 { requests as f64 / duration_s } else { f64::NAN };
    key("mean rate", rate, Unit::Iops)
}

/// Makes a key figure.
pub(super) fn key(name: &str, value: f64, unit: Unit) -> KeyFigure {
    KeyFigure { name: name.into(), before: None, figure: Figure::new(value, unit) }
}
