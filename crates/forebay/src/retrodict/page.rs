//! The report page of `retrodict`.

use std::path::Path;

use forebay_show::html::paragraphs::page_title;
use forebay_show::{
    Block, Cell, Column, Figure, KeyFigure, Page, Place, Row, Table, Tone, Unit, Verdict,
};

use super::{DirectionAnswer, OutstandingAnswer, Retrodiction};
use crate::quantities::{change, counted, millis, significant};

/// The number of requests below which quantiles say little.
const REQUESTS_MIN: u64 = 100;

/// The factor up to which all figures of a model may be off for the model to count as close to the
/// recording.
const NEAR: f64 = 1.25;

/// If a single figure is off by at least this factor, the model counts as failed.
const FAR: f64 = 2.0;

/// A quantile of the latencies of reads or of writes, both recorded and modeled.
struct Compared {
    name: String,
    requests: u64,
    recorded_ms: f64,
    modelled_ms: f64,
    error_share: Option<f64>,
}

impl Compared {
    /// Returns the factor by which the model's figure is too high or too low; `None` if undefined.
    fn factor(&self) -> Option<f64> {
        let ratio = 1.0 + self.error_share.filter(|_| self.requests >= REQUESTS_MIN)?;
        Some(ratio.max(1.0 / ratio.max(1e-9)))
    }
}

pub(super) fn page(trace: &Path, found: &Retrodiction) -> Page {
    let trace = trace.display().to_string();
    let compared = compared(found);
    let worst = compared
        .iter()
        .filter_map(|one| Some((one.factor()?, one)))
        .max_by(|(a, _), (b, _)| a.total_cmp(b));
    let mut page = Page {
        title: page_title("Retrodiction", &[&trace]),
        verdict: verdict(worst.map(|(factor, _)| factor)),
        headline: headline(worst.map(|(_, one)| one)),
        about: vec![
            ("Trace".into(), trace),
            ("Model".into(), format!("{} under {}", found.device, found.policy)),
            ("Replay".into(), found.replay.told().to_string()),
        ],
        key_figures: compared.iter().filter(|one| one.name.ends_with("p99")).map(key).collect(),
        ..Page::default()
    };
    page.add("Latencies", Place::FirstScreen, vec![Block::Table(latencies(&compared))]);
    page.add_notes("Keep in mind", Place::FirstScreen, notes(found, &compared));
    let outstanding = found.outstanding.as_ref().map(|one| Block::Table(outstanding(one)));
    page.add("Outstanding requests", Place::Detail, outstanding.into_iter().collect());
    page
}

/// Returns the quantiles to compare, those of reads first.
fn compared(found: &Retrodiction) -> Vec<Compared> {
    let directions = [("read", &found.reads), ("write", &found.writes)];
    let known = directions.into_iter().filter_map(|(name, one)| Some((name, one.as_ref()?)));
    known.flat_map(|(name, one)| quantiles(name, one)).collect()
}

fn quantiles(name: &str, of: &DirectionAnswer) -> [Compared; 2] {
    let each = [
        ("p50", of.recorded_p50_ms, of.modelled_p50_ms, of.p50_error_share),
        ("p99", of.recorded_p99_ms, of.modelled_p99_ms, of.p99_error_share),
    ];
    each.map(|(quantile, recorded_ms, modelled_ms, error_share)| Compared {
        name: format!("{name} {quantile}"),
        requests: of.requests,
        recorded_ms,
        modelled_ms,
        error_share,
    })
}

fn verdict(worst: Option<f64>) -> Verdict {
    match worst {
        None => Verdict::new(Tone::Calm, "Too few requests"),
        Some(factor) if factor <= NEAR => Verdict::new(Tone::Good, "Near the recording"),
        Some(factor) if factor < FAR => Verdict::new(Tone::Calm, "Off"),
        Some(_) => Verdict::new(Tone::Warning, "Far off"),
    }
}

fn headline(worst: Option<&Compared>) -> String {
    let Some(one) = worst else {
        return format!(
            "Fewer than {REQUESTS_MIN} reads, and fewer than {REQUESTS_MIN} writes, have a recorded latency: too few to \
             compare."
        );
    };
    format!(
        "The largest error of the model is in {}: {} instead of the recorded {} ({}).",
        one.name,
        millis(one.modelled_ms),
        millis(one.recorded_ms),
        off(one)
    )
}

/// The factor at or above which an error is reported as a multiple.
const TIMES_MIN: f64 = 10.0;

/// Formats the error of the model, as in "+12 %" or "37 times as long".
fn off(one: &Compared) -> String {
    match one.modelled_ms / one.recorded_ms.max(1e-9) {
        times if times >= TIMES_MIN => format!("{} times as long", significant(times)),
        _ => change(one.modelled_ms, one.recorded_ms),
    }
}

fn key(one: &Compared) -> KeyFigure {
    let figure = |ms: f64| Figure::new(ms / 1e3, Unit::Seconds);
    KeyFigure {
        name: format!("{}, recorded → modeled", one.name),
        before: Some(figure(one.recorded_ms)),
        figure: figure(one.modelled_ms),
    }
}

fn latencies(compared: &[Compared]) -> Table {
    Table::listing(
        compared,
        &[
            (Column::words("latency"), &|one| one.name.as_str().into()),
            (Column::of("requests", Unit::Count), &|one| one.requests.into()),
            (Column::of("recorded", Unit::Seconds), &|one| Cell::ms(one.recorded_ms)),
            (Column::of("model", Unit::Seconds).joined(), &|one| Cell::ms(one.modelled_ms)),
            (Column::of("error", Unit::Share), &|one| one.error_share.into()),
        ],
    )
}

/// Returns notes on what limits the comparison.
fn notes(found: &Retrodiction, compared: &[Compared]) -> Vec<String> {
    let mut notes = Vec::new();
    if found.is_overloaded {
        notes.push(
            "The model cannot keep up with the recording, so its times only reflect the length of \
             a backlog."
                .to_string(),
        );
    }
    if found.requests_unmeasured > 0 {
        let left_out = counted(found.requests_unmeasured, "request");
        notes.push(format!("Left out: {left_out} without a recorded latency."));
    }
    if compared.iter().any(|one| one.requests < REQUESTS_MIN) {
        notes.push(format!("Quantiles of fewer than {REQUESTS_MIN} requests are not reliable."));
    }
    notes.push(format!(
        "Errors are due to the model only if the trace was recorded on {} under {}.",
        found.device, found.policy
    ));
    notes
}

/// Builds the table of the mean number of outstanding requests.
fn outstanding(of: &OutstandingAnswer) -> Table {
    let mut table = Table::new([Column::words(""), Column::words("requests outstanding")]);
    let figure = |value: f64| Cell::Figure(Figure::new(value, Unit::Number));
    let rows = [
        ("mean, recorded", figure(of.recorded_mean)),
        ("mean, model", figure(of.modelled_mean)),
        ("mean absolute error by second", figure(of.mean_absolute_error)),
        ("correlation over seconds", of.correlation.map_or(Cell::Missing, figure)),
    ];
    table.rows = rows.map(|(name, cell)| Row::new([name.into(), cell])).into();
    table
}
