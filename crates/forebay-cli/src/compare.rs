//! `forebay compare`.

use std::path::PathBuf;

use clap::Args;
use forebay::compare::{Card, DeviationKind, Options, Quantity, compare};
use forebay::progress::Told;
use forebay::words;
use forebay::{devices, report};
use forebay_trace::grid::{Cell, Grid, right};
use forebay_trace::quantities::{bound, bytes, millis, or_none, significant};
use forebay_trace::write::Kept;

use crate::options::{Reading, TracePath};
use crate::output::{self, Format};
use crate::progress::Progress;
use crate::report_file::ReportFile;
use crate::stdin;

/// Say how alike two traces are, and in what the second may stand in for the first
#[derive(Args)]
pub(crate) struct Compare {
    /// The trace that is the measure
    #[arg(value_parser = stdin::trace_path())]
    a: TracePath,
    /// The trace that is compared with it
    #[arg(value_parser = stdin::trace_path())]
    b: TracePath,
    /// Devices on which responses are compared, comma-separated [default: a disk, a SATA SSD, an NVMe drive]
    #[arg(long, value_name = "DEVICE,...", value_delimiter = ',')]
    device: Vec<String>,
    /// Size of a block of the caches in KiB [default: 4, or more where a trace touches very many]
    #[arg(long, value_name = "KIB")]
    block_kib: Option<u32>,
    /// Let requests arrive this many times as fast on the devices
    #[arg(long, value_name = "TIMES", default_value = "1")]
    intensity: f64,
    /// Seed of the resamples behind the intervals
    #[arg(long, value_name = "SEED", default_value = "1")]
    seed: u64,
    /// Where to write the card as an HTML page
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    reading: Reading,
    /// How to print the card
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

impl Compare {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let options = Options::new(&self.device, self.block_kib, self.intensity, self.seed)?;
        let kept = Kept::trace(&self.a).and_trace(&self.b);
        let kept = devices::and_kept(kept, self.device.iter().map(String::as_str));
        let page = ReportFile::begin(self.output.as_deref(), &kept)?;
        let a = self.reading.read(&self.a)?;
        let b = self.reading.read(&self.b)?;
        let progress = Progress::new("comparing");
        let card = compare(&a, &b, &options, |told: &Told| progress.tell(told))?;
        drop(progress);
        if let Some(page) = page {
            page.write(&report::card_html(&card))?;
        }
        match self.format {
            Format::Json | Format::Csv => output::print_data(self.format, &card)?,
            Format::Table => output::print(&text(&card))?,
        }
        Ok(())
    }
}

fn text(card: &Card) -> String {
    let verdict = output::emphasised(&output::wrapped(&card.verdict.text));
    let mut parts = vec![verdict, aspects(card), figures(card), distances(card)];
    let notes = card.left_out.iter().chain(&card.cautions);
    parts.extend(notes.map(|note| output::wrapped(&format!("! {note}"))));
    parts.join("\n\n")
}

fn aspects(card: &Card) -> String {
    let mut table = output::table(["", "for", "worst", "allowed"]);
    for aspect in &card.verdict.aspects {
        let mark = if aspect.holds { "yes" } else { "NO" };
        table.add_row([
            Cell::new(mark),
            Cell::new(aspect.aspect),
            Cell::new(&aspect.worst),
            right(aspect.bound.clone()),
        ]);
    }
    table.to_string()
}

/// Everything that has a figure for each trace.
fn figures(card: &Card) -> String {
    let level = card.level * 100.0;
    let mut table =
        output::table(["figure", "A", "B", "deviation", &format!("A's own {level:.0} %")]);
    for feature in &card.features {
        let shown = |value: f64| words::shown(&feature.name, value);
        add(
            &mut table,
            &words::words(&feature.name),
            &feature.quantity,
            feature.deviation_kind,
            shown,
        );
    }
    for scale in &card.dispersion {
        let name = format!("index of dispersion at {}", bound(scale.bin_ms as f64));
        add(&mut table, &name, &scale.quantity, DeviationKind::Relative, significant);
    }
    for response in &card.responses {
        for (name, quantity, _) in response.quantities() {
            let name = format!("{} on {}", words::words(name), response.device);
            add(&mut table, &name, quantity, DeviationKind::Relative, millis);
        }
    }
    table.to_string()
}

fn add(
    table: &mut Grid,
    name: &str,
    quantity: &Quantity,
    kind: DeviationKind,
    shown: impl Fn(f64) -> String,
) {
    let unit = match kind {
        DeviationKind::Relative => "%",
        DeviationKind::Points => "pt",
    };
    let deviation = quantity.deviation.map(|deviation| format!("{:+.2} {unit}", deviation * 100.0));
    table.add_row([
        Cell::new(name),
        right(shown(quantity.a)),
        right(shown(quantity.b)),
        right(deviation.unwrap_or("-".to_string())),
        right(format!("{} to {}", shown(quantity.a_low), shown(quantity.a_high))),
    ]);
}

fn distances(card: &Card) -> String {
    let mut table = output::table(["distance", "of", "B from A", "A from itself"]);
    let mut add = |name: &str, of: &str, found: Option<f64>, itself: Option<f64>| {
        let shown = |value: Option<f64>| right(or_none(value, significant));
        table.add_row([Cell::new(name), Cell::new(words::words(of)), shown(found), shown(itself)]);
    };
    for distance in &card.distances {
        add("Kolmogorov-Smirnov", distance.of, Some(distance.ks), Some(distance.ks_itself));
        let itself = distance.wasserstein_over_mean_itself;
        add("Wasserstein / mean", distance.of, distance.wasserstein_over_mean, itself);
    }
    let blocks = format!("LRU, blocks of {}", bytes(card.mrc_block_bytes as f64));
    let (error, itself) = (card.mrc_mean_error, card.mrc_mean_error_itself);
    add("miss ratio, mean error", &blocks, Some(error), Some(itself));
    let heat = &card.heat;
    let ranges = format!("{} ranges of the disk", heat.a.len());
    let itself = Some(heat.total_variation_itself);
    add("total variation", &ranges, Some(heat.total_variation), itself);
    table.to_string()
}
