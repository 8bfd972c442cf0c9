//! Forebay's core: what a request is, what decides about it, what serves it, and virtual time.
//!
//! *A policy turns requests into I/Os; a driver gives it time.* Everything here is a pure state
//! machine: no clock, no I/O, no threads, no dependencies, no unseeded randomness. The same
//! policies run in virtual time ([`simulate`]) and, through another crate, in wall time.
//!
//! Floors: the root files are the vocabulary and import nothing; [`cache`], [`policy`] and
//! [`device`] import only the vocabulary, and a policy may use a cache; [`simulate`] and [`replay`] stand on both.

#![forbid(unsafe_code)]

pub mod arrange;
pub mod bytes;
pub mod cache;
mod clients;
pub mod device;
mod index;
pub mod observer;
pub mod outcome;
pub mod placed;
pub mod policy;
pub mod rearrangement;
pub mod replay;
pub mod request;
pub mod rtt;
pub mod simulate;
pub mod slab;
pub mod spec;
pub mod tape;
pub mod time;
pub mod workload;

pub use bytes::{Buf, Bytes, Null, Piece, Slots};
pub use device::{Completion, Device, Mechanics};
pub use observer::Observer;
pub use outcome::{Fault, Outcome, worst};
pub use policy::{Cx, Done, Finished, Policy};
pub use rearrangement::Rearrangement;
pub use request::{BACKGROUND, Flags, Lane, Op, Request, RequestId};
pub use spec::{Spec, SpecError};
pub use time::Nanos;
pub use workload::Workload;
