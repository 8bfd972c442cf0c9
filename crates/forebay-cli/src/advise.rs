//! `forebay advise`.

use std::path::{Path, PathBuf};

use clap::Args;
use comfy_table::{Cell, CellAlignment, Table, presets};
use forebay::advise::{Advice, advise, default_device, default_flash};
use forebay::devices;
use forebay::report;

use crate::options::{Reading, Replaying, TracePath};
use crate::output::{self, Format};
use crate::progress::Progress;

/// Describe a trace, try every scheduler, defragmentation and flash, explain and recommend
#[derive(Args)]
pub(crate) struct Advise {
    /// The trace; the bundled sample if none is given
    trace: Option<TracePath>,
    /// A bundled device, a device file, or fixed:RATE [default: a drive that holds the trace]
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    /// A solid-state drive to try offloading and caching with [default: d7-p5520]
    #[arg(long, value_name = "DEVICE")]
    flash: Option<String>,
    /// Where to write the HTML report
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    replaying: Replaying,
    /// How to print the answer
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

impl Advise {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let input = match &self.trace {
            Some(path) => self.reading.read(path)?,
            None => self.reading.read_sample()?,
        };
        let (device, reason) = match &self.device {
            Some(name) => (devices::open(name)?, "as asked for".to_string()),
            None => default_device(&input)?,
        };
        let flash = match &self.flash {
            Some(name) => devices::open(name)?,
            None => default_flash()?,
        };
        let setup = self.replaying.setup(&input)?;
        let progress = Progress::new("simulating");
        let advice = advise(&input, &device, reason, &flash, setup, |remedy| {
            progress.say(format!("trying {remedy} on {}", device.name));
        })?;
        drop(progress);
        report::write(&self.output, &report::html(&advice))?;
        match self.format {
            Format::Json => output::print_json(&advice)?,
            Format::Table => output::print(&text(&advice, &self.output))?,
        }
        Ok(())
    }
}

fn text(advice: &Advice, report: &Path) -> String {
    let mut lines = vec![
        advice.headline.clone(),
        String::new(),
        format!("{} on {} ({})", advice.trace, advice.device, advice.device_reason),
        remedies(advice),
        String::new(),
        ranking(advice),
        String::new(),
    ];
    lines.extend(advice.findings.iter().map(|finding| format!("- {finding}")));
    lines.push(String::new());
    lines.extend(advice.cautions.iter().map(|caution| format!("! {caution}")));
    lines.push(format!("\nReport: {}", report.display()));
    lines.join("\n")
}

/// Every kind of remedy: what is free, then what needs flash.
fn remedies(advice: &Advice) -> String {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    table.set_header(["", "remedy", "needs", "total s", "saved %", "read p99 ms", "write p99 ms"]);
    for remedy in &advice.remedies {
        table.add_row([
            Cell::new(if remedy.recommended { ">" } else { "" }),
            Cell::new(format!("{}: {}", remedy.kind.name(), remedy.policy)),
            Cell::new(remedy.needs().unwrap_or("-".to_string())),
            number(remedy.total_s, 1),
            number(remedy.gain_share.map(|share| share * 100.0), 1),
            number(remedy.read_p99_ms, 1),
            number(remedy.write_p99_ms, 1),
        ]);
    }
    let reasons =
        advice.remedies.iter().map(|one| format!("\n- {}: {}", one.kind.name(), one.reason));
    format!("{table}{}", reasons.collect::<String>())
}

fn number(value: Option<f64>, digits: usize) -> Cell {
    let text = value.map_or("-".to_string(), |value| format!("{value:.digits$}"));
    Cell::new(text).set_alignment(CellAlignment::Right)
}

fn ranking(advice: &Advice) -> String {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    table.set_header([
        "",
        "policy",
        "total s",
        "saved %",
        "read p99 ms",
        "write p99 ms",
        "longest wait ms",
    ]);
    for ranked in &advice.ranking {
        let mark = if ranked.policy == advice.recommended { ">" } else { "" };
        table.add_row([
            Cell::new(mark),
            Cell::new(&ranked.policy),
            number(Some(ranked.total_s), 1),
            number(Some(ranked.gain_share * 100.0), 1),
            number(ranked.read_p99_ms, 1),
            number(ranked.write_p99_ms, 1),
            number(Some(ranked.longest_wait_ms), 0),
        ]);
    }
    table.to_string()
}
