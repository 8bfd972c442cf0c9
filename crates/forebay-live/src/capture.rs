//! Captures the requests that reach a block device, as recorded by the kernel's own trace.
//!
//! The records come from blktrace(8), which reads them from debugfs, or, if a locked-down kernel
//! refuses that, from the `blk` tracer, which provides the same records through tracefs. Only the
//! records that a trace of requests needs are stored: queued, issued, completed, and names of
//! threads. They are spooled to an unlinked file in order of arrival, ready for a reader of
//! blktrace version 7.
//!
//! Invariant: the tracer's settings are restored when [`capture`] returns or unwinds. Only a
//! process that is killed leaves them changed.

mod blktrace;
mod device;
mod error;
mod names;
mod records;
mod settings;
mod spool;
mod tracefs;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub use device::Device;
pub use error::CaptureError;
pub use spool::Counts;

use forebay_ask::{Choice, Value, one_of};
use spool::Spool;

/// The interval between polls of an empty pipe.
const NAP: Duration = Duration::from_millis(10);
/// The interval between progress reports.
const TELL: Duration = Duration::from_millis(500);
/// The number of bytes to read at a time.
const CHUNK_BYTES: usize = 1 << 16;

/// The kernel interface to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CaptureInterface {
    /// blktrace(8) if the kernel permits it, else tracefs.
    #[default]
    Any,
    /// blktrace(8) only.
    Blktrace,
    /// The `blk` tracer in tracefs only.
    Tracefs,
}

impl Value for CaptureInterface {
    const WORD: &'static str = "INTERFACE";
    const CHOICES: &'static [Choice] = &[
        Choice { name: "any", about: "blktrace(8) where the kernel allows it, else tracefs" },
        Choice { name: "blktrace", about: "blktrace(8)" },
        Choice { name: "tracefs", about: "the `blk` tracer in tracefs" },
    ];

    fn parse(text: &str) -> Result<CaptureInterface, String> {
        one_of(
            text,
            Self::CHOICES,
            [CaptureInterface::Any, CaptureInterface::Blktrace, CaptureInterface::Tracefs],
        )
    }
}

/// The paths of this machine's kernel interfaces.
#[derive(Clone, Debug)]
pub struct TracingPaths {
    /// The mount point of tracefs.
    pub tracefs: Option<PathBuf>,
    /// The mount point of debugfs.
    pub debugfs: Option<PathBuf>,
    /// The mount point of proc.
    pub proc: PathBuf,
    /// The path of the program blktrace(8).
    pub blktrace: PathBuf,
}

impl TracingPaths {
    /// Determines the paths from `/proc/self/mounts`.
    pub fn detect() -> TracingPaths {
        TracingPaths::of_mounts(&std::fs::read_to_string("/proc/self/mounts").unwrap_or_default())
    }

    fn of_mounts(mounts: &str) -> TracingPaths {
        let mounted = |kind: &str| {
            let mut points = mounts.lines().filter_map(|line| {
                let mut fields = line.split(' ').skip(1);
                let point = fields.next()?;
                (fields.next()? == kind).then(|| PathBuf::from(point.replace("\\040", " ")))
            });
            points.next()
        };
        TracingPaths {
            tracefs: mounted("tracefs"),
            debugfs: mounted("debugfs"),
            proc: "/proc".into(),
            blktrace: "blktrace".into(),
        }
    }
}

/// A capture to perform.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The device to capture.
    pub device: Device,
    /// The duration of the capture.
    pub length: Duration,
    /// The interface to use.
    pub via: CaptureInterface,
    /// The folder for the unlinked spool file. It should not be on the captured device.
    pub folder: PathBuf,
    /// The paths of this machine's kernel interfaces.
    pub places: TracingPaths,
}

/// The result of a capture.
#[derive(Debug)]
pub struct Captured {
    /// The records of all CPUs in one file, in the format of blktrace version 7; the file is
    /// rewound.
    pub spool: File,
    /// The number of events of each kind.
    pub counts: Counts,
    /// The number of events that the kernel dropped.
    pub lost: u64,
    /// The duration of the capture.
    pub elapsed: Duration,
    /// The interface that was used.
    pub by: &'static str,
    /// Notes for the user, one sentence each.
    pub notes: Vec<String>,
}

/// A progress report of a capture.
#[derive(Clone, Copy, Debug)]
pub struct CaptureProgress {
    /// The number of events captured so far.
    pub counts: Counts,
    /// The number of events dropped so far.
    pub lost: u64,
    /// The time since the capture began.
    pub elapsed: Duration,
}

/// The result of polling a source of records once.
enum Look {
    /// This many bytes were read to the start of the buffer.
    Bytes(usize),
    /// Nothing is available at present.
    Nothing,
    /// The source has ended.
    End,
}

impl Look {
    /// Converts the result of a nonblocking read; `end` is the meaning of 0 bytes.
    fn of(read: io::Result<usize>, end: Look) -> io::Result<Look> {
        match read {
            Ok(0) => Ok(end),
            Ok(n) => Ok(Look::Bytes(n)),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(Look::Nothing),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(Look::Nothing),
            Err(e) => Err(e),
        }
    }
}

/// A running tracer.
trait Source {
    /// Returns the name of the source.
    fn name(&self) -> &'static str;
    /// Reads the available bytes without waiting.
    fn look(&mut self, buffer: &mut [u8]) -> Result<Look, CaptureError>;
    /// Returns the number of events lost since the source began.
    fn lost(&self) -> u64;
    /// Stops recording events. Events already recorded can still be read.
    fn stop(&mut self) -> Result<(), CaptureError>;
    /// Returns the number of consecutive empty polls after which a stopped source counts as
    /// exhausted.
    fn empty_looks(&self) -> u32;
    /// Restores all settings; returns messages about those that could not be restored.
    fn restore(&mut self) -> Vec<String>;
}

/// Captures for the planned time or until `stop` is set; reports progress regularly.
///
/// # Errors
/// [`CaptureError::Refused`] if the system does not permit it, with what is missing;
/// [`CaptureError::Io`] if it fails later.
pub fn capture(
    plan: &Plan,
    stop: &AtomicBool,
    mut tell: impl FnMut(&CaptureProgress),
) -> Result<Captured, CaptureError> {
    let mut notes = Vec::new();
    let (mut source, mut spool) = begin(plan, &mut notes)?;
    let begun = Instant::now();
    let mut told = begun;
    let mut buffer = vec![0; CHUNK_BYTES];
    while begun.elapsed() < plan.length && !stop.load(Ordering::Relaxed) {
        match source.look(&mut buffer)? {
            Look::Bytes(n) => spool.take(&buffer[..n])?,
            Look::Nothing => std::thread::sleep(NAP),
            Look::End => break,
        }
        if told.elapsed() >= TELL {
            told = Instant::now();
            let (lost, elapsed) = (source.lost(), begun.elapsed());
            tell(&CaptureProgress { counts: spool.counts, lost, elapsed });
        }
    }
    let elapsed = begun.elapsed();
    source.stop()?;
    drain(&mut *source, &mut spool, &mut buffer)?;
    let (lost, by) = (source.lost(), source.name());
    notes.extend(source.restore());
    let (spool, counts) = spool.finish(&mut notes)?;
    Ok(Captured { spool, counts, lost, elapsed, by, notes })
}

/// Reads the remaining records of a stopped tracer.
fn drain(
    source: &mut dyn Source,
    spool: &mut Spool,
    buffer: &mut [u8],
) -> Result<(), CaptureError> {
    let mut empty = 0;
    while empty < source.empty_looks() {
        match source.look(buffer)? {
            Look::Bytes(n) => {
                spool.take(&buffer[..n])?;
                empty = 0;
            }
            Look::Nothing => {
                empty += 1;
                std::thread::sleep(NAP);
            }
            Look::End => break,
        }
    }
    Ok(())
}

/// Starts a tracer. If there is a choice, adds a note that says why the preferred tracer could not
/// be used.
fn begin(plan: &Plan, notes: &mut Vec<String>) -> Result<(Box<dyn Source>, Spool), CaptureError> {
    let spool = |names| Spool::new(&plan.folder, names);
    let by_tracefs = || -> Result<(Box<dyn Source>, Spool), CaptureError> {
        let spool = spool(Some(names::Names::new(&plan.places)))?;
        Ok((Box::new(tracefs::Tracefs::start(&plan.device, &plan.places)?), spool))
    };
    if plan.via == CaptureInterface::Tracefs {
        return by_tracefs();
    }
    let without = match blktrace::Blktrace::start(&plan.device, &plan.places) {
        Ok(source) => return Ok((Box::new(source), spool(None)?)),
        Err(error) if plan.via == CaptureInterface::Blktrace => return Err(error),
        Err(error) => error,
    };
    let (source, spool) = by_tracefs().map_err(|error| match error {
        // Without root, blktrace(8) fails for the same reason.
        CaptureError::Refused(why) if why.starts_with(error::NEEDS_ROOT) => {
            CaptureError::Refused(why)
        }
        CaptureError::Refused(why) => CaptureError::Refused(format!(
            "{why}\n  and blktrace(8), the alternative, does not work either: {without}"
        )),
        other => other,
    })?;
    notes.push(format!("captured through tracefs, because blktrace(8) does not work: {without}"));
    Ok((source, spool))
}

/// Returns whether `folder` is on the captured device, so that writes to it would appear in the
/// trace.
pub fn is_on(folder: &Path, device: &Device) -> bool {
    device.holds(folder)
}
