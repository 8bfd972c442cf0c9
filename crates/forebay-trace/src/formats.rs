//! Trace formats, each with its own module, and the list of all formats.

pub mod blkparse;
pub mod blktrace;
pub(crate) mod clock;
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

pub(crate) use self::clock::BIAS_NS;
pub use self::events::Layer;
pub use self::list::FORMATS;
pub(crate) use self::log::first_lines;
use self::presets::Preset;
use crate::bad_rows::BadRowsMax;
use crate::unpack::{Consumed, Packing};
use crate::{Reader, TraceError};

/// A file to be read.
pub struct Input {
    /// The path of the file.
    pub path: PathBuf,
    /// The compression of the file.
    pub packing: Packing,
    /// The uncompressed content of the file.
    pub content: Box<dyn BufRead + Send>,
    /// The number of bytes that were read through `content`. Readers that bypass `content` must
    /// count bytes themselves.
    pub consumed: Consumed,
    /// Whether a step back of the clock begins a new run, which is placed after the previous one.
    pub split_runs: bool,
    /// At which layer requests count if the trace shows them at several.
    pub layer: Layer,
    /// The parameter of the format, such as blkparse's format string.
    pub parameter: Option<String>,
    /// The maximum share of unreadable rows.
    pub bad_rows_max: BadRowsMax,
}

impl Input {
    /// Creates an input whose progress is not reported, and in which every row must be readable.
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

/// A format that Forebay can read.
pub struct Format {
    /// The name in `--from` and in [`crate::Notes::format`].
    pub name: &'static str,
    /// A short description.
    pub about: &'static str,
    /// The first lines of a text in this format. For a binary format, a command that records a
    /// trace, after `$`.
    pub example: &'static str,
    /// The fields of a row and how they are interpreted, if the format has its own reader.
    pub(crate) fields: &'static [(&'static str, &'static str)],
    /// The feature by which a binary format is recognized.
    pub(crate) sign: &'static str,
    reads: Reads,
}

/// How a format is read.
enum Reads {
    /// With its own reader.
    Code { sniff: Sniff, open: Open },
    /// With a declaration of the columns of its rows.
    Columns(Preset),
}

/// Returns whether uncompressed content that begins with these bytes looks like the format.
type Sniff = fn(&[u8]) -> bool;
/// Opens a reader of the format.
type Open = fn(Input) -> Result<Box<dyn Reader>, TraceError>;

impl Format {
    const fn of_code(name: &'static str, about: &'static str, sniff: Sniff, open: Open) -> Format {
        Format {
            name,
            about,
            example: "",
            fields: &[],
            sign: "",
            reads: Reads::Code { sniff, open },
        }
    }

    const fn of_columns(name: &'static str, about: &'static str, preset: Preset) -> Format {
        Format { name, about, example: "", fields: &[], sign: "", reads: Reads::Columns(preset) }
    }

    const fn showing(self, example: &'static str) -> Format {
        Format { example, ..self }
    }

    const fn reading(self, fields: &'static [(&'static str, &'static str)]) -> Format {
        Format { fields, ..self }
    }

    const fn recognized_by(self, sign: &'static str) -> Format {
        Format { sign, ..self }
    }

    /// Returns whether the format is text, so that its example can be read.
    pub fn is_text(&self) -> bool {
        !self.example.starts_with('$')
    }

    /// Returns the format called `name`, if there is one.
    pub fn named(name: &str) -> Option<&'static Format> {
        FORMATS.iter().find(|format| format.name == name)
    }

    /// Returns whether uncompressed content that begins with `head` looks like this format.
    pub fn sniff(&self, head: &[u8]) -> bool {
        match &self.reads {
            Reads::Code { sniff, .. } => sniff(head),
            Reads::Columns(preset) => preset.sniff(head),
        }
    }

    /// Opens a reader of `input`.
    ///
    /// # Errors
    /// Fails if the content does not have this format.
    pub fn open(&self, input: Input) -> Result<Box<dyn Reader>, TraceError> {
        match &self.reads {
            Reads::Code { open, .. } => open(input),
            Reads::Columns(preset) => preset.open(self.name, input),
        }
    }

    /// Returns the declaration of the columns, if the format is read with one.
    pub fn preset(&self) -> Option<&Preset> {
        match &self.reads {
            Reads::Columns(preset) => Some(preset),
            Reads::Code { .. } => None,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
