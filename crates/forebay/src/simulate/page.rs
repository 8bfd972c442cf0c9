//! The page of `simulate`, with figures as rows and policies as columns. The policy named in the
//! headline is highlighted.

use forebay_ask::named;
use forebay_show::figure::{Figure, Unit};
use forebay_show::html::paragraphs::called;
use forebay_show::page::{Block, Page, Place, Tone, Verdict};
use forebay_show::table::{Cell, Column, Row, RowMark, Table};

use forebay_core::Device;

use super::{Bed, LeastTime, Replay, Run, RunResult, Setup};
use crate::error::Error;
use crate::input::Input;
use crate::quantities::{bound, counted, millis, percent, seconds, significant};
use crate::run_page::{self, RunSections, against, less, name, rows};

/// The contents of the page.
pub(super) struct Told<'a> {
    pub(super) input: &'a Input,
    pub(super) bed: Bed<'a>,
    pub(super) setup: Setup,
    pub(super) results: &'a [RunResult],
    /// Each policy with its run, in the same order.
    pub(super) runs: &'a [(String, Run)],
    pub(super) least_time: Option<&'a LeastTime>,
    /// The effects of defragmentation.
    pub(super) findings: &'a [String],
    pub(super) cautions: &'a [String],
}

/// The note for traces that name no submitters.
const ONE_LINE: &str = "The trace does not say who submitted requests, so all of them wait for a place in the queue in one \
                        line. In Linux one request of each task does.";

/// The most classes of service that fit on the first screen.
const CLASSES_MAX: usize = 8;

/// The most policies that fit as columns on a terminal.
const ACROSS_MAX: usize = 5;

pub(super) fn page(told: &Told<'_>) -> Result<Page, Error> {
    let results = told.results;
    let is_overloaded = results.iter().any(|run| run.figures.is_overloaded());
    let trace = told.input.path.display().to_string();
    let mut page = Page {
        title: called("Simulation", &[&trace]),
        verdict: match is_overloaded {
            true => Verdict::new(Tone::Warning, "Overloaded"),
            false => Verdict::new(Tone::Calm, "Simulated"),
        },
        headline: headline(results),
        about: about(told, trace),
        ..Page::default()
    };
    let first = match results.len() <= ACROSS_MAX {
        true => rows::across(results, best(results), &rows::FIRST),
        false => ranking(results),
    };
    let least = told.least_time.and_then(|least| beyond_least(least, results));
    let policies = [Block::Table(first)].into_iter().chain(least.map(Block::Text)).collect();
    // If there are classes of service, they are the reason to simulate a shaper.
    let classes = run_page::classes(results);
    let has_room = classes.as_ref().is_some_and(|table| table.rows.len() <= CLASSES_MAX);
    let (of_policies, of_classes) = match has_room {
        true => (Place::Detail, Place::FirstScreen),
        false => (Place::FirstScreen, Place::Detail),
    };
    let classes = classes.map(Block::Table).into_iter().collect();
    page.add("Classes of service", of_classes, classes);
    page.add("Policies", of_policies, policies);
    let findings = told.findings.iter().cloned().map(Block::Text).collect();
    page.add("Defragmentation", Place::FirstScreen, findings);
    page.add_notes("Keep in mind", Place::FirstScreen, doubts(results));
    let mut cautions = told.cautions.to_vec();
    cautions.extend((!told.input.names_submitters).then(|| ONE_LINE.to_string()));
    page.add_notes("About the models", Place::Detail, cautions);
    let Some((first, best)) = results.first().zip(best(results)) else { return Ok(page) };
    let other = Some(best).filter(|best| best.policy != first.policy).or(results.get(1));
    let sections = RunSections {
        runs: told.runs,
        results,
        compared: std::iter::once(first).chain(other).collect(),
        drawn: told.runs.iter().map(|(policy, _)| policy.as_str()).collect(),
        cylinders: told.bed.disk.model.cylinders(),
        streams: &told.input.labels,
        arrivals: &told.input.arrival_rates(told.setup.intensity.times())?,
    };
    sections.add_to(&mut page);
    Ok(page)
}

fn about(told: &Told<'_>, trace: String) -> Vec<(String, String)> {
    let faster = match told.setup.intensity.times() {
        1.0 => String::new(),
        times => format!(", {} times as fast", significant(times)),
    };
    let of = &told.input.description;
    let requests = counted(of.records, "request");
    vec![
        ("Trace".into(), trace),
        ("Device".into(), told.bed.disk.name.clone()),
        ("Replay".into(), format!("{}{faster}", told.setup.replay.told())),
        ("Load".into(), format!("{requests} in {}", seconds(of.duration_s))),
    ]
}

/// A difference in total time below this share is too small to matter.
const LESS_LEAST: f64 = 5e-4;

/// Returns the run with the least total time; the first run if no other is noticeably faster.
fn best(results: &[RunResult]) -> Option<&RunResult> {
    let whole = results.iter().filter(|run| run.figures.unfinished == 0);
    let least = whole.min_by(|a, b| a.total_s().total_cmp(&b.total_s()))?;
    let first = results.first()?;
    Some(if less(least, first) < LESS_LEAST { first } else { least })
}

/// Summarizes the results in a sentence.
fn headline(results: &[RunResult]) -> String {
    let Some((first, best)) = results.first().zip(best(results)) else {
        return "Nothing was run.".to_string();
    };
    let total_is = first.replay.total_name();
    let total = seconds(best.total_s());
    let said = match (results.len(), std::ptr::eq(best, first)) {
        (1, _) => format!("Under {} the {total_is} is {total}", first.policy),
        (_, true) => format!("No policy has less {total_is} than {}: {total}", first.policy),
        (_, false) => format!(
            "{} has the least {total_is}: {total}, {} less than {}",
            best.policy,
            percent(less(best, first)),
            first.policy
        ),
    };
    format!("{said}{}.", tail(best, first))
}

/// Gives the 99th percentile of reads, or of writes if there are no reads, beside that of the first
/// run, because a better total time may cost latency.
fn tail(run: &RunResult, first: &RunResult) -> String {
    let figures = &run.figures;
    // The tail of a growing backlog measures its length, not how fast requests are answered.
    if figures.is_overloaded() {
        return format!("; {} of the requests are over 1 s late", percent(figures.lagging_share));
    }
    let reads = figures.read_p99_ms.map(|ms| ("reads", ms, first.figures.read_p99_ms));
    let writes = figures.write_p99_ms.map(|ms| ("writes", ms, first.figures.write_p99_ms));
    let Some((kind, ms, of_first)) = reads.or(writes) else { return String::new() };
    let of_first = match of_first.filter(|_| !std::ptr::eq(run, first)) {
        Some(ms) => format!(" ({}: {})", first.policy, millis(ms)),
        None => String::new(),
    };
    format!("; 99 % of {kind} within {}{of_first}", millis(ms))
}

/// Makes a table of many policies, the best first.
fn ranking(results: &[RunResult]) -> Table {
    let Some((first, best)) = results.first().zip(best(results)) else { return Table::default() };
    let mut table = Table::new([
        Column::words("policy"),
        Column::of(first.replay.total_name(), Unit::Seconds),
        Column::words(format!("against {}", name(&first.policy))),
        Column::of("read mean", Unit::Seconds),
        Column::of("p99", Unit::Seconds),
        Column::of("write mean", Unit::Seconds),
        Column::of("p99", Unit::Seconds),
    ]);
    let mut ranked: Vec<&RunResult> = results.iter().collect();
    ranked.sort_by(|a, b| a.total_s().total_cmp(&b.total_s()));
    // The sort is stable, so policies without a noticeable difference keep their order.
    ranked.sort_by_key(|run| !std::ptr::eq(*run, best));
    for run in ranked {
        let f = &run.figures;
        let times = [f.read_mean_ms, f.read_p99_ms, f.write_mean_ms, f.write_p99_ms];
        let times = times.map(|ms| Cell::value(ms.map(|ms| ms / 1e3)));
        let total = [name(&run.policy).into(), run.total_s().into(), against(run, first)];
        let mut row = Row::new(total.into_iter().chain(times));
        if std::ptr::eq(run, best) {
            row.mark = RowMark::Best("least".into());
        }
        table.rows.push(row);
    }
    table
}

/// Says how far each run is from the lower bound.
fn beyond_least(least: &LeastTime, results: &[RunResult]) -> Option<String> {
    let replay = results.first()?.replay;
    let least_s = least.total_s(replay);
    let bounded = results.iter().filter(|run| LeastTime::holds_for(&run.policy));
    let beyond = |run: &RunResult| percent(run.total_s() / least_s - 1.0);
    let each: Vec<String> = bounded.map(|run| format!("{} {}", run.policy, beyond(run))).collect();
    let what = replay.total_name();
    let least = Figure::new(least_s, Unit::Seconds).text();
    (least_s > 0.0 && !each.is_empty()).then(|| {
        format!(
            "No order of these requests has a {what} below {least}. Beyond that: {}.",
            each.join(", ")
        )
    })
}

/// Lists broken promises, and the limits of open replay on an overloaded disk.
fn doubts(results: &[RunResult]) -> Vec<String> {
    let figure = |run: &RunResult, name: &str| run.placement.get(name).copied().unwrap_or(0.0);
    let broken = results.iter().filter(|run| run.placement.get("bound_held") == Some(&0.0));
    let mut doubts: Vec<String> = broken
        .map(|run| {
            format!(
                "{}: its bound of {} was not held: {} I/Os waited longer, up to {}.",
                run.policy,
                bound(figure(run, "bound_ms")),
                figure(run, "ios_beyond_bound"),
                millis(figure(run, "longest_queue_wait_ms")),
            )
        })
        .collect();
    let is_behind = |run: &RunResult| run.replay == Replay::Open && run.figures.is_overloaded();
    if results.iter().any(is_behind) {
        doubts.push(format!(
            "The disk cannot keep up. In open replay its backlog grows long, and so easy to put in order; with {} requests \
             wait for answers.",
            named("replay=dependent")
        ));
    }
    doubts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::sample::advice;

    fn results() -> Vec<RunResult> {
        advice().pictures.runs.into_iter().map(|(_, run)| run.result).collect()
    }

    #[test]
    fn the_policy_that_is_marked_is_the_one_that_the_headline_names() {
        let mut results = results();
        let least = results.iter().min_by(|a, b| a.total_s().total_cmp(&b.total_s())).unwrap();
        let said = format!("{} has the least busy time: ", least.policy);
        assert!(headline(&results).starts_with(&said), "{}", headline(&results));
        assert_eq!(ranking(&results).rows[0].cells[0], Cell::Words(name(&least.policy)));
        // A policy that is faster by an unnoticeable amount is not the best.
        results.truncate(2);
        for (busy_s, best, gains) in [(99.97, 0, "0.03 % less"), (90.0, 1, "10 % less")] {
            (results[0].figures.busy_s, results[1].figures.busy_s) = (100.0, busy_s);
            let ranked = ranking(&results);
            assert_eq!(ranked.rows[0].cells[0], Cell::Words(name(&results[best].policy)));
            assert!(ranked.rows.iter().any(|row| row.cells[2] == Cell::judged(gains, true)));
        }
    }

    #[test]
    fn the_headline_names_the_baseline_where_nothing_is_better() {
        let mut results = results();
        results.sort_by(|a, b| a.total_s().total_cmp(&b.total_s()));
        let said = format!("No policy has less busy time than {}", results[0].policy);
        assert!(headline(&results).starts_with(&said));
        results[0].figures.lagging_share = 0.25;
        assert!(headline(&results).ends_with("; 25 % of the requests are over 1 s late."));
        assert!(doubts(&results)[0].contains("cannot keep up"));
        results.truncate(1);
        assert!(headline(&results).starts_with(&format!("Under {}", results[0].policy)));
        assert_eq!(headline(&[]), "Nothing was run.");
    }
}
