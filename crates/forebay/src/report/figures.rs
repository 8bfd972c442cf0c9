//! All figures of all runs, a column for each run.

use crate::simulate::RunResult;
use crate::statistics::Figures;
use forebay_show::html::table::{Mark, headings, table};
use forebay_show::html::text::{
    count, joules, millis, millis_or_none, name, percent, seconds, significant,
};

type Figure = (&'static str, fn(&Figures) -> String);

/// Every figure and how it is printed.
const FIGURES: &[Figure] = &[
    ("requests", |f| count(f.requests)),
    ("reads", |f| count(f.reads)),
    ("writes", |f| count(f.writes)),
    ("flushes", |f| count(f.flushes)),
    ("trims", |f| count(f.trims)),
    ("requests unfinished", |f| count(f.unfinished)),
    ("I/Os", |f| count(f.ios)),
    ("first arrival to last completion", |f| seconds(f.makespan_s)),
    ("disk busy", |f| seconds(f.busy_s)),
    ("transfer floor", |f| seconds(f.transfer_bound_s)),
    ("seeking", |f| seconds(f.seek_s)),
    ("rotating", |f| seconds(f.rotation_s)),
    ("transferring", |f| seconds(f.transfer_s)),
    ("head movements", |f| count(f.head_movements)),
    ("full sweeps over the disk", |f| significant(f.seek_sweeps)),
    ("cylinders per movement", |f| significant(f.avg_seek_tracks)),
    ("standard deviation, cylinders", |f| significant(f.seek_stddev_tracks)),
    ("read latency, mean", |f| millis_or_none(f.read_mean_ms)),
    ("read latency, p50", |f| millis_or_none(f.read_p50_ms)),
    ("read latency, p99", |f| millis_or_none(f.read_p99_ms)),
    ("read latency, p99.9", |f| millis_or_none(f.read_p999_ms)),
    ("read latency, longest", |f| millis_or_none(f.read_max_ms)),
    ("write latency, mean", |f| millis_or_none(f.write_mean_ms)),
    ("write latency, p50", |f| millis_or_none(f.write_p50_ms)),
    ("write latency, p99", |f| millis_or_none(f.write_p99_ms)),
    ("write latency, p99.9", |f| millis_or_none(f.write_p999_ms)),
    ("write latency, longest", |f| millis_or_none(f.write_max_ms)),
    ("wait from admission, mean", |f| millis_or_none(f.wait_mean_ms)),
    ("wait from admission, p99", |f| millis_or_none(f.wait_p99_ms)),
    ("wait from admission, longest", |f| millis(f.longest_wait_ms)),
    ("held before, mean", |f| millis_or_none(f.held_mean_ms)),
    ("held before, longest", |f| millis(f.longest_held_ms)),
    ("late, mean", |f| millis_or_none(f.lag_mean_ms)),
    ("late, longest", |f| millis(f.longest_lag_ms)),
    ("more than 1 s late", |f| percent(f.lagging_share)),
    ("device time per I/O, mean", |f| millis_or_none(f.service_mean_ms)),
    ("energy", |f| joules(f.energy_j)),
];

/// What only a device with an arm has.
const OF_AN_ARM: [&str; 9] = [
    "seeking",
    "rotating",
    "transferring",
    "head movements",
    "full sweeps over the disk",
    "cylinders per movement",
    "standard deviation, cylinders",
    "lost between streams",
    "lost within streams",
];

/// Runs that stand side by side: so many fit a sheet of paper.
const RUNS_BESIDE: usize = 8;

/// All figures of all runs, in as many tables as it takes; what no run has of an arm is left out.
pub(super) fn figures(runs: &[&RunResult]) -> String {
    let all = figure_rows(runs);
    let is_none = |cell: &String| !cell.contains(|c: char| ('1'..='9').contains(&c));
    let told = all
        .iter()
        .filter(|(label, cells)| !OF_AN_ARM.contains(label) || !cells.iter().all(is_none));
    let told: Vec<_> = told.collect();
    let beside = runs.len().div_ceil(runs.len().div_ceil(RUNS_BESIDE).max(1)).max(1);
    let block = |(index, runs): (usize, &[&RunResult])| {
        let heads =
            headings(&["figure"]).into_iter().chain(runs.iter().map(|run| name(&run.policy)));
        let of_runs = |cells: &[String]| cells[index * beside..][..runs.len()].to_vec();
        let row = |(label, cells): &&(&str, Vec<String>)| {
            (Mark::Plain, std::iter::once(label.to_string()).chain(of_runs(cells)).collect())
        };
        table(&heads.collect::<Vec<_>>(), &told.iter().map(row).collect::<Vec<_>>())
    };
    runs.chunks(beside).enumerate().map(block).collect()
}

/// Each figure with its name, of every run.
fn figure_rows(runs: &[&RunResult]) -> Vec<(&'static str, Vec<String>)> {
    let row = |label: &'static str, shown: &dyn Fn(&RunResult) -> String| {
        (label, runs.iter().map(|run| shown(run)).collect())
    };
    let mut rows: Vec<_> =
        FIGURES.iter().map(|(label, shown)| row(label, &|run| shown(&run.figures))).collect();
    rows.push(row("lost between streams", &|run| seconds(run.contention.between_streams_s)));
    rows.push(row("lost within streams", &|run| seconds(run.contention.within_streams_s)));
    rows.push(row("requests moved", &|run| count(run.changed.requests_moved)));
    rows.push(row("requests cut", &|run| count(run.changed.requests_cut)));
    rows.push(row("requests left out", &|run| count(run.changed.requests_clipped)));
    rows.push(row("latency imputed", &|run| percent(run.imputed_share)));
    rows.push(row("simulator speed", &|run| {
        format!("{} requests/s", significant(run.simulated_requests_per_s))
    }));
    rows
}
