//! The verb `capture`: what reaches a block device, written as a trace.
//!
//! The live crate records the kernel's events, this reads them as the trace they are and writes it in any format.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use forebay::convert::convert;
use forebay_live::capture::{self, Captured, Device, Places};
use forebay_trace::formats::blktrace::Blktrace;
use forebay_trace::write::{self, Kept, Writer};
use forebay_trace::{Notes, Reader};

pub use forebay_live::capture::{News, Via};

use crate::error::Error;
use forebay_show::plural::{counted, verb};

/// What to capture, and where to.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The block device.
    pub device: &'a Path,
    /// The trace to write.
    pub output: &'a Path,
    /// Its format, where the ending of its name does not say it.
    pub to: Option<&'a str>,
    /// How long.
    pub length: Duration,
    /// By which of the kernel's interfaces.
    pub via: Via,
}

/// A capture that may begin: the device is there, and so is the beginning of the trace's file.
pub struct Begun<'a> {
    asked: Asked<'a>,
    plan: capture::Plan,
    writer: Box<dyn Writer>,
}

/// A trace that was captured and written.
#[derive(Debug)]
pub struct Written {
    /// Requests in it.
    pub records: u64,
    /// How long it was captured.
    pub elapsed: Duration,
    /// The interface used.
    pub by: &'static str,
    /// Events that the kernel had to drop.
    pub events_lost: u64,
    /// How reading the events went.
    pub notes: Notes,
    /// What the format cannot hold, a sentence each.
    pub lost: Vec<String>,
}

/// Finds the device and begins the trace's file.
///
/// # Errors
/// What is no block device, or an output that cannot be written.
pub fn begin(asked: Asked<'_>) -> Result<Begun<'_>, Error> {
    let device = Device::find(asked.device)?;
    let writer = write::create(asked.output, asked.to, &Kept::file(asked.device))
        .map_err(forebay::Error::output)?;
    let folder = match asked.output.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_path_buf(),
        _ => PathBuf::from("."),
    };
    let plan = capture::Plan {
        device,
        length: asked.length,
        via: asked.via,
        folder,
        places: Places::found(),
    };
    Ok(Begun { asked, plan, writer })
}

impl Begun<'_> {
    /// What to know before it begins.
    pub fn caution(&self) -> Option<String> {
        let folder = &self.plan.folder;
        capture::is_on(folder, &self.plan.device).then(|| {
            format!(
                "{} is on the captured device: our own writes are captured too",
                folder.display()
            )
        })
    }

    /// Captures until the time is over or `stop` is set, and tells twice a second how it goes.
    ///
    /// # Errors
    /// A system that does not allow it, or fails.
    pub fn capture(&self, stop: &AtomicBool, tell: impl FnMut(&News)) -> Result<Captured, Error> {
        Ok(capture::capture(&self.plan, stop, tell)?)
    }

    /// Writes the trace of what was `captured`.
    ///
    /// # Errors
    /// Nothing that was captured, or a file that cannot be written.
    pub fn write(self, captured: Captured) -> Result<Written, Error> {
        let device = self.asked.device;
        if captured.counts.requests() == 0 {
            return Err(Error::Nothing { device: device.into(), elapsed: captured.elapsed });
        }
        let mut reader =
            Blktrace::from_readers(vec![(device.to_path_buf(), Box::new(captured.spool))])
                .map_err(forebay::Error::from)?;
        captured.notes.into_iter().for_each(|note| reader.warn(note));
        if captured.lost > 0 {
            reader.warn(format!(
                "{} {} lost while capturing",
                counted(captured.lost, "event"),
                verb(captured.lost, "was", "were")
            ));
        }
        let converted = convert(device, &mut reader, self.writer, &mut forebay::progress::untold)?;
        Ok(Written {
            records: converted.records,
            elapsed: captured.elapsed,
            by: captured.by,
            events_lost: captured.lost,
            notes: reader.notes().clone(),
            lost: converted.lost,
        })
    }
}
