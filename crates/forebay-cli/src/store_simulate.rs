//! `forebay store simulate`: what reorganising costs those who put.

use std::ops::ControlFlow;

use anyhow::anyhow;
use clap::{Args, ValueEnum};
use forebay::devices;
use forebay::plan::power::Disk;
use forebay::quantities;
use forebay_core::Nanos;
use forebay_show::grid::{Cell, right};
use forebay_show::quantities::{bytes, joules, millis, percent, rate, seconds};
use forebay_store::{
    Arrangement, Compared, Config, InPlace, Keys, Load, Predicted, Row, StoreError, Time, Tree,
    TreeSync, compare, predict,
};

use crate::options::span;
use crate::output::{self, Format, Rows, say, wrapped};
use crate::progress::Progress;

/// Find by simulation how much reorganising slows puts: the store's own code on models of disks
///
/// Every arrangement of the disks takes the same puts twice: once they are only logged, once their logs also
/// become sorted segments (Workload Shifting, Pan, Yue and Xiong).
#[derive(Args)]
pub(crate) struct Simulating {
    /// A bundled device (see `forebay devices`) or a device file
    #[arg(default_value = "st1000nm0011")]
    device: String,
    /// Disks of the store
    #[arg(long, value_name = "COUNT", default_value = "4", value_parser = clap::value_parser!(u16).range(4..=64))]
    disks: u16,
    /// Bytes of a value
    #[arg(long, value_name = "BYTES", default_value = "100000", value_parser = clap::value_parser!(u32).range(1..=4_000_000))]
    value_bytes: u32,
    /// Bytes of all values, in MB
    #[arg(long, value_name = "MB", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    total_mb: u32,
    /// Writers, each with one put at a time
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    writers: u32,
    /// Time from an answer to the writer's next put
    #[arg(long, value_name = "TIME", default_value = "2.6ms", value_parser = span, allow_hyphen_values = true)]
    host: Nanos,
    /// Which keys are put
    #[arg(long, value_enum, default_value = "random")]
    keys: KeyOrder,
    /// Length of a log, in KB, at which duty passes on (the paper: 5000)
    #[arg(long, value_name = "KB", default_value = "5000", value_parser = clap::value_parser!(u32).range(16..=1_000_000))]
    log_kb: u32,
    /// Arrangements of the disks, comma-separated
    #[arg(long, value_enum, value_delimiter = ',', default_value = "enhanced,basic,raid0")]
    arrangement: Vec<Arranged>,
    /// KiB of a chunk of RAID 0
    #[arg(long, value_name = "KIB", default_value = "64", value_parser = clap::value_parser!(u32).range(4..=65_536))]
    chunk_kib: u32,
    /// Finished logs are read back, as in the paper, and not taken from memory
    #[arg(long)]
    read_log: bool,
    /// Segments are not merged, as in the paper, which has no such step
    #[arg(long)]
    no_merging: bool,
    /// A put counts once the disk's cache has it; it is not safe
    #[arg(long)]
    to_cache: bool,
    /// A put is written and then flushed, as by fsync (on RAID 0 on every disk), and not written through
    #[arg(long, conflicts_with = "to_cache")]
    flush: bool,
    /// What logs become: sorted runs, or part of one B+tree a disk that is updated in place, as in the paper
    #[arg(long, value_enum, default_value = "runs")]
    tree: Trees,
    /// KiB of a page of a tree in place, a multiple of 4; values longer than a quarter of it are stored apart
    #[arg(long, value_name = "KIB", default_value = "8", value_parser = clap::value_parser!(u16).range(4..=16_384))]
    page_kib: u16,
    /// MB of memory for leaves of trees in place (the paper: 2000 in all)
    #[arg(long, value_name = "MB", default_value = "2000", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    tree_memory_mb: u32,
    /// When changed pages of trees in place are written
    #[arg(long, value_enum, default_value = "log")]
    tree_sync: Synced,
    /// Writes to a tree in place at a time; one for a thread that waits for each
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=1024))]
    tree_depth: u16,
    /// KB left out before each batch, to save a revolution
    #[arg(long, value_name = "KB", default_value = "0", value_parser = clap::value_parser!(u32).range(0..=10_000))]
    gap_kb: u32,
    /// The store chooses the gap, and how long logs are, as it does when it serves
    #[arg(long)]
    tuned: bool,
    /// In real time: the disks take as long as their models, and the store's own work takes what it takes
    #[arg(long)]
    wall: bool,
    /// Draws keys and times
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    seed: u64,
    /// How to print it
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

#[derive(Clone, Copy, ValueEnum)]
enum KeyOrder {
    Random,
    Sequential,
}

#[derive(Clone, Copy, ValueEnum)]
enum Arranged {
    /// Workload Shifting, where no disk reads and writes in one stage
    Enhanced,
    /// Workload Shifting, where a log is transformed on its own disk
    Basic,
    /// A log and its segments on all disks as one
    Raid0,
}

#[derive(Clone, Copy, ValueEnum)]
enum Trees {
    /// Sorted runs, each written in one pass
    Runs,
    /// One B+tree a disk, updated in place
    InPlace,
}

#[derive(Clone, Copy, ValueEnum)]
enum Synced {
    /// After each record
    Record,
    /// When a log is in the tree
    Log,
    /// At the end; earlier where memory has no room
    Close,
}

impl Simulating {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        if !self.page_kib.is_multiple_of(4) {
            let got = self.page_kib;
            return Err(StoreError::Store(format!(
                "--page-kib: got {got}, expected a multiple of 4, since disks write 4 KiB at a time"
            ))
            .into());
        }
        let device = devices::open(&self.device)?;
        let disks = vec![device.model.clone(); self.disks.into()];
        let load = Load {
            value_bytes: self.value_bytes,
            total_bytes: u64::from(self.total_mb) * 1_000_000,
            writers: self.writers,
            host: self.host,
            keys: match self.keys {
                KeyOrder::Random => Keys::Random,
                KeyOrder::Sequential => Keys::Sequential,
            },
            seed: self.seed,
        };
        let block = |bytes: u64| bytes.next_multiple_of(4096);
        let config = Config {
            log_bytes: u64::from(self.log_kb) * 1000,
            read_log: self.read_log,
            tree: self.tree(),
            to_media: !self.to_cache,
            flushes_puts: self.flush,
            merges: !self.no_merging,
            tunes: self.tuned,
            gap_bytes: block(u64::from(self.gap_kb) * 1000),
            ..Config::default()
        };
        let mut all = Vec::new();
        let progress = Progress::new("putting");
        for (nth, arranged) in self.arrangement.iter().enumerate() {
            let arrangement = match arranged {
                Arranged::Enhanced => Arrangement::Enhanced,
                Arranged::Basic => Arrangement::Basic,
                Arranged::Raid0 => {
                    Arrangement::Raid0 { chunk_bytes: u64::from(self.chunk_kib) * 1024 }
                }
            };
            let time = if self.wall { Time::Wall } else { Time::Virtual };
            let (doing, of) =
                (format!("putting on {}", arrangement.name()), self.arrangement.len());
            let _ = progress.within(doing, nth as f64, Some(of as f64));
            let compared = compare(&disks, &config, load, &[arrangement], time, &mut || {
                ControlFlow::Continue(())
            })
            .map_err(|trouble| anyhow!("{}, {}: {trouble}", device.name, arrangement.name()))?;
            all.extend(compared);
        }
        drop(progress);
        let cautions = devices::cautions(&[&device]);
        match self.format {
            Format::Json | Format::Csv => {
                cautions.iter().for_each(|caution| say!("{caution}"));
                let rows: Vec<Row> = all.iter().flat_map(Compared::rows).collect();
                output::print_data(self.format, &Rows { rows })
            }
            Format::Table => {
                let predicted =
                    predict(&disks, &config, load).map_err(|trouble| anyhow!("{trouble}"))?;
                let told = self.told(&device.name, load, &all);
                let parking = self.parking(&all);
                let said = format!("{told}\n\n{}{parking}", wrapped(&foretold(&predicted, &all)));
                Ok(output::print(&output::with_cautions(&said, &cautions))?)
            }
        }
    }
}

/// What the first logs foretell of one job a disk, beside what it came to.
fn foretold(predicted: &Predicted, all: &[Compared]) -> String {
    let enhanced = all.iter().find(|compared| compared.arrangement == Arrangement::Enhanced);
    let came = enhanced.map_or_else(String::new, |compared| {
        format!(" (it came to {})", rate(compared.rows()[1].throughput_mb_per_s * 1e6))
    });
    let Predicted { throughput_mb_per_s, periods, periods_max } = *predicted;
    let advice = match predicted.keeps_up() {
        true => "",
        false => ": saturated, more disks help, and fewer or larger puts",
    };
    format!(
        "Predicted from the first logs, one job a disk: {}{came}; sorting a log takes \
         {} logging periods and has time for {periods_max:.0}{advice}.",
        rate(throughput_mb_per_s * 1e6),
        quantities::significant(periods)
    )
}

impl Simulating {
    fn tree(&self) -> Tree {
        match self.tree {
            Trees::Runs => Tree::Runs,
            Trees::InPlace => Tree::InPlace(InPlace {
                page_bytes: usize::from(self.page_kib) * 1024,
                cache_bytes: u64::from(self.tree_memory_mb) * 1_000_000,
                sync: match self.tree_sync {
                    Synced::Record => TreeSync::Record,
                    Synced::Log => TreeSync::Log,
                    Synced::Close => TreeSync::Close,
                },
                depth: self.tree_depth.into(),
            }),
        }
    }

    /// Whether a disk that waits for its turn would better stand still; nothing where its file does not say what
    /// that saves.
    fn parking(&self, all: &[Compared]) -> String {
        let enhanced = all.iter().find(|compared| compared.arrangement == Arrangement::Enhanced);
        let (Some(enhanced), Ok(disk)) = (enhanced, Disk::open(&self.device, Some(1))) else {
            return String::new();
        };
        let between_s = enhanced.rows()[1].logging_ms * f64::from(self.disks) / 1e3;
        let pays_s = disk.break_even().as_secs_f64();
        let pays = if between_s > pays_s { "pays" } else { "costs more than it saves" };
        let said = format!(
            "A disk rests {} between its turns, and must rest more than {} to save what a spin-up takes: parking \
             {pays}.",
            quantities::seconds(between_s),
            quantities::seconds(pays_s)
        );
        format!("\n{}", wrapped(&said))
    }

    fn told(&self, device: &str, load: Load, all: &[Compared]) -> String {
        let mut table = output::table([
            "disks",
            "puts",
            "time",
            "rate",
            "slowed",
            "p50",
            "p99",
            "longest",
            "busy time",
            "energy",
        ]);
        for row in all.iter().flat_map(Compared::rows) {
            let slowed =
                row.slowed_percent.map_or_else(String::new, |slowed| percent(slowed / 100.0));
            let figures = [
                seconds(row.execution_s),
                rate(row.throughput_mb_per_s * 1e6),
                slowed,
                millis(row.put_p50_ms),
                millis(row.put_p99_ms),
                millis(row.put_max_ms),
                seconds(row.busy_s),
                joules(row.energy_j),
            ];
            let puts = if row.transformation { "and sorted" } else { "logged" };
            let figures = figures.map(right);
            table.add_row([Cell::new(row.arrangement), Cell::new(puts)].into_iter().chain(figures));
        }
        let slowed: Vec<String> = all
            .iter()
            .map(|compared| {
                let slowed = quantities::percent(compared.slowed_percent() / 100.0);
                format!("{slowed} ({})", compared.arrangement.name())
            })
            .collect();
        let sorting = format!("Sorting makes puts take longer by {}.", slowed.join(", "));
        let how = format!(
            "{}, {} of {device}: {} puts of {} by {} at a time, each {} before it is answered; {} from an answer to \
             the next put.",
            if self.wall { "Emulated in real time" } else { "Simulated" },
            self.disks,
            load.puts(),
            bytes(load.value_bytes as f64),
            load.writers,
            if self.to_cache { "in a disk's cache" } else { "durable" },
            load.host,
        );
        format!("{}\n{}\n\n{table}", wrapped(&sorting), wrapped(&how))
    }
}
