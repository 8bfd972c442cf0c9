//! `forebay array`: what adaptive redundancy goes by.

use clap::{Args, Subcommand, ValueEnum};
use forebay::array_score::{Asked, CHUNKS, LEVELS, Score, score};
use forebay::devices;
use forebay_core::stack::array;
use forebay_show::grid::{Cell, right};
use forebay_show::quantities::millis;

use crate::output::{self, Format, Rows, say};
use crate::progress::Progress;

/// Find which RAID level suits which writes on a device
#[derive(Args)]
pub(crate) struct Array {
    #[command(subcommand)]
    question: Question,
}

#[derive(Subcommand)]
enum Question {
    Score(Scoring),
}

/// Score RAID 6 and three copies for writes of 1 to 4 chunks, by simulation of six drives or more
#[derive(Args)]
struct Scoring {
    /// A bundled device (see `forebay devices`) or a device file
    device: String,
    /// Drives in the array
    #[arg(long, value_name = "COUNT", default_value = "6", value_parser = clap::value_parser!(u16).range(6..=32))]
    drives: u16,
    /// KiB of a chunk
    #[arg(long, value_name = "KIB", default_value = "64", value_parser = clap::value_parser!(u32).range(4..=1024))]
    chunk_kib: u32,
    /// MiB of data that writes go to, at most a TiB
    #[arg(long, value_name = "MIB", default_value = "20480", value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    filled_mib: u32,
    /// Writes at a time, comma-separated; the paper does not say its number
    #[arg(long, value_name = "COUNT,...", value_delimiter = ',', default_value = "1,4,16,64", value_parser = clap::value_parser!(u32).range(1..=4096))]
    outstanding: Vec<u32>,
    /// How chunks are written: in-place as in the paper, or fresh as in volumes
    #[arg(long, value_enum, default_value = "in-place")]
    update: Update,
    /// Writes of each kind
    #[arg(long, value_name = "COUNT", default_value = "5000", value_parser = clap::value_parser!(u32).range(1..))]
    writes: u32,
    /// Where units are drawn from
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    seed: u64,
    /// How to print it
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

#[derive(Clone, Copy, ValueEnum)]
enum Update {
    InPlace,
    Fresh,
}

impl Array {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let Question::Score(asked) = self.question;
        let device = devices::open(&asked.device)?;
        let update = match asked.update {
            Update::InPlace => array::Update::InPlace,
            Update::Fresh => array::Update::Fresh,
        };
        let mut scores = Vec::new();
        let progress = Progress::new("writing");
        for (nth, &outstanding) in asked.outstanding.iter().enumerate() {
            let doing = format!("writing {outstanding} at a time");
            let _ = progress.within(doing, nth as f64, Some(asked.outstanding.len() as f64));
            scores.push(score(
                &device,
                Asked {
                    drives: asked.drives,
                    chunk_bytes: asked.chunk_kib * 1024,
                    update,
                    filled_bytes: u64::from(asked.filled_mib) << 20,
                    outstanding,
                    writes: asked.writes,
                    seed: asked.seed,
                },
            )?);
        }
        drop(progress);
        let cautions = devices::cautions(&[&device]);
        match asked.format {
            Format::Json | Format::Csv => {
                cautions.iter().for_each(|caution| say!("{caution}"));
                output::print_data(asked.format, &Rows { rows: scores })
            }
            Format::Table => {
                let said = said(&device.name, asked.drives, &scores);
                Ok(output::print(&output::with_cautions(&said, &cautions))?)
            }
        }
    }
}

/// Up to how many chunks three copies are better.
fn mirrors_up_to(score: &Score) -> usize {
    let [raid6, mirrors] = &score.write_ms;
    raid6.iter().zip(mirrors).take_while(|(raid6, mirrors)| mirrors < raid6).count()
}

fn said(device: &str, drives: u16, scores: &[Score]) -> String {
    let chunks = (1..=CHUNKS).map(|count| match count {
        1 => "1 chunk".to_string(),
        _ => format!("{count} chunks"),
    });
    let head = ["at a time".to_string(), "level".to_string()].into_iter().chain(chunks);
    let mut table = output::table(head.chain(["switch away".to_string()]));
    for score in scores {
        for (index, level) in LEVELS.iter().enumerate() {
            let figures = score.write_ms[index].iter().chain([&score.switch_ms[index]]);
            let cells = figures.map(|ms| right(millis(*ms)));
            let head = [Cell::new(score.outstanding), Cell::new(level.name())];
            table.add_row(head.into_iter().chain(cells));
        }
    }
    let better: Vec<String> = scores
        .iter()
        .map(|score| {
            let at_a_time = score.outstanding;
            match mirrors_up_to(score) {
                0 => format!("With {at_a_time} at a time, three copies are never faster."),
                1 => format!("With {at_a_time} at a time, three copies are faster for writes of one chunk."),
                count => format!(
                    "With {at_a_time} at a time, three copies are faster for writes of up to {count} chunks."
                ),
            }
        })
        .collect();
    let how = format!(
        "RAID 6 against three copies on {drives} of {device}, simulated: the time for a write of so many chunks (the time \
         of all such writes, divided by their number), and for leaving a level."
    );
    format!("{}\n{}\n\n{table}", better.join("\n"), output::wrapped(&how))
}
