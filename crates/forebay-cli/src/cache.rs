//! `forebay cache`.

use std::path::PathBuf;

use clap::Args;
use forebay::cache_curve::{Curve, CurveOptions, CurvePoint};
use forebay::report;
use forebay_show::grid::right;
use forebay_show::plural::counted;
use forebay_show::quantities::{bytes, or_none, percent};
use forebay_trace::write::Kept;

use crate::options::{Reading, TracePath};
use crate::output::{self, Format, wrapped};
use crate::report_file::ReportFile;
use crate::stdin;

/// A size that finds less of what can be found is not drawn: most sizes are far smaller than any that helps.
const SHARE_TO_SPEAK_OF: f64 = 0.02;
/// Fewer bars say less than the table.
const BARS_MIN: usize = 8;

/// Find how large a cache should be, and what caches of every size would find
///
/// One pass over the trace answers for every size: what a cache that evicts the least recently used block (LRU)
/// would find, and S3-FIFO for sizes that you name. Times do not matter.
#[derive(Args)]
pub(crate) struct Cache {
    /// The trace; - is standard input
    #[arg(value_parser = stdin::trace_path())]
    trace: TracePath,
    /// Size of a block in KiB [default: 4; the trace's own block if it counts in blocks]
    #[arg(long, value_name = "KIB", allow_hyphen_values = true)]
    block_kib: Option<f64>,
    /// Show caches of these sizes, in MiB, comma-separated, and simulate S3-FIFO at them
    #[arg(long, value_name = "MIB,...", value_delimiter = ',')]
    sizes_mib: Vec<f64>,
    /// The same in blocks
    #[arg(long, value_name = "BLOCKS,...", value_delimiter = ',')]
    sizes_blocks: Vec<u32>,
    #[command(flatten)]
    reading: Reading,
    /// Also write an HTML report
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// How to print the curve
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

impl Cache {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let asked = !self.sizes_mib.is_empty() || !self.sizes_blocks.is_empty();
        let options = CurveOptions {
            sizes_blocks: self.sizes_blocks,
            ..CurveOptions::new(self.block_kib, &self.sizes_mib)?
        };
        let report = ReportFile::begin(self.output.as_deref(), &Kept::trace(&self.trace))?;
        let curve = self.reading.curve(&self.trace, &options)?;
        if let Some(report) = report {
            report.write(&report::cache_html(&curve))?;
        }
        match self.format {
            Format::Json | Format::Csv => output::print_data(self.format, &curve)?,
            Format::Table => output::print(&shown(&curve, asked))?,
        }
        Ok(())
    }
}

/// The answer in a sentence, a handful of sizes, and the curve at a glance.
fn shown(curve: &Curve, asked: bool) -> String {
    let points = if asked { curve.simulated() } else { curve.handful() };
    let heads = ["cache", "blocks", "found", "of what can be found", "S3-FIFO found"];
    let columns = 4 + usize::from(points.iter().any(|point| point.s3fifo_miss_ratio.is_some()));
    let mut table = output::table(&heads[..columns]);
    for point in &points {
        let findable = curve.findable();
        let share = if findable > 0.0 { point.lru_hit_ratio() / findable } else { 0.0 };
        let is_recommended =
            curve.recommended.is_some_and(|size| size.size_blocks == point.size_blocks);
        let cells = [
            curve.size(point.size_blocks) + if is_recommended { " *" } else { "" },
            point.size_blocks.to_string(),
            percent(point.lru_hit_ratio()),
            percent(share),
            or_none(point.s3fifo_miss_ratio, |ratio| percent(1.0 - ratio)),
        ];
        table.add_row(cells.into_iter().take(columns).map(right));
    }
    let table = if points.is_empty() { String::new() } else { format!("{table}\n\n") };
    let said = output::emphasised(&wrapped(&curve.told()));
    let line = glance(curve).unwrap_or_default();
    let estimated = curve.estimated().into_iter().map(|told| format!("\n{}", wrapped(&told)));
    format!(
        "{said}\n\n{table}{line}{}{}",
        wrapped(&format!(
            "{} of {}{} of {}. --format csv and json have every size.",
            counted(curve.accesses, "use"),
            if curve.sampled_one_in > 1 { "about " } else { "" },
            counted(curve.distinct_blocks, "different block"),
            bytes(curve.block_bytes as f64)
        )),
        estimated.collect::<String>()
    )
}

/// The curve in one line, from the least size that finds anything to speak of; nothing where there is no room for it.
fn glance(curve: &Curve) -> Option<String> {
    let least = curve.findable() * SHARE_TO_SPEAK_OF;
    let points: Vec<&CurvePoint> =
        curve.points.iter().skip_while(|point| point.lru_hit_ratio() < least).collect();
    let (first, last) = (points.first()?, points.last()?);
    let size = |point: &CurvePoint| curve.size(point.size_blocks);
    let found = |point: &CurvePoint| percent(point.lru_hit_ratio());
    let title = format!("found, from {} to {}: {} ", size(first), size(last), found(first));
    let end = format!(" {}", found(last));
    let room = output::columns().saturating_sub(title.chars().count() + end.chars().count());
    let is_worth = room >= BARS_MIN && points.len() >= BARS_MIN && curve.findable() > 0.0;
    let bars = points.iter().step_by(points.len().div_ceil(room.max(1)));
    let bars = output::sparkline(bars.map(|point| point.lru_hit_ratio() / last.lru_hit_ratio()));
    is_worth.then(|| format!("{title}{bars}{end}\n"))
}
