//! A description as text: one screen of tables.

use std::fmt;

use comfy_table::{CellAlignment, ContentArrangement, Table};

use super::description::{Arrivals, Description, StreamRow, VolumeRow};
use crate::plural::counted;

/// How wide a page is.
const COLUMNS: u16 = 100;

/// Streams and volumes shown; the description itself holds more.
const ROWS: usize = 8;

/// One line below the header, and no other.
const LINES: &str = "     ──            ";

impl Description {
    /// The main figures as tables of at most so many columns, about a screen of lines; threads, where they were asked
    /// for, take more lines.
    pub fn table(&self, columns: u16) -> String {
        let mut parts = vec![self.headline(), self.directions(columns).to_string()];
        parts.push(self.order());
        parts.push(scales(&self.arrivals, columns).to_string());
        parts.push(self.stream_table(columns).to_string());
        if self.by_volume.len() > 1 {
            parts.push(self.volume_table(columns).to_string());
        }
        parts.extend(self.by_thread.iter().map(|threads| threads.table(columns)));
        parts.extend(self.losses());
        parts.join("\n\n")
    }

    fn headline(&self) -> String {
        let exact = match self.footprint_exact {
            true => String::new(),
            false => format!(" ± {:.2} %", 100.0 * self.footprint_error_share),
        };
        format!(
            "{} trace: {} in {} s ({} per second, {}/s), {}, {}\n\
             {} by {}, {}, {}, {}; touches {}{exact}",
            self.format,
            counted(self.requests, "request"),
            number(Some(self.duration_s)),
            number(self.mean_iops),
            self.mean_bytes_per_s.map_or("-".to_owned(), bytes_f64),
            counted(self.flushes, "flush"),
            counted(self.trims, "trim"),
            counted(self.streams, "stream"),
            self.stream_by,
            counted(self.threads, "thread"),
            counted(self.processes, "process"),
            counted(self.volumes, "volume"),
            bytes(self.footprint_bytes),
        )
    }

    fn directions(&self, columns: u16) -> Table {
        let mut table = new(
            columns,
            &["", "requests", "bytes", "mean KiB", "p50", "p99", "max", "mean ms", "p50", "p99"],
        );
        let rows = [
            ("reads", self.reads, self.read_bytes, &self.read_size, &self.read_latency),
            ("writes", self.writes, self.write_bytes, &self.write_size, &self.write_latency),
        ];
        for (name, requests, total, size, latency) in rows {
            table.add_row([
                name.to_owned(),
                requests.to_string(),
                bytes(total),
                number(size.mean_kib),
                number(size.p50_kib),
                number(size.p99_kib),
                number(size.max_kib),
                number(latency.mean_ms),
                number(latency.p50_ms),
                number(latency.p99_ms),
            ]);
        }
        right_aligned(table)
    }

    fn order(&self) -> String {
        format!(
            "sequential: {} as the disk sees it, {} within streams, {} within threads\n\
             runs: {} requests on average, {} within a stream; seeks: {}, half over {}\n\
             gaps: {} ms on average, p99 {} ms, variation {}\n\
             outstanding: {} on average, {} at most",
            percent(self.sequential_share),
            percent(self.sequential_share_by_stream),
            percent(self.sequential_share_by_thread),
            number(self.runs.mean_requests),
            number(self.stream_runs.mean_requests),
            self.seeks.count,
            self.seeks.p50_bytes.map_or("-".to_owned(), bytes),
            number(self.inter_arrival.mean_ms),
            number(self.inter_arrival.p99_ms),
            number(self.inter_arrival.variation),
            number(self.concurrency.mean_outstanding),
            self.concurrency.max_outstanding.map_or("-".to_owned(), |n| n.to_string()),
        )
    }

    fn stream_table(&self, columns: u16) -> Table {
        let mut table = new(
            columns,
            &["stream", "requests", "share", "read", "written", "bytes", "mean KiB", "sequential"],
        );
        for row in self.by_stream.rows.iter().take(ROWS) {
            table.add_row(stream_cells(&row.label, row));
        }
        let hidden = self.by_stream.total.saturating_sub(ROWS as u64);
        if hidden > 0 {
            table.add_row([format!("{hidden} more")]);
        }
        right_aligned(table)
    }

    fn volume_table(&self, columns: u16) -> Table {
        let mut table = new(
            columns,
            &[
                "volume",
                "requests",
                "share",
                "read",
                "written",
                "touched",
                "extent",
                "mean KiB",
                "sequential",
            ],
        );
        for row in self.by_volume.iter().take(ROWS) {
            table.add_row(volume_cells(row));
        }
        let hidden = self.by_volume.len().saturating_sub(ROWS);
        if hidden > 0 {
            table.add_row([format!("{hidden} more")]);
        }
        right_aligned(table)
    }

    /// What the reading lost or mended; always says so.
    fn losses(&self) -> Vec<String> {
        let mut lines = vec![format!(
            "rows skipped: {}, late rows mended: {}",
            self.rows_skipped, self.rows_late
        )];
        lines.extend(self.warnings.iter().map(|warning| format!("warning: {warning}")));
        lines
    }
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.table(COLUMNS))
    }
}

fn scales(arrivals: &[Arrivals], columns: u16) -> Table {
    let scale = |a: &Arrivals| match a.bin_ms {
        ms if ms < 1000 => format!("{ms} ms"),
        ms => format!("{} s", ms / 1000),
    };
    let mut header = vec!["arrivals in bins of".to_owned()];
    header.extend(arrivals.iter().map(scale));
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let mut table = new(columns, &header);
    let mut add = |name: &str, figure: fn(&Arrivals) -> Option<f64>| {
        let figures = arrivals.iter().map(|a| number(figure(a)));
        table.add_row(std::iter::once(name.to_owned()).chain(figures));
    };
    add("mean requests", |a| a.mean_requests);
    add("peak per second", |a| a.peak_iops);
    add("variance / mean", |a| a.dispersion);
    right_aligned(table)
}

pub(super) fn new(columns: u16, header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(LINES).set_header(header);
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(columns);
    table
}

pub(super) fn right_aligned(mut table: Table) -> Table {
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn stream_cells(label: &str, row: &StreamRow) -> [String; 8] {
    [
        printable(label),
        row.requests.to_string(),
        percent(row.request_share),
        bytes(row.read_bytes),
        bytes(row.write_bytes),
        percent(row.byte_share),
        number(row.mean_kib),
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
        number(row.mean_kib),
        percent(row.sequential_share),
    ]
}

/// A name from a trace, at most 32 letters of it, that cannot command the terminal nor break a table.
pub fn printable(name: &str) -> String {
    name.chars().take(32).map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Three digits, or all of those before the point.
pub(super) fn number(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(0.0) => "0".to_owned(),
        Some(v) if v.abs() >= 99.95 => format!("{v:.0}"),
        Some(v) if v.abs() >= 9.995 => format!("{v:.1}"),
        Some(v) if v.abs() >= 0.9995 => format!("{v:.2}"),
        Some(v) => format!("{v:.3}"),
    }
}

pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or("-".to_owned(), |share| format!("{:.1} %", 100.0 * share))
}

fn bytes(count: u64) -> String {
    bytes_f64(count as f64)
}

/// Decimal units, as disks are sold.
pub(super) fn bytes_f64(count: f64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    let (mut value, mut unit) = (count, "B");
    for next in units.into_iter().skip(1) {
        if value < 999.5 {
            break;
        }
        (value, unit) = (value / 1000.0, next);
    }
    format!("{} {unit}", number(Some(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        let shown = [0.0, 0.1234, 1.0, 12.345, 99.96, 1234.5].map(|v| number(Some(v)));
        assert_eq!(shown, ["0", "0.123", "1.00", "12.3", "100", "1234"]);
        assert_eq!((number(None), percent(Some(0.5))), ("-".to_owned(), "50.0 %".to_owned()));
    }

    #[test]
    fn bytes_have_decimal_units() {
        assert_eq!((bytes(0), bytes(512)), ("0 B".to_owned(), "512 B".to_owned()));
        assert_eq!((bytes(999_600), bytes(8_370_000_000)), ("1.00 MB".into(), "8.37 GB".into()));
        assert_eq!(bytes(u64::MAX), "18.4 EB");
    }

    #[test]
    fn names_cannot_command_the_terminal() {
        assert_eq!(printable("a\u{1b}[2Jb\n"), "a?[2Jb?");
    }
}
