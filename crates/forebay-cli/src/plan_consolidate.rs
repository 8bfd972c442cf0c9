//! `forebay plan consolidate`.

use clap::Args;
use comfy_table::{Cell, CellAlignment, Table, presets};
use forebay::Error;
use forebay::plan::amount::Fraction;
use forebay::plan::arrival_times::ArrivalTimes;
use forebay::plan::capacity::Promises;
use forebay::plan::consolidate::{Consolidation, cautions, consolidate};
use forebay_core::Nanos;

use crate::options::{Source, TracePath};
use crate::output::{self, Format};
use crate::plan_options;
use crate::progress::Progress;

/// Find what clients that share a server need, beside the sum of what each needs alone
#[derive(Args)]
pub(crate) struct Consolidate {
    /// The clients' traces; one alone is given with itself
    #[arg(required = true)]
    traces: Vec<TracePath>,
    /// How much later each client begins than the one before it, comma-separated
    /// [default: 1s,100s for one trace, 0s for several]
    #[arg(long, value_name = "TIME,...", value_delimiter = ',', value_parser = plan_options::span_or_zero,
          allow_hyphen_values = true)]
    shift: Vec<Nanos>,
    /// Clients that one trace alone stands for [default: 2]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(2..=1000))]
    clients: Option<u16>,
    /// Times within which requests are to be answered, comma-separated
    #[arg(long, value_name = "TIME,...", value_delimiter = ',', value_parser = plan_options::span,
          default_value = "10ms", allow_hyphen_values = true)]
    within: Vec<Nanos>,
    /// Fractions of all requests, above 0 and at most 1, comma-separated
    #[arg(long, value_name = "SHARE,...", value_delimiter = ',', value_parser = plan_options::fraction,
          default_value = "1,0.9,0.95", allow_hyphen_values = true)]
    fraction: Vec<Fraction>,
    #[command(flatten)]
    source: Source,
    /// How to print the results
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

impl Consolidate {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        if let (Some(clients), several @ 2..) = (self.clients, self.traces.len()) {
            return Err(Error::Unfit(format!(
                "--clients {clients}: got {several} traces, each of which is a client; expected one \
                 trace that stands for {clients}; leave --clients out, or give one trace"
            ))
            .into());
        }
        let arrivals =
            self.traces.iter().map(|path| plan_options::arrivals(&self.source, path, false));
        let arrivals: Vec<ArrivalTimes> = arrivals.collect::<anyhow::Result<_>>()?;
        let copies = if arrivals.len() == 1 { usize::from(self.clients.unwrap_or(2)) } else { 1 };
        let clients: Vec<&ArrivalTimes> =
            arrivals.iter().flat_map(|client| std::iter::repeat_n(client, copies)).collect();
        let shifts = match (self.shift.is_empty(), copies) {
            (false, _) => self.shift,
            (true, 1) => vec![Nanos::ZERO],
            (true, _) => vec![Nanos::from_secs(1), Nanos::from_secs(100)],
        };
        for caution in cautions(&clients, &shifts) {
            eprintln!("forebay: {caution}");
        }
        let promises = Promises { within: self.within, fractions: self.fraction };
        let progress = Progress::new("searching for capacities");
        let found = consolidate(&clients, &shifts, &promises)?;
        drop(progress);
        match self.format {
            Format::Json => output::print_json(&found)?,
            Format::Table => output::print(&shown(&found))?,
        }
        Ok(())
    }
}

fn shown(found: &Consolidation) -> String {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    table.set_header([
        "within ms",
        "fraction",
        "shift s",
        "sum IOPS",
        "together IOPS",
        "ratio",
        "so answered of the worst client",
        "every client IOPS",
    ]);
    for row in &found.rows {
        let cells = [
            row.within_ms.to_string(),
            row.fraction.to_string(),
            row.shift_s.to_string(),
            row.sum_iops.to_string(),
            row.merged_iops.to_string(),
            format!("{:.3}", row.ratio),
            format!("{:.4}", row.client_fractions.iter().copied().fold(1.0, f64::min)),
            row.every_client_iops.to_string(),
        ];
        table.add_row(cells.map(|text| Cell::new(text).set_alignment(CellAlignment::Right)));
    }
    table.to_string()
}
