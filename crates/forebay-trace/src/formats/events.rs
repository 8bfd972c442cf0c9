//! Combines events into requests, for all formats that record the life of a request in several
//! events.
//!
//! - Events of the Linux block layer ([`Event`]) identify a request by its device and sectors.
//!   Those of blktrace, blkparse, ftrace, perf and others are converted to them, and [`Pairing`]
//!   combines them into requests.
//! - Other tracers number their requests ([`calls`]): a thread, a pointer or a handle identifies
//!   the request from its beginning to its end.

mod back;
pub(crate) mod calls;
mod event;
mod layers;
mod order;
mod pairing;
pub(crate) mod rwbs;
mod streams;
pub(crate) mod text;

pub(crate) use back::BackSteps;
pub(crate) use event::{Category, Event, EventKind, Remap, SECTOR_BYTES, Source, Span};
pub use layers::Layer;
pub(crate) use order::{Merge, Sorted};
pub(crate) use pairing::{ONLY_DEVICE, Pairing};
pub(crate) use streams::UNKNOWN_THREAD;
