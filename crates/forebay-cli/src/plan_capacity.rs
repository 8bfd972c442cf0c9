//! `forebay plan capacity`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use forebay::plan::amount::Fraction;
use forebay::plan::arrival_times::ArrivalTimes;
use forebay::plan::capacity::{self, Doubt, Promises, Row, answer, missing};
use forebay::plan::confidence::Bootstrap;
use forebay::progress::Told;
use forebay::quantities;
use forebay::report;
use forebay_core::Nanos;
use forebay_show::grid::{Cell, right};
use forebay_show::quantities::bound;
use forebay_trace::write::Kept;

use crate::options::{Source, TracePath, say_once};
use crate::output::{self, Format, wrapped};
use crate::plan_costed::{self, Answered};
use crate::plan_devices::{self, Devices};
use crate::plan_options::{self, Trust, percent, share_found};
use crate::progress::Progress;
use crate::report_file::ReportFile;
use crate::stdin;

/// Find the least capacity that answers a fraction of the requests within a time
#[derive(Args)]
pub(crate) struct Capacity {
    /// The trace; - is standard input
    #[arg(value_parser = stdin::trace_path())]
    trace: TracePath,
    /// Times within which requests are to be answered, comma-separated
    #[arg(long, value_name = "TIME,...", value_delimiter = ',', value_parser = plan_options::span,
          default_value = "5ms,10ms,20ms,50ms", allow_hyphen_values = true)]
    within: Vec<Nanos>,
    /// Fractions of all requests, above 0 and at most 1, comma-separated; 0.9995 is exact
    #[arg(long, value_name = "SHARE,...", value_delimiter = ',', value_parser = plan_options::fraction,
          default_value = "0.9,0.95,0.99,0.995,0.999,1", allow_hyphen_values = true)]
    fraction: Vec<Fraction>,
    /// Answer for each volume as well; not with --device, as all volumes share the devices
    #[arg(long, value_enum)]
    by: Option<By>,
    /// Give every capacity an interval: this share of resamples of the trace lies within, e.g. 0.95
    #[arg(long, value_name = "SHARE", value_parser = plan_options::share, allow_hyphen_values = true,
          conflicts_with = "device")]
    confidence: Option<f64>,
    /// Keep back this share of the trace's time, at its end, and check on it what the rest says
    #[arg(long, value_name = "SHARE", value_parser = plan_options::share, allow_hyphen_values = true,
          conflicts_with = "device")]
    hold_out: Option<f64>,
    /// Makes the resamples; the same seed gives the same intervals
    #[arg(long, value_name = "NUMBER", default_value = "1", requires = "confidence")]
    seed: u64,
    /// Give each request a cost by its length: microseconds plus microseconds a KiB, as in 100+0.5/KiB, or a
    /// device, whose random reads set it. The answer is then how many times as fast a server must be
    #[arg(long, value_name = "COST", conflicts_with_all = ["device", "by", "confidence", "hold_out"],
          allow_negative_numbers = true)]
    cost_us: Option<String>,
    #[command(flatten)]
    devices: Devices,
    /// Also write an HTML report with the curve of capacity over fraction
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
    /// Rows for each volume, beside those of the trace as a whole.
    Volume,
}

impl Capacity {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let promises = Promises::new(self.within, self.fraction);
        if self.devices.device.is_some() && self.by.is_some() {
            return Err(by_volume_of_devices().into());
        }
        if let Some(device) = &self.devices.device {
            let (output, trust) = (self.output.as_deref(), self.trust);
            let asked =
                plan_devices::Asked { device, promises, format: self.format, output, trust };
            return self.devices.run(&self.trace, &self.source, asked);
        }
        let clock = self.trust.within(promises.within.iter().copied());
        let bootstrap = self.confidence.map(|level| Bootstrap { level, seed: self.seed });
        let doubt = Doubt { bootstrap, hold_out: self.hold_out };
        let report = ReportFile::begin(self.output.as_deref(), &Kept::trace(&self.trace))?;
        if let Some(cost) = &self.cost_us {
            let costs = &plan_costed::costs(cost)?;
            let load = plan_costed::load(&self.source, &self.trace, false, clock)?;
            let answered = Answered { costs, report, format: self.format };
            return plan_costed::capacity(&load, &promises, answered);
        }
        let arrivals = plan_options::arrivals(&self.source, &self.trace, self.by.is_some(), clock)?;
        let answer = {
            let progress = Progress::new("searching for capacities");
            answer(&arrivals, &promises, doubt, &mut |told: &Told| progress.tell(told))?
        };
        say_once(&self.trace, &missing(&answer.rows, doubt));
        if let Some(report) = report {
            write_report(report, &arrivals, &promises, &answer.rows)?;
        }
        match self.format {
            Format::Json | Format::Csv => output::print_data(self.format, &answer)?,
            Format::Table => {
                let said = sentences(&arrivals, &answer.rows, &promises);
                let table = shown(&answer.rows, &promises, doubt);
                let glance = glance(&arrivals, &promises)?;
                output::print(&format!("{said}\n\n{table}\n\n{glance}"))?;
            }
        }
        Ok(())
    }
}

/// A device's share of one volume tells nothing of what the volumes take together.
fn by_volume_of_devices() -> forebay::Error {
    forebay::Error::Unfit(
        "--by volume: got it with --device, expected one of them; the volumes lie in stripes over the same \
         devices and wait for each other there, so no number of devices is one volume's; leave one of the \
         options out, or give a trace of that volume alone"
            .into(),
    )
}

fn write_report(
    report: ReportFile,
    arrivals: &ArrivalTimes,
    promises: &Promises,
    rows: &[Row],
) -> anyhow::Result<()> {
    let curves = capacity::curve(arrivals, &promises.within)?;
    let page = report::capacity_html(&report::CapacityPage {
        arrivals,
        promises,
        rows,
        curves,
        devices: None,
    });
    Ok(report.write(&page)?)
}

/// A sentence for each bound, of the trace as a whole, and what the figures leave out.
fn sentences(arrivals: &ArrivalTimes, rows: &[Row], promises: &Promises) -> String {
    let whole: Vec<&Row> = rows.iter().filter(|row| row.volume.is_none()).collect();
    let lines = whole.chunks(promises.fractions.len()).map(sentence);
    let blind = plan_options::size_blind([arrivals], "--cost-us and --device count bytes too");
    lines.map(|said| wrapped(&said)).chain(blind).collect::<Vec<_>>().join("\n")
}

/// What keeps 99 % within a bound, or the most below that was asked for, and how many times as much all of them take.
fn sentence(line: &[&Row]) -> String {
    let by_fraction = |one: &&&Row, other: &&&Row| one.fraction.total_cmp(&other.fraction);
    let Some(last) = line.iter().max_by(by_fraction) else { return String::new() };
    let most = line.iter().filter(|row| row.fraction <= 0.99).max_by(by_fraction).unwrap_or(last);
    let kept = format!(
        "{} IOPS keep {} within {}",
        most.capacity_iops,
        percent(most.fraction),
        bound(most.within_ms)
    );
    if most.fraction == last.fraction {
        return format!("{kept}.");
    }
    let what = if last.fraction == 1.0 { "all of them".into() } else { percent(last.fraction) };
    if most.capacity_iops == last.capacity_iops {
        return format!("{kept}, and {what} too.");
    }
    let times = last.capacity_iops as f64 / most.capacity_iops.max(1) as f64;
    format!(
        "{kept}; {what} take {}, {} times as many.",
        last.capacity_iops,
        quantities::significant(times)
    )
}

/// What each bound takes from nine tenths of the requests to all of them, in a line each.
fn glance(arrivals: &ArrivalTimes, promises: &Promises) -> anyhow::Result<String> {
    let curves = capacity::curve(arrivals, &promises.within)?;
    let most = curves.iter().flatten().map(|point| point.1).max().unwrap_or(1).max(1) as f64;
    let mut lines = vec![wrapped(
        "IOPS from 90 % of the requests (left) to all of them; the right half is the last hundredth:",
    )];
    for (within, curve) in promises.within.iter().zip(&curves) {
        let (Some(least), Some(last)) = (curve.first(), curve.last()) else { continue };
        let bars = output::sparkline(curve.iter().map(|point| point.1 as f64 / most));
        let within = bound(within.as_millis_f64());
        lines.push(format!("{within:>9}  {:>6} {bars} {}", least.1, last.1));
    }
    Ok(lines.join("\n"))
}

/// Bounds down, fractions across.
fn shown(rows: &[Row], promises: &Promises, doubt: Doubt) -> String {
    let by_volume = rows.iter().any(|row| row.volume.is_some());
    let fractions = promises.fractions.iter().map(|f| percent(f.as_f64()));
    let heads = by_volume.then(|| "volume".to_string()).into_iter();
    let mut table = output::table(heads.chain(["IOPS within".into()]).chain(fractions));
    for line in rows.chunks(promises.fractions.len()) {
        let volume = line[0].volume.as_deref().unwrap_or("(all)");
        for (label, show) in lines(doubt) {
            let first = by_volume.then(|| Cell::new(volume)).into_iter();
            let within = Cell::new(format!("{}{label}", bound(line[0].within_ms)));
            let figures = line.iter().map(|row| right(show(row)));
            table.add_row(first.chain([within]).chain(figures));
        }
    }
    table.to_string()
}

/// A line of the table: what it adds to the bound, and how it shows a row.
type Line = (&'static str, fn(&Row) -> String);

fn lines(doubt: Doubt) -> Vec<Line> {
    let mut lines: Vec<Line> = vec![("", |row| row.capacity_iops.to_string())];
    if doubt.bootstrap.is_some() {
        lines.push((": interval", |row| {
            row.interval.map_or("-".into(), |interval| {
                format!("{} - {}", interval.capacity_low_iops, interval.capacity_high_iops)
            })
        }));
    }
    if doubt.hold_out.is_some() {
        lines.push((": found without the end", |row| {
            row.held_out.map_or("-".into(), |held| held.train_capacity_iops.to_string())
        }));
        lines.push((": of the end it answers", |row| {
            row.held_out.map_or("-".into(), |held| share_found(held.held_out_fraction))
        }));
        lines.push((": the end alone needs", |row| {
            let alone = row.held_out.and_then(|held| held.held_out_capacity_iops);
            alone.map_or("-".into(), |iops| iops.to_string())
        }));
    }
    lines
}
