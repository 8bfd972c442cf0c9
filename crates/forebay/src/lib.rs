//! Forebay's verbs as a library: describe, simulate, advise and others, and their reports.
//!
//! The command line and the Python module call only this library; nothing in it prints.

#![forbid(unsafe_code)]

pub mod advise;
pub mod array_score;
pub mod cache_curve;
mod clock;
pub mod compare;
pub mod contention;
pub mod convert;
pub mod defragment;
pub mod describe;
pub mod device;
pub mod error;
pub mod fio_job;
pub mod head;
pub mod idle;
pub mod input;
pub mod jobs;
pub mod layout;
pub mod listings;
pub mod model;
pub mod names;
pub mod offline;
pub mod partition;
pub mod plan;
pub mod progress;
pub mod quantities;
pub mod refusal;
pub mod replayed;
pub mod report;
pub mod retrodict;
mod run_page;
pub mod sample;
mod shingled;
pub mod simulate;
pub mod slices;
pub mod statistics;
pub mod throttling;
pub mod verb;
pub mod words;

pub use devices::OpenDevice;
pub use error::Error;
pub use forebay_devices as devices;
pub use input::Input;
pub use progress::{Progress, ProgressReport, Telling};
pub use simulate::{Bed, Replay, Run, RunResult, Setup};
