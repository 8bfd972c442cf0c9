//! The verb `capture`: records the requests that reach a block device as a trace.
//!
//! The live crate records the kernel's events. This module parses them as a blktrace trace and
//! writes it in any format.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use forebay::convert::convert;
use forebay::progress::untold;
use forebay::verb::{
    Answered, LiveTell, SecondInterruption, Session, Verb, in_place_of, shortened, warn_all,
    warn_notes,
};
use forebay_core::Nanos;
use forebay_live::capture::{
    self, CaptureInterface, CaptureProgress, Captured, Device, TracingPaths,
};
use forebay_show::{Page, Place, Tone, Verdict};
use forebay_trace::Reader;
use forebay_trace::formats::blktrace::Blktrace;
use forebay_trace::write::{self, ProtectedFiles};
use forebay_words::plural::{counted, verb};
use forebay_words::quantities::{rate, seconds, significant};
use serde::Serialize;

use crate::error::Error;

forebay_ask::ask! {
    /// Capture the requests that reach a block device as a trace
    ///
    /// Capturing requires root. The trace records who accessed which blocks and when, but never the
    /// data. Ctrl-C ends the capture early and keeps the requests captured so far.
    pub struct CaptureAsk("capture") {
        /// The block device, e.g. /dev/sda
        device: PathBuf [.positional().word("DEVICE").checked(forebay_ask::exists)],
        /// The trace to write. Its extension selects the format unless a format is given
        output: PathBuf [.short('o')],
        /// How long to capture: 60s, 5m, 1h
        r#for: Nanos,
        /// The format to write: parquet, csv, fio, disksim or blktrace
        to: Option<String> [.word("FORMAT")],
        /// The kernel interface to use
        via: CaptureInterface = "any",
    }
}

/// The answer of `capture`.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct CaptureAnswer {
    output: String,
    /// The number of requests in the trace.
    requests: u64,
    /// The duration of the capture.
    elapsed_s: f64,
    /// The kernel interface that was used.
    via: &'static str,
    /// The number of events that the kernel dropped.
    events_lost: u64,
    /// Information that the format cannot represent, one sentence each.
    lost: Vec<String>,
}

impl Verb for CaptureAsk {
    type Beyond = ();

    fn run(self, session: &mut dyn Session) -> Result<Answered, forebay::Error> {
        let plan = self.plan()?;
        let kept = ProtectedFiles::file(&self.device);
        let replaces = in_place_of(&self.output);
        let writer = write::create(&self.output, self.to.as_deref(), &kept)
            .map_err(forebay::Error::output)?;
        session.begin("capturing", None);
        let captured = captured(&plan, session)?;
        // A capture that fails has no trace to warn about.
        if capture::is_on(&plan.folder, &plan.device) {
            let text = "is on the captured device: the trace contains its own writes";
            session.warn(&plan.folder, text);
        }
        if captured.counts.requests() == 0 {
            let (device, elapsed) = (self.device, captured.elapsed);
            return Err(Error::Nothing { device, elapsed }.into());
        }
        session.begin("writing", None);
        let (elapsed_s, via) = (captured.elapsed.as_secs_f64(), captured.by);
        let events_lost = captured.lost;
        let mut reader = reader(&self.device, captured)?;
        let converted = convert(&self.device, &mut reader, writer, &mut untold)?;
        warn_notes(session, &self.device, reader.notes());
        warn_all(session, &self.output, &converted.lost);
        let answer = CaptureAnswer {
            output: self.output.display().to_string(),
            requests: converted.records,
            elapsed_s,
            via,
            events_lost,
            lost: converted.lost,
        };
        Answered::new(&answer, page(&answer, &self.device, replaces))
    }
}

/// Captures a trace for a verb that continues with it.
///
/// # Errors
/// Fails like the verb.
pub fn capture_into(
    device: &Path,
    length: Nanos,
    output: &Path,
    session: &mut dyn Session,
) -> Result<(), forebay::Error> {
    let (device, output) = (device.to_path_buf(), output.to_path_buf());
    let ask = CaptureAsk { device, output, r#for: length, to: None, via: CaptureInterface::Any };
    ask.run(session).map(drop)
}

impl CaptureAsk {
    /// Plans the capture; the spool of events is in the folder of the trace. Fails if the device
    /// does not exist.
    fn plan(&self) -> Result<capture::Plan, Error> {
        let folder = match self.output.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_path_buf(),
            _ => PathBuf::from("."),
        };
        Ok(capture::Plan {
            device: Device::find(&self.device)?,
            length: Duration::from_nanos(self.r#for.0),
            via: self.via,
            folder,
            places: TracingPaths::detect(),
        })
    }
}

/// Captures until the time is over or the user interrupts, and reports the rates.
fn captured(plan: &capture::Plan, session: &mut dyn Session) -> Result<Captured, forebay::Error> {
    let run = |stop: &AtomicBool, tell: LiveTell<'_>| {
        let mut before: Option<CaptureProgress> = None;
        capture::capture(plan, stop, |news| {
            let share = news.elapsed.as_secs_f64() / plan.length.as_secs_f64();
            tell(rates(before.as_ref(), news), Some(share.min(1.0)));
            before = Some(*news);
        })
    };
    Ok(shortened(session, SecondInterruption::Waits, run)?.map_err(Error::from)?)
}

/// Formats the rates between two progress reports.
fn rates(before: Option<&CaptureProgress>, now: &CaptureProgress) -> String {
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

/// Creates a reader of the kernel's events.
fn reader(device: &Path, captured: Captured) -> Result<Blktrace, forebay::Error> {
    let mut reader =
        Blktrace::from_readers(vec![(device.to_path_buf(), Box::new(captured.spool))])?;
    captured.notes.into_iter().for_each(|note| reader.warn(note));
    if captured.lost > 0 {
        reader.warn(format!(
            "{} {} lost while capturing",
            counted(captured.lost, "event"),
            verb(captured.lost, "was", "were")
        ));
    }
    Ok(reader)
}

fn page(answer: &CaptureAnswer, device: &Path, replaces: &str) -> Page {
    let headline = format!(
        "{}: {} written{replaces}, captured in {} through {}, {} lost.",
        answer.output,
        counted(answer.requests, "request"),
        seconds(answer.elapsed_s),
        answer.via,
        counted(answer.events_lost, "event")
    );
    let mut page = Page {
        title: answer.output.clone(),
        verdict: Verdict::new(Tone::Good, "Captured"),
        headline,
        about: vec![("Device".into(), device.display().to_string())],
        ..Page::default()
    };
    page.add_notes("Lost", Place::Detail, answer.lost.clone());
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_show::terminal::{Extent, text};

    #[test]
    fn a_page_lists_captured_and_lost_events() {
        let answer = CaptureAnswer {
            output: "mine.fio".into(),
            requests: 1,
            elapsed_s: 60.0,
            via: "the blk tracer in tracefs",
            events_lost: 2,
            lost: vec!["a fio iolog has no latencies".into()],
        };
        let page = page(&answer, Path::new("/dev/sda"), "");
        assert_eq!(
            page.headline,
            "mine.fio: 1 request written, captured in 60.0 s through the blk tracer in tracefs, 2 events lost."
        );
        assert!(page.headline.split_whitespace().count() <= 25);
        assert!(text(&page, 80, Extent::Everything).contains("! a fio iolog has no latencies"));
    }
}
