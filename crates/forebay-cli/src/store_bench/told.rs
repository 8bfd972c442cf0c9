//! Formats benchmark results for people.

use std::time::Duration;

use forebay_show::grid::{Cell, Grid, right};
use forebay_words::quantities::{bytes, millis, percent, rate, significant};
use serde::Serialize;

use super::{Figures, Latency, OperationKind, OperationRow, SPACE, StoreBenchAsk, Tally, Turns};
use crate::output::{self, wrapped};

/// The results of a benchmark.
#[derive(Serialize)]
pub(super) struct Results {
    workload: String,
    target: String,
    /// The kind of loop: "open" or "closed".
    #[serde(rename = "loop")]
    of_loop: &'static str,
    arrivals: Option<String>,
    wanted_rate_per_s: Option<f64>,
    clients: u32,
    records: u64,
    value_bytes: u64,
    key_bytes: u64,
    seed: u64,
    interrupted: bool,
    /// The reason why the run ended early, if it did.
    pub(super) gone: Option<String>,
    /// The number of keys that the benchmark left in the store.
    keys_left: u64,
    pub(super) load: Option<Phase>,
    pub(super) run: Option<Phase>,
}

/// The results of one phase.
#[derive(Serialize)]
pub(super) struct Phase {
    #[serde(flatten)]
    pub(super) figures: Figures,
    pub(super) messages: Vec<String>,
}

impl Phase {
    fn of((tally, elapsed): (Tally, Duration)) -> Phase {
        Phase { figures: tally.figures(elapsed), messages: tally.messages().to_vec() }
    }
}

impl StoreBenchAsk {
    pub(super) fn results(
        &self,
        turns: &Turns,
        load: Option<(Tally, Duration)>,
        run: Option<(Tally, Duration)>,
        interrupted: bool,
        gone: Option<String>,
    ) -> Results {
        let is_open = matches!(turns, Turns::Open { .. });
        let (load, run) = (load.map(Phase::of), run.map(Phase::of));
        let is_insert = |row: &&OperationRow| row.operation == OperationKind::Insert.name();
        let rows = [&load, &run].into_iter().flatten().flat_map(|phase| &phase.figures.operations);
        let keys_left = rows.filter(is_insert).map(|row| row.count).sum();
        let disks: Vec<String> = self.disks.iter().map(|disk| disk.display().to_string()).collect();
        Results {
            workload: self.workload.name().to_string(),
            target: if disks.is_empty() { self.connect.clone() } else { disks.join(" ") },
            of_loop: if is_open { "open" } else { "closed" },
            arrivals: is_open.then(|| self.arrivals.clone().unwrap_or_else(|| "poisson".into())),
            wanted_rate_per_s: self.rate,
            clients: self.clients,
            records: if self.workload.is_loaded() { self.records } else { 0 },
            value_bytes: self.value_bytes.bytes,
            key_bytes: self.key_bytes.bytes,
            seed: self.seed,
            interrupted,
            gone,
            keys_left,
            load,
            run,
        }
    }
}

/// Formats the results for people, beginning with the most important ones.
pub(super) fn told(results: &Results) -> String {
    let is_open = results.of_loop == "open";
    let mut lines = Vec::new();
    let Some(phase) = results.run.as_ref().or(results.load.as_ref()) else {
        return "Nothing was asked.".into();
    };
    lines.push(wrapped(&headline(results, &phase.figures)));
    if results.gone.is_some() || results.interrupted {
        lines.push("The run ended early: these are the results so far.".into());
    }
    lines.push(wrapped(&format!(
        "{}; values of {}.",
        clients(results),
        bytes(results.value_bytes as f64)
    )));
    lines.push(wrapped(&match is_open {
        true => format!(
            "Open loop, arrivals {}: latency is measured from when an operation was due; the \
             second line measures it from when the operation was sent.",
            results.arrivals.as_deref().unwrap_or("poisson")
        ),
        false => "Closed loop: each client sends its next operation when the last one completes, \
            so a stalled server receives fewer operations; --rate keeps the rate constant."
            .to_string(),
    }));
    let mut table = output::table([
        "operation",
        "count",
        "per s",
        "values",
        "from",
        "p50",
        "p90",
        "p99",
        "p99.9",
        "max",
    ]);
    if let (Some(load), Some(_)) = (&results.load, &results.run) {
        rows(&mut table, "load: ", &load.figures, false);
    }
    rows(&mut table, "", &phase.figures, is_open);
    lines.push(table.to_string());
    if is_open {
        let late = phase.figures.generator_late;
        lines.push(wrapped(&format!(
            "The generator itself was late by {} at the median, {} at p99, {} at most; {} of the operations \
             waited for a client to be free (--clients).",
            millis(late.p50_ms),
            millis(late.p99_ms),
            millis(late.max_ms),
            percent(phase.figures.waited_for_client_share),
        )));
    }
    if results.keys_left > 0 {
        let many = if results.keys_left == 1 { " is" } else { "s are" };
        let keys = format!("{} key{many}", results.keys_left);
        lines.push(format!("{keys} left in the store; all begin with {SPACE}"));
    }
    lines.join("\n")
}

fn clients(results: &Results) -> String {
    let many = if results.clients == 1 { "" } else { "s" };
    format!("At {}, {} client{many}", results.target, results.clients)
}

fn headline(results: &Results, figures: &Figures) -> String {
    let asked = match results.run {
        Some(_) => format!("Workload {}", results.workload),
        None => "Loading the records".to_string(),
    };
    let common = figures.operations.iter().max_by_key(|row| row.count);
    let tail = common.map_or_else(String::new, |row| {
        let latency = row.from_intended;
        let (p50, p99) = (millis(latency.p50_ms), millis(latency.p99_ms));
        format!("; {}s took {p50} at the median, {p99} at p99", row.operation)
    });
    let wrong = match figures.failed + figures.wrong {
        0 => String::new(),
        some => format!("; {some} FAILED"),
    };
    let wanted = match results.wanted_rate_per_s {
        Some(rate) if results.run.is_some() => format!(" of {} wanted", significant(rate)),
        _ => String::new(),
    };
    format!("{asked}: {} operations/s{wanted}{tail}{wrong}.", significant(figures.rate_per_s))
}

fn rows(table: &mut Grid, phase: &str, figures: &Figures, is_open: bool) {
    for row in &figures.operations {
        let name = format!("{phase}{}", row.operation);
        let cells =
            [row.count.to_string(), significant(row.rate_per_s), rate(row.values_mb_per_s * 1e6)];
        let from = if is_open { "intended" } else { "sent" };
        table.add_row(line(&name, cells, from, row.from_intended));
        if is_open {
            table.add_row(line("", Default::default(), "sent", row.from_sent));
        }
    }
}

fn line(name: &str, cells: [String; 3], from: &str, latency: Latency) -> Vec<Cell> {
    let Latency { p50_ms, p90_ms, p99_ms, p999_ms, max_ms, .. } = latency;
    let times = [p50_ms, p90_ms, p99_ms, p999_ms, max_ms].map(|time| right(millis(time)));
    let cells = cells.map(right);
    [Cell::new(name)].into_iter().chain(cells).chain([Cell::new(from)]).chain(times).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns results with wide numbers: a million operations, 123,456 per second, latencies of 12
    /// s, and failures.
    fn wide() -> Results {
        let latency = Latency {
            mean_ms: 54_321.0,
            p50_ms: 12_345.0,
            p90_ms: 12_345.0,
            p99_ms: 12_345.0,
            p999_ms: 12_345.0,
            max_ms: 12_345.0,
        };
        let row = OperationRow {
            operation: "read-modify-write",
            count: 1_000_000,
            failed: 12_345,
            wrong: 6,
            rate_per_s: 123_456.0,
            values_mb_per_s: 12_345.0,
            from_intended: latency,
            from_sent: latency,
        };
        let figures = Figures {
            elapsed_s: 10.0,
            count: 1_000_000,
            failed: 12_345,
            wrong: 6,
            rate_per_s: 123_456.0,
            operations: vec![row],
            generator_late: latency,
            waited_for_client_share: 1.0,
        };
        Results {
            workload: "ingest".into(),
            target: "a-folder-with-a-rather-long-name/disk ".repeat(4).trim().into(),
            of_loop: "open",
            arrivals: Some("gamma".into()),
            wanted_rate_per_s: Some(1_234_567.0),
            clients: 10_000,
            records: 0,
            value_bytes: 1_000_000,
            key_bytes: 30,
            seed: 1,
            interrupted: true,
            gone: None,
            keys_left: 1_100_000_000,
            load: None,
            run: Some(Phase { figures, messages: Vec::new() }),
        }
    }

    #[test]
    fn every_line_fits_however_wide_the_figures() {
        for of_loop in ["open", "closed"] {
            let said = told(&Results { of_loop, ..wide() });
            assert!(
                said.starts_with("Workload ingest: 123456 operations/s of 1234567 wanted"),
                "{said}"
            );
            assert!(said.contains("12351 FAILED") && said.contains("  12.3 s  12.3 s"), "{said}");
            let widest = said.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(crate::output::COLUMNS), "{widest:?}: {said}");
        }
    }
}
