//! Builds tables with figures as rows and policies as columns.

use forebay_show::{Column, Row, Table, Unit};

use super::name;
use crate::{Replay, RunResult};

/// A row of a table: the figure's name, its unit, and the function that returns it for a run.
/// Figures that no run has are omitted from tables.
pub(crate) type FigureRow = (&'static str, Unit, fn(&RunResult) -> Option<f64>);

/// Converts milliseconds to seconds, which is the unit of times on pages.
pub(crate) fn ms(ms: Option<f64>) -> Option<f64> {
    ms.map(|ms| ms / 1e3)
}

/// All figures of a run, in the order of the table.
const ALL: [FigureRow; 45] = [
    ("requests", Unit::Count, |run| Some(run.figures.requests as f64)),
    ("reads", Unit::Count, |run| Some(run.figures.reads as f64)),
    ("writes", Unit::Count, |run| Some(run.figures.writes as f64)),
    ("flushes", Unit::Count, |run| Some(run.figures.flushes as f64)),
    ("trims", Unit::Count, |run| Some(run.figures.trims as f64)),
    ("never answered", Unit::Count, |run| Some(run.figures.unfinished as f64)),
    ("requests failed", Unit::Count, |run| Some(run.figures.failed as f64)),
    ("I/Os", Unit::Count, |run| Some(run.figures.ios as f64)),
    ("I/Os failed", Unit::Count, |run| Some(run.figures.ios_failed as f64)),
    ("makespan: first arrival to last completion", Unit::Seconds, |run| {
        Some(run.figures.makespan_s)
    }),
    ("busy time", Unit::Seconds, |run| Some(run.figures.busy_s)),
    ("transfer floor", Unit::Seconds, |run| Some(run.figures.transfer_bound_s)),
    ("seeking", Unit::Seconds, |run| Some(run.figures.seek_s)),
    ("rotating", Unit::Seconds, |run| Some(run.figures.rotation_s)),
    ("transferring", Unit::Seconds, |run| Some(run.figures.transfer_s)),
    ("lost between streams", Unit::Seconds, |run| Some(run.contention.between_streams_s)),
    ("lost within streams", Unit::Seconds, |run| Some(run.contention.within_streams_s)),
    ("head movements", Unit::Count, |run| Some(run.figures.head_movements as f64)),
    ("full sweeps over the disk", Unit::Number, |run| Some(run.figures.seek_sweeps)),
    ("cylinders per movement", Unit::Number, |run| Some(run.figures.avg_seek_tracks)),
    ("cylinders per movement, std. dev.", Unit::Number, |run| Some(run.figures.seek_stddev_tracks)),
    ("read latency, mean", Unit::Seconds, |run| ms(run.figures.read_mean_ms)),
    ("read latency, p50", Unit::Seconds, |run| ms(run.figures.read_p50_ms)),
    ("read latency, p99", Unit::Seconds, |run| ms(run.figures.read_p99_ms)),
    ("read latency, p99.9", Unit::Seconds, |run| ms(run.figures.read_p999_ms)),
    ("read latency, longest", Unit::Seconds, |run| ms(run.figures.read_max_ms)),
    ("write latency, mean", Unit::Seconds, |run| ms(run.figures.write_mean_ms)),
    ("write latency, p50", Unit::Seconds, |run| ms(run.figures.write_p50_ms)),
    ("write latency, p99", Unit::Seconds, |run| ms(run.figures.write_p99_ms)),
    ("write latency, p99.9", Unit::Seconds, |run| ms(run.figures.write_p999_ms)),
    ("write latency, longest", Unit::Seconds, |run| ms(run.figures.write_max_ms)),
    ("wait since admission, mean", Unit::Seconds, |run| ms(run.figures.wait_mean_ms)),
    ("wait since admission, p99", Unit::Seconds, |run| ms(run.figures.wait_p99_ms)),
    ("wait since admission, longest", Unit::Seconds, |run| Some(run.figures.longest_wait_ms / 1e3)),
    ("held before admission, mean", Unit::Seconds, |run| ms(run.figures.held_mean_ms)),
    ("held before admission, longest", Unit::Seconds, |run| {
        Some(run.figures.longest_held_ms / 1e3)
    }),
    ("late, mean", Unit::Seconds, |run| ms(run.figures.lag_mean_ms)),
    ("late, longest", Unit::Seconds, |run| Some(run.figures.longest_lag_ms / 1e3)),
    ("more than 1 s late", Unit::Share, |run| Some(run.figures.lagging_share)),
    ("device time per I/O, mean", Unit::Seconds, |run| ms(run.figures.service_mean_ms)),
    ("energy", Unit::Joules, |run| Some(run.figures.energy_j)),
    ("requests moved to fit", Unit::Count, |run| Some(run.changed.requests_moved as f64)),
    ("requests cut to fit", Unit::Count, |run| Some(run.changed.requests_cut as f64)),
    ("requests left out", Unit::Count, |run| Some(run.changed.requests_clipped as f64)),
    ("latencies imputed", Unit::Share, |run| Some(run.imputed_share)),
];

/// Returns whether the figure is meaningful only if arrivals are recorded. In closed replay it is
/// not, because each request arrives when earlier ones are answered.
fn is_of_recorded_times(name: &str) -> bool {
    name.starts_with("late, ") || name == "more than 1 s late"
}

/// Builds the table of the figures of `runs`, with one column per run. A figure's name ends with
/// the unit of its row.
pub(crate) fn across(runs: &[RunResult]) -> Table {
    let heads = runs.iter().map(|run| Column::words(name(&run.policy)));
    let mut table = Table::new([Column::words("")].into_iter().chain(heads));
    let is_closed = runs.iter().all(|run| run.replay == Replay::Closed);
    for (name, unit, of) in &ALL {
        let values: Vec<Option<f64>> = runs.iter().map(of).collect();
        let is_none = values.iter().all(|value| value.is_none_or(|value| value == 0.0));
        if is_none || is_closed && is_of_recorded_times(name) {
            continue;
        }
        table.rows.push(Row::in_one_unit(name, *unit, &values));
    }
    table
}
