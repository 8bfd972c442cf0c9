//! `forebay plan power`.

use std::path::PathBuf;

use clap::Args;
use forebay::devices;
use forebay::plan::amount::{Fraction, share_found};
use forebay::plan::power::{Disk, Power as Found, Question, Row, power};
use forebay::report::{self, PowerPage};
use forebay_core::Nanos;
use forebay_show::grid::{Cell, right};
use forebay_show::quantities::{bound, millis, percent, significant};
use forebay_trace::write::Kept;
use serde::Serialize;

use crate::options::{Source, TracePath, say_once};
use crate::output::{self, Format, wrapped};
use crate::plan_options::{self, Trust};
use crate::progress::Progress;
use crate::report_file::ReportFile;
use crate::stdin;

/// Find what a promise costs in energy when pools of disks can be switched off
#[derive(Args)]
pub(crate) struct Power {
    /// The traces, each for itself
    #[arg(required = true, value_parser = stdin::trace_path())]
    traces: Vec<TracePath>,
    /// The disks: a bundled one or a device file with standby figures
    #[arg(long, value_name = "DEVICE", default_value = "ultrastar-36z15")]
    device: String,
    /// Requests a second of one disk [default: random 4 KiB reads, simulated]
    #[arg(long, value_name = "IOPS", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    disk_iops: Option<u64>,
    /// Watts of a disk that is off [default: its standby]; the paper neglects them
    #[arg(long, value_name = "WATTS", value_parser = watts, allow_hyphen_values = true)]
    off_w: Option<f64>,
    /// Disks a pool
    #[arg(long, value_name = "NUMBER", default_value = "4",
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pool_disks: u64,
    /// The time within which requests must be answered
    #[arg(long, value_name = "TIME", value_parser = plan_options::span, default_value = "20ms",
          allow_hyphen_values = true)]
    within: Nanos,
    /// The fraction of each epoch's requests that is promised
    #[arg(long, value_name = "SHARE", value_parser = plan_options::fraction, default_value = "0.99",
          allow_hyphen_values = true)]
    fraction: Fraction,
    /// The fraction that the baseline has pools for
    #[arg(long, value_name = "SHARE", value_parser = plan_options::fraction, default_value = "1",
          allow_hyphen_values = true)]
    baseline_fraction: Fraction,
    /// How long pools stay as they are
    #[arg(long, value_name = "TIME", value_parser = plan_options::span, default_value = "1h",
          allow_hyphen_values = true)]
    epoch: Nanos,
    /// Past epochs that a prediction looks at; it takes the most that any of them needed
    #[arg(long, value_name = "EPOCHS", default_value = "1",
          value_parser = clap::value_parser!(u16).range(1..))]
    history: u16,
    #[command(flatten)]
    trust: Trust,
    #[command(flatten)]
    source: Source,
    /// Also write an HTML report
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// How to print the results
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

#[derive(Serialize)]
struct Results {
    within_ms: f64,
    fraction: f64,
    baseline_fraction: f64,
    epoch_s: f64,
    traces: Vec<Of>,
}

#[derive(Serialize)]
struct Of {
    trace: String,
    #[serde(flatten)]
    power: Found,
}

impl Power {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let mut disk = Disk::open(&self.device, self.disk_iops)?;
        disk.standby_w = self.off_w.unwrap_or(disk.standby_w);
        let question = Question {
            within: self.within,
            fraction: self.fraction,
            baseline: self.baseline_fraction,
            epoch: self.epoch,
            history: usize::from(self.history),
            pool_disks: self.pool_disks,
            disk,
        };
        let kept = self.traces.iter().fold(Kept::default(), |kept, path| kept.and_trace(path));
        let kept = devices::and_kept(kept, [self.device.as_str()]);
        let report = ReportFile::begin(self.output.as_deref(), &kept)?;
        let mut traces = Vec::new();
        for path in &self.traces {
            let arrivals = plan_options::arrivals(
                &self.source,
                path,
                false,
                self.trust.within([self.within]),
            )?;
            let progress = Progress::new("switching pools");
            let power = power(&arrivals, &question)?;
            drop(progress);
            let trace = path.display().to_string();
            say_once(path, power.epoch_caution().as_slice());
            traces.push(Of { trace, power });
        }
        if let Some(report) = report {
            let traces: Vec<_> = traces.iter().map(|of| (of.trace.as_str(), &of.power)).collect();
            report
                .write(&report::power_html(&PowerPage { question: &question, traces: &traces }))?;
        }
        match self.format {
            Format::Json | Format::Csv => output::print_data(
                self.format,
                &Results {
                    within_ms: self.within.as_millis_f64(),
                    fraction: self.fraction.as_f64(),
                    baseline_fraction: self.baseline_fraction.as_f64(),
                    epoch_s: self.epoch.as_secs_f64(),
                    traces,
                },
            )?,
            Format::Table => {
                let each = traces.iter().map(|of| told(&of.trace, &of.power, &question));
                let all: Vec<String> = each.collect();
                output::print(&all.join("\n\n"))?;
            }
        }
        Ok(())
    }
}

fn watts(text: &str) -> Result<f64, String> {
    let watts = text.parse().ok().filter(|watts| (0.0..=1e6).contains(watts));
    watts.ok_or_else(|| format!("got '{text}', expected 0 to 1000000 W, e.g. 2.5"))
}

/// What `power` of a trace comes to: sentences, then tables.
fn told(trace: &str, power: &Found, question: &Question) -> String {
    let answer = output::emphasised(&wrapped(&format!("{trace}: {}", power.answer(question))));
    let said = power.told(question).map(|text| wrapped(&text)).join("\n");
    format!("{answer}\n{said}\n\n{}\n\n{}", plans(power), times(power))
}

/// Power, pools and broken promises by plan.
fn plans(power: &Found) -> String {
    let heads =
        ["plan", "mean W", "saved", "mean pools", "most pools", "disk spin-ups", "late", "broken"];
    table(&heads.map(String::from), &power.rows, |row| {
        vec![
            significant(row.mean_power_w),
            percent(row.saved()),
            significant(row.mean_pools),
            row.max_pools.to_string(),
            row.disk_spin_ups.to_string(),
            row.late_requests.to_string(),
            row.broken_epochs.to_string(),
        ]
    })
}

/// Response times by plan.
fn times(power: &Found) -> String {
    let steps = power.rows.first().map_or(&[][..], |row| row.answered.as_slice());
    let steps = steps.iter().map(|answered| format!("within {}", bound(answered.within_ms)));
    let heads = std::iter::once("plan".to_string()).chain(steps);
    let heads: Vec<String> = heads.chain(["mean".into(), "longest".into()]).collect();
    table(&heads, &power.rows, |row| {
        let answered = row.answered.iter().map(|answered| share_found(answered.fraction));
        answered.chain([millis(row.mean_ms), millis(row.max_ms)]).collect()
    })
}

/// A line for each plan, its figures to the right.
fn table(heads: &[String], rows: &[Row], figures: impl Fn(&Row) -> Vec<String>) -> String {
    let mut table = output::table(heads);
    for row in rows {
        let figures = figures(row).into_iter();
        let figures = figures.map(right);
        table.add_row([Cell::new(row.plan)].into_iter().chain(figures));
    }
    table.to_string()
}
