//! The reports of the verbs: HTML pages that work offline.
//!
//! Invariants: the page refers to nothing outside itself, and the one script that it may hold (zoom in time) is its own
//! and could be left out; every text from outside is escaped; no figure is printed that is not a number; the page is well-formed XML and
//! its size has a bound that does not depend on the trace. Pictures are SVG written here, not by a
//! plotting library, because their colours follow the reader's light or dark scheme.

mod claims;
mod closer;
mod figures;
pub(crate) mod heads;
mod load;
mod page;
pub(crate) mod pictures;
mod plain;
mod tables;

pub use claims::{ClaimCard, ClaimGroup, ClaimVerdict};
pub use plain::{
    AlongUnit, PlainBar, PlainBars, PlainCell, PlainCurve, PlainLine, PlainPage, PlainTable,
};

use std::io::Read;
use std::path::Path;

use forebay_trace::TraceError;
use forebay_trace::write::{Draft, Kept};

use crate::advise::Advice;
use crate::error::Error;
use crate::words;

/// The report on `advice` as a document that stands by itself.
pub fn html(advice: &Advice) -> String {
    page::page(advice)
}

/// A value of JSON as pages have it: [`words::shown`] in print's figures.
pub fn shown_value(key: &str, value: f64) -> String {
    forebay_show::html::text::typeset(&words::shown(key, value))
}

/// A page of sentences and tables that were put together elsewhere.
pub fn plain_html(told: &PlainPage) -> String {
    plain::page(told)
}

/// Begins the report that will be called `path`, before the work that it tells of; it has its name
/// only when it is whole. None of `kept` is ever written over, nor a file that is no page.
pub fn begin(path: &Path, kept: &Kept) -> Result<Draft, Error> {
    let draft = Draft::new(path, kept).map_err(cannot)?;
    match is_page_or_new(path) {
        true => Ok(draft),
        false => Err(Error::Unfit(format!(
            "{}: got a file that is no page, expected a new name or that of a page to be replaced",
            path.display()
        ))),
    }
}

/// Whether a report may have this name: it is free, or that of a page or of an empty file.
fn is_page_or_new(path: &Path) -> bool {
    let mut begins = [0; 9];
    let read = std::fs::File::open(path).and_then(|mut file| file.read(&mut begins));
    read.map_or(true, |read| begins[..read].eq_ignore_ascii_case(&b"<!DOCTYPE"[..read]))
}

/// Writes a report that was begun.
pub fn write(draft: Draft, html: &str) -> Result<(), Error> {
    draft.fill(html.as_bytes()).map_err(cannot)
}

fn cannot(error: TraceError) -> Error {
    match error {
        TraceError::Io { path, source } => Error::Report { path, source },
        usage => Error::Trace(usage),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::sample::advice;

    fn parse(page: &str) -> roxmltree::Document<'_> {
        let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
        roxmltree::Document::parse_with_options(page, options).unwrap()
    }

    /// What a reader reads, the style sheet left out.
    fn read(page: &str) -> String {
        let document = parse(page);
        let texts = document.descendants().filter(|node| node.is_text());
        let read = texts.filter(|node| !node.parent().is_some_and(|p| p.has_tag_name("style")));
        read.filter_map(|node| node.text()).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn says_the_headline_and_names_each_policy() {
        let page = html(&advice());
        let read = read(&page);
        assert!(read.contains(&forebay_show::prose::joined(&advice().headline)));
        for policy in ["noop", "deadline", "cfq", "bid"] {
            assert!(read.contains(policy), "{policy}");
        }
        // Each remedy that is recommended, and the scheduler that is.
        let recommended = advice().remedies.iter().filter(|remedy| remedy.recommended).count();
        assert_eq!(page.matches("class=\"best\"").count(), recommended + 1);
        assert!(read.contains("53.0\u{a0}% less"), "{read}");
    }

    #[test]
    fn refers_to_nothing_outside() {
        let page = html(&advice());
        // The one script is the page's own: pictures are read by keys, and zoomed.
        assert!(page.contains("ArrowRight") && page.contains("Zoom in"));
        assert_eq!(page.matches("<script").count(), 1);
        for reference in ["http", "src=", "href=", "url(", "@import"] {
            assert!(!page.contains(reference), "{reference}");
        }
        assert!(page.len() < 600_000, "{}", page.len());
    }

    #[test]
    fn names_from_outside_stay_names() {
        let mut advice = advice();
        let hostile = "<script>alert('\"&')</script>\0]]>".to_string();
        advice.trace = hostile.clone();
        advice.headline = hostile.clone();
        advice.findings.push(hostile.clone());
        advice.remedies[1].reason = hostile.clone();
        advice.flash_device = hostile.clone();
        for run in &mut advice.runs {
            run.figures.streams[0].stream = hostile.clone();
            run.contention.fights[0].stream_a = hostile.clone();
        }
        let page = html(&advice);
        assert!(!page.contains("<script>alert"));
        assert!(read(&page).matches("<script>alert('\"&')</script>\u{fffd}").count() >= 5);
    }

    #[test]
    fn what_is_no_number_is_not_printed() {
        let mut advice = advice();
        for wrong in [f64::NAN, f64::INFINITY] {
            advice.ranking[0].total_s = wrong;
            advice.ranking[1].gain_share = Some(wrong);
            advice.runs[0].figures.busy_s = wrong;
            advice.runs[1].figures.seek_s = wrong;
            advice.runs[1].figures.read_p99_ms = Some(wrong);
            advice.runs[0].figures.streams[0].busy_share = wrong;
            advice.pictures.arrivals[3].1 = wrong;
            advice.pictures.runs[0].1.read_distribution[5].0 = wrong;
            let page = html(&advice);
            let figures = page.split("</style>").nth(1).unwrap();
            assert!(!figures.contains("NaN") && !figures.contains("inf"));
            parse(&page);
        }
    }

    #[test]
    fn what_does_not_exist_is_left_out() {
        let mut advice = advice();
        let whole = html(&advice);
        assert!(whole.contains("id=\"writes-t\"") && whole.contains("id=\"spent-t\""));
        assert!(whole.contains("of busy time moving heads"));
        assert!(whole.contains("Busy time, which is the total above"));
        advice.pictures.cylinders = 0;
        for (_, run) in &mut advice.pictures.runs {
            run.write_distribution.clear();
        }
        let page = html(&advice);
        assert!(!page.contains("id=\"heads-0-t\"") && !page.contains("id=\"writes-t\""));
        assert!(!page.contains("of busy time moving heads") && !page.contains("id=\"spent-t\""));
        assert!(page.contains("id=\"reads-t\""));
        advice.pictures.runs.clear();
        advice.pictures.arrivals.clear();
        advice.runs.clear();
        advice.ranking.clear();
        parse(&html(&advice));
    }

    #[test]
    fn the_time_that_heads_are_moved_is_a_share_of_all_busy_time() {
        let mut advice = advice();
        for run in advice
            .runs
            .iter_mut()
            .chain(advice.pictures.runs.iter_mut().map(|(_, run)| &mut run.result))
        {
            let figures = &mut run.figures;
            (figures.seek_s, figures.rotation_s) = (1.0, 2.0);
            // A second of overhead is busy too.
            (figures.transfer_s, figures.busy_s) = (4.0, 8.0);
        }
        assert_eq!(advice.runs[0].figures.moving_share(), 0.375);
        let page = html(&advice);
        assert!(
            page.contains(
                "<dt>of busy time moving heads</dt><dd><span>37.5\u{a0}% →</span> <b>37.5\u{a0}%</b>"
            ),
            "{page}"
        );
        advice.runs[0].figures.busy_s = 0.0;
        assert_eq!(advice.runs[0].figures.moving_share(), 0.0);
    }

    #[test]
    fn a_picture_tells_its_figures_to_who_cannot_see_it() {
        let page = html(&advice());
        let document = parse(&page);
        let told = |id: &str| {
            let desc = document.descendants().find(|node| node.attribute("id") == Some(id));
            desc.and_then(|desc| desc.text()).unwrap_or_default().to_string()
        };
        assert!(told("reads-d").contains("99\u{a0}% within: noop "), "{}", told("reads-d"));
        assert!(told("arrivals-d").contains(" a second on average, "), "{}", told("arrivals-d"));
        assert!(told("spent-d").contains("noop: ") && told("spent-slim-d") == told("spent-d"));
        assert!(
            told("heads-0-d").contains(" reads and writes at cylinders "),
            "{}",
            told("heads-0-d")
        );
    }

    #[test]
    fn the_baseline_is_shown_beside_the_best_other() {
        let mut advice = advice();
        advice.recommended = Some("noop".to_string());
        let page = html(&advice);
        assert!(page.contains("Head position under noop"));
        assert!(page.contains("Head position under deadline"));
    }
}
