//! Trace formats, one file each, and the list of all formats.

pub mod blkparse;
pub mod blktrace;
mod clock;
pub mod csv;
pub mod disksim_valid;
pub(crate) mod events;
pub mod fio;
pub mod fio_latency;
mod frames;
mod ftlsim;
mod ftrace;
pub mod hp_srt;
mod list;
mod log;
mod nbdkit;
mod numbering;
pub mod objects;
pub mod parquet;
pub mod presets;
pub mod procmon;
mod qemu;
pub mod snoop;
mod spdk;
mod strace;
mod sysdig;
mod titles;
pub mod vscsi;
pub mod xperf;

use std::io::BufRead;
use std::path::PathBuf;

pub use self::events::Layer;
pub use self::list::FORMATS;
pub(crate) use self::log::first_lines;
use self::presets::Preset;
use crate::bad_rows::BadRowsMax;
use crate::error::TraceError;
use crate::trace::Reader;
use crate::unpack::{Consumed, Packing};

/// A file to read.
pub struct Input {
    /// Its path.
    pub path: PathBuf,
    /// Its compression.
    pub packing: Packing,
    /// Its uncompressed content.
    pub content: Box<dyn BufRead + Send>,
    /// The number of bytes read, counted by `content`; readers that bypass `content` have to count
    /// here themselves.
    pub consumed: Consumed,
    /// Whether a step back of the clock begins another run, which is placed after the previous one.
    pub split_runs: bool,
    /// The layer at which requests count that the trace shows at several.
    pub layer: Layer,
    /// The parameter of the format: blkparse's format string.
    pub parameter: Option<String>,
    /// The share of rows that may be unreadable.
    pub bad_rows_max: BadRowsMax,
}

impl Input {
    /// Makes an input whose progress is not observed, and of which every row has to be readable.
    pub fn new(path: PathBuf, packing: Packing, content: Box<dyn BufRead + Send>) -> Input {
        let consumed = Consumed::default();
        Input {
            path,
            packing,
            content,
            consumed,
            split_runs: false,
            bad_rows_max: BadRowsMax::NONE,
            layer: Layer::default(),
            parameter: None,
        }
    }
}

/// A readable format.
pub struct Format {
    /// Its name in `--from` and [`crate::Notes::format`].
    pub name: &'static str,
    /// A description in a few words.
    pub about: &'static str,
    /// The first lines of a text, or, after `$`, a command that records a binary trace.
    pub example: &'static str,
    /// The fields of its rows, and how they are read, if code of its own reads them.
    pub(crate) fields: &'static [(&'static str, &'static str)],
    reads: Reads,
}

/// How a format is read.
enum Reads {
    /// By code of its own.
    Code { sniff: Sniff, open: Open },
    /// By a declaration of the columns of its rows.
    Columns(Preset),
}

/// Whether unpacked content that begins so looks like a format.
type Sniff = fn(&[u8]) -> bool;
/// Reads a format.
type Open = fn(Input) -> Result<Box<dyn Reader>, TraceError>;

impl Format {
    const fn of_code(name: &'static str, about: &'static str, sniff: Sniff, open: Open) -> Format {
        Format { name, about, example: "", fields: &[], reads: Reads::Code { sniff, open } }
    }

    const fn of_columns(name: &'static str, about: &'static str, preset: Preset) -> Format {
        Format { name, about, example: "", fields: &[], reads: Reads::Columns(preset) }
    }

    const fn showing(self, example: &'static str) -> Format {
        Format { example, ..self }
    }

    const fn reading(self, fields: &'static [(&'static str, &'static str)]) -> Format {
        Format { fields, ..self }
    }

    /// Returns whether its example is text that it reads.
    pub fn is_text(&self) -> bool {
        !self.example.starts_with('$')
    }

    /// Returns the format of that name.
    pub fn named(name: &str) -> Option<&'static Format> {
        FORMATS.iter().find(|format| format.name == name)
    }

    /// Returns whether unpacked content that begins with `head` looks like it.
    pub fn sniff(&self, head: &[u8]) -> bool {
        match &self.reads {
            Reads::Code { sniff, .. } => sniff(head),
            Reads::Columns(preset) => preset.sniff(head),
        }
    }

    /// Opens a reader.
    ///
    /// # Errors
    /// Content that is not of this format.
    pub fn open(&self, input: Input) -> Result<Box<dyn Reader>, TraceError> {
        match &self.reads {
            Reads::Code { open, .. } => open(input),
            Reads::Columns(preset) => preset.open(self.name, input),
        }
    }

    /// Returns the declaration of its columns, if it is a text that is read by one.
    pub fn preset(&self) -> Option<&Preset> {
        match &self.reads {
            Reads::Columns(preset) => Some(preset),
            Reads::Code { .. } => None,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
