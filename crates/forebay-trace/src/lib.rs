//! Block-I/O traces as data: readers, writers and a description, all streaming.
//!
//! A trace is a stream of [`Record`]s in time order beside a [`Dictionary`] of who and where.
//! Adding a format is one file in [`formats`] and one line in its list.

#![forbid(unsafe_code)]

pub mod cover;
pub mod error;
pub mod formats;
pub mod trace;

pub use error::TraceError;
pub use trace::{Dictionary, Notes, Reader, Record, Stream};
