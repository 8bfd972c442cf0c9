//! Block-I/O traces: streaming readers and writers, and a description.
//!
//! A trace is a stream of [`Record`]s in order of time, with a [`Dictionary`] of submitters and
//! volumes. [`open::open`] reads any format, and [`write::create`] writes one. To add a format, add
//! a file to [`formats`] and a line to its list.

#![forbid(unsafe_code)]

pub mod ahead;
pub mod anonymize;
pub mod bad_rows;
pub mod begins;
pub mod between;
pub mod by_export;
pub mod by_stream;
pub mod columns;
pub mod cover;
pub mod describe;
pub mod error;
mod fields;
pub mod formats;
pub mod gaps;
mod in_step;
mod interrupted;

mod lines;
mod naming;
mod one_volume;
mod op_flags;
pub mod open;
pub mod order;
pub mod partition;

mod rows;
pub mod served;
pub mod streams;
mod suggest;
pub mod table;
pub mod touched;
pub mod trace;
pub mod units;
pub mod unpack;
pub mod whole;
pub mod write;

pub use columns::{BadColumns, Columns};
pub use error::{Place, TraceError};
pub use trace::{
    ColumnMeaning, Dictionary, HeaderAgain, Notes, Reader, Record, RunEvidence, RunStart,
    SourceFacts, Stream,
};
