//! Inputs that several verbs share: traces and how they are read, streams, devices, parallel runs,
//! and replays.

use std::ffi::OsStr;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_ask::{Arity, Check, Choice, Given, Input, Takes, Value, exists, named, one_of};
use forebay_core::catalog;
use forebay_core::replay::Intensity;
use forebay_trace::ahead::Ahead;
use forebay_trace::bad_rows::BadRowsMax;
use forebay_trace::formats::Layer;
use forebay_trace::streams::StreamBy;
use forebay_trace::unpack::Consumed;
use forebay_trace::write::ProtectedFiles;
use forebay_trace::{Columns, Reader, TraceError, open};
use forebay_words::quantities::percent;

use super::{Session, warn_notes};
use crate::devices::{self, DevicesError};
use crate::input::{self, Opening};
use crate::layout::Map;
use crate::model::open::open_any;
use crate::replayed::{DEPENDENT_KNOWN_SHARE, IMPUTED_SHARE_MAX, Replay, Setup, imputed_share};
use crate::{Error, jobs};
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
        one_of(text, Self::CHOICES, [ByVolume::Volume])
    }
}

/// The parts of a trace that an option treats separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TracePart {
    /// Treat each volume separately.
    Volume,
    /// Treat each stream separately.
    Stream,
    /// Treat each export of `forebay serve` separately.
    Export,
}

impl Value for TracePart {
    const WORD: &'static str = "WHAT";
    const CHOICES: &'static [Choice] = &[
        Choice { name: "volume", about: "each volume" },
        Choice { name: "stream", about: "each stream" },
        Choice { name: "export", about: "each export of `forebay serve`" },
    ];

    fn parse(text: &str) -> Result<TracePart, String> {
        one_of(text, Self::CHOICES, [TracePart::Volume, TracePart::Stream, TracePart::Export])
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
    const CHECK: Option<Check> = Some(trace_exists);
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
        /// The trace's format, if Forebay does not recognize it (docs/traces.md lists the formats)
        from: Option<String> [.word("FORMAT")],
        /// The columns of a text file with one request per line, e.g.
        /// at:us,op,offset:sectors,len:sectors,volume
        ///
        /// at, end and latency (ns, us, ms, s, ticks of 100 ns, filetime, timedelta; at and end
        /// also as date or clock); op (words, or op:R/W, op:0/1, op:scsi, op:disksim); offset and
        /// len (bytes, sectors, kib, mib, pages, blocks:BYTES); volume, thread, process, name,
        /// flags; _ skips a column. Settings: sep=comma|tab|semicolon|bar|blank,
        /// decimal=point|comma, skip=LINES, every=TIME, op=read, len=BYTES
        columns: Option<forebay_ask::Parsed<Columns>> [.word("SPEC").excludes(&["from"])],
        /// Treat the trace as several recordings, one after another: a new recording begins
        /// wherever the clock goes back, and is placed 1 s after the end of the previous one
        split_runs: bool,
        /// Read only the requests of this volume of the trace
        only_volume: Option<String> [.word("NAME")],
        /// Where to count a request that the trace shows at several layers (LVM, md, dm-crypt,
        /// multipath, partitions)
        layer: Option<LayerInput> [.otherwise("bottom, unless only one volume is read")],
        /// The share of rows that may be unreadable. Unreadable rows are left out, and the first
        /// three are shown; with 0, the first one is an error
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
        self.read_as(trace, stream_by, |reader| reader, session)
    }

    /// Like [`SourceAsk::read`], but applies `of` to the trace's reader and reads the result.
    ///
    /// # Errors
    /// Fails if the trace cannot be read.
    pub(crate) fn read_as(
        &self,
        trace: &TraceInput,
        stream_by: StreamBy,
        of: impl Fn(Box<dyn Reader>) -> Box<dyn Reader> + Send + Sync + 'static,
        session: &mut dyn Session,
    ) -> Result<input::Input, Error> {
        let consumed = session.begin("reading", Some(trace.name()));
        let (source, again) = (self.clone(), trace.clone());
        let opening: Opening =
            Box::new(move || Ok(of(source.open(&again, Consumed::clone(&consumed))?)));
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
        Choice { name: "bottom", about: "at the device closest to the hardware" },
        Choice { name: "top", about: "at the volume closest to the programs" },
    ];

    fn parse(text: &str) -> Result<LayerInput, String> {
        one_of(text, Self::CHOICES, [LayerInput(Layer::Bottom), LayerInput(Layer::Top)])
    }
}

forebay_ask::ask! {
    /// What counts as a stream
    pub struct StreamsAsk("") {
        /// What counts as one stream. All write-back workers of a kernel form one stream
        stream_by: StreamBy = "thread",
    }
}

impl StreamsAsk {
    /// Returns what counts as one stream: a thread, a process or a name.
    pub fn by(&self) -> StreamBy {
        self.stream_by
    }
}

/// A device, given by its name, its file or a spec.
#[derive(Clone, Debug)]
pub struct DeviceInput(pub String);

/// Checks that a policy exists, before any device or trace is opened.
pub fn policy_exists(spec: &OsStr) -> Result<(), String> {
    catalog::check(&spec.to_string_lossy()).map_err(|error| error.0)
}

/// Checks that a device exists, or every device of a list. Other errors are reported by the verb.
fn device_exists(name: &OsStr) -> Result<(), String> {
    let name = name.to_string_lossy();
    let one = |name: &str| match devices::open(name) {
        Err(error @ (DevicesError::Unknown { .. } | DevicesError::Io { .. })) => {
            Err(error.to_string())
        }
        _ => Ok(()),
    };
    one(&name).or_else(|_| name.split(',').try_for_each(one))
}

/// Checks that all files of a trace exist.
fn trace_exists(path: &OsStr) -> Result<(), String> {
    match Path::new(path).exists() {
        true => exists(path),
        // The path may be the base name of a blktrace set.
        false => open::files(Path::new(path)).iter().try_for_each(|file| exists(file.as_os_str())),
    }
}

impl Value for DeviceInput {
    const CHECK: Option<Check> = Some(device_exists);
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
        /// The maximum number of concurrent simulations; fewer run if memory is short, with
        /// the same results
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
        /// The speed at which requests arrive, relative to the recording
        intensity: f64 = "1" [.word("TIMES").between(1e-6, 1e12)],
        /// How to treat addresses beyond the device
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
            let text = format!(
                "only {} of the requests have a recorded latency; dependent replay cannot determine \
                 which requests waited for others",
                percent(known)
            );
            session.warn(&input.path, &text);
        }
        if self.replay == Replay::Closed {
            let share = imputed_share(input)?;
            let thin = match share > IMPUTED_SHARE_MAX {
                true => format!("; {} says more here", named("replay=open")),
                false => String::new(),
            };
            if share > 0.0 {
                let text =
                    format!("{} of the latencies are missing and imputed{thin}", percent(share));
                session.warn(&input.path, &text);
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
            about: "each after its recorded pause since the previous completion",
        },
        Choice {
            name: "dependent",
            about: "each after its recorded pause since the completion that its task may have \
                waited for; write-back does not wait",
        },
    ];

    fn parse(text: &str) -> Result<Replay, String> {
        one_of(text, Self::CHOICES, [Replay::Open, Replay::Closed, Replay::Dependent])
    }
}

impl Value for Map {
    const WORD: &'static str = "HOW";
    const CHOICES: &'static [Choice] = &[
        Choice { name: "scale", about: "scale all addresses after removing long gaps" },
        Choice { name: "wrap", about: "take addresses modulo the capacity" },
        Choice { name: "clip", about: "omit these requests" },
    ];

    fn parse(text: &str) -> Result<Map, String> {
        one_of(text, Self::CHOICES, [Map::Scale, Map::Wrap, Map::Clip])
    }
}
