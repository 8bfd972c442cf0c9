//! `forebay plan power`.

use clap::Args;
use comfy_table::{Cell, CellAlignment};
use forebay::plan::amount::Fraction;
use forebay::plan::power::{Disk, Power as Found, Question, Row, power};
use forebay_core::Nanos;
use serde::Serialize;

use crate::options::{Source, TracePath};
use crate::output::{self, Format, wrapped};
use crate::plan_options::{self, Trust, percent};
use crate::progress::Progress;
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
    trust: Trust,
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
            plan_options::say(path, power.epoch_caution().as_slice());
            traces.push(Of { trace, power });
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
                let promise = Promise {
                    within: self.within,
                    fraction: self.fraction,
                    baseline: self.baseline_fraction,
                };
                let all: Vec<String> =
                    traces.iter().map(|of| promise.told(&of.trace, &of.power)).collect();
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

/// What was promised.
struct Promise {
    within: Nanos,
    fraction: Fraction,
    baseline: Fraction,
}

impl Promise {
    /// What `power` of a trace comes to: sentences, then tables.
    fn told(&self, trace: &str, power: &Found) -> String {
        let said = [self.always(trace, power), self.switched(power), self.words()];
        let said = said.map(|text| wrapped(&text)).join("\n");
        format!("{said}\n\n{}\n\n{}", plans(power), times(power))
    }

    /// What it takes to keep the pools on that the whole trace needs.
    fn always(&self, trace: &str, power: &Found) -> String {
        let (Found { pool_disks, disk_iops, device, .. }, all) = (power, &power.rows[0]);
        format!(
            "{trace}: {} of {pool_disks} {device} (each disk {disk_iops} IOPS, each pool {}) {} {} within {}, at {:.1} W on \
             average (all-on).",
            pools(all.max_pools),
            pool_disks * disk_iops,
            if all.max_pools == 1 { "keeps" } else { "keep" },
            percent(self.baseline.as_f64()),
            self.within,
            all.mean_power_w,
        )
    }

    /// What the other plans save.
    fn switched(&self, power: &Found) -> String {
        let (all, others) = (&power.rows[0], &power.rows[1..]);
        let epochs = power.epochs;
        let is_same = |row: &Row| {
            row.energy_j == all.energy_j
                && row.mean_pools == all.mean_pools
                && row.disk_spin_ups == 0
        };
        if others.iter().all(is_same) {
            return format!(
                "Switching saves nothing here: in each of the {epochs} epochs every plan has the same {} on.",
                pools(all.max_pools)
            );
        }
        let each = others.iter().map(|row| {
            let saved = 100.0 * (1.0 - 1.0 / row.saving_ratio);
            let broken = match row.broken_epochs {
                0 => "in every epoch".to_string(),
                broken => format!("but not in {broken} of {epochs} epochs"),
            };
            let saves = match saved {
                saved if saved < 0.0 => format!("takes {:.1} % more", -saved),
                saved => format!("saves {saved:.1} %"),
            };
            format!("{} {saves} ({:.1} W), {broken}", row.plan, row.mean_power_w)
        });
        let each: Vec<String> = each.collect();
        format!(
            "For {} within {}: {}.",
            percent(self.fraction.as_f64()),
            self.within,
            each.join("; ")
        )
    }

    /// What the words of the tables mean.
    fn words(&self) -> String {
        format!(
            "all-on and static keep the pools on that the whole trace needs for {} and for {}; predicted has those \
             that past epochs needed, oracle those that the coming epoch will need. Late: requests not answered \
             within {}. Broken: epochs in which fewer than {} were answered in time.",
            percent(self.baseline.as_f64()),
            percent(self.fraction.as_f64()),
            self.within,
            percent(self.fraction.as_f64()),
        )
    }
}

/// So many pools.
fn pools(count: usize) -> String {
    format!("{count} {}", if count == 1 { "pool" } else { "pools" })
}

/// Power, pools and broken promises by plan.
fn plans(power: &Found) -> String {
    let heads =
        ["plan", "mean W", "saving", "mean pools", "most pools", "disk spin-ups", "late", "broken"];
    table(&heads.map(String::from), &power.rows, |row| {
        vec![
            format!("{:.1}", row.mean_power_w),
            format!("{:.2} x", row.saving_ratio),
            format!("{:.2}", row.mean_pools),
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
    let steps = steps.iter().map(|answered| format!("% within {} ms", answered.within_ms));
    let heads = std::iter::once("plan".to_string()).chain(steps);
    let heads: Vec<String> = heads.chain(["mean ms".into(), "longest ms".into()]).collect();
    table(&heads, &power.rows, |row| {
        let answered =
            row.answered.iter().map(|answered| format!("{:.2}", answered.fraction * 100.0));
        answered.chain([format!("{:.2}", row.mean_ms), format!("{:.1}", row.max_ms)]).collect()
    })
}

/// A line for each plan, its figures to the right.
fn table(heads: &[String], rows: &[Row], figures: impl Fn(&Row) -> Vec<String>) -> String {
    let mut table = output::table();
    table.set_header(heads);
    for row in rows {
        let figures = figures(row).into_iter();
        let figures = figures.map(|text| Cell::new(text).set_alignment(CellAlignment::Right));
        table.add_row([Cell::new(row.plan)].into_iter().chain(figures));
    }
    table.to_string()
}
