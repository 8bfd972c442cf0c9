//! Elements that the report pages of several plans share.

use forebay_show::{Block, Figure, KeyFigure, Page, Place, Section, Tone, Unit, Verdict};

use crate::advise::judge::TOO_FEW;
use crate::quantities::lasting;
use forebay_words::plural::counted;

/// Returns the trace and its load, for the head of a page.
///
/// `active_s` is the duration without gaps, if gaps are nearly all of the trace.
pub(super) fn about_load(
    trace: &str,
    requests: u64,
    (duration_s, active_s): (f64, Option<f64>),
) -> Vec<(String, String)> {
    let duration = match active_s {
        None => Figure::new(duration_s, Unit::Seconds).text(),
        Some(_) => lasting(duration_s, active_s),
    };
    vec![
        ("Trace".into(), trace.into()),
        ("Load".into(), format!("{} in {duration}", counted(requests, "request"))),
    ]
}

/// Replaces the verdict and the headline, which recommend a purchase, if the trace has too few
/// reads and writes to decide anything. The figures are then only in the details.
pub(super) fn undecided(page: Page, data_requests: u64) -> Page {
    match too_few(data_requests) {
        Some(headline) => {
            let verdict = Verdict::new(Tone::Warning, "Too few requests");
            let is_notes = |block: &Block| matches!(block, Block::Notes(_));
            let is_first = |section: &Section| section.place == Place::FirstScreen;
            let detail = |section: Section| match section.blocks.iter().all(is_notes) {
                false if is_first(&section) => Section { place: Place::Detail, ..section },
                _ => section,
            };
            let sections = page.sections.into_iter().map(detail).collect();
            Page { verdict, headline, key_figures: Vec::new(), sections, ..page }
        }
        None => page,
    }
}

/// States that a trace has too few reads and writes to decide anything; `None` if it has enough.
pub(super) fn too_few(data_requests: u64) -> Option<String> {
    let has = match data_requests {
        0 => "no reads or writes".to_string(),
        1 => "only one read or write".to_string(),
        count => format!("only {count} reads and writes"),
    };
    (data_requests < TOO_FEW).then(|| {
        format!(
            "Too few requests to decide: the trace has {has}, and at least {TOO_FEW} are needed."
        )
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_requests_decide_nothing() {
        let page = |count| {
            let page = undecided(Page { headline: "Buy it.".into(), ..Page::default() }, count);
            page.headline
        };
        assert_eq!(page(TOO_FEW), "Buy it.");
        let said = "Too few requests to decide: the trace has ";
        assert_eq!(page(0), format!("{said}no reads or writes, and at least 100 are needed."));
        assert_eq!(page(1), format!("{said}only one read or write, and at least 100 are needed."));
        assert!(page(TOO_FEW - 1).starts_with(&format!("{said}only 99 reads and writes, ")));
    }
}
