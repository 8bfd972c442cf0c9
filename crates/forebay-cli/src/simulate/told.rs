//! What `forebay simulate` says on a terminal: figures down, policies across.

use forebay::simulate::{DeviceFigures, LeastTime, Replay, RunResult};
use forebay::statistics::StreamShare;
use forebay::words;
use forebay_show::grid::{Cell, right};
use forebay_show::plural;
use forebay_show::quantities::{
    NONE, bound, bytes, joules, millis, or_none, percent, seconds, significant,
};

use crate::output;

/// What is different where a trace names no submitters.
pub(super) const ONE_LINE: &str = "The trace does not say who submitted requests, so all of them wait for a place in the \
                                   queue in one line. In Linux one request of each task does.";

/// A figure's name and how a run shows it.
type Row = (&'static str, fn(&RunResult) -> String);

/// Each part that says something: figures down, policies across; what else there is; how near the least time each is.
pub(super) fn parts(runs: &[RunResult], least: Option<&LeastTime>) -> Vec<String> {
    let least = least.map_or(String::new(), |least| beyond_least(least, runs));
    let parts = [
        figures(runs),
        broken_bounds(runs),
        classes(runs),
        devices(runs),
        counted(runs),
        streams(runs),
        least,
        understated(runs),
    ];
    parts.into_iter().filter(|part| !part.is_empty()).collect()
}

/// What is not shown where it did not happen, or is of an arm that the device does not have.
const UNUSUAL: [&str; 15] = [
    "flushes",
    "trims",
    "seek",
    "rotation",
    "head movements",
    "full sweeps",
    "mean seek",
    "seek deviation",
    "latencies imputed",
    "never answered",
    "requests failed",
    "I/Os failed",
    "requests moved to fit",
    "requests cut to fit",
    "requests left out",
];

/// What closed replay has none of: there a request comes when those before it are answered.
const OF_RECORDED_TIMES: [&str; 3] = ["late: mean", "late: longest", "more than 1 s late"];

/// Figures down, policies across.
fn figures(runs: &[RunResult]) -> String {
    let rows: &[Row] = &[
        ("replay", |run| format!("{:?}", run.replay).to_lowercase()),
        ("requests", |run| run.figures.requests.to_string()),
        ("reads", |run| run.figures.reads.to_string()),
        ("writes", |run| run.figures.writes.to_string()),
        ("flushes", |run| run.figures.flushes.to_string()),
        ("trims", |run| run.figures.trims.to_string()),
        ("I/Os", |run| run.figures.ios.to_string()),
        ("never answered", |run| run.figures.unfinished.to_string()),
        ("requests failed", |run| run.figures.failed.to_string()),
        ("I/Os failed", |run| run.figures.ios_failed.to_string()),
        ("makespan", |run| seconds(run.figures.makespan_s)),
        ("busy time", |run| seconds(run.figures.busy_s)),
        ("transfer alone", |run| seconds(run.figures.transfer_bound_s)),
        ("seek", |run| seconds(run.figures.seek_s)),
        ("rotation", |run| seconds(run.figures.rotation_s)),
        ("head movements", |run| run.figures.head_movements.to_string()),
        ("full sweeps", |run| significant(run.figures.seek_sweeps)),
        ("mean seek", |run| tracks(run.figures.avg_seek_tracks)),
        ("seek deviation", |run| tracks(run.figures.seek_stddev_tracks)),
        ("read mean", |run| or_none(run.figures.read_mean_ms, millis)),
        ("read p50", |run| or_none(run.figures.read_p50_ms, millis)),
        ("read p99", |run| or_none(run.figures.read_p99_ms, millis)),
        ("read p99.9", |run| or_none(run.figures.read_p999_ms, millis)),
        ("read max", |run| or_none(run.figures.read_max_ms, millis)),
        ("write mean", |run| or_none(run.figures.write_mean_ms, millis)),
        ("write p50", |run| or_none(run.figures.write_p50_ms, millis)),
        ("write p99", |run| or_none(run.figures.write_p99_ms, millis)),
        ("write p99.9", |run| or_none(run.figures.write_p999_ms, millis)),
        ("write max", |run| or_none(run.figures.write_max_ms, millis)),
        ("since admission: mean", |run| or_none(run.figures.wait_mean_ms, millis)),
        ("since admission: p99", |run| or_none(run.figures.wait_p99_ms, millis)),
        ("since admission: longest", |run| millis(run.figures.longest_wait_ms)),
        ("held before: mean", |run| or_none(run.figures.held_mean_ms, millis)),
        ("held before: longest", |run| millis(run.figures.longest_held_ms)),
        ("late: mean", |run| or_none(run.figures.lag_mean_ms, millis)),
        ("late: longest", |run| millis(run.figures.longest_lag_ms)),
        ("more than 1 s late", |run| percent(run.figures.lagging_share)),
        ("energy", |run| joules(run.figures.energy_j)),
        ("requests moved to fit", |run| run.changed.requests_moved.to_string()),
        ("requests cut to fit", |run| run.changed.requests_cut.to_string()),
        ("requests left out", |run| run.changed.requests_clipped.to_string()),
        ("latencies imputed", |run| percent(run.imputed_share)),
        ("simulator's requests/s", |run| format!("{:.0}", run.simulated_requests_per_s)),
    ];
    let device = runs.first().map(|run| run.device.clone()).unwrap_or_default();
    let policies = runs.iter().map(|run| output::in_lines(&run.policy));
    let mut table = output::table([device].into_iter().chain(policies));
    let is_closed = is_closed(runs);
    for (name, show) in rows {
        let figures: Vec<String> = runs.iter().map(show).collect();
        let is_none = |figure: &String| figure.split(' ').next() == Some("0");
        if is_closed && OF_RECORDED_TIMES.contains(name) {
            continue;
        }
        if !UNUSUAL.contains(name) || !figures.iter().all(is_none) {
            table.add_row(std::iter::once(Cell::new(name)).chain(figures.into_iter().map(right)));
        }
    }
    table.to_string()
}

fn is_closed(runs: &[RunResult]) -> bool {
    runs.iter().all(|run| run.replay == Replay::Closed)
}

fn tracks(tracks: f64) -> String {
    plural::counted(tracks.round() as u64, "track")
}

/// What open replay cannot tell of a disk that cannot keep up.
fn understated(runs: &[RunResult]) -> String {
    let is_overloaded = |run: &RunResult| run.replay == Replay::Open && run.figures.is_overloaded();
    match runs.iter().any(is_overloaded) {
        true => output::wrapped(
            "In open replay the backlog of a disk that cannot keep up is long, and so easy to put in order. With \
             --replay dependent requests wait for answers.",
        ),
        false => String::new(),
    }
}

/// How far each run is from what no order can beat.
fn beyond_least(least: &LeastTime, runs: &[RunResult]) -> String {
    let Some(first) = runs.first() else { return String::new() };
    let (least_s, what) = match first.replay {
        Replay::Closed | Replay::Dependent => (least.makespan_s, "makespan"),
        Replay::Open => (least.busy_s, "busy time"),
    };
    let beyond = |run: &RunResult| percent(run.total_s() / least_s - 1.0);
    let bounded = runs.iter().filter(|run| LeastTime::holds_for(&run.policy));
    let each: Vec<String> = bounded.map(|run| format!("{} {}", run.policy, beyond(run))).collect();
    if least_s <= 0.0 || each.is_empty() {
        return String::new();
    }
    let said = format!(
        "No order has a {what} below {}. Beyond that: {}.",
        seconds(least_s),
        each.join(", ")
    );
    output::wrapped(&said)
}

/// Classes of service and their response times under each policy that has any.
fn classes(runs: &[RunResult]) -> String {
    if runs.iter().all(|run| run.figures.classes.is_empty()) {
        return String::new();
    }
    let mut table = output::table([
        "policy",
        "class",
        "requests",
        "bound",
        "within it",
        "mean",
        "p50",
        "p99",
        "longest",
    ]);
    for run in runs {
        for class in &run.figures.classes {
            let figures = [
                class.requests.to_string(),
                bound(class.bound_ms),
                or_none(class.within_bound_share, percent),
                or_none(class.mean_ms, millis),
                or_none(class.p50_ms, millis),
                or_none(class.p99_ms, millis),
                or_none(class.longest_ms, millis),
            ];
            let cells = figures.map(right);
            table.add_row(
                [Cell::new(&run.policy), Cell::new(&class.class)].into_iter().chain(cells),
            );
        }
    }
    table.to_string()
}

/// A line for each run whose policy promised a bound and did not hold it.
fn broken_bounds(runs: &[RunResult]) -> String {
    let broken = |run: &&RunResult| run.placement.get("bound_held") == Some(&0.0);
    let figure = |run: &RunResult, name: &str| run.placement.get(name).copied().unwrap_or(0.0);
    runs.iter()
        .filter(broken)
        .map(|run| {
            format!(
                "{}: its bound of {} was not held: {} I/Os waited longer, up to {}",
                run.policy,
                bound(figure(run, "bound_ms")),
                figure(run, "ios_beyond_bound"),
                millis(figure(run, "longest_queue_wait_ms")),
            )
        })
        .collect::<Vec<_>>()
        .join("\n")
}

/// Each device of each run, where there are several or flash wears.
fn devices(runs: &[RunResult]) -> String {
    let several = runs.iter().any(|run| run.devices.len() > 1);
    if !several && runs.iter().all(|run| run.erases.is_none()) {
        return String::new();
    }
    let mut table = output::table([
        "policy",
        "device",
        "role",
        "I/Os",
        "read",
        "written",
        "busy time",
        "energy",
        "write amplification",
        "erases",
        "erases max",
    ]);
    for run in runs {
        for device in &run.devices {
            let cells = device_cells(device).map(right);
            let names = [&run.policy, &device.device, device.role].map(Cell::new);
            table.add_row(names.into_iter().chain(cells));
        }
    }
    table.to_string()
}

/// What each policy counted.
fn counted(runs: &[RunResult]) -> String {
    let told = |(key, value): (&&str, &f64)| {
        format!("{} {}", words::words(key), words::shown(key, *value))
    };
    let counted = runs.iter().filter(|run| !run.placement.is_empty()).map(|run| {
        let figures: Vec<String> = run.placement.iter().map(told).collect();
        output::wrapped(&format!("{}: {}", run.policy, figures.join(", ")))
    });
    counted.collect::<Vec<_>>().join("\n")
}

fn device_cells(device: &DeviceFigures) -> [String; 8] {
    let or_dash = |value: Option<u64>| value.map_or(NONE.into(), |value| value.to_string());
    [
        device.ios.to_string(),
        bytes(device.read_bytes as f64),
        bytes(device.written_bytes as f64),
        seconds(device.busy_s),
        joules(device.energy_j),
        or_none(device.write_amplification, significant),
        or_dash(device.erases),
        or_dash(device.erases_max),
    ]
}

/// The streams with most requests under way: how many those are on average, and their tail, policies across.
fn streams(runs: &[RunResult]) -> String {
    const SHOWN: usize = 8;
    type Row = (&'static str, fn(&StreamShare) -> String);
    const ROWS: [Row; 3] = [
        ("under way", |of| significant(of.busy_share)),
        ("p99", |of| or_none(of.p99_ms, millis)),
        ("late: longest", |of| millis(of.longest_lag_ms)),
    ];
    let Some(first) = runs.first() else { return String::new() };
    let is_closed = is_closed(runs);
    let policies = runs.iter().map(|run| output::in_lines(&run.policy));
    let mut table = output::table(["stream".into(), String::new()].into_iter().chain(policies));
    for share in first.figures.streams.iter().take(SHOWN) {
        let rows = ROWS.iter().filter(|(what, _)| !is_closed || !OF_RECORDED_TIMES.contains(what));
        for (index, (what, show)) in rows.enumerate() {
            let name = if index == 0 { share.stream.as_str() } else { "" };
            let cells = runs.iter().map(|run| {
                let same = run.figures.streams.iter().find(|other| other.stream == share.stream);
                right(same.map_or(NONE.into(), show))
            });
            table.add_row([Cell::new(name), Cell::new(what)].into_iter().chain(cells));
        }
    }
    let left = first.figures.streams.len().saturating_sub(SHOWN);
    let more = match left {
        0 => String::new(),
        left => format!("\n({left} more: --format json has them all)"),
    };
    format!("{table}{more}")
}
