//! `forebay cache`.

use clap::Args;
use comfy_table::{Cell, CellAlignment, Table, presets};
use forebay::cache_curve::{Curve, CurveOptions};

use crate::options::{Reading, TracePath};
use crate::output::{self, Format};

/// Miss ratios of caches of every size on a trace, from one pass
#[derive(Args)]
pub(crate) struct Cache {
    /// The trace
    trace: TracePath,
    /// Size of a block in KiB [default: 4; the trace's own block if it counts in blocks]
    #[arg(long, value_name = "KIB", allow_hyphen_values = true)]
    block_kib: Option<f64>,
    /// Sizes in MiB, comma-separated, to tell exactly and to simulate S3-FIFO at
    #[arg(long, value_name = "MIB,...", value_delimiter = ',')]
    sizes_mib: Vec<f64>,
    /// The same in blocks
    #[arg(long, value_name = "BLOCKS,...", value_delimiter = ',')]
    sizes_blocks: Vec<u32>,
    #[command(flatten)]
    reading: Reading,
    /// How to print the curve
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

impl Cache {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let options = CurveOptions {
            sizes_blocks: self.sizes_blocks,
            ..CurveOptions::new(self.block_kib, &self.sizes_mib)?
        };
        let curve = self.reading.curve(&self.trace, &options)?;
        match self.format {
            Format::Json => output::print_json(&curve)?,
            Format::Table => output::print(&table(&curve))?,
        }
        Ok(())
    }
}

fn table(curve: &Curve) -> String {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    table.set_header(["cache MiB", "blocks", "LRU misses %", "S3-FIFO misses %"]);
    for point in &curve.points {
        let other = point.s3fifo_miss_ratio.map(|ratio| format!("{:.2}", ratio * 100.0));
        let cells = [
            format!("{:.2}", point.size_mib),
            point.size_blocks.to_string(),
            format!("{:.2}", point.lru_miss_ratio * 100.0),
            other.unwrap_or_else(|| "-".to_string()),
        ];
        table.add_row(cells.map(|text| Cell::new(text).set_alignment(CellAlignment::Right)));
    }
    let size = match curve.is_own_block {
        true => format!(
            "the trace's own blocks, whose size it does not say (MiB: if they have {} bytes)",
            curve.block_bytes
        ),
        false => format!("blocks of {} KiB", f64::from(curve.block_bytes) / 1024.0),
    };
    format!(
        "{} uses of {}{} distinct ones among {size}\n{table}{}",
        curve.accesses,
        if curve.sampled_one_in > 1 { "about " } else { "" },
        curve.distinct_blocks,
        sampled(curve)
    )
}

/// What is no longer exact, and how far it may be off.
fn sampled(curve: &Curve) -> String {
    let mut told = String::new();
    if curve.sampled_one_in > 1 {
        told = format!(
            "\nLRU is estimated on one in {} blocks, {} of them; they stand for the number of uses to \
             {:.2} %",
            curve.sampled_one_in,
            curve.sampled_blocks,
            curve.sample_error_share * 100.0
        );
    }
    let others = curve.points.iter().filter_map(|point| point.s3fifo_sampled_one_in);
    if let Some(most) = others.max().filter(|&one_in| one_in > 1) {
        told += &format!(
            "\nS3-FIFO of caches with very many blocks is simulated in miniature, on one in {most} of \
             them at the least"
        );
    }
    told
}
