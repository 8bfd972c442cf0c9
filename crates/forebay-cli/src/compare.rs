//! `forebay compare`.

use std::path::PathBuf;

use clap::Args;
use forebay::compare::{Card, DeviationKind, Options, Quantity, compare};
use forebay::progress::Told;
use forebay::{devices, names, report, words};
use forebay_show::grid::{Cell, right};
use forebay_show::plural::counted;
use forebay_show::quantities::{bound, bytes, or_none, significant};
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
    /// Print every figure, not only the handful that say most
    #[arg(long)]
    all: bool,
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
        let card = compare(&a, &b, &options, &mut |told: &Told| progress.tell(told))?;
        drop(progress);
        if let Some(page) = page {
            page.write(&report::card_html(&card))?;
        }
        match self.format {
            Format::Json | Format::Csv => output::print_data(self.format, &card)?,
            Format::Table => output::print(&text(&card, self.all))?,
        }
        Ok(())
    }
}

/// The answer in a sentence, what it rests on, and a handful of figures or all.
fn text(card: &Card, all: bool) -> String {
    let mut parts = vec![
        output::emphasised(&output::wrapped(&card.verdict.text)),
        aspects(card),
        output::wrapped(&format!(
            "Allowed is as much as {} may differ from itself, and at least a limit for each \
             (docs/compare.md).",
            names::numbered(&[&card.a.trace, &card.b.trace])[0]
        )),
    ];
    let figures = figures(card);
    let shown: Vec<_> = figures.iter().filter(|figure| all || figure.says_most).collect();
    parts.push(table(card, &shown));
    parts.push(match all {
        true => distances(card),
        false => output::wrapped(&format!(
            "{} more, and distances: --all; with pictures -o card.html.",
            counted((figures.len() - shown.len()) as u64, "figure")
        )),
    });
    let notes: Vec<String> = card.left_out.iter().chain(&card.cautions).cloned().collect();
    if !notes.is_empty() {
        parts.push(output::cautions(&notes));
    }
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

/// What has a figure for each trace.
struct Figure<'a> {
    /// In words.
    name: String,
    /// The key of its value, which says what it is counted in.
    key: &'a str,
    quantity: &'a Quantity,
    kind: DeviationKind,
    /// Whether it is one of the handful: no part of another, or judged.
    says_most: bool,
}

fn figures(card: &Card) -> Vec<Figure<'_>> {
    let relative = DeviationKind::Relative;
    let features = card.features.iter().map(|feature| Figure {
        name: words::words(&feature.name),
        key: &feature.name,
        quantity: &feature.quantity,
        kind: feature.deviation_kind,
        says_most: !feature.name.contains(':'),
    });
    let dispersion = card.dispersion.iter().map(|scale| Figure {
        name: format!("index of dispersion at {}", bound(scale.bin_ms as f64)),
        key: "index",
        quantity: &scale.quantity,
        kind: relative,
        says_most: false,
    });
    let responses = card.responses.iter().flat_map(|response| {
        response.quantities().map(|(key, quantity, judged)| Figure {
            name: format!("{} on {}", words::words(key), response.device),
            key,
            quantity,
            kind: relative,
            says_most: judged.is_some(),
        })
    });
    features.chain(dispersion).chain(responses).collect()
}

fn table(card: &Card, figures: &[&Figure<'_>]) -> String {
    let own = format!("A's own {:.0} %", card.level * 100.0);
    let mut table = output::table(["figure", "A", "B", "deviation", &own]);
    for Figure { name, key, quantity, kind, .. } in figures {
        let shown = |value: f64| right(words::shown(key, value));
        let interval = [quantity.a_low, quantity.a_high].map(|end| words::shown(key, end));
        table.add_row([
            Cell::new(name),
            shown(quantity.a),
            shown(quantity.b),
            right(or_none(quantity.deviation, |deviation| kind.shown(deviation))),
            right(interval.join(" to ")),
        ]);
    }
    table.to_string()
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
