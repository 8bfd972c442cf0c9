//! The interface of verbs: their inputs, their answers as data, and the pages that people read.
//!
//! A face (the command line or Python) parses an [`Ask`] and calls [`answer`] with it. It also
//! passes a [`Session`], which shows progress and warnings in the face's own way. The report is
//! written before anything is returned, so that it is not lost if the face fails to print.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use forebay_ask::{Ask, Spelling, spelled};
use forebay_core::Nanos;
use forebay_show::{Page, html};
use forebay_trace::Notes;
use forebay_trace::unpack::Consumed;
use forebay_trace::write::ProtectedFiles;
use serde::Serialize;

use crate::simulate::ServedDisk;
use crate::{Error, OpenDevice, ProgressReport, report};

mod inputs;

pub use inputs::{
    ByVolume, DeviceInput, JobsAsk, LayerInput, OpenTrace, ReplayAsk, SourceAsk, StreamsAsk,
    TraceInput, TracePart, policy_exists,
};

/// A verb, such as `simulate`, with the inputs that a user gave it.
pub trait Verb: Ask {
    /// Values that the verb returns in addition to data and page, for faces that can return more
    /// than text. An example is runs with the points of their charts.
    type Beyond: Send;

    /// Returns the traces that the verb reads. The report must not overwrite them.
    fn traces(&self) -> Vec<&TraceInput> {
        Vec::new()
    }

    /// Returns the other files that the verb reads. The report must not overwrite them either.
    fn files(&self) -> Vec<&Path> {
        Vec::new()
    }

    /// Returns where to write the HTML report, if the user asked for one.
    fn report(&self) -> Option<&Path> {
        None
    }

    /// Does the work of the verb.
    ///
    /// # Errors
    /// Fails if an input is invalid, if a file cannot be read, or if the operating system reports
    /// an error.
    fn run(self, session: &mut dyn Session) -> Result<Answered<Self::Beyond>, Error>;
}

/// The connection between a running verb and the face that called it: progress, warnings, and work
/// on the machine.
pub trait Session {
    /// Reports that a new step begins. If the step reads `file`, the reader adds the number of
    /// bytes read to the returned counter.
    fn begin(&mut self, doing: &str, file: Option<&Path>) -> Consumed;

    /// Reports progress. If this returns `Break`, the verb soon fails with [`Error::Stopped`].
    fn progress(&mut self, told: &ProgressReport) -> ControlFlow<()>;

    /// Reports how many requests of `file` have been read.
    fn read(&mut self, file: &Path, requests: u64) -> ControlFlow<()>;

    /// Reports what the verb is doing, and which share of its work is done, if known.
    fn report(&mut self, doing: String, done_share: Option<f64>) -> ControlFlow<()> {
        match done_share {
            Some(done_share) => self.progress(&ProgressReport { doing, done_share }),
            None => ControlFlow::Continue(()),
        }
    }

    /// Shows a warning about `subject`, or a general one if `subject` is empty. A face shows the
    /// same warning only once.
    fn warn(&mut self, subject: &Path, sentence: &str);

    /// Records the requests that reach the block device `device` during `length`, into a new trace
    /// called `output`.
    ///
    /// # Errors
    /// Fails if the face cannot capture, or if capturing fails.
    fn capture(&mut self, device: &Path, _length: Nanos, _output: &Path) -> Result<(), Error> {
        Err(Error::Unfit(format!("{}: got a block device, expected a trace", device.display())))
    }

    /// Reads the disk called `disk`, or the only one, from `config`, a configuration of `forebay
    /// serve`.
    ///
    /// # Errors
    /// Fails if the front end cannot read configurations, or if there is no such disk.
    fn served_disk(&mut self, config: &Path, _disk: Option<&str>) -> Result<ServedDisk, Error> {
        let config = config.display();
        Err(Error::Unfit(format!("{config}: this program cannot read server configurations")))
    }

    /// Runs `work`, which an interruption only shortens. See [`shortened`].
    fn shorten(&mut self, _: SecondInterruption, work: LiveWork<'_>) {
        work(&AtomicBool::new(false), &mut |_, _| ());
    }
}

/// Work on the running machine. Once its first argument is set, it ends soon, with the results so
/// far. It calls its second argument with a description of what it is doing, and with the share
/// that is done, if known.
pub type LiveWork<'a> = Box<dyn FnOnce(&AtomicBool, LiveTell<'_>) + Send + 'a>;

/// A callback for live work. It receives a description of what the work is doing, and the share
/// that is done, if known.
pub type LiveTell<'a> = &'a mut dyn FnMut(String, Option<f64>);

/// The effect of a second interruption on work that the first one shortens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecondInterruption {
    /// A second interruption has no effect, because the work must restore what it changed.
    Waits,
    /// A second interruption ends the process, because the work may be waiting for a device that
    /// never answers.
    Ends,
}

/// Does `work` on the running machine so that an interruption only shortens it.
///
/// # Errors
/// [`Error::Stopped`] if the session did not run `work`.
pub fn shortened<T: Send>(
    session: &mut dyn Session,
    second: SecondInterruption,
    work: impl FnOnce(&AtomicBool, LiveTell<'_>) -> T + Send,
) -> Result<T, Error> {
    let mut outcome = None;
    session.shorten(second, Box::new(|stop, tell| outcome = Some(work(stop, tell))));
    outcome.ok_or(Error::Stopped)
}

/// The answer of a verb.
#[derive(Clone, Debug)]
pub struct Answered<B = ()> {
    /// The answer as data.
    pub data: serde_json::Value,
    /// The answer as a page for people to read.
    pub page: Page,
    /// Values that the verb returns in addition to data and page.
    pub beyond: B,
    /// Why the verb failed although it has an answer, for example because some I/Os failed. Faces
    /// show the answer first.
    pub failure: Option<String>,
    /// Whether the verb succeeded, but reports a state that monitoring must notice. The command
    /// then ends with exit status 3.
    pub is_degraded: bool,
}

impl Answered {
    /// Creates an answer from `data` and its `page`.
    ///
    /// # Errors
    /// Fails if JSON cannot represent the data, which would be a bug.
    pub fn new(data: &impl Serialize, page: Page) -> Result<Answered, Error> {
        let data = serde_json::to_value(data).map_err(|error| Error::Unfit(error.to_string()))?;
        Ok(Answered { data, page, beyond: (), failure: None, is_degraded: false })
    }

    /// Adds further values to the answer.
    pub fn with<B>(self, beyond: B) -> Answered<B> {
        let Answered { data, page, failure, is_degraded, .. } = self;
        Answered { data, page, beyond, failure, is_degraded }
    }
}

impl<B> Answered<B> {
    /// Sets the reason for which the verb failed, if it did.
    pub fn failing(self, failure: Option<String>) -> Answered<B> {
        Answered { failure, ..self }
    }

    /// Marks the answer as a state that monitoring must notice, if `is_degraded`.
    pub fn degraded(self, is_degraded: bool) -> Answered<B> {
        Answered { is_degraded, ..self }
    }

    /// Spells the options mentioned in sentences in the way of the front end.
    pub fn spelled(mut self, spelling: Spelling) -> Answered<B> {
        let mut spell = |text: &mut String| {
            if text.contains('\u{1}') {
                *text = spelled(text, spelling);
            }
        };
        self.page.for_each_text(&mut spell);
        for_each_text(&mut self.data, &mut spell);
        self.failure.iter_mut().for_each(spell);
        self
    }
}

fn for_each_text(value: &mut serde_json::Value, change: &mut dyn FnMut(&mut String)) {
    match value {
        serde_json::Value::String(text) => change(text),
        serde_json::Value::Array(all) => all.iter_mut().for_each(|one| for_each_text(one, change)),
        serde_json::Value::Object(fields) => {
            fields.values_mut().for_each(|one| for_each_text(one, change));
        }
        _ => {}
    }
}

/// Runs `ask` and writes its report. Options are spelled as the face does.
///
/// # Errors
/// Fails like [`Verb::run`], or if the report cannot be written.
pub fn answer<V: Verb>(
    ask: V,
    session: &mut dyn Session,
    spelling: Spelling,
) -> Result<Answered<V::Beyond>, Error> {
    let kept = kept(&ask);
    let draft = ask.report().map(|path| report::begin(path, &kept)).transpose()?;
    let answered = ask.run(session)?.spelled(spelling);
    if let Some(draft) = draft {
        report::write(draft, &html::document(&answered.page))?;
    }
    Ok(answered)
}

/// Returns the files that `ask` reads, which must not be overwritten.
pub(crate) fn kept<V: Verb>(ask: &V) -> ProtectedFiles {
    let traces = ask.traces().into_iter().flat_map(|trace| trace.kept().paths().to_vec());
    ask.files().into_iter().fold(traces.collect(), ProtectedFiles::and_file)
}

/// Returns a remark, for messages, that writing to `path` replaces a file; empty if no file exists
/// there.
pub fn in_place_of(path: &Path) -> &'static str {
    if path.is_file() { ", replacing the existing file" } else { "" }
}

/// Shows warnings about what a reader skipped or noticed in a trace.
pub fn warn_notes(session: &mut dyn Session, trace: &Path, notes: &Notes) {
    warn_all(session, trace, &notes.sentences());
}

/// Shows each of `sentences` as a warning about a trace.
pub fn warn_all(session: &mut dyn Session, trace: &Path, sentences: &[String]) {
    sentences.iter().for_each(|sentence| session.warn(trace, sentence));
}

/// Shows `cautions` as warnings about `device`, unless they name another subject before a colon.
pub fn warn_device(session: &mut dyn Session, device: &OpenDevice, cautions: &[String]) {
    let subject = Path::new(&device.name);
    cautions.iter().for_each(|caution| warn_named(session, subject, caution));
}

/// Warns if the model of `device` misses its own measurements by far.
pub fn warn_missed(session: &mut dyn Session, device: &OpenDevice) {
    let missed = device.evidence.missed();
    missed.iter().for_each(|missed| session.warn(Path::new(&device.name), missed));
}

/// Shows a warning about the subject that the sentence names before a colon, or else about
/// `subject`.
pub fn warn_named(session: &mut dyn Session, subject: &Path, sentence: &str) {
    match sentence.split_once(": ") {
        Some((own, said)) => session.warn(Path::new(own), said),
        None => session.warn(subject, sentence),
    }
}
