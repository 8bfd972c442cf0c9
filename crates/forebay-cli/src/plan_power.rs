//! `forebay plan power`.

use clap::Args;
use comfy_table::{Cell, CellAlignment, Table, presets};
use forebay::plan::amount::Fraction;
use forebay::plan::power::{Disk, Power as Found, Question, power};
use forebay_core::Nanos;
use serde::Serialize;

use crate::options::{Source, TracePath};
use crate::output::{self, Format};
use crate::plan_options;
use crate::progress::Progress;

/// Find what a promise costs in energy when pools of disks can be switched off
#[derive(Args)]
pub(crate) struct Power {
    /// The traces, each for itself
    #[arg(required = true)]
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
    /// The time within which requests are to be answered
    #[arg(long, value_name = "TIME", value_parser = plan_options::span, default_value = "20ms",
          allow_hyphen_values = true)]
    within: Nanos,
    /// The fraction of each epoch's requests that is promised
    #[arg(long, value_name = "SHARE", value_parser = plan_options::fraction, default_value = "0.99",
          allow_hyphen_values = true)]
    fraction: Fraction,
    /// The fraction the baseline has pools for
    #[arg(long, value_name = "SHARE", value_parser = plan_options::fraction, default_value = "1",
          allow_hyphen_values = true)]
    baseline_fraction: Fraction,
    /// How long pools stay as they are
    #[arg(long, value_name = "TIME", value_parser = plan_options::span, default_value = "1h",
          allow_hyphen_values = true)]
    epoch: Nanos,
    /// Past epochs a prediction looks at; it takes the most that any of them needed
    #[arg(long, value_name = "EPOCHS", default_value = "1",
          value_parser = clap::value_parser!(u16).range(1..))]
    history: u16,
    #[command(flatten)]
    source: Source,
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
        let mut traces = Vec::new();
        for path in &self.traces {
            let arrivals = plan_options::arrivals(&self.source, path, false)?;
            let progress = Progress::new("switching pools");
            let power = power(&arrivals, &question)?;
            drop(progress);
            let trace = path.display().to_string();
            for caution in power.cautions() {
                eprintln!("forebay: {trace}: {caution}");
            }
            traces.push(Of { trace, power });
        }
        match self.format {
            Format::Json => output::print_json(&Results {
                within_ms: self.within.as_millis_f64(),
                fraction: self.fraction.as_f64(),
                baseline_fraction: self.baseline_fraction.as_f64(),
                epoch_s: self.epoch.as_secs_f64(),
                traces,
            })?,
            Format::Table => {
                let all: Vec<String> = traces.iter().map(shown).collect();
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

fn shown(of: &Of) -> String {
    let power = &of.power;
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    let heads = ["plan", "mean W", "saving", "pools mean", "most", "spin-ups", "late", "broken"];
    let steps = power.rows.first().map_or(&[][..], |row| row.answered.as_slice());
    let steps = steps.iter().map(|answered| format!("< {} ms, %", answered.within_ms));
    let heads = heads.map(str::to_string).into_iter();
    table.set_header(heads.chain(steps).chain(["mean ms".into(), "longest ms".into()]));
    for row in &power.rows {
        let figures = [
            format!("{:.1}", row.mean_power_w),
            format!("{:.2} x", row.saving_ratio),
            format!("{:.2}", row.mean_pools),
            row.max_pools.to_string(),
            row.disk_spin_ups.to_string(),
            row.late_requests.to_string(),
            row.broken_epochs.to_string(),
        ];
        let answered =
            row.answered.iter().map(|answered| format!("{:.2}", answered.fraction * 100.0));
        let times = [format!("{:.2}", row.mean_ms), format!("{:.1}", row.max_ms)];
        let figures = figures.into_iter().chain(answered).chain(times);
        let figures = figures.map(|text| Cell::new(text).set_alignment(CellAlignment::Right));
        table.add_row([Cell::new(row.plan)].into_iter().chain(figures));
    }
    format!(
        "{}: pools of {} {} of {} IOPS, {} epochs, {} with requests\n{table}",
        of.trace,
        power.pool_disks,
        power.device,
        power.disk_iops,
        power.epochs,
        power.epochs_with_requests
    )
}
