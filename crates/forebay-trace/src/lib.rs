//! Block-I/O traces as data: readers, writers and a description, all streaming.
//!
//! A trace is a stream of [`Record`]s in time order beside a [`Dictionary`] of who and where.
//! [`open::open`] reads any format, [`write::create`] writes one. Adding a format is one file in
//! [`formats`] and one line in its list.

#![forbid(unsafe_code)]

pub mod ahead;
pub mod anonymize;
pub mod begins;
pub mod columns;
pub mod cover;
pub mod describe;
pub mod error;
mod fields;
pub mod formats;
mod gaps;

mod lines;
mod naming;
mod op_flags;
pub mod open;
pub mod order;
pub mod partition;

mod rows;
pub mod streams;
pub mod table;
pub mod touched;
pub mod trace;
pub mod units;
pub mod unpack;
pub mod whole;
pub mod write;

pub use columns::{BadColumns, Columns};
pub use error::TraceError;
pub use trace::{Dictionary, Notes, Reader, Record, Stream};
