//! `forebay plan capacity --device`.

use std::path::Path;

use clap::Args;
use comfy_table::{Cell, CellAlignment, Table, presets};
use forebay::devices;
use forebay::plan::capacity::Promises;
use forebay::plan::devices::{Row, STRIPE_BYTES, cautions, table};
use forebay_trace::streams::StreamBy;
use serde::Serialize;

use crate::options::{Reading, Source};
use crate::output::{self, Format};
use crate::progress::Progress;

/// Real devices instead of a server of constant rate.
#[derive(Args)]
pub(crate) struct Devices {
    /// Ask how many of these devices are needed: a bundled device, a device file, or fixed:RATE
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<String>,
    /// The scheduler of each device
    #[arg(long, value_name = "POLICY", default_value = "deadline", requires = "device")]
    policy: String,
    /// The most devices that are tried
    #[arg(long, value_name = "NUMBER", default_value = "64", requires = "device",
          value_parser = clap::value_parser!(u16).range(1..=4096))]
    devices_max: u16,
}

/// What is asked of them.
pub(crate) struct Asked<'a> {
    pub(crate) device: &'a str,
    pub(crate) promises: Promises,
    pub(crate) format: Format,
}

#[derive(Serialize)]
struct Results {
    trace: String,
    requests: u64,
    device: String,
    policy: String,
    replay: &'static str,
    stripe_bytes: u64,
    devices_max: u16,
    rows: Vec<Row>,
}

impl Devices {
    pub(crate) fn run(
        &self,
        trace: &Path,
        source: &Source,
        asked: Asked<'_>,
    ) -> anyhow::Result<()> {
        let device = devices::open(asked.device)?;
        forebay_core::catalog::build(&self.policy, u32::MAX).map_err(forebay::Error::from)?;
        let input = Reading::of(source, StreamBy::default()).read(trace)?;
        for caution in cautions(&input) {
            eprintln!("forebay: {}: {caution}", trace.display());
        }
        let progress = Progress::new(&format!("simulating {} on {}", self.policy, device.name));
        let max = usize::from(self.devices_max);
        let rows = table(&input, &device, &self.policy, &asked.promises, max)?;
        drop(progress);
        match asked.format {
            Format::Json => output::print_json(&Results {
                trace: trace.display().to_string(),
                requests: input.description.records,
                device: device.name,
                policy: self.policy.clone(),
                replay: "open",
                stripe_bytes: STRIPE_BYTES,
                devices_max: self.devices_max,
                rows,
            })?,
            Format::Table => {
                output::print(&shown(&rows, &asked.promises, &device.name, self.devices_max))?;
            }
        }
        Ok(())
    }
}

/// Bounds down, fractions across.
fn shown(rows: &[Row], promises: &Promises, device: &str, max: u16) -> String {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    let fractions = promises.fractions.iter().map(|fraction| fraction.to_string());
    table.set_header([format!("{device} within")].into_iter().chain(fractions));
    for line in rows.chunks(promises.fractions.len()) {
        let within = Cell::new(format!("{} ms", line[0].within_ms));
        let figures = line.iter().map(|row| {
            let most = || format!("> {max} ({:.4})", row.achieved_fraction);
            let text = row.devices.map_or_else(most, |devices| devices.to_string());
            Cell::new(text).set_alignment(CellAlignment::Right)
        });
        table.add_row([within].into_iter().chain(figures));
    }
    table.to_string()
}
