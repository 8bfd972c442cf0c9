//! Builds the page of `play`.

use std::path::Path;

use forebay::words;
use forebay_show::html::paragraphs::page_title;
use forebay_show::{
    Block, Cell, Column, Figure, KeyFigure, Page, Place, Row, Table, Tone, Unit, Verdict,
};
use forebay_words::plural::counted;
use forebay_words::quantities::{millis, seconds, significant};

use crate::verdict::target_is_slow;
use crate::{AS_RECORDED, PlayResult};

pub(crate) fn page(trace: &Path, result: &PlayResult) -> Page {
    let trace = trace.display().to_string();
    let policy = match result.policy.as_str() {
        AS_RECORDED => "requests as recorded",
        policy => policy,
    };
    let targets: Vec<&str> = result.targets.iter().map(|one| one.target.as_str()).collect();
    let about = [
        ("Trace", trace.clone()),
        (if result.result == "emulated" { "Emulated" } else { "Measured on" }, targets.join(", ")),
        ("Driver", result.driver.to_string()),
        ("Policy", policy.to_string()),
    ];
    let (verdict, headline) = answer(result);
    let mut page = Page {
        title: page_title("Play", &[&trace]),
        verdict,
        headline,
        about: about.map(|(term, text)| (term.into(), text)).into(),
        key_figures: key_figures(result),
        ..Page::default()
    };
    let first = vec![Block::Table(times(result)), Block::List(result.verdict.clone())];
    page.add("Latency and lateness", Place::FirstScreen, first);
    page.add("Figures", Place::Detail, vec![Block::Table(figures(result))]);
    page.add("Targets", Place::Detail, vec![Block::Table(targets_table(result))]);
    if !result.errors.is_empty() {
        page.add("I/Os that failed", Place::Detail, vec![Block::Table(errors(result))]);
    }
    if !result.placement.is_empty() {
        page.add("Counted by the policy", Place::Detail, vec![Block::Table(placement(result))]);
    }
    page.add_notes("Keep in mind", Place::FirstScreen, result.notes.clone());
    page
}

/// Returns the name of the target for use in a sentence.
fn target(result: &PlayResult) -> String {
    match result.targets.as_slice() {
        [one] => one.target.clone(),
        several => format!("{} targets", several.len()),
    }
}

/// Returns the verdict and the headline: the main problem of the run or, if there is none, its
/// speed.
fn answer(result: &PlayResult) -> (Verdict, String) {
    let (warning, figures) = (|words| Verdict::new(Tone::Warning, words), &result.figures);
    if result.flush_error.is_some() {
        let text = "The volume could not be flushed at the end, so some of the writes may be lost.";
        return (warning("Not durable"), text.into());
    }
    if let Some(first) = result.errors.first() {
        let text = format!(
            "{} of {} failed on {}, {} of them {}s with {}.",
            counted(figures.ios_failed, "I/O"),
            figures.ios,
            target(result),
            first.ios,
            first.op,
            first.error
        );
        return (warning("I/Os failed"), text);
    }
    if !result.host_kept_up {
        let late = millis(result.lateness_p99_ms.unwrap_or_default());
        let text = format!(
            "This host did not keep up: 1 % of the requests were issued more than {late} late, which latencies include."
        );
        return (warning("Host too slow"), text);
    }
    if let Some(wanted) = result.wanted_iops.filter(|_| target_is_slow(result)) {
        let text = format!(
            "{} did not keep up: {} requests a second were wanted, {} achieved.",
            target(result),
            significant(wanted),
            significant(result.achieved_iops)
        );
        return (warning("Target too slow"), text);
    }
    let within = |p99_ms: Option<f64>, what: &str| {
        Some(format!("99 % of {what} within {}", millis(p99_ms?)))
    };
    let p99s = [within(figures.read_p99_ms, "reads"), within(figures.write_p99_ms, "writes")];
    let p99s: Vec<String> = p99s.into_iter().flatten().collect();
    let requests = counted(figures.requests, "request");
    let took = seconds(figures.makespan_s);
    let text = match p99s.is_empty() {
        true => format!("{} answered {requests} in {took}.", target(result)),
        false => format!("{} answered {requests} in {took}: {}.", target(result), p99s.join(", ")),
    };
    let words = if result.result == "emulated" { "Emulated" } else { "Measured" };
    (Verdict::new(Tone::Good, words), text)
}

fn key_figures(result: &PlayResult) -> Vec<KeyFigure> {
    let time = |ms: Option<f64>| ms.map(|ms| Figure::new(ms / 1e3, Unit::Seconds));
    let rate = |iops: f64| Figure::new(iops, Unit::Number);
    let all = [
        ("requests/s", result.wanted_iops.map(rate), Some(rate(result.achieved_iops))),
        ("read p99", None, time(result.figures.read_p99_ms)),
        ("write p99", None, time(result.figures.write_p99_ms)),
    ];
    let known = all.into_iter().filter_map(|(name, before, figure)| {
        Some(KeyFigure { name: name.into(), before, figure: figure? })
    });
    known.collect()
}

/// Builds the table of latencies and of delays in issuing requests.
fn times(result: &PlayResult) -> Table {
    let mut table = Table::new([
        Column::words(""),
        Column::of("mean", Unit::Seconds),
        Column::of("p50", Unit::Seconds),
        Column::of("p99", Unit::Seconds),
        Column::of("p99.9", Unit::Seconds),
        Column::of("longest", Unit::Seconds),
    ]);
    let figures = &result.figures;
    let rows = [
        (
            "read latency",
            [
                figures.read_mean_ms,
                figures.read_p50_ms,
                figures.read_p99_ms,
                figures.read_p999_ms,
                figures.read_max_ms,
            ],
        ),
        (
            "write latency",
            [
                figures.write_mean_ms,
                figures.write_p50_ms,
                figures.write_p99_ms,
                figures.write_p999_ms,
                figures.write_max_ms,
            ],
        ),
        (
            "lateness",
            [
                None,
                result.lateness_p50_ms,
                result.lateness_p99_ms,
                None,
                Some(result.lateness_max_ms),
            ],
        ),
    ];
    for (name, times) in rows {
        let cells = times.map(|ms| Cell::value(ms.map(|ms| ms / 1e3)));
        table.rows.push(Row::new([name.into()].into_iter().chain(cells)));
    }
    table
}

/// Builds the table of counts, rates and times.
fn figures(result: &PlayResult) -> Table {
    let (count, time) = (Unit::Count, Unit::Seconds);
    let figures = &result.figures;
    let rows = [
        ("requests", count, Some(figures.requests as f64)),
        ("reads", count, Some(figures.reads as f64)),
        ("writes", count, Some(figures.writes as f64)),
        ("I/Os", count, Some(figures.ios as f64)),
        ("requests of parts of blocks", count, Some(result.requests_partial as f64)),
        ("requests failed", count, Some(figures.failed as f64)),
        ("I/Os failed", count, Some(figures.ios_failed as f64)),
        ("makespan", time, Some(figures.makespan_s)),
        ("busy time", time, Some(figures.busy_s)),
        ("target full", time, Some(result.target_full_s)),
        ("wanted requests/s", Unit::Number, result.wanted_iops),
        ("achieved requests/s", Unit::Number, Some(result.achieved_iops)),
        ("CPU user", time, Some(result.cpu_user_s)),
        ("CPU system", time, Some(result.cpu_system_s)),
    ];
    let mut table = Table::new([Column::words(""), Column::words(result.result)]);
    table.rows.extend(rows.map(|(name, unit, value)| {
        let cell = value.map_or(Cell::Missing, |value| Figure::new(value, unit).into());
        Row::new([name.into(), cell])
    }));
    table
}

fn targets_table(result: &PlayResult) -> Table {
    Table::listing(
        &result.targets,
        &[
            (Column::words("target"), &|one| one.target.clone().into()),
            (Column::words("kind"), &|one| match one.direct {
                Some(false) => format!("{}, page cache", one.kind).into(),
                _ => one.kind.to_string().into(),
            }),
            (Column::words("role"), &|one| one.role.into()),
            (Column::of("capacity", Unit::Bytes), &|one| one.capacity_bytes.into()),
            (Column::of("I/Os", Unit::Count), &|one| one.ios.into()),
            (Column::of("failed", Unit::Count), &|one| one.ios_failed.into()),
            (Column::of("read", Unit::Bytes), &|one| one.read_bytes.into()),
            (Column::of("written", Unit::Bytes), &|one| one.written_bytes.into()),
            (Column::of("busy time", Unit::Seconds), &|one| one.busy_s.into()),
        ],
    )
}

fn errors(result: &PlayResult) -> Table {
    Table::listing(
        &result.errors,
        &[
            (Column::words("error"), &|of| of.error.clone().into()),
            (Column::words("meaning"), &|of| of.message.clone().into()),
            (Column::words("operation"), &|of| of.op.into()),
            (Column::of("I/Os", Unit::Count), &|of| of.ios.into()),
        ],
    )
}

fn placement(result: &PlayResult) -> Table {
    Table::listing(
        &result.placement,
        &[
            (Column::words("figure"), &|(key, _)| words::words(key).into()),
            (Column::words("value"), &|(key, value)| words::cell(key, **value)),
        ],
    )
}
