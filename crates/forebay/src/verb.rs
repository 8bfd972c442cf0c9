//! The interface of verbs: their inputs, their answers as data, and the pages that people read.
//!
//! A face (the command line or Python) parses an [`Ask`] and calls [`answer`] with it. It also passes a [`Session`],
//! which shows progress and warnings in the face's own way. The report is written before anything is returned, so that
//! it is not lost if the face fails to print.

use std::ops::ControlFlow;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use forebay_ask::{Arity, Ask, Choice, Given, Input, Spelling, Takes, Value, named, spelled};
use forebay_core::Nanos;
use forebay_core::replay::Intensity;
use forebay_show::html;
use forebay_show::page::Page;
use forebay_show::quantities::percent;
use forebay_trace::ahead::Ahead;
use forebay_trace::bad_rows::BadRowsMax;
use forebay_trace::formats::Layer;
use forebay_trace::streams::StreamBy;
use forebay_trace::unpack::Consumed;
use forebay_trace::write::ProtectedFiles;
use forebay_trace::{Columns, Notes, Reader, TraceError, open};
use serde::Serialize;

use crate::devices::OpenDevice;
use crate::error::Error;
use crate::input::{self, Opening};
use crate::jobs;
use crate::layout::Map;
use crate::model::open::open_any;
use crate::progress::ProgressReport;
use crate::replayed::{DEPENDENT_KNOWN_SHARE, IMPUTED_SHARE_MAX, Replay, Setup, imputed_share};
use crate::report;

/// A verb, such as `simulate`, with the inputs that a user gave it.
pub trait Verb: Ask {
    /// Values that the verb returns in addition to data and page, for faces that can return more than text. An example
    /// is runs with the points of their charts.
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
    /// Fails if an input is invalid, if a file cannot be read, or if the operating system reports an error.
    fn run(self, session: &mut dyn Session) -> Result<Answered<Self::Beyond>, Error>;
}

/// The connection between a running verb and the face that called it: progress, warnings, and work on the machine.
pub trait Session {
    /// Reports that a new step begins. If the step reads `file`, the reader adds the number of bytes read to the
    /// returned counter.
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

    /// Shows a warning about `subject`, or a general one if `subject` is empty. A face shows the same warning only
    /// once.
    fn warn(&mut self, subject: &Path, sentence: &str);

    /// Records the requests that reach the block device `device` during `length`, into a new trace called `output`.
    ///
    /// # Errors
    /// Fails if the face cannot capture, or if capturing fails.
    fn capture(&mut self, device: &Path, _length: Nanos, _output: &Path) -> Result<(), Error> {
        Err(Error::Unfit(format!("{}: got a block device, expected a trace", device.display())))
    }

    /// Does `work` so that an interruption only shortens it. See [`shortened`].
    fn shorten(&mut self, _: SecondInterruption, work: LiveWork<'_>) {
        work(&AtomicBool::new(false), &mut |_, _| ());
    }
}

/// Work on the running machine. Once its first argument is set, it ends soon, with the results so far. It calls its
/// second argument with a description of what it is doing, and with the share that is done, if known.
pub type LiveWork<'a> = Box<dyn FnOnce(&AtomicBool, LiveTell<'_>) + Send + 'a>;

/// A callback for live work. It receives a description of what the work is doing, and the share that is done, if known.
pub type LiveTell<'a> = &'a mut dyn FnMut(String, Option<f64>);

/// What a second interruption does to work that the first one shortens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecondInterruption {
    /// A second interruption has no effect, because the work has to restore what it changed.
    Waits,
    /// A second interruption ends the process, because the work may be waiting for a device that never answers.
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
    /// Why the verb failed although it has an answer, for example because some I/Os failed. Faces show the answer
    /// first.
    pub failure: Option<String>,
    /// Whether the verb succeeded, but reports a state that monitoring must notice. The command then ends with exit
    /// status 3.
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

    /// Spells the options that sentences mention as the face does.
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

/// Returns a remark, for messages, that writing to `path` replaces a file; empty if no file exists there.
pub fn in_place_of(path: &Path) -> &'static str {
    if path.is_file() { ", replacing the existing file" } else { "" }
}

/// The value of the option that treats each volume separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByVolume {
    /// Treat each volume separately.
    Volume,
}

impl Value for ByVolume {
    const WORD: &'static str = "WHAT";
    const CHOICES: &'static [Choice] = &[Choice { name: "volume", about: "each volume" }];

    fn parse(text: &str) -> Result<ByVolume, String> {
        match text {
            "volume" => Ok(ByVolume::Volume),
            _ => Err(format!("got '{text}', expected volume")),
        }
    }
}

/// The parts of a trace that an option treats separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TracePart {
    /// Treat each volume separately.
    Volume,
    /// Treat each stream separately.
    Stream,
}

impl Value for TracePart {
    const WORD: &'static str = "WHAT";
    const CHOICES: &'static [Choice] = &[
        Choice { name: "volume", about: "each volume" },
        Choice { name: "stream", about: "each stream" },
    ];

    fn parse(text: &str) -> Result<TracePart, String> {
        match text {
            "volume" => Ok(TracePart::Volume),
            "stream" => Ok(TracePart::Stream),
            _ => Err(format!("got '{text}', expected volume or stream")),
        }
    }
}

/// A trace that the caller supplies, such as a table in memory.
pub trait OpenTrace: Send + Sync + UnwindSafe + RefUnwindSafe {
    /// Returns the trace's name for messages.
    fn name(&self) -> &Path;
    /// Returns the files that the trace is read from.
    fn kept(&self) -> ProtectedFiles;
    /// Opens the trace at its beginning.
    ///
    /// # Errors
    /// Fails if the trace cannot be read.
    fn open(&self) -> Result<Box<dyn Reader>, TraceError>;
}

/// The value of the option that names a trace: a file, or an object that the caller supplies.
#[derive(Clone)]
pub struct TraceInput {
    path: PathBuf,
    object: Option<Arc<dyn OpenTrace>>,
}

impl std::fmt::Debug for TraceInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.path.fmt(f)
    }
}

impl TraceInput {
    /// Returns the trace's name for messages.
    pub fn name(&self) -> &Path {
        &self.path
    }

    /// Returns whether the trace is a file, and not an object that the caller supplies.
    pub fn is_file(&self) -> bool {
        self.object.is_none()
    }

    /// Returns the files that the trace is read from.
    pub fn kept(&self) -> ProtectedFiles {
        self.object
            .as_ref()
            .map_or_else(|| ProtectedFiles::trace(&self.path), |object| object.kept())
    }
}

impl From<Arc<dyn OpenTrace>> for TraceInput {
    fn from(object: Arc<dyn OpenTrace>) -> TraceInput {
        TraceInput { path: object.name().to_path_buf(), object: Some(object) }
    }
}

impl From<PathBuf> for TraceInput {
    fn from(path: PathBuf) -> TraceInput {
        TraceInput { path, object: None }
    }
}

impl Value for TraceInput {
    const WORD: &'static str = "TRACE";
    const TAKES: Takes = Takes::Trace;
    const PYTHON: &'static str = "TraceLike";

    fn parse(text: &str) -> Result<TraceInput, String> {
        Ok(PathBuf::from(text).into())
    }

    fn of_object(input: &Input, given: &Given) -> Option<Vec<TraceInput>> {
        if let Some(paths) = given.as_object::<Vec<PathBuf>>(input.name) {
            return Some(paths.iter().cloned().map(TraceInput::from).collect());
        }
        let objects = given.as_object::<Vec<TraceInput>>(input.name)?;
        Some(objects.clone())
    }
}

forebay_ask::ask! {
    /// How traces are read
    pub struct SourceAsk("") {
        /// The trace's format, where Forebay does not recognize it (docs/traces.md lists the formats)
        from: Option<String> [.word("FORMAT")],
        /// The columns of a text file with one request per line, e.g. at:us,op,offset:sectors,len:sectors,volume
        ///
        /// at, end and latency (ns, us, ms, s, ticks of 100 ns, filetime, timedelta; at and end also as date or clock); op (words, or op:R/W,
        /// op:0/1, op:scsi, op:disksim); offset and len (bytes, sectors, kib, mib, pages, blocks:BYTES); volume,
        /// thread, process, name, flags; _ skips a column. Settings: sep=comma|tab|semicolon|bar|blank,
        /// decimal=point|comma, skip=LINES, every=TIME, op=read, len=BYTES
        columns: Option<forebay_ask::Parsed<Columns>> [.word("SPEC").excludes(&["from"])],
        /// Treat the trace as several recordings, one after another: a new one begins wherever the clock goes back. Each
        /// is placed 1 s after the end of the previous one
        split_runs: bool,
        /// Read only the requests of this volume of the trace
        only_volume: Option<String> [.word("NAME")],
        /// Where a request counts that the trace shows at several layers (LVM, md, dm-crypt, multipath, partitions)
        layer: Option<LayerInput> [.otherwise("bottom, unless only one volume is read")],
        /// The share of rows that may be unreadable. They are left out, and the first three are shown; 0 makes the first
        /// one an error
        bad_rows: BadRowsMax = "1%",
        /// If the trace is a model: the seed for the requests generated from it
        model_seed: u64 = "0" [.word("N")],
    }
}

impl SourceAsk {
    /// Opens a trace, or a model in place of a trace. Files are read on a separate thread.
    ///
    /// # Errors
    /// Fails if the trace cannot be read.
    pub fn open(
        &self,
        trace: &TraceInput,
        consumed: Consumed,
    ) -> Result<Box<dyn Reader>, TraceError> {
        match &trace.object {
            Some(object) => object.open(),
            None => {
                let reader =
                    open_any(&trace.path, self.from().as_deref(), self.model_seed, consumed)?;
                Ok(Box::new(Ahead::new(reader)))
            }
        }
    }

    /// Returns the format of the trace in the form that [`open::open`] accepts.
    pub fn from(&self) -> Option<String> {
        let columns = || Some(format!("{}{}", open::COLUMNS, self.columns.as_ref()?.0));
        let from = self.from.clone().or_else(columns);
        let mut prefix = String::new();
        if self.split_runs {
            prefix += open::SPLIT_RUNS;
        }
        if self.bad_rows != BadRowsMax::default() {
            prefix += &format!("{}{}:", open::BAD_ROWS, self.bad_rows);
        }
        if let Some(LayerInput(layer)) = self.layer {
            let word = open::LAYERS.iter().find(|(_, known)| *known == layer);
            prefix += word.map_or("", |(word, _)| word);
        }
        if let Some(volume) = &self.only_volume {
            prefix += &format!("{}{}:{volume}", open::VOLUME, volume.len());
        }
        match prefix.is_empty() {
            true => from,
            false => Some(prefix + &from.unwrap_or_default()),
        }
    }

    /// Reads the whole trace. Passes warnings about what was skipped to `session`.
    ///
    /// # Errors
    /// Fails if the trace cannot be read.
    pub fn read(
        &self,
        trace: &TraceInput,
        stream_by: StreamBy,
        session: &mut dyn Session,
    ) -> Result<input::Input, Error> {
        let consumed = session.begin("reading", Some(trace.name()));
        let (source, again) = (self.clone(), trace.clone());
        let opening: Opening = Box::new(move || source.open(&again, Consumed::clone(&consumed)));
        let name = trace.name();
        let read = &mut |records| session.read(name, records);
        let input = input::Input::read_from(name, opening, stream_by, read)?;
        warn_notes(session, name, &input.notes);
        Ok(input)
    }
}

/// The value of the option for the layer of the kernel at which requests are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerInput(pub Layer);

impl Value for LayerInput {
    const WORD: &'static str = "LAYER";
    const CHOICES: &'static [Choice] = &[
        Choice { name: "bottom", about: "at the device nearest to the hardware" },
        Choice { name: "top", about: "at the volume nearest to the programs" },
    ];

    fn parse(text: &str) -> Result<LayerInput, String> {
        match text {
            "bottom" => Ok(LayerInput(Layer::Bottom)),
            "top" => Ok(LayerInput(Layer::Top)),
            _ => Err(format!("got '{text}', expected bottom or top")),
        }
    }
}

forebay_ask::ask! {
    /// What counts as a stream
    pub struct StreamsAsk("") {
        /// What counts as one stream. All of a kernel's write-back workers are one
        stream_by: StreamsBy = "thread",
    }
}

impl StreamsAsk {
    /// Returns what counts as one stream: a thread, a process or a name.
    pub fn by(&self) -> StreamBy {
        self.stream_by.0
    }
}

/// The value of the option for what counts as one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamsBy(pub StreamBy);

impl Value for StreamsBy {
    const WORD: &'static str = "WHAT";
    const CHOICES: &'static [Choice] = &[
        Choice { name: "thread", about: "each thread" },
        Choice { name: "process", about: "each process with its threads" },
        Choice { name: "name", about: "everything of the same name" },
    ];

    fn parse(text: &str) -> Result<StreamsBy, String> {
        text.parse()
            .map(StreamsBy)
            .map_err(|_| format!("got '{text}', expected thread, process or name"))
    }
}

/// A device, given by its name, its file or a spec.
#[derive(Clone, Debug)]
pub struct DeviceInput(pub String);

impl Value for DeviceInput {
    const WORD: &'static str = "DEVICE";
    const TAKES: Takes = Takes::Path;
    const PYTHON: &'static str = "str | PathLike[str]";

    fn parse(text: &str) -> Result<DeviceInput, String> {
        Ok(DeviceInput(text.to_string()))
    }

    fn of_object(input: &Input, given: &Given) -> Option<Vec<DeviceInput>> {
        let paths = given.as_object::<Vec<PathBuf>>(input.name)?;
        let names = paths.iter().map(|path| path.to_string_lossy());
        let each = |name: std::borrow::Cow<'_, str>| -> Vec<DeviceInput> {
            match input.arity {
                Arity::List => name.split(',').map(|one| DeviceInput(one.to_string())).collect(),
                _ => vec![DeviceInput(name.into_owned())],
            }
        };
        Some(names.flat_map(each).collect())
    }
}

forebay_ask::ask! {
    /// How many simulations run at a time
    pub struct JobsAsk("") {
        /// The most simulations to run at a time, fewer if memory is short; the results are the same
        jobs: Option<u16> [.short('j').word("N").between(1.0, 1024.0).otherwise("one per processor")],
    }
}

impl JobsAsk {
    /// Returns the maximum number of parallel runs.
    pub fn count(&self) -> usize {
        self.jobs.map_or_else(jobs::all, usize::from)
    }
}

forebay_ask::ask! {
    /// How a trace is replayed
    pub struct ReplayAsk("") {
        /// When requests arrive
        replay: Replay = "open",
        /// How many times as fast as recorded requests arrive
        intensity: f64 = "1" [.word("TIMES").between(1e-6, 1e12)],
        /// What to do with addresses beyond the device
        map: Map = "scale",
    }
}

impl ReplayAsk {
    /// Returns the setup of a run. Warns `session` if `input` is poorly suited to this replay.
    ///
    /// # Errors
    /// Fails if the trace cannot be read again.
    pub fn setup(&self, input: &input::Input, session: &mut dyn Session) -> Result<Setup, Error> {
        let known = input.known_latency_share();
        if self.replay == Replay::Dependent && known < DEPENDENT_KNOWN_SHARE {
            let said = format!(
                "only {} of the requests have a recorded latency; dependent replay does not know \
                 what waited for the others",
                percent(known)
            );
            session.warn(&input.path, &said);
        }
        if self.replay == Replay::Closed {
            let share = imputed_share(input)?;
            let thin = match share > IMPUTED_SHARE_MAX {
                true => format!("; {} says more here", named("replay=open")),
                false => String::new(),
            };
            if share > 0.0 {
                let said =
                    format!("{} of the latencies are missing and imputed{thin}", percent(share));
                session.warn(&input.path, &said);
            }
        }
        let intensity = Intensity::new(self.intensity).unwrap_or(Intensity::RECORDED);
        Ok(Setup { replay: self.replay, intensity, map: self.map, ..Setup::default() })
    }
}

impl Value for Replay {
    const WORD: &'static str = "MODE";
    const CHOICES: &'static [Choice] = &[
        Choice { name: "open", about: "at their recorded times" },
        Choice {
            name: "closed",
            about: "each at its recorded pause after the previous completion",
        },
        Choice {
            name: "dependent",
            about: "each at its recorded pause after the completion that its task may have waited \
                for; write-back waits for nothing",
        },
    ];

    fn parse(text: &str) -> Result<Replay, String> {
        text.parse()
    }
}

impl Value for Map {
    const WORD: &'static str = "HOW";
    const CHOICES: &'static [Choice] = &[
        Choice { name: "scale", about: "scale all addresses after removing long gaps" },
        Choice { name: "wrap", about: "take addresses modulo the capacity" },
        Choice { name: "clip", about: "leave the requests out" },
    ];

    fn parse(text: &str) -> Result<Map, String> {
        text.parse()
    }
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

/// Shows a warning about the subject that the sentence names before a colon, or else about `subject`.
pub fn warn_named(session: &mut dyn Session, subject: &Path, sentence: &str) {
    match sentence.split_once(": ") {
        Some((own, said)) => session.warn(Path::new(own), said),
        None => session.warn(subject, sentence),
    }
}
