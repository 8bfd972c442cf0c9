//! `forebay device fit`.

use std::path::PathBuf;

use clap::Args;
use forebay::device::{self, FitFigures};
use forebay::devices::fit::Fitted;

use crate::output::{self, Format, say};

/// Fit a disk model to latencies measured with fio (docs/measure-a-drive.md has the jobs)
#[derive(Args)]
pub(crate) struct Fit {
    /// The folder with fio's logs: zones*, back*, near* and seek*_lat.*.log
    measurements: PathBuf,
    /// The drive's size (blockdev --getsize64 DEVICE)
    #[arg(long, value_name = "BYTES")]
    capacity: u64,
    /// Data surfaces, if known; distances are shares of the disk, so it hardly matters
    #[arg(long, value_name = "COUNT", default_value = "2")]
    heads: u32,
    /// The drive's name [default: the name of the output]
    #[arg(long)]
    name: Option<String>,
    /// Where to write the device file
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// How to print the figures
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

impl Fit {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let fitted =
            device::fit(&self.measurements, self.capacity, self.heads, self.name, &self.output)?;
        device::told_of(&fitted).into_iter().for_each(|told| say!("{told}"));
        match self.format {
            Format::Json | Format::Csv => {
                output::print_data(self.format, &FitFigures::of(&fitted, &self.output))?
            }
            Format::Table => output::print(&table(&fitted, &self.output))?,
        }
        Ok(())
    }
}

fn table(fitted: &Fitted, output: &std::path::Path) -> String {
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
