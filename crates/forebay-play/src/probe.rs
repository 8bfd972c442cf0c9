//! The verb `device probe`: measures the limits of a volume with reads, and writes a device file.

mod fit;
mod measure;
#[cfg(test)]
mod tests;
mod written;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use forebay::Error;
use forebay::devices;
use forebay::devices::write::file as write_file;
use forebay::verb::{Answered, LiveTell, SecondInterruption, Session, Verb, shortened};
use forebay_live::{Driver, Lanes, Target, TargetKind, TargetOptions, Threads, Uring};
use forebay_show::{Block, Page, Place, Tone, Verdict};
use forebay_trace::write::ProtectedFiles;
use forebay_words::plural::counted;
use serde::Serialize;

use fit::{FittedLimits, Line, Measured};
use measure::{PHASES, PhaseTimes, ProbeError};

forebay_ask::ask! {
    /// Measure the limits of a cloud volume or a throttled disk, and write a device file
    ///
    /// Nothing is written to the target. The probe reads for up to 43 s, with pauses in which
    /// buckets fill, and at most 9.6 GB. Use a volume that is otherwise idle: other requests use up
    /// part of its limits.
    pub struct DeviceProbeAsk("device probe") {
        /// The block device or file to read
        target: PathBuf [.positional().word("FILE|DEVICE")],
        /// The device file to write
        output: PathBuf [.short('o')],
        /// The volume's name
        name: Option<String> [.otherwise("the name of the output")],
        /// How to submit I/Os to the target
        driver: Option<Driver> [.otherwise("io_uring if available")],
    }
}

/// The answer of `device probe`.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct ProbeAnswer {
    output: String,
    /// The median time of a single read.
    read_ms: f64,
    /// The limit on operations; null if the probe did not reach it.
    ops: Option<ProbeLimit>,
    /// The limit on bytes; null if the probe did not reach it.
    bytes: Option<ProbeLimit>,
    /// The size in bytes in which the volume counts operations; null if the limits do not reveal
    /// it.
    unit_bytes: Option<u32>,
    /// Whether sequential reads count as one operation; null if the limits do not reveal it.
    merges: Option<bool>,
    /// Caveats, one sentence each.
    notes: Vec<String>,
}

/// A measured token bucket.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct ProbeLimit {
    /// The rate in operations or bytes per second.
    rate_per_s: f64,
    /// The depth of the bucket: the number of operations or bytes that pass at once.
    depth: f64,
}

impl ProbeLimit {
    fn of(line: Line) -> ProbeLimit {
        ProbeLimit { rate_per_s: line.rate_per_s, depth: line.depth }
    }
}

impl Verb for DeviceProbeAsk {
    type Beyond = ();

    fn run(self, session: &mut dyn Session) -> Result<Answered, Error> {
        let kept = ProtectedFiles::file(&self.target);
        kept.refuse(&self.output)?;
        check_folder(&self.output)?;
        let target = opened(&self.target)?;
        let capacity_bytes = target.capacity_bytes();
        let notes = target.notes().to_vec();
        session.warn(&self.target, &cost());
        session.begin("probing", None);
        let driver = self.driver;
        let work = move |stop: &AtomicBool, tell: LiveTell<'_>| {
            let mut lanes = lanes(target, driver)?;
            measured(&mut *lanes, capacity_bytes, stop, tell)
        };
        let limits = shortened(session, SecondInterruption::Waits, work)?;
        let limits = limits.map_err(|error| failed(&self.target, error))?;
        let stem = self.output.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let name = self.name.or(stem).unwrap_or_default();
        let text = written::toml(&name, &self.target, capacity_bytes, &limits);
        // Reads the text back, so that no unusable device file is written.
        devices::read(&self.output, &text)?;
        write_file(&self.output, &text, &kept).map_err(Error::output)?;
        let answer = ProbeAnswer {
            output: self.output.display().to_string(),
            read_ms: limits.base_s * 1e3,
            ops: limits.ops.map(ProbeLimit::of),
            bytes: limits.bytes.map(ProbeLimit::of),
            unit_bytes: limits.unit_bytes,
            merges: limits.merges,
            notes: notes.into_iter().chain(written::notes(&limits)).collect(),
        };
        Answered::new(&answer, page(&answer, &limits))
    }
}

/// Checks that the output can be written, before the user pays for reads.
fn check_folder(output: &Path) -> Result<(), Error> {
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    match folder.is_dir() {
        true => Ok(()),
        false => Err(Error::Unfit(format!(
            "{}: the folder {} does not exist; create it, or specify another file",
            output.display(),
            folder.display()
        ))),
    }
}

/// Describes what a probe does, and its maximum cost.
fn cost() -> String {
    let length: f64 = PHASES.iter().map(|phase| (phase.quiet + phase.length).as_secs_f64()).sum();
    let reads: u64 = PHASES.iter().map(|phase| phase.reads_max).sum();
    let read: u64 = PHASES.iter().map(|phase| phase.reads_max * u64::from(phase.len)).sum();
    format!(
        "reading for up to {length} s, at most {:.1} GB in {}; nothing is written. A provider may \
         bill the reads, and they use burst credits",
        read as f64 / 1e9,
        counted(reads, "read")
    )
}

/// Opens an existing target for reading.
fn opened(path: &Path) -> Result<Target, Error> {
    if let Err(error) = std::fs::metadata(path) {
        return Err(Error::Unfit(format!(
            "{}: {error}; expected a block device or a file to read",
            path.display()
        )));
    }
    let how = TargetOptions { writes: false, overwrite: false, need_bytes: 0, direct: true };
    let target = Target::open(path, how).map_err(crate::Error::from)?;
    if target.capacity_bytes() < CAPACITY_MIN_BYTES {
        return Err(Error::Unfit(format!(
            "{}: got {} bytes, expected at least {CAPACITY_MIN_BYTES}, so that reads do not repeat",
            path.display(),
            target.capacity_bytes()
        )));
    }
    if target.kind() == TargetKind::File && target.is_sparse() {
        return Err(Error::Unfit(format!(
            "{}: is a sparse file, whose holes are not read from any disk; expected a block device \
             or a fully written file",
            path.display()
        )));
    }
    Ok(target)
}

/// The minimum size of a target in bytes.
const CAPACITY_MIN_BYTES: u64 = 64 << 20;

/// Creates lanes with the requested driver, or with the best available one.
fn lanes(target: Target, driver: Option<Driver>) -> Result<Box<dyn Lanes>, ProbeError> {
    let depth = PHASES.iter().map(|phase| phase.depth as u32).max().unwrap_or(1);
    if driver == Some(Driver::Threads) {
        return Ok(Box::new(Threads::new(vec![target], depth)?));
    }
    match Uring::new(vec![target], depth) {
        Ok(uring) => Ok(Box::new(uring)),
        Err((error, _)) if driver == Some(Driver::Uring) => Err(error.into()),
        Err((_, targets)) => Ok(Box::new(Threads::new(targets, depth)?)),
    }
}

/// Measures all phases and fits the limits.
fn measured(
    lanes: &mut dyn Lanes,
    capacity_bytes: u64,
    stop: &AtomicBool,
    tell: LiveTell<'_>,
) -> Result<FittedLimits, ProbeError> {
    let mut times: Vec<PhaseTimes> = Vec::new();
    let mut id = 0;
    for (number, phase) in PHASES.iter().enumerate() {
        tell(phase.name.to_string(), Some(number as f64 / PHASES.len() as f64));
        times.push(measure::run(lanes, capacity_bytes, phase, &mut id, stop)?);
    }
    let measured = std::array::from_fn(|index| Measured {
        times: &times[index],
        len: PHASES[index].len,
        depth: PHASES[index].depth,
    });
    Ok(fit::limits(&measured))
}

fn failed(path: &Path, error: ProbeError) -> Error {
    match error {
        ProbeError::Stopped => Error::Stopped,
        ProbeError::Read(what) => {
            let message = format!("{}: {what}", path.display());
            Error::Live { message, is_input: false, system: None }
        }
        ProbeError::Driver(source) => crate::Error::Driver { driver: "I/O", source }.into(),
    }
}

fn page(answer: &ProbeAnswer, limits: &FittedLimits) -> Page {
    let verdict = Verdict::new(Tone::Calm, "Probe");
    let headline = format!("{}: {}.", answer.output, written::in_short(limits));
    let mut page = Page { title: "Probe of a volume".into(), verdict, headline, ..Page::default() };
    page.add("Figures", Place::FirstScreen, vec![Block::List(written::told(limits))]);
    page.add_notes("Keep in mind", Place::FirstScreen, answer.notes.clone());
    page
}
