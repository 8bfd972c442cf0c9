//! `forebay device fit`.

use std::path::{Path, PathBuf};

use clap::Args;
use forebay::device::{self, DriveKind, FitFigures, FitOptions, RowFigures, SweepFigures};
use forebay::devices::fit::Fitted;
use forebay::quantities::percent;
use forebay_show::quantities::{millis, significant};

use crate::output::{self, Format, say};

/// Fit a drive model to what fio measured: a depth sweep, or logs of latencies
///
/// fio's results (`--output-format=json` or `json+`) at several queue depths make a disk or a solid-state drive;
/// `--job` prints a job that measures them. A folder of latency logs makes a disk, zone by zone
/// (docs/measure-a-drive.md has both jobs).
#[derive(Args)]
pub(crate) struct Fit {
    /// fio's results or folders of them, or one folder with the logs zones*, back*, near* and seek*_lat.*.log
    #[arg(required_unless_present = "job")]
    measurements: Vec<PathBuf>,
    /// Print the fio job that measures a depth sweep
    #[arg(long)]
    job: bool,
    /// The drive's size (blockdev --getsize64 DEVICE); logs need it, a sweep hardly does
    #[arg(long, value_name = "BYTES")]
    capacity: Option<u64>,
    /// Data surfaces of a disk, if known; distances are shares of the disk, so it hardly matters
    #[arg(long, value_name = "COUNT")]
    heads: Option<u32>,
    /// The drive's name [default: the name of the output]
    #[arg(long)]
    name: Option<String>,
    /// What a sweep was measured on: hdd or ssd [default: what its rates say]
    #[arg(long, value_name = "KIND")]
    kind: Option<DriveKind>,
    /// Where to write the device file
    #[arg(short, long, value_name = "FILE", required_unless_present = "job")]
    output: Option<PathBuf>,
    /// How to print the figures
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

impl Fit {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let Some(output) = self.output.filter(|_| !self.job) else {
            return Ok(output::print(device::SWEEP_JOB.trim_end())?);
        };
        let options = FitOptions {
            capacity_bytes: self.capacity,
            heads: self.heads,
            name: self.name,
            kind: self.kind,
        };
        match device::fit(&self.measurements, &options, &output)? {
            device::Fit::Logs(fitted) => {
                device::told_of(&fitted).into_iter().for_each(|told| say!("{told}"));
                let figures = FitFigures::of(&fitted, &output);
                match self.format {
                    Format::Json | Format::Csv => output::print_data(self.format, &figures)?,
                    Format::Table => output::print(&table(&fitted, &output))?,
                }
            }
            device::Fit::Sweep(figures) => {
                figures.notes.iter().for_each(|note| say!("{note}"));
                match self.format {
                    Format::Json => output::print_data(self.format, &figures)?,
                    Format::Csv => output::print_data(self.format, &figures.rows)?,
                    Format::Table => output::print(&swept(&figures))?,
                }
            }
        }
        Ok(())
    }
}

fn swept(figures: &SweepFigures) -> String {
    format!("{}\n\nDevice file: {}", rows(&figures.rows), figures.output)
}

/// Measured rows beside the model's.
pub(crate) fn rows(rows: &[RowFigures]) -> String {
    let columns = ["row", "measured/s", "model/s", "error", "p99 measured", "p99 model", "error"];
    let mut table = output::table(columns);
    let signed = |share: f64| {
        let sign = if share < 0.0 { "-" } else { "+" };
        let error = percent(share.abs());
        if error.starts_with("0 ") { error } else { format!("{sign}{error}") }
    };
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_string());
    for row in rows {
        let of_fit = if row.fitted { "" } else { " (not fitted)" };
        let time = |us: Option<f64>| or_none(us.map(|us| millis(us / 1e3)));
        table.add_row([
            format!("{}{of_fit}", row.row),
            significant(row.measured_iops),
            significant(row.model_iops),
            signed(row.iops_error_share),
            time(row.measured_p99_us),
            time(row.model_p99_us),
            or_none(row.p99_error_share.map(signed)),
        ]);
    }
    table.to_string()
}

fn table(fitted: &Fitted, output: &Path) -> String {
    let [outer, inner] = device::rates(fitted);
    [
        format!("revolution ms        {}", fitted.revolution_ms),
        format!("overhead ms          {}", fitted.overhead_ms),
        format!("track switch ms      {}", fitted.switch_ms),
        format!("seek, one track ms   {}", fitted.seek.track_to_track_ms),
        format!("seek, a third ms     {}", fitted.seek.third_stroke_ms),
        format!("seek, full ms        {}", fitted.seek.full_stroke_ms),
        format!("seek, misfit ms      {:.4}", fitted.seek.misfit_ms),
        format!("zones                {}", fitted.zones.len()),
        format!("outer MB/s           {outer}"),
        format!("inner MB/s           {inner}"),
        format!("\nDevice file: {}", output.display()),
    ]
    .join("\n")
}
