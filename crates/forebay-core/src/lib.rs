//! Forebay's core: what a request is, what decides about it, what serves it, and virtual time.
//!
//! *A policy turns requests into I/Os; a driver gives it time.* Everything here is a pure state
//! machine: no clock, no I/O, no threads, no dependencies, no unseeded randomness. The same
//! policies run in virtual time ([`simulate`]) and, through another crate, in wall time.
//!
//! Floors, each importing only what is below: [`contract`]; slabs, indices and the bookkeeping of
//! client requests; [`elevator`], [`shape`], [`cache`] and [`device`], which do not know each other;
//! [`stack`]; [`catalog`]. [`simulate`] and [`replay`] know the contract alone. [`laws`] runs any policy.

#![forbid(unsafe_code)]

pub mod adapt;
pub mod arrange;
pub mod cache;
pub mod catalog;
pub mod contract;
pub mod device;
pub mod elevator;
mod index;
pub mod laws;
mod outstanding;
pub mod rearrangement;
pub mod replay;
pub mod rtt;
pub mod shape;
pub mod simulate;
pub mod slab;
pub mod stack;
pub mod tape;

pub use contract::bytes::{Buf, Bytes, Null, Piece, Slots};
pub use contract::device::{Completion, Device, Mechanics, Positioning, WriteBack};
pub use contract::observer::Observer;
pub use contract::outcome::{Fault, Outcome, worst};
pub use contract::policy::{Cx, Done, Finished, Policy};
pub use contract::request::{BACKGROUND, Flags, Lane, Op, Request, RequestId};
pub use contract::spec::{Spec, SpecError};
pub use contract::time::Nanos;
pub use contract::workload::Workload;
pub use rearrangement::Rearrangement;
