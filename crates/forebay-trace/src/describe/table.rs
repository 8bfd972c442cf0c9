//! A description as text: one screen of tables.

use std::fmt;

use super::description::{Arrivals, Description, StreamRow, VolumeRow};
use forebay_show::grid::{Cell, Grid, right};
use forebay_show::plural::counted;
use forebay_show::prose;
use forebay_show::quantities::{self, or_none, significant};

/// How wide a page is.
const COLUMNS: u16 = 100;

/// Streams and volumes shown; the description itself holds more.
const ROWS: usize = 8;

impl Description {
    /// The main figures as tables of at most so many columns, about a screen of lines; threads, where they were asked
    /// for, take more lines.
    pub fn table(&self, columns: u16) -> String {
        let wrapped = |lines: Vec<String>| {
            let lines = lines.iter().map(|line| prose::wrapped(line, usize::from(columns)));
            lines.collect::<Vec<_>>().join("\n")
        };
        let mut parts = vec![wrapped(self.headline())];
        parts.push(self.directions(columns).to_string());
        parts.push(wrapped(self.order()));
        parts.push(scales(&self.arrivals, columns).to_string());
        parts.push(self.stream_table(columns).to_string());
        if self.by_volume.len() > 1 {
            parts.push(self.volume_table(columns).to_string());
        }
        parts.extend(self.by_thread.iter().map(|threads| threads.table(columns)));
        parts.extend(self.losses().into_iter().map(|line| wrapped(vec![line])));
        parts.join("\n\n")
    }

    fn headline(&self) -> Vec<String> {
        let exact = match self.footprint_exact {
            true => String::new(),
            false => format!(" ± {:.2} %", 100.0 * self.footprint_error_share),
        };
        let alone = self.records.saturating_sub(self.requests + self.trims);
        let alone = match alone < self.flushes {
            true => format!(" ({alone} by {})", if alone == 1 { "itself" } else { "themselves" }),
            false => String::new(),
        };
        let mut requests = format!(
            "{} trace: {} in {} ({} per second, {})",
            self.format,
            counted(self.requests, "request"),
            quantities::seconds(self.duration_s),
            number(self.mean_iops),
            rate(self.mean_bytes_per_s),
        );
        if self.flushes > 0 {
            requests += &format!(", {}{alone}", counted(self.flushes, "flush"));
        }
        if self.trims > 0 {
            requests += &format!(", {}", counted(self.trims, "trim"));
        }
        vec![
            requests,
            format!(
                "{} by {}, {}, {}, {}; touches {}{exact}",
                counted(self.streams, "stream"),
                self.stream_by,
                counted(self.threads, "thread"),
                counted(self.processes, "process"),
                counted(self.volumes, "volume"),
                bytes(self.footprint_bytes),
            ),
        ]
    }

    fn directions(&self, columns: u16) -> Grid {
        let mut table = Grid::new(
            columns,
            [
                "",
                "requests",
                "bytes",
                "mean size",
                "size p50",
                "size p99",
                "size max",
                "mean time",
                "time p50",
                "time p99",
            ],
        );
        let rows = [
            ("reads", self.reads, self.read_bytes, &self.read_size, &self.read_latency),
            ("writes", self.writes, self.write_bytes, &self.write_size, &self.write_latency),
        ];
        for (name, requests, total, sizes, latency) in rows {
            table.add_row(row([
                name.to_owned(),
                requests.to_string(),
                bytes(total),
                size(sizes.mean_kib),
                size(sizes.p50_kib),
                size(sizes.p99_kib),
                size(sizes.max_kib),
                time(latency.mean_ms),
                time(latency.p50_ms),
                time(latency.p99_ms),
            ]));
        }
        table
    }

    fn order(&self) -> Vec<String> {
        vec![
            format!(
                "sequential: {} as the disk sees it, {} within streams, {} within threads",
                percent(self.sequential_share),
                percent(self.sequential_share_by_stream),
                percent(self.sequential_share_by_thread),
            ),
            format!(
                "runs: {} requests on average, {} within a stream; seeks: {}, half over {}",
                number(self.runs.mean_requests),
                number(self.stream_runs.mean_requests),
                self.seeks.count,
                self.seeks.p50_bytes.map_or("-".to_owned(), bytes),
            ),
            format!(
                "gaps: {} on average, p99 {}, variation {}",
                time(self.inter_arrival.mean_ms),
                time(self.inter_arrival.p99_ms),
                number(self.inter_arrival.variation),
            ),
            format!(
                "outstanding: {} on average, {} at most",
                number(self.concurrency.mean_outstanding),
                self.concurrency.max_outstanding.map_or("-".to_owned(), |n| n.to_string()),
            ),
        ]
    }

    fn stream_table(&self, columns: u16) -> Grid {
        let mut table = Grid::new(
            columns,
            ["stream", "requests", "share", "read", "written", "bytes", "mean size", "sequential"],
        );
        for row in self.by_stream.rows.iter().take(ROWS) {
            table.add_row(self::row(stream_cells(&row.label, row)));
        }
        let hidden = self.by_stream.total.saturating_sub(ROWS as u64);
        if hidden > 0 {
            table.add_row([format!("{hidden} more")]);
        }
        table
    }

    fn volume_table(&self, columns: u16) -> Grid {
        let mut table = Grid::new(
            columns,
            [
                "volume",
                "requests",
                "share",
                "read",
                "written",
                "touched",
                "extent",
                "mean size",
                "sequential",
            ],
        );
        for row in self.by_volume.iter().take(ROWS) {
            table.add_row(self::row(volume_cells(row)));
        }
        let hidden = self.by_volume.len().saturating_sub(ROWS);
        if hidden > 0 {
            table.add_row([format!("{hidden} more")]);
        }
        table
    }

    /// What the reading lost or mended; always says so.
    fn losses(&self) -> Vec<String> {
        let mut lines = vec![format!(
            "rows skipped: {}, late rows mended: {}",
            self.rows_skipped, self.rows_late
        )];
        lines.extend(self.warnings.iter().map(|warning| format!("note: {warning}")));
        lines
    }
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.table(COLUMNS))
    }
}

fn scales(arrivals: &[Arrivals], columns: u16) -> Grid {
    let scale = |a: &Arrivals| match a.bin_ms {
        ms if ms < 1000 => format!("{ms} ms"),
        ms => format!("{} s", ms / 1000),
    };
    let mut header = vec!["arrivals in bins of".to_owned()];
    header.extend(arrivals.iter().map(scale));
    let mut table = Grid::new(columns, header);
    let mut add = |name: &str, figure: fn(&Arrivals) -> Option<f64>| {
        let figures = arrivals.iter().map(|a| number(figure(a)));
        table.add_row([Cell::new(name)].into_iter().chain(figures.map(right)));
    };
    add("mean requests", |a| a.mean_requests);
    add("peak per second", |a| a.peak_iops);
    add("variance / mean", |a| a.dispersion);
    table
}

/// A row: its name, then its figures.
pub(super) fn row<const CELLS: usize>(cells: [String; CELLS]) -> impl Iterator<Item = Cell> {
    let cell = |(index, text)| if index == 0 { Cell::new(text) } else { right(text) };
    cells.into_iter().enumerate().map(cell)
}

fn stream_cells(label: &str, row: &StreamRow) -> [String; 8] {
    [
        printable(label),
        row.requests.to_string(),
        percent(row.request_share),
        bytes(row.read_bytes),
        bytes(row.write_bytes),
        percent(row.byte_share),
        size(row.mean_kib),
        percent(row.sequential_share),
    ]
}

fn volume_cells(row: &VolumeRow) -> [String; 9] {
    [
        printable(&row.label),
        row.requests.to_string(),
        percent(row.request_share),
        bytes(row.read_bytes),
        bytes(row.write_bytes),
        bytes(row.footprint_bytes),
        bytes(row.extent_bytes),
        size(row.mean_kib),
        percent(row.sequential_share),
    ]
}

/// A name from a trace, at most 32 letters of it, that cannot command the terminal nor break a table.
pub fn printable(name: &str) -> String {
    name.chars().take(32).map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// A figure that may not exist.
pub(super) fn number(value: Option<f64>) -> String {
    or_none(value, significant)
}

/// A share that may not exist.
pub(super) fn percent(share: Option<f64>) -> String {
    or_none(share, quantities::percent)
}

/// A time that may not exist, given in milliseconds.
pub(super) fn time(ms: Option<f64>) -> String {
    or_none(ms, quantities::millis)
}

/// A mean size that may not exist, given in KiB.
pub(super) fn size(kib: Option<f64>) -> String {
    or_none(kib, |kib| quantities::bytes(kib * 1024.0))
}

/// A rate that may not exist.
pub(super) fn rate(bytes_per_s: Option<f64>) -> String {
    or_none(bytes_per_s, quantities::rate)
}

fn bytes(count: u64) -> String {
    quantities::bytes(count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_command_the_terminal() {
        assert_eq!(printable("a\u{1b}[2Jb\n"), "a?[2Jb?");
    }
}
