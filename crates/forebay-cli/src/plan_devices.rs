//! `forebay plan capacity --device`.

use std::path::Path;

use clap::Args;
use forebay::devices;
use forebay::plan::capacity::{self, Doubt, Promises};
use forebay::plan::devices::{Question, Row, answer};
use forebay::progress::{Told, unheard};
use forebay::report::{self, CapacityPage, DevicesPart};
use forebay_show::grid::{Cell, right};
use forebay_show::quantities::bound;
use forebay_trace::streams::StreamBy;
use forebay_trace::write::Kept;

use crate::options::{Reading, Source, say_once};
use crate::output::{self, Format, wrapped};
use crate::plan_options::{self, Trust, percent, share_found};
use crate::progress::Progress;
use crate::report_file::ReportFile;

/// Real devices instead of a server of constant rate.
#[derive(Args)]
pub(crate) struct Devices {
    /// Ask how many of these devices are needed: a bundled device, a device file, or fixed:RATE
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<String>,
    /// The scheduler of each device
    #[arg(long, value_name = "POLICY", default_value = "mq-deadline", requires = "device")]
    policy: String,
    /// The most devices that are tried
    #[arg(long, value_name = "NUMBER", default_value = "64", requires = "device",
          value_parser = clap::value_parser!(u16).range(1..=4096))]
    devices_max: u16,
    /// What one device costs, in any money
    #[arg(long, value_name = "AMOUNT", requires = "device", value_parser = amount,
          allow_hyphen_values = true)]
    price: Option<f64>,
}

fn amount(text: &str) -> Result<f64, String> {
    let amount = text.parse().ok().filter(|amount| (0.0..=1e12).contains(amount));
    amount.ok_or_else(|| format!("got '{text}', expected 0 to 1e12, e.g. 89.90"))
}

/// What is asked of them.
pub(crate) struct Asked<'a> {
    pub(crate) device: &'a str,
    pub(crate) promises: Promises,
    pub(crate) format: Format,
    /// Where a report goes.
    pub(crate) output: Option<&'a Path>,
    pub(crate) trust: Trust,
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
        let report = ReportFile::begin(asked.output, &Kept::trace(trace))?;
        let input = Reading::of(source, StreamBy::default()).read(trace)?;
        let progress = Progress::new(&format!("simulating {} on {}", self.policy, device.name));
        let question = Question {
            policy: &self.policy,
            promises: &asked.promises,
            devices_max: usize::from(self.devices_max),
            price_each: self.price,
            trust_times: asked.trust.trust_times,
        };
        let found = answer(&input, &device, &question, &mut |told: &Told| progress.tell(told))?;
        drop(progress);
        say_once(trace, found.of_trace(&device));
        let (said, notes, rows) = (found.told(), found.notes(&device), &found.rows);
        if let Some(report) = report {
            let part = DevicesPart { device: &device.name, said: &said, rows, notes: &notes };
            write_report(report, (trace, source), &asked, part)?;
        }
        match asked.format {
            Format::Json | Format::Csv => output::print_data(asked.format, &found)?,
            Format::Table => {
                let said: Vec<String> = said.iter().map(|text| wrapped(text)).collect();
                let table = shown(rows, &asked.promises, &device.name, self.devices_max);
                let answer = format!("{}\n\n{table}", said.join("\n"));
                output::print(&output::with_cautions(&answer, &notes))?;
            }
        }
        Ok(())
    }
}

/// The page of the same promises on a server of constant rate, with what the devices do.
fn write_report(
    report: ReportFile,
    (trace, source): (&Path, &Source),
    asked: &Asked<'_>,
    devices: DevicesPart<'_>,
) -> anyhow::Result<()> {
    let promises = &asked.promises;
    let clock = asked.trust.within(promises.within.iter().copied());
    let arrivals = &plan_options::arrivals_quietly(source, trace, false, clock)?;
    let rows = &capacity::table(arrivals, promises, Doubt::default(), &mut unheard)?;
    let curves = capacity::curve(arrivals, &promises.within)?;
    let devices = Some(devices);
    let page = CapacityPage { arrivals, promises, rows, curves, devices };
    Ok(report.write(&report::capacity_html(&page))?)
}

/// Bounds down, fractions across.
fn shown(rows: &[Row], promises: &Promises, device: &str, max: u16) -> String {
    let fractions = promises.fractions.iter().map(|fraction| percent(fraction.as_f64()));
    let mut table = output::table(["within".to_string()].into_iter().chain(fractions));
    for line in rows.chunks(promises.fractions.len()) {
        let within = Cell::new(bound(line[0].within_ms));
        let figures = line.iter().map(|row| {
            let most = || match row.alone_fraction {
                Some(alone) if alone < row.fraction && !row.has_arm => "none".to_string(),
                _ => format!("> {max} ({})", share_found(row.achieved_fraction)),
            };
            let text = row.devices.map_or_else(most, |devices| devices.to_string());
            right(text)
        });
        table.add_row([within].into_iter().chain(figures));
    }
    let is_bracketed = |row: &Row| {
        let never = |alone| alone < row.fraction && !row.has_arm;
        row.devices.is_none() && !row.alone_fraction.is_some_and(never)
    };
    let brackets = match rows.iter().any(is_bracketed) {
        true => format!("; where {max} do not, in brackets the share that they do"),
        false => String::new(),
    };
    let said =
        wrapped(&format!("How many {device} answer such a share within such a time{brackets}:"));
    format!("{said}\n\n{table}")
}
