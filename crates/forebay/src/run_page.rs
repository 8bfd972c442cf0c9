//! Sections about runs, on the report pages of `simulate` and `advise`: devices, head positions,
//! latencies, arrivals, streams, and all figures.

mod closer;
mod heads;
mod pictures;
pub(crate) mod rows;

use forebay_show::{
    Block, Cell, Chart, ChartAxis, ChartScale, Column, Figure, Page, Place, Row, Series, Table,
    Unit,
};

use crate::quantities::seconds;
use crate::statistics::StreamShare;
use crate::{Run, RunResult, words};
use heads::{IO_HEADS, IoRow};
use rows::across;

/// The number of runs that fit side by side on a sheet of paper.
const RUNS_BESIDE: usize = 8;
/// The maximum number of streams in a table.
const STREAMS_MAX: usize = 20;
/// The maximum number of pairs of streams in a table.
const FIGHTS_MAX: usize = 8;

/// The content of the sections: runs of one trace on one device.
pub(crate) struct RunSections<'a> {
    /// The runs, each with the name of its policy.
    pub(crate) runs: &'a [(String, Run)],
    /// The figures of all runs, including runs of which nothing but the figures is kept.
    pub(crate) results: &'a [RunResult],
    /// The runs to compare in detail: one or two of `results`.
    pub(crate) compared: Vec<&'a RunResult>,
    /// The names of the runs whose latencies and times appear in charts.
    pub(crate) drawn: Vec<&'a str>,
    /// The number of cylinders of the disk; 0 for a device without heads.
    pub(crate) cylinders: u32,
    /// The names of the trace's streams.
    pub(crate) streams: &'a [String],
    /// The trace's arrivals over time, as (seconds, requests per second).
    pub(crate) arrivals: &'a [(f64, f64)],
}

impl RunSections<'_> {
    /// Adds all sections about the runs to `page`.
    pub(crate) fn add_to(&self, page: &mut Page) {
        let results = self.results;
        let Some(first) = self.compared.first() else { return };
        page.add("Latency", Place::Detail, self.latencies());
        page.add("Streams that fight", Place::Detail, fights(&self.compared));
        let io_lists = self.add_heads(page);
        let picture = |(svg, caption)| Block::Picture { svg, caption };
        if self.cylinders > 0 {
            let drawn = results.iter().filter(|run| self.drawn.contains(&&run.policy[..]));
            let spent = pictures::spent_picture(drawn, first.replay).map(picture);
            page.add("Where the disk's time went", Place::Detail, spent.into_iter().collect());
        }
        page.add("Streams", Place::Folded, vec![Block::Table(streams(&self.compared))]);
        let arrivals = pictures::arrivals_picture(self.arrivals).map(picture);
        page.add("Arrivals", Place::Folded, arrivals.into_iter().collect());
        page.add("I/Os of the closer look", Place::Folded, io_lists);
        let devices = devices(results).map(Block::Table);
        page.add("Devices", Place::Folded, devices.into_iter().collect());
        page.add("Counted by the policies", Place::Folded, counted(results).into_iter().collect());
        let beside = results.len().div_ceil(results.len().div_ceil(RUNS_BESIDE).max(1)).max(1);
        let mut all: Vec<Block> =
            results.chunks(beside).map(|runs| Block::Table(across(runs))).collect();
        all.push(Block::Table(speeds(results)));
        page.add("All figures of all runs", Place::Folded, all);
    }

    /// Adds charts of the head positions under the compared policies. Returns lists of the I/Os in
    /// the charts.
    fn add_heads(&self, page: &mut Page) -> Vec<Block> {
        let other = self.compared.get(1).map(|run| run.policy.as_str());
        let disk = (self.cylinders, self.streams);
        let views = pictures::head_views(self.runs, &self.compared[0].policy, other, disk);
        let Some(views) = views else { return Vec::new() };
        let mut blocks = vec![Block::Text(views.about)];
        let mut lists = Vec::new();
        for row in views.rows {
            blocks.extend(row.why.map(Block::Text));
            let drawn = row.pictures.into_iter();
            let drawn = drawn.map(|(svg, caption)| Block::Picture { svg, caption });
            blocks.push(Block::Beside(drawn.collect()));
            for (title, rows) in row.lists {
                lists.push(Block::Text(format!("{title}:")));
                lists.push(Block::Table(listed(&rows)));
            }
        }
        page.add("Where the heads are", Place::Detail, blocks);
        lists
    }

    /// Draws the distribution of latencies, in which the compared runs are highlighted.
    fn latencies(&self) -> Vec<Block> {
        type Points = Vec<(f64, f64)>;
        let chart = |id: &str, kind: &str, of: fn(&Run) -> &Points| {
            let drawn = self.runs.iter().filter(|(policy, _)| self.drawn.contains(&&policy[..]));
            let series = drawn.map(|(policy, run)| Series {
                name: policy.clone(),
                points: of(run).iter().map(|(ms, share)| (ms / 1e3, *share)).collect(),
                is_faint: !self.compared.iter().any(|one| one.policy == *policy),
            });
            let series: Vec<Series> = series.collect();
            let is_drawn = series.iter().any(|line| !line.points.is_empty());
            is_drawn.then(|| {
                Block::Chart(Chart {
                    id: id.into(),
                    title: format!("{kind} latency by policy"),
                    description: "Share of requests answered within a latency.".into(),
                    x: ChartAxis::new(
                        "latency (logarithmic)",
                        Unit::Seconds,
                        1e3,
                        ChartScale::Decades,
                    ),
                    y: ChartAxis::new(
                        "requests, %",
                        Unit::Share,
                        100.0,
                        ChartScale::Between(0.0, 1.0),
                    ),
                    series,
                    is_half: true,
                })
            })
        };
        let reads = chart("reads", "Read", |run| &run.read_distribution);
        let writes = chart("writes", "Write", |run| &run.write_distribution);
        reads.into_iter().chain(writes).collect()
    }
}

fn listed(rows: &[IoRow]) -> Table {
    let mut table = Table::new(IO_HEADS.map(Column::words));
    table.rows.extend(rows.iter().map(|row| Row::new(row.clone().map(Cell::Words))));
    table
}

/// Builds the table of service classes with their response times, under each policy that has
/// classes.
pub(crate) fn classes(runs: &[RunResult]) -> Option<Table> {
    let table = Table::listing(
        runs.iter().flat_map(|run| std::iter::repeat(&run.policy).zip(&run.figures.classes)),
        &[
            (Column::words("policy"), &|(policy, _)| name(policy).into()),
            (Column::words("class"), &|(_, of)| of.class.to_string().into()),
            (Column::of("requests", Unit::Count), &|(_, of)| of.requests.into()),
            (Column::of("bound", Unit::Bound), &|(_, of)| Cell::ms(of.bound_ms)),
            (Column::of("within it", Unit::Share), &|(_, of)| of.within_bound_share.into()),
            (Column::of("mean", Unit::Seconds), &|(_, of)| Cell::ms(of.mean_ms)),
            (Column::of("p50", Unit::Seconds), &|(_, of)| Cell::ms(of.p50_ms)),
            (Column::of("p99", Unit::Seconds), &|(_, of)| Cell::ms(of.p99_ms)),
            (Column::of("longest", Unit::Seconds), &|(_, of)| Cell::ms(of.longest_ms)),
        ],
    );
    (!table.rows.is_empty()).then_some(table)
}

/// Builds the table of the devices in each run, if a run has several devices or its flash wears
/// out.
fn devices(runs: &[RunResult]) -> Option<Table> {
    let several = runs.iter().any(|run| run.devices.len() > 1);
    if !several && runs.iter().all(|run| run.erases.is_none()) {
        return None;
    }
    let count = |value: Option<u64>| Cell::value(value.map(|value| value as f64));
    let table = Table::listing(
        runs.iter().flat_map(|run| std::iter::repeat(&run.policy).zip(&run.devices)),
        &[
            (Column::words("policy"), &|(policy, _)| name(policy).into()),
            (Column::words("device"), &|(_, of)| of.device.clone().into()),
            (Column::words("role"), &|(_, of)| of.role.into()),
            (Column::of("I/Os", Unit::Count), &|(_, of)| of.ios.into()),
            (Column::of("read", Unit::Bytes), &|(_, of)| of.read_bytes.into()),
            (Column::of("written", Unit::Bytes), &|(_, of)| of.written_bytes.into()),
            (Column::of("busy time", Unit::Seconds), &|(_, of)| of.busy_s.into()),
            (Column::of("energy", Unit::Joules), &|(_, of)| of.energy_j.into()),
            (Column::of("write amplification", Unit::Number), &|(_, of)| {
                of.write_amplification.into()
            }),
            (Column::of("erases", Unit::Count), &|(_, of)| count(of.erases)),
            (Column::of("erases max", Unit::Count), &|(_, of)| count(of.erases_max)),
        ],
    );
    Some(table)
}

/// Builds the table of counters that policies keep themselves.
fn counted(runs: &[RunResult]) -> Option<Block> {
    let mut table = Table::new(["policy", "figure", "value"].map(Column::words));
    for run in runs {
        for (key, value) in &run.placement {
            let cells =
                [name(&run.policy).into(), words::words(key).into(), words::cell(key, *value)];
            table.rows.push(Row::new(cells));
        }
    }
    (!table.rows.is_empty()).then_some(Block::Table(table))
}

/// Formats a policy's name for tables. Long names may be broken between parameters.
pub(crate) fn name(policy: &str) -> String {
    const ONE_LINE_MAX: usize = 20;
    match policy.chars().count() {
        ..=ONE_LINE_MAX => policy.to_string(),
        _ => policy.replace(':', ": "),
    }
}

/// Builds the list of the streams that delay one another most in the first run.
fn fights(shown: &[&RunResult]) -> Vec<Block> {
    let contention = &shown[0].contention;
    let lost_s = contention.between_streams_s + contention.within_streams_s;
    let table = Table::listing(
        contention.fights.iter().take(FIGHTS_MAX),
        &[
            (Column::words("streams"), &|it| format!("{} ↔ {}", it.stream_a, it.stream_b).into()),
            (Column::of("switches", Unit::Count), &|it| it.switches.into()),
            (Column::of("time lost", Unit::Seconds), &|it| it.cost_s.into()),
            (Column::words("of all head movement"), &|it| {
                Figure::new(it.cost_s / lost_s, Unit::Share).text().into()
            }),
        ],
    );
    if table.rows.is_empty() {
        return Vec::new();
    }
    let between = |run: &RunResult| seconds(run.contention.between_streams_s);
    let other = shown.get(1).map(|run| format!(", {} under {}", between(run), run.policy));
    let said = format!(
        "Under {}. Seeks and rotational delays when the heads move from one stream to another \
         take {} in total{}.",
        shown[0].policy,
        between(shown[0]),
        other.unwrap_or_default()
    );
    vec![Block::Text(said), Block::Table(table)]
}

/// Builds the table of the busiest streams of the first run, with their figures in the other run.
fn streams(shown: &[&RunResult]) -> Table {
    let mut columns = vec![
        Column::words("stream"),
        Column::of("I/Os under way", Unit::Number),
        Column::of("requests", Unit::Count),
    ];
    let is_late = shown.iter().any(|run| run.figures.longest_lag_ms > 0.0);
    type StreamTime = fn(&StreamShare) -> Option<f64>;
    let mut times: Vec<(&str, StreamTime)> = vec![("p50", |of| of.p50_ms), ("p99", |of| of.p99_ms)];
    if is_late {
        times.push(("most late", |of| Some(of.longest_lag_ms)));
    }
    for (what, _) in &times {
        let head =
            |run: &&RunResult| Column::of(format!("{what}, {}", name(&run.policy)), Unit::Seconds);
        columns.extend(shown.iter().map(head));
    }
    let mut table = Table::new(columns);
    let all = &shown[0].figures.streams;
    for stream in all.iter().take(STREAMS_MAX) {
        let same = |run: &RunResult| {
            run.figures.streams.iter().find(|share| share.stream == stream.stream).cloned()
        };
        let found: Vec<Option<StreamShare>> = shown.iter().map(|run| same(run)).collect();
        let mut cells: Vec<Cell> = vec![
            stream.stream.clone().into(),
            stream.busy_share.into(),
            (stream.requests as f64).into(),
        ];
        for (_, of) in &times {
            cells.extend(found.iter().map(|share| Cell::ms(share.as_ref().and_then(of))));
        }
        table.rows.push(Row::new(cells));
    }
    let rest = shown[0].figures.streams_total.saturating_sub(STREAMS_MAX);
    if rest > 0 {
        table.rows.push(Row::new([format!("{rest} more").into()]));
    }
    table
}

/// Builds the table of the simulator's own speed in each run.
fn speeds(runs: &[RunResult]) -> Table {
    let heads = [Column::words("policy"), Column::of("simulated requests/s", Unit::Number)];
    let mut table = Table::new(heads);
    table.rows = runs
        .iter()
        .map(|run| Row::new([name(&run.policy).into(), Cell::Value(run.simulated_requests_per_s)]))
        .collect();
    table
}
