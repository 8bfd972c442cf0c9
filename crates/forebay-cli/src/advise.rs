//! `forebay advise`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use forebay::advise::{
    Advice, Asked, Prefer, Redundancy, Remedy, RemedyKind, Standing, advise, default_device,
    default_flash, redundancy,
};
use forebay::devices;
use forebay::report;
use forebay_show::grid::{Cell, right};
use forebay_show::quantities::{bytes, millis, or_none, seconds, significant};
use forebay_trace::write::Kept;

use crate::options::{Jobs, Reading, Replaying, TracePath};
use crate::output::{self, Format, wrapped};
use crate::progress::Progress;
use crate::report_file::ReportFile;
use crate::stdin;

/// Find out what would help a disk with this workload
///
/// Describes the trace, tries every scheduler, defragmentation and flash on a model of a disk, and says what is worth doing and why.
/// The answer is also an HTML page.
#[derive(Args)]
pub(crate) struct Advise {
    /// The trace; - is standard input; the bundled sample if none is given
    #[arg(value_parser = stdin::trace_path())]
    trace: Option<TracePath>,
    /// A bundled device, a device file, or fixed:RATE [default: a drive that holds the trace]
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    /// Fit the few figures of the disk that no data sheet tells to the first half of the trace, judge them on the second, and
    /// use them if they are nearer to it
    #[arg(long, requires = "device")]
    fit_device: bool,
    /// A solid-state drive to try offloading and caching with [default: d7-p5520]
    #[arg(long, value_name = "DEVICE")]
    flash: Option<String>,
    /// Also say which redundancy pays on an array of this many such drives
    #[arg(long, value_name = "DRIVES", value_parser = clap::value_parser!(u16).range(6..=32))]
    array: Option<u16>,
    /// Which scheduler to choose where none is best in everything: total (the least time), reads or writes (the
    /// fastest 99 of 100), or balance (the least product of all)
    #[arg(long, value_enum, value_name = "WHAT", default_value = "balance")]
    prefer: Preferred,
    /// Where to write the HTML report
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    replaying: Replaying,
    #[command(flatten)]
    jobs: Jobs,
    /// How to print the answer
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

/// What is preferred.
#[derive(Clone, Copy, ValueEnum)]
enum Preferred {
    Total,
    Reads,
    Writes,
    Balance,
}

impl From<Preferred> for Prefer {
    fn from(preferred: Preferred) -> Prefer {
        match preferred {
            Preferred::Total => Prefer::Total,
            Preferred::Reads => Prefer::Reads,
            Preferred::Writes => Prefer::Writes,
            Preferred::Balance => Prefer::Balance,
        }
    }
}

impl Advise {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let kept = self.trace.as_deref().map(Kept::trace).unwrap_or_default();
        let named = self.device.iter().chain(&self.flash).map(String::as_str);
        let kept = devices::and_kept(kept, named);
        let page = ReportFile::begin(Some(&self.output), &kept)?;
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
        let both_replays = !self.replaying.is_named();
        let asked = Asked {
            prefer: self.prefer.into(),
            jobs: self.jobs.count(),
            both_replays,
            device_named: self.device.is_some(),
            fit_device: self.fit_device,
        };
        let mut advice =
            advise(&input, &device, reason, &flash, setup, asked, &mut |told| progress.tell(told))?;
        drop(progress);
        if let Some(drives) = self.array.filter(|_| !advice.runs.is_empty()) {
            let progress = Progress::new("trying redundancy");
            let scheduler = advice.recommended.as_ref().unwrap_or(&advice.baseline);
            let tried = redundancy(&input, &device, drives, scheduler, setup, &mut |told| {
                progress.tell(told)
            })?;
            advice.redundancy = Some(tried);
        }
        // The page comes first, since a reader of the answer may leave before its end.
        if let Some(page) = page {
            page.write(&report::html(&advice))?;
        }
        match self.format {
            Format::Json | Format::Csv => output::print_data(self.format, &advice)?,
            Format::Table => output::print(&text(&advice))?,
        }
        Ok(())
    }
}

fn text(advice: &Advice) -> String {
    let mut lines = vec![
        output::emphasised(&wrapped(&advice.headline)),
        String::new(),
        wrapped(&format!("{} on {} ({})", advice.trace, advice.device, advice.device_reason)),
        remedies(advice),
        String::new(),
    ];
    if !advice.ranking.is_empty() {
        lines.extend([ranking(advice), String::new()]);
    }
    if let Some(redundancy) = &advice.redundancy {
        lines.extend([
            wrapped(&redundancy.said),
            arrays(redundancy, advice.total_is),
            String::new(),
        ]);
    }
    lines.extend(advice.findings.iter().map(|finding| paragraph(finding)));
    lines.extend([String::new(), wrapped(&advice.trust.said)]);
    lines.push(output::cautions(&advice.cautions));
    lines.join("\n")
}

/// A finding; lines that can be copied are not wrapped.
fn paragraph(finding: &str) -> String {
    let line = |(index, line): (usize, &str)| match (index, line.starts_with("    ")) {
        (_, true) => line.to_string(),
        (0, false) => wrapped(&format!("- {line}")),
        (_, false) => format!("  {line}"),
    };
    finding.lines().enumerate().map(line).collect::<Vec<_>>().join("\n")
}

/// Every kind of remedy: what is free, then what costs something. Each is held against the baseline on
/// the requests that its own figures are of.
fn remedies(advice: &Advice) -> String {
    let reason = |(kinds, reason): &(String, &str)| wrapped(&format!("- {kinds}: {reason}"));
    let reasons: Vec<String> = advice.reasons().iter().map(reason).collect();
    let tried: Vec<&Remedy> =
        advice.remedies.iter().filter(|remedy| remedy.total_s.is_some()).collect();
    if tried.is_empty() {
        return reasons.join("\n");
    }
    let pairs = [total_pair, read_pair, write_pair];
    let [total, read, write] = pairs.map(|pair| {
        Unit::of(tried.iter().flat_map(|remedy| <[Option<f64>; 2]>::from(pair(remedy))).flatten())
    });
    let mut table = output::table([
        "",
        "remedy",
        "with",
        &format!("{} {}", advice.total_is, total.name()),
        "saved %",
        &format!("read p99 {}", read.name()),
        &format!("write p99 {}", write.name()),
    ]);
    for remedy in &tried {
        let with = match remedy.kind {
            RemedyKind::Scheduling => remedy.policy.clone(),
            _ => remedy.needs().unwrap_or("-".to_string()).replace(" of flash", " flash"),
        };
        table.add_row([
            Cell::new(match advice.standing(remedy) {
                Standing::Recommended => ">",
                Standing::ForToday => "*",
                Standing::PassedOver => "",
            }),
            Cell::new(remedy.kind.name()),
            Cell::new(with),
            total.pair(total_pair(remedy)),
            saved(remedy),
            read.pair(read_pair(remedy)),
            write.pair(write_pair(remedy)),
        ]);
    }
    let mut said = format!("Each remedy against {} on the same requests", advice.baseline);
    let is_part = |remedy: &&&Remedy| remedy.kind == RemedyKind::Defragmentation;
    if let Some(remedy) = tried.iter().find(is_part) {
        let requests = remedy.requests;
        said += &format!(", of defragmentation the last {requests}, which it was not learnt from");
    }
    let stands = |standing| tried.iter().any(|remedy| advice.standing(remedy) == standing);
    if stands(Standing::Recommended) {
        said += "; > is recommended";
    }
    if stands(Standing::ForToday) {
        said += "; * is what Linux has today";
    }
    if advice.recommended.as_ref().is_some_and(|chosen| *chosen != advice.baseline) {
        said += "; in brackets what it saves beyond the recommended scheduler";
    }
    format!("{}:\n\n{table}\n\n{}", wrapped(&said), reasons.join("\n"))
}

/// What a remedy saves of the total, and in brackets beyond what is free.
fn saved(remedy: &Remedy) -> Cell {
    let percent = |share: f64| format!("{:.1}", share * 100.0);
    let beyond = remedy.gain_over_free_share.map(|share| format!(" ({})", percent(share)));
    right(remedy.gain_share.map_or("-".to_string(), percent) + &beyond.unwrap_or_default())
}

/// A remedy's total before and after, in ms.
fn total_pair(remedy: &Remedy) -> (Option<f64>, Option<f64>) {
    (remedy.before.as_ref().map(|before| before.total_s * 1e3), remedy.total_s.map(|s| s * 1e3))
}

/// The p99 of reads before and after, in ms.
fn read_pair(remedy: &Remedy) -> (Option<f64>, Option<f64>) {
    (remedy.before.as_ref().and_then(|before| before.read_p99_ms), remedy.read_p99_ms)
}

/// The p99 of writes before and after, in ms.
fn write_pair(remedy: &Remedy) -> (Option<f64>, Option<f64>) {
    (remedy.before.as_ref().and_then(|before| before.write_p99_ms), remedy.write_p99_ms)
}

/// The unit of a column of times.
#[derive(Clone, Copy, PartialEq)]
enum Unit {
    Millis,
    Seconds,
}

impl Unit {
    /// Seconds where all times but 0 are of a second or more.
    fn of(times_ms: impl Iterator<Item = f64>) -> Unit {
        let mut least = times_ms.filter(|ms| *ms > 0.0).peekable();
        if least.peek().is_some() && least.all(|ms| ms >= 1000.0) {
            return Unit::Seconds;
        }
        Unit::Millis
    }

    fn name(self) -> &'static str {
        if self == Unit::Millis { "ms" } else { "s" }
    }

    /// A time in this unit.
    fn of_ms(self, ms: f64) -> f64 {
        if self == Unit::Millis { ms } else { ms / 1000.0 }
    }

    /// A time before and after.
    fn pair(self, (before, after): (Option<f64>, Option<f64>)) -> Cell {
        let told = |ms: f64| significant(self.of_ms(ms));
        right(match (before, after) {
            (Some(before), Some(after)) => format!("{} -> {}", told(before), told(after)),
            _ => "-".to_string(),
        })
    }

    /// A tail with its interval.
    fn tail(self, ms: Option<f64>, interval: Option<(f64, f64)>) -> Cell {
        let Some(ms) = ms else { return right("-".to_string()) };
        // Resamples are counted in steps of some 2 %: more than two digits would say nothing.
        let figure = |ms: f64| match self.of_ms(ms) {
            value if value >= 9.95 => format!("{value:.0}"),
            value if value >= 0.995 || value <= 0.0 => format!("{value:.1}"),
            value => {
                let digits = 1 - value.log10().floor() as i32;
                format!("{value:.*}", usize::try_from(digits).unwrap_or(0))
            }
        };
        let within = interval.map(|(low, high)| format!(" ({}-{})", figure(low), figure(high)));
        right(format!("{}{}", significant(self.of_ms(ms)), within.unwrap_or_default()))
    }
}

fn number(value: Option<f64>, digits: usize) -> Cell {
    right(value.map_or("-".to_string(), |value| format!("{value:.digits$}")))
}

/// Every way to keep data on an array.
fn arrays(redundancy: &Redundancy, total: &str) -> String {
    let mut table = output::table([
        "",
        "redundancy",
        "may fail",
        "holds",
        total,
        "read mean",
        "read p99",
        "write mean",
        "write p99",
    ]);
    for one in &redundancy.tried {
        table.add_row([
            Cell::new(if one.name == redundancy.recommended { ">" } else { "" }),
            Cell::new(one.name),
            right(one.failures_survived.to_string()),
            right(bytes(one.usable_bytes as f64)),
            right(seconds(one.total_s)),
            right(or_none(one.read_mean_ms, millis)),
            right(or_none(one.read_p99_ms, millis)),
            right(or_none(one.write_mean_ms, millis)),
            right(or_none(one.write_p99_ms, millis)),
        ]);
    }
    table.to_string()
}

fn ranking(advice: &Advice) -> String {
    let compared = advice.ranking.iter().any(|ranked| ranked.gain_share.is_some());
    let longest_s = advice.ranking.iter().map(|ranked| ranked.total_s).fold(0.0, f64::max);
    let digits = if longest_s < 10.0 { 3 } else { 1 };
    let total = format!("{} s", advice.total_is.split(' ').next().unwrap_or_default());
    let mut header = vec!["", "policy", "from", total.as_str()];
    header.extend(compared.then_some("saved %"));
    let read = Unit::of(advice.ranking.iter().filter_map(|ranked| ranked.read_p99_ms));
    let write = Unit::of(advice.ranking.iter().filter_map(|ranked| ranked.write_p99_ms));
    let tails = [format!("read p99 {}", read.name()), format!("write p99 {}", write.name())];
    header.extend(tails.iter().map(String::as_str));
    header.push("longest");
    let mut table = output::table(header);
    for ranked in &advice.ranking {
        let mark = match advice.is_for_today(&ranked.policy) {
            true => "*",
            false if advice.recommended.as_ref() == Some(&ranked.policy) => ">",
            false => "",
        };
        let mut row = vec![
            Cell::new(mark),
            Cell::new(&ranked.policy),
            Cell::new(ranked.from.name()),
            number(Some(ranked.total_s), digits),
        ];
        row.extend(ranked.gain_share.map(|share| {
            let paired = ranked.gain_low_share.zip(ranked.gain_high_share);
            share_saved(share, paired.filter(|_| ranked.policy != advice.baseline))
        }));
        row.push(
            read.tail(ranked.read_p99_ms, ranked.read_p99_low_ms.zip(ranked.read_p99_high_ms)),
        );
        row.push(
            write.tail(ranked.write_p99_ms, ranked.write_p99_low_ms.zip(ranked.write_p99_high_ms)),
        );
        row.push(right(or_none(ranked.longest_ms, millis)));
        table.add_row(row);
    }
    if !compared {
        return table.to_string();
    }
    let marked = |mark: &str, is: bool| if is { mark.to_string() } else { String::new() };
    let any = |test: &dyn Fn(&str) -> bool| advice.ranking.iter().any(|one| test(&one.policy));
    let said = format!(
        "Each scheduler against {}{}{}; in brackets the range of 95 % of resamples of the run (for what is saved, of \
         both runs together, which decides)",
        advice.baseline,
        marked("; > is the best", any(&|policy| advice.recommended.as_deref() == Some(policy))),
        marked("; * is the best that Linux has", any(&|policy| advice.is_for_today(policy))),
    );
    format!("{}:\n\n{table}", wrapped(&said))
}

/// A share saved in percent, with its interval.
fn share_saved(share: f64, interval: Option<(f64, f64)>) -> Cell {
    let (low, high) = interval.unwrap_or((share, share));
    let digits = usize::from([share, low, high].iter().all(|share| share.abs() < 0.0995));
    let percent = |share: f64| match format!("{:.digits$}", share * 100.0) {
        zero if zero.trim_matches(['-', '0', '.']).is_empty() => "0".to_string(),
        told => told,
    };
    let within = interval.map(|(low, high)| format!(" ({} to {})", percent(low), percent(high)));
    right(format!("{}{}", percent(share), within.unwrap_or_default()))
}
