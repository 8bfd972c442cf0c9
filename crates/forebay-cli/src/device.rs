//! `forebay device import`, `forebay device validate` and, in a file of its own, `forebay device fit`.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use forebay::Error;
use forebay::devices::validate::{self, Arrivals, Validation};
use forebay::devices::{self, disksim, write};
use forebay_trace::plural::counted;

use crate::device_fit::Fit;
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
        let imported = disksim::import(&self.file).map_err(Error::from)?;
        if let Some(output) = &self.output {
            imported.kept.refuse(output).map_err(Error::from)?;
        }
        for note in &imported.notes {
            say!("{note}");
        }
        let file = self.file.file_name().unwrap_or_default().to_string_lossy();
        let source = format!("{}, from DiskSim's {file}", imported.name);
        let text = write::text(&imported.name, &source, &imported.drive);
        let text = write::noted(&text, imported.notes.iter().map(|note| self.within(note)));
        let path = self.output.as_deref().unwrap_or(&self.file);
        let device = devices::read(path, &text).map_err(Error::from)?;
        say!("{}: {}", device.name, device.summary);
        match &self.output {
            None => output::print(text.trim_end())?,
            Some(path) => write::file(path, &text, &imported.kept).map_err(Error::output)?,
        }
        Ok(())
    }

    /// A note without the folder of the files: a device file is passed on.
    fn within<'a>(&self, note: &'a str) -> &'a str {
        let folder = self.file.parent().unwrap_or(Path::new("")).display().to_string();
        note.strip_prefix(&folder).map_or(note, |rest| rest.trim_start_matches('/'))
    }
}

/// Play a DiskSim validation trace and compare service times with the measured ones
///
/// It is played from 20 positions of the platters. With simulated arrivals they hardly differ, as
/// the replay locks to the platters after its first request: their spread is what the unknown start
/// costs, not how sure the distance is. Compare the distance with that of redrawn rotation.
#[derive(Args)]
struct Validate {
    /// A bundled disk or a device file
    device: String,
    /// The trace, packed or not
    trace: PathBuf,
    /// When requests are issued: a gap after the simulated completion, or as measured
    #[arg(long, value_enum, default_value = "simulated")]
    arrivals: From,
    /// How to print the figures
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

#[derive(Clone, Copy, ValueEnum)]
enum From {
    Simulated,
    Measured,
}

impl Validate {
    fn run(self) -> anyhow::Result<()> {
        let (name, spec) = devices::open_spec(&self.device).map_err(Error::from)?;
        let trace = validate::read_trace(&self.trace)?;
        let arrivals = match self.arrivals {
            From::Simulated => Arrivals::Simulated,
            From::Measured => Arrivals::Measured,
        };
        let validation = validate::validate(&name, &spec, &trace, arrivals).map_err(Error::from)?;
        for note in devices::open(&self.device).map_err(Error::from)?.notes {
            say!("{}: {note}", self.device);
        }
        if validation.requests_beyond_end > 0 {
            say!(
                "{}, of {}, beyond the end of {name}: served at its end",
                counted(validation.requests_beyond_end as u64, "request"),
                validation.requests
            );
        }
        match self.format {
            Format::Json | Format::Csv => output::print_data(self.format, &validation)?,
            Format::Table => output::print(&table(&validation))?,
        }
        Ok(())
    }
}

fn table(figures: &Validation) -> String {
    let ms = |value: f64| format!("{value:.3} ms");
    let mut table = output::table();
    table.set_header([figures.device.as_str(), "against the drive"]);
    let spread = format!("{:.3} to {:.3} ms", figures.rms_least_ms, figures.rms_greatest_ms);
    let rows = [
        ("requests", figures.requests.to_string()),
        ("mean measured", ms(figures.mean_measured_ms)),
        ("mean simulated", ms(figures.mean_simulated_ms)),
        ("rms distance of the distributions", ms(figures.rms_ms)),
        ("  of the measured mean", format!("{:.2} %", figures.rms_share * 100.0)),
        ("  over the start phases", spread),
        ("  of redrawn rotation alone", ms(figures.sampling_floor_ms)),
        ("correlation request by request", format!("{:.3}", figures.correlation)),
        ("  of a shuffled trace", format!("{:.3}", figures.correlation_shuffled)),
    ];
    for (what, figure) in rows {
        table.add_row([what.to_string(), figure]);
    }
    table.to_string()
}
