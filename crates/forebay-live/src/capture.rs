//! Captures the requests that reach a block device, as the kernel's own trace records.
//!
//! The records come from blktrace(8), which reads them from debugfs, or, if a locked-down kernel
//! refuses that, from the `blk` tracer, which provides the same records through tracefs. Only
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

use forebay_ask::{Choice, Value};
use spool::Spool;

/// Between two looks at an empty pipe.
const NAP: Duration = Duration::from_millis(10);
/// Between two pieces of news.
const TELL: Duration = Duration::from_millis(500);
/// Bytes read at a time.
const CHUNK_BYTES: usize = 1 << 16;

/// Which of the kernel's interfaces to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Via {
    /// blktrace(8) where the kernel lets it, else tracefs.
    #[default]
    Any,
    /// blktrace(8) only.
    Blktrace,
    /// The `blk` tracer in tracefs only.
    Tracefs,
}

impl Value for Via {
    const WORD: &'static str = "INTERFACE";
    const CHOICES: &'static [Choice] = &[
        Choice { name: "any", about: "blktrace(8) where the kernel allows it, else tracefs" },
        Choice { name: "blktrace", about: "blktrace(8)" },
        Choice { name: "tracefs", about: "the `blk` tracer in tracefs" },
    ];

    fn parse(text: &str) -> Result<Via, String> {
        match text {
            "any" => Ok(Via::Any),
            "blktrace" => Ok(Via::Blktrace),
            "tracefs" => Ok(Via::Tracefs),
            other => Err(format!("got '{other}', expected any, blktrace or tracefs")),
        }
    }
}

/// Where things are on this machine.
#[derive(Clone, Debug)]
pub struct Places {
    /// Where tracefs is mounted.
    pub tracefs: Option<PathBuf>,
    /// Where debugfs is mounted.
    pub debugfs: Option<PathBuf>,
    /// Where proc is mounted.
    pub proc: PathBuf,
    /// The program blktrace(8).
    pub blktrace: PathBuf,
}

impl Places {
    /// As `/proc/self/mounts` says.
    pub fn found() -> Places {
        Places::of_mounts(&std::fs::read_to_string("/proc/self/mounts").unwrap_or_default())
    }

    fn of_mounts(mounts: &str) -> Places {
        let mounted = |kind: &str| {
            let mut points = mounts.lines().filter_map(|line| {
                let mut fields = line.split(' ').skip(1);
                let point = fields.next()?;
                (fields.next()? == kind).then(|| PathBuf::from(point.replace("\\040", " ")))
            });
            points.next()
        };
        Places {
            tracefs: mounted("tracefs"),
            debugfs: mounted("debugfs"),
            proc: "/proc".into(),
            blktrace: "blktrace".into(),
        }
    }
}

/// What to capture.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The device.
    pub device: Device,
    /// How long.
    pub length: Duration,
    /// By which interface.
    pub via: Via,
    /// Where the spool is put, unlinked. Better not on the device that is captured.
    pub folder: PathBuf,
    /// Where things are.
    pub places: Places,
}

/// The result of a capture.
#[derive(Debug)]
pub struct Captured {
    /// The records, of blktrace version 7, all CPUs in one file; rewound.
    pub spool: File,
    /// The number of events of each kind.
    pub counts: Counts,
    /// The number of events that the kernel dropped.
    pub lost: u64,
    /// The duration of the capture.
    pub elapsed: Duration,
    /// The interface used.
    pub by: &'static str,
    /// Notes for the user, one sentence each.
    pub notes: Vec<String>,
}

/// News while capturing.
#[derive(Clone, Copy, Debug)]
pub struct CaptureNews {
    /// The number of events captured so far.
    pub counts: Counts,
    /// Events dropped so far.
    pub lost: u64,
    /// Time so far.
    pub elapsed: Duration,
}

/// The result of polling a source of records.
enum Look {
    /// This many bytes, at the start of the buffer.
    Bytes(usize),
    /// Nothing at present.
    Nothing,
    /// Nothing ever again.
    End,
}

impl Look {
    /// From a read that does not block.
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
    /// Reads bytes without waiting for them.
    fn look(&mut self, buffer: &mut [u8]) -> Result<Look, CaptureError>;
    /// Events lost since it began.
    fn lost(&self) -> u64;
    /// Lets no further events in. Those that are in can still be read.
    fn stop(&mut self) -> Result<(), CaptureError>;
    /// Empty looks in a row after which, once stopped, it is believed to have nothing more.
    fn empty_looks(&self) -> u32;
    /// Puts everything back as it was; answers what could not be.
    fn restore(&mut self) -> Vec<String>;
}

/// Captures for the planned time or until `stop` is set, and reports progress now and then.
///
/// # Errors
/// [`CaptureError::Refused`] if the system does not permit it, with what is missing;
/// [`CaptureError::Io`] if it fails later.
pub fn capture(
    plan: &Plan,
    stop: &AtomicBool,
    mut tell: impl FnMut(&CaptureNews),
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
            tell(&CaptureNews { counts: spool.counts, lost, elapsed });
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

/// Starts a tracer. With a choice, tells in `notes` why the better one did not do.
fn begin(plan: &Plan, notes: &mut Vec<String>) -> Result<(Box<dyn Source>, Spool), CaptureError> {
    let spool = |names| Spool::new(&plan.folder, names);
    let by_tracefs = || -> Result<(Box<dyn Source>, Spool), CaptureError> {
        let spool = spool(Some(names::Names::new(&plan.places)))?;
        Ok((Box::new(tracefs::Tracefs::start(&plan.device, &plan.places)?), spool))
    };
    if plan.via == Via::Tracefs {
        return by_tracefs();
    }
    let without = match blktrace::Blktrace::start(&plan.device, &plan.places) {
        Ok(source) => return Ok((Box::new(source), spool(None)?)),
        Err(error) if plan.via == Via::Blktrace => return Err(error),
        Err(error) => error,
    };
    let (source, spool) = by_tracefs().map_err(|error| match error {
        CaptureError::Refused(why) => CaptureError::Refused(format!(
            "{why}\n  and blktrace(8), the alternative, does not work either: {without}"
        )),
        other => other,
    })?;
    notes.push(format!("captured through tracefs, because blktrace(8) does not work: {without}"));
    Ok((source, spool))
}

/// Returns whether what is written to `folder` ends on the captured device itself, and so in the
/// trace.
pub fn is_on(folder: &Path, device: &Device) -> bool {
    device.holds(folder)
}
