//! `forebay plan capacity`.

use clap::{Args, ValueEnum};
use comfy_table::{Cell, CellAlignment, Table, presets};
use forebay::plan::amount::Fraction;
use forebay::plan::capacity::{Promises, Row, table};
use forebay_core::Nanos;
use serde::Serialize;

use crate::options::{Source, TracePath};
use crate::output::{self, Format};
use crate::plan;
use crate::progress::Progress;

/// Find the least capacity that answers a fraction of the requests within a time
#[derive(Args)]
pub(crate) struct Capacity {
    /// The trace
    trace: TracePath,
    /// Times within which requests are to be answered, comma-separated
    #[arg(long, value_name = "TIME,...", value_delimiter = ',', value_parser = plan::span,
          default_value = "5ms,10ms,20ms,50ms", allow_hyphen_values = true)]
    within: Vec<Nanos>,
    /// Fractions of all requests, above 0 and at most 1, comma-separated; 0.9995 is exact
    #[arg(long, value_name = "SHARE,...", value_delimiter = ',', value_parser = plan::fraction,
          default_value = "0.9,0.95,0.99,0.995,0.999,1", allow_hyphen_values = true)]
    fraction: Vec<Fraction>,
    /// Answer for each volume as well
    #[arg(long, value_enum)]
    by: Option<By>,
    #[command(flatten)]
    source: Source,
    /// How to print the results
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

/// What is told apart.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum By {
    /// Rows for each volume, beside those of the trace as a whole.
    Volume,
}

#[derive(Serialize)]
struct Results {
    trace: String,
    requests: u64,
    duration_s: f64,
    rows: Vec<Row>,
}

impl Capacity {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let arrivals = plan::arrivals(&self.source, &self.trace, self.by.is_some())?;
        let promises = Promises { within: self.within, fractions: self.fraction };
        let progress = Progress::new("searching for capacities");
        let rows = table(&arrivals, &promises)?;
        drop(progress);
        match self.format {
            Format::Json => output::print_json(&Results {
                trace: self.trace.display().to_string(),
                requests: arrivals.requests(),
                duration_s: arrivals.duration().as_secs_f64(),
                rows,
            })?,
            Format::Table => output::print(&shown(&rows, &promises))?,
        }
        Ok(())
    }
}

/// Bounds down, fractions across.
fn shown(rows: &[Row], promises: &Promises) -> String {
    let by_volume = rows.iter().any(|row| row.volume.is_some());
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    let fractions = promises.fractions.iter().map(|f| format!("{f}"));
    let heads = by_volume.then(|| "volume".to_string()).into_iter();
    table.set_header(heads.chain(["IOPS within".into()]).chain(fractions));
    for line in rows.chunks(promises.fractions.len()) {
        let volume = line[0].volume.as_deref().unwrap_or("(all)");
        let first = by_volume.then(|| Cell::new(volume)).into_iter();
        let within = Cell::new(format!("{} ms", line[0].within_ms));
        let figures =
            line.iter().map(|row| Cell::new(row.capacity_iops).set_alignment(CellAlignment::Right));
        table.add_row(first.chain([within]).chain(figures));
    }
    table.to_string()
}
