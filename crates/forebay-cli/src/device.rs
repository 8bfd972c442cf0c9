//! `forebay device import`, `forebay device validate` and, in a file of its own, `forebay device fit`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use forebay::device::{self, Compared};
use forebay::devices::validate::{Arrivals, Validation};
use forebay_show::quantities::{millis, percent, significant};

use crate::device_fit::{Fit, rows};
use crate::output::{self, Format, say};

/// Make device files of DiskSim drives or of measurements; check a model against measured times
#[derive(Args)]
pub(crate) struct Device {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Import(Import),
    Validate(Validate),
    Fit(Fit),
}

impl Device {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self.verb {
            Verb::Import(verb) => verb.run(),
            Verb::Validate(verb) => verb.run(),
            Verb::Fit(verb) => verb.run(),
        }
    }
}

/// Make a device file of a DiskSim .diskspecs and the .model, .seek and .parv beside it
#[derive(Args)]
struct Import {
    /// The .diskspecs file
    file: PathBuf,
    /// The device file to write; standard output without it
    #[arg(short, long, value_name = "FILE.toml")]
    output: Option<PathBuf>,
}

impl Import {
    fn run(self) -> anyhow::Result<()> {
        let imported = device::import(&self.file, self.output.as_deref())?;
        imported.notes.iter().for_each(|note| say!("{note}"));
        say!("{}: {}", imported.device, imported.summary);
        if self.output.is_none() {
            output::print(imported.text.trim_end())?;
        }
        Ok(())
    }
}

/// Compare a model with what was measured on the drive: fio's results, or a DiskSim validation trace
///
/// fio's results (files that end in .json, or folders of them) are measured again on the model, row by row.
///
/// A trace is played from 20 positions of the platters. With simulated arrivals they hardly differ, as the
/// replay locks to the platters after its first request: their spread shows what the unknown start costs, not how
/// sure the distance is. Compare the distance with that of redrawn rotation.
#[derive(Args)]
struct Validate {
    /// A bundled device or a device file
    device: String,
    /// fio's results, or one trace, packed or not
    #[arg(required = true)]
    measured: Vec<PathBuf>,
    /// When a trace's requests are issued: simulated (a gap after the simulated completion) or measured (as they were)
    #[arg(long, value_name = "WHEN", default_value = "simulated")]
    arrivals: Arrivals,
    /// How to print the figures
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

impl Validate {
    fn run(self) -> anyhow::Result<()> {
        let (compared, told) = device::compare(&self.device, &self.measured, self.arrivals)?;
        told.into_iter().for_each(|told| say!("{told}"));
        match (&compared, self.format) {
            (Compared::Trace(figures), Format::Table) => output::print(&table(figures))?,
            (Compared::Trace(figures), format) => output::print_data(format, figures)?,
            (Compared::Sweep(figures), Format::Table) => {
                output::print(&format!("{}\n{}", figures.device, rows(&figures.rows)))?;
            }
            (Compared::Sweep(figures), Format::Csv) => {
                output::print_data(Format::Csv, &figures.rows)?;
            }
            (Compared::Sweep(figures), format) => output::print_data(format, figures)?,
        }
        Ok(())
    }
}

fn table(figures: &Validation) -> String {
    let mut table = output::table([figures.device.as_str(), "against the drive"]);
    let spread = format!("{} to {}", millis(figures.rms_least_ms), millis(figures.rms_greatest_ms));
    let rows = [
        ("requests", figures.requests.to_string()),
        ("mean measured", millis(figures.mean_measured_ms)),
        ("mean simulated", millis(figures.mean_simulated_ms)),
        ("rms distance of the distributions", millis(figures.rms_ms)),
        ("  of the measured mean", percent(figures.rms_share)),
        ("  over the start phases", spread),
        ("  of redrawn rotation alone", millis(figures.sampling_floor_ms)),
        ("correlation request by request", significant(figures.correlation)),
        ("  of a shuffled trace", significant(figures.correlation_shuffled)),
    ];
    for (what, figure) in rows {
        table.add_row([what.to_string(), figure]);
    }
    table.to_string()
}
