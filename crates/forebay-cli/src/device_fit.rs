//! `forebay device fit`.

use std::path::PathBuf;

use clap::Args;
use forebay::devices::fit::{Figure, Fitted, Known, Measurements, fit};
use forebay_trace::write::Kept;
use serde::Serialize;

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
    /// What to call the drive [default: the name of the output]
    #[arg(long)]
    name: Option<String>,
    /// Where to write the device file
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// How to print the figures
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

/// A figure and its standard error for JSON: `[value, error]`.
type Pair = [f64; 2];

#[derive(Serialize)]
struct Figures {
    output: String,
    revolution_ms: Pair,
    overhead_ms: Pair,
    switch_ms: Pair,
    track_to_track_ms: Pair,
    third_stroke_ms: Pair,
    full_stroke_ms: Pair,
    seek_misfit_ms: f64,
    zones: usize,
    outer_mb_per_s: Pair,
    inner_mb_per_s: Pair,
    cached_reads: u64,
    lines_skipped: u64,
}

impl Fit {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let measurements = Measurements::read(&self.measurements).map_err(forebay::Error::from)?;
        let kept: Kept = measurements.paths.iter().cloned().collect();
        kept.refuse(&self.output).map_err(forebay::Error::from)?;
        let stem = self.output.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let name = self.name.or(stem).unwrap_or_default();
        let known = Known { name, capacity_bytes: self.capacity, heads: self.heads };
        let fitted = fit(&measurements, known).map_err(forebay::Error::from)?;
        let text = fitted.toml();
        // What is written can be read, or the measurements do not describe a disk.
        forebay::devices::read(&self.output, &text)?;
        forebay::devices::write::file(&self.output, &text, &kept)
            .map_err(forebay::Error::output)?;
        if fitted.lines_skipped > 0 {
            say!("{} log lines are no reads and were skipped", fitted.lines_skipped);
        }
        if fitted.cached > 0 {
            say!("{} random reads were answered by the drive's cache and left out", fitted.cached);
        }
        match self.format {
            Format::Json | Format::Csv => {
                output::print_data(self.format, &figures(&fitted, &self.output))?
            }
            Format::Table => output::print(&table(&fitted, &self.output))?,
        }
        Ok(())
    }
}

fn ends(fitted: &Fitted) -> [Figure; 2] {
    [fitted.zones.first(), fitted.zones.last()]
        .map(|zone| zone.map_or(Figure::default(), |zone| zone.sustained_mb_per_s))
}

fn figures(fitted: &Fitted, output: &std::path::Path) -> Figures {
    let pair = |figure: Figure| [figure.value, figure.error];
    let [outer, inner] = ends(fitted);
    Figures {
        output: output.display().to_string(),
        revolution_ms: pair(fitted.revolution_ms),
        overhead_ms: pair(fitted.overhead_ms),
        switch_ms: pair(fitted.switch_ms),
        track_to_track_ms: pair(fitted.seek.track_to_track_ms),
        third_stroke_ms: pair(fitted.seek.third_stroke_ms),
        full_stroke_ms: pair(fitted.seek.full_stroke_ms),
        seek_misfit_ms: fitted.seek.misfit_ms,
        zones: fitted.zones.len(),
        outer_mb_per_s: pair(outer),
        inner_mb_per_s: pair(inner),
        cached_reads: fitted.cached,
        lines_skipped: fitted.lines_skipped,
    }
}

fn table(fitted: &Fitted, output: &std::path::Path) -> String {
    let [outer, inner] = ends(fitted);
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
