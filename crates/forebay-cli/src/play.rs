//! `forebay play`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use forebay_core::Nanos;
use forebay_core::device::failing::Failure;
use forebay_play::{AS_RECORDED, Driver, News, Place, Plan, PlayResult};
use forebay_show::grid::{Cell, right};
use forebay_show::plural::counted;
use forebay_show::quantities::{millis, or_none, seconds, significant};
use serde::Serialize;

use crate::interrupt::{self, Second};
use crate::options::{Reading, Replaying, TracePath, duration, failure};
use crate::output::{self, Format, say, wrapped};
use crate::progress::Progress;
use crate::stdin;

/// Play a trace on real files and devices, or on an emulated one, in wall time
///
/// Writes carry pseudo-random data. Targets keep their data: a trace with writes needs a file that does not exist
/// yet, or --overwrite. Ctrl-C ends the run early and prints the result so far; a second one does not wait for
/// I/Os under way.
#[derive(Args)]
pub(crate) struct Play {
    /// The trace; - is standard input
    #[arg(value_parser = stdin::trace_path())]
    trace: TracePath,
    /// The file or block device to play it on; a file that does not exist is created
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present_any = ["map_volume", "emulate", "volume"]
    )]
    target: Option<PathBuf>,
    /// Play this volume of the trace on that file or block device
    #[arg(long, value_name = "NAME=FILE", value_parser = mapped)]
    map_volume: Vec<(String, PathBuf)>,
    /// Play it on the volume of these drives, or of the drives in this folder (see `forebay volume`). --policy
    /// is then the scheduler of each drive, or `array` with its rule for changing levels
    #[arg(long, value_name = "DIR|DEVICE,...", value_delimiter = ',', conflicts_with_all = ["target", "map_volume", "emulate", "flash", "buffered"])]
    volume: Vec<PathBuf>,
    /// Emulate this device instead (see `forebay devices`): I/Os end when its model says so
    #[arg(long, value_name = "DEVICE", conflicts_with_all = ["target", "map_volume", "driver", "buffered", "depth"])]
    emulate: Option<String>,
    /// A file or block device (with --emulate: a device) as the flash of placements
    #[arg(long, value_name = "FILE")]
    flash: Option<String>,
    /// With --emulate: let I/Os fail (see `forebay simulate --help`)
    #[arg(long, value_name = "FAILURE", value_parser = failure, conflicts_with_all = ["target", "map_volume"])]
    fail: Vec<Failure>,
    /// The policy in between (see `forebay policies`) [default: requests as recorded, no merging; with
    /// --volume noop, so that a chunk and its checksums are one write]
    #[arg(long, value_name = "POLICY")]
    policy: Option<String>,
    /// Stop after this time: 60s, 5m, 1h
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    length: Option<Duration>,
    /// Let writes destroy what is on the target
    #[arg(long)]
    overwrite: bool,
    /// io_uring or threads [default: io_uring where the kernel has it]
    #[arg(long, value_name = "DRIVER")]
    driver: Option<Driver>,
    /// Go through the page cache
    #[arg(long)]
    buffered: bool,
    /// Run before everything else on a processor, to be on time on a busy machine; needs root
    #[arg(long)]
    realtime: bool,
    /// I/Os that a target gets at a time
    #[arg(long, value_name = "COUNT", default_value = "256", value_parser = clap::value_parser!(u32).range(1..=4096))]
    depth: u32,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    replaying: Replaying,
    /// How to print the results
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

#[derive(Serialize)]
struct Results {
    trace: String,
    #[serde(flatten)]
    result: PlayResult,
}

impl Play {
    fn place(&self) -> Place {
        Place {
            target: self.target.clone(),
            map_volume: self.map_volume.clone(),
            volume: self.volume.clone(),
            emulate: self.emulate.clone(),
            flash: self.flash.clone(),
            fail: self.fail.clone(),
            driver: self.driver,
            overwrite: self.overwrite,
            buffered: self.buffered,
            depth: self.emulate.is_none().then_some(self.depth),
        }
    }

    pub(crate) fn run(self) -> anyhow::Result<()> {
        let trace = &*self.trace;
        let found = self.place().find()?;
        let (on, policy) = (found.on(), found.policy(self.policy.as_deref()));
        forebay_play::check(on, policy)?;
        let input = self.reading.read(trace)?;
        let setup = self.replaying.setup(&input)?;
        let length = self.length.map(|length| Nanos(length.as_nanos() as u64));
        let plan = Plan { policy, setup, length, realtime: self.realtime };
        let progress = Progress::new("playing");
        let mut before = News::default();
        let result = interrupt::shortens(Second::Ends, |stop| {
            forebay_play::play(&input, on, plan, stop, |news| {
                let length = self.length.map(|length| length.as_secs_f64());
                let _ = progress.within(line(&before, news), news.elapsed.as_secs_f64(), length);
                before = *news;
            })
        })?;
        drop(progress);
        let told = result.changed.told().into_iter().chain(result.notes.iter().cloned());
        told.for_each(|told| say!("{told}"));
        let lost = result.flush_error.clone();
        // What was let fail with --fail was asked for.
        let failed = (self.fail.is_empty() && result.figures.ios_failed > 0).then(|| {
            format!("{} failed; the verdict says how", counted(result.figures.ios_failed, "I/O"))
        });
        match self.format {
            Format::Json | Format::Csv => {
                let trace = trace.display().to_string();
                output::print_data(self.format, &Results { trace, result })?;
            }
            Format::Table => output::print(&table(&result))?,
        }
        lost.or(failed).map_or(Ok(()), |error| Err(anyhow::anyhow!(error)))
    }
}

/// NAME=FILE; the name may be empty, the file may have more of them in its name.
fn mapped(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, path)) if !path.is_empty() => Ok((name.to_string(), PathBuf::from(path))),
        _ => Err(format!("got '{text}', expected NAME=FILE, e.g. vol0=/dev/sdb")),
    }
}

/// What happened between two pieces of news.
fn line(before: &News, now: &News) -> String {
    let seconds = (now.elapsed - before.elapsed).as_secs_f64().max(1e-3);
    format!(
        "playing: {} requests, {:.0}/s, {} under way, {} late, {} I/Os failed",
        now.finished,
        (now.finished - before.finished) as f64 / seconds,
        now.issued - now.finished,
        millis(now.late.as_millis_f64()),
        now.failed
    )
}

/// A figure's name and how a result shows it.
type Row = (&'static str, fn(&PlayResult) -> String);

fn table(result: &PlayResult) -> String {
    let rows: &[Row] = &[
        ("policy", |result| match result.policy.as_str() {
            AS_RECORDED => "requests as recorded".to_string(),
            policy => output::in_lines(policy),
        }),
        ("requests", |result| result.figures.requests.to_string()),
        ("reads", |result| result.figures.reads.to_string()),
        ("writes", |result| result.figures.writes.to_string()),
        ("I/Os", |result| result.figures.ios.to_string()),
        ("requests of parts of blocks", |result| result.requests_partial.to_string()),
        ("requests failed", |result| result.figures.failed.to_string()),
        ("I/Os failed", |result| result.figures.ios_failed.to_string()),
        ("makespan", |result| seconds(result.figures.makespan_s)),
        ("busy time", |result| seconds(result.figures.busy_s)),
        ("wanted requests/s", |result| or_none(result.wanted_iops, significant)),
        ("achieved requests/s", |result| significant(result.achieved_iops)),
        ("lateness p50", |result| or_none(result.lateness_p50_ms, millis)),
        ("lateness p99", |result| or_none(result.lateness_p99_ms, millis)),
        ("lateness max", |result| millis(result.lateness_max_ms)),
        ("read mean", |result| or_none(result.figures.read_mean_ms, millis)),
        ("read p50", |result| or_none(result.figures.read_p50_ms, millis)),
        ("read p99", |result| or_none(result.figures.read_p99_ms, millis)),
        ("read p99.9", |result| or_none(result.figures.read_p999_ms, millis)),
        ("write mean", |result| or_none(result.figures.write_mean_ms, millis)),
        ("write p50", |result| or_none(result.figures.write_p50_ms, millis)),
        ("write p99", |result| or_none(result.figures.write_p99_ms, millis)),
        ("write p99.9", |result| or_none(result.figures.write_p999_ms, millis)),
        ("CPU user", |result| seconds(result.cpu_user_s)),
        ("CPU system", |result| seconds(result.cpu_system_s)),
    ];
    let targets: Vec<&str> = result.targets.iter().map(|one| one.target.as_str()).collect();
    let mut table = output::table([result.result.to_string(), targets.join(", ")]);
    for (name, show) in rows {
        let cell = right(show(result));
        table.add_row([Cell::new(name), cell]);
    }
    let verdict: Vec<String> = result.verdict.iter().map(|said| wrapped(said)).collect();
    format!("{}\n\n{table}", verdict.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_are_mapped_by_name() {
        let path = |text: &str| PathBuf::from(text);
        assert_eq!(mapped("usr/0=/tmp/a=b"), Ok(("usr/0".into(), path("/tmp/a=b"))));
        assert_eq!(mapped("=x"), Ok((String::new(), path("x"))));
        assert!(mapped("usr").is_err() && mapped("usr=").is_err());
    }
}
