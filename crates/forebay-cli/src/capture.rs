//! `forebay capture`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use forebay::verb::in_place_of;
use forebay_live::capture::Captured;
use forebay_play::capture::{self, Asked, Begun, News, Via};
use forebay_show::plural::counted;
use forebay_show::quantities::{rate, seconds, significant};

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
    /// The kernel's interface to use: blktrace, tracefs, or any: blktrace(8) where the kernel lets it, else tracefs
    #[arg(long, value_name = "INTERFACE", default_value = "any")]
    via: Via,
}

impl Capture {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let begun = capture::begin(Asked {
            device: &self.device,
            output: &self.output,
            to: self.to.as_deref(),
            length: self.length,
            via: self.via,
        })?;
        begun.caution().into_iter().for_each(|caution| say!("{caution}"));
        let captured = watched(&begun, self.length)?;
        let elapsed_s = captured.elapsed.as_secs_f64();
        let lost = counted(captured.lost, "event");
        say!("{} through {}, {lost} lost", seconds(elapsed_s), captured.by);
        let replaces = in_place_of(&self.output);
        let written = begun.write(captured)?;
        say_notes(&self.device, &written.notes);
        for what in written.lost {
            say!("{}: {what}", self.output.display());
        }
        let requests = counted(written.records, "request");
        say!("{}: {requests} written{replaces}", self.output.display());
        Ok(())
    }
}

/// Captures, shows the rates, and lets an interruption end it early.
fn watched(begun: &Begun<'_>, length: Duration) -> Result<Captured, forebay_play::Error> {
    let progress = Progress::new("capturing");
    let mut before: Option<News> = None;
    interrupt::shortens(Second::Waits, |stop| {
        begun.capture(stop, |news| {
            let (elapsed, length) = (news.elapsed.as_secs_f64(), length.as_secs_f64());
            let _ = progress.within(rates(before.as_ref(), news), elapsed, Some(length));
            before = Some(*news);
        })
    })
}

/// What happened between two pieces of news, a second.
fn rates(before: Option<&News>, now: &News) -> String {
    let (then, counts) = (before.map(|news| news.counts).unwrap_or_default(), now.counts);
    let since = before.map(|news| news.elapsed).unwrap_or_default();
    let seconds = (now.elapsed.saturating_sub(since)).as_secs_f64().max(1e-3);
    let each_s = |now: u64, then: u64| (now - then) as f64 / seconds;
    format!(
        "capturing: {} requests; {} reads/s, {}; {} writes/s, {}; {} events lost",
        counts.requests(),
        significant(each_s(counts.reads, then.reads)),
        rate(each_s(counts.read_bytes, then.read_bytes)),
        significant(each_s(counts.writes, then.writes)),
        rate(each_s(counts.write_bytes, then.write_bytes)),
        now.lost
    )
}
