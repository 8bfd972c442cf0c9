//! `forebay plan consolidate`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use forebay::Error;
use forebay::names;
use forebay::plan::amount::Fraction;
use forebay::plan::arrival_times::{ArrivalTimes, Clock, Span};
use forebay::plan::capacity::{Promises, once};
use forebay::plan::confidence::Bootstrap;
use forebay::plan::consolidate::clients::{OneClient, clients};
use forebay::plan::consolidate::{Begin, Client, Consolidation, Shared, cautions, consolidate};
use forebay::plan::costed::Load;
use forebay::progress::Told;
use forebay::report::{self, ConsolidatePage};
use forebay_core::Nanos;
use forebay_show::grid::{Cell, right};
use forebay_show::quantities::{bound, significant};
use forebay_trace::write::Kept;

use crate::options::{Source, TracePath};
use crate::output::{self, Format, say, wrapped};
use crate::plan_costed::{self, Answered};
use crate::plan_options::{self, Trust, percent, share_found, size_blind};
use crate::progress::Progress;
use crate::report_file::ReportFile;
use crate::stdin;

/// Find what clients that share a server need, beside the sum of what each needs alone
#[derive(Args)]
pub(crate) struct Consolidate {
    /// The clients' traces; one alone is given with itself
    #[arg(required = true, value_parser = stdin::trace_path())]
    traces: Vec<TracePath>,
    /// How much later each client begins than the one before it, comma-separated
    /// [default: 1s,100s for one trace, 0s for several]
    #[arg(long, value_name = "TIME,...", value_delimiter = ',', value_parser = plan_options::span_or_zero,
          allow_hyphen_values = true)]
    shift: Vec<Nanos>,
    /// Clients that one trace alone stands for [default: 2]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(2..=1000))]
    clients: Option<u16>,
    /// Keep the clock that the traces have in common: each client begins when it was recorded
    #[arg(long)]
    keep_times: bool,
    /// The volumes of each trace are the clients, by the clock they have in common
    #[arg(long, value_enum, conflicts_with = "clients")]
    by: Option<By>,
    /// Times within which requests are to be answered, comma-separated
    #[arg(long, value_name = "TIME,...", value_delimiter = ',', value_parser = plan_options::span,
          default_value = "10ms", allow_hyphen_values = true)]
    within: Vec<Nanos>,
    /// Fractions of all requests, above 0 and at most 1, comma-separated
    #[arg(long, value_name = "SHARE,...", value_delimiter = ',', value_parser = plan_options::fraction,
          default_value = "1,0.9,0.95", allow_hyphen_values = true)]
    fraction: Vec<Fraction>,
    /// Give each request a cost by its length: microseconds plus microseconds a KiB, as in 100+0.5/KiB, or a
    /// device, whose random reads set it. The answer is then how many times as fast a server must be
    #[arg(long, value_name = "COST", allow_negative_numbers = true)]
    cost_us: Option<String>,
    /// Give every capacity an interval that holds this share of resamples, e.g. 0.95
    #[arg(long, value_name = "SHARE", value_parser = plan_options::share, allow_hyphen_values = true,
          conflicts_with = "cost_us")]
    confidence: Option<f64>,
    /// Makes the resamples; the same seed gives the same intervals
    #[arg(long, value_name = "NUMBER", default_value = "1", requires = "confidence")]
    seed: u64,
    /// Also write an HTML report
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    trust: Trust,
    #[command(flatten)]
    source: Source,
    /// How to print the results
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

/// What is told apart.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum By {
    /// A client for each volume.
    Volume,
}

/// What is asked of clients.
struct Asked<'a> {
    begin: Begin,
    shifts: &'a [Nanos],
    promises: &'a Promises,
}

/// What a trace is read as: its requests, with their lengths or without.
trait ReadAs: OneClient {
    fn read(source: &Source, path: &Path, by_volume: bool, clock: Clock) -> anyhow::Result<Self>;
}

impl ReadAs for ArrivalTimes {
    fn read(
        source: &Source,
        path: &Path,
        by_volume: bool,
        clock: Clock,
    ) -> anyhow::Result<ArrivalTimes> {
        plan_options::arrivals(source, path, by_volume, clock)
    }
}

impl ReadAs for Load {
    fn read(source: &Source, path: &Path, by_volume: bool, clock: Clock) -> anyhow::Result<Load> {
        plan_costed::load(source, path, by_volume, clock)
    }
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
        let kept = self.traces.iter().fold(Kept::default(), |kept, path| kept.and_trace(path));
        let report = ReportFile::begin(self.output.as_deref(), &kept)?;
        match &self.cost_us {
            None => {
                self.answer::<ArrivalTimes>(|clients, asked| self.merged(clients, asked, report))
            }
            Some(cost) => {
                let costs = &plan_costed::costs(cost)?;
                let answered = Answered { costs, report, format: self.format };
                self.answer::<Load>(|clients, asked| {
                    let when = (asked.begin, asked.shifts);
                    plan_costed::shared(clients, when, asked.promises, answered)
                })
            }
        }
    }

    /// Answers of requests that count as one each.
    fn merged(
        &self,
        clients: &[&ArrivalTimes],
        asked: &Asked<'_>,
        report: Option<ReportFile>,
    ) -> anyhow::Result<()> {
        let progress = Progress::new("searching for capacities");
        let bootstrap = self.confidence.map(|level| Bootstrap { level, seed: self.seed });
        let Asked { begin, shifts, promises } = *asked;
        let found =
            consolidate(clients, begin, shifts, promises, bootstrap, &mut |told: &Told| {
                progress.tell(told)
            })?;
        drop(progress);
        if let Some(report) = report {
            let page = ConsolidatePage { clients, begin, shifts, found: &found };
            report.write(&report::consolidate_html(&page))?;
        }
        let blind = || size_blind(clients.iter().copied(), "--cost-us counts bytes too");
        match self.format {
            Format::Json | Format::Csv => output::print_data(self.format, &found)?,
            Format::Table => output::print(&shown(&found, blind()))?,
        }
        Ok(())
    }

    /// Reads the clients, and answers `with` what is asked of them.
    fn answer<C: ReadAs>(
        &self,
        with: impl FnOnce(&[&C], &Asked<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let by_volume = self.by.is_some();
        let clock = self.trust.within(self.within.iter().copied());
        let read = self.traces.iter().map(|path| C::read(&self.source, path, by_volume, clock));
        let read = read.collect::<anyhow::Result<Vec<C>>>()?;
        let (arrivals, begin) = clients(read, by_volume, self.keep_times)?;
        let copies = match (arrivals.len(), self.by) {
            (1, None) => usize::from(self.clients.unwrap_or(2)),
            _ => 1,
        };
        let clients: Vec<&C> =
            arrivals.iter().flat_map(|client| std::iter::repeat_n(client, copies)).collect();
        let shifts = match (self.shift.is_empty(), copies) {
            (false, _) => once(self.shift.clone()),
            (true, 1) => vec![Nanos::ZERO],
            (true, _) => vec![Nanos::from_secs(1), Nanos::from_secs(100)],
        };
        let spans: Vec<Span<'_>> = clients.iter().map(|client| client.span()).collect();
        for caution in cautions(&spans, begin, &shifts) {
            say!("{caution}");
        }
        let promises = &Promises::new(self.within.clone(), self.fraction.clone());
        with(&clients, &Asked { begin, shifts: &shifts, promises })
    }
}

/// A sentence for each promise, what each client needs alone, and what they need together.
fn shown(found: &Consolidation, blind: Option<String>) -> String {
    let told = |row: &Shared| wrapped(&row.told(found.clients.len()));
    let sentences = found.rows.iter().map(told).chain(blind);
    let sentences: Vec<String> = sentences.collect();
    format!("{}\n\n{}\n\n{}", sentences.join("\n"), alone(&found.clients), together(found))
}

fn alone(clients: &[Client]) -> String {
    let promises = clients.iter().take(1).flat_map(|client| &client.rows);
    let heads = promises.map(|row| format!("{} < {}", percent(row.fraction), bound(row.within_ms)));
    let mut table = output::table(["client".to_string(), "trace".into()].into_iter().chain(heads));
    let traces: Vec<&str> = clients.iter().map(|client| client.trace.as_str()).collect();
    let names = names::numbered(&traces);
    for (client, name) in clients.iter().zip(names) {
        let needs = client.rows.iter().map(|row| row.capacity_iops.to_string());
        let needs = needs.map(right);
        let named = [Cell::new(client.client), Cell::new(name)];
        table.add_row(named.into_iter().chain(needs));
    }
    format!("What each client needs alone, in IOPS:\n\n{table}")
}

/// What all need, with its interval.
fn together_iops(row: &Shared) -> String {
    let interval = row.merged_low_iops.zip(row.merged_high_iops);
    let interval = interval.map_or(String::new(), |(low, high)| format!(" ({low}-{high})"));
    format!("{}{interval}", row.merged_iops)
}

fn together(found: &Consolidation) -> String {
    let mut table = output::table([
        "within",
        "promised",
        "shift",
        "sum",
        "together",
        "ratio",
        "Q1s",
        "worst",
        "it gets",
        "each kept",
    ]);
    for row in &found.rows {
        let cells = [
            bound(row.within_ms),
            percent(row.fraction),
            bound(row.shift_s * 1e3),
            row.sum_iops.to_string(),
            together_iops(row),
            significant(row.ratio),
            row.shaped_iops.to_string(),
            row.worst_client.to_string(),
            share_found(row.worst_fraction()),
            row.every_client_iops.to_string(),
        ];
        table.add_row(cells.map(right));
    }
    let said = wrapped(
        "What they need together, in IOPS, against the sum of what each needs alone. Q1s: enough for all that each \
         client's own shaper promises. Worst: the client that gets the smallest share of its own with what they need \
         together, and that share. Each kept: enough to keep the promise to every client.",
    );
    format!("{said}\n\n{table}")
}
