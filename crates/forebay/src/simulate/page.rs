//! The report page of `simulate`. A policy is highlighted only if it is better than the first one
//! by the rule that `advise` follows.

use forebay_ask::named;
use forebay_show::html::paragraphs::page_title;
use forebay_show::{
    Block, Cell, Column, Figure, Page, Place, Row, RowMark, Table, Tone, Unit, Verdict,
};

use forebay_core::Device;

use super::ruling::Ruling;
use super::{Bed, LeastTime, Replay, Run, RunResult, Setup};
use crate::advise::choice::RunStanding;
use crate::advise::judge::tells_latencies;
use crate::quantities::{bound, counted, lasting, millis, percent, significant};
use crate::run_page::rows::{FigureRow, ms};
use crate::run_page::{self, RunSections, name};
use crate::{Error, Input};

/// The data from which the page is built.
pub(super) struct PageInput<'a> {
    pub(super) input: &'a Input,
    pub(super) bed: Bed<'a>,
    pub(super) setup: Setup,
    pub(super) results: &'a [RunResult],
    /// Each policy with its run, in the order of `results`.
    pub(super) runs: &'a [(String, Run)],
    pub(super) least_time: Option<&'a LeastTime>,
    /// Sentences on the effect of defragmentation.
    pub(super) findings: &'a [String],
    pub(super) cautions: &'a [String],
}

/// The note for traces that do not name the submitters of requests.
const ONE_LINE: &str = "The trace does not record which process submitted each request, so all \
                        requests wait in a single line for a slot in the request queue. \
                        In Linux, one request per task waits.";

/// The maximum number of service classes that fit on the first screen.
const CLASSES_MAX: usize = 8;

pub(super) fn page(told: &PageInput<'_>) -> Result<Page, Error> {
    let results = told.results;
    let ruling = Ruling::new(results, told.runs, told.span_s());
    let is_overloaded = results.iter().any(|run| run.figures.is_overloaded());
    let trace = told.input.path.display().to_string();
    let mut page = Page {
        title: page_title("Simulation", &[&trace]),
        verdict: match is_overloaded {
            true => Verdict::new(Tone::Warning, "Overloaded"),
            false => Verdict::new(Tone::Calm, "Simulated"),
        },
        headline: ruling.headline(),
        about: about(told, trace),
        ..Page::default()
    };
    let first = policies(&ruling, results);
    let least = told.least_time.and_then(|least| beyond_least(least, results));
    let policies = [Block::Table(first)].into_iter().chain(least.map(Block::Text)).collect();
    // If a policy has service classes, it is a shaper, and users want to see its classes first.
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
    let doubts = doubts(results).into_iter().chain(clients_that_wait(told)).collect();
    page.add_notes("Keep in mind", Place::FirstScreen, doubts);
    let mut cautions = told.cautions.to_vec();
    cautions.extend((!told.input.names_submitters).then(|| ONE_LINE.to_string()));
    page.add_notes("About the models", Place::Detail, cautions);
    let Some(first) = results.first() else { return Ok(page) };
    let other = ruling.best().or(results.get(1));
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

impl PageInput<'_> {
    /// Returns the duration of the trace without its gaps, at the replay speed of the runs.
    fn span_s(&self) -> f64 {
        let of = &self.input.description;
        of.without_gaps_s.unwrap_or(of.duration_s) / self.setup.intensity.times()
    }
}

fn about(told: &PageInput<'_>, trace: String) -> Vec<(String, String)> {
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
        ("Load".into(), format!("{requests} in {}", lasting(of.duration_s, of.without_gaps_s))),
    ]
}

/// Builds the table of policies: first the one that is better than the first policy, if there is
/// one, then the others in the given order.
fn policies(ruling: &Ruling<'_>, results: &[RunResult]) -> Table {
    let Some(first) = results.first() else { return Table::default() };
    let standings = ruling.standings().filter(|_| results.len() > 1);
    let best = ruling.best().map(|best| best.policy.as_str());
    let figure = |row: &FigureRow, run: &RunResult| {
        let (_, unit, of) = row;
        of(run).filter(|_| *unit != Unit::Seconds || tells_latencies(run))
    };
    let is_known = |row: &&FigureRow| results.iter().any(|run| figure(row, run).is_some());
    let figures: Vec<_> = FIRST.iter().filter(is_known).collect();
    let against = standings.is_some().then(|| format!("against {}", name(&first.policy)));
    let mut columns = vec![Column::words("policy")];
    columns.extend(against.map(Column::words));
    columns.push(Column::of(first.replay.total_name(), Unit::Seconds));
    columns.extend(figures.iter().map(|(name, unit, _)| Column::of(*name, *unit)));
    let mut table = Table::new(columns);
    for (index, run) in results.iter().enumerate() {
        let standing = standings.as_ref().map(|all| standing(all[index]));
        let names = [Cell::Words(name(&run.policy))].into_iter().chain(standing);
        let figures = figures.iter().map(|row| Cell::value(figure(row, run)));
        let mut row = Row::new(names.chain([run.total_s().into()]).chain(figures));
        if best == Some(run.policy.as_str()) {
            row.mark = RowMark::Best("best".into());
            table.rows.insert(0, row);
        } else {
            table.rows.push(row);
        }
    }
    table
}

/// The figures in the table of policies, in addition to the total time. Figures that no run has are
/// omitted, and so are latencies that only measure the length of a backlog.
const FIRST: [FigureRow; 7] = [
    ("read mean", Unit::Seconds, |run| ms(run.figures.read_mean_ms)),
    ("p99", Unit::Seconds, |run| ms(run.figures.read_p99_ms)),
    ("write mean", Unit::Seconds, |run| ms(run.figures.write_mean_ms)),
    ("p99", Unit::Seconds, |run| ms(run.figures.write_p99_ms)),
    (">1 s late", Unit::Share, |run| above_0(run.figures.lagging_share)),
    ("failed", Unit::Count, |run| above_0(run.figures.failed as f64)),
    ("unanswered", Unit::Count, |run| above_0(run.figures.unfinished as f64)),
];

fn above_0(value: f64) -> Option<f64> {
    (value > 0.0).then_some(value)
}

fn standing(standing: RunStanding) -> Cell {
    match standing {
        RunStanding::Baseline => Cell::Missing,
        RunStanding::Better => Cell::judged("better", true),
        RunStanding::Worse => Cell::judged("worse", false),
        RunStanding::Mixed => "mixed".into(),
        RunStanding::Alike => "no difference".into(),
    }
}

/// States how far each run is from the lower bound.
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

/// Returns a note if requests of a served disk arrive as recorded, although some of its clients
/// have no promise.
fn clients_that_wait(told: &PageInput<'_>) -> Option<String> {
    let is_open = told.setup.replay == Replay::Open;
    // The last promise is for requests that belong to no export.
    let exports = told.bed.promises.split_last().map_or(&[][..], |(_, exports)| exports);
    let has_others = exports.iter().any(Option::is_none);
    (is_open && has_others).then(|| {
        format!(
            "Requests arrive as recorded. If clients of exports without a promise wait for \
             answers, their latencies may be several times too long or too short; with {}, clients \
             wait for answers.",
            named("replay=closed")
        )
    })
}

/// Returns cautions about broken promises, and about open replay on an overloaded disk.
fn doubts(results: &[RunResult]) -> Vec<String> {
    let figure = |run: &RunResult, name: &str| run.placement.get(name).copied().unwrap_or(0.0);
    let broken = results.iter().filter(|run| run.placement.get("bound_held") == Some(&0.0));
    let mut doubts: Vec<String> = broken
        .map(|run| {
            format!(
                "{}: its bound of {} was exceeded: {} I/Os waited longer, up to {}.",
                run.policy,
                bound(figure(run, "bound_ms")),
                figure(run, "ios_beyond_bound"),
                millis(figure(run, "longest_queue_wait_ms")),
            )
        })
        .collect();
    let has_backlog = |run: &&RunResult| !tells_latencies(run);
    match results.iter().find(has_backlog).map(|run| run.replay) {
        Some(Replay::Open) => doubts.push(format!(
            "The disk cannot keep up, so latencies would only measure its backlog and are left \
             out. In open replay its backlog grows so long that schedulers have far more requests \
             to choose from than on a real system, and seeks become too short; with {}, requests \
             wait for answers.",
            named("replay=dependent")
        )),
        Some(_) => doubts.push(
            "The disk cannot keep up, although requests wait for answers, so latencies would only measure its backlog and \
             are left out."
                .to_string(),
        ),
        None => {}
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

    /// Builds a headline for runs without slices, which cannot be compared.
    fn headline(results: &[RunResult]) -> String {
        Ruling::new(results, &[], 100.0).headline()
    }

    /// In every replay: latencies of more than a second on a disk that falls behind are a
    /// backlog's.
    #[test]
    fn latencies_of_a_backlog_are_left_out() {
        let mut results = results();
        results.truncate(2);
        let columns = |results: &[RunResult]| {
            let table = policies(&Ruling::new(results, &[], 100.0), results);
            table.columns.iter().filter(|column| column.head == "p99").count()
        };
        for replay in [Replay::Dependent, Replay::Closed] {
            for run in &mut results {
                (run.replay, run.figures.lagging_share) = (replay, 0.5);
                run.figures.read_p99_ms = Some(900.0);
                run.figures.write_p99_ms = Some(20.0);
            }
            assert_eq!((columns(&results), doubts(&results).len()), (2, 0), "a lag that adds up");
            results.iter_mut().for_each(|run| run.figures.read_p99_ms = Some(80e3));
            assert_eq!((columns(&results), doubts(&results).len()), (0, 1));
            assert!(doubts(&results)[0].contains("left out"));
        }
    }

    #[test]
    fn overload_comes_first() {
        let mut results = results();
        results.truncate(2);
        let late = |results: &mut [RunResult], shares: [f64; 2]| {
            results
                .iter_mut()
                .zip(shares)
                .for_each(|(run, share)| run.figures.lagging_share = share);
            headline(results)
        };
        let said = late(&mut results, [0.25, 0.125]);
        let text = "The disk cannot keep up: 25.0 % of requests are over 1 s late under noop, 12.5 % \
                    under deadline.";
        assert_eq!(said, text);
        assert!(late(&mut results, [0.25, 0.25]).starts_with("The disk cannot keep up under any"));
        let said = late(&mut results, [0.25, 0.001]);
        assert!(said.ends_with("; under deadline it can (0.10 % late)."), "{said}");
        assert!(doubts(&results)[0].contains("cannot keep up"));
        results.truncate(1);
        let said = headline(&results);
        assert_eq!(
            said,
            "The disk cannot keep up under noop: 25.0 % of requests are over 1 s late."
        );
        results[0].figures.lagging_share = 0.0;
        assert!(headline(&results).starts_with("Under noop the busy time is"));
        assert_eq!(headline(&[]), "Nothing was run.");
    }
}
