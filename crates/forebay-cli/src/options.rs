//! Options that several verbs share.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use clap::Args;
use forebay::input::Input;
use forebay::layout::Map;
use forebay::model::open::open_any;
use forebay::simulate::{DEPENDENT_KNOWN_SHARE, IMPUTED_SHARE_MAX, Replay, Setup, imputed_share};
pub(crate) use forebay_ask::positive_duration as span;
use forebay_core::replay::Intensity;
use forebay_show::quantities::percent;
use forebay_trace::ahead::Ahead;
use forebay_trace::streams::StreamBy;
use forebay_trace::unpack::Consumed;
use forebay_trace::{Columns, Notes, Reader, TraceError, open};

use crate::output::{self, say};
use crate::progress::Progress;

/// What a trace is.
#[derive(Args, Clone)]
pub(crate) struct Source {
    /// The trace's format, where Forebay does not recognise it (docs/traces.md lists them)
    #[arg(long, value_name = "FORMAT")]
    from: Option<String>,
    /// Columns of a text with one request a line, e.g. at:us,op,offset:sectors,len:sectors,volume
    ///
    /// at, end and latency (ns, us, ms, s, ticks of 100 ns, filetime; at:date and end:date); op (words, or op:R/W,
    /// op:0/1, op:scsi, op:disksim); offset and len (bytes, sectors, kib, mib, pages, blocks:BYTES); volume,
    /// thread, process, name, flags; _ for what is not read. Settings: sep=comma|tab|semicolon|blank,
    /// skip=LINES, every=TIME, op=read, len=BYTES
    #[arg(long, value_name = "SPEC", conflicts_with = "from")]
    columns: Option<Columns>,
    /// Where the clock goes back, another recording begins: put each behind the one before, 1 s later
    #[arg(long)]
    split_runs: bool,
    /// If the trace is a model: the seed of the twin to draw from it
    #[arg(long, value_name = "N", default_value = "0")]
    model_seed: u64,
}

impl Source {
    /// Opens a trace, or a model in its place, to be read on a thread of its own.
    pub(crate) fn open(
        &self,
        path: &Path,
        consumed: Consumed,
    ) -> Result<Box<dyn Reader>, TraceError> {
        let reader = open_any(path, self.from().as_deref(), self.model_seed, consumed)?;
        Ok(Box::new(Ahead::new(reader)))
    }

    /// As [`open::open`] takes it.
    pub(crate) fn from(&self) -> Option<String> {
        let columns = || Some(format!("{}{}", open::COLUMNS, self.columns.as_ref()?));
        let from = self.from.clone().or_else(columns);
        match self.split_runs {
            true => Some(format!("{}{}", open::SPLIT_RUNS, from.unwrap_or_default())),
            false => from,
        }
    }
}

/// How a trace is read.
#[derive(Args)]
pub(crate) struct Reading {
    #[command(flatten)]
    source: Source,
    /// What counts as one stream: thread, process or name. All the kernel's write-back workers are one
    #[arg(long, value_name = "WHAT", default_value = "thread")]
    pub(crate) stream_by: StreamBy,
}

impl Reading {
    /// Reads the whole trace, with progress; what was skipped is said on standard error.
    pub(crate) fn read(&self, path: &Path) -> anyhow::Result<Input> {
        let progress = Progress::reading("reading", path);
        let (file, source) = (path.to_path_buf(), self.source.clone());
        let consumed = progress.consumed();
        let opening = move || source.open(&file, Consumed::clone(&consumed));
        let input = Input::read_from(path, Box::new(opening), self.stream_by, &mut |records| {
            progress.say(format!("reading {}: {records} requests", path.display()))
        })?;
        drop(progress);
        say_notes(path, &input.notes);
        Ok(input)
    }
}

/// Says on standard error what a reader skipped, raised or wants known; once, however often the trace is read.
pub(crate) fn say_notes(path: &Path, notes: &Notes) {
    say_once(path, &notes.sentences());
}

/// Says `sentences` of the trace at `path`, but for those that were said.
pub(crate) fn say_once(path: &Path, sentences: &[String]) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    for sentence in sentences {
        let told = match path.as_os_str().is_empty() {
            true => sentence.clone(),
            false => format!("{}: {sentence}", path.display()),
        };
        if SAID.lock().is_ok_and(|mut said| said.insert(told.clone())) {
            output::tell(&told);
        }
    }
}

/// How a trace is replayed.
#[derive(Args)]
pub(crate) struct Replaying {
    /// When requests arrive. open: at their recorded times. closed: each its recorded pause after the answer before
    /// it. dependent: its recorded pause after the answer that its task can have waited for; write-back waits for none
    /// [default: open]
    #[arg(long, value_name = "MODE")]
    replay: Option<Replay>,
    /// Let requests arrive this many times as fast as recorded
    #[arg(long, value_name = "TIMES", default_value = "1", value_parser = intensity,
          allow_negative_numbers = true)]
    intensity: Intensity,
    /// What to do with addresses beyond the device: scale all of them, long gaps left out first, wrap or clip
    #[arg(long, value_name = "HOW", default_value = "scale")]
    map: Map,
}

fn intensity(text: &str) -> Result<Intensity, String> {
    let times: Option<f64> = text.parse().ok();
    times.and_then(Intensity::new).ok_or_else(|| {
        format!("got '{text}', expected a number from 1e-6 to 1e12, e.g. 10 for ten times as fast")
    })
}

impl Replaying {
    /// The setup, saying on standard error when closed replay stands on thin ground.
    pub(crate) fn setup(&self, input: &Input) -> anyhow::Result<Setup> {
        let replay = self.replay.unwrap_or(Replay::Open);
        if replay == Replay::Dependent && input.known_latency_share() < DEPENDENT_KNOWN_SHARE {
            say!(
                "{}: only {} of the requests have a recorded latency; dependent replay cannot tell what waited for the others",
                input.path.display(),
                percent(input.known_latency_share())
            );
        }
        if replay == Replay::Closed {
            let share = imputed_share(input)?;
            if share > 0.0 {
                let thin =
                    if share > IMPUTED_SHARE_MAX { "; open replay says more here" } else { "" };
                say!(
                    "{}: {} of the latencies are missing and imputed{thin}",
                    input.path.display(),
                    percent(share)
                );
            }
        }
        Ok(Setup { replay, intensity: self.intensity, map: self.map })
    }
}

/// A path as an argument names it.
pub(crate) type TracePath = PathBuf;
