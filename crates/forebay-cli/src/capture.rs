//! `forebay capture`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use forebay::convert::convert;
use forebay_live::capture::{self, CaptureError, Captured, Device, News, Places, Plan, Via};
use forebay_trace::Reader;
use forebay_trace::formats::blktrace::Blktrace;
use forebay_trace::plural::counted;
use forebay_trace::write::{self, Kept};

use crate::interrupt::{self, Second};
use crate::options::{duration, say_notes};
use crate::output::say;
use crate::progress::Progress;

/// Capture what reaches a block device, as a trace; Ctrl-C ends it early and keeps what there is
#[derive(Args)]
pub(crate) struct Capture {
    /// The block device, e.g. /dev/sda
    device: PathBuf,
    /// The trace to write; its ending says the format unless --to does
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// How long: 60s, 5m, 1h
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    length: Duration,
    /// Format to write: parquet, csv, fio, disksim or blktrace
    #[arg(long, value_name = "FORMAT")]
    to: Option<String>,
    /// The kernel's interface to use
    #[arg(long, value_enum, default_value = "any")]
    via: Interface,
}

#[derive(Clone, Copy, ValueEnum)]
enum Interface {
    /// blktrace(8) where the kernel lets it, else tracefs
    Any,
    Blktrace,
    Tracefs,
}

impl Capture {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let device = Device::find(&self.device)?;
        let writer = write::create(&self.output, self.to.as_deref(), &Kept::file(&self.device))
            .map_err(forebay::Error::output)?;
        let folder = match self.output.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        if capture::is_on(folder, &device) {
            let folder = folder.display();
            say!("{folder} is on the captured device: our own writes are captured too");
        }
        let via = match self.via {
            Interface::Any => Via::Any,
            Interface::Blktrace => Via::Blktrace,
            Interface::Tracefs => Via::Tracefs,
        };
        let (folder, places) = (folder.to_path_buf(), Places::found());
        let captured = watched(&Plan { device, length: self.length, via, folder, places })?;
        let seconds = captured.elapsed.as_secs_f64();
        say!("{:.1} s through {}, {} events lost", seconds, captured.by, captured.lost);
        if captured.counts.requests() == 0 {
            let device = self.device.display();
            anyhow::bail!("no request reached {device} in {seconds:.1} s; nothing is written");
        }
        let mut reader =
            Blktrace::from_readers(vec![(self.device.clone(), Box::new(captured.spool))])?;
        captured.notes.into_iter().for_each(|note| reader.warn(note));
        if captured.lost > 0 {
            reader.warn(format!("{} events were lost while capturing", captured.lost));
        }
        let converted = convert(&self.device, &mut reader, writer, |_| ())?;
        say_notes(&self.device, reader.notes());
        for what in converted.lost {
            say!("{}: {what}", self.output.display());
        }
        let requests = counted(converted.records, "request");
        say!("{}: {requests} written", self.output.display());
        Ok(())
    }
}

/// Captures, shows the rates, and lets an interruption end it early.
fn watched(plan: &Plan) -> Result<Captured, CaptureError> {
    let progress = Progress::new("capturing");
    let mut before: Option<News> = None;
    interrupt::shortens(Second::Waits, |stop| {
        capture::capture(plan, stop, |news| {
            progress.say(rates(before.as_ref(), news));
            before = Some(*news);
        })
    })
}

/// What happened between two pieces of news, a second.
fn rates(before: Option<&News>, now: &News) -> String {
    let (then, counts) = (before.map(|news| news.counts).unwrap_or_default(), now.counts);
    let since = before.map(|news| news.elapsed).unwrap_or_default();
    let seconds = (now.elapsed.saturating_sub(since)).as_secs_f64().max(1e-3);
    let rate = |now: u64, then: u64| (now - then) as f64 / seconds;
    format!(
        "capturing: {} requests; {:.0} reads/s {:.1} MB/s, {:.0} writes/s {:.1} MB/s; {} events lost",
        counts.requests(),
        rate(counts.reads, then.reads),
        rate(counts.read_bytes, then.read_bytes) / 1e6,
        rate(counts.writes, then.writes),
        rate(counts.write_bytes, then.write_bytes) / 1e6,
        now.lost
    )
}
